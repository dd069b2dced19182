//! Reads that fail for a while: what could not be read when an index was made can be read again when
//! it is compacted, and is not dead.

use rustix::io::Errno;

use super::Scratch;
use super::failing::{Failing, Fault, Kind};
use super::faults::{contents, put};
use super::other::open;
use crate::batch::Durability;
use crate::checkpointer::Checkpointer;
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

/// A handle that follows a compaction and cannot read what was written anew, for a moment, reads it the
/// next time.
#[test]
fn what_could_not_be_read_while_following_a_compaction_is_not_dead() {
    let mut wrong = Vec::new();
    for from in 0..12 {
        let (scratch, layer) = (Scratch::new(), Failing::default());
        let (one, two) = (open(&scratch, &layer), open(&scratch, &Failing::default()));
        fill(&two);
        // Put by the other alone: it stays in a segment of many.
        put(&two, "later", 100, Durability::Sync).unwrap();
        two.delete("dead").unwrap();
        let expected = contents(&one);
        two.compact().unwrap();
        let new = two.shared.directory.manifest().unwrap().segments[0].number;
        let only: &'static str = format!("{new:016x}.").leak();
        let fault = Fault { from, ..unreadable(only).unwrap() };
        layer.set(Some(fault));
        let during = one.get_bytes("kept").map(|it| it.is_some());
        let failed = layer.failed().len();
        layer.set(None);
        if failed == 0 {
            break;
        }
        let after = one.get_bytes("kept").map(|it| it.is_some()).map_err(|error| error.to_string());
        let right = one.shared.right_to_compact().unwrap();
        let step = Pass::begin(&one.shared, right, &|_| Ok(()), false).unwrap().step(Wanted::Best);
        drop((one, two));
        let found = contents(&open(&scratch, &Failing::default()));
        if found != expected || after.is_err() {
            wrong
                .push(format!("read {from} failed ({failed}): during {during:?}, after {after:?}, step {step:?}, left {:?}", found.keys()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The same for one that has taken in all and only finds what has moved.
#[test]
fn what_could_not_be_read_while_it_was_relocated_is_not_dead() {
    let mut wrong = Vec::new();
    for from in 0..12 {
        let (scratch, layer) = (Scratch::new(), Failing::default());
        let (one, two) = (open(&scratch, &layer), open(&scratch, &Failing::default()));
        fill(&two);
        two.delete("dead").unwrap();
        let expected = contents(&one);
        let right = two.shared.right_to_compact().unwrap();
        Pass::begin(&two.shared, right, &|_| Ok(()), false).unwrap().step(Wanted::Best).unwrap().unwrap();
        let new = two.shared.directory.manifest().unwrap().segments[0].number;
        layer.set(Some(Fault { from, ..unreadable(format!("{new:016x}.").leak()).unwrap() }));
        let during = one.get_bytes("kept").map(|it| it.is_some()).map_err(|error| error.to_string());
        let failed = layer.failed().len();
        layer.set(None);
        if failed == 0 {
            break;
        }
        let after = one.get_bytes("kept").map(|it| it.is_some()).map_err(|error| error.to_string());
        let right = one.shared.right_to_compact().unwrap();
        let step = Pass::begin(&one.shared, right, &|_| Ok(()), false).unwrap().step(Wanted::Best);
        drop((one, two));
        let found = contents(&open(&scratch, &Failing::default()));
        if found != expected || after.is_err() {
            wrong
                .push(format!("read {from} failed ({failed}): during {during:?}, after {after:?}, step {step:?}, left {:?}", found.keys()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
