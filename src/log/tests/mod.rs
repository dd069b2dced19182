//! Tests of the store as a whole that need to see inside it: its index, and the layer below it.

mod answers;
mod attached;
mod backups;
mod beside;
mod branches;
mod clock;
mod compaction;
mod cost;
mod deltas;
mod failing;
mod faults;
mod findings;
mod fresh;
mod gapped;
mod held;
mod hints;
mod interrupted;
mod lagging;
mod media;
mod mended;
mod model;
mod other;
mod overtaken;
mod parted;
mod passing;
mod pressed;
mod promoting;
mod races;
mod room;
mod runs_model;
mod salvaged;
mod schedules;
mod searches;
mod shared;
mod survivors;
mod syncs;
mod torn;
mod unlisted;
mod vacuum;

use std::collections::BTreeMap;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Store;
use super::view::View;

/// A directory that goes with its owner; in memory where there is such a place, for its speed.
struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Scratch {
        let memory = Path::new("/dev/shm");
        let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        Scratch(made.or_else(|_| tempfile::tempdir()).unwrap())
    }

    fn dir(&self) -> PathBuf {
        self.0.path().join("store")
    }
}

/// Copies a directory's files. The copy stands for the directory itself: its page names its own file.
fn image(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
    let page = std::fs::OpenOptions::new().write(true).open(to.join("tail")).unwrap();
    page.write_all_at(&page.metadata().unwrap().ino().to_le_bytes(), 7 * 8).unwrap();
}

type Views = BTreeMap<String, Arc<View>>;

fn views(store: &Store) -> Views {
    store.shared.index.moment().views.into_iter().map(|view| (view.thread().to_string(), view)).collect()
}

/// Asserts that the index of a live handle is the one that reading its files gives.
fn index_is_derived(store: &Store, dir: &Path) {
    let rebuilt = Store::options().read_only(true).open(dir).unwrap();
    assert!(rebuilt.recovery().torn_bytes == 0, "{:?}", rebuilt.recovery());
    index_is_that_of(store, &rebuilt);
}

/// The index of an open store equals one that was built from the files.
fn index_is_that_of(store: &Store, rebuilt: &Store) {
    assert!(rebuilt.recovery().damage.is_empty(), "{:?}", rebuilt.recovery());
    let (live, rebuilt) = (views(store), views(rebuilt));
    assert_eq!(live.keys().collect::<Vec<_>>(), rebuilt.keys().collect::<Vec<_>>());
    for (thread, view) in &live {
        assert_eq!(view, &rebuilt[thread], "the live view of {thread:?} is not the rebuilt one");
    }
}
