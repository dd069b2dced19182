//! What must be in the store when all processes of a round have ended, held against their journals.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::ops::AddAssign;

use taffrail::{Checkpoint, Checkpointer, CheckpointerExt, HistoryQuery, StateBytes, Store};

use super::journal::{self, Outcome};
use super::killer::Killed;
use super::round::Round;
use super::step::{COMMON, Kind, Step, brief, kept, own, pair, told, tree};
use crate::tidy::is_tidy;

/// What was checked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counted {
    /// Rounds.
    pub rounds: u64,
    /// Writers.
    pub writers: u64,
    /// Lives of writers.
    pub lives: u64,
    /// Steps that were acknowledged.
    pub acknowledged: u64,
    /// Steps whose writer was killed before their answer, and that are there.
    pub happened: u64,
    /// Steps whose writer was killed before their answer, and that are not there.
    pub vanished: u64,
    /// Checkpoints of the common thread that readers had seen.
    pub seen: u64,
    /// Processes that were killed.
    pub killed: Killed,
}

impl AddAssign for Counted {
    fn add_assign(&mut self, other: Counted) {
        self.rounds += other.rounds;
        self.writers += other.writers;
        self.lives += other.lives;
        self.acknowledged += other.acknowledged;
        self.happened += other.happened;
        self.vanished += other.vanished;
        self.seen += other.seen;
        self.killed += other.killed;
    }
}

/// One checkpoint as the store shows it.
pub struct Shown {
    pub id: String,
    pub parent: Option<String>,
    pub seq: u64,
    pub writer: u64,
    pub number: u64,
}

impl Shown {
    fn of(read: &Checkpoint<StateBytes>, context: &str) -> Shown {
        let (writer, number) = told(&read.state, context);
        let parent = read.parent.as_ref().map(ToString::to_string);
        Shown { id: read.id.to_string(), parent, seq: read.seq, writer, number }
    }
}

/// A round's store, and what its writers did.
pub struct Found<'a> {
    pub round: &'a Round,
    pub context: String,
    /// Each thread's checkpoints, oldest first.
    threads: BTreeMap<String, Vec<Shown>>,
    counted: Counted,
}

/// Checks a round whose processes have all ended.
pub fn check(round: &Round) -> Counted {
    let context = round.context();
    // A forked child of a writer that was killed ends a moment later, and has its parent's locks until then.
    File::open(round.dir()).and_then(|dir| dir.lock()).unwrap();
    if !round.dir().join("MANIFEST").exists() {
        // All were killed before anybody had made the store: nobody was told of anything.
        let nothing = (0..round.writers).all(|writer| journal::steps(&round.file(&format!("writer {writer}"))).0.is_empty());
        assert!(nothing, "{context}: steps were made in no store");
    }
    let store = Store::options().max_history(None).open(round.dir()).unwrap_or_else(|error| panic!("{context}: {error:?}"));
    let report = store.recovery();
    assert!(report.damage.is_empty() && report.unproven.is_empty(), "{context}: {report:?}");
    let mut found = Found { round, threads: threads(&store, &context), context, counted: Counted { rounds: 1, ..Counted::default() } };
    found.is_one_order();
    for writer in 0..round.writers {
        found.is_what_was_done(writer);
    }
    found.readers_saw_that_order();
    let Found { context, counted, .. } = found;
    // And it goes on.
    let id = store.put("afterwards", &round.seed).unwrap();
    assert_eq!(store.head("afterwards").unwrap().map(|head| head.id), Some(id), "{context}");
    store.close().unwrap();
    is_tidy(&round.dir(), &context);
    counted
}

fn threads(store: &Store, context: &str) -> BTreeMap<String, Vec<Shown>> {
    let read = |thread: String| {
        let items = store.history_bytes(&thread, &HistoryQuery::default()).unwrap();
        let mut shown: Vec<Shown> = items.map(|item| Shown::of(&item.unwrap(), context)).collect();
        shown.reverse();
        (thread, shown)
    };
    store.threads().unwrap().into_iter().map(read).collect()
}

