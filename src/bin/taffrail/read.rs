//! `get`, `history`, `threads`, `watch`: what a place holds, or gets, to standard output.
//!
//! None of them takes a lock or makes a store. A thread or checkpoint that is not there is exit 1;
//! an empty page of what is there is not, and a thread that is watched may come later.

use std::io::Write;

use taffrail::{CheckpointId, CheckpointInfo, HistoryQuery, Matching, ThreadInfo, ThreadQuery, TypeTag};

use crate::args::{Get, History, Threads, Watch};
use crate::failure::{Failure, REFUSED, Result};
use crate::output::{self, Output};
use crate::place::Place;
use crate::pretty;

pub fn get(place: &str, args: &Get) -> Result<()> {
    let place = Place::to_read(place)?;
    let found = match &args.id {
        Some(id) => place.load_bytes(&args.thread, &CheckpointId::new(id)?)?,
        None => place.get_bytes(&args.thread)?,
    };
    let Some(checkpoint) = found else {
        return Err(place.absent(match &args.id {
            Some(id) => format!("thread {:?} has no checkpoint {id:?}", args.thread),
            None => no_thread(&args.thread),
        }));
    };
    let mut out = Output::new();
    if !args.pretty {
        out.write_all(&checkpoint.state)?;
    } else if checkpoint.tag == TypeTag::JSON {
        pretty::write_indented(&checkpoint.state, &mut out)?;
    } else {
        return Err(Failure::new(REFUSED, format!("--pretty is for JSON, and this state is {}", checkpoint.tag)));
    }
    Ok(out.finish()?)
}

pub fn history(place: &str, args: &History) -> Result<()> {
    let place = Place::to_read(place)?;
    let before = args.before.as_deref().map(CheckpointId::new).transpose()?;
    let query = HistoryQuery { limit: args.limit.0, before, ..HistoryQuery::default() };
    if !place.exists(&args.thread)? {
        return Err(place.absent(no_thread(&args.thread)));
    }
    let mut out = Output::new();
    if args.states {
        for checkpoint in place.history_bytes(&args.thread, &query)? {
            let checkpoint = checkpoint?;
            output::write_info(&mut out, &checkpoint)?;
            output::write_value(&mut out, &checkpoint.tag, &checkpoint.state)?;
            out.write_all(b"}\n")?;
        }
    } else {
        for info in place.list(&args.thread, &query)? {
            write_checkpoint(&mut out, &info?, args.json)?;
        }
    }
    Ok(out.finish()?)
}

/// Writes a line about a checkpoint.
fn write_checkpoint(out: &mut Output, info: &CheckpointInfo, json: bool) -> Result<()> {
    if json {
        output::write_info(out, info)?;
        writeln!(out, ",\"bytes\":{}}}", info.bytes)?;
    } else {
        write!(out, "{}\t", info.seq)?;
        out.write_id(&info.id)?;
        let (time, metadata) = (output::rfc3339(info.saved_at)?, output::metadata_text(info.metadata.as_str()));
        writeln!(out, "\t{time}\t{}\t{metadata}", info.bytes)?;
    }
    Ok(())
}

/// The same among those of other threads.
pub fn write_checkpoint_of_any(out: &mut Output, info: &CheckpointInfo, json: bool) -> Result<()> {
    if !json {
        out.write_thread(&info.thread)?;
        out.write_all(b"\t")?;
    }
    write_checkpoint(out, info, json)
}

pub fn threads(place: &str, args: &Threads) -> Result<()> {
    let matching = match (&args.pattern, &args.prefix) {
        (Some(pattern), _) => Matching::Glob(pattern.clone()),
        (None, Some(prefix)) => Matching::Prefix(prefix.clone()),
        (None, None) => Matching::All,
    };
    let query = ThreadQuery { matching, after: args.after.clone(), offset: args.offset, limit: args.limit.0 };
    let place = Place::to_read(place)?;
    let mut out = Output::new();
    for info in place.list_threads(&query)? {
        write_thread(&mut out, &info?, args)?;
    }
    Ok(out.finish()?)
}

fn write_thread(out: &mut Output, info: &ThreadInfo, args: &Threads) -> Result<()> {
    if args.json {
        out.write_all(b"{\"thread\":")?;
        output::write_string(out, &info.thread)?;
        let time = output::rfc3339(info.last_saved)?;
        writeln!(out, ",\"checkpoints\":{},\"bytes\":{},\"last_saved\":\"{time}\"}}", info.checkpoints, info.bytes)?;
        return Ok(());
    }
    if args.nul {
        out.write_all(info.thread.as_bytes())?
    } else {
        out.write_thread(&info.thread)?
    }
    if args.long {
        write!(out, "\t{}\t{}\t{}", info.checkpoints, info.bytes, output::rfc3339(info.last_saved)?)?;
    }
    Ok(out.write_all(if args.nul { b"\0" } else { b"\n" })?)
}

pub fn watch(place: &str, args: &Watch) -> Result<()> {
    let place = Place::to_read(place)?;
    let watch = place.store("watch")?.watch(args.thread.as_deref())?;
    let mut out = Output::new();
    for info in watch.take(args.limit.0.unwrap_or(usize::MAX)) {
        let info = info?;
        match &args.thread {
            Some(_) => write_checkpoint(&mut out, &info, args.json)?,
            None => write_checkpoint_of_any(&mut out, &info, args.json)?,
        }
        // Each as it comes: the next one may be long in coming.
        out.flush()?;
    }
    Ok(out.finish()?)
}

/// What is said of a thread that is not there.
pub fn no_thread(thread: &str) -> String {
    format!("no thread {thread:?}")
}
