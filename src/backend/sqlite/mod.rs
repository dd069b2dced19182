//! A place for checkpoints in one SQLite file, in the tables of windlass' `SQLiteCheckpointer` and some of our
//! own beside them. DESIGN.md, section 20, tells the layout.
//!
//! Every call is one transaction: what it reads is one moment, and a batch counts with its COMMIT. Who
//! writes, in any process, writes alone; SQLite's locks and log do the rest (`connections`). Nothing of the
//! database is kept in memory between two calls, so rows that another program adds or deletes are seen at once.

mod branch;
mod change;
mod connections;
mod failure;
mod moment;
mod options;
mod proof;
mod rows;
mod schema;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use self::connections::Connections;
use self::failure::Failure;
use self::moment::Moment;
pub use self::options::SqliteOptions;
use self::rows::Page;
use crate::batch::{Batch, Committed, Durability, Operation, nanos_of_clock, time_of};
use crate::branch::check_names;
use crate::checkpoint::{Attachment, Checkpoint, CheckpointId, CheckpointInfo, StateBytes, check_thread};
use crate::checkpointer::{Capabilities, Checkpointer, Items};
use crate::error::{Error, Result};
use crate::finding::Search;
use crate::options::check_keep;
use crate::query::{FindQuery, HistoryQuery, ThreadInfo, ThreadQuery, VacuumQuery, Vacuumed};

/// The largest state: SQLite takes a billion bytes in one row, and there is more in it than the state.
const STATE_BYTES_MAX: u64 = 999_000_000;

/// A [`Checkpointer`] in one SQLite file, for any number of processes, that windlass reads and writes as well.
///
/// It opens a database of windlass' `SQLiteCheckpointer`, whose checkpoints have their decimal row
/// numbers for ids, and windlass goes on with what is put here. What its table has no column for is in tables
/// beside it. Other programs' databases are refused untouched. What a [`Store`](crate::Store) costs beside it is in benches/RESULTS.md.
///
/// A file that is made here has a write-ahead log beside it (`-wal`, `-shm`): copy it with SQLite's own
/// means, or closed. One that windlass made keeps its journal mode; there every put is synced, whatever its
/// durability. States have at most 999,000,000 bytes. A list of checkpoints is read when it is asked for, and a
/// history too, which costs a copy of its states: beyond 8 MiB in a temporary file.
///
/// ```
/// use taffrail::SqliteCheckpointer;
/// use taffrail::prelude::*;
/// # let scratch = tempfile::tempdir().unwrap();
/// # let file = scratch.path().join("runs.db");
/// let place = SqliteCheckpointer::open(&file)?;
/// place.put("trip", &vec!["plan", "search"])?;
/// let beside = SqliteCheckpointer::open(&file)?;
/// assert_eq!(beside.get::<Vec<String>>("trip")?.unwrap(), ["plan", "search"]);
/// # Ok::<(), taffrail::Error>(())
/// ```
#[derive(Clone)]
pub struct SqliteCheckpointer {
    connections: Arc<Connections>,
}

impl SqliteCheckpointer {
    /// Opens a file, made if missing. Errors: as [`SqliteOptions::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::options().open(path)
    }

    /// A place in this process's memory, gone with its last clone. Errors: `Io` where there is no memory.
    pub fn in_memory() -> Result<Self> {
        Self::options().in_memory()
    }

    /// How to open one otherwise.
    pub fn options() -> SqliteOptions {
        SqliteOptions::default()
    }

    fn opened(connections: Connections, max_history: Option<Option<usize>>) -> Result<Self> {
        let place = SqliteCheckpointer { connections: Arc::new(connections) };
        if let Some(keep) = max_history {
            let stands = place.connections.read(change::place_keep)?;
            if stands != keep.map(|keep| i64::try_from(keep).unwrap_or(i64::MAX)) {
                place.retain(None, keep)?;
            }
        }
        Ok(place)
    }

    /// What makes errors of failures, for who reads on without this handle.
    fn told(&self) -> impl Fn(Failure) -> Error + Send + 'static {
        let path = self.connections.path().map(Path::to_owned);
        move |failure| failure.told(path.as_deref())
    }

    fn now(&self) -> SystemTime {
        time_of(nanos_of_clock(self.connections.fs.now()))
    }
}

impl fmt::Debug for SqliteCheckpointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteCheckpointer").field("path", &self.connections.path()).finish_non_exhaustive()
    }
}

