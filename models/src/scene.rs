//! What the processes of a model share: the page and the disk.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use crate::disk::{Descriptor, Disk};
use crate::error::Result;
use crate::format::manifest::Manifest;
use crate::fs::page::{AtomicU64, SharedPage};
use crate::log::tail::{Start, Tail};

/// The epoch that every model begins in.
pub(crate) const EPOCH: u64 = 1;
/// The generation that every model begins in.
pub(crate) const GENERATION: u64 = 1;

/// The page and the disk.
pub(crate) struct Scene {
    pub tail: Tail,
    pub disk: Disk,
}

/// How a sync for all ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tried {
    Done,
    InDoubt,
    Failed,
}

impl Scene {
    /// A log that ends at 0, and a disk for batches in these files.
    pub fn new(files: &[usize]) -> Scene {
        let tail = Tail::new(SharedPage::unshared());
        let manifest = manifest(GENERATION, EPOCH);
        tail.begin([0; 16], Start { manifest: &manifest, end: 0, next_seq: 1, write_lock: 0 });
        Scene { tail, disk: Disk::new(files) }
    }

    /// Writes a batch and moves the appended end: `Writer::append`, then `Shared::write`.
    pub fn append(&self, batch: usize, end: u64) {
        self.disk.write(batch);
        self.tail.raise_appended(end);
    }

    /// Syncs for all, alone with it: `Lead::sync`, without its look at the generation.
    pub fn sync_for_all(&self, descriptor: &Descriptor, opened_at: u64, end: u64) -> Tried {
        self.sync_beside(descriptor, opened_at, end, false)
    }

    /// Syncs, and where it is `passing` others may be at it, too.
    pub fn sync_beside(&self, descriptor: &Descriptor, opened_at: u64, end: u64, passing: bool) -> Tried {
        let tail = &self.tail;
        let appended = tail.appended();
        match tail.is_kept(end, EPOCH) {
            Err(_) => return Tried::Failed,
            Ok(true) => return Tried::Done,
            Ok(false) => {}
        }
        if opened_at > tail.syncs_proven() {
            return Tried::InDoubt;
        }
        let number = tail.begin_sync(passing);
        if !self.disk.sync(descriptor) {
            tail.poison(EPOCH);
            return Tried::Failed;
        }
        tail.end_sync(number, appended, passing);
        Tried::Done
    }

    /// What a put asks: if its batch is told as kept, then so it is, and all before it, and shown.
    pub fn is_kept(&self, batch: usize, end: u64) -> Result<bool> {
        let kept = self.tail.is_kept(end, EPOCH)?;
        assert!(!kept || (0..=batch).all(|batch| self.disk.keeps(batch)), "{ACKNOWLEDGED_AND_LOST}");
        assert!(!kept || self.tail.visible() >= end, "{KEPT_AND_NOT_SHOWN}");
        Ok(kept)
    }
}

/// What a model fails with that answers for bytes which are not on the disk.
pub(crate) const ACKNOWLEDGED_AND_LOST: &str = "told as kept, and not on the disk";

/// What a model fails with that answers for bytes which nobody sees.
pub(crate) const KEPT_AND_NOT_SHOWN: &str = "told as kept, and not visible";

/// A manifest.
pub(crate) fn manifest(generation: u64, epoch: u64) -> Manifest {
    Manifest { store: [1; 16], generation, epoch, next_number: 1, segments: Vec::new() }
}

/// A lock that is tried and not waited for, as the system's are by us.
pub(crate) struct Lock(AtomicU64);

impl Lock {
    /// One that nobody holds.
    pub fn new() -> Lock {
        Lock(AtomicU64::new(0))
    }

    /// Takes it; whether it was free.
    pub fn take(&self) -> bool {
        self.0.compare_exchange(0, 1, AcqRel, Acquire).is_ok()
    }

    /// Gives it back.
    pub fn give_back(&self) {
        self.0.store(0, Release);
    }
}
