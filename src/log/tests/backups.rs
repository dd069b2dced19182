//! Backups and repairs whose every operation fails, or is the last one of its process: what is at the
//! destination then is no store or the whole one, and the next one there works.

use std::path::Path;

use rustix::io::Errno;

use super::failing::{Action, Failing, Fault, Kind, Moment};
use super::faults::{Contents, contents, options, put};
use super::{Scratch, Views, image, views};
use crate::batch::{Durability, PutOptions};
use crate::checkpoint::{Checkpoint, CheckpointId, Metadata, StateBytes, TypeTag};
use crate::checkpointer::Checkpointer;
use crate::delta;
use crate::error::ErrorKind;
use crate::format::record::{Coding, Put, Record};
use crate::format::segment;
use crate::log::Store;
use crate::log::output::{self, Output};
use crate::log::repair::repair;
use crate::log::scan::Scan;
use crate::options::Compression;
use crate::query::HistoryQuery;

/// A store of several segments, with a thread that has a limit and a floor, and a deleted one.
fn source(scratch: &Scratch, layer: &Failing) -> Store {
    let store = options(layer).max_history(3).open(scratch.dir()).unwrap();
    for round in 0..12 {
        for thread in ["a", "b", "gone"] {
            put(&store, thread, 3000 + round, Durability::Buffered).unwrap();
        }
    }
    put(&store, "limited", 20_000, Durability::Sync).unwrap();
    store.retain(Some("limited"), Some(1)).unwrap();
    put(&store, "limited", 100, Durability::Sync).unwrap();
    let steps: Vec<_> = store.list("b", &Default::default()).unwrap().map(|info| info.unwrap().id).collect();
    assert!(store.delete_checkpoint("b", &steps[0]).unwrap() && store.delete("gone").unwrap());
    store
}

/// What views say but for where their frames stand.
fn told(views: &Views) -> Vec<String> {
    let entries = |view: &crate::log::view::View| view.entries().map(|entry| (entry.place, entry.id.clone())).collect::<Vec<_>>();
    views.iter().map(|(thread, view)| format!("{thread} {:?} {:?} {:?}", view.floor(), view.keep(), entries(view))).collect()
}

fn is_the_whole(dest: &Path, expected: &Contents, expected_views: &Views, context: &str) {
    let copy = Store::options().create(false).open(dest).unwrap_or_else(|error| panic!("{context}: {error}"));
    assert!(copy.recovery().damage.is_empty() && copy.recovery().torn_bytes == 0, "{context}: {:?}", copy.recovery());
    assert!(contents(&copy) == *expected, "{context}");
    assert_eq!(told(&views(&copy)), told(expected_views), "{context}");
    put(&copy, "a", 7, Durability::Sync).unwrap_or_else(|error| panic!("{context}: {error}"));
    drop(copy);
    assert_eq!(*Store::open(dest).unwrap().get_bytes("a").unwrap().unwrap().state, [2; 7], "{context}");
}

#[test]
fn a_backup_is_all_that_is_shown() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let store = source(&scratch, &layer);
    for (name, from) in [("writer's", store.clone()), ("reader's", Store::options().read_only(true).open(scratch.dir()).unwrap())] {
        let dest = scratch.0.path().join("new").join(name);
        from.backup(&dest).unwrap();
        let manifest = crate::format::manifest::Manifest::decode(&std::fs::read(dest.join("MANIFEST")).unwrap()).unwrap();
        assert!(manifest.seq_floor >= store.shared.tail.next_seq() && manifest.max_history == 3, "{manifest:?}");
        let opened = Store::open(&dest).unwrap();
        assert!(!opened.recovery().fresh_segment && opened.recovery().set_aside.is_empty(), "{name}: {:?}", opened.recovery());
        assert!(opened.verify().unwrap().is_empty());
        let (shown, copied) = (store.stats().unwrap(), opened.stats().unwrap());
        assert_eq!((shown.checkpoints, shown.logical_bytes), (copied.checkpoints, copied.logical_bytes));
        assert!(views(&opened).values().all(|view| view.hidden().is_empty()), "{name}: only what is shown");
        assert!(copied.dead_bytes < 500, "marks alone: {copied:?}");
        drop(opened);
        is_the_whole(&dest, &contents(&store), &views(&store), name);
        let error = store.backup(&dest).unwrap_err();
        assert_eq!((error.kind(), error.file().unwrap().0), (ErrorKind::InvalidInput, &*dest), "{error}");
    }
}

