//! `bench`: the store beside SQLite on this machine, the same work in one run, as a table.
//!
//! Agents put a state that grows by about 1 KiB a step, durable, and their newest steps are kept. Each
//! state goes to one and then to the other, to each first every other time, so that what the machine
//! does meanwhile meets both. What is compared in full, with more stores, is `benches/peers`.

mod sqlite;

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;
use taffrail::{Checkpointer, PutOptions, Store, TypeTag};

use self::sqlite::Sqlite;
use crate::args::Bench;
use crate::failure::{DAMAGE, Failure, Result, SYSTEM};
use crate::output::Output;
use crate::progress;

const AGENTS: usize = 10;
const STEPS: usize = 50;
const KEEP: usize = 25;
const STEP_BYTES: usize = 1024;

/// What is compared: the newest `KEEP` of each thread stay, and a put that returned is on the device.
trait Peer {
    fn put(&mut self, thread: &str, state: &[u8]) -> Result<()>;
    fn newest(&mut self, thread: &str) -> Result<Option<Vec<u8>>>;
}

impl Peer for Store {
    fn put(&mut self, thread: &str, state: &[u8]) -> Result<()> {
        self.put_bytes(thread, TypeTag::JSON, state, PutOptions::default())?;
        Ok(())
    }

    fn newest(&mut self, thread: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.get_bytes(thread)?.map(|checkpoint| checkpoint.state.into_vec()))
    }
}

/// What one of them took.
#[derive(Default)]
struct Taken {
    puts: Vec<Duration>,
    gets: Vec<Duration>,
    disk_bytes: u64,
}

impl Taken {
    /// How long a put of that rank of 100 took.
    fn put_micros(&self, rank: usize) -> f64 {
        micros(&self.puts, rank)
    }

    fn puts_per_second(&self) -> f64 {
        self.puts.len() as f64 / self.puts.iter().sum::<Duration>().as_secs_f64()
    }
}

fn micros(sorted: &[Duration], rank: usize) -> f64 {
    sorted.get(sorted.len() * rank / 100).map_or(0.0, |took| took.as_secs_f64() * 1e6)
}

/// The verb.
pub fn bench(args: &Bench) -> Result<()> {
    let named = tempfile::Builder::new();
    let scratch = args.dir.as_ref().map_or_else(tempfile::tempdir, |dir| named.tempdir_in(dir));
    let scratch = scratch.map_err(|error| Failure::new(SYSTEM, format!("cannot make a directory to measure in: {error}")))?;
    let working = progress::working("measuring");
    let (ours, sqlite) = measure(scratch.path())?;
    let in_memory = is_in_memory(scratch.path());
    working.finish_and_clear();
    let mut out = Output::new();
    if !args.json {
        writeln!(
            out,
            "{AGENTS} agents, {STEPS} durable puts each, of states that grow by {STEP_BYTES} bytes; the newest {KEEP} are kept\n\n{:<16}{:>8}{:>12}{:>12}{:>12}{:>12}",
            "", "puts/s", "p50", "p99", "get p50", "on disk"
        )?;
    }
    for (name, taken) in [("taffrail", &ours), ("SQLite (WAL)", &sqlite)] {
        line(&mut out, name, taken, args.json)?;
    }
    if !args.json {
        let (faster, smaller) =
            (ours.puts_per_second() / sqlite.puts_per_second(), sqlite.disk_bytes as f64 / ours.disk_bytes.max(1) as f64);
        writeln!(
            out,
            "\ntaffrail puts {faster:.1} times as fast here and takes 1/{smaller:.0} of the disk; another run, another machine: other figures"
        )?;
        if in_memory {
            writeln!(out, "this was measured in memory, where a flush costs nothing: `--dir DIR` measures on a disk")?;
        }
    }
    Ok(out.finish()?)
}

fn line(out: &mut Output, name: &str, taken: &Taken, json: bool) -> Result<()> {
    let (rate, p50, p99, get) = (taken.puts_per_second(), taken.put_micros(50), taken.put_micros(99), micros(&taken.gets, 50));
    if json {
        let line = json!({
            "store": name, "puts": taken.puts.len(), "puts_per_second": rate, "p50_micros": p50, "p99_micros": p99,
            "get_p50_micros": get, "disk_bytes": taken.disk_bytes,
        });
        return Ok(writeln!(out, "{line}")?);
    }
    let disk = taken.disk_bytes as f64 / 1e6;
    Ok(writeln!(out, "{name:<16}{rate:>8.0}{p50:>9.0} µs{p99:>9.0} µs{get:>9.1} µs{disk:>9.2} MB")?)
}

