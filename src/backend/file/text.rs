//! A checkpoint or an attachment as the text of a file: JSON, a line for each member. Pure.
//!
//! The members are those of an exported row. `check` is over all text before its line, and so over
//! `hash`, which is over the value's bytes: the head can be believed without the value, which stands
//! behind it. JSON stands there as it is (`state`), or where white space around it would be lost as a
//! string (`text`); all other bytes in base64 (`data`).

use std::ops::Range;
use std::time::SystemTime;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::time;
use crate::checkpoint::{CheckpointId, Metadata, StateBytes, TypeTag, check_thread};
use crate::delta::content_hash;
use crate::error::{Error, Result};

/// The longest head: metadata and ids with every byte escaped stay below.
pub(super) const HEAD_BYTES_MAX: u64 = 1024 * 1024;

/// What stands before the value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Head {
    pub thread: String,
    pub number: u64,
    pub tag: TypeTag,
    /// The value's size.
    pub bytes: u64,
    /// The value's hash.
    pub hash: u64,
    pub kind: Kind,
}

/// Whose value it is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    Checkpoint { id: CheckpointId, seq: u64, parent: Option<CheckpointId>, saved_at: SystemTime, metadata: Metadata },
    Attachment { checkpoint: CheckpointId, key: String },
}

/// A head that was read: what tells it from every other, and where it ends.
#[derive(Debug)]
pub(super) struct Read {
    pub head: Head,
    pub check: u64,
    pub end: usize,
}

/// The text of a file, and its check. Errors: `InvalidInput` for a time that has no text.
pub(super) fn write(head: &Head, value: &[u8]) -> Result<(Vec<u8>, u64)> {
    let mut text = Vec::with_capacity(value.len() + value.len() / 2 + 1024);
    text.extend_from_slice(b"{\n");
    let mut member = |name: &str, json: &str| {
        text.extend_from_slice(format!("  \"{name}\": {json},\n").as_bytes());
    };
    member("thread", &quoted(&head.thread));
    match &head.kind {
        Kind::Checkpoint { id, seq, parent, saved_at, metadata } => {
            member("id", &quoted(id.as_str()));
            member("seq", &seq.to_string());
            member("number", &head.number.to_string());
            member("parent", &parent.as_ref().map_or_else(|| "null".to_owned(), |parent| quoted(parent.as_str())));
            member("saved_at", &quoted(&time::to_text(*saved_at)?));
            let metadata = metadata.as_str();
            if is_bare(metadata) && !metadata.contains(['\n', '\r']) {
                member("metadata", metadata);
            } else {
                member("metadata_text", &quoted(metadata));
            }
        }
        Kind::Attachment { checkpoint, key } => {
            member("checkpoint", &quoted(checkpoint.as_str()));
            member("key", &quoted(key));
            member("number", &head.number.to_string());
        }
    }
    member("type", &quoted(head.tag.as_str()));
    member("bytes", &head.bytes.to_string());
    member("hash", &format!("\"{:016x}\"", head.hash));
    let check = content_hash(&text);
    text.extend_from_slice(format!("  \"check\": \"{check:016x}\",\n").as_bytes());
    write_value(&mut text, &head.tag, value);
    text.extend_from_slice(b"\n}\n");
    Ok((text, check))
}

fn write_value(text: &mut Vec<u8>, tag: &TypeTag, value: &[u8]) {
    match std::str::from_utf8(value) {
        Ok(json) if *tag == TypeTag::JSON && is_bare(json) => {
            text.extend_from_slice(STATE);
            text.extend_from_slice(value);
        }
        Ok(json) if *tag == TypeTag::JSON => {
            text.extend_from_slice(TEXT);
            text.extend_from_slice(quoted(json).as_bytes());
        }
        _ => {
            text.extend_from_slice(DATA);
            text.extend_from_slice(format!("\"{}\"", STANDARD.encode(value)).as_bytes());
        }
    }
}

const STATE: &[u8] = b"  \"state\": ";
const TEXT: &[u8] = b"  \"text\": ";
const DATA: &[u8] = b"  \"data\": ";
const CHECK: &[u8] = b"\n  \"check\": \"";

