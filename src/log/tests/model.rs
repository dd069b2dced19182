//! Random operations against the plain in-memory backend, reopening in between: after each step all
//! reads agree, and the live index equals the rebuilt one.

use std::time::{Duration, SystemTime};

use proptest::prelude::*;

use super::{Scratch, index_is_derived};
use crate::backend::memory::MemoryCheckpointer;
use crate::batch::{Batch, Committed, Durability, ExpectedHead, Parent, PutOptions};
use crate::checkpoint::{CheckpointId, Metadata, TypeTag};
use crate::checkpointer::Checkpointer;
use crate::error::Result;
use crate::log::Store;
use crate::options::Options;
use crate::query::{HistoryQuery, ThreadQuery, VacuumQuery};

/// Some two hundred years.
const FAR_AHEAD: Duration = Duration::from_secs(6_000_000_000);

const THREADS: [&str; 4] = ["a", "b:c", "\u{e9}\n", "long"];

#[derive(Clone, Debug)]
struct OnePut {
    thread: usize,
    /// 0..=9 the caller's own id of that number, else a fresh one.
    own_id: u8,
    size: usize,
    json: bool,
    metadata: u8,
    parent: u8,
    expected: u8,
    buffered: bool,
}

#[derive(Clone, Debug)]
enum Step {
    Put(OnePut),
    Batch(Vec<OnePut>, Option<usize>),
    DeleteThread(usize),
    DeleteCheckpoint(usize, u8),
    Retain(Option<usize>, Option<usize>),
    Vacuum { thread: Option<usize>, keep: Option<usize>, older: bool, idle: bool },
    Sync,
    Compact,
    Elsewhere(ElseWhere),
    Reopen { close: bool, options: u8, max_history: Option<Option<usize>> },
}

/// What is done beside the store under test, by a second handle.
#[derive(Clone, Copy, Debug)]
enum ElseWhere {
    Open,
    Close,
    Look,
    Compact,
    /// One step of those that are taken without being asked for.
    Step,
}