/// Whether a directory's file system is kept in memory, as far as the system tells.
#[cfg(target_os = "linux")]
fn is_in_memory(dir: &Path) -> bool {
    const TMPFS: u64 = 0x0102_1994;
    const RAMFS: u64 = 0x8584_58f6;
    rustix::fs::statfs(dir).is_ok_and(|about| [TMPFS, RAMFS].contains(&(about.f_type as u64 & 0xffff_ffff)))
}

#[cfg(not(target_os = "linux"))]
fn is_in_memory(_: &Path) -> bool {
    false
}

/// Does the work in `dir`; answers what the store took and what SQLite did.
fn measure(dir: &Path) -> Result<(Taken, Taken)> {
    let store_dir = dir.join("store");
    let file = dir.join("sqlite");
    fs::create_dir(&file).map_err(|error| Failure::file("make", &file, &error))?;
    let mut store = Store::options().max_history(KEEP).open(&store_dir)?;
    let mut sqlite = Sqlite::open(&file.join("checkpoints.db"), KEEP)?;
    let mut agents: Vec<Agent> = (0..AGENTS).map(Agent::new).collect();
    let (mut ours, mut theirs) = (Taken::default(), Taken::default());
    for step in 0..STEPS {
        for (number, agent) in agents.iter_mut().enumerate() {
            let state = agent.step();
            let mut both: [(&mut dyn Peer, &mut Taken); 2] = [(&mut store, &mut ours), (&mut sqlite, &mut theirs)];
            if (step + number) % 2 == 1 {
                both.reverse();
            }
            for (peer, taken) in both {
                let start = Instant::now();
                peer.put(&agent.thread, &state)?;
                taken.puts.push(start.elapsed());
            }
        }
    }
    read(&mut store, &agents, &mut ours)?;
    read(&mut sqlite, &agents, &mut theirs)?;
    drop((store, sqlite));
    for (taken, dir) in [(&mut ours, &store_dir), (&mut theirs, &file)] {
        taken.puts.sort_unstable();
        taken.gets.sort_unstable();
        taken.disk_bytes = disk_bytes(dir).map_err(|error| Failure::file("look at", dir, &error))?;
    }
    Ok((ours, theirs))
}

/// Reads each agent's newest state a few times; what comes back must be what was put.
fn read(peer: &mut dyn Peer, agents: &[Agent], taken: &mut Taken) -> Result<()> {
    for _ in 0..STEPS {
        for agent in agents {
            let start = Instant::now();
            let state = peer.newest(&agent.thread)?;
            taken.gets.push(start.elapsed());
            if state.as_deref() != Some(agent.state().as_bytes()) {
                return Err(Failure::new(DAMAGE, format!("{} came back as something else", agent.thread)));
            }
        }
    }
    Ok(())
}

/// What the files take up, by their lengths.
fn disk_bytes(dir: &Path) -> io::Result<u64> {
    fs::read_dir(dir)?.map(|entry| Ok(entry?.metadata()?.len())).sum()
}

/// An agent whose state is JSON, all of the one before it and a little more.
struct Agent {
    thread: String,
    chance: u64,
    notes: String,
    steps: usize,
}

const WORDS: [&str; 16] = [
    "search", "flight", "Lisbon", "the", "user", "wants", "a", "window", "seat", "price", "result", "tool", "answer", "and", "then", "book",
];

impl Agent {
    fn new(number: usize) -> Self {
        Agent { thread: format!("agent-{number}"), chance: number as u64 * 2 + 1, notes: String::new(), steps: 0 }
    }

    fn step(&mut self) -> Vec<u8> {
        let end = self.notes.len() + STEP_BYTES;
        while self.notes.len() < end {
            // Knuth's generator: the same words in every run.
            self.chance = self.chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            self.notes += WORDS[(self.chance >> 60) as usize];
            self.notes += &format!(" {:x} ", (self.chance >> 32) & 0xfff);
        }
        self.steps += 1;
        self.state().into_bytes()
    }

    fn state(&self) -> String {
        json!({ "step": self.steps, "thread": self.thread, "notes": self.notes }).to_string()
    }
}
