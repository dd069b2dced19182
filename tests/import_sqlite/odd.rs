//! Rows that the two programs would not write, value by value: each is kept exactly or named.

use rusqlite::types::Value;
use rusqlite::{Connection, params};
use taffrail::TypeTag;
use taffrail::prelude::*;

use super::made::{Imported, ids, imported};
use super::memory;

fn blob(bytes: &[u8]) -> Value {
    Value::Blob(bytes.to_vec())
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

/// Columns without a type keep any value as it is.
#[test]
fn any_value_in_a_windlass_row_is_kept_or_named() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("x.db");
    let connection = Connection::open(&file).unwrap();
    connection.execute_batch("CREATE TABLE Checkpoints (ID INTEGER PRIMARY KEY, thread_id, state, saved_at)").unwrap();
    let (thread, state, at) = (text("t"), text("{\"n\":1}"), Value::Real(1.5));
    let rows = [
        (thread.clone(), state.clone(), at.clone()),
        (thread.clone(), text("{\"a\": NaN}"), at.clone()),
        (thread.clone(), text(" [18446744073709551616, 1.0, \"\\ud83d\"]\n"), Value::Integer(-7)),
        (thread.clone(), blob(b"{\"n\":1}"), at.clone()),
        (thread.clone(), Value::Null, at.clone()),
        (thread.clone(), Value::Integer(5), at.clone()),
        (thread.clone(), state.clone(), text("noon")),
        (thread.clone(), state.clone(), Value::Real(f64::INFINITY)),
        (thread.clone(), text(""), at.clone()),
        (Value::Null, state.clone(), at.clone()),
        (Value::Integer(1), state.clone(), at.clone()),
        (text("1"), state.clone(), at.clone()),
        (blob(b"t"), state.clone(), at.clone()),
        (text(""), state.clone(), at.clone()),
        (text("t\0u"), state.clone(), at.clone()),
        (text(&"x".repeat(4097)), state.clone(), at.clone()),
        (text(&"x".repeat(4096)), state.clone(), at.clone()),
    ];
    for (thread, state, at) in &rows {
        connection.execute("INSERT INTO checkpoints (thread_id, state, saved_at) VALUES (?1, ?2, ?3)", params![thread, state, at]).unwrap();
    }
    connection
        .execute_batch("INSERT INTO checkpoints VALUES (-5, CAST(x'ff' AS TEXT), '1', 1), (99, 't', CAST(x'22ff22' AS TEXT), 1)")
        .unwrap();
    connection.close().unwrap();
    let place = memory();
    let Imported { carried, left } = imported(&file, &place);
    assert_eq!((carried.put, carried.refused), (8, 11), "{left:#?}");
    assert_eq!(carried.put + carried.refused, 19, "all rows");
    assert_eq!(ids(&place, "t"), ["1", "3", "4", "7", "8"]);
    assert_eq!(place.threads().unwrap().len(), 4);
    let step = |id: &str| place.load_bytes("t", &CheckpointId::new(id).unwrap()).unwrap().unwrap();
    assert_eq!((&step("3").state[..], &step("3").info.tag), (&b" [18446744073709551616, 1.0, \"\\ud83d\"]\n"[..], &TypeTag::JSON));
    assert_eq!((&step("4").state[..], &step("4").info.tag), (&b"{\"n\":1}"[..], &TypeTag::BYTES));
    assert_eq!(
        (step("3").info.parent.unwrap().as_str(), step("7").info.parent.unwrap().as_str()),
        ("1", "4"),
        "what is refused is passed over"
    );
    assert!(step("3").info.saved_at < std::time::SystemTime::UNIX_EPOCH);
    for named in [
        "thread \"t\" checkpoint \"2\": not JSON",
        "thread \"t\" checkpoint \"5\": state is NULL",
        "thread \"t\" checkpoint \"6\": state is an integer",
        "thread \"t\" checkpoint \"7\" saved_at: it is text",
        "thread \"t\" checkpoint \"8\" saved_at: ",
        "thread \"t\" checkpoint \"9\": not JSON",
        "thread \"NULL\" checkpoint \"10\": thread_id is NULL",
        "thread \"1\" checkpoint \"11\": thread_id is an integer",
        "thread \"t\" checkpoint \"13\": thread_id is a blob",
        "thread \"\" checkpoint \"14\": a thread id cannot be empty",
        "checkpoint \"16\": a thread id has at most",
        "checkpoint \"-5\": thread_id is not UTF-8",
        "thread \"t\" checkpoint \"99\": not ",
    ] {
        assert_eq!(left.iter().filter(|line| line.contains(named)).count(), 1, "{named:?} in {left:#?}");
    }
    assert_eq!(left.len(), 13);
}

