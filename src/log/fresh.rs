//! The next segment: empty for a rotation, or holding what an unclean end left unproven.

use std::sync::Arc;

use super::active::Active;
use super::directory::Directory;
use super::examine::Examined;
use super::hints;
use super::install::install;
use super::leftovers::{is_complete, quarantine};
use super::replay::Replay;
use super::scan::{FrameAt, Scan};
use super::tail::Tail;
use crate::error::{Error, ErrorKind, Result};
use crate::format::frame::{Head, Place, padding};
use crate::format::manifest::{Listed, Manifest};
use crate::format::names;
use crate::format::segment::{HEADER_BYTES, Header, Kind};
use crate::fs::{File, Fs};
use crate::options::Options;
use crate::report::Recovery;

/// Sequence numbers and positions jump to a multiple of this when a log is not ended cleanly.
const JUMP: u64 = 1 << 32;

/// The next multiple of 2^32 above a number.
pub(crate) fn jump_above(number: u64) -> u64 {
    (number / JUMP + 1) * JUMP
}

/// Whether a position or number is one that a log which was not ended cleanly goes on at.
pub(crate) fn is_jump(number: u64) -> bool {
    number.is_multiple_of(JUMP)
}

/// A random salt.
pub(crate) fn salt(fs: &dyn Fs) -> u64 {
    let random = fs.random();
    u64::from_le_bytes(std::array::from_fn(|at| random[at] ^ random[at + 8]))
}

/// Takes the next number for a segment and lists it, from `base` on, in a manifest not installed here.
fn list_next(directory: &Directory, tail: &Tail, manifest: &mut Manifest, base: u64) -> Result<(Header, Listed)> {
    if manifest.generation != 0 {
        directory.require_in_force(manifest)?;
    }
    let (number, salt, first_frame) = (tail.take_number(), salt(&*directory.fs), HEADER_BYTES as u32);
    let listed = Listed { number, salt, base, end: 0, first_frame, compacted: false };
    manifest.next_number = manifest.next_number.max(number + 1);
    manifest.segments.push(listed);
    Ok((Header { store: manifest.store, number, salt, kind: Kind::Log { base }, first_frame }, listed))
}

/// Makes the next segment, empty, synced and with a lasting name.
pub(crate) fn empty(directory: &Directory, options: &Options, tail: &Tail, manifest: &mut Manifest, base: u64) -> Result<Active> {
    let (header, listed) = list_next(directory, tail, manifest, base)?;
    let name = names::segment(listed.number);
    let (file, check) = directory.create_segment(&name, &header)?;
    // CRASH: an empty segment that no manifest lists is removed by the next opener (step 7).
    let synced = file.sync().map_err(|error| Error::os("sync", &directory.file(&name), error));
    synced.and_then(|()| directory.sync()).inspect_err(|_| drop(directory.remove(&name)))?;
    Active::new(directory, options, &listed, file, HEADER_BYTES as u64, Some(check))
}

/// Makes the next segment with copies of `frames`, which move to their new places; synced, under
/// its working name.
fn holding(
    directory: &Directory,
    options: &Options,
    tail: &Tail,
    manifest: &mut Manifest,
    base: u64,
    frames: &mut [FrameAt],
    from: &Listed,
) -> Result<Active> {
    let (header, listed) = list_next(directory, tail, manifest, base)?;
    let name = names::segment_new(listed.number);
    let written = write_copies(directory, &name, &header, frames, from);
    // What failed first is what is told; a leftover is removed by the next opener.
    let (file, end, prev_check) = written.inspect_err(|_| drop(directory.remove(&name)))?;
    Active::new(directory, options, &listed, file, end, Some(prev_check))
}

/// Writes a segment that holds copies of `frames`, synced; answers it, its end and the last check.
fn write_copies(
    directory: &Directory,
    name: &str,
    header: &Header,
    frames: &mut [FrameAt],
    from: &Listed,
) -> Result<(Arc<dyn File>, u64, u32)> {
    let Kind::Log { base } = header.kind else { return Err(Error::new(ErrorKind::Corrupt, "only a log segment goes on")) };
    let (file, mut prev_check) = directory.create_segment(name, header)?;
    let source = open_old(directory, from)?;
    let mut scan = Scan::new(source, &directory.file(&names::segment(from.number)), from.salt, from.base, 0, u64::MAX)?;
    let mut end = HEADER_BYTES as u64;
    for frame in frames {
        let payload = scan.payload(frame)?;
        let head = Head { prev_check, synced_end: base, ..frame.head };
        let (bytes, check) = head.encode(Place { salt: header.salt, position: base + end }, &frame.record);
        let parts = [&bytes, &frame.record[..], padding(frame.record.len()), &payload, padding(payload.len())];
        file.write_at(&parts, end).map_err(|error| Error::os("write", &directory.file(name), error))?;
        (frame.offset, frame.head, frame.check) = (end, head, check);
        prev_check = check;
        end = frame.end();
    }
    // CRASH: a working name that no manifest lists is removed by the next opener (step 7).
    file.sync().map_err(|error| Error::os("sync", &directory.file(name), error))?;
    directory.sync()?;
    Ok((file, end, prev_check))
}

