//! Keeping house: when to compact, by whom, how fast.
//!
//! In the background by default: a put that finds enough dead bytes, or a sealed segment without a
//! hint, starts a worker, which writes hints, compacts step by step and ends. Where that does not keep
//! up, because processes live too short for it or write too fast, a put that finds twice as much does
//! one step itself. Who compacts holds `compact.lock`; whoever finds it taken leaves it to the other.

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::Shared;
use super::compact::{Pass, Replaced, Shares};
use super::hints;
use super::locks::{self, Held};
use super::runs::{self, Wanted};
use crate::error::{Error, ErrorKind, Result};
use crate::format::manifest::Manifest;
use crate::format::names;
use crate::fs::Lock;
use crate::fs::fork::Home;
use crate::report::Compacted;

/// How long a put waits at most for a step that another one does, where very much is dead.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long to wait between two tries for the right to compact.
const PAUSE: Duration = Duration::from_millis(5);

/// Compaction writes at most so many bytes a second: puts beside it wait for the same device.
const BYTES_PER_SECOND: u64 = 100_000_000;

/// What a handle knows of its segments' sizes, for the look that every put takes.
#[derive(Debug, Default)]
pub(crate) struct Sizes {
    /// The bytes of frames in sealed segments.
    sealed: AtomicU64,
    many_small: AtomicBool,
    /// The newest sealed segment, and that up to which all are known to have hints, by number.
    newest_sealed: AtomicU64,
    hinted: AtomicU64,
    /// The generation in which compacting found nothing worth it, and what was dead then.
    settled_in: AtomicU64,
    settled_dead: AtomicU64,
    /// The generation in which a put has waited in vain for a step of somebody else.
    waited_in: AtomicU64,
    /// One worker of this handle at a time; with the segments that were looked at and left as they are.
    compacting: Mutex<HashSet<u64>>,
}

/// How much there is to be reclaimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Need {
    None,
    /// Enough for a worker in the background.
    Some,
    /// So much that a put does a step itself.
    Much,
}

/// The right to compact, in this process and among all; given up when dropped.
pub(crate) struct RightToCompact<'a> {
    /// The numbers of segments that were looked at and left as they are, or have just been written.
    pub settled: MutexGuard<'a, HashSet<u64>>,
    _lock: Option<Held>,
}

impl Sizes {
    /// The sizes of the segments that a manifest lists; `unhinted` if some are known to lack hints.
    pub fn new(manifest: &Manifest, usual: u64, unhinted: bool) -> Sizes {
        let sizes = Sizes::default();
        sizes.note(manifest, usual);
        if !unhinted {
            sizes.hinted.store(sizes.newest_sealed.load(Relaxed), Relaxed);
        }
        sizes
    }

    /// Notes a newer manifest.
    pub fn note(&self, manifest: &Manifest, usual: u64) {
        let sealed = manifest.segments.iter().filter(|listed| listed.end != 0);
        let newest = sealed.clone().filter(|listed| !listed.compacted).map(|listed| listed.number).max();
        self.newest_sealed.store(newest.unwrap_or(0), Relaxed);
        let used = sealed.map(|listed| listed.end - u64::from(listed.first_frame));
        self.sealed.store(used.clone().sum(), Relaxed);
        self.many_small.store(runs::are_many_small(used, usual), Relaxed);
    }
}

impl Shared {
    /// Reclaims all that is dead, by hand: what is wholly dead first, then the active segment is sealed if
    /// anything in it is dead, and then all runs from the oldest on.
    pub(super) fn compact(&self) -> Result<Compacted> {
        self.right_to_write()?;
        self.at_home()?;
        let pace = paced(None);
        let mut right = self.right_to_compact()?;
        right.settled.clear();
        let mut pass = Pass::begin(self, right, &pace, true)?;
        let (mut sum, mut from) = (Compacted::default(), 0);
        let mut count = |replaced: &Replaced| {
            sum.segments += replaced.segments;
            sum.bytes += replaced.bytes;
        };
        // On a full disk this makes room for the rest.
        while let Some(replaced) = pass.step(Wanted::Dead)? {
            count(&replaced);
        }
        pass.promote_all()?;
        let upto = self.seal_what_is_worth_it(pass.packs())?;
        while let Some(replaced) = pass.step(Wanted::Next(from, upto))? {
            count(&replaced);
            from = replaced.end;
        }
        if let Some(error) = pass.unpromoted.filter(|_| self.index.moment().views.iter().any(|view| !view.hidden().is_empty())) {
            return Err(error);
        }
        if let Some(path) = pass.damaged {
            let message =
                "a segment that is damaged was left as it is, and all else is reclaimed: see verify, and repair for what can be read";
            return Err(Error::new(ErrorKind::Corrupt, message).with_file(&path, None));
        }
        Ok(sum)
    }

