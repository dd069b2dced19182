//! The values of a checkpoint: its id, type tag, metadata, bytes, and what is known of it.
//!
//! Every constructor checks at the door, so a value that exists is a good one: the rest of the
//! crate never asks again. Nothing here knows where a checkpoint is kept.

use std::fmt;
use std::ops::{Deref, Range};
use std::str::FromStr;
use std::sync::Arc;
use std::time::SystemTime;

use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::error::{Error, ErrorKind, Result};
use crate::json;

/// The longest thread id, in bytes.
pub const THREAD_BYTES_MAX: usize = 4096;
/// The longest checkpoint id, in bytes.
pub const ID_BYTES_MAX: usize = 255;
/// The longest type tag, in bytes.
pub const TAG_BYTES_MAX: usize = 64;
/// The largest metadata text, in bytes.
pub const METADATA_BYTES_MAX: usize = 64 * 1024;

/// Checks a thread id: any non-empty UTF-8 text up to 4,096 bytes, else `InvalidInput`.
pub fn check_thread(thread: &str) -> Result<()> {
    if thread.is_empty() {
        return Err(Error::invalid("a thread id cannot be empty"));
    }
    if thread.len() > THREAD_BYTES_MAX {
        return Err(Error::invalid(format!("a thread id has at most {THREAD_BYTES_MAX} bytes, this one has {}", thread.len())));
    }
    Ok(())
}

/// The name of a checkpoint within its thread: 1 to 255 bytes of text, compared byte for byte.
///
/// ```
/// use taffrail::CheckpointId;
/// let own = CheckpointId::new("step-7")?;
/// assert_eq!(own.as_str(), "step-7");
/// assert_ne!(CheckpointId::fresh(), CheckpointId::fresh());
/// # Ok::<(), taffrail::Error>(())
/// ```
#[derive(Clone)]
pub struct CheckpointId(IdText);

/// Short ids (a UUID among them) stand in the value itself: making one allocates nothing.
#[derive(Clone)]
enum IdText {
    Short { length: u8, bytes: [u8; UUID_TEXT_BYTES] },
    Long(Arc<str>),
}

const UUID_TEXT_BYTES: usize = 36;

impl CheckpointId {
    /// Takes the caller's own id. Errors: `InvalidInput` when empty or over 255 bytes.
    pub fn new(id: impl AsRef<str>) -> Result<Self> {
        let id = id.as_ref();
        if id.is_empty() || id.len() > ID_BYTES_MAX {
            return Err(Error::invalid(format!("a checkpoint id has 1 to {ID_BYTES_MAX} bytes, this one has {}", id.len())));
        }
        Ok(Self::of_checked(id))
    }

    /// A new id that no one else has: a UUIDv7.
    pub fn fresh() -> Self {
        Self::from_uuid(Uuid::now_v7())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            // The bytes were copied from a str of this length, so they are UTF-8.
            IdText::Short { length, bytes } => std::str::from_utf8(&bytes[..usize::from(*length)]).unwrap_or_default(),
            IdText::Long(text) => text,
        }
    }

    /// The id whose text is this UUID's usual form.
    pub(crate) fn from_uuid(uuid: Uuid) -> Self {
        let mut bytes = [0; UUID_TEXT_BYTES];
        uuid.hyphenated().encode_lower(&mut bytes);
        CheckpointId(IdText::Short { length: UUID_TEXT_BYTES as u8, bytes })
    }

    /// The UUID whose usual form is exactly this text, where it is one.
    pub(crate) fn to_uuid(&self) -> Option<Uuid> {
        match &self.0 {
            IdText::Short { length, bytes } if usize::from(*length) == UUID_TEXT_BYTES => {
                let uuid = Uuid::try_parse_ascii(bytes).ok()?;
                (Self::from_uuid(uuid) == *self).then_some(uuid)
            }
            _ => None,
        }
    }

    fn of_checked(id: &str) -> Self {
        let length = id.len();
        if length <= UUID_TEXT_BYTES {
            let mut bytes = [0; UUID_TEXT_BYTES];
            bytes[..length].copy_from_slice(id.as_bytes());
            CheckpointId(IdText::Short { length: length as u8, bytes })
        } else {
            CheckpointId(IdText::Long(id.into()))
        }
    }

    fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            IdText::Short { length, bytes } => &bytes[..usize::from(*length)],
            IdText::Long(text) => text.as_bytes(),
        }
    }
}

