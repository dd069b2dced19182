//! The rules of the command line, held against the real binary: what it prints, how it ends, and
//! what it leaves alone.

#![cfg(feature = "cli")]

mod support;

use std::fs;
use std::os::unix::ffi::OsStrExt;

use support::{Cli, Ended, json_lines, keys};

const READING: [&[&str]; 16] = [
    &["get", "t"],
    &["get", "t", "--id", "x"],
    &["history", "t"],
    &["attachments", "t", "x"],
    &["attachments", "t", "x", "--key", "k"],
    &["threads"],
    &["find"],
    &["find", "--thread", "t", "--text", "x"],
    &["diff", "t", "x", "y"],
    &["watch"],
    &["watch", "t", "--limit", "0"],
    &["stats"],
    &["verify"],
    &["backup", "elsewhere"],
    &["export"],
    &["export", "t"],
];
const KEEPING: [&[&str]; 9] = [
    &["delete", "t"],
    &["delete", "t", "--id", "x"],
    &["fork", "t", "u"],
    &["rename", "t", "u"],
    &["rollback", "t", "x"],
    &["retain", "5"],
    &["vacuum", "--keep", "1"],
    &["vacuum", "--idle", "1d", "--dry-run"],
    &["compact"],
];

#[test]
fn what_is_put_is_what_is_got() {
    let cli = Cli::new();
    for state in [&b"{\"b\":1.0, \"a\":[1,1.0,1e400,18446744073709551616],\"a\":2}"[..], b" \n[\"\\ud83d\"]\r\n\n", b"null", b"\"\\u0000\""]
    {
        let id = cli.put("t", state, &[]);
        assert_eq!(cli.ok(&["get", "t"]), state);
        assert_eq!(cli.ok(&["get", "t", "--id", &id]), state);
    }
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    cli.put("b", &bytes, &["--type", "bytes"]);
    assert_eq!(cli.ok(&["get", "b"]), bytes);
    cli.put("b", b"", &["--type", "own/type"]);
    assert_eq!(cli.ok(&["get", "b"]), b"");
    fs::write(cli.dir().join("state.json"), b"[1]").unwrap();
    cli.ok(&["put", "f", "state.json"]);
    assert_eq!(cli.ok(&["get", "f"]), b"[1]");
}

#[test]
fn what_is_attached_is_listed_and_got() {
    let cli = Cli::new();
    let id = cli.put("t", b"1", &[]);
    let bytes: Vec<u8> = (0..=255).collect();
    cli.run_with(&["attach", "t", &id, "raw"], &bytes).done();
    cli.run_with(&["attach", "t", &id, "a key\n", "--type", "json"], b" [1.0]").done();
    assert_eq!(cli.ok(&["attachments", "t", &id, "--key", "raw"]), bytes);
    assert_eq!(cli.ok(&["attachments", "t", &id, "--key", "a key\n"]), b" [1.0]");
    assert_eq!(cli.ok(&["attachments", "t", &id]), b"\"a key\\n\"\tjson\t6\nraw\tbytes\t256\n");
    let lines = String::from_utf8(cli.ok(&["attachments", "t", &id, "--json"])).unwrap();
    assert_eq!(lines.lines().map(keys).collect::<Vec<_>>(), [["thread", "checkpoint", "key", "type", "bytes"]; 2]);
    // Before its checkpoint, and of all who would be first, one.
    cli.run_with(&["attach", "t", "to come", "decision", "--keep"], b"yes").done();
    assert_eq!(cli.run_with(&["attach", "t", "to come", "decision", "--keep"], b"no").code, Some(4));
    assert_eq!(cli.ok(&["attachments", "t", "to come", "--key", "decision"]), b"yes");
    cli.run_with(&["attach", "t", "to come", "decision"], b"no").done();
    cli.put("t", b"2", &["--id", "to come"]);
    assert_eq!(cli.ok(&["attachments", "t", "to come", "--key", "decision"]), b"no");
    for (args, code) in [
        (&["attachments", "t", "never"][..], 1),
        (&["attachments", "t", "to come", "--key", "other"], 1),
        (&["attachments", "t", "to come", "--key", "decision", "--json"], 2),
        (&["attach", "t", "to come", "", "--type", "json"], 5),
        (&["attach", "t", "to come", "k", "--type", "json"], 5),
    ] {
        assert_eq!(cli.run_with(args, b"{").code, Some(code), "{args:?}");
    }
    let empty = cli.put("t", b"3", &[]);
    assert_eq!(cli.ok(&["attachments", "t", &empty]), b"");
    let exported = cli.ok(&["export"]);
    fs::write(cli.dir().join("rows"), &exported).unwrap();
    let again = Cli::new();
    assert_eq!(again.run(&["import", cli.dir().join("rows").to_str().unwrap()]).code, Some(0));
    assert_eq!(again.ok(&["export"]).len(), exported.len());
    assert_eq!(again.ok(&["attachments", "t", &id, "--key", "raw"]), bytes);
}