    /// Seals the active segment if anything in it is dead, or much of it may be packed; answers the position
    /// of the active one then.
    fn seal_what_is_worth_it(&self, packs: bool) -> Result<u64> {
        self.refresh()?;
        let (moment, number) = (self.index.moment(), self.follower.reading().active.segment.number);
        let Shares { live, packable } = Shares::of(&moment).remove(&number).unwrap_or_default();
        let mut turn = self.turn()?;
        if turn.active.end > turn.active.segment.first_frame + live || packs && packable > live / 4 {
            turn.rotate(self).or_else(|error| match error.kind() {
                // What is kept behind the end for deletes makes room for another segment.
                ErrorKind::DiskFull => {
                    turn.give_up_room(self);
                    turn.rotate(self)
                }
                _ => Err(error),
            })?;
        }
        Ok(turn.active.segment.base)
    }

    /// Waits for the right to compact, at most as long as for any lock, then `Busy`.
    pub(super) fn right_to_compact(&self) -> Result<RightToCompact<'_>> {
        let lock = self.compact_lock()?;
        let (start, path) = (Instant::now(), self.directory.file(names::COMPACT_LOCK));
        loop {
            if let Some(right) = self.right_if_free(lock.clone())? {
                return Ok(right);
            }
            if start.elapsed() >= self.options.busy_timeout {
                let timeout = self.options.busy_timeout;
                return Err(match &lock {
                    Some(lock) => locks::busy(&**lock, &path, "has been compacting", timeout),
                    None => Error::new(ErrorKind::Busy, format!("another worker has been compacting for {timeout:?}")),
                });
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// The same if nobody has it.
    pub(super) fn right_to_compact_now(&self) -> Result<Option<RightToCompact<'_>>> {
        self.right_if_free(self.compact_lock()?)
    }

    fn right_if_free(&self, lock: Option<Arc<dyn Lock>>) -> Result<Option<RightToCompact<'_>>> {
        let here = match self.sizes.compacting.try_lock() {
            Ok(here) => here,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(None),
        };
        let refused = |error| locks::refused(error, &self.directory.file(names::COMPACT_LOCK));
        match lock {
            Some(lock) if !lock.try_exclusive().map_err(refused)? => Ok(None),
            lock => Ok(Some(RightToCompact { settled: here, _lock: lock.map(Held::new) })),
        }
    }

    /// The lock of who compacts; `None` for a process that is alone.
    fn compact_lock(&self) -> Result<Option<Arc<dyn Lock>>> {
        if !self.right_to_write()?.is_shared() {
            return Ok(None);
        }
        locks::open(&self.directory, &self.directory.file(names::COMPACT_LOCK)).map(Some)
    }

    /// How much there is to be reclaimed. A few loads.
    fn need(&self) -> Need {
        let (live, usual) = (self.index.live_bytes(), self.options.segment_bytes);
        // Less than there is, by what is live in the active segment.
        let dead = self.sizes.sealed.load(Relaxed).saturating_sub(live);
        let (enough, many_small) = (runs::dead_max(live, usual), self.sizes.many_small.load(Relaxed));
        if dead <= enough && !many_small {
            return Need::None;
        }
        let is_settled = self.sizes.settled_in.load(Relaxed) == self.tail.generation();
        if is_settled && dead < self.sizes.settled_dead.load(Relaxed) + usual / 4 {
            Need::None
        } else if dead > 2 * enough {
            Need::Much
        } else {
            Need::Some
        }
    }

    /// Whether a segment was sealed that may have no hint yet.
    fn lacks_hints(&self) -> bool {
        self.sizes.newest_sealed.load(Relaxed) > self.sizes.hinted.load(Relaxed)
    }

    /// Writes the hints that sealed segments lack. Whoever else keeps house does it too.
    fn write_hints(&self) -> Result<()> {
        let (from, newest) = (self.sizes.hinted.load(Relaxed) + 1, self.sizes.newest_sealed.load(Relaxed));
        self.sizes.hinted.fetch_max(newest, Relaxed);
        let Some(_right) = self.right_to_compact_now()? else { return Ok(()) };
        let manifest = self.follower.reading().manifest.clone();
        hints::write_missing(&self.directory, &manifest, from, self.tail.synced())
    }

