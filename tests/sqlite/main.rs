//! Places in an SQLite file, as they lie on a disk and as others see them: windlass, other programs, other
//! processes, kills, damage. The conformance suite asks the rest.
#![cfg(feature = "sqlite")]
#![allow(unsafe_code, reason = "one test forks")]

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use taffrail::prelude::*;
use taffrail::{HistoryQuery, PutOptions, SqliteCheckpointer, TypeTag};

mod branches;
mod damage;
mod forked;
mod golden;
#[path = "../mounts/mod.rs"]
mod mounts;
mod read_only;
mod refused;
mod texts;
mod together;
mod windlass;

/// A directory in memory, where there is such a place, with the database in it.
struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Scratch {
        let memory = Path::new("/dev/shm");
        let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        Scratch(made.or_else(|_| tempfile::tempdir()).unwrap())
    }

    /// With the database of a run of windlass'.
    fn of_windlass() -> Scratch {
        let scratch = Scratch::new();
        fs::write(scratch.file(), fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/windlass-run.db")).unwrap()).unwrap();
        scratch
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("place.db")
    }

    fn open(&self) -> taffrail::Result<SqliteCheckpointer> {
        SqliteCheckpointer::open(self.file())
    }

    /// A connection of another program's.
    fn other(&self) -> Connection {
        Connection::open(self.file()).unwrap()
    }

    /// The names of the files, sorted.
    fn names(&self) -> Vec<String> {
        let names = fs::read_dir(self.0.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }
}

fn id(text: &str) -> CheckpointId {
    CheckpointId::new(text).unwrap()
}

#[track_caller]
fn put(place: &SqliteCheckpointer, thread: &str, own: &str, state: &[u8]) {
    place.put_bytes(thread, TypeTag::BYTES, state, PutOptions::default().id(id(own))).unwrap();
}

/// Ids, newest first.
#[track_caller]
fn ids(place: &SqliteCheckpointer, thread: &str) -> Vec<String> {
    place.list(thread, &HistoryQuery::default()).unwrap().map(|info| info.unwrap().id.to_string()).collect()
}
