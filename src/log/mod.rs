//! The embedded store: a log of checkpoints in a directory, and an index of it in memory.
//!
//! `put`: prepare -> [turn: plan, append] -> sync -> visible. `get`: index -> mapped bytes -> check.
//! What other processes appended is taken in as it is met, by the shared page's word.
//! This file is the handle and its public calls; how each step works stands in the file of its name.
//! The index is derived: at any moment it equals the one that opening the files again would build.

mod active;
mod append;
mod attached;
mod backup;
mod before;
mod branch;
mod chains;
mod changes;
mod commit;
mod compact;
mod copy;
mod destination;
mod directory;
mod encode;
mod examine;
mod find;
mod follow;
mod fresh;
mod group;
mod heads;
mod held;
mod hints;
mod house;
mod ids;
mod index;
mod install;
mod large;
mod leftovers;
mod location;
mod locks;
mod look;
mod output;
mod pieces;
mod plan;
mod promote;
mod read;
mod rebuild;
mod records;
mod recovery;
pub(crate) mod repair;
mod replay;
mod runs;
mod salvage;
mod scan;
mod segments;
mod sift;
mod states;
mod stats;
mod steps;
mod tail;
mod turn;
mod vacuum;
mod view;
mod watch;

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use arc_swap::{ArcSwap, Guard};

use self::branch::{Asked, Source};
use self::directory::Directory;
use self::encode::Scratches;
use self::follow::{Follower, Reading};
use self::group::Group;
use self::heads::Heads;
use self::house::{House, Sizes};
use self::ids::IdKey;
use self::index::Index;
use self::locks::Presence;
use self::look::{Gaps, Log};
use self::segments::{Segment, SegmentSet};
use self::states::States;
use self::tail::Tail;
use self::turn::Turn;
use self::view::View;
pub use self::watch::Watch;
use crate::batch::{Batch, Committed};
use crate::checkpoint::{Attachment, Checkpoint, CheckpointId, CheckpointInfo, StateBytes, check_thread};
use crate::checkpointer::{Capabilities, Checkpointer, Items};
use crate::error::{Error, ErrorKind, Result};
use crate::format::manifest::Manifest;
use crate::fs::fork::Home;
use crate::options::{Options, check_keep};
use crate::query::{FindQuery, HistoryQuery, ThreadInfo, ThreadQuery, VacuumQuery, Vacuumed};
use crate::report::{Compacted, Finding, Recovery, Stats};
use crate::told;

/// The embedded store: a directory of checkpoints, durable, fast to read.
///
/// Cheap to clone, `Send` and `Sync`; all clones are one handle. Writes wait for the device unless
/// told otherwise; reads wait for no writer. Any number of processes, and of handles in
/// one process, have it open at once: each sees what the others put on its next call.
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
    // Before what it works on: it is waited for.
    house: Arc<House>,
    shared: Arc<Shared>,
}

