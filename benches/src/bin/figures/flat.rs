//! Whether a put and a get cost the same however much is kept: 1,000 threads, asked at random, with
//! 1,000 to 1,000,000 checkpoints in them.

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use taffrail::{Batch, Checkpointer, Durability, PutOptions, Store, TypeTag};
use taffrail_benches::load::thread_name;
use taffrail_benches::noise::Noise;
use taffrail_benches::{Outcome, touch};

use crate::Settings;
use crate::table::{self, Summary, Wanted, spread};

const THREADS: usize = 1000;
const STATE_BYTES: usize = 512;
const ASKED: usize = 20_000;

/// Nanoseconds of a get and of a buffered put, each the mean of many.
fn one_round(store: &Store, names: &[String], chance: &mut u64, noise: &mut Noise) -> Outcome<[f64; 2]> {
    let mut next = || {
        *chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        &names[(*chance >> 33) as usize % names.len()]
    };
    let start = Instant::now();
    for _ in 0..ASKED {
        let head = store.get_bytes(next())?.ok_or("a thread is missing")?;
        black_box(touch(&head.state));
    }
    let get = start.elapsed().as_nanos() as f64 / ASKED as f64;
    let puts = ASKED / 20;
    let start = Instant::now();
    for _ in 0..puts {
        store.put_bytes(next(), TypeTag::BYTES, noise.next(STATE_BYTES), PutOptions::default())?;
    }
    Ok([get, start.elapsed().as_nanos() as f64 / puts as f64])
}

/// Stores of a thousand and of a million checkpoints beside each other.
pub fn flat(settings: &Settings, parent: &Path, summary: &mut Summary) -> Outcome<()> {
    let depths: &[usize] = if settings.quick { &[1, 10, 100] } else { &[1, 10, 100, 1000] };
    let names: Vec<String> = (0..THREADS).map(thread_name).collect();
    let scratch = tempfile::tempdir_in(parent)?;
    let mut noise = Noise::new(5);
    let mut stores = Vec::new();
    for depth in depths {
        let dir = scratch.path().join(depth.to_string());
        let store = Store::options().max_history(None).durability(Durability::Buffered).open(dir)?;
        for _ in 0..*depth {
            for names in names.chunks(100) {
                let state = noise.next(STATE_BYTES);
                let mut batch = Batch::new();
                for name in names {
                    batch.put(name, TypeTag::BYTES, state, PutOptions::default());
                }
                store.commit(&batch)?;
            }
        }
        store.sync()?;
        stores.push(store);
    }
    let mut nanos = vec![[Vec::new(), Vec::new()]; depths.len()];
    let mut chance = 11;
    for _ in 0..settings.rounds() * 2 {
        for (store, nanos) in stores.iter().zip(&mut nanos) {
            let round = one_round(store, &names, &mut chance, &mut noise)?;
            nanos[0].push(round[0]);
            nanos[1].push(round[1]);
        }
    }
    let rows: Vec<Vec<String>> =
        depths.iter().zip(&nanos).map(|(depth, nanos)| vec![(depth * THREADS).to_string(), spread(&nanos[0]), spread(&nanos[1])]).collect();
    table::print("a get and a buffered put of 512 B, 1,000 threads at random, ns", &["checkpoints", "get", "put"], &rows);
    let (Some(first), Some(last)) = (nanos.first(), nanos.last()) else { return Ok(()) };
    for (at, what) in ["get", "put"].iter().enumerate() {
        let count = depths.last().copied().unwrap_or(0) * THREADS;
        summary.add(
            format!("{what} with {count} checkpoints / with {THREADS}"),
            table::ratio(&last[at], &first[at]),
            Wanted::AtMost(1.25),
            "-",
        );
    }
    Ok(())
}
