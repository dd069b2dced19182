//! Choosing a place for checkpoints by its name, and adding kinds of places that this crate does not have.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use crate::backend::file::FileCheckpointer;
use crate::backend::memory::MemoryCheckpointer;
use crate::checkpointer::Checkpointer;
use crate::error::{Error, ErrorKind, Result};
use crate::log::Store;

/// The kinds of places of this crate, which nobody can take.
const OWN: [&str; 4] = ["file", "log", "memory", "sqlite"];

type Opener = Arc<dyn Fn(&str) -> Result<Box<dyn Checkpointer>> + Send + Sync>;

/// The kinds of places that were added in this process.
static ADDED: RwLock<BTreeMap<String, Opener>> = RwLock::new(BTreeMap::new());

/// Opens a place by name: `DIR` or `log:DIR` (a [`Store`], made if missing), `file:DIR` (a
/// [`FileCheckpointer`], made if missing), `sqlite:FILE` (a place in an SQLite file, made if missing) or
/// `sqlite::memory:`, `memory:`, or what [`register`] has added.
///
/// Errors: as the place's own `open`; `Unsupported` for `sqlite:` where the crate was built without the
/// feature `sqlite`; `InvalidInput` for an empty name or a scheme that is none. A path that holds a colon
/// is written `log:PATH` or `./PATH`.
///
/// ```
/// use taffrail::prelude::*;
/// let place = taffrail::open("memory:")?;
/// place.put("trip", &1)?;
/// assert_eq!(place.threads()?, ["trip"]);
/// # Ok::<(), taffrail::Error>(())
/// ```
pub fn open(place: &str) -> Result<Box<dyn Checkpointer>> {
    match place.split_once(':') {
        Some(("memory", "")) => Ok(Box::new(MemoryCheckpointer::new())),
        Some(("log", dir)) if !dir.is_empty() => Ok(Box::new(Store::open(dir)?)),
        Some(("file", dir)) if !dir.is_empty() => Ok(Box::new(FileCheckpointer::open(dir)?)),
        Some(("sqlite", file)) if !file.is_empty() => open_sqlite(file),
        scheme => match scheme.and_then(|(scheme, rest)| Some((added(scheme)?, rest))) {
            Some((open_added, rest)) => open_added(rest),
            None => open_directory(place),
        },
    }
}

/// Opens a store in a directory without a scheme.
fn open_directory(place: &str) -> Result<Box<dyn Checkpointer>> {
    match place.split_once(':') {
        _ if place.is_empty() || place.ends_with(':') => {
            Err(Error::invalid("a place needs a name: a directory, log:DIR, file:DIR, sqlite:FILE or memory:"))
        }
        Some((scheme, _)) if !scheme.contains('/') => {
            Err(Error::invalid(format!("`{scheme}:` is no kind of place; a directory of that name is written ./{place}")))
        }
        _ => Ok(Box::new(Store::open(place)?)),
    }
}

/// Has [`open`] know one more kind of place in this process: `open` is called with what stands behind
/// the colon, which may be nothing.
///
/// A scheme begins with a small letter; small letters, digits, `+`, `-` and `.` may follow. Errors:
/// `InvalidInput` for another, `Conflict` for one that is taken: this crate's own always are.
///
/// ```
/// use taffrail::{Checkpointer, CheckpointerExt, MemoryCheckpointer};
/// taffrail::register("scratch", |keep| {
///     let keep = keep.parse::<usize>().map_err(|e| {
///         taffrail::Error::new(taffrail::ErrorKind::InvalidInput, "scratch: takes a number").with_source(e)
///     })?;
///     Ok(Box::new(MemoryCheckpointer::with_max_history(keep)?))
/// })?;
/// let place = taffrail::open("scratch:2")?;
/// (0..5).try_for_each(|step| place.put("t", &step).map(drop))?;
/// assert_eq!(place.history::<i32>("t", None)?.len(), 2);
/// assert!(taffrail::open("scratch:many").is_err());
/// # Ok::<(), taffrail::Error>(())
/// ```
pub fn register(scheme: &str, open: impl Fn(&str) -> Result<Box<dyn Checkpointer>> + Send + Sync + 'static) -> Result<()> {
    let may_follow = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"+-.".contains(&byte);
    if !scheme.starts_with(|first: char| first.is_ascii_lowercase()) || !scheme.bytes().all(may_follow) {
        return Err(Error::invalid(format!(
            "`{scheme}` cannot be a kind of place: a small letter, then small letters, digits, `+`, `-` and `.`"
        )));
    }
    let mut added = ADDED.write().unwrap_or_else(PoisonError::into_inner);
    if OWN.contains(&scheme) || added.contains_key(scheme) {
        return Err(Error::new(ErrorKind::Conflict, format!("`{scheme}:` is a kind of place already")));
    }
    added.insert(scheme.to_owned(), Arc::new(open));
    Ok(())
}

