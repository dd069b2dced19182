//! Texts at the door: JSON, metadata and patterns.

use serde_json::Value;
use serde_json::value::RawValue;

use crate::backend::memory::MemoryCheckpointer;
use crate::batch::PutOptions;
use crate::checkpoint::{METADATA_BYTES_MAX, Metadata, TypeTag};
use crate::checkpointer::{Checkpointer, CheckpointerExt};
use crate::json as door;
use crate::query::{Matching, ThreadQuery, glob as fits};

/// What `serde_json` says of JSON that means nothing in Rust: an unpaired surrogate, a huge number.
const MEANINGLESS: [&str; 4] = ["number out of range", "surrogate", "unexpected end of hex escape", "invalid unicode code point"];

/// A pattern and text longer than this are not held against the slow matcher.
const NAIVE_CHARS_MAX: usize = 64;

/// JSON text: what is accepted is kept as it came and read back later; what is refused is no JSON.
pub fn json(data: &[u8]) -> bool {
    let accepted = door::check(data).is_ok();
    let parsed = serde_json::from_slice::<Value>(data);
    let place = MemoryCheckpointer::new();
    assert_eq!(place.put_bytes("t", TypeTag::JSON, data, PutOptions::default()).is_ok(), accepted, "the door judges as the check does");
    if !accepted {
        assert!(parsed.is_err(), "JSON was refused");
        return false;
    }
    if let Err(error) = parsed {
        let why = error.to_string();
        assert!(MEANINGLESS.iter().any(|known| why.contains(known)), "accepted, and not read back: {why}");
    }
    let kept = place.get_bytes("t").unwrap().unwrap();
    assert_eq!(&kept.state[..], data, "accepted text is kept");
    let raw: Box<RawValue> = place.get("t").unwrap().unwrap();
    assert_eq!(raw.get().as_bytes(), trimmed(data));
    assert_eq!(door::to_text(&raw).unwrap(), trimmed(data), "what was read can be put again");
    true
}

/// Metadata: kept as it came, and its members are those of the object, the last one of a name.
pub fn metadata(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else { return false };
    let object = matches!(serde_json::from_str::<Value>(text), Ok(Value::Object(_)));
    let Ok(metadata) = Metadata::from_json(text) else {
        assert!(!object || text.len() > METADATA_BYTES_MAX, "an object was refused");
        return false;
    };
    assert_eq!(metadata.as_str(), text);
    assert_eq!(Metadata::of_stored(metadata.to_stored()), metadata);
    // It has a member that is no Rust value, or none: then only that nothing panics is asked.
    let Ok(Value::Object(members)) = serde_json::from_str(text) else {
        return metadata.get::<Value>("a").is_ok_and(|member| member.is_none());
    };
    for (name, value) in members.iter().take(8) {
        assert_eq!(metadata.get::<Value>(name).unwrap().as_ref(), Some(value), "member {name:?}");
    }
    true
}

/// A pattern and a text: `mode | length of the pattern | pattern | text`. In an odd mode the bytes
/// stand for a few letters, so that patterns fit often.
pub fn glob(data: &[u8]) -> bool {
    let [mode, length, bytes @ ..] = data else { return false };
    let (pattern, text) = bytes.split_at(bytes.len().min(usize::from(*length)));
    let read = |bytes: &[u8]| match mode % 2 {
        0 => String::from_utf8_lossy(bytes).into_owned(),
        _ => bytes.iter().map(|&byte| ['a', 'b', 'é', '*', '?', '\\', '[', '*'][usize::from(byte % 8)]).collect(),
    };
    let (pattern, text) = (read(pattern), read(text));
    let fitting = fits(&pattern, &text);
    let query = ThreadQuery { matching: Matching::Glob(pattern.clone()), ..ThreadQuery::default() };
    if query.check().is_err() {
        return false;
    }
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    if pattern.len() <= NAIVE_CHARS_MAX && text.len() <= NAIVE_CHARS_MAX {
        assert_eq!(fitting, fits_naively(&pattern, &text), "{pattern:?} on {text:?}");
    }
    fitting
}

/// The same by a table: `table[p][t]` says whether the pattern from `p` fits the text from `t`.
fn fits_naively(pattern: &[char], text: &[char]) -> bool {
    let mut table = vec![vec![false; text.len() + 1]; pattern.len() + 1];
    table[pattern.len()][text.len()] = true;
    for p in (0..pattern.len()).rev() {
        for t in (0..=text.len()).rev() {
            let one = |wanted: Option<&char>| t < text.len() && wanted.is_none_or(|wanted| *wanted == text[t]);
            table[p][t] = match pattern[p] {
                '*' => table[p + 1][t] || (t < text.len() && table[p][t + 1]),
                '?' => one(None) && table[p + 1][t + 1],
                '\\' => p + 1 < pattern.len() && one(Some(&pattern[p + 1])) && table[p + 2][t + 1],
                ref literal => one(Some(literal)) && table[p + 1][t + 1],
            };
        }
    }
    table[0][0]
}

fn trimmed(text: &[u8]) -> &[u8] {
    let white = |byte: &u8| matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
    let from = text.iter().position(|byte| !white(byte)).unwrap_or(text.len());
    let to = text.iter().rposition(|byte| !white(byte)).map_or(from, |last| last + 1);
    &text[from..to]
}
