//! A disk of 4 MiB filled to the brim (field case I2): the put that does not fit is wholly absent,
//! reading and deleting go on, and with space again the same handle works.

use std::fs;
use std::path::Path;

use taffrail::{Checkpointer, ErrorKind, PutOptions, Store, TypeTag};

use crate::mounts;
use crate::scratch::{Expected, Scratch, segments, state};

const MOUNTED: &str = "TAFFRAIL_TEST_FULL_DISK";

/// Runs in a mount namespace of its own, where the directory is a small tmpfs.
#[test]
fn inside_a_small_disk() {
    let Some(disk) = std::env::var_os(MOUNTED) else { return };
    for (segment_bytes, length) in [(64 << 20, 50_000), (1 << 20, 50_000), (64 << 10, 50_000), (64 << 10, 5_000), (64 << 20, 700_000)] {
        fill(Path::new(&disk), segment_bytes, length);
    }
    compaction_without_room(Path::new(&disk));
    println!("full disk: done");
}

/// Where something live has to be copied and there is no room for it, nothing changes and nothing is left.
fn compaction_without_room(disk: &Path) {
    let (dir, ballast) = (disk.join("store"), disk.join("ballast"));
    let store = Store::options().segment_bytes(1 << 20).max_history(None).auto_compaction(false).open(&dir).unwrap();
    let mut expected = Expected::default();
    for number in 0..60 {
        expected.put(&store, "kept", state("kept", number, 20_000));
        store.put_bytes("dropped", TypeTag::BYTES, &state("dropped", number, 20_000), PutOptions::default()).unwrap();
    }
    let mut room = 4 << 20;
    while room > 0 {
        let mut bytes = fs::read(&ballast).unwrap_or_default();
        bytes.resize(bytes.len() + room, 1);
        if fs::write(&ballast, &bytes).is_err() {
            room /= 2;
        }
    }
    assert!(store.delete("dropped").unwrap());
    for _ in 0..2 {
        assert_eq!(store.compact().unwrap_err().kind(), ErrorKind::DiskFull);
        let names: Vec<_> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        let is_whole = names.iter().all(|name| !name.ends_with(".new"));
        assert!(is_whole && segments(&dir).len() as u64 == store.stats().unwrap().segments, "a leftover: {names:?}");
        expected.is_all_of(&store, "without room");
    }
    fs::remove_file(&ballast).unwrap();
    assert!(store.compact().unwrap().bytes > 1_000_000);
    expected.is_all_of(&store, "with room");
    drop(store);
    expected.is_all_of(&Store::open(&dir).unwrap(), "opened again");
    fs::remove_dir_all(&dir).unwrap();
}

fn fill(disk: &Path, segment_bytes: u64, length: usize) {
    let context = format!("segments of {segment_bytes}, states of {length}");
    let (dir, ballast) = (disk.join("store"), disk.join("ballast"));
    fs::write(&ballast, vec![1; 1_000_000]).unwrap();
    let options = Store::options().segment_bytes(segment_bytes).max_history(None).auto_compaction(false);
    let open = || options.clone().open(&dir).unwrap_or_else(|error| panic!("{context}: {error}"));
    let store = open();
    let mut expected = Expected::default();
    expected.put(&store, "first", state("first", 0, 100));
    expected.put(&store, "second", state("second", 0, 100));
    let mut refused = 0;
    for number in 0..4000 {
        let bytes = state("t", number, length);
        match store.put_bytes("t", TypeTag::BYTES, &bytes, PutOptions::default()) {
            Ok(_) => expected.note("t", bytes),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::DiskFull, "{context}: {error:?}");
                refused += 1;
                if refused == 3 {
                    break;
                }
            }
        }
    }
    assert_eq!(refused, 3, "{context}: the disk was never full");
    expected.is_all_of(&store, &context);
    // Who opens it now, as each command of the command line does, can delete too.
    drop(store);
    let store = open();
    assert!(store.delete("first").unwrap_or_else(|error| panic!("{context}: delete on a full disk: {error:?}")), "{context}");
    expected.0.remove("first");
    expected.is_all_of(&store, &context);
    let reader = Store::options().read_only(true).open(&dir).unwrap();
    expected.is_all_of(&reader, &context);
    drop(reader);
    // What is wholly dead needs no room to be dropped, and makes room for the rest.
    let full = fs::read_dir(&dir).unwrap().count();
    if segments(&dir).len() > 4 {
        assert!(store.delete("t").unwrap_or_else(|error| panic!("{context}: delete all: {error:?}")), "{context}");
        expected.0.remove("t");
        let done = store.compact().unwrap_or_else(|error| panic!("{context}: compact on a full disk: {error:?}, {full} files"));
        assert!(done.bytes > 1_000_000, "{context}: {done:?}");
        expected.is_all_of(&store, &context);
        for number in 0..4 {
            expected.put(&store, "t", state("t", number, length));
        }
    }
    fs::remove_file(&ballast).unwrap();
    expected.put(&store, "t", state("t", 5000, length));
    expected.put(&store, "new", state("new", 0, 10));
    store.close().unwrap_or_else(|error| panic!("{context}: {error}"));
    let again = Store::open(&dir).unwrap_or_else(|error| panic!("{context}: {error}"));
    assert!(again.recovery().damage.is_empty(), "{context}");
    expected.is_all_of(&again, &context);
    drop(again);
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_full_disk_refuses_and_recovers() {
    let scratch = Scratch::new();
    let disk = scratch.path("disk");
    fs::create_dir(&disk).unwrap();
    mounts::inside("mount -t tmpfs -o size=4m none \"$1\"", &disk, "full_disk::inside_a_small_disk", MOUNTED, "full disk: done");
}
