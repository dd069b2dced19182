//! Each file in turn replaced, emptied, exchanged or removed, and what a killed step leaves (field
//! cases F4 and F5): the store opens with the rest and says what is missing, or names the file.

use std::fs;
use std::path::Path;

use taffrail::{Checkpointer, ErrorKind, Store};

use crate::allocations;
use crate::scratch::{Expected, Scratch, frames, is_typed, segments, snapshot, state};

/// A store of a sealed segment, a large one and an active one, with an older copy of itself.
fn store_and_older_copy(dir: &Path, older: &Path, scratch: &Scratch) -> Expected {
    let options = || Store::options().segment_bytes(64 * 1024);
    let store = options().open(dir).unwrap();
    let mut expected = Expected::default();
    for number in 0..6 {
        expected.put(&store, "a", state("a", number, 500));
    }
    store.close().unwrap();
    scratch.copy(dir, older.file_name().unwrap().to_str().unwrap());
    let store = options().open(dir).unwrap();
    expected.put(&store, "large", state("large", 0, 20_000));
    for number in 6..9 {
        expected.put(&store, "a", state("a", number, 500));
        expected.put(&store, "b", state("b", number, 700));
    }
    store.close().unwrap();
    expected
}

/// Opens it both ways; whatever is answered must be true, and an error must name a file.
fn judge(dir: &Path, expected: &Expected, context: &str) -> [Option<ErrorKind>; 2] {
    [true, false].map(|read_only| {
        let context = format!("{context}, read-only {read_only}");
        let before = snapshot(dir);
        let opened = Store::options().read_only(read_only).open(dir);
        let failed = match &opened {
            Ok(store) => {
                expected.is_told_truly_by(store, &context);
                None
            }
            Err(error) => {
                is_typed(error, &context);
                Some(error.kind())
            }
        };
        if read_only {
            assert!(before == snapshot(dir), "{context}: changed by reading");
        } else if let Ok(store) = opened {
            let mut more = Expected::default();
            more.put(&store, "more", state("more", 0, 100));
            drop(store);
            let again = Store::open(dir).unwrap_or_else(|error| panic!("{context}, again: {error}"));
            assert_eq!(*again.get_bytes("more").unwrap().unwrap().state, *state("more", 0, 100), "{context}");
            expected.is_told_truly_by_with(&again, "more", &context);
        }
        failed
    })
}

impl Expected {
    fn is_told_truly_by_with(&self, store: &Store, more: &str, context: &str) {
        let mut expected = self.clone();
        expected.note(more, state(more, 0, 100));
        expected.is_told_truly_by(store, context);
    }
}

