//! Which places are opened, made or refused, and that opening and closing again changes nothing.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use taffrail::{Checkpointer, Durability, ErrorKind, PutOptions, Store, TypeTag};

use crate::scratch::{Scratch, snapshot, state, twenty_puts};

#[test]
fn openers_at_the_same_instant_of_what_does_not_exist_yet_all_succeed() {
    for _ in 0..20 {
        let scratch = Scratch::new();
        let dir = scratch.path("a/b/store");
        std::thread::scope(|scope| {
            for worker in 0..4 {
                let dir = &dir;
                scope.spawn(move || {
                    let store = Store::open(dir).unwrap();
                    store.put_bytes("t", TypeTag::BYTES, &[worker], PutOptions::default()).unwrap();
                });
            }
        });
        assert_eq!(Store::open(&dir).unwrap().stats().unwrap().checkpoints, 4);
    }
}

#[test]
fn opened_and_closed_a_hundred_times_it_is_the_same() {
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    for count in 0..100u64 {
        let store = Store::options().max_history(None).busy_timeout(Duration::from_secs(5)).open(&dir).unwrap();
        assert!(!store.recovery().fresh_segment);
        assert_eq!(store.stats().unwrap().checkpoints, count);
        store.put_bytes("t", TypeTag::BYTES, b"x", PutOptions::default()).unwrap();
    }
    assert_eq!(snapshot(&dir).len(), 7, "files pile up");
}

#[test]
fn missing_parents_are_made_for_the_owner_alone() {
    let scratch = Scratch::new();
    let dir = scratch.path("a/b/store");
    Store::open(&dir).unwrap();
    for made in [scratch.path("a"), scratch.path("a/b"), dir.clone()] {
        assert_eq!(fs::metadata(&made).unwrap().mode() & 0o777, 0o700, "{}", made.display());
    }
    for (path, _) in snapshot(&dir) {
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600, "{}", path.display());
    }
    let shared = scratch.path("shared");
    Store::options().mode(0o750, 0o640).open(&shared).unwrap();
    assert_eq!(fs::metadata(&shared).unwrap().mode() & 0o777, 0o750);
    assert!(snapshot(&shared).keys().all(|path| fs::metadata(path).unwrap().mode() & 0o777 == 0o640));
}

#[test]
fn what_is_no_store_is_refused_untouched() {
    let scratch = Scratch::new();
    let foreign = scratch.path("foreign");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("notes.txt"), b"mine").unwrap();
    let file = scratch.path("file");
    fs::write(&file, b"mine").unwrap();
    symlink(scratch.path("nowhere"), scratch.path("dangling")).unwrap();
    let before = (snapshot(&foreign), fs::read(&file).unwrap());
    for place in [foreign.clone(), file.clone(), file.join("below")] {
        for read_only in [true, false] {
            let error = Store::options().read_only(read_only).open(&place).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{}: {error}", place.display());
            assert!(error.file().is_some());
        }
    }
    assert!(Store::open(scratch.path("dangling")).is_err());
    assert!(before == (snapshot(&foreign), fs::read(&file).unwrap()));
}

#[test]
fn what_is_missing_is_made_only_if_that_is_asked() {
    let scratch = Scratch::new();
    let (dir, empty) = (scratch.path("store"), scratch.path("empty"));
    fs::create_dir(&empty).unwrap();
    for place in [&dir, &empty] {
        for options in [Store::options().create(false), Store::options().read_only(true)] {
            assert_eq!(options.open(place).unwrap_err().kind(), ErrorKind::NotFound);
        }
    }
    assert!(!dir.exists() && snapshot(&empty).is_empty());
    for place in [&dir, &empty] {
        Store::open(place).unwrap();
        Store::options().create(false).open(place).unwrap();
    }
}

#[test]
fn a_thousand_openings_without_a_pause_are_one_log() {
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    for round in 0..1000u32 {
        let store = Store::options().max_history(None).durability(Durability::Buffered).open(&dir).unwrap();
        store.put_bytes("t", TypeTag::BYTES, &round.to_le_bytes(), PutOptions::default()).unwrap();
        // Every other handle is only dropped: closing needs no ceremony.
        if round % 2 == 0 {
            store.close().unwrap();
        }
    }
    let store = Store::open(&dir).unwrap();
    assert_eq!((store.stats().unwrap().checkpoints, store.stats().unwrap().segments), (1000, 1));
    assert!(!store.recovery().fresh_segment);
}

