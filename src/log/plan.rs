//! From a batch to records: what each operation means, given the threads as they are appended.
//!
//! Made in the turn, before a byte is written, so that a refused operation leaves nothing. Each
//! operation sees what the ones before it in the batch did. Decides; does no I/O but reading back a
//! record that is replaced.

use std::sync::Arc;

use super::branch::{Asked, Branch, Source, Step};
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
use crate::batch::{Batch, Committed, ExpectedHead, OnExisting, Operation, Parent, PutOptions, nanos_of, nanos_of_clock};
use crate::branch::{no_checkpoint, no_thread, taken};
use crate::checkpoint::{CheckpointId, TypeTag};
use crate::error::{Error, ErrorKind, Result};
use crate::format::frame::{self, frame_len};
use crate::format::record::{Attach, Coding, Difference, Followed, Put, Record};
use crate::fs::Fs;
use crate::plant::planted;
use crate::query::Vacuumed;

/// How many checkpoints that never came one plan lets go of, with what was attached to them: what is left waits
/// for the next one, for a plan has to fit into any segment.
const ORPHANS_PER_PLAN: usize = 4;

/// A batch with all that can be worked out before the turn.
pub(crate) struct Prepared<'a> {
    pub operations: &'a [Operation<'a>],
    names: &'a [Name],
    /// Of the puts, in their order.
    pub forms: Vec<Form<'a>>,
    /// Of what is attached, in its order.
    pub values: &'a [Form<'a>],
}

/// A put's id and time.
pub(crate) struct Name {
    id: CheckpointId,
    saved_at: i64,
}

/// The ids and times of a batch's puts, in their order.
pub(crate) fn names(batch: &Batch<'_>, fs: &dyn Fs) -> Result<Vec<Name>> {
    let mut names = Vec::with_capacity(batch.operations().len());
    for operation in batch.operations() {
        match operation {
            Operation::Put { options, .. } => names.push(Name {
                id: options.id.clone().unwrap_or_else(CheckpointId::fresh),
                saved_at: options.saved_at.map_or_else(|| Ok(nanos_of_clock(fs.now())), nanos_of)?,
            }),
            Operation::Attach { .. } | Operation::Delete { .. } => {}
        }
    }
    Ok(names)
}

impl<'a> Prepared<'a> {
    /// A batch's puts under their names and in their forms, and its values in theirs.
    pub fn new(batch: &'a Batch<'a>, names: &'a [Name], forms: Vec<Form<'a>>, values: &'a [Form<'a>]) -> Prepared<'a> {
        Prepared { operations: batch.operations(), names, forms, values }
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

/// A value of a batch.
struct Attaching<'a> {
    thread: &'a str,
    id: &'a CheckpointId,
    key: &'a str,
    tag: &'a TypeTag,
    value_len: u32,
    on: OnExisting,
    form: &'a Form<'a>,
    /// The most frames up to the last put of the batch behind it.
    behind: u64,
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
    orphans: usize,
    /// The highest number that what is attached is not older than.
    not_older: u64,
}

impl<'a> Plan<'a> {
    /// An empty plan.
    pub fn new(index: &'a Index, segments: Arc<SegmentSet>, terms: Terms) -> Plan<'a> {
        let (frames, results, placed) = (Vec::new(), Vec::new(), Vec::new());
        let (changes, is_stale, length, orphans, not_older) = (Changes::default(), false, 0, 0, 0);
        Plan { index, segments, terms, frames, changes, results, placed, is_stale, length, orphans, not_older }
    }

    /// Plans all of a batch. Errors: `Conflict`, `NotFound`; `Corrupt` where nobody can say whether a key has a value.
    pub fn batch(&mut self, prepared: &'a Prepared<'a>) -> Result<()> {
        let mut puts = prepared.names.iter().zip(&prepared.forms);
        let mut values = prepared.values.iter();
        let last_put = prepared.operations.iter().rposition(|operation| matches!(operation, Operation::Put { .. }));
        for (at, operation) in prepared.operations.iter().enumerate() {
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
                Operation::Attach { thread, id, key, tag, value, on } => {
                    if let Some(form) = values.next() {
                        // A put may bring what binds to it, and what goes.
                        let behind = last_put.filter(|last| *last > at).map_or(0, |last| 2 * (last - at) + ORPHANS_PER_PLAN);
                        let (value_len, behind) = (value.len() as u32, behind as u64);
                        let value = Attaching { thread, id, key, tag, value_len, on: *on, form, behind };
                        self.attach(value).map_err(|error| error.with_thread(thread))?;
                    }
                }
            }
        }
        self.let_all_orphans_go()
    }

