//! The matrix of damage: whatever happens to any one file of a store with one of everything, nothing that
//! is read is wrong, what it did not strike is there, what it struck is told, and repair keeps the rest.

use std::time::Instant;

use crate::changes::{self, Case, Change};
use crate::rounds;
use crate::sample::Sample;

#[test]
fn any_bit_flipped() {
    let sample = Sample::new();
    rounds::run(&sample, &changes::flips(&sample), 1200);
}

#[test]
fn any_file_cut_filled_or_torn() {
    let sample = Sample::new();
    rounds::run(&sample, &changes::cuts(&sample), 1000);
}

#[test]
fn ranges_repeated_moved_and_exchanged() {
    let sample = Sample::new();
    rounds::run(&sample, &changes::ranges(&sample), 500);
}

#[test]
fn any_file_replaced_as_a_whole() {
    let sample = Sample::new();
    rounds::run(&sample, &changes::replaced(&sample), usize::MAX);
}

/// `TAFFRAIL_DAMAGE_RANDOM` says how many, `TAFFRAIL_DAMAGE_SEED` from which seed on.
#[test]
fn a_few_bytes_anywhere() {
    let sample = Sample::new();
    let first = rounds::number("TAFFRAIL_DAMAGE_SEED").map_or_else(|| uuid::Uuid::new_v4().as_u64_pair().0 >> 16, |seed| seed as u64);
    let count = rounds::number("TAFFRAIL_DAMAGE_RANDOM").unwrap_or(500);
    println!("TAFFRAIL_DAMAGE_SEED={first} TAFFRAIL_DAMAGE_RANDOM={count}");
    let files: Vec<&String> = sample.whole.iter().filter(|(_, whole)| !whole.is_empty()).map(|(file, _)| file).collect();
    let start = Instant::now();
    rounds::each(&sample, count, (0..count).collect(), |number| {
        let seed = first + number as u64;
        Case { file: files[seed as usize % files.len()].clone(), change: Change::Random { seed } }
    });
    println!("{:.0} a second", count as f64 / start.elapsed().as_secs_f64());
}
