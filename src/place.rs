//! Choosing a place for checkpoints by its name.

use crate::backend::file::FileCheckpointer;
use crate::backend::memory::MemoryCheckpointer;
use crate::checkpointer::Checkpointer;
use crate::error::{Error, ErrorKind, Result};
use crate::log::Store;

/// Opens a place by name: `DIR` or `log:DIR` (a [`Store`], made if missing), `file:DIR` (a
/// [`FileCheckpointer`], made if missing), or `memory:`.
///
/// Errors: as [`Store::open`] and [`FileCheckpointer::open`]; `Unsupported` for `sqlite:`, which this version
/// does not have; `InvalidInput` for an empty name or another scheme. A path that holds a colon is written
/// `log:PATH` or `./PATH`.
pub fn open(place: &str) -> Result<Box<dyn Checkpointer>> {
    match place.split_once(':') {
        Some(("memory", "")) => Ok(Box::new(MemoryCheckpointer::new())),
        Some(("log", dir)) if !dir.is_empty() => Ok(Box::new(Store::open(dir)?)),
        Some(("file", dir)) if !dir.is_empty() => Ok(Box::new(FileCheckpointer::open(dir)?)),
        Some(("sqlite", _)) => Err(Error::new(ErrorKind::Unsupported, "places of the kind `sqlite:` are not in this version")),
        _ if place.is_empty() || place.ends_with(':') => {
            Err(Error::invalid("a place needs a name: a directory, log:DIR, file:DIR or memory:"))
        }
        Some((scheme, _)) if !scheme.contains('/') => {
            Err(Error::invalid(format!("`{scheme}:` is no kind of place; a directory of that name is written ./{place}")))
        }
        _ => Ok(Box::new(Store::open(place)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_no_place_makes_no_directory() {
        for (place, kind) in [
            ("", ErrorKind::InvalidInput),
            ("log:", ErrorKind::InvalidInput),
            ("file:", ErrorKind::InvalidInput),
            ("memory:x", ErrorKind::InvalidInput),
            ("redis://host", ErrorKind::InvalidInput),
            ("sqlite::memory:", ErrorKind::Unsupported),
        ] {
            assert_eq!(open(place).err().map(|error| error.kind()), Some(kind), "{place:?}");
        }
        assert!(open("memory:").is_ok());
    }
}