/// Whether no white space stands around it.
fn is_bare(json: &str) -> bool {
    json.len() == json.trim_matches([' ', '\t', '\n', '\r']).len()
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A text with its check behind it, as the last member of the object.
pub(super) fn sealed(object: &str) -> String {
    let text = format!("{},\n", object.strip_suffix("\n}").unwrap_or(object));
    format!("{text}  \"check\": \"{:016x}\"\n}}\n", content_hash(text.as_bytes()))
}

/// The object that was [`sealed`], if it is that still.
pub(super) fn unsealed(text: &[u8]) -> Option<Vec<u8>> {
    let at = text.windows(CHECK.len()).rposition(|window| window == CHECK)?;
    let object = &text[..at + 1];
    let rest = format!("  \"check\": \"{:016x}\"\n}}\n", content_hash(object));
    (rest.as_bytes() == &text[at + 1..]).then(|| closed(object))
}

/// An object of which the last member was followed by another.
fn closed(object: &[u8]) -> Vec<u8> {
    [object.strip_suffix(b",\n").unwrap_or(object), b"\n}"].concat()
}

/// Reads the head at the beginning of a text; None where the text ends in it.
///
/// Errors, as what is wrong: it is not as it was written.
pub(super) fn read(text: &[u8]) -> std::result::Result<Option<Read>, &'static str> {
    // In strings no line breaks stand as they are, nor in metadata here: the first such line is the one.
    let Some(at) = text.windows(CHECK.len()).position(|window| window == CHECK) else { return Ok(None) };
    let (object, from) = (&text[..at + 1], at + CHECK.len());
    let end = from + 16 + 3;
    let Some(line) = text.get(from..end) else { return Ok(None) };
    let check = content_hash(object);
    if line != format!("{check:016x}\",\n").as_bytes() {
        return Err("what stands before `check` is not as it was written");
    }
    let object = closed(object);
    let members: Members<'_> = serde_json::from_slice(&object).map_err(|_| "it is no checkpoint or attachment")?;
    let head = members.into_head().map_err(|_| "a member means nothing")?;
    Ok(Some(Read { head, check, end }))
}

/// The value behind a head. Errors, as what is wrong: it is not as it was put.
pub(super) fn value(text: Vec<u8>, read: &Read) -> std::result::Result<StateBytes, &'static str> {
    const ODD: &str = "what stands behind `check` is not as it was written";
    let range = |name: &[u8]| -> Option<Range<usize>> {
        let from = text.get(read.end..)?.starts_with(name).then_some(read.end + name.len())?;
        Some(from..text.strip_suffix(b"\n}\n")?.len().max(from))
    };
    let value = if let Some(state) = range(STATE) {
        StateBytes::from(text).part(state)
    } else if let Some(string) = range(TEXT) {
        let json: String = serde_json::from_slice(&text[string]).map_err(|_| ODD)?;
        StateBytes::from(json.into_bytes())
    } else if let Some(data) = range(DATA) {
        let data: String = serde_json::from_slice(&text[data]).map_err(|_| ODD)?;
        StateBytes::from(STANDARD.decode(data).map_err(|_| ODD)?)
    } else {
        return Err(ODD);
    };
    if value.len() as u64 != read.head.bytes || content_hash(&value) != read.head.hash {
        return Err("the value is not as it was put");
    }
    Ok(value)
}

#[derive(Deserialize)]
struct Members<'a> {
    thread: String,
    id: Option<String>,
    seq: Option<u64>,
    checkpoint: Option<String>,
    key: Option<String>,
    number: u64,
    parent: Option<String>,
    saved_at: Option<String>,
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
    metadata_text: Option<String>,
    #[serde(rename = "type")]
    tag: String,
    bytes: u64,
    hash: String,
}

