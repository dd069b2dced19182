//! An agent run that is killed in the middle and picked up where it stopped.
//!
//! `cargo run --example resume` starts itself a second time as the agent, kills that process with
//! SIGKILL after its fourth step, and starts another one, which goes on with the fifth. Each step is
//! one `put` of the whole state. A tool's call is in the state before the tool runs and its result
//! after, so a resumed run knows what may have happened; the tool tells by the call's number whether
//! it has. No tool runs twice.

use std::error::Error;
use std::fs::{OpenOptions, read_to_string};
use std::io::{BufRead, BufReader, Write, stdin};
use std::path::Path;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};
use taffrail::prelude::*;

/// All that the agent needs to go on.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Run {
    step: u32,
    results: Vec<String>,
    calling: Option<String>,
    answer: Option<String>,
}

fn main() -> Result<(), Box<dyn Error>> {
    match std::env::args().nth(1) {
        Some(dir) => agent(Path::new(&dir)),
        None => stage(),
    }
}

/// The agent: load the newest state, then step after step do one thing and put the state.
fn agent(dir: &Path) -> Result<(), Box<dyn Error>> {
    let store = Store::open(dir.join("runs"))?;
    let mut run: Run = store.get("trip")?.unwrap_or_default();
    println!("agent {}: goes on after step {}", std::process::id(), run.step);
    while run.answer.is_none() {
        let did = match run.calling.take() {
            Some(tool) => {
                run.results.push(call_tool(dir, run.results.len(), &tool)?);
                format!("called {tool}")
            }
            None => {
                ask_model(&mut run);
                format!("asked the model, which wants {:?}", run.calling.as_ref().or(run.answer.as_ref()))
            }
        };
        run.step += 1;
        store.put("trip", &run)?;
        println!("agent {}: step {} {did}", std::process::id(), run.step);
        if std::env::var("STALL_AFTER") == Ok(run.step.to_string()) {
            // Stands still until it is killed (or until there is no one left to do it).
            stdin().read_line(&mut String::new())?;
        }
    }
    Ok(())
}

/// A model that has read the script: it wants these tools, in this order.
fn ask_model(run: &mut Run) {
    match ["search_flights", "book_seat", "charge_card"].get(run.results.len()) {
        Some(tool) => run.calling = Some((*tool).to_owned()),
        None => run.answer = Some("you fly to Lisbon on 12 May".to_owned()),
    }
}

/// A tool whose effect is a line in a file, made once for each call number.
fn call_tool(dir: &Path, number: usize, tool: &str) -> Result<String, Box<dyn Error>> {
    let (effects, effect) = (dir.join("effects.txt"), format!("call {number}: {tool}"));
    if !read_to_string(&effects).unwrap_or_default().lines().any(|line| line == effect) {
        let mut file = OpenOptions::new().create(true).append(true).open(effects)?;
        writeln!(file, "{effect}")?;
        file.sync_all()?;
    }
    Ok(format!("{tool} is done"))
}

/// Runs the agent twice, killing it the first time, and shows that it lost and repeated nothing.
fn stage() -> Result<(), Box<dyn Error>> {
    let dir = std::env::temp_dir().join(format!("taffrail-resume-{}", std::process::id()));
    std::fs::create_dir(&dir)?;
    let mut agent = Command::new(std::env::current_exe()?);
    agent.arg(&dir).stdin(Stdio::piped());

    let mut first = agent.env("STALL_AFTER", "4").stdout(Stdio::piped()).spawn()?;
    let said = first.stdout.take().ok_or("the agent has no output")?;
    for line in BufReader::new(said).lines() {
        let line = line?;
        println!("{line}");
        if line.contains("step 4 ") {
            first.kill()?;
        }
    }
    println!("agent {} ended: {}", first.id(), first.wait()?);

    let second = agent.env_remove("STALL_AFTER").stdout(Stdio::inherit()).status()?;
    println!("the second agent ended: {second}");

    let store = Store::open(dir.join("runs"))?;
    let steps = store.history::<Run>("trip", None)?;
    println!("{} steps are kept; the answer: {:?}", steps.len(), steps[0].state.answer);
    let effects = read_to_string(dir.join("effects.txt"))?;
    print!("{effects}");
    assert_eq!(effects, "call 0: search_flights\ncall 1: book_seat\ncall 2: charge_card\n");
    assert_eq!(steps.iter().rev().map(|step| step.state.step).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7]);
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}
