//! Group commit: one sync for all who wait for one, in this process and in others.
//!
//! Whoever finds its end not yet synced, and nobody syncing, syncs for everyone whose bytes are
//! appended by then; the others wait for the news. Where several put at once, the one who syncs
//! first gives those whom the last sync released a moment to append again: else two groups take
//! turns, each half as large. What is synced becomes visible, so no reader acts on a step that a
//! power cut could take back. A failed sync is never tried again: it poisons.
//!
//! `sync.lock` is an economy and not a right: who waits for a holder that does not move on (it may
//! be stopped) syncs by itself.

use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use super::Shared;
use super::follow::went_backwards;
use super::tail::{Tail, poisoned};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::Lock;
use crate::plant::planted;
use crate::told;

/// Others are given as long as the last sync took to join the next one, and no more than this.
const PATIENCE_MAX: Duration = Duration::from_millis(2);

/// How long news are waited for before looking again: a syncer that died tells none.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// After how many syncs' time, and at least how long, a syncer that does not move on is passed by.
const STUCK_SYNCS: u32 = 8;
const STUCK_MIN: Duration = Duration::from_millis(20);

/// Who syncs.
#[derive(Debug)]
pub(crate) struct Group {
    /// Held by the worker that syncs for this process: two syncs on one descriptor would tell only
    /// one of them of an error.
    leading: Mutex<Led>,
    /// Held by the process that syncs for all; `None` where there are no others.
    lock: Option<Arc<dyn Lock>>,
}

/// What this process remembers from sync to sync.
#[derive(Debug, Default)]
struct Led {
    /// How long the last sync took.
    took: Duration,
    /// The leader that was passed by because it did not move on.
    stuck: Option<u64>,
}

/// How a sync ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Synced {
    /// All up to the end asked for is kept.
    Kept,
    /// A syncer died before this process had the segment open, so a sync from here would not tell
    /// whether that one failed: what is not proven has to be written anew.
    InDoubt,
}

/// What came of trying to sync for all.
enum Tried {
    /// It was done, or is not needed any more.
    Done,
    /// Another process is at it.
    Led,
    InDoubt,
}

/// The leader that a worker waits for, and since when it has not moved on.
struct Waiting {
    leader: u64,
    since: Instant,
}

impl Group {
    /// A group of this process and those that share the lock.
    pub fn new(lock: Option<Arc<dyn Lock>>) -> Group {
        Group { leading: Mutex::default(), lock }
    }

    /// Returns once everything up to `end` is synced and visible, or that cannot be had from here.
    ///
    /// Errors: `Poisoned`; `Corrupt` and `Io` where a newer manifest or segment cannot be read.
    pub fn sync_to(&self, shared: &Shared, end: u64) -> Result<Synced> {
        let tail = &shared.tail;
        let mut waiting = Waiting { leader: tail.leader(), since: Instant::now() };
        loop {
            // Before the look at the end: what comes in between is news.
            let news = tail.news();
            if tail.is_kept(end, shared.epoch)? {
                return Ok(Synced::Kept);
            }
            if let Some(led) = self.lead() {
                match self.try_sync(shared, led, end, &waiting)? {
                    Tried::Done => continue,
                    Tried::InDoubt => return Ok(Synced::InDoubt),
                    Tried::Led => {}
                }
            }
            if tail.leader() != waiting.leader {
                waiting = Waiting { leader: tail.leader(), since: Instant::now() };
            }
            tail.wait_for_news(news, LOOK_AGAIN);
        }
    }

