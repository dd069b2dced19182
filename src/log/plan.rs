//! From a batch to records: what each operation means, given the threads as they are appended.
//!
//! Made in the turn, before a byte is written, so that a refused operation leaves nothing. Each
//! operation sees what the ones before it in the batch did. Decides; does no I/O but reading back a
//! record that is replaced.

use std::sync::Arc;

use super::changes::Changes;
use super::examine;
use super::ids::{self, IdKey};
use super::index::Index;
use super::location::Location;
use super::read;
use super::segments::SegmentSet;
use super::vacuum::Judged;
use super::view::{Entry, View};
use crate::batch::{Batch, Committed, ExpectedHead, Operation, Parent, PutOptions, nanos_of, nanos_of_clock};
use crate::checkpoint::{CheckpointId, TypeTag};
use crate::error::{Error, ErrorKind, Result};
use crate::format::frame::{self, frame_len};
use crate::format::record::{Put, Record};
use crate::fs::Fs;
use crate::query::Vacuumed;

/// A batch with all that can be worked out before the turn.
pub(crate) struct Prepared<'a> {
    pub operations: &'a [Operation<'a>],
    puts: Vec<PreparedPut>,
}

/// A put's id, time and payload checksum.
struct PreparedPut {
    id: CheckpointId,
    saved_at: i64,
    payload_check: u32,
}

impl<'a> Prepared<'a> {
    /// Errors: `Unsupported` for attachments.
    pub fn new(batch: &'a Batch<'a>, fs: &dyn Fs) -> Result<Prepared<'a>> {
        let mut puts = Vec::with_capacity(batch.operations().len());
        for operation in batch.operations() {
            match operation {
                Operation::Put { state, options, .. } => puts.push(PreparedPut {
                    id: options.id.clone().unwrap_or_else(CheckpointId::fresh),
                    saved_at: options.saved_at.map_or_else(|| Ok(nanos_of_clock(fs.now())), nanos_of)?,
                    payload_check: frame::payload_check(state),
                }),
                Operation::Attach { .. } => return Err(Error::unsupported("attach")),
                Operation::Delete { .. } => {}
            }
        }
        Ok(Prepared { operations: batch.operations(), puts })
    }
}

/// A frame to be written.
pub(crate) struct Planned<'a> {
    pub record: Vec<u8>,
    pub payload: &'a [u8],
    pub payload_check: u32,
    /// Where it goes in its segment.
    offset: u64,
}

/// Where a plan's frames are to go, and what rules hold there.
#[derive(Clone, Copy)]
pub(crate) struct Terms {
    /// The segment's number.
    pub segment: u64,
    /// The offset of the first frame.
    pub start: u64,
    /// The number of the first record.
    pub next_seq: u64,
    /// How many checkpoints a thread keeps that has no limit of its own; `None` for all.
    pub keep: Option<u64>,
    /// Whether all of the log was taken in, so that a thread shows all that it has.
    pub is_whole: bool,
}

/// Frames that are to be written together, and what they change.
pub(crate) struct Plan<'a> {
    index: &'a Index,
    segments: Arc<SegmentSet>,
    terms: Terms,
    pub frames: Vec<Planned<'a>>,
    pub changes: Changes,
    pub results: Vec<Committed>,
    /// The frames' length together.
    pub length: u64,
}

