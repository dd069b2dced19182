//! Choosing a place for checkpoints by its name.

use crate::backend::memory::MemoryCheckpointer;
use crate::checkpointer::Checkpointer;
use crate::error::{Error, ErrorKind, Result};
use crate::log::Store;

/// Opens a place by name: `DIR` or `log:DIR` (a [`Store`], made if missing), or `memory:`.
///
/// Errors: as [`Store::open`]; `Unsupported` for `file:` and `sqlite:`, which this version does not
/// have; `InvalidInput` for an empty name. A path that holds a colon is written `log:PATH` or `./PATH`.
pub fn open(place: &str) -> Result<Box<dyn Checkpointer>> {
    match place.split_once(':') {
        Some(("memory", "")) => Ok(Box::new(MemoryCheckpointer::new())),
        Some(("log", dir)) if !dir.is_empty() => Ok(Box::new(Store::open(dir)?)),
        Some((scheme @ ("file" | "sqlite"), _)) => {
            Err(Error::new(ErrorKind::Unsupported, format!("places of the kind `{scheme}:` are not in this version")))
        }
        _ if place.is_empty() || place.ends_with(':') => Err(Error::invalid("a place needs a name: a directory, log:DIR or memory:")),
        _ => Ok(Box::new(Store::open(place)?)),
    }
}
