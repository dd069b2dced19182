//! A tour of the places that checkpoints can be kept in: what all of them do, and what tells them apart.
//!
//! `cargo run --example backends`, or with a place of your own choice:
//! `TAFFRAIL_PLACE=sqlite:runs.db cargo run --example backends`

use std::error::Error;

use taffrail::prelude::*;
use taffrail::{Batch, HistoryQuery, Matching, MemoryCheckpointer, OnExisting, PutOptions, ThreadQuery, TypeTag};

/// A program's own code takes any place: `&dyn Checkpointer`, or a generic one.
fn tour(place: &dyn Checkpointer) -> Result<(), Box<dyn Error>> {
    // What is not for all is told; to call it all the same is `Unsupported`, never a silent nothing.
    let has = place.capabilities();
    println!("  shared between processes: {}, vacuum: {}", has.shared_between_processes, has.vacuum);

    // Several checkpoints in each thread; thread ids are any text, and order is by bytes.
    for (user, steps) in [("user-1/trip", 3), ("user-1/tax", 1), ("user-2/trip", 2)] {
        (1..=steps).try_for_each(|step| place.put(user, &step).map(drop))?;
    }
    println!("  newest: {:?}, all: {:?}", place.get::<u32>("user-1/trip")?, {
        place.history::<u32>("user-1/trip", None)?.iter().map(|step| step.state).collect::<Vec<_>>()
    });

    // What is known without reading a state: page by page, a cursor at a time.
    let newest = place.list("user-1/trip", &HistoryQuery { limit: Some(2), ..HistoryQuery::default() })?;
    let last = newest.last().ok_or("no checkpoint")??;
    let older = place.list("user-1/trip", &HistoryQuery { before: Some(last.id), ..HistoryQuery::default() })?;
    println!("  {} checkpoint is older than the newest two", older.count());

    // Threads by a pattern, by what they begin with, and page by page.
    let listed = |query: ThreadQuery| place.list_threads(&query)?.map(|info| Ok(info?.thread)).collect::<taffrail::Result<Vec<_>>>();
    println!("  */trip: {:?}", listed(ThreadQuery { matching: Matching::Glob("*/trip".into()), ..ThreadQuery::default() })?);
    let mut page = ThreadQuery { matching: Matching::Prefix("user-".into()), limit: Some(2), ..ThreadQuery::default() };
    while let Some(last) = listed(page.clone())?.pop() {
        println!("  a page up to {last}");
        page.after = Some(last);
    }

    // All or nothing: two threads change together, and a value is attached to one of the checkpoints.
    let id = CheckpointId::new("both")?;
    let mut batch = Batch::new();
    batch.put("user-1/trip", TypeTag::JSON, b"4", PutOptions::default().id(id.clone()));
    batch.put("user-2/trip", TypeTag::BYTES, b"\x00\xff", PutOptions::default());
    batch.attach("user-1/trip", id.clone(), "approved by", TypeTag::JSON, b"\"anna\"", OnExisting::Keep);
    place.commit(&batch)?;
    println!("  attached: {:?}", place.attachments("user-1/trip", &id)?.iter().map(|one| &one.key).collect::<Vec<_>>());

    // Good habits: decide by an error's kind, and expect that absence is none.
    println!("  bytes read as JSON: {:?}", place.get::<u32>("user-2/trip").map_err(|error| error.kind()));
    println!("  nobody: {:?}, deleted: {}", place.get::<u32>("nobody")?, place.delete("nobody")?);
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    // The usual way: a name from the outside decides, and the program is the same.
    if let Ok(name) = std::env::var("TAFFRAIL_PLACE") {
        println!("{name}");
        return tour(&taffrail::open(&name)?);
    }
    let scratch = tempfile::tempdir()?;
    let path = |name: &str| scratch.path().join(name).display().to_string();
    for (what, name) in [
        ("log", format!("log:{}", path("runs"))),
        ("file", format!("file:{}", path("files"))),
        ("sqlite", format!("sqlite:{}", path("runs.db"))),
    ] {
        println!("{what}");
        tour(&taffrail::open(&name)?)?;
    }
    println!("memory, for tests");
    tour(&MemoryCheckpointer::with_max_history(10)?)
}
