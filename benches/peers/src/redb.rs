//! redb as a place: key = (thread, number), value = id and state; a commit syncs, as by default.

use std::path::Path;
use std::sync::Arc;

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use taffrail_benches::{Outcome, Place, Worker, touch};
use uuid::Uuid;

const CHECKPOINTS: TableDefinition<'_, (&str, u64), &[u8]> = TableDefinition::new("checkpoints");
const ID_BYTES: usize = 16;

#[derive(Clone)]
pub struct Redb {
    database: Arc<Database>,
    keep: Option<usize>,
}

impl Redb {
    pub fn open(dir: &Path, keep: Option<usize>) -> Outcome<Self> {
        let database = Database::create(dir.join("checkpoints.redb"))?;
        let txn = database.begin_write()?;
        txn.open_table(CHECKPOINTS)?;
        txn.commit()?;
        Ok(Redb { database: Arc::new(database), keep })
    }
}

impl Place for Redb {
    fn worker(&self) -> Outcome<Box<dyn Worker>> {
        Ok(Box::new(self.clone()))
    }
}

impl Worker for Redb {
    fn put(&mut self, thread: &str, state: &[u8]) -> Outcome<()> {
        let txn = self.database.begin_write()?;
        {
            let mut table = txn.open_table(CHECKPOINTS)?;
            let head = table.range((thread, 0)..=(thread, u64::MAX))?.next_back().transpose()?.map(|(key, _)| key.value().1);
            let seq = head.unwrap_or(0) + 1;
            {
                let mut value = table.insert_reserve((thread, seq), ID_BYTES + state.len())?;
                value.as_mut()[..ID_BYTES].copy_from_slice(Uuid::now_v7().as_bytes());
                value.as_mut()[ID_BYTES..].copy_from_slice(state);
            }
            if let Some(gone) = self.keep.and_then(|keep| seq.checked_sub(keep as u64)) {
                table.remove((thread, gone))?;
            }
        }
        Ok(txn.commit()?)
    }

    fn get(&mut self, thread: &str) -> Outcome<u64> {
        self.history(thread, 1)
    }

    fn history(&mut self, thread: &str, limit: usize) -> Outcome<u64> {
        let table = self.database.begin_read()?.open_table(CHECKPOINTS)?;
        let mut sum = 0;
        for found in table.range((thread, 0)..=(thread, u64::MAX))?.rev().take(limit) {
            sum += touch(&found?.1.value()[ID_BYTES..]);
        }
        Ok(sum)
    }
}