impl Members<'_> {
    fn into_head(self) -> Result<Head> {
        check_thread(&self.thread)?;
        let odd = || Error::invalid("not as it was written");
        let kind = match (self.id, self.seq, self.saved_at, self.checkpoint, self.key) {
            (Some(id), Some(seq), Some(saved_at), None, None) => {
                let metadata = self.metadata_text.as_deref().or(self.metadata.map(RawValue::get)).ok_or_else(odd)?;
                Kind::Checkpoint {
                    id: CheckpointId::new(id)?,
                    seq,
                    parent: self.parent.map(CheckpointId::new).transpose()?,
                    saved_at: time::parse(&saved_at).ok_or_else(odd)?,
                    metadata: Metadata::from_json(metadata)?,
                }
            }
            (None, None, None, Some(checkpoint), Some(key)) => Kind::Attachment { checkpoint: CheckpointId::new(checkpoint)?, key },
            _ => return Err(odd()),
        };
        let hash = u64::from_str_radix(&self.hash, 16).map_err(|_| odd())?;
        Ok(Head { thread: self.thread, number: self.number, tag: TypeTag::new(self.tag)?, bytes: self.bytes, hash, kind })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(tag: TypeTag, value: &[u8]) -> Head {
        let kind = Kind::Checkpoint {
            id: CheckpointId::new("step-1").unwrap(),
            seq: 7,
            parent: None,
            saved_at: SystemTime::UNIX_EPOCH,
            metadata: Metadata::from_json(r#"{"cost":1.0}"#).unwrap(),
        };
        Head { thread: "trip".to_owned(), number: 7, tag, bytes: value.len() as u64, hash: content_hash(value), kind }
    }

    fn round_trip(head: &Head, value: &[u8]) -> String {
        let (text, check) = write(head, value).unwrap();
        let read = read(&text).unwrap().unwrap();
        assert_eq!((&read.head, read.check), (head, check));
        assert!(serde_json::from_slice::<serde_json::Value>(&text).is_ok() || value.contains(&b'\\') || value.len() > 300);
        assert_eq!(&*super::value(text.clone(), &read).unwrap(), value);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn a_person_can_read_it() {
        let state = br#"{"plan": ["search"]}"#;
        let text = round_trip(&head(TypeTag::JSON, state), state);
        let begins = "{\n  \"thread\": \"trip\",\n  \"id\": \"step-1\",\n  \"seq\": 7,\n  \"number\": 7,\n  \"parent\": null,\n  \
                      \"saved_at\": \"1970-01-01T00:00:00Z\",\n  \"metadata\": {\"cost\":1.0},\n  \"type\": \"json\",\n  \"bytes\": 20,\n  \"hash\": \"";
        assert!(text.starts_with(begins), "{text}");
        assert!(text.ends_with("\",\n  \"state\": {\"plan\": [\"search\"]}\n}\n"), "{text}");
    }

    #[test]
    fn every_value_takes_the_form_that_keeps_its_bytes() {
        for (tag, value, form) in [
            (TypeTag::JSON, &b"{\n  \"a\": 1\n}"[..], "\"state\": {\n  \"a\": 1\n}\n"),
            (TypeTag::JSON, b"\n1 ", "\"text\": \"\\n1 \"\n"),
            (TypeTag::JSON, b"\"\\ud83d\"", "\"state\": \"\\ud83d\"\n"),
            (TypeTag::BYTES, b"1", "\"data\": \"MQ==\"\n"),
            (TypeTag::MSGPACK, b"", "\"data\": \"\"\n"),
        ] {
            let text = round_trip(&head(tag, value), value);
            assert!(text.contains(form), "{text}");
        }
    }

    #[test]
    fn metadata_that_would_hide_the_head_stands_as_a_string() {
        for metadata in [" { }", "{\n  \"check\": \"0123456789abcdef\",\n\"a\":1}", "{\"a\":\r1}", "{}", "{\"a\":1,\"a\":2}"] {
            let mut head = head(TypeTag::JSON, b"1");
            if let Kind::Checkpoint { metadata: there, .. } = &mut head.kind {
                *there = Metadata::from_json(metadata).unwrap();
            }
            round_trip(&head, b"1");
        }
    }

    #[test]
    fn any_changed_byte_is_told() {
        let kind = Kind::Attachment { checkpoint: CheckpointId::new("a").unwrap(), key: "k\n".to_owned() };
        for (tag, value) in [(TypeTag::JSON, &b"[1, 2]"[..]), (TypeTag::JSON, b" 1"), (TypeTag::BYTES, b"\0\xff\x10")] {
            for head in [head(tag.clone(), value), Head { kind: kind.clone(), ..head(tag, value) }] {
                let (text, _) = write(&head, value).unwrap();
                let tells = |changed: Vec<u8>| match read(&changed) {
                    Ok(Some(read)) => super::value(changed, &read).is_err(),
                    _ => true,
                };
                for at in 0..text.len() {
                    let flipped =
                        |bit: u8| text.iter().enumerate().map(|(index, byte)| if index == at { byte ^ bit } else { *byte }).collect();
                    assert!(tells(flipped(1)) && tells(flipped(0x20)), "byte {at} of {}", String::from_utf8_lossy(&text));
                    assert!(tells(text[..at].to_vec()), "cut at {at}");
                }
                assert!(tells([&text[..], b" "].concat()));
            }
        }
    }

    #[test]
    fn a_seal_tells_every_change() {
        let text = sealed("{\n  \"last\": 1,\n  \"named\": []\n}");
        assert_eq!(unsealed(text.as_bytes()).unwrap(), b"{\n  \"last\": 1,\n  \"named\": []\n}");
        for at in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[at] ^= 1;
            assert_eq!(unsealed(&changed), None, "byte {at}");
            assert_eq!(unsealed(&text.as_bytes()[..at]), None, "cut at {at}");
        }
    }
}
