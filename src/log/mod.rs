//! The embedded store: a log of checkpoints in a directory, and an index of it in memory.
//!
//! `put`: prepare -> [turn: plan, append] -> sync -> visible. `get`: index -> mapped bytes -> check.
//! This file is the handle and its public calls; how each step works stands in the file of its name.
//! The index is derived: at any moment it equals the one that opening the files again would build.

mod append;
mod commit;
mod directory;
mod examine;
mod fresh;
mod group;
mod ids;
mod index;
mod install;
mod large;
mod leftovers;
mod plan;
mod read;
mod recovery;
mod replay;
mod scan;
mod segments;
mod stats;
mod steps;
mod tail;
mod turn;
mod view;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;

use self::directory::Directory;
use self::group::{Group, poisoned};
use self::ids::IdKey;
use self::index::Index;
use self::segments::{Segment, SegmentSet};
use self::tail::Tail;
use self::turn::{Turn, Writer};
use self::view::View;
use crate::batch::{Batch, Committed};
use crate::checkpoint::{Attachment, Checkpoint, CheckpointId, CheckpointInfo, StateBytes, check_thread};
use crate::checkpointer::{Capabilities, Checkpointer, Items};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::Held;
use crate::fs::fork::Home;
use crate::options::{Options, check_keep};
use crate::query::{HistoryQuery, ThreadInfo, ThreadQuery};
use crate::report::{Compacted, Finding, Recovery, Stats};

/// The embedded store: a directory of checkpoints, durable, fast to read.
///
/// Cheap to clone, `Send` and `Sync`; all clones are one handle. Writes wait for the device unless
/// told otherwise; reads wait for nothing and take no lock. One process at a time has it open.
///
/// ```
/// use taffrail::prelude::*;
/// # let scratch = tempfile::tempdir().unwrap();
/// # let dir = scratch.path().join("runs");
/// let store = Store::open(&dir)?;
/// let id = store.put("thread-1", &42)?;
/// assert_eq!(store.load::<i32>("thread-1", &id)?.unwrap().state, 42);
/// store.close()?;
/// # Ok::<(), taffrail::Error>(())
/// ```
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
}

/// What all clones of a handle share.
pub(crate) struct Shared {
    directory: Directory,
    options: Options,
    index: Index,
    segments: ArcSwap<SegmentSet>,
    tail: Tail,
    group: Group,
    report: Recovery,
    unreadable: Option<PathBuf>,
    home: Home,
    /// `None` for a read-only handle.
    turn: Option<Turn>,
    _lock: Option<Held>,
}

impl Store {
    /// Opens the store in `dir`, or makes one there, with default options. See [`Options::open`].
    pub fn open(dir: impl AsRef<Path>) -> Result<Self> {
        Self::options().open(dir)
    }

    /// Options to open a store with.
    pub fn options() -> Options {
        Options::default()
    }

    pub(crate) fn open_with(dir: &Path, options: Options) -> Result<Self> {
        let directory =
            Directory { fs: options.fs.clone(), path: dir.to_owned(), dir_mode: options.dir_mode, file_mode: options.file_mode };
        let opened = recovery::open(&directory, &options)?;
        let limit = opened.manifest.keep();
        let store = Store { shared: Arc::new(Shared::new(directory, options, opened)) };
        if store.shared.turn.is_some() {
            match store.shared.options.max_history.map(|keep| keep.map(|keep| keep as u64)) {
                Some(asked) if asked != limit => store.shared.retain_all(asked)?,
                // What a lowering of the limit that was cut short left undone.
                _ => store.shared.trim_all(limit)?,
            }
        }
        Ok(store)
    }

    /// Makes everything put so far durable, `Buffered` puts too. Blocks for the device.
    ///
    /// Errors: `ReadOnly`, `Poisoned`, `Busy`.
    pub fn sync(&self) -> Result<()> {
        self.shared.sync()
    }

    /// Makes everything durable and gives the handle up; the store closes with its last clone.
    ///
    /// Dropping the handle does the same without an answer. Errors: as [`Store::sync`]; a read-only
    /// handle has none.
    pub fn close(self) -> Result<()> {
        if self.shared.turn.is_some() { self.shared.sync() } else { Ok(()) }
    }

