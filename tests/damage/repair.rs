//! `repair`: what can be read of a damaged directory comes back in a new store, what cannot is told,
//! and the directory stays as it was.

use std::fs;
use std::path::{Path, PathBuf};

use taffrail::{Checkpointer, CheckpointerExt, ErrorKind, HistoryQuery, PutOptions, Recovery, Store, TypeTag};

use crate::scratch::{Expected, Scratch, frames, history, segments, snapshot, state};

/// A store of several segments and what it holds.
fn several(dir: &Path) -> Expected {
    let store = Store::options().segment_bytes(64 * 1024).max_history(40).open(dir).unwrap();
    let mut expected = Expected::default();
    for number in 0..60 {
        let thread = ["a", "b", "c"][number as usize % 3];
        expected.put(&store, thread, state(thread, number, 2000 + number as usize * 40));
    }
    store.close().unwrap();
    assert!(segments(dir).len() >= 4);
    expected
}

/// Repairs a directory, which must not change by it, and opens what came of it.
fn repaired(scratch: &Scratch, dir: &Path, context: &str) -> (Store, Recovery) {
    let dest = scratch.path("repaired");
    let _ = fs::remove_dir_all(&dest);
    let before = snapshot(dir);
    let report = Store::repair(dir, &dest).unwrap_or_else(|error| panic!("{context}: {error}"));
    assert!(before == snapshot(dir), "{context}: the damaged directory was changed");
    let store = Store::options().create(false).open(&dest).unwrap_or_else(|error| panic!("{context}: {error}"));
    assert!(store.recovery().damage.is_empty() && !store.recovery().fresh_segment, "{context}: {:?}", store.recovery());
    assert!(store.verify().unwrap().is_empty(), "{context}");
    (store, report)
}

fn lost(report: &Recovery) -> usize {
    report.damage.iter().filter(|finding| finding.damage).count()
}

/// Asserts that the store holds some of what is expected, in order, and all of it unless a loss is told.
fn holds_some(store: &Store, expected: &Expected, report: &Recovery, context: &str) -> usize {
    let mut missing = 0;
    for (thread, states) in &expected.0 {
        let shown = history(store, thread).unwrap_or_else(|error| panic!("{context}: {error}"));
        let mut left = states.iter();
        assert!(shown.iter().all(|state| left.any(|one| one == state)), "{context}: {thread} has what nobody put");
        missing += states.len() - shown.len();
    }
    assert!(store.threads().unwrap().iter().all(|thread| expected.0.contains_key(thread)), "{context}");
    assert!(missing == 0 || lost(report) > 0 || report.torn_bytes > 0, "{context}: {missing} are gone without a word: {report:?}");
    missing
}

#[test]
fn a_sound_store_comes_back_whole() {
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    let expected = several(&dir);
    let (store, report) = repaired(&scratch, &dir, "sound");
    expected.is_all_of(&store, "sound");
    assert_eq!((lost(&report), report.unproven.len(), report.torn_bytes, report.frames), (0, 0, 0, 60), "{report:?}");
    let original = Store::open(&dir).unwrap();
    assert_eq!(store.stats().unwrap().max_history, Some(40));
    for thread in ["a", "b", "c"] {
        let infos = |store: &Store| {
            store.list(thread, &HistoryQuery::default()).unwrap().map(|info| format!("{:?}", info.unwrap())).collect::<Vec<_>>()
        };
        assert_eq!(infos(&original), infos(&store));
    }
    // Numbers go on above all that were ever given.
    let newest = original.put("new", &1).unwrap();
    let given = original.load::<i32>("new", &newest).unwrap().unwrap().seq;
    let id = store.put("new", &1).unwrap();
    assert!(store.load::<i32>("new", &id).unwrap().unwrap().seq > given);
}

