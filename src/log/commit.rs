//! Carrying out a batch: plan and append in the turn, then make it as durable as asked.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::Shared;
use super::group::{Synced, answer};
use super::install::install;
use super::location::Location;
use super::plan::{self, Plan, Prepared};
use super::turn::Held;
use crate::batch::{Batch, Committed, Durability, Operation};
use crate::checkpoint::{ID_BYTES_MAX, TAG_BYTES_MAX, check_thread};
use crate::error::{Error, ErrorKind, Result};
use crate::format::frame::HEAD_BYTES;
use crate::format::manifest::Manifest;
use crate::plant::planted;
use crate::query::ThreadQuery;
use crate::told;

/// How many threads are trimmed in one turn when the store's limit is lowered.
const TRIMS_PER_TURN: usize = 256;

/// What has come of a plan.
pub(super) struct Written {
    /// What each operation has done.
    pub results: Vec<Committed>,
    /// Where the puts stand, in their order.
    pub placed: Vec<(u64, Location)>,
}

impl Shared {
    /// Carries out a batch. Blocks until it is durable as asked, and visible.
    pub(super) fn commit(&self, batch: &Batch<'_>) -> Result<Vec<Committed>> {
        let began = told::began();
        let committed = self.commit_untold(batch)?;
        told::committed(batch, &began);
        Ok(committed)
    }

    fn commit_untold(&self, batch: &Batch<'_>) -> Result<Vec<Committed>> {
        batch.check(self.options.state_bytes_max)?;
        if batch.operations().is_empty() {
            return Ok(Vec::new());
        }
        self.may_write()?;
        let names = plan::names(batch, &*self.directory.fs)?;
        let values = self.values(batch);
        let durability = self.durability(batch);
        // A put whose base has gone is encoded again, and where that goes on, whole: then it needs none.
        let mut tries = if self.options.delta { 2 } else { 0 };
        loop {
            let mut prepared = Prepared::new(batch, &names, self.forms(batch, tries > 0), &values);
            if length_at_most(&prepared) > self.options.segment_bytes / 4 {
                prepared.forms = self.forms(batch, false);
                match self.write_large(|plan| plan.batch(&prepared))? {
                    Some(written) => return Ok(written.results),
                    // Not met: what is a difference from nothing is never stale.
                    None => continue,
                }
            }
            if let Some(written) = self.write(durability, |plan| plan.batch(&prepared))? {
                self.keep_heads(batch, &prepared.forms, &written.placed);
                return Ok(written.results);
            }
            tries -= 1;
        }
    }

    /// The strongest durability that a put of the batch asks for; that of the handle without any.
    fn durability(&self, batch: &Batch<'_>) -> Durability {
        let mut asked = batch.operations().iter().map(|operation| match operation {
            Operation::Put { options, .. } => options.durability.unwrap_or(self.options.durability),
            _ => self.options.durability,
        });
        if asked.any(|durability| durability == Durability::Sync) { Durability::Sync } else { Durability::Buffered }
    }

    /// Plans and appends in one turn. The plan is made again if a new segment has to be begun; one that
    /// is stale is not written, and `None` the answer.
    pub(super) fn write<'a>(&'a self, durability: Durability, make: impl Fn(&mut Plan<'a>) -> Result<()>) -> Result<Option<Written>> {
        self.write_in(self.turn()?, durability, make)
    }

