//! Which places are opened, made or refused, and who may be in one at a time.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::process::Command;
use std::time::Duration;

use taffrail::{Checkpointer, Durability, ErrorKind, PutOptions, Store, TypeTag};

use crate::scratch::{Scratch, snapshot};

const OTHER: &str = "TAFFRAIL_TEST_OTHER_PROCESS";

/// Runs in another process: tells how opening ended.
#[test]
fn other_process() {
    if let Some(dir) = std::env::var_os(OTHER) {
        let opened = Store::options().busy_timeout(Duration::from_millis(30)).open(dir);
        println!("other process: {:?}", opened.map(drop).map_err(|error| error.kind()));
    }
}

fn in_another_process(dir: &std::path::Path) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command.args(["--exact", "opening::other_process", "--nocapture"]).env(OTHER, dir).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().find_map(|line| line.split_once("other process: ")).unwrap_or_else(|| panic!("{text}")).1.to_owned()
}

#[test]
fn one_at_a_time_by_any_name_of_the_directory() {
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    let store = Store::open(&dir).unwrap();
    symlink(&dir, scratch.path("link")).unwrap();
    let aliases = [dir.clone(), dir.join("."), dir.join("../store"), scratch.path("link"), scratch.path(".").join("store")];
    for alias in &aliases {
        let error = Store::options().busy_timeout(Duration::from_millis(20)).open(alias).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Busy, "{}: {error}", alias.display());
        assert_eq!(error.file().unwrap().0, alias);
    }
    assert_eq!(in_another_process(&dir), "Err(Busy)");
    // A clone keeps it, the last one frees it, and reading asks no leave.
    let clone = store.clone();
    drop(store);
    assert_eq!(in_another_process(&dir), "Err(Busy)");
    clone.put_bytes("t", TypeTag::BYTES, b"x", PutOptions::default()).unwrap();
    let reader = Store::options().read_only(true).open(&dir).unwrap();
    assert_eq!(reader.threads().unwrap(), ["t"]);
    clone.close().unwrap();
    assert_eq!(in_another_process(&dir), "Ok(())");
    for alias in aliases {
        assert_eq!(Store::open(alias).unwrap().threads().unwrap(), ["t"]);
    }
}

#[test]
fn a_waiting_opener_gets_in_when_the_other_leaves() {
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    let store = Store::open(&dir).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| Store::open(&dir).unwrap().threads().unwrap());
        store.put_bytes("t", TypeTag::BYTES, b"x", PutOptions::default()).unwrap();
        drop(store);
        assert_eq!(waiting.join().unwrap(), ["t"]);
    });
}

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
        // Not ZERO: a child of another test may hold a copy of the lock until it runs its program.
        let store = Store::options().max_history(None).busy_timeout(Duration::from_secs(5)).open(&dir).unwrap();
        assert!(!store.recovery().fresh_segment);
        assert_eq!(store.stats().unwrap().checkpoints, count);
        store.put_bytes("t", TypeTag::BYTES, b"x", PutOptions::default()).unwrap();
    }
    assert_eq!(snapshot(&dir).len(), 3, "files pile up");
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

#[test]
fn lock_files_of_any_kind_stand_in_nobody_s_way() {
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    Store::open(&dir).unwrap().put_bytes("t", TypeTag::BYTES, b"x", PutOptions::default()).unwrap();
    fs::write(dir.join("write.lock"), b"4711 garbage").unwrap();
    fs::write(dir.join("sync.lock"), b"").unwrap();
    fs::create_dir(dir.join("open.lock")).unwrap();
    let store = Store::open(&dir).unwrap();
    assert!(store.exists("t").unwrap() && dir.join("open.lock").is_dir() && fs::read(dir.join("write.lock")).unwrap() == b"4711 garbage");
}
