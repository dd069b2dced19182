//! A place for checkpoints in a tokio runtime: the calls of the trait and of its typed extension, async.
//!
//! Every call is done by one of the runtime's blocking workers, also a `get` that takes a microsecond:
//! whether it will is not known before (a page may be on the disk), and a hop costs some ten. Writes and
//! reads have a bound of their own each, so that no read waits for writes that wait.
//! What becomes of a call that nobody awaits any more stands in `call`; listings stand in `items`.

mod call;
mod items;

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use self::call::{Away, Begun, Lane};
pub use self::{call::Call, items::AsyncItems};
use crate::batch::{Batch, Committed, OnExisting, OwnedBatch, PutOptions};
use crate::checkpoint::{Attachment, Checkpoint, CheckpointId, CheckpointInfo, StateBytes, TypeTag};
use crate::checkpointer::{Capabilities, Checkpointer, CheckpointerExt, Items, put_one};
use crate::error::Result;
use crate::json;
use crate::query::{FindQuery, HistoryQuery, ThreadInfo, ThreadQuery, VacuumQuery, Vacuumed};

/// How many writes are under way at once: those that wait for the device together share one sync.
const WRITES_MAX: u32 = 64;
/// How many reads.
const READS_MAX: u32 = 32;
/// How much a listing reads ahead, with states and without.
const STATES_AT_ONCE: usize = 16;
const INFOS_AT_ONCE: usize = 256;

/// Any place for checkpoints, in a tokio runtime of either kind: the same calls, and none blocks a worker of it.
///
/// Cheap to clone; all clones are one. A call is made as a [`Call`], which owns what it was given, so
/// that it can be spawned as it is. At most 64 calls that write and 32 that read are under way at once,
/// each by a blocking worker of the runtime; the others wait in their order, and reads wait for no write.
///
/// Two calls have an order if the second is made after the first was answered. A write whose future was
/// dropped (by a time-out, say) may still be under way: [`AsyncStore::settled`] waits for it. Who writes
/// under `expected_head` need not. Puts that are in flight when a runtime is dropped end before it does;
/// after `shutdown_timeout` or `shutdown_background` they end with the process at the latest, as if it was killed.
///
/// What only a [`Store`](crate::Store) has (`sync`, `compact`, `backup`) goes through [`AsyncStore::blocking`]
/// with a clone of its handle, and a [`Watch`](crate::Watch) is made into an [`AsyncItems`].
///
/// ```
/// use taffrail::{AsyncStore, Store};
/// # let scratch = tempfile::tempdir().unwrap();
/// # let dir = scratch.path().join("runs");
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let store = Store::open(&dir)?;
/// let place = AsyncStore::new(store.clone());
/// place.put("thread-1", &vec!["plan"]).await?;
/// let put = tokio::spawn(place.put("thread-1", &vec!["plan", "search"]));
/// put.await.unwrap()?;
/// assert_eq!(place.get::<Vec<String>>("thread-1").await?.unwrap(), ["plan", "search"]);
/// let mut steps = place.list("thread-1", &Default::default()).await?;
/// while let Some(step) = steps.next().await {
///     println!("{}", step?.id);
/// }
/// place.blocking(move |_| store.compact()).await?;
/// place.close().await?;
/// # Ok::<(), taffrail::Error>(())
/// # })?;
/// # Ok::<(), taffrail::Error>(())
/// ```
#[derive(Clone)]
pub struct AsyncStore(Arc<Shared>);

struct Shared {
    place: Away<Box<dyn Checkpointer>>,
    writes: Lane,
    reads: Lane,
}

impl AsyncStore {
    /// Takes a place in; needs no runtime yet. Its last clone, dropped in a runtime, ends the place off it.
    pub fn new(inner: impl Checkpointer + 'static) -> Self {
        AsyncStore(Arc::new(Shared { place: Away::new(Box::new(inner)), writes: Lane::new(WRITES_MAX), reads: Lane::new(READS_MAX) }))
    }

    /// What this place has beyond the basics; asked of it here and now.
    pub fn capabilities(&self) -> Capabilities {
        self.0.place.capabilities()
    }

