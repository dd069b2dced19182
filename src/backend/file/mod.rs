//! A place for checkpoints in a folder: one JSON file for each checkpoint and attachment, for people to
//! read. DESIGN.md, section 18, tells its layout.
//!
//! One process at a time has it open. What is known of each file without its value is in memory, where
//! operations take effect on a copy (`backend::threads`); the files that the copy has more or less are
//! the change (`change`). A file never changes, and no name is given twice.
//!
//! - **One file more** is written under its working name, synced, renamed, and the folder synced.
//! - **All else** (a batch, a delete, a trim, a setting): the new files are written under their working
//!   names, each synced, then the folder. MANIFEST.json is replaced by one that lists them, and what is
//!   to be removed: its rename is the instant at which the batch counts. Then they get their names, what
//!   is removed goes, and nothing of that needs a sync of its own: MANIFEST.json goes on listing it.
//!
//! A crash before the instant leaves working names, which the next opening removes. One behind it leaves
//! a manifest of which the rest is done by the next opening, as often as need be.

mod change;
mod folder;
mod manifest;
mod names;
mod open;
mod options;
mod stored;
mod text;
mod time;

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use self::change::{Change, Outcome};
use self::folder::{Folder, Presence, poisoned};
use self::manifest::Manifest;
pub use self::options::FileOptions;
use self::stored::Stored;
use super::threads::{self, Attached, Step};
use crate::batch::{Batch, Committed, nanos_of_clock, time_of};
use crate::branch::check_names;
use crate::checkpoint::{Attachment, Checkpoint, CheckpointId, CheckpointInfo, StateBytes, check_thread};
use crate::checkpointer::{Capabilities, Checkpointer, Items};
use crate::error::Result;
use crate::options::{MAX_HISTORY_DEFAULT, STATE_BYTES_DEFAULT, check_keep};
use crate::query::{FindQuery, HistoryQuery, ThreadInfo, ThreadQuery, VacuumQuery, Vacuumed};

type Threads = threads::Threads<Arc<Stored>>;
type Kept = threads::Kept<Arc<Stored>>;

/// A [`Checkpointer`] in a folder of JSON files, one for each checkpoint, that a person can read.
///
/// For small runs that are to be looked at; a [`Store`](crate::Store) is smaller, faster and shared. One
/// handle at a time has the folder open (clones are one handle), from one process: others are `Busy`.
/// Every put is synced, whatever its durability. A file that was edited, torn or exchanged is `Corrupt`,
/// by its name; one that was removed is a checkpoint that is not there.
///
/// An iterator reads on what it began with for as long as the handle lives, whatever is deleted meanwhile.
///
/// ```
/// use taffrail::FileCheckpointer;
/// use taffrail::prelude::*;
/// # let scratch = tempfile::tempdir().unwrap();
/// # let dir = scratch.path().join("runs");
/// let place = FileCheckpointer::open(&dir)?;
/// place.put("trip", &vec!["plan", "search"])?;
/// drop(place);
/// let place = FileCheckpointer::open(&dir)?;
/// assert_eq!(place.get::<Vec<String>>("trip")?.unwrap(), ["plan", "search"]);
/// # Ok::<(), taffrail::Error>(())
/// ```
#[derive(Clone)]
pub struct FileCheckpointer {
    shared: Arc<Shared>,
}

struct Shared {
    folder: Arc<Folder>,
    presence: Presence,
    threads: RwLock<Threads>,
    writer: Mutex<Writer>,
}

/// What whoever writes goes on from.
struct Writer {
    manifest: Manifest,
    is_poisoned: bool,
}

impl FileCheckpointer {
    /// Opens a folder, made if missing. Errors: as [`FileOptions::open`].
    pub fn open(dir: impl AsRef<Path>) -> Result<Self> {
        Self::options().open(dir)
    }

    /// How to open one otherwise.
    pub fn options() -> FileOptions {
        FileOptions::default()
    }

    fn opened(options: FileOptions, dir: &Path) -> Result<Self> {
        let folder = Arc::new(Folder::new(options.fs, dir));
        let max_history = options.max_history.unwrap_or(Some(MAX_HISTORY_DEFAULT));
        let open::Opened { presence, manifest, threads } = open::open(&folder, options.create, max_history)?;
        let writer = Mutex::new(Writer { manifest, is_poisoned: false });
        let place = FileCheckpointer { shared: Arc::new(Shared { folder, presence, threads: RwLock::new(threads), writer }) };
        match options.max_history {
            Some(keep) if keep != place.threads().keep => place.retain(None, keep)?,
            _ => {}
        }
        Ok(place)
    }

