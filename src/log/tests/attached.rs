//! What is attached, where the log is damaged, short of room or of files, or shared.

use std::collections::HashSet;
use std::sync::Barrier;

use rustix::io::Errno;

use super::failing::{Failing, Fault, Kind};
use super::faults::options;
use super::{Scratch, index_is_derived};
use crate::batch::{Batch, Committed, OnExisting, PutOptions};
use crate::checkpoint::{CheckpointId, TypeTag};
use crate::checkpointer::Checkpointer;
use crate::error::{ErrorKind, Result};
use crate::log::Store;
use crate::log::compact::Pass;
use crate::log::runs::Wanted;
use crate::options::Compression;
use crate::query::{ThreadQuery, VacuumQuery};
use crate::testing::states::noise;

fn id(own: &str) -> CheckpointId {
    CheckpointId::new(own).unwrap()
}

fn put(store: &Store, thread: &str, own: &str) {
    store.put_bytes(thread, TypeTag::BYTES, own.as_bytes(), PutOptions::default().id(id(own))).unwrap();
}

fn attach(store: &Store, thread: &str, own: &str, key: &str, value: &[u8]) {
    assert!(store.attach(thread, &id(own), key, TypeTag::BYTES, value, OnExisting::Replace).unwrap());
}

fn attached(store: &Store, thread: &str, own: &str) -> Vec<String> {
    let all = store.attachments(thread, &id(own)).unwrap();
    all.iter().map(|one| format!("{}={}", one.key, String::from_utf8_lossy(&one.value))).collect()
}

/// Of many who attach under one key at once, in several handles, one is the first.
#[test]
fn one_of_many_is_first() {
    let scratch = Scratch::new();
    let stores: Vec<Store> = (0..4).map(|_| Store::open(scratch.dir()).unwrap()).collect();
    for round in 0..20 {
        let (barrier, own) = (Barrier::new(stores.len()), id(&format!("step-{round}")));
        let decide = |number: usize| -> Result<bool> {
            barrier.wait();
            stores[number].attach("t", &own, "decision", TypeTag::BYTES, &[number as u8], OnExisting::Keep)
        };
        let answers: Vec<bool> = std::thread::scope(|scope| {
            let decide = &decide;
            let workers: Vec<_> = (0..stores.len()).map(|number| scope.spawn(move || decide(number))).collect();
            workers.into_iter().map(|worker| worker.join().unwrap().unwrap()).collect()
        });
        let first: Vec<u8> = (0..).zip(&answers).filter(|(_, is_first)| **is_first).map(|(number, _)| number).collect();
        assert_eq!(first.len(), 1, "round {round}: {answers:?}");
        for store in &stores {
            assert_eq!(&*store.attachments("t", &own).unwrap()[0].value, &first[..]);
        }
    }
}

/// A thread with nothing but what awaits a checkpoint is in no list and no count, and outlives compaction,
/// reopening, backup and repair.
#[test]
fn what_awaits_a_checkpoint_is_no_thread_and_is_kept() {
    let scratch = Scratch::new();
    let store = Store::open(scratch.dir()).unwrap();
    attach(&store, "bare", "to come", "k", b"1");
    put(&store, "t", "a");
    attach(&store, "t", "a", "k", b"2");
    attach(&store, "t", "b", "k", b"3");
    let limited = ThreadQuery { limit: Some(1), ..ThreadQuery::default() };
    assert_eq!(store.list_threads(&limited).unwrap().map(|info| info.unwrap().thread).collect::<Vec<_>>(), ["t"]);
    let stats = store.stats().unwrap();
    assert_eq!((stats.threads, stats.checkpoints, stats.attachments), (1, 1, 3));
    assert_eq!(store.vacuum(&VacuumQuery { idle: Some(Default::default()), ..VacuumQuery::default() }).unwrap().threads, 1);
    put(&store, "t", "a");
    attach(&store, "t", "a", "k", b"2");
    attach(&store, "t", "b", "k", b"3");
    store.compact().unwrap();
    let (copy, repaired) = (scratch.dir().with_file_name("copy"), scratch.dir().with_file_name("repaired"));
    store.backup(&copy).unwrap();
    store.close().unwrap();
    Store::repair(scratch.dir(), &repaired).unwrap();
    for dir in [scratch.dir(), copy, repaired] {
        let store = Store::open(&dir).unwrap();
        assert_eq!((attached(&store, "bare", "to come"), store.exists("bare").unwrap()), (vec!["k=1".to_owned()], false));
        assert_eq!((attached(&store, "t", "a"), attached(&store, "t", "b")), (vec!["k=2".to_owned()], vec!["k=3".to_owned()]));
        put(&store, "bare", "to come");
        put(&store, "t", "b");
        assert!(store.delete_checkpoint("t", &id("b")).unwrap());
        assert_eq!((attached(&store, "bare", "to come"), attached(&store, "t", "b")), (vec!["k=1".to_owned()], Vec::new()));
        index_is_derived(&store, &dir);
    }
}

