//! What a chain of deltas costs in memory, and how long the end of the longest one takes to read.

use std::path::Path;
use std::time::Instant;

use taffrail_benches::steps::{Ours, Steps, Way};
use taffrail_benches::{Durability, Outcome, traces};

use crate::table::{Summary, Wanted, figure, median};
use crate::{Settings, heap};

/// What a put may take beside two states: its table and its bookkeeping.
const PUT_BYTES: f64 = 3.0 * 1024.0 * 1024.0;
const HISTORY: usize = 50;

/// Heap at its highest, in sizes of the newest state of trace A: of a get, of a history, of a put.
pub fn memory(parent: &Path, summary: &mut Summary) -> Outcome<()> {
    let trace = traces::make("A")?;
    let state = trace.last() as f64;
    let scratch = tempfile::tempdir_in(parent)?;
    let Some((last_two, before)) = trace.states.len().checked_sub(2).map(|at| (&trace.states[at..], &trace.states[..at])) else {
        return Ok(());
    };
    let mut ours = Ours::open(scratch.path(), Way::usual(Durability::Buffered))?;
    before.iter().try_for_each(|state| ours.put(state))?;
    drop(ours);

    // By a fresh handle, so that all it holds is counted: the first put brings the chain into its cache.
    heap::count_from_here();
    let mut ours = Ours::open(scratch.path(), Way::usual(Durability::Buffered))?;
    ours.put(&last_two[0])?;
    let held = heap::held() as f64;
    heap::take_peak();
    ours.put(&last_two[1])?;
    let peak = heap::take_peak() as f64;
    heap::stop_counting();
    drop(ours);
    let allowed = 2.0 * state + PUT_BYTES;
    let beside = format!("above what was held before: {} states; held before: {}", figure((peak - held) / state), figure(held / state));
    summary.add("A: heap of a put and its cache / (2 states + 3 MiB)", peak / allowed, Wanted::AtMost(1.0), &beside);

    let ours = Ours::open(scratch.path(), Way::uncached())?;
    let newest = trace.states.len() - 1;
    // What a state read holds: nothing where it lies in a mapped file.
    let mut output = 0;
    heap::count_from_here();
    ours.with(newest, |_| output = heap::held())?;
    let peak = heap::take_peak();
    heap::stop_counting();
    let output = output.min(trace.last() as i64);
    let beside = format!("output {} states", figure(output as f64 / state));
    summary.add("A: heap of a get beside its output, in states", (peak - output).max(0) as f64 / state, Wanted::AtMost(3.0), &beside);

    heap::count_from_here();
    ours.newest_first(HISTORY, |_| ())?;
    let peak = heap::take_peak();
    heap::stop_counting();
    summary.add("A: heap of a history(50) beside its item, in states", (peak - output).max(0) as f64 / state, Wanted::AtMost(3.0), &beside);
    Ok(())
}

/// The newest of a chain of 64 on a keyframe of 1.5 MB, nothing decoded in memory.
pub fn long_chain(settings: &Settings, parent: &Path, summary: &mut Summary) -> Outcome<()> {
    let states = traces::chain();
    let scratch = tempfile::tempdir_in(parent)?;
    let mut ours = Ours::open(scratch.path(), Way::usual(Durability::Buffered))?;
    states.iter().try_for_each(|state| ours.put(state))?;
    drop(ours);
    let mut ours = Ours::open(scratch.path(), Way::uncached())?;
    let mut millis = Vec::new();
    for _ in 0..=settings.rounds() * 10 {
        let start = Instant::now();
        std::hint::black_box(ours.load(states.len() - 1)?);
        millis.push(start.elapsed().as_secs_f64() * 1e3);
    }
    let beside = format!("chain of {}, {} KiB", ours.store.stats()?.longest_chain, states.last().map_or(0, Vec::len) >> 10);
    // The first read maps the file.
    summary.add("ms to read the end of a chain of 64", median(millis[1..].iter().copied()), Wanted::AtMost(0.5), &beside);
    Ok(())
}
