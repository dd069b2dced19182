//! `attach` and `attachments`: values bound to a checkpoint by a key.
//!
//! The checkpoint may be yet to come, so attaching asks for none. Who wants to be first (`--keep`)
//! learns by the exit code whether that was so.

use std::io::Write;

use taffrail::{CheckpointId, OnExisting, TypeTag};

use crate::args::{Attach, Attachments};
use crate::failure::{CONFLICT, Failure, Result};
use crate::output::{self, Output};
use crate::place::Place;
use crate::put;

pub fn attach(place: &str, args: &Attach) -> Result<()> {
    let (id, tag) = (CheckpointId::new(&args.id)?, TypeTag::new(&args.tag)?);
    let value = put::read(&args.file)?;
    let on = if args.keep { OnExisting::Keep } else { OnExisting::Replace };
    match Place::to_put(place)?.attach(&args.thread, &id, &args.key, tag, &value, on)? {
        true => Ok(()),
        false => Err(Failure::new(CONFLICT, format!("{id} of thread {:?} has a value under {:?}, which was kept", args.thread, args.key))),
    }
}

pub fn attachments(place: &str, args: &Attachments) -> Result<()> {
    let (place, id) = (Place::to_read(place)?, CheckpointId::new(&args.id)?);
    let all = place.attachments(&args.thread, &id)?;
    let mut out = Output::new();
    if let Some(key) = &args.key {
        let Some(found) = all.iter().find(|attachment| attachment.key == *key) else {
            return Err(place.absent(format!("nothing is attached to {id} of thread {:?} under {key:?}", args.thread)));
        };
        out.write_all(&found.value)?;
        return Ok(out.finish()?);
    }
    if all.is_empty() && place.load_bytes(&args.thread, &id)?.is_none() {
        return Err(place.absent(format!("thread {:?} has no checkpoint {id}, and nothing waits for it", args.thread)));
    }
    for attachment in &all {
        let (key, tag, bytes) = (&attachment.key, &attachment.tag, attachment.value.len());
        if args.json {
            out.write_all(b"{\"thread\":")?;
            output::write_string(&mut out, &args.thread)?;
            out.write_all(b",\"checkpoint\":")?;
            output::write_string(&mut out, id.as_str())?;
            out.write_all(b",\"key\":")?;
            output::write_string(&mut out, key)?;
            out.write_all(b",\"type\":")?;
            output::write_string(&mut out, tag.as_str())?;
            writeln!(out, ",\"bytes\":{bytes}}}")?;
        } else {
            out.write_thread(key)?;
            writeln!(out, "\t{tag}\t{bytes}")?;
        }
    }
    Ok(out.finish()?)
}