#[test]
fn whatever_the_page_says_the_repaired_store_goes_on() {
    let scratch = Scratch::new();
    let whole = scratch.path("whole");
    let expected = several(&whole);
    let page = fs::read(whole.join("tail")).unwrap();
    for at in (0..512).step_by(8) {
        for noise in [0, 1 << 32, u64::MAX / 2, u64::MAX] {
            let context = format!("{noise:#x} at {at}");
            let dir = scratch.copy(&whole, "copy");
            let mut noisy = page.clone();
            noisy[at..at + 8].copy_from_slice(&noise.to_le_bytes());
            fs::write(dir.join("tail"), &noisy).unwrap();
            let (store, _) = repaired(&scratch, &dir, &context);
            expected.is_all_of(&store, &context);
            let id = store.put("new", &1).unwrap();
            assert_eq!(store.head("new").unwrap().map(|head| head.id), Some(id), "{context}");
            store.close().unwrap();
            assert!(Store::open(scratch.path("repaired")).unwrap().exists("new").unwrap(), "{context}");
        }
    }
}

#[test]
fn a_lost_manifest_loses_no_checkpoint() {
    let scratch = Scratch::new();
    let whole = scratch.path("whole");
    let expected = several(&whole);
    let other = scratch.path("other");
    drop(Store::open(&other).unwrap());
    let manifests: [(&str, Option<Vec<u8>>); 5] = [
        ("missing", None),
        ("empty", Some(Vec::new())),
        ("zeros", Some(vec![0; 4096])),
        ("text", Some(b"taffrail".to_vec())),
        ("another store's", Some(fs::read(other.join("MANIFEST")).unwrap())),
    ];
    for (how, bytes) in manifests {
        for pages in [true, false] {
            let dir = scratch.copy(&whole, "copy");
            match &bytes {
                Some(bytes) => fs::write(dir.join("MANIFEST"), bytes).unwrap(),
                None => fs::remove_file(dir.join("MANIFEST")).unwrap(),
            }
            if !pages {
                fs::remove_file(dir.join("tail")).unwrap();
            }
            let error = Store::open(&dir).unwrap_err();
            assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains("repair"), "{how}: {error}");
            let (store, report) = repaired(&scratch, &dir, how);
            expected.is_all_of(&store, how);
            assert_eq!((lost(&report), report.damage.len()), (0, 1), "{how}: {report:?}");
            assert_eq!(report.damage[0].file, dir.join("MANIFEST"), "{how}");
            assert_eq!(store.stats().unwrap().max_history, None, "{how}");
        }
    }
}

#[test]
fn an_older_manifest_hides_nothing() {
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    let store = Store::options().segment_bytes(64 * 1024).max_history(None).open(&dir).unwrap();
    let older = fs::read(dir.join("MANIFEST")).unwrap();
    let mut expected = Expected::default();
    (0..60).for_each(|number| expected.put(&store, "t", state("t", number, 3000)));
    drop(store);
    fs::write(dir.join("MANIFEST"), older).unwrap();
    let error = Store::open(&dir).unwrap_err();
    assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains("repair"), "{error}");
    let (store, report) = repaired(&scratch, &dir, "older");
    expected.is_all_of(&store, "older");
    assert_eq!(lost(&report), 0, "{report:?}");
}

#[test]
fn a_missing_segment_costs_what_it_held_and_is_told() {
    let scratch = Scratch::new();
    let whole = scratch.path("whole");
    let expected = several(&whole);
    for at in 0..segments(&whole).len() {
        for manifest in [true, false] {
            let context = &format!("segment {at}, manifest {manifest}");
            let dir = scratch.copy(&whole, "copy");
            let path = segments(&dir).swap_remove(at);
            let held = frames(&fs::read(&path).unwrap()).len();
            fs::remove_file(&path).unwrap();
            if !manifest {
                fs::remove_file(dir.join("MANIFEST")).unwrap();
            }
            let (store, report) = repaired(&scratch, &dir, context);
            // That there was a newer segment nothing but a manifest says.
            let newest = at + 1 == segments(&whole).len();
            assert!(lost(&report) > 0 || newest && !manifest, "{context}: {report:?}");
            let told = Recovery { torn_bytes: u64::from(newest), ..report };
            assert_eq!(holds_some(&store, &expected, &told, context), held, "{context}");
            // It was only put elsewhere.
            fs::create_dir(dir.join("quarantine")).unwrap();
            fs::copy(segments(&whole).swap_remove(at), dir.join("quarantine").join(path.file_name().unwrap())).unwrap();
            let (store, _) = repaired(&scratch, &dir, context);
            expected.is_all_of(&store, context);
        }
    }
}

