//! From a place in the log to what its record says: fetch, check, decode.
//!
//! Every read checks the head over place and record, and that the record is the one the index meant;
//! nothing is believed because it was right before. No lock and, from a map, no system call. States are
//! read in `states`, what is attached is read here.

use std::sync::Arc;

use super::attached::Attached;
use super::ids::{self, IdKey};
use super::location::Location;
use super::segments::{Segment, SegmentSet};
use super::view::{Entry, StateLen, View};
use crate::batch::time_of;
use crate::checkpoint::{Attachment, CheckpointInfo, Metadata, StateBytes, TypeTag};
use crate::delta;
use crate::error::{Error, ErrorKind, Result};
use crate::format::Flaw;
use crate::format::frame::Head;
use crate::format::record::{Coding, Followed, Put, Record};

/// What is wrong where a sound frame is not the one that the index leads to.
pub(crate) const MISPLACED: Flaw = Flaw::Corrupt("another record stands in its place");

/// What is wrong with a value that is not as long as its record says.
pub(crate) const VALUE_LENGTH: Flaw = Flaw::Corrupt("value length");

/// A frame whose head and record are checked.
pub(crate) struct Frame<'a> {
    /// The segment that it stands in.
    pub segment: &'a Segment,
    /// Its bytes.
    pub bytes: StateBytes,
    /// Its head.
    pub head: Head,
    /// How its payload makes the state.
    pub coding: Coding,
}

impl Frame<'_> {
    /// The payload, checked as well. Errors: `Corrupt`.
    pub fn payload(&self, view: &View, entry: &Entry) -> Result<StateBytes> {
        self.head.payload(&self.bytes).map_err(|why| damaged(self.segment, view, entry.at, why))?;
        let start = self.head.payload_start();
        Ok(self.bytes.part(start..start + self.head.payload_len as usize))
    }
}

/// An entry's frame, and what is known of its checkpoint.
pub(crate) fn frame<'a>(segments: &'a SegmentSet, view: &View, entry: &Entry) -> Result<(Frame<'a>, CheckpointInfo)> {
    let segment = segment_of(segments, view, entry.at)?;
    let bytes = segment.frame(entry.at).map_err(|error| error.with_thread(view.thread()))?;
    let (head, coding, info) = with_put(segment, view, entry, &bytes, |head, put| Ok((*head, put.coding, describe(put, view)?)))?;
    Ok((Frame { segment, bytes, head, coding }, info))
}

/// What is known of an entry, without its state.
pub(crate) fn info(segments: &SegmentSet, view: &View, entry: &Entry) -> Result<CheckpointInfo> {
    record(segments, view, entry, |put| describe(put, view))
}

/// The floor that an entry's record tells; `None` where it cannot be read.
pub(crate) fn floor(segments: &SegmentSet, view: &View, entry: &Entry) -> Option<u64> {
    record(segments, view, entry, |put| Ok(put.floor)).ok()
}

/// What `look` sees in an entry's record; the state is not read.
pub(crate) fn record<T>(segments: &SegmentSet, view: &View, entry: &Entry, look: impl FnOnce(&Put<'_>) -> Result<T>) -> Result<T> {
    let segment = segment_of(segments, view, entry.at)?;
    let bytes = segment.head_and_record(entry.at).map_err(|error| error.with_thread(view.thread()))?;
    with_put(segment, view, entry, &bytes, |_, put| look(put))
}

fn with_put<T>(segment: &Segment, view: &View, entry: &Entry, bytes: &[u8], look: impl FnOnce(&Head, &Put<'_>) -> Result<T>) -> Result<T> {
    let damaged = |why| damaged(segment, view, entry.at, why);
    let (head, _) = Head::alone(segment.place(entry.at.offset()), bytes).map_err(damaged)?;
    let record = Record::decode(head.record(bytes).map_err(damaged)?).map_err(damaged)?;
    look(&head, record.put().filter(|put| is_meant(put, view, entry)).ok_or(MISPLACED).map_err(damaged)?)
}

/// An attachment with its value, which is checked as a state is.
pub(crate) fn attachment(segments: &SegmentSet, view: &View, one: &Attached) -> Result<Attachment> {
    let segment = segment_of(segments, view, one.at)?;
    let damaged = |why| damaged(segment, view, one.at, why);
    let bytes = segment.frame(one.at).map_err(|error| error.with_thread(view.thread()))?;
    let (head, _) = Head::alone(segment.place(one.at.offset()), &bytes).map_err(damaged)?;
    let Record::Attach(attach) = Record::decode(head.record(&bytes).map_err(damaged)?).map_err(damaged)? else {
        return Err(damaged(MISPLACED));
    };
    if !one.is_meant(view.thread(), &attach) {
        return Err(damaged(MISPLACED));
    }
    let payload = head.payload(&bytes).map_err(damaged)?;
    let value = match attach.is_packed {
        true => StateBytes::from(delta::unpack(payload, attach.value_len).map_err(damaged)?),
        false if payload.len() != attach.value_len as usize => return Err(damaged(VALUE_LENGTH)),
        false => bytes.part(head.payload_start()..head.payload_start() + payload.len()),
    };
    Ok(Attachment { key: attach.key.to_owned(), tag: TypeTag::of_stored(attach.tag), value })
}

/// The segment that a frame stands in.
pub(crate) fn segment_of<'a>(segments: &'a SegmentSet, view: &View, at: Location) -> Result<&'a Arc<Segment>> {
    let missing = || Error::new(ErrorKind::Corrupt, format!("segment {} is not there any more", at.segment)).with_thread(view.thread());
    segments.get(&at.segment).ok_or_else(missing)
}

