//! One page of counters shared through a file; the other of the two files with `unsafe`.
//!
//! The page is an array of 64-bit words, each read and written as one atomic, so a reader never
//! sees half of one. What the words mean is the log's business. The mapping is of a file whose
//! bytes were written before, never of a hole, so touching it cannot meet a full disk.
#![allow(unsafe_code)]

use std::fmt;
use std::fs::File;
use std::io;
use std::sync::atomic::AtomicU64;

use memmap2::{MmapOptions, MmapRaw};

/// The page's size, in bytes.
pub(crate) const BYTES: usize = 4096;
/// The page's size, in words.
pub(crate) const WORDS: usize = BYTES / 8;

/// A page of atomic words: mapped from a file, or on the heap for who shares it with nobody.
pub(crate) struct SharedPage(Words);

enum Words {
    Mapped(MmapRaw),
    Heap(Box<[AtomicU64; WORDS]>),
}

impl SharedPage {
    /// Maps the page of a file that is exactly one page long.
    pub fn map(file: &File) -> io::Result<SharedPage> {
        if file.metadata()?.len() != BYTES as u64 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the shared page's file has the wrong length"));
        }
        MmapOptions::new().len(BYTES).map_raw(file).map(|map| SharedPage(Words::Mapped(map)))
    }

    /// A page of this process alone, which its forked children find wiped. Errors: where the system
    /// has no such pages.
    #[cfg(target_os = "linux")]
    pub fn wiped_by_fork() -> io::Result<SharedPage> {
        let map = MmapRaw::from(MmapOptions::new().len(BYTES).map_anon()?);
        // SAFETY: the range is the whole of a private anonymous map of our own, which lives on; the
        // advice changes nothing in this process.
        unsafe { rustix::mm::madvise(map.as_mut_ptr().cast(), BYTES, rustix::mm::Advice::LinuxWipeOnFork)? };
        Ok(SharedPage(Words::Mapped(map)))
    }

    /// Nowhere else are there such pages.
    #[cfg(not(target_os = "linux"))]
    pub fn wiped_by_fork() -> io::Result<SharedPage> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// A page of zeros that nobody else sees.
    pub fn unshared() -> SharedPage {
        SharedPage(Words::Heap(Box::new([const { AtomicU64::new(0) }; WORDS])))
    }

    /// The word at `index`; an index past the page is our own bug.
    pub fn word(&self, index: usize) -> &AtomicU64 {
        match &self.0 {
            Words::Heap(words) => &words[index],
            Words::Mapped(map) => {
                assert!(index < WORDS, "a word outside the page");
                // SAFETY: the map is page-aligned and `BYTES` long, so the word lies in it and is
                // aligned; it lives as long as `self`; every access to the page, in this process
                // and in others, goes through atomics of this width.
                unsafe { AtomicU64::from_ptr(map.as_mut_ptr().cast::<u64>().add(index)) }
            }
        }
    }
}

impl fmt::Debug for SharedPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if matches!(self.0, Words::Heap(_)) { "SharedPage(heap)" } else { "SharedPage(mapped)" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;
    use std::sync::atomic::Ordering::{Acquire, Release};

    #[test]
    fn two_maps_of_one_file_share_words() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[0; BYTES], 0).unwrap();
        let (one, other) = (SharedPage::map(&file).unwrap(), SharedPage::map(&file).unwrap());
        one.word(WORDS - 1).store(7, Release);
        assert_eq!(other.word(WORDS - 1).load(Acquire), 7);
        assert_eq!(SharedPage::unshared().word(3).load(Acquire), 0);
    }

    #[test]
    fn a_file_of_another_length_is_refused() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(SharedPage::map(&file).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