#[test]
fn a_damaged_place_costs_what_stands_there_alone() {
    let scratch = Scratch::new();
    let whole = scratch.path("whole");
    let expected = several(&whole);
    for (at, path) in segments(&whole).iter().enumerate() {
        let sound = fs::read(path).unwrap();
        let frames = frames(&sound);
        // In the header; in a head, a record and a payload of the first, a middle and the last frame.
        let places =
            [0, frames.len() / 2, frames.len() - 1].map(|frame| [20, 60, frames[frame].len() - 50].map(|at| frames[frame].start + at));
        for place in places.concat().into_iter().chain([3, 20, 41]) {
            for manifest in [true, false] {
                let context = &format!("segment {at}, byte {place}, manifest {manifest}");
                let dir = scratch.copy(&whole, "copy");
                let mut bytes = sound.clone();
                bytes[place] ^= 0x10;
                fs::write(dir.join(path.file_name().unwrap()), bytes).unwrap();
                if !manifest {
                    fs::remove_file(dir.join("MANIFEST")).unwrap();
                }
                let (store, report) = repaired(&scratch, &dir, context);
                let newest = frames.last().unwrap().contains(&place) && at + 1 == segments(&whole).len();
                let told = if newest { Recovery { torn_bytes: 1, ..report.clone() } } else { report.clone() };
                let missing = holds_some(&store, &expected, &told, context);
                let header = place < 72;
                let most = if header && !manifest { frames.len() } else { usize::from(!header) };
                assert!(missing <= most && (header || missing == 1), "{context}: {missing} of at most {most}: {report:?}");
                assert!(
                    report.damage.iter().any(|finding| finding.file.file_name() == path.file_name()) || newest,
                    "{context}: {report:?}"
                );
            }
        }
    }
}

#[test]
fn any_length_of_the_last_segment_gives_what_stands_before() {
    let scratch = Scratch::new();
    let whole = scratch.path("whole");
    let expected = several(&whole);
    let last = segments(&whole).pop().unwrap();
    let sound = fs::read(&last).unwrap();
    let ends: Vec<usize> = frames(&sound).iter().map(|frame| frame.end).collect();
    for cut in (0..*ends.last().unwrap()).step_by(997).chain([72, ends[0], ends[0] + 8, ends[1] - 1]) {
        for manifest in [true, false] {
            let context = &format!("cut at {cut}, manifest {manifest}");
            let dir = scratch.copy(&whole, "copy");
            fs::write(dir.join(last.file_name().unwrap()), &sound[..cut]).unwrap();
            if !manifest {
                fs::remove_file(dir.join("MANIFEST")).unwrap();
            }
            let (store, report) = repaired(&scratch, &dir, context);
            let told = Recovery { torn_bytes: 1, ..report };
            let kept = ends.iter().filter(|&&end| end <= cut).count();
            assert_eq!(holds_some(&store, &expected, &told, context), ends.len() - kept, "{context}");
        }
    }
}