impl Found<'_> {
    /// Only the writers' threads are there; parents chain in each from which nothing is taken singly,
    /// numbers rise, and none was given twice.
    fn is_one_order(&self) {
        let context = &self.context;
        let alone = |writer| [own(writer), brief(writer), kept(writer), tree(writer)];
        let threads = |writer| alone(writer).into_iter().chain(pair(writer)).map(move |name| (name, writer));
        let owners: BTreeMap<String, u64> = (0..self.round.writers).flat_map(threads).collect();
        let mut numbers = BTreeSet::new();
        for (thread, shown) in &self.threads {
            // What is gone is still named, and a tree names what it goes on from.
            let is_judged_apart = ["tree ", "kept "].iter().any(|name| thread.starts_with(name));
            let (mut parent, mut last) = (None, 0);
            let owner = owners.get(thread);
            assert!(owner.is_some() || thread == COMMON, "{context}: {thread:?} is nobody's thread");
            for one in shown {
                assert!(owner.is_none_or(|owner| *owner == one.writer), "{context}: {thread} has a put of {}", one.writer);
                let is_next = is_judged_apart || one.parent == parent;
                assert!(is_next, "{context}: {thread}: {} has the parent {:?}, not {parent:?}", one.number, one.parent);
                assert!(one.seq > last, "{context}: {thread}: seq {} after {last}", one.seq);
                assert!(numbers.insert(one.seq), "{context}: {thread}: seq {} was given twice", one.seq);
                (parent, last) = (Some(one.id.clone()), one.seq);
            }
        }
    }

    fn is_what_was_done(&mut self, writer: u64) {
        let (steps, lives) = journal::steps(&self.round.file(&format!("writer {writer}")));
        let unknown = steps.values().filter(|outcome| **outcome == Outcome::Unknown).count() as u64;
        assert!(unknown <= lives, "{}: writer {writer} had {lives} lives and {unknown} steps in flight", self.context);
        self.counted.writers += 1;
        self.counted.lives += lives;
        self.counted.acknowledged += steps.len() as u64 - unknown;
        let [left, right] = pair(writer);
        for (kind, thread, at) in
            [(Kind::Own, own(writer), 0), (Kind::Common, COMMON.to_owned(), 0), (Kind::Pair, left, 0), (Kind::Pair, right, 1)]
        {
            let expected = self.of_kind(&steps, writer, kind);
            self.holds_each_once(writer, &thread, at, &expected);
        }
        self.pair_is_whole(writer);
        let touching: BTreeMap<u64, (Kind, Outcome)> = [Kind::Brief, Kind::Delete]
            .into_iter()
            .flat_map(|kind| self.of_kind(&steps, writer, kind).into_iter().map(move |(number, outcome)| (number, (kind, outcome))))
            .collect();
        self.brief_is_one_of(writer, &touching);
        self.kept_is_one_of(writer, &steps);
        self.kept_names_what_was_put_before(writer, &steps);
        self.tree_is_what_was_done(writer, &steps);
    }

    pub fn shown(&self, thread: &str) -> &[Shown] {
        self.threads.get(thread).map_or(&[], Vec::as_slice)
    }

    fn of_kind(&self, steps: &BTreeMap<u64, Outcome>, writer: u64, kind: Kind) -> BTreeMap<u64, Outcome> {
        let fits = |number: u64| Step::of(self.round.seed, self.round.segment_bytes, writer, number).kind == kind;
        steps.iter().filter(|(number, _)| fits(**number)).map(|(number, outcome)| (*number, outcome.clone())).collect()
    }

    /// Every acknowledged put is there once, in order, under the id that was answered (the one at
    /// `at` of a batch); beyond them at most what was in flight.
    fn holds_each_once(&mut self, writer: u64, thread: &str, at: usize, expected: &BTreeMap<u64, Outcome>) {
        let context = &self.context;
        let mut there = BTreeMap::new();
        let shown = self.threads.get(thread).map_or(&[][..], Vec::as_slice);
        for one in shown.iter().filter(|one| one.writer == writer) {
            assert!(
                there.last_key_value().is_none_or(|(last, _)| *last < one.number),
                "{context}: {thread}: {} is out of order",
                one.number
            );
            assert!(expected.contains_key(&one.number), "{context}: {thread}: {} was never put", one.number);
            there.insert(one.number, &one.id);
        }
        for (number, outcome) in expected {
            match (outcome, there.get(number)) {
                (Outcome::Done(ids), found) => assert_eq!(found, Some(&&ids[at]), "{context}: {thread}: {number} was acknowledged"),
                (Outcome::Unknown, Some(_)) => self.counted.happened += 1,
                (Outcome::Unknown, None) => self.counted.vanished += 1,
            }
        }
    }

    /// Both threads of a pair hold the same numbers, each batch's with nothing in between.
    fn pair_is_whole(&self, writer: u64) {
        let [left, right] = pair(writer).map(|thread| self.shown(&thread).iter().map(|one| (one.number, one.seq)).collect::<Vec<_>>());
        let expected: Vec<_> = left.iter().map(|(number, seq)| (*number, seq + 1)).collect();
        assert!(expected == right, "{}: half a batch of writer {writer}: {left:?} and {right:?}", self.context);
    }

    /// The thread that is deleted from time to time holds what its steps leave, where those in
    /// flight may have happened or not.
    fn brief_is_one_of(&self, writer: u64, steps: &BTreeMap<u64, (Kind, Outcome)>) {
        let context = &self.context;
        let mut possible = BTreeSet::from([Vec::new()]);
        for (number, (kind, outcome)) in steps {
            let after = |before: &Vec<u64>| match kind {
                Kind::Delete => Vec::new(),
                _ => before.iter().copied().chain([*number]).collect(),
            };
            let happened = possible.iter().filter(|before| match (kind, outcome) {
                (Kind::Delete, Outcome::Done(existed)) => existed[0] == (!before.is_empty()).to_string(),
                _ => true,
            });
            let mut next: BTreeSet<Vec<u64>> = happened.map(after).collect();
            assert!(!next.is_empty(), "{context}: writer {writer}: the answer to deletion {number} cannot be: {outcome:?}");
            if *outcome == Outcome::Unknown {
                next.extend(possible);
            }
            possible = next;
        }
        let thread = brief(writer);
        let found: Vec<u64> = self.shown(&thread).iter().map(|one| one.number).collect();
        assert!(possible.contains(&found), "{context}: {thread} holds {found:?}, its steps leave one of {possible:?}");
    }

    /// Every reader saw the common thread grow in the order that it has in the end.
    fn readers_saw_that_order(&mut self) {
        let last: Vec<[String; 2]> = self.shown(COMMON).iter().map(|one| [one.seq.to_string(), one.id.clone()]).collect();
        for entry in std::fs::read_dir(self.round.dir().parent().unwrap()).unwrap() {
            let path = entry.unwrap().path();
            if !path.file_name().unwrap().to_str().unwrap().starts_with("reader ") {
                continue;
            }
            let seen = journal::lines(&path).into_iter().filter(|words| words[0] != "life");
            let seen: Vec<[String; 2]> = seen.map(|words| words.try_into().unwrap()).collect();
            assert!(last.starts_with(&seen), "{}: {} saw another order", self.context, path.display());
            self.counted.seen += seen.len() as u64;
        }
    }
}
