//! Puts by several processes that have one store open at once.
//!
//! Each process is this program again, `--only child`, with one worker and a thread of its own. It
//! opens the store, says `ready`, and then answers each order, `START LENGTH`, with one line,
//! `BEGAN ENDED ERRORS WAIT...`: START counts from 1970, BEGAN and ENDED from START, a WAIT is one
//! put, all in nanoseconds. The common START is the barrier. It leaves when there are no more
//! orders. A process that fails says why on standard error; its store is left out from there on.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use taffrail_benches::device::{self, Device};
use taffrail_benches::load::Writer;
use taffrail_benches::{Durability, Kind, Outcome};

use crate::table::{self, Summary, Wanted, figure, median, ratio, spread};
use crate::{KIND_WORDS, Settings};

const STATE_BYTES: usize = 4 << 10;
const FEW: usize = 4;
const MANY: usize = 8;
/// How long before its start a round is announced, so that every process has heard of it.
const NOTICE: Duration = Duration::from_millis(20);

/// The whole of a process that was started by this section.
pub fn child(settings: &Settings) -> Outcome<()> {
    let who = format!("{}, process {}", settings.kind.name(), settings.number);
    let dir = settings.dir.as_deref().ok_or("a child needs --dir")?;
    let place = settings.kind.open(dir, settings.durability).map_err(|error| format!("{who}: {error}"))?;
    let mut writer = Writer::new(&*place, settings.number)?;
    writer.put(settings.bytes, 8).map_err(|error| format!("{who}: {error}"))?;
    let mut answers = std::io::stdout();
    writeln!(answers, "ready")?;
    for order in std::io::stdin().lines() {
        let order = order?;
        let (start, length) = order.split_once(' ').ok_or("an order is START LENGTH")?;
        let until_start = Duration::from_nanos(start.parse()?).saturating_sub(SystemTime::now().duration_since(UNIX_EPOCH)?);
        let start = Instant::now() + until_start;
        std::thread::sleep(until_start);
        let began = start.elapsed();
        let waits = writer.put_until(settings.bytes, start + Duration::from_nanos(length.parse()?));
        let ended = start.elapsed();
        if let Some(error) = waits.first_error {
            eprintln!("figures: {who}: {} errors, the first: {error}", waits.errors);
        }
        let nanos: String = waits.nanos.iter().map(|nanos| format!(" {nanos}")).collect();
        writeln!(answers, "{} {} {}{nanos}", began.as_nanos(), ended.as_nanos(), waits.errors)?;
    }
    Ok(())
}

/// What one process answered for one round.
struct Answer {
    began: Duration,
    ended: Duration,
    errors: u64,
    nanos: Vec<u64>,
}

