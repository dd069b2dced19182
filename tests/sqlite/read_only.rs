//! A file that is opened to be read alone: nothing of it is changed, and nothing that others write is missed.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use taffrail::prelude::*;
use taffrail::{ErrorKind, HistoryQuery, MemoryCheckpointer, OnExisting, PutOptions, SqliteCheckpointer, TypeTag};

use crate::{Scratch, id, ids, put};

fn to_read(scratch: &Scratch) -> taffrail::Result<SqliteCheckpointer> {
    SqliteCheckpointer::options().read_only(true).open(scratch.file())
}

type Shown = Vec<(String, Vec<u8>, TypeTag, Vec<Vec<u8>>)>;

/// Each thread's checkpoints with their states and what is attached to them.
fn shown(place: &dyn Checkpointer) -> Vec<(String, Shown)> {
    let of = |thread: String| {
        let all = place.history_bytes(&thread, &HistoryQuery::default()).unwrap().map(Result::unwrap);
        let attached = |id: &CheckpointId| place.attachments(&thread, id).unwrap().into_iter().map(|one| one.value.to_vec()).collect();
        let shown = all.map(|read| (read.id.to_string(), read.state.to_vec(), read.tag.clone(), attached(&read.id))).collect();
        (thread, shown)
    };
    place.threads().unwrap().into_iter().map(of).collect()
}

#[test]
fn a_run_of_windlass_is_read_without_a_change() {
    let scratch = Scratch::of_windlass();
    let before = fs::read(scratch.file()).unwrap();
    let place = to_read(&scratch).unwrap();
    let read = shown(&place);
    assert_eq!((read.len(), place.max_history(None).unwrap()), (3, None));
    let writes = [
        place.put("t", &1).map(drop),
        place.delete("thread-1").map(drop),
        place.retain(None, Some(1)),
        place.attach("t", &id("a"), "k", TypeTag::BYTES, b"", OnExisting::Keep).map(drop),
    ];
    for answer in writes {
        let error = answer.unwrap_err();
        assert_eq!((error.kind(), error.file().unwrap().0), (ErrorKind::ReadOnly, &*scratch.file()));
    }
    let copy = MemoryCheckpointer::with_max_history(None).unwrap();
    taffrail::copy(&place, &copy, &mut |_| ()).unwrap();
    assert_eq!(shown(&copy), read);
    drop(place);
    assert!(fs::read(scratch.file()).unwrap() == before, "the file is as it was");
    assert_eq!(scratch.names(), ["place.db"]);
    assert_eq!(shown(&scratch.open().unwrap()), read, "a writer reads the same");
}

#[test]
fn what_others_make_of_the_file_is_seen() {
    let scratch = Scratch::of_windlass();
    let reader = to_read(&scratch).unwrap();
    assert_eq!(reader.threads().unwrap().len(), 3);
    // Makes the tables that the reader has stood in for.
    let writer = scratch.open().unwrap();
    put(&writer, "bytes", "own id", b"\xff no JSON");
    writer.attach("bytes", &id("own id"), "key", TypeTag::BYTES, b"value", OnExisting::Keep).unwrap();
    writer.retain(Some("thread-1"), Some(2)).unwrap();
    assert_eq!(shown(&reader), shown(&writer));
    assert_eq!((ids(&reader, "bytes"), reader.max_history(Some("thread-1")).unwrap()), (vec!["own id".to_owned()], Some(2)));
    drop(writer);
    let again = to_read(&scratch).unwrap();
    assert_eq!(shown(&again), shown(&reader));
}

#[test]
fn a_log_that_a_killed_writer_left_is_read_and_stays() {
    let scratch = Scratch::new();
    let writer = scratch.open().unwrap();
    put(&writer, "t", "a", b"1");
    put(&writer, "t", "b", b"2");
    // As a kill leaves them.
    let files = ["place.db", "place.db-wal"].map(|name| (name, fs::read(scratch.file().with_file_name(name)).unwrap()));
    let killed = Scratch::new();
    for (name, bytes) in &files {
        fs::write(killed.file().with_file_name(name), bytes).unwrap();
    }
    let reader = to_read(&killed).unwrap();
    assert_eq!(ids(&reader, "t"), ["b", "a"]);
    drop(reader);
    for (name, bytes) in &files {
        assert!(fs::read(killed.file().with_file_name(name)).unwrap() == *bytes, "{name} is as it was");
    }
}

#[test]
fn a_log_behind_a_link_stays_and_an_empty_one_goes() {
    let scratch = Scratch::new();
    put(&scratch.open().unwrap(), "t", "a", b"1");
    let before = fs::read(scratch.file()).unwrap();
    assert_eq!(ids(&to_read(&scratch).unwrap(), "t"), ["a"]);
    assert_eq!(scratch.names(), ["place.db"]);
    let writer = scratch.open().unwrap();
    put(&writer, "t", "b", b"2");
    let log = fs::read(scratch.file().with_file_name("place.db-wal")).unwrap();
    // As a kill leaves them, and by another name.
    let (left, links) = (Scratch::new(), Scratch::new());
    fs::write(left.file(), &before).unwrap();
    fs::write(left.file().with_file_name("place.db-wal"), &log).unwrap();
    std::os::unix::fs::symlink(left.file(), links.file()).unwrap();
    assert_eq!(ids(&to_read(&links).unwrap(), "t"), ["b", "a"]);
    assert!(fs::read(left.file()).unwrap() == before, "the file is as it was");
    assert!(fs::read(left.file().with_file_name("place.db-wal")).unwrap() == log, "and so is its log");
}

#[test]
fn nothing_is_made_and_what_cannot_be_asked_is_refused() {
    let scratch = Scratch::new();
    assert_eq!(to_read(&scratch).unwrap_err().kind(), ErrorKind::NotFound);
    assert!(scratch.names().is_empty());
    fs::write(scratch.file(), b"").unwrap();
    assert_eq!(to_read(&scratch).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(fs::metadata(scratch.file()).unwrap().len(), 0);
    let asked = SqliteCheckpointer::options().read_only(true);
    assert_eq!(asked.clone().max_history(3).open(scratch.file()).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(asked.open(":memory:").unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn a_file_that_may_not_be_written_is_read() {
    let scratch = Scratch::of_windlass();
    fs::set_permissions(scratch.file(), fs::Permissions::from_mode(0o444)).unwrap();
    assert_eq!(shown(&to_read(&scratch).unwrap()).len(), 3);
    let options = PutOptions::default().id(id("x"));
    let answer = to_read(&scratch).unwrap().put_bytes("t", TypeTag::JSON, b"1", options);
    assert_eq!(answer.unwrap_err().kind(), ErrorKind::ReadOnly);
}
