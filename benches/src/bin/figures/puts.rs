//! Puts: durable by one worker, durable by eight, and buffered.

use std::path::{Path, PathBuf};

use taffrail_benches::device::{self, Device};
use taffrail_benches::load::{self, Writer};
use taffrail_benches::{Durability, Kind, Outcome, Place, Room};

use crate::Settings;
use crate::table::{self, Summary, Wanted, figure, ratio, trimmed_mean};

const STEPS: Kind = Kind::Bare(Room::Steps);
const BEFORE: Kind = Kind::Bare(Room::Before);
const GROWN: Kind = Kind::Bare(Room::Grown);
const SETTLED: [Kind; 3] = [Kind::Ours, STEPS, BEFORE];
const WORKERS: usize = 8;

/// One store with its writers, and what its rounds gave.
struct Entrant {
    kind: Kind,
    dir: PathBuf,
    // Before the place: a connection goes before its file does.
    writers: Vec<Writer>,
    durability: Durability,
    _place: Box<dyn Place>,
    puts: u64,
    rates: Vec<f64>,
    settled_rates: Vec<f64>,
    flushes: Vec<f64>,
    bytes: Vec<f64>,
}

impl Entrant {
    fn enter(kind: Kind, parent: &Path, durability: Durability, workers: usize, puts: u64) -> Outcome<Self> {
        let dir = tempfile::tempdir_in(parent)?.keep();
        let place = kind.open(&dir, durability)?;
        let mut writers = (0..workers).map(|number| Writer::new(&*place, number)).collect::<Outcome<Vec<_>>>()?;
        load::put_together(&mut writers, 4 << 10, 8)?;
        Ok(Entrant {
            kind,
            dir,
            writers,
            durability,
            _place: place,
            puts,
            rates: Vec::new(),
            settled_rates: Vec::new(),
            flushes: Vec::new(),
            bytes: Vec::new(),
        })
    }

    fn round(&mut self, device: &Device, bytes: usize) -> Outcome<()> {
        device::settle(&self.dir)?;
        let before = device.counts()?;
        let took = load::put_together(&mut self.writers, bytes, self.puts)?;
        let after = device.counts()?;
        let puts = (self.puts * self.writers.len() as u64) as f64;
        self.rates.push(puts / took.as_secs_f64());
        self.flushes.push((after.flushes - before.flushes) as f64 / puts);
        self.bytes.push((after.bytes - before.bytes) as f64 / puts);
        Ok(())
    }

    /// Puts that are watched one by one: the rate of those that found their room already made.
    fn settled_round(&mut self, bytes: usize) -> Outcome<()> {
        let wanted = self.durability == Durability::Sync && SETTLED.contains(&self.kind);
        if let ([writer], true) = (&mut self.writers[..], wanted) {
            device::settle(&self.dir)?;
            let times = writer.put_watched(bytes, self.puts / 2, &self.dir)?;
            self.settled_rates.push(times.settled_puts as f64 / times.settled.as_secs_f64());
        }
        Ok(())
    }

    fn leave(self) -> Outcome<()> {
        let dir = self.dir.clone();
        drop(self);
        Ok(std::fs::remove_dir_all(dir)?)
    }
}

struct Contest {
    entrants: Vec<Entrant>,
}

impl Contest {
    fn hold(settings: &Settings, dir: &Path, bytes: usize, mut entrants: Vec<Entrant>) -> Outcome<Self> {
        let device = Device::of(dir)?;
        for round in 0..settings.rounds() {
            // A device that slows down within a round must not always meet the same one last.
            let order: Vec<usize> = if round % 2 == 0 { (0..entrants.len()).collect() } else { (0..entrants.len()).rev().collect() };
            for &at in &order {
                entrants[at].round(&device, bytes)?;
            }
            for &at in &order {
                entrants[at].settled_round(bytes)?;
            }
        }
        Ok(Contest { entrants })
    }

    fn find(&self, kind: Kind, workers: usize) -> Option<&Entrant> {
        self.entrants.iter().find(|entrant| entrant.kind == kind && entrant.writers.len() == workers)
    }

