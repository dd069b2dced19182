//! `find`: checkpoints by their metadata or by text in their states, newest first.
//!
//! Each is printed when it is found. Where none is, that is exit 1: who asks wants to know whether there is
//! one. Where part of a store cannot be read the answer may lack something, and that is damage.

use std::io::Write;

use indicatif::ProgressBar;
use taffrail::{CheckpointInfo, FindQuery, Matching, Progress, ThreadQuery};

use crate::args::Find;
use crate::failure::Result;
use crate::output::Output;
use crate::place::Place;
use crate::progress;
use crate::read::{no_thread, write_checkpoint_of_any};

pub fn find(place: &str, args: &Find) -> Result<()> {
    let place = Place::to_read(place)?;
    if let Some(thread) = &args.thread
        && !place.exists(thread)?
    {
        return Err(place.absent(no_thread(thread)));
    }
    let reads_states = args.text.is_some() || args.substring.is_some();
    let bar = if reads_states && progress::is_shown() {
        progress::counting(checkpoints(&place, args.thread.as_deref())?, Some("checkpoints"))
    } else {
        ProgressBar::hidden()
    };
    let looked_at = bar.clone();
    let query = FindQuery {
        thread: args.thread.clone(),
        metadata_json: args.metadata.iter().map(|member| (member.0.clone(), member.1.clone())).collect(),
        text: args.text.clone(),
        substring: args.substring.clone(),
        limit: args.limit.0,
        progress: Progress::new(move |more| looked_at.inc(more)),
        ..FindQuery::default()
    };
    let (mut out, mut any) = (Output::new(), args.limit.0 == Some(0));
    for info in place.find(&query)? {
        any = true;
        show(&mut out, &bar, &info?, args.json)?;
    }
    bar.finish_and_clear();
    out.finish()?;
    if any { place.is_whole() } else { Err(place.absent("nothing was found")) }
}

/// Prints a line, on a terminal at once and above the bar.
fn show(out: &mut Output, bar: &ProgressBar, info: &CheckpointInfo, json: bool) -> Result<()> {
    if !out.terminal {
        return write_checkpoint_of_any(out, info, json);
    }
    bar.suspend(|| {
        write_checkpoint_of_any(out, info, json)?;
        Ok(out.flush()?)
    })
}

/// How many there are to look at.
fn checkpoints(place: &Place, thread: Option<&str>) -> Result<u64> {
    let matching = thread.map_or(Matching::All, |thread| Matching::Prefix(thread.to_owned()));
    // Of all that begin with its name a thread itself is the first.
    let query = ThreadQuery { matching, limit: thread.map(|_| 1), ..ThreadQuery::default() };
    let counts = place.list_threads(&query)?.map(|info| info.map(|info| info.checkpoints));
    Ok(counts.sum::<taffrail::Result<u64>>()?)
}
