//! SQLite as who knows it well would use it: WAL, FULL, one connection, prepared statements.

use std::path::Path;
use std::time::SystemTime;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use taffrail::CheckpointId;

use super::Peer;
use crate::failure::{Failure, Result, SYSTEM};

const SCHEMA: &str = "CREATE TABLE checkpoints (
    thread TEXT NOT NULL, seq INTEGER NOT NULL, id TEXT NOT NULL, parent TEXT, saved_at INTEGER NOT NULL,
    state BLOB NOT NULL, PRIMARY KEY (thread, seq))";
const PUT: &str = "INSERT INTO checkpoints
    SELECT ?1, coalesce(max(seq), 0) + 1, ?2, (SELECT id FROM checkpoints WHERE thread = ?1 ORDER BY seq DESC LIMIT 1), ?3, ?4
    FROM checkpoints WHERE thread = ?1";
const TRIM: &str = "DELETE FROM checkpoints WHERE thread = ?1
    AND seq <= (SELECT max(seq) FROM checkpoints WHERE thread = ?1) - ?2";
const NEWEST: &str = "SELECT state FROM checkpoints WHERE thread = ?1 ORDER BY seq DESC LIMIT 1";

pub struct Sqlite {
    connection: Connection,
    keep: usize,
}

impl Sqlite {
    /// Makes a database there.
    pub fn open(file: &Path, keep: usize) -> Result<Self> {
        let make = || {
            let connection = Connection::open(file)?;
            connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
            connection.pragma_update(None, "synchronous", "full")?;
            connection.execute_batch(SCHEMA)?;
            Ok(Sqlite { connection, keep })
        };
        make().map_err(failed)
    }
}

impl Peer for Sqlite {
    fn put(&mut self, thread: &str, state: &[u8]) -> Result<()> {
        let saved_at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_micros() as i64;
        let mut put = || {
            let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            transaction.prepare_cached(PUT)?.execute(params![thread, CheckpointId::fresh().as_str(), saved_at, state])?;
            transaction.prepare_cached(TRIM)?.execute(params![thread, self.keep as i64])?;
            transaction.commit()
        };
        put().map_err(failed)
    }

    fn newest(&mut self, thread: &str) -> Result<Option<Vec<u8>>> {
        let newest = || self.connection.prepare_cached(NEWEST)?.query_row([thread], |row| row.get(0)).optional();
        newest().map_err(failed)
    }
}

fn failed(error: rusqlite::Error) -> Failure {
    Failure::new(SYSTEM, format!("SQLite says: {error}"))
}