fn damaged(segment: &Segment, view: &View, at: Location, why: Flaw) -> Error {
    segment.damaged(at.offset(), why).with_thread(view.thread())
}

/// Whether a record is the one that an entry of the index leads to.
pub(crate) fn is_meant(put: &Put<'_>, view: &View, entry: &Entry) -> bool {
    let state_len = StateLen::new(put.state_len, put.coding.is_delta());
    put.place == entry.place && put.thread == &**view.thread() && state_len == entry.state_len && IdKey::matches(&entry.id, &put.id)
}

/// What a checkpoint followed; `None` also where that was its base and is not known any more.
pub(crate) fn parent(put: &Put<'_>, view: &View) -> Option<IdKey> {
    match (&put.parent, put.coding) {
        (Followed::Id(id), _) => Some(IdKey::of_record(id)),
        (Followed::Base, Coding::Delta(difference)) => view.base(difference.base).map(|base| base.id.clone()),
        _ => None,
    }
}

/// What a put's record says of its checkpoint.
pub(crate) fn describe(put: &Put<'_>, view: &View) -> Result<CheckpointInfo> {
    Ok(CheckpointInfo {
        thread: view.thread().clone(),
        id: ids::public(&put.id)?,
        seq: put.place,
        parent: parent(put, view).map(|parent| ids::public(&parent.to_record())).transpose()?,
        saved_at: time_of(put.saved_at),
        metadata: Metadata::of_stored(put.metadata),
        tag: TypeTag::of_stored(put.tag),
        bytes: u64::from(put.state_len),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::record::{Difference, Id};
    use crate::log::location::Location;

    #[test]
    fn a_record_is_meant_if_all_that_the_index_knows_of_it_fits() {
        let id = Id::Uuid([7; 16]);
        let (parent, coding) = (Followed::Nothing, Coding::Whole);
        let put = Put { thread: "t", id, place: 5, floor: 1, saved_at: 3, parent, tag: "", metadata: "", state_len: 9, coding };
        let at = Location { segment: 1, offset8: 9, length8: 2 };
        let entry = Entry { place: 5, id: IdKey::of_record(&put.id), at, state_len: StateLen::new(9, false) };
        let view = View::empty("t".into());
        assert!(is_meant(&put, &view, &entry));
        // What else it says is not the index's to know.
        assert!(is_meant(&Put { floor: 2, saved_at: 4, coding: Coding::Packed, ..put.clone() }, &view, &entry));
        let delta = Coding::Delta(Difference::default());
        for other in [
            Put { place: 6, ..put.clone() },
            Put { thread: "u", ..put.clone() },
            Put { id: Id::Uuid([8; 16]), ..put.clone() },
            Put { id: Id::Text("7"), ..put.clone() },
            Put { state_len: 10, ..put.clone() },
            Put { coding: delta, ..put.clone() },
        ] {
            assert!(!is_meant(&other, &view, &entry), "{other:?}");
        }
        let as_delta = Entry { state_len: StateLen::new(9, true), ..entry };
        assert!(is_meant(&Put { coding: delta, ..put.clone() }, &view, &as_delta) && !is_meant(&put, &view, &as_delta));
    }
}