    /// Hands the place to `work`, which may block, off the runtime. Not bounded as other calls are.
    ///
    /// Errors: those of `work`, and those of a [`Call`].
    pub fn blocking<T: Send + 'static>(&self, work: impl FnOnce(&dyn Checkpointer) -> Result<T> + Send + 'static) -> Call<T> {
        let shared = self.0.clone();
        Call::new(async move { Begun::new(move || work(&**shared.place))?.end().await? })
    }

    /// Waits until every write that has begun by now has ended, also those that nobody awaits any more.
    pub fn settled(&self) -> Call<()> {
        let writes = self.0.writes.clone();
        Call::new(async move { writes.enter(WRITES_MAX).await.map(drop) })
    }

    /// Waits as [`AsyncStore::settled`] does, and gives the place up; it ends with its last clone, off the runtime.
    ///
    /// A `Store` that ends says nothing of what it could not sync: who put `Buffered` asks its `sync` before.
    pub fn close(self) -> Call<()> {
        Call::new(async move {
            self.settled().await?;
            Begun::new(move || drop(Arc::into_inner(self.0).and_then(|shared| shared.place.take())))?.end().await
        })
    }

    fn write<T: Send + 'static>(&self, work: impl FnOnce(&dyn Checkpointer) -> Result<T> + Send + 'static) -> Call<T> {
        self.call(self.0.writes.clone(), work)
    }

    fn read<T: Send + 'static>(&self, work: impl FnOnce(&dyn Checkpointer) -> Result<T> + Send + 'static) -> Call<T> {
        self.call(self.0.reads.clone(), work)
    }

    fn call<T: Send + 'static>(&self, lane: Lane, work: impl FnOnce(&dyn Checkpointer) -> Result<T> + Send + 'static) -> Call<T> {
        let shared = self.0.clone();
        Call::new(async move {
            let turn = lane.enter(1).await?;
            let work = move || {
                let _turn = turn;
                work(&**shared.place)
            };
            Begun::new(work)?.end().await?
        })
    }

    fn listing<T: Send + 'static>(
        &self,
        at_once: usize,
        ask: impl FnOnce(&dyn Checkpointer) -> Result<Items<T>> + Send + 'static,
    ) -> Call<AsyncItems<T>> {
        let lane = self.0.reads.clone();
        self.read(move |place| Ok(AsyncItems::begin(ask(place)?, at_once, lane)))
    }
}

/// The calls of [`Checkpointer`]: what each does, and its errors, stand there.
impl AsyncStore {
    /// As [`Checkpointer::commit`]; the batch is copied.
    pub fn commit(&self, batch: &Batch<'_>) -> Call<Vec<Committed>> {
        let batch = OwnedBatch::from(batch);
        self.write(move |place| place.commit(&batch.borrow()))
    }

    /// As [`Checkpointer::get_bytes`].
    pub fn get_bytes(&self, thread: &str) -> Call<Option<Checkpoint<StateBytes>>> {
        let thread = thread.to_owned();
        self.read(move |place| place.get_bytes(&thread))
    }

    /// As [`Checkpointer::load_bytes`].
    pub fn load_bytes(&self, thread: &str, id: &CheckpointId) -> Call<Option<Checkpoint<StateBytes>>> {
        let (thread, id) = (thread.to_owned(), id.clone());
        self.read(move |place| place.load_bytes(&thread, &id))
    }

    /// As [`Checkpointer::history_bytes`].
    pub fn history_bytes(&self, thread: &str, query: &HistoryQuery) -> Call<AsyncItems<Checkpoint<StateBytes>>> {
        let (thread, query) = (thread.to_owned(), query.clone());
        self.listing(STATES_AT_ONCE, move |place| place.history_bytes(&thread, &query))
    }

    /// As [`Checkpointer::list`].
    pub fn list(&self, thread: &str, query: &HistoryQuery) -> Call<AsyncItems<CheckpointInfo>> {
        let (thread, query) = (thread.to_owned(), query.clone());
        self.listing(INFOS_AT_ONCE, move |place| place.list(&thread, &query))
    }

