//! Reads that fail for a while: what could not be read when an index was made can be read again when
//! it is compacted, and is not dead.

use rustix::io::Errno;

use super::Scratch;
use super::failing::{Failing, Fault, Kind};
use super::faults::{contents, put};
use super::other::open;
use crate::batch::Durability;
use crate::checkpointer::Checkpointer;
use crate::error::ErrorKind;
use crate::log::Store;
use crate::log::compact::Pass;
use crate::log::runs::Wanted;

fn fill(store: &Store) {
    store.retain(None, None).unwrap();
    put(store, "kept", 100, Durability::Sync).unwrap();
    for _ in 0..8 {
        put(store, "dead", 10_000, Durability::Sync).unwrap();
    }
}

fn unreadable(only: &'static str) -> Option<Fault> {
    Some(Fault { only: Some(only), ..Fault::fail(0, Kind::Read, false, Errno::IO, 0) })
}

/// The opening tells of a damaged segment, which can be read again a moment later. That handle does not
/// take it for dead.
#[test]
fn what_could_not_be_read_while_opening_is_not_dead() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let store = open(&scratch, &Failing::default());
    fill(&store);
    store.delete("dead").unwrap();
    store.sync().unwrap();
    drop(store);
    layer.set(unreadable("0000000000000001.seg"));
    let store = open(&scratch, &layer);
    layer.set(None);
    assert!(!store.recovery().damage.is_empty());
    let answer = store.compact();
    drop(store);
    let found = contents(&open(&scratch, &Failing::default()));
    assert!(found.contains_key("kept"), "an acknowledged durable put is gone: {:?}, compaction: {answer:?}", found.keys());
}

/// Without the error at the header: one frame only.
#[test]
fn a_frame_that_could_not_be_read_while_opening_is_not_dead() {
    for from in 0..14 {
        let (scratch, layer) = (Scratch::new(), Failing::default());
        let store = open(&scratch, &Failing::default());
        fill(&store);
        store.delete("dead").unwrap();
        store.sync().unwrap();
        drop(store);
        let fault = Fault { only: Some("0000000000000001."), from, ..Fault::fail(0, Kind::Read, false, Errno::IO, 0) };
        layer.set(Some(fault));
        let opened = super::faults::options(&layer).open(scratch.dir());
        layer.set(None);
        let Ok(store) = opened else { continue };
        let damage = store.recovery().damage.clone();
        let answer = store.compact();
        drop(store);
        let found = contents(&open(&scratch, &Failing::default()));
        assert!(
            found.contains_key("kept"),
            "read {from}: an acknowledged durable put is gone, compaction: {answer:?}, opening: {damage:?}"
        );
    }
}

/// A handle that cannot read, for a moment, what another one compacted as `compact` does: it reads it the
/// next time, and takes nothing of it for dead.
fn cannot_read_what_was_compacted(fill_more: fn(&Store), compact: fn(&Store)) {
    for from in 0..12 {
        let (scratch, layer) = (Scratch::new(), Failing::default());
        let (one, two) = (open(&scratch, &layer), open(&scratch, &Failing::default()));
        fill(&two);
        fill_more(&two);
        two.delete("dead").unwrap();
        let expected = contents(&one);
        compact(&two);
        let new = two.shared.directory.manifest().unwrap().segments[0].number;
        layer.set(Some(Fault { from, ..unreadable(format!("{new:016x}.").leak()).unwrap() }));
        let during = one.get_bytes("kept").map(|it| it.is_some());
        let failed = layer.failed().len();
        layer.set(None);
        if failed == 0 {
            break;
        }
        let after = one.get_bytes("kept").map(|it| it.is_some());
        let context = format!("read {from} failed ({failed}): during {during:?}, after {after:?}");
        assert!(after.is_ok(), "{context}");
        best_step(&one);
        drop((one, two));
        let found = contents(&open(&scratch, &Failing::default()));
        assert!(found == expected, "{context}: left {:?}", found.keys());
    }
}

#[test]
fn what_could_not_be_read_while_following_a_compaction_is_not_dead() {
    // Put by the other alone: it stays in a segment of many.
    cannot_read_what_was_compacted(
        |two| put(two, "later", 100, Durability::Sync).unwrap(),
        |two| assert!(two.compact().unwrap().segments > 0),
    );
}

