//! The turn: one writer at a time appends at the end of the log, of all workers of all processes.
//!
//! First the workers of this process line up, then the processes, at `write.lock`. Waiting is
//! bounded and ends in `Busy`, before anything was written; the lock dies with its holder. A holder
//! that panics poisons the store: how far it came is unknown. What the holder works on is a copy of
//! what this process knows of the log, brought up to date when the turn is taken.

use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Shared;
use super::active::Active;
use super::locks::{busy, refused};
use super::tail::Tail;
use crate::error::{Error, ErrorKind, Result};
use crate::format::manifest::Manifest;
use crate::fs::Lock;
use crate::plant::planted;

/// How long a turn that is not given back is waited for before looking again: who dies in it tells
/// nobody.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// How long a process that gave the turn back leaves it to those who were waiting for it.
const GIVE_WAY: Duration = Duration::from_micros(200);

/// So little may be left to be taken in during the turn, and so often it is tried to come that near.
const NEARLY_ALL: u64 = 64 * 1024;
const CATCH_UPS: usize = 8;

/// The turn.
#[derive(Debug)]
pub(crate) struct Turn {
    desk: Mutex<Desk>,
    free: Condvar,
    /// What the processes take in turn; `None` for one that is alone.
    lock: Option<(Arc<dyn Lock>, PathBuf)>,
}

#[derive(Debug, Default)]
struct Desk {
    taken: bool,
    waiting: usize,
    /// When this process last gave the turn back to others that wanted it, and how often it had been
    /// given back by then.
    gave_way: Option<(Instant, u64)>,
}

impl Turn {
    /// The turn that goes with a lock and its path.
    pub fn new(lock: Option<(Arc<dyn Lock>, PathBuf)>) -> Turn {
        Turn { desk: Mutex::default(), free: Condvar::new(), lock }
    }

    /// Whether other processes take it too.
    pub fn is_shared(&self) -> bool {
        self.lock.is_some()
    }

    /// Takes the right to append. Waits at most `timeout`, then `Busy`.
    pub fn take<'a>(&'a self, tail: &'a Tail, epoch: u64, timeout: Duration) -> Result<Right<'a>> {
        let mut start = None;
        let left = |start: &mut Option<Instant>| timeout.saturating_sub(start.get_or_insert_with(Instant::now).elapsed());
        let mut desk = self.desk();
        while desk.taken {
            let left = left(&mut start);
            if left.is_zero() {
                let message = format!(
                    "another worker of this process has been writing for {timeout:?}; nothing was written: put again, or raise busy_timeout"
                );
                return Err(Error::new(ErrorKind::Busy, message));
            }
            desk.waiting += 1;
            desk = self.free.wait_timeout(desk, left).unwrap_or_else(PoisonError::into_inner).0;
            desk.waiting -= 1;
        }
        desk.taken = true;
        let gave_way = desk.gave_way.take();
        drop(desk);
        let mut right = Right { turn: self, tail, epoch, locked: false, unwinding: std::thread::panicking() };
        if let Some((lock, path)) = &self.lock {
            give_way(tail, gave_way);
            loop {
                // Before the try: a turn that is given back in between is not waited for.
                let seen = tail.turns();
                right.locked = planted!("turn-not-locked") || lock.try_exclusive().map_err(|error| refused(error, path))?;
                if right.locked {
                    break;
                }
                let left = left(&mut start);
                if left.is_zero() {
                    return Err(busy(&**lock, path, "has been writing", timeout));
                }
                tail.want_turn(seen);
                tail.wait_for_turn(seen, left.min(LOOK_AGAIN));
            }
        }
        Ok(right)
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Leaves the turn to those who were waiting for it when this process gave it back: woken, they need
/// a moment, and one that puts without syncing would be back before them every time.
fn give_way(tail: &Tail, gave_way: Option<(Instant, u64)>) {
    let Some((when, turns)) = gave_way else { return };
    while tail.turns() == turns {
        let left = GIVE_WAY.saturating_sub(when.elapsed());
        if left.is_zero() {
            return;
        }
        tail.wait_for_turn(turns, left);
    }
}

/// The right to append; given back when dropped.
pub(crate) struct Right<'a> {
    turn: &'a Turn,
    tail: &'a Tail,
    epoch: u64,
    locked: bool,
    /// The worker was panicking when it took the turn: a put made while unwinding is like any other.
    unwinding: bool,
}

impl Drop for Right<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.unwinding {
            self.tail.poison(self.epoch);
        }
        let mut gave_way = None;
        if let (true, Some((lock, _))) = (self.locked, &self.turn.lock) {
            // What cannot be given up now is given up after the next turn, or with the handle.
            let _ = lock.unlock();
            if self.tail.turn_is_free() {
                gave_way = Some((Instant::now(), self.tail.turns()));
            }
        }
        let mut desk = self.turn.desk();
        desk.taken = false;
        desk.gave_way = gave_way;
        let waiting = desk.waiting;
        drop(desk);
        if waiting > 0 {
            self.turn.free.notify_one();
        }
    }
}

/// What the holder of the turn works on.
#[derive(Debug)]
pub(crate) struct Writer {
    pub manifest: Arc<Manifest>,
    pub active: Active,
    /// Up to where an unfinished write left bytes that there was no room to wipe; 0 without any.
    pub unwiped: u64,
}

/// The turn while it is held, with what its holder works on.
pub(crate) struct Held<'a> {
    writer: Writer,
    _right: Right<'a>,
}

impl Deref for Held<'_> {
    type Target = Writer;
    fn deref(&self) -> &Writer {
        &self.writer
    }
}

impl DerefMut for Held<'_> {
    fn deref_mut(&mut self) -> &mut Writer {
        &mut self.writer
    }
}

impl Shared {
    /// What a handle that writes has. Errors: `ReadOnly`.
    pub(super) fn right_to_write(&self) -> Result<&Turn> {
        let message = "the store was opened read-only: open it without read_only(true) to write";
        self.turn.as_ref().ok_or_else(|| Error::new(ErrorKind::ReadOnly, message).with_file(&self.directory.path, None))
    }

    /// Takes the turn, up to date with all that others appended.
    ///
    /// Errors: `ReadOnly`, `Poisoned`, `Busy`; `Corrupt` where what others appended cannot be read.
    pub(super) fn turn(&self) -> Result<Held<'_>> {
        let turn = self.right_to_write()?;
        self.at_home()?;
        // Nearly all of what others appended is read before anyone is kept waiting for it.
        for _ in 0..CATCH_UPS {
            let appended = self.tail.appended();
            self.follow_to(appended)?;
            if self.tail.appended().saturating_sub(appended) < NEARLY_ALL {
                break;
            }
        }
        let right = turn.take(&self.tail, self.epoch, self.options.busy_timeout)?;
        let writer = self.up_to_date()?;
        Ok(Held { writer, _right: right })
    }
}
