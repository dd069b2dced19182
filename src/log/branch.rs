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
use crate::batch::{Committed, nanos_of};
use crate::branch::check_names;
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

/// What is branched from, up to where, and under which name.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub thread: &'a str,
    /// None for the newest checkpoint.
    pub at: Option<&'a CheckpointId>,
    pub new: &'a str,
    pub source: Source,
}

/// A thread's checkpoints up to one of them, as they are to be written under another name.
///
/// Where that is to be refused there is none: the refusal is the plan's, and rests on what is kept.
#[derive(Default)]
pub(super) struct Branch {
    /// The thread when this was read.
    view: Option<Arc<View>>,
    /// What was under the new name: nothing, or what waits for its checkpoint.
    there: Option<Arc<View>>,
    /// Oldest first.
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
    /// Writes a thread's checkpoints up to a point under another name; answers the newest one's id.
    ///
    /// Errors: `NotFound`, `Conflict`; `Corrupt` where not all of it can be read; what a write answers.
    pub(super) fn branch(&self, asked: Asked<'_>) -> Result<CheckpointId> {
        check_names(asked.thread, asked.new)?;
        self.may_write()?;
        for _ in 0..TRIES {
            let branch = self.read_branch(asked)?;
            if let Some(head) = self.write_branch(self.turn()?, &branch, asked, large::TRIES)? {
                return Ok(head);
            }
        }
        // Others were quicker each time: this once they wait.
        let turn = self.turn()?;
        let branch = self.read_branch(asked)?;
        let moved = || Error::new(ErrorKind::Busy, "the thread was moved while it was copied: try again").with_thread(asked.thread);
        self.write_branch(turn, &branch, asked, 0)?.ok_or_else(moved)
    }

    /// Answers the newest checkpoint's id; `None` where the thread is not what was read any more.
    fn write_branch(&self, turn: Held<'_>, branch: &Branch, asked: Asked<'_>, tries: usize) -> Result<Option<CheckpointId>> {
        let written = if branch.length_at_most(asked) > self.options.segment_bytes / 4 {
            self.write_large_in(turn, tries, |plan| plan.branch(asked, branch))?
        } else {
            self.write_in(turn, self.options.durability, |plan| plan.branch(asked, branch))?
        };
        let head = |result| if let Committed::Put(id) = result { Some(id) } else { None };
        Ok(written.and_then(|written| written.results.into_iter().find_map(head)))
    }

    fn read_branch(&self, asked: Asked<'_>) -> Result<Branch> {
        self.follow_to(self.tail.appended())?;
        let look = || Ok((self.index.appended(asked.thread), self.index.appended(asked.new)));
        let ((view, there), segments) = self.at_one_moment(look)?;
        let is_taken = there.as_ref().is_some_and(|there| there.len() > 0);
        let last = view.as_ref().filter(|_| !is_taken).and_then(|view| view.point(asked.at));
        let (Some(source), Some(last)) = (view.clone(), last) else { return Ok(Branch { view, there, ..Branch::default() }) };
        let steps = source.entries().take(last + 1).enumerate();
        let steps = steps.map(|(number, entry)| self.step(&segments, &source, number, entry)).collect::<Result<Vec<_>>>()?;
        let mut values = Vec::new();
        if let Some(there) = &there {
            let waits = |one: &&Attached| source.find(&one.id).is_none_or(|at| at > last);
            values.extend(there.attached().iter().filter(waits).map(|one| self.value(&segments, there, one, None)));
        }
        for one in source.attached().iter().filter(|one| source.shows(one)) {
            let step = if one.is_awaiting { None } else { source.find(&one.id) };
            if step.map_or(last + 1 == source.len(), |step| step <= last) {
                values.push(self.value(&segments, &source, one, step));
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
    /// Whether a thread still is what was read (all of it, or all up to the newest that is branched), and what
    /// stands under the new name too.
    pub fn is_of(&self, view: &Arc<View>, there: Option<&View>) -> bool {
        let Some(own) = &self.view else { return false };
        if there != self.there.as_deref() || self.steps.is_empty() {
            return false;
        }
        let count = self.steps.len();
        if Arc::ptr_eq(own, view) {
            return true;
        }
        if count == own.len() {
            return own == view;
        }
        let below = |view: &View| view.entry(count).map_or(0, |entry| entry.place);
        let attached = |view: &View| -> Vec<Attached> {
            let below = below(view);
            let is_of_a_step = |one: &&Attached| !one.is_awaiting && one.place < below && view.shows(one);
            view.attached().iter().filter(is_of_a_step).cloned().collect()
        };
        let has_steps = view.len() > count && (0..count).all(|at| view.entry(at) == own.entry(at));
        has_steps && view.keep() == own.keep() && attached(view) == attached(own)
    }

    /// The most that it takes up in the log.
    fn length_at_most(&self, asked: Asked<'_>) -> u64 {
        let around = frame_around(asked.new);
        let steps = self.steps.iter().map(|step| around + step.info.metadata.as_str().len() + step.payload.len());
        let values = self.values.iter().map(|value| around + value.key.len() + value.form.payload.len());
        // A waiting value may bind to each step; a limit, a trim, the source's end.
        let marks = around * (self.steps.len() + 3) + frame_around(asked.thread);
        (steps.chain(values).sum::<usize>() + marks) as u64
    }
}
