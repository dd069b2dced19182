//! A member of metadata by its path, held against a JSON value.
//!
//! Values are compared as they are written, not as Rust holds them: numbers by their value, to the last
//! digit; strings by their characters; arrays in order, objects in any. Where a name stands twice in an
//! object the last one counts, as for every reader of metadata.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::value::RawValue;

use crate::error::{Error, Result};
use crate::json::{self, decimal::Decimal};

/// A member and the value that it must have.
pub(super) struct Wanted {
    path: Vec<String>,
    json: String,
}

impl Wanted {
    /// Errors: `InvalidInput` for a path that ends in an open `\`, and for what is no JSON.
    pub fn new(path: &str, json: String) -> Result<Self> {
        json::check(json.as_bytes())
            .map_err(|error| Error::invalid(format!("the value that {path:?} is to have: {error}")).with_source(error))?;
        Ok(Wanted { path: names(path)?, json: json.trim().to_owned() })
    }

    /// Whether metadata has it.
    pub fn is_in(&self, metadata: &str) -> bool {
        at(metadata, &self.path).is_some_and(|value| same(value, &self.json))
    }
}

/// The names of a path: dots separate them, and `\` takes the next character as it is.
fn names(path: &str) -> Result<Vec<String>> {
    let (mut names, mut name) = (Vec::new(), String::new());
    let mut characters = path.chars();
    while let Some(character) = characters.next() {
        match character {
            '.' => names.push(std::mem::take(&mut name)),
            '\\' => match characters.next() {
                Some(itself) => name.push(itself),
                None => return Err(Error::invalid(format!("the path {path:?} ends in an open \\: write \\\\ for a backslash"))),
            },
            other => name.push(other),
        }
    }
    names.push(name);
    Ok(names)
}

/// The value that a path leads to; a name is a member of an object, or the number of an element from 0 on.
fn at<'a>(json: &'a str, path: &[String]) -> Option<&'a str> {
    let mut value = json.trim();
    for name in path {
        value = match value.as_bytes().first()? {
            b'{' => {
                let members = json::members(value).ok()?;
                members.iter().rev().find(|(member, _)| text(member.get()).is_some_and(|member| member == *name))?.1.get()
            }
            b'[' => elements(value)?.get(name.parse::<usize>().ok().filter(|at| at.to_string() == *name)?)?.get(),
            _ => return None,
        };
    }
    Some(value)
}

/// Whether two JSON values are the same; what is no Rust text is not the same as anything.
fn same(one: &str, other: &str) -> bool {
    match (one.as_bytes().first(), other.as_bytes().first()) {
        (Some(b'{'), Some(b'{')) => match (members(one), members(other)) {
            (Some(one), Some(other)) => {
                one.len() == other.len() && one.iter().zip(&other).all(|(one, other)| one.0 == other.0 && same(one.1, other.1))
            }
            _ => false,
        },
        (Some(b'['), Some(b'[')) => match (elements(one), elements(other)) {
            (Some(one), Some(other)) => one.len() == other.len() && one.iter().zip(&other).all(|(one, other)| same(one.get(), other.get())),
            _ => false,
        },
        (Some(b'"'), Some(b'"')) => text(one).zip(text(other)).is_some_and(|(one, other)| one == other),
        _ => one == other || Decimal::of(one).zip(Decimal::of(other)).is_some_and(|(one, other)| one == other),
    }
}

fn members(object: &str) -> Option<BTreeMap<Cow<'_, str>, &str>> {
    json::members(object).ok()?.into_iter().map(|(name, value)| Some((text(name.get())?, value.get()))).collect()
}

fn elements(array: &str) -> Option<Vec<&RawValue>> {
    serde_json::from_str(array).ok()
}

/// What a JSON string says; `None` where it holds half of a surrogate pair.
fn text(string: &str) -> Option<Cow<'_, str>> {
    match string.contains('\\') {
        false => string.get(1..string.len() - 1).map(Cow::Borrowed),
        true => serde_json::from_str(string).ok().map(Cow::Owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(metadata: &str, path: &str, json: &str) -> bool {
        Wanted::new(path, json.to_owned()).unwrap().is_in(metadata)
    }

    #[test]
    fn a_path_leads_to_one_member() {
        let metadata = r#" {"a":{"b":[1,{"c":"x"}],"b.c":2,"":3},"a.b":4,"\\":5,"\u00e9=":6,"1":{"0":7}} "#;
        for (path, json) in [
            ("a.b.0", "1"),
            ("a.b.1.c", "\"x\""),
            (r"a.b\.c", "2"),
            ("a.", "3"),
            (r"a\.b", "4"),
            (r"\\", "5"),
            ("é=", "6"),
            ("1.0", "7"),
            ("a.b", "[1,{\"c\":\"x\"}]"),
        ] {
            assert!(has(metadata, path, json), "{path}");
        }
        for path in ["a.b.2", "a.b.00", "a.b.+0", "a.b.c", "b", "", "a.b.0.x", "a.b.-1"] {
            assert!(!["1", "null", "2"].iter().any(|json| has(metadata, path, json)), "{path}");
        }
        assert!(has(r#"{"":1}"#, "", "1") && has(r#"{"a":1,"a":2}"#, "a", "2") && !has(r#"{"a":1,"a":2}"#, "a", "1"));
        for open in ["\\", "a\\", r"a\\\"] {
            assert!(Wanted::new(open, "1".to_owned()).is_err(), "{open}");
        }
    }

    #[test]
    fn values_are_compared_by_what_they_are() {
        for (one, other) in [
            ("1", "1.0"),
            ("[1e2]", "[100]"),
            ("-0", "0"),
            ("\"\\u0061\"", "\"a\""),
            ("{\"a\":1,\"b\":[]}", " {\"b\":[ ],\"a\":1.0} "),
            ("18446744073709551616", "18446744073709551616"),
            ("null", "null"),
            ("{\"a\":1,\"a\":2}", "{\"a\":2}"),
        ] {
            assert!(has(&format!("{{\"k\":{one}}}"), "k", other), "{one} is {other}");
        }
        for (one, other) in [
            ("1", "\"1\""),
            ("1", "true"),
            ("0", "null"),
            ("\"null\"", "null"),
            ("18446744073709551616", "18446744073709551617"),
            ("0.1", "0.10000000000000001"),
            ("[1]", "[1,2]"),
            ("[1]", "1"),
            ("{}", "[]"),
            ("{\"a\":null}", "{}"),
            ("\"\\ud800\"", "\"\\ud800\""),
        ] {
            assert!(!has(&format!("{{\"k\":{one}}}"), "k", other), "{one} is not {other}");
        }
        assert!(!has("{}", "k", "null"));
        assert!(Wanted::new("k", "{".to_owned()).is_err());
    }
}
