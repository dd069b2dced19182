//! Random operations against the plain in-memory backend, reopening in between: after each step all
//! reads agree, and the live index equals the rebuilt one. States grow out of each other, so that most
//! of those that can be are deltas.

use std::cell::Cell;
use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::{Scratch, index_is_derived, views};
use crate::backend::memory::MemoryCheckpointer;
use crate::batch::{Batch, Committed, Durability, ExpectedHead, OnExisting, Parent, PutOptions};
use crate::checkpoint::{Attachment, CheckpointId, Metadata, TypeTag};
use crate::checkpointer::Checkpointer;
use crate::error::Result;
use crate::log::Store;
use crate::options::{Compression, Options};
use crate::query::{HistoryQuery, ThreadQuery, VacuumQuery};
use crate::testing::states::noise;

/// Some two hundred years.
const FAR_AHEAD: Duration = Duration::from_secs(6_000_000_000);

const THREADS: [&str; 4] = ["a", "b:c", "\u{e9}\n", "long"];

#[derive(Clone, Debug)]
struct OnePut {
    thread: usize,
    /// 0..=9 the caller's own id of that number, else a fresh one.
    own_id: u8,
    /// 0 for a state that has nothing in common with the one before, 1 for the same again.
    likeness: u8,
    size: usize,
    json: bool,
    metadata: u8,
    parent: u8,
    expected: u8,
    buffered: bool,
    /// By the other handle, where there is one.
    elsewhere: bool,
}

#[derive(Clone, Debug)]
struct OneValue {
    thread: usize,
    own_id: u8,
    key: u8,
    size: usize,
    keep: bool,
    elsewhere: bool,
}

impl OneValue {
    fn add<'a>(&'a self, batch: &mut Batch<'a>, id: &CheckpointId, value: &'a [u8]) {
        let on = if self.keep { OnExisting::Keep } else { OnExisting::Replace };
        let key = ["k", "", "another key"][usize::from(self.key)];
        batch.attach(THREADS[self.thread], id.clone(), key, TypeTag::BYTES, value, on);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Put(OnePut),
    /// With a value attached before the put of that number, and a thread that is deleted.
    Batch(Vec<OnePut>, Option<(usize, OneValue)>, Option<usize>),
    DeleteThread(usize),
    DeleteCheckpoint(usize, u8),
    Attach(OneValue),
    Retain(Option<usize>, Option<usize>),
    Fork(usize, Option<u8>, usize),
    Rename(usize, usize),
    Rollback(usize, u8),
    Vacuum {
        thread: Option<usize>,
        keep: Option<usize>,
        older: bool,
        idle: bool,
    },
    Sync,
    Compact,
    Elsewhere(ElseWhere),
    Reopen {
        close: bool,
        options: u8,
        max_history: Option<Option<usize>>,
    },
}

/// What is done beside the store under test, by a second handle.
#[derive(Clone, Copy, Debug)]
enum ElseWhere {
    Open(u8),
    Close,
    Look,
    Compact,
    /// One step of those that are taken without being asked for.
    Step,
}

fn one_put() -> impl Strategy<Value = OnePut> {
    // Some states are over a quarter of a small segment, some near its whole.
    let size = prop_oneof![8 => 0..300usize, 2 => 2_000..9_000usize, 1 => 15_000..70_000usize];
    let how = (any::<bool>(), any::<bool>(), 0..10u8);
    (0..THREADS.len(), 0..16u8, size, prop::bool::weighted(0.3), 0..6u8, 0..8u8, 0..10u8, how).prop_map(
        |(thread, own_id, size, json, metadata, parent, expected, (buffered, elsewhere, likeness))| OnePut {
            thread,
            own_id,
            likeness,
            size,
            json,
            metadata,
            parent,
            expected,
            buffered,
            elsewhere,
        },
    )
}

/// To few checkpoints of two threads: how many of those that never come go at once has a limit.
fn one_value() -> impl Strategy<Value = OneValue> {
    let size = prop_oneof![8 => 0..200usize, 1 => 15_000..70_000usize];
    let key = prop_oneof![6 => Just(0u8), 1 => Just(1), 6 => Just(2)];
    (0..2usize, 0..2u8, key, size, any::<bool>(), any::<bool>()).prop_map(|(thread, own_id, key, size, keep, elsewhere)| OneValue {
        thread,
        own_id,
        key,
        size,
        keep,
        elsewhere,
    })
}