impl PartialEq for CheckpointId {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for CheckpointId {}

/// Byte order; it says nothing of time.
impl Ord for CheckpointId {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl PartialOrd for CheckpointId {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl std::hash::Hash for CheckpointId {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl fmt::Display for CheckpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for CheckpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

impl FromStr for CheckpointId {
    type Err = Error;
    fn from_str(id: &str) -> Result<Self> {
        CheckpointId::new(id)
    }
}

/// What a state's bytes are: an open set of short names; only `JSON` is checked at put.
///
/// ```
/// use taffrail::TypeTag;
/// assert_eq!(TypeTag::new("application/x-protobuf")?.as_str(), "application/x-protobuf");
/// assert_eq!(TypeTag::new("json")?, TypeTag::JSON);
/// assert!(TypeTag::new("caf\u{e9}").is_err());
/// # Ok::<(), taffrail::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TypeTag(TagText);

#[derive(Clone)]
enum TagText {
    Known(&'static str),
    Own(Arc<str>),
}

impl TypeTag {
    /// JSON text, checked at put and kept byte for byte.
    pub const JSON: Self = TypeTag(TagText::Known("json"));
    /// MessagePack, opaque to the store.
    pub const MSGPACK: Self = TypeTag(TagText::Known("msgpack"));
    /// Anything, opaque to the store.
    pub const BYTES: Self = TypeTag(TagText::Known("bytes"));

    /// Takes a tag of 1 to 64 printable ASCII characters, else `InvalidInput`.
    pub fn new(tag: impl AsRef<str>) -> Result<Self> {
        let tag = tag.as_ref();
        if tag.is_empty() || tag.len() > TAG_BYTES_MAX || !tag.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
            return Err(Error::invalid(format!("a type tag has 1 to {TAG_BYTES_MAX} printable ASCII characters, not {tag:?}")));
        }
        Ok(Self::of_stored(tag))
    }

    /// A tag read back from a store, where it was checked when it was put.
    pub(crate) fn of_stored(tag: &str) -> Self {
        match tag {
            "json" => Self::JSON,
            "bytes" => Self::BYTES,
            "msgpack" => Self::MSGPACK,
            own => TypeTag(TagText::Own(own.into())),
        }
    }

    /// The tag as text.
    pub fn as_str(&self) -> &str {
        self.0.text()
    }
}

impl TagText {
    fn text(&self) -> &str {
        match self {
            TagText::Known(text) => text,
            TagText::Own(text) => text,
        }
    }
}

impl PartialEq for TagText {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for TagText {}

impl std::hash::Hash for TagText {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.text().hash(state);
    }
}

impl fmt::Debug for TypeTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

impl fmt::Display for TypeTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A small JSON object kept beside the state and readable without it; empty by default.
///
/// ```
/// use taffrail::Metadata;
/// let metadata = Metadata::from_json(r#"{"step": 7, "cost": 1.0}"#)?;
/// assert_eq!(metadata.get::<u32>("step")?, Some(7));
/// assert_eq!(metadata.as_str(), r#"{"step": 7, "cost": 1.0}"#);
/// # Ok::<(), taffrail::Error>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Metadata(Option<Arc<str>>);

impl Metadata {
    /// Serialises `object` (a struct or map). Errors: `InvalidInput` when it is no JSON object or
    /// holds NaN or infinity, `TooLarge` above 64 KiB.
    pub fn new<T: Serialize + ?Sized>(object: &T) -> Result<Self> {
        let text = String::from_utf8(json::to_text(object)?).map_err(|e| Error::invalid("metadata is not UTF-8").with_source(e))?;
        Self::of_grammatical(text)
    }

