//! Reading without leaving a trace, also where nothing can be written (field case I3).

use std::fs;

use taffrail::{Checkpointer, ErrorKind, PutOptions, Store, TypeTag};

use crate::mounts;
use crate::scratch::{Expected, Scratch, frames, segments, snapshot, state, twenty_puts};

fn refuses_writes(store: &Store) {
    for error in [
        store.put_bytes("t", TypeTag::BYTES, b"x", PutOptions::default()).map(drop).unwrap_err(),
        store.delete("a").map(drop).unwrap_err(),
        store.retain(Some("a"), Some(1)).unwrap_err(),
        store.retain(None, Some(1)).unwrap_err(),
        store.sync().unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
    }
}

#[test]
fn reading_writes_nothing_whatever_it_meets() {
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    let expected = twenty_puts(&dir);
    let newest = segments(&dir).pop().unwrap();
    let bytes = fs::read(&newest).unwrap();
    let end = frames(&bytes).last().unwrap().end;
    let prepare: [(&str, &dyn Fn()); 4] = [
        ("clean", &|| ()),
        ("a torn write behind the end", &|| {
            let mut torn = bytes.clone();
            torn[end..end + 100].fill(7);
            fs::write(&newest, torn).unwrap();
        }),
        ("no page", &|| fs::remove_file(dir.join("tail")).unwrap()),
        ("leftovers", &|| fs::write(dir.join("MANIFEST.new"), b"half").unwrap()),
    ];
    for (name, prepare) in prepare {
        prepare();
        let before = snapshot(&dir);
        for mmap in [true, false] {
            let store = Store::options().read_only(true).mmap(mmap).max_history(1).open(&dir).unwrap();
            expected.is_all_of(&store, name);
            refuses_writes(&store);
            store.verify().unwrap();
            store.stats().unwrap();
            store.close().unwrap();
        }
        assert!(before == snapshot(&dir), "{name}: reading left a trace");
    }
}

#[test]
fn a_reader_beside_a_writer_sees_one_moment() {
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    let store = Store::options().segment_bytes(64 * 1024).open(&dir).unwrap();
    let mut expected = Expected::default();
    for number in 0..30 {
        let length = if number % 7 == 6 { 20_000 } else { 3_000 };
        expected.put(&store, "t", state("t", number, length));
        let reader = Store::options().read_only(true).open(&dir).unwrap();
        expected.is_all_of(&reader, &format!("beside put {number}"));
        assert!(reader.recovery().damage.is_empty() && reader.recovery().torn_bytes == 0, "{:?}", reader.recovery());
        assert_eq!(reader.stats().unwrap(), store.stats().unwrap());
    }
    store.delete("t").unwrap();
    let reader = Store::options().read_only(true).open(&dir).unwrap();
    assert!(reader.stats().unwrap().dead_bytes > 100_000, "{:?}", reader.stats());
    assert_eq!(reader.stats().unwrap(), store.stats().unwrap());
}

const MOUNTED: &str = "TAFFRAIL_TEST_READ_ONLY_MOUNT";

/// Runs in a mount namespace of its own, where the directory is mounted read-only.
#[test]
fn inside_a_read_only_mount() {
    let Some(dir) = std::env::var_os(MOUNTED) else { return };
    let store = Store::options().read_only(true).open(&dir).unwrap();
    assert_eq!(store.threads().unwrap(), ["a", "b", "c"]);
    assert_eq!(store.get_bytes("a").unwrap().unwrap().bytes, 20 + 18);
    refuses_writes(&store);
    for options in [Store::options(), Store::options().max_history(1)] {
        let error = options.open(&dir).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error:?}");
    }
    println!("read-only mount: done");
}

#[test]
fn a_read_only_medium_can_be_read() {
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    twenty_puts(&dir);
    let mount = "mount --bind \"$1\" \"$1\" && mount -o remount,bind,ro \"$1\"";
    mounts::inside(mount, &dir, "read_only::inside_a_read_only_mount", MOUNTED, "read-only mount: done");
}
