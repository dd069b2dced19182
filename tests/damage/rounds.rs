//! How much of the matrix is done: a sample of its cases, another one each time, or all of them.
//!
//! `TAFFRAIL_DAMAGE=all` asks for all, which is for a release build. A case that fails names itself, and
//! is done alone by `TAFFRAIL_DAMAGE_CASE=NUMBER` with the name of its test; a random one by
//! `TAFFRAIL_DAMAGE_RANDOM=1` and `TAFFRAIL_DAMAGE_SEED`, which is the seed that it names.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use crate::allocations;
use crate::changes::Case;
use crate::oracle::{Depth, Ground};
use crate::sample::Sample;

/// Of so many cases one is also repaired, and opened to be written to.
const ONCE_IN: usize = 16;

/// Does all the cases, or `sampled` of them, with as many workers as there are processors.
pub fn run(sample: &Sample, cases: &[Case], sampled: usize) {
    each(sample, cases.len(), chosen(cases.len(), sampled), |number| cases[number].clone());
}

/// Does those that were chosen of so many.
pub fn each(sample: &Sample, all: usize, chosen: Vec<usize>, case: impl Fn(usize) -> Case + Sync) {
    let next = AtomicUsize::new(0);
    let lost = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                let ground = Ground::new(sample);
                while let Some(&number) = chosen.get(next.fetch_add(1, Relaxed)) {
                    let case = case(number);
                    let depth = if chosen.len() == 1 || number % ONCE_IN == 0 { Depth::All } else { Depth::Read };
                    let context = format!("TAFFRAIL_DAMAGE_CASE={number}: {case:?}");
                    lost.fetch_add(ground.judge(&case.file, &case.content(sample), depth, &context), Relaxed);
                }
            });
        }
    });
    println!("{} of {} cases, which cost {} checkpoints", chosen.len(), all, lost.into_inner());
    allocations::stayed_small();
}

fn chosen(all: usize, sampled: usize) -> Vec<usize> {
    if let Some(alone) = number("TAFFRAIL_DAMAGE_CASE") {
        return vec![alone];
    }
    if std::env::var("TAFFRAIL_DAMAGE").is_ok_and(|asked| asked == "all") || all <= sampled {
        return (0..all).collect();
    }
    let first = uuid::Uuid::new_v4().as_u128() as usize % (all / sampled);
    (first..all).step_by(all / sampled).collect()
}

/// A number that the environment may set.
pub fn number(name: &str) -> Option<usize> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}
