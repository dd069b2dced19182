//! A search by metadata over 100,000 checkpoints, and what changed between two states of 1 MiB.

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use taffrail::{Batch, Checkpointer, Durability, FindQuery, Metadata, PutOptions, Store, TypeTag, diff};
use taffrail_benches::Outcome;
use taffrail_benches::load::thread_name;
use taffrail_benches::noise::Noise;

use crate::Settings;
use crate::table::{self, Summary, Wanted, spread};

const THREADS: usize = 1000;
const DEPTH: usize = 100;
const STATE_BYTES: usize = 512;
/// Every so many checkpoints one is meant.
const MEANT: usize = 1000;

/// Milliseconds of a search, those who found so many.
fn search(store: &Store, query: &FindQuery, wanted: usize) -> Outcome<f64> {
    let start = Instant::now();
    let found = store.find(query)?.collect::<taffrail::Result<Vec<_>>>()?.len();
    let millis = start.elapsed().as_secs_f64() * 1e3;
    if found == wanted { Ok(millis) } else { Err(format!("{found} were found instead of {wanted}").into()) }
}

/// A search for one in a thousand, over all threads and for the newest alone.
pub fn metadata(settings: &Settings, parent: &Path, summary: &mut Summary) -> Outcome<()> {
    let scratch = tempfile::tempdir_in(parent)?;
    let store = Store::options().max_history(None).durability(Durability::Buffered).open(scratch.path().join("store"))?;
    let names: Vec<String> = (0..THREADS).map(thread_name).collect();
    let mut noise = Noise::new(3);
    for step in 0..DEPTH {
        let state = noise.next(STATE_BYTES);
        let mut batch = Batch::new();
        for (at, name) in names.iter().enumerate() {
            let text = format!(r#"{{"step":{step},"user":{{"name":"user {}"}},"cost":0.25}}"#, (step * THREADS + at) % MEANT);
            batch.put(name, TypeTag::BYTES, state, PutOptions::default().metadata(Metadata::from_json(text)?));
        }
        store.commit(&batch)?;
    }
    let all = FindQuery { metadata: vec![("user.name".into(), "user 42".into())], ..FindQuery::default() };
    let newest = FindQuery { limit: Some(1), ..all.clone() };
    let (mut whole, mut first) = (Vec::new(), Vec::new());
    for _ in 0..settings.rounds() {
        whole.push(search(&store, &all, THREADS * DEPTH / MEANT)?);
        first.push(search(&store, &newest, 1)?);
    }
    let title = "find by metadata over 1,000 threads x 100 checkpoints, ms";
    table::print(title, &["what", "ms"], &[vec!["all".into(), spread(&whole)], vec!["the newest".into(), spread(&first)]]);
    summary.add("find --metadata over 100,000 checkpoints, ms", table::median(whole), Wanted::AtMost(200.0), "one in 1,000 is meant");
    Ok(())
}

/// The difference of two states of 1 MiB that share all but a message dropped, one added and a count.
pub fn differences(settings: &Settings, parent: &Path, summary: &mut Summary) -> Outcome<()> {
    let scratch = tempfile::tempdir_in(parent)?;
    let store = Store::open(scratch.path().join("store"))?;
    let words = "words ".repeat(30);
    let message = |at: usize| format!(r#"{{"role":"user","content":"{words}{at}","score":{}}}"#, at as f64 / 7.0);
    let state = |from: usize| {
        let messages: Vec<String> = (from..from + 4400).map(message).collect();
        format!(r#"{{"messages":[{}],"step":{from}}}"#, messages.join(","))
    };
    let put = |state: String| store.put_bytes("t", TypeTag::JSON, state.as_bytes(), PutOptions::default());
    let ids = [put(state(0))?, put(state(1))?];
    let [before, after] = ids.map(|id| store.load_bytes("t", &id));
    let (before, after) = (before?.ok_or("a state is missing")?, after?.ok_or("a state is missing")?);
    let mut millis = Vec::new();
    for _ in 0..settings.rounds() {
        let start = Instant::now();
        black_box(diff(&before, &after));
        millis.push(start.elapsed().as_secs_f64() * 1e3);
    }
    let beside = format!("{} and {} bytes", before.bytes, after.bytes);
    summary.add("diff of two states of 1 MiB, ms", table::median(millis), Wanted::AtMost(50.0), &beside);
    Ok(())
}