#[test]
fn compact_gives_back_what_was_deleted() {
    let cli = Cli::new();
    cli.put("kept", b"\"KEPT\"", &[]);
    cli.put("t", &[b"\"MARKER", &vec![b'.'; 20_000][..], b"\""].concat(), &[]);
    cli.ok(&["delete", "t"]);
    let holds = |marker: &str| {
        let files = fs::read_dir(cli.store()).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap());
        files.filter(|bytes| bytes.windows(marker.len()).any(|window| window == marker.as_bytes())).count()
    };
    assert_eq!((holds("MARKER"), holds("KEPT")), (1, 1));
    assert!(String::from_utf8(cli.ok(&["compact"])).unwrap().starts_with("1 segment replaced, "));
    assert_eq!((holds("MARKER"), holds("KEPT")), (0, 1));
    assert_eq!(cli.ok(&["compact"]), b"0 segments replaced, 0 bytes given back\n");
    assert_eq!(cli.ok(&["get", "kept"]), b"\"KEPT\"");
    assert_eq!(cli.run(&["stats", "--json"]).json()[0]["dead_bytes"], 0);
    assert_eq!(cli.ok(&["verify"]), b"no damage\n");
}

#[test]
fn pretty_changes_white_space_alone() {
    let cli = Cli::new();
    cli.put("t", b"{\"z\":1.0,\"a\":[ ],\"z\":\"\\ud83d, {\"}", &[]);
    assert_eq!(cli.ok(&["get", "t", "--pretty"]), b"{\n  \"z\": 1.0,\n  \"a\": [],\n  \"z\": \"\\ud83d, {\"\n}\n");
    cli.put("b", b"{}", &["--type", "bytes"]);
    cli.run(&["get", "b", "--pretty"]).failed(5, "bytes");
}

#[test]
fn the_id_is_the_callers_or_fresh() {
    let cli = Cli::new();
    assert_eq!(cli.put("t", b"1", &["--id", "step 1"]), "\"step 1\"");
    assert_eq!(cli.put("t", b"1", &["--id", "step-2"]), "step-2");
    assert_eq!(cli.put("t", b"1", &[]).len(), 36);
    cli.run(&["put", "t", "--id", ""]).failed(5, "1 to 255");
}

#[test]
fn what_is_not_there_is_exit_1() {
    let cli = Cli::new();
    cli.put("t", b"1", &["--id", "a"]);
    cli.run(&["get", "u"]).failed(1, "no thread \"u\"");
    cli.run(&["get", "t", "--id", "x"]).failed(1, "\"x\"");
    cli.run(&["history", "u"]).failed(1, "\"u\"");
    cli.run(&["history", "t", "--before", "x"]).failed(1, "x");
    cli.run(&["export", "t", "u"]).failed(1, "\"u\"");
    cli.run(&["delete", "u"]).failed(1, "\"u\"");
    cli.run(&["delete", "t", "--id", "x"]).failed(1, "\"x\"");
    cli.run_with(&["put", "t", "--parent", "x"], b"1").failed(1, "x");
    assert!(cli.ok(&["threads", "--prefix", "nobody"]).is_empty());
}

#[test]
fn delete_takes_one_or_all() {
    let cli = Cli::new();
    cli.put("t", b"1", &["--id", "a"]);
    cli.put("t", b"2", &["--id", "b"]);
    cli.ok(&["delete", "t", "--id", "b"]);
    assert_eq!(cli.ok(&["get", "t"]), b"1");
    cli.ok(&["delete", "t"]);
    cli.run(&["get", "t"]).failed(1, "no thread");
}

#[test]
fn reading_and_keeping_never_make_a_store() {
    let cli = Cli::new();
    for args in READING.iter().chain(&KEEPING) {
        cli.run(args).failed(1, "runs");
        assert!(cli.outside().is_empty() && !cli.store().exists(), "{args:?}");
    }
    // A put that fails before the store is needed makes none either.
    cli.run(&["put", "t", "no-such-file"]).failed(6, "no-such-file");
    cli.run(&["put", "t", "--metadata", "[]"]).failed(5, "object");
    cli.run(&["import", "no-such-file"]).failed(6, "no-such-file");
    assert!(!cli.store().exists());
}

