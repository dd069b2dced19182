//! A history as it was at one moment, for as long as its reader takes.
//!
//! A transaction kept open would show the same and hinder others: without a write-ahead log every commit,
//! with one the log's end. So all is read at once. What is more than a few megabytes waits in a temporary
//! database of the reader's own, which SQLite keeps in a file without a name, so memory stays bounded.

use std::sync::Arc;

use rusqlite::{Connection, OpenFlags};

use super::failure::{Failure, Outcome};
use super::rows::Page;
use crate::checkpoint::{Checkpoint, CheckpointInfo, StateBytes};
use crate::error::{Error, Result};

/// So many bytes of states are kept in memory.
const MEMORY_BYTES: usize = 8 * 1024 * 1024;

/// What is left to give out, newest first.
pub(super) struct Moment {
    left: std::vec::IntoIter<(CheckpointInfo, Held)>,
    /// Why there is no more.
    failed: Option<Failure>,
    beside: Option<Beside>,
    told: Box<dyn Fn(Failure) -> Error + Send>,
}

enum Held {
    Here(StateBytes),
    Beside(i64),
}

impl Moment {
    /// Reads a page of a thread; `told` makes errors of what goes wrong later.
    pub fn read(
        connection: &Connection,
        thread: &Arc<str>,
        page: &Page,
        told: impl Fn(Failure) -> Error + Send + 'static,
    ) -> Outcome<Self> {
        let (mut held, mut failed, mut beside) = (Vec::new(), None, None);
        let mut room = MEMORY_BYTES;
        page.each(connection, thread, |read| {
            match read {
                // An iterator ends after an error.
                _ if failed.is_some() => {}
                Err(failure) => failed = Some(failure),
                Ok(Checkpoint { info, state }) => match room.checked_sub(state.len()) {
                    Some(left) => {
                        room = left;
                        held.push((info, Held::Here(state)));
                    }
                    None => {
                        let beside = match &mut beside {
                            Some(beside) => beside,
                            none => none.insert(Beside::new()?),
                        };
                        held.push((info, Held::Beside(beside.keep(&state)?)));
                    }
                },
            }
            Ok(())
        })?;
        Ok(Moment { left: held.into_iter(), failed, beside, told: Box::new(told) })
    }

    fn take(&mut self, held: Held) -> Outcome<StateBytes> {
        match (held, &self.beside) {
            (Held::Here(state), _) => Ok(state),
            (Held::Beside(at), Some(beside)) => beside.take(at),
            (Held::Beside(_), None) => Err(Failure::damage("a state that was read is gone")),
        }
    }
}

impl Iterator for Moment {
    type Item = Result<Checkpoint<StateBytes>>;

    fn next(&mut self) -> Option<Self::Item> {
        let Some((info, held)) = self.left.next() else {
            return self.failed.take().map(|failure| Err((self.told)(failure)));
        };
        let taken = self.take(held).map(|state| Checkpoint { info, state });
        if taken.is_err() {
            (self.left, self.failed) = (Vec::new().into_iter(), None);
        }
        Some(taken.map_err(|failure| (self.told)(failure)))
    }
}

/// A temporary database, which goes with its connection.
struct Beside(Connection);

impl Beside {
    fn new() -> Outcome<Self> {
        let connection = Connection::open_with_flags("", OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        connection.execute_batch("PRAGMA journal_mode = OFF; CREATE TABLE states (at INTEGER PRIMARY KEY, bytes BLOB NOT NULL)")?;
        Ok(Beside(connection))
    }

    fn keep(&self, state: &[u8]) -> Outcome<i64> {
        self.0.prepare_cached("INSERT INTO states (bytes) VALUES (?1)")?.execute([state])?;
        Ok(self.0.last_insert_rowid())
    }

    fn take(&self, at: i64) -> Outcome<StateBytes> {
        let bytes: Vec<u8> = self.0.prepare_cached("SELECT bytes FROM states WHERE at = ?1")?.query_row([at], |row| row.get(0))?;
        Ok(bytes.into())
    }
}
