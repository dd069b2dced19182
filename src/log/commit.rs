//! Carrying out a batch: plan and append in the turn, then make it as durable as asked.

use super::Shared;
use super::group::answer;
use super::install::install;
use super::plan::{Plan, Prepared};
use super::turn::Held;
use crate::batch::{Batch, Committed, Durability, Operation};
use crate::checkpoint::{ID_BYTES_MAX, TAG_BYTES_MAX, check_thread};
use crate::error::Result;
use crate::format::frame::HEAD_BYTES;
use crate::query::ThreadQuery;

/// How many threads are trimmed in one turn when the store's limit is lowered.
const TRIMS_PER_TURN: usize = 256;

impl Shared {
    /// Carries out a batch. Blocks until it is durable as asked, and visible.
    pub(super) fn commit(&self, batch: &Batch<'_>) -> Result<Vec<Committed>> {
        batch.check(self.options.state_bytes_max)?;
        if batch.operations().is_empty() {
            return Ok(Vec::new());
        }
        let prepared = Prepared::new(batch, &*self.directory.fs)?;
        let durability = self.durability(batch);
        if length_at_most(&prepared) > self.options.segment_bytes / 4 {
            return self.commit_large(&prepared);
        }
        self.write(durability, |plan| plan.batch(&prepared))
    }

    /// The strongest durability that a put of the batch asks for; that of the handle without any.
    fn durability(&self, batch: &Batch<'_>) -> Durability {
        let mut asked = batch.operations().iter().map(|operation| match operation {
            Operation::Put { options, .. } => options.durability.unwrap_or(self.options.durability),
            _ => self.options.durability,
        });
        if asked.any(|durability| durability == Durability::Sync) { Durability::Sync } else { Durability::Buffered }
    }

    /// Plans and appends in one turn. The plan is made again if a new segment has to be begun.
    pub(super) fn write<'a>(&'a self, durability: Durability, make: impl Fn(&mut Plan<'a>) -> Result<()>) -> Result<Vec<Committed>> {
        let mut turn = self.turn()?;
        let planned = |turn: &Held<'_>| {
            let mut plan = Plan::new(&self.index, self.segments.load_full(), turn.terms());
            make(&mut plan).map(|()| plan)
        };
        let mut plan = planned(&turn);
        if plan.as_ref().is_ok_and(|plan| !turn.has_room(plan.length, plan.without_payload())) {
            turn.rotate(self)?;
            plan = planned(&turn);
        }
        let plan = match plan {
            Ok(plan) if !plan.frames.is_empty() => plan,
            answer => return self.without_a_write(turn, answer),
        };
        let (start, end) = turn.append(self, &plan)?;
        if durability == Durability::Buffered && self.tail.visible() == start {
            // Nothing before it waits for a sync, so it may be seen as soon as it is written.
            self.index.publish(start);
            self.index.show_at_once(&plan.changes);
            self.tail.raise_appended(end);
            self.tail.raise_visible(end);
            return Ok(plan.results);
        }
        self.index.append(end, plan.changes);
        self.tail.raise_appended(end);
        drop(turn);
        self.group.sync_to(&self.tail, &self.index, end)?;
        Ok(plan.results)
    }

    /// The answer of a plan that is refused or has nothing to write. It may rest on a step that is
    /// not yet synced, and is not given before that step is kept.
    pub(super) fn without_a_write(&self, turn: Held<'_>, answer: Result<Plan<'_>>) -> Result<Vec<Committed>> {
        let rests_on = turn.active.position(turn.active.end);
        drop(turn);
        if self.index.has_overlay() {
            self.group.sync_to(&self.tail, &self.index, rests_on)?;
        }
        answer.map(|plan| plan.results)
    }

    /// Gives one thread a limit of its own.
    pub(super) fn retain_thread(&self, thread: &str, keep: Option<u64>) -> Result<()> {
        check_thread(thread)?;
        self.write(Durability::Sync, |plan| plan.keep(thread, keep)).map(|_| ())
    }

    /// Changes the store's limit, and trims every thread that is longer.
    ///
    /// CRASH: the manifest comes first, then the trims; killed in between, some threads are longer
    /// than the limit, which the next opener finishes (step 9).
    pub(super) fn retain_all(&self, keep: Option<u64>) -> Result<()> {
        {
            let mut turn = self.turn()?;
            let mut manifest = turn.manifest.clone();
            manifest.max_history = keep.unwrap_or(0);
            manifest.seq_floor = turn.next_seq;
            install(&self.directory, &self.tail, &mut manifest).map_err(|error| answer(&self.tail, error))?;
            turn.manifest = manifest;
            // What was put under the old limit must show before the threads are counted.
            self.group.sync_to(&self.tail, &self.index, turn.active.position(turn.active.end))?;
        }
        self.trim_all(keep)
    }

    /// Trims every thread that is longer than the store's limit and has none of its own.
    pub(super) fn trim_all(&self, keep: Option<u64>) -> Result<()> {
        let Some(limit) = keep else { return Ok(()) };
        let mut views = self.index.list(&ThreadQuery::default());
        views.retain(|view| view.keep().is_none() && view.len() as u64 > limit);
        let mut left = &views[..];
        while !left.is_empty() {
            // As many at once as fit into any segment.
            let room = self.options.segment_bytes as usize / 4;
            let sums = left.iter().scan(0, |sum, view| {
                *sum += frame_around(view.thread());
                Some(*sum)
            });
            let (now, later) = left.split_at(sums.take(TRIMS_PER_TURN).take_while(|&sum| sum <= room).count().max(1));
            self.write(Durability::Sync, |plan| now.iter().try_for_each(|view| plan.trim_to_store(view.thread(), keep)))?;
            left = later;
        }
        Ok(())
    }
}

/// The most that a batch takes up in the log: what is not large by this fits into any segment.
fn length_at_most(prepared: &Prepared<'_>) -> u64 {
    let bytes = |operation: &Operation<'_>| {
        let (thread, rest) = match operation {
            Operation::Put { thread, state, options, .. } => (thread, state.len() + options.metadata.as_str().len()),
            Operation::Attach { thread, value, .. } => (thread, value.len()),
            Operation::Delete { thread, .. } => (thread, 0),
        };
        (frame_around(thread) + rest) as u64
    };
    prepared.operations.iter().map(bytes).sum()
}

/// The most that a frame takes up beside state and metadata: head, numbers, two ids, tag, padding.
fn frame_around(thread: &str) -> usize {
    HEAD_BYTES + 64 + 2 * ID_BYTES_MAX + TAG_BYTES_MAX + 16 + thread.len()
}
