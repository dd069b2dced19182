//! skeleton
#![allow(missing_docs)]
use crate::batch::{Batch, Committed};
use crate::checkpoint::*;
use crate::checkpointer::*;
use crate::error::Result;
use crate::query::*;
/// Memory.
pub struct MemoryCheckpointer;
impl MemoryCheckpointer {
    pub fn new() -> Self {
        MemoryCheckpointer
    }
}
impl Checkpointer for MemoryCheckpointer {
    fn capabilities(&self) -> Capabilities {
        unimplemented!()
    }
    fn commit(&self, _: &Batch<'_>) -> Result<Vec<Committed>> {
        unimplemented!()
    }
    fn get_bytes(&self, _: &str) -> Result<Option<Checkpoint<StateBytes>>> {
        unimplemented!()
    }
    fn load_bytes(&self, _: &str, _: &CheckpointId) -> Result<Option<Checkpoint<StateBytes>>> {
        unimplemented!()
    }
    fn history_bytes(&self, _: &str, _: &HistoryQuery) -> Result<Items<Checkpoint<StateBytes>>> {
        unimplemented!()
    }
    fn list(&self, _: &str, _: &HistoryQuery) -> Result<Items<CheckpointInfo>> {
        unimplemented!()
    }
    fn list_threads(&self, _: &ThreadQuery) -> Result<Items<ThreadInfo>> {
        unimplemented!()
    }
    fn attachments(&self, _: &str, _: &CheckpointId) -> Result<Vec<Attachment>> {
        unimplemented!()
    }
}
