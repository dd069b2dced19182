//! Several handles of one directory at once, in this process and in others, and one that is alone
//! (field case G5).

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use taffrail::{Checkpointer, ErrorKind, Options, PutOptions, Store, TypeTag};

use crate::mounts;
use crate::scratch::{Expected, Scratch, state};

const OTHER: &str = "TAFFRAIL_TEST_OTHER_PROCESS";
const OTHER_ALONE: &str = "TAFFRAIL_TEST_OTHER_PROCESS_ALONE";

/// How long an opener that is to be refused waits.
const SHORT: Duration = Duration::from_millis(30);

fn short() -> Options {
    Store::options().busy_timeout(SHORT)
}

/// Runs in another process: opens, counts what is there, and puts one more.
#[test]
fn other_process() {
    let Some(dir) = std::env::var_os(OTHER) else { return };
    match short().single_process(std::env::var_os(OTHER_ALONE).is_some()).open(dir) {
        Ok(store) => {
            let before = store.stats().unwrap().checkpoints;
            store.put_bytes("other", TypeTag::BYTES, b"x", PutOptions::default()).unwrap();
            println!("other process: {before} checkpoints");
        }
        Err(error) => println!("other process: {error:?}"),
    }
}

pub fn in_another_process(dir: &Path, alone: bool) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "together::other_process", "--nocapture"]).env(OTHER, dir);
    if alone {
        command.env(OTHER_ALONE, "1");
    }
    let text = String::from_utf8(command.output().unwrap().stdout).unwrap();
    text.lines().find_map(|line| line.split_once("other process: ")).unwrap_or_else(|| panic!("{text}")).1.to_owned()
}

/// Names of one directory.
fn aliases(scratch: &Scratch, dir: &Path) -> [std::path::PathBuf; 5] {
    let link = scratch.path("link");
    symlink(dir, &link).unwrap();
    [dir.to_owned(), dir.join("."), dir.join("../store"), link, scratch.path(".").join("store")]
}

