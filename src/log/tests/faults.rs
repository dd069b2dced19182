//! Every operation of the layer below fails in turn, once and for ever, under every kind of write
//! and opening; afterwards nothing acknowledged is lost and nothing refused is there.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;

use super::failing::{Failing, Fault, Kind};
use super::{Scratch, index_is_derived};
use crate::batch::{Batch, Durability, PutOptions};
use crate::checkpoint::TypeTag;
use crate::checkpointer::Checkpointer;
use crate::error::{ErrorKind, Result};
use crate::log::Store;
use crate::options::Options;
use crate::query::{HistoryQuery, VacuumQuery};
use crate::testing::states::noise;

pub(super) type Contents = BTreeMap<String, Vec<Vec<u8>>>;

pub(super) fn contents(store: &Store) -> Contents {
    let states = |thread: &String| -> Vec<Vec<u8>> {
        let newest_first = store.history_bytes(thread, &HistoryQuery::default()).unwrap();
        newest_first.map(|read| read.unwrap().state.to_vec()).collect()
    };
    store.threads().unwrap().into_iter().map(|thread| (thread.clone(), states(&thread))).collect()
}

/// Puts a state of that length: a small one is like those before it, and mostly a delta; one that is to
/// fill a segment has nothing in common with any. The same for all stores with the same history of the thread.
pub(super) fn put(store: &Store, thread: &str, length: usize, durability: Durability) -> Result<()> {
    let head = store.shared.index.appended(thread).and_then(|view| view.head().map(|head| head.place));
    let state = if length < 1000 { vec![thread.len() as u8 + 1; length] } else { noise(head.unwrap_or(0), length) };
    store.put_bytes(thread, TypeTag::BYTES, &state, PutOptions::default().durability(durability)).map(drop)
}

pub(super) fn options(layer: &Failing) -> Options {
    let mut options = Store::options().segment_bytes(64 * 1024).auto_compaction(false);
    options.fs = Arc::new(layer.clone());
    options
}

/// Puts that are acknowledged before anything fails; `fill` of them lead up to the segment's end.
pub(super) fn acknowledged(store: &Store, fill: usize) {
    for thread in ["a", "b", "a", "c", "a"] {
        put(store, thread, 300, Durability::Sync).unwrap();
    }
    (0..fill).for_each(|_| put(store, "fill", 10_000, Durability::Buffered).unwrap());
    if fill > 10 {
        // Of four segments one is wholly dead, and the others in part.
        store.retain(Some("fill"), Some(7)).unwrap();
        store.delete("c").unwrap();
    }
    put(store, "b", 200, Durability::Buffered).unwrap();
}

pub(super) struct Write {
    pub name: &'static str,
    pub fill: usize,
    pub run: fn(&Store) -> Result<()>,
}

pub(super) const WRITES: [Write; 10] = [
    Write { name: "a durable put", fill: 0, run: |store| put(store, "new", 500, Durability::Sync) },
    Write { name: "a buffered put", fill: 0, run: |store| put(store, "new", 500, Durability::Buffered) },
    Write { name: "a put that rotates", fill: 5, run: |store| put(store, "new", 10_000, Durability::Sync) },
    Write { name: "a put in a segment of its own", fill: 0, run: |store| put(store, "new", 20_000, Durability::Sync) },
    Write {
        name: "a large put after an empty segment",
        fill: 0,
        run: |store| {
            let mut batch = Batch::new();
            let state = noise(9, 17_000);
            batch.put("x", TypeTag::BYTES, &state, PutOptions::default()).put("y", TypeTag::BYTES, b"small", PutOptions::default());
            store.commit(&batch).map(drop)
        },
    },
    Write {
        name: "a batch",
        fill: 0,
        run: |store| {
            let mut batch = Batch::new();
            batch.put("new", TypeTag::BYTES, b"1", PutOptions::default()).put("new", TypeTag::BYTES, b"22", PutOptions::default());
            batch.delete("c", None);
            store.commit(&batch).map(drop)
        },
    },
    Write { name: "a delete", fill: 1, run: |store| store.delete("a").map(drop) },
    Write { name: "a limit", fill: 1, run: |store| store.retain(Some("a"), Some(1)) },
    Write { name: "a compaction", fill: 17, run: |store| store.compact().map(drop) },
    Write { name: "a vacuum", fill: 1, run: |store| store.vacuum(&VacuumQuery { keep: Some(1), ..VacuumQuery::default() }).map(drop) },
];

