//! A disk as a crash left it is opened with the real code, and held against what may be there.

use std::path::Path;

use super::memory::{Change, Image, Memory};
use super::work::{Contents, STORE, contents, options};
use crate::batch::PutOptions;
use crate::checkpoint::TypeTag;
use crate::checkpointer::Checkpointer;
use crate::log::Store;

/// What a disk may show.
pub(super) struct Allowed<'a> {
    /// One of these.
    pub shown: &'a [Contents],
    /// Whether there may be no store at all.
    pub nothing: bool,
}

/// A disk that was opened.
pub(super) struct Opened {
    /// What it shows.
    pub contents: Contents,
    /// What opening it has changed, if that was asked for.
    pub changes: Vec<Change>,
}

/// The disk before the crash was one of this run of the system.
pub(super) const SAME_BOOT: u8 = 1;

/// Opens a disk; says what is wrong with it. With `further`, more is put, and the store opened again.
pub(super) fn check(image: &Image, boot: u8, allowed: &Allowed<'_>, record: bool, further: bool) -> Result<Opened, String> {
    let fs = Memory::of(image, boot);
    if record {
        fs.record();
    }
    if allowed.nothing && !image.names.contains_key(&Path::new(STORE).join("MANIFEST")) {
        // Nobody was told of a store: the next opener makes one.
        let store = options(&fs).open(STORE).map_err(|error| format!("a store cannot be made: {error:?}"))?;
        return goes_on(&fs, store, &Contents::new(), further);
    }
    let store = options(&fs).open(STORE).map_err(|error| format!("does not open: {error:?}"))?;
    let found = contents(&store).map_err(|error| format!("cannot be read: {error:?}"))?;
    if !allowed.shown.contains(&found) {
        let expected: Vec<String> = allowed.shown.iter().map(brief).collect();
        return Err(format!("shows {} and not any of {expected:?}", brief(&found)));
    }
    if !store.recovery().damage.is_empty() {
        return Err(format!("tells of damage: {:?}", store.recovery()));
    }
    goes_on(&fs, store, &found, further)
}

fn goes_on(fs: &Memory, store: Store, found: &Contents, further: bool) -> Result<Opened, String> {
    let changes = fs.recorded();
    if further {
        let goes_on = || -> crate::error::Result<Contents> {
            store.put_bytes("further", TypeTag::BYTES, b"on", PutOptions::default())?;
            store.close()?;
            let store = options(fs).open(STORE)?;
            store.verify()?;
            contents(&store)
        };
        let mut again = goes_on().map_err(|error| format!("does not go on: {error:?}"))?;
        let put = again.remove("further").map(|further| further.len());
        if put != Some(1) || again != *found {
            return Err(format!("shows {} behind another put, and {put:?} of that", brief(&again)));
        }
    }
    Ok(Opened { contents: found.clone(), changes })
}

/// Opens a copy that was made, if one is there.
pub(super) fn check_copy(image: &Image, copy: &Path, expected: &Contents, must_be_there: bool) -> Result<(), String> {
    if !image.names.contains_key(&copy.join("MANIFEST")) {
        return if must_be_there { Err(format!("{} is gone", copy.display())) } else { Ok(()) };
    }
    let fs = Memory::of(image, SAME_BOOT + 1);
    let store = options(&fs).open(copy).map_err(|error| format!("{} does not open: {error:?}", copy.display()))?;
    let found = contents(&store).map_err(|error| format!("{} cannot be read: {error:?}", copy.display()))?;
    if found != *expected || !store.recovery().damage.is_empty() {
        return Err(format!("{} shows {} and not {}", copy.display(), brief(&found), brief(expected)));
    }
    Ok(())
}

fn brief(contents: &Contents) -> String {
    let threads = contents.iter().map(|(thread, states)| {
        let ids: Vec<&str> = states.iter().map(|(id, _)| id.as_str()).collect();
        format!("{thread}: {}", ids.join(" "))
    });
    threads.collect::<Vec<_>>().join("; ")
}
