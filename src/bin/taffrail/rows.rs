//! One line of an import: the JSON object of a checkpoint or of an attachment.
//!
//! The value's bytes are never made anew: a state is the text between its neighbours, digits and
//! all. Members that an export does not write are passed over; what is wrong is `InvalidInput`.

use std::borrow::Cow;
use std::time::SystemTime;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use taffrail::{CheckpointId, Error, ErrorKind, Metadata, Result, TypeTag, check_thread};

/// What a line holds.
pub struct Row<'a> {
    pub thread: String,
    pub tag: TypeTag,
    pub value: Cow<'a, [u8]>,
    pub kind: Kind,
}

/// Whose value it is.
pub enum Kind {
    Checkpoint { id: Option<CheckpointId>, parent: Followed, saved_at: Option<SystemTime>, metadata: Metadata },
    Attachment { checkpoint: CheckpointId, key: String },
}

/// What a line says its checkpoint followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Followed {
    /// Nothing is said: the one before it.
    Previous,
    /// None.
    Nothing,
    /// This one.
    Id(CheckpointId),
}

#[derive(Deserialize)]
#[serde(expecting = "a JSON object")]
struct Line<'a> {
    thread: String,
    id: Option<String>,
    #[serde(default, deserialize_with = "if_present")]
    parent: Option<Option<String>>,
    saved_at: Option<String>,
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
    #[serde(rename = "type")]
    tag: Option<String>,
    checkpoint: Option<String>,
    key: Option<String>,
    #[serde(borrow, default, deserialize_with = "if_present")]
    state: Option<&'a RawValue>,
    text: Option<String>,
    data: Option<String>,
}

/// Tells `null` from nothing: a state may be null.
fn if_present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> std::result::Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// Reads one line. Errors: `InvalidInput`, and what ids, metadata and tags are refused for.
pub fn parse(line: &[u8]) -> Result<Row<'_>> {
    let line: Line<'_> = serde_json::from_slice(line).map_err(|error| invalid(error.to_string()))?;
    check_thread(&line.thread)?;
    let (default, value) = match (line.state, line.text, line.data) {
        (Some(state), None, None) => (TypeTag::JSON, Cow::Borrowed(state.get().as_bytes())),
        (None, Some(text), None) => (TypeTag::JSON, Cow::Owned(text.into_bytes())),
        (None, None, Some(data)) => {
            let bytes = STANDARD.decode(data).map_err(|error| invalid(format!("`data` is not base64: {error}")))?;
            (TypeTag::BYTES, Cow::Owned(bytes))
        }
        _ => return Err(invalid("one of `state`, `text` and `data` is needed")),
    };
    let tag = line.tag.map(TypeTag::new).transpose()?.unwrap_or(default);
    let kind = match (line.checkpoint, line.key) {
        (Some(checkpoint), Some(key)) => Kind::Attachment { checkpoint: CheckpointId::new(checkpoint)?, key },
        (None, None) => Kind::Checkpoint {
            id: line.id.map(CheckpointId::new).transpose()?,
            parent: match line.parent {
                None => Followed::Previous,
                Some(None) => Followed::Nothing,
                Some(Some(parent)) => Followed::Id(CheckpointId::new(parent)?),
            },
            saved_at: line.saved_at.as_deref().map(time).transpose()?,
            metadata: line.metadata.map(|text| Metadata::from_json(text.get())).transpose()?.unwrap_or_default(),
        },
        _ => return Err(invalid("an attachment needs both `checkpoint` and `key`")),
    };
    Ok(Row { thread: line.thread, tag, value, kind })
}

fn time(text: &str) -> Result<SystemTime> {
    let time: Timestamp = text.parse().map_err(|error| invalid(format!("`saved_at` is not a time: {error}")))?;
    Ok(time.into())
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidInput, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_and_state_are_enough_and_the_state_keeps_its_text() {
        let row = parse(br#" {"seq":7,"state": {"n":1.0,"n":18446744073709551616} ,"thread":"t"} "#).unwrap();
        assert_eq!((row.thread.as_str(), row.tag, &*row.value), ("t", TypeTag::JSON, &br#"{"n":1.0,"n":18446744073709551616}"#[..]));
        assert!(matches!(row.kind, Kind::Checkpoint { id: None, parent: Followed::Previous, saved_at: None, .. }));
        assert_eq!(&*parse(br#"{"thread":"t","state":null}"#).unwrap().value, b"null");
        assert_eq!(&*parse(br#"{"thread":"t","text":" 1\n"}"#).unwrap().value, b" 1\n");
    }

    #[test]
    fn everything_an_export_writes_is_taken() {
        let line = br#"{"thread":"t","id":"b","seq":1,"parent":"a","saved_at":"1970-01-01T00:00:01.5Z","metadata":{"k":1.0},"type":"x","data":"Mf8="}"#;
        let row = parse(line).unwrap();
        assert_eq!((row.tag.as_str(), &*row.value), ("x", &b"1\xff"[..]));
        let Kind::Checkpoint { id, parent, saved_at, metadata } = row.kind else { panic!("a checkpoint") };
        assert_eq!((id.unwrap().as_str(), parent), ("b", Followed::Id(CheckpointId::new("a").unwrap())));
        assert_eq!(saved_at.unwrap(), SystemTime::UNIX_EPOCH + std::time::Duration::from_millis(1500));
        assert_eq!(metadata.as_str(), r#"{"k":1.0}"#);
        let row = parse(br#"{"thread":"t","checkpoint":"b","key":"k","type":"bytes","data":""}"#).unwrap();
        assert!(matches!(row.kind, Kind::Attachment { checkpoint, key } if checkpoint.as_str() == "b" && key == "k"));
    }

    #[test]
    fn what_is_wrong_is_refused() {
        for line in [
            &b"[]"[..],
            b"{",
            br#"{"thread":"t"}"#,
            br#"{"state":1}"#,
            br#"{"thread":"","state":1}"#,
            br#"{"thread":"t","state":1,"text":"1"}"#,
            br#"{"thread":"t","state":1,"state":2}"#,
            br#"{"thread":"t","data":"*"}"#,
            br#"{"thread":"t","state":1,"saved_at":"soon"}"#,
            br#"{"thread":"t","state":1,"metadata":[]}"#,
            br#"{"thread":"t","state":1,"id":""}"#,
            br#"{"thread":"t","state":1,"key":"k"}"#,
            b"{\"thread\":\"t\",\"state\":\"\xff\"}",
            br#"{"thread":"\ud83d","state":1}"#,
        ] {
            assert!(parse(line).is_err(), "{}", String::from_utf8_lossy(line));
        }
    }
}
