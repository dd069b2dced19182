//! An agent run that is killed in the middle and picked up where it stopped.
//!
//! `cargo run --example resume` starts itself as the agent, which dies without a word while it charges a
//! card, and starts it again. Each step's intent and result are recorded, so the second agent does none of the
//! done ones again, and is told which one is in doubt. The bank knows whether that was done; nothing else can.

use std::error::Error;
use std::fs::{OpenOptions, read_to_string};
use std::io::Write;
use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};
use taffrail::prelude::*;
use taffrail::run::{Recorded, Run};

/// What the agent knows; each step may change it.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Trip {
    notes: Vec<String>,
}

fn main() -> Result<(), Box<dyn Error>> {
    match std::env::args().nth(1) {
        Some(dir) => agent(Path::new(&dir)),
        None => stage(),
    }
}

/// The agent: the same program whether it begins or goes on.
fn agent(dir: &Path) -> Result<(), Box<dyn Error>> {
    let store = Store::open(dir.join("runs"))?;
    let mut run: Run<_, Trip> = Run::start_or_resume(&store, "trip")?;
    if let Some(step) = run.unknown().map(str::to_owned) {
        println!("it is unknown how {step:?} ended");
        if read_to_string(dir.join("bank.txt"))?.contains(&step) {
            println!("the bank says that it was done");
            run.settle(&step, |trip| trip.notes.push(format!("{step}, says the bank")))?;
        }
        // Else the step would be done again: `run.step_again(&step, ..)`.
    }
    for name in ["search flights", "book a seat", "charge the card", "send the ticket"] {
        run.step(name, |trip| {
            call_tool(dir, name)?;
            trip.notes.push(name.to_owned());
            std::io::Result::Ok(())
        })?;
    }
    println!("done: {:?}", run.state().notes);
    Ok(())
}

/// A tool whose effect is a line in a file. For the show, the first agent dies when it has charged the card.
fn call_tool(dir: &Path, name: &str) -> std::io::Result<()> {
    println!("doing: {name}");
    writeln!(OpenOptions::new().create(true).append(true).open(dir.join("bank.txt"))?, "{name}")?;
    if name == "charge the card" && std::env::var_os("DIES").is_some() {
        std::process::abort();
    }
    Ok(())
}

/// Runs the agent twice, and shows that it lost and repeated nothing.
fn stage() -> Result<(), Box<dyn Error>> {
    let scratch = tempfile::tempdir()?;
    let mut agent = Command::new(std::env::current_exe()?);
    agent.arg(scratch.path());
    println!("the first agent died: {}", agent.env("DIES", "yes").status()?.code().is_none());
    println!("the second one ended well: {}", agent.env_remove("DIES").status()?.success());

    let effects = read_to_string(scratch.path().join("bank.txt"))?;
    assert_eq!(effects, "search flights\nbook a seat\ncharge the card\nsend the ticket\n");
    let store = Store::open(scratch.path().join("runs"))?;
    let trip = store.get::<Recorded<Trip>>("trip")?.ok_or("no run")?.state;
    println!("each tool ran once; the last note: {:?}", trip.notes.last());
    Ok(())
}
