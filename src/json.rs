//! JSON at the door: is this text JSON, and can this value be JSON without losing anything.
//!
//! A text is checked and kept; it is never parsed into values and written again, so digits, key
//! order, duplicate keys and white space stay as they came. `serde_json` does the grammar; what it
//! lets pass without a word (depth of raw text, NaN written as null) is refused here.

pub(crate) mod decimal;
pub(crate) mod tokens;

use memchr::{memchr2, memmem};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::{Error, ErrorKind, Result};
use crate::finite;

/// How deep arrays and objects may nest: what `serde_json` reads back.
pub const DEPTH_MAX: usize = 127;

/// Checks that `text` is one JSON value of bounded depth. Errors: `InvalidInput` with the offset.
pub(crate) fn check(text: &[u8]) -> Result<()> {
    let valid =
        std::str::from_utf8(text).map_err(|error| Error::invalid(format!("not JSON: not UTF-8 at byte {}", error.valid_up_to())))?;
    check_depth(text)?;
    match serde_json::from_str::<&RawValue>(valid) {
        Ok(_) => Ok(()),
        Err(error) => Err(Error::invalid(format!("not JSON at byte {}: {error}", offset_of(text, &error))).with_source(error)),
    }
}

/// Serialises a value to compact JSON. Errors: `InvalidInput`, with the path where it is NaN,
/// infinity, a map key that is no string, or nested too deep.
pub(crate) fn to_text<S: Serialize + ?Sized>(value: &S) -> Result<Vec<u8>> {
    let text = serde_json::to_vec(value)
        .map_err(|error| Error::invalid(format!("the value cannot be written as JSON: {error}")).with_source(error))?;
    check_depth(&text)?;
    // serde_json writes NaN and infinity as null, so a text without that word needs no second look.
    if memmem::find(&text, b"null").is_some() {
        finite::check(value)?;
    }
    Ok(text)
}

/// Reads a value out of checked JSON. Errors: `Decode`.
pub(crate) fn from_text<S: DeserializeOwned>(text: &[u8]) -> Result<S> {
    serde_json::from_slice(text)
        .map_err(|error| Error::new(ErrorKind::Decode, format!("the state is not of the type asked for: {error}")).with_source(error))
}

/// The member `key` of a JSON object, the last one where it stands twice.
pub(crate) fn member<T: DeserializeOwned>(object: &str, key: &str) -> Result<Option<T>> {
    let decode = |error: serde_json::Error| Error::new(ErrorKind::Decode, format!("metadata member {key:?}: {error}")).with_source(error);
    let members = members(object).map_err(decode)?;
    // A name may hold a lone surrogate: it is no Rust text, so not the one asked for.
    let named = |name: &RawValue| serde_json::from_str::<String>(name.get()).is_ok_and(|name| name == key);
    members.iter().rev().find(|(name, _)| named(name)).map(|(_, value)| serde_json::from_str(value.get()).map_err(decode)).transpose()
}

/// The members of an object in their order, names and values as JSON text.
pub(crate) fn members(object: &str) -> serde_json::Result<Vec<(&RawValue, &RawValue)>> {
    serde_json::from_str(object).map(|Members(members)| members)
}

struct Members<'a>(Vec<(&'a RawValue, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Members<'de>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a JSON object")
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> std::result::Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

/// Refuses nesting over `DEPTH_MAX`; counts brackets outside strings, so it needs no recursion.
fn check_depth(text: &[u8]) -> Result<()> {
    let (mut depth, mut at) = (0usize, 0usize);
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => at = string_end(text, at),
            b'[' | b'{' => {
                depth += 1;
                if depth > DEPTH_MAX {
                    return Err(Error::invalid(format!("JSON nested deeper than {DEPTH_MAX} at byte {at}")));
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    Ok(())
}

/// Where the string that opens at `at` closes, or the end of the text.
fn string_end(text: &[u8], mut at: usize) -> usize {
    at += 1;
    while let Some(found) = text.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        at += found;
        if text[at] == b'"' {
            return at;
        }
        at += 2;
    }
    text.len()
}

/// The byte offset of an error that tells its place by line and column.
fn offset_of(text: &[u8], error: &serde_json::Error) -> usize {
    let line_start = text.split_inclusive(|&byte| byte == b'\n').take(error.line().saturating_sub(1)).map(<[u8]>::len).sum::<usize>();
    (line_start + error.column().saturating_sub(1)).min(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(depth: usize) -> String {
        "[".repeat(depth) + &"]".repeat(depth)
    }

    #[test]
    fn text_that_is_json_passes_whatever_it_means() {
        for text in [
            "1",
            " [1] \n",
            "1e400",
            "\"\\ud83d\"",
            "{\"a\":1,\"a\":2}",
            "18446744073709551616",
            "{\"\":0}",
            &"9".repeat(5000),
            &nested(127),
            "\"[[[[\"",
            "{\"t\":\"x\\u0000y\"}",
            "\"\u{7f}\u{2028}\"",
            "-0.0",
        ] {
            assert!(check(text.as_bytes()).is_ok(), "{text}");
        }
    }

    #[test]
    fn text_that_is_not_json_is_refused_with_its_place() {
        for (text, place) in [
            (&b"{\"a\":\x00}"[..], "byte 5"),
            (b"\"\xed\xa0\x80\"", "byte 1"),
            (b"NaN", "byte 0"),
            (b"[1,\n Infinity]", "byte 5"),
            (b"\xef\xbb\xbf1", "byte 0"),
            (b"", "byte 0"),
            (b"1 2", "byte 2"),
            (b"{1:2}", "byte 1"),
            (b"\"a\nb\"", "byte"),
            (b"[01]", "byte 2"),
        ] {
            let error = check(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.to_string().contains(place), "{error} should name {place}");
        }
    }

    #[test]
    fn a_member_is_found_beside_names_that_are_no_text() {
        let object = r#"{"\udc00":0,"a":1,"\u0061":2,"\"a":3}"#;
        assert_eq!(member::<u8>(object, "a").unwrap(), Some(2));
        assert_eq!(member::<u8>(object, "\"a").unwrap(), Some(3));
        assert_eq!(member::<u8>(object, "b").unwrap(), None);
    }

    #[test]
    fn depth_is_bounded_without_recursion() {
        for depth in [128, 129, 1000, 10_000, 100_000] {
            let error = std::thread::Builder::new()
                .stack_size(64 * 1024)
                .spawn(move || check(nested(depth).as_bytes()).unwrap_err())
                .unwrap()
                .join()
                .unwrap();
            assert!(error.to_string().contains("byte 127"), "{error}");
        }
        assert!(serde_json::from_str::<serde_json::Value>(&nested(127)).is_ok());
    }
}
