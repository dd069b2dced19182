//! Whole runs, step by step, in taffrail and in SQLite that stores each state whole: bytes stored,
//! puts, reads, and the memory they take.

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use taffrail_benches::steps::{Ours, Plain, Steps, Way};
use taffrail_benches::traces::{self, Trace};
use taffrail_benches::{Durability, Outcome, device, touch};

use crate::Settings;
use crate::table::{self, Summary, Wanted, figure, median};

/// How many of the newest are read.
const READ: usize = 50;
const LATEST_READS: usize = 20;

/// What is wanted of a trace; NaN where nothing is.
struct Wish {
    trace: &'static str,
    /// Bytes of all states / bytes stored: as put, and after a compaction.
    stored: [f64; 2],
    /// Bytes stored with deltas off / with them on.
    spared: f64,
    /// Time of SQLite's put / ours.
    put: f64,
    /// Time of our cold get / SQLite's.
    get: f64,
    /// Time of SQLite's history / ours.
    history: f64,
}

const NONE: f64 = f64::NAN;
const WISHES: [Wish; 6] = [
    Wish { trace: "A", stored: [45.0, 60.0], spared: NONE, put: 4.0, get: 1.0, history: 2.5 },
    Wish { trace: "B", stored: [35.0, 48.0], spared: NONE, put: 3.5, get: 1.2, history: NONE },
    Wish { trace: "C", stored: [40.0, 52.0], spared: NONE, put: 3.0, get: 3.0, history: NONE },
    Wish { trace: "D", stored: [NONE; 2], spared: 1.0 / 1.01, put: 1.0, get: 1.0, history: NONE },
    Wish { trace: "E1", stored: [20.0, 24.0], spared: NONE, put: 1.5, get: 4.0, history: NONE },
    Wish { trace: "F", stored: [NONE; 2], spared: 1.7, put: 5.0, get: 1.0, history: NONE },
];
const NO_WISH: Wish = Wish { trace: "", stored: [NONE; 2], spared: NONE, put: NONE, get: NONE, history: NONE };

/// Microseconds of ours and of SQLite's.
type Both = [f64; 2];

/// What one round gave.
#[derive(Default)]
struct Round {
    put: Both,
    put_quartile: Both,
    put_mean: Both,
    get: Both,
    latest: Both,
    history: Both,
    /// Ours as put, ours after a compaction, SQLite's file.
    bytes: [u64; 3],
    deltas: u64,
    longest_chain: u64,
}

fn timed<T>(work: impl FnOnce() -> Outcome<T>) -> Outcome<(T, f64)> {
    let start = Instant::now();
    let made = work()?;
    Ok((made, start.elapsed().as_secs_f64() * 1e6))
}

/// Calls both sides in turn, each first every other time; `call` answers its microseconds.
fn in_turn(
    (ours, plain): (&mut Ours, &mut Plain),
    numbers: impl Iterator<Item = usize>,
    mut call: impl FnMut(&mut dyn Steps, usize) -> Outcome<f64>,
) -> Outcome<[Vec<f64>; 2]> {
    let mut micros = [Vec::new(), Vec::new()];
    for at in numbers {
        for side in [at % 2, 1 - at % 2] {
            let took = if side == 0 { call(ours, at)? } else { call(plain, at)? };
            micros[side].push(took);
        }
    }
    Ok(micros)
}

fn medians(micros: &[Vec<f64>; 2]) -> Both {
    [0, 1].map(|side| median(micros[side].iter().copied()))
}

/// A quarter of the values are lower.
fn quartile(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 4).copied().unwrap_or(f64::NAN)
}

fn expect(sum: u64, wanted: u64) -> Outcome<()> {
    if sum == wanted { Ok(()) } else { Err("a state was not read as it was put".into()) }
}

