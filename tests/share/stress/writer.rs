//! A writer: does its steps, notes each before and after, and sees at once what it did.

use std::path::Path;

use taffrail::{Batch, CheckpointId, Checkpointer, Committed, ErrorKind, HistoryQuery, Parent, PutOptions, Store, TypeTag, VacuumQuery};

use super::failed;
use super::forks;
use super::journal::{self, Journal, Outcome};
use super::opening;
use super::step::{COMMON, Kind, NOT_VACUUMED, Step, VACUUMED_MAX, brief, kept, own, pair, state, told, tree};
use crate::chance::Chance;
use crate::child::PATIENCE;

/// The most steps of one writer, so that a round stays small.
const STEPS_MAX: u64 = 1500;

/// How often a writer compacts the store.
const COMPACTS_ONCE_IN: u64 = 30;
/// How often a writer forks.
const FORKS_ONCE_IN: u64 = 25;

struct Writer {
    writer: u64,
    store: Store,
}

/// Plays a writer; its arguments are the directory, the round's ground, its number, the seed, the
/// segment size, after how many steps it opens the store anew, and when it dies.
pub fn run(arguments: &[&str]) {
    let [dir, ground, writer, seed, segment_bytes, reopen, dies] = arguments else { panic!("{arguments:?}") };
    let [writer, seed, segment_bytes, reopen, dies] = [writer, seed, segment_bytes, reopen, dies].map(|text| text.parse::<u64>().unwrap());
    let ground = Path::new(ground);
    failed::is_noted(ground);
    let path = ground.join(format!("writer {writer}"));
    let (before, _) = journal::steps(&path);
    let mut journal = Journal::open(&path);
    let open = |dies| {
        let options = Store::options().max_history(None).segment_bytes(segment_bytes).busy_timeout(PATIENCE);
        let store = opening::noted(ground, dies, || options.open(dir)).unwrap_or_else(|error| panic!("writer {writer}: {error:?}"));
        assert!(store.recovery().damage.is_empty() && store.recovery().unproven.is_empty(), "{:?}", store.recovery());
        Some(store)
    };
    let mut store = open(dies);
    let first = before.last_key_value().map_or(0, |(last, _)| last + 1);
    let mut this = Writer { writer, store: store.take().unwrap() };
    this.finds_what_was_acknowledged(seed, segment_bytes, &before);
    for number in first..STEPS_MAX {
        if ground.join("stop").exists() {
            break;
        }
        if reopen > 0 && number % reopen == reopen - 1 {
            // Closed before it is opened again, so that it may be the first to open it.
            let Writer { store: closed, .. } = this;
            closed.close().unwrap();
            this = Writer { writer, store: open(0).unwrap() };
        }
        let mut chance = Chance::new(seed ^ (writer << 40) ^ number);
        if chance.once_in(COMPACTS_ONCE_IN) {
            this.store.compact().unwrap();
        }
        if chance.once_in(FORKS_ONCE_IN) {
            forks::fork(&this.store, chance.micros(3_000), number % 2 == 0);
        }
        let step = Step::of(seed, segment_bytes, writer, number);
        let target = this.target(step.kind, &mut chance);
        journal.note(&format!("try {number}{}", target.as_ref().map_or(String::new(), |id| format!(" {id}"))));
        let answer = this.step(step, number, target);
        journal.note(&format!("done {number} {answer}"));
    }
    // Every other one ends without a word.
    if writer % 2 == 0 {
        this.store.close().unwrap();
    }
}

impl Writer {
    /// What earlier lives were told must be there as soon as the store is open.
    fn finds_what_was_acknowledged(&self, seed: u64, segment_bytes: u64, before: &std::collections::BTreeMap<u64, Outcome>) {
        let [left, right] = pair(self.writer);
        for (kind, thread) in [(Kind::Own, own(self.writer)), (Kind::Pair, left), (Kind::Pair, right)] {
            let is_done = |(number, outcome): (&u64, &Outcome)| {
                let of_kind = Step::of(seed, segment_bytes, self.writer, *number).kind == kind;
                (of_kind && *outcome != Outcome::Unknown).then_some(*number)
            };
            let least = before.iter().filter_map(is_done).next_back();
            let found = self.store.get_bytes(&thread).unwrap().map(|head| told(&head.state, &thread).1);
            assert!(found >= least, "{thread}: acknowledged up to {least:?}, found {found:?}");
        }
    }

