//! Hint files: what a segment holds, kept beside it so that an opening need not read it.
//!
//! A hint is believed only where the segment bears it out: it is of that very file, which is long
//! enough, and the last frame it covers stands there with its checksum, to which all before it are
//! chained. Anything else is as if it were not there. Nothing is lost with one, so none is synced, and
//! who writes one tells nobody that it did not work.

use super::directory::Directory;
use super::scan::{Found, Scan};
use crate::error::{Error, Result};
use crate::format::frame::{HEAD_BYTES, Head, Place};
use crate::format::hint::{self, Builder, HEADING_BYTES, Heading, Hint, Standing};
use crate::format::manifest::{Listed, Manifest};
use crate::format::names;
use crate::format::record::Record;
use crate::fs::File;

/// The active segment's hint is written again once it would cover so much more.
const WORTH_IT_BYTES: u64 = 1024 * 1024;

/// The hint of a listed segment in an open file, if there is one to believe that goes no further
/// than `limit`. Cost: the hint is read, and one frame's head.
pub(crate) fn read(directory: &Directory, store: &[u8; 16], listed: &Listed, file: &dyn File, limit: u64) -> Option<Hint> {
    let length = file.len().ok()?;
    let bytes = directory.read(&names::hint(listed.number), hint::bytes_max(length)).ok()?;
    let hint = Hint::decode(bytes).ok()?;
    (is_of(hint.heading(), store, listed) && hint.heading().end <= limit.min(length) && is_borne_out(hint.heading(), listed, file))
        .then_some(hint)
}

fn is_of(heading: &Heading, store: &[u8; 16], listed: &Listed) -> bool {
    (heading.store, heading.number, heading.salt) == (*store, listed.number, listed.salt)
}

/// Whether the last frame that is covered stands in the file.
fn is_borne_out(heading: &Heading, listed: &Listed, file: &dyn File) -> bool {
    let mut bytes = [0; HEAD_BYTES];
    let place = Place { salt: listed.salt, position: listed.counted_from() + heading.last_frame };
    let head = file.read_at(&mut bytes, heading.last_frame).ok().and_then(|read| Head::alone(place, &bytes[..read]).ok());
    head.is_some_and(|(head, check)| check == heading.last_check && heading.last_frame + head.frame_len() == heading.end)
}

/// Writes the hints that the listed segments from a number on lack: of the sealed ones, and of the
/// active one up to `synced`, a position, where that covers much more than the one that is there.
///
/// Cost: a look at each segment's hint; where one is written, the heads and records that no hint
/// covers. An error ends it, and is for the caller to pass over: `Poisoned` where another manifest
/// stands in the directory by now.
pub(crate) fn write_missing(directory: &Directory, manifest: &Manifest, from: u64, synced: u64) -> Result<()> {
    for listed in manifest.segments.iter().filter(|listed| listed.number >= from) {
        let (end, worth_it) = match listed.end {
            0 => (synced.saturating_sub(listed.base), WORTH_IT_BYTES),
            end => (end, 1),
        };
        if end.saturating_sub(covered(directory, manifest, listed).unwrap_or(u64::from(listed.first_frame))) >= worth_it {
            directory.require_in_force(manifest)?;
            write(directory, manifest, listed, end)?;
        }
    }
    Ok(())
}

/// Whether a segment has a hint, be it believed or not.
pub(crate) fn is_there(directory: &Directory, number: u64) -> bool {
    directory.fs.open(&directory.file(&names::hint(number)), false).is_ok()
}

/// Removes a segment's hint, for who removes the segment.
pub(crate) fn remove(directory: &Directory, number: u64) {
    // One that is left is about a number that no manifest lists: the next first opener removes it.
    let _ = directory.remove(&names::hint(number));
}

/// How far a segment's hint says that it goes, without reading all of it.
fn covered(directory: &Directory, manifest: &Manifest, listed: &Listed) -> Option<u64> {
    let mut bytes = [0; HEADING_BYTES];
    let file = directory.fs.open(&directory.file(&names::hint(listed.number)), false).ok()?;
    let read = file.read_at(&mut bytes, 0).ok()?;
    Heading::peek(&bytes[..read]).ok().filter(|heading| is_of(heading, &manifest.store, listed)).map(|heading| heading.end)
}

/// Writes the hint of a segment up to an offset, where a frame ends. False, and nothing is written,
/// where not all before it is sound: what is damaged is to be told by every opening.
pub(super) fn write(directory: &Directory, manifest: &Manifest, listed: &Listed, end: u64) -> Result<bool> {
    let path = directory.file(&names::segment(listed.number));
    let file = directory.open_log(listed.number, false).map_err(|error| Error::os("open", &path, error))?;
    let mut builder = match read(directory, &manifest.store, listed, &*file, end) {
        Some(hint) => Builder::after(&hint),
        None => Builder::default(),
    };
    let mut at = builder.end().unwrap_or(u64::from(listed.first_frame));
    let mut scan = Scan::new(file, &path, listed.salt, listed.counted_from(), at, end)?;
    while let Some(found) = scan.next()? {
        let Found::Frame(frame) = found else { return Ok(false) };
        let Ok(record) = Record::decode(&frame.record) else { return Ok(false) };
        let standing = Standing { offset: frame.offset, length: frame.head.frame_len(), check: frame.check, seq: frame.head.seq };
        builder.push(&record, standing);
        at = frame.end();
    }
    match builder.encode(manifest.store, listed.number, listed.salt) {
        Some(bytes) if at == end => install(directory, listed.number, &bytes).map(|()| true),
        _ => Ok(false),
    }
}

/// Puts a hint in its place.
pub(crate) fn install(directory: &Directory, number: u64, bytes: &[u8]) -> Result<()> {
    let name = names::hint_new(number);
    let file = directory.create_file(&name)?;
    // CRASH: a working name is removed by the next first opener (step 7). Where two write the same
    // hint at once, or power fails behind the rename, one that is not whole may get the name: it is
    // not believed.
    let written = file.write_at(&[bytes], 0).map_err(|error| Error::os("write", &directory.file(&name), error));
    written.and_then(|()| directory.rename(&name, &names::hint(number))).inspect_err(|_| drop(directory.remove(&name)))
}