fn step() -> impl Strategy<Value = Step> {
    let keep = prop_oneof![Just(None), (1..6usize).prop_map(Some)];
    let thread = 0..THREADS.len();
    let elsewhere = prop_oneof![
        2 => any::<u8>().prop_map(ElseWhere::Open),
        1 => Just(ElseWhere::Close),
        2 => Just(ElseWhere::Look),
        1 => Just(ElseWhere::Compact),
        1 => Just(ElseWhere::Step),
    ];
    prop_oneof![
        12 => one_put().prop_map(Step::Put),
        4 => (prop::collection::vec(one_put(), 0..5), prop::option::of((0..5usize, one_value())), prop::option::of(thread.clone()))
            .prop_map(|(puts, value, delete)| Step::Batch(puts, value, delete)),
        5 => one_value().prop_map(Step::Attach),
        1 => thread.clone().prop_map(Step::DeleteThread),
        3 => (thread.clone(), 0..10u8).prop_map(|(thread, id)| Step::DeleteCheckpoint(thread, id)),
        2 => (prop::option::of(thread.clone()), keep.clone()).prop_map(|(thread, keep)| Step::Retain(thread, keep)),
        // Of the threads to which something is attached.
        2 => (0..2usize, prop::option::of(0..10u8), 0..2usize).prop_map(|(thread, at, new)| Step::Fork(thread, at, new)),
        2 => (0..2usize, 0..2usize).prop_map(|(thread, new)| Step::Rename(thread, new)),
        2 => (thread.clone(), 0..10u8).prop_map(|(thread, to)| Step::Rollback(thread, to)),
        2 => (prop::option::of(thread), prop::option::of(0..4usize), any::<bool>(), any::<bool>())
            .prop_map(|(thread, keep, older, idle)| Step::Vacuum { thread, keep, older, idle }),
        1 => Just(Step::Sync),
        2 => Just(Step::Compact),
        4 => elsewhere.prop_map(Step::Elsewhere),
        4 => (any::<bool>(), any::<u8>(), prop::option::of(keep)).prop_map(|(close, options, max_history)| Step::Reopen { close, options, max_history }),
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
    /// What was put to each thread last.
    texts: [String; 4],
    number: u64,
    last_seq: u64,
    /// Deltas that were there, and bases that were hidden, after all of the steps together.
    seen: (usize, usize),
    attached: usize,
}

impl Pair {
    fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    fn state(&mut self, put: &OnePut) -> Vec<u8> {
        self.number += 1;
        let number = self.number;
        let fresh = |length| noise(number, length).into_iter().map(|byte| char::from(b'A' + byte % 32)).collect::<String>();
        let text = &mut self.texts[put.thread];
        match put.likeness {
            0 => *text = fresh(put.size),
            1 => {}
            _ => {
                text.insert_str(number as usize * 7919 % (text.len() + 1), &format!("-{number}-"));
                text.push_str(&fresh(put.size / 3));
            }
        }
        if text.len() > 70_000 {
            text.drain(..text.len() / 2);
        }
        let text = text.replace('\\', "/");
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
            Step::Put(put) => self.commit(std::slice::from_ref(put), None, None),
            Step::Attach(value) => self.commit(&[], Some(&(0, value.clone())), None),
            Step::Batch(puts, value, delete) => self.commit(puts, value.as_ref(), *delete),
            Step::DeleteThread(thread) => self.both(|place| place.delete(THREADS[*thread])),
            Step::DeleteCheckpoint(thread, id) => self.both(|place| place.delete_checkpoint(THREADS[*thread], &own_id(*id))),
            Step::Retain(thread, keep) => self.both(|place| place.retain(thread.map(|thread| THREADS[thread]), *keep)),
            Step::Fork(thread, at, new) => self.both(|place| place.fork(THREADS[*thread], at.map(own_id).as_ref(), THREADS[*new])),
            Step::Rename(thread, new) => self.both(|place| place.rename(THREADS[*thread], THREADS[*new])),
            Step::Rollback(thread, to) => self.both(|place| place.rollback(THREADS[*thread], &own_id(*to))),
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
            Step::Elsewhere(ElseWhere::Open(options)) => self.other = Some(tuned(*options).open(self.scratch.dir()).unwrap()),
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

    fn commit(&mut self, puts: &[OnePut], value: Option<&(usize, OneValue)>, delete: Option<usize>) {
        let states: Vec<_> = puts.iter().map(|put| (self.state(put), self.options(put))).collect();
        let bytes = value.map(|(_, value)| noise(self.number, value.size)).unwrap_or_default();
        let mut batch = Batch::new();
        for (number, (put, (state, options))) in puts.iter().zip(&states).enumerate() {
            if let Some((_, value)) = value.filter(|(before, _)| *before == number) {
                value.add(&mut batch, &own_id(value.own_id), &bytes);
            }
            let tag = if put.json { TypeTag::JSON } else { TypeTag::BYTES };
            batch.put(THREADS[put.thread], tag, state, options.clone());
        }
        if let Some((_, value)) = value.filter(|(before, _)| *before >= puts.len()) {
            value.add(&mut batch, &own_id(value.own_id), &bytes);
        }
        if let Some(thread) = delete {
            batch.delete(THREADS[thread], None);
        }
        let elsewhere = puts.iter().map(|put| put.elsewhere).chain(value.map(|(_, value)| value.elsewhere)).any(|elsewhere| elsewhere);
        let other = self.other.as_ref().filter(|_| elsewhere);
        self.both_of(other.unwrap_or(self.store()), |place| place.commit(&batch).map(|done: Vec<Committed>| done));
    }

    /// The same of both: equal answers, or errors of one kind.
    fn both<T: PartialEq + std::fmt::Debug>(&self, what: impl Fn(&dyn Checkpointer) -> Result<T>) {
        self.both_of(self.store(), what);
    }

    fn both_of<T: PartialEq + std::fmt::Debug>(&self, store: &Store, what: impl Fn(&dyn Checkpointer) -> Result<T>) {
        let kinds = |answer: Result<T>| answer.map_err(|error| error.kind());
        assert_eq!(kinds(what(store)), kinds(what(&self.model)));
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
            for number in 0..4 {
                let attached = |place: &dyn Checkpointer| place.attachments(thread, &own_id(number)).unwrap();
                let (mine, theirs) = (attached(store), attached(&self.model));
                let brief = |all: &[Attachment]| all.iter().map(|one| (one.key.clone(), one.value.len())).collect::<Vec<_>>();
                assert_eq!(brief(&mine), brief(&theirs), "attached to {number} of {thread:?}");
                let same = |(mine, theirs): (&Attachment, &Attachment)| mine.tag == theirs.tag && *mine.value == *theirs.value;
                assert!(mine.iter().zip(&theirs).all(same), "another value at {number} of {thread:?}");
                self.attached += mine.len();
            }
        }
        index_is_derived(store, &self.scratch.dir());
        for view in views(store).values() {
            self.seen.0 += view.entries().filter(|entry| entry.is_delta()).count();
            self.seen.1 += view.hidden().len();
        }
    }
}

/// The options of a number, each choice by digits of its own.
fn tuned(number: u8) -> Options {
    let options = Store::options().auto_compaction(false).delta(!number.is_multiple_of(5));
    let options = match number / 4 % 4 {
        0 => options.cache_bytes(0),
        1 => options.cache_bytes(20_000),
        _ => options,
    };
    let options = if (number / 16).is_multiple_of(4) { options.compression(Compression::Always) } else { options };
    match number % 4 {
        0 => options,
        1 => options.segment_bytes(64 * 1024).durability(Durability::Buffered),
        2 => options.segment_bytes(100_000).mmap(false).durability(Durability::Buffered),
        _ => options.segment_bytes(64 * 1024).mmap(false).durability(Durability::Buffered),
    }
}

#[test]
fn the_store_is_what_a_plain_model_is() {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(64);
    let config = ProptestConfig { cases, source_file: Some(file!()), ..ProptestConfig::default() };
    let max_history = prop_oneof![Just(None), (1..6usize).prop_map(Some)];
    let (seen, attached) = (Cell::new((0, 0)), Cell::new(0));
    let all =
        TestRunner::new(config).run(&(prop::collection::vec(step(), 1..50), any::<u8>(), max_history), |(steps, options, max_history)| {
            let scratch = Scratch::new();
            let store = tuned(options).max_history(max_history).open(scratch.dir()).unwrap();
            let model = MemoryCheckpointer::with_max_history(max_history).unwrap();
            let (texts, number, last_seq) = (THREADS.map(|_| "x".repeat(300)), 0, 0);
            let mut pair = Pair { scratch, store: Some(store), other: None, model, texts, number, last_seq, seen: (0, 0), attached: 0 };
            for step in &steps {
                pair.run(step);
                pair.agree();
            }
            let highest = pair.last_seq;
            pair.run(&Step::Put(LAST));
            prop_assert!(pair.store().head(THREADS[0]).unwrap().unwrap().seq > highest, "a number was given twice");
            seen.set((seen.get().0 + pair.seen.0, seen.get().1 + pair.seen.1));
            attached.set(attached.get() + pair.attached);
            Ok(())
        });
    all.unwrap();
    let (deltas, hidden) = seen.get();
    assert!(deltas > 500 && hidden > 50, "{deltas} deltas and {hidden} hidden bases were met");
    assert!(attached.get() > 500, "{} attachments were met", attached.get());
}

/// A put that nothing refuses.
const LAST: OnePut = OnePut {
    thread: 0,
    own_id: 15,
    likeness: 0,
    size: 1,
    json: false,
    metadata: 5,
    parent: 7,
    expected: 9,
    buffered: false,
    elsewhere: false,
};