    /// What opening met: torn bytes, damage, files set aside.
    pub fn recovery(&self) -> &Recovery {
        &self.shared.report
    }

    /// How large the store is, in bytes and counts. Looks at every thread and at the directory,
    /// reads no state. Errors: `Io`, `Corrupt` (the manifest).
    pub fn stats(&self) -> Result<Stats> {
        self.shared.at_home()?;
        self.shared.stats()
    }

    /// Reads every record and state from the files, with system calls, and lists what is not as it
    /// should be. Changes nothing, holds up nobody; cost: the whole store is read.
    ///
    /// Errors: `Io`, and `Corrupt` or `Unsupported` where the log cannot be read at all.
    pub fn verify(&self) -> Result<Vec<Finding>> {
        self.shared.at_home()?;
        self.shared.verify()
    }

    /// Reclaims dead bytes. Errors: `Unsupported` in this version, which only grows.
    pub fn compact(&self) -> Result<Compacted> {
        Err(Error::new(ErrorKind::Unsupported, "this version does not reclaim space yet: what was deleted or trimmed stays in the files"))
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store")
            .field("dir", &self.shared.directory.path)
            .field("read_only", &self.shared.turn.is_none())
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn new(directory: Directory, options: Options, opened: recovery::Opened) -> Shared {
        let recovery::Opened { manifest, index, segments, tail, report, unreadable, writing } = opened;
        let shared = |group, turn, lock| Shared {
            directory,
            options,
            index,
            segments: ArcSwap::from_pointee(segments),
            tail,
            group,
            report,
            unreadable,
            home: Home::here(),
            turn,
            _lock: lock,
        };
        match writing {
            Some(writing) => {
                let group = Group::new(Some(writing.active.file.clone()));
                let turn = Turn::new(Writer { manifest, active: writing.active, next_seq: writing.next_seq });
                shared(group, Some(turn), Some(writing.lock))
            }
            None => shared(Group::new(None), None, None),
        }
    }

    /// The turn. Errors: `ReadOnly`, `Poisoned`, `Busy`.
    fn turn(&self) -> Result<turn::Held<'_>> {
        let Some(turn) = &self.turn else {
            return Err(Error::new(ErrorKind::ReadOnly, "the store was opened read-only").with_file(&self.directory.path, None));
        };
        self.at_home()?;
        let held = turn.take(&self.tail, self.options.busy_timeout)?;
        if self.tail.is_poisoned() { Err(poisoned()) } else { Ok(held) }
    }

    fn sync(&self) -> Result<()> {
        let appended = {
            let turn = self.turn()?;
            turn.active.position(turn.active.end)
        };
        self.group.sync_to(&self.tail, &self.index, appended)
    }

    /// Lets readers find a segment, before any view leads there, and forget those without a record.
    fn change_segments(&self, segment: Arc<Segment>, retired: &[u64]) {
        let mut segments = SegmentSet::clone(&self.segments.load());
        segments.retain(|&number, _| !retired.contains(&u64::from(number)));
        segments.insert(segment.number, segment);
        self.segments.store(Arc::new(segments));
    }

    /// The thread, if it is there. Errors: `Corrupt` when it is not but may stand in a segment that
    /// cannot be read: nobody can say then that it never was.
    fn view(&self, thread: &str) -> Result<Option<Arc<View>>> {
        check_thread(thread)?;
        self.at_home()?;
        match self.index.get(thread) {
            Some(view) => Ok(Some(view)),
            None => self.absent().map(|()| None).map_err(|error: Error| error.with_thread(thread)),
        }
    }

    /// Errors: `Poisoned` in a forked child of the process that opened the handle.
    fn at_home(&self) -> Result<()> {
        if self.home.is_here() {
            return Ok(());
        }
        let message = "this handle belongs to the process that opened it, of which this one is a forked child: open the store again here";
        Err(Error::new(ErrorKind::Poisoned, message).with_file(&self.directory.path, None))
    }

    fn absent(&self) -> Result<()> {
        match &self.unreadable {
            None => Ok(()),
            Some(path) => {
                let message = "not found, but a segment cannot be read and may hold it: see verify";
                Err(Error::new(ErrorKind::Corrupt, message).with_file(path, None))
            }
        }
    }

