//! Several at once: handles, processes, another program's transactions, and a process that is killed.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use taffrail::prelude::*;
use taffrail::{Batch, ErrorKind, HistoryQuery, OnExisting, PutOptions, SqliteCheckpointer, TypeTag};

use crate::{Scratch, id, ids, put};

pub const FILE: &str = "TAFFRAIL_TEST_SQLITE_FILE";
const NAME: &str = "TAFFRAIL_TEST_SQLITE_NAME";

pub fn role(test: &str, scratch: &Scratch, name: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(FILE, scratch.file()).env(NAME, name);
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

/// Has windlass' way of making a file without a write-ahead log, too.
pub fn both_journals() -> [Scratch; 2] {
    let (with, without) = (Scratch::new(), Scratch::of_windlass());
    let other = without.other();
    let mode: String = other.query_row("PRAGMA journal_mode = DELETE", [], |row| row.get(0)).unwrap();
    assert_eq!(mode, "delete");
    [with, without]
}

const STEPS: u64 = 150;

/// The process that writes beside others: to a thread of its own and to one in common.
#[test]
fn writer() {
    let (Ok(file), Ok(name)) = (std::env::var(FILE), std::env::var(NAME)) else { return };
    let place = SqliteCheckpointer::options().max_history(None).open(file).unwrap();
    for step in 0..STEPS {
        let (own, state) = (id(&format!("{name} {step}")), step.to_string());
        let mut batch = Batch::new();
        for thread in ["common", &name] {
            batch.put(thread, TypeTag::JSON, state.as_bytes(), PutOptions::default().id(own.clone()));
            batch.attach(thread, own.clone(), "k", TypeTag::JSON, state.as_bytes(), OnExisting::Keep);
        }
        place.commit(&batch).unwrap();
        assert_eq!(place.get::<u64>(&name).unwrap(), Some(step), "each sees its own at once");
    }
}

#[test]
fn processes_that_write_at_once_lose_nothing() {
    for scratch in both_journals() {
        // They open, and make the tables, at one instant too.
        let mut children: Vec<Child> = ["a", "b", "c"].map(|name| role("together::writer", &scratch, name)).into();
        children.iter_mut().for_each(|child| assert!(child.wait().unwrap().success()));
        let place = scratch.open().unwrap();
        let common: Vec<_> = place.list("common", &HistoryQuery::default()).unwrap().map(Result::unwrap).collect();
        assert_eq!(common.len() as u64, 3 * STEPS);
        assert!(common.windows(2).all(|pair| pair[0].parent.as_ref() == Some(&pair[1].id) && pair[0].seq > pair[1].seq));
        for name in ["a", "b", "c"] {
            let wanted: Vec<String> = (0..STEPS).rev().map(|step| format!("{name} {step}")).collect();
            assert_eq!(ids(&place, name), wanted);
            let own = common.iter().map(|info| info.id.to_string()).filter(|own| own.starts_with(name));
            assert!(own.eq(wanted));
            assert_eq!(place.attachments("common", &id(&format!("{name} 7"))).unwrap()[0].value.to_vec(), b"7");
        }
    }
}

#[test]
fn who_waits_in_vain_is_busy_and_has_written_nothing() {
    for scratch in both_journals() {
        let place = SqliteCheckpointer::options().busy_timeout(Duration::from_millis(50)).open(scratch.file()).unwrap();
        put(&place, "t", "a", b"1");
        let other = scratch.other();
        other.execute_batch("BEGIN IMMEDIATE; INSERT INTO checkpoints (thread_id, state, saved_at) VALUES ('t', '2', 1.5)").unwrap();
        let refused = |kind: ErrorKind| {
            let error = place.put("t", &3).unwrap_err();
            assert!(error.kind() == kind && error.file().is_some(), "{error:?}");
            assert_eq!(place.retain(None, Some(7)).unwrap_err().kind(), kind);
        };
        refused(ErrorKind::Busy);
        // Who reads waits for no such writer, and sees nothing that is not committed.
        assert_eq!(ids(&place, "t"), ["a"]);
        assert_eq!(scratch.open().unwrap().threads().unwrap(), place.threads().unwrap());
        other.execute_batch("COMMIT").unwrap();
        place.put("t", &3).unwrap();
        assert_eq!(ids(&place, "t").len(), 3);
    }
}

/// An iterator that is open hinders neither another program nor this one, whatever the journal.
#[test]
fn an_open_iterator_holds_no_lock() {
    for scratch in both_journals() {
        let place = SqliteCheckpointer::options().busy_timeout(Duration::ZERO).open(scratch.file()).unwrap();
        put(&place, "t", "a", b"1");
        let mut open = place.history_bytes("t", &HistoryQuery::default()).unwrap();
        let listed = place.list("t", &HistoryQuery::default()).unwrap();
        let other = scratch.other();
        other.execute_batch("BEGIN EXCLUSIVE; DELETE FROM checkpoints; COMMIT").unwrap();
        put(&place, "t", "b", b"2");
        assert_eq!(&*open.next().unwrap().unwrap().state, b"1");
        assert!(open.next().is_none() && listed.count() == 1);
    }
}

/// The process that is killed: batches of three threads, a trim and an attachment, each told once it is done.
#[test]
fn putter() {
    let (Ok(file), Ok(name)) = (std::env::var(FILE), std::env::var(NAME)) else { return };
    let place = SqliteCheckpointer::options().max_history(2).open(file).unwrap();
    let begin = place.get::<u64>("a").unwrap().map_or(0, |last| last + 1);
    let filler = vec![b'x'; name.parse().unwrap()];
    for step in begin.. {
        let state = step.to_string();
        let mut batch = Batch::new();
        for thread in ["a", "b", "c"] {
            batch.put(thread, TypeTag::JSON, state.as_bytes(), PutOptions::default().id(id(&format!("s{step}"))));
            batch.put("large", TypeTag::BYTES, &filler, PutOptions::default());
        }
        batch.attach("a", id(&format!("s{step}")), "k", TypeTag::JSON, state.as_bytes(), OnExisting::Keep);
        place.commit(&batch).unwrap();
        println!("done {step}");
    }
}

#[test]
fn a_killed_process_leaves_whole_batches() {
    for scratch in both_journals() {
        for round in 0..12 {
            // Of some the transaction is larger than SQLite's cache, and is written before it is committed.
            let filler = if round % 3 == 2 { "1500000" } else { "10" };
            let mut child = role("together::putter", &scratch, filler);
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(|line| line.unwrap_or_default());
            let mut done: Vec<u64> = Vec::new();
            let told = |line: String| line.rsplit_once("done ").and_then(|(_, step)| step.parse::<u64>().ok());
            while done.len() < 2 + round {
                done.extend(told(lines.next().expect("the child goes on")));
            }
            std::thread::sleep(Duration::from_micros(137 * round as u64));
            child.kill().unwrap();
            child.wait().unwrap();
            done.extend(lines.filter_map(told));
            let place = scratch.open().unwrap();
            let heads = ["a", "b", "c"].map(|thread| place.get::<u64>(thread).unwrap().unwrap());
            assert!(heads[0] == heads[1] && heads[1] == heads[2], "half a batch: {heads:?}");
            let last = *done.last().unwrap();
            assert!(heads[0] == last || heads[0] == last + 1, "{heads:?} after {last}");
            let newest = place.history::<u64>("a", None).unwrap();
            assert_eq!(newest.len(), 2);
            assert_eq!(place.attachments("a", &newest[0].id).unwrap()[0].value.to_vec(), heads[0].to_string().into_bytes());
            assert_eq!(ids(&place, "large").len(), 2);
            drop(place);
            let whole: String = scratch.other().query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
            assert_eq!(whole, "ok");
            // A journal that was begun and never counted stays until the next one takes its name.
            let left = scratch.names().into_iter().filter(|name| !["place.db", "place.db-journal"].contains(&name.as_str()));
            assert_eq!(left.collect::<Vec<_>>(), [""; 0]);
        }
    }
}
