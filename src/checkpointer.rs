//! What a place for checkpoints promises: the [`Checkpointer`] trait and its typed extension.
//!
//! The trait is synchronous, object-safe and speaks bytes with a type tag. Writing is one required
//! call, [`Checkpointer::commit`] of a [`Batch`]; everything that writes one thing is provided on
//! top of it, so all-or-nothing is decided in one place per backend. The typed calls are an
//! extension over the trait, so every backend has them. No backend is known here.

use std::ops::Deref;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::batch::{Batch, Committed, ExpectedHead, OnExisting, Parent, PutOptions};
use crate::checkpoint::{Attachment, Checkpoint, CheckpointId, CheckpointInfo, StateBytes, TypeTag};
use crate::error::{Error, ErrorKind, Result};
use crate::json;
use crate::query::{FindQuery, HistoryQuery, ThreadInfo, ThreadQuery, VacuumQuery, Vacuumed};

/// One moment's view of what was asked; holds no lock, and ends after an error.
pub type Items<T> = Box<dyn Iterator<Item = Result<T>> + Send>;

/// What a backend has beyond the basics; what is false answers `Unsupported`.
///
/// ```
/// use taffrail::{Checkpointer, MemoryCheckpointer};
/// let place = MemoryCheckpointer::new();
/// assert!(place.capabilities().branching && !place.capabilities().shared_between_processes);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// Threads can be listed.
    pub list_threads: bool,
    /// Checkpoint ids survive a reopen.
    pub persistent_checkpoint_ids: bool,
    /// [`Checkpointer::find`] by metadata.
    pub metadata_query: bool,
    /// [`Checkpointer::fork`], [`Checkpointer::rename`] and [`Checkpointer::rollback`].
    pub branching: bool,
    /// [`Checkpointer::vacuum`].
    pub vacuum: bool,
    /// [`Checkpointer::vacuum`] by age and idle time.
    pub ttl: bool,
    /// [`Checkpointer::find`] by text.
    pub search: bool,
    /// Listings carry metadata without reading states.
    pub list_with_metadata: bool,
    /// `expected_head` is honoured.
    pub compare_and_put: bool,
    /// [`Checkpointer::attach`], [`Checkpointer::attachments`] and attachments in batches.
    pub attachments: bool,
    /// Several processes can use one place at once.
    pub shared_between_processes: bool,
}

/// A place for checkpoints.
///
/// Absence is no error: what is not there is `None`, empty or `false`. Thread ids are checked by
/// every call (`InvalidInput` when empty or over 4,096 bytes). A point that a call builds on (an
/// explicit parent, `before`, `after`) and that is not there is `NotFound`.
///
/// Calls that write block until what they did is as durable as asked and visible; each is a batch of
/// its own, with the errors of [`Checkpointer::commit`]. Calls that read wait for no writer; bytes
/// that are not as they were put are `Corrupt`, never an answer.
///
/// ```
/// use taffrail::prelude::*;
/// use taffrail::MemoryCheckpointer;
/// let place: Box<dyn Checkpointer> = Box::new(MemoryCheckpointer::new());
/// place.put("t", &vec![1, 2])?;
/// assert_eq!(place.get::<Vec<i32>>("t")?, Some(vec![1, 2]));
/// # Ok::<(), taffrail::Error>(())
/// ```
pub trait Checkpointer: Send + Sync {
    /// What this place has beyond the basics.
    fn capabilities(&self) -> Capabilities;

