//! A file's batches, in the system's cache and on the disk, and the errors its descriptors are told.
//!
//! The cache hands bytes on in no order: who reads a batch without having been told of it may miss
//! it, and so may a sync. A sync that fails takes what it should have written for written; the next
//! one, of a descriptor that was told or is newer than the error, says that all is well.

use std::sync::PoisonError;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use loom::sync::{Mutex, MutexGuard};

use crate::fs::page::AtomicU64;

/// Files with batches.
pub(crate) struct Disk {
    batches: Vec<Batch>,
    device: Mutex<Device>,
}

struct Batch {
    file: usize,
    cached: AtomicU64,
    kept: AtomicU64,
}

/// What the system keeps to itself.
struct Device {
    /// Whether the next sync fails that has something to write.
    fails: bool,
    /// The batches that a sync has written, or failed to write and dropped.
    done: Vec<bool>,
    /// How many syncs have failed.
    errors: usize,
}

/// An open file; workers of one process share it.
pub(crate) struct Descriptor {
    file: usize,
    /// How many of the errors it knows of.
    told: AtomicUsize,
}

impl Disk {
    /// A disk for batches, each in the file of that number.
    pub fn new(files: &[usize]) -> Disk {
        let batch = |&file: &usize| Batch { file, cached: AtomicU64::new(0), kept: AtomicU64::new(0) };
        let device = Device { fails: false, done: vec![false; files.len()], errors: 0 };
        Disk { batches: files.iter().map(batch).collect(), device: Mutex::new(device) }
    }

    /// The next sync that has something to write fails.
    pub fn fail(&self) {
        self.device().fails = true;
    }

    /// Writes a batch to its file.
    pub fn write(&self, batch: usize) {
        self.batches[batch].cached.store(1, Relaxed);
    }

    /// Whether a reader finds a batch.
    pub fn reads(&self, batch: usize) -> bool {
        self.batches[batch].cached.load(Relaxed) == 1
    }

    /// Whether a power cut leaves a batch.
    pub fn keeps(&self, batch: usize) -> bool {
        self.batches[batch].kept.load(Relaxed) == 1
    }

    /// Opens a file; errors from before are not told.
    pub fn open(&self, file: usize) -> Descriptor {
        Descriptor { file, told: AtomicUsize::new(self.device().errors) }
    }

    /// Writes what is cached of a file, and tells of errors since the last time; whether there were none.
    pub fn sync(&self, descriptor: &Descriptor) -> bool {
        let mut device = self.device();
        let mut failed = false;
        for (number, batch) in self.batches.iter().enumerate().filter(|(_, batch)| batch.file == descriptor.file) {
            if device.done[number] || batch.cached.load(Relaxed) == 0 {
                continue;
            }
            device.done[number] = true;
            failed |= device.fails;
            if !device.fails {
                batch.kept.store(1, Relaxed);
            }
        }
        if failed {
            device.fails = false;
            device.errors += 1;
        }
        descriptor.told.swap(device.errors, Relaxed) == device.errors
    }

    fn device(&self) -> MutexGuard<'_, Device> {
        self.device.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
