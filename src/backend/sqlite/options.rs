//! How a place in an SQLite file is opened.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::SqliteCheckpointer;
use super::connections::Opening;
use crate::error::{Error, Result};
use crate::fs::Fs;
use crate::fs::os::Os;
use crate::options::{MAX_HISTORY_DEFAULT, check_keep};

/// The path that means no file.
const IN_MEMORY: &str = ":memory:";

/// How to open a [`SqliteCheckpointer`]; made by [`SqliteCheckpointer::options`], ended by [`SqliteOptions::open`].
///
/// ```
/// use taffrail::prelude::*;
/// use taffrail::{ErrorKind, SqliteCheckpointer};
/// # let scratch = tempfile::tempdir().unwrap();
/// # let file = scratch.path().join("checkpoints.db");
/// SqliteCheckpointer::options().max_history(None).open(&file)?.put("trip", &1)?;
/// let reader = SqliteCheckpointer::options().read_only(true).open(&file)?;
/// assert_eq!(reader.get::<u8>("trip")?, Some(1));
/// assert_eq!(reader.put("trip", &2).unwrap_err().kind(), ErrorKind::ReadOnly);
/// # Ok::<(), taffrail::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    max_history: Option<Option<usize>>,
    create: bool,
    read_only: bool,
    busy_timeout: Duration,
    fs: Arc<dyn Fs>,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        SqliteOptions { max_history: None, create: true, read_only: false, busy_timeout: Duration::from_secs(10), fs: Arc::new(Os) }
    }
}

impl SqliteOptions {
    /// How many checkpoints each thread keeps: a setting of the place. `None` keeps all, 0 is
    /// `InvalidInput`. Not called: the place's own value, which is 50 for a new one, and all for one that
    /// windlass began. Lowering it trims every longer thread at open; raising it brings nothing back.
    pub fn max_history(mut self, keep: impl Into<Option<usize>>) -> Self {
        self.max_history = Some(keep.into());
        self
    }

    /// Whether a missing place is made (default), or answered with `NotFound`.
    pub fn create(mut self, yes: bool) -> Self {
        self.create = yes;
        self
    }

    /// Whether the file is opened to be read alone; `false` by default. A file that is not there, or empty, is
    /// `NotFound` then; one that windlass began gets no tables of ours; every write answers `ReadOnly`, and a
    /// `max_history` is `InvalidInput`.
    pub fn read_only(mut self, yes: bool) -> Self {
        self.read_only = yes;
        self
    }

    /// How long a call waits for others that write before it answers `Busy`; 10 s by default.
    pub fn busy_timeout(mut self, time: Duration) -> Self {
        self.busy_timeout = time;
        self
    }

    /// Opens the file, and makes in it the tables that it lacks (but to be read alone); `:memory:` is no file.
    ///
    /// A new file is for who the process' umask lets in. Errors: `InvalidInput`; `NotFound` without `create`;
    /// `Unsupported` for another program's database, a newer version and a file system that is not known to
    /// be local; `Corrupt` for what is no database; `Busy`, `ReadOnly`, `Io`. After any of them the file is as it was.
    pub fn open(self, path: impl AsRef<Path>) -> Result<SqliteCheckpointer> {
        self.max_history.map_or(Ok(()), check_keep)?;
        let path = path.as_ref();
        if path.as_os_str().is_empty() {
            return Err(Error::invalid("a place in an SQLite file needs a path: it is empty"));
        }
        if self.read_only && self.max_history.is_some() {
            return Err(Error::invalid("a place that is opened to be read takes no max_history"));
        }
        let keep = self.max_history.unwrap_or(Some(MAX_HISTORY_DEFAULT)).map(|keep| i64::try_from(keep).unwrap_or(i64::MAX));
        let (create, read_only) = (self.create && !self.read_only, self.read_only);
        let opening = Opening { fs: self.fs, create, read_only, busy_timeout: self.busy_timeout, keep };
        let connections = if path.as_os_str() == IN_MEMORY { opening.in_memory() } else { opening.at(path) };
        SqliteCheckpointer::opened(connections?, self.max_history)
    }

    /// Opens a place in this process's memory.
    pub(super) fn in_memory(self) -> Result<SqliteCheckpointer> {
        self.open(IN_MEMORY)
    }
}
