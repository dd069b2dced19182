//! What is done to a store while it is written down: steps, each also done in memory, so that it is known
//! what the store may show once a crash has come in between.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::disk::Disk;
use super::memory::{Change, Image, Memory};
use crate::backend::memory::MemoryCheckpointer;
use crate::batch::{Batch, Durability, OnExisting, Parent, PutOptions};
use crate::checkpoint::{CheckpointId, TypeTag};
use crate::checkpointer::Checkpointer;
use crate::error::Result;
use crate::log::Store;
use crate::options::Options;
use crate::query::{HistoryQuery, VacuumQuery};
use crate::testing::states::noise;

/// Nobody waits for long for a lock that is never given up here.
const BUSY: Duration = Duration::from_millis(20);

/// No checkpoint to which anything is attached has this number or a higher one.
const NUMBERED_MAX: u64 = 64;

/// The threads in which something may be attached: the one to which it is, and its branches.
const ATTACHED: [&str; 4] = ["a", "f", "g", "r"];

/// The store's directory.
pub(super) const STORE: &str = "/store";

/// Everything a place shows: of each thread the checkpoints, newest first, by id with a number that tells
/// their states apart; and under its name and " attached" what is attached in it.
pub(super) type Contents = BTreeMap<String, Vec<(String, u64)>>;

/// One thing that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    /// Opens the store, which is made if it is not there.
    Open,
    Put,
    Buffered,
    /// A put in a segment of its own.
    Large,
    /// A put of so much that a few of them fill a segment.
    Fill,
    /// Puts to two threads, one of them twice, and a delete.
    Batch,
    /// A put by another handle.
    Other,
    /// A put that goes on from an older checkpoint.
    Branch,
    /// A put under an id that is there.
    Again,
    Delete,
    DeleteCheckpoint,
    /// A limit for one thread.
    Trim,
    /// A limit for all threads.
    TrimAll,
    Vacuum,
    Compact,
    Sync,
    /// Closes the store, which writes hints, and opens it again.
    Reopen,
    Backup,
    /// Closes the store, repairs it into another one and opens it again.
    Repair,
    /// A value attached to a checkpoint that is there.
    Attach,
    /// One attached to the checkpoint that the thread would get next.
    AttachBefore,
    /// A fork of a thread, at its oldest or its newest checkpoint; then one of that fork.
    Fork,
    /// Another name for a thread; then its first one again.
    Rename,
    /// A thread goes back to its oldest checkpoint.
    Rollback,
}

impl Step {
    /// All that can follow an opening.
    pub const ALL: [Step; 23] = [
        Step::Put,
        Step::Buffered,
        Step::Large,
        Step::Fill,
        Step::Batch,
        Step::Other,
        Step::Branch,
        Step::Again,
        Step::Delete,
        Step::DeleteCheckpoint,
        Step::Trim,
        Step::TrimAll,
        Step::Vacuum,
        Step::Compact,
        Step::Sync,
        Step::Reopen,
        Step::Backup,
        Step::Repair,
        Step::Attach,
        Step::AttachBefore,
        Step::Fork,
        Step::Rename,
        Step::Rollback,
    ];

    /// Its name.
    pub fn name(self) -> String {
        format!("{self:?}")
    }
}

/// What is there before the steps that are written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Setup {
    /// No store.
    Nothing,
    /// A store of a few threads.
    Few,
    /// One whose first segments are sealed, in part dead, and whose active one is nearly full.
    Full,
}

impl Setup {
    pub const ALL: [Setup; 3] = [Setup::Nothing, Setup::Few, Setup::Full];

    /// What makes it.
    pub fn steps(self) -> &'static [Step] {
        use Step::{Attach, AttachBefore, Batch, Branch, Buffered, Delete, DeleteCheckpoint, Fill, Large, Open, Put, Reopen, Sync};
        match self {
            Setup::Nothing => &[],
            Setup::Few => &[Open, Put, Attach, Put, Batch, AttachBefore, Put, Branch, AttachBefore, Buffered, Sync],
            Setup::Full => &[
                Open,
                Put,
                AttachBefore,
                Put,
                Batch,
                Fill,
                Fill,
                Fill,
                Fill,
                Fill,
                Attach,
                Put,
                Large,
                Put,
                DeleteCheckpoint,
                Put,
                Delete,
                Batch,
                Reopen,
                Fill,
                Fill,
                Fill,
                Put,
                Put,
                Buffered,
                Fill,
                AttachBefore,
                Put,
                Sync,
            ],
        }
    }
}