#[test]
fn a_backup_whose_operations_fail_leaves_nothing_that_counts() {
    let walks = [Errno::IO, Errno::NOSPC].into_iter().flat_map(|errno| {
        [(true, Moment::Before), (false, Moment::Before), (false, Moment::After), (true, Moment::After)].map(|(once, moment)| Fault {
            moment,
            only: Some("dest"),
            ..Fault::fail(0, None, once, errno, 40)
        })
    });
    let mut met = 0;
    for walk in walks {
        let (scratch, layer) = (Scratch::new(), Failing::default());
        let store = source(&scratch, &layer);
        let (expected, shown) = (contents(&store), views(&store));
        for from in 0.. {
            let dest = scratch.0.path().join(format!("dest{from}"));
            layer.set(Some(Fault { from, ..walk }));
            let answer = store.backup(&dest);
            let failed = layer.failed();
            layer.set(None);
            let context = format!("{walk:?} from {from}: {:?}, {answer:?}", failed.first());
            if failed.is_empty() {
                break;
            }
            met += 1;
            if let Err(error) = &answer {
                let full = walk.errno() == Some(Errno::NOSPC);
                assert!(matches!(error.kind(), ErrorKind::Io | ErrorKind::DiskFull | ErrorKind::Poisoned), "{context}");
                assert!(full || error.kind() != ErrorKind::DiskFull, "{context}");
                assert!(error.file().is_some(), "{context}");
                // Where later operations fail too it is as if the process had been killed there.
                let cleared = walk.once && failed.iter().all(|(kind, _)| *kind != Kind::Remove);
                let left = std::fs::read_dir(&dest).map_or(0, Iterator::count);
                assert!(!cleared || left == 0, "{context}: {left} files are left");
            }
            let is_store = dest.join("MANIFEST").exists();
            assert!(is_store || answer.is_err(), "{context}");
            if !is_store {
                let absent = Store::options().create(false).open(&dest).unwrap_err();
                assert_eq!(absent.kind(), ErrorKind::NotFound, "{context}: {absent}");
                store.backup(&dest).unwrap_or_else(|error| panic!("{context}: the second: {error}"));
            }
            is_the_whole(&dest, &expected, &shown, &context);
            put(&store, "later", 1, Durability::Sync).unwrap_or_else(|error| panic!("{context}: the source: {error}"));
            store.delete("later").unwrap();
        }
    }
    assert!(met > 200, "only {met} faults were met");
}

