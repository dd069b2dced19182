//! What agents put step by step: the states of whole runs, the same each time.
//!
//! Unlike [`crate::noise`], a state here resembles the one before it, as it does in life. The texts
//! are made up; the run of LangGraph alone was recorded.

mod chat;
mod text;

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use crate::Outcome;
use chat::{Chat, Sizes};
use text::{BASE64, Dice, Tongue};

/// The states of one thread, oldest first.
pub struct Trace {
    /// A letter, and a number where there are two of a kind.
    pub name: &'static str,
    /// What it is of.
    pub what: &'static str,
    pub states: Vec<Vec<u8>>,
}

impl Trace {
    /// The size of all its states together.
    pub fn bytes(&self) -> u64 {
        self.states.iter().map(|state| state.len() as u64).sum()
    }

    /// The size of the newest.
    pub fn last(&self) -> usize {
        self.states.last().map_or(0, Vec::len)
    }

    /// What lz4 alone makes of a state: its size over the packed size, of every tenth state.
    pub fn packs(&self) -> f64 {
        let (mut whole, mut packed) = (0, 0);
        for state in self.states.iter().step_by(10) {
            whole += state.len();
            packed += lz4_flex::block::compress(state).len();
        }
        whole as f64 / packed as f64
    }
}

type Make = fn() -> Outcome<Vec<Vec<u8>>>;

/// Every trace: its name, what it is, and how it is made.
const TRACES: [(&str, &str, Make); 8] = [
    ("A", "a chat with tools", || Ok(chat(0))),
    ("B", "the same with a summary every 30 steps", || Ok(chat(30))),
    ("C", "100 KiB of constants and a scratchpad", || Ok(scratchpad())),
    ("D", "random bytes", || Ok(random())),
    ("E1", "a shorter chat, keys in another order at each step", || Ok(shuffled())),
    ("F", "a small state of counters", || Ok(counters())),
    ("H1", "LangGraph's own, its first thread", || recorded("thread-1")),
    ("H2", "LangGraph's own, its second thread", || recorded("thread-2")),
];

/// The names of all traces.
pub fn names() -> impl Iterator<Item = &'static str> {
    TRACES.iter().map(|(name, ..)| *name)
}

/// Makes the trace of that name. Errors: no such trace, or why it cannot be had here.
pub fn make(name: &str) -> Outcome<Trace> {
    let found = TRACES.iter().find(|(known, ..)| *known == name).ok_or_else(|| format!("there is no trace {name}"))?;
    Ok(Trace { name: found.0, what: found.1, states: found.2()? })
}

const STEPS: usize = 200;
const SUMMARY_BYTES: usize = 8000;
const SIZES: Sizes = Sizes { said: (500, 5000), answered: (500, 20_000) };

fn chat(summary_every: usize) -> Vec<Vec<u8>> {
    let mut chat = Chat::new(16);
    let grown = (1..=STEPS).map(|step| {
        chat.step(SIZES);
        if summary_every > 0 && step % summary_every == 0 {
            chat.summarise(SUMMARY_BYTES);
        }
        chat.state(None)
    });
    grown.collect()
}

/// The states of a small agent, one by one: each is the one before it and about 1 KiB more.
pub struct Growing(Chat);

impl Growing {
    /// Another agent for each seed, the same each time.
    pub fn new(seed: u64) -> Self {
        Growing(Chat::begun(seed, 300, 100))
    }

    /// The state after one more step.
    pub fn step(&mut self) -> Vec<u8> {
        self.0.step(Sizes { said: (100, 400), answered: (150, 800) });
        self.0.state(None)
    }
}

fn shuffled() -> Vec<Vec<u8>> {
    let mut chat = Chat::plain(12);
    let grown = (0..STEPS).map(|_| {
        chat.step(Sizes { said: (250, 2000), answered: (400, 9500) });
        chat.state(Some(99))
    });
    grown.collect()
}

/// One state of 1.5 MB, and 64 more that each add a little to the one before.
pub fn chain() -> Vec<Vec<u8>> {
    let mut chat = Chat::new(13);
    while chat.state(None).len() < 1_500_000 {
        (0..8).for_each(|_| chat.step(SIZES));
    }
    let grown = (0..=64).map(|_| {
        chat.step(Sizes { said: (200, 600), answered: (200, 1000) });
        chat.state(None)
    });
    grown.collect()
}

