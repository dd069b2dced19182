//! A process that fails says so by a file: it may be killed before it has ended by that.

use std::panic;
use std::path::{Path, PathBuf};

/// What fails in this process from now on is noted.
pub fn is_noted(ground: &Path) {
    let note = ground.join(format!("failed {}", std::process::id()));
    let told = panic::take_hook();
    panic::set_hook(Box::new(move |failure| {
        // What cannot be written is told all the same.
        let _ = std::fs::write(&note, failure.to_string());
        told(failure);
    }));
}

/// Asserts that nothing was noted.
pub fn is_none(ground: &Path, context: &str) {
    let mut beside = std::fs::read_dir(ground).unwrap().map(|entry| entry.unwrap().path());
    let is_note = |path: &PathBuf| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"failed "));
    if let Some(note) = beside.find(is_note) {
        panic!("{context}: {}", std::fs::read_to_string(note).unwrap());
    }
}
