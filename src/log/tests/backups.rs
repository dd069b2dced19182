//! Backups and repairs whose every operation fails, or is the last one of its process: what is at the
//! destination then is no store or the whole one, and the next one there works.

use std::path::Path;

use rustix::io::Errno;

use super::failing::{Action, Failing, Fault, Kind, Moment};
use super::faults::{Contents, contents, options, put};
use super::{Scratch, Views, views};
use crate::batch::Durability;
use crate::checkpointer::Checkpointer;
use crate::error::ErrorKind;
use crate::log::Store;
use crate::log::repair::repair;

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
        assert_eq!(
            (shown.checkpoints, shown.logical_bytes, shown.stored_bytes),
            (copied.checkpoints, copied.logical_bytes, copied.stored_bytes)
        );
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
    for (once, moment) in [(true, Moment::Before), (false, Moment::Before), (false, Moment::After)] {
        for from in 0.. {
            let dest = scratch.0.path().join(format!("dest{from}"));
            let fault = Fault { moment, ..Fault::fail(from, None, once, Errno::IO, 40) };
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
                // What could not be read, if anything, is told.
                Ok(report) => {
                    let lost = report.damage.iter().any(|finding| finding.damage);
                    let copy = Store::options().create(false).open(&dest).unwrap();
                    assert!(lost || contents(&copy) == expected && told(&views(&copy)) == told(&shown), "{context}");
                }
                Err(error) => assert!(error.file().is_some(), "{context}"),
            }
            if !dest.join("MANIFEST").exists() {
                repair(&scratch.dir(), &dest, &options(&layer)).unwrap_or_else(|error| panic!("{context}: the second: {error}"));
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
    assert_eq!(std::fs::read_dir(&dest).unwrap().count(), 0);
    std::fs::remove_file(scratch.dir().join("0000000000000001.seg")).unwrap();
    assert_eq!(Store::open(scratch.dir()).unwrap().backup(&dest).unwrap_err().kind(), ErrorKind::Corrupt);
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
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let store = Store::open(scratch.dir()).unwrap();
    put(&store, "a", 100, Durability::Buffered).unwrap();
    let expected = contents(&store);
    let copied = scratch.0.path().join("unclean");
    std::fs::create_dir(&copied).unwrap();
    for name in ["MANIFEST", "0000000000000001.seg"] {
        std::fs::copy(scratch.dir().join(name), copied.join(name)).unwrap();
    }
    let reader = options(&layer).read_only(true).open(&copied).unwrap();
    let dest = scratch.0.path().join("dest");
    layer.set(Some(Fault { only: Some("dest"), ..Fault::once(Kind::Create, Action::Pause, Moment::After) }));
    std::thread::scope(|scope| {
        let backup = scope.spawn(|| reader.backup(&dest));
        layer.paused();
        let recovered = Store::open(&copied).unwrap();
        assert!(recovered.recovery().fresh_segment && !copied.join("0000000000000001.seg").exists());
        layer.resume();
        backup.join().unwrap().unwrap();
    });
    is_the_whole(&dest, &expected, &views(&Store::open(&copied).unwrap()), "replaced");
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
    let places = [
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
