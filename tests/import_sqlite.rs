//! Databases of windlass and LangGraph: what each row becomes, what is named, and that the source stays as it is.

#![cfg(feature = "sqlite")]

#[path = "import_sqlite/beside.rs"]
mod beside;
#[path = "import_sqlite/ended.rs"]
mod ended;
#[path = "import_sqlite/made.rs"]
mod made;
#[path = "import_sqlite/odd.rs"]
mod odd;

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use made::{Imported, data, ids, imported, langgraph, put, put_langgraph};
use taffrail::import::Database;
use taffrail::prelude::*;
use taffrail::{ErrorKind, MemoryCheckpointer, OnExisting, TypeTag};

/// The files of a folder: names, contents and times.
fn files(dir: &Path) -> Vec<(PathBuf, Vec<u8>, SystemTime)> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    let mut files: Vec<_> =
        entries.map(|path| (path.clone(), std::fs::read(&path).unwrap(), path.metadata().unwrap().modified().unwrap())).collect();
    files.sort();
    files
}

fn memory() -> MemoryCheckpointer {
    MemoryCheckpointer::with_max_history(None).unwrap()
}

#[test]
fn a_run_of_windlass_is_there_row_by_row() {
    let place = memory();
    let Imported { carried, left } = imported(&data("windlass-run.db"), &place);
    assert_eq!((carried.put, carried.skipped(), carried.refused, left.len()), (64, 0, 0, 0));
    let rows = made::rows(&data("windlass-run.db"), "SELECT id, thread_id, state, saved_at FROM checkpoints ORDER BY id", |row| {
        (
            row.get::<_, i64>(0).unwrap().to_string(),
            row.get::<_, String>(1).unwrap(),
            row.get::<_, String>(2).unwrap(),
            row.get::<_, f64>(3).unwrap(),
        )
    });
    let mut before: std::collections::HashMap<String, CheckpointId> = Default::default();
    for (id, thread, state, saved_at) in rows {
        let id = CheckpointId::new(id).unwrap();
        let step = place.load_bytes(&thread, &id).unwrap().unwrap();
        assert_eq!((&step.state[..], &step.info.tag), (state.as_bytes(), &TypeTag::JSON));
        assert_eq!(step.info.parent, before.insert(thread, id));
        let seconds = step.info.saved_at.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
        assert_eq!(seconds, saved_at, "the very number");
    }
    assert_eq!(imported(&data("windlass-run.db"), &place).carried.present, 64);
}

#[test]
fn a_run_of_langgraph_is_there_with_its_writes_and_its_newest_is_the_newest() {
    let place = memory();
    let Imported { carried, left } = imported(&data("langgraph-run.db"), &place);
    assert_eq!((carried.put, carried.attached, carried.refused, left.len()), (44, 124, 0, 0));
    let newest = "SELECT thread_id, max(checkpoint_id), parent_checkpoint_id, type, checkpoint, metadata FROM checkpoints GROUP BY 1";
    let rows = made::rows(&data("langgraph-run.db"), newest, |row| {
        let text = |at| row.get::<_, String>(at).unwrap();
        (text(0), text(1), text(2), text(3), row.get::<_, Vec<u8>>(4).unwrap(), row.get::<_, Vec<u8>>(5).unwrap())
    });
    for (thread, id, parent, tag, state, metadata) in rows {
        let head = place.get_bytes(&thread).unwrap().unwrap();
        assert_eq!(
            (head.info.id.as_str(), head.info.parent.unwrap().as_str(), head.info.tag.as_str()),
            (id.as_str(), parent.as_str(), tag.as_str())
        );
        assert_eq!((&head.state[..], head.info.metadata.as_str().as_bytes()), (&state[..], &metadata[..]));
    }
    // As LangGraph reads them.
    let order = "SELECT checkpoint_id, channel, type, value FROM writes WHERE thread_id = 'thread-1' ORDER BY checkpoint_id, task_id, idx";
    let writes = made::rows(&data("langgraph-run.db"), order, |row| {
        let text = |at| row.get::<_, String>(at).unwrap();
        (text(0), text(1), text(2), row.get::<_, Vec<u8>>(3).unwrap())
    });
    let attached = ids(&place, "thread-1").into_iter().flat_map(|id| {
        let attachments = place.attachments("thread-1", &CheckpointId::new(&id).unwrap()).unwrap();
        attachments
            .into_iter()
            .map(move |one| (id.clone(), one.key.split(' ').nth(2).unwrap().to_owned(), one.tag.to_string(), one.value.into_vec()))
    });
    assert_eq!(attached.collect::<Vec<_>>(), writes);
    let again = imported(&data("langgraph-run.db"), &place).carried;
    assert_eq!((again.put, again.present, again.attached), (0, 44, 0));
}