/// Writes what is not proven synced into a fresh segment, and lets the old one end where it is.
pub(crate) fn carry_over(
    directory: &Directory,
    options: &Options,
    manifest: &mut Manifest,
    tail: &Tail,
    examined: &mut Examined,
    replay: &mut Replay,
    report: &mut Recovery,
) -> Result<Active> {
    let log = &mut examined.end;
    if let (Some(old), false) = (manifest.segments.last(), examined.unproven.is_empty()) {
        keep_unproven(directory, old, log.end, log.file_len, report)?;
    }
    let proven = log.holds_proven.then_some(log.proven);
    let old = manifest.segments.last().map(|listed| directory.file(&names::segment(listed.number)));
    let active = anew(directory, options, manifest, tail, proven, log.file_len, &mut log.tail)?;
    replay.take_tail(manifest, &log.tail)?;
    report.set_aside.extend(old.filter(|_| proven.is_none()));
    Ok(active)
}

/// Goes on in a fresh segment that begins with copies of `frames`, which move to their new places;
/// the old one, so long a file, is sealed at `proven`, or retired where nothing in it is.
pub(crate) fn anew(
    directory: &Directory,
    options: &Options,
    manifest: &mut Manifest,
    tail: &Tail,
    proven: Option<u64>,
    file_len: u64,
    frames: &mut [FrameAt],
) -> Result<Active> {
    let old = manifest.segments.last().copied().ok_or_else(|| Error::new(ErrorKind::Corrupt, "the manifest lists no segment"))?;
    remove_retired(directory, manifest);
    match (proven, manifest.segments.last_mut()) {
        (Some(proven), Some(last)) => last.end = proven,
        _ => {
            manifest.segments.pop();
            manifest.retired.push(old.number);
        }
    }
    let base = jump_above(old.base + file_len);
    let active = holding(directory, options, tail, manifest, base, frames, &old)?;
    install(directory, tail, manifest)?;
    // CRASH: listed but not renamed: it counts under either name, until the next first opener finishes it. Until the page is written
    // anew it tells of positions below the new segment's: it proves nothing there, and fits nothing.
    let number = u64::from(active.segment.number);
    directory.rename(&names::segment_new(number), &names::segment(number))?;
    directory.sync()?;
    if proven.is_none() {
        // CRASH: one that is left is named as retired until it is gone.
        let _ = directory.remove_log(old.number);
    }
    Ok(active)
}

/// Removes what earlier replacements of the manifest retired, in one that is not installed yet, and
/// names it no more once it is gone. Not where a listed segment is missing: what it was made of may
/// be among it.
pub(crate) fn remove_retired(directory: &Directory, manifest: &mut Manifest) {
    // What is gone already, as it usually is, need not be looked for among all names.
    manifest.retired.retain(|&number| directory.may_have_log(number));
    if manifest.retired.is_empty() || !directory.contents().is_ok_and(|contents| is_complete(manifest, &contents)) {
        return;
    }
    // CRASH: the manifest that retired them may not last yet, where who installed it could not sync it.
    if directory.sync().is_err() {
        return;
    }
    manifest.retired.retain(|&number| {
        hints::remove(directory, number);
        directory.remove_log(number).is_err()
    });
}

/// Opens the segment that comes to an end; who began it may have died before it got its name.
fn open_old(directory: &Directory, old: &Listed) -> Result<Arc<dyn File>> {
    directory.open_log(old.number, false).map_err(|error| Error::os("open", &directory.file(&names::segment(old.number)), error))
}

/// Copies the end of a segment that holds unproven frames into quarantine.
fn keep_unproven(directory: &Directory, old: &Listed, from: u64, to: u64, report: &mut Recovery) -> Result<()> {
    let quarantine = quarantine(directory)?;
    let path = quarantine.free_file(&names::end_of_segment(old.number, from))?;
    let source = open_old(directory, old)?;
    let copy = directory.fs.create(&path, directory.file_mode).map_err(|error| Error::os("make", &path, error))?;
    let mut buffer = vec![0; 1024 * 1024];
    let mut at = from;
    while at < to {
        let read =
            source.read_at(&mut buffer, at).map_err(|error| Error::os("read", &directory.file(&names::segment(old.number)), error))?;
        if read == 0 {
            break;
        }
        copy.write_at(&[&buffer[..read]], at - from).map_err(|error| Error::os("write", &path, error))?;
        at += read as u64;
    }
    copy.sync().map_err(|error| Error::os("sync", &path, error))?;
    quarantine.sync()?;
    report.set_aside.push(path);
    Ok(())
}
