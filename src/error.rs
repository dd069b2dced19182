//! The one error type: what went wrong as a kind, where (thread, file, offset), and why.
//!
//! An error carries facts: callers decide by [`Error::kind`], people read the message. It does not
//! carry a backtrace, and no variant is a bare string: the kind is always one of a closed list.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The result of every fallible call of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What kind of failure an [`Error`] is; decide by this, never by the message.
///
/// ```
/// use taffrail::{Checkpointer, ErrorKind, MemoryCheckpointer};
/// let error = MemoryCheckpointer::new().fork("trip", None, "other way").unwrap_err();
/// assert_eq!((error.kind(), error.thread()), (ErrorKind::NotFound, Some("trip")));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An argument is not acceptable (an id, a limit, JSON that is not JSON, NaN in a state).
    InvalidInput,
    /// A checkpoint that the call builds on (a parent, `before`, `after`) is not there.
    NotFound,
    /// Another writer moved the thread: `expected_head` no longer holds.
    Conflict,
    /// A lock could not be had in time; nothing was written.
    Busy,
    /// A state is larger than the store's limit; nothing was written.
    TooLarge,
    /// Bytes on disk are not as they were put.
    Corrupt,
    /// The bytes are as put and the caller's type does not take them.
    Decode,
    /// A newer format, a place that is no store, or an operation this backend does not have.
    Unsupported,
    /// The store, or the medium, cannot be written.
    ReadOnly,
    /// No space; nothing was written, and the handle works again when there is space.
    DiskFull,
    /// This handle is finished (a failed write or sync before, the store's files moved or replaced
    /// under it, or it is a forked child's copy): open the store again.
    Poisoned,
    /// The operating system refused something else.
    Io,
}

/// What went wrong, where, and why.
///
/// ```
/// use taffrail::{CheckpointId, ErrorKind};
/// let error = CheckpointId::new("").unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::InvalidInput);
/// ```
pub struct Error(Box<Facts>);

struct Facts {
    kind: ErrorKind,
    message: String,
    thread: Option<String>,
    file: Option<(PathBuf, Option<u64>)>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of `kind`; `message` says what happened and what to do, without the place.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error(Box::new(Facts { kind, message: message.into(), thread: None, file: None, source: None }))
    }

    /// Names the thread it happened in.
    pub fn with_thread(mut self, thread: &str) -> Self {
        self.0.thread = Some(thread.to_owned());
        self
    }

    /// Names the file, and where known the byte offset in it.
    pub fn with_file(mut self, path: &Path, offset: Option<u64>) -> Self {
        self.0.file = Some((path.to_owned(), offset));
        self
    }

    /// Keeps the error underneath, for [`std::error::Error::source`].
    pub fn with_source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// What kind of failure this is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The thread it happened in, where there is one.
    pub fn thread(&self) -> Option<&str> {
        self.0.thread.as_deref()
    }

    /// The file it happened in and the byte offset, where known.
    pub fn file(&self) -> Option<(&Path, Option<u64>)> {
        self.0.file.as_ref().map(|(path, offset)| (path.as_path(), *offset))
    }

    /// A refused argument.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::InvalidInput, message)
    }

    /// An operation this backend does not have.
    pub(crate) fn unsupported(operation: &str) -> Self {
        Error::new(ErrorKind::Unsupported, format!("this place for checkpoints does not have `{operation}`; see capabilities()"))
    }

    /// What the operating system said of `path` while doing `what`, told apart by errno.
    pub(crate) fn os(what: &str, path: &Path, source: io::Error) -> Self {
        let kind = match source.kind() {
            _ if is_disk_full(&source) => ErrorKind::DiskFull,
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => ErrorKind::ReadOnly,
            _ => ErrorKind::Io,
        };
        Error::new(kind, format!("cannot {what}: {source}")).with_file(path, None).with_source(source)
    }
}

/// Whether there was no room: on the disk, in a quota, or under the process' file size limit.
pub(crate) fn is_disk_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        match (&self.0.thread, &self.0.file) {
            (None, None) => Ok(()),
            (thread, file) => {
                let mut between = " (";
                if let Some(thread) = thread {
                    write!(f, "{between}thread {thread:?}")?;
                    between = ", ";
                }
                if let Some((path, offset)) = file {
                    write!(f, "{between}{}", path.display())?;
                    if let Some(offset) = offset {
                        write!(f, " at offset {offset}")?;
                    }
                }
                f.write_str(")")
            }
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}
