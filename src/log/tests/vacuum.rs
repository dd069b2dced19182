//! A vacuum beside others who write: what they put between its judgement and its turn stays; and how
//! it ends where it does not come to its end.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, SystemTime};

use rustix::io::Errno;

use super::failing::{Action, Failing, Fault, Kind, Moment};
use super::{Scratch, index_is_derived, views};
use crate::batch::{Batch, PutOptions};
use crate::checkpoint::{CheckpointId, TypeTag};
use crate::checkpointer::Checkpointer;
use crate::error::ErrorKind;
use crate::format::frame::frame_len;
use crate::format::record::Record;
use crate::log::Store;
use crate::query::{HistoryQuery, VacuumQuery, Vacuumed};

const NOW: u64 = 2_000_000_000;
const OLD: u64 = NOW - 1_000;

fn time(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

/// Everything older than 100 s, and what has been idle for as long.
fn both() -> VacuumQuery {
    VacuumQuery { idle: Some(Duration::from_secs(100)), ..old() }
}

fn old() -> VacuumQuery {
    VacuumQuery { older_than: Some(Duration::from_secs(100)), ..VacuumQuery::default() }
}

fn keep(keep: usize) -> VacuumQuery {
    VacuumQuery { keep: Some(keep), ..VacuumQuery::default() }
}

fn gone(checkpoints: u64, threads: u64) -> Vacuumed {
    Vacuumed { checkpoints, threads }
}

/// A handle whose clock stands at `NOW`.
fn open(scratch: &Scratch, layer: &Failing) -> Store {
    layer.set_clock(time(NOW));
    let mut options = Store::options().auto_compaction(false).max_history(None).segment_bytes(64 * 1024);
    options.fs = Arc::new(layer.clone());
    options.open(scratch.dir()).unwrap()
}

/// Puts under the step's own id, saved then.
fn put(store: &Store, thread: &str, step: u32, saved_at: u64) {
    let options = PutOptions::default().id(CheckpointId::new(format!("s{step}")).unwrap()).saved_at(time(saved_at));
    store.put_bytes(thread, TypeTag::BYTES, &step.to_le_bytes(), options).unwrap();
}

fn delete(store: &Store, thread: &str, step: u32) {
    assert!(store.delete_checkpoint(thread, &CheckpointId::new(format!("s{step}")).unwrap()).unwrap());
}

/// The ids of a thread's checkpoints, oldest first.
fn steps(store: &Store, thread: &str) -> String {
    let newest_first = store.list(thread, &HistoryQuery::default()).unwrap();
    let mut ids: Vec<String> = newest_first.map(|info| info.unwrap().id.to_string()).collect();
    ids.reverse();
    ids.join(" ")
}

/// Vacuums, and does `between` through another handle when all is judged and the turn is not yet taken.
fn vacuum_while(query: &VacuumQuery, fill: impl Fn(&Store), between: impl Fn(&Store)) -> (Scratch, Store, Vacuumed) {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let (store, other) = (open(&scratch, &layer), open(&scratch, &Failing::default()));
    fill(&other);
    layer.set(Some(Fault { only: Some("write.lock"), ..Fault::once(Kind::TryLock, Action::Pause, Moment::Before) }));
    let vacuumed = std::thread::scope(|scope| {
        let vacuum = scope.spawn(|| store.vacuum(query).unwrap());
        layer.paused();
        between(&other);
        layer.resume();
        vacuum.join().unwrap()
    });
    index_is_derived(&store, &scratch.dir());
    other.head("any").unwrap();
    assert_eq!(views(&other), views(&store), "the other handle has taken in the same");
    (scratch, store, vacuumed)
}

#[test]
fn a_put_between_judgement_and_turn_saves_what_was_idle() {
    let threads = ["idle", "put to", "head again", "middle again", "head deleted", "made anew", "gone"];
    let fill = |store: &Store| threads.iter().for_each(|thread| (0..3).for_each(|step| put(store, thread, step, OLD)));
    let (_scratch, store, vacuumed) = vacuum_while(&both(), fill, |other| {
        put(other, "put to", 3, NOW);
        put(other, "head again", 2, NOW);
        put(other, "middle again", 1, NOW);
        delete(other, "head deleted", 2);
        other.delete("made anew").unwrap();
        put(other, "made anew", 0, OLD);
        other.delete("gone").unwrap();
    });
    assert_eq!(vacuumed, gone(3, 1));
    assert_eq!(store.threads().unwrap(), ["head again", "head deleted", "made anew", "middle again", "put to"]);
    assert_eq!((steps(&store, "put to").as_str(), steps(&store, "head again").as_str()), ("s0 s1 s2 s3", "s0 s1 s2"));
    assert_eq!(steps(&store, "head deleted"), "s0 s1");
}

#[test]
fn a_put_between_judgement_and_turn_saves_its_checkpoint() {
    let fill = |store: &Store| {
        for thread in ["again", "bare", "gone", "anew"] {
            (0..5).for_each(|step| put(store, thread, step, if step == 4 { NOW } else { OLD }));
        }
    };
    let (_scratch, store, vacuumed) = vacuum_while(&old(), fill, |other| {
        put(other, "again", 1, NOW);
        // The newest that is left is a head, though it was judged as none.
        delete(other, "bare", 4);
        delete(other, "gone", 0);
        delete(other, "gone", 2);
        other.delete("anew").unwrap();
        put(other, "anew", 0, OLD);
        put(other, "anew", 1, OLD);
    });
    assert_eq!(vacuumed, gone(3 + 3 + 2, 0));
    assert_eq!((steps(&store, "again").as_str(), steps(&store, "bare").as_str()), ("s1 s4", "s3"));
    assert_eq!((steps(&store, "gone").as_str(), steps(&store, "anew").as_str()), ("s4", "s0 s1"));
}

#[test]
fn the_number_to_keep_is_counted_in_the_turn() {
    let fill = |store: &Store| (0..6).for_each(|step| put(store, "t", step, OLD));
    let (_scratch, store, vacuumed) = vacuum_while(&keep(2), fill, |other| {
        delete(other, "t", 5);
        delete(other, "t", 4);
    });
    assert_eq!((vacuumed, steps(&store, "t").as_str()), (gone(2, 0), "s2 s3"));
}

#[test]
fn a_thread_whose_deletes_fit_into_no_batch_is_done_in_several() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let (store, other) = (open(&scratch, &layer), open(&scratch, &Failing::default()));
    let mut batch = Batch::new();
    for step in 0..3_000 {
        let saved_at = time(if step % 3 == 1 { NOW } else { OLD });
        batch.put("long", TypeTag::BYTES, b"state", PutOptions::default().saved_at(saved_at));
    }
    store.commit(&batch).unwrap();
    put(&store, "short", 0, OLD);
    put(&store, "short", 1, OLD);
    assert_eq!(other.vacuum(&VacuumQuery { dry_run: true, ..old() }).unwrap(), gone(1_999 + 1, 0));
    let syncs = layer.syncs.load(SeqCst);
    assert_eq!(store.vacuum(&old()).unwrap(), gone(1_999 + 1, 0));
    // At most 16 KiB at once.
    assert!(layer.syncs.load(SeqCst) - syncs >= 1_999 * 72 / (16 * 1024));
    assert_eq!(store.list("long", &HistoryQuery::default()).unwrap().count(), 1_001);
    index_is_derived(&store, &scratch.dir());
    other.head("long").unwrap();
    assert_eq!(views(&other), views(&store));
    assert_eq!(store.vacuum(&old()).unwrap(), gone(0, 0));
}

