//! What damage may cost, worked out from the bytes that it changed, and whether a directory keeps to it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use taffrail::{CheckpointId, Checkpointer, Finding, HistoryQuery, PutOptions, Store, TypeTag};

use crate::sample::{AFTERWARDS, Key, Sample};
use crate::scratch::{Scratch, is_typed, put_page};

/// What lies under a file's name.
#[derive(Clone, Debug)]
pub enum Content {
    Bytes(Vec<u8>),
    Nothing,
    Folder,
}

/// What damage to one file may cost. All else must be as it was.
#[derive(Debug, Default)]
pub struct Cost {
    /// Opening is refused, naming the file or, of an older manifest, what it does not know.
    refused: bool,
    /// Opening to write is.
    read_alone: bool,
    /// These are gone, or answer an error.
    lost: BTreeSet<Key>,
    /// These are in a damaged frame as differences: an opening reads one whose state is right by its content hash.
    doubted: BTreeSet<Key>,
    /// These need what is damaged, or may.
    needing: BTreeSet<Key>,
    /// In these threads what was deleted, trimmed or replaced may show: the record that did it is lost.
    returning: BTreeSet<String>,
    /// Whether any record, or a segment's header, is lost.
    damage: bool,
    /// Whether anything stands behind the end of the active segment, which is told too.
    behind: bool,
}

impl Cost {
    /// The cost of a file's new content.
    pub fn of(sample: &Sample, name: &str, content: &Content) -> Cost {
        let mut cost = Cost { returning: BTreeSet::from([AFTERWARDS.to_owned()]), ..Cost::default() };
        let whole = &sample.whole[name];
        let changed = match content {
            Content::Bytes(bytes) => bytes.as_slice(),
            Content::Nothing | Content::Folder => &[],
        };
        if name == "MANIFEST" {
            cost.refused = changed != whole;
        }
        // A folder cannot be mapped.
        cost.read_alone = name == "tail" && matches!(content, Content::Folder);
        if !name.ends_with(".seg") {
            return cost;
        }
        cost.refused |= name == sample.active() && !matches!(content, Content::Bytes(_));
        let same = |at: std::ops::Range<usize>| changed.get(at.clone()) == Some(&whole[at]);
        for (at, record) in sample.records.iter().enumerate().filter(|(_, record)| record.file == name) {
            if !same(record.at.clone()) {
                cost.add(sample, at);
            }
        }
        // The manifest tells the salt, so a damaged header takes no frame with it.
        cost.damage |= !same(0..72);
        cost.behind = name == sample.active() && changed.get(sample.end(name)..).is_some_and(|room| room.iter().any(|byte| *byte != 0));
        cost
    }

    fn add(&mut self, sample: &Sample, at: usize) {
        let record = &sample.records[at];
        self.damage = true;
        self.returning.insert(record.thread.clone());
        let Some(key) = record.key() else { return };
        // What only others need, or nobody, is not shown anyway.
        let newest = sample.records.iter().rposition(|other| other.key().as_ref() == Some(&key));
        if newest == Some(at) && sample.shown.contains_key(&key) {
            if record.is_delta() {
                self.doubted.insert(key)
            } else {
                self.lost.insert(key)
            };
        }
        let mut behind: Vec<_> = sample.records.iter().filter(|other| other.thread == record.thread && other.id.is_some()).collect();
        behind.retain(|other| other.place > record.place);
        behind.sort_by_key(|other| other.place);
        for other in behind {
            // At one place may stand a delta and, promoted, its keyframe.
            if other.is_delta() {
                self.needing.extend(other.key());
            } else if !sample.records.iter().any(|delta| delta.key() == other.key() && delta.is_delta()) {
                break;
            }
        }
    }

    fn may_lose(&self, key: &Key) -> bool {
        [&self.lost, &self.doubted, &self.needing].iter().any(|keys| keys.contains(key))
    }

