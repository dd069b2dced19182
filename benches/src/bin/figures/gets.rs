//! Reads of states stored whole, from a warm cache; each state is read through.

use std::path::Path;
use std::time::Duration;

use taffrail_benches::load::{self, thread_name};
use taffrail_benches::{Durability, Kind, Outcome, Place, Room, Worker};

use crate::Settings;
use crate::table::{self, Summary, Wanted, figure, ratio};

const BARE: Kind = Kind::Bare(Room::Grown);
const KINDS: [Kind; 5] = [Kind::Ours, BARE, Kind::Tuned, Kind::Windlass, Kind::Lmdb];
const THREADS: usize = 16;
const DEPTH: usize = 24;
const ROUND: Duration = Duration::from_millis(40);

struct Reader {
    kind: Kind,
    worker: Box<dyn Worker>,
    _place: Box<dyn Place>,
    seconds: Vec<f64>,
}

struct Contest(Vec<Reader>);

impl Contest {
    fn hold(settings: &Settings, parent: &Path, bytes: usize, read: impl Fn(&mut dyn Worker, &str) -> Outcome<u64>) -> Outcome<Self> {
        let scratch = tempfile::tempdir_in(parent)?;
        let mut readers = Vec::new();
        for kind in settings.kinds(&KINDS) {
            let dir = tempfile::tempdir_in(&scratch)?.keep();
            let place = kind.open(&dir, Durability::Buffered)?;
            load::fill(&*place, THREADS, DEPTH, bytes)?;
            readers.push(Reader { kind, worker: place.worker()?, _place: place, seconds: Vec::new() });
        }
        let threads: Vec<String> = (0..THREADS).map(thread_name).collect();
        for round in 0..=settings.rounds() {
            for reader in &mut readers {
                let took = load::read_for(ROUND, &threads, |thread| read(&mut *reader.worker, thread))?;
                // The first round warms up.
                if round > 0 {
                    reader.seconds.push(took.as_secs_f64());
                }
            }
        }
        Ok(Contest(readers))
    }

    /// How many times faster one is than another.
    fn faster(&self, one: Kind, other: Kind) -> f64 {
        let find = |kind| self.0.iter().find(|reader| reader.kind == kind);
        find(one).zip(find(other)).map_or(f64::NAN, |(one, other)| ratio(&other.seconds, &one.seconds))
    }

    fn print(&self, title: &str) {
        let rows: Vec<Vec<String>> = self
            .0
            .iter()
            .map(|reader| {
                let micros = table::median(reader.seconds.iter().map(|seconds| seconds * 1e6));
                vec![
                    reader.kind.name().to_owned(),
                    figure(micros),
                    figure(self.faster(reader.kind, Kind::Tuned)),
                    figure(self.faster(reader.kind, Kind::Lmdb)),
                    figure(self.faster(reader.kind, BARE)),
                ]
            })
            .collect();
        table::print(title, &["store", "us", "x SQLite tuned", "x LMDB", "x bare"], &rows);
    }
}

/// The newest state of a thread.
pub fn newest(settings: &Settings, dir: &Path, bytes: usize, summary: &mut Summary) -> Outcome<()> {
    let contest = Contest::hold(settings, dir, bytes, |worker, thread| worker.get(thread))?;
    contest.print(&format!("get of {} KiB, warm (taffrail and bare verify a checksum)", bytes >> 10));
    let beside = |to| format!("bare {}, LMDB {}", figure(contest.faster(BARE, to)), figure(contest.faster(Kind::Lmdb, to)));
    if bytes <= 4 << 10 {
        let lmdb = contest.faster(Kind::Ours, Kind::Lmdb);
        summary.add(
            "get 4 KiB: LMDB's rate / ours",
            1.0 / lmdb,
            Wanted::AtMost(2.0),
            &format!("bare {}", figure(1.0 / contest.faster(BARE, Kind::Lmdb))),
        );
        summary.add("get 4 KiB / SQLite tuned", contest.faster(Kind::Ours, Kind::Tuned), Wanted::AtLeast(15.0), &beside(Kind::Tuned));
    } else {
        summary.add("get 64 KiB / SQLite tuned", contest.faster(Kind::Ours, Kind::Tuned), Wanted::AtLeast(5.0), &beside(Kind::Tuned));
    }
    Ok(())
}

/// The newest 20 states of a thread, of 64 KiB each.
pub fn history(settings: &Settings, dir: &Path, summary: &mut Summary) -> Outcome<()> {
    let contest = Contest::hold(settings, dir, 64 << 10, |worker, thread| worker.history(thread, 20))?;
    contest.print("history(20) of 64 KiB, warm");
    let beside = format!("bare {}, LMDB {}", figure(contest.faster(BARE, Kind::Tuned)), figure(contest.faster(Kind::Lmdb, Kind::Tuned)));
    summary.add("history(20) of 64 KiB / SQLite tuned", contest.faster(Kind::Ours, Kind::Tuned), Wanted::AtLeast(2.5), &beside);
    Ok(())
}
