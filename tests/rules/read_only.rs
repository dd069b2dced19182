//! Reading without leaving a trace, also where nothing can be written (field case I3).

use std::fs;

use taffrail::{Checkpointer, ErrorKind, PutOptions, Store, TypeTag, VacuumQuery};

use crate::mounts;
use crate::scratch::{Expected, Scratch, frames, history, put_page, segments, snapshot, state, twenty_puts};

fn refuses_writes(store: &Store) {
    for error in [
        store.put_bytes("t", TypeTag::BYTES, b"x", PutOptions::default()).map(drop).unwrap_err(),
        store.delete("a").map(drop).unwrap_err(),
        store.retain(Some("a"), Some(1)).unwrap_err(),
        store.retain(None, Some(1)).unwrap_err(),
        store.vacuum(&VacuumQuery { keep: Some(1), ..VacuumQuery::default() }).map(drop).unwrap_err(),
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
            store.vacuum(&VacuumQuery { keep: Some(1), dry_run: true, ..VacuumQuery::default() }).unwrap();
            store.close().unwrap();
        }
        assert!(before == snapshot(&dir), "{name}: reading left a trace");
    }
}

#[test]
fn a_reader_beside_a_writer_sees_one_moment() {
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    let store = Store::options().segment_bytes(64 * 1024).auto_compaction(false).open(&dir).unwrap();
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

/// A reader that found a page shows what is put at its next call: by whom ever, in whatever segment.
#[test]
fn a_reader_follows_all_who_write() {
    for mmap in [true, false] {
        let scratch = Scratch::new();
        let dir = scratch.path("store");
        let options = || Store::options().segment_bytes(64 * 1024).max_history(None).auto_compaction(false);
        let writers = [options().open(&dir).unwrap(), options().open(&dir).unwrap()];
        let reader = Store::options().read_only(true).mmap(mmap).open(&dir).unwrap();
        let mut expected = Expected::default();
        for number in 0..40 {
            let length = if number % 9 == 8 { 20_000 } else { 3_000 };
            expected.put(&writers[number as usize % 2], "t", state("t", number, length));
            expected.is_all_of(&reader, &format!("put {number}, mmap {mmap}"));
            assert_eq!(reader.stats().unwrap(), writers[0].stats().unwrap());
        }
        assert!(segments(&dir).len() > 3);
        writers[1].delete("t").unwrap();
        assert!(!reader.exists("t").unwrap());
        drop(writers);
        // Nobody writes any more; then others do.
        options().open(&dir).unwrap().put_bytes("new", TypeTag::BYTES, b"x", PutOptions::default()).unwrap();
        assert_eq!(reader.threads().unwrap(), ["new"]);
        refuses_writes(&reader);
    }
}

/// Before the first writer: the page tells of those that were, of an earlier run of the system, or
/// of less than the log holds.
#[test]
fn a_reader_that_was_there_before_the_first_writer_follows_it() {
    let scratch = Scratch::new();
    let whole = scratch.path("whole");
    let mut early = Vec::new();
    let written = {
        let store = Store::open(&whole).unwrap();
        let mut expected = Expected::default();
        for number in 0..20 {
            if number == 10 {
                early = fs::read(whole.join("tail")).unwrap();
            }
            expected.put(&store, "a", state("a", number, 100));
        }
        expected
    };
    let own = fs::read(whole.join("tail")).unwrap();
    let other_boot = |page: &[u8]| [&page[..32], &[1; 16], &page[48..]].concat();
    let pages = [
        ("its own", own.clone(), false),
        ("an earlier one", early.clone(), true),
        ("of another boot", other_boot(&own), true),
        ("an earlier one of another boot", other_boot(&early), true),
    ];
    for (name, page, fresh_segment) in pages {
        for mmap in [true, false] {
            let (dir, mut expected) = (scratch.copy(&whole, "copy"), written.clone());
            put_page(&dir, &page);
            let reader = Store::options().read_only(true).mmap(mmap).open(&dir).unwrap();
            assert!(reader.recovery().damage.is_empty() && reader.recovery().torn_bytes == 0, "{name}: {:?}", reader.recovery());
            // The step that no later one proves is shown only if no page of this run of the system
            // denies it.
            let read = history(&reader, "a").unwrap();
            assert!(read == expected.0["a"][..read.len()], "{name}");
            assert_eq!(read.len(), if name == "an earlier one" { 19 } else { 20 }, "{name}");
            let writer = Store::open(&dir).unwrap();
            assert_eq!(writer.recovery().fresh_segment, fresh_segment, "{name}");
            expected.is_all_of(&reader, &format!("{name}, beside a writer"));
            for number in 0..5 {
                expected.put(&writer, "a", state("a", number, 100));
                expected.is_all_of(&reader, &format!("{name}, put {number}"));
            }
        }
    }
}

/// A reader that found no page makes none, and follows the one that the first writer makes.
#[test]
fn a_reader_without_a_page_follows_the_one_that_comes() {
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    let expected = twenty_puts(&dir);
    fs::remove_file(dir.join("tail")).unwrap();
    let before = snapshot(&dir);
    let reader = Store::options().read_only(true).open(&dir).unwrap();
    expected.is_all_of(&reader, "before the first writer");
    assert!(before == snapshot(&dir), "reading left a trace");
    let writer = Store::options().segment_bytes(64 * 1024).max_history(None).open(&dir).unwrap();
    assert!(writer.recovery().fresh_segment);
    let mut more = expected;
    for number in 0..50 {
        more.put(&writer, "a", state("a", number, 3000));
        more.is_all_of(&reader, &format!("put {number}"));
    }
    more.is_all_of(&Store::options().read_only(true).open(&dir).unwrap(), "a later reader");
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
