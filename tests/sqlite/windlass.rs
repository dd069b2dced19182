//! Windlass and a place share one file: each reads what the other has written, and sees what it deletes.

use std::time::{Duration, SystemTime};

use rusqlite::Connection;
use taffrail::prelude::*;
use taffrail::{ErrorKind, ExpectedHead, HistoryQuery, Metadata, OnExisting, PutOptions, SqliteCheckpointer, ThreadQuery, TypeTag};

use crate::{Scratch, id, ids, put};

/// A row of windlass' table.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    id: i64,
    thread: String,
    state: String,
    saved_at: f64,
}

fn rows(connection: &Connection) -> Vec<Row> {
    let mut statement = connection.prepare("SELECT id, thread_id, state, saved_at FROM checkpoints ORDER BY id").unwrap();
    let row = |row: &rusqlite::Row<'_>| Ok(Row { id: row.get(0)?, thread: row.get(1)?, state: row.get(2)?, saved_at: row.get(3)? });
    statement.query_map([], row).unwrap().map(Result::unwrap).collect()
}

/// As windlass saves a step.
pub fn save(connection: &Connection, thread: &str, state: &str) -> i64 {
    let insert = "INSERT INTO checkpoints (thread_id, state, saved_at) VALUES (?1, ?2, ?3)";
    connection.execute(insert, (thread, state, 1_795_955_400.25)).unwrap();
    connection.last_insert_rowid()
}

/// As windlass keeps its newest.
pub fn prune(connection: &Connection, thread: &str, keep: i64) -> usize {
    let delete = "DELETE FROM checkpoints WHERE thread_id = ?1 AND id NOT IN
        (SELECT id FROM checkpoints WHERE thread_id = ?1 ORDER BY id DESC LIMIT ?2)";
    connection.execute(delete, (thread, keep)).unwrap()
}

/// As windlass loads a thread, lists its steps, and lists threads.
pub fn load(connection: &Connection, thread: &str) -> Option<String> {
    let select = "SELECT state FROM checkpoints WHERE thread_id = ?1 ORDER BY id DESC LIMIT 1";
    connection.query_row(select, [thread], |row| row.get(0)).ok()
}

