//! The command line among other programs: pipes, full devices, limits, odd names, shells, people.

#![cfg(feature = "cli")]

mod support;

use support::{Cli, json_lines};

/// Names that were taken for paths, separators, options or each other somewhere.
const ZOO: [&str; 46] = [
    "a:b",
    "a",
    "b:c",
    "a:",
    ":a",
    "::",
    "a|b",
    "a/b",
    "a\tb",
    "a\nb",
    "a=b",
    "a,b",
    "\"a\"",
    "a b",
    "..",
    ".",
    "../../outside",
    "/tmp/x",
    "C:\\x",
    "a\\..\\b",
    "~",
    "CON",
    "nul.txt",
    "x.",
    "x ",
    "-",
    "-x",
    "--json",
    "-0",
    "é",
    "e\u{301}",
    "내",
    "\u{1102}\u{1162}",
    "order-42",
    "order-42\n",
    " order-42",
    "order-42\u{200b}",
    " ",
    "\t",
    "👩\u{200d}👩\u{200d}👧",
    "👩",
    "\u{200d}",
    "a\x1b[31mb",
    "\u{7f}",
    "\u{feff}a",
    "MANIFEST",
];

#[test]
fn every_name_is_its_own_thread_and_no_path() {
    let cli = Cli::new();
    cli.put("first", b"0", &[]);
    cli.ok(&["delete", "first"]);
    let before = cli.outside();
    let row = |thread: &&str| format!("{{\"thread\":{},\"id\":\"one\",\"state\":1}}\n", serde_json::Value::from(*thread));
    cli.run_with(&["import", "-"], ZOO.iter().map(row).collect::<String>().as_bytes());
    for (number, thread) in ZOO.iter().enumerate() {
        cli.put(thread, format!("[{number},2]").as_bytes(), &["--buffered", "--id", "two"]);
    }
    let named = |cli: &Cli| -> Vec<String> {
        cli.run(&["threads", "--json"]).json().iter().map(|line| line["thread"].as_str().unwrap().to_owned()).collect()
    };
    let mut sorted = ZOO.map(str::to_owned);
    sorted.sort();
    assert_eq!(named(&cli), sorted);
    for (number, thread) in ZOO.iter().enumerate() {
        assert_eq!(cli.ok(&["get", "--", thread]), format!("[{number},2]").as_bytes(), "{thread:?}");
    }
    let steps = json_lines(&cli.ok(&[&["export", "--"], &ZOO[..]].concat()));
    assert_eq!(steps.len(), 2 * ZOO.len());
    assert!(steps.iter().zip(ZOO.iter().flat_map(|thread| [thread, thread])).all(|(step, thread)| step["thread"] == **thread));
    cli.ok(&["delete", "a"]);
    assert_eq!(named(&cli), sorted.iter().filter(|thread| *thread != "a").cloned().collect::<Vec<_>>());
    for thread in ["..", "../../outside", "/tmp/x", "-x", "MANIFEST", "order-42\n", "e\u{301}"] {
        cli.ok(&["delete", "--", thread]);
        assert_eq!(cli.run(&["get", "--", thread]).code, Some(1));
    }
    assert_eq!(named(&cli).len(), ZOO.len() - 8);
    assert_eq!(cli.outside(), before);
}

#[test]
fn names_in_lists_are_told_apart() {
    let cli = Cli::new();
    for thread in ["plain", "with\nbreak", "with\ttab", "esc\x1b[31m"] {
        cli.put(thread, b"1", &[]);
    }
    assert_eq!(cli.ok(&["threads"]), b"esc\x1b[31m\nplain\nwith\ttab\n\"with\\nbreak\"\n");
    assert_eq!(cli.ok(&["threads", "-0"]), b"esc\x1b[31m\0plain\0with\ttab\0with\nbreak\0");
    cli.run(&["get", "no\nsuch\x1b[31m"]).failed(1, r"no\nsuch\u{1b}[31m");
}

/// `script` gives a program a terminal; it takes its command in this way on Linux.
#[cfg(target_os = "linux")]
#[test]
fn a_terminal_gets_names_quoted() {
    if std::process::Command::new("script").arg("--version").output().is_err() {
        return;
    }
    let cli = Cli::new();
    cli.put("plain", b"1", &[]);
    cli.put("esc\x1b[31m", b"1", &[]);
    let ended = cli.shell("script -qec '$T threads' /dev/null");
    assert_eq!(String::from_utf8(ended.out).unwrap(), "\"esc\\u001b[31m\"\r\n\"plain\"\r\n");
}

