//! Files that the manifest does not list: leftovers of unfinished steps, or more than that.
//!
//! Judging comes first and changes nothing; only when all of it went well is anything moved. What
//! could hold something that was put is never removed.

use std::path::{Path, PathBuf};

use super::directory::{Contents, Directory};
use super::scan::{Found, Scan};
use crate::error::{Error, ErrorKind, Result};
use crate::format::manifest::Manifest;
use crate::format::names;
use crate::format::segment::{HEADER_BYTES, Header, Kind};
use crate::report::Recovery;

/// Refuses a directory without a manifest that holds something that is not ours.
pub(crate) fn refuse_foreign(contents: &Contents) -> Result<()> {
    match &contents.foreign {
        None => Ok(()),
        Some(foreign) => {
            let message = "not a store: the directory holds something else; choose an empty or new directory";
            Err(Error::new(ErrorKind::Unsupported, message).with_file(foreign, None))
        }
    }
}

/// Refuses a directory without a manifest that holds data of ours, or something that is not ours.
pub(crate) fn no_store_is_lost(directory: &Directory, contents: &Contents) -> Result<()> {
    refuse_foreign(contents)?;
    for &number in &contents.segments {
        let path = directory.file(&names::segment(number));
        if !is_empty(directory, &path)? {
            let message = "MANIFEST is missing, but a segment holds data: restore the whole directory from a copy, or salvage what is here with `repair`";
            return Err(Error::new(ErrorKind::Corrupt, message).with_file(&path, None));
        }
    }
    Ok(())
}

/// What an unlisted segment file holds, told without a manifest.
#[derive(Debug, PartialEq, Eq)]
enum Holding {
    /// Nothing that anyone could have put.
    Nothing,
    /// Frames of a log segment of this store, or of any where it is not known.
    Log(Header),
    /// Frames of a compacted segment, and which numbers it replaces.
    Compacted { store: [u8; 16], first: u64, last: u64 },
    /// Bytes that cannot be told.
    Unknown,
}

/// Whether a segment file holds nothing that anyone could have put.
pub(crate) fn is_empty(directory: &Directory, path: &Path) -> Result<bool> {
    Ok(holds(directory, path)? == Holding::Nothing)
}

fn holds(directory: &Directory, path: &Path) -> Result<Holding> {
    let file = directory.fs.open(path, false).map_err(|error| Error::os("open", path, error))?;
    let mut bytes = [0; HEADER_BYTES];
    let read = file.read_at(&mut bytes, 0).map_err(|error| Error::os("read", path, error))?;
    if file.len().map_err(|error| Error::os("read", path, error))? <= HEADER_BYTES as u64 {
        return Ok(Holding::Nothing);
    }
    let Ok(header) = Header::decode(&bytes[..read]) else {
        let nothing = Scan::new(file, path, 0, 0, 0, u64::MAX)?.only_zeros(0)?;
        return Ok(if nothing { Holding::Nothing } else { Holding::Unknown });
    };
    let (base, full) = match header.kind {
        Kind::Log { base } => (base, Holding::Log(header)),
        Kind::Compacted { first, last } => (0, Holding::Compacted { store: header.store, first, last }),
    };
    let mut scan = Scan::new(file, path, header.salt, base, u64::from(header.first_frame), u64::MAX)?;
    let mut holding = Holding::Nothing;
    while let Some(found) = scan.next()? {
        match found {
            Found::Frame(_) => return Ok(full),
            Found::Bad { .. } => holding = Holding::Unknown,
        }
    }
    Ok(holding)
}

/// What is to be done with a file that the manifest does not list.
pub(crate) enum Leftover {
    /// It was never counted on.
    Remove(String),
    /// It only saved time, if that: nobody need be told.
    Forget(String),
    /// Nobody can say.
    SetAside(String),
}

impl Leftover {
    /// Does it, and reports it.
    pub fn carry_out(self, directory: &Directory, report: &mut Recovery) -> Result<()> {
        match self {
            Leftover::Remove(name) => {
                directory.remove(&name)?;
                report.set_aside.push(directory.file(&name));
            }
            Leftover::SetAside(name) => report.set_aside.push(set_aside(directory, &name)?),
            // One that cannot be removed does no harm.
            Leftover::Forget(name) => drop(directory.remove(&name)),
        }
        Ok(())
    }
}

