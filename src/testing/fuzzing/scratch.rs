//! A directory of one run, removed with it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new() -> Self {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("taffrail-fuzzing-{}-{run}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        Scratch(dir)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left behind is the temporary directory's own business.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
