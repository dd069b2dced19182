//! Opening a store of 100,000 checkpoints, and what its index costs in memory.

use std::path::Path;
use std::time::Instant;

use taffrail_benches::load::{self, thread_name};
use taffrail_benches::noise::Noise;
use taffrail_benches::{Durability, Kind, Outcome};

use crate::table::{self, Summary, Wanted, figure};
use crate::{Settings, heap};

const THREADS: usize = 1000;
const DEPTH: usize = 100;
const STATE_BYTES: usize = 1 << 10;

/// Open and first get, the files in the cache.
pub fn open(settings: &Settings, parent: &Path) -> Outcome<()> {
    let scratch = tempfile::tempdir_in(parent)?;
    let kinds = settings.kinds(&[Kind::Ours, Kind::Tuned, Kind::Lmdb]);
    let mut millis: Vec<Vec<f64>> = vec![Vec::new(); kinds.len()];
    let dirs = kinds.iter().map(|kind| Ok(scratch.path().join(kind.name()))).collect::<Outcome<Vec<_>>>()?;
    for (kind, dir) in kinds.iter().zip(&dirs) {
        std::fs::create_dir(dir)?;
        load::fill(&*kind.open(dir, Durability::Buffered)?, THREADS, DEPTH, STATE_BYTES)?;
    }
    for round in 0..settings.rounds() {
        for ((kind, dir), millis) in kinds.iter().zip(&dirs).zip(&mut millis) {
            let start = Instant::now();
            let place = kind.open(dir, Durability::Sync)?;
            let mut worker = place.worker()?;
            std::hint::black_box(worker.get(&thread_name(round))?);
            millis.push(start.elapsed().as_secs_f64() * 1e3);
        }
    }
    let rows: Vec<Vec<String>> = kinds
        .iter()
        .zip(&millis)
        .map(|(kind, millis)| vec![kind.name().to_owned(), figure(table::median(millis.iter().copied())), figure(millis[0])])
        .collect();
    table::print("open and first get, 100,000 checkpoints of 1 KiB", &["store", "ms", "the first time, ms"], &rows);
    Ok(())
}

/// Heap held for each checkpoint, thread names left out: as put, and as read back by an open.
pub fn index(parent: &Path, summary: &mut Summary) -> Outcome<()> {
    let scratch = tempfile::tempdir_in(parent)?;
    let names: Vec<String> = (0..THREADS).map(thread_name).collect();
    let name_bytes: usize = names.iter().map(String::len).sum();
    let each = |held: i64| (held as f64 - name_bytes as f64) / (THREADS * DEPTH) as f64;
    let mut noise = Noise::new(0);
    heap::count_from_here();
    let place = Kind::Ours.open(scratch.path(), Durability::Buffered)?;
    let mut worker = place.worker()?;
    for _ in 0..DEPTH {
        for name in &names {
            worker.put(name, noise.next(64))?;
        }
    }
    let as_put = each(heap::held());
    drop((worker, place));
    let left = heap::held();
    let place = Kind::Ours.open(scratch.path(), Durability::Buffered)?;
    let as_read = each(heap::held() - left);
    heap::stop_counting();
    drop(place);
    summary.add("index bytes per checkpoint, as put", as_put, Wanted::AtMost(64.0), "1,000 threads x 100, fresh ids");
    summary.add("index bytes per checkpoint, reopened", as_read, Wanted::AtMost(64.0), "the same");
    Ok(())
}