/// The faults of one walk: the nth operation, for every n until the write meets none.
fn walks() -> impl Iterator<Item = Fault> {
    let write = Some(Kind::Write);
    let faults = [
        (Errno::IO, None, 0),
        (Errno::NOSPC, None, 0),
        (Errno::IO, write, 600),
        (Errno::NOSPC, write, 40),
        (Errno::NOSPC, write, 12_000),
        (Errno::NOSPC, write, usize::MAX),
    ];
    let both = faults.into_iter().flat_map(|fault| [true, false].map(|once| (fault, once)));
    both.map(|((errno, kind, short), once)| Fault::fail(0, kind, once, errno, short))
}

#[test]
fn a_write_that_meets_an_error_is_whole_or_absent() {
    let mut met = 0;
    for Write { name, fill, run } in WRITES {
        let after = &after(fill, run);
        for walk in walks() {
            for from in 0.. {
                let fault = Fault { from, ..walk };
                let context = format!("{name}, {fault:?}");
                if !one_write(&context, fill, run, fault, after) {
                    break;
                }
                met += 1;
            }
        }
    }
    assert!(met > 200, "only {met} faults were met");
}

fn one_write(context: &str, fill: usize, run: fn(&Store) -> Result<()>, fault: Fault, after: &Contents) -> bool {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let store = options(&layer).open(scratch.dir()).unwrap();
    acknowledged(&store, fill);
    let before = contents(&store);
    layer.set(Some(fault));
    let answer = run(&store);
    let failed = layer.failed();
    let context = &format!("{context}: {failed:?}, {answer:?}");
    assert_eq!(contents(&store), if answer.is_ok() { after.clone() } else { before.clone() }, "{context}: what readers see");
    layer.set(None);
    let (mut allowed, refused) = (vec![after.clone()], before.clone());
    if let Err(error) = &answer {
        let only_full = fault.errno() == Some(Errno::NOSPC) && failed.iter().all(|(kind, _)| matches!(kind, Kind::Write | Kind::Create));
        assert!(error.kind() == ErrorKind::DiskFull || !only_full || fault.short > 0, "{context}: a full disk is not the end");
        match error.kind() {
            ErrorKind::DiskFull => {
                assert_eq!(fault.errno(), Some(Errno::NOSPC), "{context}");
                allowed = vec![refused];
                if fault.short != usize::MAX {
                    run(&store).unwrap_or_else(|error| panic!("{context}: with space again: {error}"));
                    allowed = vec![after.clone()];
                }
            }
            ErrorKind::Poisoned => {
                allowed.push(refused);
                assert_eq!(put(&store, "more", 1, Durability::Buffered).unwrap_err().kind(), ErrorKind::Poisoned, "{context}");
            }
            ErrorKind::Io => {
                allowed = vec![refused];
                put(&store, "more", 1, Durability::Sync).unwrap_or_else(|error| panic!("{context}: not poisoned: {error}"));
                assert!(store.delete("more").unwrap());
            }
            // A compaction leaves alone what it cannot read.
            ErrorKind::Corrupt => {
                assert_eq!(failed[0].0, Kind::Read, "{context}");
                allowed = vec![refused];
            }
            kind => panic!("{context}: {kind:?}"),
        }
    } else {
        put(&store, "more", 1, Durability::Sync).unwrap_or_else(|error| panic!("{context}: succeeded: {error}"));
        assert!(store.delete("more").unwrap());
    }
    drop(store);
    reopens(&scratch.dir(), &allowed, context);
    !failed.is_empty()
}

pub(super) fn after(fill: usize, run: fn(&Store) -> Result<()>) -> Contents {
    let scratch = Scratch::new();
    let store = Store::options().segment_bytes(64 * 1024).durability(Durability::Buffered).open(scratch.dir()).unwrap();
    acknowledged(&store, fill);
    run(&store).unwrap();
    contents(&store)
}

/// Opens twice, for reading first: one of the allowed contents, no damage, and new puts stay.
pub(super) fn reopens(dir: &Path, allowed: &[Contents], context: &str) {
    for read_only in [true, false] {
        let store = Store::options().read_only(read_only).open(dir).unwrap_or_else(|error| panic!("{context}: reopen: {error}"));
        assert!(store.recovery().damage.is_empty(), "{context}: {:?}", store.recovery());
        assert!(!store.exists("never").unwrap());
        let found = contents(&store);
        assert!(
            allowed.contains(&found),
            "{context}: reopened to {:?}",
            found.iter().map(|(thread, all)| (thread, all.len())).collect::<Vec<_>>()
        );
        if !read_only {
            index_is_derived(&store, dir);
            put(&store, "later", 10, Durability::Sync).unwrap();
            drop(store);
            let mut again = contents(&Store::open(dir).unwrap());
            assert!(again.remove("later").is_some() && again == found, "{context}: the second opening");
        }
    }
}

