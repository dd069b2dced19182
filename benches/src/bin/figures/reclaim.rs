//! What reclaiming space costs: how large the directory gets, what compaction writes, and what a put
//! beside it waits.

use std::path::Path;
use std::time::Instant;

use taffrail::{Batch, Checkpointer, Durability, PutOptions, Store, TypeTag};
use taffrail_benches::load::thread_name;
use taffrail_benches::noise::Noise;
use taffrail_benches::{Outcome, device};

use crate::Settings;
use crate::table::{self, Summary, Wanted, figure, spread};

const STATE_BYTES: usize = 4 << 10;
const KEPT: usize = 10;
const SEGMENT_BYTES: u64 = 64 << 20;

/// In which order the threads are put to.
#[derive(Clone, Copy)]
enum Order {
    InTurn,
    OneAfterTheOther,
    Random,
}

impl Order {
    const ALL: [(Order, &str); 3] =
        [(Order::InTurn, "in turn"), (Order::OneAfterTheOther, "one after the other"), (Order::Random, "at random")];

    fn thread(self, number: usize, threads: usize, depth: usize, chance: &mut u64) -> usize {
        match self {
            Order::InTurn => number % threads,
            Order::OneAfterTheOther => number / depth,
            Order::Random => {
                *chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (*chance >> 33) as usize % threads
            }
        }
    }
}

/// What this process has asked the system to write so far, in bytes.
fn written() -> Outcome<u64> {
    let counters = std::fs::read_to_string("/proc/self/io")?;
    let line = counters.lines().find_map(|line| line.strip_prefix("wchar: ")).ok_or("the system does not count writes")?;
    Ok(line.parse()?)
}

/// The zeros behind the segments' frames: room that is made in advance.
fn preallocated(dir: &Path, used: u64) -> Outcome<u64> {
    let mut files = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.path().extension().is_some_and(|extension| extension == "seg") {
            files += entry.metadata()?.len();
        }
    }
    Ok(files.saturating_sub(used))
}

/// 1,000 threads of 100 states of 4 KiB, of which 10 are kept: the directory's size all the while, and
/// what compaction writes beside the puts.
pub fn space(settings: &Settings, parent: &Path, summary: &mut Summary) -> Outcome<()> {
    let (threads, depth) = if settings.quick { (250, 100) } else { (1000, 100) };
    let names: Vec<String> = (0..threads).map(thread_name).collect();
    let mut rows = Vec::new();
    for (order, name) in Order::ALL {
        let mut bytes = [0.0; 2];
        let mut worst = 0.0_f64;
        let mut ends = [0; 2];
        for (round, reclaims) in [false, true].into_iter().enumerate() {
            let scratch = tempfile::tempdir_in(parent)?;
            let dir = scratch.path().join("store");
            let options = Store::options().max_history(KEPT).auto_compaction(reclaims).durability(Durability::Buffered);
            let store = options.segment_bytes(SEGMENT_BYTES).open(&dir)?;
            let (mut noise, mut chance) = (Noise::new(1), 7);
            let before = written()?;
            for number in 0..threads * depth {
                let thread = &names[order.thread(number, threads, depth, &mut chance)];
                store.put_bytes(thread, TypeTag::BYTES, noise.next(STATE_BYTES), PutOptions::default())?;
                if reclaims && number % 200 == 199 {
                    let stats = store.stats()?;
                    let room = preallocated(&dir, stats.stored_bytes + stats.dead_bytes)?;
                    let allowed = 2 * stats.stored_bytes + 2 * SEGMENT_BYTES + room;
                    worst = worst.max(device::bytes_of(&dir)? as f64 / allowed as f64);
                }
            }
            ends[round] = device::bytes_of(&dir)?;
            store.close()?;
            bytes[round] = (written()? - before) as f64;
        }
        let put = (threads * depth * STATE_BYTES) as f64;
        let compaction = (bytes[1] - bytes[0]).max(0.0) / put;
        rows.push(vec![
            name.to_owned(),
            figure(put / 1e6),
            figure(ends[0] as f64 / 1e6),
            figure(ends[1] as f64 / 1e6),
            figure(worst),
            figure(compaction),
        ]);
        summary.add(format!("directory / (2 x live + 2 segments + made in advance), {name}, worst"), worst, Wanted::AtMost(1.0), "-");
        summary.add(format!("bytes compaction wrote / bytes put, {name}"), compaction, Wanted::AtMost(1.5), "-");
    }
    let head = ["threads are put to", "MB put", "MB at the end without compaction", "with it", "worst size / allowed", "written / put"];
    table::print("reclaiming space: 4 KiB, the newest 10 of each thread are kept", &head, &rows);
    Ok(())
}