    /// Takes the text of a JSON object and keeps it byte for byte. Errors as for [`Metadata::new`].
    pub fn from_json(text: impl Into<String>) -> Result<Self> {
        let text = text.into();
        json::check(text.as_bytes())?;
        Self::of_grammatical(text)
    }

    fn of_grammatical(text: String) -> Result<Self> {
        if text.len() > METADATA_BYTES_MAX {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!("metadata has at most {METADATA_BYTES_MAX} bytes, this has {}", text.len()),
            ));
        }
        if !text.trim_start().starts_with('{') {
            return Err(Error::invalid("metadata must be a JSON object"));
        }
        Ok(if text == "{}" { Metadata(None) } else { Metadata(Some(text.into())) })
    }

    /// Metadata read back from a store, where it was checked when it was put.
    pub(crate) fn of_stored(text: &str) -> Self {
        if text.is_empty() { Metadata(None) } else { Metadata(Some(text.into())) }
    }

    /// The text as a store keeps it: empty for the empty object.
    pub(crate) fn to_stored(&self) -> &str {
        self.0.as_deref().unwrap_or("")
    }

    /// The JSON text, `{}` when empty.
    pub fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or("{}")
    }

    /// The value under `key`, None when absent. Errors: `Decode` when it is not a `T`.
    pub fn get<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>> {
        json::member(self.as_str(), key)
    }
}

impl fmt::Debug for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Bytes that outlive the call that gave them: part of a mapped file, or owned.
pub(crate) trait Region: Send + Sync {
    /// The bytes at `range`, which never change once they were given out.
    fn bytes(&self, range: Range<usize>) -> &[u8];
}

impl Region for Vec<u8> {
    fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self[range]
    }
}

/// The bytes of a state as they were put; cheap to clone, and free of any lock.
///
/// ```
/// use taffrail::prelude::*;
/// use taffrail::MemoryCheckpointer;
/// let place = MemoryCheckpointer::new();
/// place.put("trip", &"plan")?;
/// let state = place.get_bytes("trip")?.unwrap().state;
/// assert_eq!(&*state, b"\"plan\"");
/// assert_eq!(state.into_vec().len(), 6);
/// # Ok::<(), taffrail::Error>(())
/// ```
#[derive(Clone)]
pub struct StateBytes {
    region: Arc<dyn Region>,
    range: Range<usize>,
}

impl StateBytes {
    /// The bytes as a vector of their own: a copy.
    pub fn into_vec(self) -> Vec<u8> {
        self.to_vec()
    }

    pub(crate) fn of_region(region: Arc<dyn Region>, range: Range<usize>) -> Self {
        StateBytes { region, range }
    }

    /// A part of these bytes; `range` counts from their start.
    pub(crate) fn part(&self, range: Range<usize>) -> Self {
        StateBytes { region: self.region.clone(), range: self.range.start + range.start..self.range.start + range.end }
    }
}

impl AsRef<[u8]> for StateBytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl From<Vec<u8>> for StateBytes {
    fn from(bytes: Vec<u8>) -> Self {
        let range = 0..bytes.len();
        StateBytes { region: Arc::new(bytes), range }
    }
}

impl Deref for StateBytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.region.bytes(self.range.clone())
    }
}

impl fmt::Debug for StateBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StateBytes({} bytes)", self.len())
    }
}

/// What is known of a checkpoint without decoding its state.
///
/// ```
/// use taffrail::prelude::*;
/// use taffrail::MemoryCheckpointer;
/// let place = MemoryCheckpointer::new();
/// let id = place.put("trip", &42)?;
/// let head = place.head("trip")?.unwrap();
/// assert_eq!((head.id, head.parent, head.tag.as_str(), head.bytes), (id, None, "json", 2));
/// # Ok::<(), taffrail::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct CheckpointInfo {
    /// The thread it belongs to.
    pub thread: Arc<str>,
    /// Its name within the thread.
    pub id: CheckpointId,
    /// Its number in the one order of the store; never given twice.
    pub seq: u64,
    /// The checkpoint it followed; it may have been trimmed since.
    pub parent: Option<CheckpointId>,
    /// The clock when it was put: a label, never an order.
    pub saved_at: SystemTime,
    /// The caller's JSON object.
    pub metadata: Metadata,
    /// What its bytes are.
    pub tag: TypeTag,
    /// The state's size in bytes.
    pub bytes: u64,
}

