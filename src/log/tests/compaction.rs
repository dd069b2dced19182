//! Compaction beside everything else: another handle deletes, trims, puts and re-makes threads at each
//! operation of a compaction, and what was deleted is gone, what was put is there, in both.

use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::time::Duration;

use super::failing::{Action, Failing, Fault, Kind, Moment};
use super::faults::{Contents, contents, options, put};
use super::other::open;
use super::{Scratch, index_is_derived};
use crate::batch::{Batch, Durability, PutOptions};
use crate::checkpoint::{CheckpointId, Metadata, TypeTag};
use crate::checkpointer::Checkpointer;
use crate::error::ErrorKind;
use crate::format::names;
use crate::log::Store;
use crate::log::compact::Pass;
use crate::log::runs::Wanted;
use crate::options::Compression;
use crate::query::HistoryQuery;
use crate::testing::states::noise;

/// Some four segments, each in part dead.
fn fill(store: &Store) {
    store.retain(None, Some(6)).unwrap();
    for round in 0..12 {
        for thread in ["a", "b", "gone", "again"] {
            put(store, thread, 4_000 + round, Durability::Buffered).unwrap();
        }
    }
    store.delete("gone").unwrap();
    // Not synced yet: the first thing that a compaction waits for.
    put(store, "a", 100, Durability::Buffered).unwrap();
}

/// What another handle does while a compaction waits.
fn meddle(store: &Store) {
    store.delete("again").unwrap();
    put(store, "again", 77, Durability::Sync).unwrap();
    store.delete("b").unwrap();
    let oldest = store.history_bytes("a", &HistoryQuery::default()).unwrap().last().unwrap().unwrap();
    // Under its own id again: what the compaction copies of it is dead by then.
    let options = PutOptions::default().id(oldest.id.clone());
    store.put_bytes("a", TypeTag::BYTES, b"another", options).unwrap();
    let newest = store.head("a").unwrap().unwrap();
    store.delete_checkpoint("a", &newest.id).unwrap();
    store.retain(Some("a"), Some(4)).unwrap();
    put(store, "new", 20_000, Durability::Sync).unwrap();
}

fn after_meddling() -> Contents {
    let scratch = Scratch::new();
    let store = open(&scratch, &Failing::default());
    fill(&store);
    meddle(&store);
    contents(&store)
}

#[test]
fn whatever_others_do_at_each_operation_of_a_compaction_is_done() {
    let after = after_meddling();
    let mut met = 0;
    for from in 0.. {
        let (scratch, layer) = (Scratch::new(), Failing::default());
        let (one, other) =
            (open(&scratch, &layer), options(&Failing::default()).busy_timeout(Duration::from_millis(50)).open(scratch.dir()).unwrap());
        fill(&one);
        layer.set(Some(Fault { from, kind: None, ..Fault::once(Kind::Read, Action::Pause, Moment::Before) }));
        let compacting = {
            let one = one.clone();
            std::thread::spawn(move || one.compact())
        };
        let mut meddled = false;
        while !compacting.is_finished() {
            if !meddled && layer.is_paused() {
                // In its turn everyone waits: then it comes first.
                match put(&other, "probe", 1, Durability::Buffered) {
                    Ok(()) => meddle(&other),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Busy);
                        layer.resume();
                        compacting.join().unwrap().unwrap();
                        put(&other, "probe", 1, Durability::Buffered).unwrap();
                        meddle(&other);
                        meddled = true;
                        break;
                    }
                }
                meddled = true;
                layer.resume();
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        layer.set(None);
        if !meddled {
            break;
        }
        met += 1;
        for store in [&one, &other] {
            let mut found = contents(store);
            assert!(found.remove("probe").is_some());
            assert!(
                found == after,
                "paused at operation {from}: {:?}",
                found.iter().map(|(thread, all)| (thread, all.len())).collect::<Vec<_>>()
            );
            index_is_derived(store, &scratch.dir());
        }
        other.compact().unwrap();
        one.compact().unwrap();
        for store in [&one, &other] {
            contents(store);
            index_is_derived(store, &scratch.dir());
        }
        drop((one, other));
        let mut found = contents(&Store::open(scratch.dir()).unwrap());
        found.remove("probe");
        assert!(found == after, "opened again after operation {from}");
    }
    assert!(met > 60, "a compaction was met {met} times only");
}

