//! Deltas against whom they were not made for: who has a gap, who lags, who was told late.

use std::os::unix::fs::FileExt;
use std::time::Duration;

use rustix::io::Errno;

use super::Scratch;
use super::failing::{Action, Failing, Fault, Kind, Moment};
use super::other::open;
use crate::batch::{Batch, Durability, PutOptions};
use crate::checkpoint::{CheckpointId, TypeTag};
use crate::checkpointer::Checkpointer;
use crate::error::Result;
use crate::fs::os::Os;
use crate::log::Store;
use crate::log::plan::{Plan, Prepared, names};
use crate::testing::states::noise;

fn id(name: &str) -> CheckpointId {
    CheckpointId::new(name).unwrap()
}

fn grown(step: usize) -> Vec<u8> {
    noise(1, 4000 + 20 * step)
}

fn put_state(store: &Store, name: &str, state: &[u8]) {
    store.put_bytes("t", TypeTag::BYTES, state, PutOptions::default().id(id(name)).durability(Durability::Sync)).unwrap();
}

fn put_steps(store: &Store, steps: std::ops::Range<usize>) {
    steps.for_each(|step| put_state(store, &step.to_string(), &grown(step)));
}

fn segments(store: &Store) -> usize {
    store.shared.directory.manifest().unwrap().segments.len()
}

/// Goes on in a new segment, behind what is dead in the one before.
fn rotate(store: &Store) {
    let before = segments(store);
    let mut number = 0;
    while segments(store) == before {
        store.put_bytes("dead", TypeTag::BYTES, &noise(1000 + number, 9000), PutOptions::default()).unwrap();
        number += 1;
    }
    store.delete("dead").unwrap();
    store.sync().unwrap();
}

fn load(store: &Store, name: &str) -> Result<Option<Vec<u8>>> {
    Ok(store.load_bytes("t", &id(name))?.map(|read| read.state.to_vec()))
}

fn fresh(scratch: &Scratch) -> Store {
    let store = open(scratch, &Failing::default());
    store.retain(None, None).unwrap();
    store
}

/// A handle made while a segment could not be read for a moment.
fn opened_without(scratch: &Scratch, segment: &'static str) -> Store {
    let layer = Failing::default();
    layer.set(Some(Fault { only: Some(segment), ..Fault::fail(0, Kind::Read, false, Errno::IO, 0) }));
    let store = open(scratch, &layer);
    layer.set(None);
    assert!(!store.recovery().damage.is_empty());
    store
}

/// Compacts by who has a gap; these steps are there all the same.
#[track_caller]
fn takes_nothing_of(gapped: Store, scratch: &Scratch, steps: [usize; 2]) {
    let answer = gapped.compact();
    drop(gapped);
    let store = open(scratch, &Failing::default());
    for step in steps {
        let read = load(&store, &step.to_string());
        assert!(read.as_ref().is_ok_and(|read| read.as_ref() == Some(&grown(step))), "{step}: {:?}, compaction: {answer:?}", read.err());
    }
}

const SECOND: &str = "0000000000000002.";

#[test]
fn a_promotion_by_who_has_a_gap_brings_back_no_deleted_checkpoint() {
    let scratch = Scratch::new();
    let store = fresh(&scratch);
    put_steps(&store, 0..4);
    store.delete_checkpoint("t", &id("0")).unwrap();
    rotate(&store);
    store.delete_checkpoint("t", &id("1")).unwrap();
    rotate(&store);
    drop(store);
    let gapped = opened_without(&scratch, SECOND);
    let answer = gapped.compact();
    drop(gapped);
    let store = open(&scratch, &Failing::default());
    assert!(load(&store, "1").unwrap().is_none(), "a deleted checkpoint is back, compaction: {answer:?}");
    assert_eq!(load(&store, "3").unwrap().unwrap(), grown(3));
}

#[test]
fn a_promotion_by_who_has_a_gap_brings_back_no_deleted_thread() {
    let scratch = Scratch::new();
    let store = fresh(&scratch);
    put_steps(&store, 0..4);
    store.delete_checkpoint("t", &id("0")).unwrap();
    rotate(&store);
    store.delete("t").unwrap();
    rotate(&store);
    drop(store);
    let gapped = opened_without(&scratch, SECOND);
    let answer = gapped.compact();
    drop(gapped);
    let store = open(&scratch, &Failing::default());
    assert!(!store.exists("t").unwrap(), "a deleted thread is back, compaction: {answer:?}");
}

