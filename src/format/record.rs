//! The record: what a frame says happened.
//!
//! `kind (1) | fixed part | texts`: the fixed part holds every number and length, the texts follow
//! raw in the order of their lengths, and the record ends exactly there. An unknown kind is a newer
//! format, never skipped. Layouts in DESIGN.md, "Records".

use serde::{Deserialize, Serialize};

use super::{Flaw, fixed};

/// The longest record: texts of greatest length and some room for fixed parts.
pub(crate) const BYTES_MAX: usize = 4096 + 255 + 255 + 64 + 64 * 1024 + 256;

const KIND_PUT: u8 = 1;
const KIND_DELETE_THREAD: u8 = 2;
const KIND_DELETE_CHECKPOINT: u8 = 3;
const KIND_TRIM: u8 = 4;
const KIND_ATTACH: u8 = 5;
const KIND_KEEP: u8 = 6;
const KIND_PROMOTE: u8 = 7;
const KIND_BIND: u8 = 8;
const KIND_DETACH: u8 = 9;

const CODING_WHOLE: u8 = 0;
const CODING_PACKED: u8 = 1;
const CODING_DELTA: u8 = 2;
const CODING_DELTA_PACKED: u8 = 3;

const PARENT_NONE: u8 = 0;
const PARENT_ID: u8 = 1;
const PARENT_BASE: u8 = 2;

/// A checkpoint id as records keep it: a UUID in its usual form in 16 bytes, else its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Id<'a> {
    /// A UUID.
    Uuid([u8; 16]),
    /// Any other text, 1 to 255 bytes.
    Text(&'a str),
}

/// What a checkpoint followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Followed<'a> {
    /// None: it is the first, or a new root.
    Nothing,
    /// The checkpoint of that id.
    Id(Id<'a>),
    /// The one that it is stored as a difference from.
    Base,
}

impl<'a> Followed<'a> {
    /// The one of that id, if there is any.
    pub fn of(id: Option<Id<'a>>) -> Followed<'a> {
        id.map_or(Followed::Nothing, Followed::Id)
    }
}

/// How the payload makes the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    /// A keyframe: it is the state.
    Whole,
    /// A keyframe: it is the state, packed.
    Packed,
    /// It is the difference from another checkpoint of the thread.
    Delta(Difference),
}

impl Coding {
    /// Whether another checkpoint is needed.
    pub fn is_delta(&self) -> bool {
        matches!(self, Coding::Delta(_))
    }
}

/// What a delta says beside its payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Difference {
    /// The place of its base, below its own.
    pub base: u64,
    /// The content hash of the base's state.
    pub base_hash: u64,
    /// The content hash of its own.
    pub hash: u64,
    /// The payload's length once it is unpacked.
    pub unpacked_len: u32,
    /// Whether it has to be.
    pub is_packed: bool,
}

/// A checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Put<'a> {
    /// The thread.
    pub thread: &'a str,
    /// Its name in the thread.
    pub id: Id<'a>,
    /// Where it stands in the thread's order: its own number, or that of the one it replaces.
    pub place: u64,
    /// The lowest place the thread keeps from now on.
    pub floor: u64,
    /// The clock, in nanoseconds from 1970.
    pub saved_at: i64,
    /// What it followed.
    pub parent: Followed<'a>,
    /// What its bytes are.
    pub tag: &'a str,
    /// A JSON object; empty for `{}`.
    pub metadata: &'a str,
    /// The state's size.
    pub state_len: u32,
    /// How the payload makes it.
    pub coding: Coding,
}

/// A value attached to a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attach<'a> {
    /// The thread.
    pub thread: &'a str,
    /// The checkpoint's id.
    pub id: Id<'a>,
    /// What it is found by among those of the checkpoint.
    pub key: &'a str,
    /// What its bytes are.
    pub tag: &'a str,
    /// Its number: that of its own frame.
    pub number: u64,
    /// The place of its checkpoint. Where that is yet to come: what was put up to here is not newer.
    pub place: u64,
    /// Whether its checkpoint is yet to come.
    pub is_awaiting: bool,
    /// The value's size.
    pub value_len: u32,
    /// Whether the payload is the value packed.
    pub is_packed: bool,
}

