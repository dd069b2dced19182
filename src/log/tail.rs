//! The shared page: how far the log has come, for every process that has it open.
//!
//! Three ends move up only: *appended* (written), *synced* (kept over a power cut), *visible* (what
//! readers may see). Beside them stand the manifest's generation and the one being installed, the
//! epoch and the newest one that is poisoned, the next free numbers, a count of syncs begun and of
//! syncs proven good, and counters to wait on. No lock lives in the page: whoever dies leaves words
//! that each are true by themselves. The page outlives its processes, but nothing in it is believed
//! by the next first opener unless the log itself bears it out.
//!
//! This file is the protocol on the words and nothing else; what each word is for stands in DESIGN.md,
//! "The shared page", and what each ordering is for in "The page's invariants".

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::time::Duration;

use super::directory::Directory;
use crate::error::{Error, ErrorKind, Result};
use crate::format::manifest::Manifest;
use crate::format::names;
use crate::fs::page::{self, AtomicU64, SharedPage};
use crate::plant::planted;

/// The page's first word, little-endian `TAFFTAIL`.
const MAGIC: u64 = u64::from_le_bytes(*b"TAFFTAIL");
/// The layout this version writes.
const LAYOUT: u64 = 1;

/// No segment is longer (its offsets are kept in 32 bits, in units of 8), so no end lies further.
const SEGMENT_SPAN: u64 = 1 << 35;

/// So often a page that says nothing is read again.
const READS_MAX: usize = 4;

// Word numbers. Words that are written together stand on one cache line of their own.
const WORD_MAGIC: usize = 0;
const WORD_LAYOUT: usize = 1;
const WORD_STORE: usize = 2;
const WORD_BOOT: usize = 4;
const WORD_WRITE_LOCK: usize = 6;
const WORD_PAGE: usize = 7;
const WORD_APPENDED: usize = 8;
const WORD_NEXT_SEQ: usize = 9;
const WORD_NEXT_NUMBER: usize = 10;
const WORD_DURABLE: usize = 11;
const WORD_TURNS: usize = 12;
const WORD_WRITING: usize = 13;
const WORD_SYNCED: usize = 16;
const WORD_SYNCS_BEGUN: usize = 17;
const WORD_SYNCS_PROVEN: usize = 18;
const WORD_COVERED: usize = 19;
const WORD_COMPANY: usize = 20;
const WORD_LEADER: usize = 21;
const WORD_PASSING: usize = 22;
const WORD_VISIBLE: usize = 24;
const WORD_NEWS: usize = 25;
const WORD_GENERATION: usize = 32;
const WORD_INSTALLING: usize = 33;
const WORD_EPOCH: usize = 35;
const WORD_POISONED: usize = 36;

/// The lowest bit of a counter that is waited for: somebody waits. It goes in one step with the next
/// count, so a wake for the last one is never taken for a wake for the next.
const WAITED_FOR: u64 = 1;

/// What a page says at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marks {
    /// Which run of the system it was written in: after a power cut the page may be an older self.
    pub boot: [u8; 16],
    /// What was written.
    pub appended: u64,
    /// What a power cut leaves.
    pub synced: u64,
    /// What readers may see.
    pub visible: u64,
    /// The manifest's generation.
    pub generation: u64,
    /// The generation being installed; equal to `generation` when none is.
    pub installing: u64,
    /// Whether a sync is under way, or its end was never told.
    pub syncing: bool,
    /// The store's epoch.
    pub epoch: u64,
    /// Whether a write or sync of this epoch failed.
    pub poisoned: bool,
    /// The next sequence number.
    pub next_seq: u64,
}

impl Marks {
    /// What the page's file says, where it is there and this store's. Read as a file, so that it
    /// can be had without the right to write.
    ///
    /// A copy of the page, which names the inode of another file, says nothing: in a copy of a live
    /// directory it may be newer than the segments beside it, and would make damage of an earlier moment.
    pub fn read(directory: &Directory, manifest: &Manifest) -> Option<Marks> {
        let inode = directory.fs.map_page(&directory.file(names::TAIL), false).ok()?.inode();
        let longest = manifest.segments.last().map_or(0, |listed| listed.base.saturating_add(SEGMENT_SPAN));
        // Read while others raise the ends, it may hold one as it was before and another as it was behind that.
        (0..READS_MAX).find_map(|_| {
            let bytes = directory.read(names::TAIL, page::BYTES as u64).ok()?;
            let own = bytes.get(WORD_PAGE * 8..)?.starts_with(&inode.to_le_bytes());
            Marks::decode(&bytes, &manifest.store).filter(|marks| own && marks.appended <= longest)
        })
    }

