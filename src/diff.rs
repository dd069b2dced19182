//! What changed from one state to another: a JSON Patch (RFC 6902), and patches applied.
//!
//! Pure. States are compared as the values that they are: white space, the order of an object's names and
//! the look of a float (1e2, 100.0) make no difference. Where a state is no JSON, or a `Value` cannot hold it
//! exactly, nothing is guessed: then the bytes are compared, and no patch is applied.

mod compare;

use std::fmt;

pub use json_patch::{AddOperation, Patch, PatchOperation, RemoveOperation, ReplaceOperation};
use serde_json::Value;

use crate::checkpoint::{Checkpoint, StateBytes, TypeTag};
use crate::error::{Error, ErrorKind, Result};
use crate::json;
use crate::json::decimal::Decimal;
use crate::json::tokens::{Token, Tokens};

/// What changed from one state to another.
///
/// ```
/// use taffrail::diff::Difference;
/// use taffrail::prelude::*;
/// use taffrail::MemoryCheckpointer;
/// let place = MemoryCheckpointer::new();
/// let ids = [vec!["plan"], vec!["plan", "search"]].map(|state| place.put("trip", &state).unwrap());
/// let [before, after] = ids.map(|id| place.load_bytes("trip", &id).unwrap().unwrap());
/// let Difference::Patch(patch) = taffrail::diff(&before, &after) else { panic!("both are JSON") };
/// assert_eq!(taffrail::diff::apply(&before.state, &patch)?, *after.state);
/// # Ok::<(), taffrail::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Difference {
    /// Both are JSON: the patch makes the second of the first, exactly; it is empty where they are the same value.
    Patch(Patch),
    /// They are not both JSON that can be held exactly.
    Bytes(Bytes),
}

/// How the bytes of two states differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bytes {
    /// Why there is no patch, for people.
    pub why: String,
    /// The first state's size in bytes.
    pub before: u64,
    /// The second's.
    pub after: u64,
    /// Where the first byte stands that differs, or that only one of them has; None where they are the same.
    pub first_difference: Option<u64>,
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} and {} bytes, ", self.why, self.before, self.after)?;
        match self.first_difference {
            Some(at) => write!(f, "which differ from byte {at} on"),
            None => f.write_str("which are the same"),
        }
    }
}

/// What changed between two checkpoints, of one thread or of two.
///
/// Of two arrays what they have in common at their beginnings and ends stays, and so does an element that stands
/// once in each: a message that was dropped from a list's front is one `remove`. All else is compared
/// element by element. Only `add`, `remove` and `replace` are used. Cost: in time about that of
/// parsing both a few times (15 ms a megabyte), in memory both as values and up to 32 MiB of paths; no more where
/// nothing is in common.
///
/// ```
/// use taffrail::diff::Difference;
/// use taffrail::prelude::*;
/// use taffrail::{diff, MemoryCheckpointer};
/// let place = MemoryCheckpointer::new();
/// place.put("t", &["plan", "search"])?;
/// let before = place.get_bytes("t")?.unwrap();
/// place.put("t", &["search", "book"])?;
/// let after = place.get_bytes("t")?.unwrap();
/// let Difference::Patch(patch) = diff(&before, &after) else { panic!("both are JSON") };
/// assert_eq!(patch.to_string(), r#"[{"op":"remove","path":"/0"},{"op":"add","path":"/1","value":"book"}]"#);
/// assert_eq!(diff::apply(&before.state, &patch)?, *after.state);
/// # Ok::<(), taffrail::Error>(())
/// ```
pub fn diff(before: &Checkpoint<StateBytes>, after: &Checkpoint<StateBytes>) -> Difference {
    between((&before.tag, &before.state), (&after.tag, &after.state))
}

/// The same for two states and what their bytes are.
fn between(before: (&TypeTag, &[u8]), after: (&TypeTag, &[u8])) -> Difference {
    match (value_of(before, "the first state"), value_of(after, "the second state")) {
        (Ok(before), Ok(after)) => Difference::Patch(compare::values(&before, &after)),
        (Err(why), _) | (_, Err(why)) => Difference::Bytes(bytes(before.1, after.1, why)),
    }
}

fn value_of((tag, state): (&TypeTag, &[u8]), which: &str) -> std::result::Result<Value, String> {
    match *tag == TypeTag::JSON {
        true => exact(state).map_err(|why| format!("{which} {why}")),
        false => Err(format!("{which} is {tag}, not json")),
    }
}

fn bytes(before: &[u8], after: &[u8], why: String) -> Bytes {
    let common = before.iter().zip(after).take_while(|(one, other)| one == other).count();
    let first_difference = (before.len() != after.len() || common < before.len()).then_some(common as u64);
    Bytes { why, before: before.len() as u64, after: after.len() as u64, first_difference }
}

/// Reads a patch from its text, as `diff` writes it. Errors: `InvalidInput` where it is none, or holds a value
/// that cannot be held exactly.
pub fn patch_from_json(text: &[u8]) -> Result<Patch> {
    json::check(text)?;
    let value = exact(text).map_err(|why| Error::invalid(format!("the patch {why}")))?;
    serde_json::from_value(value).map_err(|error| Error::invalid(format!("not a JSON Patch: {error}")).with_source(error))
}

