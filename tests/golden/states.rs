//! Stores as they may be found: new, ended in the middle of something, recovered, damaged.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use taffrail::testing::states::noise;
use taffrail::{Batch, Checkpointer, Compression, ErrorKind, OnExisting, Store, TypeTag};

use crate::common::{at, holds, id, put, state};
use crate::{Page, segments};

/// Words of the page.
const NEXT_SEQ: usize = 9;
const NEXT_NUMBER: usize = 10;
const WRITING: usize = 13;
const GENERATION: usize = 32;
const INSTALLING: usize = 33;

fn open(dir: &Path) -> Store {
    Store::options().auto_compaction(false).segment_bytes(64 * 1024).max_history(None).open(dir).unwrap()
}

fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let paths = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.is_file()).map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// Where the second content of a file is first another one.
fn differs_at(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).position(|(one, other)| one != other).unwrap()
}

fn active(dir: &Path) -> PathBuf {
    segments(dir).pop().unwrap()
}

/// Where a state of bytes stands in a file, whole.
fn place_of(path: &Path, state: &[u8]) -> u64 {
    let bytes = fs::read(path).unwrap();
    bytes.windows(state.len()).position(|window| window == state).unwrap() as u64
}

/// Nothing was put yet.
pub mod new {
    use super::*;

    pub fn make(dir: &Path) {
        open(dir).close().unwrap();
    }

    pub fn check(store: &Store) {
        assert!(store.threads().unwrap().is_empty());
    }
}

/// Values were attached: to checkpoints that were there, that came later and that never came; packed and not, in a
/// compacted segment and in the active one.
pub mod attached {
    use super::*;

    fn attach(store: &Store, thread: &str, own: &str, key: &str, value: &[u8], on: OnExisting) -> bool {
        store.attach(thread, &id(own), key, TypeTag::BYTES, value, on).unwrap()
    }

    pub fn make(dir: &Path) {
        let options = || Store::options().auto_compaction(false).segment_bytes(64 * 1024);
        let store = options().compression(Compression::Always).max_history(3).open(dir).unwrap();
        attach(&store, "a", "never", "k", b"gone", OnExisting::Keep);
        attach(&store, "a", "a0", "before", b"before a0", OnExisting::Keep);
        put(&store, "a", 0..2);
        attach(&store, "a", "a1", "packed", &b"packed ".repeat(400), OnExisting::Replace);
        attach(&store, "a", "a1", "k", b"first", OnExisting::Replace);
        put(&store, "b", 0..1);
        attach(&store, "b", "b1", "before", b"before b1", OnExisting::Keep);
        put(&store, "b", 1..2);
        for step in 0..20 {
            store.put_bytes("dead", TypeTag::BYTES, &noise(step, 9_000), at(step)).unwrap();
        }
        store.delete("dead").unwrap();
        store.compact().unwrap();
        store.close().unwrap();
        let store = options().open(dir).unwrap();
        assert!(attach(&store, "a", "a1", "k", b"last", OnExisting::Replace));
        assert!(!attach(&store, "b", "b1", "before", b"later", OnExisting::Keep));
        attach(&store, "a", "a2", "before", b"before a2", OnExisting::Keep);
        attach(&store, "a", "a9", "waits", b"for a9", OnExisting::Keep);
        attach(&store, "bare", "first", "k", b"waits", OnExisting::Keep);
        put(&store, "a", 2..4);
        store.close().unwrap();
    }

    pub fn check(store: &Store) {
        holds(store, "a", 1..4);
        holds(store, "b", 0..2);
        assert!(!store.exists("bare").unwrap());
        let packed = "packed ".repeat(400);
        for (thread, own, attached) in [
            ("a", "never", &[][..]),
            ("a", "a0", &[]),
            ("a", "a1", &[("k", "last"), ("packed", &packed)]),
            ("a", "a2", &[("before", "before a2")]),
            ("a", "a9", &[("waits", "for a9")]),
            ("b", "b0", &[]),
            ("b", "b1", &[("before", "before b1")]),
            ("bare", "first", &[("k", "waits")]),
        ] {
            let found = store.attachments(thread, &id(own)).unwrap();
            let found: Vec<_> = found.iter().map(|one| (one.key.as_str(), std::str::from_utf8(&one.value).unwrap())).collect();
            assert_eq!(found, attached, "{thread} {own}");
        }
    }
}

/// Its process was killed in the middle of writing a put.
pub mod unfinished {
    use super::*;

    pub fn make(dir: &Path) {
        let store = open(dir);
        put(&store, "a", 0..6);
        store.close().unwrap();
        let before = files(dir);
        let store = open(dir);
        put(&store, "a", 6..7);
        store.close().unwrap();
        let path = active(dir);
        let whole = fs::read(&path).unwrap();
        before.iter().for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
        let end = differs_at(&before[&path], &whole);
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(&whole[end..end + 120], end as u64).unwrap();
        // Whoever appends has taken a number and says up to where it writes, and moves the end when it has written.
        let mut page = Page::of(dir);
        page.set_number(NEXT_SEQ, page.number(NEXT_SEQ) + 1);
        page.set_number(WRITING, end as u64 + 4096);
        page.write();
    }

