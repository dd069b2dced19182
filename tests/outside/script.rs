//! What is done to a store, step by step: the same for the program that does it and for who judges what
//! is left. What a step leaves follows from its number, so any prefix of a script can be told apart.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use taffrail::testing::states::noise;

/// Each thread's states by their ids, oldest first.
pub type Threads = BTreeMap<String, Vec<(String, Arc<[u8]>)>>;

/// How a step goes that is done while the store is closed, because it did not open.
pub const CLOSED: &str = "NotFound the store is not open";

/// One step of a script; its number in the script makes its ids and states.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// Opens the store, which is closed before if it is open.
    Open,
    Put {
        thread: &'static str,
        length: usize,
    },
    /// A put that only survives the process.
    Buffered {
        thread: &'static str,
        length: usize,
    },
    /// One put to each of the threads, in one batch.
    Batch {
        threads: &'static [&'static str],
        length: usize,
    },
    Delete(&'static str),
    /// Deletes the checkpoint that the step of this number put.
    DeleteOne(&'static str, usize),
    Compact,
    /// Into a directory of the step's own.
    Backup,
    /// Closes the store and writes what a repair makes of it into a directory of the step's own.
    Repair,
}
use Step::{Backup, Batch, Buffered, Compact, Delete, DeleteOne, Open, Put, Repair};

/// A script: what was there before, done in peace, and what is tried.
#[derive(Clone, Copy, Debug)]
pub struct Script {
    pub name: &'static str,
    pub before: &'static [Step],
    pub steps: &'static [Step],
}

const SEVERAL: [&str; 3] = ["a", "b", "c"];
/// Two of them fill what a segment of 64 KiB gives to puts.
const LARGE: usize = 22_000;
const fn put(thread: &'static str, length: usize) -> Step {
    Put { thread, length }
}
const fn batch(length: usize) -> Step {
    Batch { threads: &SEVERAL, length }
}
/// Three sealed segments, of which much is dead.
const MUCH_DEAD: &[Step] =
    &[Open, put("a", LARGE), put("b", LARGE), put("d", 900), put("a", LARGE), put("b", LARGE), put("c", 700), put("c", 800), Delete("b")];

static SCRIPTS: [Script; 9] = [
    Script { name: "create", before: &[], steps: &[Open, put("a", 300)] },
    Script {
        name: "put",
        before: &[Open, put("a", 300)],
        steps: &[Open, put("a", 320), put("b", 5_000), put("a", 340), put("a", 360), put("b", 5_100)],
    },
    Script { name: "batch", before: &[Open, batch(200)], steps: &[Open, batch(250), put("a", 100), batch(3_000), batch(9_000)] },
    Script {
        name: "rotate",
        before: &[Open, put("a", LARGE)],
        steps: &[Open, put("a", LARGE), put("b", LARGE), put("a", 300), put("b", LARGE), put("a", LARGE), Open, put("b", 300)],
    },
    Script { name: "compact", before: MUCH_DEAD, steps: &[Open, Compact, put("a", 300), Delete("a"), Compact, Open, put("d", 950)] },
    Script {
        name: "delete",
        before: &[Open, put("a", 300), put("b", 400), put("a", 350), put("a", 380)],
        steps: &[Open, DeleteOne("a", 3), put("b", 420), Delete("b"), put("b", 440), DeleteOne("a", 4), DeleteOne("a", 1), put("a", 100)],
    },
    Script { name: "backup", before: MUCH_DEAD, steps: &[Open, put("a", 300), Backup, put("b", 300), Backup, put("a", 320)] },
    Script { name: "repair", before: MUCH_DEAD, steps: &[Open, put("a", 300), Repair, Open, put("b", 300)] },
    Script {
        name: "mixed",
        before: &[],
        steps: &[
            Open,
            put("a", 300),
            put("a", 320),
            Buffered { thread: "b", length: 700 },
            batch(400),
            put("b", LARGE),
            Buffered { thread: "a", length: 330 },
            Buffered { thread: "a", length: 340 },
            put("d", LARGE),
            Delete("b"),
            put("a", LARGE),
            Compact,
            Open,
            put("d", LARGE),
            DeleteOne("a", 2),
            batch(2_000),
            put("c", 450),
            Compact,
            put("e", LARGE),
            Buffered { thread: "c", length: 460 },
            Open,
            put("c", 470),
        ],
    },
];

/// The scripts that are tried: all, or the one that `TAFFRAIL_OUTSIDE_SCRIPT` names.
pub fn wanted() -> impl Iterator<Item = &'static Script> {
    let only = std::env::var("TAFFRAIL_OUTSIDE_SCRIPT").ok();
    SCRIPTS.iter().filter(move |script| only.as_ref().is_none_or(|only| only == script.name))
}

pub fn named(name: &str) -> &'static Script {
    SCRIPTS.iter().find(|script| script.name == name).unwrap_or_else(|| panic!("no script {name:?}"))
}

impl Script {
    /// All steps, with their numbers: those before count on.
    pub fn all(&self) -> impl Iterator<Item = (usize, Step)> {
        self.before.iter().chain(self.steps).copied().enumerate()
    }

    /// What is there before the steps that are tried.
    pub fn beginning(&self, prefix: &str) -> Threads {
        let mut threads = Threads::new();
        self.before.iter().enumerate().for_each(|(number, step)| step.apply(number, prefix, &mut threads));
        threads
    }
}

impl Step {
    /// What the step does to the threads, whose names begin with `prefix`.
    pub fn apply(&self, number: usize, prefix: &str, threads: &mut Threads) {
        let mut add = |thread: &str, length| {
            let name = format!("{prefix}{thread}");
            let state = state(&name, number, length);
            threads.entry(name).or_default().push((id(number), state));
        };
        match *self {
            Put { thread, length } | Buffered { thread, length } => add(thread, length),
            Batch { threads, length } => threads.iter().for_each(|thread| add(thread, length)),
            Delete(thread) => drop(threads.remove(&format!("{prefix}{thread}"))),
            DeleteOne(thread, put) => {
                let name = format!("{prefix}{thread}");
                if let Some(states) = threads.get_mut(&name) {
                    states.retain(|(there, _)| *there != id(put));
                    if states.is_empty() {
                        threads.remove(&name);
                    }
                }
            }
            Open | Compact | Backup | Repair => {}
        }
    }
}

pub fn id(number: usize) -> String {
    format!("step-{number}")
}

/// A state that tells who put it; those of one thread grow out of each other, so that most are deltas.
/// Each is made once: that takes longer than all that is asked of it.
pub fn state(thread: &str, number: usize, length: usize) -> Arc<[u8]> {
    type Made = BTreeMap<(String, usize, usize), Arc<[u8]>>;
    static MADE: Mutex<Made> = Mutex::new(Made::new());
    let mut made = MADE.lock().unwrap();
    let state = made.entry((thread.to_owned(), number, length)).or_insert_with(|| {
        // Large ones have nothing in common: they are there to fill segments.
        let seed = thread.bytes().map(u64::from).sum::<u64>() << 32 | if length < LARGE { 0 } else { number as u64 };
        [format!("{thread} {number} ").into_bytes(), noise(seed, length)].concat().into()
    });
    state.clone()
}
