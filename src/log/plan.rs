//! From a batch to records: what each operation means, given the threads as they are appended.
//!
//! Made in the turn, before a byte is written, so that a refused operation leaves nothing. Each
//! operation sees what the ones before it in the batch did. Decides; does no I/O but reading back a
//! record that is replaced.

use std::sync::Arc;

use super::changes::Changes;
use super::encode::{Base, Form};
use super::examine;
use super::ids::{self, IdKey};
use super::index::Index;
use super::location::Location;
use super::promote::Promotion;
use super::read;
use super::segments::SegmentSet;
use super::vacuum::Judged;
use super::view::{Entry, View};
use crate::batch::{Batch, Committed, ExpectedHead, Operation, Parent, PutOptions, nanos_of, nanos_of_clock};
use crate::checkpoint::{CheckpointId, TypeTag};
use crate::error::{Error, ErrorKind, Result};
use crate::format::frame::{self, frame_len};
use crate::format::record::{Coding, Difference, Followed, Put, Record};
use crate::fs::Fs;
use crate::plant::planted;
use crate::query::Vacuumed;

/// A batch with all that can be worked out before the turn.
pub(crate) struct Prepared<'a> {
    pub operations: &'a [Operation<'a>],
    names: &'a [Name],
    pub forms: Vec<Form<'a>>,
}

/// A put's id and time.
pub(crate) struct Name {
    id: CheckpointId,
    saved_at: i64,
}

/// The ids and times of a batch's puts, in their order. Errors: `Unsupported` for attachments.
pub(crate) fn names(batch: &Batch<'_>, fs: &dyn Fs) -> Result<Vec<Name>> {
    let mut names = Vec::with_capacity(batch.operations().len());
    for operation in batch.operations() {
        match operation {
            Operation::Put { options, .. } => names.push(Name {
                id: options.id.clone().unwrap_or_else(CheckpointId::fresh),
                saved_at: options.saved_at.map_or_else(|| Ok(nanos_of_clock(fs.now())), nanos_of)?,
            }),
            Operation::Attach { .. } => return Err(Error::unsupported("attach")),
            Operation::Delete { .. } => {}
        }
    }
    Ok(names)
}

impl<'a> Prepared<'a> {
    /// A batch's puts under their names and in their forms.
    pub fn new(batch: &'a Batch<'a>, names: &'a [Name], forms: Vec<Form<'a>>) -> Prepared<'a> {
        Prepared { operations: batch.operations(), names, forms }
    }
}

/// A put of a batch.
struct Putting<'a> {
    thread: &'a str,
    tag: &'a TypeTag,
    state_len: u32,
    options: &'a PutOptions,
    name: &'a Name,
    form: &'a Form<'a>,
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
    /// Where the puts stand, in their order.
    pub placed: Vec<(u64, Location)>,
    /// Whether a put is a difference from what is not its thread's newest any more: nothing of the plan
    /// is to be written then.
    pub is_stale: bool,
    /// The frames' length together.
    pub length: u64,
}