    /// Holds what a store shows against this; answers what is shown as it was.
    fn holds(&self, sample: &Sample, store: &Store, context: &str) -> BTreeSet<Key> {
        let mut exact = BTreeSet::new();
        for (key, puts) in &sample.puts {
            let context = || format!("{context}: {key:?}");
            match store.load_bytes(&key.0, &CheckpointId::new(&key.1).unwrap()) {
                Ok(Some(read)) => {
                    assert!(puts.iter().any(|state| **state == *read.state), "{}: a state that nobody put", context());
                    if sample.shown.get(key).is_some_and(|state| **state == *read.state) {
                        exact.insert(key.clone());
                    } else {
                        assert!(self.returning.contains(&key.0), "{}: what was replaced or deleted is back", context());
                    }
                }
                Ok(None) => {}
                Err(error) => drop(is_typed(&error, &context())),
            }
        }
        for key in sample.shown.keys().filter(|key| !exact.contains(*key)) {
            assert!(
                self.may_lose(key) || self.refused,
                "{context}: {key:?} is lost, which the damage did not strike: {:?}",
                store.recovery()
            );
        }
        for thread in store.threads().unwrap_or_default() {
            assert!(sample.puts.keys().any(|(known, _)| *known == thread), "{context}: a thread that nobody made: {thread:?}");
            for info in store.list(&thread, &HistoryQuery::default()).into_iter().flatten().flatten() {
                assert!(sample.puts.contains_key(&(thread.clone(), info.id.to_string())), "{context}: {thread}: {}", info.id);
            }
        }
        exact
    }
}

/// How much is asked of each damaged directory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Depth {
    /// Opened to read, read whole, verified.
    Read,
    /// Also opened to write and put to, twice, and repaired.
    All,
}

/// A directory in which one file after the other is damaged.
pub struct Ground<'a> {
    sample: &'a Sample,
    scratch: Scratch,
}

