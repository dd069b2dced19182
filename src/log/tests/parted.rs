//! A reader that stands still in the middle of taking in what others did, for as long as they do more:
//! blocked at each of its operations in turn, it shows one whole moment when it goes on.

use std::time::Duration;

use super::Scratch;
use super::failing::{Action, Failing, Fault, Kind, Moment};
use super::faults::put;
use crate::batch::{Durability, PutOptions};
use crate::checkpoint::{CheckpointId, TypeTag};
use crate::checkpointer::Checkpointer;
use crate::log::Store;
use crate::query::{HistoryQuery, Matching, ThreadQuery};
use crate::testing::states::noise;

fn open(scratch: &Scratch, layer: &Failing) -> Store {
    super::faults::options(layer).max_history(None).busy_timeout(Duration::from_secs(60)).open(scratch.dir()).unwrap()
}

/// Three steps of the thread that is read, each under its number as id; much alike, so that most are deltas.
fn steps(store: &Store) {
    for _ in 0..3 {
        let number = store.head("t").unwrap().map_or(0, |head| number(&head.id) + 1);
        let mut state = noise(7, 600);
        state.extend(number.to_le_bytes());
        let options = PutOptions::default().id(CheckpointId::new(number.to_string()).unwrap()).durability(Durability::Buffered);
        store.put_bytes("t", TypeTag::BYTES, &state, options).unwrap();
    }
}

fn number(id: &CheckpointId) -> u64 {
    id.as_str().parse().unwrap()
}

fn exists(store: &Store, id: &str) -> bool {
    store.load_bytes("t", &CheckpointId::new(id).unwrap()).unwrap().is_some()
}

fn rotate(store: &Store) {
    steps(store);
    (0..6).for_each(|_| put(store, "fill", 9_000, Durability::Buffered).unwrap());
    (0..2).for_each(|_| put(store, "beside", 9_000, Durability::Buffered).unwrap());
    steps(store);
}

/// Leaves a checkpoint hidden, and much dead in segments that are sealed.
fn dead_by_rotation(store: &Store) {
    store.delete("fill").unwrap();
    let second = if exists(store, "1") { "1" } else { "2" };
    store.delete_checkpoint("t", &CheckpointId::new(second).unwrap()).unwrap();
    rotate(store);
}

type Doing = (&'static str, fn(&Store));

const DOINGS: [Doing; 9] = [
    ("puts", steps),
    ("a rotation", rotate),
    ("a compaction", |store| {
        steps(store);
        store.delete("fill").unwrap();
        store.compact().unwrap();
        steps(store);
    }),
    ("a compaction and rotations", |store| {
        store.delete("fill").unwrap();
        store.shared.step_now().unwrap();
        rotate(store);
        rotate(store);
    }),
    ("a compaction that promotes", |store| {
        dead_by_rotation(store);
        store.compact().unwrap();
    }),
    ("steps of compaction that promote", |store| {
        dead_by_rotation(store);
        (0..4).for_each(|_| store.shared.step_now().unwrap());
    }),
    ("steps of compaction", |store| {
        ["fill", "beside"].into_iter().for_each(|thread| assert!(store.delete(thread).unwrap()));
        (0..4).for_each(|_| store.shared.step_now().unwrap());
    }),
    ("writing anew", |store| {
        steps(store);
        store.shared.turn().unwrap().write_anew(&store.shared).unwrap();
    }),
    ("a large put", |store| {
        steps(store);
        put(store, "fill", 20_000, Durability::Sync).unwrap();
        steps(store);
    }),
];

/// What the reader has to take in. Of the others each is some part of one of these.
const BEHIND: [&str; 2] = ["a compaction and rotations", "a compaction that promotes"];

/// Reads what is newer than a number: all of it up to some other, which is answered; but for those
/// that may be deleted.
fn reads(store: &Store, seen: Option<u64>, context: &str) -> u64 {
    let after = seen.map(|seen| CheckpointId::new(seen.to_string()).unwrap());
    let list = store.list("t", &HistoryQuery { after, ..HistoryQuery::default() }).unwrap();
    let mut numbers: Vec<u64> = list.map(|info| number(&info.unwrap_or_else(|error| panic!("{context}: {error}")).id)).collect();
    numbers.reverse();
    let newest = numbers.last().copied().or(seen).unwrap();
    let expected = seen.map_or(0, |seen| seen + 1)..=newest;
    let without_deleted = |numbers: Vec<u64>| numbers.into_iter().filter(|number| !(1..=2).contains(number)).collect::<Vec<_>>();
    assert_eq!(without_deleted(numbers), without_deleted(expected.collect()), "{context}: after {seen:?}");
    newest
}

/// Lists the threads: as many checkpoints as there were put, but for two that may be deleted.
fn counts(store: &Store, context: &str) {
    let list = store.list_threads(&ThreadQuery { matching: Matching::Prefix("t".to_owned()), ..ThreadQuery::default() }).unwrap();
    for info in list.map(Result::unwrap) {
        let put = number(&info.head) + 1;
        assert!((put - 2..=put).contains(&info.checkpoints), "{context}: {} of {put} checkpoints", info.checkpoints);
    }
}

#[test]
fn what_a_reader_takes_in_while_others_go_on_is_one_moment() {
    let mut met = 0;
    for (behind, first) in DOINGS.into_iter().filter(|(name, _)| BEHIND.contains(name)) {
        for (between, second) in DOINGS {
            for from in 0.. {
                let (scratch, layer) = (Scratch::new(), Failing::default());
                let (writer, reader) = (open(&scratch, &Failing::default()), open(&scratch, &layer));
                (0..2).for_each(|_| rotate(&writer));
                let context = format!("{behind} behind, at operation {from} {between} between");
                reads(&reader, None, &context);
                first(&writer);
                layer.set(Some(Fault { from, kind: None, ..Fault::once(Kind::Open, Action::Pause, Moment::Before) }));
                let paused = std::thread::scope(|scope| {
                    let reading = scope.spawn(|| {
                        counts(&reader, &context);
                        reads(&reader, None, &context)
                    });
                    let paused = loop {
                        if reading.is_finished() {
                            break false;
                        }
                        if layer.is_paused() {
                            break true;
                        }
                        std::thread::yield_now();
                    };
                    if paused {
                        second(&writer);
                        layer.resume();
                    }
                    let seen = reading.join().unwrap();
                    layer.set(None);
                    reads(&reader, None, &format!("{context}, afterwards"));
                    steps(&writer);
                    reads(&reader, Some(seen), &format!("{context}, later"));
                    paused
                });
                if !paused {
                    break;
                }
                met += 1;
            }
        }
    }
    assert!(met > 200, "only {met} times");
}
