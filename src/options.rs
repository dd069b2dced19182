//! How a store is opened: settings of the store itself, and settings of this handle.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::batch::Durability;
use crate::error::{Error, Result};
use crate::format::frame::PAYLOAD_BYTES_MAX;
use crate::fs::Fs;
use crate::fs::os::Os;
use crate::log::Store;

/// How many checkpoints a thread of a new store keeps, unless told otherwise.
pub(crate) const MAX_HISTORY_DEFAULT: usize = 50;
/// The largest state, in bytes, unless told otherwise.
pub(crate) const STATE_BYTES_DEFAULT: u64 = 1024 * 1024 * 1024;
/// The smallest segment that can be asked for.
const SEGMENT_BYTES_MIN: u64 = 64 * 1024;
/// The largest segment that can be asked for.
const SEGMENT_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;

/// When states that are stored whole, of 128 bytes to 64 MiB, are compressed (by lz4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// By compaction, once the thread has a newer one that is stored whole: a get of what is new stays fast.
    /// Unasked only in segments of which much is dead; [`Store::compact`] does all that are worth it.
    #[default]
    Compaction,
    /// At once as well: fewer bytes, for the time to pack them at the put and unpack them at each read.
    Always,
    /// Never by this handle.
    Never,
}

/// How to open a [`Store`]; made by [`Store::options`], ended by [`Options::open`].
///
/// ```
/// use taffrail::{Durability, Store};
/// # let scratch = tempfile::tempdir().unwrap();
/// # let dir = scratch.path().join("runs");
/// let store = Store::options().max_history(200).durability(Durability::Buffered).open(&dir)?;
/// # Ok::<(), taffrail::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) max_history: Option<Option<usize>>,
    pub(crate) durability: Durability,
    pub(crate) create: bool,
    pub(crate) read_only: bool,
    pub(crate) single_process: bool,
    pub(crate) busy_timeout: Duration,
    pub(crate) segment_bytes: u64,
    pub(crate) state_bytes_max: u64,
    pub(crate) mmap: bool,
    pub(crate) delta: bool,
    pub(crate) compression: Compression,
    pub(crate) cache_bytes: u64,
    pub(crate) auto_compaction: bool,
    pub(crate) dir_mode: u32,
    pub(crate) file_mode: u32,
    pub(crate) fs: Arc<dyn Fs>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            max_history: None,
            durability: Durability::Sync,
            create: true,
            read_only: false,
            single_process: false,
            busy_timeout: Duration::from_secs(10),
            segment_bytes: 64 * 1024 * 1024,
            state_bytes_max: STATE_BYTES_DEFAULT,
            mmap: true,
            delta: true,
            compression: Compression::Compaction,
            cache_bytes: 64 * 1024 * 1024,
            auto_compaction: true,
            dir_mode: 0o700,
            file_mode: 0o600,
            fs: Arc::new(Os),
        }
    }
}

impl Options {
    /// How many checkpoints each thread keeps: a setting of the store, changed for all its users.
    /// `None` keeps all, 0 is `InvalidInput`. Not called: the store's own value, 50 for a new one.
    /// Lowering it trims every longer thread at open; raising it brings nothing back.
    pub fn max_history(mut self, keep: impl Into<Option<usize>>) -> Self {
        self.max_history = Some(keep.into());
        self
    }

    /// What a put that returned has survived, unless the put says otherwise; `Sync` by default.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Whether a missing store is made (default), or answered with `NotFound`.
    pub fn create(mut self, yes: bool) -> Self {
        self.create = yes;
        self
    }

    /// Opens without writing anything or taking a lock. Each call shows what has become visible by
    /// then, from any process; at its opening, and until more is visible, a step may show that is not
    /// yet synced. Until writers have made the page that they share, each call looks for it, which is
    /// one system call; from then on it asks the system nothing unless there is something new. Every
    /// write answers `ReadOnly`.
    pub fn read_only(mut self, yes: bool) -> Self {
        self.read_only = yes;
        self
    }

    /// Promises that no other process, here or on another machine, writes to the store while this
    /// handle is open. Where locks work that is seen to: others, and other handles of this process,
    /// are kept out as this one waits until they have gone; read-only ones are not. And only then is a
    /// file system accepted that is not known to be local, or whose locks do not work; nothing checks
    /// the promise there, and breaking it loses data.
    pub fn single_process(mut self, yes: bool) -> Self {
        self.single_process = yes;
        self
    }

