//! Watching what other processes put: by a handle that writes, and by one that only reads.
//!
//! `told`: a crowd of writers and what watchers tell of it. `alone`: one writer that does as it is
//! told, is killed, comes late. `idle`: what waiting costs, and how soon news are told.

mod alone;
mod idle;
mod told;

use std::time::Duration;

use taffrail::{CheckpointInfo, Options, Store, Watch};

pub use self::alone::putter;
pub use self::idle::{idler, ticker};
pub use self::told::writer;
use crate::child::PATIENCE;

/// Without compaction: it reclaims what was replaced, and a watch that lags behind it does not tell that.
fn options() -> Options {
    Store::options().segment_bytes(64 * 1024).busy_timeout(PATIENCE).auto_compaction(false)
}

/// The ids of the checkpoints that it tells until this one, which must come.
fn ids_until(watch: &mut Watch, last: &str) -> Vec<String> {
    until(watch, last).iter().map(|info| info.id.to_string()).collect()
}

fn until(watch: &mut Watch, last: &str) -> Vec<CheckpointInfo> {
    let mut told: Vec<CheckpointInfo> = Vec::new();
    while told.last().is_none_or(|info| info.id.as_str() != last) {
        let next = watch.wait(PATIENCE).unwrap();
        told.push(next.unwrap_or_else(|| panic!("{last} is not told, but {} others are", told.len())));
    }
    told
}

/// Asserts that it has no more to tell.
fn says_nothing(watch: &mut Watch) {
    let more = watch.wait(Duration::from_millis(30)).unwrap();
    assert!(more.is_none(), "told what it should not: {more:?}");
}
