//! taffrail as a place: states are opaque bytes.

use std::path::Path;

use taffrail::{Checkpointer, HistoryQuery, PutOptions, Store, TypeTag};

use crate::{Durability, Outcome, Place, Worker, touch};

pub struct Ours(Store);

impl Ours {
    /// Opens it, shared with other processes or not.
    pub fn open(dir: &Path, durability: Durability, keep: Option<usize>, single_process: bool) -> Outcome<Self> {
        let durability = match durability {
            Durability::Sync => taffrail::Durability::Sync,
            Durability::Buffered => taffrail::Durability::Buffered,
        };
        let options = Store::options().max_history(keep).durability(durability).single_process(single_process);
        Ok(Ours(options.open(dir.join("store"))?))
    }
}

impl Place for Ours {
    fn worker(&self) -> Outcome<Box<dyn Worker>> {
        Ok(Box::new(User(self.0.clone())))
    }
}

struct User(Store);

impl Worker for User {
    fn put(&mut self, thread: &str, state: &[u8]) -> Outcome<()> {
        self.0.put_bytes(thread, TypeTag::BYTES, state, PutOptions::default())?;
        Ok(())
    }

    fn get(&mut self, thread: &str) -> Outcome<u64> {
        Ok(self.0.get_bytes(thread)?.map_or(0, |checkpoint| touch(&checkpoint.state)))
    }

    fn history(&mut self, thread: &str, limit: usize) -> Outcome<u64> {
        let query = HistoryQuery { limit: Some(limit), ..HistoryQuery::default() };
        let mut sum = 0;
        for checkpoint in self.0.history_bytes(thread, &query)? {
            sum += touch(&checkpoint?.state);
        }
        Ok(sum)
    }
}
