//! The shared page: how far the log has come, for everyone who has it open.
//!
//! Three ends move up only: *appended* (written), *synced* (kept over a power cut), *visible* (what
//! readers may see). Beside them stand the manifest's generation and the one being installed, the
//! mark of a sync under way, the epoch and the poison mark. No lock lives in the page; a word is
//! written by who holds the turn or does the sync, read by anyone. The page outlives its process
//! but nothing in it is believed by the next opener unless the log itself bears it out.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use crate::fs::page::SharedPage;

/// The page's first word, little-endian `TAFFTAIL`.
const MAGIC: u64 = u64::from_le_bytes(*b"TAFFTAIL");
/// The layout this version writes.
const LAYOUT: u64 = 0;

// Word numbers. The ends stand on cache lines of their own: they are written at every put.
const WORD_MAGIC: usize = 0;
const WORD_LAYOUT: usize = 1;
const WORD_STORE: usize = 2;
const WORD_APPENDED: usize = 8;
const WORD_SYNCED: usize = 16;
const WORD_VISIBLE: usize = 24;
const WORD_GENERATION: usize = 32;
const WORD_INSTALLING: usize = 33;
const WORD_SYNCING: usize = 34;
const WORD_EPOCH: usize = 35;
const WORD_POISON: usize = 36;

/// What a page says at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marks {
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
    /// Whether a sync is under way.
    pub syncing: bool,
    /// The store's epoch.
    pub epoch: u64,
    /// Whether a write or sync of this epoch failed.
    pub poisoned: bool,
}

/// The shared page.
#[derive(Debug)]
pub(crate) struct Tail(SharedPage);

impl Tail {
    /// The page as it stands.
    pub fn new(page: SharedPage) -> Tail {
        Tail(page)
    }

    /// What the page says, if it is one of this store's and of this layout, and can be: nothing is
    /// synced or visible that was not appended.
    pub fn read(&self, store: &[u8; 16]) -> Option<Marks> {
        let word = |index: usize| self.0.word(index).load(Acquire);
        let names = store_words(store);
        let ours = word(WORD_MAGIC) == MAGIC && word(WORD_LAYOUT) == LAYOUT && [word(WORD_STORE), word(WORD_STORE + 1)] == names;
        let marks = Marks {
            appended: word(WORD_APPENDED),
            synced: word(WORD_SYNCED),
            visible: word(WORD_VISIBLE),
            generation: word(WORD_GENERATION),
            installing: word(WORD_INSTALLING),
            syncing: word(WORD_SYNCING) != 0,
            epoch: word(WORD_EPOCH),
            poisoned: word(WORD_POISON) != 0,
        };
        (ours && marks.synced.max(marks.visible) <= marks.appended).then_some(marks)
    }

    /// Writes the whole page anew. Only who is alone with it may.
    pub fn reset(&self, store: &[u8; 16], marks: Marks) {
        let set = |index: usize, value: u64| self.0.word(index).store(value, Release);
        // CRASH: killed between two of these, the page is foreign or dirty: the next opener takes
        // the unclean path (recovery step 6), which believes nothing of it.
        set(WORD_MAGIC, 0);
        set(WORD_APPENDED, marks.appended);
        set(WORD_SYNCED, marks.synced);
        set(WORD_VISIBLE, marks.visible);
        set(WORD_GENERATION, marks.generation);
        set(WORD_INSTALLING, marks.installing);
        set(WORD_SYNCING, u64::from(marks.syncing));
        set(WORD_EPOCH, marks.epoch);
        set(WORD_POISON, u64::from(marks.poisoned));
        let [low, high] = store_words(store);
        set(WORD_STORE, low);
        set(WORD_STORE + 1, high);
        set(WORD_LAYOUT, LAYOUT);
        set(WORD_MAGIC, MAGIC);
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

    /// Moves the appended end up. In the turn.
    pub fn raise_appended(&self, end: u64) {
        self.end(WORD_APPENDED).fetch_max(end, AcqRel);
    }

    /// Moves the synced end up, after the sync that makes it true.
    pub fn raise_synced(&self, end: u64) {
        self.end(WORD_SYNCED).fetch_max(end, AcqRel);
    }

    /// Moves the visible end up.
    pub fn raise_visible(&self, end: u64) {
        self.end(WORD_VISIBLE).fetch_max(end, AcqRel);
    }

    /// Marks a sync as under way, or as done well.
    pub fn set_syncing(&self, under_way: bool) {
        self.0.word(WORD_SYNCING).store(u64::from(under_way), Release);
    }

    /// Marks a manifest's installation as begun, or as given up.
    pub fn set_installing(&self, generation: u64) {
        self.0.word(WORD_INSTALLING).store(generation, Release);
    }

    /// Marks a manifest as installed.
    pub fn set_generation(&self, generation: u64) {
        self.0.word(WORD_GENERATION).store(generation, Release);
    }

    /// Marks the epoch as poisoned: a write or sync failed, and what the disk holds is unknown.
    pub fn poison(&self) {
        self.0.word(WORD_POISON).store(1, Release);
    }

    /// Whether the epoch is poisoned.
    pub fn is_poisoned(&self) -> bool {
        self.get(WORD_POISON) != 0
    }

    fn get(&self, index: usize) -> u64 {
        self.0.word(index).load(Acquire)
    }

    fn end(&self, index: usize) -> &AtomicU64 {
        self.0.word(index)
    }
}

fn store_words(store: &[u8; 16]) -> [u64; 2] {
    let name = u128::from_le_bytes(*store);
    [name as u64, (name >> 64) as u64]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_believed_only_as_its_own_stores() {
        let tail = Tail::new(SharedPage::unshared());
        assert_eq!(tail.read(&[0; 16]), None);
        let marks = Marks { appended: 9, synced: 8, visible: 7, generation: 6, installing: 6, syncing: true, epoch: 2, poisoned: true };
        tail.reset(&[1; 16], marks);
        assert_eq!(tail.read(&[1; 16]), Some(marks));
        assert_eq!(tail.read(&[2; 16]), None);
        for impossible in [Marks { synced: 10, ..marks }, Marks { visible: 10, ..marks }] {
            tail.reset(&[1; 16], impossible);
            assert_eq!(tail.read(&[1; 16]), None);
        }
        tail.reset(&[1; 16], marks);
        tail.raise_appended(5);
        assert_eq!(tail.appended(), 9);
    }
}
