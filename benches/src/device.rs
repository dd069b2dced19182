//! What the device under a directory was asked to do, from /proc/diskstats, and what files grew.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, StatxFlags};

use crate::Outcome;

const SECTOR_BYTES: u64 = 512;
const TMPFS_MAGIC: i64 = 0x0102_1994;

/// Counts since the machine started; all users of the device together.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Bytes written.
    pub bytes: u64,
    /// Flush requests.
    pub flushes: u64,
}

/// The counters of the device that holds a directory.
pub struct Device {
    numbers: (u32, u32),
}

impl Device {
    /// Of that directory. Its counts stay zero where the file system has no device of its own.
    pub fn of(dir: &Path) -> Outcome<Self> {
        let number = rustix::fs::stat(dir)?.st_dev;
        Ok(Device { numbers: (rustix::fs::major(number), rustix::fs::minor(number)) })
    }

    /// The counts now.
    pub fn counts(&self) -> Outcome<Counts> {
        let table = fs::read_to_string("/proc/diskstats").unwrap_or_default();
        for line in table.lines() {
            let fields: Vec<&str> = line.split_whitespace().collect();
            // major, minor, name, 4 of reads, 4 of writes (the third: sectors), 3, 4 of discards, 2 of flushes.
            let [major, minor, ..] = fields[..] else { continue };
            if (major.parse::<u32>()?, minor.parse::<u32>()?) == self.numbers {
                let bytes = fields.get(9).map_or(Ok(0), |sectors| sectors.parse::<u64>())? * SECTOR_BYTES;
                let flushes = fields.get(18).map_or(Ok(0), |flushes| flushes.parse())?;
                return Ok(Counts { bytes, flushes });
            }
        }
        Ok(Counts::default())
    }
}

/// Empties the write cache of the file system, so that what one round left is not another's.
pub fn settle(dir: &Path) -> Outcome<()> {
    Ok(rustix::fs::syncfs(fs::File::open(dir)?)?)
}

/// The lengths of all files under `dir`: differs after a put that made room.
///
/// Asks for nothing but the length: who asks for a file's times makes the kernel write its inode at
/// the next change (multigrain timestamps), and so makes the next put dearer than it is.
pub fn bytes_of(dir: &Path) -> Outcome<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        sum += if entry.file_type()?.is_dir() {
            bytes_of(&entry.path())?
        } else {
            rustix::fs::statx(rustix::fs::CWD, entry.path(), AtFlags::empty(), StatxFlags::SIZE)?.stx_size
        };
    }
    Ok(sum)
}

/// Touches that much memory and gives it back: in a virtual machine the first touch of a page is the
/// host's work, and would be counted against whoever writes to the page cache first.
pub fn warm_memory(bytes: usize) {
    const PAGE_BYTES: usize = 4096;
    let mut memory: Vec<u8> = Vec::with_capacity(bytes);
    for page in memory.spare_capacity_mut().chunks_mut(PAGE_BYTES) {
        page[0].write(1);
    }
    std::hint::black_box(&memory);
}

/// A scratch directory in `parent`, or beside the running program, which a build puts on a disk.
pub fn scratch(parent: Option<PathBuf>) -> Outcome<tempfile::TempDir> {
    let parent = match parent {
        Some(parent) => parent,
        None => std::env::current_exe()?.parent().unwrap_or(Path::new(".")).to_owned(),
    };
    if rustix::fs::statfs(&parent)?.f_type == TMPFS_MAGIC {
        return Err(format!("{} is in memory: give a directory on a disk", parent.display()).into());
    }
    Ok(tempfile::Builder::new().prefix("taffrail-benches-").tempdir_in(parent)?)
}
