//! One thread's states in taffrail and in SQLite, to be read back one by one: what a trace runs on.
//!
//! SQLite stores each state whole, by a plain insert under (thread, seq), and does less work than
//! [`crate::Kind::Tuned`]: no id, no parent, no number of its own.

use std::path::Path;

use rusqlite::{Connection, params};
use taffrail::{CheckpointId, Checkpointer, HistoryQuery, PutOptions, Store, TypeTag};

use crate::sqlite::connect;
use crate::{Durability, Outcome, touch};

const THREAD: &str = "run-7f3a9c";

/// A user of a thread of states; what is read is read through ([`touch`]).
pub trait Steps {
    /// Adds a state as the newest.
    fn put(&mut self, state: &[u8]) -> Outcome<()>;
    /// Reads the state of that number by its key; the oldest is 0.
    fn load(&mut self, at: usize) -> Outcome<u64>;
    /// Reads the newest state.
    fn latest(&mut self) -> Outcome<u64>;
    /// Reads the newest `limit` states, newest first.
    fn history(&mut self, limit: usize) -> Outcome<u64>;
}

/// How taffrail is opened.
#[derive(Clone, Copy)]
pub struct Way {
    pub durability: Durability,
    /// Whether differences are stored.
    pub delta: bool,
    /// What decoded states it may keep, in bytes; None for as many as it does by itself.
    pub cache_bytes: Option<u64>,
}

impl Way {
    /// As it is by default.
    pub fn usual(durability: Durability) -> Self {
        Way { durability, delta: true, cache_bytes: None }
    }

    /// As it is by default, but with nothing decoded in memory.
    pub fn uncached() -> Self {
        Way { cache_bytes: Some(0), ..Way::usual(Durability::Buffered) }
    }
}

/// taffrail; nothing is trimmed, and nothing compacted unasked.
pub struct Ours {
    pub store: Store,
    ids: Vec<CheckpointId>,
}

impl Ours {
    pub fn open(dir: &Path, way: Way) -> Outcome<Self> {
        let durability = match way.durability {
            Durability::Sync => taffrail::Durability::Sync,
            Durability::Buffered => taffrail::Durability::Buffered,
        };
        let mut options = Store::options().max_history(None).auto_compaction(false).durability(durability).delta(way.delta);
        if let Some(bytes) = way.cache_bytes {
            options = options.cache_bytes(bytes);
        }
        let store = options.open(dir.join("store"))?;
        let ids = store.list(THREAD, &HistoryQuery::default())?.map(|info| Ok(info?.id)).collect::<Outcome<Vec<_>>>()?;
        Ok(Ours { store, ids: ids.into_iter().rev().collect() })
    }

    /// Hands over the newest `limit` states, newest first, each let go before the next is read.
    pub fn newest_first(&self, limit: usize, mut each: impl FnMut(&[u8])) -> Outcome<()> {
        let query = HistoryQuery { limit: Some(limit), ..HistoryQuery::default() };
        for checkpoint in self.store.history_bytes(THREAD, &query)? {
            each(&checkpoint?.state);
        }
        Ok(())
    }

    /// The state of that number, handed over while it is in memory.
    pub fn with(&self, at: usize, see: impl FnOnce(&[u8])) -> Outcome<()> {
        let found = self.store.load_bytes(THREAD, &self.ids[at])?.ok_or("a checkpoint is missing")?;
        see(&found.state);
        Ok(())
    }
}

impl Steps for Ours {
    fn put(&mut self, state: &[u8]) -> Outcome<()> {
        self.ids.push(self.store.put_bytes(THREAD, TypeTag::BYTES, state, PutOptions::default())?);
        Ok(())
    }

    fn load(&mut self, at: usize) -> Outcome<u64> {
        let mut sum = 0;
        self.with(at, |state| sum = touch(state))?;
        Ok(sum)
    }

    fn latest(&mut self) -> Outcome<u64> {
        Ok(self.store.get_bytes(THREAD)?.map_or(0, |checkpoint| touch(&checkpoint.state)))
    }

    fn history(&mut self, limit: usize) -> Outcome<u64> {
        let mut sum = 0;
        self.newest_first(limit, |state| sum += touch(state))?;
        Ok(sum)
    }
}

const SCHEMA: &str = "CREATE TABLE IF NOT EXISTS checkpoints (
    thread TEXT NOT NULL, seq INTEGER NOT NULL, state BLOB NOT NULL, PRIMARY KEY (thread, seq))";
const PUT: &str = "INSERT INTO checkpoints (thread, seq, state) VALUES (?1, ?2, ?3)";
const LOAD: &str = "SELECT state FROM checkpoints WHERE thread = ?1 AND seq = ?2";
const NEWEST: &str = "SELECT state FROM checkpoints WHERE thread = ?1 ORDER BY seq DESC LIMIT ?2";

/// SQLite with whole states: WAL, FULL when durable, NORMAL when buffered.
pub struct Plain {
    connection: Connection,
    puts: i64,
}

impl Plain {
    pub fn open(dir: &Path, durability: Durability) -> Outcome<Self> {
        let synchronous = if durability == Durability::Sync { "full" } else { "normal" };
        let connection = connect(&dir.join("plain.db"), synchronous)?;
        connection.execute_batch(SCHEMA)?;
        let puts = connection.query_row("SELECT count(*) FROM checkpoints", [], |row| row.get(0))?;
        Ok(Plain { connection, puts })
    }

    fn read(&self, query: &str, number: i64) -> Outcome<u64> {
        let mut statement = self.connection.prepare_cached(query)?;
        let mut rows = statement.query(params![THREAD, number])?;
        let mut sum = 0;
        while let Some(row) = rows.next()? {
            sum += touch(row.get_ref(0)?.as_bytes()?);
        }
        Ok(sum)
    }
}

impl Steps for Plain {
    fn put(&mut self, state: &[u8]) -> Outcome<()> {
        self.connection.prepare_cached(PUT)?.execute(params![THREAD, self.puts, state])?;
        self.puts += 1;
        Ok(())
    }

    fn load(&mut self, at: usize) -> Outcome<u64> {
        self.read(LOAD, i64::try_from(at)?)
    }

    fn latest(&mut self) -> Outcome<u64> {
        self.read(NEWEST, 1)
    }

    fn history(&mut self, limit: usize) -> Outcome<u64> {
        self.read(NEWEST, i64::try_from(limit)?)
    }
}