/// TF-J1 and TF-J3: twenty awkward rows, closed and killed.
#[test]
fn each_awkward_row_is_kept_exactly_or_named() {
    for file in ["langgraph-odd.db", "langgraph-killed/checkpoints.db"] {
        let place = memory();
        let before = files(data(file).parent().unwrap());
        let Imported { carried, left } = imported(&data(file), &place);
        assert_eq!(files(data(file).parent().unwrap()), before, "nothing was changed, made or touched");
        assert_eq!((carried.put, carried.skipped(), carried.refused, carried.attached), (19, 0, 1, 1));
        assert!(left[0].starts_with("thread \"\" checkpoint ") && left[0].ends_with(": a thread id cannot be empty"), "{left:?}");
        assert!(left[1].starts_with("thread \"nan\" ") && left[1].contains("metadata") && left[1].contains("byte 10"), "{left:?}");
        assert!(left[2].starts_with("thread \"orphan\" ") && left[2].ends_with("parent: not-there is not there"), "{left:?}");
        assert_eq!(left.len(), 3);
        let threads = place.threads().unwrap();
        let all = [
            "1",
            "a\0b",
            "bytes",
            "keys",
            "nan",
            "ns",
            "ns?checkpoint_ns=outer:x|inner:y",
            "nul",
            "orphan",
            "plain",
            "t1",
            "t2",
            "types",
            "u64",
        ];
        assert_eq!(threads, all);
        for thread in ["ns", "ns?checkpoint_ns=outer:x|inner:y"] {
            assert_eq!(ids(&place, thread), ["shared"]);
        }
        let states =
            ["ns", "ns?checkpoint_ns=outer:x|inner:y", "t1", "t2"].map(|thread| place.get_bytes(thread).unwrap().unwrap().state.into_vec());
        assert!(states.iter().enumerate().all(|(at, state)| !states[..at].contains(state)), "each has its own");
        assert_eq!((ids(&place, "plain").len(), ids(&place, "1").len()), (5, 2));
        let written = place.attachments("t1", &CheckpointId::new("same").unwrap()).unwrap();
        assert_eq!((written[0].key.as_str(), &written[0].value[..]), ("task 0000000000000000000 ch ", &b"\xa1v"[..]));
    }
    let odd = data("langgraph-odd.db");
    let place = memory();
    imported(&odd, &place);
    let rows = made::rows(
        &odd,
        "SELECT thread_id, checkpoint_id, checkpoint FROM checkpoints WHERE checkpoint_ns = '' AND thread_id <> ''",
        |row| (row.get::<_, String>(0).unwrap(), row.get::<_, String>(1).unwrap(), row.get::<_, Vec<u8>>(2).unwrap()),
    );
    assert_eq!(rows.len(), 18);
    for (thread, id, state) in rows {
        let step = place.load_bytes(&thread, &CheckpointId::new(&id).unwrap()).unwrap().unwrap();
        assert_eq!((&step.state[..], &step.info.tag), (&state[..], &TypeTag::MSGPACK), "{thread}");
    }
}

#[test]
fn without_its_wal_a_database_is_no_success() {
    let scratch = tempfile::tempdir().unwrap();
    let copy = scratch.path().join("checkpoints.db");
    std::fs::copy(data("langgraph-killed/checkpoints.db"), &copy).unwrap();
    for empty_wal in [false, true] {
        if empty_wal {
            std::fs::write(scratch.path().join("checkpoints.db-wal"), "").unwrap();
        }
        let before = files(scratch.path());
        let error = Database::open(&copy).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("is the -wal missing?") && error.file().unwrap().0 == copy, "{error}");
        assert_eq!(files(scratch.path()), before);
    }
    // A link leads to the file, and to what lies beside that.
    let link = scratch.path().join("link");
    std::os::unix::fs::symlink(data("langgraph-killed/checkpoints.db"), &link).unwrap();
    assert_eq!(imported(&link, &memory()).carried.put, 19);
}

