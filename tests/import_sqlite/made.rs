//! Databases as the two programs make them, and what an import of one told.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags, Row};
use taffrail::carry::{Carried, Event, LeftWhat};
use taffrail::import::Database;
use taffrail::prelude::*;
use taffrail::{HistoryQuery, PutOptions};

pub fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

pub struct Imported {
    pub carried: Carried,
    /// What was left behind, a line each.
    pub left: Vec<String>,
}

pub fn imported(file: &Path, dest: &dyn Checkpointer) -> Imported {
    let mut left = Vec::new();
    let mut hear = |event: Event<'_>| {
        let Event::Left(what) = event else { return };
        let id = what.id.map(|id| format!(" checkpoint {id:?}")).unwrap_or_default();
        let part = match what.what {
            LeftWhat::Attachment(key) => format!(" attachment {key:?}"),
            LeftWhat::Part(part) => format!(" {part}"),
            _ => String::new(),
        };
        left.push(format!("thread {:?}{id}{part}: {}", what.thread.unwrap(), what.error));
    };
    let carried = Database::open(file).unwrap().carry_to(dest, &mut hear).unwrap();
    Imported { carried, left }
}

/// The ids of a thread, oldest first.
pub fn ids(place: &dyn Checkpointer, thread: &str) -> Vec<String> {
    let newest_first = place.list(thread, &HistoryQuery::default()).unwrap();
    let mut ids: Vec<_> = newest_first.map(|info| info.unwrap().id.to_string()).collect();
    ids.reverse();
    ids
}

pub fn put(place: &dyn Checkpointer, thread: &str, id: &str) {
    place.put_with(thread, &id, PutOptions::default().id(CheckpointId::new(id).unwrap())).unwrap();
}

/// What a query answers, read without touching the file.
pub fn rows<T>(file: &Path, sql: &str, read: impl Fn(&Row<'_>) -> T) -> Vec<T> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(format!("file:{}?immutable=1", file.display()), flags).unwrap();
    let mut statement = connection.prepare(sql).unwrap();
    statement.query_map([], |row| Ok(read(row))).unwrap().map(Result::unwrap).collect()
}

/// A new database of LangGraph's; `pragmas` come first.
pub fn langgraph(file: &Path, pragmas: &str) -> Connection {
    let connection = Connection::open(file).unwrap();
    connection.execute_batch(pragmas).unwrap();
    connection
        .execute_batch(
            "CREATE TABLE checkpoints (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT NOT NULL,
                 parent_checkpoint_id TEXT, type TEXT, checkpoint BLOB, metadata BLOB, PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id));
             CREATE TABLE writes (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT NOT NULL,
                 task_id TEXT NOT NULL, task_path TEXT NOT NULL DEFAULT '', idx INTEGER NOT NULL, channel TEXT NOT NULL, type TEXT,
                 value BLOB, PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx));",
        )
        .unwrap();
    connection
}

/// A step, whose state is its id.
pub fn put_langgraph(connection: &Connection, thread: &str, namespace: &str, id: &str, parent: Option<&str>) {
    let insert = "INSERT INTO checkpoints VALUES (?1, ?2, ?3, ?4, 'msgpack', ?5, '{\"source\": \"loop\"}')";
    connection.execute(insert, (thread, namespace, id, parent, id.as_bytes())).unwrap();
}

/// A new database of windlass'.
#[cfg(feature = "cli")]
pub fn windlass(file: &Path, pragmas: &str) -> Connection {
    let connection = Connection::open(file).unwrap();
    connection.execute_batch(pragmas).unwrap();
    connection
        .execute_batch(
            "CREATE TABLE checkpoints (id INTEGER PRIMARY KEY AUTOINCREMENT, thread_id TEXT NOT NULL, state TEXT NOT NULL, saved_at REAL NOT NULL);
             CREATE INDEX idx_thread ON checkpoints(thread_id, id DESC);",
        )
        .unwrap();
    connection
}
