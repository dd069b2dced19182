//! A process that is opening the store says so by a file, so that a killer can meet it there.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a process may take to come to its opening.
const PATIENCE: Duration = Duration::from_secs(20);

fn mark(ground: &Path, process: u32) -> PathBuf {
    ground.join(format!("opening {process}"))
}

/// Opens, and says so while it does.
pub fn noted<T>(ground: &Path, open: impl FnOnce() -> T) -> T {
    let mark = mark(ground, std::process::id());
    fs::write(&mark, b"").unwrap();
    let opened = open();
    fs::remove_file(mark).unwrap();
    opened
}

/// Waits until a process opens, or for as long as that may take.
pub fn wait_for(ground: &Path, process: u32) {
    let (mark, start) = (mark(ground, process), Instant::now());
    while !mark.exists() && start.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_micros(50));
    }
}

/// Whether a process that has ended did so while it opened.
pub fn was_met(ground: &Path, process: u32) -> bool {
    fs::remove_file(mark(ground, process)).is_ok()
}