/// A started process, which ends when this is dropped.
struct Process {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Process {
    /// Starts it; its first line tells whether it could open the store.
    fn start(kind: Kind, dir: &Path, durability: Durability, number: usize) -> Outcome<Self> {
        let at = Kind::ALL.iter().position(|known| *known == kind).ok_or("a kind without a word")?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--only", "child", "--kind", KIND_WORDS[at], "--bytes", &STATE_BYTES.to_string(), "--number", &number.to_string()]);
        command.arg("--dir").arg(dir).args((durability == Durability::Buffered).then_some("--buffered"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let answers = BufReader::new(child.stdout.take().ok_or("a process without an output")?);
        Ok(Process { child, answers })
    }

    /// Has it put from `start`, counted from 1970, for that long.
    fn order(&mut self, start: Duration, length: Duration) -> Outcome<()> {
        let orders = self.child.stdin.as_mut().ok_or("a process without an input")?;
        Ok(writeln!(orders, "{} {}", start.as_nanos(), length.as_nanos())?)
    }

    /// The next line it says; an error if it has ended.
    fn line(&mut self) -> Outcome<String> {
        let mut line = String::new();
        match self.answers.read_line(&mut line)? {
            0 => Err("a process ended".into()),
            _ => Ok(line),
        }
    }

    /// What came of its last order; waits for it.
    fn answer(&mut self) -> Outcome<Answer> {
        let line = self.line()?;
        let numbers = line.split_whitespace().map(str::parse).collect::<Result<Vec<u64>, _>>()?;
        let [began, ended, errors, nanos @ ..] = &numbers[..] else { return Err("an answer is BEGAN ENDED ERRORS WAIT...".into()) };
        Ok(Answer { began: Duration::from_nanos(*began), ended: Duration::from_nanos(*ended), errors: *errors, nanos: nanos.to_vec() })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // An end that cannot be waited for is nothing to be done about.
        let _ = self.child.wait();
    }
}

/// One store with its processes, and what its rounds gave.
struct Entrant {
    kind: Kind,
    dir: PathBuf,
    count: usize,
    /// None of them once one has failed.
    processes: Vec<Process>,
    rates: Vec<f64>,
    fairness: Vec<f64>,
    flushes: Vec<f64>,
    median_waits: Vec<f64>,
    /// Of all rounds and processes, ascending once the contest is over.
    nanos: Vec<u64>,
    errors: u64,
}

impl Entrant {
    /// Makes the store, and starts its processes, which all open it at the same time.
    fn enter(kind: Kind, parent: &Path, durability: Durability, count: usize) -> Outcome<Self> {
        let dir = tempfile::tempdir_in(parent)?.keep();
        // Made by one process and closed again: making it at the same time is not what is asked here.
        drop(kind.open(&dir, durability)?);
        let processes = (0..count).map(|number| Process::start(kind, &dir, durability, number)).collect::<Outcome<Vec<_>>>()?;
        let mut entrant = Entrant {
            kind,
            dir,
            count,
            processes,
            rates: Vec::new(),
            fairness: Vec::new(),
            flushes: Vec::new(),
            median_waits: Vec::new(),
            nanos: Vec::new(),
            errors: 0,
        };
        let failed = entrant.processes.iter_mut().map(Process::line).filter(Result::is_err).count();
        if failed > 0 {
            entrant.fail(&format!("{failed} could not open it"));
        }
        Ok(entrant)
    }

    /// What it is called in the tables.
    fn name(&self) -> String {
        format!("{}, {} process{}", self.kind.name(), self.count, if self.count == 1 { "" } else { "es" })
    }

    /// Leaves it out from here on.
    fn fail(&mut self, why: &str) {
        eprintln!("figures: {}: {why}", self.name());
        self.processes.clear();
    }

    /// All its processes put at once, for that long.
    fn round(&mut self, device: &Device, length: Duration) -> Outcome<()> {
        device::settle(&self.dir)?;
        let before = device.counts()?;
        let start = SystemTime::now().duration_since(UNIX_EPOCH)? + NOTICE;
        for process in &mut self.processes {
            process.order(start, length)?;
        }
        let answers = self.processes.iter_mut().map(Process::answer).collect::<Outcome<Vec<_>>>()?;
        let after = device.counts()?;
        let began = answers.iter().map(|answer| answer.began).min().unwrap_or_default();
        let ended = answers.iter().map(|answer| answer.ended).max().unwrap_or_default();
        let puts = || answers.iter().map(|answer| answer.nanos.len() as f64);
        let sum: f64 = puts().sum();
        self.rates.push(sum / (ended - began).as_secs_f64());
        self.fairness.push(puts().fold(f64::INFINITY, f64::min) / puts().fold(0.0, f64::max));
        self.flushes.push((after.flushes - before.flushes) as f64 / sum);
        self.median_waits.push(median(answers.iter().flat_map(|answer| &answer.nanos).map(|nanos| *nanos as f64)));
        self.errors += answers.iter().map(|answer| answer.errors).sum::<u64>();
        self.nanos.extend(answers.into_iter().flat_map(|answer| answer.nanos));
        Ok(())
    }

    /// The wait that this share of all puts did not exceed, in microseconds.
    fn wait(&self, share: f64) -> f64 {
        let rank = (share * self.nanos.len() as f64).ceil() as usize;
        self.nanos.get(rank.saturating_sub(1)).map_or(f64::NAN, |nanos| *nanos as f64 / 1e3)
    }

    /// Its row of the table, under the head in [`Contest::print`].
    fn row(&self) -> Vec<String> {
        let mut row = vec![self.name(), spread(&self.rates), spread(&self.fairness), spread(&self.flushes)];
        row.extend([0.5, 0.99, 0.999, 1.0].map(|share| figure(self.wait(share))));
        row.push(if self.processes.is_empty() { "failed".to_owned() } else { self.errors.to_string() });
        row
    }
}

/// All stores of one table, after their rounds.
struct Contest {
    entrants: Vec<Entrant>,
}

impl Contest {
    /// The rounds alternate, forwards and backwards, so that no store is always the last.
    fn hold(dir: &Path, (rounds, length): (usize, Duration), mut entrants: Vec<Entrant>) -> Outcome<Self> {
        let device = Device::of(dir)?;
        for round in 0..rounds {
            for at in 0..entrants.len() {
                let at = if round % 2 == 0 { at } else { entrants.len() - 1 - at };
                if entrants[at].processes.is_empty() {
                    continue;
                }
                if let Err(error) = entrants[at].round(&device, length) {
                    entrants[at].fail(&format!("round {round}: {error}"));
                }
            }
        }
        entrants.iter_mut().for_each(|entrant| entrant.nanos.sort_unstable());
        Ok(Contest { entrants })
    }

    /// A figure of an entrant; NaN of one that is not there or failed.
    fn of(&self, kind: Kind, count: usize, figure: impl Fn(&Entrant) -> f64) -> f64 {
        self.entrants
            .iter()
            .find(|entrant| entrant.kind == kind && entrant.count == count && !entrant.processes.is_empty())
            .map_or(f64::NAN, figure)
    }

    /// The median of the rounds' ratios of two entrants.
    fn ratio(&self, of: (Kind, usize), to: (Kind, usize), values: fn(&Entrant) -> &Vec<f64>) -> f64 {
        self.of(of.0, of.1, |of| self.of(to.0, to.1, |to| ratio(values(of), values(to))))
    }

    /// Prints the table; what is in brackets is the lowest and the highest round.
    fn print(&self, title: &str) {
        let head = ["store", "puts/s", "slowest / fastest process", "flushes/put", "wait, µs: median", "p99", "p99.9", "max", "errors"];
        table::print(title, &head, &self.entrants.iter().map(Entrant::row).collect::<Vec<_>>());
    }

    /// Ends the processes and removes the stores.
    fn close(self) -> Outcome<()> {
        self.entrants.into_iter().try_for_each(|entrant| {
            drop(entrant.processes);
            Ok(std::fs::remove_dir_all(entrant.dir)?)
        })
    }
}

/// How many rounds the parts with several durable processes have, and how long each is.
fn rounds(settings: &Settings) -> (usize, Duration) {
    if settings.quick { (3, Duration::from_secs(1)) } else { (5, Duration::from_secs(2)) }
}

/// Durable puts of 4 KiB by one process and by four.
pub fn durable(settings: &Settings, dir: &Path, summary: &mut Summary) -> Outcome<()> {
    let mut entrants = Vec::new();
    for kind in settings.kinds(&[Kind::Ours, Kind::Tuned, Kind::Lmdb]) {
        entrants.push(Entrant::enter(kind, dir, Durability::Sync, 1)?);
        entrants.push(Entrant::enter(kind, dir, Durability::Sync, FEW)?);
    }
    let contest = Contest::hold(dir, rounds(settings), entrants)?;
    contest.print("Durable put of 4 KiB, one process and four");

    let peers = |value: &dyn Fn(Kind) -> f64| format!("SQLite {}, LMDB {}", figure(value(Kind::Tuned)), figure(value(Kind::Lmdb)));
    let gain = |kind| contest.ratio((kind, FEW), (kind, 1), |entrant| &entrant.rates);
    summary.add("4 processes / one process, 4 KiB", gain(Kind::Ours), Wanted::AtLeast(2.0), &peers(&gain));
    let flushes = |kind| contest.of(kind, FEW, |entrant| median(entrant.flushes.iter().copied()));
    summary.add("flushes per put of 4 KiB, 4 processes", flushes(Kind::Ours), Wanted::AtMost(0.5), &peers(&flushes));
    let lead = |kind| contest.ratio((kind, FEW), (Kind::Tuned, FEW), |entrant| &entrant.rates);
    let beside = format!("aim: 4; LMDB {}", figure(lead(Kind::Lmdb)));
    summary.add("4 processes / SQLite's 4 processes, 4 KiB", lead(Kind::Ours), Wanted::AtLeast(2.5), &beside);
    let fairness = |kind| contest.of(kind, FEW, |entrant| median(entrant.fairness.iter().copied()));
    summary.add("slowest / fastest of 4 processes, 4 KiB", fairness(Kind::Ours), Wanted::AtLeast(0.5), &peers(&fairness));
    contest.close()
}

/// How long a put waits where eight processes write.
pub fn waits(settings: &Settings, dir: &Path, summary: &mut Summary) -> Outcome<()> {
    let kinds = settings.kinds(&[Kind::Ours, Kind::Tuned]);
    let entrants = kinds.into_iter().map(|kind| Entrant::enter(kind, dir, Durability::Sync, MANY)).collect::<Outcome<Vec<_>>>()?;
    let contest = Contest::hold(dir, rounds(settings), entrants)?;
    contest.print("Durable put of 4 KiB, eight processes");

    let tail = |kind| contest.of(kind, MANY, |entrant| entrant.wait(0.999) / entrant.wait(0.5));
    let beside = format!("SQLite {}", figure(tail(Kind::Tuned)));
    summary.add("p99.9 of waits / their median, 8 processes", tail(Kind::Ours), Wanted::AtMost(20.0), &beside);
    let errors = |kind| contest.of(kind, MANY, |entrant| entrant.errors as f64);
    let beside = format!("SQLite {}", figure(errors(Kind::Tuned)));
    summary.add("errors of 8 processes", errors(Kind::Ours), Wanted::AtMost(0.0), &beside);
    contest.close()
}

/// What it costs one process that others might come.
pub fn sharing(settings: &Settings, dir: &Path, summary: &mut Summary) -> Outcome<()> {
    // Many and short: what slows the device down for a second is then in both.
    let rounds = (if settings.quick { 24 } else { 72 }, Duration::from_millis(150));
    let entrants = [Kind::Ours, Kind::Single].map(|kind| Entrant::enter(kind, dir, Durability::Sync, 1));
    let contest = Contest::hold(dir, rounds, entrants.into_iter().collect::<Outcome<Vec<_>>>()?)?;
    contest.print("Durable put of 4 KiB, one process, shared and single_process");

    let mut add = |what: &str, values: fn(&Entrant) -> &Vec<f64>, wanted| {
        let shared = contest.ratio((Kind::Ours, 1), (Kind::Single, 1), values);
        // Its rounds 0 and 1, 2 and 3, ... are neighbours: what they differ by is the machine's noise.
        let noise = contest.of(Kind::Single, 1, |alone| median(values(alone).chunks_exact(2).map(|pair| (pair[0] / pair[1] - 1.0).abs())));
        summary.add(what, shared, wanted, &format!("within 5 %; neighbouring rounds of one differ by {} %", figure(100.0 * noise)));
    };
    add("shared / single_process, puts/s of 4 KiB", |entrant| &entrant.rates, Wanted::AtLeast(0.95));
    add("shared / single_process, median wait", |entrant| &entrant.median_waits, Wanted::AtMost(1.05));
    contest.close()
}

/// Buffered puts of 4 KiB by one process and by four.
pub fn buffered(settings: &Settings, dir: &Path) -> Outcome<()> {
    // Short: these fill a disk's worth of cache in seconds.
    let rounds = (rounds(settings).0, Duration::from_millis(if settings.quick { 100 } else { 250 }));
    let entrants = [1, FEW].map(|count| Entrant::enter(Kind::Ours, dir, Durability::Buffered, count));
    let contest = Contest::hold(dir, rounds, entrants.into_iter().collect::<Outcome<Vec<_>>>()?)?;
    contest.print("Buffered put of 4 KiB, one process and four");
    contest.close()
}
