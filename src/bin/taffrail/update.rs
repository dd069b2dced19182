//! `update`: a JSON Patch applied to a checkpoint makes a new one, its thread's newest.
//!
//! The patch is read and checked before the place is opened. Like the housekeeping verbs it makes no place.

use std::io::Write;

use taffrail::{CheckpointId, CheckpointerExt, Error, ErrorKind, ExpectedHead, Metadata, PutOptions, TypeTag, diff};

use crate::args::Update;
use crate::failure::Result;
use crate::output::Output;
use crate::place::Place;
use crate::put;

pub fn update(place: &str, args: &Update) -> Result<()> {
    let old = CheckpointId::new(&args.old)?;
    let mut options = PutOptions::default();
    options.id = args.new.as_deref().map(CheckpointId::new).transpose()?;
    if let Some(head) = &args.expect_head {
        options.expected_head = ExpectedHead::Id(CheckpointId::new(head)?);
    }
    if let Some(text) = &args.metadata {
        options.metadata = Metadata::from_json(text.as_str())?;
    }
    let patch = diff::patch_from_json(&put::read(&args.patch)?)?;
    let place = Place::to_keep(place)?;
    let Some(found) = place.load_bytes(&args.thread, &old)? else {
        return Err(place.absent(format!("thread {:?} has no checkpoint {old}", args.thread)));
    };
    if args.keep_metadata {
        options.metadata = found.info.metadata;
    }
    let id = place.update_bytes(&args.thread, &old, options, |old| {
        if old.tag != TypeTag::JSON {
            let message = format!("a patch is for JSON, and checkpoint {} is {}", old.id, old.tag);
            return Err(Error::new(ErrorKind::Unsupported, message).with_thread(&args.thread));
        }
        diff::apply(&old.state, &patch)
    })?;
    let mut out = Output::new();
    out.write_id(&id)?;
    out.write_all(b"\n")?;
    Ok(out.finish()?)
}