fn added(scheme: &str) -> Option<Opener> {
    ADDED.read().unwrap_or_else(PoisonError::into_inner).get(scheme).cloned()
}

#[cfg(feature = "sqlite")]
fn open_sqlite(file: &str) -> Result<Box<dyn Checkpointer>> {
    Ok(Box::new(crate::backend::sqlite::SqliteCheckpointer::open(file)?))
}

#[cfg(not(feature = "sqlite"))]
fn open_sqlite(_: &str) -> Result<Box<dyn Checkpointer>> {
    Err(Error::new(ErrorKind::Unsupported, "places of the kind `sqlite:` need this crate's feature `sqlite`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpointer::CheckpointerExt;

    #[test]
    fn a_name_that_is_no_place_makes_no_directory() {
        for place in ["", "log:", "file:", "sqlite:", "memory:x", "redis://host"] {
            assert_eq!(open(place).err().map(|error| error.kind()), Some(ErrorKind::InvalidInput), "{place:?}");
        }
        assert!(open("memory:").is_ok());
    }

    #[test]
    fn sqlite_is_there_with_its_feature_alone() {
        let opened = open("sqlite::memory:");
        if cfg!(feature = "sqlite") {
            let place = opened.unwrap();
            place.put("t", &1).unwrap();
            assert_eq!(place.get::<u8>("t").unwrap(), Some(1));
            assert!(!std::path::Path::new(":memory:").exists());
        } else {
            let error = opened.err().unwrap();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().contains("feature `sqlite`"), "{error}");
        }
    }

    fn in_memory(_: &str) -> Result<Box<dyn Checkpointer>> {
        Ok(Box::new(MemoryCheckpointer::new()))
    }

    #[test]
    fn a_scheme_that_was_added_opens() {
        let seen = Arc::new(RwLock::new(Vec::new()));
        let told = seen.clone();
        let opener = move |rest: &str| {
            told.write().unwrap().push(rest.to_owned());
            if rest == "no" { Err(Error::new(ErrorKind::Busy, "not now")) } else { in_memory(rest) }
        };
        register("own+kind-1.0", opener).unwrap();
        for place in ["own+kind-1.0:", "own+kind-1.0://host:1/a?b", "own+kind-1.0::"] {
            open(place).unwrap().put("t", &1).unwrap();
        }
        assert_eq!(open("own+kind-1.0:no").err().map(|error| error.kind()), Some(ErrorKind::Busy));
        assert_eq!(*seen.read().unwrap(), ["", "//host:1/a?b", ":", "no"]);
        assert_eq!(open("own+kind-1.1:x").err().map(|error| error.kind()), Some(ErrorKind::InvalidInput));
    }

    #[test]
    fn a_bad_or_taken_scheme_is_refused() {
        for scheme in ["", "1a", "A", "aB", "a b", "a:", "a/b", "-a", "é", "a\0"] {
            assert_eq!(register(scheme, in_memory).unwrap_err().kind(), ErrorKind::InvalidInput, "{scheme:?}");
        }
        register("taken", in_memory).unwrap();
        for scheme in OWN.into_iter().chain(["taken"]) {
            assert_eq!(register(scheme, |_| panic!("never called")).unwrap_err().kind(), ErrorKind::Conflict, "{scheme}");
        }
        assert!(open("taken:").is_ok());
    }
}