#[test]
fn a_closed_pipe_ends_it_quietly() {
    let cli = Cli::new();
    let rows: String = (0..10_000).map(|row| format!("{{\"thread\":\"t{row:05}\",\"state\":{row}}}\n")).collect();
    cli.run_with(&["import", "-"], rows.as_bytes());
    for verb in ["threads", "threads --json", "threads -0 | tr '\\0' '\\n'", "export", "threads --long"] {
        let ended = cli.shell(&format!("set -o pipefail; $T {verb} | head -1"));
        assert!(matches!(ended.code, Some(0 | 141)), "{verb}: {ended:?}");
        assert_eq!((ended.err.as_str(), ended.out.iter().filter(|byte| **byte == b'\n').count()), ("", 1), "{verb}");
    }
    let ended = cli.shell("set -o pipefail; $T completions bash | head -1; $T man | head -1; $T --help | head -1; $T demo | head -1");
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
}

#[test]
fn a_full_device_is_an_error() {
    let cli = Cli::new();
    cli.put("t", b"1", &[]);
    for verb in ["get t", "get t --pretty", "history t", "threads", "threads --json", "stats", "export", "completions zsh", "man", "--help"]
    {
        cli.shell(&format!("$T {verb} > /dev/full")).failed(6, "standard output");
    }
}

#[test]
fn standard_streams_may_be_closed() {
    let cli = Cli::new();
    cli.shell("$T put t <&-").failed(5, "not JSON");
    assert_eq!(cli.shell("$T put t --type bytes <&-; $T get nobody 2>&-").code, Some(1));
}

/// A write beyond the limit is an error that is told, not a signal that kills.
#[test]
fn a_file_size_limit_is_an_error() {
    let cli = Cli::new();
    cli.put("t", b"1", &[]);
    let ended = cli.shell("ulimit -f 2048; head -c 8000000 /dev/zero | $T put t --type bytes");
    ended.failed(6, "runs");
    assert_eq!(cli.ok(&["get", "t"]), b"1");
}

#[test]
fn reading_goes_on_beside_a_process_that_has_the_store_open() {
    use taffrail::prelude::*;
    let cli = Cli::new();
    let store = Store::open(cli.store()).unwrap();
    store.put("t", &1).unwrap();
    assert_eq!(cli.ok(&["get", "t"]), b"1");
    assert_eq!(cli.ok(&["threads"]), b"t\n");
    cli.ok(&["verify"]);
    store.put("t", &2).unwrap();
    assert_eq!(cli.ok(&["get", "t"]), b"2");
}

/// Changes bytes of the store's newest segment: `range` counts from where `state` begins.
fn damage(cli: &Cli, state: &[u8], range: std::ops::Range<isize>) {
    let segment = std::fs::read_dir(cli.store()).unwrap().map(|entry| entry.unwrap().path());
    let segment = segment.filter(|path| path.extension().is_some_and(|ending| ending == "seg")).max().unwrap();
    let mut bytes = std::fs::read(&segment).unwrap();
    let at = bytes.windows(state.len()).position(|window| window == state).unwrap();
    for offset in range {
        bytes[at.checked_add_signed(offset).unwrap()] ^= 1;
    }
    std::fs::write(&segment, &bytes).unwrap();
}

#[test]
fn a_damaged_state_is_exit_3_and_is_listed() {
    let cli = Cli::new();
    for id in ["a", "b", "c"] {
        cli.put("t", id.repeat(5000).as_bytes(), &["--type", "bytes", "--id", id]);
    }
    damage(&cli, &[b'a'; 5000], 50..51);
    let ended = cli.run(&["verify", "--json"]);
    assert_eq!(ended.code, Some(3), "{}", ended.err);
    assert_eq!(ended.err, "taffrail: runs: 1 damaged place\n");
    assert!(ended.out.starts_with(b"{\"file\":\"runs/"));
    let finding = &json_lines(&ended.out)[0];
    assert_eq!((&finding["thread"], &finding["id"], finding["offset"].is_u64()), (&"t".into(), &"a".into(), true), "{finding}");
    assert_eq!(finding.as_object().unwrap().len(), 5);
    let ended = cli.run(&["verify"]);
    assert!(ended.code == Some(3) && ended.out.starts_with(b"damage: "));
    cli.run(&["get", "t", "--id", "a"]).failed(3, "t");
    assert_eq!(cli.ok(&["get", "t"]), [b'c'; 5000]);
    assert_eq!(cli.run(&["export"]).code, Some(3));
}

#[test]
fn what_may_stand_in_unreadable_bytes_is_not_said_to_be_absent() {
    let cli = Cli::new();
    for id in ["a", "b", "c"] {
        cli.put("t", id.repeat(5000).as_bytes(), &["--type", "bytes", "--id", id]);
    }
    damage(&cli, &[b'b'; 5000], -96..0);
    assert_eq!(cli.run(&["verify"]).code, Some(3));
    cli.run(&["get", "t", "--id", "b"]).failed(3, "cannot be read");
    cli.run(&["get", "nobody"]).failed(3, "cannot be read");
    assert_eq!(cli.run(&["history", "t", "--json"]).json().len(), 2);
}