/// What was bound to a checkpoint does not wait again for the next one of its id, whichever of the segments
/// that tell of it are compacted.
#[test]
fn what_was_bound_and_went_does_not_come_back() {
    for compacted in 0..8u32 {
        let scratch = Scratch::new();
        let store = options(&Failing::default()).max_history(None).open(scratch.dir()).unwrap();
        let segment = |number: u32, act: &dyn Fn()| {
            act();
            // What fills the segment is dead, or not: then it is compacted, or left as it is.
            let fills: Vec<CheckpointId> = (0..6)
                .map(|at| {
                    let own = id(&format!("fill {number} {at}"));
                    let options = PutOptions::default().id(own.clone());
                    store.put_bytes("fill", TypeTag::BYTES, &noise(u64::from(number * 10 + at), 12_000), options).unwrap();
                    own
                })
                .collect();
            if compacted >> number & 1 == 1 {
                fills.iter().for_each(|own| assert!(store.delete_checkpoint("fill", own).unwrap()));
                store.shared.step_now().unwrap();
            }
        };
        put(&store, "t", "root");
        segment(0, &|| attach(&store, "t", "x", "k", b"1"));
        segment(1, &|| put(&store, "t", "x"));
        segment(2, &|| assert!(store.delete_checkpoint("t", &id("x")).unwrap()));
        put(&store, "t", "x");
        assert!(attached(&store, "t", "x").is_empty(), "compacted: {compacted:03b}");
        index_is_derived(&store, &scratch.dir());
        store.compact().unwrap();
        index_is_derived(&store, &scratch.dir());
        assert!(attached(&store, "t", "x").is_empty(), "compacted: {compacted:03b} and then all");
    }
}

/// The same where the thread was nothing but what waited.
#[test]
fn what_was_all_that_a_thread_had_does_not_come_back() {
    let scratch = Scratch::new();
    let store = options(&Failing::default()).max_history(None).open(scratch.dir()).unwrap();
    let seal = || store.shared.turn().unwrap().rotate(&store.shared).unwrap();
    attach(&store, "bare", "x", "k", b"1");
    put(&store, "t", "kept");
    seal();
    assert!(!store.delete_checkpoint("bare", &id("x")).unwrap());
    ["dead", "kept too"].into_iter().for_each(|own| put(&store, "t", own));
    seal();
    assert!(store.delete_checkpoint("t", &id("dead")).unwrap());
    let second = store.shared.directory.manifest().unwrap().segments[1].base;
    let mut pass = Pass::begin(&store.shared, store.shared.right_to_compact().unwrap(), &|_| Ok(()), true).unwrap();
    assert_eq!(pass.step(Wanted::Next(second, second + 1)).unwrap().unwrap().segments, 1);
    drop(pass);
    index_is_derived(&store, &scratch.dir());
    assert!(attached(&Store::options().read_only(true).open(scratch.dir()).unwrap(), "bare", "x").is_empty());
}

/// Many that never come go a few at a time, none is forgotten, and what replaced them costs nothing.
#[test]
fn orphans_go_a_few_at_a_time() {
    let scratch = Scratch::new();
    let store = Store::options().max_history(1).open(scratch.dir()).unwrap();
    let awaited = |store: &Store| (0..10).filter(|at| !attached(store, "t", &format!("never {at}")).is_empty()).count();
    for at in 0..10 {
        attach(&store, "t", &format!("never {at}"), "k", b"1");
        attach(&store, "t", &format!("never {at}"), "l", b"1");
    }
    let mut left = Vec::new();
    for at in 0..4 {
        put(&store, "t", &format!("{at}"));
        left.push(awaited(&store));
    }
    assert_eq!(left, [6, 2, 0, 0]);
    store.compact().unwrap();
    assert_eq!((awaited(&store), store.stats().unwrap().attachments), (0, 0));
    index_is_derived(&store, &scratch.dir());
}

