//! The settings of the store, and the limits of a handle.

use taffrail::{Batch, Checkpointer, ErrorKind, HistoryQuery, PutOptions, Store, TypeTag};

use crate::scratch::{Scratch, snapshot};

fn count(store: &Store, thread: &str) -> usize {
    store.list(thread, &HistoryQuery::default()).unwrap().count()
}

fn put(store: &Store, thread: &str) {
    store.put_bytes(thread, TypeTag::BYTES, b"x", PutOptions::default()).unwrap();
}

#[test]
fn max_history_is_the_stores_own_and_changes_only_when_told() {
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    let open = || Store::open(&dir).unwrap();
    let store = open();
    assert_eq!(store.stats().unwrap().max_history, Some(50));
    (0..60).for_each(|_| put(&store, "t"));
    (0..7).for_each(|_| put(&store, "u"));
    assert_eq!(count(&store, "t"), 50);
    drop(store);
    let lowered = Store::options().max_history(5).open(&dir).unwrap();
    assert_eq!((count(&lowered, "t"), count(&lowered, "u")), (5, 5));
    drop(lowered);
    let plain = open();
    assert_eq!(plain.stats().unwrap().max_history, Some(5), "a plain opening changed a setting");
    put(&plain, "t");
    assert_eq!(count(&plain, "t"), 5);
    drop(plain);
    let raised = Store::options().max_history(None).open(&dir).unwrap();
    assert_eq!((count(&raised, "t"), count(&raised, "u")), (5, 5), "raising brings nothing back");
    put(&raised, "t");
    drop(raised);
    let again = open();
    assert_eq!((count(&again, "t"), again.stats().unwrap().max_history), (6, None));
}

#[test]
fn many_long_names_are_trimmed_in_a_small_segment() {
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    let store = Store::options().segment_bytes(64 * 1024).durability(taffrail::Durability::Buffered).open(&dir).unwrap();
    let names: Vec<String> = (0..40).map(|number| format!("{number:02}{}", "n".repeat(4094))).collect();
    for name in &names {
        put(&store, name);
        put(&store, name);
    }
    store.retain(None, Some(1)).unwrap();
    let mut batch = Batch::new();
    for name in &names[..30] {
        batch.delete(name, None);
    }
    assert_eq!(store.commit(&batch).unwrap().len(), 30);
    for _ in 0..2 {
        let store = Store::options().read_only(true).open(&dir).unwrap();
        assert!(names[..30].iter().all(|name| !store.exists(name).unwrap()));
        assert!(names[30..].iter().all(|name| count(&store, name) == 1));
    }
}

#[test]
fn options_out_of_range_are_refused_before_anything_is_made() {
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    for options in [
        Store::options().max_history(0),
        Store::options().segment_bytes(64 * 1024 - 1),
        Store::options().segment_bytes(4 * 1024 * 1024 * 1024 + 1),
        Store::options().max_state_bytes(3 * 1024 * 1024 * 1024 + 1),
    ] {
        assert_eq!(options.open(&dir).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert!(!dir.exists());
    }
}

#[test]
fn a_state_over_the_limit_is_refused_before_anything_is_written() {
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    let store = Store::options().max_state_bytes(1000).open(&dir).unwrap();
    store.put_bytes("t", TypeTag::BYTES, &[1; 1000], PutOptions::default()).unwrap();
    let before = snapshot(&dir);
    let error = store.put_bytes("t", TypeTag::BYTES, &[1; 1001], PutOptions::default()).unwrap_err();
    assert_eq!((error.kind(), error.thread()), (ErrorKind::TooLarge, Some("t")));
    let mut batch = Batch::new();
    batch.put("other", TypeTag::BYTES, b"small", PutOptions::default()).put("t", TypeTag::BYTES, &[1; 1001], PutOptions::default());
    assert_eq!(store.commit(&batch).unwrap_err().kind(), ErrorKind::TooLarge);
    assert!(before == snapshot(&dir), "something was written");
    assert_eq!(store.threads().unwrap(), ["t"]);
}