#[test]
fn a_promotion_by_who_has_a_gap_undoes_no_put() {
    let scratch = Scratch::new();
    let store = fresh(&scratch);
    put_steps(&store, 0..4);
    store.delete_checkpoint("t", &id("0")).unwrap();
    rotate(&store);
    put_state(&store, "1", b"put again");
    rotate(&store);
    drop(store);
    let gapped = opened_without(&scratch, SECOND);
    let answer = gapped.compact();
    drop(gapped);
    let store = open(&scratch, &Failing::default());
    assert!(load(&store, "1").unwrap().unwrap() == b"put again", "an older state is back, compaction: {answer:?}");
}

#[test]
fn a_compaction_by_who_has_a_gap_takes_no_base() {
    let scratch = Scratch::new();
    let store = fresh(&scratch);
    put_steps(&store, 0..1);
    rotate(&store);
    put_steps(&store, 1..3);
    rotate(&store);
    store.delete_checkpoint("t", &id("0")).unwrap();
    drop(store);
    let gapped = opened_without(&scratch, SECOND);
    takes_nothing_of(gapped, &scratch, [1, 2]);
}

/// The same where the base stands behind what cannot be read: it was promoted.
#[test]
fn a_compaction_by_who_has_a_gap_takes_no_promoted_base() {
    let scratch = Scratch::new();
    let store = fresh(&scratch);
    let rotate_full = |thread: &str| {
        let (before, mut number) = (segments(&store), 0);
        while segments(&store) == before {
            store.put_bytes(thread, TypeTag::BYTES, &noise(1000 + number, 9000), PutOptions::default()).unwrap();
            number += 1;
        }
    };
    put_steps(&store, 0..1);
    rotate_full("fills-1");
    put_steps(&store, 1..4);
    rotate_full("fills-2");
    store.delete_checkpoint("t", &id("0")).unwrap();
    // Promotes 1, from which 2 is a difference.
    store.shared.step_now().unwrap();
    store.compact().unwrap();
    rotate(&store);
    store.delete_checkpoint("t", &id("1")).unwrap();
    rotate(&store);
    let view = store.shared.index.get("t").unwrap();
    let (of_one, of_two) = (view.hidden()[0].at.segment, view.entry(0).unwrap().at.segment);
    assert_ne!(of_one, of_two);
    drop(store);
    let gapped = opened_without(&scratch, format!("{of_two:016x}.").leak());
    takes_nothing_of(gapped, &scratch, [2, 3]);
}

#[test]
fn a_put_over_a_gap_that_is_met_in_the_turn_is_no_delta() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let (one, two) = (open(&scratch, &layer), fresh(&scratch));
    put_steps(&one, 0..1);
    assert!(two.exists("t").unwrap());
    layer.set(Some(Fault { only: Some("write.lock"), ..Fault::once(Kind::TryLock, Action::Pause, Moment::Before) }));
    let file = std::fs::OpenOptions::new().read(true).write(true).open(scratch.dir().join("0000000000000001.seg")).unwrap();
    let at = std::thread::scope(|scope| {
        let putting = scope.spawn(|| put_steps(&one, 1..2));
        layer.paused();
        put_state(&two, "between", &noise(99, 3000));
        let at = two.shared.index.get("t").unwrap().head().unwrap().at.offset();
        two.put_bytes("other", TypeTag::BYTES, b"sound", PutOptions::default()).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at + 50).unwrap();
        file.write_all_at(&[!byte[0]], at + 50).unwrap();
        layer.resume();
        putting.join().unwrap();
        file.write_all_at(&byte, at + 50).unwrap();
        at
    });
    assert!(at > 0 && load(&two, "between").unwrap().is_some());
    assert!(two.delete_checkpoint("t", &id("0")).unwrap());
    let read = load(&two, "1");
    assert!(read.as_ref().is_ok_and(|read| read.as_ref() == Some(&grown(1))), "{:?}", read.err());
}

