//! `fork`, `rename` and `rollback`: threads made of threads, and wound back.
//!
//! None of them makes a store at the place. A name that is taken is told as a conflict.

use std::io::Write;

use taffrail::{CheckpointId, Error, ErrorKind};

use crate::args::{Fork, Rename, Rollback};
use crate::failure::{Failure, Result};
use crate::keep::counted;
use crate::output::Output;
use crate::place::Place;
use crate::progress;

pub fn fork(place: &str, args: &Fork) -> Result<()> {
    let at = args.at.as_deref().map(CheckpointId::new).transpose()?;
    let place = Place::to_keep(place)?;
    let working = progress::working("forking");
    let head = place.fork(&args.thread, at.as_ref(), &args.new).map_err(|error| refused(&place, error))?;
    working.finish_and_clear();
    let mut out = Output::new();
    out.write_id(&head)?;
    out.write_all(b"\n")?;
    Ok(out.finish()?)
}

pub fn rename(place: &str, args: &Rename) -> Result<()> {
    let place = Place::to_keep(place)?;
    let working = progress::working("renaming");
    place.rename(&args.thread, &args.new).map_err(|error| refused(&place, error))?;
    working.finish_and_clear();
    Ok(())
}

pub fn rollback(place: &str, args: &Rollback) -> Result<()> {
    let to = CheckpointId::new(&args.id)?;
    let place = Place::to_keep(place)?;
    let deleted = place.rollback(&args.thread, &to).map_err(|error| refused(&place, error))?;
    let mut out = Output::new();
    writeln!(out, "{} deleted", counted(deleted, "checkpoint"))?;
    Ok(out.finish()?)
}

/// What is not there may stand where the place cannot be read.
fn refused(place: &Place, error: Error) -> Failure {
    if error.kind() == ErrorKind::NotFound { place.absent(error.to_string()) } else { error.into() }
}