/// What all clones of a handle share.
pub(crate) struct Shared {
    directory: Directory,
    options: Options,
    index: Index,
    segments: ArcSwap<SegmentSet>,
    heads: Arc<Heads>,
    scratches: Scratches,
    tail: Tail,
    /// The epoch that this handle was opened in: once it is over, the handle writes no more.
    epoch: u64,
    follower: Follower,
    group: Group,
    /// How far this handle's own Buffered puts go.
    buffered: AtomicU64,
    sizes: Sizes,
    report: Recovery,
    gaps: ArcSwap<Gaps>,
    home: Home,
    /// The segment that was active when this handle was opened: it leaves hints from there on.
    hints_from: u64,
    /// `None` for a read-only handle.
    turn: Option<Turn>,
    _presence: Option<Presence>,
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
        let directory = Directory {
            fs: options.fs.clone(),
            path: dir.to_owned(),
            dir_mode: options.dir_mode,
            file_mode: options.file_mode,
            found: Arc::default(),
        };
        let began = told::began();
        let opened = recovery::open(&directory, &options)?;
        let limit = opened.log.reading.manifest.keep();
        let store = Store { house: Arc::new(House::new()), shared: Arc::new(Shared::new(directory, options, opened)) };
        if store.shared.turn.is_some() {
            match store.shared.options.max_history.map(|keep| keep.map(|keep| keep as u64)) {
                Some(asked) if asked != limit => store.shared.retain_all(asked)?,
                // What a lowering of the limit that was cut short left undone.
                _ => store.shared.trim_all(limit)?,
            }
        }
        told::opened(dir, store.shared.turn.is_none(), &store.shared.report, &began);
        Ok(store)
    }

    /// Makes everything put so far durable, `Buffered` puts too. Blocks for the device.
    ///
    /// Errors: `ReadOnly`, `Poisoned`; `Busy`, `Corrupt`, `DiskFull` and `Io` where what other processes
    /// began cannot be read, or not be written anew: what was put stays as it was.
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

    /// Follows new checkpoints, of one thread or of all, from every process; see [`Watch`]. Cost: it
    /// reads the records that are visible and not synced yet.
    ///
    /// Errors: `InvalidInput` for a thread id that cannot be one, `Poisoned` in a forked child or where
    /// the directory was moved; `Corrupt` and `Io` where what is new cannot be read.
    pub fn watch(&self, thread: Option<&str>) -> Result<Watch> {
        Watch::new(&self.shared, thread)
    }

    /// How large the store is, in bytes and counts. Looks at every thread and at the directory,
    /// reads no state. Errors: `Io`, `Corrupt` (the manifest).
    pub fn stats(&self) -> Result<Stats> {
        self.shared.at_home()?;
        self.shared.stats()
    }

    /// Reads every record from the files, with system calls, rebuilds every state that is shown, and lists
    /// what is not as it should be: each damaged place, and by name each checkpoint that cannot be
    /// rebuilt for it. Changes nothing, holds up nobody; cost: the whole store is read, what is stored as
    /// differences twice.
    ///
    /// Errors: `Io`, and `Corrupt` or `Unsupported` where the log cannot be read at all.
    pub fn verify(&self) -> Result<Vec<Finding>> {
        self.shared.at_home()?;
        self.shared.verify()
    }

    /// Reclaims all that is dead: what was deleted or trimmed is in no segment afterwards. Deltas that
    /// still need something of it are written anew, whole; and states stored whole that their threads have
    /// gone on from are packed, see [`Options::compression`].
    ///
    /// What is stored as a difference from that is written anew first, whole; and what is stored whole is
    /// compressed where [`Options::compression`] allows it.
    ///
    /// Beside everyone else: readers and iterators are not disturbed, writers wait for the replacement
    /// of the manifest at most. Works in steps of about a segment, each whole or not at all, and writes
    /// at most 100 MB a second; cost: the segments that hold something dead are read and what is live
    /// in them is written. Blocks until all is done. What is left to do without being asked is done in
    /// the background, see [`Options::auto_compaction`].
    ///
    /// Errors: `DiskFull` where a step finds no room, with what was reclaimed by then and nothing left
    /// behind; `Busy` where another process compacts or is stopped in its turn; `ReadOnly`, `Poisoned`,
    /// `Corrupt` where a segment is not the one that is listed, `Io`.
    pub fn compact(&self) -> Result<Compacted> {
        self.shared.compact()
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
        let recovery::Opened { mut log, tail, writing } = opened;
        let index = log.index();
        let Log { segments, reading, report, gaps, unhinted, .. } = log;
        let (epoch, hints_from) = (reading.manifest.epoch, u64::from(reading.active.segment.number));
        let (turn, sync_lock, presence) = match writing {
            Some(writing) => (Some(Turn::new(writing.write_lock)), writing.sync_lock, Some(writing.presence)),
            None => (None, None, None),
        };
        let heads = Arc::new(Heads::new(options.cache_bytes));
        let sizes = Sizes::new(&reading.manifest, options.segment_bytes, unhinted);
        Shared {
            directory,
            options,
            index,
            segments: ArcSwap::from_pointee(segments),
            heads,
            scratches: Scratches::default(),
            tail,
            epoch,
            follower: Follower::new(reading),
            group: Group::new(sync_lock),
            buffered: AtomicU64::new(0),
            sizes,
            report,
            gaps: ArcSwap::from_pointee(gaps),
            home: Home::here(),
            hints_from,
            turn,
            _presence: presence,
        }
    }

    /// Before any lock of the reading side, which a worker of a forked child's parent may hold for ever.
    ///
    /// Errors: `ReadOnly`; `Poisoned` in a forked child.
    fn may_write(&self) -> Result<()> {
        self.right_to_write()?;
        self.at_home()
    }

    fn sync(&self) -> Result<()> {
        self.may_write()?;
        self.sync_to(self.tail.appended())
    }

    /// Lets readers find a segment, before any view leads there.
    fn add_segment(&self, segment: Arc<Segment>) {
        let mut segments = SegmentSet::clone(&self.segments.load());
        segments.insert(segment.number, segment);
        self.segments.store(Arc::new(segments));
    }

    /// Forgets the segments that a manifest does not list: no view leads there any more.
    fn keep_segments(&self, manifest: &Manifest) {
        self.sizes.note(manifest, self.options.segment_bytes);
        let listed: HashSet<u64> = manifest.segments.iter().map(|listed| listed.number).collect();
        let segments = self.segments.load();
        if segments.keys().all(|&number| listed.contains(&u64::from(number))) {
            return;
        }
        let mut segments = SegmentSet::clone(&segments);
        segments.retain(|&number, _| listed.contains(&u64::from(number)));
        self.segments.store(Arc::new(segments));
    }

    /// Goes on with a log that was read anew.
    fn replace(&self, reading: &mut Reading, log: Log) {
        let mut segments = SegmentSet::clone(&self.segments.load());
        segments.extend(log.segments);
        self.segments.store(Arc::new(segments));
        self.index.replace(log.reading.active.end_position(), log.reading.last_seq, log.threads);
        self.gaps.store(Arc::new(log.gaps));
        *reading = log.reading;
        self.keep_segments(&reading.manifest);
    }

    /// Notes that something of a segment was not taken in.
    fn has_gap(&self, segment: u32) {
        let mut gaps = Gaps::clone(&self.gaps.load());
        gaps.segments.insert(u64::from(segment));
        self.gaps.store(Arc::new(gaps));
    }

    /// The thread, if it is there. Errors: `Corrupt` when it is not but may stand in a segment that
    /// cannot be read: nobody can say then that it never was.
    fn view(&self, thread: &str) -> Result<Option<Arc<View>>> {
        match self.view_with_attached(thread)?.filter(|view| view.len() > 0) {
            Some(view) => Ok(Some(view)),
            None => self.absent(thread).map(|()| None),
        }
    }

    /// The same where it may be without a checkpoint, but for what is attached to one that is yet to come.
    fn view_with_attached(&self, thread: &str) -> Result<Option<Arc<View>>> {
        check_thread(thread)?;
        self.at_home()?;
        self.refresh()?;
        Ok(self.index.get(thread))
    }

    /// What the index shows, and the segments that it leads to: a set that was the same before and
    /// after the look, for one that came in between may lack what a moved view still leads to.
    fn at_one_moment<T>(&self, look: impl Fn() -> Result<T>) -> Result<(T, Guard<Arc<SegmentSet>>)> {
        loop {
            let before = self.segments.load();
            let seen = look()?;
            let segments = self.segments.load();
            if Arc::ptr_eq(&before, &segments) {
                return Ok((seen, segments));
            }
        }
    }

    fn states<'a>(&'a self, segments: &'a SegmentSet) -> States<'a> {
        States { segments, heads: &self.heads }
    }

    /// Errors: `Poisoned` in a forked child of the process that opened the handle.
    fn at_home(&self) -> Result<()> {
        if self.home.is_here() {
            return Ok(());
        }
        let message = "this handle belongs to the process that opened it, of which this one is a forked child: open the store again here";
        Err(Error::new(ErrorKind::Poisoned, message).with_file(&self.directory.path, None))
    }

    fn absent(&self, thread: &str) -> Result<()> {
        match &self.gaps.load().unreadable {
            None => Ok(()),
            Some(path) => {
                let message = "not found, but a segment cannot be read and may hold it: see verify";
                Err(Error::new(ErrorKind::Corrupt, message).with_file(path, None).with_thread(thread))
            }
        }
    }

    /// What a query asks for, each read when the iterator reaches it; of one moment, without a lock.
    fn items<T: 'static>(
        &self,
        thread: &str,
        query: &HistoryQuery,
        mut read: impl FnMut(&SegmentSet, &View, &view::Entry) -> Result<T> + Send + 'static,
    ) -> Result<Items<T>> {
        let (view, segments) = self.at_one_moment(|| self.view(thread))?;
        let (view, segments) = (view.unwrap_or_else(|| Arc::new(View::empty(thread.into()))), Guard::into_inner(segments));
        let range = query.range(thread, view.len(), |id| view.find(&IdKey::from(id)))?;
        let items = range.rev().filter_map(move |at| view.entry(at).map(|entry| read(&segments, &view, entry)));
        Ok(ending_after_error(items))
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // A forked child's copy touches neither page nor lock nor worker: they are the parent's.
        if !self.home.is_here() {
            return;
        }
        if self.buffered.load(Relaxed) > self.tail.synced() {
            // A courtesy to Buffered puts; `close` is the call that answers whether it worked.
            let _ = self.sync();
        }
        // Not beside a compaction: what is written here may be of a segment that it has removed.
        if self.turn.is_some()
            && !self.tail.is_poisoned(self.epoch)
            && let Ok(Some(_right)) = self.right_to_compact_now()
            && let Ok(manifest) = self.directory.manifest()
        {
            // The next opener is quicker with them, and no worse off without.
            let _ = hints::write_missing(&self.directory, &manifest, self.hints_from, self.tail.synced());
        }
    }
}