fn texts(connection: &Connection, sql: &str) -> Vec<String> {
    connection.prepare(sql).unwrap().query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

#[test]
fn a_run_of_windlass_opens_and_every_row_is_read_exactly() {
    let scratch = Scratch::of_windlass();
    let before = rows(&scratch.other());
    assert_eq!(before.len(), 64);
    let place = scratch.open().unwrap();
    assert_eq!(place.threads().unwrap(), ["approvals/42", "thread-1", "ünïcode"]);
    for thread in place.threads().unwrap() {
        let wanted: Vec<&Row> = before.iter().rev().filter(|row| row.thread == thread).collect();
        let read: Vec<_> = place.history_bytes(&thread, &HistoryQuery::default()).unwrap().map(Result::unwrap).collect();
        assert_eq!(read.len(), wanted.len());
        for (at, (read, row)) in read.iter().zip(&wanted).enumerate() {
            assert_eq!((&*read.state, read.id.as_str(), read.seq), (row.state.as_bytes(), &*row.id.to_string(), row.id as u64));
            assert_eq!(read.parent.as_ref().map(CheckpointId::to_string), wanted.get(at + 1).map(|row| row.id.to_string()));
            assert_eq!((&read.tag, read.metadata.as_str(), read.bytes), (&TypeTag::JSON, "{}", row.state.len() as u64));
            let seconds = read.saved_at.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
            assert_eq!(seconds, row.saved_at, "the time is the row's own number");
            assert_eq!(*place.load_bytes(&thread, &read.id).unwrap().unwrap().state, *read.state);
        }
        let info = place.list_threads(&ThreadQuery::default()).unwrap().map(Result::unwrap).find(|info| info.thread == thread).unwrap();
        assert_eq!((info.checkpoints, info.bytes), (wanted.len() as u64, wanted.iter().map(|row| row.state.len() as u64).sum()));
        let value: serde_json::Value = place.get(&thread).unwrap().unwrap();
        assert!(value.is_object());
    }
    drop(place);
    assert_eq!(rows(&scratch.other()), before, "reading changes none of its rows");
    assert_eq!(scratch.names(), ["place.db"], "nothing is left beside a file that is closed");
    assert_eq!(SqliteCheckpointer::options().create(false).open(scratch.file()).unwrap().threads().unwrap().len(), 3);
}

#[test]
fn windlass_reads_what_is_put() {
    for scratch in [Scratch::new(), Scratch::of_windlass()] {
        let place = scratch.open().unwrap();
        let text = "{\"n\": 18446744073709551616,\n \"é\\u0000\": [1.0]}";
        let at = SystemTime::UNIX_EPOCH + Duration::new(1_800_000_000, 250_000_001);
        let options = PutOptions::default().id(id("step-1")).metadata(Metadata::from_json("{\"a\":1}").unwrap()).saved_at(at);
        place.put_bytes("trip", TypeTag::JSON, b"{}", PutOptions::default()).unwrap();
        place.put_bytes("trip", TypeTag::JSON, text.as_bytes(), options).unwrap();
        let windlass = scratch.other();
        assert_eq!(load(&windlass, "trip").as_deref(), Some(text));
        let all = rows(&windlass);
        assert_eq!(all.last().unwrap().saved_at, 1_800_000_000.25);
        assert_eq!(place.head("trip").unwrap().unwrap().saved_at, at, "to the nanosecond");
        assert_eq!(place.head("trip").unwrap().unwrap().seq, all.last().unwrap().id as u64);
        let types =
            texts(&windlass, "SELECT DISTINCT typeof(id) || typeof(thread_id) || typeof(state) || typeof(saved_at) FROM checkpoints");
        assert_eq!(types, ["integertexttextreal"]);
        // An id put again stands in the row that it had.
        put(&place, "trip", "later", b"\xff");
        place.put_bytes("trip", TypeTag::JSON, b"[2]", PutOptions::default().id(id("step-1"))).unwrap();
        let states = texts(&windlass, "SELECT state FROM checkpoints WHERE thread_id = 'trip' ORDER BY id DESC");
        assert_eq!(states[1..], ["[2]", "{}"]);
        // What is no JSON is told of as JSON.
        let told: String = serde_json::from_str(&states[0]).unwrap();
        assert_eq!(told, "1 bytes that are no JSON: see taffrail_checkpoints");
        let threads = texts(&windlass, "SELECT DISTINCT thread_id FROM checkpoints ORDER BY thread_id");
        assert_eq!(threads, place.threads().unwrap());
        assert_eq!(texts(&windlass, "PRAGMA integrity_check"), ["ok"]);
    }
}

#[test]
fn what_windlass_adds_and_deletes_is_seen() {
    let scratch = Scratch::of_windlass();
    let (place, windlass) = (scratch.open().unwrap(), scratch.other());
    put(&place, "t", "a", b"1");
    place.attach("t", &id("a"), "k", TypeTag::BYTES, b"1", OnExisting::Keep).unwrap();
    place.retain(Some("t"), Some(4)).unwrap();
    let added = save(&windlass, "t", "{\"by\": \"windlass\"}").to_string();
    let head = place.get_bytes("t").unwrap().unwrap();
    assert_eq!((&*head.state, head.id.as_str(), head.parent.as_ref()), (&b"{\"by\": \"windlass\"}"[..], &*added, Some(&id("a"))));
    place.attach("t", &id(&added), "k", TypeTag::BYTES, b"2", OnExisting::Keep).unwrap();
    // It is a head, a parent and a point like any other.
    let expecting = |head: &str| PutOptions::default().expected_head(ExpectedHead::Id(id(head)));
    assert_eq!(place.put_bytes("t", TypeTag::JSON, b"3", expecting("a")).unwrap_err().kind(), ErrorKind::Conflict);
    place.put_bytes("t", TypeTag::JSON, b"3", expecting(&added).id(id("c"))).unwrap();
    assert_eq!(place.head("t").unwrap().unwrap().parent, Some(id(&added)));
    let newer = HistoryQuery { after: Some(id(&added)), ..HistoryQuery::default() };
    assert_eq!(place.list("t", &newer).unwrap().map(|info| info.unwrap().id).collect::<Vec<_>>(), [id("c")]);
    assert_eq!(place.locate(&id(&added)).unwrap(), ["t"]);
    // Put again it is ours, in its row.
    place.put_bytes("t", TypeTag::BYTES, b"\0", PutOptions::default().id(id(&added))).unwrap();
    assert_eq!(ids(&place, "t"), ["c", &added, "a"]);
    assert_eq!(&*place.load_bytes("t", &id(&added)).unwrap().unwrap().state, b"\0");
    assert_eq!(place.load_bytes("t", &id(&added)).unwrap().unwrap().parent, Some(id("a")));
    assert_eq!(place.attachments("t", &id(&added)).unwrap().len(), 1, "it keeps what is attached to it");
    // What windlass prunes is gone, with what was attached to it.
    assert_eq!(prune(&windlass, "t", 1), 2);
    assert_eq!(ids(&place, "t"), ["c"]);
    for gone in ["a", &added] {
        assert!(place.load_bytes("t", &id(gone)).unwrap().is_none() && place.attachments("t", &id(gone)).unwrap().is_empty(), "{gone}");
    }
    put(&place, "t", "a", b"again");
    assert!(place.attachments("t", &id("a")).unwrap().is_empty(), "an id made again begins without any");
    // With the last row the thread ends, and its own number with it.
    prune(&windlass, "t", 0);
    assert!(!place.exists("t").unwrap() && !place.delete("t").unwrap());
    (0..6).for_each(|step| drop(place.put("t", &step).unwrap()));
    assert_eq!(ids(&place, "t").len(), 6, "a place that windlass began keeps all");
    assert_eq!(texts(&windlass, "SELECT name FROM taffrail_checkpoints WHERE id NOT IN (SELECT id FROM checkpoints)"), [""; 0]);
}

#[test]
fn what_waits_for_a_checkpoint_goes_when_windlass_prunes_what_is_older() {
    let scratch = Scratch::new();
    let (place, windlass) = (scratch.open().unwrap(), scratch.other());
    put(&place, "t", "a", b"1");
    place.attach("t", &id("never"), "k", TypeTag::BYTES, b"1", OnExisting::Keep).unwrap();
    save(&windlass, "t", "2");
    assert_eq!(place.attachments("t", &id("never")).unwrap().len(), 1);
    prune(&windlass, "t", 1);
    assert!(place.attachments("t", &id("never")).unwrap().is_empty());
    put(&place, "t", "never", b"3");
    assert!(place.attachments("t", &id("never")).unwrap().is_empty(), "it does not come back");
}

#[test]
fn an_id_that_looks_like_a_row_to_come_stays_its_own() {
    let scratch = Scratch::new();
    let (place, windlass) = (scratch.open().unwrap(), scratch.other());
    put(&place, "t", "3", b"ours");
    put(&place, "u", "4", b"another thread's");
    // Row 3 of the same thread, which cannot have that id; and row 4, which can, because u is another thread.
    assert_eq!((save(&windlass, "t", "3"), save(&windlass, "t", "4")), (3, 4));
    let found = ids(&place, "t");
    assert_eq!((found[0].as_str(), found[2].as_str()), ("4", "3"));
    assert!(found[1].starts_with("3-") && found[1].len() == 18, "{found:?}");
    assert_eq!(&*place.load_bytes("t", &id("3")).unwrap().unwrap().state, b"ours");
    assert_eq!(&*place.load_bytes("t", &id(&found[1])).unwrap().unwrap().state, b"3");
    assert_eq!(place.head("t").unwrap().unwrap().parent, Some(id(&found[1])));
    assert_eq!(place.locate(&id("4")).unwrap(), ["t", "u"]);
    assert!(place.delete_checkpoint("t", &id(&found[1])).unwrap());
    assert_eq!(ids(&place, "t"), ["4", "3"]);
    // Our own row of that number has the id that it was put under.
    put(&place, "v", "6", b"first");
    put(&place, "v", "second", b"second");
    assert_eq!(ids(&place, "v"), ["second", "6"]);
}

#[test]
fn a_number_is_given_once_whoever_deletes() {
    let scratch = Scratch::of_windlass();
    let (place, windlass) = (scratch.open().unwrap(), scratch.other());
    put(&place, "t", "a", b"1");
    assert_eq!(place.head("t").unwrap().unwrap().seq, 75);
    windlass.execute("DELETE FROM checkpoints", []).unwrap();
    assert!(place.threads().unwrap().is_empty());
    put(&place, "t", "a", b"2");
    assert_eq!(place.head("t").unwrap().unwrap().seq, 76);
    assert_eq!(save(&windlass, "t", "3"), 77);
}

#[test]
fn what_a_place_keeps_is_its_own_setting() {
    let scratch = Scratch::of_windlass();
    let place = scratch.open().unwrap();
    place.put("thread-1", &1).unwrap();
    assert_eq!(ids(&place, "thread-1").len(), 51, "nobody has set a number");
    drop(place);
    let place = SqliteCheckpointer::options().max_history(5).open(scratch.file()).unwrap();
    assert_eq!(["thread-1", "approvals/42", "ünïcode"].map(|thread| ids(&place, thread).len()), [5, 5, 5]);
    // Rows that windlass adds count with the next put.
    (0..4).for_each(|_| assert!(save(&scratch.other(), "thread-1", "{}") > 74));
    assert_eq!(ids(&place, "thread-1").len(), 9);
    place.put("thread-1", &2).unwrap();
    assert_eq!(ids(&place, "thread-1").len(), 5);
    drop(place);
    let fresh = Scratch::new();
    let place = fresh.open().unwrap();
    (0..60).for_each(|step| drop(place.put("t", &step).unwrap()));
    assert_eq!(ids(&place, "t").len(), 50, "a new place keeps 50");
    assert_eq!(SqliteCheckpointer::options().max_history(0).open(fresh.file()).unwrap_err().kind(), ErrorKind::InvalidInput);
}

/// Rows whose thread nobody can name are in no list, and stand in the way of no other.
#[test]
fn rows_of_no_thread_are_passed_over() {
    let scratch = Scratch::new();
    let place = scratch.open().unwrap();
    let windlass = Connection::open(scratch.file()).unwrap();
    save(&windlass, "", "1");
    save(&windlass, &"x".repeat(4097), "1");
    windlass.execute("INSERT INTO checkpoints (thread_id, state, saved_at) VALUES (x'ff00', '1', 1.0)", []).unwrap();
    let named = save(&windlass, "t", "2");
    assert_eq!(place.threads().unwrap(), ["t"]);
    assert_eq!(place.locate(&id(&named.to_string())).unwrap(), ["t"]);
    assert_eq!(place.locate(&id("1")).unwrap(), [""; 0]);
    place.retain(None, Some(1)).unwrap();
    let dest = taffrail::MemoryCheckpointer::new();
    assert_eq!(taffrail::copy(&place, &dest, &mut |_| {}).unwrap().put, 1);
    assert_eq!(windlass.query_row("SELECT count(*) FROM checkpoints", [], |row| row.get::<_, i64>(0)).unwrap(), 4, "they stay");
}