/// Who waits for another worker of its handle, which takes a compaction in.
#[test]
fn a_watch_misses_nothing_that_was_promoted_while_it_waited_for_another_worker() {
    let scratch = Scratch::new();
    let (one, two) = (open(&scratch, &Failing::default()), fresh(&scratch));
    put_steps(&two, 0..1);
    let mut watch = one.watch(Some("t")).unwrap();
    put_steps(&two, 1..2);
    rotate(&two);
    one.exists("t").unwrap();
    let mut told = std::thread::scope(|scope| {
        let mut reading = one.shared.follower.reading();
        let watch = &mut watch;
        let waiting = scope.spawn(move || watch.wait(Duration::ZERO).unwrap().map(|info| info.id.to_string()));
        std::thread::sleep(Duration::from_millis(300));
        two.delete_checkpoint("t", &id("0")).unwrap();
        two.shared.step_now().unwrap();
        reading.follow_to(&one.shared, one.shared.tail.visible()).unwrap();
        drop(reading);
        waiting.join().unwrap().into_iter().collect::<Vec<_>>()
    });
    put_steps(&two, 7..8);
    while let Some(info) = watch.wait(Duration::from_millis(50)).unwrap() {
        told.push(info.id.to_string());
    }
    assert_eq!(told, ["1", "7"]);
}

#[test]
fn a_watch_tells_of_what_is_trimmed_what_it_followed() {
    let scratch = Scratch::new();
    let store = fresh(&scratch);
    let mut watch = store.watch(Some("t")).unwrap();
    put_steps(&store, 0..3);
    store.retain(None, Some(2)).unwrap();
    for number in 0..3 {
        put_state(&store, &format!("new-{number}"), &noise(50 + number, 3000));
    }
    let mut told = Vec::new();
    while let Some(info) = watch.wait(Duration::ZERO).unwrap() {
        told.push((info.id.to_string(), info.parent.map(|parent| parent.to_string())));
    }
    let told: Vec<(&str, Option<&str>)> = told.iter().map(|(id, parent)| (id.as_str(), parent.as_deref())).collect();
    let parents =
        [("0", None), ("1", Some("0")), ("2", Some("1")), ("new-0", Some("2")), ("new-1", Some("new-0")), ("new-2", Some("new-1"))];
    assert_eq!(told, parents);
}

/// What was promoted comes where its delta was: before what was put again later.
#[test]
fn a_watch_tells_what_was_promoted_before_what_was_put_again_behind_it() {
    let scratch = Scratch::new();
    let store = fresh(&scratch);
    put_steps(&store, 0..3);
    let mut watch = store.watch(Some("t")).unwrap();
    put_steps(&store, 3..4);
    rotate(&store);
    // Strands 3, behind which 0 is put again.
    store.delete_checkpoint("t", &id("2")).unwrap();
    put_state(&store, "0", &noise(60, 3000));
    store.compact().unwrap();
    let mut told = Vec::new();
    while let Some(info) = watch.wait(Duration::ZERO).unwrap() {
        told.push(info.id.to_string());
    }
    assert_eq!(told, ["3", "0"]);
}

/// A thread's newest checkpoint is put again by another handle while a put behind it is made ready.
#[test]
fn a_difference_from_what_was_put_again_meanwhile_is_stale() {
    let scratch = Scratch::new();
    let (store, other) = (fresh(&scratch), open(&scratch, &Failing::default()));
    put_steps(&store, 0..2);
    let next = grown(2);
    let mut batch = Batch::new();
    batch.put("t", TypeTag::BYTES, &next, PutOptions::default());
    let names = names(&batch, &Os).unwrap();
    let prepared = Prepared::new(&batch, &names, store.shared.forms(&batch, true), &[]);
    assert!(prepared.forms[0].base.is_some());
    put_state(&other, "1", &noise(70, 4000));
    let turn = store.shared.turn().unwrap();
    let mut plan = Plan::new(&store.shared.index, store.shared.segments.load_full(), turn.terms(&store.shared));
    plan.batch(&prepared).unwrap();
    assert!(plan.is_stale);
}

/// The same before: what is in memory is what it was.
#[test]
fn what_another_put_again_is_what_the_next_put_differs_from() {
    let scratch = Scratch::new();
    let (store, other) = (fresh(&scratch), open(&scratch, &Failing::default()));
    put_steps(&store, 0..2);
    put_state(&other, "1", &noise(2, 4040));
    put_state(&store, "2", &noise(2, 4060));
    let third = open(&scratch, &Failing::default());
    assert!(third.shared.index.get("t").unwrap().head().unwrap().is_delta());
    for store in [&store, &other, &third] {
        let states = ["0", "1", "2"].map(|name| load(store, name).unwrap().unwrap());
        assert!(states == [grown(0), noise(2, 4040), noise(2, 4060)]);
    }
}
