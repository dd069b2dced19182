//! Imports beside a writer in another process, which no lock of this one keeps out by itself: each is one moment.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode};
use taffrail::import::Database;
use taffrail::prelude::*;

use super::made::{ids, langgraph, put_langgraph};
use super::memory;

const FILE: &str = "TAFFRAIL_TEST_IMPORT_FILE";

/// A process of this binary in a role; it ends once nobody can speak to it any more.
struct Other {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Other {
    fn start(role: &str, file: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", role, "--nocapture"]).env(FILE, file);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        Other { child, said }
    }

    /// The next of its answers; the test harness speaks too.
    fn hears(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(self.said.read_line(&mut line).unwrap(), 0, "the other goes on");
            if let Some((_, answer)) = line.trim_end().split_once("answer ") {
                return answer.to_owned();
            }
        }
    }

    fn asked_to_commit(&mut self) -> String {
        self.child.stdin.as_mut().unwrap().write_all(b"commit\n").unwrap();
        self.hears()
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Commits a step of two threads whenever it is asked to, and waits for nobody.
#[test]
fn committer() {
    let Ok(file) = std::env::var(FILE) else { return };
    let connection = Connection::open(file).unwrap();
    connection.busy_timeout(Duration::ZERO).unwrap();
    let mut step = 0;
    for _ in std::io::stdin().lines() {
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        for thread in ["t", "u"] {
            put_langgraph(&connection, thread, "", &format!("s{step:06}"), None);
        }
        match connection.execute_batch("COMMIT") {
            Ok(()) => {
                step += 1;
                println!("answer done");
            }
            Err(error) => {
                assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy), "{error}");
                connection.execute_batch("ROLLBACK").unwrap();
                println!("answer busy");
            }
        }
    }
}

/// In rollback mode nobody commits from the moment an import begins until it ends.
#[test]
fn a_commit_of_another_process_waits_for_the_import() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("x.db");
    langgraph(&file, "").close().unwrap();
    let mut other = Other::start("beside::committer", &file);
    for round in 0..8 {
        assert_eq!(other.asked_to_commit(), "done");
        let database = Database::open(&file).unwrap();
        assert_eq!(other.asked_to_commit(), "busy", "round {round}: the import holds its lock");
        let place = memory();
        database.carry_to(&place, &mut |_| {}).unwrap();
        assert_eq!(other.asked_to_commit(), "busy", "round {round}: until it ends");
        drop(database);
        let wanted: Vec<_> = (0..=round).map(|step| format!("s{step:06}")).collect();
        assert_eq!((ids(&place, "t"), ids(&place, "u")), (wanted.clone(), wanted));
    }
}

/// Puts as windlass does: a connection for each, whose end folds the `-wal` and takes it away.
#[test]
fn opener() {
    let Ok(file) = std::env::var(FILE) else { return };
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    println!("answer begun");
    for step in 0.. {
        let connection = Connection::open(&file).unwrap();
        connection.busy_timeout(Duration::from_secs(60)).unwrap();
        connection.execute_batch("PRAGMA synchronous = OFF").unwrap();
        let update = "UPDATE checkpoints SET checkpoint = ?1 WHERE thread_id IN ('t', 'u')";
        assert_eq!(connection.execute(update, [format!("{step:08}").as_bytes()]).unwrap(), 2);
        connection.close().unwrap();
        // Most of the time there is no -wal.
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Two rows that change together, at either end of a file that takes longer to copy than a put takes.
#[test]
fn a_put_while_the_file_is_copied_is_seen() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("x.db");
    let connection = langgraph(&file, "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF");
    connection.execute_batch("BEGIN").unwrap();
    put_langgraph(&connection, "t", "", "same", None);
    let filler = "INSERT INTO checkpoints VALUES ('filler', '', ?1, NULL, 'bytes', zeroblob(4000), NULL)";
    for row in 0..4_000 {
        connection.execute(filler, [format!("f{row:06}")]).unwrap();
    }
    put_langgraph(&connection, "u", "", "same", None);
    connection.execute_batch("COMMIT").unwrap();
    connection.close().unwrap();
    let mut other = Other::start("beside::opener", &file);
    assert_eq!(other.hears(), "begun");
    let mut rounds = 0;
    while rounds < 12 {
        // What cannot be had as one moment is told, which is as good.
        let database = match Database::open(&file) {
            Ok(database) => database,
            Err(error) => {
                assert_eq!(error.kind(), taffrail::ErrorKind::Busy, "{error}");
                continue;
            }
        };
        let place = memory();
        assert_eq!(database.carry_to(&place, &mut |_| {}).unwrap().put, 4_002);
        let [t, u] = ["t", "u"].map(|thread| place.get_bytes(thread).unwrap().unwrap().state.into_vec());
        assert_eq!(t, u, "round {rounds}: two moments in one copy");
        rounds += 1;
    }
}
