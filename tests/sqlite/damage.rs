//! Bytes that are not as they were written, and disks that are full.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use taffrail::prelude::*;
use taffrail::{Checkpoint, ErrorKind, HistoryQuery, Metadata, OnExisting, PutOptions, SqliteCheckpointer, TypeTag};

use crate::{Scratch, id, ids, mounts, put};

#[test]
fn a_state_that_was_changed_is_told_and_costs_no_other() {
    let scratch = Scratch::new();
    let place = scratch.open().unwrap();
    for own in ["a", "b", "c"] {
        place.put_bytes("t", TypeTag::JSON, b"{\"amount\": 100}", PutOptions::default().id(id(own))).unwrap();
        put(&place, "u", own, b"bytes");
        place.attach("t", &id(own), "k", TypeTag::BYTES, b"value", OnExisting::Keep).unwrap();
    }
    let other = scratch.other();
    for sql in [
        "UPDATE checkpoints SET state = '{\"amount\": 999}' WHERE thread_id = 't' AND id = (SELECT id FROM taffrail_checkpoints WHERE thread = 't' AND name = 'b')",
        "UPDATE taffrail_checkpoints SET data = x'00' WHERE thread = 'u' AND name = 'b'",
        "UPDATE taffrail_attachments SET value = x'00' WHERE name = 'b'",
    ] {
        assert_eq!(other.execute(sql, []).unwrap(), 1);
    }
    for thread in ["t", "u"] {
        let error = place.load_bytes(thread, &id("b")).unwrap_err();
        assert!(error.kind() == ErrorKind::Corrupt && error.thread() == Some(thread) && error.file().is_some(), "{error:?}");
        let history: Vec<_> = place.history_bytes(thread, &HistoryQuery::default()).unwrap().collect();
        assert!(history.len() == 2 && history[0].is_ok(), "an iterator ends after an error");
        assert_eq!(history[1].as_ref().unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(ids(&place, thread), ["c", "b", "a"]);
        assert!(place.load_bytes(thread, &id("a")).unwrap().is_some() && place.get_bytes(thread).unwrap().is_some());
        put(&place, thread, "b", b"mended");
        assert_eq!(&*place.load_bytes(thread, &id("b")).unwrap().unwrap().state, b"mended");
    }
    assert_eq!(place.attachments("t", &id("b")).unwrap_err().kind(), ErrorKind::Corrupt);
    other.execute("UPDATE taffrail_checkpoints SET metadata = '{\"other\":1}' WHERE thread = 't' AND name = 'b'", []).unwrap();
    let listed: Vec<_> = place.list("t", &HistoryQuery::default()).unwrap().map(|info| info.map(|info| info.id)).collect();
    assert!(listed.len() == 2 && *listed[0].as_ref().unwrap() == id("c"), "{listed:?}");
    assert_eq!(listed[1].as_ref().unwrap_err().kind(), ErrorKind::Corrupt);
    assert!(place.delete_checkpoint("t", &id("b")).unwrap());
    assert_eq!(ids(&place, "t"), ["c", "a"]);
    assert_eq!(place.attachments("t", &id("c")).unwrap().len(), 1);
}

/// What is known of a checkpoint, and its state.
type Seen = (String, String, Option<String>, String, String, Vec<u8>);

/// Whatever byte is another one: what is answered was put so, or it is an error with a kind for it. A row
/// that has lost its own of ours is as one of windlass', with its number for an id.
#[test]
fn a_changed_byte_anywhere_is_no_wrong_state() {
    let scratch = Scratch::new();
    let place = scratch.open().unwrap();
    for step in 0..8 {
        let text = format!("{{\"step\": {step}, \"text\": \"{}\"}}", "ab".repeat(step * 400));
        for (tag, thread) in [(TypeTag::JSON, "json"), (TypeTag::BYTES, "bytes")] {
            let metadata = Metadata::from_json(format!("{{\"step\": {step}}}")).unwrap();
            let options = PutOptions::default().id(id(&format!("s{step}"))).metadata(metadata);
            place.put_bytes(thread, tag, text.as_bytes(), options).unwrap();
        }
    }
    drop(place);
    let put_so: BTreeSet<Seen> = read_all(&scratch).unwrap().into_iter().collect();
    assert_eq!((put_so.len(), scratch.names()), (16, vec!["place.db".to_owned()]));
    let states: BTreeSet<&[u8]> = put_so.iter().map(|seen| &*seen.5).collect();
    let original = fs::read(scratch.file()).unwrap();
    let (mut told, mut whole) = (0, 0);
    for at in (0..original.len()).step_by(23) {
        let mut changed = original.clone();
        changed[at] ^= 1 << (at % 8);
        for name in scratch.names() {
            fs::remove_file(scratch.0.path().join(name)).unwrap();
        }
        fs::write(scratch.file(), &changed).unwrap();
        match read_all(&scratch) {
            Ok(read) => {
                for seen in read {
                    let as_windlass = seen.1.parse::<u64>().is_ok() && states.contains(&*seen.5);
                    assert!(put_so.contains(&seen) || as_windlass, "byte {at} makes what nobody put: {seen:?}");
                }
                whole += 1;
            }
            Err(error) => {
                let kinds = [ErrorKind::Corrupt, ErrorKind::Unsupported, ErrorKind::Io, ErrorKind::ReadOnly];
                assert!(kinds.contains(&error.kind()) && error.file().is_some(), "byte {at}: {error:?}");
                told += 1;
            }
        }
    }
    assert!(told > 100 && whole > 100, "{told} told, {whole} without effect");
}

fn read_all(scratch: &Scratch) -> taffrail::Result<Vec<Seen>> {
    let place = SqliteCheckpointer::options().create(false).open(scratch.file())?;
    let mut all = Vec::new();
    for thread in place.threads()? {
        for read in place.history_bytes(&thread, &HistoryQuery::default())? {
            let Checkpoint { info, state } = read?;
            let parent = info.parent.map(|parent| parent.to_string());
            all.push((
                thread.clone(),
                info.id.to_string(),
                parent,
                info.tag.to_string(),
                info.metadata.as_str().to_owned(),
                state.into_vec(),
            ));
        }
    }
    Ok(all)
}

#[test]
fn a_row_that_cannot_be_shown_is_told() {
    let scratch = Scratch::new();
    let place = scratch.open().unwrap();
    for (thread, values) in [("time", "9, 'time', '1', 'noon'"), ("below", "-4, 'below', '1', 1.5"), ("far", "10, 'far', '1', 1e30")] {
        scratch.other().execute(&format!("INSERT INTO checkpoints VALUES ({values})"), []).unwrap();
        let error = place.get_bytes(thread).unwrap_err();
        assert!(error.kind() == ErrorKind::Corrupt && error.thread() == Some(thread), "{error:?}");
        let listed: Vec<_> = place.list(thread, &HistoryQuery::default()).unwrap().collect();
        assert!(listed.len() == 1 && listed[0].as_ref().is_err_and(|error| error.kind() == ErrorKind::Corrupt), "{listed:?}");
        assert!(place.delete(thread).unwrap());
    }
    assert!(place.threads().unwrap().is_empty());
    // Bytes where windlass writes text are read as such.
    scratch.other().execute("INSERT INTO checkpoints VALUES (11, 'blob', x'00ff', 1.5)", []).unwrap();
    let read = place.get_bytes("blob").unwrap().unwrap();
    assert_eq!((&*read.state, &read.tag), (&[0, 255][..], &TypeTag::BYTES));
}

const MOUNTED: &str = "TAFFRAIL_TEST_SQLITE_FULL_DISK";

/// Runs in a mount namespace of its own, where the directory is a small tmpfs.
#[test]
fn inside_a_small_disk() {
    let Some(disk) = std::env::var_os(MOUNTED) else { return };
    for mode in ["WAL", "DELETE"] {
        fill(Path::new(&disk), mode);
    }
    println!("full disk: done");
}

fn fill(disk: &Path, mode: &str) {
    let (file, ballast) = (disk.join("place.db"), disk.join("ballast"));
    drop(SqliteCheckpointer::options().max_history(None).open(&file).unwrap());
    let set = |row: &rusqlite::Row<'_>| row.get::<_, String>(0);
    rusqlite::Connection::open(&file).unwrap().query_row(&format!("PRAGMA journal_mode = {mode}"), [], set).unwrap();
    fs::write(&ballast, vec![1; 200_000]).unwrap();
    let place = SqliteCheckpointer::open(&file).unwrap();
    let state = |step: usize| vec![step as u8; 50_000];
    let mut done = 0;
    let error = loop {
        match place.put_bytes("t", TypeTag::BYTES, &state(done), PutOptions::default().id(id(&format!("s{done}")))) {
            Ok(_) => done += 1,
            Err(error) => break error,
        }
    };
    assert!(error.kind() == ErrorKind::DiskFull && done > 5, "{mode}: {error:?} after {done}");
    let check = |place: &SqliteCheckpointer| {
        assert_eq!(ids(place, "t").len(), done, "{mode}");
        for step in 0..done {
            assert!(*place.load_bytes("t", &id(&format!("s{step}"))).unwrap().unwrap().state == *state(step), "{mode}: step {step}");
        }
    };
    check(&place);
    fs::remove_file(&ballast).unwrap();
    place.put("u", &1).unwrap();
    check(&place);
    drop(place);
    let place = SqliteCheckpointer::open(&file).unwrap();
    check(&place);
    assert_eq!(place.get::<u8>("u").unwrap(), Some(1));
    drop(place);
    // Where the log had no room to be carried over it waits beside the file.
    fs::read_dir(disk).unwrap().for_each(|entry| fs::remove_file(entry.unwrap().path()).unwrap());
}

#[test]
fn a_full_disk_refuses_and_loses_nothing() {
    let scratch = Scratch::new();
    mounts::inside("mount -t tmpfs -o size=2m tmpfs \"$1\"", scratch.0.path(), "damage::inside_a_small_disk", MOUNTED, "full disk: done");
}
