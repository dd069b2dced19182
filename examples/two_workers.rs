//! Two workers that want the same job, and only one may have it.
//!
//! `cargo run --example two_workers` starts itself twice more. Both read the job and find it free; both put
//! their claim, each only if what it has read is still the newest. One put is done. The other answers
//! `Conflict`: that worker reads again, and sees who was faster. No lock is taken by hand, and a worker that
//! dies holds up nobody.

use std::error::Error;
use std::io::{BufRead, BufReader, stdin};
use std::path::Path;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};
use taffrail::prelude::*;
use taffrail::{ErrorKind, ExpectedHead, PutOptions};

#[derive(Debug, Serialize, Deserialize)]
struct Job {
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
        let seen = store.history::<Job>("job-7", 1)?.pop().ok_or("there is no job")?;
        if let Some(other) = seen.state.claimed_by {
            println!("{other} has it");
            return Ok(());
        }
        println!("it is free");
        // For the show: both have read before either of them puts. A real worker goes straight on.
        stdin().read_line(&mut String::new())?;

        let unchanged = PutOptions::default().expected_head(ExpectedHead::Id(seen.info.id));
        match store.put_with("job-7", &Job { claimed_by: Some(name.to_owned()) }, unchanged) {
            Ok(_) => {
                println!("claimed");
                return Ok(());
            }
            Err(error) if error.kind() == ErrorKind::Conflict => println!("conflict, so it reads again"),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Lets two workers race for a job, and shows that exactly one has got it.
fn stage() -> Result<(), Box<dyn Error>> {
    let scratch = tempfile::tempdir()?;
    let store = Store::open(scratch.path())?;
    store.put("job-7", &Job { claimed_by: None })?;
    let mut workers = Vec::new();
    for name in ["anna", "bert"] {
        let mut command = Command::new(std::env::current_exe()?);
        let mut worker = command.arg(scratch.path()).arg(name).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut said = BufReader::new(worker.stdout.take().ok_or("no output")?).lines();
        println!("{name}: {}", said.next().ok_or("the worker said nothing")??);
        workers.push((name, worker, said));
    }
    // Both have found it free: closing their inputs lets them go on.
    workers.iter_mut().for_each(|(_, worker, _)| drop(worker.stdin.take()));
    for (name, worker, said) in &mut workers {
        said.try_for_each(|line| line.map(|line| println!("{name}: {line}")))?;
        assert!(worker.wait()?.success());
    }
    let job: Job = store.get("job-7")?.ok_or("the job is gone")?;
    println!("in the end {} has it", job.claimed_by.ok_or("nobody has it")?);
    Ok(())
}