#[test]
fn what_is_no_store_is_refused_untouched() {
    let cli = Cli::new();
    fs::create_dir(cli.store()).unwrap();
    fs::write(cli.store().join("photo.jpg"), b"mine").unwrap();
    fs::write(cli.dir().join("file"), b"mine").unwrap();
    for args in READING.iter().chain(&KEEPING).chain([&["put", "t"][..], &["import", "-"]].iter()) {
        cli.run_with(args, b"{\"thread\":\"t\",\"state\":1}").failed(5, "runs");
        assert_eq!(fs::read(cli.store().join("photo.jpg")).unwrap(), b"mine");
        assert_eq!(fs::read_dir(cli.store()).unwrap().count(), 1, "{args:?}");
        let onto_file: Vec<&str> = [&["--store", "file"], *args].concat();
        let ended = Ended::of(cli.command().args(&onto_file).output().unwrap());
        assert!(matches!(ended.code, Some(5 | 6)), "{onto_file:?}: {ended:?}");
        assert_eq!(fs::read(cli.dir().join("file")).unwrap(), b"mine");
    }
}

#[test]
fn other_places_go_by_their_names() {
    let cli = Cli::new();
    let on = |place: &str, args: &[&str]| Ended::of(cli.command().args(["--store", place]).args(args).output().unwrap());
    on("sqlite:", &["put", "t"]).failed(5, "place");
    on("sqlite:x.db", &["threads"]).failed(1, "no SQLite file");
    on("sqlite:x.db", &["delete", "t"]).failed(1, "no SQLite file");
    assert_eq!(on("sqlite::memory:", &["put", "t", "--type", "bytes", "--id", "a"]).done(), b"a\n");
    on("file:", &["put", "t"]).failed(5, "place");
    on("file:x", &["get", "t"]).failed(1, "no place of files");
    on("file:x", &["delete", "t"]).failed(1, "no place of files");
    on("", &["threads"]).failed(5, "place");
    on("memory:", &["get", "t"]).failed(1, "no thread");
    on("memory:", &["stats"]).failed(5, "stats");
    on("memory:", &["watch"]).failed(5, "watch");
    assert_eq!(on("memory:", &["put", "t", "--type", "bytes", "--id", "a"]).done(), b"a\n");
    assert!(cli.outside().is_empty());
    assert_eq!(on("log:runs", &["put", "t", "--type", "bytes", "--id", "a"]).done(), b"a\n");
    assert_eq!(on("./runs", &["threads"]).done(), b"t\n");
    assert_eq!(on("file:files", &["put", "t", "--type", "bytes", "--id", "a"]).done(), b"a\n");
    assert_eq!(on("file:files", &["threads"]).done(), b"t\n");
    assert!(cli.dir().join("files/t@000000000001@a.json").is_file());
    on("file:files", &["stats"]).failed(5, "stats");
    on("file:runs", &["threads"]).failed(5, "no place of files");
    on("./files", &["threads"]).failed(5, "not a store");
    let exported = on("file:files", &["export"]).done();
    assert_eq!(json_lines(&exported)[0]["thread"], "t");
}

#[test]
fn a_database_of_windlass_is_a_place() {
    let cli = Cli::new();
    let on = |place: &str, args: &[&str]| Ended::of(cli.command().args(["--store", place]).args(args).output().unwrap());
    fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/windlass-run.db"), cli.dir().join("run.db")).unwrap();
    assert_eq!(on("sqlite:run.db", &["threads"]).done(), "approvals/42\nthread-1\nünïcode\n".as_bytes());
    assert_eq!(json_lines(&on("sqlite:run.db", &["export"]).done()).len(), 64);
    assert_eq!(Ended::of(cli.command().args(["copy", "sqlite:run.db", "copied"]).output().unwrap()).code, Some(0));
    let given = fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/windlass-run.db")).unwrap();
    assert!(fs::read(cli.dir().join("run.db")).unwrap() == given, "reading changes nothing of it");
    assert_eq!(on("sqlite:run.db", &["put", "t", "--type", "bytes", "--id", "a"]).done(), b"a\n");
    assert_eq!(json_lines(&on("sqlite:run.db", &["history", "t", "--json"]).done())[0]["seq"], 75);
    assert_eq!(on("sqlite:run.db", &["delete", "thread-1", "--id", "60"]).code, Some(0));
    assert_eq!(json_lines(&on("sqlite:run.db", &["history", "thread-1", "--limit", "1", "--json"]).done())[0]["id"], "59");
    on("sqlite:run.db", &["stats"]).failed(5, "stats");
    fs::write(cli.dir().join("notes.txt"), b"mine").unwrap();
    on("sqlite:notes.txt", &["put", "t"]).failed(3, "notes.txt");
    assert_eq!(fs::read(cli.dir().join("notes.txt")).unwrap(), b"mine");
}

