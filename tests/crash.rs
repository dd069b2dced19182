//! What crashes leave is opened with the real code, hundreds of thousands of times where that is asked for.
//!
//! `TAFFRAIL_CRASH=ci` and `TAFFRAIL_CRASH=soak` look at more; what a violation prints plays it again:
//! `TAFFRAIL_CRASH=ci TAFFRAIL_CRASH_SEED=S TAFFRAIL_CRASH_ONLY=N cargo test --test crash`. `TAFFRAIL_CRASH_AGAIN=1` crashes in
//! every opening once more, and not in one of some hundreds.

use std::time::Instant;

use taffrail::testing::crash::{Extent, faults, files, images};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is {text:?}, not a number")))
}

fn extent() -> Extent {
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    let seed = number("TAFFRAIL_CRASH_SEED").unwrap_or(1);
    let only = number("TAFFRAIL_CRASH_ONLY").map(|only| only as usize);
    let extent = Extent { steps: 2, one_in: [4, 1], points: 0, by_chance: [40, 10, 0], again_one_in: 500, seed, workers, only };
    let mut extent = match std::env::var("TAFFRAIL_CRASH").as_deref() {
        Ok("ci") => Extent { steps: 3, one_in: [2, 2500], points: 1, by_chance: [6000, 100, 10], again_one_in: 400, ..extent },
        Ok("soak") => Extent { steps: 3, one_in: [1, 25], points: 10, by_chance: [20_000, 600, 40], again_one_in: 100, ..extent },
        _ => extent,
    };
    if let Some(again) = number("TAFFRAIL_CRASH_AGAIN") {
        extent.again_one_in = again as usize;
    }
    extent
}

#[test]
fn what_a_crash_leaves_opens_to_what_was_acknowledged() {
    let start = Instant::now();
    let extent = extent();
    let counted = images(&extent, &|progress| println!("{progress:?}, {:?}", start.elapsed()));
    let distinct: usize = counted.distinct.values().sum();
    println!(
        "{} sequences, {} disks, {distinct} distinct, {:?}: {:?}",
        counted.sequences,
        counted.images,
        start.elapsed(),
        counted.distinct
    );
    let mode = std::env::var("TAFFRAIL_CRASH").unwrap_or_default();
    assert!(counted.violations.is_empty(), "TAFFRAIL_CRASH={mode}, {:#?}", counted.violations);
    if std::env::var_os("TAFFRAIL_CRASH").is_some() && extent.only.is_none() {
        assert!(distinct >= 100_000, "only {distinct} distinct disks");
        // There are not so many ways to make a store.
        let is_enough = |during: &str, distinct: usize| during == "Open" || distinct >= 5_000;
        let few: Vec<_> = counted.distinct.iter().filter(|(during, distinct)| !is_enough(during, **distinct)).collect();
        assert!(few.is_empty(), "fewer than 5,000 distinct disks: {few:?}");
    }
}

#[test]
fn a_call_that_fails_is_answered_with_what_is_true() {
    let start = Instant::now();
    let one_in = if std::env::var_os("TAFFRAIL_CRASH").is_some() { 1 } else { 23 };
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    let failed = faults(one_in, number("TAFFRAIL_FAULTS_ONLY").map(|only| only as usize), workers);
    println!("{} calls failed, {:?}: {:?}, {:?}", failed.runs, start.elapsed(), failed.calls, failed.answers);
    assert!(failed.violations.is_empty(), "{:#?}", failed.violations);
}

#[test]
fn a_place_of_files_is_whole_behind_every_crash_and_failing_call() {
    let start = Instant::now();
    let looked = files(if std::env::var_os("TAFFRAIL_CRASH").is_some() { 200 } else { 6 }, number("TAFFRAIL_CRASH_SEED").unwrap_or(1));
    println!("{} disks, {} calls failed, {:?}", looked.images, looked.failed, start.elapsed());
    assert!(looked.violations.is_empty(), "{:#?}", looked.violations);
}
