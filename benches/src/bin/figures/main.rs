//! Prints every figure that taffrail promises as a ratio to its peers, all measured in one run.
//!
//! Rounds go A B C A B C ..., so that what slows the machine down slows all of them down; a ratio
//! is the median of the rounds' own ratios. With `--only` it does one thing for one store and
//! prints nothing, to be looked at from outside (strace, perf); the section `processes` starts it
//! again with `--only child` (see there).

mod branches;
mod carried;
mod delta_costs;
mod deltas;
mod finds;
mod flat;
mod gets;
mod heap;
mod opens;
mod processes;
mod puts;
mod reclaim;
mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use taffrail_benches::load::{self, Writer, thread_name};
use taffrail_benches::{Durability, Kind, Outcome, device};

use table::Summary;

#[global_allocator]
static HEAP: heap::Counting = heap::Counting;

const USAGE: &str = "figures [--dir DIR] [--quick] [--peers] [--section SECTION]... [--trace TRACE]...
figures --only puts|gets|history|open --kind KIND [--count N] [--bytes N] [--workers N] [--buffered] [--dir DIR]
figures --only trace-puts|trace-gets [--trace TRACE] [--kind taffrail|sqlite] [--count N] [--buffered] [--dir DIR]
SECTION: puts, workers, buffered, processes, gets, opens, index, reclaim, flat, finds, deltas,
    branches, pages, carried
TRACE: A, B, C, D, E1, F, H1, H2
KIND: taffrail, taffrail-single, bare-grown, bare-steps, bare-before, sqlite, windlass, lmdb";

/// What the kinds are called on the command line, in the order of [`Kind::ALL`].
const KIND_WORDS: [&str; Kind::ALL.len()] =
    ["taffrail", "taffrail-single", "bare-grown", "bare-steps", "bare-before", "sqlite", "windlass", "lmdb"];

/// What the command line says.
struct Settings {
    dir: Option<PathBuf>,
    quick: bool,
    peers: bool,
    sections: Vec<String>,
    traces: Vec<String>,
    only: Option<String>,
    kind: Kind,
    count: u64,
    bytes: usize,
    workers: usize,
    number: usize,
    durability: Durability,
}

impl Settings {
    fn parse(mut words: impl Iterator<Item = String>) -> Outcome<Self> {
        let mut settings = Settings {
            dir: None,
            quick: false,
            peers: false,
            sections: Vec::new(),
            traces: Vec::new(),
            only: None,
            kind: Kind::Ours,
            count: 1000,
            bytes: 4096,
            workers: 1,
            number: 0,
            durability: Durability::Sync,
        };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            match word.as_str() {
                "--dir" => settings.dir = Some(value()?.into()),
                "--quick" => settings.quick = true,
                "--peers" => settings.peers = true,
                "--section" => settings.sections.push(value()?),
                "--trace" => settings.traces.push(value()?),
                "--only" => settings.only = Some(value()?),
                "--kind" => settings.kind = kind(&value()?)?,
                "--count" => settings.count = value()?.parse()?,
                "--bytes" => settings.bytes = value()?.parse()?,
                "--workers" => settings.workers = value()?.parse()?,
                "--number" => settings.number = value()?.parse()?,
                "--buffered" => settings.durability = Durability::Buffered,
                _ => return Err(format!("{word} is not known\n{USAGE}").into()),
            }
        }
        Ok(settings)
    }

    fn wants(&self, section: &str) -> bool {
        self.sections.is_empty() || self.sections.iter().any(|wanted| wanted == section)
    }

    fn wants_trace(&self, trace: &str) -> bool {
        self.traces.is_empty() || self.traces.iter().any(|wanted| wanted == trace)
    }

    fn rounds(&self) -> usize {
        if self.quick { 3 } else { 9 }
    }

    /// The kinds to compare: all of them, or the peers alone.
    fn kinds(&self, kinds: &[Kind]) -> Vec<Kind> {
        kinds.iter().copied().filter(|kind| !self.peers || *kind != Kind::Ours).collect()
    }
}

fn kind(word: &str) -> Outcome<Kind> {
    let found = KIND_WORDS.iter().position(|known| *known == word).ok_or_else(|| format!("{word} is no kind\n{USAGE}"))?;
    Ok(Kind::ALL[found])
}