    pub fn check(store: &Store) {
        holds(store, "a", 0..6);
    }
}

/// A write of its process failed, the power went, and it was recovered: numbers and positions have jumped.
pub mod recovered {
    use super::*;

    pub fn make(dir: &Path) {
        let store = open(dir);
        put(&store, "a", 0..6);
        store.close().unwrap();
        let mut page = Page::of(dir);
        page.set_boot([1; 16]);
        page.set_poisoned();
        page.write();
        let store = open(dir);
        assert!(store.recovery().fresh_segment);
        put(&store, "a", 6..9);
        store.close().unwrap();
    }

    pub fn check(store: &Store) {
        holds(store, "a", 0..9);
    }
}

/// Recovered where whole frames stood behind one that was not: they are in quarantine.
pub mod set_aside {
    use super::*;

    pub fn make(dir: &Path) {
        let store = open(dir);
        put(&store, "a", 0..3);
        let mut page = Page::of(dir);
        let mut batch = Batch::new();
        let states: Vec<_> = (3..6).map(|step| state("a", step)).collect();
        for (step, state) in (3..).zip(&states) {
            batch.put("a", TypeTag::BYTES, state, at(step).id(id(&format!("a{step}"))));
        }
        store.commit(&batch).unwrap();
        store.close().unwrap();
        let path = active(dir);
        let record = fs::read(&path).unwrap().windows(2).position(|window| window == b"a3").unwrap();
        let file = fs::OpenOptions::new().write(true).open(path).unwrap();
        file.write_all_at(b"?", record as u64).unwrap();
        page.set_boot([1; 16]);
        page.write();
        let store = open(dir);
        assert_eq!(store.recovery().unproven.len(), 2, "{:?}", store.recovery());
        store.close().unwrap();
    }

    pub fn check(store: &Store) {
        holds(store, "a", 0..3);
    }
}

/// Killed behind a compaction, before it removed what it had replaced, and with what others had begun.
pub mod compacting {
    use super::*;

    pub fn make(dir: &Path) {
        let store = open(dir);
        put(&store, "a", 0..40);
        put(&store, "b", 0..20);
        put(&store, "a", 40..60);
        assert!(store.delete("b").unwrap());
        let before = files(dir);
        store.compact().unwrap();
        store.close().unwrap();
        let manifest = fs::read(dir.join("MANIFEST")).unwrap();
        let retired = u64::from_le_bytes(manifest[manifest.len() - 8..].try_into().unwrap());
        let path = dir.join(format!("{retired:016x}.seg"));
        assert!(!path.exists(), "no number of a retired segment ends the manifest");
        fs::write(&path, &before[&path]).unwrap();
        fs::write(dir.join("MANIFEST.new"), &manifest[..100]).unwrap();
        let compacted = segments(dir).into_iter().find(|path| fs::read(path).unwrap()[10] == 2).unwrap();
        fs::copy(compacted, dir.join("0000000000000063.seg.new")).unwrap();
        fs::write(dir.join("0000000000000001.hint.new"), b"TAFFHNT").unwrap();
    }

    pub fn check(store: &Store) {
        assert_eq!(store.threads().unwrap(), ["a"]);
        holds(store, "a", 0..60);
    }
}

/// Killed behind the manifest that lists a large put's segment, before that had its name.
pub mod without_its_name {
    use super::*;

    pub fn make(dir: &Path) {
        let store = open(dir);
        put(&store, "a", 0..3);
        let mut page = Page::of(dir);
        store.put_bytes("large", TypeTag::BYTES, &large(), at(9).id(id("large"))).unwrap();
        let after = Page::of(dir);
        store.close().unwrap();
        // The manifest is there, which the page does not say yet.
        assert_eq!(after.number(GENERATION), page.number(GENERATION) + 1);
        [NEXT_SEQ, NEXT_NUMBER, INSTALLING].into_iter().for_each(|word| page.set_number(word, after.number(word)));
        page.write();
        let own = segments(dir).into_iter().find(|path| fs::metadata(path).unwrap().len() > 64 * 1024).unwrap();
        fs::rename(&own, own.with_extension("seg.new")).unwrap();
        files(dir)
            .into_keys()
            .filter(|path| path.extension().is_some_and(|it| it == "hint"))
            .for_each(|path| fs::remove_file(path).unwrap());
    }

    fn large() -> Vec<u8> {
        (0..30).flat_map(|step| state("large", 4 * step + 3)).collect()
    }

    pub fn check(store: &Store) {
        holds(store, "a", 0..3);
        assert!(*store.get_bytes("large").unwrap().unwrap().state == *large());
    }
}

/// A state was damaged since.
pub mod damaged {
    use super::*;

    pub fn make(dir: &Path) {
        let store = open(dir);
        put(&store, "a", 0..3);
        put(&store, "b", 0..1);
        put(&store, "a", 3..5);
        store.close().unwrap();
        let (path, state) = (active(dir), state("b", 0));
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(b"?", place_of(&path, &state)).unwrap();
    }

    pub fn check(store: &Store) {
        holds(store, "a", 0..5);
        let error = store.get_bytes("b").unwrap_err();
        assert!(error.kind() == ErrorKind::Corrupt && error.thread() == Some("b"), "{error}");
    }
}