#[test]
fn any_file_replaced_by_anything_costs_what_it_held() {
    let scratch = Scratch::new();
    let whole = scratch.path("whole");
    let store = Store::options().segment_bytes(64 * 1024).max_history(40).open(&whole).unwrap();
    store.put("a", &0).unwrap();
    let older = scratch.copy(&whole, "older");
    drop(store);
    fs::remove_dir_all(&whole).unwrap();
    let expected = several(&whole);
    let other = scratch.path("other");
    several(&other);
    let names: Vec<_> = fs::read_dir(&whole).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let noise = state("noise", 1, 4096);
    for name in names {
        let sound = fs::read(whole.join(&name)).unwrap();
        let contents: [(&str, Option<Vec<u8>>); 10] = [
            ("removed", None),
            ("empty", Some(Vec::new())),
            ("a byte", Some(vec![7])),
            ("a header", Some(sound[..sound.len().min(72)].to_vec())),
            ("zeros", Some(vec![0; 4096])),
            ("many zeros", Some(vec![0; 8 << 20])),
            ("noise", Some(noise.clone())),
            ("another store's", fs::read(other.join(&name)).ok()),
            ("of an older store", fs::read(older.join(&name)).ok()),
            ("a folder", None),
        ];
        for (how, bytes) in contents {
            let context = &format!("{} {how}", name.display());
            let dir = scratch.copy(&whole, "copy");
            let path = dir.join(&name);
            fs::remove_file(&path).unwrap();
            match bytes {
                Some(bytes) => fs::write(&path, bytes).unwrap(),
                None if how == "a folder" => fs::create_dir(&path).unwrap(),
                None => {}
            }
            let (store, report) = repaired(&scratch, &dir, context);
            let is_segment = name.to_str().unwrap().ends_with(".seg");
            let missing = holds_some(&store, &expected, &report, context);
            assert!(missing == 0 || is_segment, "{context}: {missing} are missing: {report:?}");
            assert!(missing <= frames(&sound).len(), "{context}: {missing} are missing: {report:?}");
        }
    }
}

#[test]
fn what_was_deleted_or_trimmed_stays_so_and_what_is_damaged_is_not_what_it_was() {
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    let store = Store::options().segment_bytes(64 * 1024).max_history(None).open(&dir).unwrap();
    let put = |thread: &str, id: &str, state: &[u8]| {
        store.put_bytes(thread, TypeTag::BYTES, state, PutOptions::default().id(taffrail::CheckpointId::new(id).unwrap())).unwrap();
    };
    for number in 0..30 {
        for thread in ["gone", "kept", "short"] {
            put(thread, &format!("step {number}"), &state(thread, number, 1500));
        }
    }
    put("kept", "step 7", b"a later state, which will be damaged");
    store.delete("gone").unwrap();
    store.delete_checkpoint("kept", &taffrail::CheckpointId::new("step 3").unwrap()).unwrap();
    store.retain(Some("short"), Some(4)).unwrap();
    put("gone", "step 0", b"begun anew");
    drop(store);
    for manifest in [true, false] {
        let dir = scratch.copy(&dir, "copy");
        let path = segments(&dir).into_iter().find(|path| find(path, b"which will be damaged").is_some()).unwrap();
        let mut bytes = fs::read(&path).unwrap();
        let at = find(&path, b"which will be damaged").unwrap();
        bytes[at] = b'W';
        fs::write(&path, bytes).unwrap();
        if !manifest {
            fs::remove_file(dir.join("MANIFEST")).unwrap();
        }
        let (store, report) = repaired(&scratch, &dir, "deleted");
        let damage: Vec<_> = report.damage.iter().filter(|finding| finding.damage).collect();
        assert_eq!(damage.len(), 1, "{damage:?}");
        assert_eq!((damage[0].thread.as_deref(), damage[0].id.as_ref().unwrap().as_str()), (Some("kept"), "step 7"));
        let kept = history(&store, "kept").unwrap();
        let right: Vec<_> = (0..30).filter(|number| ![3, 7].contains(number)).map(|number| state("kept", number, 1500)).collect();
        assert!(kept == right, "{} states", kept.len());
        assert_eq!(history(&store, "gone").unwrap(), [b"begun anew"]);
        assert!(history(&store, "short").unwrap() == (26..30).map(|number| state("short", number, 1500)).collect::<Vec<_>>());
        store.put("short", &1).unwrap();
        assert_eq!(history(&store, "short").unwrap().len(), 4, "its limit came along");
    }
}

fn find(path: &Path, words: &[u8]) -> Option<usize> {
    fs::read(path).unwrap().windows(words.len()).position(|window| window == words)
}

