//! The first ten minutes: put a state after each step, get it back, look at any step there was.
//!
//! `cargo run --example quickstart`

use serde::{Deserialize, Serialize};
use taffrail::prelude::*;
use taffrail::{Metadata, PutOptions};

/// The whole state of an agent after one step: anything that serde can write.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Agent {
    goal: String,
    messages: Vec<String>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scratch = tempfile::tempdir()?;
    let dir = scratch.path().join("runs");

    // A store is a directory; it is made if it is not there.
    let store = Store::open(&dir)?;

    // A thread is a line of checkpoints, each the whole state. `put` returns once it is on the disk.
    let mut agent = Agent { goal: "a trip to Lisbon".into(), messages: Vec::new() };
    let first = store.put("trip", &agent)?;
    for (step, text) in ["which dates?", "12 to 19 May", "three flights found"].into_iter().enumerate() {
        agent.messages.push(text.into());
        // Metadata is a small JSON object beside the state, which lists show without reading the state.
        let metadata = Metadata::new(&serde_json::json!({"step": step + 1, "said": text}))?;
        store.put_with("trip", &agent, PutOptions::default().metadata(metadata))?;
    }

    // Closing is not needed for anything to be kept. Another process, or this one later, opens it again.
    store.close()?;
    let store = Store::open(&dir)?;

    // The newest state; None if there is no such thread.
    let newest: Agent = store.get("trip")?.ok_or("no such thread")?;
    println!("{}: {} messages", newest.goal, newest.messages.len());
    println!("nobody: {:?}", store.get::<Agent>("nobody")?.map(|agent| agent.goal));

    // Its history, newest first, with ids, times and metadata.
    for step in store.history::<Agent>("trip", 2)? {
        println!("step {:?} said {:?}", step.metadata.get::<u32>("step")?, step.state.messages.last());
    }

    // Any step by its id.
    let begin = store.load::<Agent>("trip", &first)?.ok_or("no such checkpoint")?;
    println!("it began with {} messages, and no parent: {}", begin.state.messages.len(), begin.parent.is_none());

    // Threads are listed, and deleted.
    println!("threads: {:?}", store.threads()?);
    println!("deleted: {}, then: {:?}", store.delete("trip")?, store.threads()?);
    Ok(())
}
