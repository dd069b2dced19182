//! What a store says of itself: what recovery met, what verify found, how large it is.

use std::path::PathBuf;

use crate::checkpoint::CheckpointId;

/// One place in a file that is not as it should be.
///
/// ```
/// use taffrail::prelude::*;
/// # let scratch = tempfile::tempdir().unwrap();
/// # let dir = scratch.path().join("runs");
/// for finding in Store::open(&dir)?.verify()? {
///     println!("{}: {}", finding.file.display(), finding.what);
/// }
/// # Ok::<(), taffrail::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file.
    pub file: PathBuf,
    /// The byte offset in it, where there is one.
    pub offset: Option<u64>,
    /// The thread it belongs to, where the record can still be told.
    pub thread: Option<String>,
    /// The checkpoint, where the record can still be told.
    pub id: Option<CheckpointId>,
    /// Whether bytes that were proven synced are lost (damage), or only an unfinished last write.
    pub damage: bool,
    /// What it is.
    pub what: String,
}

/// What opening a store met, or repairing one.
///
/// ```
/// use taffrail::prelude::*;
/// # let scratch = tempfile::tempdir().unwrap();
/// # let dir = scratch.path().join("runs");
/// let store = Store::open(&dir)?;
/// let met = store.recovery();
/// assert!(met.damage.is_empty() && met.torn_bytes == 0);
/// # Ok::<(), taffrail::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Whole frames that were read.
    pub frames: u64,
    /// Bytes of an unfinished last write that were dropped.
    pub torn_bytes: u64,
    /// Damage below the proven synced end: each cost what stands there, and what is stored as a difference
    /// from it. Inside what a hint file covers it is told by `verify` and by the read that meets it.
    pub damage: Vec<Finding>,
    /// Whole frames behind the end of the log that nothing proves; not applied, kept in quarantine. A
    /// repair takes them in where they add a checkpoint.
    pub unproven: Vec<Finding>,
    /// Files that were moved to quarantine or removed as leftovers; of a repair, files that were left out.
    pub set_aside: Vec<PathBuf>,
    /// Whether the log goes on in a fresh segment, because the last user did not end between two puts.
    pub fresh_segment: bool,
}

/// What a compaction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Segments that were replaced.
    pub segments: u64,
    /// Bytes given back to the file system.
    pub bytes: u64,
}

/// How large a store is.
///
/// ```
/// use taffrail::prelude::*;
/// # let scratch = tempfile::tempdir().unwrap();
/// # let dir = scratch.path().join("runs");
/// let store = Store::open(&dir)?;
/// store.put("trip", &"plan")?;
/// let stats = store.stats()?;
/// assert_eq!((stats.threads, stats.checkpoints, stats.logical_bytes), (1, 1, 6));
/// # Ok::<(), taffrail::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    /// Threads with at least one checkpoint.
    pub threads: u64,
    /// Checkpoints shown.
    pub checkpoints: u64,
    /// Attachments shown.
    pub attachments: u64,
    /// The states' sizes, each whole.
    pub logical_bytes: u64,
    /// The sizes of the frames that hold them, and of those not shown that differences still need.
    pub stored_bytes: u64,
    /// Bytes in the log that hold nothing shown, nor what a difference that is shown is made of.
    pub dead_bytes: u64,
    /// Bytes of all files in the directory, preallocated room included.
    pub disk_bytes: u64,
    /// Segments.
    pub segments: u64,
    /// Checkpoints shown that are stored whole; 0 where all differ from one that is not shown any more.
    pub keyframes: u64,
    /// Checkpoints shown that are stored as a difference.
    pub deltas: u64,
    /// The most differences one read has to follow.
    pub longest_chain: u64,
    /// The mean number of differences that a read of a checkpoint follows.
    pub mean_chain: f64,
    /// How many checkpoints each thread keeps; None for all.
    pub max_history: Option<u64>,
}