#[test]
fn what_is_sealed_while_a_compaction_looks_is_not_taken_for_dead() {
    for wanted in [Wanted::Dead, Wanted::Best, Wanted::Next(0, u64::MAX)] {
        let (scratch, layer) = (Scratch::new(), Failing::default());
        let (one, other) = (open(&scratch, &layer), open(&scratch, &Failing::default()));
        put(&one, "first", 100, Durability::Buffered).unwrap();
        layer.set(Some(Fault::once(Kind::Sync, Action::Pause, Moment::Before)));
        let compacting = {
            let one = one.clone();
            std::thread::spawn(move || {
                Pass::begin(&one.shared, one.shared.right_to_compact()?, &|_| Ok(()), false)?.step(wanted).map(|step| step.is_some())
            })
        };
        layer.paused();
        (0..20).for_each(|_| put(&other, "meanwhile", 12_000, Durability::Sync).unwrap());
        layer.resume();
        assert!(!compacting.join().unwrap().unwrap(), "there was nothing to be had");
        for store in [&one, &other] {
            assert_eq!(contents(store)["meanwhile"].len(), 20);
            index_is_derived(store, &scratch.dir());
        }
    }
}

/// How often some bytes stand in the files of a directory, and all below it.
pub(super) fn occurrences(dir: &Path, marker: &[u8]) -> usize {
    let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let count = |path: &Path| {
        if path.is_dir() {
            return occurrences(path, marker);
        }
        fs::read(path).unwrap().windows(marker.len()).filter(|window| *window == marker).count()
    };
    files.map(|path| count(&path)).sum()
}

#[test]
fn what_was_deleted_is_nowhere_after_a_compaction() {
    for mmap in [true, false] {
        let scratch = Scratch::new();
        // Not packed, so that the markers stand as they are put.
        let with = || options(&Failing::default()).mmap(mmap).compression(Compression::Never);
        let (store, other) = (with().open(scratch.dir()).unwrap(), with().open(scratch.dir()).unwrap());
        let seed = Cell::new(0);
        let state = |what: &str| {
            seed.set(seed.get() + 1);
            [b"STATE-".as_slice(), what.as_bytes(), &noise(seed.get(), 3_000)].concat()
        };
        let metadata = |what: &str| Metadata::from_json(format!("{{\"m\":\"META-{what}\"}}")).unwrap();
        let put = |thread: &str, what: &str, id: &str| {
            let options = PutOptions::default().id(CheckpointId::new(id).unwrap()).metadata(metadata(what));
            store.put_bytes(thread, TypeTag::BYTES, &state(what), options).unwrap();
        };
        store.retain(None, None).unwrap();
        for round in 0..30 {
            put("kept", "KEPT", &format!("k{round}"));
            put("THREAD-DELETED", "DELETED", &format!("ID-DELETED-{round}"));
            put("re-made", "OLDLIFE", &format!("o{round}"));
            put("trimmed", "TRIMMED", &format!("t{round}"));
            put("single", "SINGLE", &format!("s{round}"));
            put("again", "REPLACED", &format!("r{round}"));
        }
        store.delete("THREAD-DELETED").unwrap();
        store.delete("re-made").unwrap();
        put("re-made", "NEWLIFE", "n");
        for round in 0..30 {
            put("trimmed", "RECENT", &format!("u{round}"));
            put("again", "REPLACING", &format!("r{round}"));
            assert!(store.delete_checkpoint("single", &CheckpointId::new(format!("s{round}")).unwrap()).unwrap());
        }
        store.retain(Some("trimmed"), Some(30)).unwrap();
        let deleted = ["STATE-DELETED", "META-DELETED", "THREAD-DELETED", "ID-DELETED", "OLDLIFE", "TRIMMED", "SINGLE", "REPLACED"];
        assert!(deleted.iter().all(|marker| occurrences(&scratch.dir(), marker.as_bytes()) > 0), "the marker is found before");
        let before = contents(&store);
        let done = other.compact().unwrap();
        assert!(done.segments > 5 && done.bytes > 200_000, "{done:?}");
        for marker in deleted {
            assert_eq!(occurrences(&scratch.dir(), marker.as_bytes()), 0, "{marker}");
        }
        assert!(occurrences(&scratch.dir(), b"STATE-KEPT") == 30 && occurrences(&scratch.dir(), b"NEWLIFE") == 2);
        assert!(contents(&store) == before && contents(&other) == before);
        assert_eq!(store.compact().unwrap().segments, 0, "there is nothing left to do");
        drop((store, other));
        let store = with().open(scratch.dir()).unwrap();
        assert!(contents(&store) == before && store.recovery().set_aside.is_empty(), "{:?}", store.recovery());
        index_is_derived(&store, &scratch.dir());
    }
}