impl<'a> Plan<'a> {
    /// An empty plan.
    pub fn new(index: &'a Index, segments: Arc<SegmentSet>, terms: Terms) -> Plan<'a> {
        Plan { index, segments, terms, frames: Vec::new(), changes: Changes::default(), results: Vec::new(), length: 0 }
    }

    /// Plans all of a batch. Errors: `Conflict`, `NotFound`.
    pub fn batch(&mut self, prepared: &Prepared<'a>) -> Result<()> {
        let mut puts = prepared.puts.iter();
        for operation in prepared.operations {
            match operation {
                Operation::Put { thread, tag, state, options } => {
                    if let Some(prepared) = puts.next() {
                        self.put(thread, tag, state, options, prepared).map_err(|error| error.with_thread(thread))?;
                    }
                }
                Operation::Delete { thread, id } => self.delete(thread, id.as_ref())?,
                Operation::Attach { .. } => return Err(Error::unsupported("attach")),
            }
        }
        Ok(())
    }

    /// Whether it holds deletes, trims and limits alone, or puts of empty states.
    pub fn without_payload(&self) -> bool {
        self.results.iter().all(|result| !matches!(result, Committed::Put(_)))
    }

    /// Plans a limit of its own for a thread, and the trim that it brings. Errors: `NotFound`.
    pub fn keep(&mut self, thread: &str, keep: Option<u64>) -> Result<()> {
        let Some(current) = self.current(thread) else {
            return Err(Error::new(ErrorKind::NotFound, "there is no such thread").with_thread(thread));
        };
        self.add(Some(current), &Record::Keep { thread, keep }, &[], frame::payload_check(&[]))?;
        self.trim(thread, keep)
    }

    /// Plans the trim that the store's limit brings to a thread, if it has none of its own.
    pub fn trim_to_store(&mut self, thread: &str) -> Result<()> {
        match self.current(thread) {
            Some(view) if view.keep().is_none() => self.trim(thread, self.terms.keep),
            _ => Ok(()),
        }
    }

    /// Plans the trim that a limit brings to a thread, if any.
    fn trim(&mut self, thread: &str, keep: Option<u64>) -> Result<()> {
        let Some(view) = self.current(thread) else { return Ok(()) };
        let floor = view.floor_keeping(keep, None);
        if view.entry(0).is_some_and(|oldest| oldest.place < floor) {
            self.add(Some(view), &Record::Trim { thread, floor }, &[], frame::payload_check(&[]))?;
        }
        Ok(())
    }

    /// Plans what is left of a vacuum's judgements in at most `room` bytes; answers how many threads are
    /// done with, and what goes. A thread that does not fit behind others is left for the next plan;
    /// what of it does not fit even alone, for those after that.
    pub fn vacuum(&mut self, judged: &[Judged], spared: usize, room: u64) -> Result<(usize, Vacuumed)> {
        let mut vacuumed = Vacuumed::default();
        for (done, judged) in judged.iter().enumerate() {
            let Some(current) = self.current(judged.thread()) else { continue };
            let records = judged.records(&current, spared);
            if !self.frames.is_empty() && self.length + records.iter().map(|(record, _)| length_of(record)).sum::<u64>() > room {
                return Ok((done, vacuumed));
            }
            for (record, gone) in records {
                if !self.frames.is_empty() && self.length + length_of(&record) > room {
                    return Ok((done, vacuumed));
                }
                let at = self.frame(&record, &[], frame::payload_check(&[]))?;
                self.changes.take(self.index, &record, at);
                vacuumed.add(gone);
            }
        }
        Ok((judged.len(), vacuumed))
    }

    fn put(&mut self, thread: &str, tag: &TypeTag, state: &'a [u8], options: &PutOptions, prepared: &PreparedPut) -> Result<()> {
        let current = self.current(thread);
        let view = current.as_deref();
        let head = view.and_then(View::head);
        if options.expected_head != ExpectedHead::Any {
            let head = head.map(|head| ids::public(&head.id.to_record())).transpose()?;
            options.expected_head.check(head.as_ref())?;
        }
        let seq = self.terms.next_seq + self.frames.len() as u64;
        let key = IdKey::from(&prepared.id);
        let existing = if options.id.is_some() { view.and_then(|view| view.find(&key).and_then(|at| view.entry(at))) } else { None };
        let parent = self.parent(view, existing, head, &options.parent)?;
        let keep = view.and_then(View::keep).unwrap_or(self.terms.keep);
        let added = if existing.is_some() { None } else { Some(seq) };
        let place = existing.map_or(seq, |entry| entry.place);
        // One that is put again stays, even where a lowered limit has not reached the thread yet.
        let floor = view.map_or(0, |view| view.floor_keeping(keep, added)).min(place);
        let record = Record::Put(Put {
            thread,
            id: key.to_record(),
            place,
            floor,
            saved_at: prepared.saved_at,
            parent: parent.as_ref().map(IdKey::to_record),
            tag: tag.as_str(),
            metadata: options.metadata.to_stored(),
            state_len: state.len() as u32,
        });
        self.add(current.clone(), &record, state, prepared.payload_check)?;
        self.results.push(Committed::Put(prepared.id.clone()));
        Ok(())
    }

    fn delete(&mut self, thread: &str, id: Option<&CheckpointId>) -> Result<()> {
        let current = self.current(thread);
        let record = match (&current, id) {
            (None, _) => None,
            (Some(_), None) => Some(Record::DeleteThread { thread }),
            (Some(view), Some(id)) => {
                let entry = view.find(&IdKey::from(id)).and_then(|at| view.entry(at));
                // The last one ends the thread, and says so: its floor and limit end with it.
                // Where something could not be read there may be others.
                let last = view.len() == 1 && self.terms.is_whole;
                entry.map(
                    |entry| if last { Record::DeleteThread { thread } } else { Record::DeleteCheckpoint { thread, place: entry.place } },
                )
            }
        };
        if let Some(record) = &record {
            self.add(current.clone(), record, &[], frame::payload_check(&[]))?;
        }
        self.results.push(Committed::Deleted { existed: record.is_some() });
        Ok(())
    }

    /// The id that a put names as its parent. One that replaces another keeps that one's.
    fn parent(&self, view: Option<&View>, existing: Option<&Entry>, head: Option<&Entry>, asked: &Parent) -> Result<Option<IdKey>> {
        let asked = match asked {
            Parent::Head => head.map(|entry| entry.id.clone()),
            Parent::Root => None,
            Parent::Id(id) => {
                let key = IdKey::from(id);
                if view.and_then(|view| view.find(&key)).is_none() {
                    return Err(Error::new(ErrorKind::NotFound, format!("the parent {id} is not in the thread")));
                }
                Some(key)
            }
        };
        match (view, existing) {
            (Some(view), Some(entry)) => Ok(self.parent_of(view, entry)),
            _ => Ok(asked),
        }
    }

    /// The parent that a checkpoint names, which this very plan may be about to write. That of a
    /// record which cannot be read any more is not known to anybody.
    fn parent_of(&self, view: &View, entry: &Entry) -> Option<IdKey> {
        let planned = u64::from(entry.at.segment) == self.terms.segment && entry.at.offset() >= self.terms.start;
        if !planned {
            return read::info(&self.segments, view, entry).ok().and_then(|info| info.parent.as_ref().map(IdKey::from));
        }
        let at = self.frames.binary_search_by_key(&entry.at.offset(), |frame| frame.offset).ok()?;
        match Record::decode(&self.frames[at].record) {
            Ok(Record::Put(put)) => put.parent.as_ref().map(IdKey::of_record),
            _ => None,
        }
    }

    /// The thread as the next operation must see it.
    fn current(&mut self, thread: &str) -> Option<Arc<View>> {
        self.changes.current(self.index, thread)
    }

    /// Adds a record to a thread that stands as `current`.
    fn add(&mut self, current: Option<Arc<View>>, record: &Record<'_>, payload: &'a [u8], payload_check: u32) -> Result<()> {
        let at = self.frame(record, payload, payload_check)?;
        self.changes.apply(current, record, at);
        Ok(())
    }

    /// Adds a record's frame; what it changes is for the caller to note.
    fn frame(&mut self, record: &Record<'_>, payload: &'a [u8], payload_check: u32) -> Result<Location> {
        let mut bytes = Vec::with_capacity(192);
        record.encode(&mut bytes);
        let length = frame_len(bytes.len(), payload.len() as u64);
        let at = examine::locate(self.terms.segment, self.terms.start + self.length, length)?;
        self.frames.push(Planned { record: bytes, payload, payload_check, offset: self.terms.start + self.length });
        self.length += length;
        Ok(at)
    }
}

/// How long the frame of a record without a payload is.
fn length_of(record: &Record<'_>) -> u64 {
    let mut bytes = Vec::with_capacity(192);
    record.encode(&mut bytes);
    frame_len(bytes.len(), 0)
}
