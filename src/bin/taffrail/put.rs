//! `put`: one state in, its id out.
//!
//! The state goes to the store exactly as it was read; whether JSON is JSON is for the library to
//! say. All that can fail without a store is done before one is opened, so it makes none.

use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;

use taffrail::{CheckpointId, Durability, ExpectedHead, Metadata, Parent, PutOptions, TypeTag};

use crate::args::Put;
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::place::Place;

pub fn put(place: &str, args: &Put) -> Result<()> {
    let options = options(args)?;
    let tag = TypeTag::new(&args.tag)?;
    let state = read(&args.file)?;
    let id = Place::to_put(place)?.put_bytes(&args.thread, tag, &state, options)?;
    let mut out = Output::new();
    out.write_id(&id)?;
    out.write_all(b"\n")?;
    Ok(out.finish()?)
}

fn options(args: &Put) -> Result<PutOptions> {
    let id_of = |id: &Option<String>| id.as_deref().map(CheckpointId::new).transpose();
    let mut options = PutOptions::default();
    options.id = id_of(&args.id)?;
    if let Some(parent) = id_of(&args.parent)? {
        options.parent = Parent::Id(parent);
    }
    if args.expect_empty {
        options.expected_head = ExpectedHead::Empty;
    } else if let Some(head) = id_of(&args.expect_head)? {
        options.expected_head = ExpectedHead::Id(head);
    }
    if let Some(text) = &args.metadata {
        options.metadata = Metadata::from_json(text.as_str())?;
    }
    if args.buffered {
        options.durability = Some(Durability::Buffered);
    }
    Ok(options)
}

/// All of a file, or of standard input for -.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    if path.as_os_str() != "-" {
        return fs::read(path).map_err(|error| Failure::file("read", path, &error));
    }
    let mut state = Vec::new();
    io::stdin().lock().read_to_end(&mut state).map_err(|error| Failure::file("read", Path::new("standard input"), &error))?;
    Ok(state)
}