#[test]
fn iterators_and_states_go_on_over_a_compaction() {
    for mmap in [true, false] {
        let scratch = Scratch::new();
        let reader = options(&Failing::default()).mmap(mmap).open(scratch.dir()).unwrap();
        let read_only = Store::options().mmap(mmap).read_only(true).open(scratch.dir()).unwrap();
        let other = open(&scratch, &Failing::default());
        fill(&other);
        let before = contents(&other);
        let state = reader.get_bytes("a").unwrap().unwrap().state;
        let mut steps = [&reader, &read_only].map(|store| store.history_bytes("again", &HistoryQuery::default()).unwrap());
        let mut seen: Vec<Vec<u8>> = steps.iter_mut().map(|steps| steps.next().unwrap().unwrap().state.to_vec()).collect();
        other.delete("b").unwrap();
        other.compact().unwrap();
        other.delete("again").unwrap();
        put(&other, "x", 10_000, Durability::Sync).unwrap();
        other.compact().unwrap();
        assert!(!reader.exists("again").unwrap(), "a new look shows what is now");
        assert_eq!(*state, before["a"][0]);
        for (steps, first) in steps.into_iter().zip(seen.drain(..)) {
            let rest: Vec<Vec<u8>> = steps.map(|step| step.unwrap().state.to_vec()).collect();
            assert!([&[first], &rest[..]].concat() == before["again"], "an iterator has one moment");
        }
        index_is_derived(&reader, &scratch.dir());
        assert_eq!(contents(&read_only), contents(&other));
    }
}

#[test]
fn a_watch_misses_nothing_that_is_kept() {
    let scratch = Scratch::new();
    let (store, other) = (open(&scratch, &Failing::default()), open(&scratch, &Failing::default()));
    fill(&store);
    let mut watch = store.watch(None).unwrap();
    let mut told = Vec::new();
    for round in 0..40 {
        for thread in ["a", "w"] {
            let options = PutOptions::default().id(CheckpointId::new(format!("{thread}{round:02}")).unwrap());
            other.put_bytes(thread, TypeTag::BYTES, &[7; 3_000], options).unwrap();
        }
        if round % 8 == 3 {
            other.compact().unwrap();
        }
        if round == 20 {
            // It has come a part of the way.
            told.extend((0..6).map(|_| watch.wait(Duration::ZERO).unwrap().unwrap()));
        }
    }
    other.compact().unwrap();
    told.extend(std::iter::from_fn(|| watch.wait(Duration::ZERO).unwrap()));
    let told: Vec<String> = told.iter().map(|info| info.id.to_string()).collect();
    for kept in ["a", "w"].iter().flat_map(|thread| (34..40).map(move |round| format!("{thread}{round}"))) {
        assert!(told.contains(&kept), "{kept} was not told: {told:?}");
    }
    let rounds: Vec<(&str, &str)> = told.iter().map(|id| (&id[1..], &id[..1])).collect();
    assert!(rounds.is_sorted_by(|a, b| a < b), "once each, and in order: {told:?}");
}