    /// Carries out a batch, all or nothing, and answers one result per operation, in order.
    ///
    /// Durability is the strongest that its puts ask for, the place's own where there are none.
    /// Errors: `InvalidInput`, `TooLarge`, `NotFound` (an explicit parent), `Conflict`, and what the
    /// medium says; after any of them nothing of the batch was done, but for `Poisoned`, which
    /// leaves that to the next opening: all of it is there then, or nothing.
    fn commit(&self, batch: &Batch<'_>) -> Result<Vec<Committed>>;

    /// The thread's newest checkpoint. Cost: its own state, however long the history.
    fn get_bytes(&self, thread: &str) -> Result<Option<Checkpoint<StateBytes>>>;

    /// The thread's checkpoint of that id. Cost: its own state.
    fn load_bytes(&self, thread: &str, id: &CheckpointId) -> Result<Option<Checkpoint<StateBytes>>>;

    /// The thread's checkpoints, newest first, each read when the iterator reaches it.
    fn history_bytes(&self, thread: &str, query: &HistoryQuery) -> Result<Items<Checkpoint<StateBytes>>>;

    /// As [`Checkpointer::history_bytes`], without reading any state.
    fn list(&self, thread: &str, query: &HistoryQuery) -> Result<Items<CheckpointInfo>>;

    /// Threads in byte order of their ids, without reading any state.
    fn list_threads(&self, query: &ThreadQuery) -> Result<Items<ThreadInfo>>;

    /// The attachments of a checkpoint, in byte order of their keys; also of one that is yet to come.
    ///
    /// They go with their checkpoint, however that goes, and with their thread; an id that is put again keeps
    /// them. What is attached to a checkpoint that never comes goes once the oldest one that the thread keeps
    /// was committed after it (where that is much at once, some with later writes to the thread). Needs
    /// `attachments`.
    fn attachments(&self, thread: &str, id: &CheckpointId) -> Result<Vec<Attachment>>;

    /// Puts one state and answers its id. Blocks until it is durable as asked.
    fn put_bytes(&self, thread: &str, tag: TypeTag, state: &[u8], options: PutOptions) -> Result<CheckpointId> {
        let mut batch = Batch::new();
        batch.put(thread, tag, state, options);
        put_one(self.commit(&batch)?)
    }

    /// Attaches one keyed value to a checkpoint, which may come later; `true` if it was written, `false`
    /// if an earlier one was kept. Makes no thread. Needs `attachments`.
    fn attach(&self, thread: &str, id: &CheckpointId, key: &str, tag: TypeTag, value: &[u8], on: OnExisting) -> Result<bool> {
        let mut batch = Batch::new();
        batch.attach(thread, id.clone(), key, tag, value, on);
        match self.commit(&batch)?.pop() {
            Some(Committed::Attached { written }) => Ok(written),
            other => Err(mismatch(other.as_ref())),
        }
    }

    /// Deletes a thread; `true` if it was there.
    fn delete(&self, thread: &str) -> Result<bool> {
        let mut batch = Batch::new();
        batch.delete(thread, None);
        delete_one(self.commit(&batch)?)
    }

    /// Deletes one checkpoint; `true` if it was there. Deleting the last one ends the thread, with all that it had.
    fn delete_checkpoint(&self, thread: &str, id: &CheckpointId) -> Result<bool> {
        let mut batch = Batch::new();
        batch.delete(thread, Some(id.clone()));
        delete_one(self.commit(&batch)?)
    }

    /// All thread ids in byte order.
    fn threads(&self) -> Result<Vec<String>> {
        self.list_threads(&ThreadQuery::default())?.map(|info| info.map(|info| info.thread)).collect()
    }

    /// Whether the thread has a checkpoint.
    fn exists(&self, thread: &str) -> Result<bool> {
        Ok(self.head(thread)?.is_some())
    }

    /// What is known of the thread's newest checkpoint, without its state.
    fn head(&self, thread: &str) -> Result<Option<CheckpointInfo>> {
        self.list(thread, &HistoryQuery { limit: Some(1), ..HistoryQuery::default() })?.next().transpose()
    }

    /// The threads that hold a checkpoint of that id, in byte order; may look at every checkpoint.
    fn locate(&self, id: &CheckpointId) -> Result<Vec<String>> {
        let mut holders = Vec::new();
        for thread in self.threads()? {
            for info in self.list(&thread, &HistoryQuery::default())? {
                if info?.id == *id {
                    holders.push(thread);
                    break;
                }
            }
        }
        Ok(holders)
    }

    /// Makes a new thread of the checkpoints up to and including `at` (None: the head); answers its head's id.
    ///
    /// It has what the source shows of them, in order: ids, parents, times, metadata, types and bytes, under new
    /// seqs; and what is attached to them. What waits there for a checkpoint yet to come is carried by a fork at
    /// the head alone, and waits on. The source's own number (see [`Checkpointer::retain`]) goes along; else the
    /// place's holds, at once. What waits under `new` already stays, or is attached to the checkpoint of its id that
    /// the fork brings; of two values under one key the source's stands.
    ///
    /// One atomic step, of one moment, synced where puts are by default. The fork owns what it has: what becomes of
    /// the source does not touch it, nor the other way round. Costs what putting all of it in one batch does.
    ///
    /// Errors: `NotFound` where the thread, or `at` in it, is not there; `Conflict` where `new` has a checkpoint
    /// already, so also for the thread itself; `Corrupt` where a state or a value is not as it was put; and those of
    /// [`Checkpointer::commit`]. Needs `branching`.
    ///
    /// ```
    /// use taffrail::prelude::*;
    /// use taffrail::MemoryCheckpointer;
    /// let place = MemoryCheckpointer::new();
    /// let plan = place.put("trip", &"by train")?;
    /// place.put("trip", &"by train, booked")?;
    /// place.fork("trip", Some(&plan), "what if")?;
    /// place.put("what if", &"by boat")?;
    /// assert_eq!(place.get::<String>("trip")?.unwrap(), "by train, booked");
    /// place.rollback("what if", &plan)?;
    /// assert_eq!(place.get::<String>("what if")?.unwrap(), "by train");
    /// # Ok::<(), taffrail::Error>(())
    /// ```
    fn fork(&self, thread: &str, at: Option<&CheckpointId>, new: &str) -> Result<CheckpointId> {
        let _ = (thread, at, new);
        Err(Error::unsupported("fork"))
    }

    /// Gives a thread another id, in one atomic step: as a fork at the head and the deletion of the thread.
    ///
    /// Its own number goes along, and all that is attached, also what waits. The seqs are new ones, and so the cost
    /// is a fork's. Errors: as [`Checkpointer::fork`]. Needs `branching`.
    fn rename(&self, thread: &str, new: &str) -> Result<()> {
        let _ = (thread, new);
        Err(Error::unsupported("rename"))
    }

    /// Makes `to` the head, in one atomic step: deletes every newer checkpoint, with what is attached to it; answers
    /// how many, 0 where it is the head already.
    ///
    /// What waits for a checkpoint yet to come stays. The next put follows `to`; an id that went can be put again,
    /// as a new checkpoint. Errors: `NotFound` where the thread, or `to` in it, is not there, and those of
    /// [`Checkpointer::commit`]. Needs `branching`.
    fn rollback(&self, thread: &str, to: &CheckpointId) -> Result<u64> {
        let _ = (thread, to);
        Err(Error::unsupported("rollback"))
    }

    /// Searches checkpoints, as [`FindQuery`] says, and answers them newest first: in falling order of their seqs,
    /// over all threads; one that was put again stands where it stood.
    ///
    /// By scanning, from the newest on: nothing is indexed. Cost: for metadata what [`Checkpointer::list`] costs for
    /// each checkpoint that is looked at; for text also the state of each whose metadata fits. It ends with the
    /// limit. Memory: one state, as a history holds it, and a number for each thread; a place that cannot read on
    /// later (SQLite) searches before it answers, and holds what was found. Errors: `InvalidInput` for a text
    /// without a word and for a path that ends in an open `\`. Needs `metadata_query`, and `search` for text.
    fn find(&self, query: &FindQuery) -> Result<Items<CheckpointInfo>> {
        let _ = query;
        Err(Error::unsupported("find"))
    }

    /// Deletes by age, idle time or count, as [`VacuumQuery`] says; answers what was really deleted.
    ///
    /// What another writer puts meanwhile stays, and so does an idle thread that it puts to. Each thread
    /// goes whole or not at all where its deletes fit into one batch of the place; after an error the
    /// threads before it are done, and asking again does the others. Errors: `InvalidInput` where nothing
    /// is asked for or `keep` is 0, `Corrupt` where an age cannot be read, and what writing answers;
    /// a dry run writes nothing. Needs `vacuum`, and `ttl` for ages.
    fn vacuum(&self, query: &VacuumQuery) -> Result<Vacuumed> {
        let _ = query;
        Err(Error::unsupported("vacuum"))
    }

    /// Sets how many checkpoints each thread (or the one named) keeps, from now on; None keeps all.
    ///
    /// What is over the number is trimmed at once; a higher one brings nothing back. A thread's own
    /// number goes before the store's and ends with the thread. Errors: `InvalidInput` for 0,
    /// `NotFound` for a thread that is not there.
    fn retain(&self, thread: Option<&str>, keep: Option<usize>) -> Result<()> {
        let _ = (thread, keep);
        Err(Error::unsupported("retain"))
    }

    /// How many checkpoints each thread (or the one named) keeps, as [`Checkpointer::retain`] sets it; None
    /// for all. One that is not there would keep as many as each. Errors: `Unsupported` where it cannot be told.
    fn max_history(&self, thread: Option<&str>) -> Result<Option<usize>> {
        let _ = thread;
        Err(Error::unsupported("max_history"))
    }
}

fn mismatch(got: Option<&Committed>) -> Error {
    Error::new(ErrorKind::Unsupported, format!("the backend answered a batch of one with {got:?}"))
}

pub(crate) fn put_one(mut committed: Vec<Committed>) -> Result<CheckpointId> {
    match committed.pop() {
        Some(Committed::Put(id)) => Ok(id),
        other => Err(mismatch(other.as_ref())),
    }
}

fn delete_one(mut committed: Vec<Committed>) -> Result<bool> {
    match committed.pop() {
        Some(Committed::Deleted { existed }) => Ok(existed),
        other => Err(mismatch(other.as_ref())),
    }
}

/// The typed calls, over JSON, on every [`Checkpointer`]; `use taffrail::prelude::*` brings them.
///
/// ```
/// use taffrail::prelude::*;
/// use taffrail::MemoryCheckpointer;
/// let place = MemoryCheckpointer::new();
/// let first = place.put("trip", &vec!["plan"])?;
/// place.put("trip", &vec!["plan", "search"])?;
/// let steps = place.history::<Vec<String>>("trip", 10)?;
/// assert_eq!((steps.len(), &steps[1].id), (2, &first));
/// // Another way from the first step on, beside the one that was taken.
/// place.update("trip", &first, |state: &mut Vec<String>| state.push("ask".into()))?;
/// assert_eq!(place.get::<Vec<String>>("trip")?.unwrap(), ["plan", "ask"]);
/// # Ok::<(), taffrail::Error>(())
/// ```
pub trait CheckpointerExt: Checkpointer {
    /// Puts a value as JSON and answers its id. Errors: as `commit`; NaN and infinity are
    /// `InvalidInput` with their path.
    fn put<S: Serialize + ?Sized>(&self, thread: &str, state: &S) -> Result<CheckpointId> {
        self.put_with(thread, state, PutOptions::default())
    }

