//! Opening a store of many checkpoints, and what its index costs in memory.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use taffrail_benches::load::{self, thread_name};
use taffrail_benches::noise::Noise;
use taffrail_benches::{Durability, Kind, Outcome};

use crate::table::{self, Summary, Wanted, figure};
use crate::{Settings, heap};

const THREADS: usize = 1000;
const DEPTH: usize = 100;

/// What is done to a store's hint files before it is opened.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hints {
    /// They are as closing left them.
    Kept,
    /// The newest is gone: as who is killed leaves it, the segment appended to has none.
    Killed,
    /// All are gone.
    Gone,
}

/// A store that is opened again and again.
struct Opened {
    name: &'static str,
    kind: Kind,
    dir: PathBuf,
    hints: Hints,
    millis: Vec<f64>,
}

impl Opened {
    /// Opens it once and gets a thread's newest; `left` are the hints that closing left, in order.
    fn round(&mut self, round: usize, left: &[(PathBuf, Vec<u8>)]) -> Outcome<()> {
        let kept = match self.hints {
            Hints::Kept => left.len(),
            Hints::Killed => left.len() - 1,
            Hints::Gone => 0,
        };
        for (at, (path, bytes)) in left.iter().enumerate() {
            if at < kept { fs::write(path, bytes)? } else { fs::remove_file(path)? }
        }
        let start = Instant::now();
        let place = self.kind.open(&self.dir, Durability::Sync)?;
        let mut worker = place.worker()?;
        std::hint::black_box(worker.get(&thread_name(round))?);
        self.millis.push(start.elapsed().as_secs_f64() * 1e3);
        drop((worker, place));
        left.iter().try_for_each(|(path, bytes)| Ok(fs::write(path, bytes)?))
    }
}

fn hint_files(dir: &Path) -> Outcome<Vec<(PathBuf, Vec<u8>)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir.join("store"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|kind| kind == "hint") {
            found.push((path.clone(), fs::read(path)?));
        }
    }
    found.sort();
    Ok(found)
}

/// Open and first get, the files in the cache.
pub fn open(settings: &Settings, parent: &Path, threads: usize, bytes: usize, summary: &mut Summary) -> Outcome<()> {
    let scratch = tempfile::tempdir_in(parent)?;
    let kinds = settings.kinds(&[Kind::Ours, Kind::Tuned, Kind::Lmdb]);
    let (mut opened, mut left) = (Vec::new(), Vec::new());
    for kind in kinds {
        let dir = scratch.path().join(kind.name());
        fs::create_dir(&dir)?;
        load::fill(&*kind.open(&dir, Durability::Buffered)?, threads, DEPTH, bytes)?;
        let one = |name, hints| Opened { name, kind, dir: dir.clone(), hints, millis: Vec::new() };
        match kind {
            Kind::Ours => {
                left = hint_files(&dir)?;
                opened.push(one("taffrail", Hints::Kept));
                opened.push(one("taffrail, killed", Hints::Killed));
                opened.push(one("taffrail, no hints", Hints::Gone));
            }
            _ => opened.push(one(kind.name(), Hints::Kept)),
        }
    }
    for round in 0..settings.rounds() {
        for one in &mut opened {
            one.round(round, if one.kind == Kind::Ours { &left } else { &[] })?;
        }
    }
    let row = |one: &Opened| vec![one.name.to_owned(), figure(table::median(one.millis.iter().copied())), figure(one.millis[0])];
    let title = format!("open and first get, {} checkpoints of {} KiB", threads * DEPTH, bytes >> 10);
    table::print(&title, &["store", "ms", "the first time, ms"], &opened.iter().map(row).collect::<Vec<_>>());
    // What is promised is promised of states of 1 KiB; larger ones are to cost no more for each.
    for (one, limit) in opened.iter().zip([5.0, 30.0]).filter(|(one, _)| one.kind == Kind::Ours && bytes == 1 << 10) {
        summary.add(format!("open, ms: {}", one.name), table::median(one.millis.iter().copied()), Wanted::AtMost(limit), &title);
    }
    Ok(())
}

/// Heap held for each checkpoint, thread names left out: as put, and as read back by an open.
pub fn index(parent: &Path, summary: &mut Summary) -> Outcome<()> {
    let scratch = tempfile::tempdir_in(parent)?;
    let names: Vec<String> = (0..THREADS).map(thread_name).collect();
    let name_bytes: usize = names.iter().map(String::len).sum();
    let each = |held: i64| (held as f64 - name_bytes as f64) / (THREADS * DEPTH) as f64;
    let mut noise = Noise::new(0);
    heap::count_from_here();
    let place = Kind::Ours.open(scratch.path(), Durability::Buffered)?;
    let mut worker = place.worker()?;
    for _ in 0..DEPTH {
        for name in &names {
            worker.put(name, noise.next(64))?;
        }
    }
    let as_put = each(heap::held());
    drop((worker, place));
    let left = heap::held();
    let place = Kind::Ours.open(scratch.path(), Durability::Buffered)?;
    let as_read = each(heap::held() - left);
    heap::stop_counting();
    drop(place);
    summary.add("index bytes per checkpoint, as put", as_put, Wanted::AtMost(64.0), "1,000 threads x 100, fresh ids");
    summary.add("index bytes per checkpoint, reopened", as_read, Wanted::AtMost(64.0), "the same");
    Ok(())
}