impl Checkpointer for Store {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            list_threads: true,
            persistent_checkpoint_ids: true,
            branching: true,
            metadata_query: true,
            vacuum: true,
            ttl: true,
            search: true,
            list_with_metadata: true,
            compare_and_put: true,
            attachments: true,
            shared_between_processes: true,
            ..Capabilities::default()
        }
    }

    fn commit(&self, batch: &Batch<'_>) -> Result<Vec<Committed>> {
        let committed = self.shared.commit(batch)?;
        self.house.look(&self.shared);
        Ok(committed)
    }

    fn get_bytes(&self, thread: &str) -> Result<Option<Checkpoint<StateBytes>>> {
        let (Some(view), segments) = self.shared.at_one_moment(|| self.shared.view(thread))? else { return Ok(None) };
        view.head().map(|entry| self.shared.states(&segments).checkpoint(&view, entry)).transpose()
    }

    fn load_bytes(&self, thread: &str, id: &CheckpointId) -> Result<Option<Checkpoint<StateBytes>>> {
        let (Some(view), segments) = self.shared.at_one_moment(|| self.shared.view(thread))? else { return Ok(None) };
        match view.find(&IdKey::from(id)).and_then(|at| view.entry(at)) {
            Some(entry) => self.shared.states(&segments).checkpoint(&view, entry).map(Some),
            None => self.shared.absent(thread).map(|()| None),
        }
    }

    fn history_bytes(&self, thread: &str, query: &HistoryQuery) -> Result<Items<Checkpoint<StateBytes>>> {
        let (heads, mut chain) = (self.shared.heads.clone(), None);
        self.shared.items(thread, query, move |segments, view, entry| States { segments, heads: &heads }.older(view, entry, &mut chain))
    }

    fn list(&self, thread: &str, query: &HistoryQuery) -> Result<Items<CheckpointInfo>> {
        self.shared.items(thread, query, read::info)
    }

    fn list_threads(&self, query: &ThreadQuery) -> Result<Items<ThreadInfo>> {
        query.check()?;
        self.shared.at_home()?;
        self.shared.refresh()?;
        let (views, segments) = self.shared.at_one_moment(|| Ok(self.shared.index.list(query)))?;
        let segments = Guard::into_inner(segments);
        let infos = views.into_iter().filter_map(move |view| thread_info(&segments, &view).transpose());
        Ok(ending_after_error(infos))
    }

    fn attachments(&self, thread: &str, id: &CheckpointId) -> Result<Vec<Attachment>> {
        let (view, segments) = self.shared.at_one_moment(|| self.shared.view_with_attached(thread))?;
        let key = IdKey::from(id);
        let of_id = |view: Arc<View>| -> Result<Vec<Attachment>> {
            let shown = view.attached().of_id(&key).filter(|one| view.shows(one));
            shown.map(|one| read::attachment(&segments, &view, one)).collect()
        };
        let found = view.map_or(Ok(Vec::new()), of_id)?;
        if found.is_empty() {
            self.shared.absent(thread)?;
        }
        Ok(found)
    }

    fn fork(&self, thread: &str, at: Option<&CheckpointId>, new: &str) -> Result<CheckpointId> {
        let head = self.shared.branch(Asked { thread, at, new, source: Source::Stays })?;
        self.house.look(&self.shared);
        Ok(head)
    }

    fn rename(&self, thread: &str, new: &str) -> Result<()> {
        self.shared.branch(Asked { thread, at: None, new, source: Source::Ends })?;
        self.house.look(&self.shared);
        Ok(())
    }

    fn rollback(&self, thread: &str, to: &CheckpointId) -> Result<u64> {
        let gone = self.shared.rollback(thread, to)?;
        self.house.look(&self.shared);
        Ok(gone)
    }

    fn find(&self, query: &FindQuery) -> Result<Items<CheckpointInfo>> {
        self.shared.find(query)
    }

    fn vacuum(&self, query: &VacuumQuery) -> Result<Vacuumed> {
        let vacuumed = self.shared.vacuum(query)?;
        self.house.look(&self.shared);
        Ok(vacuumed)
    }

    fn retain(&self, thread: Option<&str>, keep: Option<usize>) -> Result<()> {
        check_keep(keep)?;
        let keep = keep.map(|keep| keep as u64);
        match thread {
            Some(thread) => self.shared.retain_thread(thread, keep)?,
            None => self.shared.retain_all(keep)?,
        }
        self.house.look(&self.shared);
        Ok(())
    }

    fn max_history(&self, thread: Option<&str>) -> Result<Option<usize>> {
        self.shared.at_home()?;
        let view = thread.map_or(Ok(None), |thread| self.shared.view(thread))?;
        let keep = match view.and_then(|view| view.keep()) {
            Some(own) => own,
            None => self.shared.directory.manifest()?.keep(),
        };
        Ok(keep.map(|keep| usize::try_from(keep).unwrap_or(usize::MAX)))
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
