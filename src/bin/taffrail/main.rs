//! The command line of taffrail: puts, reads and keeps house over the library's public face.
//!
//! Here an invocation is parsed and handed to its verb, and the verb's end becomes an exit code and
//! at most one line on standard error. Nothing here or below knows how a store is laid out.

mod approve;
mod args;
mod attach;
mod bench;
mod branch;
mod carried;
mod copy;
mod demo;
mod diff;
mod export;
mod failure;
mod find;
mod import;
mod keep;
mod output;
mod place;
mod pretty;
mod progress;
mod put;
mod read;
mod rows;
mod source;
mod update;

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::{CommandFactory, Parser};
use signal_hook::consts::SIGXFSZ;

use args::{CommandLine, Verb};
use failure::{Failure, SYSTEM, USAGE};
use output::Output;

fn main() -> ExitCode {
    let ended = ignore_file_size_signal().and_then(|()| run());
    let Err(failure) = ended else { return ExitCode::SUCCESS };
    if let Some(message) = failure.message {
        // If standard error is gone too there is nobody left to tell.
        let _ = writeln!(io::stderr(), "taffrail: {}", output::one_line(&message));
    }
    ExitCode::from(failure.code)
}

/// A write beyond the file size limit then fails and is reported, instead of ending the process.
fn ignore_file_size_signal() -> failure::Result<()> {
    signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))
        .map(drop)
        .map_err(|error| Failure::new(SYSTEM, format!("cannot set up signals: {error}")))
}

fn run() -> failure::Result<()> {
    let line = match CommandLine::try_parse() {
        Ok(line) => line,
        Err(error) if error.use_stderr() => {
            let _ = error.print();
            return Err(Failure::said(USAGE));
        }
        Err(help) => return Ok(help.print()?),
    };
    match line.verb {
        Verb::Completions(args) => completions(&args),
        Verb::Man(args) => manual(&args),
        Verb::Demo(args) => demo::demo(line.store, &args),
        Verb::Bench(args) => bench::bench(&args),
        Verb::Copy(args) => copy::copy(line.store.as_deref(), &args),
        verb => {
            let place = place::name(line.store)?;
            on_place(&place, verb).map_err(|failure| failure.at(place))
        }
    }
}

fn on_place(place: &str, verb: Verb) -> failure::Result<()> {
    match verb {
        Verb::Put(args) => put::put(place, &args),
        Verb::Get(args) => read::get(place, &args),
        Verb::History(args) => read::history(place, &args),
        Verb::Threads(args) => read::threads(place, &args),
        Verb::Find(args) => find::find(place, &args),
        Verb::Diff(args) => diff::diff(place, &args),
        Verb::Update(args) => update::update(place, &args),
        Verb::Watch(args) => read::watch(place, &args),
        Verb::Attach(args) => attach::attach(place, &args),
        Verb::Attachments(args) => attach::attachments(place, &args),
        Verb::Approve(args) => approve::approve(place, &args),
        Verb::Waiting(args) => approve::waiting(place, &args),
        Verb::Delete(args) => keep::delete(place, &args),
        Verb::Fork(args) => branch::fork(place, &args),
        Verb::Rename(args) => branch::rename(place, &args),
        Verb::Rollback(args) => branch::rollback(place, &args),
        Verb::Retain(args) => keep::retain(place, &args),
        Verb::Vacuum(args) => keep::vacuum(place, &args),
        Verb::Compact => keep::compact(place),
        Verb::Stats(args) => keep::stats(place, &args),
        Verb::Verify(args) => keep::verify(place, &args),
        Verb::Backup(args) => keep::backup(place, &args),
        Verb::Repair(args) => keep::repair(place, &args),
        Verb::Export(args) => export::export(place, &args),
        Verb::Import(args) => import::import(place, &args),
        Verb::Copy(args) => copy::copy(None, &args),
        Verb::Completions(args) => completions(&args),
        Verb::Man(args) => manual(&args),
        Verb::Demo(args) => demo::demo(Some(place.to_owned()), &args),
        Verb::Bench(args) => bench::bench(&args),
    }
}

fn completions(args: &args::Completions) -> failure::Result<()> {
    // clap_complete panics when its writer fails; a vector does not.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut CommandLine::command(), "taffrail", &mut script);
    print(&script)
}

fn manual(args: &args::Manual) -> failure::Result<()> {
    let mut command = CommandLine::command();
    // Fills in what a verb's page takes from the whole: its full name, the place.
    command.build();
    let command = match &args.verb {
        None => command,
        Some(verb) => match command.find_subcommand(verb) {
            Some(found) => found.clone(),
            None => return Err(Failure::new(USAGE, format!("no verb {verb:?}"))),
        },
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    print(&page)
}

fn print(bytes: &[u8]) -> failure::Result<()> {
    let mut out = Output::new();
    out.write_all(bytes)?;
    Ok(out.finish()?)
}
