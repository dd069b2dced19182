//! Imports beside others, ended half way, and large ones; by the program where there is one.

#![cfg(feature = "cli")]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use taffrail::prelude::*;
use taffrail::{PutOptions, Store};

use super::made::{data, ids, imported, langgraph, put_langgraph, windlass};
use super::{files, memory};

fn command(store: &Path, file: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_taffrail"));
    // Copies are made here; the folder is the test's own.
    command.env("TMPDIR", store.parent().unwrap());
    command.arg("--store").arg(store).arg("import").arg(file).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The code, and what was said.
fn ended(child: Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().unwrap();
    assert!(output.stdout.is_empty());
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

fn run(store: &Path, file: &Path) -> (Option<i32>, String) {
    ended(command(store, file).spawn().unwrap())
}

#[test]
fn the_command_line_names_counts_and_ends_with_5_where_something_was_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let store = scratch.path().join("runs");
    let (code, said) = run(&store, &data("windlass-run.db"));
    assert!(code == Some(0) && said.ends_with("imported 64, skipped 0, refused 0\n"), "{said}");
    let (code, said) = run(&store, &data("langgraph-killed/checkpoints.db"));
    assert!(code == Some(5) && said.ends_with("imported 19, skipped 0, refused 1\n"), "{said}");
    assert!(said.contains(": thread \"\", checkpoint \"") && said.contains("refused: a thread id cannot be empty\n"), "{said}");
    assert!(said.contains("thread \"nan\", checkpoint \"") && said.contains("metadata left behind: not JSON"), "{said}");
    assert!(said.lines().rev().nth(1).unwrap().contains("attachments written"), "{said}");
    let (code, said) = run(&store, &data("windlass-run.db"));
    assert!(code == Some(0) && said.ends_with("imported 0, skipped 64, refused 0\n"), "{said}");
    // Nothing is made where there is nothing to import.
    let (other, empty) = (scratch.path().join("other"), scratch.path().join("empty.db"));
    let alone = scratch.path().join("alone.db");
    fs::copy(data("langgraph-killed/checkpoints.db"), &alone).unwrap();
    fs::write(&empty, "").unwrap();
    let cut = scratch.path().join("cut.db");
    fs::write(&cut, &fs::read(data("windlass-run.db")).unwrap()[..100_000]).unwrap();
    for (file, code, words) in [(&empty, 5, "is empty"), (&alone, 5, "is the -wal missing?"), (&cut, 3, "SQLite cannot read")] {
        let (ended, said) = run(&other, file);
        assert!(ended == Some(code) && said.contains(words) && said.lines().count() == 1, "{ended:?} {said}");
        assert!(!other.exists(), "{}", file.display());
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_read_and_stays_as_it_is() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("source");
    fs::create_dir(&dir).unwrap();
    for name in ["checkpoints.db", "checkpoints.db-wal", "checkpoints.db-shm"] {
        fs::copy(data("langgraph-killed").join(name), dir.join(name)).unwrap();
        fs::set_permissions(dir.join(name), fs::Permissions::from_mode(0o444)).unwrap();
    }
    fs::copy(data("windlass-run.db"), dir.join("w.db")).unwrap();
    fs::set_permissions(dir.join("w.db"), fs::Permissions::from_mode(0o444)).unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o555)).unwrap();
    let before = files(&dir);
    assert!(run(&scratch.path().join("runs"), &dir.join("checkpoints.db")).1.ends_with("imported 19, skipped 0, refused 1\n"));
    assert!(run(&scratch.path().join("runs"), &dir.join("w.db")).1.ends_with("imported 64, skipped 0, refused 0\n"));
    assert_eq!(files(&dir), before);
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Many rows in one long thread and some short ones.
fn many(file: &Path, pragmas: &str, rows: usize, bytes: usize) {
    let connection = windlass(file, pragmas);
    connection.execute_batch("BEGIN").unwrap();
    let mut insert = connection.prepare("INSERT INTO checkpoints (thread_id, state, saved_at) VALUES (?1, ?2, ?3)").unwrap();
    let mut chance = 7u64;
    for row in 0..rows {
        let mut state = format!("{{\"step\":{row},\"text\":\"");
        while state.len() < bytes {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state += &format!("{:016x}", chance);
        }
        let thread = if row % 2 == 0 { "long".to_owned() } else { format!("t{}", row % 1000) };
        insert.execute((thread, state + "\"}", row as f64)).unwrap();
    }
    drop(insert);
    connection.execute_batch("COMMIT").unwrap();
    connection.close().unwrap();
}

/// A store that keeps all.
fn keeping_all(store: &Path) {
    Store::options().max_history(None).open(store).unwrap().close().unwrap();
}

#[test]
fn a_killed_import_goes_on_and_two_at_once_are_one() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("x.db");
    // In WAL mode, so that what is read is a copy.
    many(&file, "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF", 6_000, 2_000);
    let all = memory();
    assert_eq!(imported(&file, &all).carried.put, 6_000);
    let source = files(scratch.path());
    for round in 0..3 {
        let runs = scratch.path().join(format!("runs{round}"));
        keeping_all(&runs);
        let mut child = command(&runs, &file).spawn().unwrap();
        let reader = Store::options().read_only(true).open(&runs).unwrap();
        // Once there is something; it may also end first, which is as good.
        while child.try_wait().unwrap().is_none() && !reader.exists("long").unwrap() {}
        let _ = child.kill();
        child.wait().unwrap();
        let names = fs::read_dir(scratch.path()).unwrap().count();
        assert_eq!(names, 2 + round, "the database, the stores, and no copy that was left");
        let there: u64 = reader.list_threads(&Default::default()).unwrap().map(|info| info.unwrap().checkpoints).sum();
        for thread in reader.threads().unwrap() {
            assert!(ids(&all, &thread).starts_with(&ids(&reader, &thread)), "{thread}");
        }
        drop(reader);
        let both = [0, 1].map(|_| command(&runs, &file).spawn().unwrap());
        let put: u64 = both
            .into_iter()
            .map(|child| {
                let (code, said) = ended(child);
                assert_eq!(code, Some(0), "{said}");
                let put: u64 = said.lines().last().unwrap().strip_prefix("imported ").unwrap().split(',').next().unwrap().parse().unwrap();
                assert!(said.ends_with(&format!("skipped {}, refused 0\n", 6_000 - put)), "{said}");
                put
            })
            .sum();
        assert_eq!(put, 6_000 - there, "each row once");
        let store = Store::open(&runs).unwrap();
        for thread in all.threads().unwrap() {
            assert_eq!(ids(&store, &thread), ids(&all, &thread));
        }
        assert!(store.verify().unwrap().is_empty());
    }
    assert_eq!(files(scratch.path()), source);
}

