//! One measurement: one store, one workload, in a process of its own that prints what it saw as JSON.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use taffrail_benches::device::{Device, settle, warm_memory};
use taffrail_benches::load::thread_name;
use taffrail_benches::{Outcome, Place, touch};

use crate::peer::Peer;
use crate::work::Work;

const MEMORY_BYTES: usize = 256 << 20;

/// What a store did with a workload.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    pub puts: u64,
    /// All states together, whole.
    pub state_bytes: u64,
    /// The time within puts; of several workers, of the one that waited longest.
    pub seconds: f64,
    /// The median put, and the one that 1 % are slower than.
    pub p50_micros: f64,
    pub p99_micros: f64,
    /// What the device was asked until all was closed and the file system synced; by everybody.
    pub flushes: u64,
    pub device_bytes: u64,
    /// What the closed files take up on the disk.
    pub disk_bytes: u64,
    /// The most memory held while putting beyond what was held before opening, mapped files too.
    pub peak_bytes: u64,
}

/// What opening a closed store took, in a process that has not opened it before.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Opened {
    /// Opening, and one state read through.
    pub micros: f64,
}

/// Carries out the workload in an empty directory.
pub fn run(peer: &Peer, work: &Work, dir: &Path) -> Outcome<Run> {
    warm_memory(MEMORY_BYTES);
    let device = Device::of(dir)?;
    settle(dir)?;
    let (counts, held) = (device.counts()?, memory("VmRSS")?);
    let place = peer.open(dir, work.keep)?;
    // Resets the highest mark, which warming has raised.
    fs::write("/proc/self/clear_refs", "5")?;
    let store = &*place;
    let done: Outcome<Vec<Puts>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..work.workers).map(|worker| scope.spawn(move || puts(store, work, worker))).collect();
        workers.into_iter().map(|worker| worker.join().unwrap_or_else(|_| Err("a worker panicked".into()))).collect()
    });
    let done = done?;
    let (flushes, peak) = (device.counts()?.flushes, memory("VmHWM")?);
    drop(place);
    settle(dir)?;
    let seconds = done.iter().map(|puts| puts.waits.iter().sum::<Duration>().as_secs_f64()).fold(0.0, f64::max);
    let state_bytes = done.iter().map(|puts| puts.state_bytes).sum();
    let mut waits: Vec<Duration> = done.into_iter().flat_map(|puts| puts.waits).collect();
    waits.sort_unstable();
    let micros = |share: usize| waits.get(waits.len() * share / 100).map_or(0.0, |wait| wait.as_secs_f64() * 1e6);
    Ok(Run {
        puts: waits.len() as u64,
        state_bytes,
        seconds,
        p50_micros: micros(50),
        p99_micros: micros(99),
        flushes: flushes - counts.flushes,
        device_bytes: device.counts()?.bytes - counts.bytes,
        disk_bytes: disk_bytes(dir)?,
        peak_bytes: peak.saturating_sub(held),
    })
}

/// What one worker has put.
#[derive(Default)]
struct Puts {
    waits: Vec<Duration>,
    state_bytes: u64,
}

fn puts(place: &dyn Place, work: &Work, worker: usize) -> Outcome<Puts> {
    let (mut user, mut done) = (place.worker()?, Puts::default());
    work.each(worker, |thread, state| {
        tidy_allocator();
        let start = Instant::now();
        user.put(thread, state)?;
        done.waits.push(start.elapsed());
        done.state_bytes += state.len() as u64;
        Ok(())
    })?;
    Ok(done)
}

/// Has the allocator gather up what making the state has left in small pieces, which it would do at the
/// next larger request: in the store's time.
fn tidy_allocator() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(64 << 10)));
}

/// Opens what [`run`] has left, and reads a state, so that nobody opens by putting off the work.
pub fn open(peer: &Peer, work: &Work, dir: &Path) -> Outcome<Opened> {
    let start = Instant::now();
    let place = peer.open(dir, work.keep)?;
    let read = place.worker()?.get(&thread_name(0))?;
    let micros = start.elapsed().as_secs_f64() * 1e6;
    // The states are the same in every process: a store that lost one is no peer.
    let mut newest = 0;
    work.each(0, |thread, state| {
        if thread == thread_name(0) {
            newest = touch(state);
        }
        Ok(())
    })?;
    if read != newest {
        return Err(format!("{} answers another state than the newest", peer.name).into());
    }
    Ok(Opened { micros })
}

/// The bytes of states that taffrail keeps after a compaction by hand.
pub fn compacted(work: &Work, dir: &Path) -> Outcome<u64> {
    let store = taffrail::Store::options().max_history(work.keep).open(dir.join("store"))?;
    store.compact()?;
    Ok(store.stats()?.stored_bytes)
}

/// A line of /proc/self/status, in bytes.
fn memory(what: &str) -> Outcome<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(what)?.strip_prefix(':')).ok_or("the kernel tells no memory")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? << 10)
}

fn disk_bytes(dir: &Path) -> Outcome<u64> {
    const BLOCK_BYTES: u64 = 512;
    let mut sum = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let about = entry.metadata()?;
        sum += if about.is_dir() { disk_bytes(&entry.path())? } else { about.blocks() * BLOCK_BYTES };
    }
    Ok(sum)
}
