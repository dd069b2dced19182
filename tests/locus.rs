//! A real agent run goes through the command line and comes back byte for byte.
//!
//! `tests/data/locus-run.jsonl` holds the beginnings of three threads; `TAFFRAIL_LOCUS` can name the
//! whole run instead.

#![cfg(feature = "cli")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use support::Cli;
use taffrail::prelude::*;
use taffrail::{AgentState, HistoryQuery, TypeTag};

#[derive(Deserialize)]
struct Row<'a> {
    thread: String,
    #[serde(borrow)]
    state: &'a RawValue,
}

/// The states of each thread, in their order, as the bytes they are in the file.
fn states(text: &str) -> BTreeMap<String, Vec<&str>> {
    let mut threads: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for line in text.lines() {
        let row: Row<'_> = serde_json::from_str(line).unwrap();
        threads.entry(row.thread).or_default().push(row.state.get());
    }
    threads
}

fn file() -> PathBuf {
    std::env::var_os("TAFFRAIL_LOCUS")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/locus-run.jsonl"), PathBuf::from)
}

#[test]
fn every_state_of_a_run_comes_back_byte_for_byte() {
    let text = fs::read_to_string(file()).unwrap();
    let threads = states(&text);
    assert_eq!(threads.len(), 3);

    let cli = Cli::new();
    let ended = cli.run(&[std::ffi::OsStr::new("import"), file().as_os_str()]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    for (thread, states) in &threads {
        let steps = cli.run(&["history", thread, "--limit", "all", "--json"]).json();
        assert_eq!(steps.len(), states.len());
        for (step, state) in steps.iter().rev().zip(states) {
            assert_eq!(cli.ok(&["get", thread, "--id", step["id"].as_str().unwrap()]), state.as_bytes());
        }
    }
    cli.ok(&["verify"]);

    // Once more through a new handle, and through an export into another store.
    let other = Cli::new();
    assert_eq!(other.run_with(&["import", "-"], &cli.ok(&["export"])).code, Some(0));
    for cli in [&cli, &other] {
        let store = Store::options().create(false).open(cli.store()).unwrap();
        for (thread, states) in &threads {
            let newest_first = store.history_bytes(thread, &HistoryQuery::default()).unwrap();
            let kept: Vec<Vec<u8>> = newest_first.map(|step| step.unwrap().state.into_vec()).collect();
            assert!(kept.iter().rev().map(Vec::as_slice).eq(states.iter().map(|state| state.as_bytes())), "{thread}");
        }
    }
}

#[test]
fn a_run_put_step_by_step_is_there_after_each() {
    let text = fs::read_to_string(file()).unwrap();
    let cli = Cli::new();
    for (thread, states) in states(&text) {
        for state in states.iter().take(5) {
            cli.put(&thread, state.as_bytes(), &[]);
            assert_eq!(cli.ok(&["get", &thread]), state.as_bytes());
        }
        let store = Store::open(cli.store()).unwrap();
        assert_eq!(store.get_bytes(&thread).unwrap().unwrap().tag, TypeTag::JSON);
    }
}

/// Writes JSON as Python's `json.dumps` does.
struct Python;

impl serde_json::ser::Formatter for Python {
    fn begin_array_value<W: ?Sized + std::io::Write>(&mut self, out: &mut W, first: bool) -> std::io::Result<()> {
        if first { Ok(()) } else { out.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + std::io::Write>(&mut self, out: &mut W, first: bool) -> std::io::Result<()> {
        if first { Ok(()) } else { out.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + std::io::Write>(&mut self, out: &mut W) -> std::io::Result<()> {
        out.write_all(b": ")
    }
}

#[test]
fn every_state_of_a_run_is_read_as_an_agents_and_written_back_byte_for_byte() {
    let text = fs::read_to_string(file()).unwrap();
    let mut read = 0;
    for line in text.lines() {
        let row: Row<'_> = serde_json::from_str(line).unwrap();
        let state: AgentState = serde_json::from_str(row.state.get()).unwrap();
        assert!(!state.messages.is_empty() && state.iteration > 0);
        let mut written = Vec::new();
        state.serialize(&mut serde_json::Serializer::with_formatter(&mut written, Python)).unwrap();
        assert_eq!(String::from_utf8(written).unwrap(), row.state.get());
        read += 1;
    }
    assert!(read >= 33);
}
