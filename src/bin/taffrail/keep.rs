//! `delete`, `retain`, `vacuum`, `compact`, `stats`, `verify`, `backup`, `repair`: the housekeeping of a store.
//!
//! None of them makes a store at the place. `verify`, `stats`, `backup` and a dry `vacuum` only read, beside
//! whoever has it open; `repair` does not even open it.

use std::io::Write;
use std::path::Path;

use taffrail::{CheckpointId, Error, ErrorKind, Finding, Store, VacuumQuery};

use crate::args::{Backup, Delete, Listing, Retain, Salvage, Vacuum};
use crate::failure::{DAMAGE, Failure, Result};
use crate::output::{self, Output};
use crate::place::{self, Place};
use crate::progress;
use crate::read::no_thread;

pub fn delete(place: &str, args: &Delete) -> Result<()> {
    let place = Place::to_keep(place)?;
    match &args.id {
        None if place.delete(&args.thread)? => Ok(()),
        None => Err(place.absent(no_thread(&args.thread))),
        Some(id) if place.delete_checkpoint(&args.thread, &CheckpointId::new(id)?)? => Ok(()),
        Some(id) => Err(place.absent(format!("thread {:?} has no checkpoint {id:?}", args.thread))),
    }
}

pub fn retain(place: &str, args: &Retain) -> Result<()> {
    Ok(Place::to_keep(place)?.retain(args.thread.as_deref(), args.keep.0)?)
}

pub fn vacuum(place: &str, args: &Vacuum) -> Result<()> {
    let place = if args.dry_run { Place::to_read(place)? } else { Place::to_keep(place)? };
    let query = VacuumQuery {
        thread: args.thread.clone(),
        keep: args.keep,
        older_than: args.older_than.map(|period| period.0),
        idle: args.idle.map(|period| period.0),
        dry_run: args.dry_run,
    };
    let working = progress::working("vacuuming");
    let vacuumed = place.vacuum(&query)?;
    working.finish_and_clear();
    let done = if args.dry_run { "would be deleted" } else { "deleted" };
    let mut out = Output::new();
    let (checkpoints, threads) = (counted(vacuumed.checkpoints, "checkpoint"), counted(vacuumed.threads, "thread"));
    writeln!(out, "{checkpoints}, {threads} {done}")?;
    Ok(out.finish()?)
}

pub fn compact(place: &str) -> Result<()> {
    let place = Place::to_keep(place)?;
    let store = place.store("compact")?;
    let working = progress::working("compacting");
    let done = store.compact()?;
    working.finish_and_clear();
    let mut out = Output::new();
    writeln!(out, "{} replaced, {} given back", counted(done.segments, "segment"), counted(done.bytes, "byte"))?;
    Ok(out.finish()?)
}

/// A number of things.
pub fn counted(count: u64, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

pub fn stats(place: &str, args: &Listing) -> Result<()> {
    let place = Place::to_read(place)?;
    let stats = place.store("stats")?.stats()?;
    let keep = |all: &str| stats.max_history.map_or(all.to_owned(), |keep| keep.to_string());
    let numbers = [
        ("threads", stats.threads),
        ("checkpoints", stats.checkpoints),
        ("attachments", stats.attachments),
        ("logical_bytes", stats.logical_bytes),
        ("stored_bytes", stats.stored_bytes),
        ("dead_bytes", stats.dead_bytes),
        ("disk_bytes", stats.disk_bytes),
        ("segments", stats.segments),
        ("keyframes", stats.keyframes),
        ("deltas", stats.deltas),
        ("longest_chain", stats.longest_chain),
    ];
    let mut out = Output::new();
    if args.json {
        out.write_all(b"{")?;
        for (name, number) in numbers {
            write!(out, "\"{name}\":{number},")?;
        }
        writeln!(out, "\"mean_chain\":{:.3},\"max_history\":{}}}", stats.mean_chain, keep("null"))?;
    } else {
        for (name, number) in numbers {
            writeln!(out, "{name:<14} {number}")?;
        }
        writeln!(out, "{:<14} {:.3}", "mean_chain", stats.mean_chain)?;
        writeln!(out, "{:<14} {}", "max_history", keep("all"))?;
        if stats.logical_bytes > 0 {
            writeln!(out, "{:<14} {:.3} (stored / logical)", "ratio", stats.stored_bytes as f64 / stats.logical_bytes as f64)?;
        }
    }
    Ok(out.finish()?)
}

pub fn verify(place: &str, args: &Listing) -> Result<()> {
    let place = Place::to_read(place)?;
    let store = place.store("verify")?;
    let working = progress::working("verifying");
    let findings = store.verify()?;
    working.finish_and_clear();
    let mut out = Output::new();
    let damaged = write_findings(&mut out, &findings, args.json)?;
    if !args.json && damaged == 0 {
        writeln!(out, "no damage")?;
    }
    out.finish()?;
    ended(damaged)
}

/// Writes findings, and answers how many of them are damage.
fn write_findings<'a>(out: &mut Output, findings: impl IntoIterator<Item = &'a Finding>, json: bool) -> Result<usize> {
    let mut damaged = 0;
    for finding in findings {
        damaged += usize::from(finding.damage);
        if json { write_finding(out, finding)? } else { writeln!(out, "{}", finding_line(finding))? }
    }
    Ok(damaged)
}