/// Puts something of a kind under a path; what was there goes.
fn place(kind: &str, path: &Path) {
    let _ = fs::remove_file(path);
    match kind {
        "nothing" => {}
        "an empty file" => fs::write(path, b"").unwrap(),
        "garbage" => fs::write(path, b"4711 garbage").unwrap(),
        "a folder" => fs::create_dir(path).unwrap(),
        "a pipe" => assert!(Command::new("mkfifo").arg(path).status().unwrap().success()),
        "a link" => symlink("MANIFEST", path).unwrap(),
        "a link to nothing" => symlink("nowhere", path).unwrap(),
        _ => panic!("{kind}"),
    }
}

#[test]
fn lock_files_of_any_kind_stand_in_nobody_s_way() {
    for name in ["open.lock", "write.lock", "sync.lock"] {
        for kind in ["nothing", "an empty file", "garbage", "a folder", "a pipe", "a link"] {
            let (scratch, context) = (Scratch::new(), format!("{kind} as {name}"));
            let dir = scratch.path("store");
            let mut expected = twenty_puts(&dir);
            place(kind, &dir.join(name));
            let kept = fs::symlink_metadata(dir.join(name)).ok().map(|metadata| (metadata.ino(), metadata.len()));
            for _ in 0..2 {
                let one = Store::open(&dir).unwrap_or_else(|error| panic!("{context}: {error}"));
                let other = Store::open(&dir).unwrap_or_else(|error| panic!("{context}, beside another: {error}"));
                assert!(!one.recovery().fresh_segment, "{context}");
                for (number, store) in [&one, &other, &one].into_iter().enumerate() {
                    expected.put(store, "a", state("a", number as u64, 50));
                }
                expected.is_all_of(&one, &context);
                expected.is_all_of(&other, &context);
                assert_eq!(one.stats().unwrap(), other.stats().unwrap());
            }
            let now = fs::symlink_metadata(dir.join(name)).ok().map(|metadata| (metadata.ino(), metadata.len()));
            assert!(kept.is_none() || now == kept, "{context}: it was touched");
        }
    }
}

#[test]
fn a_lock_that_cannot_be_made_is_told_by_name_unless_it_is_but_an_economy() {
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    let mut expected = twenty_puts(&dir);
    for name in ["open.lock", "write.lock"] {
        place("a link to nothing", &dir.join(name));
        let error = Store::open(&dir).unwrap_err();
        assert_eq!((error.kind(), error.file().unwrap().0), (ErrorKind::Io, &*dir.join(name)), "{error}");
        expected.is_all_of(&Store::options().read_only(true).open(&dir).unwrap(), name);
        fs::remove_file(dir.join(name)).unwrap();
        expected.is_all_of(&Store::open(&dir).unwrap(), name);
    }
    place("a link to nothing", &dir.join("sync.lock"));
    let (one, other) = (Store::open(&dir).unwrap(), Store::open(&dir).unwrap());
    for number in 0..4 {
        expected.put(&one, "a", state("a", number, 50));
        expected.put(&other, "b", state("b", number, 50));
    }
    expected.is_all_of(&one, "without sync.lock");
    expected.is_all_of(&other, "without sync.lock");
    assert!(fs::symlink_metadata(dir.join("sync.lock")).unwrap().is_symlink() && !dir.join("nowhere").exists());
}

#[test]
fn a_pipe_in_the_place_of_a_file_makes_nobody_wait() {
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    let expected = twenty_puts(&dir);
    place("a pipe", &dir.join("tail"));
    expected.is_all_of(&Store::options().read_only(true).open(&dir).unwrap(), "read-only");
    let store = Store::open(&dir).unwrap();
    expected.is_all_of(&store, "a pipe as tail");
    assert!(store.recovery().fresh_segment && fs::metadata(dir.join("tail")).unwrap().is_file());
    drop(store);
    place("a pipe", &dir.join("MANIFEST"));
    for read_only in [true, false] {
        let error = Store::options().read_only(read_only).open(&dir).unwrap_err();
        assert_eq!((error.kind(), error.file().unwrap().0), (ErrorKind::Corrupt, &*dir.join("MANIFEST")), "{error}");
    }
}
