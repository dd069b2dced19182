//! skeleton
#![allow(missing_docs)]
use crate::batch::{Batch, Committed};
use crate::checkpoint::*;
use crate::checkpointer::*;
use crate::error::Result;
use crate::options::Options;
use crate::query::*;
use crate::report::*;
use std::path::Path;
/// The embedded store.
#[derive(Clone)]
pub struct Store;
impl Store {
    pub fn open(dir: impl AsRef<Path>) -> Result<Self> {
        Self::options().open(dir)
    }
    pub fn options() -> Options {
        Options::default()
    }
    pub(crate) fn open_with(_dir: &Path, _options: Options) -> Result<Self> {
        unimplemented!()
    }
    pub fn sync(&self) -> Result<()> {
        unimplemented!()
    }
    pub fn close(self) -> Result<()> {
        unimplemented!()
    }
    pub fn recovery(&self) -> &Recovery {
        unimplemented!()
    }
    pub fn stats(&self) -> Result<Stats> {
        unimplemented!()
    }
    pub fn verify(&self) -> Result<Vec<Finding>> {
        unimplemented!()
    }
    pub fn compact(&self) -> Result<Compacted> {
        unimplemented!()
    }
}
impl Checkpointer for Store {
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
