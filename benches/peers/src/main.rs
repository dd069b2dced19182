//! One workload definition over taffrail, SQLite, LMDB, redb and fjall, as a table and a plot.
//!
//! Each measurement is a process of its own: this program, started again with `--one` or `--open`. The
//! stores of a round follow one another, forwards and then backwards, so that what the machine does
//! meanwhile meets all alike. README.md one directory up says on which terms they are compared.

mod fjall;
mod machine;
mod measure;
mod peer;
mod plot;
mod redb;
mod report;
mod work;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::de::DeserializeOwned;
use taffrail_benches::{Outcome, device};

use machine::Machine;
use peer::{PEERS, Peer};
use report::{Results, Rounds};
use work::{WORKS, Work};

const USAGE: &str = "peers [--rounds N] [--dir DIR] [--work NAME]... [--store NAME]... [--out DIR] [--note TEXT]";
const ROUNDS: usize = 7;

/// What was asked for.
struct Asked {
    rounds: usize,
    /// Where the stores are made; beside the built program by default.
    dir: Option<PathBuf>,
    works: Vec<String>,
    stores: Vec<String>,
    /// Where RESULTS.md and RESULTS.svg are written.
    out: PathBuf,
    /// What else a reader should know of this run.
    note: String,
}

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--one", store, work, dir] => print(&measure::run(Peer::of(store)?, Work::of(work)?, Path::new(dir))?),
        ["--open", store, work, dir] => print(&measure::open(Peer::of(store)?, Work::of(work)?, Path::new(dir))?),
        _ => compare(&asked(args)?),
    }
}

fn print(seen: &impl serde::Serialize) -> Outcome<()> {
    println!("{}", serde_json::to_string(seen)?);
    Ok(())
}

fn asked(args: Vec<String>) -> Outcome<Asked> {
    let out = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut asked = Asked { rounds: ROUNDS, dir: None, works: Vec::new(), stores: Vec::new(), out, note: String::new() };
    let mut args = args.into_iter();
    while let Some(option) = args.next() {
        let value = args.next().ok_or(USAGE)?;
        match option.as_str() {
            "--rounds" => asked.rounds = value.parse()?,
            "--dir" => asked.dir = Some(value.into()),
            "--work" => asked.works.push(Work::of(&value)?.name.to_owned()),
            "--store" => asked.stores.push(Peer::of(&value)?.name.to_owned()),
            "--note" => asked.note = value,
            "--out" => asked.out = value.into(),
            _ => return Err(USAGE.into()),
        }
    }
    Ok(asked)
}

fn compare(asked: &Asked) -> Outcome<()> {
    let scratch = device::scratch(asked.dir.clone())?;
    let machine = Machine::of(scratch.path())?;
    let mut results: Results = WORKS.iter().map(|_| vec![Rounds::default(); PEERS.len()]).collect();
    for round in 0..asked.rounds {
        for (work, stores) in WORKS.iter().zip(&mut results) {
            let wanted = |peer: &Peer| asked.stores.is_empty() || asked.stores.iter().any(|name| name == peer.name);
            let mut order: Vec<usize> = (0..PEERS.len()).filter(|&at| wanted(&PEERS[at])).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            if asked.works.is_empty() || asked.works.iter().any(|name| name == work.name) {
                for at in order {
                    once(&PEERS[at], work, scratch.path(), &mut stores[at])?;
                }
                eprintln!("round {} of {}: {}", round + 1, asked.rounds, work.name);
            }
        }
        // After each round: one that is broken off leaves what the others have shown.
        std::fs::write(asked.out.join("RESULTS.md"), report::page(&results, round + 1, &machine, &asked.note))?;
        std::fs::write(asked.out.join("RESULTS.svg"), plot::svg(WORKS[0].title, &results[0]))?;
    }
    Ok(())
}

/// One store's turn in a round, in an empty directory.
fn once(peer: &Peer, work: &Work, scratch: &Path, rounds: &mut Rounds) -> Outcome<()> {
    let dir = tempfile::tempdir_in(scratch)?;
    rounds.runs.push(by_itself("--one", peer, work, dir.path())?);
    rounds.opens.push(by_itself::<measure::Opened>("--open", peer, work, dir.path())?.micros);
    if peer.name == PEERS[0].name {
        rounds.compacted_bytes = Some(measure::compacted(work, dir.path())?);
    }
    Ok(())
}

/// What a process of its own saw.
fn by_itself<T: DeserializeOwned>(what: &str, peer: &Peer, work: &Work, dir: &Path) -> Outcome<T> {
    let ended = Command::new(std::env::current_exe()?).args([what, peer.name, work.name]).arg(dir).output()?;
    if !ended.status.success() {
        return Err(format!("{} with {}: {}", peer.name, work.name, String::from_utf8_lossy(&ended.stderr)).into());
    }
    Ok(serde_json::from_slice(&ended.stdout)?)
}