/// The strongest durability that a batch's puts ask for.
fn durability(batch: &Batch<'_>) -> Durability {
    let mut puts = batch.operations().iter().filter_map(|operation| match operation {
        Operation::Put { options, .. } => Some(options.durability.unwrap_or_default()),
        Operation::Attach { .. } | Operation::Delete { .. } => None,
    });
    match puts.next() {
        Some(Durability::Buffered) if puts.all(|other| other == Durability::Buffered) => Durability::Buffered,
        _ => Durability::Sync,
    }
}

impl Checkpointer for SqliteCheckpointer {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            list_threads: true,
            persistent_checkpoint_ids: self.connections.path().is_some(),
            branching: true,
            metadata_query: true,
            vacuum: true,
            ttl: true,
            search: true,
            list_with_metadata: true,
            compare_and_put: true,
            attachments: true,
            shared_between_processes: self.connections.path().is_some(),
            ..Capabilities::default()
        }
    }

    fn commit(&self, batch: &Batch<'_>) -> Result<Vec<Committed>> {
        batch.check(STATE_BYTES_MAX)?;
        if batch.operations().is_empty() {
            return Ok(Vec::new());
        }
        let now = self.now();
        self.connections.write(durability(batch), |connection| change::commit(connection, batch, now))
    }

    fn get_bytes(&self, thread: &str) -> Result<Option<Checkpoint<StateBytes>>> {
        check_thread(thread)?;
        self.connections.read(|connection| Page::newest().first(connection, &thread.into()))
    }

    fn load_bytes(&self, thread: &str, id: &CheckpointId) -> Result<Option<Checkpoint<StateBytes>>> {
        check_thread(thread)?;
        self.connections.read(|connection| match rows::find(connection, thread, id)? {
            Some(row) => Page::one(row).first(connection, &thread.into()),
            None => Ok(None),
        })
    }

    fn history_bytes(&self, thread: &str, query: &HistoryQuery) -> Result<Items<Checkpoint<StateBytes>>> {
        check_thread(thread)?;
        let told = self.told();
        let read = self.connections.read(|connection| {
            let page = Page::of(connection, thread, query)?;
            Moment::read(connection, &thread.into(), &page, told)
        });
        Ok(Box::new(read?))
    }

    fn list(&self, thread: &str, query: &HistoryQuery) -> Result<Items<CheckpointInfo>> {
        check_thread(thread)?;
        let infos = self.connections.read(|connection| Page::of(connection, thread, query)?.infos(connection, &thread.into()))?;
        let told = self.told();
        Ok(Box::new(infos.into_iter().map(move |info| info.map_err(&told))))
    }

    fn list_threads(&self, query: &ThreadQuery) -> Result<Items<ThreadInfo>> {
        query.check()?;
        let threads = self.connections.read(|connection| rows::threads(connection, query))?;
        Ok(Box::new(threads.into_iter().map(Ok)))
    }

    fn attachments(&self, thread: &str, id: &CheckpointId) -> Result<Vec<Attachment>> {
        check_thread(thread)?;
        self.connections.read(|connection| rows::attachments(connection, thread, id))
    }

    fn locate(&self, id: &CheckpointId) -> Result<Vec<String>> {
        self.connections.read(|connection| rows::holders(connection, id))
    }

    fn fork(&self, thread: &str, at: Option<&CheckpointId>, new: &str) -> Result<CheckpointId> {
        check_names(thread, new)?;
        self.connections.write(Durability::Sync, |connection| branch::fork(connection, thread, at, new))
    }

    fn rename(&self, thread: &str, new: &str) -> Result<()> {
        check_names(thread, new)?;
        self.connections.write(Durability::Sync, |connection| branch::rename(connection, thread, new))
    }

    fn rollback(&self, thread: &str, to: &CheckpointId) -> Result<u64> {
        check_thread(thread)?;
        self.connections.write(Durability::Sync, |connection| branch::rollback(connection, thread, to))
    }

    fn find(&self, query: &FindQuery) -> Result<Items<CheckpointInfo>> {
        let search = Search::new(query)?;
        let found = self.connections.read(|connection| rows::found(connection, query.thread.as_deref(), search))?;
        let told = self.told();
        Ok(Box::new(found.into_iter().map(move |info| info.map_err(&told))))
    }

    fn vacuum(&self, query: &VacuumQuery) -> Result<Vacuumed> {
        query.check()?;
        let now = self.connections.fs.now();
        let vacuum = |connection: &rusqlite::Connection| change::vacuum(connection, query, now);
        if query.dry_run { self.connections.read(vacuum) } else { self.connections.write(Durability::Sync, vacuum) }
    }

    fn retain(&self, thread: Option<&str>, keep: Option<usize>) -> Result<()> {
        thread.map_or(Ok(()), check_thread)?;
        check_keep(keep)?;
        self.connections.write(Durability::Sync, |connection| change::retain(connection, thread, keep))
    }

    fn max_history(&self, thread: Option<&str>) -> Result<Option<usize>> {
        thread.map_or(Ok(()), check_thread)?;
        let keep = self.connections.read(|connection| match thread {
            Some(thread) => change::keep_of(connection, thread),
            None => change::place_keep(connection),
        })?;
        Ok(keep.map(|keep| usize::try_from(keep).unwrap_or(usize::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::PutOptions;
    use crate::checkpoint::TypeTag;
    use crate::checkpointer::CheckpointerExt;
    use std::time::Duration;

    const NORMAL: i64 = 1;
    const EXTRA: i64 = 3;

    /// What SQLite is told to sync for such a batch.
    fn synced_as(place: &SqliteCheckpointer, batch: &Batch<'_>) -> i64 {
        let ask = |connection: &rusqlite::Connection| Ok(connection.query_row("PRAGMA synchronous", [], |row| row.get(0))?);
        place.connections.write(durability(batch), ask).unwrap()
    }

    fn puts(durabilities: &[Option<Durability>]) -> Batch<'static> {
        let mut batch = Batch::new();
        for durability in durabilities {
            let options = PutOptions { durability: *durability, ..PutOptions::default() };
            batch.put("t", TypeTag::JSON, b"1", options);
        }
        batch
    }

    #[test]
    fn only_what_may_be_lost_is_left_unsynced() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("place.db");
        let place = SqliteCheckpointer::open(&file).unwrap();
        let buffered = Some(Durability::Buffered);
        for (batch, wanted) in [
            (puts(&[buffered]), NORMAL),
            (puts(&[buffered, Some(Durability::Sync)]), EXTRA),
            (puts(&[None]), EXTRA),
            (puts(&[buffered, buffered]), NORMAL),
            (puts(&[None, buffered]), EXTRA),
            (Batch::new(), EXTRA),
        ] {
            assert_eq!(synced_as(&place, &batch), wanted, "{batch:?}");
        }
        drop(place);
        let other = rusqlite::Connection::open(&file).unwrap();
        other.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(())).unwrap();
        assert_eq!(synced_as(&SqliteCheckpointer::open(&file).unwrap(), &puts(&[buffered])), EXTRA);
    }

    #[test]
    fn a_write_that_failed_in_the_system_poisons() {
        let place = SqliteCheckpointer::in_memory().unwrap();
        place.put("t", &1).unwrap();
        let failed =
            |code| move |_: &rusqlite::Connection| Err(rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None).into());
        let refused = place.connections.write::<()>(Durability::Sync, failed(rusqlite::ffi::SQLITE_FULL)).unwrap_err();
        assert_eq!(refused.kind(), crate::ErrorKind::DiskFull);
        place.put("t", &2).unwrap();
        let poisoned = place.connections.write::<()>(Durability::Sync, failed(rusqlite::ffi::SQLITE_IOERR_FSYNC)).unwrap_err();
        assert_eq!(poisoned.kind(), crate::ErrorKind::Poisoned);
        assert_eq!(place.put("t", &3).unwrap_err().kind(), crate::ErrorKind::Poisoned);
    }

    #[test]
    fn a_worker_that_panicked_stops_no_one_and_leaves_nothing() {
        let place = SqliteCheckpointer::in_memory().unwrap();
        place.put("t", &1).unwrap();
        let other = place.clone();
        let panicked = std::thread::spawn(move || {
            let _ = other.connections.write(Durability::Sync, |connection| -> failure::Outcome<()> {
                connection.execute("DELETE FROM checkpoints", [])?;
                panic!("in a transaction, on purpose");
            });
        });
        assert!(panicked.join().is_err());
        assert_eq!(place.get::<u8>("t").unwrap(), Some(1));
        place.put("t", &2).unwrap();
    }

    #[test]
    fn a_time_label_is_exact() {
        let place = SqliteCheckpointer::in_memory().unwrap();
        for at in [SystemTime::UNIX_EPOCH - Duration::from_nanos(1), SystemTime::UNIX_EPOCH + Duration::new(9_000_000_000, 999_999_999)] {
            place.put_with("t", &1, PutOptions::default().saved_at(at)).unwrap();
            assert_eq!(place.head("t").unwrap().unwrap().saved_at, at);
        }
    }
}
