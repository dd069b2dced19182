//! Branching: a thread's checkpoints once more under another name, or without the newest of them.
//!
//! A branch is read before the turn, as it is stored: a delta stays the delta that it is, for what it
//! differs from is copied directly before it; only one that needs what is shown no more is written
//! whole. In the turn it counts if the thread still is what was read, else it is read again; where others
//! are always quicker, at last in the turn. The records are puts like any others, so a branch needs nothing
//! of its source from then on, and a log with branches is read by who knows of none.
//!
//! CRASH: all of it is one batch: killed or cut anywhere, all of it is there or nothing.

use std::sync::Arc;

use super::Shared;
use super::attached::Attached;
use super::commit::frame_around;
use super::encode::Form;
use super::ids::IdKey;
use super::large;
use super::read;
use super::segments::SegmentSet;
use super::turn::Held;
use super::view::{Entry, View};
use crate::batch::nanos_of;
use crate::branch::{check_names, no_checkpoint, no_thread};
use crate::checkpoint::{CheckpointId, CheckpointInfo, StateBytes, TypeTag, check_thread};
use crate::error::{Error, ErrorKind, Result};
use crate::format::record::Coding;

/// So often a branch is read while nobody waits, before it is read in the turn.
const TRIES: usize = 4;

/// What becomes of a thread that is branched from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// It stays as it is.
    Stays,
    /// It ends: all that it has goes on under the new name.
    Ends,
}

/// A thread's checkpoints up to one of them, as they are to be written under another name.
pub(super) struct Branch {
    /// The thread when this was read.
    pub view: Arc<View>,
    /// What was under the new name: nothing, or what waits for its checkpoint.
    pub there: Option<Arc<View>>,
    /// Oldest first; never empty.
    pub steps: Vec<Step>,
    /// What waits under the new name, for it counts as newer than the branch; what is attached to the steps; and in
    /// a branch of all of the thread what waits there.
    pub values: Vec<Value>,
}

/// A checkpoint, as it is stored.
pub(super) struct Step {
    pub info: CheckpointInfo,
    pub saved_at: i64,
    /// A delta's base is the step before it.
    pub coding: Coding,
    pub payload: StateBytes,
    pub payload_check: u32,
}

/// A value that is attached.
pub(super) struct Value {
    /// The step that it is attached to; `None` for one whose checkpoint is yet to come.
    pub step: Option<usize>,
    pub id: IdKey,
    pub key: String,
    pub tag: TypeTag,
    pub value_len: u32,
    pub form: Form<'static>,
}

impl Shared {
    /// Writes a thread's checkpoints up to `at` under another name; answers the newest one's id.
    ///
    /// Errors: `NotFound`, `Conflict`; `Corrupt` where not all of it can be read; what a write answers.
    pub(super) fn branch(&self, thread: &str, at: Option<&CheckpointId>, new: &str, source: Source) -> Result<CheckpointId> {
        check_names(thread, new)?;
        for _ in 0..TRIES {
            let branch = self.read_branch(thread, at, new)?;
            if self.write_branch(self.turn()?, &branch, new, source, large::TRIES)? {
                return Ok(branch.head());
            }
        }
        // Others were quicker each time: this once they wait.
        let turn = self.turn()?;
        let branch = self.read_branch(thread, at, new)?;
        match self.write_branch(turn, &branch, new, source, 0)? {
            true => Ok(branch.head()),
            false => Err(Error::new(ErrorKind::Busy, "the thread was moved while it was copied: try again").with_thread(thread)),
        }
    }

    /// Answers whether it was written: not where the thread is not what was read any more.
    fn write_branch(&self, turn: Held<'_>, branch: &Branch, new: &str, source: Source, tries: usize) -> Result<bool> {
        let written = if branch.length_at_most(new) > self.options.segment_bytes / 4 {
            self.write_large_in(turn, tries, |plan| plan.branch(branch, new, source))?
        } else {
            self.write_in(turn, self.options.durability, |plan| plan.branch(branch, new, source))?
        };
        Ok(written.is_some())
    }

