//! `export` and `import`: what goes out comes in again, byte for byte, once, and what cannot is named.

#![cfg(feature = "cli")]

mod support;

use std::fs;

use support::{Cli, Ended, keys};
use taffrail::prelude::*;
use taffrail::{ErrorKind, OnExisting, TypeTag};

/// Ends well and says how many rows were imported, skipped and refused.
#[track_caller]
fn tallied(ended: Ended, imported: u64, skipped: u64) {
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(ended.err.ends_with(&format!("imported {imported}, skipped {skipped}, refused 0\n")), "{}", ended.err);
    assert!(ended.out.is_empty());
}

fn import(cli: &Cli, rows: &str) -> Ended {
    cli.run_with(&["import", "-"], rows.as_bytes())
}

/// Rows `t`/`<id>` whose state is the id.
fn rows(thread: &str, ids: &str) -> String {
    ids.split_whitespace().map(|id| format!("{{\"thread\":\"{thread}\",\"id\":\"{id}\",\"state\":\"{id}\"}}\n")).collect()
}

/// The ids of a thread, oldest first.
fn ids(cli: &Cli, thread: &str) -> String {
    let newest_first = cli.run(&["history", thread, "--json", "--limit", "all"]).json();
    newest_first.iter().rev().map(|step| step["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
}

/// The export without the numbers, which are each store's own.
fn story(cli: &Cli) -> Vec<String> {
    let text = String::from_utf8(cli.ok(&["export"])).unwrap();
    let line = |line: &str| match (line.find(",\"seq\":"), line.find(",\"parent\":")) {
        (Some(seq), Some(parent)) => format!("{}{}", &line[..seq], &line[parent..]),
        _ => line.to_owned(),
    };
    text.lines().map(line).collect()
}

#[test]
fn an_export_is_one_checkpoint_a_line_oldest_first() {
    let cli = Cli::new();
    cli.put("t", b"{\"b\":1.0,\t\"a\":2,\"b\":1e400}", &["--id", "one", "--metadata", "{\"k\": 1.0}"]);
    cli.put("t", b"[1,\n2]", &["--id", "two"]);
    cli.put("s", b"\xff\x00", &["--type", "bytes"]);
    let text = String::from_utf8(cli.ok(&["export", "t"])).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2);
    assert!(lines[0].starts_with("{\"thread\":\"t\",\"id\":\"one\",\"seq\":"), "{}", lines[0]);
    assert!(
        lines[0].ends_with(",\"metadata\":{\"k\": 1.0},\"type\":\"json\",\"state\":{\"b\":1.0,\t\"a\":2,\"b\":1e400}}"),
        "{}",
        lines[0]
    );
    assert!(lines[1].ends_with(",\"metadata\":{},\"type\":\"json\",\"text\":\"[1,\\n2]\"}"), "{}", lines[1]);
    let line = String::from_utf8(cli.ok(&["export", "s"])).unwrap();
    assert_eq!(keys(&line), ["thread", "id", "seq", "parent", "saved_at", "metadata", "type", "data"]);
    assert!(line.ends_with(",\"type\":\"bytes\",\"data\":\"/wA=\"}\n"), "{line}");
    assert_eq!(cli.ok(&["export"]), format!("{line}{text}").as_bytes());
}

#[test]
fn an_import_of_an_export_is_the_same_story_and_a_second_adds_nothing() {
    let (from, to) = (Cli::new(), Cli::new());
    for thread in ["t", "a\nb", "é", "\"q\""] {
        let first = from.put(thread, b" {\"n\":1.0}\n", &["--metadata", "{\"who\":\"é\"}"]);
        from.put(thread, b"\"\\ud83d\"", &["--id", "own id"]);
        from.put(thread, b"{\"a\" : 1,\"a\":12345678901234567890}", &["--parent", &first]);
        from.put(thread, b"\x00\xff", &["--type", "msgpack"]);
        from.put(thread, b"not json at all", &["--type", "my own"]);
    }
    let rows = from.ok(&["export"]);
    tallied(to.run_with(&["import", "-"], &rows), 20, 0);
    assert_eq!(story(&to), story(&from));
    tallied(to.run_with(&["import", "-"], &rows), 0, 20);
    fs::write(to.dir().join("rows.jsonl"), &rows).unwrap();
    tallied(to.run(&["import", "rows.jsonl"]), 0, 20);
    assert_eq!(to.shell("$T import <(cat rows.jsonl)").code, Some(0), "a pipe can be read once only");
    assert_eq!(story(&to), story(&from));
}

#[test]
fn thread_and_state_are_enough() {
    let cli = Cli::new();
    let text = "{\"thread\":\"t\",\"state\":null}\r\n\n  \n{\"state\":[1.0,1e400] ,\"thread\":\"t\",\"more\":{}}\n{\"thread\":\"t\",\"text\":\" 1 \"}\n{\"thread\":\"t\",\"data\":\"AP8=\"}";
    tallied(import(&cli, text), 4, 0);
    let steps = cli.run(&["history", "t", "--json"]).json();
    assert_eq!(steps.len(), 4);
    assert_eq!((&steps[0]["type"], &steps[0]["parent"], &steps[3]["parent"]), (&"bytes".into(), &steps[1]["id"], &serde_json::Value::Null));
    for (step, state) in steps.iter().zip([&b"\0\xff"[..], b" 1 ", b"[1.0,1e400]", b"null"]) {
        assert_eq!(cli.ok(&["get", "t", "--id", step["id"].as_str().unwrap()]), state);
    }
    let again = import(&cli, text);
    assert!(
        again.err.starts_with("taffrail: runs: standard input: thread \"t\" skipped: ")
            && again.err.ends_with("imported 0, skipped 4, refused 0\n"),
        "{}",
        again.err
    );
}

#[test]
fn bad_rows_are_named_and_the_others_done() {
    let cli = Cli::new();
    let deep = "[".repeat(128) + &"]".repeat(128);
    let text = format!(
        "{}not json\n{{\"thread\":\"\",\"state\":1}}\n{{\"thread\":\"t\",\"id\":\"deep\",\"state\":{deep}}}\n{}\n{}",
        rows("t", "a"),
        "{\"thread\":\"t\",\"id\":\"c\",\"parent\":\"deep\",\"state\":3}",
        rows("u", "d"),
    );
    let ended = import(&cli, &text);
    assert_eq!(ended.code, Some(5));
    let lines: Vec<&str> = ended.err.lines().collect();
    assert_eq!(lines.len(), 4, "{}", ended.err);
    assert!(
        lines[0].starts_with("taffrail: runs: standard input line 2 refused: ")
            && lines[1].contains("line 3 refused: a thread id cannot be empty")
    );
    assert!(lines[2].contains("line 4 refused: ") && lines[2].contains("deeper"), "{}", lines[2]);
    assert_eq!(lines[3], "imported 3, skipped 0, refused 3");
    assert_eq!((ids(&cli, "t").as_str(), ids(&cli, "u").as_str()), ("a c", "d"));
    assert_eq!(cli.run(&["history", "t", "--json"]).json()[0]["parent"], serde_json::Value::Null, "its parent was refused");
}

#[test]
fn a_thread_is_extended_only_by_its_own_story() {
    let cli = Cli::new();
    tallied(import(&cli, &rows("t", "a b")), 2, 0);
    tallied(import(&cli, &rows("t", "a b c d")), 2, 2);
    assert_eq!(ids(&cli, "t"), "a b c d");
    cli.put("t", b"1", &["--id", "mine"]);
    tallied(import(&cli, &rows("t", "a b c d")), 0, 4);
    let ended = import(&cli, &(rows("t", "a b c d e") + &rows("u", "a")));
    assert!(ended.err.contains("thread \"t\" skipped") && ended.err.ends_with("imported 1, skipped 5, refused 0\n"), "{}", ended.err);
    assert_eq!((ended.code, ids(&cli, "t").as_str()), (Some(0), "a b c d mine"));
    import(&cli, &rows("u", "b a c"));
    assert_eq!(ids(&cli, "u"), "a c", "b would have to go in front");
}

#[test]
fn retention_takes_the_newest_and_counts_the_rest() {
    let cli = Cli::new();
    let many: Vec<String> = (0..60).map(|number| format!("s{number:02}")).collect();
    let source = rows("t", &many.join(" ")) + &rows("u", "a b");
    let ended = import(&cli, &source);
    assert!(ended.err.starts_with("10 are older") && ended.err.ends_with("imported 52, skipped 10, refused 0\n"), "{}", ended.err);
    assert_eq!(ids(&cli, "t"), many[10..].join(" "));
    assert!(import(&cli, &source).err.ends_with("imported 0, skipped 62, refused 0\n"));
    cli.ok(&["retain", "3"]);
    assert!(import(&cli, &rows("v", "a b c d e")).err.ends_with("imported 3, skipped 2, refused 0\n"));
    assert_eq!(ids(&cli, "v"), "c d e");
}

#[test]
fn a_thousand_rows_keep_their_order_and_parents() {
    let cli = Cli::new();
    cli.put("x", b"1", &[]);
    cli.ok(&["retain", "all"]);
    let ids_given: Vec<String> = (0..1000).map(|number| format!("s{number}")).collect();
    let line = |number: usize| {
        let parent = if number == 0 { "null".to_owned() } else { format!("\"s{}\"", number / 2) };
        format!(
            "{{\"thread\":\"t{}\",\"id\":\"s{number}\",\"parent\":{parent},\"saved_at\":\"2001-01-01T00:00:00Z\",\"state\":{number}}}\n",
            0
        )
    };
    tallied(import(&cli, &(0..1000).map(line).collect::<String>()), 1000, 0);
    assert_eq!(ids(&cli, "t0"), ids_given.join(" "));
    let steps = cli.run(&["history", "t0", "--json", "--limit", "all"]).json();
    assert!(steps.iter().all(|step| step["saved_at"] == "2001-01-01T00:00:00Z"));
    assert_eq!((&steps[0]["parent"], &steps[999]["parent"]), (&"s499".into(), &serde_json::Value::Null));
}

#[test]
fn attachments_follow_their_checkpoint() {
    let (from, to) = (Cli::new(), Cli::new());
    let id = CheckpointId::new(from.put("t", b"1", &["--id", "one"])).unwrap();
    let store = Store::open(from.store()).unwrap();
    for (key, tag, value) in [("b", TypeTag::BYTES, &b"\xff"[..]), ("a", TypeTag::JSON, b"{\"x\":1.0}")] {
        if let Err(error) = store.attach("t", &id, key, tag, value, OnExisting::Replace) {
            // A store that does not have attachments refuses the row by name.
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            let row = "{\"thread\":\"t\",\"checkpoint\":\"one\",\"key\":\"a\",\"state\":1}\n";
            let ended = import(&to, &(rows("t", "one") + row));
            assert_eq!(ended.code, Some(5));
            assert!(ended.err.contains("line 2 refused") && ended.err.ends_with("imported 1, skipped 0, refused 1\n"), "{}", ended.err);
            return;
        }
    }
    store.close().unwrap();
    let rows = from.ok(&["export"]);
    let lines: Vec<&str> = std::str::from_utf8(&rows).unwrap().lines().collect();
    assert_eq!(lines[1], "{\"thread\":\"t\",\"checkpoint\":\"one\",\"key\":\"a\",\"type\":\"json\",\"state\":{\"x\":1.0}}");
    assert_eq!(lines[2], "{\"thread\":\"t\",\"checkpoint\":\"one\",\"key\":\"b\",\"type\":\"bytes\",\"data\":\"/w==\"}");
    tallied(to.run_with(&["import", "-"], &rows), 3, 0);
    assert_eq!(story(&to), story(&from));
    tallied(to.run_with(&["import", "-"], &rows), 0, 3);
}

#[test]
fn what_is_not_json_lines_is_told() {
    let cli = Cli::new();
    cli.run_with(&["import", "-"], b"SQLite format 3\0....").failed(5, "SQLite");
    assert!(!cli.store().exists());
    tallied(import(&cli, ""), 0, 0);
}
