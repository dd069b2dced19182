//! One page of counters shared through a file; the other of the two files with `unsafe`.
//!
//! The page is an array of 64-bit words, each read and written as one atomic, so a reader never
//! sees half of one. What the words mean is the log's business. The mapping is of a file whose
//! bytes were written before, never of a hole, so touching it cannot meet a full disk.
#![allow(unsafe_code)]

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
#[cfg(any(test, feature = "testing"))]
use std::sync::Arc;
#[cfg(target_os = "linux")]
use std::sync::atomic::AtomicU32;
pub(crate) use std::sync::atomic::AtomicU64;
use std::time::Duration;

use memmap2::{MmapOptions, MmapRaw};
#[cfg(target_os = "linux")]
use rustix::thread::futex;

use crate::plant::hold_up;

/// The page's size, in bytes.
pub(crate) const BYTES: usize = 4096;
/// The page's size, in words.
pub(crate) const WORDS: usize = BYTES / 8;

/// A word of a page that is not there: zero.
pub(crate) fn nothing() -> &'static AtomicU64 {
    static NOTHING: AtomicU64 = AtomicU64::new(0);
    &NOTHING
}

/// A page of atomic words, mapped from a file; in tests also on the heap.
pub(crate) struct SharedPage(Words);

enum Words {
    /// And the inode of the file.
    Mapped(MmapRaw, u64),
    #[cfg(any(test, feature = "testing"))]
    Heap(Heap),
}

/// A page that is in no file of the system.
#[cfg(any(test, feature = "testing"))]
pub(crate) struct Heap {
    /// The words, which all who map the page share.
    pub words: Arc<[AtomicU64; WORDS]>,
    /// As which file's it passes.
    pub inode: u64,
    /// Called before each use of a word: what was stored through the one before is there.
    pub watch: Option<Arc<dyn Fn() + Send + Sync>>,
}

#[cfg(any(test, feature = "testing"))]
impl Heap {
    /// Words of zero.
    pub fn zeros() -> Arc<[AtomicU64; WORDS]> {
        Arc::new([const { AtomicU64::new(0) }; WORDS])
    }
}

impl SharedPage {
    /// Maps the page of a file that is exactly one page long.
    pub fn map(file: &File) -> io::Result<SharedPage> {
        let inode = inode_of_one_page(file)?;
        MmapOptions::new().len(BYTES).map_raw(file).map(|map| SharedPage(Words::Mapped(map, inode)))
    }

    /// Maps it for reading, of a file that need not be open for writing. A store to one of its words
    /// is our own bug, and the kernel ends the process for it.
    pub fn map_read_only(file: &File) -> io::Result<SharedPage> {
        let inode = inode_of_one_page(file)?;
        MmapOptions::new().len(BYTES).map_raw_read_only(file).map(|map| SharedPage(Words::Mapped(map, inode)))
    }

    /// A page of this process alone, which its forked children find wiped. Errors: where the system
    /// has no such pages.
    #[cfg(target_os = "linux")]
    pub fn wiped_by_fork() -> io::Result<SharedPage> {
        let map = MmapRaw::from(MmapOptions::new().len(BYTES).map_anon()?);
        // SAFETY: the range is the whole of a private anonymous map of our own, which lives on; the
        // advice changes nothing in this process.
        unsafe { rustix::mm::madvise(map.as_mut_ptr().cast(), BYTES, rustix::mm::Advice::LinuxWipeOnFork)? };
        Ok(SharedPage(Words::Mapped(map, 0)))
    }

    /// Nowhere else are there such pages.
    #[cfg(not(target_os = "linux"))]
    pub fn wiped_by_fork() -> io::Result<SharedPage> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// A page of zeros that nobody else sees.
    #[cfg(test)]
    pub fn unshared() -> SharedPage {
        SharedPage(Words::Heap(Heap { words: Heap::zeros(), inode: 0, watch: None }))
    }

    /// A page of a file system in memory.
    #[cfg(any(test, feature = "testing"))]
    pub fn of_heap(heap: Heap) -> SharedPage {
        SharedPage(Words::Heap(heap))
    }

    /// The inode of the file that it is mapped from, 0 without one.
    pub fn inode(&self) -> u64 {
        match &self.0 {
            #[cfg(any(test, feature = "testing"))]
            Words::Heap(heap) => heap.inode,
            Words::Mapped(_, inode) => *inode,
        }
    }

    /// The word at `index`; an index past the page is our own bug.
    pub fn word(&self, index: usize) -> &AtomicU64 {
        match &self.0 {
            #[cfg(any(test, feature = "testing"))]
            Words::Heap(heap) => {
                if let Some(watch) = &heap.watch {
                    watch();
                }
                &heap.words[index]
            }
            Words::Mapped(map, _) => {
                hold_up();
                assert!(index < WORDS, "a word outside the page");
                // SAFETY: the map is page-aligned and `BYTES` long, so the word lies in it and is
                // aligned; it lives as long as `self`; every access to the page, in this process
                // and in others, goes through atomics of this width. Of a page mapped for reading
                // words are only loaded, which writes nothing.
                unsafe { AtomicU64::from_ptr(map.as_mut_ptr().cast::<u64>().add(index)) }
            }
        }
    }

