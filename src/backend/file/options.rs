//! How a place of files is opened.

use std::path::Path;
use std::sync::Arc;

use super::FileCheckpointer;
use crate::error::{Error, Result};
use crate::fs::Fs;
use crate::fs::os::Os;
use crate::options::check_keep;

/// How to open a [`FileCheckpointer`]; made by [`FileCheckpointer::options`], ended by [`FileOptions::open`].
///
/// ```
/// use taffrail::{ErrorKind, FileCheckpointer};
/// # let scratch = tempfile::tempdir().unwrap();
/// # let dir = scratch.path().join("files");
/// let missing = FileCheckpointer::options().create(false).open(&dir);
/// assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);
/// # Ok::<(), taffrail::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct FileOptions {
    pub(super) max_history: Option<Option<usize>>,
    pub(super) create: bool,
    pub(crate) fs: Arc<dyn Fs>,
}

impl Default for FileOptions {
    fn default() -> Self {
        FileOptions { max_history: None, create: true, fs: Arc::new(Os) }
    }
}

impl FileOptions {
    /// How many checkpoints each thread keeps: a setting of the place. `None` keeps all, 0 is
    /// `InvalidInput`. Not called: the place's own value, 50 for a new one. Lowering it trims every
    /// longer thread at open; raising it brings nothing back.
    pub fn max_history(mut self, keep: impl Into<Option<usize>>) -> Self {
        self.max_history = Some(keep.into());
        self
    }

    /// Whether a missing place is made (default), or answered with `NotFound`.
    pub fn create(mut self, yes: bool) -> Self {
        self.create = yes;
        self
    }

    /// Opens the folder. Reads the head of every file in it, and finishes what a crash has interrupted.
    ///
    /// Errors: `InvalidInput`; `NotFound` without `create`; `Busy` after a second where another handle
    /// has it open; `Unsupported` where something else is in the folder, where locks do not work, and for
    /// a newer version; `Corrupt` with the name of a file that is not as it was written.
    pub fn open(self, dir: impl AsRef<Path>) -> Result<FileCheckpointer> {
        self.max_history.map_or(Ok(()), check_keep)?;
        if dir.as_ref().as_os_str().is_empty() {
            return Err(Error::invalid("a place of files needs a directory: the path is empty"));
        }
        FileCheckpointer::opened(self, dir.as_ref())
    }
}