/// The same trace through both stores: puts, then reads by fresh handles, then a compaction.
fn run(trace: &Trace, parent: &Path) -> Outcome<Round> {
    let scratch = tempfile::tempdir_in(parent)?;
    let (dir, states) = (scratch.path(), &trace.states);
    let sums: Vec<u64> = states.iter().map(|state| touch(state)).collect();
    let first = states.len().saturating_sub(READ);
    let usual = Way::usual(Durability::Buffered);
    let mut round = Round::default();

    let (mut ours, mut plain) = (Ours::open(dir, usual)?, Plain::open(dir, Durability::Buffered)?);
    let mut puts = in_turn((&mut ours, &mut plain), 0..states.len(), |side, at| {
        // Whoever puts a state has just made it.
        black_box(touch(&states[at]));
        Ok(timed(|| side.put(&states[at]))?.1)
    })?;
    puts.iter_mut().for_each(|micros| drop(micros.drain(..states.len() / 2)));
    round.put = medians(&puts);
    round.put_quartile = [0, 1].map(|side| quartile(&puts[side]));
    round.put_mean = [0, 1].map(|side| puts[side].iter().sum::<f64>() / puts[side].len() as f64);
    let stats = ours.store.stats()?;
    (round.deltas, round.longest_chain) = (stats.deltas, stats.longest_chain);
    drop((ours, plain));

    let (mut ours, mut plain) = (Ours::open(dir, Way::uncached())?, Plain::open(dir, Durability::Buffered)?);
    let gets = in_turn((&mut ours, &mut plain), first..states.len(), |side, at| {
        let (sum, micros) = timed(|| side.load(at))?;
        expect(sum, sums[at])?;
        Ok(micros)
    })?;
    round.get = medians(&gets);
    drop((ours, plain));

    let (mut ours, mut plain) = (Ours::open(dir, usual)?, Plain::open(dir, Durability::Buffered)?);
    ours.latest()?;
    plain.latest()?;
    round.latest = medians(&in_turn((&mut ours, &mut plain), 0..LATEST_READS, |side, _| Ok(timed(|| side.latest())?.1))?);
    let wanted = sums[first..].iter().sum();
    let histories = in_turn((&mut ours, &mut plain), 0..3, |side, _| {
        let (sum, micros) = timed(|| side.history(READ))?;
        expect(sum, wanted)?;
        Ok(micros)
    })?;
    // The first is there to fill what caches there are.
    round.history = medians(&histories.map(|micros| micros[1..].to_vec()));
    ours.store.compact()?;
    round.bytes = [stats.stored_bytes, ours.store.stats()?.stored_bytes, std::fs::metadata(dir.join("plain.db"))?.len()];
    Ok(round)
}

/// What the states take with deltas off.
fn stored_whole(trace: &Trace, parent: &Path) -> Outcome<u64> {
    let scratch = tempfile::tempdir_in(parent)?;
    let mut ours = Ours::open(scratch.path(), Way { delta: false, ..Way::usual(Durability::Buffered) })?;
    trace.states.iter().try_for_each(|state| ours.put(state))?;
    Ok(ours.store.stats()?.stored_bytes)
}

/// The rows of one trace's table, and its promises for the summary.
struct Report<'a> {
    trace: &'a str,
    rows: Vec<Vec<String>>,
    summary: &'a mut Summary,
}