    /// The checkpoint of the tree that a step names: any, if there is one.
    fn target(&self, kind: Kind, chance: &mut Chance) -> Option<CheckpointId> {
        if !matches!(kind, Kind::Branch | Kind::Prune) {
            return None;
        }
        let items = self.store.list(&tree(self.writer), &HistoryQuery::default()).unwrap();
        let ids: Vec<_> = items.map(|info| info.unwrap().id).collect();
        (!ids.is_empty()).then(|| ids[chance.below(ids.len() as u64) as usize].clone())
    }

    /// Does a step and answers what the journal keeps of it.
    fn step(&self, step: Step, number: u64, target: Option<CheckpointId>) -> String {
        let state = state(self.writer, number, step.length);
        let options = PutOptions::default().durability(step.durability);
        let put = |thread: &str| {
            let id = self.store.put_bytes(thread, TypeTag::BYTES, &state, options.clone()).unwrap();
            assert!(self.store.load_bytes(thread, &id).unwrap().is_some(), "{thread}: {number} is not seen by who put it");
            id.to_string()
        };
        match step.kind {
            Kind::Own => put(&own(self.writer)),
            Kind::Common => put(COMMON),
            Kind::Brief => put(&brief(self.writer)),
            Kind::Delete => {
                let thread = brief(self.writer);
                let existed = self.store.delete(&thread).unwrap();
                assert!(!self.store.exists(&thread).unwrap(), "{thread}: it is there after {number} deleted it");
                existed.to_string()
            }
            Kind::Kept => put(&kept(self.writer)),
            Kind::Retain(keep) => {
                let answer = self.store.retain(Some(&kept(self.writer)), Some(keep as usize));
                let is_absent = answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound);
                assert!(answer.is_ok() || is_absent, "{answer:?}");
                answer.is_ok().to_string()
            }
            Kind::Vacuum(keep) => self.vacuum(keep as usize),
            Kind::Branch => {
                let (thread, parent) = (tree(self.writer), target.map_or(Parent::Root, Parent::Id));
                self.store.put_bytes(&thread, TypeTag::BYTES, &state, options.parent(parent)).unwrap().to_string()
            }
            Kind::Prune => {
                let thread = tree(self.writer);
                let existed = target.is_some_and(|id| {
                    let existed = self.store.delete_checkpoint(&thread, &id).unwrap();
                    assert!(self.store.load_bytes(&thread, &id).unwrap().is_none(), "{thread}: {id} is there after {number} deleted it");
                    existed
                });
                existed.to_string()
            }
            Kind::Pair => {
                let threads = pair(self.writer);
                let mut batch = Batch::new();
                for thread in &threads {
                    batch.put(thread, TypeTag::BYTES, &state, options.clone());
                }
                let answers = self.store.commit(&batch).unwrap();
                let ids = threads.iter().zip(answers).map(|(thread, answer)| {
                    let Committed::Put(id) = answer else { panic!("a put answered {answer:?}") };
                    assert_eq!(self.store.head(thread).unwrap().map(|head| head.id), Some(id.clone()), "{thread} {number}");
                    id.to_string()
                });
                ids.collect::<Vec<_>>().join(" ")
            }
        }
    }

    /// Vacuums until only so many are left: what a compaction writes anew meanwhile is left to the next time.
    fn vacuum(&self, keep: usize) -> String {
        let thread = kept(self.writer);
        let length = || self.store.list(&thread, &HistoryQuery::default()).unwrap().count();
        if length() > VACUUMED_MAX {
            return NOT_VACUUMED.to_owned();
        }
        let query = VacuumQuery { thread: Some(thread.clone()), keep: Some(keep), ..VacuumQuery::default() };
        let mut gone = 0;
        for _ in 0..100 {
            gone += self.store.vacuum(&query).unwrap().checkpoints;
            if length() <= keep {
                return gone.to_string();
            }
        }
        panic!("{thread}: a hundred vacuums leave more than {keep}")
    }
}
