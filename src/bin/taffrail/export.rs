//! `export`: checkpoints as JSON Lines, each thread oldest first, attachments after their own.
//!
//! A thread's ids are listed first and its states then read one by one, so that only one state is
//! held at a time. What is trimmed or deleted in between is left out.

use std::io::Write;

use indicatif::ProgressDrawTarget;
use taffrail::{Attachment, Checkpoint, CheckpointInfo, ErrorKind, HistoryQuery, StateBytes};

use crate::args::Export;
use crate::failure::Result;
use crate::output::{self, Output};
use crate::place::Place;
use crate::progress;
use crate::read::no_thread;

pub fn export(place: &str, args: &Export) -> Result<()> {
    let place = Place::to_read(place)?;
    for thread in &args.threads {
        if !place.exists(thread)? {
            return Err(place.absent(no_thread(thread)));
        }
    }
    let threads = if args.threads.is_empty() { place.threads()? } else { args.threads.clone() };
    let mut out = Output::new();
    let bar = progress::counting(threads.len() as u64, Some("threads"));
    if out.terminal {
        // Among the lines themselves it would only disturb.
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    for thread in &threads {
        export_thread(&place, thread, &mut out)?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    out.finish()?;
    place.is_whole()
}

fn export_thread(place: &Place, thread: &str, out: &mut Output) -> Result<()> {
    let newest_first = place.list(thread, &HistoryQuery::default())?;
    let ids: Vec<_> = newest_first.map(|info| info.map(|info| info.id)).collect::<taffrail::Result<_>>()?;
    for id in ids.iter().rev() {
        if let Some(checkpoint) = place.load_bytes(thread, id)? {
            write_checkpoint(place, &checkpoint, out)?;
        }
    }
    Ok(())
}

fn write_checkpoint(place: &Place, checkpoint: &Checkpoint<StateBytes>, out: &mut Output) -> Result<()> {
    output::write_info(out, checkpoint)?;
    output::write_value(out, &checkpoint.tag, &checkpoint.state)?;
    out.write_all(b"}\n")?;
    for attachment in attachments(place, checkpoint)? {
        out.write_all(b"{\"thread\":")?;
        output::write_string(out, &checkpoint.thread)?;
        out.write_all(b",\"checkpoint\":")?;
        output::write_string(out, checkpoint.id.as_str())?;
        out.write_all(b",\"key\":")?;
        output::write_string(out, &attachment.key)?;
        out.write_all(b",\"type\":")?;
        output::write_string(out, attachment.tag.as_str())?;
        output::write_value(out, &attachment.tag, &attachment.value)?;
        out.write_all(b"}\n")?;
    }
    Ok(())
}

/// The checkpoint's attachments; a place that cannot have any has none.
fn attachments(place: &Place, checkpoint: &CheckpointInfo) -> taffrail::Result<Vec<Attachment>> {
    match place.attachments(&checkpoint.thread, &checkpoint.id) {
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(Vec::new()),
        found => found,
    }
}