/// The most memory that the values take up which a patch copies: a few copies of copies would be more than any state.
const COPIED_BYTES_MAX: usize = 256 << 20;

/// Applies a patch to the text of a JSON state and answers the new one, compact; all of it or nothing.
///
/// Names keep their order, but where one is removed. Errors: `InvalidInput` where an operation does not apply (a path
/// that is not there, a `test` that fails), with its number from 0 on; `TooLarge` where it copies over 256 MiB in all;
/// `Unsupported` where the state cannot be held exactly, for what the patch does not touch would change too. A `test`
/// compares values: 1 and 1.0 are two.
pub fn apply(state: &[u8], patch: &Patch) -> Result<Vec<u8>> {
    let mut value = exact(state).map_err(|why| Error::new(ErrorKind::Unsupported, format!("no patch can be applied: the state {why}")))?;
    // What a failed one leaves half done is thrown away.
    let (mut deepest, mut copied) = (depth_of(&value), 0);
    for (number, operation) in patch.iter().enumerate() {
        if let PatchOperation::Copy(copy) = operation {
            copied += value.pointer(copy.from.as_str()).map_or(0, memory_of);
            if copied > COPIED_BYTES_MAX {
                let message =
                    format!("operation {number} of the patch copies more than {COPIED_BYTES_MAX} bytes in all; nothing was changed");
                return Err(Error::new(ErrorKind::TooLarge, message));
            }
        }
        carry_out(&mut value, std::slice::from_ref(operation), number)?;
        deepest = deepest.max(depth_at_most(operation, deepest));
        // Values are cloned, written and dropped by recursion: they are not let grow beyond any stack.
        if deepest > 4 * json::DEPTH_MAX {
            deepest = depth_of(&value);
            if deepest > json::DEPTH_MAX {
                let message = format!("operation {number} of the patch nests the state deeper than {}", json::DEPTH_MAX);
                return Err(Error::invalid(message));
            }
        }
    }
    json::to_text(&value)
}

/// Carries out one operation of a patch on a value, for who follows a patch step by step. Errors: as [`apply`];
/// the value may be half changed then.
pub fn step(value: &mut Value, operation: &PatchOperation) -> Result<()> {
    carry_out(value, std::slice::from_ref(operation), 0)
}

/// How deep what an operation sets stands and nests at most, in a value that nests so deep.
fn depth_at_most(operation: &PatchOperation, deepest: usize) -> usize {
    let own = match operation {
        PatchOperation::Add(add) => depth_of(&add.value),
        PatchOperation::Replace(replace) => depth_of(&replace.value),
        PatchOperation::Move(_) | PatchOperation::Copy(_) => deepest,
        PatchOperation::Remove(_) | PatchOperation::Test(_) => return 0,
    };
    operation.path().count() + own
}

/// About what a value takes up in memory.
fn memory_of(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::Object(members) => members.iter().map(|(name, value)| name.len() + 64 + memory_of(value)).sum(),
            Value::Array(elements) => elements.iter().map(memory_of).sum(),
            Value::String(text) => text.len(),
            _ => 0,
        }
}

fn depth_of(value: &Value) -> usize {
    match value {
        Value::Object(members) => 1 + members.values().map(depth_of).max().unwrap_or(0),
        Value::Array(elements) => 1 + elements.iter().map(depth_of).max().unwrap_or(0),
        _ => 0,
    }
}

fn carry_out(value: &mut Value, operations: &[PatchOperation], first: usize) -> Result<()> {
    json_patch::patch_unsafe(value, operations).map_err(|error| {
        let message =
            format!("operation {} of the patch does not apply at {:?}: {}", first + error.operation, error.path.as_str(), error.kind);
        Error::invalid(message).with_source(error)
    })
}

/// The value of a JSON text, if it is all that the text says; else why it is not.
fn exact(text: &[u8]) -> std::result::Result<Value, &'static str> {
    let text = std::str::from_utf8(text).map_err(|_| "is not UTF-8")?;
    let value: Value =
        serde_json::from_str(text).map_err(|_| "holds half of a surrogate pair, or a number beyond all floats, or is not JSON")?;
    let mut names = 0;
    for token in Tokens::of(text) {
        match token {
            Token::Mark(b':') => names += 1,
            Token::Bare(number) if !is_held(number) => return Err("holds a number with more digits than a 64-bit one has"),
            _ => {}
        }
    }
    // Of a name that stands twice in an object only the last is left.
    if names == names_in(&value) { Ok(value) } else { Err("holds an object in which a name stands twice") }
}

/// Whether `Value` holds a token of a text to the last digit; words are held.
fn is_held(token: &str) -> bool {
    let Ok(float) = token.parse::<f64>() else { return true };
    token.parse::<i64>().is_ok() || token.parse::<u64>().is_ok() || Decimal::of(token).is_some_and(|number| number.survives_f64(float))
}