fn ended(damaged: usize) -> Result<()> {
    match damaged {
        0 => Ok(()),
        1 => Err(Failure::new(DAMAGE, "1 damaged place")),
        many => Err(Failure::new(DAMAGE, format!("{many} damaged places"))),
    }
}

pub fn backup(place: &str, args: &Backup) -> Result<()> {
    let place = Place::to_read(place)?;
    let store = place.store("backup")?;
    let working = progress::working("backing up");
    store.backup(&args.dest)?;
    working.finish_and_clear();
    Ok(())
}

pub fn repair(place: &str, args: &Salvage) -> Result<()> {
    let no_directory = || Error::new(ErrorKind::Unsupported, "`repair` is for stores in a directory");
    let dir = place::directory(place).ok_or_else(no_directory)?;
    let working = progress::working("repairing");
    let report = Store::repair(dir, &args.dest)?;
    let stats = Store::options().create(false).read_only(true).open(&args.dest)?.stats()?;
    working.finish_and_clear();
    let mut out = Output::new();
    let damaged = write_findings(&mut out, report.damage.iter().chain(&report.unproven), args.json)?;
    if !args.json {
        if report.torn_bytes > 0 {
            writeln!(out, "note: an unfinished last write of {} bytes was left out", report.torn_bytes)?;
        }
        writeln!(out, "{} of {} salvaged", counted(stats.checkpoints, "checkpoint"), counted(stats.threads, "thread"))?;
    }
    out.finish()?;
    ended(damaged)
}

fn finding_line(finding: &Finding) -> String {
    let mut line = format!("{}: {}", if finding.damage { "damage" } else { "note" }, path_text(&finding.file));
    if let Some(offset) = finding.offset {
        line += &format!(" at {offset}");
    }
    line += &format!(": {}", finding.what);
    if let Some(thread) = &finding.thread {
        line += &format!(", thread {}", output::quoted(thread));
    }
    if let Some(id) = &finding.id {
        line += &format!(", checkpoint {}", output::quoted(id.as_str()));
    }
    output::one_line(&line)
}

fn write_finding(out: &mut impl Write, finding: &Finding) -> Result<()> {
    let text = |text: Option<&str>| text.map_or("null".to_owned(), output::quoted);
    let offset = finding.offset.map_or("null".to_owned(), |offset| offset.to_string());
    let (file, what) = (text(Some(&path_text(&finding.file))), text(Some(&finding.what)));
    let (thread, id) = (text(finding.thread.as_deref()), text(finding.id.as_ref().map(CheckpointId::as_str)));
    Ok(writeln!(out, "{{\"file\":{file},\"offset\":{offset},\"thread\":{thread},\"id\":{id},\"what\":{what}}}")?)
}

fn path_text(path: &Path) -> String {
    path.display().to_string()
}