    /// Compacts until there is nothing worth it, or `stop`; between two steps others have a turn at it.
    /// Whoever else is at it is left to it.
    fn keep_house(&self, stop: &AtomicBool) -> Result<()> {
        let pace = paced(Some(stop));
        while self.need() != Need::None && !stop.load(Relaxed) {
            let Some(right) = self.right_to_compact_now()? else { return Ok(()) };
            self.one_step(right, &pace)?;
        }
        Ok(())
    }

    /// One step, where so much is dead that whoever puts must see to it; waits for one that is under way.
    pub(super) fn step_now(&self) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if let Some(right) = self.right_to_compact_now()? {
                return self.one_step(right, &paced(None));
            }
            // Whoever is at it may be stopped: no second put waits for the same step.
            if self.need() != Need::Much || self.sizes.waited_in.load(Relaxed) == self.tail.generation() {
                return Ok(());
            }
            std::thread::sleep(PAUSE);
        }
        self.sizes.waited_in.store(self.tail.generation(), Relaxed);
        Ok(())
    }

    fn one_step(&self, right: RightToCompact<'_>, pace: &dyn Fn(u64) -> Result<()>) -> Result<()> {
        let mut pass = Pass::begin(self, right, pace, false)?;
        if pass.step(Wanted::Best)?.is_none() {
            pass.right.settled.clear();
            self.settle();
        }
        Ok(())
    }

    /// There is nothing more to be had until something changes.
    fn settle(&self) {
        let dead = self.sizes.sealed.load(Relaxed).saturating_sub(self.index.live_bytes());
        self.sizes.settled_dead.store(dead, Relaxed);
        self.sizes.settled_in.store(self.tail.generation(), Relaxed);
    }
}

/// Sleeps behind each piece written for as long as it should have taken; ends by an error once `stop`.
fn paced(stop: Option<&AtomicBool>) -> impl Fn(u64) -> Result<()> {
    let since = Cell::new(Instant::now());
    move |bytes| {
        let due = Duration::from_nanos(bytes * 1_000_000_000 / BYTES_PER_SECOND);
        std::thread::sleep(due.saturating_sub(since.replace(Instant::now()).elapsed()));
        since.set(Instant::now());
        if stop.is_some_and(|stop| stop.load(Relaxed)) {
            return Err(Error::new(ErrorKind::Busy, "compaction was stopped, because its handle was closed"));
        }
        Ok(())
    }
}

/// The worker in the background of a handle and its clones; ended, and waited for, with the last one.
#[derive(Debug)]
pub(crate) struct House {
    stop: Arc<AtomicBool>,
    worker: Mutex<Option<JoinHandle<()>>>,
    home: Home,
}

impl House {
    pub fn new() -> House {
        House { stop: Arc::default(), worker: Mutex::new(None), home: Home::here() }
    }

    /// Looks, after a write, whether there is something to be reclaimed, and has it done. What fails
    /// there fails again, and is told, where it is asked for: the put itself is done.
    pub fn look(&self, shared: &Arc<Shared>) {
        if !shared.options.auto_compaction || shared.turn.is_none() {
            return;
        }
        match shared.need() {
            Need::None if shared.lacks_hints() => self.start(shared),
            Need::None => {}
            Need::Some => self.start(shared),
            Need::Much => {
                if shared.step_now().is_err() {
                    shared.settle();
                }
            }
        }
    }