    /// As [`CheckpointerExt::put`], with options.
    fn put_with<S: Serialize + ?Sized>(&self, thread: &str, state: &S, options: PutOptions) -> Result<CheckpointId> {
        let text = json::to_text(state).map_err(|error| error.with_thread(thread))?;
        put_one(self.commit(&Batch::of_serialised(thread, &text, options))?)
    }

    /// The thread's newest state. Errors: `Decode` when it is not an `S`.
    fn get<S: DeserializeOwned>(&self, thread: &str) -> Result<Option<S>> {
        Ok(self.get_bytes(thread)?.map(typed).transpose()?.map(|checkpoint| checkpoint.state))
    }

    /// The thread's checkpoint of that id. Errors: `Decode` when its state is not an `S`.
    fn load<S: DeserializeOwned>(&self, thread: &str, id: &CheckpointId) -> Result<Option<Checkpoint<S>>> {
        self.load_bytes(thread, id)?.map(typed).transpose()
    }

    /// The thread's newest checkpoints, newest first; `None` for all of them.
    fn history<S: DeserializeOwned>(&self, thread: &str, limit: impl Into<Option<usize>>) -> Result<Vec<Checkpoint<S>>> {
        let query = HistoryQuery { limit: limit.into(), ..HistoryQuery::default() };
        self.history_bytes(thread, &query)?.map(|checkpoint| typed(checkpoint?)).collect()
    }