    fn read_branch(&self, thread: &str, at: Option<&CheckpointId>, new: &str) -> Result<Branch> {
        self.follow_to(self.tail.appended())?;
        let ((view, there), segments) = self.at_one_moment(|| Ok((self.index.appended(thread), self.index.appended(new))))?;
        let Some(view) = view.filter(|view| view.len() > 0) else {
            self.absent(thread)?;
            return Err(no_thread(thread));
        };
        let last = match at {
            None => view.len() - 1,
            Some(id) => match view.find(&IdKey::from(id)) {
                Some(found) => found,
                None => return self.absent(thread).and(Err(no_checkpoint(thread, id))),
            },
        };
        let steps = view.entries().take(last + 1).enumerate();
        let steps = steps.map(|(number, entry)| self.step(&segments, &view, number, entry)).collect::<Result<Vec<_>>>()?;
        let mut values = Vec::new();
        if let Some(there) = there.as_ref().filter(|there| there.len() == 0) {
            let waits = |one: &&Attached| view.find(&one.id).is_none_or(|at| at > last);
            values.extend(there.attached().iter().filter(waits).map(|one| self.value(&segments, there, one, None)));
        }
        for one in view.attached().iter().filter(|one| view.shows(one)) {
            let step = if one.is_awaiting { None } else { view.find(&one.id) };
            if step.map_or(last + 1 == view.len(), |step| step <= last) {
                values.push(self.value(&segments, &view, one, step));
            }
        }
        Ok(Branch { view, there, steps, values: values.into_iter().collect::<Result<_>>()? })
    }

    fn step(&self, segments: &SegmentSet, view: &View, number: usize, entry: &Entry) -> Result<Step> {
        let (frame, info) = read::frame(segments, view, entry)?;
        let saved_at = nanos_of(info.saved_at)?;
        let before = number.checked_sub(1).and_then(|before| view.entry(before));
        if let Coding::Delta(difference) = frame.coding
            && !before.is_some_and(|before| before.place == difference.base && !view.hides(difference.base))
        {
            let state = self.states(segments).checkpoint(view, entry)?.state;
            let Form { payload, payload_check, coding, .. } = Form::whole(&state, 0, self.options.compression);
            return Ok(Step { info, saved_at, coding, payload: payload.into_owned().into(), payload_check });
        }
        let (coding, payload_check) = (frame.coding, frame.head.payload_check);
        Ok(Step { info, saved_at, coding, payload: frame.payload(view, entry)?, payload_check })
    }

    fn value(&self, segments: &SegmentSet, view: &View, one: &Attached, step: Option<usize>) -> Result<Value> {
        let attachment = read::attachment(segments, view, one)?;
        let form = Form::whole(&attachment.value, 0, self.options.compression).into_owned();
        let (id, value_len) = (one.id.clone(), attachment.value.len() as u32);
        Ok(Value { step, id, key: attachment.key, tag: attachment.tag, value_len, form })
    }

    /// Deletes all checkpoints of a thread that are newer than `to`; answers how many.
    ///
    /// Errors: `NotFound`; `Corrupt` where not all of the log can be read; what a write answers.
    pub(super) fn rollback(&self, thread: &str, to: &CheckpointId) -> Result<u64> {
        check_thread(thread)?;
        let turn = self.turn()?;
        let newer = self.index.appended(thread).map_or(0, |view| view.len());
        let is_large = newer as u64 * frame_around(thread) as u64 > self.options.segment_bytes / 4;
        let written = match is_large {
            true => self.write_large_in(turn, 0, |plan| plan.rollback(thread, to))?,
            false => self.write_in(turn, self.options.durability, |plan| plan.rollback(thread, to))?,
        };
        Ok(written.map_or(0, |written| written.results.len() as u64))
    }
}

impl Branch {
    /// The id of the newest checkpoint.
    pub fn head(&self) -> CheckpointId {
        self.steps[self.steps.len() - 1].info.id.clone()
    }

    /// Whether all of the thread is in it.
    fn is_whole(&self) -> bool {
        self.steps.len() == self.view.len()
    }

    /// Whether a thread still is what was read (all of it, or all up to the newest that is branched), and what
    /// stands under the new name too.
    pub fn is_of(&self, view: &View, there: Option<&View>) -> bool {
        if there != self.there.as_deref() || view.keep() != self.view.keep() {
            return false;
        }
        if self.is_whole() {
            return *self.view == *view;
        }
        let count = self.steps.len();
        let below = |view: &View| view.entry(count).map_or(0, |entry| entry.place);
        let attached = |view: &'_ View| {
            let below = below(view);
            view.attached()
                .iter()
                .filter(|one| !one.is_awaiting && one.place < below && view.shows(one))
                .cloned()
                .collect::<Vec<Attached>>()
        };
        (0..count).all(|at| view.entry(at) == self.view.entry(at)) && view.len() > count && attached(view) == attached(&self.view)
    }

    /// The most that it takes up in the log.
    fn length_at_most(&self, new: &str) -> u64 {
        let around = frame_around(new);
        let steps = self.steps.iter().map(|step| around + step.info.metadata.as_str().len() + step.payload.len());
        let values = self.values.iter().map(|value| around + value.key.len() + value.form.payload.len());
        // A waiting value may bind to each step; a limit, a trim, the source's end.
        let marks = around * (self.steps.len() + 3) + frame_around(self.view.thread());
        (steps.chain(values).sum::<usize>() + marks) as u64
    }
}