    fn start(&self, shared: &Arc<Shared>) {
        // Another worker that is just looking does the same.
        let Ok(mut worker) = self.worker.try_lock() else { return };
        if worker.as_ref().is_some_and(|worker| !worker.is_finished()) {
            return;
        }
        let (shared, stop) = (shared.clone(), self.stop.clone());
        let work = move || {
            // What hints lack is made up by scanning.
            let _ = shared.write_hints();
            if shared.keep_house(&stop).is_err() {
                shared.settle();
            }
        };
        // Where no worker can be had, a later put does a step itself.
        *worker = std::thread::Builder::new().name("taffrail-house".into()).spawn(work).ok();
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        let worker = self.worker.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        // A forked child has no such worker, only the memory of one.
        if let (true, Some(worker)) = (self.home.is_here(), worker) {
            let _ = worker.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Store;
    use super::*;
    use crate::batch::{Durability, PutOptions};
    use crate::checkpoint::TypeTag;
    use crate::checkpointer::Checkpointer;
    use crate::testing::states::noise;

    /// A store of the smallest segments, where nothing is looked for unless `auto`.
    fn open(dir: &std::path::Path, auto: bool) -> Store {
        let options = Store::options().segment_bytes(64 * 1024).max_history(None).auto_compaction(auto);
        options.durability(Durability::Buffered).open(dir).unwrap()
    }

    fn put(store: &Store, thread: &str, seed: u64, length: usize) {
        store.put_bytes(thread, TypeTag::BYTES, &noise(seed, length), PutOptions::default()).unwrap();
    }

    /// Waits until the worker that a write has started, if any, has ended; answers whether there was one.
    fn idle(store: &Store) -> bool {
        let worker = store.house.worker.lock().unwrap().take();
        worker.map(|worker| worker.join().unwrap()).is_some()
    }

    fn sealed_without_hint(store: &Store) -> usize {
        let directory = &store.shared.directory;
        let listed = directory.manifest().unwrap().segments;
        listed.iter().filter(|listed| listed.end != 0 && !hints::is_there(directory, listed.number)).count()
    }

    #[test]
    fn sealed_segments_get_their_hints_unasked_and_once() {
        let scratch = tempfile::tempdir().unwrap();
        let store = open(scratch.path(), true);
        put(&store, "t", 0, 10);
        assert!(!idle(&store), "nothing is sealed");
        // One at a time: a worker gives way to whoever rotates meanwhile.
        let started = (1..20).filter(|&seed| {
            put(&store, "t", seed, 12_000);
            idle(&store)
        });
        assert_eq!(started.count() as u64 + 1, store.stats().unwrap().segments);
        assert!(store.stats().unwrap().segments > 3);
        assert_eq!(sealed_without_hint(&store), 0);
        put(&store, "t", 21, 10);
        assert!(!idle(&store), "there is nothing to be done");
    }

    #[test]
    fn nothing_is_done_unasked_where_it_is_turned_off() {
        let scratch = tempfile::tempdir().unwrap();
        let store = open(scratch.path(), false);
        (0..20).for_each(|seed| put(&store, "dead", seed, 12_000));
        store.delete("dead").unwrap();
        assert!(!idle(&store) && sealed_without_hint(&store) > 3);
        assert!(store.stats().unwrap().dead_bytes > 200_000);
    }

    /// Fills some segments, and deletes some of it; then a put of another handle looks.
    fn looked_at(dir: &std::path::Path, live: usize, dead: usize) -> Store {
        let store = open(dir, false);
        (0..live).for_each(|seed| put(&store, "live", seed as u64, 12_000));
        (0..dead).for_each(|seed| put(&store, "dead", seed as u64, 12_000));
        store.delete("dead").unwrap();
        // Behind what is dead, so that all of that is in sealed segments.
        (50..56).for_each(|seed| put(&store, "live", seed, 12_000));
        store.close().unwrap();
        let store = open(dir, true);
        put(&store, "live", 99, 10);
        store
    }

    #[test]
    fn what_is_dead_goes_unasked() {
        let scratch = tempfile::tempdir().unwrap();
        let store = looked_at(scratch.path(), 20, 28);
        assert!(idle(&store), "a worker does it");
        assert!(store.stats().unwrap().dead_bytes < 200_000, "of 330,000: {:?}", store.stats());
        assert_eq!(sealed_without_hint(&store), 0);
        // What is left is not worth it.
        put(&store, "live", 100, 10);
        assert!(!idle(&store));
    }

    #[test]
    fn where_very_much_is_dead_the_put_itself_does_a_step() {
        let scratch = tempfile::tempdir().unwrap();
        let store = looked_at(scratch.path(), 0, 60);
        assert!(!idle(&store), "no worker was started");
        assert!(store.stats().unwrap().dead_bytes < 600_000, "{:?}", store.stats());
    }

    #[test]
    fn a_handle_that_is_closed_leaves_no_worker_behind() {
        let scratch = tempfile::tempdir().unwrap();
        let store = looked_at(scratch.path(), 40, 44);
        let shared = Arc::downgrade(&store.shared);
        drop(store);
        assert!(shared.upgrade().is_none(), "a worker goes on in a store that is closed");
    }

    #[test]
    fn compaction_is_held_to_a_pace_and_ends_when_it_is_told_to() {
        let stop = AtomicBool::new(false);
        let pace = paced(Some(&stop));
        let start = Instant::now();
        [BYTES_PER_SECOND / 50, 0].iter().for_each(|&bytes| pace(bytes).unwrap());
        assert!(start.elapsed() >= Duration::from_millis(20), "what takes 20 ms was let through in {:?}", start.elapsed());
        stop.store(true, Relaxed);
        assert_eq!(pace(0).unwrap_err().kind(), ErrorKind::Busy);
        paced(None)(0).unwrap();
    }
}