#[test]
fn the_place_is_given_or_in_the_environment_or_the_usual_one() {
    let cli = Cli::new();
    let put = |command: &mut std::process::Command| Ended::of(command.args(["put", "t", "--type", "bytes"]).output().unwrap()).done();
    put(&mut cli.command());
    assert!(cli.dir().join(".taffrail").is_dir());
    put(cli.command().env("TAFFRAIL_STORE", "by-environment"));
    assert!(cli.dir().join("by-environment").is_dir());
    put(cli.command().env("TAFFRAIL_STORE", "not-used").args(["--store", "given"]));
    assert!(cli.dir().join("given").is_dir() && !cli.dir().join("not-used").exists());
}

#[test]
fn usage_errors_are_exit_2_and_print_nothing() {
    let cli = Cli::new();
    let usages: [&[&str]; 30] = [
        &[],
        &["nonsense"],
        &["get"],
        &["history", "t", "--limit", "-1"],
        &["history", "t", "--limit=-1"],
        &["history", "t", "--limit", "18446744073709551616"],
        &["threads", "--limit", "-1"],
        &["threads", "--offset=-1"],
        &["watch", "--limit", "-1"],
        &["threads", "--json", "-0"],
        &["threads", "--pattern", "a", "--prefix", "a"],
        &["retain", "-1"],
        &["retain"],
        &["vacuum"],
        &["vacuum", "--dry-run"],
        &["vacuum", "--thread", "t"],
        &["vacuum", "--keep", "-1"],
        &["vacuum", "--older-than", "30"],
        &["vacuum", "--older-than", "-30d"],
        &["vacuum", "--older-than=-30d"],
        &["vacuum", "--idle", "1mo"],
        &["vacuum", "--idle", ""],
        &["get", "-x"],
        &["put", "t", "--expect-empty", "--expect-head", "a"],
        &["completions", "nonsense"],
        &["man", "nonsense"],
        &["diff", "t", "a"],
        &["find", "--metadata", "key"],
        &["update", "t", "a", "patch", "--metadata", "{}", "--keep-metadata"],
        &["import"],
    ];
    for args in usages {
        let ended = cli.run(args);
        assert_eq!(ended.code, Some(2), "{args:?}: {}", ended.err);
        assert!(ended.out.is_empty() && !ended.err.is_empty(), "{args:?}");
    }
    let ended = cli.run(&[std::ffi::OsStr::new("get"), std::ffi::OsStr::from_bytes(b"\xff")]);
    assert_eq!((ended.code, ended.out.len()), (Some(2), 0));
    let mut command = cli.command();
    Ended::of(command.arg("threads").env("TAFFRAIL_STORE", std::ffi::OsStr::from_bytes(b"\xff")).output().unwrap())
        .failed(2, "TAFFRAIL_STORE");
    assert!(!cli.store().exists());
}

#[test]
fn refused_input_is_exit_5_and_changes_nothing() {
    let cli = Cli::new();
    cli.put("t", b"1", &[]);
    cli.run_with(&["put", "t"], b"{\"a\":\x00}").failed(5, "byte 5");
    cli.run_with(&["put", "t"], b"").failed(5, "not JSON");
    cli.run_with(&["put", "t"], b"NaN").failed(5, "not JSON");
    cli.run_with(&["put", "t"], b"\"\xed\xa0\x80\"").failed(5, "UTF-8");
    cli.run_with(&["put", ""], b"1").failed(5, "empty");
    cli.run_with(&["put", &"x".repeat(4097)], b"1").failed(5, "4096");
    cli.run_with(&["put", "t", "--type", ""], b"1").failed(5, "type tag");
    cli.run(&["threads", "--pattern", "\\"]).failed(5, "pattern");
    cli.run(&["retain", "0"]).failed(5, "at least 1");
    cli.run(&["vacuum", "--keep", "0"]).failed(5, "at least 1");
    assert_eq!(cli.run(&["history", "t", "--json"]).json().len(), 1);
}

