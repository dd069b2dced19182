//! Databases of other programs, any bytes as one: what the readers of an import make of them.

use rusqlite::Connection;

use super::scratch::Scratch;
use crate::backend::memory::MemoryCheckpointer;
use crate::carry::{Carried, Event};
use crate::error::{ErrorKind, Result};
use crate::import::Database;

/// A database, in front of its length (4 bytes; all of it where they say more), and its `-wal` behind it, if any.
///
/// It is refused, or what is imported is counted to the last row; a second time adds nothing; nothing is made
/// beside it, and both files stay as they are.
pub fn database(data: &[u8]) -> bool {
    let Some((length, rest)) = data.split_first_chunk() else { return false };
    let (file, wal) = rest.split_at(rest.len().min(u32::from_le_bytes(*length) as usize));
    let scratch = Scratch::new();
    let (path, wal_path) = (scratch.0.join("x.db"), scratch.0.join("x.db-wal"));
    std::fs::write(&path, file).unwrap();
    if !wal.is_empty() {
        std::fs::write(&wal_path, wal).unwrap();
    }
    let place = MemoryCheckpointer::with_max_history(None).unwrap();
    let accepted = match Database::open(&path).and_then(|database| import(&database, &place)) {
        Ok(first) => {
            let again = Database::open(&path).and_then(|database| import(&database, &place)).unwrap();
            assert_eq!((again.put, again.attached), (0, 0), "a second time adds nothing");
            first.put > 0
        }
        Err(error) => {
            let known =
                [ErrorKind::InvalidInput, ErrorKind::Unsupported, ErrorKind::Corrupt, ErrorKind::TooLarge, ErrorKind::Io, ErrorKind::Busy];
            assert!(known.contains(&error.kind()), "{error:?}");
            false
        }
    };
    assert_eq!(std::fs::read(&path).unwrap(), file, "the file stays as it is");
    assert_eq!(std::fs::read(&wal_path).unwrap_or_default(), wal, "so does its -wal");
    assert_eq!(std::fs::read_dir(&scratch.0).unwrap().count(), 1 + usize::from(!wal.is_empty()), "nothing is made beside them");
    accepted
}

fn import(database: &Database, place: &MemoryCheckpointer) -> Result<Carried> {
    let mut done = 0;
    let carried = database.carry_to(place, &mut |event| match event {
        Event::Begun { .. } => assert_eq!(done, 0, "it is told first"),
        Event::Done { checkpoints } => done += checkpoints,
        Event::Left(left) => assert!(!left.error.to_string().is_empty()),
    })?;
    assert_eq!(carried.put + carried.skipped() + carried.refused, done, "each row is counted once");
    Ok(carried)
}

/// One of each program, the second one in its `-wal`.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let windlass = "PRAGMA page_size = 512;
        CREATE TABLE checkpoints (id INTEGER PRIMARY KEY, thread_id TEXT, state TEXT, saved_at REAL);
        INSERT INTO checkpoints VALUES (1, 't', '{\"n\": 1}', 1.5), (2, 'u', '[]', 2), (7, 't', hex(zeroblob(400)), 3), (8, 't', '1', 'x')";
    let langgraph = "PRAGMA page_size = 512; PRAGMA journal_mode = WAL;
        CREATE TABLE checkpoints (thread_id TEXT, checkpoint_ns TEXT, checkpoint_id TEXT, parent_checkpoint_id TEXT, type TEXT, checkpoint BLOB, metadata BLOB);
        CREATE TABLE writes (thread_id TEXT, checkpoint_ns TEXT, checkpoint_id TEXT, task_id TEXT, task_path TEXT, idx INTEGER, channel TEXT, type TEXT, value BLOB);
        INSERT INTO checkpoints VALUES ('t', '', 'a', NULL, 'msgpack', x'80', '{}'), ('t', 'n', 'a', 'x', NULL, x'81', '{\"a\": NaN}'), ('t', '', 'b', 'a', 'json', '{}', NULL);
        INSERT INTO writes VALUES ('t', '', 'b', 'task', '', -1, 'ch', 'msgpack', x'01'), ('t', '', 'c', 'task', '', 0, 'ch', NULL, x'')";
    [windlass, langgraph].into_iter().map(seed).collect()
}

fn seed(sql: &str) -> Vec<u8> {
    let scratch = Scratch::new();
    let (path, wal) = (scratch.0.join("x.db"), scratch.0.join("x.db-wal"));
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch(sql).unwrap();
    let file = std::fs::read(&path).unwrap();
    [&(file.len() as u32).to_le_bytes()[..], &file, &std::fs::read(wal).unwrap_or_default()].concat()
}
