//! Chance that can be had again: one seed decides everything, and the environment may name it.
//!
//! `TAFFRAIL_STRESS_SEED` is the seed of the first round, each round after it has the next number;
//! so a round that failed is run alone by its seed and `TAFFRAIL_STRESS_ROUNDS=1`.

use std::ops::Range;
use std::time::{Duration, Instant};

/// A stream of numbers (splitmix64).
pub struct Chance(u64);

impl Chance {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// True once in so many times.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of these.
    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// A time below so many microseconds.
    pub fn micros(&mut self, end: u64) -> Duration {
        Duration::from_micros(self.below(end))
    }
}

/// The seeds of a test's rounds: as many as asked for, or up to `most` within `time`. If the test fails in a round, it
/// tells how to run that one again.
pub fn rounds(most: u64, time: Duration) -> Rounds {
    let asked: Option<u64> = number("TAFFRAIL_STRESS_ROUNDS");
    let first = number("TAFFRAIL_STRESS_SEED").unwrap_or_else(|| uuid::Uuid::new_v4().as_u64_pair().0 >> 16);
    let until = asked.is_none().then(|| Instant::now() + time);
    Rounds { seeds: first..first + asked.unwrap_or(most), first, until, now: None }
}

/// A test's rounds.
pub struct Rounds {
    seeds: Range<u64>,
    first: u64,
    until: Option<Instant>,
    now: Option<u64>,
}

impl Iterator for Rounds {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let is_late = self.now.is_some() && self.until.is_some_and(|until| Instant::now() >= until);
        self.now = self.seeds.next().filter(|_| !is_late);
        self.now
    }
}

impl Drop for Rounds {
    fn drop(&mut self) {
        if let (Some(seed), true) = (self.now, std::thread::panicking()) {
            println!("round {}: TAFFRAIL_STRESS_ROUNDS=1 TAFFRAIL_STRESS_SEED={seed}", seed - self.first);
        }
    }
}

/// A number that the environment may set.
pub fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}