    /// What a query asks for, each read when the iterator reaches it; of one moment, without a lock.
    fn items<T: 'static>(
        &self,
        thread: &str,
        query: &HistoryQuery,
        read: fn(&SegmentSet, &View, &view::Entry) -> Result<T>,
    ) -> Result<Items<T>> {
        let view = self.view(thread)?.unwrap_or_else(|| Arc::new(View::empty(thread.into())));
        let range = query.range(thread, view.len(), |id| view.find(&IdKey::from(id)))?;
        let segments = self.segments.load_full();
        let items = range.rev().filter_map(move |at| view.entry(at).map(|entry| read(&segments, &view, entry)));
        Ok(ending_after_error(items))
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // A forked child's copy touches neither page nor lock nor worker: they are the parent's.
        let behind = self.home.is_here() && self.tail.appended() > self.tail.synced();
        if self.turn.is_some() && behind && !self.tail.is_poisoned() {
            // A courtesy to Buffered puts; `close` is the call that answers whether it worked.
            let _ = self.sync();
        }
    }
}

impl Checkpointer for Store {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            list_threads: true,
            persistent_checkpoint_ids: true,
            list_with_metadata: true,
            compare_and_put: true,
            ..Capabilities::default()
        }
    }

    fn commit(&self, batch: &Batch<'_>) -> Result<Vec<Committed>> {
        self.shared.commit(batch)
    }

    fn get_bytes(&self, thread: &str) -> Result<Option<Checkpoint<StateBytes>>> {
        let Some(view) = self.shared.view(thread)? else { return Ok(None) };
        view.head().map(|entry| read::checkpoint(&self.shared.segments.load(), &view, entry)).transpose()
    }

    fn load_bytes(&self, thread: &str, id: &CheckpointId) -> Result<Option<Checkpoint<StateBytes>>> {
        let Some(view) = self.shared.view(thread)? else { return Ok(None) };
        match view.find(&IdKey::from(id)).and_then(|at| view.entry(at)) {
            Some(entry) => read::checkpoint(&self.shared.segments.load(), &view, entry).map(Some),
            None => self.shared.absent().map(|()| None).map_err(|error| error.with_thread(thread)),
        }
    }

    fn history_bytes(&self, thread: &str, query: &HistoryQuery) -> Result<Items<Checkpoint<StateBytes>>> {
        self.shared.items(thread, query, read::checkpoint)
    }

    fn list(&self, thread: &str, query: &HistoryQuery) -> Result<Items<CheckpointInfo>> {
        self.shared.items(thread, query, read::info)
    }

    fn list_threads(&self, query: &ThreadQuery) -> Result<Items<ThreadInfo>> {
        query.check()?;
        self.shared.at_home()?;
        let views = self.shared.index.list(query);
        // Behind the views: a rotation in between adds the segment that the newest of them stand in.
        let segments = self.shared.segments.load_full();
        let infos = views.into_iter().filter_map(move |view| thread_info(&segments, &view).transpose());
        Ok(ending_after_error(infos))
    }

    fn attachments(&self, thread: &str, _: &CheckpointId) -> Result<Vec<Attachment>> {
        check_thread(thread)?;
        Err(Error::unsupported("attachments"))
    }

    fn retain(&self, thread: Option<&str>, keep: Option<usize>) -> Result<()> {
        check_keep(keep)?;
        let keep = keep.map(|keep| keep as u64);
        match thread {
            Some(thread) => self.shared.retain_thread(thread, keep),
            None => self.shared.retain_all(keep),
        }
    }
}

fn thread_info(segments: &SegmentSet, view: &View) -> Result<Option<ThreadInfo>> {
    let Some(entry) = view.head() else { return Ok(None) };
    let head = read::info(segments, view, entry)?;
    let thread = view.thread().to_string();
    Ok(Some(ThreadInfo { thread, head: head.id, checkpoints: view.len() as u64, bytes: view.state_bytes(), last_saved: head.saved_at }))
}

/// The items up to the first error, and that error.
fn ending_after_error<T: 'static>(mut items: impl Iterator<Item = Result<T>> + Send + 'static) -> Items<T> {
    let mut failed = false;
    Box::new(std::iter::from_fn(move || {
        let next = if failed { None } else { items.next() };
        failed = failed || matches!(next, Some(Err(_)));
        next
    }))
}