    /// What a page's bytes say, if it is one of this store's, of this layout, and can be true.
    pub fn decode(bytes: &[u8], store: &[u8; 16]) -> Option<Marks> {
        let mut words = [0; WORD_POISONED + 1];
        for (word, eight) in words.iter_mut().zip(bytes.get(..page::BYTES)?.chunks_exact(8)) {
            *word = u64::from_le_bytes(eight.try_into().ok()?);
        }
        let ours = words[WORD_MAGIC] == MAGIC && words[WORD_LAYOUT] == LAYOUT && words[WORD_STORE..WORD_STORE + 2] == name_words(store);
        let boot = u128::from(words[WORD_BOOT]) | u128::from(words[WORD_BOOT + 1]) << 64;
        let marks = Marks {
            boot: boot.to_le_bytes(),
            appended: words[WORD_APPENDED],
            synced: words[WORD_SYNCED],
            visible: words[WORD_VISIBLE],
            generation: words[WORD_GENERATION],
            installing: words[WORD_INSTALLING],
            syncing: words[WORD_SYNCS_BEGUN] != words[WORD_SYNCS_PROVEN],
            epoch: words[WORD_EPOCH],
            poisoned: words[WORD_POISONED] >= words[WORD_EPOCH],
            next_seq: words[WORD_NEXT_SEQ],
        };
        (ours && marks.synced <= marks.appended && marks.visible <= marks.appended).then_some(marks)
    }
}

/// Where a log stands that is wholly synced: what the first opener writes into the page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start<'a> {
    /// The store's name, generation and epoch.
    pub manifest: &'a Manifest,
    /// The end of the log.
    pub end: u64,
    /// The next sequence number.
    pub next_seq: u64,
    /// The inode of the lock that is the turn.
    pub write_lock: u64,
}

/// The shared page.
#[derive(Debug)]
pub(crate) struct Tail(OnceLock<SharedPage>);

impl Tail {
    /// The page as it stands.
    pub fn new(page: SharedPage) -> Tail {
        Tail(OnceLock::from(page))
    }

    /// For a reader that came before the first writer: a page that is not there yet.
    pub fn absent() -> Tail {
        Tail(OnceLock::new())
    }

