//! Every example, run as a reader would run it: it ends well and prints what it teaches.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// Where the examples are, built in the profile of this test and as they stand now.
static BUILT: LazyLock<PathBuf> = LazyLock::new(|| {
    let test = std::env::current_exe().unwrap();
    let profile_dir = test.parent().and_then(Path::parent).unwrap();
    let profile = profile_dir.file_name().unwrap().to_str().unwrap();
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--examples", "--features", "tokio", "--profile", if profile == "debug" { "dev" } else { profile }]);
    build.arg("--target-dir").arg(profile_dir.parent().unwrap()).current_dir(env!("CARGO_MANIFEST_DIR"));
    assert!(build.status().unwrap().success(), "the examples do not build");
    profile_dir.join("examples")
});

/// Runs an example and answers its lines.
fn lines(example: &str) -> Vec<String> {
    let output = Command::new(BUILT.join(example)).env_remove("TAFFRAIL_PLACE").output().unwrap();
    assert!(output.status.success(), "{example}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn every_example_is_run_and_short() {
    let here = include_str!("examples.rs");
    for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(here.contains(&format!("lines(\"{name}\")")), "{name} is not run");
        assert!(std::fs::read_to_string(&path).unwrap().lines().count() < 80, "{name} is too long to be read");
    }
}

#[test]
fn quickstart() {
    let expected = [
        "a trip to Lisbon: 3 messages",
        "nobody: None",
        r#"step Some(3) said Some("three flights found")"#,
        r#"step Some(2) said Some("12 to 19 May")"#,
        "it began with 0 messages, and no parent: true",
        r#"threads: ["trip"]"#,
        "deleted: true, then: []",
    ];
    assert_eq!(lines("quickstart"), expected);
}

#[test]
fn resume() {
    let expected = [
        "doing: search flights",
        "doing: book a seat",
        "doing: charge the card",
        "the first agent died: true",
        r#"it is unknown how "charge the card" ended"#,
        "the bank says that it was done",
        "doing: send the ticket",
        r#"done: ["search flights", "book a seat", "charge the card, says the bank", "send the ticket"]"#,
        "the second one ended well: true",
        r#"each tool ran once; the last note: Some("send the ticket")"#,
    ];
    assert_eq!(lines("resume"), expected);
}

#[test]
fn fork() {
    let expected = [
        "trip: search, choose the night train, miss it, complain",
        "trip, by day: search, choose the night train, wait for the morning, arrive",
        "trip: search, choose the night train, miss it, complain",
        "a second fork of that name: Conflict",
        "rolled back: 2 checkpoints are gone",
        "trip: search, choose the night train",
        "trip: search, choose the night train, wait for the morning, arrive",
        r#"threads: ["trip"], with 3 checkpoints"#,
    ];
    assert_eq!(lines("fork"), expected);
}

#[test]
fn approval() {
    let expected = [
        "agent: looks for the price",
        "agent: asks, and ends",
        r#"person: trip asks to pay: Payment { to: "the airline", euros: 120 }"#,
        "somebody else: too late, Conflict",
        "agent: has paid 100 euros",
        "still waiting: 0",
    ];
    assert_eq!(lines("approval"), expected);
}

#[test]
fn two_workers() {
    let lines = lines("two_workers");
    let count = |what: &str| lines.iter().filter(|line| line.ends_with(what)).count();
    assert_eq!((count(": it is free"), count(": claimed"), count(": conflict, so it reads again")), (2, 1, 1), "{lines:?}");
    let winner = lines.iter().find_map(|line| line.strip_suffix(": claimed")).unwrap();
    assert_eq!(lines.last().unwrap(), &format!("in the end {winner} has it"));
    assert_eq!(count(&format!(": {winner} has it")), 1);
}

#[test]
fn backends() {
    let tour = |what: &str, shared: bool| {
        let shared = format!("  shared between processes: {shared}, vacuum: true");
        [what, &shared].into_iter().chain(TOUR).map(str::to_owned).collect::<Vec<_>>()
    };
    let expected = [tour("log", true), tour("file", false), tour("sqlite", true), tour("memory, for tests", false)].concat();
    assert_eq!(lines("backends"), expected);
    let scratch = tempfile::tempdir().unwrap();
    let place = format!("sqlite:{}", scratch.path().join("runs.db").display());
    let chosen = Command::new(BUILT.join("backends")).env("TAFFRAIL_PLACE", &place).output().unwrap();
    assert_eq!(String::from_utf8(chosen.stdout).unwrap().lines().collect::<Vec<_>>(), tour(&place, true));
}

/// What the tour shows of every place.
const TOUR: [&str; 8] = [
    "  newest: Some(3), all: [3, 2, 1]",
    "  1 checkpoint is older than the newest two",
    r#"  */trip: ["user-1/trip", "user-2/trip"]"#,
    "  a page up to user-1/trip",
    "  a page up to user-2/trip",
    r#"  attached: ["approved by"]"#,
    "  bytes read as JSON: Err(Decode)",
    "  nobody: None, deleted: false",
];

#[test]
#[allow(non_snake_case)]
fn r#async() {
    let lines = lines("async");
    assert_eq!(lines.iter().filter(|line| line.ends_with(" has begun")).count() + 2, lines.len(), "{lines:?}");
    assert!(lines[lines.len() - 2].ends_with("and each was told once"), "{lines:?}");
    assert!(lines[lines.len() - 1].starts_with("answered in time: "), "{lines:?}");
}