fn only(settings: &Settings, what: &str, dir: &Path) -> Outcome<()> {
    const DEPTH: usize = 24;
    let threads: Vec<String> = (0..16).map(thread_name).collect();
    match what {
        "puts" => {
            let place = settings.kind.open(dir, settings.durability)?;
            let mut writers = (0..settings.workers).map(|number| Writer::new(&*place, number)).collect::<Outcome<Vec<_>>>()?;
            load::put_together(&mut writers, settings.bytes, settings.count)?;
        }
        "open" => {
            load::fill(&*settings.kind.open(dir, Durability::Buffered)?, 1000, 100, settings.bytes)?;
            for _ in 0..settings.count {
                settings.kind.open(dir, Durability::Sync)?.worker()?.get(&thread_name(0))?;
            }
        }
        "gets" | "history" => {
            let place = settings.kind.open(dir, Durability::Buffered)?;
            load::fill(&*place, threads.len(), DEPTH, settings.bytes)?;
            let mut worker = place.worker()?;
            for thread in threads.iter().cycle().take(usize::try_from(settings.count)?) {
                std::hint::black_box(if what == "gets" { worker.get(thread)? } else { worker.history(thread, 20)? });
            }
        }
        "trace-puts" | "trace-gets" => deltas::only(settings, what, dir)?,
        _ => return Err(format!("{what} cannot be done alone\n{USAGE}").into()),
    }
    Ok(())
}

fn run() -> Outcome<()> {
    let settings = Settings::parse(std::env::args().skip(1))?;
    if settings.only.as_deref() == Some("child") {
        return processes::child(&settings);
    }
    let scratch = device::scratch(settings.dir.clone())?;
    let dir = scratch.path();
    if let Some(what) = &settings.only {
        return only(&settings, what, dir);
    }
    device::warm_memory(2 << 30);
    let mut summary = Summary::default();
    if settings.wants("puts") {
        for bytes in [4 << 10, 64 << 10, 1 << 20] {
            puts::durable(&settings, dir, bytes, &mut summary)?;
        }
    }
    if settings.wants("workers") {
        puts::workers(&settings, dir, &mut summary)?;
    }
    if settings.wants("buffered") {
        puts::buffered(&settings, dir, &mut summary)?;
    }
    if settings.wants("processes") {
        processes::durable(&settings, dir, &mut summary)?;
        processes::waits(&settings, dir, &mut summary)?;
        if !settings.peers {
            processes::sharing(&settings, dir, &mut summary)?;
            processes::buffered(&settings, dir)?;
        }
    }
    if settings.wants("gets") {
        gets::newest(&settings, dir, 4 << 10, &mut summary)?;
        gets::newest(&settings, dir, 64 << 10, &mut summary)?;
        gets::history(&settings, dir, &mut summary)?;
    }
    if settings.wants("opens") {
        opens::open(&settings, dir, 1000, 1 << 10, &mut summary)?;
        opens::open(&settings, dir, 200, 64 << 10, &mut summary)?;
    }
    if settings.wants("index") && !settings.peers {
        opens::index(dir, &mut summary)?;
    }
    if settings.wants("flat") && !settings.peers {
        flat::flat(&settings, dir, &mut summary)?;
    }
    if settings.wants("finds") && !settings.peers {
        finds::metadata(&settings, dir, &mut summary)?;
        finds::differences(&settings, dir, &mut summary)?;
    }
    if settings.wants("reclaim") && !settings.peers {
        reclaim::space(&settings, dir, &mut summary)?;
        reclaim::latency(&settings, dir, &mut summary)?;
    }
    if settings.wants("deltas") && !settings.peers {
        deltas::all(&settings, dir, &mut summary)?;
        if settings.wants_trace("A") {
            deltas::durable(&settings, dir, &mut summary)?;
            delta_costs::memory(dir, &mut summary)?;
            delta_costs::long_chain(&settings, dir, &mut summary)?;
        }
    }
    if settings.wants("branches") && !settings.peers {
        branches::fork(&settings, dir, &mut summary)?;
    }
    if settings.wants("pages") && !settings.peers {
        branches::pages(&settings, dir, &mut summary)?;
    }
    if settings.wants("carried") && !settings.peers {
        carried::carried(&settings, dir, &mut summary)?;
    }
    summary.print();
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("figures: {error}");
            ExitCode::FAILURE
        }
    }
}
