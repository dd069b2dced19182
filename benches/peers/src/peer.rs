//! Who is compared.

use std::path::Path;

use taffrail_benches::{Durability, Kind, Outcome, Place};

use crate::fjall::Fjall;
use crate::redb::Redb;

/// A store, as it is called on the command line and in the table.
pub struct Peer {
    pub name: &'static str,
    pub title: &'static str,
    open: Open,
}

type Open = fn(&Path, Option<usize>) -> Outcome<Box<dyn Place>>;

/// All of them; what the others are held against stands first.
pub const PEERS: [Peer; 6] = [
    Peer { name: "taffrail", title: "taffrail", open: |dir, keep| Kind::Ours.open_keeping(dir, Durability::Sync, keep) },
    Peer { name: "sqlite", title: "SQLite, tuned", open: |dir, keep| Kind::Tuned.open_keeping(dir, Durability::Sync, keep) },
    Peer { name: "windlass", title: "SQLite, as windlass", open: |dir, keep| Kind::Windlass.open_keeping(dir, Durability::Sync, keep) },
    Peer { name: "lmdb", title: "LMDB", open: |dir, keep| Kind::Lmdb.open_keeping(dir, Durability::Sync, keep) },
    Peer { name: "redb", title: "redb", open: |dir, keep| Ok(Box::new(Redb::open(dir, keep)?)) },
    Peer { name: "fjall", title: "fjall", open: |dir, keep| Ok(Box::new(Fjall::open(dir, keep)?)) },
];

impl Peer {
    /// The one of that name.
    pub fn of(name: &str) -> Outcome<&'static Peer> {
        PEERS.iter().find(|peer| peer.name == name).ok_or_else(|| format!("there is no store {name}").into())
    }

    /// Opens it in `dir`, durable; made if missing.
    pub fn open(&self, dir: &Path, keep: Option<usize>) -> Outcome<Box<dyn Place>> {
        (self.open)(dir, keep)
    }
}
