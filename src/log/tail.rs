//! The shared page: how far the log has come, for everyone who has it open.
//!
//! Three ends move up only: *appended* (written), *synced* (kept over a power cut), *visible* (what
//! readers may see). Beside them stand the manifest's generation and the one being installed, the
//! mark of a sync under way, the epoch and the poison mark. No lock lives in the page; a word is
//! written by who holds the turn or does the sync, read by anyone. The page outlives its process
//! but nothing in it is believed by the next opener unless the log itself bears it out.

use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use super::directory::Directory;
use crate::error::{Error, Result};
use crate::format::manifest::Manifest;
use crate::format::names;
use crate::fs::page::{self, SharedPage};

/// The page's first word, little-endian `TAFFTAIL`.
const MAGIC: u64 = u64::from_le_bytes(*b"TAFFTAIL");
/// The layout this version writes.
const LAYOUT: u64 = 0;

/// No segment is longer (its offsets are kept in 32 bits, in units of 8), so no end lies further.
const SEGMENT_SPAN: u64 = 1 << 35;

// Word numbers. The ends stand on cache lines of their own: they are written at every put.
const WORD_MAGIC: usize = 0;
const WORD_LAYOUT: usize = 1;
const WORD_STORE: usize = 2;
const WORD_BOOT: usize = 4;
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
    /// Whether a sync is under way.
    pub syncing: bool,
    /// The store's epoch.
    pub epoch: u64,
    /// Whether a write or sync of this epoch failed.
    pub poisoned: bool,
}

impl Marks {
    /// What the page's file says, where it is there and this store's. Read as a file, so that it
    /// can be had without the right to write.
    pub fn read(directory: &Directory, manifest: &Manifest) -> Option<Marks> {
        let bytes = directory.read(names::TAIL, page::BYTES as u64).ok()?;
        let longest = manifest.segments.last().map_or(0, |listed| listed.base.saturating_add(SEGMENT_SPAN));
        Marks::decode(&bytes, &manifest.store).filter(|marks| marks.appended <= longest)
    }

    /// What a page's bytes say, if it is one of this store's, of this layout, and can be true.
    pub fn decode(bytes: &[u8], store: &[u8; 16]) -> Option<Marks> {
        let mut words = [0; WORD_POISON + 1];
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
            syncing: words[WORD_SYNCING] != 0,
            epoch: words[WORD_EPOCH],
            poisoned: words[WORD_POISON] != 0,
        };
        (ours && marks.synced <= marks.appended && marks.visible <= marks.appended).then_some(marks)
    }
}

/// The shared page.
#[derive(Debug)]
pub(crate) struct Tail(SharedPage);

impl Tail {
    /// The page as it stands.
    pub fn new(page: SharedPage) -> Tail {
        Tail(page)
    }

    /// Maps the page, after making its file anew where it is missing or of the wrong length.
    pub fn open(directory: &Directory) -> Result<Tail> {
        let path = directory.file(names::TAIL);
        match directory.fs.map_page(&path, true) {
            Ok(page) => return Ok(Tail(page)),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) => {}
            Err(error) => return Err(Error::os("map", &path, error)),
        }
        let file = directory.create_file(names::TAIL)?;
        // Written, not only made long: a store to a mapped hole on a full disk would be a signal.
        file.write_at(&[&[0; page::BYTES]], 0).and_then(|()| file.sync()).map_err(|error| Error::os("write", &path, error))?;
        directory.sync()?;
        directory.fs.map_page(&path, true).map(Tail).map_err(|error| Error::os("map", &path, error))
    }

    /// Writes the page for a log that is wholly synced up to `end`. Only who is alone with it may.
    pub fn begin(&self, directory: &Directory, manifest: &Manifest, end: u64) {
        let Manifest { generation, epoch, .. } = *manifest;
        let boot = directory.fs.boot();
        let marks = Marks {
            boot,
            appended: end,
            synced: end,
            visible: end,
            generation,
            installing: generation,
            syncing: false,
            epoch,
            poisoned: false,
        };
        self.reset(&manifest.store, marks);
    }

    /// Writes the whole page anew. Only who is alone with it may.
    pub fn reset(&self, store: &[u8; 16], marks: Marks) {
        let set = |index: usize, value: u64| self.0.word(index).store(value, Release);
        // CRASH: killed between two of these, the page is foreign or dirty: the next opener takes
        // the unclean path (recovery step 8), which believes nothing of it.
        set(WORD_MAGIC, 0);
        set(WORD_APPENDED, marks.appended);
        set(WORD_SYNCED, marks.synced);
        set(WORD_VISIBLE, marks.visible);
        set(WORD_GENERATION, marks.generation);
        set(WORD_INSTALLING, marks.installing);
        set(WORD_SYNCING, u64::from(marks.syncing));
        set(WORD_EPOCH, marks.epoch);
        set(WORD_POISON, u64::from(marks.poisoned));
        for (at, name) in [(WORD_STORE, store), (WORD_BOOT, &marks.boot)] {
            let [low, high] = name_words(name);
            set(at, low);
            set(at + 1, high);
        }
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

    /// Whether a sync is under way, or was when it failed.
    pub fn is_syncing(&self) -> bool {
        self.get(WORD_SYNCING) != 0
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

/// A name of 16 bytes as two words.
fn name_words(name: &[u8; 16]) -> [u64; 2] {
    let name = u128::from_le_bytes(*name);
    [name as u64, (name >> 64) as u64]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(tail: &Tail) -> Vec<u8> {
        (0..page::WORDS).flat_map(|index| tail.0.word(index).load(Acquire).to_le_bytes()).collect()
    }

    #[test]
    fn a_page_is_believed_only_as_its_own_stores() {
        let tail = Tail::new(SharedPage::unshared());
        assert_eq!(Marks::decode(&bytes(&tail), &[0; 16]), None);
        let marks = Marks {
            boot: [3; 16],
            appended: 9,
            synced: 8,
            visible: 7,
            generation: 6,
            installing: 6,
            syncing: true,
            epoch: 2,
            poisoned: true,
        };
        tail.reset(&[1; 16], marks);
        assert_eq!(Marks::decode(&bytes(&tail), &[1; 16]), Some(marks));
        assert_eq!(Marks::decode(&bytes(&tail), &[2; 16]), None);
        assert_eq!(Marks::decode(&bytes(&tail)[..4095], &[1; 16]), None);
        for impossible in [Marks { synced: 10, ..marks }, Marks { visible: 10, ..marks }] {
            tail.reset(&[1; 16], impossible);
            assert_eq!(Marks::decode(&bytes(&tail), &[1; 16]), None);
        }
        tail.reset(&[1; 16], marks);
        tail.raise_appended(5);
        assert_eq!(tail.appended(), 9);
    }
}