#[test]
fn a_repair_whose_operations_fail_changes_nothing_and_leaves_nothing_that_counts() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let store = source(&scratch, &layer);
    let (expected, shown) = (contents(&store), views(&store));
    drop(store);
    std::fs::remove_file(scratch.dir().join("MANIFEST")).unwrap();
    let files = || -> Vec<_> {
        let mut paths: Vec<_> = std::fs::read_dir(scratch.dir()).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths.into_iter().map(|path| (std::fs::read(&path).unwrap(), path)).collect()
    };
    let before = files();
    let mut met = 0;
    let moments = [(true, Moment::Before), (false, Moment::Before), (false, Moment::After)];
    for (errno, (once, moment)) in [Errno::IO, Errno::MFILE].into_iter().flat_map(|errno| moments.map(|when| (errno, when))) {
        for from in 0.. {
            let dest = scratch.0.path().join(format!("dest{from}"));
            let fault = Fault { moment, ..Fault::fail(from, None, once, errno, 40) };
            layer.set(Some(fault));
            let answer = repair(&scratch.dir(), &dest, &options(&layer));
            let failed = layer.failed();
            layer.set(None);
            let context = format!("{fault:?}: {:?}, {answer:?}", failed.first());
            assert!(files() == before, "{context}: the source was changed");
            if failed.is_empty() {
                break;
            }
            met += 1;
            match &answer {
                // What could not be read, if anything, is told; what the system lacked is nothing that is lost.
                Ok(report) => {
                    let lost = report.damage.iter().any(|finding| finding.damage);
                    let copy = Store::options().create(false).open(&dest).unwrap();
                    assert!(lost && errno == Errno::IO || contents(&copy) == expected && told(&views(&copy)) == told(&shown), "{context}");
                }
                Err(error) => assert!(error.file().is_some(), "{context}"),
            }
            if !dest.join("MANIFEST").exists() {
                // A lock whose giving up failed goes with its file, of which a program being started elsewhere has a copy.
                let busy = |answer: &crate::error::Result<_>| answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::Busy);
                let mut again = repair(&scratch.dir(), &dest, &options(&layer));
                while busy(&again) {
                    std::thread::yield_now();
                    again = repair(&scratch.dir(), &dest, &options(&layer));
                }
                again.unwrap_or_else(|error| panic!("{context}: the second: {error}"));
                is_the_whole(&dest, &expected, &shown, &context);
            }
            std::fs::remove_dir_all(&dest).unwrap();
        }
    }
    assert!(met > 200, "only {met} faults were met");
}

#[test]
fn a_backup_of_what_is_damaged_says_where() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let store = source(&scratch, &layer);
    let shown = views(&store);
    let entry = shown["limited"].head().unwrap().clone();
    drop(store);
    let path = scratch.dir().join(format!("{:016x}.seg", entry.at.segment));
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[(entry.at.offset() + entry.at.length()) as usize - 20] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let dest = scratch.0.path().join("dest");
    let error = Store::open(scratch.dir()).unwrap().backup(&dest).unwrap_err();
    assert_eq!(
        (error.kind(), error.thread(), error.file()),
        (ErrorKind::Corrupt, Some("limited"), Some((&*path, Some(entry.at.offset()))))
    );
    assert!(error.to_string().contains("damaged record"), "{error}");
    assert_eq!(std::fs::read_dir(&dest).unwrap().count(), 0);
    std::fs::remove_file(scratch.dir().join("0000000000000001.seg")).unwrap();
    assert_eq!(Store::open(scratch.dir()).unwrap().backup(&dest).unwrap_err().kind(), ErrorKind::Corrupt);
}

/// Removed by hand, not replaced: that is told at once, by the file's name.
#[test]
fn a_segment_removed_under_a_handle_is_told_and_nothing_is_copied() {
    for (shown, steps) in [("keyframe", 1), ("delta", 3)] {
        let (scratch, layer) = (Scratch::new(), Failing::default());
        let store = options(&layer).max_history(None).open(scratch.dir()).unwrap();
        put_steps(&store, "a", steps);
        let (path, dest) = (scratch.dir().join("0000000000000001.seg"), scratch.0.path().join("dest"));
        let handles = [store.clone(), options(&layer).read_only(true).open(scratch.dir()).unwrap()];
        let refused = |from: &Store| {
            let error = from.backup(&dest).unwrap_err();
            assert_eq!(error.file().unwrap().0, path, "{shown}: {error}");
            assert_eq!(std::fs::read_dir(&dest).unwrap().count(), 0, "{shown}");
            error
        };
        for from in &handles {
            layer.set(Some(Fault { only: Some("store/0000000000000001.seg"), ..Fault::fail(0, Kind::Open, false, Errno::IO, 0) }));
            assert_eq!(refused(from).kind(), ErrorKind::Io, "{shown}");
        }
        layer.set(None);
        std::fs::rename(&path, scratch.0.path().join("aside")).unwrap();
        for from in &handles {
            let error = refused(from);
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{shown}: {error}");
            assert!(error.to_string().contains("put the file back"), "{shown}: {error}");
        }
        std::fs::rename(scratch.0.path().join("aside"), &path).unwrap();
        store.backup(&dest).unwrap();
    }
}

