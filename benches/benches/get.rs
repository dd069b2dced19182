//! `get` of the newest state and `history(20)`, 4 KiB to 1 MiB, warm, for each store.
//!
//! One iteration reads one state (or 20) through, thread after thread.

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use taffrail_benches::load::{fill, thread_name};
use taffrail_benches::{Durability, Kind, Room, device};

const KINDS: [Kind; 5] = [Kind::Ours, Kind::Bare(Room::Grown), Kind::Tuned, Kind::Windlass, Kind::Lmdb];
const THREADS: usize = 4;
const DEPTH: usize = 24;
const PAGE: usize = 20;

fn bench(criterion: &mut Criterion, bytes: usize) {
    let threads: Vec<String> = (0..THREADS).map(thread_name).collect();
    let places = KINDS.map(|kind| {
        let scratch = device::scratch(None).expect("a directory on a disk");
        let place = kind.open(scratch.path(), Durability::Buffered).expect("an open store");
        fill(&*place, THREADS, DEPTH, bytes).expect("puts");
        (kind, place, scratch)
    });
    for (what, states) in [("get", 1), ("history(20)", PAGE)] {
        let mut group = criterion.benchmark_group(format!("{what}, {} KiB", bytes >> 10));
        group.throughput(Throughput::Bytes((bytes * states) as u64));
        for (kind, place, _scratch) in &places {
            let mut worker = place.worker().expect("a worker");
            let mut turn = threads.iter().cycle();
            group.bench_function(BenchmarkId::from_parameter(kind.name()), |bencher| {
                bencher.iter(|| {
                    let thread = turn.next().map_or("", String::as_str);
                    if states == 1 { worker.get(thread).expect("a state") } else { worker.history(thread, states).expect("states") }
                });
            });
        }
        group.finish();
    }
}

fn gets(criterion: &mut Criterion) {
    for bytes in [4 << 10, 64 << 10, 1 << 20] {
        bench(criterion, bytes);
    }
}

fn short() -> Criterion {
    Criterion::default().sample_size(10).warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_millis(500))
}

criterion_group!(name = benches; config = short(); targets = gets);
criterion_main!(benches);