#[test]
fn each_file_replaced_by_what_it_should_not_be() {
    let scratch = Scratch::new();
    let (whole, older, other) = (scratch.path("whole"), scratch.path("older"), scratch.path("other"));
    let expected = store_and_older_copy(&whole, &older, &scratch);
    store_and_older_copy(&other, &scratch.path("unused"), &scratch);
    let noise = state("n", 3, 4096);
    let names: Vec<_> = fs::read_dir(&whole).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 11, "a manifest, a page, three segments, the hints of two and four locks: {names:?}");
    for name in names {
        let own = fs::read(whole.join(&name)).unwrap();
        let [is_lock, is_hint] = [".lock", ".hint"].map(|kind| name.to_str().unwrap().ends_with(kind));
        assert_eq!(own.is_empty(), is_lock, "{}: a lock file holds nothing, all others do", name.display());
        let active = segments(&whole).last().unwrap().file_name().unwrap() == name;
        let mut contents: Vec<(&str, Option<Vec<u8>>)> = vec![
            ("0 bytes", Some(Vec::new())),
            ("1 byte", Some(own[..own.len().min(1)].to_vec())),
            ("its header", Some(own[..own.len().min(72)].to_vec())),
            ("4 KiB of zeros", Some(vec![0; 4096])),
            ("1 MiB of zeros", Some(vec![0; 1 << 20])),
            ("4 KiB of 0xff", Some(vec![0xff; 4096])),
            ("noise", Some(noise.clone())),
            ("another store's", Some(fs::read(other.join(&name)).unwrap())),
            ("nothing", None),
        ];
        if let Ok(bytes) = fs::read(older.join(&name)) {
            contents.push(("an older self", Some(bytes)));
        }
        for (what, bytes) in contents {
            let copy = scratch.copy(&whole, "copy");
            let context = format!("{} replaced by {what}", name.display());
            match bytes {
                Some(bytes) => fs::write(copy.join(&name), bytes).unwrap(),
                None => fs::remove_file(copy.join(&name)).unwrap(),
            }
            let failed = judge(&copy, &expected, &context);
            let is_segment = name.to_str().unwrap().ends_with(".seg");
            if is_lock || is_hint || name == "tail" || is_segment && !(active && what == "nothing") {
                assert_eq!(failed, [None, None], "{context}");
            } else if what != "an older self" {
                assert!(failed[1].is_some(), "{context}: opened as if nothing were");
            }
        }
        let copy = scratch.copy(&whole, "copy");
        fs::remove_file(copy.join(&name)).unwrap();
        fs::create_dir(copy.join(&name)).unwrap();
        let failed = judge(&copy, &expected, &format!("{} replaced by a folder", name.display()));
        // flock works on a folder as well as on a file.
        assert!(!(is_lock || is_hint) || failed == [None, None], "{} replaced by a folder: {failed:?}", name.display());
    }
    allocations::stayed_small();
}

#[test]
fn the_older_self_of_a_manifest_never_hides_what_came_later() {
    let scratch = Scratch::new();
    let (whole, older) = (scratch.path("whole"), scratch.path("older"));
    store_and_older_copy(&whole, &older, &scratch);
    fs::copy(older.join("MANIFEST"), whole.join("MANIFEST")).unwrap();
    let before = snapshot(&whole);
    let error = Store::open(&whole).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.file().unwrap().0.extension().is_some_and(|end| end == "seg"), "{error}");
    assert!(before == snapshot(&whole), "nothing is moved");
}

#[test]
fn what_a_killed_step_leaves_is_cleared_away() {
    let scratch = Scratch::new();
    let (whole, older) = (scratch.path("whole"), scratch.path("older"));
    let mut expected = store_and_older_copy(&whole, &older, &scratch);
    let seg = |number: u64| format!("{number:016x}.seg");
    let active = fs::read(segments(&whole).pop().unwrap()).unwrap();
    let left: [(String, Vec<u8>); 9] = [
        ("MANIFEST.new".into(), fs::read(whole.join("MANIFEST")).unwrap()),
        ("MANIFEST.new".into(), b"half a mani".to_vec()),
        (format!("{}.new", seg(1)), active.clone()),
        (format!("{}.new", seg(99)), active.clone()),
        (format!("{}.new", seg(98)), Vec::new()),
        (seg(97), Vec::new()),
        (seg(97), active[..72].to_vec()),
        (seg(96), active[..30].to_vec()),
        (seg(95), vec![0; 70_000]),
    ];
    for (name, bytes) in left {
        let context = format!("{name} of {} bytes left over", bytes.len());
        fs::write(whole.join(&name), bytes).unwrap();
        let read_only = Store::options().read_only(true).open(&whole).unwrap();
        expected.is_all_of(&read_only, &context);
        drop(read_only);
        let store = Store::open(&whole).unwrap_or_else(|error| panic!("{context}: {error}"));
        assert!(!whole.join(&name).exists(), "{context}: still there");
        assert!(store.recovery().set_aside.iter().any(|path| path.ends_with(&name)), "{context}: not reported");
        expected.put(&store, "a", state("a", 50, 80));
        drop(store);
        let again = Store::open(&whole).unwrap();
        assert!(again.recovery().set_aside.is_empty(), "{context}: reported twice");
        expected.is_all_of(&again, &context);
    }
}

