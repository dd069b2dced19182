//! fjall as a place: key = thread, 0, number; value = id and state; each put a batch that is synced by fdatasync.

use std::path::Path;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use taffrail_benches::{Outcome, Place, Worker, touch};
use uuid::Uuid;

const ID_BYTES: usize = 16;
const SEQ_BYTES: usize = 8;

#[derive(Clone)]
pub struct Fjall {
    database: Database,
    checkpoints: Keyspace,
    keep: Option<usize>,
}

impl Fjall {
    pub fn open(dir: &Path, keep: Option<usize>) -> Outcome<Self> {
        let database = Database::builder(dir.join("fjall")).open()?;
        let checkpoints = database.keyspace("checkpoints", KeyspaceCreateOptions::default)?;
        Ok(Fjall { database, checkpoints, keep })
    }
}

fn key(thread: &str, seq: u64) -> Vec<u8> {
    [thread.as_bytes(), &[0], &seq.to_be_bytes()].concat()
}

impl Place for Fjall {
    fn worker(&self) -> Outcome<Box<dyn Worker>> {
        Ok(Box::new(self.clone()))
    }
}

impl Worker for Fjall {
    fn put(&mut self, thread: &str, state: &[u8]) -> Outcome<()> {
        let head = match self.checkpoints.prefix(key(thread, 0).strip_suffix(&[0; SEQ_BYTES]).unwrap_or_default()).next_back() {
            Some(found) => {
                let key = found.key()?;
                u64::from_be_bytes(key[key.len() - SEQ_BYTES..].try_into()?)
            }
            None => 0,
        };
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncData));
        batch.insert(&self.checkpoints, key(thread, head + 1), [Uuid::now_v7().as_bytes(), state].concat());
        if let Some(gone) = self.keep.and_then(|keep| (head + 1).checked_sub(keep as u64)) {
            batch.remove(&self.checkpoints, key(thread, gone));
        }
        Ok(batch.commit()?)
    }

    fn get(&mut self, thread: &str) -> Outcome<u64> {
        self.history(thread, 1)
    }

    fn history(&mut self, thread: &str, limit: usize) -> Outcome<u64> {
        let mut sum = 0;
        for found in self.checkpoints.range(key(thread, 0)..=key(thread, u64::MAX)).rev().take(limit) {
            sum += touch(&found.value()?[ID_BYTES..]);
        }
        Ok(sum)
    }
}
