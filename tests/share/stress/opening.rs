//! A process that is opening the store says so by a file, and may be told to die meanwhile.

use std::fs;
use std::path::{Path, PathBuf};

use crate::posix;

fn mark(ground: &Path, process: u32) -> PathBuf {
    ground.join(format!("opening {process}"))
}

/// Opens, and says so while it does. Dies so many microseconds after it has begun, or when it has opened, 0 for never:
/// whoever waits for the file and kills it from outside mostly comes too late.
pub fn noted<T>(ground: &Path, dies: u64, open: impl FnOnce() -> T) -> T {
    let mark = mark(ground, std::process::id());
    fs::write(&mark, b"").unwrap();
    if dies > 0 {
        posix::end_at_once_in(dies);
    }
    let opened = open();
    fs::remove_file(mark).unwrap();
    if dies > 0 {
        posix::end_at_once();
    }
    opened
}

/// Whether a process that has ended did so while it opened.
pub fn was_met(ground: &Path, process: u32) -> bool {
    fs::remove_file(mark(ground, process)).is_ok()
}
