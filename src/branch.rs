//! What forks, renames and rollbacks are asked for, judged the same on every backend: names, and refusals.

use crate::checkpoint::{CheckpointId, check_thread};
use crate::error::{Error, ErrorKind, Result};

/// Checks a thread's id and the one that it, or its fork, is to have. Errors: `InvalidInput`.
pub(crate) fn check_names(thread: &str, new: &str) -> Result<()> {
    check_thread(thread).and_then(|()| check_thread(new))
}

/// There is no such thread.
pub(crate) fn no_thread(thread: &str) -> Error {
    Error::new(ErrorKind::NotFound, "the thread is not there; nothing was changed").with_thread(thread)
}

/// There is no such checkpoint in the thread.
pub(crate) fn no_checkpoint(thread: &str, id: &CheckpointId) -> Error {
    Error::new(ErrorKind::NotFound, format!("the checkpoint {id} is not in the thread; nothing was changed")).with_thread(thread)
}

/// The name that was to be given is another thread's, or the thread's own.
pub(crate) fn taken(new: &str) -> Error {
    Error::new(ErrorKind::Conflict, "a thread of this name is there already; nothing was changed").with_thread(new)
}
