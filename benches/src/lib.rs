//! What a checkpoint costs, in taffrail and beside it.
//!
//! A [`Place`] is one store on the disk, a [`Worker`] one of its users; each has the same three
//! calls, so that every bench and every figure is one loop over the [`Kind`]s. All places do equal
//! work: the thread's next number, a fresh id and the parent are kept with each state, nothing is
//! trimmed (the windlass way alone prunes, since that is its way), and every state that is read is
//! read through: [`touch`] takes one byte of each 64, in place where the store gives it in place.
//!
//! How to run it, and what is compared on which terms, is in README.md.

use std::error::Error;
use std::path::Path;

pub mod device;
pub mod load;
pub mod noise;
pub mod steps;
pub mod traces;

mod bare;
mod lmdb;
mod ours;
mod sqlite;

/// Whatever a store answers; a bench ends at the first error.
pub type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// One store on the disk.
pub trait Place: Send + Sync {
    /// A user of it, with what it keeps for itself (a connection, say).
    fn worker(&self) -> Outcome<Box<dyn Worker>>;
}

/// One user of a place, on one OS thread.
pub trait Worker: Send {
    /// Adds a state as the thread's newest.
    fn put(&mut self, thread: &str, state: &[u8]) -> Outcome<()>;
    /// Reads the thread's newest state through.
    fn get(&mut self, thread: &str) -> Outcome<u64>;
    /// Reads the thread's newest `limit` states through.
    fn history(&mut self, thread: &str, limit: usize) -> Outcome<u64>;
}

/// How a put is to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// On the device before it returns.
    Sync,
    /// With the operating system.
    Buffered,
}

/// How the bare log gets the room it writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Room {
    /// Each append grows the file.
    Grown,
    /// Zeros are written 1 MiB ahead, as taffrail does; appends of 256 KiB and more grow the file.
    Steps,
    /// The file was zero-filled and synced before the clock started.
    Before,
}

/// The stores that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// taffrail.
    Ours,
    /// taffrail, promised that no other process is there.
    Single,
    /// Append + fdatasync and nothing else: the limit. Workers share a flush.
    Bare(Room),
    /// SQLite: WAL, one kept connection for each worker, prepared statements.
    Tuned,
    /// SQLite as windlass uses it: a connection for each call, insert and prune to 50.
    Windlass,
    /// LMDB through heed.
    Lmdb,
}

impl Kind {
    /// What it is called in the tables.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Ours => "taffrail",
            Kind::Single => "taffrail, single_process",
            Kind::Bare(Room::Grown) => "bare, grown",
            Kind::Bare(Room::Steps) => "bare, 1 MiB steps",
            Kind::Bare(Room::Before) => "bare, room before",
            Kind::Tuned => "SQLite tuned",
            Kind::Windlass => "SQLite windlass",
            Kind::Lmdb => "LMDB",
        }
    }

    /// All of them.
    pub const ALL: [Kind; 8] = [
        Kind::Ours,
        Kind::Single,
        Kind::Bare(Room::Grown),
        Kind::Bare(Room::Steps),
        Kind::Bare(Room::Before),
        Kind::Tuned,
        Kind::Windlass,
        Kind::Lmdb,
    ];

    /// Opens it in `dir`, which exists; made if missing. All is kept, but by the windlass way the newest 50.
    pub fn open(self, dir: &Path, durability: Durability) -> Outcome<Box<dyn Place>> {
        self.open_keeping(dir, durability, (self == Kind::Windlass).then_some(50))
    }

    /// As [`Kind::open`], with the newest `keep` of each thread kept, or all.
    pub fn open_keeping(self, dir: &Path, durability: Durability, keep: Option<usize>) -> Outcome<Box<dyn Place>> {
        Ok(match self {
            Kind::Ours => Box::new(ours::Ours::open(dir, durability, keep, false)?),
            Kind::Single => Box::new(ours::Ours::open(dir, durability, keep, true)?),
            Kind::Bare(_) if keep.is_some() => return Err("the bare log keeps all".into()),
            Kind::Bare(room) => Box::new(bare::Bare::open(dir, room, durability)?),
            Kind::Tuned => Box::new(sqlite::Tuned::open(dir, durability, keep)?),
            Kind::Windlass => Box::new(sqlite::Windlass::open(dir, keep)?),
            Kind::Lmdb => Box::new(lmdb::Lmdb::open(dir, durability, keep)?),
        })
    }
}

/// Reads a state through: one byte of each 64, the line of a cache.
pub fn touch(bytes: &[u8]) -> u64 {
    bytes.iter().step_by(64).map(|byte| u64::from(*byte)).sum()
}