/// A value that is packed, or large, or has a segment of its own, comes back as it was.
#[test]
fn any_size_and_coding_comes_back() {
    let scratch = Scratch::new();
    let store = options(&Failing::default()).compression(Compression::Always).open(scratch.dir()).unwrap();
    let values = [Vec::new(), b"a".repeat(50_000), noise(1, 300), noise(2, 40_000), noise(3, 200_000)];
    for (at, value) in values.iter().enumerate() {
        attach(&store, "t", "a", &format!("{at}"), value);
    }
    let same = |store: &Store| {
        let found = store.attachments("t", &id("a")).unwrap();
        assert!(found.len() == values.len() && found.iter().zip(&values).all(|(found, value)| *found.value == value[..]));
    };
    same(&store);
    assert!(store.stats().unwrap().stored_bytes < 250_000, "the second one is packed");
    let mut batch = Batch::new();
    for value in &values {
        batch.attach("u", id("a"), "k", TypeTag::BYTES, value, OnExisting::Keep);
    }
    let written: Vec<bool> =
        store.commit(&batch).unwrap().iter().map(|done| matches!(done, Committed::Attached { written: true })).collect();
    assert_eq!(written, [true, false, false, false, false]);
    store.compact().unwrap();
    same(&store);
    store.close().unwrap();
    let store = Store::options().mmap(false).open(scratch.dir()).unwrap();
    same(&store);
    assert!(store.verify().unwrap().is_empty());
}

/// Damage to a value costs that value, is named by `verify`, and a repair brings back the others.
#[test]
fn damage_costs_the_value_alone() {
    let scratch = Scratch::new();
    let store = Store::open(scratch.dir()).unwrap();
    put(&store, "t", "a");
    for key in ["k", "l"] {
        attach(&store, "t", "a", key, key.repeat(100).as_bytes());
    }
    put(&store, "t", "b");
    store.close().unwrap();
    let path = scratch.dir().join("0000000000000001.seg");
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(100).position(|window| window == "k".repeat(100).as_bytes()).unwrap();
    bytes[at + 50] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let store = Store::open(scratch.dir()).unwrap();
    let error = store.attachments("t", &id("a")).unwrap_err();
    assert_eq!((error.kind(), error.thread()), (ErrorKind::Corrupt, Some("t")));
    let findings = store.verify().unwrap();
    assert_eq!(findings.iter().map(|it| (it.thread.as_deref(), it.id.clone())).collect::<Vec<_>>(), [(Some("t"), Some(id("a")))]);
    assert_eq!(store.backup(scratch.dir().with_file_name("copy")).unwrap_err().kind(), ErrorKind::Corrupt);
    store.close().unwrap();
    let repaired = scratch.dir().with_file_name("repaired");
    let report = Store::repair(scratch.dir(), &repaired).unwrap();
    assert!(report.damage.iter().any(|it| it.damage && it.what.contains("\"k\"") && it.id == Some(id("a"))), "{report:?}");
    let store = Store::open(&repaired).unwrap();
    assert_eq!(attached(&store, "t", "a"), [format!("l={}", "l".repeat(100))]);
    assert_eq!(store.list("t", &Default::default()).unwrap().count(), 2);
}

/// Where a segment cannot be read nobody is told that a key has no value, nor that theirs is the first.
#[test]
fn who_cannot_read_all_is_not_first() {
    let scratch = Scratch::new();
    let store = options(&Failing::default()).open(scratch.dir()).unwrap();
    attach(&store, "t", "a", "k", b"1");
    for number in 0..8 {
        store.put_bytes("fill", TypeTag::BYTES, &noise(number, 12_000), PutOptions::default()).unwrap();
    }
    store.close().unwrap();
    std::fs::remove_file(scratch.dir().join("0000000000000001.seg")).unwrap();
    let _ = std::fs::remove_file(scratch.dir().join("0000000000000001.hint"));
    let store = options(&Failing::default()).open(scratch.dir()).unwrap();
    let first = store.attach("t", &id("a"), "k", TypeTag::BYTES, b"2", OnExisting::Keep);
    let kinds = [first.map(drop), store.attachments("t", &id("a")).map(drop)].map(|answer| answer.unwrap_err().kind());
    assert_eq!(kinds, [ErrorKind::Corrupt; 2]);
    attach(&store, "t", "a", "k", b"3");
    assert!(!store.attach("t", &id("a"), "k", TypeTag::BYTES, b"4", OnExisting::Keep).unwrap());
    assert_eq!(attached(&store, "t", "a"), ["k=3"]);
}

