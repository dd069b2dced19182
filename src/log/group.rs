//! Group commit: one sync for all who wait for one.
//!
//! Whoever finds its end not yet synced, and nobody syncing, syncs for everyone whose bytes are
//! appended by then; the others wait for the result. Where several workers put at once, the one who
//! syncs first gives those whom the last sync released a moment to append again: else two groups
//! take turns, each half as large. What is synced becomes visible, so no reader acts on a step that a
//! power cut could take back. A failed sync is never tried again: it poisons.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::index::Index;
use super::tail::Tail;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::File;

/// The part of a sync's time that is given to others to join it.
const PATIENCE: u32 = 4;

/// And no more than this, however long a sync took.
const PATIENCE_MAX: Duration = Duration::from_millis(2);

/// Who syncs, and what.
#[derive(Debug)]
pub(crate) struct Group {
    state: Mutex<State>,
    done: Condvar,
}

#[derive(Debug)]
struct State {
    /// Someone is syncing.
    led: bool,
    /// How many wait for it.
    waiting: usize,
    /// How many were there when the last sync ended: those who synced, and waited, together.
    company: usize,
    /// How long the last sync took.
    took: Duration,
    /// The file that holds every unsynced byte: the active segment.
    /// `None` for a read-only handle, which never asks.
    file: Option<Arc<dyn File>>,
}

impl Group {
    /// A group that syncs this file; none for a read-only handle.
    pub fn new(file: Option<Arc<dyn File>>) -> Group {
        Group { state: Mutex::new(State { led: false, waiting: 0, company: 1, took: Duration::ZERO, file }), done: Condvar::new() }
    }

    /// Another segment is active from now on. In the turn, with everything before it synced.
    pub fn set_file(&self, file: Arc<dyn File>) {
        self.state().file = Some(file);
    }

    /// Returns once everything up to `end` is synced and visible. Errors: `Poisoned`.
    pub fn sync_to(&self, tail: &Tail, index: &Index, end: u64) -> Result<()> {
        let mut state = self.state();
        loop {
            // The synced end first, then the mark: a sync that failed has not moved the end.
            let synced = tail.synced();
            if tail.is_poisoned() {
                return Err(poisoned());
            }
            if synced >= end {
                drop(state);
                index.publish(synced);
                return Ok(());
            }
            if !state.led {
                break;
            }
            state.waiting += 1;
            state = self.done.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
        state.led = true;
        let (company, patience) = (state.company, (state.took / PATIENCE).min(PATIENCE_MAX));
        drop(state);
        self.wait_for(company, patience);
        let lead = Lead { group: self, tail, start: Instant::now() };
        // The appended end before the file: if another segment becomes active in between, all up to
        // that end was synced by who sealed the old one.
        let appended = tail.appended();
        let file = self.state().file.clone();
        let result = file.map_or(Ok(()), |file| sync(&*file, tail, appended));
        if result.is_ok() {
            index.publish(appended);
        }
        drop(lead);
        result
    }

    /// Lets others append until as many wait as the last time, or the patience is at an end.
    fn wait_for(&self, company: usize, patience: Duration) {
        if company < 2 {
            return;
        }
        let start = Instant::now();
        while self.state().waiting + 1 < company && start.elapsed() < patience {
            std::thread::yield_now();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Syncing for all, until it is dropped. One that panics poisons: how far it came is unknown.
struct Lead<'a> {
    group: &'a Group,
    tail: &'a Tail,
    start: Instant,
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        if self.tail.is_syncing() {
            self.tail.poison();
        }
        let mut state = self.group.state();
        state.led = false;
        state.company = state.waiting + 1;
        state.took = self.start.elapsed();
        let waiting = state.waiting;
        // Woken with the lock held they would only wait for it.
        drop(state);
        if waiting > 0 {
            self.group.done.notify_all();
        }
    }
}

fn sync(file: &dyn File, tail: &Tail, appended: u64) -> Result<()> {
    // CRASH: killed before the mark is cleared, the next opener takes the unclean path; whether the
    // sync succeeded is then read from the log itself, never from a second sync.
    tail.set_syncing(true);
    if let Err(error) = file.sync() {
        tail.poison();
        return Err(poisoned().with_source(error));
    }
    tail.raise_synced(appended);
    tail.raise_visible(appended);
    tail.set_syncing(false);
    Ok(())
}

/// What a write answers that failed with `error`: `Poisoned` if that poisoned the store.
pub(crate) fn answer(tail: &Tail, error: Error) -> Error {
    if tail.is_poisoned() && error.kind() != ErrorKind::Poisoned { poisoned().with_source(error) } else { error }
}

/// The answer to every write after a failed one.
pub(crate) fn poisoned() -> Error {
    let message = "a write or sync of this store failed, and what the disk holds is unknown: close it and open it again";
    Error::new(ErrorKind::Poisoned, message)
}
