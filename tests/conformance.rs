//! The conformance suite on every backend of this crate.

use std::path::PathBuf;
use std::sync::Arc;

#[cfg(feature = "sqlite")]
use taffrail::SqliteCheckpointer;
use taffrail::testing::conformance::{Place, Setup, run_all};
use taffrail::{Durability, FileCheckpointer, MemoryCheckpointer, Options, Store};

#[test]
fn memory() {
    run_all(&|setup| Place::new(MemoryCheckpointer::with_max_history(setup.max_history).unwrap()));
}

#[test]
fn memory_behind_pointers() {
    run_all(&|setup| Place::new(Arc::new(Box::new(MemoryCheckpointer::with_max_history(setup.max_history).unwrap()))));
}

#[test]
fn memory_that_outlives_its_handle() {
    run_all(&|setup| {
        let memory = MemoryCheckpointer::with_max_history(setup.max_history).unwrap();
        Place::new(memory.clone()).reopened_by(move || memory.clone())
    });
}

#[test]
fn store() {
    run_all(&|setup| store_with(setup, |options| options));
}

#[test]
fn store_in_small_segments_without_mmap() {
    run_all(&|setup| store_with(setup, |options| options.segment_bytes(64 * 1024).mmap(false)));
}

#[test]
fn files() {
    run_all(&|setup| {
        let scratch = Scratch::in_memory();
        let dir = scratch.store_dir();
        let place = FileCheckpointer::options().max_history(setup.max_history).open(&dir).unwrap();
        // The second opening names no max_history: the place keeps its own.
        Place::new(place).reopened_by(move || FileCheckpointer::open(scratch.store_dir()).unwrap())
    });
}

#[test]
#[cfg(feature = "sqlite")]
fn sqlite() {
    run_all(&|setup| {
        let scratch = Scratch::in_memory();
        std::fs::create_dir(scratch.store_dir()).unwrap();
        let file = scratch.store_dir().join("place.db");
        let place = SqliteCheckpointer::options().max_history(setup.max_history).open(&file).unwrap();
        // The second opening names no max_history: the place keeps its own.
        Place::new(place).reopened_by(move || SqliteCheckpointer::open(scratch.store_dir().join("place.db")).unwrap())
    });
}

#[test]
#[cfg(feature = "sqlite")]
fn sqlite_begun_by_windlass_without_a_log() {
    run_all(&|setup| {
        let scratch = Scratch::in_memory();
        std::fs::create_dir(scratch.store_dir()).unwrap();
        let file = scratch.store_dir().join("place.db");
        std::fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/windlass-run.db"), &file).unwrap();
        let windlass = rusqlite::Connection::open(&file).unwrap();
        windlass.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(())).unwrap();
        windlass.execute("DELETE FROM checkpoints", []).unwrap();
        drop(windlass);
        let place = SqliteCheckpointer::options().max_history(setup.max_history).open(&file).unwrap();
        Place::new(place).reopened_by(move || SqliteCheckpointer::open(scratch.store_dir().join("place.db")).unwrap())
    });
}

#[test]
#[cfg(feature = "sqlite")]
fn sqlite_in_memory() {
    run_all(&|setup| Place::new(SqliteCheckpointer::options().max_history(setup.max_history).open(":memory:").unwrap()));
}

fn store_with(setup: Setup, tune: fn(Options) -> Options) -> Place {
    let scratch = Scratch::new();
    let dir = scratch.store_dir();
    let options = move || tune(Store::options()).durability(Durability::Buffered);
    let store = options().max_history(setup.max_history).open(&dir).unwrap();
    // The second opening names no max_history: the store keeps its own.
    Place::new(store).reopened_by(move || options().open(scratch.store_dir()).unwrap())
}

/// A directory with a store in it, and a watch that nothing was made beside the store.
struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Self {
        Scratch(tempfile::tempdir().unwrap())
    }

    /// In memory where there is such a place: every put of a place of files is synced.
    fn in_memory() -> Self {
        let memory = std::path::Path::new("/dev/shm");
        let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        Scratch(made.or_else(|_| tempfile::tempdir()).unwrap())
    }

    fn store_dir(&self) -> PathBuf {
        self.0.path().join("store")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let beside: Vec<_> = std::fs::read_dir(self.0.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        if !std::thread::panicking() {
            assert_eq!(beside, ["store"], "something was made outside the store");
        }
    }
}
