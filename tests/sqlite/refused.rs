//! What is no place of this kind is refused and stays as it was, byte for byte, with all that is beside it.

use std::collections::BTreeMap;
use std::fs;

use rusqlite::Connection;
use taffrail::prelude::*;
use taffrail::{ErrorKind, SqliteCheckpointer};

use crate::Scratch;

/// Every file and its bytes.
fn bytes(scratch: &Scratch) -> BTreeMap<String, Vec<u8>> {
    scratch.names().into_iter().map(|name| (name.clone(), fs::read(scratch.0.path().join(name)).unwrap())).collect()
}

#[track_caller]
fn is_refused(scratch: &Scratch, kind: ErrorKind, what: &str) {
    let before = bytes(scratch);
    for create in [true, false] {
        let error = SqliteCheckpointer::options().create(create).max_history(3).open(scratch.file()).unwrap_err();
        assert_eq!(error.kind(), kind, "{what}: {error:?}");
        assert_eq!(error.file().map(|(path, _)| path.to_owned()), Some(scratch.file()), "{what}");
        assert_eq!(bytes(scratch), before, "{what}");
    }
}

#[test]
fn a_file_that_is_no_database_is_left_alone() {
    let scratch = Scratch::new();
    for text in [&b"mine"[..], b"{\"a\": 1}\n", &[0; 5000], b"SQLite format 3\0", &[b'x'; 100_000]] {
        fs::write(scratch.file(), text).unwrap();
        is_refused(&scratch, ErrorKind::Corrupt, &String::from_utf8_lossy(&text[..text.len().min(20)]));
    }
}

#[test]
fn another_program_s_database_is_left_alone() {
    let windlass = "CREATE TABLE checkpoints (id INTEGER PRIMARY KEY AUTOINCREMENT, thread_id TEXT NOT NULL, state TEXT NOT NULL, saved_at REAL NOT NULL";
    for sql in [
        "CREATE TABLE notes (x); INSERT INTO notes VALUES (1)",
        "CREATE TABLE checkpoints (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT NOT NULL, parent_checkpoint_id TEXT, type TEXT, checkpoint BLOB, metadata BLOB, PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id))",
        &format!("{windlass}, agent TEXT); INSERT INTO checkpoints VALUES (1, 't', '{{}}', 1.5, 'a')"),
        &windlass.replace(" AUTOINCREMENT", "").replace("saved_at REAL NOT NULL", "saved_at REAL NOT NULL)"),
        &format!("PRAGMA encoding = 'UTF-16le'; {windlass})"),
    ] {
        for mode in ["DELETE", "WAL"] {
            let scratch = Scratch::new();
            let own = scratch.other();
            own.execute_batch(sql).unwrap();
            own.query_row(&format!("PRAGMA journal_mode = {mode}"), [], |_| Ok(())).unwrap();
            drop(own);
            is_refused(&scratch, ErrorKind::Unsupported, sql);
            assert_eq!(scratch.names(), ["place.db"], "nothing is left beside it");
        }
    }
}

#[test]
fn a_log_that_waits_beside_another_program_s_database_is_left_alone() {
    let (scratch, copy) = (Scratch::new(), Scratch::new());
    let own = scratch.other();
    own.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE notes (x); INSERT INTO notes VALUES (randomblob(9000))").unwrap();
    // As a process that was killed leaves it: the rows are in the log alone.
    for name in ["place.db", "place.db-wal"] {
        fs::copy(scratch.0.path().join(name), copy.0.path().join(name)).unwrap();
    }
    let before = bytes(&copy);
    assert_eq!(SqliteCheckpointer::open(copy.file()).unwrap_err().kind(), ErrorKind::Unsupported);
    for (name, bytes) in before {
        assert_eq!(fs::read(copy.0.path().join(&name)).unwrap(), bytes, "{name}");
    }
    let rows: i64 = copy.other().query_row("SELECT count(*) FROM notes", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 1);
}

#[test]
fn a_newer_version_is_left_alone() {
    let scratch = Scratch::new();
    scratch.open().unwrap().put("t", &1).unwrap();
    scratch.other().execute("UPDATE taffrail_place SET version = 2", []).unwrap();
    is_refused(&scratch, ErrorKind::Unsupported, "version 2");
    scratch.other().execute("UPDATE taffrail_place SET version = 1", []).unwrap();
    assert_eq!(scratch.open().unwrap().get::<u8>("t").unwrap(), Some(1));
}

#[test]
fn what_is_not_there_is_made_only_when_asked() {
    let scratch = Scratch::new();
    let to_read = || SqliteCheckpointer::options().create(false).open(scratch.file());
    assert_eq!(to_read().unwrap_err().kind(), ErrorKind::NotFound);
    assert!(scratch.names().is_empty());
    // An empty file is an empty database, and no place yet.
    fs::write(scratch.file(), b"").unwrap();
    assert_eq!(to_read().unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(fs::read(scratch.file()).unwrap(), b"");
    drop(scratch.open().unwrap());
    assert!(to_read().unwrap().threads().unwrap().is_empty());
    fs::remove_file(scratch.file()).unwrap();
    fs::create_dir(scratch.file()).unwrap();
    is_refused_dir(&scratch);
    assert_eq!(SqliteCheckpointer::open("").unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(SqliteCheckpointer::open(scratch.0.path().join("absent/place.db")).unwrap_err().kind(), ErrorKind::Io);
}

fn is_refused_dir(scratch: &Scratch) {
    assert_eq!(scratch.open().unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(fs::read_dir(scratch.file()).unwrap().count(), 0);
}

#[test]
fn a_name_that_looks_like_an_address_is_a_file_s() {
    let scratch = Scratch::new();
    let odd = scratch.0.path().join("file:x?mode=memory#é%20");
    SqliteCheckpointer::open(&odd).unwrap().put("t", &1).unwrap();
    assert_eq!(scratch.names(), ["file:x?mode=memory#é%20"]);
    let place = taffrail::open(&format!("sqlite:{}", odd.display())).unwrap();
    assert_eq!(place.get::<u8>("t").unwrap(), Some(1));
    assert!(place.capabilities().shared_between_processes && place.capabilities().persistent_checkpoint_ids);
}

#[test]
fn a_place_in_memory_is_its_handle_s_own() {
    let place = SqliteCheckpointer::in_memory().unwrap();
    place.put("t", &1).unwrap();
    assert_eq!(place.clone().get::<u8>("t").unwrap(), Some(1));
    assert!(SqliteCheckpointer::in_memory().unwrap().threads().unwrap().is_empty());
    assert!(taffrail::open("sqlite::memory:").unwrap().threads().unwrap().is_empty());
    assert!(!place.capabilities().shared_between_processes && !place.capabilities().persistent_checkpoint_ids);
}

#[test]
fn triggers_that_were_dropped_are_made_again() {
    let scratch = Scratch::new();
    let place = scratch.open().unwrap();
    place.put("t", &1).unwrap();
    place.put("t", &2).unwrap();
    drop(place);
    let other: Connection = scratch.other();
    other.execute_batch("DROP TRIGGER taffrail_gone; DELETE FROM checkpoints WHERE id = 1").unwrap();
    drop(other);
    let place = scratch.open().unwrap();
    assert_eq!(place.history::<u8>("t", None).unwrap().len(), 1);
    place.delete("t").unwrap();
    let left: i64 = scratch.other().query_row("SELECT count(*) FROM taffrail_checkpoints", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 0, "what was left of rows that went without it, and of those that went with it");
}
