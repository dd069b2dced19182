//! Who opens, or comes back after a while, beside a long compaction.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use super::Scratch;
use super::failing::Failing;
use super::faults::{options, put};
use crate::batch::Durability;
use crate::checkpointer::Checkpointer;
use crate::log::Store;

const SEGMENTS: usize = 400;

fn open(scratch: &Scratch) -> Store {
    options(&Failing::default()).busy_timeout(Duration::from_secs(60)).open(scratch.dir()).unwrap()
}

/// Each segment half dead.
fn fill(store: &Store) {
    store.retain(None, None).unwrap();
    for _ in 0..SEGMENTS {
        for _ in 0..20 {
            put(store, "kept", 1_200, Durability::Buffered).unwrap();
            put(store, "dead", 1_200, Durability::Buffered).unwrap();
        }
    }
    store.delete("dead").unwrap();
    store.sync().unwrap();
}

/// What is installed while a store is opened does not keep the opening from its end.
#[test]
fn an_opening_beside_a_long_compaction_does_not_wait_for_its_end() {
    let scratch = Scratch::new();
    let store = open(&scratch);
    fill(&store);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            store.compact().unwrap();
            done.store(true, Relaxed);
        });
        std::thread::sleep(Duration::from_millis(50));
        let reader = scope.spawn(|| {
            drop(Store::options().read_only(true).open(scratch.dir()).unwrap());
            done.load(Relaxed)
        });
        drop(open(&scratch));
        assert!(!done.load(Relaxed), "opening took as long as the compaction");
        assert!(!reader.join().unwrap(), "opening to read took as long as the compaction");
    });
}

/// The same for a handle that has not looked for a while.
#[test]
fn a_read_of_a_lagging_handle_does_not_wait_for_the_end_of_a_long_compaction() {
    let scratch = Scratch::new();
    let (store, idle) = (open(&scratch), open(&scratch));
    fill(&store);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            store.compact().unwrap();
            done.store(true, Relaxed);
        });
        std::thread::sleep(Duration::from_millis(100));
        assert!(idle.exists("kept").unwrap());
        assert!(!done.load(Relaxed), "a read took as long as the compaction");
    });
}
