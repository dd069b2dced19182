//! Deleting by age, idle time or count: judged beside the writers, carried out in the turn.
//!
//! The judgement reads records, so it is made outside the turn, on one moment's views. In the turn each
//! thread is held against its view as it was judged: what was put meanwhile, also in the place of a
//! checkpoint that was there, stays, and with it a thread that was idle. Decides nothing about ages:
//! that is `VacuumQuery`'s, for every backend alike.

use std::cell::Cell;
use std::sync::Arc;

use arc_swap::Guard;

use super::Shared;
use super::read;
use super::segments::SegmentSet;
use super::view::{Entry, View};
use crate::error::{Error, ErrorKind, Result};
use crate::format::record::Record;
use crate::query::{ThreadQuery, VacuumQuery, Vacuumed, Verdict};

/// How many threads are carried out in one turn, where so many fit.
const THREADS_PER_TURN: usize = 256;

/// A thread of which something goes, as it was when that was judged.
pub(crate) struct Judged {
    view: Arc<View>,
    verdict: Verdict,
}

impl Judged {
    /// The thread's id.
    pub fn thread(&self) -> &str {
        self.view.thread()
    }

    /// What still goes, as records, each with what it deletes: given the thread as it is appended, and how
    /// many newest of it are spared.
    ///
    /// What was written anew meanwhile looks like one that was put again, and stays for the next vacuum.
    pub fn records(&self, current: &View, spared: usize) -> Vec<(Record<'_>, Vacuumed)> {
        match &self.verdict {
            Verdict::Whole => {
                // A put into its middle is new life too.
                let idle = current.head() == self.view.head() && unchanged(current.entries(), self.view.entries()).count() == current.len();
                let whole = (Record::DeleteThread { thread: self.thread() }, self.verdict.count(current.len()));
                if idle { vec![whole] } else { Vec::new() }
            }
            Verdict::Checkpoints(going) => self.checkpoints(current, going, spared),
        }
    }

    /// The oldest that go one after the other are trimmed, the others deleted one by one.
    fn checkpoints(&self, current: &View, going: &[usize], spared: usize) -> Vec<(Record<'_>, Vacuumed)> {
        let thread = self.thread();
        let gone = |checkpoints: usize| Vacuumed { checkpoints: checkpoints as u64, threads: 0 };
        let candidates = current.entries().take(current.len().saturating_sub(spared));
        let judged = going.iter().filter_map(|&index| self.view.entry(index));
        let places: Vec<u64> = unchanged(candidates, judged).map(|entry| entry.place).collect();
        let oldest = current.entries().zip(&places).take_while(|(entry, place)| entry.place == **place).count();
        let stays = current.entry(oldest).filter(|_| oldest > 0);
        let trim = stays.map(|stays| (Record::Trim { thread, floor: stays.place }, gone(oldest)));
        let deletes = places[oldest..].iter().map(|&place| (Record::DeleteCheckpoint { thread, place }, gone(1)));
        trim.into_iter().chain(deletes).collect()
    }
}

/// Those of `current` that are among the judged as they were: same place, same frame. Both ascend.
fn unchanged<'a>(current: impl Iterator<Item = &'a Entry>, judged: impl Iterator<Item = &'a Entry>) -> impl Iterator<Item = &'a Entry> {
    let mut judged = judged.peekable();
    current.filter(move |entry| {
        while judged.next_if(|judged| judged.place < entry.place).is_some() {}
        judged.peek() == Some(entry)
    })
}

impl Shared {
    /// Deletes what a query asks for, or counts it.
    ///
    /// CRASH: killed between two turns, some threads are done; the next vacuum does the others.
    pub(super) fn vacuum(&self, query: &VacuumQuery) -> Result<Vacuumed> {
        query.check()?;
        if !query.dry_run {
            self.right_to_write()?;
        }
        if let (Some(_), Some(path)) = (query.idle, &self.gaps.load().unreadable) {
            let message = "a segment cannot be read and may hold newer checkpoints, so no thread is known to be idle: see verify";
            return Err(Error::new(ErrorKind::Corrupt, message).with_file(path, None));
        }
        let now = self.directory.fs.now();
        let (views, segments) = self.at_one_moment(|| self.vacuumed_views(query))?;
        let segments: Arc<SegmentSet> = Guard::into_inner(segments);
        let mut vacuumed = Vacuumed::default();
        let mut waiting = Vec::new();
        for view in views {
            let saved_at = |index| match view.entry(index) {
                Some(entry) => read::info(&segments, &view, entry).map(|info| info.saved_at),
                None => Ok(now),
            };
            let verdict = query.judge(view.len(), now, saved_at)?;
            let count = verdict.count(view.len());
            if query.dry_run {
                vacuumed.add(count);
            } else if count.checkpoints > 0 {
                waiting.push(Judged { view, verdict });
            }
            if waiting.len() == THREADS_PER_TURN {
                vacuumed.add(self.carry_out(&std::mem::take(&mut waiting), query.spared())?);
            }
        }
        vacuumed.add(self.carry_out(&waiting, query.spared())?);
        Ok(vacuumed)
    }

    fn vacuumed_views(&self, query: &VacuumQuery) -> Result<Vec<Arc<View>>> {
        if let Some(thread) = &query.thread {
            return Ok(self.view(thread)?.into_iter().collect());
        }
        self.at_home()?;
        self.refresh()?;
        Ok(self.index.list(&ThreadQuery::default()))
    }

    /// Deletes what was judged, as many threads in one turn as fit into any segment.
    fn carry_out(&self, judged: &[Judged], spared: usize) -> Result<Vacuumed> {
        let (mut left, mut vacuumed) = (judged, Vacuumed::default());
        while !left.is_empty() {
            // Set, not added to: a turn that rotates plans twice.
            let planned = Cell::new((0, Vacuumed::default()));
            self.write(self.options.durability, |plan| {
                planned.set(plan.vacuum(left, spared, self.options.segment_bytes / 4)?);
                Ok(())
            })?;
            let (done, deleted) = planned.get();
            left = &left[done..];
            vacuumed.add(deleted);
        }
        Ok(vacuumed)
    }
}