    /// The median of the rounds' ratios of two entrants, of all puts or of the settled ones.
    fn ratio(&self, of: (Kind, usize), to: (Kind, usize), rates: impl Fn(&Entrant) -> &Vec<f64>) -> f64 {
        match (self.find(of.0, of.1), self.find(to.0, to.1)) {
            (Some(of), Some(to)) => ratio(rates(of), rates(to)),
            _ => f64::NAN,
        }
    }

    fn mean(&self, kind: Kind, workers: usize, counts: impl Fn(&Entrant) -> &Vec<f64>) -> f64 {
        self.find(kind, workers).map_or(f64::NAN, |entrant| trimmed_mean(counts(entrant).iter().copied()))
    }

    fn print(&self, title: &str, base: (Kind, usize)) {
        let head = ["store", "puts/s", "room there before: puts/s", "x SQLite tuned", "flushes/put", "KiB written/put"];
        let rows: Vec<Vec<String>> = self
            .entrants
            .iter()
            .map(|entrant| {
                let workers = entrant.writers.len();
                vec![
                    format!("{}, {workers} worker{}", entrant.kind.name(), if workers == 1 { "" } else { "s" }),
                    figure(table::median(entrant.rates.iter().copied())),
                    figure(table::median(entrant.settled_rates.iter().copied())),
                    figure(self.ratio((entrant.kind, workers), base, |entrant| &entrant.rates)),
                    figure(self.mean(entrant.kind, workers, |entrant| &entrant.flushes)),
                    figure(self.mean(entrant.kind, workers, |entrant| &entrant.bytes) / 1024.0),
                ]
            })
            .collect();
        table::print(title, &head, &rows);
    }

    fn close(self) -> Outcome<()> {
        self.entrants.into_iter().try_for_each(Entrant::leave)
    }
}

/// Durable puts of one worker, beside the bare loop on the same terms.
pub fn durable(settings: &Settings, dir: &Path, bytes: usize, summary: &mut Summary) -> Outcome<()> {
    // Whole multiples of the 1 MiB steps, so that every round pays for about as many of them.
    let puts = if bytes <= 4 << 10 { 768 } else { (8 << 20) / bytes as u64 * if bytes >= 1 << 20 { 3 } else { 1 } };
    let puts = if settings.quick { puts / 2 } else { puts };
    let kinds = settings.kinds(&[Kind::Ours, STEPS, BEFORE, GROWN, Kind::Tuned, Kind::Windlass, Kind::Lmdb]);
    let entrants = kinds
        .into_iter()
        .map(|kind| Entrant::enter(kind, dir, Durability::Sync, 1, if kind == Kind::Windlass { puts / 8 } else { puts }))
        .collect::<Outcome<Vec<_>>>()?;
    let contest = Contest::hold(settings, dir, bytes, entrants)?;
    let size = format!("{} KiB", bytes >> 10);
    contest.print(&format!("Durable put of {size}, one worker"), (Kind::Tuned, 1));

    let wanted = match bytes >> 10 {
        4 => 0.9,
        64 => 0.85,
        _ => 0.75,
    };
    let ours = (Kind::Ours, 1);
    let all: fn(&Entrant) -> &Vec<f64> = |entrant| &entrant.rates;
    let settled: fn(&Entrant) -> &Vec<f64> = |entrant| &entrant.settled_rates;
    let flushes = |kind| contest.mean(kind, 1, |entrant| &entrant.flushes);
    let written = |kind| contest.mean(kind, 1, |entrant| &entrant.bytes);
    let peers = format!(
        "bare {}, SQLite {}, windlass {}, LMDB {}",
        figure(flushes(STEPS)),
        figure(flushes(Kind::Tuned)),
        figure(flushes(Kind::Windlass)),
        figure(flushes(Kind::Lmdb))
    );
    // Growing a file costs a second flush where the file system has a journal: as many as bare's.
    let most = 1.1 * flushes(STEPS);
    summary.add(format!("flushes per durable put of {size}"), flushes(Kind::Ours), Wanted::AtMost(most), &peers);
    let bare = format!("bare / SQLite {}", figure(contest.ratio((STEPS, 1), (Kind::Tuned, 1), all)));
    let room = if bytes < 256 << 10 { "both fill in 1 MiB steps" } else { "both grow the file" };
    summary.add(format!("put {size} / bare, {room}"), contest.ratio(ours, (STEPS, 1), all), Wanted::AtLeast(wanted), &bare);
    let bare = format!("bare / SQLite {}", figure(contest.ratio((BEFORE, 1), (Kind::Tuned, 1), all)));
    if bytes < 256 << 10 {
        let left_out = contest.find(Kind::Ours, 1).zip(contest.find(BEFORE, 1));
        let left_out = left_out.map_or(f64::NAN, |(ours, bare)| ratio(settled(ours), settled(bare)));
        summary.add(format!("put {size} / bare, both without filling"), left_out, Wanted::AtLeast(wanted), &bare);
    }
    let bare = format!("bare {} KiB", figure(written(STEPS) / 1024.0));
    summary.add(format!("bytes written per put of {size} / bare's"), written(Kind::Ours) / written(STEPS), Wanted::AtMost(1.1), &bare);
    contest.close()
}