    /// How long a call waits for a lock before it answers `Busy`; 10 s by default.
    pub fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.busy_timeout = timeout;
        self
    }

    /// At about which size a segment is sealed, in bytes; 64 MiB by default, 64 KiB to 4 GiB.
    pub fn segment_bytes(mut self, bytes: u64) -> Self {
        self.segment_bytes = bytes;
        self
    }

    /// The largest state, in bytes; 1 GiB by default, at most 3 GiB. Above it `TooLarge`.
    pub fn max_state_bytes(mut self, bytes: u64) -> Self {
        self.state_bytes_max = bytes;
        self
    }

    /// Whether states are read from mapped files (default) or by system calls, which costs a copy
    /// and answers a typed error where a mapped file that somebody cut short ends the process.
    pub fn mmap(mut self, on: bool) -> Self {
        self.mmap = on;
        self
    }

    /// Whether a state may be stored as the difference from the one before it (default), which costs what
    /// has changed; off, this handle stores every state that is put whole. Both read what the other has
    /// stored. A difference is only taken between states of 128 bytes to 64 MiB.
    pub fn delta(mut self, on: bool) -> Self {
        self.delta = on;
        self
    }

    /// When states that are stored whole are compressed; by default compaction does it.
    pub fn compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// How many bytes of states are kept in memory at most, each thread's newest, for the next get or put;
    /// 64 MiB by default, 0 keeps none. A put of which the one before it is not there reads that from the
    /// file.
    pub fn cache_bytes(mut self, bytes: u64) -> Self {
        self.cache_bytes = bytes;
        self
    }

    /// Whether this handle reclaims dead bytes without being asked (default).
    ///
    /// In the background, at most 100 MB a second, when more is dead than three quarters of what is
    /// live, or of a segment if that is more; and in a put where that does not keep up, which then
    /// waits a second at most for a step that is under way, or does one itself. So the directory stays
    /// below twice what is live and two segments, but for room made in advance. Closing the last clone
    /// ends the work. Off: only [`Store::compact`] and other handles do.
    pub fn auto_compaction(mut self, on: bool) -> Self {
        self.auto_compaction = on;
        self
    }

    /// The modes of the directories and files that are made; 0700 and 0600 by default.
    pub fn mode(mut self, dir: u32, file: u32) -> Self {
        self.dir_mode = dir;
        self.file_mode = file;
        self
    }

    /// Opens the store in `dir`, beside all who have it open. Blocks while it recovers, and up to
    /// `busy_timeout` for others who are opening it.
    ///
    /// Errors: `Busy` when another opener takes longer, or is stopped; when `single_process` was asked
    /// for, here or by who has it open; and when a writer is stopped in its turn, where opening has to
    /// write: a `max_history` that differs, or what a failed write left. `NotFound` without a store
    /// and `create` off; `Unsupported` when the place is something else, a newer format, or on a file
    /// system that is not known to be local (see [`Options::single_process`]); `Corrupt` when the
    /// manifest or the newest segment cannot be believed, or a file that its users share was replaced
    /// under them; `InvalidInput` for an option out of range; `ReadOnly`, `DiskFull`, `Io`.
    pub fn open(self, dir: impl AsRef<Path>) -> Result<Store> {
        self.check()?;
        if dir.as_ref().as_os_str().is_empty() {
            return Err(Error::invalid("a store needs a directory: the path is empty"));
        }
        Store::open_with(dir.as_ref(), self)
    }

    fn check(&self) -> Result<()> {
        check_keep(self.max_history.flatten())?;
        if !(SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&self.segment_bytes) {
            return Err(Error::invalid(format!("segment_bytes is {SEGMENT_BYTES_MIN} to {SEGMENT_BYTES_MAX}, not {}", self.segment_bytes)));
        }
        if self.state_bytes_max > PAYLOAD_BYTES_MAX {
            return Err(Error::invalid(format!("max_state_bytes is at most {PAYLOAD_BYTES_MAX}, not {}", self.state_bytes_max)));
        }
        Ok(())
    }
}

/// Checks how many checkpoints a thread is to keep: `None` for all, never 0 (`InvalidInput`).
pub(crate) fn check_keep(keep: Option<usize>) -> Result<()> {
    match keep {
        Some(0) => Err(Error::invalid("a thread keeps at least 1 checkpoint; use None for all")),
        _ => Ok(()),
    }
}