/// Asserts that opening is refused after the time to wait, by a message that names the holder.
#[track_caller]
fn is_kept_out(options: Options, dir: &Path, holder: &str) {
    let start = Instant::now();
    let error = options.open(dir).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{}: {error}", dir.display());
    assert!(start.elapsed() >= SHORT && start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert!(error.to_string().starts_with(&format!("{holder} has this store open")), "{error}");
    assert!(error.file().unwrap().0.starts_with(dir), "{error}");
}

#[test]
fn handles_by_any_name_of_the_directory_work_side_by_side() {
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    let mut handles = vec![Store::options().segment_bytes(64 * 1024).open(&dir).unwrap()];
    let mut expected = Expected::default();
    for (number, alias) in aliases(&scratch, &dir).iter().enumerate() {
        handles.push(Store::options().segment_bytes(64 * 1024).open(alias).unwrap());
        for (by, store) in handles.iter().enumerate() {
            let number = (number * 10 + by) as u64;
            expected.put(store, "shared", state("shared", number, 4000));
            expected.put(store, &format!("own {by}"), state("own", number, 40));
            for (reader, other) in handles.iter().enumerate() {
                expected.is_all_of(other, &format!("{}: put by {by}, read by {reader}", alias.display()));
            }
        }
    }
    let count = |expected: &Expected| expected.0.values().map(Vec::len).sum::<usize>();
    assert_eq!(in_another_process(&dir, false), format!("{} checkpoints", count(&expected)));
    expected.note("other", b"x".to_vec());
    // Nobody's leaving opens the door that the others hold.
    while let Some(store) = handles.pop() {
        expected.is_all_of(&store, &format!("with {} others", handles.len()));
        assert!(in_another_process(&dir, true).starts_with("Busy: "), "with {} others", handles.len());
        store.close().unwrap();
    }
    expected.is_all_of(&Store::options().single_process(true).open(&dir).unwrap(), "alone at last");
}

#[test]
fn handles_of_one_process_take_turns() {
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    let handles: Vec<_> = (0..3).map(|_| Store::options().max_history(None).open(&dir).unwrap()).collect();
    std::thread::scope(|scope| {
        for (by, store) in handles.iter().enumerate() {
            scope.spawn(move || {
                for number in 0..100u8 {
                    store.put_bytes("t", TypeTag::BYTES, &[by as u8, number], PutOptions::default()).unwrap();
                }
            });
        }
    });
    for store in &handles {
        let puts: Vec<_> = store.history_bytes("t", &Default::default()).unwrap().map(Result::unwrap).collect();
        assert_eq!(puts.len(), 300);
        assert!(puts.windows(2).all(|pair| pair[0].parent.as_ref() == Some(&pair[1].id) && pair[0].seq > pair[1].seq));
        for by in 0..3 {
            let numbers: Vec<u8> = puts.iter().filter(|put| put.state[0] == by).map(|put| put.state[1]).collect();
            assert_eq!(numbers, (0..100).rev().collect::<Vec<_>>(), "the puts of one handle out of order");
        }
    }
}

const BOUND: &str = "TAFFRAIL_TEST_BIND_MOUNT";

/// Runs in a mount namespace of its own, where the directory is there a second time.
#[test]
fn inside_a_bind_mount() {
    let Some(dir) = std::env::var_os(BOUND).map(std::path::PathBuf::from) else { return };
    let (one, other) = (Store::open(&dir).unwrap(), Store::open(dir.parent().unwrap().join("bound")).unwrap());
    let mut expected = Expected::default();
    for number in 0..6 {
        expected.put(if number % 2 == 0 { &one } else { &other }, "t", state("t", number, 100));
        expected.is_all_of(&one, "by its name");
        expected.is_all_of(&other, "by the mount");
    }
    drop(other);
    is_kept_out(short().single_process(true), &dir, "this process");
    println!("bind mount: done");
}

#[test]
fn a_directory_mounted_twice_is_one_store() {
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    for made in [&dir, &scratch.path("bound")] {
        fs::create_dir(made).unwrap();
    }
    mounts::inside("mount --bind \"$1\" \"$1/../bound\"", &dir, "together::inside_a_bind_mount", BOUND, "bind mount: done");
}

#[test]
fn who_is_alone_keeps_others_out() {
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    let store = Store::options().single_process(true).open(&dir).unwrap();
    let aliases = aliases(&scratch, &dir);
    for alias in &aliases {
        is_kept_out(short(), alias, "this process");
        is_kept_out(short().single_process(true), alias, "this process");
    }
    let named = format!("Busy: process {} (", std::process::id());
    for alone in [false, true] {
        let told = in_another_process(&dir, alone);
        assert!(told.starts_with(&named) && told.contains("has this store open"), "{told}");
    }
    // A clone keeps it, the last one frees it, and reading asks no leave.
    let clone = store.clone();
    drop(store);
    is_kept_out(short(), &dir, "this process");
    clone.put_bytes("t", TypeTag::BYTES, b"x", PutOptions::default()).unwrap();
    let reader = Store::options().read_only(true).open(&dir).unwrap();
    assert_eq!(reader.threads().unwrap(), ["t"]);
    clone.close().unwrap();
    assert_eq!(in_another_process(&dir, false), "1 checkpoints");
    for alias in aliases {
        assert_eq!(Store::open(alias).unwrap().threads().unwrap(), ["other", "t"]);
    }
}

#[test]
fn who_would_be_alone_is_kept_out_by_others_and_harms_them_not() {
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    let (one, other) = (Store::open(&dir).unwrap(), Store::open(&dir).unwrap());
    let mut expected = Expected::default();
    for store in [one, other] {
        is_kept_out(short().single_process(true), &dir, "this process");
        let told = in_another_process(&dir, true);
        assert!(told.starts_with(&format!("Busy: process {} (", std::process::id())), "{told}");
        expected.put(&store, "t", state("t", 1, 100));
        expected.is_all_of(&Store::open(&dir).unwrap(), "beside");
    }
    // A reader is nobody's company.
    let _reader = Store::options().read_only(true).open(&dir).unwrap();
    expected.is_all_of(&Store::options().single_process(true).open(&dir).unwrap(), "alone");
    assert_eq!(in_another_process(&dir, true), "2 checkpoints");
}

#[test]
fn a_waiting_opener_gets_in_when_the_other_leaves() {
    for alone in [false, true] {
        let scratch = Scratch::new();
        let dir = scratch.path("store");
        let store = Store::options().single_process(!alone).open(&dir).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| Store::options().single_process(alone).open(&dir).unwrap().threads().unwrap());
            store.put_bytes("t", TypeTag::BYTES, b"x", PutOptions::default()).unwrap();
            std::thread::sleep(SHORT);
            assert!(!waiting.is_finished(), "alone {alone}: it did not wait");
            drop(store);
            assert_eq!(waiting.join().unwrap(), ["t"]);
        });
    }
}