/// Locked for as long as anybody waits, or left half written: told, and nothing is made.
#[test]
fn a_database_that_does_not_come_to_rest_is_busy() {
    let scratch = tempfile::tempdir().unwrap();
    let (file, left) = (scratch.path().join("x.db"), scratch.path().join("left.db"));
    let connection = windlass(&file, "PRAGMA cache_size = 1; PRAGMA cache_spill = 1");
    connection.execute_batch("BEGIN EXCLUSIVE").unwrap();
    for row in 0..200 {
        connection.execute("INSERT INTO checkpoints (thread_id, state, saved_at) VALUES ('t', ?1, 1)", ["x".repeat(row * 20)]).unwrap();
    }
    // As a process that is killed here leaves them.
    fs::copy(&file, &left).unwrap();
    fs::copy(scratch.path().join("x.db-journal"), scratch.path().join("left.db-journal")).unwrap();
    // With a -wal beside it a copy is read, which has no -journal to tell.
    let beside_wal = scratch.path().join("beside.db");
    for (ending, source) in [("", "left.db"), ("-journal", "left.db-journal")] {
        fs::copy(scratch.path().join(source), scratch.path().join(format!("beside.db{ending}"))).unwrap();
    }
    fs::write(scratch.path().join("beside.db-wal"), "").unwrap();
    let before = files(scratch.path());
    for (file, words) in [(&file, "locked"), (&left, "open it once with the program"), (&beside_wal, "with a -journal")] {
        let error = taffrail::import::Database::open(file).unwrap_err();
        assert!(error.kind() == taffrail::ErrorKind::Busy && error.to_string().contains(words), "{error:?}");
    }
    assert_eq!(files(scratch.path()), before);
    connection.execute_batch("ROLLBACK").unwrap();
}