    // Nothing under this lock calls out of `backend` or panics, so a poison mark is passed over.
    fn threads(&self) -> RwLockReadGuard<'_, Threads> {
        self.shared.threads.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same for who reads. Errors: `Poisoned` in a forked child.
    fn read(&self) -> Result<RwLockReadGuard<'_, Threads>> {
        self.at_home()?;
        Ok(self.threads())
    }

    /// Before any lock, which a worker of the parent may hold for ever. Errors: `Poisoned` in a forked child.
    fn at_home(&self) -> Result<()> {
        let folder = &self.shared.folder;
        match folder.home.is_here() {
            true => Ok(()),
            false => Err(poisoned("this is a forked child's copy of the handle: open the place again", &folder.path)),
        }
    }

    fn writer(&self) -> Result<MutexGuard<'_, Writer>> {
        self.at_home()?;
        let poisoned = |why: &str| poisoned(&format!("{why}: open the place again"), &self.shared.folder.path);
        let writer = self.shared.writer.lock().map_err(|_| poisoned("a worker panicked while it was writing"))?;
        self.shared.presence.check()?;
        if writer.is_poisoned { Err(poisoned("an earlier write failed half way")) } else { Ok(writer) }
    }

    /// Has `work` change a copy of those threads, or of all, and the files follow; all or nothing.
    fn change<R>(&self, touched: Option<BTreeSet<&str>>, batch: &Batch<'_>, work: impl FnOnce(&mut Threads) -> Result<R>) -> Result<R> {
        let mut writer = self.writer()?;
        let before = match &touched {
            Some(touched) => self.threads().part(touched),
            None => self.threads().clone(),
        };
        let mut after = before.clone();
        let done = work(&mut after)?;
        let changed = before.difference(&after);
        let pairs: Vec<_> = changed.iter().map(|id| (id, before.get(id).map(|old| &**old), after.get(id).map(|new| &**new))).collect();
        let folder = &self.shared.folder;
        match Change::write(folder, &writer.manifest, &after, &pairs, batch)?.commit(folder) {
            Outcome::Refused(error) => return Err(error),
            Outcome::Unknown(error) => {
                writer.is_poisoned = true;
                return Err(error);
            }
            Outcome::Done { manifest, removed } => {
                writer.manifest = manifest;
                self.show(after, changed);
                // It would count as somebody who reads.
                drop(before);
                // CRASH: the manifest lists what is removed here.
                let removed: Result<()> = removed.into_iter().try_for_each(Stored::remove);
                writer.is_poisoned = removed.is_err();
                removed.map_err(|error| {
                    let message = format!("{error}; the batch is done but for that, which the next opening does: open the place again");
                    poisoned(&message, &folder.path).with_source(error)
                })?;
            }
        }
        Ok(done)
    }

    /// Has readers see a change.
    fn show(&self, after: Threads, changed: Vec<Arc<str>>) {
        let mut threads = self.shared.threads.write().unwrap_or_else(PoisonError::into_inner);
        threads.put_back(changed.into_iter().map(|id| (id.clone(), after.by_id.get(&id).cloned())));
        threads.last = after.last;
        threads.keep = after.keep;
    }
}

fn load(kept: &Kept) -> Result<Checkpoint<StateBytes>> {
    let info = &kept.info;
    Ok(Checkpoint { info: info.clone(), state: kept.value.read(&info.thread, info.bytes)? })
}

impl fmt::Debug for FileCheckpointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileCheckpointer").field("path", &self.shared.folder.path).finish_non_exhaustive()
    }
}

