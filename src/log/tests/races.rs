//! Readers and reports while segments come and go: a rotation is never taken for damage.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use super::Scratch;
use crate::batch::{Durability, PutOptions};
use crate::checkpoint::TypeTag;
use crate::checkpointer::Checkpointer;
use crate::log::Store;
use crate::query::ThreadQuery;
use crate::testing::states::noise;

/// Puts that rotate often, while `read` goes on beside them.
fn beside_rotations(read: impl Fn(&Store, &Path) + Sync) {
    for _ in 0..8 {
        let scratch = Scratch::new();
        let store = Store::options().segment_bytes(64 * 1024).durability(Durability::Buffered).open(scratch.dir()).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !done.load(SeqCst) {
                        read(&store, &scratch.dir());
                    }
                });
            }
            for number in 0..60 {
                let length = if number % 3 == 2 { 20_000 } else { 10_000 };
                store.put_bytes(&format!("t{}", number % 5), TypeTag::BYTES, &noise(number, length), PutOptions::default()).unwrap();
            }
            done.store(true, SeqCst);
        });
    }
}

#[test]
fn a_list_of_threads_finds_the_newest_segment() {
    beside_rotations(|store, _| store.list_threads(&ThreadQuery::default()).unwrap().for_each(|info| drop(info.unwrap())));
}

#[test]
fn verify_takes_no_rotation_for_damage() {
    beside_rotations(|store, _| {
        let found = store.verify().unwrap();
        assert!(found.iter().all(|finding| !finding.damage), "{found:?}");
    });
}

#[test]
fn a_reader_takes_no_rotation_for_damage() {
    beside_rotations(|_, dir| {
        let reader = Store::options().read_only(true).open(dir).unwrap();
        assert!(reader.recovery().damage.is_empty(), "{:?}", reader.recovery());
    });
}