/// A store of some segments, each half dead.
fn half_dead(dir: &Path, megabytes: usize) -> Outcome<Store> {
    let options = Store::options().max_history(None).auto_compaction(false).durability(Durability::Sync);
    let store = options.segment_bytes(SEGMENT_BYTES).open(dir)?;
    let mut noise = Noise::new(2);
    let states: Vec<Vec<u8>> = (0..64).map(|_| noise.next(STATE_BYTES).to_vec()).collect();
    for _ in 0..megabytes * 4 {
        let mut batch = Batch::new();
        for (number, state) in states.iter().enumerate() {
            let options = PutOptions::default().durability(Durability::Buffered);
            batch.put(if number % 2 == 0 { "kept" } else { "dropped" }, TypeTag::BYTES, state, options);
        }
        store.commit(&batch)?;
    }
    store.sync()?;
    store.delete("dropped")?;
    Ok(store)
}

/// Durable puts of 4 KiB one after the other for as long as `go_on` says: nanoseconds each, sorted.
fn puts(store: &Store, mut go_on: impl FnMut(usize) -> bool) -> Outcome<Vec<u64>> {
    let mut noise = Noise::new(3);
    let mut nanos = Vec::new();
    while go_on(nanos.len()) {
        let state = noise.next(STATE_BYTES);
        let start = Instant::now();
        store.put_bytes("beside", TypeTag::BYTES, state, PutOptions::default())?;
        nanos.push(start.elapsed().as_nanos() as u64);
    }
    nanos.sort_unstable();
    Ok(nanos)
}

fn micros(sorted: &[u64], percent: usize) -> f64 {
    sorted.get(sorted.len() * percent / 100).map_or(f64::NAN, |nanos| *nanos as f64 / 1e3)
}

/// What a durable put takes while a compaction goes on, beside what it takes without one.
pub fn latency(settings: &Settings, parent: &Path, summary: &mut Summary) -> Outcome<()> {
    let megabytes = if settings.quick { 160 } else { 320 };
    let (mut quiet, mut beside) = ([const { Vec::new() }; 3], [const { Vec::new() }; 3]);
    let mut rates = Vec::new();
    for _ in 0..settings.rounds() {
        let scratch = tempfile::tempdir_in(parent)?;
        let store = half_dead(&scratch.path().join("store"), megabytes)?;
        device::settle(parent)?;
        let start = Instant::now();
        let (during, took) = std::thread::scope(|scope| -> Outcome<_> {
            let compacting = scope.spawn(|| store.compact());
            let during = puts(&store, |_| !compacting.is_finished())?;
            let done = compacting.join().map_err(|_| "the compaction panicked")??;
            Ok(((during, done), start.elapsed()))
        })?;
        let (during, done) = during;
        device::settle(parent)?;
        let without = puts(&store, |count| count < during.len())?;
        rates.push(done.bytes as f64 / 1e6 / took.as_secs_f64());
        for (at, percent) in [50, 99, 100].into_iter().enumerate() {
            let percent = |sorted: &[u64]| {
                if percent == 100 { sorted.last().map_or(f64::NAN, |nanos| *nanos as f64 / 1e3) } else { micros(sorted, percent) }
            };
            quiet[at].push(percent(&without));
            beside[at].push(percent(&during));
        }
    }
    let rows: Vec<Vec<String>> = ["p50", "p99", "longest"]
        .iter()
        .enumerate()
        .map(|(at, name)| {
            let ratio = table::ratio(&beside[at], &quiet[at]);
            vec![(*name).to_owned(), spread(&quiet[at]), spread(&beside[at]), figure(ratio)]
        })
        .collect();
    table::print("a durable put of 4 KiB, us", &["", "without compaction", "beside one", "ratio"], &rows);
    println!("\ngiven back: {} MB/s", spread(&rates));
    summary.add("put p99 while compacting / without", table::ratio(&beside[1], &quiet[1]), Wanted::AtMost(2.0), "-");
    Ok(())
}