/// Who cannot read all of the log takes a checkpoint for one that is yet to come; who can binds what that one attached,
/// and deletes it with the checkpoint.
#[test]
fn what_was_attached_in_spite_of_a_gap_is_bound_or_goes() {
    for deletes in [false, true] {
        let scratch = Scratch::new();
        let whole = options(&Failing::default()).max_history(None).open(scratch.dir()).unwrap();
        put(&whole, "t", "x");
        put(&whole, "t", "y");
        for number in 0..8 {
            whole.put_bytes("fill", TypeTag::BYTES, &noise(number, 12_000), PutOptions::default()).unwrap();
        }
        put(&whole, "t", "z");
        let layer = Failing::default();
        layer.set(Some(Fault { only: Some("0000000000000001."), ..Fault::fail(0, Kind::Read, false, Errno::IO, 0) }));
        let gapped = options(&layer).open(scratch.dir()).unwrap();
        layer.set(None);
        attach(&gapped, "t", "x", "k", b"1");
        drop(gapped);
        if deletes {
            assert!(whole.delete_checkpoint("t", &id("x")).unwrap());
            put(&whole, "t", "x");
        } else {
            put(&whole, "t", "x");
        }
        let wanted: &[&str] = if deletes { &[] } else { &["k=1"] };
        assert_eq!(attached(&whole, "t", "x"), wanted);
        index_is_derived(&whole, &scratch.dir());
        whole.compact().unwrap();
        drop(whole);
        let again = options(&Failing::default()).open(scratch.dir()).unwrap();
        assert!(again.recovery().damage.is_empty() && again.verify().unwrap().is_empty());
        assert_eq!(attached(&again, "t", "x"), wanted);
    }
}

/// A checkpoint that a repair cannot bring back takes what is attached along: the next one of its id has none of it.
#[test]
fn what_is_attached_to_a_lost_checkpoint_is_not_the_next_one_s() {
    let scratch = Scratch::new();
    let store = Store::open(scratch.dir()).unwrap();
    put(&store, "t", "kept");
    store.put_bytes("t", TypeTag::BYTES, &[7; 100], PutOptions::default().id(id("x"))).unwrap();
    attach(&store, "t", "x", "k", b"1");
    store.close().unwrap();
    let path = scratch.dir().join("0000000000000001.seg");
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(100).position(|window| window == [7; 100]).unwrap();
    bytes[at + 50] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let repaired = scratch.dir().with_file_name("repaired");
    Store::repair(scratch.dir(), &repaired).unwrap();
    let store = Store::open(&repaired).unwrap();
    assert_eq!((store.list("t", &Default::default()).unwrap().count(), attached(&store, "t", "x")), (1, Vec::new()));
    put(&store, "t", "x");
    assert!(attached(&store, "t", "x").is_empty());
    assert!(store.attach("t", &id("x"), "k", TypeTag::BYTES, b"2", OnExisting::Keep).unwrap(), "it is the first");
    assert!(store.delete_checkpoint("t", &id("x")).unwrap());
    put(&store, "t", "x");
    assert!(attached(&store, "t", "x").is_empty());
    index_is_derived(&store, &repaired);
}

/// On a full disk nothing is half attached, and deleting makes room.
#[test]
fn a_full_disk_attaches_nothing() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let store = options(&layer).open(scratch.dir()).unwrap();
    put(&store, "t", "a");
    attach(&store, "t", "a", "k", b"1");
    layer.set(Some(Fault::fail(0, Kind::Write, true, Errno::NOSPC, 0)));
    let refused = store.attach("t", &id("a"), "k", TypeTag::BYTES, &noise(1, 9_000), OnExisting::Replace);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::DiskFull);
    layer.set(None);
    assert_eq!(attached(&store, "t", "a"), ["k=1"]);
    attach(&store, "t", "a", "k", b"2");
    assert_eq!(attached(&store, "t", "a"), ["k=2"]);
    index_is_derived(&store, &scratch.dir());
    let numbers: HashSet<u64> = super::views(&store)["t"].attached().iter().map(|one| one.number).collect();
    assert_eq!(numbers.len(), 1);
}