impl<'a> Ground<'a> {
    pub fn new(sample: &'a Sample) -> Ground<'a> {
        let ground = Ground { sample, scratch: Scratch::new() };
        ground.lay_out(&ground.dir());
        ground
    }

    pub fn dir(&self) -> PathBuf {
        self.scratch.path("store")
    }

    fn lay_out(&self, dir: &Path) {
        fs::create_dir_all(dir).unwrap();
        self.sample.whole.iter().for_each(|(name, bytes)| write(dir, name, &Content::Bytes(bytes.clone())));
    }

    /// Damages a file, asks everything, and mends it again. Answers how many checkpoints it cost.
    pub fn judge(&self, name: &str, content: &Content, depth: Depth, context: &str) -> usize {
        let dir = self.dir();
        write(&dir, name, content);
        let cost = Cost::of(self.sample, name, content);
        let lost = self.read(&dir, name, &cost, context);
        if depth == Depth::All {
            self.goes_on(name, content, &cost, context);
            let missing = self.repaired(&dir, &cost, context);
            // Repair believes no hint, which may know of frames whose heads are damaged.
            let hints = || self.sample.whole.keys().filter(|file| file.ends_with(".hint"));
            hints().for_each(|hint| write(&dir, hint, &Content::Nothing));
            let lost = self.read(&dir, name, &cost, &format!("{context}, without hints"));
            let left_out: Vec<_> = missing.difference(&lost).filter(|key| !cost.doubted.contains(*key)).collect();
            assert!(left_out.is_empty(), "{context}: repair left out {left_out:?}");
            hints().for_each(|hint| self.mend(&dir, hint));
        }
        self.mend(&dir, name);
        lost.len()
    }

    fn mend(&self, dir: &Path, name: &str) {
        write(dir, name, &Content::Bytes(self.sample.whole[name].clone()));
    }

    /// Opens to read and verifies; answers what is lost, nothing where opening is refused.
    fn read(&self, dir: &Path, name: &str, cost: &Cost, context: &str) -> BTreeSet<Key> {
        let opened = Store::options().read_only(true).mmap(false).open(dir);
        let store = match opened {
            Ok(store) => store,
            Err(error) => {
                is_typed(&error, context);
                assert!(cost.refused, "{context}: {error}");
                return BTreeSet::new();
            }
        };
        let exact = cost.holds(self.sample, &store, context);
        let findings = store.verify().unwrap_or_else(|error| panic!("{context}: {error}"));
        // To read alone, a manifest is believed that is older than the data, and misses what it does not know of.
        let of_whom = |finding: &Finding| cost.refused || finding.file == dir.join(name);
        let told = findings.iter().any(|finding| finding.damage && of_whom(finding));
        assert_eq!(told, cost.damage || cost.refused, "{context}: verify found {findings:?}");
        assert!(
            !cost.behind || findings.iter().any(|finding| finding.file == dir.join(name)),
            "{context}: not a word of what is behind the end"
        );
        for key in &cost.lost {
            assert!(!exact.contains(key), "{context}: {key:?} is read from a damaged frame");
        }
        self.sample.shown.keys().filter(|key| !exact.contains(*key)).cloned().collect()
    }

    /// What is not lost comes back, sound; what is lost is told.
    fn repaired(&self, dir: &Path, cost: &Cost, context: &str) -> BTreeSet<Key> {
        let dest = self.scratch.path("repaired");
        let _ = fs::remove_dir_all(&dest);
        let report = Store::repair(dir, &dest).unwrap_or_else(|error| panic!("{context}: repair: {error}"));
        let opened = Store::options().create(false).open(&dest);
        let store = opened.unwrap_or_else(|error| panic!("{context}: repaired and not opened: {error}"));
        assert!(store.recovery().damage.is_empty() && store.verify().unwrap().is_empty(), "{context}: repaired and not sound");
        let exact = cost.holds(self.sample, &store, &format!("{context}, repaired"));
        let missing: BTreeSet<Key> = self.sample.shown.keys().filter(|key| !exact.contains(*key)).cloned().collect();
        assert!(missing.iter().all(|key| cost.may_lose(key)), "{context}: repair did not bring back all of {missing:?}");
        let told = report.damage.iter().any(|finding| finding.damage) || report.torn_bytes > 0;
        assert!(missing.is_empty() || told, "{context}: {missing:?} are gone without a word: {report:?}");
        missing
    }

    /// A writer opens a copy, tells what it lacks, puts, and finds its put again.
    fn goes_on(&self, name: &str, content: &Content, cost: &Cost, context: &str) {
        let dir = self.scratch.path("written");
        let _ = fs::remove_dir_all(&dir);
        self.lay_out(&dir);
        write(&dir, name, content);
        for number in 0..2u8 {
            let store = match Store::open(&dir) {
                Ok(store) => {
                    assert!(!cost.refused && !cost.read_alone, "{context}: opened to write: {:?}", store.recovery());
                    store
                }
                Err(error) => {
                    assert!((cost.refused || cost.read_alone) && number == 0 && is_typed(&error, context), "{context}: {error}");
                    return;
                }
            };
            cost.holds(self.sample, &store, &format!("{context}, opening {number} to write"));
            if number > 0 {
                assert_eq!(*store.get_bytes(AFTERWARDS).unwrap().unwrap().state, *AFTERWARDS.as_bytes(), "{context}");
            }
            let options = PutOptions::default().id(CheckpointId::new(AFTERWARDS).unwrap());
            store.put_bytes(AFTERWARDS, TypeTag::BYTES, AFTERWARDS.as_bytes(), options).unwrap();
        }
    }
}

/// Puts such a content in a directory, whatever lies there; the page there stands for the store's own.
fn write(dir: &Path, name: &str, content: &Content) {
    let path = dir.join(name);
    if path.is_dir() {
        fs::remove_dir(&path).unwrap();
    }
    match content {
        Content::Bytes(bytes) => {
            // Not cut first, which would have the system find the same memory again.
            let file = fs::OpenOptions::new().write(true).create(true).truncate(false).open(&path).unwrap();
            file.write_all_at(bytes, 0).unwrap();
            file.set_len(bytes.len() as u64).unwrap();
            if name == "tail" {
                put_page(dir, bytes);
            }
        }
        Content::Nothing => drop(fs::remove_file(&path)),
        Content::Folder => {
            let _ = fs::remove_file(&path);
            fs::create_dir(&path).unwrap();
        }
    }
}
