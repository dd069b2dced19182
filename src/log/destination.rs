//! The place where a backup or a repair makes a whole store: nothing before it, nothing half.
//!
//! What is written there counts at one instant, by the manifest's rename. Until then the directory
//! holds working names, an empty segment and a page that names no store: opening it makes a new
//! store, and the next backup to it begins again. Whoever is at it holds the directory's own lock,
//! so that nobody opens, or writes to the same place, meanwhile.

use std::path::Path;
use std::sync::Arc;

use super::directory::{Contents, Directory};
use super::leftovers;
use super::locks::{self, Held};
use crate::error::{Error, Result};
use crate::format::names;
use crate::options::Options;

/// A directory for a new store; emptied again unless the store is finished.
pub(crate) struct Destination {
    pub directory: Directory,
    /// Given up once all is done, and undone.
    _alone: Option<Held>,
    finished: bool,
}

impl Destination {
    /// Looks whether the place may be taken, before anything is made. `source` is where the frames come
    /// from. Errors: `InvalidInput`, `Io`.
    pub fn look(source: &Directory, dest: &Path) -> Result<()> {
        if dest.as_os_str().is_empty() {
            return Err(Error::invalid("a copy needs a directory: the path is empty"));
        }
        let failed = |error| Error::os("look at", dest, error);
        if source.fs.lies_in(dest, &source.path).map_err(failed)? {
            return Err(refused(dest, "it lies in the store's own directory"));
        }
        match source.fs.is_dir(dest).map_err(failed)? {
            Some(true) => leftovers_alone(&Directory { path: dest.to_owned(), ..source.clone() }).map(drop),
            Some(false) => Err(refused(dest, "it is not a directory")),
            None => Ok(()),
        }
    }

    /// Takes the place, made with the parents it lacks.
    ///
    /// Errors: `InvalidInput` where something stands there, or in the source's directory; `Busy`
    /// where others are at it; `ReadOnly`, `DiskFull`, `Io`. Nothing is changed then but for parents.
    pub fn take(source: &Directory, dest: &Path, options: &Options) -> Result<Destination> {
        Self::look(source, dest)?;
        let Options { dir_mode, file_mode, .. } = *options;
        let directory = Directory { fs: source.fs.clone(), path: dest.to_owned(), dir_mode, file_mode, found: Arc::default() };
        directory.create()?;
        let alone = locks::alone_in(&directory, "is at work in this directory: let it end, or name another one")?;
        // Again: others may have been at it until now.
        let contents = leftovers_alone(&directory)?;
        let destination = Destination { directory, _alone: alone, finished: false };
        destination.clear(&contents)?;
        Ok(destination)
    }

    /// Removes what was written, so that it can be begun again.
    pub fn empty(&self) -> Result<()> {
        self.clear(&self.directory.contents()?)
    }

    /// Lets the store stand.
    pub fn finish(mut self) {
        self.finished = true;
    }

    fn clear(&self, contents: &Contents) -> Result<()> {
        // CRASH: the manifest first: without it the rest is no store.
        self.directory.remove(names::MANIFEST)?;
        let segments = contents.segments.iter().map(|&number| names::segment(number));
        let unfinished = contents.segments_new.iter().map(|&number| names::segment_new(number));
        let hints = contents.hints.iter().map(|&number| names::hint(number));
        let hints = hints.chain(contents.hints_new.iter().map(|&number| names::hint_new(number)));
        for name in segments.chain(unfinished).chain(hints).chain([names::MANIFEST_NEW, names::TAIL].map(str::to_owned)) {
            self.directory.remove(&name)?;
        }
        self.directory.sync()
    }
}

impl Drop for Destination {
    fn drop(&mut self) {
        if !self.finished {
            // What failed before is what is told; what is left counts for nothing.
            let _ = self.empty();
        }
    }
}

/// What lies there, if it is nothing that counts: what an interrupted copy, or the making of a store,
/// has left. Errors: `InvalidInput`.
fn leftovers_alone(directory: &Directory) -> Result<Contents> {
    let contents = directory.contents()?;
    if let Some(foreign) = &contents.foreign {
        return Err(refused(&directory.path, &format!("it holds {}", foreign.display())));
    }
    if contents.manifest || contents.quarantine {
        return Err(refused(&directory.path, "it holds a store"));
    }
    for &number in &contents.segments {
        if !leftovers::is_empty(directory, &directory.file(&names::segment(number)))? {
            return Err(refused(&directory.path, "it holds a store without MANIFEST"));
        }
    }
    Ok(contents)
}

fn refused(dest: &Path, why: &str) -> Error {
    Error::invalid(format!("no store can be written there: {why}; name a new or an empty directory")).with_file(dest, None)
}