#[test]
fn what_could_not_be_read_while_it_was_relocated_is_not_dead() {
    cannot_read_what_was_compacted(|_| (), best_step);
}

fn best_step(store: &Store) {
    let right = store.shared.right_to_compact().unwrap();
    Pass::begin(&store.shared, right, &|_| Ok(()), false).unwrap().step(Wanted::Best).unwrap();
}

/// A handle that opens beside another one while the oldest segment cannot be read for a moment.
fn opened_with_a_gap(scratch: &Scratch) -> Store {
    let layer = Failing::default();
    layer.set(unreadable("0000000000000001.seg"));
    let store = open(scratch, &layer);
    layer.set(None);
    assert!(!store.recovery().damage.is_empty());
    store
}

#[test]
fn what_could_not_be_read_is_not_dead_where_another_has_moved_it() {
    let scratch = Scratch::new();
    let two = open(&scratch, &Failing::default());
    fill(&two);
    two.delete("dead").unwrap();
    let one = opened_with_a_gap(&scratch);
    // Not the segment that is appended to: then the other one would begin anew.
    best_step(&two);
    best_step(&one);
    drop((one, two));
    assert!(contents(&open(&scratch, &Failing::default())).contains_key("kept"));
}

#[test]
fn who_deletes_the_last_checkpoint_that_can_be_read_deletes_no_other() {
    let scratch = Scratch::new();
    let two = open(&scratch, &Failing::default());
    fill(&two);
    put(&two, "kept", 200, Durability::Sync).unwrap();
    let newest = two.head("kept").unwrap().unwrap().id;
    let one = opened_with_a_gap(&scratch);
    assert!(one.delete_checkpoint("kept", &newest).unwrap());
    drop((one, two));
    assert_eq!(contents(&open(&scratch, &Failing::default()))["kept"], [vec![5; 100]]);
}

/// A step whose outcome could not be read any more, for want of handles, and another step behind it: what the
/// first one has moved is where the manifest says, whenever it is read again.
#[test]
fn what_a_step_has_moved_is_not_dead_for_the_next_one() {
    let mut unread = 0;
    for (from, then) in (0..24).flat_map(|from| (0..6).map(move |then| (from, then))) {
        let (scratch, layer) = (Scratch::new(), Failing::default());
        let store = open(&scratch, &layer);
        store.retain(None, None).unwrap();
        for number in 0..16 {
            put(&store, ["kept", "dead"][number % 2], 5_000 + number, Durability::Sync).unwrap();
        }
        store.delete("dead").unwrap();
        let before = contents(&store);
        let mut pass = Pass::begin(&store.shared, store.shared.right_to_compact().unwrap(), &|_| Ok(()), true).unwrap();
        layer.set(Some(Fault::fail(from, Kind::Open, false, Errno::MFILE, 0)));
        let first = pass.step(Wanted::Next(0, u64::MAX));
        unread += u64::from(store.shared.follower.reading().manifest.generation < store.shared.tail.generation());
        layer.set(Some(Fault::fail(then, Kind::Open, true, Errno::MFILE, 0)));
        let second = pass.step(Wanted::Next(0, u64::MAX));
        layer.set(None);
        drop(pass);
        let context = format!("from open {from}, then {then}: {first:?}, {second:?}");
        assert!(contents(&store) == before, "{context}");
        drop(store);
        assert!(contents(&open(&scratch, &layer)) == before, "{context}, opened again");
    }
    assert!(unread > 0, "every step could read what it had done");
}

/// Nor can it copy what it has not taken in, though that could be read by now.
#[test]
fn a_handle_with_a_gap_makes_no_backup() {
    let scratch = Scratch::new();
    let two = open(&scratch, &Failing::default());
    fill(&two);
    let (one, dest) = (opened_with_a_gap(&scratch), scratch.0.path().join("dest"));
    let error = one.backup(&dest).unwrap_err();
    assert_eq!((error.kind(), error.file().unwrap().0), (ErrorKind::Corrupt, &*scratch.dir().join("0000000000000001.seg")), "{error}");
    assert!(!dest.exists());
    two.backup(&dest).unwrap();
    assert!(contents(&Store::open(&dest).unwrap()) == contents(&two));
}