    /// The right to sync for this process, if nobody has it.
    fn lead(&self) -> Option<MutexGuard<'_, Led>> {
        match self.leading.try_lock() {
            Ok(led) => Some(led),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn try_sync(&self, shared: &Shared, mut led: MutexGuard<'_, Led>, end: u64, waiting: &Waiting) -> Result<Tried> {
        let tail = &shared.tail;
        // Where the lock cannot even be asked for, everyone syncs by itself.
        let held = self.lock.as_ref().is_some_and(|lock| lock.try_exclusive().unwrap_or(false));
        let passing = self.lock.is_some() && !held;
        if passing {
            let stuck_after = (led.took * STUCK_SYNCS).max(STUCK_MIN);
            if led.stuck != Some(tail.leader()) && (tail.leader() != waiting.leader || waiting.since.elapsed() < stuck_after) {
                return Ok(Tried::Led);
            }
            led.stuck = Some(tail.leader());
        } else {
            led.stuck = None;
        }
        let mut lead = Lead { group: self, shared, held, passing, unfinished: true };
        let tried = lead.sync(&mut led, end);
        lead.unfinished = false;
        drop(lead);
        drop(led);
        tail.announce();
        tried
    }
}

/// Syncing for all, until it is dropped. One that panics poisons: how far it came is unknown.
struct Lead<'a> {
    group: &'a Group,
    shared: &'a Shared,
    held: bool,
    /// Others may be syncing at the same time.
    passing: bool,
    unfinished: bool,
}

impl Lead<'_> {
    fn sync(&mut self, led: &mut Led, end: u64) -> Result<Tried> {
        let (shared, tail) = (self.shared, &self.shared.tail);
        if self.held {
            self.wait_for_company(led.took);
        }
        let (covered, _) = tail.company();
        let counted = tail.durable();
        // The appended end before the generation: if no newer one is installed than that whose active
        // segment we have open, all that is not yet synced up to that end stands in there.
        let (appended, target) = loop {
            let appended = tail.appended();
            let target = shared.follower.sync_target();
            if target.generation >= tail.generation() {
                break (appended, target);
            }
            if tail.is_kept(end, shared.epoch)? {
                return Ok(Tried::Done);
            }
            shared.follow_to(appended)?;
        };
        if tail.is_kept(end, shared.epoch)? {
            return Ok(Tried::Done);
        }
        if appended < end {
            return Err(went_backwards(shared));
        }
        if target.opened_at > tail.syncs_proven() {
            return Ok(Tried::InDoubt);
        }
        if target.generation > tail.generation() {
            // CRASH: who installs it may not have made its name last, and a power cut leave the one before.
            shared.directory.sync().inspect_err(|_| tail.poison(shared.epoch)).map_err(|error| answer(tail, shared.epoch, error))?;
        }
        // CRASH: killed from here to `end_sync`, the sync is counted as begun and not as proven. An
        // older descriptor's next sync tells what became of it; who has none writes anew.
        let number = tail.begin_sync(self.passing);
        if self.held {
            tail.set_leader(number);
        }
        let start = Instant::now();
        let sync = || if planted!("no-sync") { Ok(()) } else { target.file.sync() };
        if let Err(error) = sync().or_else(|error| if planted!("sync-tried-again") { sync() } else { Err(error) }) {
            tail.poison(shared.epoch);
            tail.is_over(self.passing);
            return Err(poisoned().with_source(error));
        }
        led.took = start.elapsed();
        told::synced(appended.saturating_sub(tail.synced()), led.took);
        // CRASH: synced and not yet said; nobody was answered, and the next sync says it.
        tail.end_sync(number, appended, self.passing);
        if self.held {
            tail.set_company(counted, counted.wrapping_sub(covered));
        }
        Ok(Tried::Done)
    }

    /// Lets others append until as many wait as the last time, or the patience is at an end.
    fn wait_for_company(&self, took: Duration) {
        let tail = &self.shared.tail;
        let (covered, company) = tail.company();
        let patience = took.min(PATIENCE_MAX);
        let start = Instant::now();
        while tail.durable().wrapping_sub(covered) < company && start.elapsed() < patience {
            std::thread::yield_now();
        }
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        if self.unfinished {
            self.shared.tail.poison(self.shared.epoch);
        }
        if let (true, Some(lock)) = (self.held, &self.group.lock) {
            // What cannot be given up here is given up with the handle; others pass it by.
            let _ = lock.unlock();
        }
    }
}

/// What a write answers that failed with `error`: `Poisoned` if that poisoned the store.
pub(crate) fn answer(tail: &Tail, epoch: u64, error: Error) -> Error {
    if tail.is_poisoned(epoch) && error.kind() != ErrorKind::Poisoned { poisoned().with_source(error) } else { error }
}