#[test]
fn an_old_segment_copied_back_in_brings_nothing_back() {
    let scratch = Scratch::new();
    let store = open(&scratch, &Failing::default());
    fill(&store);
    store.retain(None, None).unwrap();
    let kept = scratch.dir().with_file_name("kept");
    fs::create_dir(&kept).unwrap();
    let segments = || {
        fs::read_dir(scratch.dir())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|it| it == "seg"))
    };
    segments().for_each(|path| assert!(fs::copy(&path, kept.join(path.file_name().unwrap())).unwrap() > 0));
    store.delete("again").unwrap();
    store.compact().unwrap();
    let before = contents(&store);
    let listed: Vec<_> = segments().map(|path| path.file_name().unwrap().to_owned()).collect();
    for entry in fs::read_dir(&kept).unwrap() {
        let path = entry.unwrap().path();
        if !listed.contains(&path.file_name().unwrap().to_owned()) {
            fs::copy(&path, scratch.dir().join(path.file_name().unwrap())).unwrap();
        }
    }
    put(&store, "a", 1, Durability::Sync).unwrap();
    store.delete_checkpoint("a", &store.head("a").unwrap().unwrap().id).unwrap();
    assert_eq!(contents(&store), before, "beside one at work");
    store.compact().unwrap();
    drop(store);
    for _ in 0..2 {
        let store = open(&scratch, &Failing::default());
        assert!(store.recovery().damage.is_empty());
        assert_eq!(contents(&store), before);
    }
}

#[test]
fn a_limit_of_its_own_and_a_floor_stay_when_what_set_them_is_compacted() {
    let scratch = Scratch::new();
    let store = open(&scratch, &Failing::default());
    store.retain(None, None).unwrap();
    for number in 0..10u8 {
        store.put_bytes("t", TypeTag::BYTES, &[number; 2_000], PutOptions::default()).unwrap();
    }
    store.retain(Some("t"), Some(3)).unwrap();
    for _ in 0..6 {
        put(&store, "fill", 12_000, Durability::Sync).unwrap();
    }
    // The head, which tells the floor, is deleted; what is left was put before that floor was.
    store.put_bytes("t", TypeTag::BYTES, &[10; 2_000], PutOptions::default()).unwrap();
    store.delete_checkpoint("t", &store.head("t").unwrap().unwrap().id).unwrap();
    let before = contents(&store);
    assert_eq!(before["t"].len(), 2);
    for _ in 0..2 {
        store.compact().unwrap();
        index_is_derived(&store, &scratch.dir());
        put(&store, "fill", 12_000, Durability::Sync).unwrap();
    }
    drop(store);
    let store = open(&scratch, &Failing::default());
    assert_eq!(contents(&store)["t"], before["t"]);
    for number in 11..16u8 {
        store.put_bytes("t", TypeTag::BYTES, &[number; 2_000], PutOptions::default()).unwrap();
    }
    assert_eq!(contents(&store)["t"].len(), 3, "its own limit is in force");
}

#[test]
fn two_compactions_go_one_at_a_time() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let one = open(&scratch, &layer);
    let other = options(&Failing::default()).busy_timeout(Duration::from_millis(100)).open(scratch.dir()).unwrap();
    fill(&one);
    layer.set(Some(Fault { only: Some(".seg.new"), ..Fault::once(Kind::Write, Action::Pause, Moment::Before) }));
    let compacting = {
        let one = one.clone();
        std::thread::spawn(move || one.compact())
    };
    layer.paused();
    let error = other.compact().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert!(error.to_string().contains("compact"), "{error}");
    other.shared.step_now().unwrap();
    put(&other, "a", 10, Durability::Sync).unwrap();
    layer.resume();
    compacting.join().unwrap().unwrap();
    other.compact().unwrap();
    for store in [&one, &other] {
        contents(store);
        index_is_derived(store, &scratch.dir());
    }
}