    /// Puts a changed copy of an older checkpoint's state as the thread's newest, and answers its id.
    ///
    /// The old one stays as it is, and is the new one's parent. Its metadata is not carried over, for it told of that
    /// step: see [`CheckpointerExt::update_with`]. Where another writer moved the thread between this call's
    /// reading and its put, nothing is written (`Conflict`), and asking again begins with what is there then; a
    /// place without `compare_and_put` puts on top of what is newest by then.
    ///
    /// ```
    /// use taffrail::prelude::*;
    /// use taffrail::MemoryCheckpointer;
    /// let place = MemoryCheckpointer::new();
    /// let first = place.put("t", &vec!["plan"])?;
    /// place.put("t", &vec!["plan", "wrong turn"])?;
    /// place.update("t", &first, |steps: &mut Vec<String>| steps.push("search".into()))?;
    /// assert_eq!(place.get::<Vec<String>>("t")?.unwrap(), ["plan", "search"]);
    /// # Ok::<(), taffrail::Error>(())
    /// ```
    ///
    /// Errors: `NotFound` where the checkpoint is not there, or is not any more; `Conflict`; `Decode` when its state
    /// is not an `S`; and as `put`.
    fn update<S: Serialize + DeserializeOwned>(
        &self,
        thread: &str,
        id: &CheckpointId,
        change: impl FnOnce(&mut S),
    ) -> Result<CheckpointId> {
        self.update_with(thread, id, PutOptions::default(), change)
    }

