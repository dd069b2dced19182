//! Several writers and readers and one that compacts on one directory, killed and stopped at random moments, for rounds.
//!
//! A writer writes down outside the store what it is about to do and what was acknowledged; a reader
//! writes down the order it has seen. When all have ended the store is opened and held against that.

mod check;
mod compactor;
mod deleted;
mod failed;
mod forks;
mod journal;
mod killer;
mod opening;
mod reader;
mod round;
mod step;
mod writer;

use std::time::Duration;

pub use self::compactor::run as compactor;
use self::killer::Killed;
pub use self::reader::run as reader;
use self::round::Round;
pub use self::writer::run as writer;
use crate::chance;

#[test]
fn acknowledged_puts_of_several_processes_survive_kills_and_stops() {
    let mut total = check::Counted::default();
    for seed in chance::rounds(300, Duration::from_secs(70)) {
        let round = Round::new(seed);
        let killed = killer::run(&round);
        total += check::check(&round);
        total.killed += killed;
    }
    println!("{total:?}");
    // A round that is run again alone may be one in which little happens.
    if total.rounds >= 20 {
        assert!(total.acknowledged >= 20 * total.rounds, "hardly anything was tested: {total:?}");
        assert!(total.lives >= total.writers + total.rounds, "hardly anybody was killed: {total:?}");
        assert!(total.killed.opening > 0, "nobody was killed while opening: {total:?}");
        let Killed { recovering, moments, .. } = total.killed;
        assert!(10 * recovering >= moments || total.rounds < 100, "hardly anybody was killed while recovering: {total:?}");
    }
}
