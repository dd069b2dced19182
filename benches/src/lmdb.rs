//! LMDB as a place: key = thread, 0, number; value = id and state, read in place from its mapping.
//!
//! Durable is LMDB's default (each commit syncs); buffered is MDB_NOSYNC, which also survives the
//! death of the process alone. LMDB keeps no checksum.

use std::io::Write;
use std::ops::Bound;
use std::path::Path;

use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions, RoTxn};
use uuid::Uuid;

use crate::{Durability, Outcome, Place, Worker, touch};

/// Address space, not disk.
const MAP_BYTES: usize = 16 << 30;
const ID_BYTES: usize = 16;
const SEQ_BYTES: usize = 8;

#[derive(Clone)]
pub struct Lmdb {
    env: Env,
    checkpoints: Database<Bytes, Bytes>,
    keep: Option<usize>,
}

impl Lmdb {
    pub fn open(dir: &Path, durability: Durability, keep: Option<usize>) -> Outcome<Self> {
        let dir = dir.join("lmdb");
        std::fs::create_dir_all(&dir)?;
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP_BYTES);
        if durability == Durability::Buffered {
            // SAFETY: the flag gives up safety at a power cut, which is what buffered means.
            unsafe { options.flags(EnvFlags::NO_SYNC | EnvFlags::NO_META_SYNC) };
        }
        // SAFETY: the directory is the bench's own; nothing else changes its files.
        let env = unsafe { options.open(&dir)? };
        let mut txn = env.write_txn()?;
        let checkpoints = env.create_database(&mut txn, None)?;
        txn.commit()?;
        Ok(Lmdb { env, checkpoints, keep })
    }

    fn head<'txn>(&self, txn: &'txn RoTxn<'_>, thread: &str) -> Outcome<Option<(u64, &'txn [u8])>> {
        let Some((found, value)) = self.checkpoints.get_lower_than_or_equal_to(txn, &key(thread, u64::MAX))? else { return Ok(None) };
        let (name, seq) = found.split_at(found.len() - SEQ_BYTES);
        if name.strip_suffix(&[0]) != Some(thread.as_bytes()) {
            return Ok(None);
        }
        Ok(Some((u64::from_be_bytes(seq.try_into()?), &value[ID_BYTES..])))
    }
}

fn key(thread: &str, seq: u64) -> Vec<u8> {
    let mut key = Vec::with_capacity(thread.len() + 1 + SEQ_BYTES);
    key.extend_from_slice(thread.as_bytes());
    key.push(0);
    key.extend_from_slice(&seq.to_be_bytes());
    key
}

impl Place for Lmdb {
    fn worker(&self) -> Outcome<Box<dyn Worker>> {
        Ok(Box::new(self.clone()))
    }
}

impl Worker for Lmdb {
    fn put(&mut self, thread: &str, state: &[u8]) -> Outcome<()> {
        let mut txn = self.env.write_txn()?;
        let seq = self.head(&txn, thread)?.map_or(1, |(seq, _)| seq + 1);
        self.checkpoints.put_reserved(&mut txn, &key(thread, seq), ID_BYTES + state.len(), |space| {
            space.write_all(Uuid::now_v7().as_bytes())?;
            space.write_all(state)
        })?;
        if let Some(gone) = self.keep.and_then(|keep| seq.checked_sub(keep as u64)) {
            self.checkpoints.delete(&mut txn, &key(thread, gone))?;
        }
        txn.commit()?;
        Ok(())
    }

    fn get(&mut self, thread: &str) -> Outcome<u64> {
        let txn = self.env.read_txn()?;
        Ok(self.head(&txn, thread)?.map_or(0, |(_, state)| touch(state)))
    }

    fn history(&mut self, thread: &str, limit: usize) -> Outcome<u64> {
        let txn = self.env.read_txn()?;
        let (first, last) = (key(thread, 0), key(thread, u64::MAX));
        let mut sum = 0;
        let range = (Bound::Included(first.as_slice()), Bound::Included(last.as_slice()));
        for entry in self.checkpoints.rev_range(&txn, &range)?.take(limit) {
            sum += touch(&entry?.1[ID_BYTES..]);
        }
        Ok(sum)
    }
}
