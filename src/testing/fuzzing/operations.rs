//! Operations on a store in a directory, held against the same ones in memory.
//!
//! Each byte string is a run of operations: puts, deletes, limits, batches, branches, syncs, compactions, reopenings. The
//! store must answer as the memory does and show the same. Between them a crash that lost the end of
//! the newest segment is played on a copy of the files: it must open to what was shown after one of
//! the operations since the last sync, and take a put again. States grow out of each other, so that most
//! of those that can be are deltas, and two handles take turns. Only public calls are used.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::scratch::Scratch;
use crate::backend::memory::MemoryCheckpointer;
use crate::batch::{Batch, Durability, ExpectedHead, OnExisting, Parent, PutOptions};
use crate::checkpoint::{CheckpointId, Metadata, TypeTag};
use crate::checkpointer::Checkpointer;
use crate::log::Store;
use crate::options::{Compression, Options};
use crate::query::HistoryQuery;
use crate::testing::states::noise;

/// The operations of one run; a run is to end soon.
const OPERATIONS_MAX: usize = 64;
/// The bytes from here on are forks, renames and rollbacks.
const BRANCHES_FROM: u8 = 240;
/// How many checkpoints a thread keeps at first.
const KEEP: usize = 5;
/// Few, and one that the door refuses.
const THREADS: [&str; 8] = ["a", "a", "a", "b", "b", "thread/with é", "thread/with é", ""];

/// Checkpoints to which something is attached: few, for how many of those that never come go at once has a limit.
const ATTACHED: [&str; 2] = ["step-0", "00000000-0000-7000-8000-000000000001"];
/// The threads that are branched, for the same reason no others: the one to which something is attached, and another.
const BRANCHED: [&str; 2] = [THREADS[0], THREADS[3]];
/// What it is found by.
const KEYS: [&str; 5] = ["k", "l", "a key/é", "k", ""];

/// Everything a place shows: thread -> its checkpoints, newest first; and what is attached.
type Shown = BTreeMap<String, Vec<String>>;

/// Runs the operations that the bytes stand for; `true` if any changed something.
pub fn operations(data: &[u8]) -> bool {
    let scratch = Scratch::new();
    let mut run = Run::begin(&scratch.0);
    let mut input = Input(data);
    for _ in 0..OPERATIONS_MAX {
        let Some(operation) = input.next() else { break };
        if operation >= BRANCHES_FROM {
            run.branch(&mut input);
            continue;
        }
        match operation % 16 {
            0..=7 => run.commit(1, &mut input),
            8 => run.commit(2 + input.below(6), &mut input),
            9 => run.retain(None, &mut input),
            10 => run.retain(Some(THREADS[input.below(THREADS.len())]), &mut input),
            11 => run.sync(),
            12 => run.look_read_only(),
            13 => run.reopen(),
            14 => run.compact(),
            _ => run.crash(input.below(256) as u64 * 4 + input.below(4) as u64),
        }
    }
    run.reopen();
    run.shown.len() > 1
}

struct Run {
    dir: PathBuf,
    /// `None` only while it is being opened again.
    store: Option<Store>,
    /// Another handle, now and then.
    other: Option<Store>,
    /// What was put to each thread last.
    states: BTreeMap<&'static str, Vec<u8>>,
    memory: MemoryCheckpointer,
    /// What was shown after each operation, the newest last.
    shown: Vec<Shown>,
    /// Which of these is synced for certain.
    synced: usize,
    puts: u64,
}

impl Run {
    fn begin(scratch: &Path) -> Self {
        let dir = scratch.join("store");
        let store = options().max_history(KEEP).open(&dir).unwrap();
        let memory = MemoryCheckpointer::with_max_history(KEEP).unwrap();
        Run { dir, store: Some(store), other: None, states: BTreeMap::new(), memory, shown: vec![Shown::new()], synced: 0, puts: 0 }
    }

    fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    fn commit(&mut self, count: usize, input: &mut Input<'_>) {
        let steps: Vec<Step> = (0..count).map(|_| self.step(input)).collect();
        let mut batch = Batch::new();
        for step in &steps {
            step.add(&mut batch);
        }
        let store = self.other.as_ref().filter(|_| self.puts.is_multiple_of(2)).unwrap_or(self.store());
        let (here, there) = (store.commit(&batch), self.memory.commit(&batch));
        match (here, there) {
            (Ok(here), Ok(there)) => assert_eq!(here, there, "{steps:?}"),
            (here, there) => assert_eq!(here.err().map(|e| e.kind()), there.err().map(|e| e.kind()), "{steps:?}"),
        }
        self.compare_heads();
    }

    fn step(&mut self, input: &mut Input<'_>) -> Step {
        let thread = THREADS[input.below(THREADS.len())];
        match input.below(8) {
            0 => Step::Delete { thread, id: None },
            1 => Step::Delete { thread, id: Some(id(input)) },
            7 => {
                let number = input.below(256);
                let id = CheckpointId::new(ATTACHED[number % ATTACHED.len()]).unwrap();
                let on = if number % 8 < 4 { OnExisting::Keep } else { OnExisting::Replace };
                Step::Attach { thread: THREADS[0], id, key: KEYS[number % KEYS.len()], value: noise(self.puts, number), on }
            }
            _ => {
                self.puts += 1;
                Step::Put { thread, state: self.state(thread, input.below(256)), options: put_options(self.puts, input) }
            }
        }
    }

    /// A state that grows out of the thread's last one, is the same again or has nothing in common with it; from
    /// nothing to about 65 KiB, mostly small.
    fn state(&mut self, thread: &'static str, size: usize) -> Vec<u8> {
        let length = if size < 192 { size } else { (size - 191) * 1024 };
        let state = self.states.entry(thread).or_default();
        match size % 8 {
            0 => *state = noise(self.puts, length),
            1 => {}
            _ => {
                let half = state.len() / 2;
                state.splice(half..half, format!("{:08}", self.puts).into_bytes());
                state.extend(noise(self.puts, length / 3));
            }
        }
        state.truncate(65 << 10);
        state.clone()
    }

    fn retain(&mut self, thread: Option<&str>, input: &mut Input<'_>) {
        let keep = [Some(0), Some(1), Some(2), Some(3), Some(5), Some(9), None, None][input.below(8)];
        let (here, there) = (self.store().retain(thread, keep), self.memory.retain(thread, keep));
        assert_eq!(here.map_err(|e| e.kind()), there.map_err(|e| e.kind()), "retain {thread:?} {keep:?}");
        self.compare_heads();
    }

    fn branch(&mut self, input: &mut Input<'_>) {
        let (thread, new) = (BRANCHED[input.below(2)], BRANCHED[input.below(2)]);
        let (what, at) = (input.below(4), id(input));
        let branch = |place: &dyn Checkpointer| match what {
            0 => place.fork(thread, None, new).map(|head| head.to_string()),
            1 => place.fork(thread, Some(&at), new).map(|head| head.to_string()),
            2 => place.rename(thread, new).map(|()| String::new()),
            _ => place.rollback(thread, &at).map(|gone| gone.to_string()),
        };
        let (here, there) = (branch(self.store()), branch(&self.memory));
        assert_eq!(here.map_err(|e| e.kind()), there.map_err(|e| e.kind()), "{what} {thread:?} {at} {new:?}");
        self.compare_heads();
    }

    fn sync(&mut self) {
        self.store().sync().unwrap();
        self.synced = self.shown.len() - 1;
    }

    fn reopen(&mut self) {
        // Dropped and not closed: what was put is there all the same.
        (self.store, self.other) = (None, None);
        self.store = Some(varied(self.puts).open(&self.dir).unwrap());
        self.other = (!self.puts.is_multiple_of(3)).then(|| varied(self.puts / 3).open(&self.dir).unwrap());
        assert_eq!(self.store().recovery().damage, []);
        assert_eq!(self.store().verify().unwrap(), []);
        assert_eq!(shown_by(self.store()), shown_by(&self.memory));
        self.synced = self.shown.len() - 1;
    }

    fn compact(&mut self) {
        self.store().compact().unwrap();
        assert_eq!(shown_by(self.store()), shown_by(&self.memory));
        self.synced = self.shown.len() - 1;
    }

