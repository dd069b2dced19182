//! In the place of the crate's `fs/page.rs`: a page of loom's atomics, made anew for every schedule.
//!
//! Its waits have no time-outs, so a wake that is lost is a model that does not end. Its orderings
//! can be weakened, for the controls.

use std::sync::PoisonError;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::{self, Relaxed};
use std::time::Duration;

use loom::sync::{Condvar, Mutex, MutexGuard};

pub(crate) const BYTES: usize = 4096;
/// No more than have a meaning: each costs loom time.
const WORDS: usize = 40;

/// Which orderings hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Orderings {
    /// Those that are asked for.
    Asked,
    /// What is stored releases nothing.
    NoRelease,
    /// What is loaded acquires nothing.
    NoAcquire,
}

static ORDERINGS: AtomicU8 = AtomicU8::new(0);

/// Says which orderings hold from now on.
pub(crate) fn set_orderings(orderings: Orderings) {
    ORDERINGS.store(orderings as u8, Relaxed);
}

fn stored(asked: Ordering) -> Ordering {
    if ORDERINGS.load(Relaxed) == Orderings::NoRelease as u8 { Relaxed } else { asked }
}

fn loaded(asked: Ordering) -> Ordering {
    if ORDERINGS.load(Relaxed) == Orderings::NoAcquire as u8 { Relaxed } else { asked }
}

/// Of what both loads and stores.
fn changed(asked: Ordering) -> Ordering {
    match ORDERINGS.load(Relaxed) {
        weak if weak == Orderings::NoRelease as u8 => Ordering::Acquire,
        weak if weak == Orderings::NoAcquire as u8 => Ordering::Release,
        _ => asked,
    }
}

/// A word.
///
/// Loom looks for another order of two steps from the last access to a word alone, so a load that
/// comes after another worker's would hide that one from it. The gate, stored to before each load,
/// orders nothing and makes every access one that loom tells apart.
#[derive(Debug)]
pub(crate) struct AtomicU64 {
    word: loom::sync::atomic::AtomicU64,
    gate: loom::sync::atomic::AtomicBool,
}

impl AtomicU64 {
    pub fn new(value: u64) -> AtomicU64 {
        AtomicU64 { word: loom::sync::atomic::AtomicU64::new(value), gate: loom::sync::atomic::AtomicBool::new(false) }
    }

    pub fn load(&self, order: Ordering) -> u64 {
        self.gate.store(true, Relaxed);
        self.word.load(loaded(order))
    }

    pub fn store(&self, value: u64, order: Ordering) {
        self.word.store(value, stored(order));
    }

    pub fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
        self.word.fetch_add(value, changed(order))
    }

    pub fn fetch_sub(&self, value: u64, order: Ordering) -> u64 {
        self.word.fetch_sub(value, changed(order))
    }

    pub fn fetch_max(&self, value: u64, order: Ordering) -> u64 {
        self.word.fetch_max(value, changed(order))
    }

    pub fn compare_exchange(&self, current: u64, new: u64, success: Ordering, failure: Ordering) -> Result<u64, u64> {
        self.word.compare_exchange(current, new, changed(success), loaded(failure))
    }

    pub fn fetch_update(&self, set: Ordering, fetch: Ordering, next: impl FnMut(u64) -> Option<u64>) -> Result<u64, u64> {
        self.word.fetch_update(changed(set), loaded(fetch), next)
    }
}

/// Every model has its page.
pub(crate) fn nothing() -> &'static AtomicU64 {
    unreachable!("a model without a page")
}

/// A page, and the system's list of those who wait on its words.
pub(crate) struct SharedPage {
    words: Vec<AtomicU64>,
    waiters: Mutex<()>,
    woken: Condvar,
}

impl SharedPage {
    /// A page of zeros.
    pub fn unshared() -> SharedPage {
        let words = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
        SharedPage { words, waiters: Mutex::new(()), woken: Condvar::new() }
    }

    /// It has no file.
    pub fn inode(&self) -> u64 {
        0
    }

    pub fn word(&self, index: usize) -> &AtomicU64 {
        &self.words[index]
    }

    /// As the system does it: compares, and goes to sleep if equal, with its list locked.
    pub fn wait(&self, index: usize, seen: u64, _: Duration) {
        let waiters = self.waiters();
        if self.words[index].load(Relaxed) as u32 == seen as u32 {
            drop(self.woken.wait(waiters).unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Wakes all; who waits on another word looks again for nothing.
    pub fn wake(&self, _: usize) {
        drop(self.waiters());
        self.woken.notify_all();
    }

    fn waiters(&self) -> MutexGuard<'_, ()> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for SharedPage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SharedPage")
    }
}
