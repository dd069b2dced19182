//! `copy`: all threads from one place to another, by [`taffrail::copy`].
//!
//! The source is opened to be read, and is never made; the destination is made where there is none, once the
//! source is known to be there. An interruption leaves both as sound as a killed process does.

use std::path::{Path, PathBuf};

use crate::args::Copy;
use crate::carried::Teller;
use crate::failure::{Failure, Result, USAGE};
use crate::place::{self, Place};

pub fn copy(store: Option<&str>, args: &Copy) -> Result<()> {
    if store.is_some() {
        return Err(Failure::new(USAGE, "`copy` takes both places as SRC and DST, and no --store"));
    }
    if is_same(&args.source, &args.dest) {
        return Err(Failure::new(USAGE, format!("{}: SRC and DST are the same place", args.source)));
    }
    let source = Place::to_read(&args.source).map_err(|error| Failure::from(error).at(&args.source))?;
    let dest = Place::to_put(&args.dest).map_err(|error| Failure::from(error).at(&args.dest))?;
    let about = format!("{} to {}", args.source, args.dest);
    let mut teller = Teller::new(&about);
    match taffrail::copy(&*source, &*dest, &mut |event| teller.hear(event)) {
        Ok(copied) => teller.ended(&copied, "copied").and_then(|()| source.is_whole()),
        Err(error) => Err(Failure::from(error).at(about)),
    }
}

/// Whether two names are known to mean one place: the same path on the disk, whatever it is called.
fn is_same(one: &str, other: &str) -> bool {
    let path = |name| place::path(name).and_then(|path: &Path| path.canonicalize().ok());
    let paths: [Option<PathBuf>; 2] = [path(one), path(other)];
    matches!(paths, [Some(one), Some(other)] if one == other)
}
