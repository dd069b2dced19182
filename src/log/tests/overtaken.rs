//! Compaction and those whom it overtakes: who looks a moment too early, was killed in it, has missed
//! several, or meets what another one left.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use rustix::io::Errno;

use super::failing::{Action, Failing, Fault, Kind, Moment};
use super::faults::{contents, options, put};
use super::other::{Other, SEGMENT, open};
use super::{Scratch, index_is_derived};
use crate::batch::{Durability, PutOptions};
use crate::checkpoint::{CheckpointId, TypeTag};
use crate::checkpointer::Checkpointer;
use crate::error::ErrorKind;
use crate::log::Store;
use crate::log::compact::Pass;
use crate::log::runs::Wanted;

fn put_as(store: &Store, thread: &str, id: &str, state: &[u8]) {
    let options = PutOptions::default().id(CheckpointId::new(id).unwrap()).durability(Durability::Buffered);
    store.put_bytes(thread, TypeTag::BYTES, state, options).unwrap();
}

/// The files of a directory, but for quarantine, that have some bytes in them.
fn holding(dir: &Path, marker: &[u8]) -> Vec<PathBuf> {
    let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    files.filter(|path| fs::read(path).unwrap().windows(marker.len()).any(|window| window == marker)).collect()
}

/// A step plans on one moment of the index and takes the manifest later, behind a sync: a segment that
/// was active at that moment and is sealed by then is none of its candidates.
#[test]
fn what_is_put_while_an_unasked_step_syncs_is_kept() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let (one, other) = (open(&scratch, &layer), open(&scratch, &Failing::default()));
    for _ in 0..3 {
        put(&one, "dead", 10_000, Durability::Buffered).unwrap();
    }
    let batch = PutOptions::default().durability(Durability::Buffered);
    one.delete("dead").unwrap();
    // Not synced: the step has something to wait for.
    one.put_bytes("last", TypeTag::BYTES, b"1", batch).unwrap();
    layer.set(Some(Fault { only: SEGMENT, ..Fault::once(Kind::Sync, Action::Pause, Moment::Before) }));
    let stepping = {
        let one = one.clone();
        std::thread::spawn(move || one.shared.step_now())
    };
    layer.paused();
    for number in 0..4 {
        // The last of them begins a new segment.
        other.put_bytes(&format!("kept-{number}"), TypeTag::BYTES, &[7; 10_000], PutOptions::default()).unwrap();
    }
    layer.resume();
    stepping.join().unwrap().unwrap();
    layer.set(None);
    drop((one, other));
    let found: Vec<String> = Store::open(scratch.dir()).unwrap().threads().unwrap();
    assert_eq!(found, ["kept-0", "kept-1", "kept-2", "kept-3", "last"], "acknowledged durable puts");
}