impl Checkpointer for FileCheckpointer {
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
            ..Capabilities::default()
        }
    }

    fn commit(&self, batch: &Batch<'_>) -> Result<Vec<Committed>> {
        batch.check(STATE_BYTES_DEFAULT)?;
        let folder = &self.shared.folder;
        let now = time_of(nanos_of_clock(folder.fs.now()));
        let steps = Step::all(batch, now, |operation, _| Stored::fresh(folder, operation));
        let touched = steps.iter().map(Step::thread).collect();
        self.change(Some(touched), batch, |threads| threads.commit(steps))
    }

    fn get_bytes(&self, thread: &str) -> Result<Option<Checkpoint<StateBytes>>> {
        check_thread(thread)?;
        let head = self.read()?.get(thread).and_then(|found| found.head()).cloned();
        head.map(|kept| load(&kept)).transpose()
    }

    fn load_bytes(&self, thread: &str, id: &CheckpointId) -> Result<Option<Checkpoint<StateBytes>>> {
        check_thread(thread)?;
        let found = self.read()?.get(thread).and_then(|found| found.get(id)).cloned();
        found.map(|kept| load(&kept)).transpose()
    }

    fn history_bytes(&self, thread: &str, query: &HistoryQuery) -> Result<Items<Checkpoint<StateBytes>>> {
        check_thread(thread)?;
        let mut left = self.read()?.page(thread, query)?.into_iter();
        Ok(Box::new(std::iter::from_fn(move || {
            let kept = left.next()?;
            let read = load(&kept);
            if read.is_err() {
                left = Vec::new().into_iter();
            }
            Some(read)
        })))
    }

    fn list(&self, thread: &str, query: &HistoryQuery) -> Result<Items<CheckpointInfo>> {
        check_thread(thread)?;
        let page = self.read()?.page(thread, query)?;
        Ok(Box::new(page.into_iter().map(|kept| Ok(kept.info.clone()))))
    }

    fn list_threads(&self, query: &ThreadQuery) -> Result<Items<ThreadInfo>> {
        Threads::listed(query, || self.read())
    }

    fn attachments(&self, thread: &str, id: &CheckpointId) -> Result<Vec<Attachment>> {
        check_thread(thread)?;
        let keys = self.read()?.get(thread).and_then(|found| found.attached(id)).cloned();
        let read = |(key, attached): (String, Arc<Attached<Arc<Stored>>>)| {
            Ok(Attachment { key, tag: attached.tag.clone(), value: attached.value.read(thread, attached.bytes)? })
        };
        keys.into_iter().flatten().map(read).collect()
    }

    fn locate(&self, id: &CheckpointId) -> Result<Vec<String>> {
        Ok(self.read()?.holders(id))
    }

    fn fork(&self, thread: &str, at: Option<&CheckpointId>, new: &str) -> Result<CheckpointId> {
        check_names(thread, new)?;
        self.change(Some(BTreeSet::from([thread, new])), &Batch::new(), |threads| threads.fork(thread, at, new, |stored| stored.again()))
    }

    fn rename(&self, thread: &str, new: &str) -> Result<()> {
        check_names(thread, new)?;
        self.change(Some(BTreeSet::from([thread, new])), &Batch::new(), |threads| threads.rename(thread, new, |stored| stored.again()))
    }

    fn rollback(&self, thread: &str, to: &CheckpointId) -> Result<u64> {
        check_thread(thread)?;
        self.change(Some(BTreeSet::from([thread])), &Batch::new(), |threads| threads.rollback(thread, to))
    }

    fn find(&self, query: &FindQuery) -> Result<Items<CheckpointInfo>> {
        Threads::found(query, || self.read(), |kept| load(kept).map(|read| read.state))
    }

    fn vacuum(&self, query: &VacuumQuery) -> Result<Vacuumed> {
        query.check()?;
        let now = self.shared.folder.fs.now();
        if query.dry_run {
            return Ok(self.read()?.judge(query, now)?.count());
        }
        self.change(None, &Batch::new(), |threads| {
            let judged = threads.judge(query, now)?;
            threads.vacuum(&judged);
            Ok(judged.count())
        })
    }

    fn retain(&self, thread: Option<&str>, keep: Option<usize>) -> Result<()> {
        thread.map_or(Ok(()), check_thread)?;
        check_keep(keep)?;
        self.change(thread.map(|thread| BTreeSet::from([thread])), &Batch::new(), |threads| threads.retain(thread, keep))
    }

    fn max_history(&self, thread: Option<&str>) -> Result<Option<usize>> {
        thread.map_or(Ok(()), check_thread)?;
        Ok(self.read()?.kept_of(thread))
    }
}
