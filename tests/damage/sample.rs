//! A store with one of everything in it: each kind of record and coding, a compacted segment, a sealed
//! one, a large one and an active one, hints, the manifest, the page and the locks; and where each record
//! stands, read by the layout that DESIGN.md tells.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::Path;

use taffrail::{Batch, CheckpointId, Checkpointer, Compression, HistoryQuery, Options, PutOptions, Store, TypeTag};

use crate::scratch::{Scratch, frames, state};

/// A checkpoint: its thread and its id.
pub type Key = (String, String);
/// The files of a directory, by name.
pub type Files = BTreeMap<String, Vec<u8>>;

/// A thread, its only id and that one's state: what is put where a damaged store is gone on with.
pub const AFTERWARDS: &str = "afterwards";

/// The store, as it is, as it was earlier, and another one that was made in the same way.
pub struct Sample {
    pub whole: Files,
    pub older: Files,
    pub other: Files,
    /// All states that were ever put under each id.
    pub puts: BTreeMap<Key, Vec<Vec<u8>>>,
    /// Which of them is shown.
    pub shown: BTreeMap<Key, Vec<u8>>,
    /// The records of all segments, in the log's order.
    pub records: Vec<Record>,
}

/// A record where it stands.
#[derive(Clone, Debug)]
pub struct Record {
    pub file: String,
    pub at: Range<usize>,
    pub kind: u8,
    /// 0 whole, 1 packed, 2 a delta, 3 a packed one.
    pub coding: u8,
    pub thread: String,
    /// Of a put its id.
    pub id: Option<String>,
    pub place: u64,
}

impl Record {
    pub fn is_delta(&self) -> bool {
        self.coding >= 2
    }

    pub fn key(&self) -> Option<Key> {
        self.id.clone().map(|id| (self.thread.clone(), id))
    }
}

impl Sample {
    pub fn new() -> Sample {
        let scratch = Scratch::new();
        let (dir, other) = (scratch.path("whole"), scratch.path("other"));
        let mut puts = Puts::default();
        puts.begin(&dir);
        let older = files(&dir);
        puts.go_on(&dir);
        let (whole, mut puts) = (files(&dir), puts.0);
        let mut others = Puts::default();
        others.begin(&other);
        others.go_on(&other);
        let other = files(&other);
        let shown = shown(&Store::options().read_only(true).open(&dir).unwrap());
        assert!(shown.len() > 60 && shown.iter().all(|(key, state)| puts[key].contains(state)), "{}", shown.len());
        puts.insert((AFTERWARDS.into(), AFTERWARDS.into()), vec![AFTERWARDS.into()]);
        let records = whole.iter().filter(|(name, _)| name.ends_with(".seg")).flat_map(|(name, bytes)| records(name, bytes)).collect();
        let sample = Sample { whole, older, other, puts, shown, records };
        sample.holds_everything();
        sample
    }

    /// Which damage would be done to no purpose.
    fn holds_everything(&self) {
        let segments: Vec<_> = self.whole.keys().filter(|name| name.ends_with(".seg")).collect();
        let count = |end: &str| self.whole.keys().filter(|name| name.ends_with(end)).count();
        assert!(count(".seg") >= 4 && count(".hint") >= 3 && count(".lock") == 4, "{:?}", self.whole.keys());
        let compacted = segments.iter().filter(|name| self.whole[**name][10] == 2);
        assert!(compacted.count() >= 1, "no compacted segment");
        let of = |file: &str| -> BTreeSet<(u8, u8)> {
            self.records.iter().filter(|record| record.file == file).map(|record| (record.kind, record.coding)).collect()
        };
        let each = BTreeSet::from([(1, 0), (1, 1), (1, 2), (1, 3), (2, 0), (3, 0), (4, 0), (6, 0)]);
        let with_all = segments.iter().filter(|name| of(name).is_superset(&each)).count();
        assert!(with_all >= 2, "a sealed and the active one hold all: {:?}", segments.iter().map(|name| of(name)).collect::<Vec<_>>());
        assert!(of(segments[segments.len() - 1]).is_superset(&each), "the active one");
        assert!(self.records.iter().any(|record| record.kind == 7), "nothing was promoted");
        assert!(self.records.iter().any(|record| record.at.len() > 16 << 10), "nothing is large");
    }

    /// Where the log ends in a segment.
    pub fn end(&self, file: &str) -> usize {
        frames(&self.whole[file]).last().map_or(72, |frame| frame.end)
    }

    /// The newest segment.
    pub fn active(&self) -> &str {
        self.whole.keys().rfind(|name| name.ends_with(".seg")).unwrap()
    }
}

/// What is put, noted.
#[derive(Default)]
struct Puts(BTreeMap<Key, Vec<Vec<u8>>>);

fn options() -> Options {
    Store::options().segment_bytes(64 << 10).auto_compaction(false).max_history(6)
}

impl Puts {
    fn put(&mut self, store: &Store, thread: &str, id: &str, state: &[u8]) {
        let options = PutOptions::default().id(CheckpointId::new(id).unwrap());
        store.put_bytes(thread, TypeTag::BYTES, state, options).unwrap();
        self.0.entry((thread.to_owned(), id.to_owned())).or_default().push(state.to_vec());
    }