#[test]
fn what_is_no_database_of_theirs_is_told() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("x.db");
    let refused = |kind: ErrorKind, words: &str| {
        let error = Database::open(&file).unwrap_err();
        assert!(error.kind() == kind && error.to_string().contains(words), "{error:?} should be {kind:?} and say {words:?}");
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), usize::from(file.exists()));
    };
    refused(ErrorKind::NotFound, "no such database");
    for (content, kind, words) in [
        (&b""[..], ErrorKind::InvalidInput, "is empty"),
        (b"{\"thread\":\"t\"}", ErrorKind::InvalidInput, "no SQLite database"),
        (&[7; 5000], ErrorKind::InvalidInput, "no SQLite database"),
        (b"SQLite format 3\0", ErrorKind::Corrupt, "within its header"),
    ] {
        std::fs::write(&file, content).unwrap();
        refused(kind, words);
    }
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    refused(ErrorKind::InvalidInput, "no plain file");
    std::fs::remove_dir(&file).unwrap();
    for (sql, words) in [
        ("CREATE TABLE other(x)", "no checkpoint tables here: neither"),
        ("CREATE TABLE checkpoints(id, thread_id, state)", "no checkpoint tables"),
        ("CREATE TABLE taffrail_place(one); CREATE TABLE checkpoints(id, thread_id, state, saved_at)", "a place of our own"),
        ("CREATE VIEW checkpoints AS SELECT 1 AS id, 't' AS thread_id, '1' AS state, 1.0 AS saved_at", "no checkpoint tables"),
        (
            "CREATE TABLE checkpoints(id INTEGER PRIMARY KEY, thread_id, state, saved_at, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata)",
            "which it is cannot be told",
        ),
        (
            "CREATE TABLE writes(x); CREATE TABLE checkpoints(thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata)",
            "`writes`",
        ),
    ] {
        let connection = rusqlite::Connection::open(&file).unwrap();
        connection.execute_batch(sql).unwrap();
        connection.close().unwrap();
        refused(ErrorKind::Unsupported, words);
        std::fs::remove_file(&file).unwrap();
    }
}

/// A file that was cut anywhere is damage, or it is all there.
#[test]
fn a_cut_file_is_never_less_with_success() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("x.db");
    for name in ["windlass-run.db", "langgraph-odd.db"] {
        let whole = std::fs::read(data(name)).unwrap();
        let step = if whole.len() > 100_000 { 10_007 } else { 509 };
        for length in (0..whole.len()).step_by(step).chain([whole.len() - 1]) {
            std::fs::write(&file, &whole[..length]).unwrap();
            let kind = match Database::open(&file) {
                Err(error) => error.kind(),
                Ok(database) => database.carry_to(&memory(), &mut |_| {}).unwrap_err().kind(),
            };
            assert!(length == 0 || kind == ErrorKind::Corrupt || length < 16, "{name} cut to {length}: {kind:?}");
        }
    }
}

/// A changed byte is refused, costs what it changed, or is not noticed; the rest is as the fuzz target asks.
#[test]
fn a_changed_byte_is_met_without_a_panic() {
    let wal = std::fs::read(data("langgraph-killed/checkpoints.db-wal")).unwrap();
    for (name, wal, step) in [("langgraph-odd.db", Vec::new(), 211), ("langgraph-killed/checkpoints.db", wal, 2003)] {
        let file = std::fs::read(data(name)).unwrap();
        let input = [&(file.len() as u32).to_le_bytes()[..], &file, &wal].concat();
        assert!(taffrail::testing::fuzzing::database(&input));
        for at in (4..104).chain((104..input.len()).step_by(step)) {
            let mut changed = input.clone();
            changed[at] = changed[at].wrapping_add(1 + (at % 255) as u8);
            taffrail::testing::fuzzing::database(&changed);
        }
    }
}