    /// As [`CheckpointerExt::update`], with options: metadata (that of the old one, say), a condition on the head
    /// instead of the one that `update` makes, an id, which must not be there yet (`Conflict`). The parent is the old
    /// one whatever they say.
    fn update_with<S: Serialize + DeserializeOwned>(
        &self,
        thread: &str,
        id: &CheckpointId,
        options: PutOptions,
        change: impl FnOnce(&mut S),
    ) -> Result<CheckpointId> {
        self.update_bytes(thread, id, options, |old| {
            let mut state = typed::<S>(old.clone())?.state;
            change(&mut state);
            json::to_text(&state).map_err(|error| error.with_thread(thread))
        })
    }

    /// The same for the bytes of a state of any type, which stays of that type; `change` answers the new ones.
    fn update_bytes(
        &self,
        thread: &str,
        id: &CheckpointId,
        mut options: PutOptions,
        change: impl FnOnce(&Checkpoint<StateBytes>) -> Result<Vec<u8>>,
    ) -> Result<CheckpointId> {
        if options.expected_head == ExpectedHead::Any && self.capabilities().compare_and_put {
            // Before the old one is read: who comes in between is noticed.
            options.expected_head = self.head(thread)?.map_or(ExpectedHead::Empty, |head| ExpectedHead::Id(head.id));
        }
        if let Some(own) = &options.id
            && self.load_bytes(thread, own)?.is_some()
        {
            let message = format!("the id {own} is there already, and an update changes no checkpoint; nothing was written");
            return Err(Error::new(ErrorKind::Conflict, message).with_thread(thread));
        }
        let absent = || Error::new(ErrorKind::NotFound, format!("checkpoint {id} is not there to be updated")).with_thread(thread);
        let old = self.load_bytes(thread, id)?.ok_or_else(absent)?;
        let state = change(&old)?;
        self.put_bytes(thread, old.info.tag, &state, options.parent(Parent::Id(id.clone())))
    }
}

impl<T: Checkpointer + ?Sized> CheckpointerExt for T {}

fn typed<S: DeserializeOwned>(checkpoint: Checkpoint<StateBytes>) -> Result<Checkpoint<S>> {
    if checkpoint.info.tag != TypeTag::JSON {
        let message = format!("checkpoint {} holds {}, not json: read it as bytes", checkpoint.info.id, checkpoint.info.tag);
        return Err(Error::new(ErrorKind::Decode, message).with_thread(&checkpoint.info.thread));
    }
    match json::from_text(&checkpoint.state) {
        Ok(state) => Ok(Checkpoint { info: checkpoint.info, state }),
        Err(error) => Err(error.with_thread(&checkpoint.info.thread)),
    }
}

/// Forwards the trait through a pointer, so that boxes, arcs and borrows are places themselves.
macro_rules! forward {
    ($pointer:ty) => {
        impl<T: Checkpointer + ?Sized> Checkpointer for $pointer {
            fn capabilities(&self) -> Capabilities {
                self.deref().capabilities()
            }
            fn commit(&self, batch: &Batch<'_>) -> Result<Vec<Committed>> {
                self.deref().commit(batch)
            }
            fn get_bytes(&self, thread: &str) -> Result<Option<Checkpoint<StateBytes>>> {
                self.deref().get_bytes(thread)
            }
            fn load_bytes(&self, thread: &str, id: &CheckpointId) -> Result<Option<Checkpoint<StateBytes>>> {
                self.deref().load_bytes(thread, id)
            }
            fn history_bytes(&self, thread: &str, query: &HistoryQuery) -> Result<Items<Checkpoint<StateBytes>>> {
                self.deref().history_bytes(thread, query)
            }
            fn list(&self, thread: &str, query: &HistoryQuery) -> Result<Items<CheckpointInfo>> {
                self.deref().list(thread, query)
            }
            fn list_threads(&self, query: &ThreadQuery) -> Result<Items<ThreadInfo>> {
                self.deref().list_threads(query)
            }
            fn attachments(&self, thread: &str, id: &CheckpointId) -> Result<Vec<Attachment>> {
                self.deref().attachments(thread, id)
            }
            fn put_bytes(&self, thread: &str, tag: TypeTag, state: &[u8], options: PutOptions) -> Result<CheckpointId> {
                self.deref().put_bytes(thread, tag, state, options)
            }
            fn attach(&self, thread: &str, id: &CheckpointId, key: &str, tag: TypeTag, value: &[u8], on: OnExisting) -> Result<bool> {
                self.deref().attach(thread, id, key, tag, value, on)
            }
            fn delete(&self, thread: &str) -> Result<bool> {
                self.deref().delete(thread)
            }
            fn delete_checkpoint(&self, thread: &str, id: &CheckpointId) -> Result<bool> {
                self.deref().delete_checkpoint(thread, id)
            }
            fn threads(&self) -> Result<Vec<String>> {
                self.deref().threads()
            }
            fn exists(&self, thread: &str) -> Result<bool> {
                self.deref().exists(thread)
            }
            fn head(&self, thread: &str) -> Result<Option<CheckpointInfo>> {
                self.deref().head(thread)
            }
            fn locate(&self, id: &CheckpointId) -> Result<Vec<String>> {
                self.deref().locate(id)
            }
            fn fork(&self, thread: &str, at: Option<&CheckpointId>, new: &str) -> Result<CheckpointId> {
                self.deref().fork(thread, at, new)
            }
            fn rename(&self, thread: &str, new: &str) -> Result<()> {
                self.deref().rename(thread, new)
            }
            fn rollback(&self, thread: &str, to: &CheckpointId) -> Result<u64> {
                self.deref().rollback(thread, to)
            }
            fn find(&self, query: &FindQuery) -> Result<Items<CheckpointInfo>> {
                self.deref().find(query)
            }
            fn vacuum(&self, query: &VacuumQuery) -> Result<Vacuumed> {
                self.deref().vacuum(query)
            }
            fn retain(&self, thread: Option<&str>, keep: Option<usize>) -> Result<()> {
                self.deref().retain(thread, keep)
            }
            fn max_history(&self, thread: Option<&str>) -> Result<Option<usize>> {
                self.deref().max_history(thread)
            }
        }
    };
}

forward!(&T);
forward!(Box<T>);
forward!(std::sync::Arc<T>);