    /// What the last operation brings may be what something has waited for.
    fn let_all_orphans_go(&mut self) -> Result<()> {
        let waiting = self.changes.views().filter(|view| view.attached().has_awaiting());
        let threads: Vec<Arc<str>> = waiting.map(|view| view.thread().clone()).collect();
        threads.iter().try_for_each(|thread| self.let_orphans_go(thread))
    }

    /// The number that comes behind all that it uses up, when its first frame has that one.
    pub fn numbers_end(&self, first: u64) -> u64 {
        first.saturating_add(self.frames.len() as u64).max(self.not_older.saturating_add(1))
    }

    /// Whether it holds deletes, trims and limits alone, which may use the room that is kept for them.
    pub fn without_payload(&self) -> bool {
        self.results.iter().all(|result| matches!(result, Committed::Deleted { .. }))
            && self.frames.iter().all(|frame| frame.payload.is_empty())
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

    /// Plans a branch under another name. Stale where the thread is not what was read any more.
    ///
    /// Errors: `NotFound`; `Conflict` where the name is taken; `Corrupt` where not all of the log can be read.
    pub fn branch(&mut self, asked: Asked<'a>, branch: &'a Branch) -> Result<()> {
        let Asked { thread, new, source, .. } = asked;
        let (view, last) = self.point(thread, asked.at)?;
        let there = self.current(new);
        if there.as_ref().is_some_and(|there| there.len() > 0) {
            return Err(taken(new));
        }
        self.is_stale = !branch.is_of(&view, there.as_deref());
        if self.is_stale {
            return Ok(());
        }
        let mut places = Vec::with_capacity(branch.steps.len());
        for step in &branch.steps {
            places.push(self.step(step, new, places.last().copied(), places.len().checked_sub(1).map(|at| &branch.steps[at].info.id))?);
        }
        for value in &branch.values {
            let number = self.terms.next_seq.saturating_add(self.frames.len() as u64);
            let (place, is_awaiting) = value.step.and_then(|step| places.get(step)).map_or((number, true), |place| (*place, false));
            self.not_older = self.not_older.max(place);
            let (id, tag, is_packed) = (value.id.to_record(), value.tag.as_str(), value.form.coding == Coding::Packed);
            let attach =
                Attach { thread: new, id, key: &value.key, tag, number, place, is_awaiting, value_len: value.value_len, is_packed };
            let current = self.current(new);
            self.add(current, &Record::Attach(attach), &value.form.payload, value.form.payload_check)?;
        }
        match view.keep() {
            Some(own) => self.keep(new, own)?,
            None => self.trim_to_store(new)?,
        }
        let head = view.entry(last).map(|head| ids::public(&head.id.to_record())).transpose()?;
        self.results.extend(head.map(Committed::Put));
        if source == Source::Ends {
            self.delete(thread, None)?;
        }
        self.let_all_orphans_go()
    }

    /// Plans a step of a branch, behind the one at the place and with the id `before`; answers its place.
    fn step(&mut self, step: &'a Step, new: &str, before: Option<u64>, before_id: Option<&CheckpointId>) -> Result<u64> {
        let Step { info, saved_at, coding, payload, payload_check } = step;
        let place = self.terms.next_seq.saturating_add(self.frames.len() as u64);
        let (id, parent) = (IdKey::from(&info.id), info.parent.as_ref());
        let coding = match (coding, before) {
            (Coding::Delta(difference), Some(base)) => Coding::Delta(Difference { base, ..*difference }),
            (coding, _) => *coding,
        };
        let parent_key = parent.map(IdKey::from);
        let record = Record::Put(Put {
            thread: new,
            id: id.to_record(),
            place,
            floor: 0,
            saved_at: *saved_at,
            parent: match parent {
                Some(parent) if coding.is_delta() && before_id == Some(parent) => Followed::Base,
                _ => Followed::of(parent_key.as_ref().map(IdKey::to_record)),
            },
            tag: info.tag.as_str(),
            metadata: info.metadata.to_stored(),
            state_len: info.bytes as u32,
            coding,
        });
        let current = self.current(new);
        let has_awaiting = current.as_ref().is_some_and(|view| view.attached().has_awaiting());
        self.add(current, &record, payload, *payload_check)?;
        if has_awaiting {
            self.bind(new, &id, place)?;
        }
        Ok(place)
    }

    /// Plans that everything newer than a checkpoint goes.
    ///
    /// Errors: `NotFound`; `Corrupt` where not all of the log can be read.
    pub fn rollback(&mut self, thread: &str, to: &CheckpointId) -> Result<()> {
        let (view, newest) = self.point(thread, Some(to))?;
        for entry in view.entries().skip(newest + 1) {
            let record = Record::DeleteCheckpoint { thread, place: entry.place };
            let at = self.frame(&record, &[], frame::payload_check(&[]))?;
            self.changes.take(self.index, &record, at);
            self.results.push(Committed::Deleted { existed: true });
        }
        Ok(())
    }

    /// A thread, and where in it a checkpoint stands (None: the newest). Errors: `NotFound`; `Corrupt` where the thread may
    /// have more than it shows.
    fn point(&mut self, thread: &str, id: Option<&CheckpointId>) -> Result<(Arc<View>, usize)> {
        if !self.terms.is_whole {
            let message = "a segment cannot be read and may hold more of the thread; nothing was written: see verify";
            return Err(Error::new(ErrorKind::Corrupt, message).with_thread(thread));
        }
        let Some(view) = self.current(thread).filter(|view| view.len() > 0) else { return Err(no_thread(thread)) };
        let found = view.point(id).ok_or_else(|| id.map_or_else(|| no_thread(thread), |id| no_checkpoint(thread, id)))?;
        Ok((view, found))
    }

    /// Plans a limit of its own for a thread, and the trim that it brings. Errors: `NotFound`.
    pub fn keep(&mut self, thread: &str, keep: Option<u64>) -> Result<()> {
        let Some(current) = self.current(thread).filter(|current| current.len() > 0) else {
            return Err(Error::new(ErrorKind::NotFound, "there is no such thread").with_thread(thread));
        };
        self.mark(current, &Record::Keep { thread, keep })?;
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
            self.mark(view, &Record::Trim { thread, floor })?;
            self.let_orphans_go(thread)?;
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
            if current.attached().has_awaiting() {
                self.let_orphans_go(judged.thread())?;
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
        if view.is_some_and(|view| view.attached().has_awaiting()) {
            self.bind(thread, &key, place)?;
        }
        Ok(())
    }

    /// Plans what binds to a checkpoint that has come what was attached to it before.
    fn bind(&mut self, thread: &str, id: &IdKey, place: u64) -> Result<()> {
        let Some(view) = self.current(thread) else { return Ok(()) };
        let newest = view.attached().of_id(id).filter(|one| one.is_awaiting).map(|one| one.number).max();
        if let Some(number) = newest {
            self.mark(view, &Record::Bind { thread, id: id.to_record(), number, place })?;
        }
        Ok(())
    }

    /// Plans that what can have no checkpoint any more goes: what waits for one, and is older than the oldest
    /// that the thread keeps. Not by who could not read all of the log: its checkpoint may be there.
    fn let_orphans_go(&mut self, thread: &str) -> Result<()> {
        let Some(view) = self.current(thread).filter(|view| self.terms.is_whole && view.attached().has_awaiting()) else { return Ok(()) };
        let Some(oldest) = view.entry(0).map(|oldest| oldest.place) else { return Ok(()) };
        if !view.attached().may_be_below(oldest, true) {
            return Ok(());
        }
        let mut orphans: Vec<(&IdKey, u64)> = Vec::new();
        for one in view.attached().iter().filter(|one| one.is_awaiting && one.place < oldest) {
            let count = self.orphans + orphans.len();
            match orphans.last_mut() {
                Some((id, number)) if **id == one.id => *number = one.number.max(*number),
                _ if count == ORPHANS_PER_PLAN => break,
                _ => orphans.push((&one.id, one.number)),
            }
        }
        self.orphans += orphans.len();
        for (id, number) in orphans {
            // Damage may have taken what bound it to a checkpoint that is there.
            let its = view.find(id).and_then(|at| view.entry(at));
            match (its, self.current(thread)) {
                (Some(its), _) => self.bind(thread, id, its.place)?,
                (None, Some(current)) => self.mark(current, &Record::Detach { thread, id: id.to_record(), number })?,
                (None, None) => {}
            }
        }
        Ok(())
    }

    fn attach(&mut self, attaching: Attaching<'a>) -> Result<()> {
        let Attaching { thread, id, key, tag, value_len, on, form, behind } = attaching;
        let (current, id) = (self.current(thread), IdKey::from(id));
        let view = current.as_deref();
        let is_there = view.is_some_and(|view| view.attached().find(&id, key).is_some_and(|one| view.shows(one)));
        let written = !is_there || on == OnExisting::Replace;
        if on == OnExisting::Keep && !is_there && !self.terms.is_whole {
            let message =
                "a segment cannot be read and may hold a value of that key, so nobody can say whether this is the first: see verify";
            return Err(Error::new(ErrorKind::Corrupt, message));
        }
        if written {
            let number = self.terms.next_seq.saturating_add(self.frames.len() as u64);
            let checkpoint = view.and_then(|view| view.entry(view.find(&id)?));
            // Without its checkpoint it is no older than the last put of the batch, and older than all to come.
            let (place, is_awaiting) = checkpoint.map_or((number.saturating_add(behind), true), |entry| (entry.place, false));
            self.not_older = self.not_older.max(place);
            let (tag, is_packed) = (tag.as_str(), form.coding == Coding::Packed);
            let id = id.to_record();
            let record = Record::Attach(Attach { thread, id, key, tag, number, place, is_awaiting, value_len, is_packed });
            self.add(current.clone(), &record, &form.payload, form.payload_check)?;
        }
        self.results.push(Committed::Attached { written });
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
        let Some(view) = self.current(thread) else {
            self.results.push(Committed::Deleted { existed: false });
            return Ok(());
        };
        let id = id.map(IdKey::from);
        let (existed, record) = match &id {
            None => (view.len() > 0, Some(Record::DeleteThread { thread })),
            Some(id) => match view.find(id).and_then(|at| view.entry(at)) {
                // The last one ends the thread, and says so: its floor and limit end with it, and all that is attached.
                // Where something could not be read there may be others.
                Some(_) if view.len() == 1 && self.terms.is_whole => (true, Some(Record::DeleteThread { thread })),
                Some(entry) => (true, Some(Record::DeleteCheckpoint { thread, place: entry.place })),
                None => {
                    let newest = view.attached().of_id(id).map(|one| one.number).max();
                    (false, newest.map(|number| Record::Detach { thread, id: id.to_record(), number }))
                }
            },
        };
        if let Some(record) = record {
            self.mark(view, &record)?;
        }
        // Who could not read all of the log may have attached to it as to one that is yet to come.
        if let (true, Some(id), Some(view)) = (existed, &id, self.current(thread)) {
            let newest = view.attached().of_id(id).filter(|one| one.is_awaiting).map(|one| one.number).max();
            newest.map_or(Ok(()), |number| self.mark(view.clone(), &Record::Detach { thread, id: id.to_record(), number }))?;
        }
        self.results.push(Committed::Deleted { existed });
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

    /// Adds a record without a payload to a thread that stands as `current`.
    fn mark(&mut self, current: Arc<View>, record: &Record<'_>) -> Result<()> {
        self.add(Some(current), record, &[], frame::payload_check(&[])).map(|_| ())
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