/// What a record says happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    /// A checkpoint was put.
    Put(Put<'a>),
    /// A checkpoint that stood as a delta is written anew, whole; nothing else of it has changed.
    Promote(Put<'a>),
    /// A thread was deleted, with all it had.
    DeleteThread {
        /// The thread.
        thread: &'a str,
    },
    /// The checkpoint at a place was deleted.
    DeleteCheckpoint {
        /// The thread.
        thread: &'a str,
        /// Its place.
        place: u64,
    },
    /// A thread keeps nothing below a place.
    Trim {
        /// The thread.
        thread: &'a str,
        /// The place.
        floor: u64,
    },
    /// A thread has a limit of its own.
    Keep {
        /// The thread.
        thread: &'a str,
        /// How many checkpoints it keeps; `None` for all.
        keep: Option<u64>,
    },
    /// A value was attached to a checkpoint.
    Attach(Attach<'a>),
    /// What was attached to a checkpoint before it came, up to a number, is at its place.
    Bind {
        /// The thread.
        thread: &'a str,
        /// The checkpoint's id.
        id: Id<'a>,
        /// The number.
        number: u64,
        /// The place.
        place: u64,
    },
    /// What was attached to a checkpoint that has not come, up to a number, is gone.
    Detach {
        /// The thread.
        thread: &'a str,
        /// The checkpoint's id.
        id: Id<'a>,
        /// The number.
        number: u64,
    },
}

#[derive(Serialize, Deserialize)]
struct PutFixed {
    place: u64,
    floor: u64,
    saved_at: i64,
    state_len: u32,
    metadata_len: u32,
    thread_len: u16,
    /// 0 for a UUID in 16 bytes.
    id_len: u8,
    parent: u8,
    /// 0 for a UUID in 16 bytes; read only if `parent` is 1.
    parent_len: u8,
    tag_len: u8,
    coding: u8,
}

/// Follows the fixed part where the coding is a delta's.
#[derive(Serialize, Deserialize)]
struct DeltaFixed {
    base: u64,
    base_hash: u64,
    hash: u64,
    unpacked_len: u32,
}

#[derive(Serialize, Deserialize)]
struct PlaceFixed {
    place: u64,
    thread_len: u16,
}

#[derive(Serialize, Deserialize)]
struct KeepFixed {
    /// 0 for all.
    keep: u64,
    thread_len: u16,
}

#[derive(Serialize, Deserialize)]
struct AttachFixed {
    number: u64,
    place: u64,
    value_len: u32,
    thread_len: u16,
    key_len: u16,
    /// 0 for a UUID in 16 bytes.
    id_len: u8,
    tag_len: u8,
    awaiting: u8,
    coding: u8,
}

#[derive(Serialize, Deserialize)]
struct BindFixed {
    number: u64,
    place: u64,
    thread_len: u16,
    /// 0 for a UUID in 16 bytes.
    id_len: u8,
}

#[derive(Serialize, Deserialize)]
struct DetachFixed {
    number: u64,
    thread_len: u16,
    /// 0 for a UUID in 16 bytes.
    id_len: u8,
}

impl Record<'_> {
    /// The thread it is about.
    pub fn thread(&self) -> &str {
        match self {
            Record::Put(put) | Record::Promote(put) => put.thread,
            Record::Attach(attach) => attach.thread,
            Record::DeleteThread { thread }
            | Record::DeleteCheckpoint { thread, .. }
            | Record::Trim { thread, .. }
            | Record::Keep { thread, .. }
            | Record::Bind { thread, .. }
            | Record::Detach { thread, .. } => thread,
        }
    }

    /// Appends the record's bytes. Lengths were checked at the door.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        match self {
            Record::Put(put) => put.encode(KIND_PUT, bytes),
            Record::Promote(put) => put.encode(KIND_PROMOTE, bytes),
            Record::DeleteThread { thread } => {
                bytes.push(KIND_DELETE_THREAD);
                fixed::append(&(thread.len() as u16), bytes);
            }
            Record::DeleteCheckpoint { thread, place } => {
                bytes.push(KIND_DELETE_CHECKPOINT);
                fixed::append(&PlaceFixed { place: *place, thread_len: thread.len() as u16 }, bytes);
            }
            Record::Trim { thread, floor } => {
                bytes.push(KIND_TRIM);
                fixed::append(&PlaceFixed { place: *floor, thread_len: thread.len() as u16 }, bytes);
            }
            Record::Keep { thread, keep } => {
                bytes.push(KIND_KEEP);
                fixed::append(&KeepFixed { keep: keep.unwrap_or(0), thread_len: thread.len() as u16 }, bytes);
            }
            Record::Attach(attach) => attach.encode(bytes),
            Record::Bind { thread, id, number, place } => {
                bytes.push(KIND_BIND);
                let (number, place, thread_len, id_len) = (*number, *place, thread.len() as u16, id.text_len());
                fixed::append(&BindFixed { number, place, thread_len, id_len }, bytes);
            }
            Record::Detach { thread, id, number } => {
                bytes.push(KIND_DETACH);
                fixed::append(&DetachFixed { number: *number, thread_len: thread.len() as u16, id_len: id.text_len() }, bytes);
            }
        }
        bytes.extend_from_slice(self.thread().as_bytes());
        match self {
            Record::Put(put) | Record::Promote(put) => put.encode_texts(bytes),
            Record::Attach(attach) => attach.encode_texts(bytes),
            Record::Bind { id, .. } | Record::Detach { id, .. } => bytes.extend_from_slice(id.as_bytes()),
            _ => {}
        }
    }
}