/// Instructions and an embedded file that never change, and notes of which the oldest go.
fn scratchpad() -> Vec<Vec<u8>> {
    const CONSTANT_BYTES: usize = 100 << 10;
    const NOTES_BYTES: usize = 4 << 10;
    let (tongue, mut dice) = (Tongue::new(), Dice::new(21));
    let instructions = tongue.prose(&mut dice, CONSTANT_BYTES / 5 * 3);
    let file = dice.letters(BASE64, CONSTANT_BYTES - instructions.len());
    let mut notes = String::new();
    let steps = (1..=STEPS).map(|step| {
        let bytes = dice.size(80, 300);
        notes.push_str(&format!(r"step {step}: {}\n", tongue.prose(&mut dice, bytes)));
        while notes.len() > NOTES_BYTES {
            notes.drain(..notes.find(r"\nstep").map_or(notes.len(), |end| end + 2));
        }
        let state = format!(r#"{{"instructions":"{instructions}","file":"{file}","step":{step},"scratchpad":"{notes}"}}"#);
        state.into_bytes()
    });
    steps.collect()
}

fn random() -> Vec<Vec<u8>> {
    let mut dice = Dice::new(31);
    (0..100).map(|_| dice.bytes(64 << 10)).collect()
}

/// 272 bytes each.
fn counters() -> Vec<Vec<u8>> {
    let mut dice = Dice::new(41);
    let mut tokens = 10_000_000;
    let states = (0..1000).map(|step| {
        tokens += dice.below(3000);
        format!(
            concat!(
                r#"{{"thread":"run-7f3a9c","node":"{}","step":{},"updated_at":"2026-03-14T{:02}:{:02}:{:02}.{:06}Z","#,
                r#""usage":{{"input_tokens":{},"output_tokens":{},"cost_usd":{:.5}}},"retries":{},"#,
                r#""parent":"9d1c5b7e02f4a863","plan":"survey-sources","budget_left":{},"halt":false}}"#
            ),
            ["model", "tools"][step % 2],
            10_000 + step,
            10 + step / 3600,
            step / 60 % 60,
            step % 60,
            dice.below(1_000_000),
            tokens,
            tokens / 10,
            tokens as f64 * 3e-6,
            dice.below(3),
            99_000_000 - tokens,
        )
        .into_bytes()
    });
    states.collect()
}

/// The checkpoints that LangGraph gave to its SQLite saver, from the file that the variable names or
/// that lies beside the checkout.
fn recorded(thread: &str) -> Outcome<Vec<Vec<u8>>> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data/langgraph-run.db");
    let file = std::env::var_os("TAFFRAIL_LANGGRAPH").map_or(beside, PathBuf::from);
    if !file.exists() {
        return Err(format!("{} is not there: TAFFRAIL_LANGGRAPH names a database of LangGraph's SqliteSaver", file.display()).into());
    }
    // Immutable: it may lie where no -wal and no -shm can be made.
    let address = format!("file:{}?immutable=1", file.display());
    let connection = Connection::open_with_flags(address, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI)?;
    let mut query = connection.prepare("SELECT checkpoint FROM checkpoints WHERE thread_id = ?1 ORDER BY checkpoint_ns, checkpoint_id")?;
    let states = query.query_map([thread], |row| row.get(0))?.collect::<Result<Vec<Vec<u8>>, _>>()?;
    if states.is_empty() { Err(format!("{} has no {thread}", file.display()).into()) } else { Ok(states) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name, mean size, size of the last, and what lz4 makes of it.
    const DESCRIBED: [(&str, u64, usize, f64); 6] = [
        ("A", 796_000, 1_550_000, 2.4),
        ("B", 464_000, 800_000, 2.3),
        ("C", 105_500, 106_000, 1.4),
        ("D", 65_536, 65_536, 1.0),
        ("E1", 441_000, 864_000, 2.4),
        ("F", 272, 272, 1.0),
    ];

    #[test]
    fn traces_are_of_the_size_and_density_of_real_runs() {
        for (name, mean, last, packs) in DESCRIBED {
            let trace = make(name).unwrap();
            for (is, wanted) in [
                (trace.bytes() as f64 / trace.states.len() as f64, mean as f64),
                (trace.last() as f64, last as f64),
                (trace.packs(), packs),
            ] {
                assert!((is / wanted - 1.0).abs() < 0.13, "{name}: {is} instead of {wanted}");
            }
        }
    }

    #[test]
    fn states_are_json_and_the_same_each_time() {
        for name in ["A", "B", "C", "E1", "F"] {
            let (one, other) = (make(name).unwrap(), make(name).unwrap());
            assert!(one.states == other.states, "{name}");
            for state in one.states.iter().step_by(50) {
                serde_json::from_slice::<serde_json::Value>(state).unwrap_or_else(|error| panic!("{name}: {error}"));
            }
        }
    }
}