/// A checkpoint with its state: bytes, or a decoded value.
#[derive(Clone, Debug)]
pub struct Checkpoint<S> {
    /// What is known of it.
    pub info: CheckpointInfo,
    /// The state.
    pub state: S,
}

impl<S> Deref for Checkpoint<S> {
    type Target = CheckpointInfo;
    fn deref(&self) -> &CheckpointInfo {
        &self.info
    }
}

/// A keyed value bound to a checkpoint.
///
/// ```
/// use taffrail::{Checkpointer, CheckpointId, MemoryCheckpointer, OnExisting, TypeTag};
/// let place = MemoryCheckpointer::new();
/// let step = CheckpointId::new("step-1")?;
/// // It may come before its checkpoint does.
/// place.attach("trip", &step, "answer", TypeTag::JSON, b"true", OnExisting::Keep)?;
/// let attached = place.attachments("trip", &step)?;
/// assert_eq!((attached[0].key.as_str(), &*attached[0].value), ("answer", &b"true"[..]));
/// # Ok::<(), taffrail::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Attachment {
    /// 1 to 1,024 bytes; attachments are listed in byte order of their keys.
    pub key: String,
    /// What the value's bytes are.
    pub tag: TypeTag,
    /// The value.
    pub value: StateBytes,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_keeps_its_bytes_and_its_bounds() {
        for id in ["a", " a ", "é", &"x".repeat(36), &"x".repeat(37), &"x".repeat(255)] {
            assert_eq!(CheckpointId::new(id).unwrap().as_str(), id);
        }
        for id in [String::new(), "x".repeat(256)] {
            assert_eq!(CheckpointId::new(&id).unwrap_err().kind(), ErrorKind::InvalidInput);
        }
    }

    #[test]
    fn only_the_usual_form_of_a_uuid_is_one() {
        let fresh = CheckpointId::fresh();
        assert_eq!(CheckpointId::from_uuid(fresh.to_uuid().unwrap()), fresh);
        for other in [fresh.as_str().to_uppercase(), fresh.as_str().replace('-', ""), format!("{{{}}}", fresh.as_str())] {
            assert_eq!(CheckpointId::new(&other).unwrap().to_uuid(), None, "{other}");
        }
    }

    #[test]
    fn a_tag_is_short_printable_ascii() {
        assert_eq!(TypeTag::new("json").unwrap(), TypeTag::JSON);
        for tag in ["", "a\n", "é", &"x".repeat(65)] {
            assert_eq!(TypeTag::new(tag).unwrap_err().kind(), ErrorKind::InvalidInput);
        }
    }

    #[test]
    fn metadata_is_an_object_of_bounded_size() {
        for text in ["[]", "1", "\"{}\"", "{", "{\"a\":NaN}", ""] {
            assert_eq!(Metadata::from_json(text).unwrap_err().kind(), ErrorKind::InvalidInput, "{text}");
        }
        let large = format!("{{\"a\":\"{}\"}}", "x".repeat(METADATA_BYTES_MAX));
        assert_eq!(Metadata::from_json(large).unwrap_err().kind(), ErrorKind::TooLarge);
        let kept = " {\"a\":1,\"a\":18446744073709551616} ";
        assert_eq!(Metadata::from_json(kept).unwrap().as_str(), kept);
        assert_eq!(Metadata::default().as_str(), "{}");
    }

    #[test]
    fn a_member_that_is_not_the_asked_type_is_decode() {
        let metadata = Metadata::from_json(r#"{"a":"x"}"#).unwrap();
        assert_eq!(metadata.get::<u32>("a").unwrap_err().kind(), ErrorKind::Decode);
        assert_eq!(metadata.get::<u32>("b").unwrap(), None);
    }
}
