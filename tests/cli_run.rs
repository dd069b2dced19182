//! `approve` and `waiting`: a run asks in one process, and a person decides by the command line.

mod support;

use support::Cli;
use taffrail::Store;
use taffrail::run::Run;

fn asks(cli: &Cli, thread: &str, payload: &str) -> Option<serde_json::Value> {
    let store = Store::open(cli.store()).unwrap();
    let mut run: Run<_, u32> = Run::start_or_resume(&store, thread).unwrap();
    run.await_approval("pay?", payload).unwrap()
}

#[test]
fn one_decides_and_the_others_are_told() {
    let cli = Cli::new();
    assert_eq!(asks(&cli, "trip", "pay 100?"), None);
    let id = String::from_utf8(cli.ok(&["approve", "trip", "yes"])).unwrap();
    assert_eq!(cli.run(&["history", "trip", "--limit", "1", "--json"]).json()[0]["id"], id.trim_end());
    cli.run(&["approve", "trip", "no"]).failed(4, "waits for no approval");
    assert_eq!(asks(&cli, "trip", ""), Some("yes".into()));
}

#[test]
fn decisions_are_json_where_they_can_be() {
    let cli = Cli::new();
    for (at, (args, input, decision)) in [
        (&["approve"][..], "", "true"),
        (&["approve", "7"], "", "7"),
        (&["approve", "-7"], "", "-7"),
        (&["approve", "seven"], "", "\"seven\""),
        (&["approve", "{\"seat\": 18446744073709551616}"], "", "{\"seat\": 18446744073709551616}"),
        (&["approve", "-"], " [1,\n2]\n", "[1,\n2]"),
    ]
    .into_iter()
    .enumerate()
    {
        let thread = format!("trip {at}");
        asks(&cli, &thread, "?");
        let mut line = vec![args[0], &thread];
        line.extend(&args[1..]);
        cli.run_with(&line, input.as_bytes()).done();
        let state = String::from_utf8(cli.ok(&["get", &thread])).unwrap();
        assert!(state.contains(&format!("\"result\":{decision}}}")), "{state}");
    }
    asks(&cli, "trip", "?");
    cli.run_with(&["approve", "trip", "-"], b"yes").failed(5, "not JSON");
    for slip in ["", "{pay: 1}", "[1", "\"yes"] {
        cli.run(&["approve", "trip", slip]).failed(5, "neither JSON nor a text");
    }
    assert_eq!(cli.run(&["waiting", "--json"]).json().len(), 1, "a slip has decided");
}

#[test]
fn those_that_wait_are_listed() {
    let cli = Cli::new();
    cli.run(&["waiting"]).failed(1, "runs");
    cli.put("other", b"1", &[]);
    assert!(cli.ok(&["waiting"]).is_empty());
    asks(&cli, "b\tb", "line\nbreak");
    asks(&cli, "a", "pay 100?");
    let before = cli.ok(&["export"]);
    let lines = cli.run(&["waiting", "--json"]).json();
    assert_eq!(lines.iter().map(|line| line["thread"].as_str().unwrap()).collect::<Vec<_>>(), ["a", "b\tb"]);
    assert_eq!(
        (&lines[0]["name"], &lines[0]["payload"], &lines[1]["payload"]),
        (&"pay?".into(), &"pay 100?".into(), &"line\nbreak".into())
    );
    let text = String::from_utf8(cli.ok(&["waiting"])).unwrap();
    let first: Vec<&str> = text.lines().next().unwrap().split('\t').collect();
    assert_eq!((first[0], first[1], first[3], first.len()), ("a", "\"pay?\"", "\"pay 100?\"", 4));
    let json = String::from_utf8(cli.ok(&["waiting", "--json"])).unwrap();
    assert_eq!(support::keys(json.lines().next().unwrap()), ["thread", "checkpoint", "name", "since", "payload"]);
    let id = lines[0]["checkpoint"].as_str().unwrap();
    cli.run(&["approve", "b\tb", "--id", id]).failed(4, "another checkpoint");
    assert_eq!(cli.ok(&["export"]), before, "listing or refusing changed something");
    cli.ok(&["approve", "a", "--id", id]);
    assert_eq!(cli.run(&["waiting", "--json"]).json().len(), 1);
}

#[test]
fn what_cannot_be_approved_is_told_by_the_exit_code() {
    let cli = Cli::new();
    cli.run(&["approve", "trip"]).failed(1, "runs");
    assert!(!cli.store().exists());
    cli.put("other", b"1", &[]);
    cli.run(&["approve", "trip"]).failed(1, "no such run");
    cli.run(&["approve", "other"]).failed(5, "no run");
    cli.run(&["approve", "trip", "--id", ""]).failed(5, "checkpoint id");
}
