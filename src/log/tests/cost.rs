//! What a read costs, in bytes asked of the files: its own record, whatever else there is (field case C7).

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use super::Scratch;
use super::failing::Failing;
use crate::batch::{Durability, PutOptions};
use crate::checkpoint::TypeTag;
use crate::checkpointer::Checkpointer;
use crate::log::Store;
use crate::query::HistoryQuery;
use crate::testing::states::noise;

#[test]
fn a_small_threads_read_does_not_grow_with_a_big_one() {
    let scratch = Scratch::new();
    let layer = Failing::default();
    let mut options = Store::options().auto_compaction(false).mmap(false).max_history(None).durability(Durability::Buffered);
    options.fs = Arc::new(layer.clone());
    let store = options.open(scratch.dir()).unwrap();
    let put = |thread: &str, length: usize| {
        let state = noise(store.shared.tail.next_seq(), length);
        drop(store.put_bytes(thread, TypeTag::BYTES, &state, PutOptions::default()).unwrap())
    };
    let bytes_of = |read: &dyn Fn()| {
        let before = layer.bytes_read.load(SeqCst);
        read();
        layer.bytes_read.load(SeqCst) - before
    };
    put("small", 100);
    let get = || drop(store.get_bytes("small").unwrap().unwrap());
    let list = || assert_eq!(store.list("small", &HistoryQuery::default()).unwrap().count(), 1);
    let alone = (bytes_of(&get), bytes_of(&list));
    assert!((100..400).contains(&alone.0), "a state of 100 bytes took {} bytes", alone.0);
    (0..20).for_each(|_| put("big", 1 << 20));
    put("big", 20 << 20);
    assert_eq!((bytes_of(&get), bytes_of(&list)), alone);
    let newest = || {
        let query = HistoryQuery { limit: Some(1), ..HistoryQuery::default() };
        assert_eq!(store.history_bytes("big", &query).unwrap().count(), 1);
    };
    assert!(bytes_of(&newest) < (20 << 20) + 1000, "the newest of a long history takes more than its own record");
    let infos = || assert_eq!(store.list("big", &HistoryQuery::default()).unwrap().count(), 21);
    assert!(bytes_of(&infos) < 21 * 400, "a listing reads states");
}
