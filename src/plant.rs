//! Faults that are planted to see them caught, and pauses that let others come in between two steps.
//!
//! Only a build with `--cfg taffrail_plants` has them: of the faults the one that `TAFFRAIL_PLANT` names,
//! and pauses as often as `TAFFRAIL_HOLD_UP` says. In any other `planted!` is `false` and `hold_up` nothing.
//! `tests/plants.sh` plants one after the other; DESIGN.md, section 17, lists them.

/// Whether the fault of a name is planted.
#[cfg(taffrail_plants)]
macro_rules! planted {
    ($name:literal) => {
        $crate::plant::is_planted($name)
    };
}

#[cfg(not(taffrail_plants))]
macro_rules! planted {
    ($name:literal) => {
        false
    };
}

pub(crate) use planted;

#[cfg(taffrail_plants)]
pub(crate) fn is_planted(name: &str) -> bool {
    static PLANT: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    PLANT.get_or_init(|| std::env::var("TAFFRAIL_PLANT").ok()).as_deref() == Some(name)
}

/// Stands before each step that other processes can see.
#[cfg(not(taffrail_plants))]
#[inline(always)]
pub(crate) fn hold_up() {}

/// Holds the worker up once in `TAFFRAIL_HOLD_UP` steps, for a microsecond or for as long as others need for many
/// steps of theirs.
#[cfg(taffrail_plants)]
pub(crate) fn hold_up() {
    use std::cell::Cell;
    thread_local!(static CHANCE: Cell<u64> = Cell::new(uuid::Uuid::new_v4().as_u64_pair().0 | 1));
    static ONCE_IN: std::sync::OnceLock<Option<u64>> = std::sync::OnceLock::new();
    let Some(once_in) = ONCE_IN.get_or_init(|| std::env::var("TAFFRAIL_HOLD_UP").ok()?.parse().ok()) else { return };
    // A worker that ends has no chance any more.
    let next = CHANCE.try_with(|chance| {
        let mut state = chance.get();
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        chance.set(state);
        state >> 16
    });
    if let Ok(next) = next
        && next.is_multiple_of(*once_in)
    {
        std::thread::sleep(std::time::Duration::from_micros(1 << (next / once_in % 12)));
    }
}