#[test]
fn what_a_killed_compaction_left_goes_with_the_next_one() {
    let scratch = Scratch::new();
    let store = open(&scratch, &Failing::default());
    fill(&store);
    let names = || fs::read_dir(scratch.dir()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>();
    for (only, moment) in [(".seg.new", Moment::After), (".seg.new", Moment::Before)] {
        for kind in [Kind::Sync, Kind::Rename] {
            let fault = Fault { only: Some(only), ..Fault::once(kind, Action::Kill, moment) };
            assert!(super::other::Other::start(&scratch.dir(), "a compaction", fault).ended().is_none());
        }
    }
    let before = names();
    put(&store, "a", 10, Durability::Sync).unwrap();
    let shown = contents(&store);
    store.compact().unwrap();
    assert!(before.iter().any(|name| name.ends_with(".seg.new")) && !names().iter().any(|name| name.ends_with(".new")), "{before:?}");
    let manifest = store.shared.directory.manifest().unwrap();
    assert_eq!(names().iter().filter(|name| name.ends_with(".seg")).count(), manifest.segments.len(), "{:?}", names());
    assert_eq!(contents(&store), shown);
    index_is_derived(&store, &scratch.dir());
}

#[test]
fn a_batch_over_several_threads_survives_in_part() {
    let scratch = Scratch::new();
    let store = open(&scratch, &Failing::default());
    for _ in 0..10 {
        let mut batch = Batch::new();
        for thread in ["a", "b", "c"] {
            batch.put(thread, TypeTag::BYTES, &[5; 3_000], PutOptions::default());
        }
        store.commit(&batch).unwrap();
    }
    store.delete("b").unwrap();
    let before = contents(&store);
    store.compact().unwrap();
    assert_eq!(contents(&store), before);
    index_is_derived(&store, &scratch.dir());
}

/// Compacts the runs that begin in a stretch of the log, as nobody does by hand.
fn compact_between(store: &Store, from: u64, upto: u64, thorough: bool) -> u64 {
    let right = store.shared.right_to_compact().unwrap();
    let mut pass = Pass::begin(&store.shared, right, &|_| Ok(()), thorough).unwrap();
    let (mut from, mut segments) = (from, 0);
    while let Some(replaced) = pass.step(Wanted::Next(from, upto)).unwrap() {
        (from, segments) = (replaced.end, segments + replaced.segments);
    }
    segments
}

/// A position behind all that was put so far, in a segment that begins there.
fn mark(store: &Store) -> u64 {
    let segments = || store.shared.directory.manifest().unwrap().segments;
    let before = segments().len();
    while segments().len() == before {
        put(store, "filler", 5_000, Durability::Buffered).unwrap();
    }
    segments().last().unwrap().base
}

#[test]
fn a_delete_is_kept_while_older_segments_hold_what_it_deleted() {
    for again in [false, true] {
        let scratch = Scratch::new();
        let store = open(&scratch, &Failing::default());
        store.retain(None, None).unwrap();
        for thread in ["whole", "single"] {
            (0..3).for_each(|_| put(&store, thread, 100, Durability::Buffered).unwrap());
        }
        let middle = mark(&store);
        (0..3).for_each(|_| put(&store, "trimmed", 100, Durability::Buffered).unwrap());
        store.retain(Some("trimmed"), Some(1)).unwrap();
        store.delete("whole").unwrap();
        let oldest = store.history_bytes("single", &HistoryQuery::default()).unwrap().last().unwrap().unwrap();
        store.delete_checkpoint("single", &oldest.id).unwrap();
        if again {
            put(&store, "whole", 50, Durability::Buffered).unwrap();
        }
        let end = mark(&store);
        let before = contents(&store);
        assert!(compact_between(&store, middle, end, false) > 0);
        index_is_derived(&store, &scratch.dir());
        store.sync().unwrap();
        // Then what they deleted goes, and last the deletes themselves.
        for (from, upto) in [(0, middle), (middle, end)] {
            compact_between(&store, from, upto, true);
            index_is_derived(&store, &scratch.dir());
            assert_eq!(contents(&Store::options().read_only(true).open(scratch.dir()).unwrap()), before);
        }
    }
}

#[test]
fn a_delete_is_kept_while_an_older_segment_cannot_be_read() {
    let scratch = Scratch::new();
    let store = open(&scratch, &Failing::default());
    store.retain(None, None).unwrap();
    put(&store, "deleted", 100, Durability::Buffered).unwrap();
    let middle = mark(&store);
    (0..3).for_each(|_| put(&store, "trimmed", 100, Durability::Buffered).unwrap());
    store.retain(Some("trimmed"), Some(1)).unwrap();
    store.delete("deleted").unwrap();
    let end = mark(&store);
    let oldest = store.shared.directory.manifest().unwrap().segments[0].number;
    let path = store.shared.directory.file(&names::segment(oldest));
    let whole = fs::read(&path).unwrap();
    let mut torn = whole.clone();
    torn[72..100].fill(0xff);
    fs::write(&path, torn).unwrap();
    assert!(compact_between(&store, middle, end, true) > 0);
    fs::write(&path, whole).unwrap();
    drop(store);
    let store = open(&scratch, &Failing::default());
    assert!(store.recovery().damage.is_empty() && !store.exists("deleted").unwrap());
}

#[test]
fn what_is_dead_by_an_unsynced_record_is_synced_before_it_goes() {
    let scratch = Scratch::new();
    let store = options(&Failing::default()).durability(Durability::Buffered).open(scratch.dir()).unwrap();
    (0..3).for_each(|_| put(&store, "t", 100, Durability::Sync).unwrap());
    let end = mark(&store);
    store.sync().unwrap();
    store.delete("t").unwrap();
    assert!(store.shared.tail.synced() < store.shared.tail.appended());
    assert!(compact_between(&store, 0, end, false) > 0);
    assert_eq!(store.shared.tail.synced(), store.shared.tail.appended());
}

#[test]
fn no_number_is_given_twice_when_all_that_had_one_is_compacted_away() {
    let scratch = Scratch::new();
    let store = open(&scratch, &Failing::default());
    (0..3).for_each(|_| put(&store, "t", 100, Durability::Sync).unwrap());
    let highest = store.head("t").unwrap().unwrap().seq;
    store.delete("t").unwrap();
    store.compact().unwrap();
    drop(store);
    fs::remove_file(scratch.dir().join("tail")).unwrap();
    let store = open(&scratch, &Failing::default());
    put(&store, "t", 100, Durability::Sync).unwrap();
    assert!(store.head("t").unwrap().unwrap().seq > highest + 1);
}

#[test]
fn what_is_damaged_is_left_alone_and_told() {
    for (name, what) in [("a payload", 300usize), ("a head", 72)] {
        let scratch = Scratch::new();
        let store = open(&scratch, &Failing::default());
        store.retain(None, None).unwrap();
        for thread in ["kept", "dropped"] {
            put(&store, thread, 1_000, Durability::Sync).unwrap();
        }
        mark(&store);
        put(&store, "later", 3_000, Durability::Sync).unwrap();
        mark(&store);
        store.delete("dropped").unwrap();
        store.delete("later").unwrap();
        let path = scratch.dir().join("0000000000000001.seg");
        let mut bytes = fs::read(&path).unwrap();
        bytes[what] ^= 1;
        fs::write(&path, bytes).unwrap();
        let error = store.compact().unwrap_err();
        assert_eq!((error.kind(), error.file().unwrap().0), (ErrorKind::Corrupt, &*path), "{name}: {error}");
        assert!(path.exists() && !scratch.dir().join("quarantine").exists());
        assert_eq!(occurrences(&scratch.dir(), &[6; 3_000]), 0, "all else is reclaimed");
        assert!(store.verify().unwrap().iter().any(|finding| finding.damage && finding.file == path), "{name}");
        assert_eq!(store.get_bytes("kept").unwrap_err().kind(), ErrorKind::Corrupt, "{name}");
        drop(store);
        fs::remove_file(&path).unwrap();
        let store = open(&scratch, &Failing::default());
        assert_eq!(store.compact().unwrap_err().kind(), ErrorKind::Corrupt, "a missing one");
        put(&store, "goes on", 10, Durability::Sync).unwrap();
    }
}