impl<'a> Record<'a> {
    /// The checkpoint that it holds, put or promoted.
    pub fn put(&self) -> Option<&Put<'a>> {
        match self {
            Record::Put(put) | Record::Promote(put) => Some(put),
            _ => None,
        }
    }

    /// The checkpoint that it speaks of by its id, if it does.
    pub fn id(&self) -> Option<Id<'a>> {
        match self {
            Record::Put(put) | Record::Promote(put) => Some(put.id),
            Record::Attach(attach) => Some(attach.id),
            Record::Bind { id, .. } | Record::Detach { id, .. } => Some(*id),
            _ => None,
        }
    }

    /// Decodes a record that takes up all of `bytes`. Errors: `Corrupt`, `Unknown`.
    pub fn decode(bytes: &'a [u8]) -> Result<Record<'a>, Flaw> {
        let (&kind, rest) = bytes.split_first().ok_or(Flaw::Corrupt("empty record"))?;
        match kind {
            KIND_PUT => Put::decode(rest).map(Record::Put),
            KIND_PROMOTE => match Put::decode(rest)? {
                put if put.coding.is_delta() => Err(Flaw::Corrupt("promoted delta")),
                put => Ok(Record::Promote(put)),
            },
            KIND_DELETE_THREAD => {
                let (thread_len, used) = fixed::read::<u16>(rest)?;
                Ok(Record::DeleteThread { thread: only_thread(&rest[used..], thread_len)? })
            }
            KIND_DELETE_CHECKPOINT => {
                let (part, used) = fixed::read::<PlaceFixed>(rest)?;
                Ok(Record::DeleteCheckpoint { thread: only_thread(&rest[used..], part.thread_len)?, place: part.place })
            }
            KIND_TRIM => {
                let (part, used) = fixed::read::<PlaceFixed>(rest)?;
                Ok(Record::Trim { thread: only_thread(&rest[used..], part.thread_len)?, floor: part.place })
            }
            KIND_KEEP => {
                let (part, used) = fixed::read::<KeepFixed>(rest)?;
                Ok(Record::Keep { thread: only_thread(&rest[used..], part.thread_len)?, keep: (part.keep != 0).then_some(part.keep) })
            }
            KIND_ATTACH => Attach::decode(rest).map(Record::Attach),
            KIND_BIND => {
                let (BindFixed { number, place, thread_len, id_len }, used) = fixed::read::<BindFixed>(rest)?;
                let (thread, id) = thread_and_id(&rest[used..], thread_len, id_len)?;
                if number == 0 || place == 0 {
                    return Err(Flaw::Corrupt("bind"));
                }
                Ok(Record::Bind { thread, id, number, place })
            }
            KIND_DETACH => {
                let (DetachFixed { number, thread_len, id_len }, used) = fixed::read::<DetachFixed>(rest)?;
                let (thread, id) = thread_and_id(&rest[used..], thread_len, id_len)?;
                if number == 0 {
                    return Err(Flaw::Corrupt("detach"));
                }
                Ok(Record::Detach { thread, id, number })
            }
            _ => Err(Flaw::Unknown("record kind")),
        }
    }
}