    /// A store with a compacted segment and one of each record behind it.
    fn begin(&mut self, dir: &Path) {
        let store = options().open(dir).unwrap();
        self.each_kind(dir, &store, "old");
        store.compact().unwrap();
        self.each_kind(dir, &store, "middle");
        store.close().unwrap();
    }

    /// The same with what came later: a large state, and one of each record in the active segment.
    fn go_on(&mut self, dir: &Path) {
        let store = options().open(dir).unwrap();
        self.put(&store, "large", "large", &state("large", 0, 17 << 10));
        self.each_kind(dir, &store, "new");
        store.close().unwrap();
    }

    fn each_kind(&mut self, dir: &Path, store: &Store, name: &str) {
        let thread = |what: &str| format!("{name} {what}");
        let delete = |thread: &str, id: &str| assert!(store.delete_checkpoint(thread, &CheckpointId::new(id).unwrap()).unwrap());
        let [grown, packed, trimmed, limited, gone, less, again] =
            ["grown", "packed", "trimmed", "limited", "gone", "less", "again"].map(thread);
        (0..6).for_each(|step| self.put(store, &grown, &format!("g{step}"), &text(step)));
        delete(&grown, "g2");
        let packing = options().compression(Compression::Always).open(dir).unwrap();
        (0..2).for_each(|step| self.put(&packing, &packed, &format!("p{step}"), "again and ".repeat(30 + step).as_bytes()));
        (0..8).for_each(|step| self.put(store, &trimmed, &format!("t{step}"), &state(&trimmed, step, 40)));
        (0..4).for_each(|step| self.put(store, &limited, &format!("l{step}"), &state(&limited, step, 40)));
        store.retain(Some(&limited), Some(2)).unwrap();
        (0..2).for_each(|step| self.put(store, &gone, &format!("n{step}"), &state(&gone, step, 30)));
        assert!(store.delete(&gone).unwrap());
        (0..3).for_each(|step| self.put(store, &less, &format!("s{step}"), &state(&less, step, 30)));
        delete(&less, "s0");
        self.put(store, &less, "s1", &state(&less, 9, 35));
        self.put(store, &again, "a0", &state(&again, 0, 30));
        assert!(store.delete(&again).unwrap());
        self.put(store, &again, &format!("0190a6c1-1b2c-7d3e-8f40-{:012x}", name.len()), &state(&again, 1, 30));
        let mut batch = Batch::new();
        let sides = ["left", "right"].map(|side| (thread(side), state(side, 0, 50)));
        for (thread, state) in &sides {
            batch.put(thread, TypeTag::BYTES, state, PutOptions::default().id(CheckpointId::new("b").unwrap()));
        }
        store.commit(&batch).unwrap();
        self.0.extend(sides.map(|(thread, state)| ((thread, "b".to_owned()), vec![state])));
    }
}

/// A text of some lines, of which each step has one more; odd ones say something that can be packed as well.
fn text(step: u64) -> Vec<u8> {
    let lines: String = (0..8 + step).map(|line| format!("{line}: {:x}\n", (line + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    (if step % 2 == 1 { lines + &"on and on ".repeat(9) } else { lines }).into_bytes()
}

/// The files of a directory that has no folders in it.
pub fn files(dir: &Path) -> Files {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())).collect()
}

/// Everything that a sound store shows.
pub fn shown(store: &Store) -> BTreeMap<Key, Vec<u8>> {
    let mut shown = BTreeMap::new();
    for thread in store.threads().unwrap() {
        for item in store.history_bytes(&thread, &HistoryQuery::default()).unwrap() {
            let read = item.unwrap();
            shown.insert((thread.clone(), read.id.to_string()), read.state.to_vec());
        }
    }
    shown
}

fn records(name: &str, segment: &[u8]) -> Vec<Record> {
    let number = |at: usize, width: usize| segment[at..at + width].iter().rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    let text = |at: usize, length: usize| String::from_utf8(segment[at..at + length].to_vec()).unwrap();
    let record = |at: Range<usize>| {
        let start = at.start + 48;
        let kind = segment[start];
        let of_thread = |length: usize, texts: usize| text(start + texts, number(start + length, 2) as usize);
        let (coding, thread, id, place) = match kind {
            1 | 7 => {
                let coding = segment[start + 39];
                let texts = if coding >= 2 { 68 } else { 40 };
                let thread = of_thread(33, texts);
                let at = start + texts + thread.len();
                let id = match segment[start + 35] {
                    0 => uuid::Uuid::from_slice(&segment[at..at + 16]).unwrap().to_string(),
                    length => text(at, usize::from(length)),
                };
                (coding, thread, Some(id), number(start + 1, 8))
            }
            2 => (0, of_thread(1, 3), None, 0),
            _ => (0, of_thread(9, 11), None, number(start + 1, 8)),
        };
        Record { file: name.to_owned(), at, kind, coding, thread, id, place }
    };
    frames(segment).into_iter().map(record).collect()
}