/// What was done, and what a crash in the middle of it may leave.
pub(super) struct Done {
    /// The disk before.
    pub before: Disk,
    pub changes: Vec<Change>,
    /// What was there before the first step, and behind each.
    pub shown: Vec<Contents>,
    /// The steps.
    pub steps: Vec<Step>,
    /// How many changes each has made, its marks among them.
    pub points: Vec<usize>,
    /// How many of them are kept for certain once each has been answered.
    pub kept: Vec<usize>,
    /// Copies that were made, with how many steps came before.
    pub copies: Vec<(PathBuf, usize)>,
}

/// The marks in the record: a step begins, or has been answered.
pub(super) fn begun(step: usize) -> u64 {
    2 * step as u64
}

/// The same.
pub(super) fn answered(step: usize) -> u64 {
    2 * step as u64 + 1
}

/// How stores are opened here.
pub(super) fn options(fs: &Memory) -> Options {
    let mut options = Store::options().segment_bytes(64 * 1024).auto_compaction(false).mmap(false).busy_timeout(BUSY);
    options.fs = Arc::new(fs.clone());
    options
}

/// Who does the steps.
pub(super) struct Worker {
    pub fs: Memory,
    store: Option<Store>,
    other: Option<Store>,
    memory: MemoryCheckpointer,
    puts: u64,
    copies: Vec<PathBuf>,
}

impl Worker {
    /// At a disk where no store is.
    pub fn new(fs: &Memory) -> Worker {
        let memory = MemoryCheckpointer::new();
        Worker { fs: fs.clone(), store: None, other: None, memory, puts: 0, copies: Vec::new() }
    }

    /// What the model has.
    pub fn shown(&self) -> Contents {
        contents(&self.memory).unwrap_or_else(|error| panic!("the model: {error}"))
    }

    /// The store, where it is open.
    pub fn store(&self) -> Option<&Store> {
        self.store.as_ref()
    }

    /// What the store has, where it is open.
    pub fn found(&self) -> Option<Result<Contents>> {
        self.store.as_ref().map(|store| contents(store))
    }

    /// Lets go of the handles.
    pub fn let_go(&mut self) {
        (self.store, self.other) = (None, None);
    }