#[test]
fn completions_and_manual_come_from_the_definition() {
    let cli = Cli::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = String::from_utf8(cli.ok(&["completions", shell])).unwrap();
        assert!(script.contains("expect-head") && script.contains("vacuum") && script.contains("rollback"), "{shell}");
    }
    assert!(String::from_utf8(cli.ok(&["man"])).unwrap().starts_with(".ie"));
    assert!(String::from_utf8(cli.ok(&["man", "put"])).unwrap().contains("expect\\-head"));
    assert!(!cli.store().exists());
}

#[test]
fn completions_and_manual_name_every_verb() {
    let cli = Cli::new();
    let help = String::from_utf8(support::Ended::of(cli.command().arg("--help").output().unwrap()).done()).unwrap();
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // A verb stands two blanks from the edge; what is further in goes on with its help.
    let verbs: Vec<&str> = listed.filter_map(|line| line.strip_prefix("  ")?.split(' ').next().filter(|verb| !verb.is_empty())).collect();
    assert!(verbs.len() > 20 && verbs.contains(&"put") && verbs.contains(&"waiting"), "{verbs:?}");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = String::from_utf8(cli.ok(&["completions", shell])).unwrap();
        let words: std::collections::HashSet<&str> = script.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').collect();
        verbs.iter().for_each(|verb| assert!(words.contains(verb), "{shell} does not know {verb}"));
    }
    let page = String::from_utf8(cli.ok(&["man"])).unwrap();
    for verb in verbs {
        assert!(page.contains(&format!("taffrail\\-{verb}(1)")), "the page does not name {verb}");
        let own = String::from_utf8(cli.ok(&["man", verb])).unwrap();
        assert!(own.contains(".SH SYNOPSIS") && own.contains(&format!("taffrail {verb}")) || verb == "help", "{verb} has no page:\n{own}");
    }
}

#[test]
fn the_demo_is_killed_resumed_and_repeats_nothing() {
    let cli = Cli::new();
    let check = |shown: Vec<u8>| {
        let shown = String::from_utf8(shown).unwrap();
        assert!(shown.contains("is killed (signal: 9 (SIGKILL))"), "{shown}");
        assert!(shown.contains("resumes from step 6"), "{shown}");
        let steps: Vec<&str> = shown.lines().filter(|line| line.starts_with("  step ")).collect();
        assert_eq!(steps.len(), 9, "{shown}");
        assert_eq!(shown.matches("  1x ").count(), 4, "{shown}");
        assert!(shown.ends_with("every tool ran exactly once\n"), "{shown}");
    };
    check(support::Ended::of(cli.command().arg("demo").output().unwrap()).done());
    assert!(cli.outside().is_empty(), "without --store it leaves nothing");
    check(cli.ok(&["demo"]));
    check(cli.ok(&["demo"]));
    assert_eq!(cli.run(&["threads", "--prefix", "demo-", "--json"]).json().len(), 2);
    support::Ended::of(cli.command().args(["--store", "memory:", "demo"]).output().unwrap()).failed(5, "memory:");
}

#[test]
fn the_bench_tells_both_stores_and_leaves_nothing() {
    let cli = Cli::new();
    let scratch = cli.dir().join("measured");
    std::fs::create_dir(&scratch).unwrap();
    let run = |more: &[&str]| support::Ended::of(cli.command().args(["bench"]).args(more).output().unwrap());
    let table = String::from_utf8(run(&["--dir", "measured"]).done()).unwrap();
    assert!(table.contains("\ntaffrail ") && table.contains("\nSQLite (WAL) ") && table.contains("puts/s"), "{table}");
    let lines = support::json_lines(&run(&["--json", "--dir", "measured"]).done());
    assert_eq!(lines.len(), 2);
    for line in &lines {
        assert_eq!(line["puts"], 500);
        assert!(["puts_per_second", "p50_micros", "p99_micros", "get_p50_micros"].iter().all(|key| line[*key].as_f64().unwrap() > 0.0));
    }
    // What differs between steps is stored once here, and each step whole there.
    let disk = |line: usize| lines[line]["disk_bytes"].as_u64().unwrap();
    assert!(disk(0) * 2 < disk(1), "{lines:?}");
    assert_eq!(std::fs::read_dir(&scratch).unwrap().count(), 0);
    if std::path::Path::new("/dev/shm").is_dir() {
        let told = String::from_utf8(run(&["--dir", "/dev/shm"]).done()).unwrap();
        assert!(told.contains("in memory"), "{told}");
    }
    support::Ended::of(cli.command().args(["bench", "--dir", "not/there"]).output().unwrap()).failed(6, "not/there");
}
