//! One order and no number twice (field cases D1, D4), and listings without a hidden end (E1).

use std::fs;
use std::time::{Duration, SystemTime};

use taffrail::{Checkpointer, Durability, HistoryQuery, PutOptions, Store, ThreadQuery, TypeTag};

use crate::scratch::{Scratch, frames, segments};

fn put(store: &Store, thread: &str, options: PutOptions) -> u64 {
    let id = store.put_bytes(thread, TypeTag::BYTES, b"x", options).unwrap();
    store.load_bytes(thread, &id).unwrap().unwrap().info.seq
}

#[test]
fn no_number_is_given_twice_also_when_all_is_deleted() {
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    let mut last = 0;
    for round in 0..6 {
        let store = Store::open(&dir).unwrap();
        for _ in 0..3 {
            let seq = put(&store, "t", PutOptions::default());
            assert!(seq > last, "round {round}: {seq} after {last}");
            last = seq;
        }
        assert!(last < 1 << 32, "numbers jump without need");
        assert!(store.delete("t").unwrap());
        if round % 2 == 1 { store.close().unwrap() } else { drop(store) }
    }
}

#[test]
fn after_an_unclean_end_numbers_jump_to_the_next_multiple_of_2_to_the_32() {
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    let store = Store::open(&dir).unwrap();
    for _ in 0..3 {
        put(&store, "t", PutOptions::default());
    }
    drop(store);
    let damages: [fn(&std::path::Path); 3] = [
        |dir| fs::remove_file(dir.join("tail")).unwrap(),
        |dir| fs::write(dir.join("tail"), [0; 4096]).unwrap(),
        |dir| {
            // The last record torn, with nothing that proves it.
            let newest = segments(dir).pop().unwrap();
            let bytes = fs::read(&newest).unwrap();
            fs::write(&newest, &bytes[..frames(&bytes).last().unwrap().end - 1]).unwrap();
            fs::remove_file(dir.join("tail")).unwrap();
        },
    ];
    for (round, damage) in damages.iter().enumerate() {
        damage(&dir);
        let store = Store::open(&dir).unwrap();
        assert!(store.recovery().fresh_segment);
        assert_eq!(put(&store, "t", PutOptions::default()), (round as u64 + 1) << 32);
        assert_eq!(put(&store, "t", PutOptions::default()), ((round as u64 + 1) << 32) + 1);
    }
}

#[test]
fn clocks_label_and_never_order() {
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    let times = [2_000_000_000u64, 1_999_996_400, 2_000_000_001, 0, 4_102_444_800, 2_000_000_002];
    let mut ids = Vec::new();
    for seconds in times {
        let store = Store::options().max_history(3).open(&dir).unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        ids.insert(0, store.put_bytes("t", TypeTag::BYTES, b"x", PutOptions::default().saved_at(time)).unwrap());
        ids.truncate(3);
        drop(store);
        let store = Store::open(&dir).unwrap();
        let infos: Vec<_> = store.list("t", &HistoryQuery::default()).unwrap().map(Result::unwrap).collect();
        assert_eq!(infos.iter().map(|info| info.id.clone()).collect::<Vec<_>>(), ids);
        assert_eq!(infos[0].saved_at, time);
        assert_eq!(store.get_bytes("t").unwrap().unwrap().id, ids[0]);
    }
}

#[test]
fn twelve_thousand_checkpoints_and_every_limit() {
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    let store = Store::options().max_history(None).durability(Durability::Buffered).open(&dir).unwrap();
    let count = 12_000usize;
    for number in 0..count {
        store.put_bytes("t", TypeTag::BYTES, &number.to_le_bytes(), PutOptions::default()).unwrap();
    }
    store.close().unwrap();
    let store = Store::open(&dir).unwrap();
    for (limit, expected) in [
        (None, count),
        (Some(0), 0),
        (Some(1), 1),
        (Some(count - 1), count - 1),
        (Some(count), count),
        (Some(count + 1), count),
        (Some(usize::MAX), count),
    ] {
        let query = HistoryQuery { limit, ..HistoryQuery::default() };
        let numbers: Vec<usize> = store
            .history_bytes("t", &query)
            .unwrap()
            .map(|read| usize::from_le_bytes(read.unwrap().state[..].try_into().unwrap()))
            .collect();
        assert!(numbers.iter().copied().eq((0..count).rev().take(expected)), "limit {limit:?}");
        assert_eq!(store.list("t", &query).unwrap().count(), expected);
    }
    let middle = store.list("t", &HistoryQuery::default()).unwrap().nth(6000).unwrap().unwrap().id;
    let before = HistoryQuery { before: Some(middle.clone()), ..HistoryQuery::default() };
    let after = HistoryQuery { after: Some(middle), ..HistoryQuery::default() };
    assert_eq!((store.list("t", &before).unwrap().count(), store.list("t", &after).unwrap().count()), (5999, 6000));
    for (offset, limit, expected) in [(0, None, 1), (1, None, 0), (usize::MAX, Some(usize::MAX), 0), (0, Some(0), 0)] {
        assert_eq!(store.list_threads(&ThreadQuery { offset, limit, ..ThreadQuery::default() }).unwrap().count(), expected);
    }
}