    /// Does a step, in the model too where the store has done it.
    pub fn step(&mut self, step: Step) -> Result<()> {
        let store = match (step, &self.store) {
            (_, Some(store)) => store.clone(),
            (_, None) => {
                self.store = Some(options(&self.fs).open(STORE)?);
                return if step == Step::Open { Ok(()) } else { self.step(step) };
            }
        };
        match step {
            Step::Open | Step::Put => self.put(&store, "a", 300, PutOptions::default()),
            Step::Buffered => self.put(&store, "b", 200, PutOptions::default().durability(Durability::Buffered)),
            Step::Large => self.put(&store, "large", 17_000, PutOptions::default()),
            Step::Fill => self.put(&store, "fill", 12_000, PutOptions::default()),
            Step::Other => {
                if self.other.is_none() {
                    self.other = Some(options(&self.fs).open(STORE)?);
                }
                let other = self.other.clone().unwrap_or(store);
                self.put(&other, "b", 200, PutOptions::default())
            }
            Step::Branch => match self.oldest("a") {
                Some(id) => self.put(&store, "a", 320, PutOptions::default().parent(Parent::Id(id))),
                None => self.put(&store, "a", 320, PutOptions::default()),
            },
            Step::Again => match self.oldest("a") {
                Some(id) => self.put_as(&store, id, "a", 330, PutOptions::default()),
                None => self.put(&store, "a", 330, PutOptions::default()),
            },
            Step::Batch => self.batch(&store),
            Step::Delete => self.both(&store, |place| place.delete("b").map(drop)),
            Step::DeleteCheckpoint => match self.oldest("a") {
                Some(id) => self.both(&store, |place| place.delete_checkpoint("a", &id).map(drop)),
                None => Ok(()),
            },
            Step::Trim if self.oldest("a").is_none() => Ok(()),
            Step::Trim => self.both(&store, |place| place.retain(Some("a"), Some(2))),
            Step::TrimAll => self.both(&store, |place| place.retain(None, Some(3))),
            Step::Vacuum => self.both(&store, |place| place.vacuum(&VacuumQuery { keep: Some(1), ..VacuumQuery::default() }).map(drop)),
            Step::Compact => store.compact().map(drop),
            Step::Sync => store.sync(),
            Step::Reopen => {
                drop(store);
                self.close()?;
                self.store = Some(options(&self.fs).open(STORE)?);
                Ok(())
            }
            Step::Backup => store.backup(self.copy()),
            Step::Attach => match self.oldest("a") {
                Some(id) => self.attach(&store, &id),
                None => Ok(()),
            },
            Step::AttachBefore => {
                let next = CheckpointId::new(format!("n{}", self.puts))?;
                self.attach(&store, &next)
            }
            Step::Fork => match (self.oldest("a"), self.has("f"), self.has("g")) {
                (Some(oldest), false, _) => {
                    let at = self.puts.is_multiple_of(2).then_some(oldest);
                    self.both(&store, |place| place.fork("a", at.as_ref(), "f").map(drop))
                }
                (_, true, false) => self.both(&store, |place| place.fork("f", None, "g").map(drop)),
                _ => Ok(()),
            },
            Step::Rename => match (self.has("a"), self.has("r")) {
                (true, false) => self.both(&store, |place| place.rename("a", "r")),
                (false, true) => self.both(&store, |place| place.rename("r", "a")),
                _ => Ok(()),
            },
            Step::Rollback => match self.oldest("a") {
                Some(id) => self.both(&store, |place| place.rollback("a", &id).map(drop)),
                None => Ok(()),
            },
            Step::Repair => {
                drop(store);
                self.close()?;
                let copy = self.copy();
                crate::log::repair::repair(Path::new(STORE), &copy, &options(&self.fs))?;
                self.store = Some(options(&self.fs).open(STORE)?);
                Ok(())
            }
        }
    }

    fn close(&mut self) -> Result<()> {
        self.other = None;
        self.store.take().map_or(Ok(()), Store::close)
    }

    /// Where the next copy goes.
    fn copy(&mut self) -> PathBuf {
        let copy = PathBuf::from(format!("/copy {}", self.copies.len()));
        self.copies.push(copy.clone());
        copy
    }

    /// Does something to the store, and then to the model.
    fn both(&self, store: &Store, what: impl Fn(&dyn Checkpointer) -> Result<()>) -> Result<()> {
        what(store)?;
        what(&self.memory).unwrap_or_else(|error| panic!("the model: {error}"));
        Ok(())
    }

    /// Attaches the first or the last value under a key.
    fn attach(&self, store: &Store, id: &CheckpointId) -> Result<()> {
        let value = noise(self.puts, 40);
        let (key, on) = if self.puts.is_multiple_of(2) { ("first", OnExisting::Keep) } else { ("last", OnExisting::Replace) };
        self.both(store, |place| place.attach("a", id, key, TypeTag::BYTES, &value, on).map(drop))
    }

    fn put(&mut self, store: &Store, thread: &str, length: usize, options: PutOptions) -> Result<()> {
        let id = CheckpointId::new(format!("n{}", self.puts))?;
        self.put_as(store, id, thread, length, options)
    }

    fn put_as(&mut self, store: &Store, id: CheckpointId, thread: &str, length: usize, options: PutOptions) -> Result<()> {
        let state = self.state(thread, length);
        let options = options.id(id);
        self.both(store, |place| place.put_bytes(thread, TypeTag::BYTES, &state, options.clone()).map(drop))
    }

    /// Like those before it in the thread, with its number; what is to fill room has nothing in common with any.
    fn state(&mut self, thread: &str, length: usize) -> Vec<u8> {
        self.puts += 1;
        let seed = if length < 1000 { thread.len() as u64 } else { self.puts };
        let mut state = noise(seed, length + self.puts as usize % 7);
        let at = 20 + self.puts as usize * 13 % 100;
        state[at..at + 8].copy_from_slice(&self.puts.to_le_bytes());
        state
    }