#[test]
fn an_unlisted_segment_with_records_is_never_thrown_away() {
    let scratch = Scratch::new();
    let (whole, older) = (scratch.path("whole"), scratch.path("older"));
    let expected = store_and_older_copy(&whole, &older, &scratch);
    let newest = fs::read(segments(&whole).pop().unwrap()).unwrap();
    assert!(!frames(&newest).is_empty());
    // Newer than the manifest knows: the directory is of two moments, and nothing is touched.
    fs::write(whole.join("00000000000000f0.seg"), &newest).unwrap();
    let before = snapshot(&whole);
    let error = Store::open(&whole).unwrap_err();
    assert_eq!((error.kind(), error.file().unwrap().0.ends_with("00000000000000f0.seg")), (ErrorKind::Corrupt, true));
    assert!(before == snapshot(&whole));
    fs::remove_file(whole.join("00000000000000f0.seg")).unwrap();
    // Older, and another store's: kept in quarantine, under its name.
    let others = scratch.path("others");
    store_and_older_copy(&others, &scratch.path("unused"), &scratch);
    for (name, bytes) in [("0000000000000000.seg", newest), ("00000000000000f1.seg", fs::read(segments(&others).pop().unwrap()).unwrap())] {
        fs::write(whole.join(name), &bytes).unwrap();
        let store = Store::open(&whole).unwrap();
        assert_eq!(fs::read(whole.join("quarantine").join(name)).unwrap(), bytes);
        assert!(store.recovery().set_aside.iter().any(|path| path.ends_with(name)));
        assert!(!whole.join(name).exists());
        expected.is_all_of(&store, name);
    }
}

#[test]
fn segments_without_their_manifest_are_not_a_new_store() {
    let scratch = Scratch::new();
    let (whole, older) = (scratch.path("whole"), scratch.path("older"));
    store_and_older_copy(&whole, &older, &scratch);
    fs::remove_file(whole.join("MANIFEST")).unwrap();
    let before = snapshot(&whole);
    for (read_only, create) in [(false, true), (false, false), (true, true)] {
        let error = Store::options().read_only(read_only).create(create).open(&whole).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    }
    assert!(before == snapshot(&whole));
}

#[test]
fn the_newest_segment_lost_is_told_by_name() {
    let scratch = Scratch::new();
    let (whole, older) = (scratch.path("whole"), scratch.path("older"));
    store_and_older_copy(&whole, &older, &scratch);
    let newest = segments(&whole).pop().unwrap();
    let bytes = fs::read(&newest).unwrap();
    fs::remove_file(&newest).unwrap();
    let error = Store::open(&whole).unwrap_err();
    assert_eq!((error.kind(), error.file().unwrap().0), (ErrorKind::Corrupt, &*newest));
    fs::write(&newest, bytes).unwrap();
    assert!(Store::open(&whole).unwrap().get_bytes("b").unwrap().is_some());
}

#[test]
fn a_thread_lost_with_its_segment_is_not_said_never_to_have_been() {
    let scratch = Scratch::new();
    let (whole, older) = (scratch.path("whole"), scratch.path("older"));
    store_and_older_copy(&whole, &older, &scratch);
    let sealed =
        segments(&whole).into_iter().find(|path| frames(&fs::read(path).unwrap()).first().is_some_and(|frame| frame.len() > 16_000));
    fs::remove_file(sealed.unwrap()).unwrap();
    let store = Store::open(&whole).unwrap();
    for error in [store.get_bytes("large").map(drop).unwrap_err(), store.exists("never").map(drop).unwrap_err()] {
        assert_eq!((error.kind(), error.file().is_some()), (ErrorKind::Corrupt, true));
    }
    assert_eq!(store.get_bytes("b").unwrap().unwrap().info.bytes, 700);
    assert_eq!(store.recovery().damage.len(), 1);
}