    fn look_read_only(&self) {
        let store = Store::options().read_only(true).open(&self.dir).unwrap();
        assert_eq!(shown_by(&store), shown_by(&self.memory));
    }

    /// A crash that lost the end of the newest segment: the files are copied while the store has
    /// them open, so what was not synced is not proven, and so many bytes are cut from the copy.
    fn crash(&self, bytes: u64) {
        let copy = self.copy();
        let newest = newest_segment(&copy);
        let content = std::fs::read(&newest).unwrap();
        let held = content.iter().rposition(|&byte| byte != 0).map_or(0, |last| last as u64 + 1);
        let left = held.saturating_sub(bytes);
        OpenOptions::new().write(true).open(&newest).unwrap().set_len(left).unwrap();
        let store = match open(&copy) {
            Ok(store) => store,
            Err(error) => panic!("{left} of {held} bytes were left: {error}"),
        };
        store.verify().unwrap();
        // Below the proven end a cut is damage, which is reported and costs what stood there.
        if store.recovery().damage.is_empty() {
            let shown = shown_by(&store);
            let allowed = &self.shown[self.synced..];
            assert!(allowed.contains(&shown), "after a cut to {left} of {held} bytes: {shown:?}, not one of {allowed:?}");
            store.put_bytes("after", TypeTag::BYTES, b"the cut", PutOptions::default()).unwrap();
            drop(store);
            let mut again = shown_by(&open(&copy).unwrap());
            assert_eq!(again.remove("after").map(|checkpoints| checkpoints.len()), Some(1));
            assert_eq!(again, shown, "a put after the cut changed what stood there");
        }
        std::fs::remove_dir_all(copy).unwrap();
    }

    /// A copy that stands for the directory itself: its page names its own file.
    fn copy(&self) -> PathBuf {
        let copy = self.dir.with_file_name("copy");
        std::fs::create_dir(&copy).unwrap();
        for entry in std::fs::read_dir(&self.dir).unwrap().map(|entry| entry.unwrap()) {
            if entry.file_type().unwrap().is_file() {
                // The fuzzer's timer interrupts a call now and then, and this one is not taken up again by itself.
                while let Err(error) = std::fs::copy(entry.path(), copy.join(entry.file_name())) {
                    assert_eq!(error.kind(), std::io::ErrorKind::Interrupted, "{error}");
                }
            }
        }
        let page = OpenOptions::new().write(true).open(copy.join("tail")).unwrap();
        page.write_all_at(&page.metadata().unwrap().ino().to_le_bytes(), 7 * 8).unwrap();
        copy
    }

    fn compare_heads(&mut self) {
        let threads = self.memory.threads().unwrap();
        assert_eq!(self.store().threads().unwrap(), threads);
        for thread in &threads {
            let head = |place: &dyn Checkpointer| place.head(thread).unwrap().map(|info| described(&info, &[]));
            assert_eq!(head(self.store()), head(&self.memory));
        }
        self.shown.push(shown_by(&self.memory));
    }
}

fn options() -> Options {
    Store::options().segment_bytes(64 * 1024).durability(Durability::Buffered).auto_compaction(false)
}

/// One after the other the ways to store states.
fn varied(number: u64) -> Options {
    let options = options().delta(number % 5 != 1).mmap(number % 7 < 4);
    let options = if number % 4 == 3 { options.compression(Compression::Always) } else { options };
    match number % 3 {
        0 => options,
        1 => options.cache_bytes(0),
        _ => options.cache_bytes(20_000),
    }
}

fn open(dir: &Path) -> crate::Result<Store> {
    options().open(dir)
}

fn newest_segment(dir: &Path) -> PathBuf {
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    // A compacted segment, told by its kind, is never appended to whatever its number.
    let is_log = |path: &PathBuf| std::fs::read(path).unwrap()[10] == 1;
    files.filter(|path| path.extension().is_some_and(|kind| kind == "seg") && is_log(path)).max().unwrap()
}

