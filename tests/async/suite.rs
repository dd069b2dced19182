//! The conformance suite over the async calls, each blocked on by itself.

use taffrail::testing::conformance::{Place, run_all};
use taffrail::{
    AsyncItems, AsyncStore, Attachment, Batch, Capabilities, Checkpoint, CheckpointId, CheckpointInfo, Checkpointer, Committed, Durability,
    ErrorKind, FileCheckpointer, FindQuery, HistoryQuery, Items, MemoryCheckpointer, OnExisting, PutOptions, Result, StateBytes, Store,
    ThreadInfo, ThreadQuery, TypeTag, VacuumQuery, Vacuumed,
};
use tokio::runtime::Runtime;

use super::{alone, several};

/// An async place made a plain one again.
struct Blocked {
    runtime: Runtime,
    place: AsyncStore,
}

impl Blocked {
    fn new(runtime: Runtime, place: impl Checkpointer + 'static) -> Self {
        Blocked { runtime, place: AsyncStore::new(place) }
    }

    fn all<T: Send + 'static>(&self, items: AsyncItems<T>) -> Items<T> {
        let mut items = items;
        let mut read = Vec::new();
        while let Some(item) = self.runtime.block_on(items.next()) {
            read.push(item);
        }
        Box::new(read.into_iter())
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        self.runtime.block_on(self.place.clone().settled()).unwrap();
        let place = std::mem::replace(&mut self.place, AsyncStore::new(MemoryCheckpointer::new()));
        self.runtime.block_on(place.close()).unwrap();
    }
}

impl Checkpointer for Blocked {
    fn capabilities(&self) -> Capabilities {
        self.place.capabilities()
    }
    fn commit(&self, batch: &Batch<'_>) -> Result<Vec<Committed>> {
        self.runtime.block_on(self.place.commit(batch))
    }
    fn get_bytes(&self, thread: &str) -> Result<Option<Checkpoint<StateBytes>>> {
        self.runtime.block_on(self.place.get_bytes(thread))
    }
    fn load_bytes(&self, thread: &str, id: &CheckpointId) -> Result<Option<Checkpoint<StateBytes>>> {
        self.runtime.block_on(self.place.load_bytes(thread, id))
    }
    fn history_bytes(&self, thread: &str, query: &HistoryQuery) -> Result<Items<Checkpoint<StateBytes>>> {
        self.runtime.block_on(self.place.history_bytes(thread, query)).map(|items| self.all(items))
    }
    fn list(&self, thread: &str, query: &HistoryQuery) -> Result<Items<CheckpointInfo>> {
        self.runtime.block_on(self.place.list(thread, query)).map(|items| self.all(items))
    }
    fn list_threads(&self, query: &ThreadQuery) -> Result<Items<ThreadInfo>> {
        self.runtime.block_on(self.place.list_threads(query)).map(|items| self.all(items))
    }
    fn attachments(&self, thread: &str, id: &CheckpointId) -> Result<Vec<Attachment>> {
        self.runtime.block_on(self.place.attachments(thread, id))
    }
    fn put_bytes(&self, thread: &str, tag: TypeTag, state: &[u8], options: PutOptions) -> Result<CheckpointId> {
        self.runtime.block_on(self.place.put_bytes(thread, tag, state, options))
    }
    fn attach(&self, thread: &str, id: &CheckpointId, key: &str, tag: TypeTag, value: &[u8], on: OnExisting) -> Result<bool> {
        self.runtime.block_on(self.place.attach(thread, id, key, tag, value, on))
    }
    fn delete(&self, thread: &str) -> Result<bool> {
        self.runtime.block_on(self.place.delete(thread))
    }
    fn delete_checkpoint(&self, thread: &str, id: &CheckpointId) -> Result<bool> {
        self.runtime.block_on(self.place.delete_checkpoint(thread, id))
    }
    fn threads(&self) -> Result<Vec<String>> {
        self.runtime.block_on(self.place.threads())
    }
    fn exists(&self, thread: &str) -> Result<bool> {
        self.runtime.block_on(self.place.exists(thread))
    }
    fn head(&self, thread: &str) -> Result<Option<CheckpointInfo>> {
        self.runtime.block_on(self.place.head(thread))
    }
    fn locate(&self, id: &CheckpointId) -> Result<Vec<String>> {
        self.runtime.block_on(self.place.locate(id))
    }
    fn fork(&self, thread: &str, at: Option<&CheckpointId>, new: &str) -> Result<CheckpointId> {
        self.runtime.block_on(self.place.fork(thread, at, new))
    }
    fn rename(&self, thread: &str, new: &str) -> Result<()> {
        self.runtime.block_on(self.place.rename(thread, new))
    }
    fn rollback(&self, thread: &str, to: &CheckpointId) -> Result<u64> {
        self.runtime.block_on(self.place.rollback(thread, to))
    }
    fn find(&self, query: &FindQuery) -> Result<Items<CheckpointInfo>> {
        self.runtime.block_on(self.place.find(query)).map(|items| self.all(items))
    }
    fn vacuum(&self, query: &VacuumQuery) -> Result<Vacuumed> {
        self.runtime.block_on(self.place.vacuum(query))
    }
    fn retain(&self, thread: Option<&str>, keep: Option<usize>) -> Result<()> {
        self.runtime.block_on(self.place.retain(thread, keep))
    }

    fn max_history(&self, thread: Option<&str>) -> Result<Option<usize>> {
        self.runtime.block_on(self.place.max_history(thread))
    }
}

#[test]
fn memory_in_a_runtime_of_one_worker() {
    run_all(&|setup| Place::new(Blocked::new(alone(), MemoryCheckpointer::with_max_history(setup.max_history).unwrap())));
}

#[test]
fn store_in_a_runtime_of_several() {
    run_all(&|setup| {
        let scratch = tempfile::tempdir().unwrap();
        let options = || Store::options().durability(Durability::Buffered);
        let store = options().max_history(setup.max_history).open(scratch.path().join("store")).unwrap();
        let open = move || Blocked::new(several(), options().open(scratch.path().join("store")).unwrap());
        Place::new(Blocked::new(several(), store)).reopened_by(open)
    });
}

/// A place of files lets one handle in: what `close` answers before the place has ended would be `Busy`.
#[test]
fn files_in_a_runtime_of_one_worker() {
    run_all(&|setup| {
        let scratch = tempfile::tempdir_in(if cfg!(target_os = "linux") { "/dev/shm" } else { "/tmp" }).unwrap();
        let place = FileCheckpointer::options().max_history(setup.max_history).open(scratch.path().join("files")).unwrap();
        let open = move || Blocked::new(alone(), FileCheckpointer::open(scratch.path().join("files")).unwrap());
        Place::new(Blocked::new(alone(), place)).reopened_by(open)
    });
}

#[test]
fn an_update_is_that_of_the_place() {
    let place = AsyncStore::new(MemoryCheckpointer::new());
    alone().block_on(async {
        let old = place.put("t", &1).await.unwrap();
        place.put("t", &2).await.unwrap();
        let new = place.update("t", &old, |state: &mut u8| *state += 8).await.unwrap();
        let head = place.head("t").await.unwrap().unwrap();
        assert_eq!((&head.id, &head.parent), (&new, &Some(old.clone())));
        assert_eq!(place.get::<u8>("t").await.unwrap(), Some(9));
        let missing = place.update_bytes("u", &old, PutOptions::default(), |_| panic!("there is nothing to change")).await;
        assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);
    });
}