#[test]
fn any_value_in_a_langgraph_row_is_kept_or_named() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("x.db");
    let connection = Connection::open(&file).unwrap();
    let tables = "CREATE TABLE checkpoints (metadata, checkpoint, type, parent_checkpoint_id, checkpoint_id, checkpoint_ns, thread_id);
        CREATE TABLE writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, type, value)";
    connection.execute_batch(tables).unwrap();
    let (t, root, id, tag, state, none) = (text("t"), text(""), text("a"), text("msgpack"), blob(b"\x80"), Value::Null);
    let row = |thread: &Value, namespace: &Value, id: &Value, parent: &Value, tag: &Value, state: &Value, metadata: &Value| {
        let insert = "INSERT INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        connection.execute(insert, params![thread, namespace, id, parent, tag, state, metadata]).unwrap();
    };
    row(&t, &root, &id, &none, &tag, &state, &none);
    row(&t, &root, &id, &none, &tag, &blob(b"another"), &none);
    row(&t, &root, &text("b"), &id, &none, &text("as text"), &text("{\"n\": 1}"));
    row(&t, &root, &text("c"), &blob(b"a"), &text("json"), &blob(b"{\"n\": 18446744073709551616}"), &blob(b"[1]"));
    row(&t, &root, &text("d"), &text(""), &text("json"), &blob(b"{\"n\": NaN}"), &none);
    row(&t, &root, &text("e"), &none, &text(""), &state, &none);
    row(&t, &root, &text("f"), &none, &Value::Integer(1), &state, &none);
    row(&t, &root, &text("g"), &none, &tag, &none, &none);
    row(&t, &root, &text("h"), &none, &text("pickle"), &blob(b""), &Value::Integer(1));
    row(&t, &root, &none, &none, &tag, &state, &none);
    row(&t, &root, &text(&"x".repeat(256)), &none, &tag, &state, &none);
    row(&t, &none, &text("i"), &none, &tag, &state, &none);
    row(&none, &root, &text("j"), &none, &tag, &state, &none);
    row(&t, &text(&"n".repeat(4096)), &text("k"), &none, &tag, &state, &none);
    row(&t, &root, &text("l"), &text("l"), &tag, &state, &text(&format!("{{\"a\": \"{}\"}}", "x".repeat(70_000))));
    let write = |id: &Value, task: &Value, idx: &Value, channel: &Value, tag: &Value, value: &Value| {
        let insert = "INSERT INTO writes VALUES ('t', '', ?1, ?2, ?3, ?4, ?5, ?6)";
        connection.execute(insert, params![id, task, idx, channel, tag, value]).unwrap();
    };
    let (task, one, channel) = (text("task"), Value::Integer(1), text("ch"));
    write(&id, &task, &one, &channel, &tag, &state);
    write(&id, &task, &one, &channel, &tag, &blob(b"twice"));
    write(&id, &task, &text("1"), &channel, &tag, &state);
    write(&id, &none, &one, &channel, &tag, &state);
    write(&id, &task, &Value::Integer(i64::MAX), &text("c h"), &none, &text("v"));
    write(&id, &task, &one, &text(&"c".repeat(1025)), &tag, &state);
    write(&id, &text("other"), &one, &channel, &tag, &none);
    write(&none, &task, &one, &channel, &tag, &state);
    connection.execute_batch("INSERT INTO writes VALUES (NULL, '', 'a', 'task', 1, 'ch', 'null', x'')").unwrap();
    drop(connection);
    let place = memory();
    let Imported { carried, left } = imported(&file, &place);
    assert_eq!((carried.put, carried.refused, carried.attached, carried.attachments_left), (5, 10, 2, 7), "{left:#?}");
    assert_eq!(ids(&place, "t"), ["a", "b", "c", "h", "l"]);
    let step = |id: &str| place.load_bytes("t", &CheckpointId::new(id).unwrap()).unwrap().unwrap();
    assert_eq!(&step("a").state[..], b"\x80", "the first of two");
    assert_eq!(
        (&step("b").state[..], step("b").info.tag.as_str(), step("b").info.metadata.as_str()),
        (&b"as text"[..], "bytes", "{\"n\": 1}")
    );
    assert_eq!(step("b").info.parent.unwrap().as_str(), "a");
    assert_eq!(
        (&step("c").state[..], step("c").info.tag.as_str(), step("c").info.metadata.as_str()),
        (&b"{\"n\": 18446744073709551616}"[..], "json", "{}")
    );
    assert_eq!((step("h").info.tag.as_str(), step("h").info.bytes), ("pickle", 0));
    let keys: Vec<_> =
        place.attachments("t", &CheckpointId::new("a").unwrap()).unwrap().into_iter().map(|one| (one.key, one.tag.to_string())).collect();
    assert_eq!(
        keys,
        [
            ("task 0000000000000000001 ch ".to_owned(), "msgpack".to_owned()),
            ("task 9223372036854775807 c!20h ".to_owned(), "bytes".to_owned())
        ]
    );
    for named in [
        "checkpoint \"a\": the thread has the id twice",
        "checkpoint \"c\" parent: parent_checkpoint_id is a blob",
        "checkpoint \"c\" metadata: ",
        "checkpoint \"d\" parent: ",
        "checkpoint \"d\": not JSON",
        "checkpoint \"e\": a type tag has",
        "checkpoint \"f\": type is an integer",
        "checkpoint \"g\": checkpoint is NULL",
        "checkpoint \"h\" metadata: metadata is an integer",
        "checkpoint \"NULL\": checkpoint_id is NULL",
        "a checkpoint id has 1 to 255 bytes, this one has 256",
        "checkpoint \"i\": checkpoint_ns is NULL",
        "thread \"NULL\" checkpoint \"j\": thread_id is NULL",
        "checkpoint \"k\": a thread id has at most",
        "checkpoint \"l\" parent: l comes later",
        "checkpoint \"l\" metadata: metadata has at most",
        "attachment \"task 0000000000000000001 ch \": the checkpoint has the write twice",
        "attachment \"row 3 of writes\": idx is text",
        "attachment \"row 4 of writes\": task_id is NULL",
        "an attachment key has 1 to 1024 bytes",
        "attachment \"row 7 of writes\": value is NULL",
        "checkpoint \"NULL\" attachment \"row 8 of writes\": checkpoint_id is NULL",
        "thread \"NULL\" checkpoint \"a\" attachment \"row 9 of writes\": thread_id is NULL",
    ] {
        assert_eq!(left.iter().filter(|line| line.contains(named)).count(), 1, "{named:?} in {left:#?}");
    }
    assert_eq!(left.len(), 23, "{left:#?}");
}