#[test]
fn a_place_that_others_are_at_is_busy_and_a_segment_that_is_being_replaced_too() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let store = source(&scratch, &layer);
    let dest = scratch.0.path().join("dest");
    layer.set(Some(Fault { only: Some("dest"), ..Fault::once(Kind::Sync, Action::Pause, Moment::Before) }));
    std::thread::scope(|scope| {
        let first = scope.spawn(|| store.backup(&dest));
        layer.paused();
        let reader = Store::options().read_only(true).open(scratch.dir()).unwrap();
        let error = reader.backup(&dest).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
        let mut impatient = options(&layer);
        impatient.busy_timeout = std::time::Duration::from_millis(20);
        let error = impatient.open(scratch.dir()).unwrap().backup(scratch.0.path().join("other")).unwrap_err();
        assert_eq!((error.kind(), error.file().unwrap().0), (ErrorKind::Busy, &*scratch.dir().join("compact.lock")), "{error}");
        layer.resume();
        first.join().unwrap().unwrap();
    });
    is_the_whole(&dest, &contents(&store), &views(&store), "paused");
}

#[test]
fn a_reader_begins_again_where_a_segment_was_replaced_under_it() {
    // In one segment, which is open by then; and in the second of two, which is not.
    for fill in [0, 6] {
        let (scratch, layer) = (Scratch::new(), Failing::default());
        let store = options(&Failing::default()).open(scratch.dir()).unwrap();
        (0..fill).for_each(|_| put(&store, "fill", 12_000, Durability::Buffered).unwrap());
        put(&store, "a", 100, Durability::Buffered).unwrap();
        let expected = contents(&store);
        let active = store.shared.follower.reading().active.segment.path.clone();
        let copied = scratch.0.path().join("unclean");
        image(&scratch.dir(), &copied);
        std::fs::remove_file(copied.join("tail")).unwrap();
        let reader = options(&layer).read_only(true).open(&copied).unwrap();
        let dest = scratch.0.path().join("dest");
        layer.set(Some(Fault { only: Some("dest"), ..Fault::once(Kind::Create, Action::Pause, Moment::After) }));
        std::thread::scope(|scope| {
            let backup = scope.spawn(|| reader.backup(&dest));
            layer.paused();
            let recovered = Store::open(&copied).unwrap();
            let replaced = copied.join(active.file_name().unwrap());
            assert!(recovered.recovery().fresh_segment && !replaced.exists());
            layer.resume();
            backup.join().unwrap().unwrap();
        });
        is_the_whole(&dest, &expected, &views(&Store::open(&copied).unwrap()), "replaced");
    }
}

#[test]
fn the_source_is_no_place_for_its_backup_by_any_name() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let store = source(&scratch, &layer);
    let (dir, outside) = (scratch.dir(), scratch.0.path().join("outside"));
    std::os::unix::fs::symlink(&dir, scratch.0.path().join("alias")).unwrap();
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("file"), b"mine").unwrap();
    let before = std::fs::read_dir(&dir).unwrap().count();
    let other = scratch.0.path().join("other");
    drop(Store::open(&other).unwrap());
    // What a store has set aside, or put without MANIFEST, is more than a copy that was cut short leaves.
    let (quarantine, lone) = (scratch.0.path().join("quarantined"), scratch.0.path().join("lone"));
    std::fs::create_dir_all(quarantine.join("quarantine")).unwrap();
    std::fs::create_dir(&lone).unwrap();
    std::fs::copy(dir.join("0000000000000001.seg"), lone.join("0000000000000001.seg")).unwrap();
    let places = [
        quarantine,
        lone,
        dir.clone(),
        dir.join("below"),
        dir.join("deep/below"),
        outside.join("../store/x"),
        scratch.0.path().join("alias"),
        scratch.0.path().join("alias/x"),
        outside.clone(),
        outside.join("file"),
        other,
        "".into(),
    ];
    for place in places {
        let error = store.backup(&place).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{place:?}: {error}");
        assert!(place.as_os_str().is_empty() || error.file().unwrap().0 == place, "{error}");
    }
    // The lock of who replaces segments is not made by a place that is refused.
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), before);
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1);
}