fn one_put() -> impl Strategy<Value = OnePut> {
    // Some states are over a quarter of a small segment, some near its whole.
    let size = prop_oneof![8 => 0..300usize, 2 => 2_000..9_000usize, 1 => 15_000..70_000usize];
    (0..THREADS.len(), 0..16u8, size, any::<bool>(), 0..6u8, 0..8u8, 0..10u8, any::<bool>()).prop_map(
        |(thread, own_id, size, json, metadata, parent, expected, buffered)| OnePut {
            thread,
            own_id,
            size,
            json,
            metadata,
            parent,
            expected,
            buffered,
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let keep = prop_oneof![Just(None), (1..6usize).prop_map(Some)];
    let thread = 0..THREADS.len();
    let elsewhere = prop::sample::select(vec![
        ElseWhere::Open,
        ElseWhere::Close,
        ElseWhere::Look,
        ElseWhere::Look,
        ElseWhere::Compact,
        ElseWhere::Step,
    ]);
    prop_oneof![
        12 => one_put().prop_map(Step::Put),
        4 => (prop::collection::vec(one_put(), 0..5), prop::option::of(thread.clone())).prop_map(|(puts, delete)| Step::Batch(puts, delete)),
        1 => thread.clone().prop_map(Step::DeleteThread),
        3 => (thread.clone(), 0..10u8).prop_map(|(thread, id)| Step::DeleteCheckpoint(thread, id)),
        2 => (prop::option::of(thread.clone()), keep.clone()).prop_map(|(thread, keep)| Step::Retain(thread, keep)),
        2 => (prop::option::of(thread), prop::option::of(0..4usize), any::<bool>(), any::<bool>())
            .prop_map(|(thread, keep, older, idle)| Step::Vacuum { thread, keep, older, idle }),
        1 => Just(Step::Sync),
        2 => Just(Step::Compact),
        4 => elsewhere.prop_map(Step::Elsewhere),
        4 => (any::<bool>(), 0..4u8, prop::option::of(keep)).prop_map(|(close, options, max_history)| Step::Reopen { close, options, max_history }),
    ]
}

fn own_id(number: u8) -> CheckpointId {
    // One of them is a UUID in its usual form, one too long to stand in the value itself.
    match number {
        0 => CheckpointId::new("0190a6c1-1b2c-7d3e-8f40-123456789abc").unwrap(),
        1 => CheckpointId::new("x".repeat(255)).unwrap(),
        _ => CheckpointId::new(format!("id-{number}")).unwrap(),
    }
}

struct Pair {
    scratch: Scratch,
    store: Option<Store>,
    other: Option<Store>,
    model: MemoryCheckpointer,
    number: u64,
    last_seq: u64,
}

impl Pair {
    fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    fn state(&mut self, put: &OnePut) -> Vec<u8> {
        self.number += 1;
        let text = format!("{}-{}", self.number, "x".repeat(put.size));
        if put.json { format!(" [\"{text}\"]\n").into_bytes() } else { text.into_bytes() }
    }

    fn options(&self, put: &OnePut) -> PutOptions {
        let head = self.model.head(THREADS[put.thread]).unwrap();
        let parent = match put.parent {
            0 => Parent::Root,
            1 => Parent::Id(own_id(3)),
            2 => head.as_ref().map_or(Parent::Head, |head| Parent::Id(head.id.clone())),
            _ => Parent::Head,
        };
        let expected_head = match put.expected {
            0 => ExpectedHead::Empty,
            1 => ExpectedHead::Id(own_id(4)),
            2 => head.map_or(ExpectedHead::Empty, |head| ExpectedHead::Id(head.id)),
            _ => ExpectedHead::Any,
        };
        let id = if put.own_id < 10 { own_id(put.own_id) } else { CheckpointId::fresh() };
        let metadata = match put.metadata {
            0 => Metadata::from_json(format!("{{\"n\": \"{}\"}}", "m".repeat(200))).unwrap(),
            1 => Metadata::from_json(format!("{{\"n\": \"{}\"}}", "m".repeat(60_000))).unwrap(),
            _ => Metadata::default(),
        };
        // Some labels are yet to come: then what a vacuum takes is scattered.
        let ahead = if put.metadata > 3 { FAR_AHEAD } else { Duration::ZERO };
        let time = SystemTime::UNIX_EPOCH + ahead + Duration::from_nanos(self.number * 1_000_003);
        let durability = if put.buffered { Durability::Buffered } else { Durability::Sync };
        PutOptions::default().id(id).parent(parent).expected_head(expected_head).metadata(metadata).saved_at(time).durability(durability)
    }

    fn run(&mut self, step: &Step) {
        match step {
            Step::Put(put) => self.commit(std::slice::from_ref(put), None),
            Step::Batch(puts, delete) => self.commit(puts, *delete),
            Step::DeleteThread(thread) => self.both(|place| place.delete(THREADS[*thread])),
            Step::DeleteCheckpoint(thread, id) => self.both(|place| place.delete_checkpoint(THREADS[*thread], &own_id(*id))),
            Step::Retain(thread, keep) => self.both(|place| place.retain(thread.map(|thread| THREADS[thread]), *keep)),
            Step::Vacuum { thread, keep, older, idle } => self.both(|place| {
                let thread = thread.map(|thread| THREADS[thread].to_owned());
                let (older_than, idle) = (older.then_some(Duration::ZERO), idle.then_some(Duration::ZERO));
                let query = VacuumQuery { thread, keep: *keep, older_than, idle, dry_run: false };
                let dry = place.vacuum(&VacuumQuery { dry_run: true, ..query.clone() });
                let done = place.vacuum(&query)?;
                assert_eq!(dry?, done, "{query:?}");
                Ok(done)
            }),
            Step::Sync => self.store().sync().unwrap(),
            Step::Compact => drop(self.store().compact().unwrap()),
            Step::Elsewhere(ElseWhere::Open) => self.other = Some(tuned(1).open(self.scratch.dir()).unwrap()),
            Step::Elsewhere(ElseWhere::Close) => self.other = None,
            Step::Elsewhere(what) => {
                let Some(other) = &self.other else { return };
                match what {
                    ElseWhere::Compact => drop(other.compact().unwrap()),
                    ElseWhere::Step => other.shared.step_now().unwrap(),
                    _ => drop(other.threads().unwrap()),
                }
                index_is_derived(other, &self.scratch.dir());
            }
            Step::Reopen { close, options, max_history } => {
                let store = self.store.take().unwrap();
                if *close {
                    store.close().unwrap()
                } else {
                    drop(store)
                }
                let mut with = tuned(*options);
                if let Some(keep) = max_history {
                    with = with.max_history(*keep);
                    self.model.retain(None, *keep).unwrap();
                }
                let store = with.open(self.scratch.dir()).unwrap();
                assert!(store.recovery().damage.is_empty() && store.recovery().torn_bytes == 0, "{:?}", store.recovery());
                self.store = Some(store);
            }
        }
    }

    fn commit(&mut self, puts: &[OnePut], delete: Option<usize>) {
        let states: Vec<_> = puts.iter().map(|put| (self.state(put), self.options(put))).collect();
        let mut batch = Batch::new();
        for (put, (state, options)) in puts.iter().zip(&states) {
            let tag = if put.json { TypeTag::JSON } else { TypeTag::BYTES };
            batch.put(THREADS[put.thread], tag, state, options.clone());
        }
        if let Some(thread) = delete {
            batch.delete(THREADS[thread], None);
        }
        self.both(|place| place.commit(&batch).map(|done: Vec<Committed>| done));
    }

    /// The same of both: equal answers, or errors of one kind.
    fn both<T: PartialEq + std::fmt::Debug>(&self, what: impl Fn(&dyn Checkpointer) -> Result<T>) {
        let kinds = |answer: Result<T>| answer.map_err(|error| error.kind());
        assert_eq!(kinds(what(self.store())), kinds(what(&self.model)));
    }

    fn agree(&mut self) {
        let store = self.store.as_ref().unwrap();
        assert_eq!(store.threads().unwrap(), self.model.threads().unwrap());
        let infos = |place: &dyn Checkpointer| place.list_threads(&ThreadQuery::default()).unwrap().collect::<Result<Vec<_>>>().unwrap();
        assert_eq!(infos(store), infos(&self.model));
        for thread in THREADS {
            let all = HistoryQuery::default();
            let mine: Vec<_> = store.history_bytes(thread, &all).unwrap().map(Result::unwrap).collect();
            let theirs: Vec<_> = self.model.history_bytes(thread, &all).unwrap().map(Result::unwrap).collect();
            assert_eq!(mine.len(), theirs.len(), "{thread:?}");
            for (mine, theirs) in mine.iter().zip(&theirs) {
                assert_eq!((&mine.id, &mine.parent, &mine.tag, mine.bytes), (&theirs.id, &theirs.parent, &theirs.tag, theirs.bytes));
                assert_eq!((mine.saved_at, &mine.metadata), (theirs.saved_at, &theirs.metadata));
                assert!(*mine.state == *theirs.state, "another state under {:?}", mine.id);
                assert!(*store.load_bytes(thread, &mine.id).unwrap().unwrap().state == *mine.state);
            }
            assert!(mine.windows(2).all(|pair| pair[0].seq > pair[1].seq), "not in the store's one order");
            self.last_seq = self.last_seq.max(mine.first().map_or(0, |head| head.seq));
            let head = store.get_bytes(thread).unwrap().map(|head| head.id.clone());
            assert_eq!(head.as_ref(), theirs.first().map(|head| &head.id));
        }
        index_is_derived(store, &self.scratch.dir());
    }
}

fn tuned(options: u8) -> Options {
    let options = match options {
        0 => return Store::options().auto_compaction(false),
        1 => Store::options().segment_bytes(64 * 1024),
        2 => Store::options().segment_bytes(100_000).mmap(false),
        _ => Store::options().segment_bytes(64 * 1024).mmap(false),
    };
    options.durability(Durability::Buffered).auto_compaction(false)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn the_store_is_what_a_plain_model_is(
        steps in prop::collection::vec(step(), 1..50),
        options in 0..4u8,
        max_history in prop_oneof![Just(None), (1..6usize).prop_map(Some)],
    ) {
        let scratch = Scratch::new();
        let store = tuned(options).max_history(max_history).open(scratch.dir()).unwrap();
        let model = MemoryCheckpointer::with_max_history(max_history).unwrap();
        let mut pair = Pair { scratch, store: Some(store), other: None, model, number: 0, last_seq: 0 };
        for step in &steps {
            pair.run(step);
            pair.agree();
        }
        let highest = pair.last_seq;
        pair.run(&Step::Put(OnePut { thread: 0, own_id: 15, size: 1, json: false, metadata: 5, parent: 7, expected: 9, buffered: false }));
        prop_assert!(pair.store().head(THREADS[0]).unwrap().unwrap().seq > highest, "a number was given twice");
    }
}
