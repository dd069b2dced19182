//! Everything at once: several handles put, delete and trim with compaction in the background, others
//! come and go; what each worker put in its own threads is what is there.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::{Scratch, index_is_derived};
use crate::backend::memory::MemoryCheckpointer;
use crate::batch::{Durability, PutOptions};
use crate::checkpoint::{CheckpointId, TypeTag};
use crate::checkpointer::Checkpointer;
use crate::error::ErrorKind;
use crate::log::Store;
use crate::query::{HistoryQuery, VacuumQuery};
use crate::testing::states::noise;

type Steps = Vec<(String, usize, u32)>;

fn steps(place: &dyn Checkpointer, thread: &str) -> Steps {
    let steps = place.history_bytes(thread, &HistoryQuery::default()).unwrap().map(Result::unwrap);
    steps.map(|it| (it.id.to_string(), it.state.len(), crc32fast::hash(&it.state))).collect()
}

fn open(dir: &std::path::Path) -> Store {
    Store::options().segment_bytes(64 * 1024).durability(Durability::Buffered).open(dir).unwrap()
}

fn work(store: &Store, worker: u64, seed: u64, until: Instant) -> u64 {
    let mut state = (seed * 77 + worker + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut below = move |n: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % n
    };
    let model = MemoryCheckpointer::with_max_history(None).unwrap();
    let mut count = 0;
    while Instant::now() < until {
        count += 1;
        let thread = format!("w{worker}-{}", below(3));
        let id = CheckpointId::new(format!("id-{}", below(8))).unwrap();
        match below(30) {
            0 => assert_eq!(store.delete(&thread).unwrap(), model.delete(&thread).unwrap()),
            1..=3 => assert_eq!(store.delete_checkpoint(&thread, &id).unwrap(), model.delete_checkpoint(&thread, &id).unwrap()),
            4 => {
                let keep = [None, Some(1), Some(3), Some(9)][below(4) as usize];
                let kinds = |it: crate::Result<()>| it.map_err(|error| error.kind());
                assert_eq!(kinds(store.retain(Some(&thread), keep)), kinds(model.retain(Some(&thread), keep)));
            }
            _ => {
                let size = [50, 2_000, 6_000, 12_000, 20_000][below(5) as usize];
                let id = if below(3) == 0 { id } else { CheckpointId::fresh() };
                let durability = if below(10) == 0 { Durability::Sync } else { Durability::Buffered };
                let options = PutOptions::default().id(id).durability(durability);
                // Some three in a row are alike, of lengths that differ.
                let bytes = [&[count as u8], &noise((worker << 32) | (count / 24), size)[..]].concat();
                store.put_bytes(&thread, TypeTag::BYTES, &bytes, options.clone()).unwrap();
                model.put_bytes(&thread, TypeTag::BYTES, &bytes, options).unwrap();
            }
        }
        if below(8) == 0 {
            assert!(steps(store, &thread) == steps(&model, &thread), "worker {worker} seed {seed} step {count}");
        }
    }
    for number in 0..3 {
        let thread = format!("w{worker}-{number}");
        assert!(steps(store, &thread) == steps(&model, &thread), "worker {worker} seed {seed} at the end");
    }
    count
}

/// Whether it was done, and not left to those who compact without a pause.
fn unless_busy<T>(answer: crate::Result<T>) -> bool {
    match answer {
        Ok(_) => true,
        Err(error) if error.kind() == ErrorKind::Busy => false,
        Err(error) => panic!("{error}"),
    }
}

fn round(seed: u64, long: Duration) {
    let scratch = Scratch::new();
    drop(Store::options().segment_bytes(64 * 1024).max_history(None).open(scratch.dir()).unwrap());
    let (one, two) = (open(&scratch.dir()), open(&scratch.dir()));
    let done = AtomicBool::new(false);
    let until = Instant::now() + long;
    std::thread::scope(|scope| {
        let read_only = Store::options().read_only(true).open(scratch.dir()).unwrap();
        let done = &done;
        let dir = scratch.dir();
        scope.spawn(move || {
            while !done.load(Relaxed) {
                for thread in read_only.threads().unwrap() {
                    steps(&read_only, &thread);
                }
            }
        });
        let (watched, dir2) = (two.clone(), dir.clone());
        scope.spawn(move || {
            let mut watch = watched.watch(None).unwrap();
            let mut number = 0;
            while !done.load(Relaxed) {
                while watch.wait(Duration::from_millis(20)).unwrap().is_some() {
                    number += 1;
                    if number % 500 == 0 {
                        watch = watched.watch(None).unwrap();
                    }
                    if done.load(Relaxed) {
                        break;
                    }
                }
            }
        });
        scope.spawn(move || {
            let mut number = 0;
            while !done.load(Relaxed) {
                number += 1;
                let store = open(&dir2);
                store.put_bytes("opener", TypeTag::BYTES, &[1; 3_000], PutOptions::default()).unwrap();
                store.vacuum(&VacuumQuery { thread: Some("opener".into()), keep: Some(2), ..VacuumQuery::default() }).unwrap();
                if number % 4 == 0 {
                    let to = dir2.with_file_name(format!("backup-{number}"));
                    if unless_busy(store.backup(&to)) {
                        assert!(open(&to).verify().unwrap().is_empty());
                    }
                    std::fs::remove_dir_all(to).unwrap();
                }
                if number % 5 == 0 {
                    unless_busy(store.compact());
                }
                assert!(store.recovery().damage.is_empty());
            }
        });
        let workers: Vec<_> = (0..4)
            .map(|worker| {
                let store = if worker % 2 == 0 { &one } else { &two };
                scope.spawn(move || work(store, worker, seed, until))
            })
            .collect();
        let ended: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        done.store(true, Relaxed);
        assert!(ended.iter().all(Result::is_ok), "seed {seed}");
    });
    one.sync().unwrap();
    one.compact().unwrap();
    for store in [&one, &two] {
        store.threads().unwrap();
        index_is_derived(store, &scratch.dir());
        assert!(store.verify().unwrap().is_empty());
    }
}

#[test]
fn everything_at_once() {
    let first = std::env::var("TAFFRAIL_SEED").ok().and_then(|it| it.parse().ok()).unwrap_or(1);
    let count = std::env::var("TAFFRAIL_SEEDS").ok().and_then(|it| it.parse().ok()).unwrap_or(1);
    for seed in first..first + count {
        round(seed, Duration::from_secs(5));
    }
}