/// What only the state of one step holds; at its ends it may be like another.
fn marker(thread: &str, step: u64) -> String {
    let number = |part| delta::content_hash(format!("{thread} {step} {part}").as_bytes());
    [0, 1, 2].map(|part| format!("{:016x}", number(part))).concat()
}

/// Puts the states of steps 0 to `steps`: a text that grows, and a marker of the step in it.
fn put_steps(store: &Store, thread: &str, steps: u64) -> Vec<CheckpointId> {
    let line = |step: u64| format!("step {step}: {:x}\n", delta::content_hash(&step.to_le_bytes()));
    let put = |step: u64| {
        let lines: String = (0..80 + step).map(line).collect();
        let options = PutOptions::default().metadata(Metadata::new(&std::collections::BTreeMap::from([("step", step)])).unwrap());
        store.put_bytes(thread, TypeTag::BYTES, format!("{}{lines}", marker(thread, step)).as_bytes(), options).unwrap()
    };
    (0..steps).map(put).collect()
}

/// All that each thread shows, newest first.
fn told_whole(store: &Store) -> Vec<(String, Vec<u8>)> {
    let whole = |read: Checkpoint<StateBytes>| (format!("{:?}", read.info), read.state.to_vec());
    let of = |thread: &String| store.history_bytes(thread, &HistoryQuery::default()).unwrap().map(|read| whole(read.unwrap())).collect();
    store.threads().unwrap().iter().flat_map(|thread| -> Vec<_> { of(thread) }).collect()
}

fn holds(dir: &Path, text: &str) -> bool {
    let files = std::fs::read_dir(dir).unwrap().map(|entry| std::fs::read(entry.unwrap().path()).unwrap());
    files.into_iter().any(|bytes| bytes.windows(text.len()).any(|window| window == text.as_bytes()))
}

#[test]
fn a_copy_holds_nothing_of_what_was_deleted_and_is_still_needed() {
    for compression in [Compression::Never, Compression::Always] {
        let (scratch, layer) = (Scratch::new(), Failing::default());
        let store = options(&layer).max_history(None).compression(compression).open(scratch.dir()).unwrap();
        let mut gone = Vec::new();
        put_steps(&store, "trimmed", 9);
        store.retain(Some("trimmed"), Some(3)).unwrap();
        gone.extend((0..6).map(|step| marker("trimmed", step)));
        let ids = put_steps(&store, "deleted", 9);
        for step in [2, 3, 6] {
            assert!(store.delete_checkpoint("deleted", &ids[step]).unwrap());
            gone.push(marker("deleted", step as u64));
        }
        let ids = put_steps(&store, "replaced", 9);
        for step in [0, 4, 8] {
            store.put_bytes("replaced", TypeTag::BYTES, b"another", PutOptions::default().id(ids[step].clone())).unwrap();
            gone.push(marker("replaced", step as u64));
        }
        put_steps(&store, "whole", 9);
        let shown = views(&store);
        let hidden = ["trimmed", "deleted", "replaced", "whole"].map(|thread| shown[thread].hidden().len());
        assert_eq!(hidden, [6, 3, 2, 0]);
        let held = |dir: &Path| gone.iter().filter(|marker| holds(dir, &marker[16..32])).count();
        assert!(held(&scratch.dir()) > gone.len() / 2, "{compression:?}: the source holds it");
        let expected = told_whole(&store);
        let (copy, repaired) = (scratch.0.path().join("copy"), scratch.0.path().join("repaired"));
        store.backup(&copy).unwrap();
        store.close().unwrap();
        let report = repair(&scratch.dir(), &repaired, &options(&layer)).unwrap();
        assert!(report.damage.is_empty(), "{report:?}");
        for dest in [copy, repaired] {
            assert_eq!(held(&dest), 0, "{compression:?}: {dest:?} holds what was deleted");
            let opened = Store::open(&dest).unwrap();
            assert!(opened.recovery().damage.is_empty() && opened.verify().unwrap().is_empty());
            assert!(told_whole(&opened) == expected, "{compression:?} {dest:?}");
            assert_eq!(told(&views(&opened)), told(&shown));
            assert!(views(&opened).values().all(|view| view.hidden().is_empty()));
            let stats = opened.stats().unwrap();
            // Those behind what is hidden are keyframes now: one, two and one more, and what was put again.
            assert_eq!((stats.keyframes, stats.deltas), (1 + 3 + 5 + 1, 2 + 3 + 4 + 8), "{stats:?}");
        }
    }
}

