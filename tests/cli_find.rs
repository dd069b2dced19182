//! `find` as a person and a script see it.

#![cfg(feature = "cli")]

mod support;

use support::Cli;

/// A store of five checkpoints in two threads.
fn filled() -> Cli {
    let cli = Cli::new();
    for (thread, id, metadata, state) in [
        ("trip", "one", r#"{"step":1,"user":{"name":"Ada"}}"#, r#"{"plan":"book a flight to Z\u00fcrich"}"#),
        ("trip", "two", r#"{"step":2,"user":{"name":"Ada"}}"#, r#"{"plan":"pay"}"#),
        ("call", "three", r#"{"step":1.0,"a.b":null,"c=d":"x y"}"#, r#"{"said":"a Flight, please"}"#),
        ("call", "four", r#"{"step":18446744073709551616}"#, r#"{"said":"bye"}"#),
    ] {
        cli.put(thread, state.as_bytes(), &["--id", id, "--metadata", metadata]);
    }
    cli.put("call", b"\xffraw flight", &["--type", "bytes", "--id", "five"]);
    cli
}

/// The ids that it finds, in its order.
#[track_caller]
fn found(cli: &Cli, conditions: &[&str]) -> String {
    let rows = cli.run(&[&["find", "--json"], conditions].concat()).json();
    rows.iter().map(|row| row["id"].as_str().unwrap()).collect::<Vec<_>>().join(" ")
}

#[test]
fn by_metadata() {
    let cli = filled();
    for (member, ids) in [
        ("step=1", "three one"),
        ("step=1e0", "three one"),
        ("user.name=Ada", "two one"),
        ("user={\"name\":\"Ada\"}", "two one"),
        (r"a\.b=null", "three"),
        (r"c\=d=x y", "three"),
        ("step=18446744073709551616", "four"),
    ] {
        assert_eq!(found(&cli, &["--metadata", member]), ids, "{member}");
    }
    assert_eq!(found(&cli, &["--metadata", "step=1", "--metadata", "user.name=Ada"]), "one");
    for absent in ["step=\"1\"", "user.name=ada", "a.b=null", "step=18446744073709551617"] {
        cli.run(&["find", "--metadata", absent]).failed(1, "nothing was found");
    }
}

#[test]
fn by_text() {
    let cli = filled();
    assert_eq!(found(&cli, &["--text", "FLIGHT"]), "five three one");
    assert_eq!(found(&cli, &["--text", "zürich book"]), "one");
    assert_eq!(found(&cli, &["--substring", "a Flight"]), "three");
    assert_eq!(found(&cli, &["--text", "flight", "--thread", "call"]), "five three");
    assert_eq!(found(&cli, &["--text", "flight", "--limit", "1"]), "five");
    assert_eq!(found(&cli, &["--text", "flight", "--metadata", "step=1"]), "three one");
    assert_eq!(found(&cli, &[]), "five four three two one");
    assert_eq!(found(&cli, &["--limit", "0"]), "");
}

#[test]
fn a_line_is_that_of_watch() {
    let cli = filled();
    let lines = String::from_utf8(cli.ok(&["find", "--text", "pay"])).unwrap();
    let fields: Vec<&str> = lines.trim_end_matches('\n').split('\t').collect();
    assert_eq!((fields.len(), fields[0], fields[2], fields[4]), (6, "trip", "two", "14"));
    assert_eq!(fields[5], r#"{"step":2,"user":{"name":"Ada"}}"#);
    let history = cli.run(&["history", "trip", "--json", "--limit", "1"]).done();
    assert_eq!(cli.ok(&["find", "--text", "pay", "--json"]), history);
}

#[test]
fn how_it_ends() {
    let cli = filled();
    cli.run(&["find", "--text", "nowhere"]).failed(1, "nothing was found");
    cli.run(&["find", "--thread", "absent"]).failed(1, "no thread \"absent\"");
    cli.run(&["find", "--text", " "]).failed(5, "no word");
    assert_eq!(cli.run(&["find", "--metadata", "key"]).code, Some(2));
    Cli::new().run(&["find"]).failed(1, "runs");
    for place in ["file:files", "sqlite:place.db"] {
        let ended = cli.shell(&format!("$T copy runs {place} >/dev/null 2>&1 && $T --store {place} find --text flight | cut -f 1"));
        let threads = String::from_utf8(ended.done()).unwrap();
        assert_eq!(threads.split_whitespace().filter(|thread| *thread == "call").count(), 2, "{place}: {threads}");
    }
}