impl Report<'_> {
    /// A row; the wish is NaN where there is none.
    fn add(&mut self, what: &str, sides: [String; 2], figured: (&str, f64), wanted: Wanted) {
        let wish = match wanted {
            Wanted::AtLeast(limit) | Wanted::AtMost(limit) if limit.is_nan() => "-".to_owned(),
            Wanted::AtLeast(limit) => format!("≥ {}", figure(limit)),
            Wanted::AtMost(limit) => format!("≤ {}", figure(limit)),
        };
        let [ours, plain] = sides;
        if wish != "-" {
            let beside = format!("taffrail {ours}, SQLite {plain}");
            self.summary.add(format!("{}: {what}, {}", self.trace, figured.0), figured.1, wanted, &beside);
        }
        self.rows.push(vec![what.to_owned(), ours, plain, format!("{} {}", figured.0, figure(figured.1)), wish]);
    }

    /// A row of times: how many times faster than SQLite, or slower where that is what is bounded.
    fn time(&mut self, what: &str, rounds: &[Round], of: impl Fn(&Round) -> Both, wanted: Wanted) {
        let sides = [0, 1].map(|side| figure(median(rounds.iter().map(|round| of(round)[side]))));
        let figured = match wanted {
            Wanted::AtLeast(_) => ("SQLite / taffrail", median(rounds.iter().map(|round| of(round)[1] / of(round)[0]))),
            Wanted::AtMost(_) => ("taffrail / SQLite", median(rounds.iter().map(|round| of(round)[0] / of(round)[1]))),
        };
        self.add(what, sides, figured, wanted);
    }
}

const HEAD: [&str; 5] = ["", "taffrail", "SQLite whole", "ratio", "wanted"];

fn one_trace(settings: &Settings, trace: &Trace, dir: &Path, summary: &mut Summary) -> Outcome<()> {
    let rounds = (0..settings.rounds()).map(|_| run(trace, dir)).collect::<Outcome<Vec<_>>>()?;
    let whole = stored_whole(trace, dir)?;
    let wish = WISHES.iter().find(|wish| wish.trace == trace.name).unwrap_or(&NO_WISH);
    let Some(last) = rounds.last() else { return Ok(()) };
    let raw = trace.bytes() as f64;
    let [put, compacted, plain] = last.bytes.map(|bytes| bytes as f64);
    let kib = |bytes: f64| figure(bytes / 1024.0);
    let mut report = Report { trace: trace.name, rows: Vec::new(), summary };
    report.add("KiB stored", [kib(put), kib(plain)], ("states / stored", raw / put), Wanted::AtLeast(wish.stored[0]));
    report.add(
        "KiB stored, compacted",
        [kib(compacted), kib(plain)],
        ("states / stored", raw / compacted),
        Wanted::AtLeast(wish.stored[1]),
    );
    report.add("KiB stored, deltas off", [kib(whole as f64), kib(plain)], ("off / on", whole as f64 / put), Wanted::AtLeast(wish.spared));
    report.time("put, median us", &rounds, |round| round.put, Wanted::AtLeast(wish.put));
    // SQLite writes a large state with a sync at two puts of three or so: this is a put that has none.
    report.time("put, lower quartile us", &rounds, |round| round.put_quartile, Wanted::AtLeast(NONE));
    report.time("put, mean us", &rounds, |round| round.put_mean, Wanted::AtLeast(NONE));
    let second_half = &trace.states[trace.states.len() / 2..];
    let kilobytes = median(second_half.iter().map(|state| state.len() as f64)) / 1e3;
    report.time("put, GB/s of state", &rounds, |round| round.put.map(|micros| kilobytes / micros), Wanted::AtMost(NONE));
    report.time("get of one of 50, nothing cached, us", &rounds, |round| round.get, Wanted::AtMost(wish.get));
    report.time("newest again and again, us", &rounds, |round| round.latest, Wanted::AtLeast(NONE));
    report.time("history of 50, us", &rounds, |round| round.history, Wanted::AtLeast(wish.history));
    let steps = trace.states.len();
    let mean = raw / steps as f64;
    let title = format!(
        "trace {}: {}; {steps} steps, mean {} KiB, last {} KiB, lz4 alone {}x; {} deltas, longest chain {}",
        trace.name,
        trace.what,
        kib(mean),
        kib(trace.last() as f64),
        figure(trace.packs()),
        last.deltas,
        last.longest_chain
    );
    table::print(&title, &HEAD, &report.rows);
    Ok(())
}

