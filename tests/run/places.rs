//! The places that the tests run on, and one that is watched.

use taffrail::{
    Attachment, Batch, Capabilities, Checkpoint, CheckpointId, CheckpointInfo, Checkpointer, Committed, Durability, FileCheckpointer,
    HistoryQuery, Items, MemoryCheckpointer, Result, StateBytes, Store, ThreadInfo, ThreadQuery,
};

use crate::scratch::Scratch;

/// Runs a test on each kind of place, opened to keep so many checkpoints of each thread.
pub fn each(keep: impl Into<Option<usize>>, test: impl Fn(&dyn Checkpointer)) {
    let (keep, scratch) = (keep.into(), Scratch::new());
    test(&MemoryCheckpointer::with_max_history(keep).unwrap());
    test(&Store::options().max_history(keep).durability(Durability::Buffered).open(scratch.path("store")).unwrap());
    test(&FileCheckpointer::options().max_history(keep).open(scratch.path("files")).unwrap());
    #[cfg(feature = "sqlite")]
    test(&taffrail::SqliteCheckpointer::options().max_history(keep).open(scratch.path("place.db")).unwrap());
}

/// The names of places under a directory that live longer than a process.
pub fn lasting(scratch: &Scratch) -> Vec<String> {
    let name = |scheme: &str| format!("{scheme}:{}", scratch.path(scheme).display());
    let mut names = vec![name("log"), name("file")];
    if cfg!(feature = "sqlite") {
        names.push(name("sqlite"));
    }
    names
}

/// What a place is asked.
pub enum Call<'a> {
    Commit(&'a Batch<'a>),
    /// It was carried out, and is not answered yet.
    Committed,
    Get,
    Load,
    History,
    List,
    ListThreads,
    Attachments,
}

/// A place with somebody who is told of each call before it is made, and may refuse it.
pub struct Watched<P, F> {
    pub place: P,
    pub hear: F,
    /// What it says that it can, from what the place can.
    pub can: fn(Capabilities) -> Capabilities,
}

impl<P, F: Fn(Call<'_>) -> Result<()>> Watched<P, F> {
    pub fn of(place: P, hear: F) -> Self {
        Watched { place, hear, can: |can| can }
    }
}

impl<P: Checkpointer, F: Fn(Call<'_>) -> Result<()> + Send + Sync> Checkpointer for Watched<P, F> {
    fn capabilities(&self) -> Capabilities {
        (self.can)(self.place.capabilities())
    }
    fn commit(&self, batch: &Batch<'_>) -> Result<Vec<Committed>> {
        (self.hear)(Call::Commit(batch))?;
        let committed = self.place.commit(batch)?;
        (self.hear)(Call::Committed)?;
        Ok(committed)
    }
    fn get_bytes(&self, thread: &str) -> Result<Option<Checkpoint<StateBytes>>> {
        (self.hear)(Call::Get)?;
        self.place.get_bytes(thread)
    }
    fn load_bytes(&self, thread: &str, id: &CheckpointId) -> Result<Option<Checkpoint<StateBytes>>> {
        (self.hear)(Call::Load)?;
        self.place.load_bytes(thread, id)
    }
    fn history_bytes(&self, thread: &str, query: &HistoryQuery) -> Result<Items<Checkpoint<StateBytes>>> {
        (self.hear)(Call::History)?;
        self.place.history_bytes(thread, query)
    }
    fn list(&self, thread: &str, query: &HistoryQuery) -> Result<Items<CheckpointInfo>> {
        (self.hear)(Call::List)?;
        self.place.list(thread, query)
    }
    fn list_threads(&self, query: &ThreadQuery) -> Result<Items<ThreadInfo>> {
        (self.hear)(Call::ListThreads)?;
        self.place.list_threads(query)
    }
    fn attachments(&self, thread: &str, id: &CheckpointId) -> Result<Vec<Attachment>> {
        (self.hear)(Call::Attachments)?;
        self.place.attachments(thread, id)
    }
}