#[test]
fn an_expected_head_that_is_not_is_exit_4() {
    let cli = Cli::new();
    let first = cli.put("t", b"1", &["--expect-empty"]);
    cli.run_with(&["put", "t", "--expect-empty"], b"2").failed(4, "t");
    let second = cli.put("t", b"2", &["--expect-head", &first]);
    cli.run_with(&["put", "t", "--expect-head", &first], b"3").failed(4, "t");
    let steps = cli.run(&["history", "t", "--json"]).json();
    assert_eq!((&steps[0]["id"], &steps[0]["parent"], steps.len()), (&second.into(), &first.into(), 2));
}

#[test]
fn history_pages_and_tells() {
    let cli = Cli::new();
    let row = |step: u32| format!("{{\"thread\":\"t\",\"id\":\"s{step}\",\"state\":{step}}}\n");
    assert_eq!(cli.run_with(&["import", "-"], (0..24).map(row).collect::<String>().as_bytes()).code, Some(0));
    cli.put("t", b"24", &["--id", "s24", "--metadata", "{\n\"k\": 1.0}"]);
    let count = |limit: &[&str]| cli.run(&[&["history", "t"], limit].concat()).done().iter().filter(|byte| **byte == b'\n').count();
    assert_eq!(count(&[]), 20);
    for (limit, lines) in [("0", 0), ("1", 1), ("24", 24), ("25", 25), ("26", 25), ("9223372036854775808", 25), ("all", 25)] {
        assert_eq!(count(&["--limit", limit]), lines, "{limit}");
    }
    let lines = String::from_utf8(cli.ok(&["history", "t", "--json", "--limit", "1"])).unwrap();
    let first = lines.lines().next().unwrap();
    assert_eq!(keys(first), ["thread", "id", "seq", "parent", "saved_at", "metadata", "type", "bytes"]);
    assert!(first.contains("\"metadata\":{ \"k\": 1.0}"), "{first}");
    let steps = cli.run(&["history", "t", "--json", "--limit", "2", "--before", "s10"]).json();
    assert_eq!((&steps[0]["id"], &steps[0]["parent"], &steps[1]["id"]), (&"s9".into(), &"s8".into(), &"s8".into()));
    assert!(steps[0]["saved_at"].as_str().unwrap().ends_with('Z') && steps[0]["bytes"] == 1 && steps[0]["type"] == "json");
    let text = String::from_utf8(cli.ok(&["history", "t", "--limit", "1"])).unwrap();
    let fields: Vec<&str> = text.trim_end().split('\t').collect();
    assert_eq!((fields.len(), fields[1], fields[3], fields[4]), (5, "s24", "2", "{ \"k\": 1.0}"));
    let states = String::from_utf8(cli.ok(&["history", "t", "--states", "--limit", "1"])).unwrap();
    assert_eq!(keys(&states), ["thread", "id", "seq", "parent", "saved_at", "metadata", "type", "state"]);
    assert_eq!(json_lines(states.as_bytes())[0]["state"], 24);
}

#[test]
fn threads_page_and_match() {
    let cli = Cli::new();
    for thread in ["john_doe", "john-doe", "johnXdoe", "100%", "a*b", "a", "b"] {
        cli.put(thread, b"1", &["--buffered"]);
    }
    let list = |args: &[&str]| String::from_utf8(cli.ok(&[&["threads"], args].concat())).unwrap();
    assert_eq!(list(&[]), "100%\na\na*b\nb\njohn-doe\njohnXdoe\njohn_doe\n");
    assert_eq!(list(&["--pattern", "john_*"]), "john_doe\n");
    assert_eq!(list(&["--pattern", r"a\*b"]), "a*b\n");
    assert_eq!(list(&["--pattern", "?"]), "a\nb\n");
    assert_eq!(list(&["--prefix", "a"]), "a\na*b\n");
    assert_eq!(list(&["--limit", "2", "--offset", "1"]), "a\na*b\n");
    assert_eq!(list(&["--after", "b", "--limit", "1"]), "john-doe\n");
    assert_eq!((list(&["--limit", "0"]), list(&["--offset", "7"]), list(&["--offset", "99"])), Default::default());
    let long = list(&["--long", "--limit", "1"]);
    assert!(long.starts_with("100%\t1\t1\t2") && long.ends_with("Z\n"), "{long}");
    assert_eq!(keys(&list(&["--json", "--limit", "1"])), ["thread", "checkpoints", "bytes", "last_saved"]);
}

