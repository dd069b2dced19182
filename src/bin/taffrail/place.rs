//! From the name of a place to the place itself, opened for reading, housekeeping or putting.
//!
//! Reading and housekeeping never make a place. Reading a store takes no lock, so it works beside a
//! running agent; nothing is changed of an SQLite file; a place of files is for one process at a time. What the library calls a directory is
//! told here by the same rule as in `taffrail::open`, which opens all the rest.

use std::ops::Deref;
use std::path::Path;

use taffrail::{Checkpointer, Error, ErrorKind, FileCheckpointer, SqliteCheckpointer, Store};

use crate::failure::{DAMAGE, Failure, Result};

/// The place when nothing names another.
const DEFAULT: &str = ".taffrail";

/// A place that is open: a store, with what only a store has, or any other.
pub enum Place {
    Store(Store),
    Other(Box<dyn Checkpointer>),
}

/// What a place is opened for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Read,
    Keep,
    Put,
}

impl Deref for Place {
    type Target = dyn Checkpointer;

    fn deref(&self) -> &(dyn Checkpointer + 'static) {
        match self {
            Place::Store(store) => store,
            Place::Other(place) => &**place,
        }
    }
}

impl Place {
    /// Opens for reading: of a store no lock and no change, `NotFound` where there is none.
    pub fn to_read(name: &str) -> taffrail::Result<Self> {
        Self::open(name, Purpose::Read, |dir| Store::options().create(false).read_only(true).open(dir))
    }

    /// Opens for deleting and housekeeping: `NotFound` where there is none.
    pub fn to_keep(name: &str) -> taffrail::Result<Self> {
        Self::open(name, Purpose::Keep, |dir| Store::options().create(false).open(dir))
    }

    /// Opens for putting: made where there is none.
    pub fn to_put(name: &str) -> taffrail::Result<Self> {
        Self::open(name, Purpose::Put, |dir| Store::open(dir))
    }

    /// The store, for what only a store can do.
    pub fn store(&self, verb: &str) -> taffrail::Result<&Store> {
        match self {
            Place::Store(store) => Ok(store),
            Place::Other(_) => Err(Error::new(ErrorKind::Unsupported, format!("`{verb}` is for stores in a directory"))),
        }
    }

    /// The answer to what was looked for and is not there. Where part of the store cannot be read
    /// nobody knows that it is not there, so that is damage.
    pub fn absent(&self, what: impl Into<String>) -> Failure {
        let what = what.into();
        match self {
            Place::Store(store) if !store.recovery().damage.is_empty() => {
                Failure::new(DAMAGE, format!("{what}, but part of the store cannot be read; `taffrail verify` lists it"))
            }
            _ => Failure::not_found(what),
        }
    }

    /// Whether all of it could be read. What was read of it otherwise is not all that there was: that is damage.
    pub fn is_whole(&self) -> Result<()> {
        match self {
            Place::Store(store) if !store.recovery().damage.is_empty() => {
                let message = "a part of the store cannot be read, and what stood there was left out; `taffrail verify` lists it";
                Err(Failure::new(DAMAGE, message))
            }
            _ => Ok(()),
        }
    }

    fn open(name: &str, purpose: Purpose, open_store: impl Fn(&str) -> taffrail::Result<Store>) -> taffrail::Result<Self> {
        let create = purpose == Purpose::Put;
        if let Some(dir) = directory(name) {
            return open_store(dir).map(Place::Store);
        }
        let place: Box<dyn Checkpointer> = match name.split_once(':') {
            Some(("file", dir)) if !dir.is_empty() => Box::new(FileCheckpointer::options().create(create).open(dir)?),
            Some(("sqlite", file)) if !file.is_empty() => {
                let read_only = purpose == Purpose::Read && file != ":memory:";
                Box::new(SqliteCheckpointer::options().create(create).read_only(read_only).open(file)?)
            }
            _ => taffrail::open(name)?,
        };
        Ok(Place::Other(place))
    }
}

/// The place's name: as given, else from the environment, else the usual one.
pub fn name(given: Option<String>) -> Result<String> {
    match given {
        Some(name) => Ok(name),
        None => match std::env::var("TAFFRAIL_STORE") {
            Ok(name) if !name.is_empty() => Ok(name),
            Err(std::env::VarError::NotUnicode(_)) => {
                Err(Failure::new(crate::failure::USAGE, "the environment variable TAFFRAIL_STORE is not UTF-8"))
            }
            _ => Ok(DEFAULT.to_owned()),
        },
    }
}

/// The directory of a place that is a store.
pub fn directory(name: &str) -> Option<&str> {
    match name.split_once(':') {
        Some(("log", dir)) => Some(dir).filter(|dir| !dir.is_empty()),
        Some((scheme, _)) if !scheme.contains('/') => None,
        _ => Some(name).filter(|name| !name.is_empty() && !name.ends_with(':')),
    }
}

/// The path of a place that is on the disk, of whatever kind.
pub fn path(name: &str) -> Option<&Path> {
    let other = || ["file:", "sqlite:"].iter().find_map(|scheme| name.strip_prefix(scheme));
    directory(name).or_else(other).map(Path::new)
}

#[cfg(test)]
mod tests {
    use super::directory;

    #[test]
    fn directories_are_told_from_other_places() {
        for (name, dir) in [
            ("runs", Some("runs")),
            ("log:runs", Some("runs")),
            ("log:a:b", Some("a:b")),
            ("./a:b", Some("./a:b")),
            ("memory:", None),
            ("log:", None),
            ("file:runs", None),
            ("a:b", None),
            ("a/b:", None),
            ("sqlite::memory:", None),
            ("", None),
        ] {
            assert_eq!(directory(name), dir, "{name}");
        }
    }
}