/// A process that missed two compactions finds two frames for a place: the one that was copied while
/// it was being replaced, and the one that replaced it.
#[test]
fn who_missed_two_compactions_finds_what_was_put_last() {
    const STEPS: usize = 60;
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let (idle, compacting, other) = (open(&scratch, &Failing::default()), open(&scratch, &layer), open(&scratch, &Failing::default()));
    other.retain(None, None).unwrap();
    let segments = |store: &Store| store.shared.directory.manifest().unwrap().segments.len();
    for step in 0..STEPS {
        put_as(&other, "t", &format!("id-{step}"), &[1; 100]);
    }
    while segments(&other) == 1 {
        put(&other, "dead", 9_000, Durability::Sync).unwrap();
    }
    other.delete("dead").unwrap();
    other.sync().unwrap();
    let step = |store: &Store, from: u64| {
        let right = store.shared.right_to_compact().unwrap();
        Pass::begin(&store.shared, right, &|_| Ok(()), false).unwrap().step(Wanted::Next(from, from + 1)).unwrap()
    };
    compacting.shared.refresh().unwrap();
    let first = compacting.shared.follower.reading().manifest.segments[0].base;
    layer.set(Some(Fault { only: Some(".seg.new"), ..Fault::once(Kind::Create, Action::Pause, Moment::Before) }));
    let stepping = {
        let store = compacting.clone();
        std::thread::spawn(move || step(&store, first))
    };
    layer.paused();
    // Put again, each under its own id, and the segment is sealed.
    for step in 0..STEPS {
        put_as(&other, "t", &format!("id-{step}"), &[2; 100]);
    }
    let before = segments(&other);
    while segments(&other) == before {
        put(&other, "dead", 9_000, Durability::Sync).unwrap();
    }
    other.delete("dead").unwrap();
    let expected = contents(&other);
    assert!(contents(&idle) == expected);
    layer.resume();
    assert_eq!(stepping.join().unwrap().unwrap().segments, 1);
    layer.set(None);
    let second = compacting.shared.directory.manifest().unwrap().segments[1].base;
    assert_eq!(step(&compacting, second).unwrap().segments, 1);
    assert!(contents(&compacting) == expected, "who compacts");
    index_is_derived(&compacting, &scratch.dir());
    let old = contents(&idle)["t"].iter().filter(|state| state[0] == 1).count();
    // And it compacts by what it finds.
    idle.compact().unwrap();
    let lost = contents(&Store::open(scratch.dir()).unwrap())["t"].iter().filter(|state| state[0] == 1).count();
    assert_eq!((old, lost), (0, 0), "of {STEPS} checkpoints so many are what they were before they were put again; then for good");
    index_is_derived(&idle, &scratch.dir());
}

/// What was written anew still stands behind the sealed end of the segment that it was written to first.
#[test]
fn what_was_written_anew_and_then_deleted_is_nowhere_after_a_compaction() {
    let scratch = Scratch::new();
    let store = open(&scratch, &Failing::default());
    for _ in 0..3 {
        put(&store, "kept", 10_000, Durability::Sync).unwrap();
    }
    drop(store);
    let fault = Fault { only: SEGMENT, ..Fault::once(Kind::Sync, Action::Kill, Moment::Before) };
    assert!(Other::start(&scratch.dir(), "a durable put", fault).ended().is_none());
    let store = open(&scratch, &Failing::default());
    let state = store.get_bytes("new").unwrap().unwrap().state.to_vec();
    assert!(!holding(&scratch.dir(), &state).is_empty());
    store.delete("new").unwrap();
    store.compact().unwrap();
    assert_eq!(holding(&scratch.dir(), &state), Vec::<PathBuf>::new());
}

/// The next compaction removes what a killed one left, its hint too.
#[test]
fn the_hint_of_a_killed_compaction_goes_with_the_next_one() {
    let scratch = Scratch::new();
    let store = open(&scratch, &Failing::default());
    for _ in 0..12 {
        put(&store, "MARKED-THREAD", 4_000, Durability::Buffered).unwrap();
        put(&store, "other", 4_000, Durability::Buffered).unwrap();
    }
    store.delete("other").unwrap();
    let fault = Fault { only: Some(".seg.new"), ..Fault::once(Kind::Rename, Action::Kill, Moment::Before) };
    assert!(Other::start(&scratch.dir(), "a compaction", fault).ended().is_none());
    store.delete("MARKED-THREAD").unwrap();
    store.compact().unwrap();
    assert_eq!(holding(&scratch.dir(), b"MARKED-THREAD"), Vec::<PathBuf>::new());
}

/// A hint that meets a full disk leaves no working file.
#[test]
fn a_hint_that_met_a_full_disk_leaves_nothing_behind() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let store = open(&scratch, &layer);
    for _ in 0..12 {
        put(&store, "MARKED-THREAD", 4_000, Durability::Buffered).unwrap();
        put(&store, "other", 4_000, Durability::Buffered).unwrap();
    }
    store.delete("other").unwrap();
    let fault = Fault::fail(0, Kind::Write, false, Errno::NOSPC, 400);
    layer.set(Some(Fault { only: Some(".hint.new"), ..fault }));
    store.compact().unwrap();
    assert!(!layer.failed().is_empty());
    layer.set(None);
    let names = fs::read_dir(scratch.dir()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.filter(|name| name.ends_with(".new")).collect::<Vec<_>>(), Vec::<String>::new());
}