#[test]
fn unproven_ends_add_and_take_nothing_away() {
    let scratch = Scratch::new();
    let whole = scratch.path("whole");
    let store = Store::options().max_history(None).open(&whole).unwrap();
    let mut expected = Expected::default();
    (0..6).for_each(|number| expected.put(&store, "t", state("t", number, 300)));
    expected.put(&store, "u", state("u", 0, 300));
    store.delete("t").unwrap();
    store.close().unwrap();
    let path = segments(&whole).pop().unwrap();
    let sound = fs::read(&path).unwrap();
    let all = frames(&sound);
    assert_eq!(all.len(), 8);
    // The frame before `u` is torn: it, and the delete behind it, are proven by nothing.
    let mut torn = sound.clone();
    torn[all[5].start + 2] ^= 1;
    let dir = scratch.copy(&whole, "copy");
    let number = path.file_name().unwrap().to_str().unwrap().to_owned();
    fs::create_dir(dir.join("quarantine")).unwrap();
    fs::write(dir.join("quarantine").join(format!("{number}.from-{}", all[5].start)), &torn[all[5].start..]).unwrap();
    let mut cut = sound.clone();
    cut[all[5].start..].fill(0);
    fs::write(dir.join(&number), cut).unwrap();
    fs::remove_file(dir.join("tail")).unwrap();
    let (store, report) = repaired(&scratch, &dir, "ends");
    assert!(history(&store, "t").unwrap() == expected.0["t"][..5], "the delete is not proven");
    assert!(history(&store, "u").unwrap() == expected.0["u"]);
    assert_eq!((report.unproven.len(), report.unproven[0].thread.as_deref()), (1, Some("u")), "{report:?}");
}

#[test]
fn of_two_stores_the_larger_one_comes_back() {
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    let expected = several(&dir);
    let other = scratch.path("other");
    let store = Store::open(&other).unwrap();
    store.put("other", &1).unwrap();
    drop(store);
    let stray = dir.join("00000000000000ff.seg");
    fs::copy(segments(&other).pop().unwrap(), &stray).unwrap();
    for manifest in [true, false] {
        if !manifest {
            fs::remove_file(dir.join("MANIFEST")).unwrap();
        }
        let (store, report) = repaired(&scratch, &dir, "two");
        expected.is_all_of(&store, "two");
        assert_eq!((lost(&report), &report.set_aside[..]), (0, &[stray.clone()][..]), "{report:?}");
    }
}

#[test]
fn nothing_to_salvage_is_an_error_and_makes_no_store() {
    let scratch = Scratch::new();
    let dest = scratch.path("dest");
    let refused = |dir: PathBuf, kind: ErrorKind| {
        let error = Store::repair(&dir, &dest).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(!dest.join("MANIFEST").exists(), "{error}");
    };
    refused(scratch.path("nowhere"), ErrorKind::NotFound);
    fs::create_dir(scratch.path("empty")).unwrap();
    refused(scratch.path("empty"), ErrorKind::NotFound);
    fs::create_dir(scratch.path("photos")).unwrap();
    fs::write(scratch.path("photos").join("one.jpg"), b"mine").unwrap();
    refused(scratch.path("photos"), ErrorKind::Unsupported);
    refused(scratch.path("photos").join("one.jpg"), ErrorKind::Unsupported);
    let dir = scratch.path("store");
    several(&dir);
    for path in segments(&dir) {
        let length = fs::read(&path).unwrap().len();
        fs::write(path, vec![0xa5; length]).unwrap();
    }
    refused(dir.clone(), ErrorKind::Corrupt);
    fs::remove_file(dir.join("MANIFEST")).unwrap();
    refused(dir, ErrorKind::Corrupt);
    assert!(!dest.exists());
    // A sound store without a checkpoint is one.
    drop(Store::options().max_history(7).open(scratch.path("new")).unwrap());
    let (store, report) = repaired(&scratch, &scratch.path("new"), "new");
    assert_eq!((store.stats().unwrap().max_history, report.damage.len()), (Some(7), 0));
}

#[test]
fn a_store_in_use_is_busy_and_a_place_in_it_is_refused() {
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    let expected = several(&dir);
    let store = Store::open(&dir).unwrap();
    let error = Store::repair(&dir, scratch.path("dest")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    drop(store);
    for dest in [dir.clone(), dir.join("below")] {
        assert_eq!(Store::repair(&dir, &dest).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    let (store, _) = repaired(&scratch, &dir, "closed");
    expected.is_all_of(&store, "closed");
}
