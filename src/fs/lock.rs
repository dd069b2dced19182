//! Locks between processes: the only file that knows fs2.
//!
//! flock belongs to the open file, not to the process or a path: it dies with its holder, and the
//! same directory opened twice in one process excludes itself as two processes would.

use std::fs::File;
use std::io;

/// Takes the exclusive lock without waiting; false if another holds it.
pub(crate) fn try_exclusive(file: &File) -> io::Result<bool> {
    loop {
        match fs2::FileExt::try_lock_exclusive(file) {
            Ok(()) => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.raw_os_error() == fs2::lock_contended_error().raw_os_error() => return Ok(false),
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_excludes_and_is_freed_by_close() {
        let scratch = tempfile::tempdir().unwrap();
        let first = File::open(scratch.path()).unwrap();
        let second = File::open(scratch.path().join(".")).unwrap();
        assert!(try_exclusive(&first).unwrap());
        assert!(!try_exclusive(&second).unwrap());
        drop(first);
        assert!(try_exclusive(&second).unwrap());
    }
}
