//! Time travel: go back to an earlier step and try another way from there, without losing the first.
//!
//! `cargo run --example fork`

use serde::{Deserialize, Serialize};
use taffrail::prelude::*;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Plan {
    steps: Vec<String>,
}

impl Plan {
    fn with(mut self, step: &str) -> Self {
        self.steps.push(step.into());
        self
    }
}

fn show(store: &Store, thread: &str) -> taffrail::Result<()> {
    let plan: Plan = store.get(thread)?.unwrap_or_default();
    println!("{thread}: {}", plan.steps.join(", "));
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scratch = tempfile::tempdir()?;
    let store = Store::open(scratch.path().join("runs"))?;

    // A run that went wrong at its third step.
    let mut plan = Plan::default();
    let mut ids = Vec::new();
    for step in ["search", "choose the night train", "miss it", "complain"] {
        plan = plan.with(step);
        ids.push(store.put("trip", &plan)?);
    }
    show(&store, "trip")?;

    // Another thread with all that there was up to the second step. It owns its history.
    let head = store.fork("trip", Some(&ids[1]), "trip, by day")?;
    assert_eq!(head, ids[1], "a fork keeps the ids");
    let plan: Plan = store.get("trip, by day")?.ok_or("no such thread")?;
    store.put("trip, by day", &plan.with("wait for the morning").with("arrive"))?;
    show(&store, "trip, by day")?;
    show(&store, "trip")?;

    // Only one can have a name.
    let error = store.fork("trip", None, "trip, by day").expect_err("the name is taken");
    println!("a second fork of that name: {:?}", error.kind());

    // Going back in the same thread loses what came after.
    println!("rolled back: {} checkpoints are gone", store.rollback("trip", &ids[1])?);
    show(&store, "trip")?;

    // A thread may be given another name, and what was forked outlives its source.
    store.delete("trip")?;
    store.rename("trip, by day", "trip")?;
    show(&store, "trip")?;
    println!("threads: {:?}, with {} checkpoints", store.threads()?, store.history::<Plan>("trip", None)?.len());
    Ok(())
}
