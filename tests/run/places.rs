//! The places that the tests run on.

use taffrail::{Checkpointer, Durability, FileCheckpointer, MemoryCheckpointer, Store};

use crate::scratch::Scratch;

/// Runs a test on each kind of place, opened to keep so many checkpoints of each thread.
pub fn each(keep: impl Into<Option<usize>>, test: impl Fn(&dyn Checkpointer)) {
    let (keep, scratch) = (keep.into(), Scratch::new());
    test(&MemoryCheckpointer::with_max_history(keep).unwrap());
    test(&Store::options().max_history(keep).durability(Durability::Buffered).open(scratch.path("store")).unwrap());
    test(&FileCheckpointer::options().max_history(keep).open(scratch.path("files")).unwrap());
    #[cfg(feature = "sqlite")]
    test(&taffrail::SqliteCheckpointer::options().max_history(keep).open(scratch.path("place.db")).unwrap());
}

/// The names of places under a directory that live longer than a process.
pub fn lasting(scratch: &Scratch) -> Vec<String> {
    let name = |scheme: &str| format!("{scheme}:{}", scratch.path(scheme).display());
    let mut names = vec![name("log"), name("file")];
    if cfg!(feature = "sqlite") {
        names.push(name("sqlite"));
    }
    names
}