/// An index that says otherwise than its table is not asked, nor how a column compares, nor how texts are stored.
#[test]
fn indexes_collations_and_encodings_change_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    for (number, pragma) in ["", "PRAGMA encoding = 'UTF-16le';"].into_iter().enumerate() {
        let file = scratch.path().join(format!("{number}.db"));
        let connection = Connection::open(&file).unwrap();
        connection.execute_batch(pragma).unwrap();
        connection
            .execute_batch(
                "CREATE TABLE checkpoints (id INTEGER PRIMARY KEY, thread_id TEXT COLLATE NOCASE, state TEXT, saved_at REAL);
                 CREATE INDEX some ON checkpoints(thread_id) WHERE thread_id = 'A';
                 INSERT INTO checkpoints VALUES (3, 'A', '\"é\"', 3), (1, 'a', '1', 1), (9, 'a ', '9', 9), (-2, 'é', '2', 2);",
            )
            .unwrap();
        connection.close().unwrap();
        let place = memory();
        let Imported { carried, left } = imported(&file, &place);
        assert_eq!((carried.put, left.len()), (4, 0));
        assert_eq!(place.threads().unwrap(), ["A", "a", "a ", "é"]);
        assert_eq!(&place.get_bytes("A").unwrap().unwrap().state[..], "\"é\"".as_bytes());
    }
}
