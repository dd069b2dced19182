//! A reader: asks again and again, and holds every answer against the ones before.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use taffrail::{CheckpointId, Checkpointer, HistoryQuery, Matching, Store, ThreadQuery};

use super::failed;
use super::journal::{self, Journal, Outcome};
use super::opening;
use super::step::{COMMON, Kind, Step, brief, kept, own, pair, told, tree};
use crate::chance::number;
use crate::child::PATIENCE;

struct Reader {
    dir: String,
    writers: u64,
    acknowledged: Acknowledged,
    /// The newest of the common thread that was seen.
    common: Option<(u64, CheckpointId)>,
    /// The highest number that was seen of each thread of one writer.
    newest: BTreeMap<String, u64>,
    /// The lowest number that a deleted and made again thread may still show.
    oldest: BTreeMap<String, u64>,
}

/// What writers were told, as their journals have it.
#[derive(Clone)]
struct Acknowledged {
    ground: PathBuf,
    seed: u64,
    segment_bytes: u64,
}

impl Acknowledged {
    /// The number of the last put to its own thread that a writer was told of.
    fn own(&self, writer: u64) -> Option<u64> {
        let (steps, _) = journal::steps(&self.ground.join(format!("writer {writer}")));
        let is_own = |number: u64| Step::of(self.seed, self.segment_bytes, writer, number).kind == Kind::Own;
        steps.into_iter().rev().find(|(number, outcome)| *outcome != Outcome::Unknown && is_own(*number)).map(|(number, _)| number)
    }
}

/// Plays a reader; its arguments are the directory, the round's ground, its name, the number of
/// writers, the seed, the segment size and when it dies.
pub fn run(arguments: &[&str]) {
    let [dir, ground, name, writers, seed, segment_bytes, dies] = arguments else { panic!("{arguments:?}") };
    failed::is_noted(Path::new(ground));
    let mut journal = Journal::open(&Path::new(ground).join(name));
    let [writers, seed, segment_bytes] = [writers, seed, segment_bytes].map(|text| text.parse().unwrap());
    let acknowledged = Acknowledged { ground: ground.into(), seed, segment_bytes };
    let mut reader = Reader::new(dir, writers, &acknowledged);
    let stop = Path::new(ground).join("stop");
    let open = |dies| {
        let options = Store::options().max_history(None).busy_timeout(PATIENCE);
        opening::noted(Path::new(ground), dies, || options.open(dir)).unwrap_or_else(|error| panic!("{name}: {error:?}"))
    };
    let short_lived = number("TAFFRAIL_STRESS_REOPEN").is_some();
    let mut store = open(dies.parse().unwrap());
    // Another worker of this process, for whom this one takes in what others put, and the reverse.
    let beside = (!short_lived).then(|| {
        let (store, stop, mut reader) = (store.clone(), stop.clone(), Reader::new(dir, writers, &acknowledged));
        std::thread::spawn(move || {
            while !stop.exists() {
                reader.pairs(&store);
                reader.brief(&store);
                std::thread::sleep(Duration::from_micros(200));
            }
        })
    });
    for poll in 0u64.. {
        if stop.exists() || beside.as_ref().is_some_and(|beside| beside.is_finished()) {
            break;
        }
        reader.common(&store, &mut journal);
        reader.single(&store, poll % 8 == 0);
        reader.pairs(&store);
        reader.brief(&store);
        reader.kept_and_trees(&store);
        if poll % 16 == 9 && name.ends_with('1') {
            peek(dir, &reader);
        }
        if short_lived {
            drop(store);
            std::thread::sleep(Duration::from_millis(2));
            store = open(0);
        }
        std::thread::sleep(Duration::from_micros(300));
    }
    if let Some(beside) = beside {
        beside.join().unwrap();
    }
}

impl Reader {
    fn new(dir: &str, writers: u64, acknowledged: &Acknowledged) -> Reader {
        Reader {
            dir: dir.to_owned(),
            writers,
            acknowledged: acknowledged.clone(),
            common: None,
            newest: BTreeMap::new(),
            oldest: BTreeMap::new(),
        }
    }

    /// The common thread only grows, each put behind the head it names; notes the order seen.
    fn common(&mut self, store: &Store, journal: &mut Journal) {
        let head = store.get_bytes(COMMON).unwrap().map(|head| {
            told(&head.state, COMMON);
            (head.seq, head.id.clone())
        });
        let seen = self.common.as_ref().map(|(seq, _)| *seq);
        assert!(head.as_ref().map(|(seq, _)| *seq) >= seen, "the common head went back from {seen:?} to {head:?}");
        let query = HistoryQuery { after: self.common.as_ref().map(|(_, id)| id.clone()), ..HistoryQuery::default() };
        let newer: Vec<_> = store.list(COMMON, &query).unwrap().map(Result::unwrap).collect();
        for info in newer.into_iter().rev() {
            let before = self.common.take();
            assert_eq!(
                info.parent.as_ref(),
                before.as_ref().map(|(_, id)| id),
                "{info:?} does not follow {before:?}; {}",
                afterwards(&self.dir, store)
            );
            assert!(before.is_none_or(|(seq, _)| seq < info.seq), "{info:?} has no higher number");
            journal.note(&format!("{} {}", info.seq, info.id));
            self.common = Some((info.seq, info.id));
        }
        let seen = self.common.as_ref().map(|(seq, _)| *seq);
        assert!(seen >= head.as_ref().map(|(seq, _)| *seq), "the head {head:?} is not in the list that ends at {seen:?}");
    }