/// Ends a writer however the test ends.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// In WAL mode the writer goes on, folding its -wal every few pages; in another it waits. What is imported is one
/// moment: each row's other half is there.
#[test]
fn a_writer_beside_it_costs_nothing() {
    for pragma in ["PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 8; PRAGMA synchronous = OFF", "PRAGMA synchronous = OFF"] {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("x.db");
        let connection = langgraph(&file, pragma);
        connection.busy_timeout(std::time::Duration::from_secs(60)).unwrap();
        let [ended, pausing] = [const { AtomicBool::new(false) }; 2];
        std::thread::scope(|scope| {
            let (writer, ended, pausing) = (connection, &ended, &pausing);
            let writing = scope.spawn(move || {
                let mut step = 0;
                while !ended.load(Ordering::Relaxed) {
                    if pausing.load(Ordering::Relaxed) {
                        std::thread::yield_now();
                        continue;
                    }
                    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
                    let id = format!("s{step:06}");
                    put_langgraph(&writer, "t", "", &id, None);
                    put_langgraph(&writer, "u", "", &id, None);
                    writer.execute_batch("COMMIT").unwrap();
                    step += 1;
                    // Else it writes faster than anyone reads, and there is no end to it.
                    std::thread::sleep(std::time::Duration::from_micros(200));
                }
                step
            });
            let ends = Ends(ended);
            let mut seen = 0;
            let mut rounds = 0;
            while rounds < 8 {
                // A writer that folds all the time may be in the way of every copy: that is told, and tried again
                // once it does less.
                let database = match taffrail::import::Database::open(&file) {
                    Ok(database) => database,
                    Err(error) => {
                        assert_eq!(error.kind(), taffrail::ErrorKind::Busy, "{error}");
                        pausing.store(true, Ordering::Relaxed);
                        continue;
                    }
                };
                pausing.store(false, Ordering::Relaxed);
                let place = memory();
                let put = database.carry_to(&place, &mut |_| {}).unwrap().put as usize;
                let there = ids(&place, "t");
                assert_eq!((there.len(), &there), (put / 2, &ids(&place, "u")));
                assert!(there.iter().enumerate().all(|(at, id)| *id == format!("s{at:06}")), "a beginning without gaps");
                assert!(there.len() >= seen);
                seen = there.len();
                rounds += 1;
            }
            drop(ends);
            let written = writing.join().unwrap();
            assert!(written >= seen);
        });
    }
}

/// A hundred thousand rows of 100 MB in all, with less than 64 MiB of memory of its own.
#[test]
fn a_hundred_thousand_rows_need_little_memory() {
    let scratch = tempfile::tempdir().unwrap();
    let (file, runs) = (scratch.path().join("x.db"), scratch.path().join("runs"));
    many(&file, "PRAGMA synchronous = OFF", 100_000, 1_000);
    keeping_all(&runs);
    let script = "ulimit -d 65536; exec \"$0\" --store \"$1\" import \"$2\"";
    let output = Command::new("bash").arg("-c").arg(script).arg(env!("CARGO_BIN_EXE_taffrail")).arg(&runs).arg(&file).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if cfg!(target_os = "linux") {
        assert!(output.status.success() && said.ends_with("imported 100000, skipped 0, refused 0\n"), "{said}");
        let store = Store::options().read_only(true).open(&runs).unwrap();
        assert_eq!((ids(&store, "long").len(), store.threads().unwrap().len()), (50_000, 501));
    }
}

#[test]
fn what_was_put_since_makes_a_thread_its_own() {
    let scratch = tempfile::tempdir().unwrap();
    let runs = scratch.path().join("runs");
    run(&runs, &data("langgraph-odd.db"));
    let store = Store::open(&runs).unwrap();
    store.put_with("plain", &1, PutOptions::default()).unwrap();
    let (code, said) = run(&runs, &data("langgraph-odd.db"));
    assert!(code == Some(5) && said.ends_with("imported 0, skipped 19, refused 1\n"), "{said}");
    assert_eq!(store.get::<i32>("plain").unwrap(), Some(1), "all its rows are there, and what came since");
}
