//! From a place in the log to a checkpoint: fetch, check, decode.
//!
//! Every read checks the head over place and record, that the record is the one the index meant, and
//! the payload; nothing is believed because it was right before. No lock and, from a map, no system call.

use std::sync::Arc;

use super::ids::{self, IdKey};
use super::segments::{Segment, SegmentSet};
use super::view::{Entry, View};
use crate::batch::time_of;
use crate::checkpoint::{Checkpoint, CheckpointInfo, Metadata, StateBytes, TypeTag};
use crate::error::{Error, ErrorKind, Result};
use crate::format::frame::Head;
use crate::format::record::{Put, Record};

/// The checkpoint of an entry, with its state.
pub(crate) fn checkpoint(segments: &SegmentSet, view: &View, entry: &Entry) -> Result<Checkpoint<StateBytes>> {
    let segment = segment_of(segments, view, entry)?;
    let damaged = |why: crate::format::Flaw| segment.damaged(entry.at.offset(), why).with_thread(view.thread());
    let frame = segment.frame(entry.at).map_err(|error| error.with_thread(view.thread()))?;
    let (head, info) = decode(segment, view, entry, &frame)?;
    head.payload(&frame).map_err(damaged)?;
    let start = head.payload_start();
    Ok(Checkpoint { info, state: frame.part(start..start + head.payload_len as usize) })
}

/// What is known of an entry, without its state.
pub(crate) fn info(segments: &SegmentSet, view: &View, entry: &Entry) -> Result<CheckpointInfo> {
    let segment = segment_of(segments, view, entry)?;
    let bytes = segment.head_and_record(entry.at).map_err(|error| error.with_thread(view.thread()))?;
    decode(segment, view, entry, &bytes).map(|(_, info)| info)
}

/// The floor that an entry's record tells; `None` where it cannot be read.
pub(crate) fn floor(segments: &SegmentSet, view: &View, entry: &Entry) -> Option<u64> {
    let segment = segments.get(&entry.at.segment)?;
    let bytes = segment.head_and_record(entry.at).ok()?;
    let (head, _) = Head::alone(segment.place(entry.at.offset()), &bytes).ok()?;
    match Record::decode(head.record(&bytes).ok()?) {
        Ok(Record::Put(put)) if is_meant(&put, view, entry) => Some(put.floor),
        _ => None,
    }
}

fn segment_of<'a>(segments: &'a SegmentSet, view: &View, entry: &Entry) -> Result<&'a Arc<Segment>> {
    let missing =
        || Error::new(ErrorKind::Corrupt, format!("segment {} is not there any more", entry.at.segment)).with_thread(view.thread());
    segments.get(&entry.at.segment).ok_or_else(missing)
}

fn decode(segment: &Segment, view: &View, entry: &Entry, bytes: &[u8]) -> Result<(Head, CheckpointInfo)> {
    let damaged = |why: crate::format::Flaw| segment.damaged(entry.at.offset(), why).with_thread(view.thread());
    let (head, _) = Head::alone(segment.place(entry.at.offset()), bytes).map_err(damaged)?;
    let record = head.record(bytes).map_err(damaged)?;
    match Record::decode(record).map_err(damaged)? {
        Record::Put(put) if is_meant(&put, view, entry) => Ok((head, describe(&put, view.thread())?)),
        _ => Err(damaged(crate::format::Flaw::Corrupt("another record stands in its place"))),
    }
}

/// Whether a record is the one that an entry of the index leads to.
pub(crate) fn is_meant(put: &Put<'_>, view: &View, entry: &Entry) -> bool {
    put.place == entry.place && put.thread == &**view.thread() && put.state_len == entry.state_len && IdKey::matches(&entry.id, &put.id)
}

/// What a put's record says of its checkpoint.
pub(crate) fn describe(put: &Put<'_>, thread: &Arc<str>) -> Result<CheckpointInfo> {
    Ok(CheckpointInfo {
        thread: thread.clone(),
        id: ids::public(&put.id)?,
        seq: put.place,
        parent: put.parent.as_ref().map(ids::public).transpose()?,
        saved_at: time_of(put.saved_at),
        metadata: Metadata::of_stored(put.metadata),
        tag: TypeTag::of_stored(put.tag),
        bytes: u64::from(put.state_len),
    })
}