    /// The same in a turn that was taken before.
    pub(super) fn write_in<'a>(
        &'a self,
        mut turn: Held<'_>,
        durability: Durability,
        make: impl Fn(&mut Plan<'a>) -> Result<()>,
    ) -> Result<Option<Written>> {
        let planned = |turn: &Held<'_>| {
            let mut plan = Plan::new(&self.index, self.segments.load_full(), turn.terms(self));
            make(&mut plan).map(|()| plan)
        };
        let mut plan = planned(&turn);
        if plan.as_ref().is_ok_and(|plan| !turn.has_room(plan.length, plan.without_payload())) {
            turn.rotate(self)?;
            plan = planned(&turn);
        }
        let plan = match plan {
            Ok(plan) if plan.is_stale => return Ok(None),
            Ok(plan) if !plan.frames.is_empty() => plan,
            answer => return self.without_a_write(turn, answer).map(Some),
        };
        let (start, end) = turn.append(self, &plan)?;
        // Nothing before a Buffered put waits for a sync: then it may be seen as soon as it is written.
        let asks_no_sync = durability == Durability::Buffered || planted!("acknowledged-unsynced");
        let at_once = asks_no_sync && self.tail.visible() == start;
        let mut reading = self.follower.reading();
        let last_seq = self.tail.next_seq() - 1;
        reading.appended(&turn.active, last_seq);
        self.index.append(end, last_seq, plan.changes.into_list());
        drop(reading);
        // Behind the index: who reads this end, and syncs up to it, finds every view that it shows.
        // CRASH: killed before this, the batch is behind the end and was never there for anyone.
        self.tail.raise_appended(end);
        self.tail.set_writing(if turn.unwiped > end { turn.unwiped } else { 0 });
        if at_once {
            self.tail.raise_visible(end);
            // Behind the page: what one worker of this process has seen, no other process misses.
            self.index.publish(end);
            self.buffered.fetch_max(end, Relaxed);
            return Ok(Some(Written { results: plan.results, placed: plan.placed }));
        }
        self.tail.count_durable();
        drop(turn);
        if planted!("shown-unsynced") {
            self.tail.raise_visible(end);
        }
        self.sync_to(end).map_err(unsaid)?;
        Ok(Some(Written { results: plan.results, placed: plan.placed }))
    }

    /// Returns once everything up to `end` is synced, and shows it.
    ///
    /// Errors: `Poisoned`; `Busy`, `Corrupt`, `DiskFull` and `Io` where what others began cannot be read,
    /// or not be written anew.
    pub(super) fn sync_to(&self, end: u64) -> Result<()> {
        while self.group.sync_to(self, end)? == Synced::InDoubt {
            let mut turn = self.turn()?;
            if !self.tail.is_kept(end, self.epoch)? && self.follower.sync_target().opened_at > self.tail.syncs_proven() {
                turn.write_anew(self)?;
            }
        }
        // What is kept is answered so, whatever else cannot be read: the next read will say it.
        let _ = self.refresh();
        Ok(())
    }

    /// The answer of a plan that is refused or has nothing to write. It may rest on a step that is
    /// not yet synced, and is not given before that step is kept.
    pub(super) fn without_a_write(&self, turn: Held<'_>, answer: Result<Plan<'_>>) -> Result<Written> {
        let rests_on = turn.active.end_position();
        drop(turn);
        if self.tail.visible() < rests_on {
            self.sync_to(rests_on)?;
        }
        answer.map(|plan| Written { results: plan.results, placed: plan.placed })
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
            // CRASH: else the limit could last and a put from before it not.
            turn.sync(self)?;
            let mut manifest = Manifest::clone(&turn.manifest);
            manifest.max_history = keep.unwrap_or(0);
            manifest.seq_floor = self.tail.next_seq();
            self.directory.require_in_force(&manifest)?;
            install(&self.directory, &self.tail, &mut manifest).map_err(|error| answer(&self.tail, self.epoch, error))?;
            self.follower.reading().go_on_in(self, &Arc::new(manifest), Vec::new())?;
        }
        // What was put under the old limit must show before the threads are counted.
        self.sync_to(self.tail.appended())?;
        self.trim_all(keep)
    }

    /// Trims every thread that is longer than the store's limit and has none of its own: than `keep`,
    /// and in its turn than the limit that is in force by then.
    pub(super) fn trim_all(&self, keep: Option<u64>) -> Result<()> {
        let Some(limit) = keep else { return Ok(()) };
        self.refresh()?;
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
            self.write(Durability::Sync, |plan| now.iter().try_for_each(|view| plan.trim_to_store(view.thread())))?;
            left = later;
        }
        Ok(())
    }
}

/// The answer when a batch was appended and then something failed: no other kind may be told, for
/// they all say that nothing was written.
fn unsaid(error: Error) -> Error {
    if error.kind() == ErrorKind::Poisoned {
        return error;
    }
    let message = "it was written, but whether it is kept cannot be said: close the store and open it again to see";
    Error::new(ErrorKind::Poisoned, message).with_source(error)
}

/// The most that a batch takes up in the log, but for what its puts bind, a frame for each at most, and the few
/// orphans that go: what is not large by this fits into any segment with those.
fn length_at_most(prepared: &Prepared<'_>) -> u64 {
    let mut payloads = prepared.forms.iter().map(|form| form.payload.len());
    let mut values = prepared.values.iter().map(|form| form.payload.len());
    let bytes = |operation: &Operation<'_>| {
        let (thread, rest) = match operation {
            Operation::Put { thread, options, .. } => (thread, payloads.next().unwrap_or(0) + options.metadata.as_str().len()),
            Operation::Attach { thread, key, .. } => (thread, values.next().unwrap_or(0) + key.len()),
            Operation::Delete { thread, .. } => (thread, 0),
        };
        (frame_around(thread) + rest) as u64
    };
    prepared.operations.iter().map(bytes).sum()
}

/// The most that a frame takes up beside state and metadata: head, numbers, two ids, tag, padding.
pub(super) fn frame_around(thread: &str) -> usize {
    HEAD_BYTES + 96 + 2 * ID_BYTES_MAX + TAG_BYTES_MAX + 16 + thread.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::frame::frame_len;
    use crate::format::record::{Coding, Difference, Followed, Id, Put, Record};

    #[test]
    fn a_frame_takes_no_more_beside_state_and_metadata_than_is_reckoned_with_and_not_much_less() {
        let (id, tag) = ("i".repeat(ID_BYTES_MAX), "t".repeat(TAG_BYTES_MAX));
        for length in [1, 300, 4096] {
            let thread = "t".repeat(length);
            let difference = Difference { base: 1, base_hash: 2, hash: 3, unpacked_len: 4, is_packed: true };
            let put = Put {
                thread: &thread,
                id: Id::Text(&id),
                place: 2,
                floor: 1,
                saved_at: i64::MAX,
                parent: Followed::Id(Id::Text(&id)),
                tag: &tag,
                metadata: "",
                state_len: 1,
                coding: Coding::Delta(difference),
            };
            let mut record = Vec::new();
            Record::Put(put).encode(&mut record);
            // A payload of a byte is padded to eight.
            let (longest, reckoned) = (frame_len(record.len(), 1), frame_around(&thread) as u64);
            assert!((longest..longest + 80).contains(&reckoned), "{length}: {longest} {reckoned}");
        }
    }
}