/// One operation of a batch; owns what the batch borrows.
#[derive(Debug)]
enum Step {
    Put { thread: &'static str, state: Vec<u8>, options: PutOptions },
    Delete { thread: &'static str, id: Option<CheckpointId> },
    Attach { thread: &'static str, id: CheckpointId, key: &'static str, value: Vec<u8>, on: OnExisting },
}

impl Step {
    fn add<'a>(&'a self, batch: &mut Batch<'a>) {
        match self {
            Step::Put { thread, state, options } => batch.put(thread, TypeTag::BYTES, state, options.clone()),
            Step::Delete { thread, id } => batch.delete(thread, id.clone()),
            Step::Attach { thread, id, key, value, on } => batch.attach(thread, id.clone(), key, TypeTag::BYTES, value, *on),
        };
    }
}

/// Ids of every form: short, a UUID, long; few, so that they meet again.
fn id(input: &mut Input<'_>) -> CheckpointId {
    let number = input.below(12);
    CheckpointId::new(match number % 3 {
        0 => format!("step-{number}"),
        1 => format!("00000000-0000-7000-8000-{number:012}"),
        _ => format!("{number}-{}", "x".repeat(200)),
    })
    .unwrap()
}

/// A put that answers the same everywhere: its id and time are given.
fn put_options(number: u64, input: &mut Input<'_>) -> PutOptions {
    let own = match input.below(2) {
        0 => CheckpointId::new(format!("put-{number}")).unwrap(),
        _ => id(input),
    };
    let parent = match input.below(8) {
        0 => Parent::Root,
        1 => Parent::Id(id(input)),
        _ => Parent::Head,
    };
    let expected_head = match input.below(16) {
        0 => ExpectedHead::Empty,
        1 => ExpectedHead::Id(id(input)),
        _ => ExpectedHead::Any,
    };
    let metadata = match input.below(4) {
        0 => Metadata::from_json(format!("{{\"put\": {number}}}")).unwrap(),
        _ => Metadata::default(),
    };
    let saved_at = SystemTime::UNIX_EPOCH + Duration::from_nanos(number);
    PutOptions::default().id(own).parent(parent).expected_head(expected_head).metadata(metadata).saved_at(saved_at)
}

fn shown_by(place: &dyn Checkpointer) -> Shown {
    let history = |thread: String| {
        let checkpoints = place.history_bytes(&thread, &HistoryQuery::default()).unwrap();
        let described = checkpoints.map(|checkpoint| checkpoint.map(|checkpoint| described(&checkpoint.info, &checkpoint.state)));
        (thread, described.collect::<crate::Result<Vec<String>>>().unwrap())
    };
    let mut shown: Shown = place.threads().unwrap().into_iter().map(history).collect();
    for thread in [THREADS[0], THREADS[3], THREADS[5]] {
        for id in ATTACHED {
            let attached = place.attachments(thread, &CheckpointId::new(id).unwrap()).unwrap();
            let described = attached.iter().map(|one| format!("{} {:08x}", one.key, crc32fast::hash(&one.value)));
            if !attached.is_empty() {
                shown.insert(format!("{thread} {id}"), described.collect());
            }
        }
    }
    shown
}

/// All that two places must agree on; a seq is each place's own.
fn described(info: &crate::CheckpointInfo, state: &[u8]) -> String {
    let crate::CheckpointInfo { id, parent, saved_at, metadata, tag, bytes, .. } = info;
    format!("{id} after {parent:?} at {saved_at:?} with {metadata:?}: {tag} {bytes} {:08x}", crc32fast::hash(state))
}

/// The bytes that choose, zero once they are used up.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn next(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::from(self.next().unwrap_or(0)) % bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_meet_all_else() {
        for seed in 0..40 {
            let mut data = noise(seed, 400);
            data.iter_mut().step_by(7).for_each(|byte| *byte |= BRANCHES_FROM);
            operations(&data);
        }
    }

    #[test]
    fn most_states_are_deltas() {
        let scratch = Scratch::new();
        let mut run = Run::begin(&scratch.0);
        run.retain(None, &mut Input(&[7]));
        for number in 0..40 {
            // A put to the first thread, under an id of its own.
            run.commit(1, &mut Input(&[0, 2, 195 + number % 8, 0, 7, 7, 1]));
            if number % 10 == 9 {
                run.reopen();
            }
        }
        let stats = run.store().stats().unwrap();
        assert!(stats.checkpoints == 40 && stats.stored_bytes < stats.logical_bytes / 2, "{stats:?}");
    }
}
