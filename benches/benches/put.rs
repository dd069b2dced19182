//! `put`, durable and buffered, 4 KiB to 1 MiB, by one worker and by eight, for each store.
//!
//! One iteration is one put; with eight workers they share the iterations. The windlass way and the
//! grown bare log are run once for each size, durable, by one worker.

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use taffrail_benches::load::{Writer, put_together};
use taffrail_benches::{Durability, Kind, Outcome, Room, device};

const KINDS: [Kind; 4] = [Kind::Ours, Kind::Bare(Room::Steps), Kind::Tuned, Kind::Lmdb];
const ALONE: [Kind; 2] = [Kind::Windlass, Kind::Bare(Room::Grown)];

fn bench(criterion: &mut Criterion, durability: Durability, bytes: usize, workers: usize) {
    let kept = if durability == Durability::Sync { "durable" } else { "buffered" };
    let mut group = criterion.benchmark_group(format!("put {kept}, {} KiB, {workers} workers", bytes >> 10));
    group.throughput(Throughput::Bytes(bytes as u64));
    let alone = if durability == Durability::Sync && workers == 1 { &ALONE[..] } else { &[] };
    for kind in KINDS.iter().chain(alone) {
        let scratch = device::scratch(None).expect("a directory on a disk");
        let place = kind.open(scratch.path(), durability).expect("an open store");
        let writers: Outcome<Vec<_>> = (0..workers).map(|number| Writer::new(&*place, number)).collect();
        let mut writers = writers.expect("workers");
        device::settle(scratch.path()).expect("a synced file system");
        group.bench_function(BenchmarkId::from_parameter(kind.name()), |bencher| {
            bencher.iter_custom(|iterations| {
                let each = iterations.div_ceil(workers as u64);
                let took = put_together(&mut writers, bytes, each).expect("puts");
                took.mul_f64(iterations as f64 / (each * workers as u64) as f64)
            });
        });
    }
    group.finish();
}

fn puts(criterion: &mut Criterion) {
    device::warm_memory(1 << 30);
    for durability in [Durability::Sync, Durability::Buffered] {
        for bytes in [4 << 10, 64 << 10, 1 << 20] {
            for workers in [1, 8] {
                bench(criterion, durability, bytes, workers);
            }
        }
    }
}

fn short() -> Criterion {
    Criterion::default().sample_size(10).warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_millis(500))
}

criterion_group!(name = benches; config = short(); targets = puts);
criterion_main!(benches);
