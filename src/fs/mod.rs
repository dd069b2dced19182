//! What the log asks of the operating system: a few operations behind small traits.
//!
//! This is the only folder that calls `std::fs`, maps memory or locks, and it knows nothing of the
//! format. Tests put a recording or failing layer in its place. Every operation retries an
//! interrupted call and finishes a short one itself, so a caller sees done or failed.

pub(crate) mod fork;
mod lock;
mod map;
mod medium;
pub(crate) mod os;
pub(crate) mod page;

use std::ffi::OsString;
use std::fmt::Debug;
use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use crate::checkpoint::Region;
use page::SharedPage;

/// A directory's operations, and the two other things that come from outside: time and chance.
pub(crate) trait Fs: Send + Sync + Debug {
    /// Makes one directory. Its parent must be synced for it to last.
    fn create_dir(&self, path: &Path, mode: u32) -> io::Result<()>;
    /// Makes the names in a directory last.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// The names in a directory, in no order.
    fn list(&self, path: &Path) -> io::Result<Vec<OsString>>;
    /// Whether the path is a directory; `None` if nothing is there.
    fn is_dir(&self, path: &Path) -> io::Result<Option<bool>>;
    /// Whether a path, where nothing need be, leads into a directory or to it, by whatever names.
    fn lies_in(&self, path: &Path, dir: &Path) -> io::Result<bool>;
    /// Makes a file that must not be there, for reading and writing.
    fn create(&self, path: &Path, mode: u32) -> io::Result<Arc<dyn File>>;
    /// Opens a file that is there; for writing too if asked.
    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn File>>;
    /// Renames a file, replacing what is there.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Opens what is at the path, file or directory, to lock it; makes an empty file where nothing is.
    fn lock_file(&self, path: &Path, mode: u32) -> io::Result<Arc<dyn Lock>>;
    /// What kind of file system the path is on.
    fn medium(&self, path: &Path) -> io::Result<Medium>;
    /// Maps the shared page kept in a file of `page::BYTES` bytes; for writing too if asked.
    fn map_page(&self, path: &Path, write: bool) -> io::Result<SharedPage>;
    /// The clock; it labels and never orders.
    fn now(&self) -> SystemTime;
    /// Which run of the system this is; zeros where that cannot be told.
    fn boot(&self) -> [u8; 16];
    /// Random bytes for names and salts.
    fn random(&self) -> [u8; 16];
}

/// A kind of file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Medium {
    /// A local one, whose locks and mappings all processes share.
    Local,
    /// Another one, by its name or number: it may be a network's.
    Other(String),
}

/// The file system that a path is on, or would be if it were made.
pub(crate) fn medium_at(fs: &dyn Fs, path: &Path) -> io::Result<Medium> {
    let absolute = std::path::absolute(path)?;
    let is_there = |path: &&Path| matches!(fs.is_dir(path), Ok(Some(_)));
    fs.medium(absolute.ancestors().find(is_there).unwrap_or(&absolute))
}

/// An open file.
pub(crate) trait File: Send + Sync + Debug {
    /// Its length.
    fn len(&self) -> io::Result<u64>;
    /// Reads up to the buffer's length; less only at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all the parts, one after the other, from `offset` on.
    fn write_at(&self, parts: &[&[u8]], offset: u64) -> io::Result<()>;
    /// Cuts the file to a length: what is behind that goes back to the file system.
    fn cut(&self, length: u64) -> io::Result<()>;
    /// Makes what was written last, with the length and blocks needed to read it.
    fn sync(&self) -> io::Result<()>;
    /// Maps the first `length` bytes for reading; the file may still be shorter.
    fn map(&self, length: u64) -> io::Result<Arc<dyn Region>>;
}

/// A lock between processes, on a file or a directory. It belongs to the open file: it dies with its
/// process, and two of one file exclude each other also within a process. A forked child has a copy of
/// the open file, so dropping it frees the lock only when no copy is left.
pub(crate) trait Lock: Send + Sync + Debug {
    /// Takes it exclusively without waiting; false if another holds it. Instead of a shared hold of
    /// our own: then a failure leaves none.
    fn try_exclusive(&self) -> io::Result<bool>;
    /// Takes it shared without waiting, also instead of an exclusive hold; a failure leaves none.
    fn try_shared(&self) -> io::Result<bool>;
    /// Gives it up, for all copies of the open file.
    fn unlock(&self) -> io::Result<()>;
    /// The inode number of what is locked.
    fn inode(&self) -> io::Result<u64>;
    /// Who holds it, for an error message, where the system tells it ("process 4711 (python3)");
    /// never believed for anything else.
    fn holder(&self) -> Option<String>;
}

/// At most so many slices go to the system in one call.
const SLICES_MAX: usize = 64;

/// What is left of `parts` after `done` bytes, as slices for one call.
fn remaining<'a>(parts: &[&'a [u8]], done: u64) -> Vec<IoSlice<'a>> {
    let mut skip = done;
    let mut left = Vec::with_capacity(parts.len().min(SLICES_MAX));
    for part in parts {
        let length = part.len() as u64;
        if skip >= length {
            skip -= length;
        } else if left.len() < SLICES_MAX {
            left.push(IoSlice::new(&part[skip as usize..]));
            skip = 0;
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_after_a_short_write() {
        let parts: [&[u8]; 4] = [b"abc", b"", b"de", b"f"];
        let text = |done| remaining(&parts, done).iter().flat_map(|slice| slice.to_vec()).collect::<Vec<u8>>();
        for done in 0..=6 {
            assert_eq!(text(done), &b"abcdef"[done as usize..]);
        }
    }
}