    /// Maps the page for the first opener, after making its file anew where it is missing or of the
    /// wrong length. Its words mean nothing until [`Tail::begin`].
    pub fn make(directory: &Directory) -> Result<Tail> {
        let path = directory.file(names::TAIL);
        match directory.fs.map_page(&path, true) {
            Ok(page) => return Ok(Tail::new(page)),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) => {}
            Err(error) => return Err(Error::os("map", &path, error)),
        }
        let file = directory.create_file(names::TAIL)?;
        // Written, not only made long: a store to a mapped hole on a full disk would be a signal.
        file.write_at(&[&[0; page::BYTES]], 0).and_then(|()| file.sync()).map_err(|error| Error::os("write", &path, error))?;
        directory.sync()?;
        directory.fs.map_page(&path, true).map(Tail::new).map_err(|error| Error::os("map", &path, error))
    }

    /// Maps the page that processes at work share, and takes it as it stands.
    ///
    /// Errors: `Unsupported` for one of another version, `Corrupt` where it is not there, or not
    /// this store's: somebody removed or replaced it under them.
    pub fn join(directory: &Directory, manifest: &Manifest) -> Result<Tail> {
        let path = directory.file(names::TAIL);
        let gone = |why: &str| {
            let message =
                format!("other processes have this store open, but the page that they share {why}: close them all and open again");
            Error::new(ErrorKind::Corrupt, message).with_file(&path, None)
        };
        let tail = match directory.fs.map_page(&path, true) {
            Ok(page) => Tail::new(page),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) => return Err(gone("was removed")),
            Err(error) => return Err(Error::os("map", &path, error)),
        };
        // By its inode too: an older self that somebody put in its place says all else as it should.
        match tail.is_of(&manifest.store) {
            true if tail.get(WORD_PAGE) == tail.inode() => Ok(tail),
            _ if tail.get(WORD_MAGIC) == MAGIC && tail.get(WORD_LAYOUT) != LAYOUT => {
                let message = "a process with another version of taffrail has this store open: close it, or use its version";
                Err(Error::new(ErrorKind::Unsupported, message).with_file(&path, None))
            }
            _ => Err(gone("was replaced")),
        }
    }

    /// Maps the page for reading alone, once it is there and this store's, and no copy.
    pub fn observe(&self, directory: &Directory, manifest: &Manifest) {
        if self.0.get().is_none()
            && let Ok(page) = directory.fs.map_page(&directory.file(names::TAIL), false)
        {
            let seen = Tail::new(page);
            if seen.is_of(&manifest.store) && seen.get(WORD_PAGE) == seen.inode() {
                // Whoever of this process came first, it is the same page.
                let _ = seen.0.into_inner().map(|page| self.0.set(page));
            }
        }
    }

    /// Whether there is a page.
    pub fn is_there(&self) -> bool {
        self.0.get().is_some()
    }

    /// The inode of the page's file.
    fn inode(&self) -> u64 {
        self.0.get().map_or(0, SharedPage::inode)
    }

    fn is_of(&self, store: &[u8; 16]) -> bool {
        let name = [self.get(WORD_STORE), self.get(WORD_STORE + 1)];
        self.get(WORD_MAGIC) == MAGIC && self.get(WORD_LAYOUT) == LAYOUT && name == name_words(store)
    }

    /// Writes the page anew, but for what counts turns and news. Only who is alone with it may.
    pub fn begin(&self, boot: [u8; 16], start: Start<'_>) {
        let Start { manifest, end, next_seq, write_lock } = start;
        let set = |index: usize, value: u64| self.word(index).store(value, Release);
        // CRASH: killed between two of these, the page is foreign or dirty: the next opener takes
        // the unclean path (recovery step 8), which believes nothing of it.
        set(WORD_MAGIC, 0);
        for (at, name) in [(WORD_STORE, &manifest.store), (WORD_BOOT, &boot)] {
            let [low, high] = name_words(name);
            set(at, low);
            set(at + 1, high);
        }
        set(WORD_WRITE_LOCK, write_lock);
        set(WORD_PAGE, self.inode());
        set(WORD_NEXT_SEQ, next_seq);
        set(WORD_NEXT_NUMBER, manifest.next_number);
        for counter in [
            WORD_DURABLE,
            WORD_WRITING,
            WORD_SYNCS_BEGUN,
            WORD_SYNCS_PROVEN,
            WORD_COVERED,
            WORD_COMPANY,
            WORD_LEADER,
            WORD_PASSING,
            WORD_POISONED,
        ] {
            set(counter, 0);
        }
        set(WORD_EPOCH, manifest.epoch);
        set(WORD_INSTALLING, manifest.generation);
        set(WORD_GENERATION, manifest.generation);
        for index in [WORD_APPENDED, WORD_VISIBLE, WORD_SYNCED] {
            set(index, end);
        }
        set(WORD_LAYOUT, LAYOUT);
        set(WORD_MAGIC, MAGIC);
        // Readers that follow without a lock may wait for the first writer.
        self.announce();
    }

    /// The inode of the lock that is the turn, as the first opener found it.
    pub fn write_lock(&self) -> u64 {
        self.get(WORD_WRITE_LOCK)
    }

    /// How far the log is written.
    pub fn appended(&self) -> u64 {
        self.get(WORD_APPENDED)
    }

    /// How far the log is kept over a power cut.
    pub fn synced(&self) -> u64 {
        self.get(WORD_SYNCED)
    }

    /// How far readers may see.
    pub fn visible(&self) -> u64 {
        self.get(WORD_VISIBLE)
    }

    /// Moves the appended end up. In the turn, after the bytes are written.
    pub fn raise_appended(&self, end: u64) {
        self.word(WORD_APPENDED).fetch_max(end, AcqRel);
    }

    /// Moves the visible end up without a sync: for a Buffered put that stands at it. In the turn.
    pub fn raise_visible(&self, end: u64) {
        self.word(WORD_VISIBLE).fetch_max(end, AcqRel);
        self.announce();
    }

    /// Moves all ends up to the beginning of a segment: all before it is synced. In the turn.
    pub fn raise_all(&self, start: u64) {
        // In the order that a put goes through: what is synced is visible, whoever looks in between.
        for index in [WORD_APPENDED, WORD_VISIBLE, WORD_SYNCED] {
            self.word(index).fetch_max(start, AcqRel);
        }
        self.announce();
    }

    /// Counts a sync as begun; answers its number. `passing` is one beside which others may be under
    /// way, because it did not wait for them.
    pub fn begin_sync(&self, passing: bool) -> u64 {
        // Before it has a number: who has a later one sees that it is passed.
        if passing {
            self.word(WORD_PASSING).fetch_add(1, AcqRel);
        }
        self.word(WORD_SYNCS_BEGUN).fetch_add(1, AcqRel).wrapping_add(1)
    }

    /// What a good sync has proven: all up to `end` is kept; and, where no other can be under way, no
    /// sync up to this one has failed unseen, for its descriptor is older than all of them or began
    /// when none was in doubt.
    pub fn end_sync(&self, number: u64, end: u64, passing: bool) {
        // Who finds its end synced is answered, and must see then what it put.
        // CRASH: killed in between, what is shown is kept, and the next sync says so.
        let (first, then) = if planted!("shown-late") { (WORD_SYNCED, WORD_VISIBLE) } else { (WORD_VISIBLE, WORD_SYNCED) };
        self.word(first).fetch_max(end, AcqRel);
        self.word(then).fetch_max(end, AcqRel);
        // In this order: what is counted here and passed others by was counted as passing before.
        let begun = self.syncs_begun();
        if passing || self.get(WORD_PASSING) != 0 {
            // Another that began before may still fail, and die of it: this one speaks for itself.
            let _ = self.word(WORD_SYNCS_PROVEN).compare_exchange(number.wrapping_sub(1), number, AcqRel, Acquire);
        } else {
            // What began later passed this one by, and has ended well: else it would have poisoned.
            self.word(WORD_SYNCS_PROVEN).fetch_max(begun, AcqRel);
        }
        self.is_over(passing);
    }

    /// What a failed sync says, once it has poisoned: it is under way no more.
    pub fn is_over(&self, passing: bool) {
        if passing {
            self.word(WORD_PASSING).fetch_sub(1, AcqRel);
        }
    }

    /// Takes the syncs up to a number for proven: they were of a segment that was written anew. In the
    /// turn.
    pub fn settle_syncs(&self, number: u64) {
        self.word(WORD_SYNCS_PROVEN).fetch_max(number, AcqRel);
    }

    /// How many syncs were begun.
    pub fn syncs_begun(&self) -> u64 {
        self.get(WORD_SYNCS_BEGUN)
    }

    /// Up to which number every sync is known to have done no harm.
    pub fn syncs_proven(&self) -> u64 {
        self.get(WORD_SYNCS_PROVEN)
    }

    /// Whether all up to `end` is kept, as far as this epoch can say. Errors: `Poisoned`.
    pub fn is_kept(&self, end: u64, epoch: u64) -> Result<bool> {
        // The synced end first: whoever begins another epoch raises the epoch before the ends, so
        // an end that was reached by dropping what this epoch wrote comes with the newer epoch.
        let synced = self.synced();
        if self.is_poisoned(epoch) { Err(poisoned()) } else { Ok(synced >= end) }
    }

    /// Marks an epoch as poisoned: a write or sync failed, and what the disk holds is unknown.
    pub fn poison(&self, epoch: u64) {
        self.word(WORD_POISONED).fetch_max(epoch, AcqRel);
        self.announce();
    }

    /// Whether an epoch is poisoned, or over.
    pub fn is_poisoned(&self, epoch: u64) -> bool {
        self.get(WORD_POISONED) >= epoch || self.epoch() != epoch
    }

    /// The store's epoch.
    pub fn epoch(&self) -> u64 {
        self.get(WORD_EPOCH)
    }

    /// Goes on behind a run that was written anew, in the manifest's epoch. In the turn; the manifest
    /// is installed.
    pub fn go_on(&self, manifest: &Manifest, end: u64) {
        // CRASH: killed before the ends are raised, they stand in the segment that was sealed before
        // them: the next turn finds the newer manifest and raises them.
        self.word(WORD_EPOCH).fetch_max(manifest.epoch, AcqRel);
        self.raise_all(end);
    }

    /// The generation that is installed.
    pub fn generation(&self) -> u64 {
        self.get(WORD_GENERATION)
    }

    /// Whether who installed a manifest died before it could say so. In the turn.
    pub fn is_installing(&self) -> bool {
        self.get(WORD_INSTALLING) != self.generation()
    }

    /// Marks a manifest's installation as begun, or as given up.
    pub fn set_installing(&self, generation: u64) {
        self.word(WORD_INSTALLING).store(generation, Release);
    }

    /// Marks a manifest as installed.
    pub fn set_generation(&self, generation: u64) {
        self.word(WORD_GENERATION).store(generation, Release);
    }

    /// Up to where bytes may stand behind the appended end, of a write that was not finished; 0 where
    /// there are none. In the turn.
    pub fn writing(&self) -> u64 {
        self.get(WORD_WRITING)
    }

    /// Says up to where is about to be written, or, with 0, that nothing is left behind the end. In
    /// the turn.
    pub fn set_writing(&self, end: u64) {
        self.word(WORD_WRITING).store(end, Release);
    }

    /// The next sequence number. In the turn.
    pub fn next_seq(&self) -> u64 {
        self.get(WORD_NEXT_SEQ)
    }

    /// Burns the numbers below `next`, before anything is written under them. In the turn.
    pub fn raise_next_seq(&self, next: u64) {
        self.word(WORD_NEXT_SEQ).fetch_max(next, AcqRel);
    }

    /// Sets the next segment number while nobody else uses the page.
    pub fn set_next_number(&self, number: u64) {
        self.word(WORD_NEXT_NUMBER).store(number, Release);
    }

    /// Takes a segment number that nobody else gets.
    pub fn take_number(&self) -> u64 {
        self.word(WORD_NEXT_NUMBER).fetch_add(1, AcqRel)
    }

    /// Counts a batch that waits for a sync. In the turn.
    pub fn count_durable(&self) {
        self.word(WORD_DURABLE).fetch_add(1, Relaxed);
    }

    /// How many batches that wait for a sync there were.
    pub fn durable(&self) -> u64 {
        self.word(WORD_DURABLE).load(Relaxed)
    }

    /// How many of them the last sync had covered, and how many it had covered by itself. Hints.
    pub fn company(&self) -> (u64, u64) {
        (self.word(WORD_COVERED).load(Relaxed), self.word(WORD_COMPANY).load(Relaxed))
    }

    /// Notes for the next sync how many batches this one covers.
    pub fn set_company(&self, covered: u64, company: u64) {
        self.word(WORD_COVERED).store(covered, Relaxed);
        self.word(WORD_COMPANY).store(company, Relaxed);
    }

    /// The number of the last sync that was done for all: tells a syncer that moves on. A hint.
    pub fn leader(&self) -> u64 {
        self.word(WORD_LEADER).load(Relaxed)
    }

    /// Says which sync is done for all.
    pub fn set_leader(&self, number: u64) {
        self.word(WORD_LEADER).store(number, Relaxed);
    }

    /// How often the turn was given back, in even numbers.
    pub fn turns(&self) -> u64 {
        self.get(WORD_TURNS) & !WAITED_FOR
    }

    /// Says that the turn is free; whether another process was waiting for it.
    pub fn turn_is_free(&self) -> bool {
        self.count_on(WORD_TURNS)
    }

    /// Says that a process waits for the turn to be given back after it was given back `seen` times.
    pub fn want_turn(&self, seen: u64) {
        self.want(WORD_TURNS, seen);
    }

    /// Waits until the turn was given back after it was given back `seen` times, or for `timeout`.
    pub fn wait_for_turn(&self, seen: u64, timeout: Duration) {
        self.wait(WORD_TURNS, seen, timeout);
    }

    /// How often something became visible, or went wrong, in even numbers.
    pub fn news(&self) -> u64 {
        self.get(WORD_NEWS) & !WAITED_FOR
    }

    /// Wakes who waits for news.
    pub fn announce(&self) {
        self.count_on(WORD_NEWS);
    }

    /// Waits for news after `seen`, or for `timeout`.
    pub fn wait_for_news(&self, seen: u64, timeout: Duration) {
        self.want(WORD_NEWS, seen);
        self.wait(WORD_NEWS, seen, timeout);
    }

    /// Counts on, and wakes who waits for it; whether anybody did.
    fn count_on(&self, counter: usize) -> bool {
        let next = |count: u64| Some((count | WAITED_FOR).wrapping_add(1));
        let waited_for = self.word(counter).fetch_update(AcqRel, Acquire, next).is_ok_and(|count| count & WAITED_FOR != 0);
        if let (true, Some(page)) = (waited_for, self.0.get()) {
            page.wake(counter);
        }
        waited_for
    }

    fn want(&self, counter: usize, seen: u64) {
        if let Some(page) = self.0.get() {
            // If it is not as seen it has counted on, or somebody waits already: both will do.
            let _ = page.word(counter).compare_exchange(seen, seen | WAITED_FOR, AcqRel, Acquire);
        }
    }

    fn wait(&self, counter: usize, seen: u64, timeout: Duration) {
        if let Some(page) = self.0.get() {
            let now = page.word(counter).load(Acquire);
            if now & !WAITED_FOR == seen {
                page.wait(counter, now, timeout);
            }
        }
    }

    fn get(&self, index: usize) -> u64 {
        self.word(index).load(Acquire)
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        match self.0.get() {
            Some(page) => page.word(index),
            None => page::nothing(),
        }
    }
}

