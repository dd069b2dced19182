//! Two workers that want the same approval, and only one may have it.
//!
//! `cargo run --example two_workers` starts itself twice more. Both workers have the store open, read
//! the approval and find it free; then both put their claim, each only if what it has read is still
//! the newest. One put is done. The other answers `Conflict`: that worker reads again, and sees who
//! was faster. No lock is taken by hand, and a worker that dies holds up nobody.

use std::error::Error;
use std::io::{BufRead, BufReader, stdin};
use std::path::Path;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};
use taffrail::prelude::*;
use taffrail::{ErrorKind, ExpectedHead, PutOptions};

const THREAD: &str = "approval-7";

#[derive(Debug, Serialize, Deserialize)]
struct Approval {
    action: String,
    claimed_by: Option<String>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [dir, name] => worker(Path::new(dir), name),
        _ => stage(),
    }
}

/// A worker: read, decide, put; and again if somebody else has put in between.
fn worker(dir: &Path, name: &str) -> Result<(), Box<dyn Error>> {
    let store = Store::open(dir)?;
    loop {
        // Read the newest step, with its id.
        let seen = store.history::<Approval>(THREAD, 1)?.pop().ok_or("there is no approval")?;

        // Decide.
        if let Some(other) = seen.state.claimed_by {
            println!("{name}: {other} has it");
            return Ok(());
        }
        println!("{name}: it is free");
        wait_for_the_other()?;

        // Put, if that step is still the newest.
        let claim = Approval { claimed_by: Some(name.to_owned()), ..seen.state };
        let unchanged = PutOptions::default().expected_head(ExpectedHead::Id(seen.info.id));
        match store.put_with(THREAD, &claim, unchanged) {
            Ok(id) => {
                println!("{name}: claimed, as {id}");
                return Ok(());
            }
            Err(error) if error.kind() == ErrorKind::Conflict => println!("{name}: conflict, so it reads again"),
            Err(error) => return Err(error.into()),
        }
    }
}

/// For the show: both have read before either of them puts. A real worker goes straight on.
fn wait_for_the_other() -> std::io::Result<usize> {
    stdin().read_line(&mut String::new())
}

/// Puts an approval, lets two workers race for it, and shows that exactly one has got it.
fn stage() -> Result<(), Box<dyn Error>> {
    let dir = std::env::temp_dir().join(format!("taffrail-two-workers-{}", std::process::id()));
    let store = Store::open(&dir)?;
    store.put(THREAD, &Approval { action: "charge the card".to_owned(), claimed_by: None })?;

    let mut workers = Vec::new();
    for name in ["anna", "bert"] {
        let mut worker = Command::new(std::env::current_exe()?);
        let mut worker = worker.arg(&dir).arg(name).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let said = BufReader::new(worker.stdout.take().ok_or("the worker has no output")?);
        workers.push((worker, said.lines()));
    }
    let mut lines = Vec::new();
    for (_, said) in &mut workers {
        lines.push(said.next().ok_or("the worker said nothing")??);
    }
    // Both have found it free: closing their inputs lets them go on.
    workers.iter_mut().for_each(|(worker, _)| drop(worker.stdin.take()));
    for (worker, said) in &mut workers {
        lines.extend(said.collect::<Result<Vec<_>, _>>()?);
        assert!(worker.wait()?.success());
    }
    lines.iter().for_each(|line| println!("{line}"));

    let approval: Approval = store.get(THREAD)?.ok_or("the approval is gone")?;
    println!("{approval:?}");
    let count = |what: &str| lines.iter().filter(|line| line.contains(what)).count();
    assert_eq!((count("free"), count("claimed"), count("conflict"), count("has it")), (2, 1, 1, 1));
    let winner = approval.claimed_by.ok_or("nobody has claimed it")?;
    assert!(lines.iter().any(|line| line.starts_with(&format!("{winner}: claimed"))));
    assert_eq!(store.history::<Approval>(THREAD, None)?.len(), 2);
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}
