//! Several agents as tasks of one tokio runtime, over one store, and a task that looks on.
//!
//! `cargo run --features tokio --example async`. Each agent saves its whole state after each step; while
//! one waits for the device, the others go on. The onlooker is told of each checkpoint once, in the
//! store's order. One agent is cut off by a time-out in the middle of a put: that put is there or not,
//! and after `settled` it stays so.

use std::error::Error;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use taffrail::{AsyncItems, AsyncStore, Store};

const AGENTS: usize = 8;
const STEPS: usize = 25;

#[derive(Debug, Default, Serialize, Deserialize)]
struct Run {
    step: usize,
    notes: Vec<String>,
}

/// The agent: load the newest state, then step after step do one thing and put the state.
async fn agent(place: AsyncStore, thread: String) -> taffrail::Result<()> {
    let mut run: Run = place.get(&thread).await?.unwrap_or_default();
    while run.step < STEPS {
        run.step += 1;
        run.notes.push(format!("{thread} did step {}", run.step));
        place.put(&thread, &run).await?;
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::temp_dir().join(format!("taffrail-async-{}", std::process::id()));
    let opening = dir.clone();
    let store = tokio::task::spawn_blocking(move || Store::open(opening)).await??;
    let mut told = AsyncItems::from(store.watch(None)?);
    let place = AsyncStore::new(store);

    let agents: Vec<_> = (0..AGENTS).map(|number| tokio::spawn(agent(place.clone(), format!("agent-{number}")))).collect();
    for _ in 0..AGENTS * STEPS {
        let Some(checkpoint) = told.next().await.transpose()? else { return Err("the watch ended".into()) };
        if checkpoint.parent.is_none() {
            println!("{} has begun", checkpoint.thread);
        }
    }
    for agent in agents {
        agent.await??;
    }
    println!("{AGENTS} agents put {STEPS} steps each, and each was told once");

    let last = place.put("cut-off", &Run::default());
    let in_time = tokio::time::timeout(Duration::from_micros(50), last).await.is_ok();
    place.settled().await?;
    println!("answered in time: {in_time}; there: {}", place.exists("cut-off").await?);

    drop(told);
    place.close().await?;
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}