/// Judges every file that the manifest does not list; changes nothing.
///
/// Where a listed segment's file is missing, nothing is to be done: as in a copy of a live directory,
/// what it was made of, or what was made of it, may stand under one of these names.
///
/// Errors: `Corrupt` when a segment that the manifest does not know of yet holds data: then the
/// manifest is older than the data, and nothing may be moved.
pub(crate) fn judge_unlisted(directory: &Directory, manifest: &Manifest) -> Result<Vec<Leftover>> {
    let contents = directory.contents()?;
    let is_listed = |number: u64| manifest.segments.iter().any(|listed| listed.number == number);
    let mut leftovers = Vec::new();
    if contents.manifest_new {
        leftovers.push(Leftover::Remove(names::MANIFEST_NEW.to_owned()));
    }
    leftovers.extend(contents.hints_new.iter().map(|&number| Leftover::Forget(names::hint_new(number))));
    let without_segment = contents.hints.iter().filter(|&&number| !is_listed(number));
    leftovers.extend(without_segment.map(|&number| Leftover::Forget(names::hint(number))));
    // Under its working name a segment was never installed, or has been copied under its own.
    leftovers.extend(contents.segments_new.iter().map(|&number| Leftover::Remove(names::segment_new(number))));
    for &number in contents.segments.iter().filter(|&&number| !is_listed(number)) {
        let name = names::segment(number);
        let path = directory.file(&name);
        let holding = if manifest.retired.contains(&number) { Holding::Nothing } else { holds(directory, &path)? };
        match holding {
            Holding::Nothing => leftovers.push(Leftover::Remove(name)),
            Holding::Log(header) if header.store == manifest.store && number >= manifest.next_number => {
                return Err(manifest_is_older(&path));
            }
            Holding::Compacted { store, first, last } if store == manifest.store => {
                if replaces_missing(manifest, &contents, first, last) {
                    return Err(manifest_is_older(&path));
                }
                // Those it was to replace are all there, or were replaced by another one after this number
                // was taken, when who had taken it had died: it was never installed.
                let unused = is_listed(first) && is_listed(last) || number < manifest.next_number;
                leftovers.push(if unused { Leftover::Remove(name) } else { Leftover::SetAside(name) });
            }
            _ => leftovers.push(Leftover::SetAside(name)),
        }
    }
    Ok(if is_complete(manifest, &contents) { leftovers } else { Vec::new() })
}

/// Whether every listed segment's file is there, under whichever of its names.
pub(crate) fn is_complete(manifest: &Manifest, contents: &Contents) -> bool {
    manifest.segments.iter().all(|listed| contents.has(listed.number))
}

/// Whether what a compacted segment stands for is listed, and part of it is gone: then it was
/// installed, by a manifest that is newer than this one.
pub(crate) fn replaces_missing(manifest: &Manifest, contents: &Contents, first: u64, last: u64) -> bool {
    let stands = |number: u64| manifest.segments.iter().position(|listed| listed.number == number);
    let ends: Vec<usize> = [first, last].into_iter().filter_map(stands).collect();
    let (Some(from), Some(to)) = (ends.iter().min(), ends.iter().max()) else { return false };
    manifest.segments[*from..=*to].iter().any(|listed| !contents.has(listed.number))
}

fn manifest_is_older(path: &Path) -> Error {
    let message = "the manifest is older than this segment's data, as after restoring a part of the directory: restore all of it \
                   from one moment, or salvage what is here with `repair`";
    Error::new(ErrorKind::Corrupt, message).with_file(path, None)
}

/// Whether a file that the manifest does not list is what a compaction made beside segments that the
/// manifest still lists.
pub(crate) fn is_compacted(directory: &Directory, name: &str, manifest: &Manifest) -> bool {
    let mut bytes = [0; HEADER_BYTES];
    let read = directory.fs.open(&directory.file(name), false).and_then(|file| file.read_at(&mut bytes, 0)).unwrap_or(0);
    let is_listed = |number: u64| manifest.segments.iter().any(|listed| listed.number == number);
    match Header::decode(&bytes[..read]) {
        Ok(Header { store, kind: Kind::Compacted { first, last }, .. }) => store == manifest.store && is_listed(first) && is_listed(last),
        _ => false,
    }
}

/// Moves a file to quarantine; answers where it is now.
pub(crate) fn set_aside(directory: &Directory, name: &str) -> Result<PathBuf> {
    let quarantine = quarantine(directory)?;
    let (from, to) = (directory.file(name), quarantine.free_file(name)?);
    // CRASH: before the syncs the file has one name or the other, and is judged again.
    directory.fs.rename(&from, &to).map_err(|error| Error::os("set aside", &from, error))?;
    quarantine.sync()?;
    directory.sync()?;
    Ok(to)
}

/// The quarantine folder, made if it is not there.
pub(crate) fn quarantine(directory: &Directory) -> Result<Directory> {
    let quarantine = Directory { path: directory.file(names::QUARANTINE), ..directory.clone() };
    quarantine.create()?;
    Ok(quarantine)
}
