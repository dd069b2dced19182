//! What a store tells of its own work, to whoever listens by the crate `tracing` (feature of that name).
//!
//! Events alone, of the target `taffrail`: what was done, how large it was, how long it took in microseconds.
//! Nothing of a state, a metadata value or a key is ever in one. Without the feature every call here is empty.

#[cfg(feature = "tracing")]
pub(crate) use self::on::*;

#[cfg(not(feature = "tracing"))]
pub(crate) use self::off::*;

#[cfg(feature = "tracing")]
mod on {
    use std::path::Path;
    use std::time::{Duration, Instant};

    use crate::batch::{Batch, Operation};
    use crate::report::Recovery;

    /// When something began.
    pub(crate) struct Began(Instant);

    pub(crate) fn began() -> Began {
        Began(Instant::now())
    }

    impl Began {
        fn took_us(&self) -> u64 {
            micros(self.0.elapsed())
        }
    }

    fn micros(took: Duration) -> u64 {
        u64::try_from(took.as_micros()).unwrap_or(u64::MAX)
    }

    pub(crate) fn opened(dir: &Path, read_only: bool, report: &Recovery, began: &Began) {
        let (frames, took_us) = (report.frames, began.took_us());
        tracing::info!(target: "taffrail", dir = %dir.display(), read_only, frames, took_us, "opened");
    }

    pub(crate) fn recovered(dir: &Path, report: &Recovery, began: &Began) {
        let Recovery { frames, torn_bytes, fresh_segment, .. } = report;
        let (damage, unproven, set_aside) = (report.damage.len(), report.unproven.len(), report.set_aside.len());
        let (dir, took_us) = (dir.display(), began.took_us());
        if damage > 0 {
            tracing::warn!(target: "taffrail", %dir, frames, torn_bytes, fresh_segment, damage, unproven, set_aside, took_us, "recovered, with damage");
        } else {
            tracing::info!(target: "taffrail", %dir, frames, torn_bytes, fresh_segment, unproven, set_aside, took_us, "recovered");
        }
    }

    pub(crate) fn committed(batch: &Batch<'_>, began: &Began) {
        let length = |operation: &Operation<'_>| match operation {
            Operation::Put { state, .. } => state.len(),
            Operation::Attach { value, .. } => value.len(),
            Operation::Delete { .. } => 0,
        };
        let (operations, took_us) = (batch.operations().len(), began.took_us());
        let bytes: usize = batch.operations().iter().map(length).sum();
        tracing::debug!(target: "taffrail", operations, bytes, took_us, "committed");
    }

    pub(crate) fn synced(bytes: u64, took: Duration) {
        let took_us = micros(took);
        tracing::debug!(target: "taffrail", bytes, took_us, "synced");
    }

    pub(crate) fn compacted(segments: u64, bytes: u64, began: &Began) {
        let took_us = began.took_us();
        tracing::info!(target: "taffrail", segments, bytes, took_us, "compacted");
    }
}

#[cfg(not(feature = "tracing"))]
mod off {
    use std::path::Path;
    use std::time::Duration;

    use crate::batch::Batch;
    use crate::report::Recovery;

    pub(crate) struct Began;

    #[inline(always)]
    pub(crate) fn began() -> Began {
        Began
    }

    #[inline(always)]
    pub(crate) fn opened(_: &Path, _: bool, _: &Recovery, _: &Began) {}

    #[inline(always)]
    pub(crate) fn recovered(_: &Path, _: &Recovery, _: &Began) {}

    #[inline(always)]
    pub(crate) fn committed(_: &Batch<'_>, _: &Began) {}

    #[inline(always)]
    pub(crate) fn synced(_: u64, _: Duration) {}

    #[inline(always)]
    pub(crate) fn compacted(_: u64, _: u64, _: &Began) {}
}
