//! `open` and the first get of a store with 1,000 and with 100,000 checkpoints, files in the cache.

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use taffrail_benches::load::{fill, thread_name};
use taffrail_benches::{Durability, Kind, device};

const KINDS: [Kind; 3] = [Kind::Ours, Kind::Tuned, Kind::Lmdb];
const STATE_BYTES: usize = 1 << 10;

fn opens(criterion: &mut Criterion) {
    for (threads, depth) in [(100, 10), (1000, 100)] {
        let mut group = criterion.benchmark_group(format!("open, {} checkpoints", threads * depth));
        for kind in KINDS {
            let scratch = device::scratch(None).expect("a directory on a disk");
            let place = kind.open(scratch.path(), Durability::Buffered).expect("an open store");
            fill(&*place, threads, depth, STATE_BYTES).expect("puts");
            drop(place);
            group.bench_function(BenchmarkId::from_parameter(kind.name()), |bencher| {
                bencher.iter_with_large_drop(|| {
                    let place = kind.open(scratch.path(), Durability::Sync).expect("an open store");
                    let mut worker = place.worker().expect("a worker");
                    std::hint::black_box(worker.get(&thread_name(0)).expect("a state"));
                });
            });
        }
        group.finish();
    }
}

fn short() -> Criterion {
    Criterion::default().sample_size(10).warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_millis(500))
}

criterion_group!(name = benches; config = short(); targets = opens);
criterion_main!(benches);