#[test]
fn what_is_cut_short_is_done_by_the_next_one() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let store = open(&scratch, &layer);
    let threads: Vec<String> = (0..600).map(|number| format!("t{number:03}")).collect();
    let mut batch = Batch::new();
    for thread in &threads {
        let options = PutOptions::default().saved_at(time(OLD));
        batch.put(thread, TypeTag::BYTES, b"1", options.clone()).put(thread, TypeTag::BYTES, b"2", options);
    }
    store.commit(&batch).unwrap();
    for query in [keep(1), both()] {
        let dry = store.vacuum(&VacuumQuery { dry_run: true, ..query.clone() }).unwrap();
        // The first turn's write is done, the second one's is not.
        layer.set(Some(Fault { only: Some(".seg"), ..Fault::fail(1, Kind::Write, false, Errno::NOSPC, 0) }));
        assert_eq!(store.vacuum(&query).unwrap_err().kind(), ErrorKind::DiskFull);
        layer.set(None);
        index_is_derived(&store, &scratch.dir());
        let (left, all) = (store.vacuum(&query).unwrap(), dry.checkpoints);
        assert!(left.checkpoints > 0 && left.checkpoints < all, "{left:?} of {all}");
        index_is_derived(&store, &scratch.dir());
    }
    assert!(store.threads().unwrap().is_empty());
}