impl<'a> Put<'a> {
    fn encode(&self, kind: u8, bytes: &mut Vec<u8>) {
        bytes.push(kind);
        let (parent, parent_id) = match &self.parent {
            Followed::Nothing => (PARENT_NONE, None),
            Followed::Id(id) => (PARENT_ID, Some(id)),
            Followed::Base => (PARENT_BASE, None),
        };
        let part = PutFixed {
            place: self.place,
            floor: self.floor,
            saved_at: self.saved_at,
            state_len: self.state_len,
            metadata_len: self.metadata.len() as u32,
            thread_len: self.thread.len() as u16,
            id_len: self.id.text_len(),
            parent,
            parent_len: parent_id.map_or(0, Id::text_len),
            tag_len: self.tag.len() as u8,
            coding: match self.coding {
                Coding::Whole => CODING_WHOLE,
                Coding::Packed => CODING_PACKED,
                Coding::Delta(Difference { is_packed: false, .. }) => CODING_DELTA,
                Coding::Delta(_) => CODING_DELTA_PACKED,
            },
        };
        fixed::append(&part, bytes);
        if let Coding::Delta(Difference { base, base_hash, hash, unpacked_len, .. }) = self.coding {
            fixed::append(&DeltaFixed { base, base_hash, hash, unpacked_len }, bytes);
        }
    }

    fn encode_texts(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self.id.as_bytes());
        if let Followed::Id(parent) = &self.parent {
            bytes.extend_from_slice(parent.as_bytes());
        }
        bytes.extend_from_slice(self.tag.as_bytes());
        bytes.extend_from_slice(self.metadata.as_bytes());
    }

    fn decode(bytes: &'a [u8]) -> Result<Put<'a>, Flaw> {
        let (part, used) = fixed::read::<PutFixed>(bytes)?;
        let (coding, used) = Self::coding(&part, bytes, used)?;
        let mut texts = Texts(&bytes[used..]);
        let thread = texts.thread(part.thread_len)?;
        let id = texts.id(part.id_len)?;
        let parent = match (part.parent, part.parent_len) {
            (PARENT_NONE, 0) => Followed::Nothing,
            (PARENT_ID, length) => Followed::Id(texts.id(length)?),
            (PARENT_BASE, 0) if coding.is_delta() => Followed::Base,
            _ => return Err(Flaw::Corrupt("parent")),
        };
        let tag = texts.take(usize::from(part.tag_len))?;
        let metadata = texts.take(part.metadata_len as usize)?;
        texts.end()?;
        if tag.is_empty() || part.place == 0 || part.floor > part.place {
            return Err(Flaw::Corrupt("put"));
        }
        let PutFixed { place, floor, saved_at, state_len, .. } = part;
        Ok(Put { thread, id, place, floor, saved_at, parent, tag, metadata, state_len, coding })
    }

    /// The coding, and where what belongs to it ends.
    fn coding(part: &PutFixed, bytes: &[u8], used: usize) -> Result<(Coding, usize), Flaw> {
        let is_packed = match part.coding {
            CODING_WHOLE => return Ok((Coding::Whole, used)),
            CODING_PACKED => return Ok((Coding::Packed, used)),
            CODING_DELTA => false,
            CODING_DELTA_PACKED => true,
            _ => return Err(Flaw::Unknown("state coding")),
        };
        let (DeltaFixed { base, base_hash, hash, unpacked_len }, more) = fixed::read::<DeltaFixed>(&bytes[used..])?;
        if base == 0 || base >= part.place {
            return Err(Flaw::Corrupt("base"));
        }
        Ok((Coding::Delta(Difference { base, base_hash, hash, unpacked_len, is_packed }), used + more))
    }
}

