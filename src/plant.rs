//! Faults that are planted to see them caught.
//!
//! Only a build with `--cfg taffrail_plants` has them, and of those the one that `TAFFRAIL_PLANT` names. In
//! any other `planted!` is `false`. `tests/plants.sh` plants one after the other; DESIGN.md, section 17,
//! lists them.

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
