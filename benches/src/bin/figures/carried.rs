//! What taking a whole SQLite database over costs, beside reading it: by `copy` from the place in it, and by
//! importing it.

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use rusqlite::{Connection, params};
use taffrail::import::Database;
use taffrail::{Durability, SqliteCheckpointer, Store};
use taffrail_benches::load::thread_name;
use taffrail_benches::noise::Noise;
use taffrail_benches::{Outcome, touch};

use crate::Settings;
use crate::table::{self, Summary, Wanted, spread};

const THREADS: usize = 1000;
const STATE_BYTES: usize = 4 << 10;

/// A database as windlass makes one. Its states are hexadecimal numbers of half the length: JSON that no two share.
fn fill(file: &Path, rows: usize) -> Outcome<()> {
    let mut database = Connection::open(file)?;
    database.execute_batch(
        "CREATE TABLE checkpoints (id INTEGER PRIMARY KEY AUTOINCREMENT, thread_id TEXT NOT NULL, state TEXT NOT NULL, saved_at REAL NOT NULL);
         CREATE INDEX idx_thread ON checkpoints(thread_id, id DESC)",
    )?;
    let all = database.transaction()?;
    let mut noise = Noise::new(7);
    for row in 0..rows {
        let state: String = noise.next(STATE_BYTES / 2 - 1).iter().map(|byte| format!("{byte:02x}")).collect();
        all.prepare_cached("INSERT INTO checkpoints (thread_id, state, saved_at) VALUES (?1, ?2, ?3)")?.execute(params![
            thread_name(row % THREADS),
            format!("\"{state}\""),
            1.7e9 + row as f64
        ])?;
    }
    Ok(all.commit()?)
}

fn read(file: &Path) -> Outcome<u64> {
    let database = Connection::open(file)?;
    let mut statement = database.prepare("SELECT id, thread_id, state, saved_at FROM checkpoints ORDER BY id")?;
    let mut rows = statement.query([])?;
    let mut sum = 0;
    while let Some(row) = rows.next()? {
        sum += touch(row.get_ref(2)?.as_bytes()?);
    }
    Ok(sum)
}

/// Reading, copying and importing, one after the other, into a new durable store each time.
pub fn carried(settings: &Settings, parent: &Path, summary: &mut Summary) -> Outcome<()> {
    let rows = if settings.quick { 20_000 } else { 100_000 };
    let scratch = tempfile::tempdir_in(parent)?;
    let (file, copied_file) = (scratch.path().join("windlass.db"), scratch.path().join("place.db"));
    fill(&file, rows)?;
    // Opening a place in a database adds tables to it.
    std::fs::copy(&file, &copied_file)?;
    // What the system still has to write of both would be written while the first rounds are measured.
    [&file, &copied_file].into_iter().try_for_each(|file| std::fs::File::open(file)?.sync_all())?;
    let place = SqliteCheckpointer::open(&copied_file)?;
    let open = |round: usize, what: &str| {
        Store::options().max_history(None).durability(Durability::Sync).open(scratch.path().join(format!("{what} {round}")))
    };
    let mut seconds = [Vec::new(), Vec::new(), Vec::new()];
    let rounds = settings.rounds().div_ceil(3);
    for round in 0..rounds {
        let start = Instant::now();
        black_box(read(&file)?);
        seconds[0].push(start.elapsed().as_secs_f64());
        let store = open(round, "copied")?;
        let start = Instant::now();
        let copied = taffrail::copy(&place, &store, &mut |_| ())?;
        seconds[1].push(start.elapsed().as_secs_f64());
        let store = open(round, "imported")?;
        let start = Instant::now();
        let imported = Database::open(&file)?.carry_to(&store, &mut |_| ())?;
        seconds[2].push(start.elapsed().as_secs_f64());
        if (copied.put, imported.put) != (rows as u64, rows as u64) {
            return Err(format!("of {rows} rows {} were copied and {} imported", copied.put, imported.put).into());
        }
    }
    let names = ["reading them", "copy from the place", "import"];
    let lines: Vec<Vec<String>> = names.iter().zip(&seconds).map(|(name, seconds)| vec![(*name).to_owned(), spread(seconds)]).collect();
    table::print(&format!("{rows} checkpoints of 4 KiB in an SQLite database, s"), &["what", "seconds"], &lines);
    for (name, seconds_of) in [("copy", &seconds[1]), ("import", &seconds[2])] {
        summary.add(
            format!("{name} of {rows} x 4 KiB from SQLite / reading them"),
            table::ratio(seconds_of, &seconds[0]),
            Wanted::AtMost(12.0),
            "-",
        );
    }
    Ok(())
}