impl<'a> Attach<'a> {
    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.push(KIND_ATTACH);
        let part = AttachFixed {
            number: self.number,
            place: self.place,
            value_len: self.value_len,
            thread_len: self.thread.len() as u16,
            key_len: self.key.len() as u16,
            id_len: self.id.text_len(),
            tag_len: self.tag.len() as u8,
            awaiting: u8::from(self.is_awaiting),
            coding: if self.is_packed { CODING_PACKED } else { CODING_WHOLE },
        };
        fixed::append(&part, bytes);
    }

    fn encode_texts(&self, bytes: &mut Vec<u8>) {
        for text in [self.id.as_bytes(), self.key.as_bytes(), self.tag.as_bytes()] {
            bytes.extend_from_slice(text);
        }
    }

    fn decode(bytes: &'a [u8]) -> Result<Attach<'a>, Flaw> {
        let (part, used) = fixed::read::<AttachFixed>(bytes)?;
        let AttachFixed { number, place, value_len, thread_len, key_len, id_len, tag_len, awaiting, coding } = part;
        let is_awaiting = awaiting == 1;
        let is_packed = match coding {
            CODING_WHOLE => false,
            CODING_PACKED => true,
            _ => return Err(Flaw::Unknown("value coding")),
        };
        let mut texts = Texts(&bytes[used..]);
        let (thread, id) = (texts.thread(thread_len)?, texts.id(id_len)?);
        let (key, tag) = (texts.take(usize::from(key_len))?, texts.take(usize::from(tag_len))?);
        texts.end()?;
        if key.is_empty() || tag.is_empty() || number == 0 || place == 0 || awaiting > 1 || is_awaiting && place < number {
            return Err(Flaw::Corrupt("attach"));
        }
        Ok(Attach { thread, id, key, tag, number, place, is_awaiting, value_len, is_packed })
    }
}

impl Id<'_> {
    fn text_len(&self) -> u8 {
        match self {
            Id::Uuid(_) => 0,
            Id::Text(text) => text.len() as u8,
        }
    }

    fn as_bytes(&self) -> &[u8] {
        match self {
            Id::Uuid(bytes) => bytes,
            Id::Text(text) => text.as_bytes(),
        }
    }
}

/// The texts behind a fixed part, taken one after the other.
struct Texts<'a>(&'a [u8]);

impl<'a> Texts<'a> {
    fn bytes(&mut self, length: usize) -> Result<&'a [u8], Flaw> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Flaw::Corrupt("record lengths"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn take(&mut self, length: usize) -> Result<&'a str, Flaw> {
        std::str::from_utf8(self.bytes(length)?).map_err(|_| Flaw::Corrupt("record text"))
    }

    fn thread(&mut self, length: u16) -> Result<&'a str, Flaw> {
        if length == 0 { Err(Flaw::Corrupt("empty thread id")) } else { self.take(usize::from(length)) }
    }

    fn id(&mut self, length: u8) -> Result<Id<'a>, Flaw> {
        match length {
            0 => Ok(Id::Uuid(self.bytes(16)?.try_into().map_err(|_| Flaw::Corrupt("record lengths"))?)),
            _ => self.take(usize::from(length)).map(Id::Text),
        }
    }

    fn end(self) -> Result<(), Flaw> {
        if self.0.is_empty() { Ok(()) } else { Err(Flaw::Corrupt("record lengths")) }
    }
}

fn only_thread(bytes: &[u8], length: u16) -> Result<&str, Flaw> {
    let mut texts = Texts(bytes);
    let thread = texts.thread(length)?;
    texts.end()?;
    Ok(thread)
}