#[test]
fn an_opening_that_meets_an_error_changes_nothing_that_counts() {
    type Prepare = fn(&Path);
    let openings: [(&str, Prepare); 3] = [
        ("clean", |_| ()),
        ("without its page", |dir| std::fs::remove_file(dir.join("tail")).unwrap()),
        ("with leftovers", |dir| {
            std::fs::write(dir.join("MANIFEST.new"), b"x").unwrap();
            std::fs::write(dir.join("00000000000000ff.seg.new"), b"x").unwrap();
            let segment = std::fs::read(dir.join("0000000000000001.seg")).unwrap();
            std::fs::write(dir.join("0000000000000000.seg"), segment).unwrap();
            std::fs::remove_file(dir.join("tail")).unwrap();
        }),
    ];
    let mut met = 0;
    for (name, prepare) in openings {
        for lower in [None, Some(Some(1))] {
            for walk in walks().filter(|walk| walk.short < 600) {
                for from in 0.. {
                    let fault = Fault { from, ..walk };
                    let (scratch, layer) = (Scratch::new(), Failing::default());
                    let store = options(&layer).open(scratch.dir()).unwrap();
                    acknowledged(&store, 1);
                    let before = contents(&store);
                    store.close().unwrap();
                    let newest = |states: &Vec<Vec<u8>>| states[..1].to_vec();
                    let lowered: Contents = before.iter().map(|(thread, states)| (thread.clone(), newest(states))).collect();
                    prepare(&scratch.dir());
                    layer.set(Some(fault));
                    let mut with = options(&layer);
                    with.max_history = lower;
                    let opened = with.open(scratch.dir());
                    let failed = layer.failed();
                    layer.set(None);
                    let context = format!("{name}, lowering {lower:?}, {fault:?}, {failed:?}");
                    let allowed = match &opened {
                        Ok(store) => {
                            let expected = if lower.is_some() { lowered } else { before };
                            assert_eq!(contents(store), expected, "{context}");
                            vec![expected]
                        }
                        Err(error) => {
                            let kinds = [ErrorKind::Io, ErrorKind::DiskFull, ErrorKind::Poisoned];
                            assert!(kinds.contains(&error.kind()), "{context}: {error:?}");
                            vec![before, lowered]
                        }
                    };
                    drop(opened);
                    reopens(&scratch.dir(), &allowed, &context);
                    if failed.is_empty() {
                        break;
                    }
                    met += 1;
                }
            }
        }
    }
    assert!(met > 200, "only {met} faults were met");
}

#[test]
fn a_store_that_could_not_be_made_can_be_made_afterwards() {
    for walk in walks() {
        for from in 0.. {
            let (scratch, layer) = (Scratch::new(), Failing::default());
            layer.set(Some(Fault { from, ..walk }));
            let dir = scratch.dir().join("below");
            let made = options(&layer).open(&dir);
            let failed = layer.failed();
            layer.set(None);
            if let Err(error) = &made {
                assert!(matches!(error.kind(), ErrorKind::Io | ErrorKind::DiskFull), "{failed:?}: {error:?}");
                assert!(error.file().is_some(), "{error:?}");
            }
            drop(made);
            let store = options(&layer).open(&dir).unwrap_or_else(|error| panic!("{failed:?}: {error}"));
            put(&store, "t", 10, Durability::Sync).unwrap();
            drop(store);
            let again = Store::options().create(false).open(&dir).unwrap();
            assert_eq!(again.threads().unwrap(), ["t"]);
            if failed.is_empty() {
                break;
            }
        }
    }
}

#[test]
fn what_a_refused_batch_left_behind_the_end_is_never_joined_to_a_later_put() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let store = options(&layer).open(scratch.dir()).unwrap();
    put(&store, "first", 100, Durability::Sync).unwrap();
    let mut batch = Batch::new();
    batch.put("one", TypeTag::BYTES, &[1; 100], PutOptions::default()).put("two", TypeTag::BYTES, &[2; 100], PutOptions::default());
    // All of it reaches the file, and then there is no room.
    layer.set(Some(Fault::fail(0, Kind::Write, false, Errno::NOSPC, usize::MAX)));
    assert_eq!(store.commit(&batch).unwrap_err().kind(), ErrorKind::DiskFull);
    layer.set(None);
    // As long as the refused batch's first record: its second one stands right behind.
    put(&store, "tri", 100, Durability::Sync).unwrap();
    let before = contents(&store);
    assert_eq!(before.keys().collect::<Vec<_>>(), ["first", "tri"]);
    drop(store);
    std::fs::remove_file(scratch.dir().join("tail")).unwrap();
    let reader = Store::options().read_only(true).open(scratch.dir()).unwrap();
    assert!(reader.recovery().unproven.is_empty(), "the next turn wiped it: {:?}", reader.recovery());
    reopens(&scratch.dir(), &[before], "a left record");
    assert!(!scratch.dir().join("quarantine").exists());
}