#[test]
fn what_is_there_already_is_left_as_it_is() {
    let place = memory();
    place.put("plain", &1).unwrap();
    let Imported { carried, left } = imported(&data("langgraph-odd.db"), &place);
    assert_eq!((carried.put, carried.diverged, carried.refused), (14, 5, 1));
    assert!(left.iter().any(|line| line.starts_with("thread \"plain\":") && line.contains("not there in the same order")), "{left:?}");
    assert_eq!(place.get::<i32>("plain").unwrap(), Some(1));
    let keeping = MemoryCheckpointer::with_max_history(3).unwrap();
    let carried = imported(&data("windlass-run.db"), &keeping).carried;
    let threads = keeping.threads().unwrap();
    assert_eq!((carried.put, carried.too_old), (3 * threads.len() as u64, 64 - 3 * threads.len() as u64));
    let newest = ids(&keeping, "thread-1");
    let all =
        made::rows(&data("windlass-run.db"), "SELECT id FROM checkpoints WHERE thread_id = 'thread-1' ORDER BY id DESC LIMIT 3", |row| {
            row.get::<_, i64>(0).unwrap().to_string()
        });
    assert_eq!(newest.into_iter().rev().collect::<Vec<_>>(), all);
}

/// TF-J4: a second process whose clock was an hour behind. The order is that of ids, as LangGraph has it; what a
/// step followed that comes later in it is told.
#[test]
fn the_newest_is_what_langgraph_took_for_the_newest() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("x.db");
    let connection = langgraph(&file, "");
    put_langgraph(&connection, "t", "", "1f1ebf06-f817-6f77-bfff-953fa09f76b5", None);
    put_langgraph(&connection, "t", "", "1f1ebf06-f828-6026-8000-95e693bd04cf", Some("1f1ebf06-f817-6f77-bfff-953fa09f76b5"));
    put_langgraph(&connection, "t", "", "1f1eb67e-f82d-665d-8001-c221fc241d0b", Some("1f1ebf06-f828-6026-8000-95e693bd04cf"));
    connection.close().unwrap();
    let place = memory();
    let Imported { carried, left } = imported(&file, &place);
    assert_eq!((carried.put, carried.begun_anew), (3, 1));
    assert_eq!(
        left,
        [
            "thread \"t\" checkpoint \"1f1eb67e-f82d-665d-8001-c221fc241d0b\" parent: 1f1ebf06-f828-6026-8000-95e693bd04cf comes later in the order of ids"
        ]
    );
    assert_eq!(place.head("t").unwrap().unwrap().id.as_str(), "1f1ebf06-f828-6026-8000-95e693bd04cf");
}

#[test]
fn writes_whose_checkpoint_is_not_there_wait_for_it() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("x.db");
    let connection = langgraph(&file, "");
    put_langgraph(&connection, "t", "", "a", None);
    let write = "INSERT INTO writes VALUES (?1, '', ?2, 'task', '', ?3, 'ch', 'msgpack', x'01')";
    for (thread, id, idx) in [("t", "later", 0), ("t", "later", -3), ("only", "writes", 0)] {
        connection.execute(write, (thread, id, idx)).unwrap();
    }
    connection.close().unwrap();
    let place = memory();
    assert_eq!(imported(&file, &place).carried.attached, 3);
    assert_eq!(imported(&file, &place).carried.attached, 0);
    let keys = |thread: &str, id: &str| -> Vec<String> {
        place.attachments(thread, &CheckpointId::new(id).unwrap()).unwrap().into_iter().map(|one| one.key).collect()
    };
    assert_eq!(keys("t", "later"), ["task -9223372036854775805 ch ", "task 0000000000000000000 ch "]);
    assert_eq!((keys("only", "writes").len(), place.exists("only").unwrap()), (1, false));
    put(&place, "t", "later");
    assert_eq!(keys("t", "later").len(), 2, "it came");
    place.attach("t", &CheckpointId::new("a").unwrap(), "own", TypeTag::JSON, b"1", OnExisting::Keep).unwrap();
}