fn names_in(value: &Value) -> usize {
    match value {
        Value::Object(members) => members.len() + members.values().map(names_in).sum::<usize>(),
        Value::Array(elements) => elements.iter().map(names_in).sum(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patch(before: &str, after: &str) -> String {
        match between((&TypeTag::JSON, before.as_bytes()), (&TypeTag::JSON, after.as_bytes())) {
            Difference::Patch(patch) => patch.to_string(),
            Difference::Bytes(bytes) => bytes.to_string(),
        }
    }

    #[test]
    fn what_a_value_cannot_hold_is_compared_as_bytes() {
        for odd in [
            "18446744073709551616",
            "-9223372036854775809",
            "[0.1,0.10000000000000001]",
            "1e400",
            "\"\\ud83d\"",
            "{\"a\":1,\"a\":1}",
            "[{\"a\":{\"b\":1},\"a\":{\"b\":1}}]",
        ] {
            for (before, after) in [(odd, "1"), ("1", odd)] {
                let Difference::Bytes(bytes) = between((&TypeTag::JSON, before.as_bytes()), (&TypeTag::JSON, after.as_bytes())) else {
                    panic!("{odd} cannot be held")
                };
                assert_eq!((bytes.before, bytes.after), (before.len() as u64, after.len() as u64));
                assert!(
                    bytes.why.starts_with(if before == odd { "the first state holds" } else { "the second state holds" }),
                    "{}",
                    bytes.why
                );
            }
            assert_eq!(apply(odd.as_bytes(), &Patch::default()).unwrap_err().kind(), ErrorKind::Unsupported, "{odd}");
        }
        for plain in
            ["18446744073709551615", "-9223372036854775808", "0.1", "1e2", "100000000000000000000", "5e-324", "-0", "{\"a\":{\"a\":1}}"]
        {
            assert_eq!(patch(plain, plain), "[]");
        }
        assert_eq!(patch("1", "1.0"), r#"[{"op":"replace","path":"","value":1.0}]"#);
    }

    #[test]
    fn bytes_are_told_apart() {
        let told = |before: &[u8], after: &[u8]| bytes(before, after, String::new()).first_difference;
        assert_eq!(told(b"abc", b"abd"), Some(2));
        assert_eq!((told(b"abc", b"ab"), told(b"", b"a")), (Some(2), Some(0)));
        assert_eq!((told(b"abc", b"abc"), told(b"", b"")), (None, None));
        let shown = between((&TypeTag::MSGPACK, b"\x01\x02"), (&TypeTag::JSON, b"1"));
        let Difference::Bytes(shown) = shown else { panic!("msgpack has no patch") };
        assert_eq!(shown.to_string(), "the first state is msgpack, not json: 2 and 1 bytes, which differ from byte 0 on");
    }

    #[test]
    fn a_patch_that_copies_without_end_is_refused() {
        let begin = r#"{"op":"replace","path":"","value":[1]}"#.to_owned();
        let copies = std::iter::repeat_n(r#"{"op":"copy","from":"","path":"/-"}"#.to_owned(), 40);
        let text = format!("[{}]", [begin].into_iter().chain(copies).collect::<Vec<_>>().join(","));
        let error = apply(b"0", &patch_from_json(text.as_bytes()).unwrap()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    }

    #[test]
    fn a_patch_that_nests_without_end_is_refused() {
        let deeper = [
            r#"{"op":"move","from":"/a","path":"/b/a"}"#,
            r#"{"op":"move","from":"/b","path":"/a"}"#,
            r#"{"op":"add","path":"/b","value":{}}"#,
        ];
        let patch = patch_from_json(format!("[{}]", vec![deeper.join(","); 100_000].join(",")).as_bytes()).unwrap();
        assert_eq!(apply(br#"{"a":1,"b":{}}"#, &patch).unwrap_err().kind(), ErrorKind::InvalidInput);
    }

    #[test]
    fn a_patch_that_does_not_apply_changes_nothing() {
        let refused = |state: &str, patch: &str| {
            let error = apply(state.as_bytes(), &patch_from_json(patch.as_bytes()).unwrap()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            error.to_string()
        };
        assert!(refused("{}", r#"[{"op":"add","path":"/a","value":1},{"op":"remove","path":"/b"}]"#).contains("operation 1"));
        assert!(refused("[1]", r#"[{"op":"test","path":"/0","value":2}]"#).contains("did not match"));
        assert!(refused("[1]", r#"[{"op":"add","path":"/2","value":2}]"#).contains("\"/2\""));
        for text in [
            "{}",
            "[{\"op\":\"add\"}]",
            "[",
            "[{\"op\":\"add\",\"path\":\"a\",\"value\":1}]",
            "[{\"op\":\"add\",\"path\":\"\",\"value\":18446744073709551616}]",
        ] {
            assert_eq!(patch_from_json(text.as_bytes()).unwrap_err().kind(), ErrorKind::InvalidInput, "{text}");
        }
        let moved = apply(
            br#"{"z":1,"a":[2,3]}"#,
            &patch_from_json(br#"[{"op":"move","from":"/a/1","path":"/b"},{"op":"replace","path":"/z","value":0}]"#).unwrap(),
        );
        assert_eq!(moved.unwrap(), br#"{"z":0,"a":[2],"b":3}"#);
    }
}
