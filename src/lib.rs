//! An embedded, append-only, log-structured store for the state of AI agents.
//!
//! An agent run is a series of steps; after each its whole state is a *checkpoint* of its *thread*.
//! taffrail makes `put` durable, `get` instant, and every retained step readable, so that a run
//! interrupted by a crash or by a person's approval picks up exactly where it stopped.
//!
//! ```
//! use taffrail::prelude::*;
//! # let scratch = tempfile::tempdir().unwrap();
//! # let dir = scratch.path().join("runs");
//! let store = Store::open(&dir)?;
//! let id = store.put("thread-1", &vec!["plan", "search"])?;
//! let state: Option<Vec<String>> = store.get("thread-1")?;
//! assert_eq!(state.unwrap(), ["plan", "search"]);
//! let steps = store.history::<Vec<String>>("thread-1", 20)?;
//! assert_eq!(steps[0].id, id);
//! assert_eq!(store.threads()?, ["thread-1"]);
//! assert!(store.delete("thread-1")?);
//! # Ok::<(), taffrail::Error>(())
//! ```
//!
//! Any number of processes on one machine have a store open at once and write to it; see [`Store`].
//!
//! The layout on disk, the guarantees and their tests are in DESIGN.md.

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
compile_error!("taffrail runs on Linux and macOS: it relies on flock, shared mappings and directory syncs");

mod agent;
#[cfg(feature = "tokio")]
mod asynchronous;
mod backend;
mod batch;
mod branch;
pub mod carry;
mod checkpoint;
mod checkpointer;
mod delta;
pub mod diff;
mod error;
mod finding;
mod finite;
mod format;
mod fs;
pub mod guide;
#[cfg(feature = "sqlite")]
pub mod import;
mod json;
mod log;
mod options;
mod place;
mod plant;
mod query;
mod report;
pub mod run;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod told;

pub use agent::{AgentState, Message, Role};
#[cfg(feature = "tokio")]
pub use asynchronous::{AsyncItems, AsyncStore, Call};
pub use backend::file::{FileCheckpointer, FileOptions};
pub use backend::memory::MemoryCheckpointer;
#[cfg(feature = "sqlite")]
pub use backend::sqlite::{SqliteCheckpointer, SqliteOptions};
pub use batch::{Batch, Committed, Durability, ExpectedHead, KEY_BYTES_MAX, OnExisting, Operation, Parent, PutOptions};
pub use carry::copy;
pub use checkpoint::{
    Attachment, Checkpoint, CheckpointId, CheckpointInfo, ID_BYTES_MAX, METADATA_BYTES_MAX, Metadata, StateBytes, TAG_BYTES_MAX,
    THREAD_BYTES_MAX, TypeTag, check_thread,
};
pub use checkpointer::{Capabilities, Checkpointer, CheckpointerExt, Items};
pub use diff::diff;
pub use error::{Error, ErrorKind, Result};
pub use json::DEPTH_MAX;
pub use log::{Store, Watch};
pub use options::{Compression, Options};
pub use place::{open, register};
pub use query::{FindQuery, HistoryQuery, Matching, Progress, ThreadInfo, ThreadQuery, VacuumQuery, Vacuumed};
pub use report::{Compacted, Finding, Recovery, Stats};

/// The trait name of [`Store`]: the same type.
pub type LogCheckpointer = Store;

/// What most programs need: `use taffrail::prelude::*`.
pub mod prelude {
    pub use crate::{CheckpointId, Checkpointer, CheckpointerExt, Store};
}

/// The README's example is tested as it stands there.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