/// The answer to every write after a failed one.
pub(crate) fn poisoned() -> Error {
    let message = "a write or sync of this store failed, and what the disk holds is unknown: close it and open it again";
    Error::new(ErrorKind::Poisoned, message)
}

/// A name of 16 bytes as two words.
fn name_words(name: &[u8; 16]) -> [u64; 2] {
    let name = u128::from_le_bytes(*name);
    [name as u64, (name >> 64) as u64]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(tail: &Tail) -> Vec<u8> {
        (0..page::WORDS).flat_map(|index| tail.get(index).to_le_bytes()).collect()
    }

    fn manifest() -> Manifest {
        Manifest {
            store: [1; 16],
            generation: 6,
            epoch: 2,
            seq_floor: 1,
            next_number: 3,
            compactions: 0,
            compacted_at: 0,
            max_history: 0,
            segments: Vec::new(),
            retired: Vec::new(),
        }
    }

    #[test]
    fn a_page_is_believed_only_as_its_own_stores() {
        let tail = Tail::new(SharedPage::unshared());
        assert_eq!(Marks::decode(&bytes(&tail), &[0; 16]), None);
        let manifest = manifest();
        tail.begin([3; 16], Start { manifest: &manifest, end: 9, next_seq: 5, write_lock: 77 });
        let marks = Marks {
            boot: [3; 16],
            appended: 9,
            synced: 9,
            visible: 9,
            generation: 6,
            installing: 6,
            syncing: false,
            epoch: 2,
            poisoned: false,
            next_seq: 5,
        };
        assert_eq!(Marks::decode(&bytes(&tail), &[1; 16]), Some(marks));
        assert_eq!(Marks::decode(&bytes(&tail), &[2; 16]), None);
        assert_eq!(Marks::decode(&bytes(&tail)[..4095], &[1; 16]), None);
        tail.raise_appended(5);
        assert_eq!(tail.appended(), 9);
        for ahead in [WORD_SYNCED, WORD_VISIBLE] {
            tail.word(ahead).store(10, Release);
            assert_eq!(Marks::decode(&bytes(&tail), &[1; 16]), None);
            tail.word(ahead).store(9, Release);
        }
    }

    #[test]
    fn a_sync_that_never_ended_is_seen_until_a_later_one_has() {
        let (tail, manifest) = (Tail::new(SharedPage::unshared()), manifest());
        tail.begin([0; 16], Start { manifest: &manifest, end: 9, next_seq: 1, write_lock: 0 });
        let syncing = || Marks::decode(&bytes(&tail), &[1; 16]).unwrap().syncing;
        tail.raise_appended(20);
        let (_dead, later) = (tail.begin_sync(false), tail.begin_sync(false));
        assert!(syncing());
        tail.end_sync(later, 20, false);
        assert!(!syncing());
        assert_eq!((tail.synced(), tail.visible()), (20, 20));
    }

    #[test]
    fn what_is_synced_is_visible_at_any_moment() {
        let (tail, manifest) = (Tail::new(SharedPage::unshared()), manifest());
        tail.begin([0; 16], Start { manifest: &manifest, end: 0, next_seq: 1, write_lock: 0 });
        let synced = |tail: &Tail, end| {
            tail.raise_appended(end);
            tail.end_sync(tail.begin_sync(false), end, false);
        };
        let raises: [fn(&Tail, u64); 2] = [synced, Tail::raise_all];
        for (first, raise) in (0..).step_by(300_000).zip(raises) {
            let last = first + 300_000;
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    (first..=last).for_each(|end| raise(&tail, end));
                });
                loop {
                    let synced = tail.synced();
                    let visible = tail.visible();
                    let appended = tail.appended();
                    assert!(synced <= visible && visible <= appended, "{synced}, {visible}, {appended}");
                    if synced == last {
                        break;
                    }
                }
            });
        }
    }

    #[test]
    fn a_sync_that_passes_another_by_proves_nothing_of_it() {
        let (tail, manifest) = (Tail::new(SharedPage::unshared()), manifest());
        tail.begin([0; 16], Start { manifest: &manifest, end: 9, next_seq: 1, write_lock: 0 });
        let alone = tail.begin_sync(true);
        tail.end_sync(alone, 9, true);
        assert_eq!(tail.syncs_proven(), alone, "there was nothing to pass by");
        let (stuck, passing) = (tail.begin_sync(false), tail.begin_sync(true));
        tail.end_sync(passing, 9, true);
        assert_eq!(tail.syncs_proven(), alone);
        tail.end_sync(stuck, 9, false);
        assert_eq!(tail.syncs_proven(), passing);
        let (dead, later) = (tail.begin_sync(true), tail.begin_sync(false));
        tail.end_sync(later, 9, false);
        assert!(tail.syncs_proven() < dead, "one that passes by may still be under way");
        tail.settle_syncs(tail.syncs_begun());
        assert_eq!(tail.syncs_proven(), later);
        tail.is_over(true);
        let (_gap, last) = (tail.begin_sync(false), tail.begin_sync(false));
        tail.end_sync(last, 9, false);
        assert_eq!(tail.syncs_proven(), last, "nobody passes by any more");
    }

    #[test]
    fn a_late_word_of_an_older_epoch_poisons_nothing_newer() {
        let (tail, mut manifest) = (Tail::new(SharedPage::unshared()), manifest());
        tail.begin([0; 16], Start { manifest: &manifest, end: 9, next_seq: 1, write_lock: 0 });
        tail.raise_appended(20);
        tail.poison(2);
        assert_eq!(tail.is_kept(20, 2).unwrap_err().kind(), ErrorKind::Poisoned);
        manifest.epoch = 3;
        tail.go_on(&manifest, 1 << 32);
        tail.poison(2);
        assert!(tail.is_kept(1 << 32, 3).unwrap());
        assert_eq!(tail.is_kept(20, 2).unwrap_err().kind(), ErrorKind::Poisoned, "the old epoch's end was not reached by a sync");
    }

    #[test]
    fn a_page_is_of_a_store_by_all_that_names_it() {
        let (tail, manifest) = (Tail::new(SharedPage::unshared()), manifest());
        tail.begin([3; 16], Start { manifest: &manifest, end: 9, next_seq: 5, write_lock: 77 });
        assert!(tail.is_of(&[1; 16]) && !tail.is_of(&[2; 16]));
        for index in [WORD_MAGIC, WORD_LAYOUT, WORD_STORE, WORD_STORE + 1] {
            let was = tail.get(index);
            tail.word(index).store(was ^ 1, Release);
            assert!(!tail.is_of(&[1; 16]), "word {index}");
            assert_eq!(Marks::decode(&bytes(&tail), &[1; 16]), None, "word {index}");
            tail.word(index).store(was, Release);
        }
    }
}