/// Durable puts of 4 KiB by eight workers at once.
pub fn workers(settings: &Settings, dir: &Path, summary: &mut Summary) -> Outcome<()> {
    let bytes = 4 << 10;
    let puts: u64 = if settings.quick { 64 } else { 128 };
    let mut entrants = Vec::new();
    for kind in settings.kinds(&[Kind::Ours, STEPS, Kind::Tuned, Kind::Lmdb]) {
        entrants.push(Entrant::enter(kind, dir, Durability::Sync, 1, puts * 4)?);
        entrants.push(Entrant::enter(kind, dir, Durability::Sync, WORKERS, puts)?);
    }
    let contest = Contest::hold(settings, dir, bytes, entrants)?;
    contest.print("Durable put of 4 KiB, one worker and eight", (Kind::Tuned, WORKERS));

    let all: fn(&Entrant) -> &Vec<f64> = |entrant| &entrant.rates;
    let flushes = |kind| contest.mean(kind, WORKERS, |entrant| &entrant.flushes);
    let beside = format!("bare group commit {}, SQLite {}", figure(flushes(STEPS)), figure(flushes(Kind::Tuned)));
    summary.add("flushes per put of 4 KiB, 8 workers", flushes(Kind::Ours), Wanted::AtMost(0.25), &beside);
    let gain = |kind| contest.ratio((kind, WORKERS), (kind, 1), all);
    let beside = format!("bare group commit {}, SQLite {}", figure(gain(STEPS)), figure(gain(Kind::Tuned)));
    summary.add("8 workers / one worker, 4 KiB", gain(Kind::Ours), Wanted::AtLeast(3.0), &beside);
    let lead = |kind| contest.ratio((kind, WORKERS), (Kind::Tuned, WORKERS), all);
    let beside = format!("bare group commit {}, LMDB {}", figure(lead(STEPS)), figure(lead(Kind::Lmdb)));
    summary.add("8 workers / SQLite's 8 workers, 4 KiB", lead(Kind::Ours), Wanted::AtLeast(5.0), &beside);
    contest.close()
}

/// Buffered puts of 4 KiB by one worker.
pub fn buffered(settings: &Settings, dir: &Path, summary: &mut Summary) -> Outcome<()> {
    let puts = if settings.quick { 2000 } else { 4000 };
    let kinds = settings.kinds(&[Kind::Ours, GROWN, STEPS, Kind::Tuned, Kind::Lmdb]);
    let entrants = kinds.into_iter().map(|kind| Entrant::enter(kind, dir, Durability::Buffered, 1, puts)).collect::<Outcome<Vec<_>>>()?;
    let contest = Contest::hold(settings, dir, 4 << 10, entrants)?;
    contest.print("Buffered put of 4 KiB, one worker (SQLite: NORMAL, LMDB: NOSYNC)", (Kind::Tuned, 1));
    let lead = |kind| contest.ratio((kind, 1), (Kind::Tuned, 1), |entrant| &entrant.rates);
    let beside = format!("bare {}, bare in steps {}, LMDB {}", figure(lead(GROWN)), figure(lead(STEPS)), figure(lead(Kind::Lmdb)));
    summary.add("buffered put of 4 KiB / SQLite NORMAL", lead(Kind::Ours), Wanted::AtLeast(12.0), &beside);
    contest.close()
}
