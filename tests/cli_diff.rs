//! `diff` and `update` as a script sees them: what the one prints the other applies.

#![cfg(feature = "cli")]

mod support;

use serde_json::{Value, json};
use support::Cli;

const BEFORE: &[u8] = br#"{"messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}],"n":1,"/~":[]}"#;
const AFTER: &[u8] = br#"{"messages":[{"role":"user","content":"b"}],"n":2,"/~":[],"":null}"#;

fn two_steps() -> Cli {
    let cli = Cli::new();
    cli.put("t", BEFORE, &["--id", "a", "--metadata", "{\"step\":1}"]);
    cli.put("t", AFTER, &["--id", "b"]);
    cli
}

#[test]
fn a_patch_is_one_array_and_makes_the_second_of_the_first() {
    let cli = two_steps();
    let patch = cli.ok(&["diff", "t", "a", "b"]);
    let wanted = json!([
        {"op": "remove", "path": "/messages/0"},
        {"op": "replace", "path": "/n", "value": 2},
        {"op": "add", "path": "/", "value": null}
    ]);
    assert_eq!(serde_json::from_slice::<Value>(&patch).unwrap(), wanted);
    assert_eq!((patch.iter().filter(|byte| **byte == b'\n').count(), patch.last()), (1, Some(&b'\n')));
    assert_eq!(cli.ok(&["diff", "--json", "t", "a", "b"]), patch);
    assert_eq!(cli.ok(&["diff", "t", "a", "a"]), b"[]\n");

    let id = String::from_utf8(cli.run_with(&["update", "t", "a"], &patch).done()).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&cli.ok(&["get", "t"])).unwrap(), serde_json::from_slice::<Value>(AFTER).unwrap());
    let steps = cli.run(&["history", "t", "--json"]).json();
    assert_eq!((&steps[0]["id"], &steps[0]["parent"], &steps[0]["metadata"]), (&id.trim().into(), &"a".into(), &json!({})));
    assert_eq!(cli.ok(&["get", "t", "--id", "a"]), BEFORE);
    assert_eq!(cli.ok(&["diff", "t", "b", id.trim()]), b"[]\n");
}

#[test]
fn options_of_an_update() {
    let cli = two_steps();
    let patch: &[u8] = br#"[{"op":"test","path":"/n","value":1},{"op":"replace","path":"/n","value":7}]"#;
    std::fs::write(cli.dir().join("patch.json"), patch).unwrap();
    let id = cli.ok(&["update", "t", "a", "patch.json", "--id", "c", "--keep-metadata", "--expect-head", "b"]);
    assert_eq!(id, b"c\n");
    assert_eq!(cli.run(&["history", "t", "--json"]).json()[0]["metadata"], json!({"step": 1}));
    cli.run(&["update", "t", "a", "patch.json", "--metadata", "{\"step\":2}"]).done();
    assert_eq!(cli.run(&["history", "t", "--json"]).json()[0]["metadata"], json!({"step": 2}));

    cli.run(&["update", "t", "a", "patch.json", "--expect-head", "b"]).failed(4, "moved the thread");
    cli.run(&["update", "t", "a", "patch.json", "--id", "b"]).failed(4, "is there already");
    cli.run(&["update", "t", "b", "patch.json"]).failed(5, "operation 0");
    cli.run(&["update", "t", "absent", "patch.json"]).failed(1, "no checkpoint");
    cli.run(&["update", "absent", "a", "patch.json"]).failed(1, "no checkpoint");
    cli.run(&["update", "t", "a", "absent.json"]).failed(6, "absent.json");
    cli.run_with(&["update", "t", "a"], b"{}").failed(5, "JSON Patch");
    let nowhere = Cli::new();
    nowhere.run_with(&["update", "t", "a"], b"[]").failed(1, "runs");
    assert!(!nowhere.store().exists());
}

#[test]
fn what_is_not_exactly_json_is_summed_up() {
    let cli = Cli::new();
    cli.put("t", b"{\"n\":18446744073709551616}", &["--id", "huge"]);
    cli.put("t", b"{\"n\":18446744073709551617}", &["--id", "huger"]);
    cli.put("t", b"\x81\xa1n\x01", &["--id", "packed", "--type", "msgpack"]);
    let summary = cli.run(&["diff", "t", "huge", "huger"]).json().remove(0);
    assert_eq!((&summary["first_difference"], &summary["before"]["bytes"]), (&json!(24), &json!(26)));
    let summary = cli.run(&["diff", "t", "packed", "huge"]).json().remove(0);
    assert_eq!((&summary["first_difference"], &summary["before"]["type"]), (&json!(0), &json!("msgpack")));
    assert_eq!(cli.run(&["diff", "t", "huge", "huge"]).json()[0]["first_difference"], Value::Null);
    cli.run_with(&["update", "t", "huge"], b"[]").failed(5, "more digits");
    cli.run_with(&["update", "t", "packed"], b"[]").failed(5, "msgpack");
    cli.run(&["diff", "t", "huge", "absent"]).failed(1, "no checkpoint \"absent\"");
    cli.run(&["diff", "absent", "huge", "huger"]).failed(1, "no checkpoint");
}