impl<'a> Plan<'a> {
    /// An empty plan.
    pub fn new(index: &'a Index, segments: Arc<SegmentSet>, terms: Terms) -> Plan<'a> {
        let (frames, results, placed) = (Vec::new(), Vec::new(), Vec::new());
        Plan { index, segments, terms, frames, changes: Changes::default(), results, placed, is_stale: false, length: 0 }
    }

    /// Plans all of a batch. Errors: `Conflict`, `NotFound`.
    pub fn batch(&mut self, prepared: &'a Prepared<'a>) -> Result<()> {
        let mut puts = prepared.names.iter().zip(&prepared.forms);
        for operation in prepared.operations {
            match operation {
                Operation::Put { thread, tag, state, options } => {
                    if let Some((name, form)) = puts.next() {
                        let put = Putting { thread, tag, state_len: state.len() as u32, options, name, form };
                        self.put(put).map_err(|error| error.with_thread(thread))?;
                    }
                    if self.is_stale {
                        break;
                    }
                }
                Operation::Delete { thread, id } => self.delete(thread, id.as_ref())?,
                Operation::Attach { .. } => return Err(Error::unsupported("attach")),
            }
        }
        Ok(())
    }

    /// Whether it holds deletes, trims and limits alone, which may use the room that is kept for them.
    pub fn without_payload(&self) -> bool {
        self.results.iter().all(|result| !matches!(result, Committed::Put(_))) && self.frames.iter().all(|frame| frame.payload.is_empty())
    }

    /// Plans checkpoints anew, whole, as far as they are still shown as the deltas that they were. Not by who
    /// could not read all of the log: what was deleted or put again there would come back.
    pub fn promote(&mut self, promotions: &'a [Promotion]) -> Result<()> {
        if !self.terms.is_whole {
            return Ok(());
        }
        for Promotion { view, entry, saved_at, parent, tag, metadata, form } in promotions {
            let thread = &**view.thread();
            let Some(current) = self.current(thread).filter(|current| current.at_place(entry.place) == Some(entry)) else { continue };
            let record = Record::Promote(Put {
                thread,
                id: entry.id.to_record(),
                place: entry.place,
                floor: current.floor().min(entry.place),
                saved_at: *saved_at,
                parent: Followed::of(parent.as_ref().map(IdKey::to_record)),
                tag,
                metadata,
                state_len: entry.state_len.bytes(),
                coding: form.coding,
            });
            self.add(Some(current), &record, &form.payload, form.payload_check)?;
        }
        Ok(())
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

    fn put(&mut self, put: Putting<'a>) -> Result<()> {
        let Putting { thread, tag, state_len, options, name, form } = put;
        let current = self.current(thread);
        let view = current.as_deref();
        let head = view.and_then(View::head);
        if options.expected_head != ExpectedHead::Any {
            let head = head.map(|head| ids::public(&head.id.to_record())).transpose()?;
            options.expected_head.check(head.as_ref())?;
        }
        let seq = self.terms.next_seq + self.frames.len() as u64;
        let key = IdKey::from(&name.id);
        let existing = if options.id.is_some() { view.and_then(|view| view.find(&key).and_then(|at| view.entry(at))) } else { None };
        let parent = self.parent(view, existing, head, &options.parent)?;
        // Where something could not be read, others may know of a checkpoint between the two.
        let may_follow = existing.is_none() && self.terms.is_whole;
        let base = head.filter(|head| may_follow && form.base.is_some_and(|base| self.is_base(base, head)));
        self.is_stale = form.base.is_some() && base.is_none();
        if self.is_stale {
            return Ok(());
        }
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
            saved_at: name.saved_at,
            parent: match base {
                Some(base) if parent.as_ref() == Some(&base.id) => Followed::Base,
                _ => Followed::of(parent.as_ref().map(IdKey::to_record)),
            },
            tag: tag.as_str(),
            metadata: options.metadata.to_stored(),
            state_len,
            coding: match (form.coding, base) {
                (Coding::Delta(difference), Some(base)) => Coding::Delta(Difference { base: base.place, ..difference }),
                (coding, _) => coding,
            },
        });
        let at = self.add(current.clone(), &record, &form.payload, form.payload_check)?;
        self.placed.push((place, at));
        self.results.push(Committed::Put(name.id.clone()));
        Ok(())
    }

    /// Whether a thread's newest checkpoint is the one that a put is a difference from.
    fn is_base(&self, base: Base, head: &Entry) -> bool {
        let meant = match base {
            Base::Entry(place, at) => Some((place, at)),
            Base::Put(number) => self.placed.get(number).copied(),
        };
        planted!("base-not-checked") || meant == Some((head.place, head.at))
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
        let record = Record::decode(&self.frames[at].record).ok()?;
        read::parent(record.put()?, view)
    }

    /// The thread as the next operation must see it.
    fn current(&mut self, thread: &str) -> Option<Arc<View>> {
        self.changes.current(self.index, thread)
    }

    /// Adds a record to a thread that stands as `current`.
    fn add(&mut self, current: Option<Arc<View>>, record: &Record<'_>, payload: &'a [u8], payload_check: u32) -> Result<Location> {
        let at = self.frame(record, payload, payload_check)?;
        self.changes.apply(current, record, at);
        Ok(at)
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