fn thread_and_id(bytes: &[u8], thread_len: u16, id_len: u8) -> Result<(&str, Id<'_>), Flaw> {
    let mut texts = Texts(bytes);
    let named = (texts.thread(thread_len)?, texts.id(id_len)?);
    texts.end()?;
    Ok(named)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_record(thread: &str, id: [u8; 16], text: &str, number: u64, metadata: &str, bytes: &mut Vec<Vec<u8>>) {
        let mut add = |record: Record<'_>| {
            let mut encoded = Vec::new();
            record.encode(&mut encoded);
            assert_eq!(Record::decode(&encoded).as_ref(), Ok(&record));
            bytes.push(encoded);
        };
        let difference = |is_packed| Difference { base: number, base_hash: 5, hash: 6, unpacked_len: 7, is_packed };
        for parent in [Followed::Nothing, Followed::Id(Id::Uuid(id)), Followed::Id(Id::Text(text))] {
            for id in [Id::Uuid(id), Id::Text(text)] {
                let whole = Put {
                    thread,
                    id,
                    place: number,
                    floor: 1,
                    saved_at: -5,
                    parent,
                    tag: "json",
                    metadata,
                    state_len: 9,
                    coding: Coding::Whole,
                };
                add(Record::Put(whole.clone()));
                add(Record::Promote(whole.clone()));
                add(Record::Promote(Put { coding: Coding::Packed, ..whole.clone() }));
                let (place, coding) = (number.saturating_add(1), Coding::Delta(difference(false)));
                if place > number {
                    add(Record::Put(Put { place, coding, ..whole.clone() }));
                    add(Record::Put(Put { place, coding: Coding::Delta(difference(true)), parent: Followed::Base, ..whole }));
                }
            }
        }
        add(Record::DeleteThread { thread });
        add(Record::DeleteCheckpoint { thread, place: number });
        add(Record::Trim { thread, floor: number });
        add(Record::Keep { thread, keep: Some(number) });
        add(Record::Keep { thread, keep: None });
        for id in [Id::Uuid(id), Id::Text(text)] {
            let attach = Attach { thread, id, key: text, tag: "json", number, place: 1, is_awaiting: false, value_len: 9, is_packed: true };
            add(Record::Attach(Attach { is_packed: false, ..attach.clone() }));
            add(Record::Attach(Attach { key: "k", tag: text, number: 1, place: number, is_awaiting: true, ..attach.clone() }));
            add(Record::Attach(attach));
            add(Record::Detach { thread, id, number });
            add(Record::Bind { thread, id, number, place: 1 });
        }
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded(thread in ".{1,40}", id: [u8; 16], text in ".{1,40}", number in 1u64.., metadata in ".{0,40}") {
            any_record(&thread, id, &text, number, &metadata, &mut Vec::new());
        }

        #[test]
        fn any_bytes_are_refused_or_come_back_the_same(at: prop::sample::Index, which: prop::sample::Index, byte: u8, cut: prop::sample::Index) {
            let mut all = Vec::new();
            any_record("thread", [7; 16], "id", 3, "{\"a\":1}", &mut all);
            let mut bytes = all.swap_remove(which.index(all.len()));
            let at = at.index(bytes.len());
            bytes[at] = byte;
            bytes.truncate(cut.index(bytes.len()) + 1);
            if let Ok(record) = Record::decode(&bytes) {
                let mut again = Vec::new();
                record.encode(&mut again);
                prop_assert_eq!(again, bytes);
            }
        }
    }

    #[test]
    fn an_unknown_kind_or_coding_is_a_newer_format() {
        assert_eq!(Record::decode(&[99, 0, 0]), Err(Flaw::Unknown("record kind")));
        let mut all = Vec::new();
        any_record("t", [7; 16], "id", 3, "", &mut all);
        all[0][1 + 38] = 4;
        assert_eq!(Record::decode(&all[0]), Err(Flaw::Unknown("state coding")));
        all[0][1 + 38] = CODING_WHOLE;
        all[0][1 + 35] = PARENT_BASE;
        assert_eq!(Record::decode(&all[0]), Err(Flaw::Corrupt("parent")));
        assert_eq!(Record::decode(&[]), Err(Flaw::Corrupt("empty record")));
    }

    #[test]
    fn a_put_that_no_writer_writes_is_refused() {
        let bytes = |record: Record<'_>| {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            bytes
        };
        let (id, parent, coding) = (Id::Uuid([7; 16]), Followed::Nothing, Coding::Whole);
        let put = Put { thread: "t", id, place: 3, floor: 3, saved_at: 0, parent, tag: "json", metadata: "", state_len: 9, coding };
        let on = |base| Coding::Delta(Difference { base, base_hash: 5, hash: 6, unpacked_len: 7, is_packed: false });
        for (put, flaw) in [
            (put.clone(), None),
            (Put { tag: "", ..put.clone() }, Some("put")),
            (Put { place: 0, floor: 0, ..put.clone() }, Some("put")),
            (Put { floor: 4, ..put.clone() }, Some("put")),
            (Put { thread: "", ..put.clone() }, Some("empty thread id")),
            (Put { coding: on(2), ..put.clone() }, None),
            (Put { coding: on(0), ..put.clone() }, Some("base")),
            (Put { coding: on(3), ..put.clone() }, Some("base")),
        ] {
            let encoded = bytes(Record::Put(put));
            assert_eq!(Record::decode(&encoded).err(), flaw.map(Flaw::Corrupt));
            if flaw.is_none() {
                assert_eq!(Record::decode(&[&encoded[..], &[0]].concat()), Err(Flaw::Corrupt("record lengths")));
            }
        }
        assert_eq!(Record::decode(&bytes(Record::Promote(Put { coding: on(2), ..put }))), Err(Flaw::Corrupt("promoted delta")));
    }

    #[test]
    fn what_no_writer_says_of_attachments_is_refused() {
        let (thread, id) = ("t", Id::Text("id"));
        let attach = Attach { thread, id, key: "k", tag: "json", number: 3, place: 2, is_awaiting: false, value_len: 9, is_packed: false };
        for (record, flaw) in [
            (Record::Attach(attach.clone()), None),
            (Record::Attach(Attach { key: "", ..attach.clone() }), Some("attach")),
            (Record::Attach(Attach { tag: "", ..attach.clone() }), Some("attach")),
            (Record::Attach(Attach { number: 0, ..attach.clone() }), Some("attach")),
            (Record::Attach(Attach { place: 0, ..attach.clone() }), Some("attach")),
            (Record::Attach(Attach { place: 4, ..attach.clone() }), None),
            (Record::Attach(Attach { place: 3, is_awaiting: true, ..attach.clone() }), None),
            (Record::Attach(Attach { is_awaiting: true, ..attach.clone() }), Some("attach")),
            (Record::Attach(Attach { thread: "", ..attach.clone() }), Some("empty thread id")),
            (Record::Bind { thread, id, number: 3, place: 4 }, None),
            (Record::Bind { thread, id, number: 3, place: 2 }, None),
            (Record::Bind { thread, id, number: 3, place: 0 }, Some("bind")),
            (Record::Bind { thread, id, number: 0, place: 4 }, Some("bind")),
            (Record::Bind { thread: "", id, number: 3, place: 4 }, Some("empty thread id")),
            (Record::Detach { thread, id, number: 1 }, None),
            (Record::Detach { thread, id, number: 0 }, Some("detach")),
            (Record::Detach { thread: "", id, number: 1 }, Some("empty thread id")),
        ] {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            assert_eq!(Record::decode(&bytes).err(), flaw.map(Flaw::Corrupt), "{record:?}");
            bytes.push(0);
            assert!(Record::decode(&bytes).is_err(), "a byte too many: {record:?}");
        }
        let mut bytes = Vec::new();
        Record::Attach(attach).encode(&mut bytes);
        bytes[1 + 27] = CODING_DELTA;
        assert_eq!(Record::decode(&bytes), Err(Flaw::Unknown("value coding")));
        bytes[1 + 27] = CODING_PACKED;
        bytes[1 + 26] = 2;
        assert_eq!(Record::decode(&bytes), Err(Flaw::Corrupt("attach")));
    }
}