/// Who closes writes hints only with the right to compact: none for a segment that is gone by then.
#[test]
fn who_closes_beside_a_compaction_leaves_no_hint_of_what_it_removed() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let closing = open(&scratch, &layer);
    let other = options(&Failing::default()).busy_timeout(Duration::from_millis(50)).open(scratch.dir()).unwrap();
    for _ in 0..20 {
        put(&closing, "MARKED-THREAD", 4_000, Durability::Buffered).unwrap();
    }
    layer.set(Some(Fault { only: Some(".hint.new"), ..Fault::once(Kind::Create, Action::Pause, Moment::Before) }));
    let closing = std::thread::spawn(move || drop(closing));
    layer.paused();
    other.delete("MARKED-THREAD").unwrap();
    assert_eq!(other.compact().unwrap_err().kind(), ErrorKind::Busy);
    layer.resume();
    closing.join().unwrap();
    other.compact().unwrap();
    assert_eq!(holding(&scratch.dir(), b"MARKED-THREAD"), Vec::<PathBuf>::new());
}

/// A Buffered put is shown to its own process before the page tells its end.
#[test]
fn a_compaction_beside_buffered_puts_is_not_refused() {
    let scratch = Scratch::new();
    let store = options(&Failing::default()).busy_timeout(Duration::from_secs(60)).open(scratch.dir()).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Relaxed) {
                put(&store, "a", 10, Durability::Buffered).unwrap();
            }
        });
        let failed: Vec<_> = (0..2_000).filter_map(|_| store.compact().err()).collect();
        done.store(true, Relaxed);
        assert!(failed.is_empty(), "{} of 2000: {}", failed.len(), failed[0]);
    });
}

/// A watch looks at a manifest and the set of segments that goes with it, whatever is compacted meanwhile.
#[test]
fn a_watch_beside_a_compaction_misses_nothing_that_is_kept() {
    for round in 0..60 {
        let scratch = Scratch::new();
        let store = open(&scratch, &Failing::default());
        store.retain(None, None).unwrap();
        let mut watch = store.watch(Some("kept")).unwrap();
        for number in 0..60 {
            put(&store, "dead", 4_000, Durability::Buffered).unwrap();
            put_as(&store, "kept", &format!("{number:02}"), &[1; 4_000]);
        }
        store.delete("dead").unwrap();
        let mut told = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| store.compact().unwrap());
            while let Some(info) = watch.wait(Duration::ZERO).unwrap() {
                told.push(info.id.to_string());
                if told.len() % 4 == 0 {
                    std::thread::sleep(Duration::from_micros(200));
                }
            }
        });
        let all: Vec<String> = (0..60).map(|number| format!("{number:02}")).collect();
        assert_eq!(told, all, "in round {round}");
    }
}

/// Of what a trim has overtaken a watch tells all but what was deleted, as the deletes further on in the log say.
#[test]
fn a_watch_behind_a_trim_tells_what_was_trimmed_and_not_what_was_deleted() {
    let scratch = Scratch::new();
    let store = open(&scratch, &Failing::default());
    let mut watch = store.watch(None).unwrap();
    let put = |thread: &str, ids: &str| ids.split(' ').for_each(|id| put_as(&store, thread, id, b"state"));
    put("single", "s1 s2 s3");
    assert!(store.delete_checkpoint("single", &CheckpointId::new("s2").unwrap()).unwrap());
    put("whole", "w1 w2");
    assert!(store.delete("whole").unwrap());
    put("whole", "w3 w4 w5");
    put("single", "s4");
    store.retain(None, Some(1)).unwrap();
    let mut told = Vec::new();
    while let Some(info) = watch.wait(Duration::ZERO).unwrap() {
        told.push(info.id.to_string());
    }
    assert_eq!(told.join(" "), "s1 s3 w3 w4 w5 s4");
}