#[test]
fn stats_count_the_deltas_that_a_read_follows() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let store = options(&layer).max_history(None).open(scratch.dir()).unwrap();
    let ids = put_steps(&store, "a", 5);
    let chains = |store: &Store| {
        let stats = store.stats().unwrap();
        (stats.keyframes, stats.deltas, stats.longest_chain, stats.mean_chain)
    };
    assert_eq!(chains(&store), (1, 4, 4, 2.0));
    store.retain(Some("a"), Some(2)).unwrap();
    assert_eq!(chains(&store), (0, 2, 4, 3.5));
    store.put_bytes("a", TypeTag::BYTES, b"another", PutOptions::default().id(ids[3].clone())).unwrap();
    assert_eq!(chains(&store), (1, 1, 4, 2.0));
    store.delete("a").unwrap();
    assert_eq!(chains(&store), (0, 0, 0, 0.0));
}

/// A state as it is and packed, as compaction leaves it that is killed before its manifest. The same record with
/// another state is another one.
#[test]
fn of_a_state_that_stands_there_raw_and_packed_the_sound_one_comes_back() {
    for (is_damaged, is_another) in [(false, false), (true, false), (false, true)] {
        let (scratch, layer) = (Scratch::new(), Failing::default());
        let store = options(&layer).open(scratch.dir()).unwrap();
        put_steps(&store, "a", 1);
        let expected = told_whole(&store);
        let entry = views(&store)["a"].head().unwrap().clone();
        let directory = &store.shared.directory;
        let manifest = directory.manifest().unwrap();
        let listed = manifest.segments[0];
        let file = directory.open_log(listed.number, false).unwrap();
        let path = scratch.dir().join(format!("{:016x}.seg", listed.number));
        let mut scan = Scan::new(file, &path, listed.salt, listed.counted_from(), 0, u64::MAX).unwrap();
        let frame = scan.frame_at(entry.at.offset()).unwrap().unwrap();
        let mut state = scan.payload(&frame).unwrap();
        state[0] ^= u8::from(is_another);
        let packed = delta::pack(&state).unwrap();
        let Ok(Record::Put(put)) = Record::decode(&frame.record) else { panic!("no put") };
        let header = output::header(manifest.store, manifest.next_number, 77, segment::Kind::Compacted { first: 1, last: 1 });
        let mut output = Output::create(directory, header, &|_| Ok(())).unwrap();
        output.put(frame.head.seq, &Record::Put(Put { coding: Coding::Packed, ..put }), &packed).unwrap();
        output.finish(0).unwrap();
        store.close().unwrap();
        if is_damaged {
            let mut bytes = std::fs::read(&path).unwrap();
            bytes[frame.end() as usize - 20] ^= 1;
            std::fs::write(&path, bytes).unwrap();
        }
        let dest = scratch.0.path().join("dest");
        let report = repair(&scratch.dir(), &dest, &options(&layer)).unwrap();
        assert!(report.damage.iter().all(|finding| !finding.damage), "{report:?}");
        assert_eq!(report.frames, 1 + u64::from(is_another), "{report:?}");
        if !is_another {
            assert_eq!(report.unproven.len(), usize::from(is_damaged), "{report:?}");
            assert!(told_whole(&Store::open(&dest).unwrap()) == expected, "{is_damaged}");
        }
    }
}