    /// As [`Checkpointer::list_threads`].
    pub fn list_threads(&self, query: &ThreadQuery) -> Call<AsyncItems<ThreadInfo>> {
        let query = query.clone();
        self.listing(INFOS_AT_ONCE, move |place| place.list_threads(&query))
    }

    /// As [`Checkpointer::attachments`].
    pub fn attachments(&self, thread: &str, id: &CheckpointId) -> Call<Vec<Attachment>> {
        let (thread, id) = (thread.to_owned(), id.clone());
        self.read(move |place| place.attachments(&thread, &id))
    }

    /// As [`Checkpointer::put_bytes`]; a `Vec` is moved, all else copied.
    pub fn put_bytes(&self, thread: &str, tag: TypeTag, state: impl Into<Vec<u8>>, options: PutOptions) -> Call<CheckpointId> {
        let batch = OwnedBatch::put(thread, tag, state.into(), options);
        self.write(move |place| put_one(place.commit(&batch.borrow())?))
    }

    /// As [`Checkpointer::attach`]; a `Vec` is moved, all else copied.
    pub fn attach(
        &self,
        thread: &str,
        id: &CheckpointId,
        key: &str,
        tag: TypeTag,
        value: impl Into<Vec<u8>>,
        on: OnExisting,
    ) -> Call<bool> {
        let (thread, id, key, value) = (thread.to_owned(), id.clone(), key.to_owned(), value.into());
        self.write(move |place| place.attach(&thread, &id, &key, tag, &value, on))
    }

    /// As [`Checkpointer::delete`].
    pub fn delete(&self, thread: &str) -> Call<bool> {
        let thread = thread.to_owned();
        self.write(move |place| place.delete(&thread))
    }

    /// As [`Checkpointer::delete_checkpoint`].
    pub fn delete_checkpoint(&self, thread: &str, id: &CheckpointId) -> Call<bool> {
        let (thread, id) = (thread.to_owned(), id.clone());
        self.write(move |place| place.delete_checkpoint(&thread, &id))
    }

    /// As [`Checkpointer::threads`].
    pub fn threads(&self) -> Call<Vec<String>> {
        self.read(|place| place.threads())
    }

    /// As [`Checkpointer::exists`].
    pub fn exists(&self, thread: &str) -> Call<bool> {
        let thread = thread.to_owned();
        self.read(move |place| place.exists(&thread))
    }

    /// As [`Checkpointer::head`].
    pub fn head(&self, thread: &str) -> Call<Option<CheckpointInfo>> {
        let thread = thread.to_owned();
        self.read(move |place| place.head(&thread))
    }

    /// As [`Checkpointer::locate`].
    pub fn locate(&self, id: &CheckpointId) -> Call<Vec<String>> {
        let id = id.clone();
        self.read(move |place| place.locate(&id))
    }

    /// As [`Checkpointer::fork`].
    pub fn fork(&self, thread: &str, at: Option<&CheckpointId>, new: &str) -> Call<CheckpointId> {
        let (thread, at, new) = (thread.to_owned(), at.cloned(), new.to_owned());
        self.write(move |place| place.fork(&thread, at.as_ref(), &new))
    }

    /// As [`Checkpointer::rename`].
    pub fn rename(&self, thread: &str, new: &str) -> Call<()> {
        let (thread, new) = (thread.to_owned(), new.to_owned());
        self.write(move |place| place.rename(&thread, &new))
    }

    /// As [`Checkpointer::rollback`].
    pub fn rollback(&self, thread: &str, to: &CheckpointId) -> Call<u64> {
        let (thread, to) = (thread.to_owned(), to.clone());
        self.write(move |place| place.rollback(&thread, &to))
    }

    /// As [`Checkpointer::find`].
    pub fn find(&self, query: &FindQuery) -> Call<AsyncItems<CheckpointInfo>> {
        let query = query.clone();
        self.listing(INFOS_AT_ONCE, move |place| place.find(&query))
    }