#[test]
fn a_watch_as_an_iterator_ends_behind_an_error() {
    let scratch = Scratch::new();
    let store = open(&scratch, &Failing::default());
    let mut watch = store.watch(Some("t")).unwrap();
    put_as(&store, "t", "one", b"state");
    let end = store.shared.follower.reading().active.end;
    put_as(&store, "t", "two", b"state");
    put_as(&store, "t", "three", b"state");
    let file = fs::OpenOptions::new().write(true).open(scratch.dir().join("0000000000000001.seg")).unwrap();
    file.write_all_at(&[0xff; 8], end + 8).unwrap();
    assert_eq!(watch.next().unwrap().unwrap().id.as_str(), "one");
    assert_eq!(watch.next().unwrap().unwrap_err().kind(), ErrorKind::Corrupt);
    assert!(watch.next().is_none());
}

/// Where a listed segment is missing, nobody removes what is named as retired: it may be what that one
/// was made of.
#[test]
fn a_large_put_beside_a_missing_segment_removes_nothing_retired() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let store = open(&scratch, &layer);
    store.retain(None, None).unwrap();
    for _ in 0..7 {
        put(&store, "kept", 4_000, Durability::Buffered).unwrap();
        put(&store, "dead", 4_000, Durability::Buffered).unwrap();
    }
    store.delete("dead").unwrap();
    // As in a copy of a live directory: the retired one is there, and what was made of it is not.
    let retired = scratch.dir().join("0000000000000001.seg");
    layer.set(Some(Fault { only: Some("0000000000000001.seg"), ..Fault::fail(0, Kind::Remove, false, Errno::PERM, 0) }));
    store.compact().unwrap();
    layer.set(None);
    let manifest = store.shared.directory.manifest().unwrap();
    assert!(manifest.retired.contains(&1) && manifest.segments[0].compacted && retired.exists());
    drop(store);
    fs::remove_file(scratch.dir().join(crate::format::names::segment(manifest.segments[0].number))).unwrap();
    let store = open(&scratch, &Failing::default());
    put(&store, "small", 4_000, Durability::Sync).unwrap();
    assert!(retired.exists(), "{:?}", store.recovery());
    put(&store, "large", 20_000, Durability::Sync).unwrap();
    drop(store);
    assert!(retired.exists(), "the only file that holds what was acknowledged was removed");
    let dest = scratch.dir().with_file_name("repaired");
    Store::repair(scratch.dir(), &dest).unwrap();
    assert!(Store::open(&dest).unwrap().exists("kept").unwrap());
}

/// A step that a put takes removes what killed compactions left, before it replaces what that stands for.
#[test]
fn what_a_killed_compaction_left_does_not_outlive_a_step_of_a_put() {
    let scratch = Scratch::new();
    let store = open(&scratch, &Failing::default());
    store.retain(None, None).unwrap();
    for _ in 0..16 {
        put(&store, "dead", 4_000, Durability::Buffered).unwrap();
    }
    for _ in 0..12 {
        put(&store, "MARKED-THREAD", 2_000, Durability::Buffered).unwrap();
        put(&store, "dead", 4_000, Durability::Buffered).unwrap();
    }
    store.delete("dead").unwrap();
    let fault = Fault { only: Some(".seg.new"), ..Fault::once(Kind::Rename, Action::Kill, Moment::After) };
    assert!(Other::start(&scratch.dir(), "a compaction", fault).ended().is_none());
    // What is wholly dead goes first.
    store.shared.step_now().unwrap();
    store.delete("MARKED-THREAD").unwrap();
    put(&store, "kept", 10, Durability::Sync).unwrap();
    store.compact().unwrap();
    let left = holding(&scratch.dir(), b"MARKED-THREAD");
    drop(store);
    let store = open(&scratch, &Failing::default());
    assert!(!store.exists("MARKED-THREAD").unwrap());
    drop(store);
    let dest = scratch.dir().with_file_name("repaired");
    let report = Store::repair(scratch.dir(), &dest).unwrap();
    let back = Store::open(&dest).unwrap().exists("MARKED-THREAD").unwrap();
    assert_eq!((left, back), (Vec::<PathBuf>::new(), false), "where it is left, and whether repair brings it back: {report:?}");
}
