//! The next segment: empty for a rotation, or holding what an unclean end left unproven.

use super::directory::Directory;
use super::examine::Examined;
use super::install::install;
use super::leftovers::quarantine;
use super::replay::Replay;
use super::scan::{FrameAt, Scan};
use super::tail::Tail;
use super::turn::Active;
use crate::error::{Error, ErrorKind, Result};
use crate::format::frame::{Head, Place, padding};
use crate::format::manifest::{Listed, Manifest};
use crate::format::names;
use crate::format::segment::{HEADER_BYTES, Header, Kind};
use crate::fs::Fs;
use crate::options::Options;
use crate::report::Recovery;

/// Sequence numbers and positions jump to a multiple of this when a log is not ended cleanly.
const JUMP: u64 = 1 << 32;

/// The next multiple of 2^32 above a number.
pub(crate) fn jump_above(number: u64) -> u64 {
    (number / JUMP + 1) * JUMP
}

/// A random salt.
pub(crate) fn salt(fs: &dyn Fs) -> u64 {
    let random = fs.random();
    u64::from_le_bytes(std::array::from_fn(|at| random[at] ^ random[at + 8]))
}

/// Takes the next number for a segment and lists it, from `base` on, in a manifest not installed here.
fn list_next(directory: &Directory, manifest: &mut Manifest, base: u64) -> (Header, Listed) {
    let (number, salt, first_frame) = (manifest.next_number, salt(&*directory.fs), HEADER_BYTES as u32);
    let listed = Listed { number, salt, base, end: 0, first_frame, compacted: false };
    manifest.next_number += 1;
    manifest.segments.push(listed);
    (Header { store: manifest.store, number, salt, kind: Kind::Log { base }, first_frame }, listed)
}

/// Makes the next segment, empty, synced and with a lasting name.
pub(crate) fn empty(directory: &Directory, options: &Options, manifest: &mut Manifest, base: u64) -> Result<Active> {
    let (header, listed) = list_next(directory, manifest, base);
    let name = names::segment(listed.number);
    let (file, check) = directory.create_segment(&name, &header)?;
    // CRASH: an empty segment that no manifest lists is removed by the next opener (step 7).
    file.sync().map_err(|error| Error::os("sync", &directory.file(&name), error))?;
    directory.sync()?;
    let end = HEADER_BYTES as u64;
    Active::new(directory, options.mmap, &listed, file, end, end, options.segment_bytes, check)
}

/// Makes the next segment with copies of `frames`, which move to their new places; synced, under
/// its working name.
fn holding(
    directory: &Directory,
    options: &Options,
    manifest: &mut Manifest,
    base: u64,
    frames: &mut [FrameAt],
    from: &Listed,
) -> Result<Active> {
    let (header, listed) = list_next(directory, manifest, base);
    let name = names::segment_new(listed.number);
    let (file, mut prev_check) = directory.create_segment(&name, &header)?;
    let source = directory.open(&names::segment(from.number), false)?;
    let mut scan = Scan::new(source, &directory.file(&names::segment(from.number)), from.salt, from.base, 0, u64::MAX)?;
    let mut end = HEADER_BYTES as u64;
    for frame in frames {
        let payload = scan.payload(frame)?;
        let head = Head { prev_check, synced_end: base, ..frame.head };
        let (bytes, check) = head.encode(Place { salt: listed.salt, position: base + end }, &frame.record);
        let parts = [&bytes, &frame.record[..], padding(frame.record.len()), &payload, padding(payload.len())];
        file.write_at(&parts, end).map_err(|error| Error::os("write", &directory.file(&name), error))?;
        (frame.offset, frame.head, frame.check) = (end, head, check);
        prev_check = check;
        end = frame.end();
    }
    // CRASH: a working name that no manifest lists is removed by the next opener (step 7).
    file.sync().map_err(|error| Error::os("sync", &directory.file(&name), error))?;
    directory.sync()?;
    Active::new(directory, options.mmap, &listed, file, end, end, options.segment_bytes.max(end), prev_check)
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
    let old = manifest.segments.last().copied().ok_or_else(|| Error::new(ErrorKind::Corrupt, "the manifest lists no segment"))?;
    let log = &examined.end;
    if !examined.unproven.is_empty() {
        keep_unproven(directory, &old, log.end, log.file_len, report)?;
    }
    let base = jump_above(old.base + log.file_len);
    let mut tail_frames = std::mem::take(&mut examined.end.tail);
    manifest.retired.clear();
    if let Some(last) = manifest.segments.last_mut() {
        last.end = examined.end.proven;
    }
    if !examined.end.holds_proven {
        manifest.segments.pop();
        manifest.retired.push(old.number);
    }
    let active = holding(directory, options, manifest, base, &mut tail_frames, &old)?;
    replay.take_tail(manifest, &tail_frames)?;
    examined.end.tail = tail_frames;
    install(directory, tail, manifest)?;
    // CRASH: listed but not renamed; the next opener finishes it (step 4). Until the page is written
    // anew it tells of positions below the new segment's: it proves nothing there, and fits nothing.
    let number = u64::from(active.segment.number);
    directory.rename(&names::segment_new(number), &names::segment(number))?;
    directory.sync()?;
    tail.begin(directory, manifest, active.position(active.end));
    for &number in &manifest.retired {
        directory.remove(&names::segment(number))?;
        report.set_aside.push(directory.file(&names::segment(number)));
    }
    Ok(active)
}

/// Copies the end of a segment that holds unproven frames into quarantine.
fn keep_unproven(directory: &Directory, old: &Listed, from: u64, to: u64, report: &mut Recovery) -> Result<()> {
    let quarantine = quarantine(directory)?;
    let name = format!("{}.from-{from}", names::segment(old.number));
    let path = quarantine.free_file(&name)?;
    let source = directory.open(&names::segment(old.number), false)?;
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