    fn batch(&mut self, store: &Store) -> Result<()> {
        let states = [("a", 310), ("c", 150), ("c", 150)].map(|(thread, length)| (thread, self.state(thread, length)));
        let puts = self.puts;
        let deleted = self.oldest("b");
        self.both(store, |place| {
            let mut batch = Batch::new();
            for (number, (thread, state)) in states.iter().enumerate() {
                let id = CheckpointId::new(format!("n{puts}.{number}"))?;
                batch.put(thread, TypeTag::BYTES, state, PutOptions::default().id(id));
            }
            if let Some(id) = &deleted {
                batch.delete("b", Some(id.clone()));
            }
            place.commit(&batch).map(drop)
        })
    }

    fn has(&self, thread: &str) -> bool {
        self.memory.exists(thread).unwrap_or_default()
    }

    fn oldest(&self, thread: &str) -> Option<CheckpointId> {
        let mut all = self.memory.list(thread, &HistoryQuery::default()).ok()?;
        let mut oldest = None;
        while let Some(Ok(info)) = all.next() {
            oldest = Some(info.id);
        }
        oldest
    }
}

/// What a place shows. Errors: the first that reading meets.
pub(super) fn contents(place: &dyn Checkpointer) -> Result<Contents> {
    let mut contents = Contents::new();
    for thread in place.threads()? {
        let mut states = Vec::new();
        for read in place.history_bytes(&thread, &HistoryQuery::default())? {
            let read = read?;
            states.push((read.id.to_string(), crate::delta::content_hash(&read.state)));
        }
        contents.insert(thread, states);
    }
    for thread in ATTACHED {
        let mut attached = Vec::new();
        for number in 0..NUMBERED_MAX {
            let id = CheckpointId::new(format!("n{number}"))?;
            for one in place.attachments(thread, &id)? {
                attached.push((format!("{id} {}", one.key), crate::delta::content_hash(&one.value)));
            }
        }
        if !attached.is_empty() {
            contents.insert(format!("{thread} attached"), attached);
        }
    }
    Ok(contents)
}

/// Does steps behind a setup, and writes down what they change.
pub(super) fn run(setup: Setup, steps: &[Step]) -> Done {
    let fs = Memory::of(&Image::empty(), 1);
    let mut worker = Worker::new(&fs);
    // All changes are written down, so that the disk before the steps is made of them.
    fs.record();
    for &step in setup.steps() {
        worker.step(step).unwrap_or_else(|error| panic!("{setup:?}, {step:?}: {error}"));
    }
    let mut before = Disk::of(Image::empty());
    for change in fs.recorded() {
        before.take(&change).unwrap_or_else(|what| panic!("{setup:?}: {what}"));
    }
    before.thin_pages();
    worker.copies.clear();
    let (mut shown, mut kept, mut copies) = (vec![worker.shown()], Vec::new(), Vec::new());
    for (number, &step) in steps.iter().enumerate() {
        fs.mark(begun(number));
        worker.step(step).unwrap_or_else(|error| panic!("{setup:?}, {steps:?}, {step:?}: {error}"));
        fs.mark(answered(number));
        shown.push(worker.shown());
        if let Some(found) = worker.found() {
            let found = found.unwrap_or_else(|error| panic!("{setup:?}, {steps:?}, behind {step:?}: {error}"));
            assert_eq!(Some(&found), shown.last(), "{setup:?}, {steps:?}, behind {step:?}");
        }
        // What has changed nothing says nothing of what was there.
        let has_changed = shown[number] != shown[number + 1];
        let is_kept = step != Step::Buffered && has_changed || matches!(step, Step::Open | Step::Sync | Step::Reopen | Step::Repair);
        kept.push(if is_kept { number + 1 } else { kept.last().copied().unwrap_or(0) });
        if matches!(step, Step::Backup | Step::Repair) {
            copies.extend(worker.copies.last().map(|path| (path.clone(), number)));
        }
    }
    let changes = fs.recorded();
    let mut points = vec![0; steps.len()];
    let mut step = 0;
    for change in &changes {
        if let Change::Mark(mark) = change {
            step = (mark / 2) as usize;
        }
        points[step] += 1;
    }
    Done { before, changes, shown, steps: steps.to_vec(), points, kept, copies }
}
