//! SQLite as a place, twice: tuned, and the way windlass's SQLiteCheckpointer uses it.
//!
//! Both are WAL with SQLite's own page cache and checkpoint settings. The tuned one keeps a
//! connection for each worker and its statements prepared; FULL when durable, NORMAL when buffered.
//! The windlass way opens a connection for each call, is always FULL, and prunes after each insert.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, TransactionBehavior, params};
use uuid::Uuid;

use crate::{Durability, Outcome, Place, Worker, touch};

const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

const TUNED_SCHEMA: &str = "CREATE TABLE IF NOT EXISTS checkpoints (
    thread TEXT NOT NULL, seq INTEGER NOT NULL, id TEXT NOT NULL, parent TEXT, saved_at INTEGER NOT NULL,
    state BLOB NOT NULL, PRIMARY KEY (thread, seq))";
const TUNED_PUT: &str = "INSERT INTO checkpoints
    SELECT ?1, coalesce(max(seq), 0) + 1, ?2, (SELECT id FROM checkpoints WHERE thread = ?1 ORDER BY seq DESC LIMIT 1), ?3, ?4
    FROM checkpoints WHERE thread = ?1";
const TUNED_TRIM: &str = "DELETE FROM checkpoints WHERE thread = ?1
    AND seq <= (SELECT max(seq) FROM checkpoints WHERE thread = ?1) - ?2";
const TUNED_GET: &str = "SELECT state FROM checkpoints WHERE thread = ?1 ORDER BY seq DESC LIMIT ?2";

const WINDLASS_SCHEMA: &str = "CREATE TABLE IF NOT EXISTS checkpoints (
    id INTEGER PRIMARY KEY AUTOINCREMENT, thread_id TEXT NOT NULL, state TEXT NOT NULL, saved_at REAL NOT NULL);
    CREATE INDEX IF NOT EXISTS idx_thread ON checkpoints(thread_id, id DESC)";
const WINDLASS_PUT: &str = "INSERT INTO checkpoints (thread_id, state, saved_at) VALUES (?1, ?2, ?3)";
const WINDLASS_PRUNE: &str = "DELETE FROM checkpoints WHERE thread_id = ?1 AND id NOT IN
    (SELECT id FROM checkpoints WHERE thread_id = ?1 ORDER BY id DESC LIMIT ?2)";
const WINDLASS_GET: &str = "SELECT state FROM checkpoints WHERE thread_id = ?1 ORDER BY id DESC LIMIT ?2";

pub(crate) fn connect(file: &Path, synchronous: &str) -> Outcome<Connection> {
    let connection = Connection::open(file)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    let mode: String = connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
    assert_eq!(mode, "wal");
    connection.pragma_update(None, "synchronous", synchronous)?;
    Ok(connection)
}

fn read(connection: &Connection, query: &str, thread: &str, limit: usize) -> Outcome<u64> {
    let mut statement = connection.prepare_cached(query)?;
    let mut rows = statement.query(params![thread, i64::try_from(limit)?])?;
    let mut sum = 0;
    while let Some(row) = rows.next()? {
        sum += touch(row.get_ref(0)?.as_bytes()?);
    }
    Ok(sum)
}

pub struct Tuned {
    file: PathBuf,
    synchronous: &'static str,
    keep: Option<i64>,
}

impl Tuned {
    pub fn open(dir: &Path, durability: Durability, keep: Option<usize>) -> Outcome<Self> {
        let synchronous = match durability {
            Durability::Sync => "full",
            Durability::Buffered => "normal",
        };
        let tuned = Tuned { file: dir.join("tuned.db"), synchronous, keep: keep.map(i64::try_from).transpose()? };
        connect(&tuned.file, synchronous)?.execute_batch(TUNED_SCHEMA)?;
        Ok(tuned)
    }
}

impl Place for Tuned {
    fn worker(&self) -> Outcome<Box<dyn Worker>> {
        Ok(Box::new(TunedUser { connection: connect(&self.file, self.synchronous)?, keep: self.keep }))
    }
}

struct TunedUser {
    connection: Connection,
    keep: Option<i64>,
}

impl Worker for TunedUser {
    fn put(&mut self, thread: &str, state: &[u8]) -> Outcome<()> {
        let id = Uuid::now_v7().hyphenated().to_string();
        let saved_at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_nanos();
        let put = params![thread, id, i64::try_from(saved_at)?, state];
        let Some(keep) = self.keep else {
            self.connection.prepare_cached(TUNED_PUT)?.execute(put)?;
            return Ok(());
        };
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.prepare_cached(TUNED_PUT)?.execute(put)?;
        transaction.prepare_cached(TUNED_TRIM)?.execute(params![thread, keep])?;
        Ok(transaction.commit()?)
    }

    fn get(&mut self, thread: &str) -> Outcome<u64> {
        read(&self.connection, TUNED_GET, thread, 1)
    }

    fn history(&mut self, thread: &str, limit: usize) -> Outcome<u64> {
        read(&self.connection, TUNED_GET, thread, limit)
    }
}

pub struct Windlass {
    file: PathBuf,
    keep: Option<i64>,
}

impl Windlass {
    pub fn open(dir: &Path, keep: Option<usize>) -> Outcome<Self> {
        let windlass = Windlass { file: dir.join("windlass.db"), keep: keep.map(i64::try_from).transpose()? };
        connect(&windlass.file, "full")?.execute_batch(WINDLASS_SCHEMA)?;
        Ok(windlass)
    }
}

impl Place for Windlass {
    fn worker(&self) -> Outcome<Box<dyn Worker>> {
        Ok(Box::new(WindlassUser { file: self.file.clone(), keep: self.keep }))
    }
}

struct WindlassUser {
    file: PathBuf,
    keep: Option<i64>,
}

impl Worker for WindlassUser {
    fn put(&mut self, thread: &str, state: &[u8]) -> Outcome<()> {
        let saved_at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs_f64();
        let mut connection = connect(&self.file, "full")?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute(WINDLASS_PUT, params![thread, std::str::from_utf8(state)?, saved_at])?;
        if let Some(keep) = self.keep {
            transaction.execute(WINDLASS_PRUNE, params![thread, keep])?;
        }
        Ok(transaction.commit()?)
    }

    fn get(&mut self, thread: &str) -> Outcome<u64> {
        read(&connect(&self.file, "full")?, WINDLASS_GET, thread, 1)
    }

    fn history(&mut self, thread: &str, limit: usize) -> Outcome<u64> {
        read(&connect(&self.file, "full")?, WINDLASS_GET, thread, limit)
    }
}