    /// As [`Checkpointer::vacuum`].
    pub fn vacuum(&self, query: &VacuumQuery) -> Call<Vacuumed> {
        let query = query.clone();
        self.write(move |place| place.vacuum(&query))
    }

    /// As [`Checkpointer::retain`].
    pub fn retain(&self, thread: Option<&str>, keep: Option<usize>) -> Call<()> {
        let thread = thread.map(str::to_owned);
        self.write(move |place| place.retain(thread.as_deref(), keep))
    }

    /// As [`Checkpointer::max_history`].
    pub fn max_history(&self, thread: Option<&str>) -> Call<Option<usize>> {
        let thread = thread.map(str::to_owned);
        self.read(move |place| place.max_history(thread.as_deref()))
    }
}

/// The calls of [`CheckpointerExt`], over JSON.
impl AsyncStore {
    /// As [`CheckpointerExt::put`]. The value is made JSON here and now, which takes about 1 ms a megabyte.
    pub fn put<S: Serialize + ?Sized>(&self, thread: &str, state: &S) -> Call<CheckpointId> {
        self.put_with(thread, state, PutOptions::default())
    }

    /// As [`AsyncStore::put`], with options.
    pub fn put_with<S: Serialize + ?Sized>(&self, thread: &str, state: &S, options: PutOptions) -> Call<CheckpointId> {
        match json::to_text(state) {
            Ok(text) => {
                let batch = OwnedBatch::of_serialised(thread, text, options);
                self.write(move |place| put_one(place.commit(&batch.borrow())?))
            }
            Err(error) => {
                let error = error.with_thread(thread);
                Call::new(async { Err(error) })
            }
        }
    }

    /// As [`CheckpointerExt::get`].
    pub fn get<S: DeserializeOwned + Send + 'static>(&self, thread: &str) -> Call<Option<S>> {
        let thread = thread.to_owned();
        self.read(move |place| place.get(&thread))
    }

    /// As [`CheckpointerExt::load`].
    pub fn load<S: DeserializeOwned + Send + 'static>(&self, thread: &str, id: &CheckpointId) -> Call<Option<Checkpoint<S>>> {
        let (thread, id) = (thread.to_owned(), id.clone());
        self.read(move |place| place.load(&thread, &id))
    }

    /// As [`CheckpointerExt::history`].
    pub fn history<S>(&self, thread: &str, limit: impl Into<Option<usize>>) -> Call<Vec<Checkpoint<S>>>
    where
        S: DeserializeOwned + Send + 'static,
    {
        let (thread, limit) = (thread.to_owned(), limit.into());
        self.read(move |place| place.history(&thread, limit))
    }

    /// As [`CheckpointerExt::update`].
    pub fn update<S>(&self, thread: &str, id: &CheckpointId, change: impl FnOnce(&mut S) + Send + 'static) -> Call<CheckpointId>
    where
        S: Serialize + DeserializeOwned + 'static,
    {
        self.update_with(thread, id, PutOptions::default(), change)
    }

    /// As [`CheckpointerExt::update_with`].
    pub fn update_with<S>(
        &self,
        thread: &str,
        id: &CheckpointId,
        options: PutOptions,
        change: impl FnOnce(&mut S) + Send + 'static,
    ) -> Call<CheckpointId>
    where
        S: Serialize + DeserializeOwned + 'static,
    {
        let (thread, id) = (thread.to_owned(), id.clone());
        self.write(move |place| place.update_with(&thread, &id, options, change))
    }

    /// As [`CheckpointerExt::update_bytes`].
    pub fn update_bytes(
        &self,
        thread: &str,
        id: &CheckpointId,
        options: PutOptions,
        change: impl FnOnce(&Checkpoint<StateBytes>) -> Result<Vec<u8>> + Send + 'static,
    ) -> Call<CheckpointId> {
        let (thread, id) = (thread.to_owned(), id.clone());
        self.write(move |place| place.update_bytes(&thread, &id, options, change))
    }
}

impl std::fmt::Debug for AsyncStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AsyncStore").finish_non_exhaustive()
    }
}