#[test]
fn stats_and_verify_of_a_sound_store() {
    let cli = Cli::new();
    cli.put("t", b"[1,2]", &[]);
    let stats = String::from_utf8(cli.ok(&["stats", "--json"])).unwrap();
    let right = [
        ["threads", "checkpoints", "attachments", "logical_bytes", "stored_bytes", "dead_bytes"],
        ["disk_bytes", "segments", "keyframes", "deltas", "longest_chain", "mean_chain"],
    ];
    assert_eq!(keys(&stats), [&right.concat()[..], &["max_history"]].concat());
    let stats = &json_lines(stats.as_bytes())[0];
    assert_eq!((&stats["threads"], &stats["logical_bytes"], &stats["max_history"]), (&1.into(), &5.into(), &50.into()));
    assert!(String::from_utf8(cli.ok(&["stats"])).unwrap().contains("ratio"));
    cli.ok(&["verify"]);
    assert!(cli.ok(&["verify", "--json"]).is_empty());
}

#[test]
fn retain_trims_and_all_keeps() {
    let cli = Cli::new();
    (0..5).for_each(|step| drop(cli.put("t", step.to_string().as_bytes(), &["--buffered"])));
    cli.ok(&["retain", "2"]);
    cli.put("t", b"5", &[]);
    assert_eq!(cli.run(&["history", "t", "--json"]).json().len(), 2);
    cli.ok(&["retain", "all"]);
    assert_eq!(cli.run(&["stats", "--json"]).json()[0]["max_history"], serde_json::Value::Null);
    let rows = "{\"thread\":\"u\",\"state\":1}\n".repeat(60);
    assert_eq!(cli.run_with(&["import", "-"], rows.as_bytes()).code, Some(0));
    assert_eq!(cli.run(&["history", "u", "--json", "--limit", "all"]).json().len(), 60);
}

#[test]
fn vacuum_deletes_by_age_idle_time_and_number() {
    let cli = Cli::new();
    let row = |thread: &str, year: u32| format!("{{\"thread\":\"{thread}\",\"state\":{year},\"saved_at\":\"{year}-01-01T00:00:00Z\"}}\n");
    let rows = [("a", 2001), ("a", 2200), ("a", 2002), ("a", 2201), ("b", 2001), ("b", 2002), ("c", 2001), ("c", 2200)];
    let rows: String = rows.iter().map(|(thread, year)| row(thread, *year)).collect();
    assert_eq!(cli.run_with(&["import", "-"], rows.as_bytes()).code, Some(0));
    let before = cli.ok(&["export"]);
    let vacuum = |args: &[&str]| String::from_utf8(cli.ok(&[&["vacuum"], args].concat())).unwrap();
    let states =
        |thread: &str| cli.run(&["history", thread, "--states"]).json().iter().map(|step| step["state"].clone()).collect::<Vec<_>>();
    assert_eq!(vacuum(&["--older-than", "30d", "--dry-run"]), "4 checkpoints, 0 threads would be deleted\n");
    assert_eq!(vacuum(&["--older-than", "2w", "--idle", "90d", "--dry-run"]), "5 checkpoints, 1 thread would be deleted\n");
    assert_eq!(vacuum(&["--keep", "1", "--dry-run"]), "5 checkpoints, 0 threads would be deleted\n");
    assert_eq!(vacuum(&["--older-than", "9000w", "--idle", "9000w"]), "0 checkpoints, 0 threads deleted\n");
    assert_eq!(vacuum(&["--thread", "nobody", "--keep", "1"]), "0 checkpoints, 0 threads deleted\n");
    assert_eq!(cli.ok(&["export"]), before);
    assert_eq!(vacuum(&["--thread", "a", "--older-than", "12h", "--keep", "3"]), "1 checkpoint, 0 threads deleted\n");
    assert_eq!(states("a"), [2201, 2002, 2200]);
    assert_eq!(vacuum(&["--older-than", "90s", "--idle", "15m"]), "4 checkpoints, 1 thread deleted\n");
    assert_eq!((states("a"), states("c")), (vec![2201.into(), 2200.into()], vec![2200.into()]));
    assert_eq!(cli.ok(&["threads"]), b"a\nc\n");
    cli.ok(&["verify"]);
}
