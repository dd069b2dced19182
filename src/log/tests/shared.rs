//! Two handles of one directory, each with workers of its own: as two processes share it, in one that
//! ThreadSanitizer can watch.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::{Scratch, index_is_derived};
use crate::batch::{Durability, PutOptions};
use crate::checkpoint::TypeTag;
use crate::checkpointer::Checkpointer;
use crate::log::Store;
use crate::testing::states::noise;

const PUTS: u32 = 40;

/// What a worker puts as its step of that number.
fn state(worker: usize, number: u32) -> Vec<u8> {
    // Every other one is like the one before it.
    let seed = (u64::from(number / 2) << 8) | worker as u64;
    [&number.to_le_bytes()[..], &noise(seed, 6000)].concat()
}

/// Puts in a thread of its own, now and then without waiting for a sync.
fn put(store: &Store, worker: usize) {
    let thread = format!("t{worker}");
    for number in 1..=PUTS {
        let durability = if number % 4 == 0 { Durability::Buffered } else { Durability::Sync };
        let options = PutOptions::default().durability(durability);
        store.put_bytes(&thread, TypeTag::BYTES, &state(worker, number), options).unwrap();
    }
}

/// Reads every thread until the writers are done: each step whole, none older than the last one seen.
fn read(store: &Store, workers: usize, done: &AtomicBool) {
    let mut seen = vec![0; workers];
    loop {
        let last = done.load(Relaxed);
        for (worker, seen) in seen.iter_mut().enumerate() {
            let Some(step) = store.get_bytes(&format!("t{worker}")).unwrap() else { continue };
            let number = u32::from_le_bytes(step.state[..4].try_into().unwrap());
            assert_eq!(&*step.state, state(worker, number), "half a step");
            assert!(number >= *seen, "an older step than before");
            *seen = number;
        }
        if last {
            return;
        }
    }
}

#[test]
fn two_handles_of_one_directory_are_used_at_once() {
    let scratch = Scratch::new();
    // Some eight segments.
    let open = || Store::options().auto_compaction(false).segment_bytes(64 * 1024).open(scratch.dir()).unwrap();
    let handles = [open(), open()];
    let (workers, done) = (2 * handles.len(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for store in &handles {
            scope.spawn(|| read(store, workers, &done));
        }
        let writers: Vec<_> = (0..workers)
            .map(|worker| {
                let store = &handles[worker % handles.len()];
                scope.spawn(move || put(store, worker))
            })
            .collect();
        let ended: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Relaxed);
        assert!(ended.iter().all(Result::is_ok));
    });
    for store in &handles {
        store.sync().unwrap();
        for worker in 0..workers {
            let step = store.get_bytes(&format!("t{worker}")).unwrap().unwrap();
            assert_eq!(&*step.state, state(worker, PUTS));
        }
        index_is_derived(store, &scratch.dir());
    }
    assert!(handles[0].stats().unwrap().segments > 4, "there was no rotation");
}