/// Every trace that was asked for.
pub fn all(settings: &Settings, dir: &Path, summary: &mut Summary) -> Outcome<()> {
    for name in traces::names().filter(|name| settings.wants_trace(name)) {
        match traces::make(name) {
            Ok(trace) => one_trace(settings, &trace, dir, summary)?,
            Err(why) => println!("\nSKIP trace {name}: {why}"),
        }
    }
    Ok(())
}

/// One thing for one store, to be looked at from outside.
pub fn only(settings: &Settings, what: &str, dir: &Path) -> Outcome<()> {
    let trace = traces::make(settings.traces.first().map_or("A", String::as_str))?;
    let open = |way: Way| -> Outcome<Box<dyn Steps>> {
        Ok(match settings.kind {
            taffrail_benches::Kind::Tuned => Box::new(Plain::open(dir, way.durability)?),
            _ => Box::new(Ours::open(dir, way)?),
        })
    };
    let count = usize::try_from(settings.count)?;
    if what == "trace-puts" {
        let mut side = open(Way::usual(settings.durability))?;
        return trace.states.iter().cycle().take(count).try_for_each(|state| side.put(state));
    }
    let mut side = open(Way::usual(Durability::Buffered))?;
    trace.states.iter().try_for_each(|state| side.put(state))?;
    drop(side);
    let mut side = open(Way::uncached())?;
    let first = trace.states.len().saturating_sub(READ);
    for at in (first..trace.states.len()).cycle().take(count) {
        black_box(side.load(at)?);
    }
    Ok(())
}

/// Puts on the device: how long each waits, and what the device writes for it.
pub fn durable(settings: &Settings, parent: &Path, summary: &mut Summary) -> Outcome<()> {
    const TOGETHER: usize = 20;
    let trace = traces::make("A")?;
    let device = device::Device::of(parent)?;
    let mut rounds = Vec::new();
    for _ in 0..settings.rounds() {
        let scratch = tempfile::tempdir_in(parent)?;
        let dir = scratch.path();
        let (mut ours, mut plain) = (Ours::open(dir, Way::usual(Durability::Sync))?, Plain::open(dir, Durability::Sync)?);
        let (mut micros, mut bytes) = ([Vec::new(), Vec::new()], [0, 0]);
        for (number, states) in trace.states.chunks(TOGETHER).enumerate() {
            let counted = number * TOGETHER >= trace.states.len() / 2;
            for side in [number % 2, 1 - number % 2] {
                device::settle(dir)?;
                let before = device.counts()?.bytes;
                for state in states {
                    black_box(touch(state));
                    let took = timed(|| if side == 0 { ours.put(state) } else { plain.put(state) })?.1;
                    micros[side].extend(counted.then_some(took));
                }
                // What is written later on is this side's, too.
                device::settle(dir)?;
                bytes[side] += if counted { device.counts()?.bytes - before } else { 0 };
            }
        }
        let per_put = [0, 1].map(|side| bytes[side] as f64 / micros[side].len() as f64 / 1024.0);
        rounds.push((medians(&micros), per_put));
    }
    let mut report = Report { trace: "A", rows: Vec::new(), summary };
    let sides = |of: fn(&(Both, Both)) -> Both| [0, 1].map(|side| figure(median(rounds.iter().map(|round| of(round)[side]))));
    let faster = median(rounds.iter().map(|(micros, _)| micros[1] / micros[0]));
    report.add("durable put, median us", sides(|round| round.0), ("SQLite FULL / taffrail", faster), Wanted::AtLeast(3.0));
    let written = median(rounds.iter().map(|(_, bytes)| bytes[0] / bytes[1]));
    report.add("KiB the device wrote a durable put", sides(|round| round.1), ("taffrail / SQLite", written), Wanted::AtMost(1.0 / 20.0));
    table::print("trace A, durable (SQLite: FULL)", &HEAD, &report.rows);
    Ok(())
}
