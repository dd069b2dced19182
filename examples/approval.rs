//! A run that needs a person's approval, in two processes that never wait for each other.
//!
//! `cargo run --example approval` starts itself as the agent, which asks and ends. Then the approval is listed
//! and given, and the agent, started again, goes on. Of any number of people who decide, one is heard.

use std::error::Error;
use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};
use taffrail::prelude::*;
use taffrail::run::{self, Run};

/// What the person is asked.
#[derive(Debug, Serialize, Deserialize)]
struct Payment {
    to: String,
    euros: u32,
}

/// What the person says.
#[derive(Debug, Serialize, Deserialize)]
enum Decision {
    Pay,
    PayAtMost(u32),
    Refuse(String),
}

fn main() -> Result<(), Box<dyn Error>> {
    match std::env::args().nth(1) {
        Some(dir) => agent(Path::new(&dir)),
        None => stage(),
    }
}

/// The agent: started as often as one likes, it goes on as far as it can.
fn agent(dir: &Path) -> Result<(), Box<dyn Error>> {
    let store = Store::open(dir)?;
    let mut run: Run<_, u32> = Run::start_or_resume(&store, "trip")?;
    let euros: u32 = run.step("find the price", |_| {
        println!("agent: looks for the price");
        std::io::Result::Ok(120)
    })?;
    let Some(decision) = run.await_approval("pay", &Payment { to: "the airline".into(), euros })? else {
        println!("agent: asks, and ends");
        return Ok(());
    };
    let paid = match decision {
        Decision::Pay => euros,
        Decision::PayAtMost(most) => euros.min(most),
        Decision::Refuse(why) => return Err(why.into()),
    };
    run.step("pay", |total| -> std::io::Result<()> {
        *total += paid;
        Ok(())
    })?;
    println!("agent: has paid {} euros", run.state());
    Ok(())
}

fn stage() -> Result<(), Box<dyn Error>> {
    let scratch = tempfile::tempdir()?;
    let agent = || Command::new(std::env::current_exe()?).arg(scratch.path().join("runs")).status();
    assert!(agent()?.success());

    // The person's process: what waits, and a decision on exactly that. (`taffrail waiting`, `taffrail approve`)
    let store = Store::open(scratch.path().join("runs"))?;
    let waiting = run::waiting(&store)?.collect::<taffrail::Result<Vec<_>>>()?;
    for asked in &waiting {
        println!("person: {} asks to {}: {:?}", asked.thread, asked.name, asked.payload::<Payment>()?);
    }
    run::approve_at(&store, "trip", &waiting[0].checkpoint, &Decision::PayAtMost(100))?;
    let late = run::approve_at(&store, "trip", &waiting[0].checkpoint, &Decision::Refuse("too dear".into()));
    println!("somebody else: too late, {:?}", late.expect_err("decided twice").kind());

    assert!(agent()?.success());
    println!("still waiting: {}", run::waiting(&store)?.count());
    Ok(())
}
