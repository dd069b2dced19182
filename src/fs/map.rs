//! A file mapped for reading; one of the two files with `unsafe`.
//!
//! A map may be longer than its file and the file is still appended to, so no slice over the whole
//! map is ever made: only over ranges that were written before they were asked for and never change
//! again. Cutting the file short under a live map is outside the promise (`mmap(false)` is for that).
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::Range;

use memmap2::{MmapOptions, MmapRaw};

use crate::checkpoint::Region;

/// The first bytes of a file, mapped.
pub(super) struct Map(MmapRaw);

impl Map {
    /// Maps `length` bytes of the file, which may be shorter yet.
    pub fn new(file: &File, length: u64) -> io::Result<Map> {
        let length = usize::try_from(length).map_err(|_| io::ErrorKind::FileTooLarge)?;
        MmapOptions::new().len(length).map_raw_read_only(file).map(Map)
    }
}

impl Region for Map {
    fn bytes(&self, range: Range<usize>) -> &[u8] {
        assert!(range.start <= range.end && range.end <= self.0.len(), "a range outside its map");
        // SAFETY: the range lies in the map (checked above), which lives as long as `self`. The
        // caller asks for written ranges of an append-only file alone, so the bytes exist in the
        // file and no one writes them while the slice lives.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().add(range.start), range.len()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn bytes_appended_after_mapping_are_seen() {
        let file = tempfile::tempfile().unwrap();
        let map = Map::new(&file, 1 << 20).unwrap();
        file.write_all_at(b"first", 0).unwrap();
        assert_eq!(map.bytes(0..5), b"first");
        file.write_all_at(b"second", 4096).unwrap();
        assert_eq!(map.bytes(4096..4102), b"second");
    }

    #[test]
    #[should_panic(expected = "outside its map")]
    fn a_range_outside_is_our_own_bug() {
        let file = tempfile::tempfile().unwrap();
        Map::new(&file, 8).unwrap().bytes(4..9);
    }
}
