//! Scratch directories with stores in them, and what is expected to be read from them.
//!
//! States describe themselves (thread, number), so whatever a store answers can be judged alone:
//! exact, absent, or a typed error. Knows the layout of frames only as far as DESIGN.md tells it.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use taffrail::{Checkpointer, ErrorKind, HistoryQuery, PutOptions, Store, TypeTag};

/// A directory that goes with its owner; in memory where there is such a place, because most tests
/// ask nothing of the device and every opening after damage syncs several times.
pub struct Scratch(tempfile::TempDir);

impl Scratch {
    pub fn new() -> Scratch {
        let memory = Path::new("/dev/shm");
        let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        Scratch(made.or_else(|_| tempfile::tempdir()).unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A fresh copy of `from` under `name` that stands for `from` itself: the shared page, which is
    /// believed in the file alone that it names, names its copy.
    pub fn copy(&self, from: &Path, name: &str) -> PathBuf {
        let to = self.path(name);
        let _ = fs::remove_dir_all(&to);
        copy(from, &to);
        if let Ok(page) = fs::read(to.join("tail")) {
            put_page(&to, &page);
        }
        to
    }
}

/// Puts such a page over a directory's own, as if it had been written there.
pub fn put_page(dir: &Path, page: &[u8]) {
    let (path, mut page) = (dir.join("tail"), page.to_vec());
    if let Some(own_inode) = page.get_mut(7 * 8..8 * 8) {
        own_inode.copy_from_slice(&fs::metadata(&path).unwrap().ino().to_le_bytes());
    }
    fs::write(path, page).unwrap();
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target)
        } else {
            fs::write(target, fs::read(entry.path()).unwrap()).unwrap()
        }
    }
}

/// The paths of a directory's segments, oldest first.
pub fn segments(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|end| end == "seg")).collect();
    paths.sort();
    paths
}

/// Removes the hint files, so that an opening reads the segments themselves.
pub fn remove_hints(dir: &Path) {
    hints(dir).iter().for_each(|path| fs::remove_file(path).unwrap());
}

/// The hint files, oldest first.
pub fn hints(dir: &Path) -> Vec<PathBuf> {
    segments(dir).into_iter().map(|path| path.with_extension("hint")).filter(|path| path.exists()).collect()
}

/// All that can be seen of a directory from outside: names, lengths, times, contents.
pub fn snapshot(dir: &Path) -> BTreeMap<PathBuf, (u64, std::time::SystemTime, Vec<u8>)> {
    let mut seen = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let metadata = fs::metadata(&path).unwrap();
        let bytes = if metadata.is_dir() { Vec::new() } else { fs::read(&path).unwrap() };
        if metadata.is_dir() {
            seen.extend(snapshot(&path));
        }
        seen.insert(path, (metadata.len(), metadata.modified().unwrap(), bytes));
    }
    seen
}

/// Where a segment's frames stand, by their lengths alone, from the first one to the first zero.
pub fn frames(segment: &[u8]) -> Vec<Range<usize>> {
    let word = |at: usize| u32::from_le_bytes(segment[at..at + 4].try_into().unwrap()) as usize;
    let mut found = Vec::new();
    let mut at = 72;
    while at + 48 <= segment.len() && segment[at..at + 4] == *b"TfRm" {
        let end = at + 48 + word(at + 8).next_multiple_of(8) + word(at + 12).next_multiple_of(8);
        found.push(at..end);
        at = end;
    }
    found
}

/// The state with number `number` of a thread, about `length` bytes long.
pub fn state(thread: &str, number: u64, length: usize) -> Vec<u8> {
    let mut bytes = format!("{thread}/{number}/").into_bytes();
    let mut seed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    while bytes.len() < length {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bytes.push((seed >> 56) as u8);
    }
    bytes
}

/// What a store is expected to hold: each thread's states, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Expected(pub BTreeMap<String, Vec<Vec<u8>>>);

impl Expected {
    pub fn note(&mut self, thread: &str, state: Vec<u8>) {
        self.0.entry(thread.to_owned()).or_default().push(state);
    }

    /// Puts a state and notes it.
    pub fn put(&mut self, store: &Store, thread: &str, state: Vec<u8>) {
        store.put_bytes(thread, TypeTag::BYTES, &state, PutOptions::default()).unwrap();
        self.note(thread, state);
    }

    /// Asserts that the store holds exactly this.
    pub fn is_all_of(&self, store: &Store, context: &str) {
        assert_eq!(store.threads().unwrap(), self.0.keys().cloned().collect::<Vec<_>>(), "{context}");
        for (thread, states) in &self.0 {
            let read = history(store, thread).unwrap_or_else(|error| panic!("{context}: {error}"));
            assert!(read == *states, "{context}: {thread} has {} states, not {}", read.len(), states.len());
            assert_eq!(*store.get_bytes(thread).unwrap().unwrap().state, **states.last().unwrap(), "{context}");
        }
    }

    /// Asserts that whatever the store answers is exact, an error that names its file, or absent;
    /// and that nothing is absent without a word of it in the report.
    pub fn is_told_truly_by(&self, store: &Store, context: &str) {
        let report = store.recovery();
        let told = !report.damage.is_empty() || !report.unproven.is_empty();
        for (thread, states) in &self.0 {
            let mut failed = false;
            match store.get_bytes(thread) {
                Ok(Some(head)) => assert!(states.iter().any(|state| **state == *head.state), "{context}: a state nobody put"),
                Ok(None) => assert!(told, "{context}: {thread} is gone without a word: {report:?}"),
                Err(error) => failed = is_typed(&error, context),
            }
            let Ok(items) = store.list(thread, &HistoryQuery::default()) else { continue };
            let mut left = states.iter().rev();
            let mut shown = 0;
            for item in items {
                let id = match item {
                    Ok(info) => info.id,
                    Err(error) => {
                        failed = is_typed(&error, context);
                        break;
                    }
                };
                match store.load_bytes(thread, &id) {
                    Ok(Some(read)) => {
                        assert!(left.any(|state| **state == *read.state), "{context}: a state that is wrong or out of order");
                        shown += 1;
                    }
                    Ok(None) => panic!("{context}: listed and not there"),
                    Err(error) => failed = is_typed(&error, context),
                }
            }
            assert!(shown == states.len() || told || failed, "{context}: a shorter history with success: {report:?}");
        }
        for thread in store.threads().unwrap_or_default() {
            assert!(self.0.contains_key(&thread), "{context}: a thread nobody made: {thread:?}");
        }
    }
}

/// A thread's states, oldest first.
pub fn history(store: &Store, thread: &str) -> taffrail::Result<Vec<Vec<u8>>> {
    let newest_first: taffrail::Result<Vec<_>> = store.history_bytes(thread, &HistoryQuery::default())?.collect();
    Ok(newest_first?.into_iter().rev().map(|read| read.state.to_vec()).collect())
}

/// Asserts that an error about damage says so and names a file.
pub fn is_typed(error: &taffrail::Error, context: &str) -> bool {
    assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported | ErrorKind::Io), "{context}: {error:?}");
    assert!(error.file().is_some(), "{context}: {error:?} names no file");
    true
}

/// A store of 20 puts over 3 threads, closed; each put durable, so that each frame proves the one before.
pub fn twenty_puts(dir: &Path) -> Expected {
    let store = Store::open(dir).unwrap();
    let mut expected = Expected::default();
    for number in 0..20 {
        let thread = ["a", "b", "c"][number as usize % 3];
        expected.put(&store, thread, state(thread, number, 20 + number as usize));
    }
    store.close().unwrap();
    expected
}