#[test]
fn no_thread_is_idle_where_newer_checkpoints_may_stand_in_what_cannot_be_read() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let store = open(&scratch, &layer);
    put(&store, "t", 0, OLD);
    put(&store, "t", 1, OLD);
    // A batch in a segment of its own, of which another one follows.
    let mut batch = Batch::new();
    batch.put("t", TypeTag::BYTES, &[7; 20_000], PutOptions::default().saved_at(time(NOW)));
    store.commit(&batch).unwrap();
    put(&store, "u", 0, NOW);
    drop(store);
    let large = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().ends_with("2.seg");
    let large = std::fs::read_dir(scratch.dir()).unwrap().map(Result::unwrap).find(large).unwrap();
    std::fs::remove_file(large.path()).unwrap();
    let store = open(&scratch, &layer);
    assert_eq!(steps(&store, "t"), "s0 s1", "the segment of the newest is gone");
    for dry_run in [true, false] {
        assert_eq!(store.vacuum(&VacuumQuery { dry_run, ..both() }).unwrap_err().kind(), ErrorKind::Corrupt);
    }
    assert_eq!(store.vacuum(&old()).unwrap(), gone(1, 0));
    assert_eq!(steps(&store, "t"), "s1");
}

#[test]
fn a_reader_counts_and_deletes_nothing() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let store = open(&scratch, &layer);
    (0..3).for_each(|step| put(&store, "t", step, OLD));
    let mut options = Store::options().read_only(true);
    options.fs = Arc::new(layer.clone());
    let reader = options.open(scratch.dir()).unwrap();
    assert_eq!(reader.vacuum(&VacuumQuery { dry_run: true, ..both() }).unwrap(), gone(3, 1));
    for query in [both(), VacuumQuery { thread: Some("nobody".to_owned()), ..both() }] {
        assert_eq!(reader.vacuum(&query).unwrap_err().kind(), ErrorKind::ReadOnly);
    }
    assert_eq!(store.vacuum(&both()).unwrap(), gone(3, 1));
    assert!(reader.threads().unwrap().is_empty());
}

/// How long a thread's id is whose record of a kind takes up 128 bytes.
fn width(record: impl Fn(&str) -> Vec<u8>) -> usize {
    let length = |width| frame_len(record(&"t".repeat(width)).len(), 0);
    (1..200).rfind(|&width| length(width) == 128).unwrap()
}

fn encoded(record: &Record<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    record.encode(&mut bytes);
    bytes
}

/// Vacuums with room for one turn; answers the numbers of checkpoints that are left then.
fn one_turn(store: &Store, layer: &Failing, query: &VacuumQuery) -> Vec<usize> {
    layer.set(Some(Fault { only: Some(".seg"), ..Fault::fail(1, Kind::Write, false, Errno::NOSPC, 0) }));
    assert_eq!(store.vacuum(query).unwrap_err().kind(), ErrorKind::DiskFull);
    layer.set(None);
    views(store).values().map(|view| view.len()).collect()
}

/// A turn has room for 16 KiB: 128 records of 128 bytes, to the byte.
#[test]
fn as_many_threads_go_in_a_turn_as_there_is_room_for() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let store = open(&scratch, &layer);
    let width = width(|thread| encoded(&Record::DeleteThread { thread }));
    (0..150).for_each(|number| put(&store, &format!("{number:0width$}"), 0, OLD));
    assert_eq!(one_turn(&store, &layer, &both()).len(), 150 - 128);
    assert_eq!(store.vacuum(&both()).unwrap(), gone(22, 22));
    index_is_derived(&store, &scratch.dir());
}

#[test]
fn as_many_deletes_of_a_thread_go_in_a_turn_as_there_is_room_for() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let store = open(&scratch, &layer);
    let thread = "t".repeat(width(|thread| encoded(&Record::DeleteCheckpoint { thread, place: 99 })));
    // The oldest stays, so that none of them is a trim.
    (0..140).for_each(|step| put(&store, &thread, step, if step == 0 { NOW } else { OLD }));
    assert_eq!(one_turn(&store, &layer, &old()), [140 - 128]);
    assert_eq!(store.vacuum(&old()).unwrap(), gone(10, 0));
    index_is_derived(&store, &scratch.dir());
}

/// One that does not fit behind others waits for a turn of its own, as long as it fits into one.
#[test]
fn the_deletes_of_a_thread_that_fit_into_one_turn_are_made_in_one() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let store = open(&scratch, &layer);
    let width = width(|thread| encoded(&Record::DeleteCheckpoint { thread, place: 99 }));
    for thread in ["a", "b"] {
        (0..82).for_each(|step| put(&store, &thread.repeat(width), step, if step == 0 { NOW } else { OLD }));
    }
    assert_eq!(one_turn(&store, &layer, &old()), [2, 82], "the newest of a thread is never too old");
    assert_eq!(store.vacuum(&old()).unwrap(), gone(80, 0));
}