    /// Waits until the low 32 bits of the word at `index` differ from those of `seen`, it is woken, or
    /// the time is over. It may return for nothing, so the caller looks again.
    #[cfg(target_os = "linux")]
    pub fn wait(&self, index: usize, seen: u64, timeout: Duration) {
        // A time beyond what the system can count is as good as none.
        let timeout = futex::Timespec::try_from(timeout).ok();
        // Every error, too, sends the caller to look again: changed already, interrupted, time over.
        let _ = futex::wait(self.low_half(index), futex::Flags::empty(), seen as u32, timeout.as_ref());
    }

    /// Without a way to be woken it is a short sleep.
    #[cfg(not(target_os = "linux"))]
    pub fn wait(&self, index: usize, seen: u64, timeout: Duration) {
        if self.word(index).load(std::sync::atomic::Ordering::Relaxed) as u32 == seen as u32 {
            std::thread::sleep(timeout.min(Duration::from_millis(1)));
        }
    }

    /// Wakes all who wait on the word at `index`, in any process.
    pub fn wake(&self, index: usize) {
        #[cfg(target_os = "linux")]
        let _ = futex::wake(self.low_half(index), futex::Flags::empty(), i32::MAX as u32);
        #[cfg(not(target_os = "linux"))]
        let _ = index;
    }

    /// The half of a word that the kernel compares and finds its waiters by. We ourselves neither
    /// load nor store it.
    #[cfg(target_os = "linux")]
    fn low_half(&self, index: usize) -> &AtomicU32 {
        let halves = self.word(index).as_ptr().cast::<u32>();
        // SAFETY: both halves lie in the word, are aligned as it is, and live as long as `self`. The
        // reference only tells the kernel an address; no access of this width is made through it.
        unsafe { AtomicU32::from_ptr(halves.add(usize::from(cfg!(target_endian = "big")))) }
    }
}

/// The file's inode. Errors: `InvalidData` for one that is not exactly one page long.
fn inode_of_one_page(file: &File) -> io::Result<u64> {
    let metadata = file.metadata()?;
    if metadata.len() != BYTES as u64 {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the shared page's file has the wrong length"));
    }
    Ok(metadata.ino())
}

impl fmt::Debug for SharedPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedPage")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;
    use std::sync::atomic::Ordering::{Acquire, Release};
    use std::time::Instant;

    /// Longer than any of these tests may take.
    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn two_maps_of_one_file_share_words() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[0; BYTES], 0).unwrap();
        let (one, other) = (SharedPage::map(&file).unwrap(), SharedPage::map(&file).unwrap());
        one.word(WORDS - 1).store(7, Release);
        assert_eq!(other.word(WORDS - 1).load(Acquire), 7);
        assert_eq!((one.inode(), other.inode()), (file.metadata().unwrap().ino(), one.inode()));
        assert_eq!(SharedPage::unshared().word(3).load(Acquire), 0);
    }

    #[test]
    fn a_file_of_another_length_is_refused() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(SharedPage::map(&file).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(SharedPage::map_read_only(&file).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn a_waiter_with_a_map_for_reading_is_woken() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().write_all_at(&[0; BYTES], 0).unwrap();
        let written = SharedPage::map(file.as_file()).unwrap();
        let read = SharedPage::map_read_only(&File::open(file.path()).unwrap()).unwrap();
        let heap = SharedPage::unshared();
        for (one, other) in [(&read, &written), (&heap, &heap)] {
            std::thread::scope(|scope| {
                let waiter = scope.spawn(|| {
                    let start = Instant::now();
                    while one.word(5).load(Acquire) == 0 {
                        one.wait(5, 0, LONG);
                    }
                    start.elapsed()
                });
                // Most likely it waits by now; if not yet, it finds the word changed.
                std::thread::sleep(Duration::from_millis(50));
                other.word(5).store(1, Release);
                other.wake(5);
                assert!(waiter.join().unwrap() < LONG / 2);
            });
        }
    }

    #[test]
    fn waiting_ends_in_time_and_at_once_where_the_word_has_changed() {
        let page = SharedPage::unshared();
        page.word(1).store(7 << 32 | 3, Release);
        let waited = |seen, timeout| {
            let start = Instant::now();
            page.wait(1, seen, timeout);
            start.elapsed()
        };
        let timeout = Duration::from_millis(20);
        assert!(waited(3, timeout) < LONG / 2, "only the low half counts");
        assert!(waited(4, LONG) < LONG / 2);
        assert!(waited(7 << 32 | 4, LONG) < LONG / 2);
    }

    #[test]
    fn a_wake_without_a_change_ends_a_wait() {
        let page = SharedPage::unshared();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| page.wait(2, 0, LONG));
            while !waiter.is_finished() {
                page.wake(2);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
    }
}