    /// Each writer's own thread only grows, and so does what is behind its head; what it was told is there for others.
    fn single(&mut self, store: &Store, whole: bool) {
        for writer in 0..self.writers {
            let thread = own(writer);
            let least = whole.then(|| self.acknowledged.own(writer)).flatten();
            let head = self.head(store, &thread);
            assert!(head >= least, "{thread}: {least:?} was acknowledged, and another process sees {head:?}");
            if whole {
                let numbers: Vec<u64> = numbers(store, &thread);
                assert!(numbers.is_sorted_by(|newer, older| newer > older), "{thread} is out of order: {numbers:?}");
                let seen = self.newest.get(&thread);
                assert!(seen.is_none_or(|seen| numbers.contains(seen)), "{thread}: {seen:?} is gone");
            }
        }
    }

    /// Both threads of a pair change at one instant. Whichever is read later shows at least what the
    /// earlier one did: left, right, left would show a batch of which either comes first.
    fn pairs(&mut self, store: &Store) {
        for writer in 0..self.writers {
            let [left, right] = pair(writer);
            let seen = [&left, &right, &left].map(|thread| self.head(store, thread));
            assert!(seen.is_sorted(), "half a batch of writer {writer}: left, right, left showed {seen:?}");
        }
        pairs_are_whole(store, self.writers);
    }

    /// What was deleted does not come back: neither its numbers nor any before them.
    fn brief(&mut self, store: &Store) {
        for writer in 0..self.writers {
            let thread = brief(writer);
            let numbers = numbers(store, &thread);
            assert!(numbers.is_sorted_by(|newer, older| newer > older), "{thread} is out of order: {numbers:?}");
            let [Some(&newest), Some(&oldest)] = [numbers.first(), numbers.last()] else { continue };
            let begun = self.oldest.insert(thread.clone(), oldest);
            assert!(begun.is_none_or(|begun| oldest >= begun), "{thread} shows {oldest} again, it began at {begun:?}");
            let before = self.newest.insert(thread.clone(), newest);
            assert!(before.is_none_or(|before| newest >= before), "{thread} went back from {before:?} to {newest}");
            if begun.is_some_and(|begun| oldest > begun) {
                let before = before.unwrap();
                assert!(oldest > before, "{thread} begins with {oldest} and had shown {before} before it was deleted");
            }
        }
    }

    /// What is kept is the newest, in one order; trees only have what was put to them, the newer first.
    fn kept_and_trees(&mut self, store: &Store) {
        for writer in 0..self.writers {
            let thread = kept(writer);
            self.head(store, &thread);
            for thread in [thread, tree(writer)] {
                let numbers = numbers(store, &thread);
                assert!(numbers.is_sorted_by(|newer, older| newer > older), "{thread} is out of order: {numbers:?}");
            }
        }
    }

    /// The number at the head of a thread, which never goes back.
    fn head(&mut self, store: &Store, thread: &str) -> Option<u64> {
        let number = store.get_bytes(thread).unwrap().map(|head| told(&head.state, thread).1);
        let before = self.newest.get(thread).copied();
        assert!(number >= before, "{thread} went back from {before:?} to {number:?}");
        if let Some(number) = number {
            self.newest.insert(thread.to_owned(), number);
        }
        number
    }
}

/// What the common thread is a moment later for this handle and for a new one, and what is damaged.
fn afterwards(dir: &str, store: &Store) -> String {
    let list = |store: &Store| -> Vec<u64> {
        store.list(COMMON, &HistoryQuery::default()).unwrap().map(|info| info.map_or(0, |info| info.seq)).collect()
    };
    let new = Store::options().read_only(true).open(dir).unwrap();
    format!("afterwards it has {:?}, a new handle {:?}, which verifies as {:?}", list(store), list(&new), new.verify())
}

/// A thread's numbers, newest first.
fn numbers(store: &Store, thread: &str) -> Vec<u64> {
    let items = store.history_bytes(thread, &HistoryQuery::default()).unwrap();
    items.map(|item| told(&item.unwrap().state, thread).1).collect()
}

/// One list is one moment: both threads of a pair have as many checkpoints.
fn pairs_are_whole(store: &Store, writers: u64) {
    let query = ThreadQuery { matching: Matching::Prefix("pair ".to_owned()), ..ThreadQuery::default() };
    let counts: BTreeMap<String, u64> =
        store.list_threads(&query).unwrap().map(Result::unwrap).map(|info| (info.thread, info.checkpoints)).collect();
    for writer in 0..writers {
        let [left, right] = pair(writer).map(|thread| counts.get(&thread));
        assert_eq!(left, right, "half a batch of writer {writer} in one list");
    }
}

/// The store opened to read alone, beside those who write: nothing is damaged, nothing half, nothing missing.
fn peek(dir: &str, reader: &Reader) {
    let least: Vec<_> = (0..reader.writers).map(|writer| reader.acknowledged.own(writer)).collect();
    let store = Store::options().read_only(true).open(dir).unwrap_or_else(|error| panic!("to read alone: {error:?}"));
    assert!(store.recovery().damage.is_empty(), "to read alone: {:?}", store.recovery());
    pairs_are_whole(&store, reader.writers);
    for (writer, least) in (0..).zip(least) {
        let thread = own(writer);
        let head = store.get_bytes(&thread).unwrap().map(|head| told(&head.state, &thread).1);
        assert!(head >= least, "{thread}: {least:?} was acknowledged, and who opens to read alone sees {head:?}");
    }
    numbers(&store, COMMON);
}
