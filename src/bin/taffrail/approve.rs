//! `approve` and `waiting`: a person's part in a run.
//!
//! Deciding never makes a store, and listing a store or an SQLite file takes no lock and changes nothing: a marker
//! that is stale is passed over there, and removed in a place of files, or by who lists with the library.

use std::io::Write;
use std::path::Path;

use serde_json::value::RawValue;
use taffrail::{CheckpointId, ErrorKind, run};

use crate::args::{Approve, Listing};
use crate::failure::{Failure, REFUSED, Result};
use crate::output::{self, Output};
use crate::place::Place;
use crate::put;

pub fn approve(place: &str, args: &Approve) -> Result<()> {
    let decision = decision(&args.decision)?;
    let at = args.id.as_deref().map(CheckpointId::new).transpose()?;
    let place = Place::to_keep(place)?;
    let decided = match &at {
        Some(at) => run::approve_at(&*place, &args.thread, at, &decision),
        None => run::approve(&*place, &args.thread, &decision),
    };
    let id = decided.map_err(|error| match error.kind() {
        ErrorKind::NotFound => place.absent(error.to_string()),
        _ => error.into(),
    })?;
    let mut out = Output::new();
    out.write_id(&id)?;
    out.write_all(b"\n")?;
    Ok(out.finish()?)
}

/// What was typed as JSON; what is none is a text, but not from standard input, and not where it was meant as JSON or
/// is nothing: a decision cannot be taken back.
fn decision(typed: &str) -> Result<Box<RawValue>> {
    if typed != "-" {
        return match serde_json::from_str(typed) {
            Ok(json) => Ok(json),
            Err(error) if typed.is_empty() || typed.trim_start().starts_with(['{', '[', '"']) => {
                Err(Failure::new(REFUSED, format!("the decision is neither JSON nor a text: {error}")))
            }
            Err(_) => Ok(serde_json::value::to_raw_value(typed).map_err(|error| Failure::new(REFUSED, error.to_string()))?),
        };
    }
    let text = put::read(Path::new("-"))?;
    serde_json::from_slice(&text).map_err(|error| Failure::new(REFUSED, format!("standard input is not JSON: {error}")))
}

pub fn waiting(place: &str, args: &Listing) -> Result<()> {
    let place = Place::to_read(place)?;
    let mut out = Output::new();
    for waiting in run::waiting(&*place)? {
        let waiting = waiting?;
        let (since, payload) = (output::rfc3339(waiting.since)?, output::metadata_line(&waiting.payload));
        if args.json {
            out.write_all(b"{\"thread\":")?;
            output::write_string(&mut out, &waiting.thread)?;
            out.write_all(b",\"checkpoint\":")?;
            output::write_string(&mut out, waiting.checkpoint.as_str())?;
            out.write_all(b",\"name\":")?;
            output::write_string(&mut out, &waiting.name)?;
            writeln!(out, ",\"since\":\"{since}\",\"payload\":{payload}}}")?;
        } else {
            out.write_thread(&waiting.thread)?;
            writeln!(out, "\t{}\t{since}\t{}", output::quoted(&waiting.name), output::metadata_text(&payload))?;
        }
    }
    Ok(out.finish()?)
}
