//! Opening a store: from what lies in the directory to a log that can be read and written.
//!
//! The steps are numbered as in DESIGN.md, "Recovery". Nothing is changed before all of the log has
//! been read and judged, so an error leaves the directory as it was. It ends within a time that
//! depends on the files alone.

use std::path::Path;
use std::sync::Arc;

use super::directory::{Contents, Directory};
use super::examine::{self, Examination, Examined};
use super::index::Index;
use super::install::install;
use super::replay::Replay;
use super::scan::{Found, FrameAt, Scan};
use super::segments::{Segment, SegmentSet, Source};
use super::tail::{Marks, Tail};
use super::turn::Active;
use crate::error::{Error, ErrorKind, Result};
use crate::format::frame::{Head, Place};
use crate::format::manifest::{Listed, Manifest};
use crate::format::names;
use crate::format::record::Record;
use crate::format::segment::{HEADER_BYTES, Header, Kind};
use crate::fs::page::{self, SharedPage};
use crate::fs::{File, Fs, Held};
use crate::options::{MAX_HISTORY_DEFAULT, Options};
use crate::report::Recovery;

/// Sequence numbers and positions jump to a multiple of this when a log is not ended cleanly.
const JUMP: u64 = 1 << 32;
/// No segment is longer: its offsets are kept in 32 bits, in units of 8.
const SEGMENT_SPAN: u64 = 1 << 35;

/// A store as opening found or made it.
pub(crate) struct Opened {
    pub manifest: Manifest,
    pub index: Index,
    pub segments: SegmentSet,
    pub tail: Tail,
    pub report: Recovery,
    pub unreadable: Option<std::path::PathBuf>,
    /// What writing needs; `None` for a read-only handle.
    pub writing: Option<Writing>,
}

/// What only a writing handle has.
pub(crate) struct Writing {
    pub active: Active,
    pub next_seq: u64,
    pub lock: Held,
}

/// Opens, and where allowed makes, the store in a directory.
pub(crate) fn open(directory: &Directory, options: &Options) -> Result<Opened> {
    let absent = |what: &str| Error::new(ErrorKind::NotFound, format!("no store here: {what}")).with_file(&directory.path, None);
    // 1. The directory, and the right to be in it.
    if !directory.exists()? {
        if options.read_only || !options.create {
            return Err(absent("there is no such directory"));
        }
        directory.create()?;
    }
    let lock = if options.read_only { None } else { Some(directory.lock(options.busy_timeout)?) };
    // 2. What lies in it.
    let contents = directory.contents()?;
    if !contents.manifest {
        no_store_is_lost(directory, &contents)?;
        return match lock {
            Some(lock) if options.create => create(directory, options, lock),
            _ => Err(absent("the directory holds no MANIFEST")),
        };
    }
    // 3. The manifest, which says what counts.
    let manifest = directory.manifest()?;
    match lock {
        Some(lock) => recover(directory, options, lock, manifest, &contents),
        None => read_only(directory, options, manifest),
    }
}

/// Refuses a directory without a manifest that holds data of ours, or something that is not ours.
fn no_store_is_lost(directory: &Directory, contents: &Contents) -> Result<()> {
    if let Some(foreign) = &contents.foreign {
        let message = "not a store: the directory holds something else; choose an empty or new directory";
        return Err(Error::new(ErrorKind::Unsupported, message).with_file(foreign, None));
    }
    for &number in contents.segments.iter().chain(&contents.segments_new) {
        let installed = contents.segments.contains(&number);
        let path = directory.file(&names::segment(number));
        if installed && holds(directory, &path)? != Holding::Nothing {
            let message = "MANIFEST is missing, but a segment holds data: restore MANIFEST from a copy of the whole directory";
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
    /// A compacted segment's frames.
    Compacted(Header),
    /// Bytes that cannot be told.
    Unknown,
}

fn holds(directory: &Directory, path: &Path) -> Result<Holding> {
    let file = directory.fs.open(path, false).map_err(|error| Error::os("open", path, error))?;
    let mut bytes = [0; HEADER_BYTES];
    let read = file.read_at(&mut bytes, 0).map_err(|error| Error::os("read", path, error))?;
    let Ok(header) = Header::decode(&bytes[..read]) else {
        let nothing = Scan::new(file, path, 0, 0, 0, u64::MAX)?.only_zeros(0)? || read < HEADER_BYTES;
        return Ok(if nothing { Holding::Nothing } else { Holding::Unknown });
    };
    let (base, compacted) = match header.kind {
        Kind::Log { base } => (base, false),
        Kind::Compacted { .. } => (0, true),
    };
    let mut scan = Scan::new(file, path, header.salt, base, u64::from(header.first_frame), u64::MAX)?;
    while let Some(found) = scan.next()? {
        if let Found::Frame(_) = found {
            return Ok(if compacted { Holding::Compacted(header) } else { Holding::Log(header) });
        }
    }
    Ok(Holding::Nothing)
}

/// Makes a new store in a directory that holds nothing.
fn create(directory: &Directory, options: &Options, lock: Held) -> Result<Opened> {
    let max_history = options.max_history.unwrap_or(Some(MAX_HISTORY_DEFAULT)).map_or(0, |keep| keep as u64);
    let mut manifest = Manifest {
        store: directory.fs.random(),
        generation: 0,
        epoch: 1,
        seq_floor: 1,
        next_number: 1,
        max_history,
        segments: Vec::new(),
        retired: Vec::new(),
    };
    let tail = map_tail(directory)?;
    let active = fresh_segment(directory, options, &mut manifest, 0, &mut Vec::new(), None)?;
    // CRASH: until the manifest is installed the directory holds no store, only an empty segment
    // and a page that name none: the next opener begins again (step 2).
    reset(&tail, &manifest, active.position(active.end));
    install(directory, &tail, &mut manifest)?;
    let segments = SegmentSet::from([(active.segment.number, active.segment.clone())]);
    let writing = Some(Writing { active, next_seq: 1, lock });
    Ok(Opened { manifest, index: Index::default(), segments, tail, report: Recovery::default(), unreadable: None, writing })
}

fn recover(directory: &Directory, options: &Options, lock: Held, mut manifest: Manifest, contents: &Contents) -> Result<Opened> {
    // 4. Segments that were listed before they had their name get it now.
    let mut report = Recovery::default();
    finish_renames(directory, &manifest, contents)?;
    // 5. The page; only what the log bears out is believed of it.
    let marks = read_tail(directory, &manifest)?;
    // 6. The log.
    let page_synced = marks.map_or(0, |marks| marks.synced);
    let mut replay = Replay::default();
    let examination = Examination { directory, manifest: &manifest, page_synced, payloads: false };
    let mut examined = examination.run(&mut |record, at| replay.take(record, at))?;
    // 7. Files the manifest does not list.
    let leftovers = judge_unlisted(directory, &manifest)?;
    for leftover in leftovers {
        leftover.carry_out(directory, &mut report)?;
    }
    // 8. Go on where the log ends, or in a fresh segment.
    let tail = map_tail(directory)?;
    let clean = marks.filter(|marks| ended_cleanly(marks, &manifest, &examined));
    let (active, next_seq) = match clean {
        Some(marks) => {
            apply_tail(&mut replay, &manifest, &examined.end.tail)?;
            tail.reset(&manifest.store, Marks { visible: marks.appended, ..marks });
            (go_on(directory, options, &manifest, &examined)?, examined.seq_max + 1)
        }
        None => {
            let next_seq = jump_above(examined.seq_max);
            manifest.seq_floor = next_seq;
            manifest.epoch += u64::from(marks.is_some_and(|marks| marks.poisoned));
            report.fresh_segment = true;
            let appended = marks.map_or(0, |marks| marks.appended);
            let active = go_on_afresh(directory, options, &mut manifest, &tail, appended, &mut examined, &mut replay, &mut report)?;
            (active, next_seq)
        }
    };
    let segments = open_segments(directory, options, &manifest, &active)?;
    report.frames = examined.frames + examined.end.tail.len() as u64;
    report.torn_bytes = examined.end.torn_bytes;
    report.damage = examined.damage;
    report.unproven = examined.unproven;
    Ok(Opened {
        manifest,
        index: replay.into_index(),
        segments,
        tail,
        report,
        unreadable: examined.unreadable,
        writing: Some(Writing { active, next_seq, lock }),
    })
}

fn read_only(directory: &Directory, options: &Options, manifest: Manifest) -> Result<Opened> {
    let marks = read_tail(directory, &manifest).unwrap_or(None);
    let mut replay = Replay::default();
    let examination = Examination { directory, manifest: &manifest, page_synced: marks.map_or(0, |marks| marks.synced), payloads: false };
    let examined = examination.run(&mut |record, at| replay.take(record, at))?;
    apply_tail(&mut replay, &manifest, &examined.end.tail)?;
    let mut segments = SegmentSet::new();
    for listed in &manifest.segments {
        if let Some(segment) = open_segment(directory, options, listed)? {
            segments.insert(segment.number, segment);
        }
    }
    let report = Recovery {
        frames: examined.frames + examined.end.tail.len() as u64,
        torn_bytes: examined.end.torn_bytes,
        damage: examined.damage,
        unproven: examined.unproven,
        ..Recovery::default()
    };
    let tail = Tail::new(SharedPage::unshared());
    tail.raise_synced(marks.map_or(0, |marks| marks.synced));
    Ok(Opened { manifest, index: replay.into_index(), segments, tail, report, unreadable: examined.unreadable, writing: None })
}

/// Gives a listed segment that still has its working name its own.
fn finish_renames(directory: &Directory, manifest: &Manifest, contents: &Contents) -> Result<()> {
    let pending = |listed: &&Listed| contents.segments_new.contains(&listed.number) && !contents.segments.contains(&listed.number);
    let mut renamed = false;
    for listed in manifest.segments.iter().filter(pending) {
        directory.rename(&names::segment_new(listed.number), &names::segment(listed.number))?;
        renamed = true;
    }
    if renamed { directory.sync() } else { Ok(()) }
}

fn read_tail(directory: &Directory, manifest: &Manifest) -> Result<Option<Marks>> {
    let path = directory.file(names::TAIL);
    // The page is believed only within what a segment can hold: damaged, it must not use up the positions.
    let highest = manifest.segments.last().map_or(0, |listed| listed.base.saturating_add(SEGMENT_SPAN));
    match directory.fs.map_page(&path) {
        Ok(page) => Ok(Tail::new(page).read(&manifest.store).filter(|marks| marks.appended <= highest)),
        Err(error) if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::InvalidData) => Ok(None),
        Err(error) => Err(Error::os("map", &path, error)),
    }
}

/// Maps the page, after making it anew where it is missing or of the wrong length.
fn map_tail(directory: &Directory) -> Result<Tail> {
    let path = directory.file(names::TAIL);
    match directory.fs.map_page(&path) {
        Ok(page) => return Ok(Tail::new(page)),
        Err(error) if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::InvalidData) => {}
        Err(error) => return Err(Error::os("map", &path, error)),
    }
    let file = directory.create_file(names::TAIL)?;
    // Written, not only made long: a store to a mapped hole on a full disk would be a signal.
    file.write_at(&[&[0; page::BYTES]], 0).and_then(|()| file.sync()).map_err(|error| Error::os("write", &path, error))?;
    directory.sync()?;
    directory.fs.map_page(&path).map(Tail::new).map_err(|error| Error::os("map", &path, error))
}

fn reset(tail: &Tail, manifest: &Manifest, end: u64) {
    let Manifest { generation, epoch, .. } = *manifest;
    let marks =
        Marks { appended: end, synced: end, visible: end, generation, installing: generation, syncing: false, epoch, poisoned: false };
    tail.reset(&manifest.store, marks);
}

/// Whether the last user ended between two puts: then nothing unproven can stand in the log.
fn ended_cleanly(marks: &Marks, manifest: &Manifest, examined: &Examined) -> bool {
    let Some(listed) = manifest.segments.last() else { return false };
    let end = listed.base + examined.end.end;
    !marks.poisoned
        && !marks.syncing
        && marks.installing == marks.generation
        && marks.generation == manifest.generation
        && marks.epoch == manifest.epoch
        && marks.appended == end
        && marks.synced == end
        && examined.end.torn_bytes == 0
        && examined.end.last_check.is_some()
        && examined.unproven.is_empty()
}

fn apply_tail(replay: &mut Replay, manifest: &Manifest, frames: &[FrameAt]) -> Result<()> {
    let Some(listed) = manifest.segments.last() else { return Ok(()) };
    for frame in frames {
        replay.take(&decoded(&frame.record)?, examine::location(listed, frame)?);
    }
    Ok(())
}

fn decoded(record: &[u8]) -> Result<Record<'_>> {
    Record::decode(record)
        .map_err(|flaw| Error::new(ErrorKind::Unsupported, format!("a sound record that cannot be read: {flaw}")).with_source(flaw))
}

/// The active segment as it stands.
fn go_on(directory: &Directory, options: &Options, manifest: &Manifest, examined: &Examined) -> Result<Active> {
    let listed = manifest.segments.last().ok_or_else(|| Error::new(ErrorKind::Corrupt, "the manifest lists no segment"))?;
    let file = directory.open(&names::segment(listed.number), true)?;
    let (end, filled) = (examined.end.end, examined.end.file_len);
    let capacity = options.segment_bytes.max(filled);
    let prev_check = examined.end.last_check.unwrap_or_default();
    Active::new(directory, options.mmap, listed, file, end, filled, capacity, prev_check)
}

/// Writes what is not proven synced into a fresh segment, and lets the old one end where it is.
#[allow(clippy::too_many_arguments)]
fn go_on_afresh(
    directory: &Directory,
    options: &Options,
    manifest: &mut Manifest,
    tail: &Tail,
    appended: u64,
    examined: &mut Examined,
    replay: &mut Replay,
    report: &mut Recovery,
) -> Result<Active> {
    let old = manifest.segments.last().copied().ok_or_else(|| Error::new(ErrorKind::Corrupt, "the manifest lists no segment"))?;
    let log = &examined.end;
    if !examined.unproven.is_empty() {
        keep_unproven(directory, &old, log.end, log.file_len, report)?;
    }
    let base = jump_above((old.base + log.file_len).max(appended));
    let mut tail_frames = std::mem::take(&mut examined.end.tail);
    manifest.retired.clear();
    if let Some(last) = manifest.segments.last_mut() {
        last.end = examined.end.proven;
    }
    if !examined.end.holds_proven {
        manifest.segments.pop();
        manifest.retired.push(old.number);
    }
    let active = fresh_segment(directory, options, manifest, base, &mut tail_frames, Some(&old))?;
    let listed = manifest.segments.last().copied().unwrap_or(old);
    for frame in &tail_frames {
        replay.take(&decoded(&frame.record)?, examine::location(&listed, frame)?);
    }
    examined.end.tail = tail_frames;
    install(directory, tail, manifest)?;
    // CRASH: listed but not renamed; the next opener finishes it (step 4). The page still tells of
    // the old segment, in positions below the new one's: it proves nothing there.
    directory.rename(&names::segment_new(listed.number), &names::segment(listed.number))?;
    directory.sync()?;
    reset(tail, manifest, active.position(active.end));
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
    let source = directory.open(&names::segment(old.number), false)?;
    let copy = quarantine.create_file(&name)?;
    let path = quarantine.file(&name);
    let mut buffer = vec![0; 1024 * 1024];
    let mut at = from;
    while at < to {
        let read = source.read_at(&mut buffer, at).map_err(|error| Error::os("read", &directory.path, error))?;
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

fn quarantine(directory: &Directory) -> Result<Directory> {
    let quarantine = Directory { path: directory.file(names::QUARANTINE), ..directory.clone() };
    quarantine.create()?;
    Ok(quarantine)
}

/// Makes the next segment: empty under its own name, or holding frames under its working name,
/// synced and with its name made to last. Lists it in `manifest`, which is not installed here.
pub(crate) fn fresh_segment(
    directory: &Directory,
    options: &Options,
    manifest: &mut Manifest,
    base: u64,
    frames: &mut Vec<FrameAt>,
    from: Option<&Listed>,
) -> Result<Active> {
    let salt = salt(&*directory.fs);
    let number = manifest.next_number;
    let header = Header { store: manifest.store, number, salt, kind: Kind::Log { base }, first_frame: HEADER_BYTES as u32 };
    let listed = Listed { number, salt, base, end: 0, first_frame: HEADER_BYTES as u32, compacted: false };
    let name = if from.is_some() { names::segment_new(number) } else { names::segment(number) };
    let (file, mut prev_check) = directory.create_segment(&name, &header)?;
    let mut end = HEADER_BYTES as u64;
    if let Some(old) = from {
        let source = directory.open(&names::segment(old.number), false)?;
        let mut scan = Scan::new(source, &directory.file(&names::segment(old.number)), old.salt, old.base, 0, u64::MAX)?;
        for frame in frames.iter_mut() {
            let payload = scan.payload(frame)?;
            let head = Head { prev_check, synced_end: base, ..frame.head };
            let (bytes, check) = head.encode(Place { salt, position: base + end }, &frame.record);
            let padding = [0; 8];
            let record_padding = &padding[..head.payload_start() - bytes.len() - frame.record.len()];
            let payload_padding = &padding[..(head.frame_len() - head.payload_start() as u64) as usize - payload.len()];
            file.write_at(&[&bytes, &frame.record, record_padding, &payload, payload_padding], end)
                .map_err(|error| Error::os("write", &directory.file(&name), error))?;
            (frame.offset, frame.head, frame.check) = (end, head, check);
            prev_check = check;
            end = frame.end();
        }
    }
    // CRASH: a working name that no manifest lists is removed by the next opener (step 7).
    file.sync().map_err(|error| Error::os("sync", &directory.file(&name), error))?;
    directory.sync()?;
    manifest.next_number += 1;
    manifest.segments.push(listed);
    let capacity = options.segment_bytes.max(end);
    Active::new(directory, options.mmap, &listed, file, end, end, capacity, prev_check)
}

/// A random salt.
pub(crate) fn salt(fs: &dyn Fs) -> u64 {
    let random = fs.random();
    u64::from_le_bytes(std::array::from_fn(|at| random[at] ^ random[at + 8]))
}

fn jump_above(number: u64) -> u64 {
    (number / JUMP + 1) * JUMP
}

/// What is to be done with a file that the manifest does not list.
enum Leftover {
    Remove(String),
    SetAside(String),
}

impl Leftover {
    fn carry_out(self, directory: &Directory, report: &mut Recovery) -> Result<()> {
        match self {
            Leftover::Remove(name) => {
                directory.remove(&name)?;
                report.set_aside.push(directory.file(&name));
            }
            Leftover::SetAside(name) => {
                let to = quarantine(directory)?.file(&name);
                let from = directory.file(&name);
                directory.fs.rename(&from, &to).map_err(|error| Error::os("set aside", &from, error))?;
                report.set_aside.push(to);
            }
        }
        Ok(())
    }
}

/// Judges every file that the manifest does not list; changes nothing.
///
/// Errors: `Corrupt` when a segment newer than the manifest knows holds data: then the manifest is
/// older than the data, and nothing may be moved.
fn judge_unlisted(directory: &Directory, manifest: &Manifest) -> Result<Vec<Leftover>> {
    let contents = directory.contents()?;
    let is_listed = |number: u64| manifest.segments.iter().any(|listed| listed.number == number);
    let mut leftovers = Vec::new();
    if contents.manifest_new {
        leftovers.push(Leftover::Remove(names::MANIFEST_NEW.to_owned()));
    }
    // Under its working name a segment was never installed, or has been copied under its own.
    leftovers.extend(contents.segments_new.iter().map(|&number| Leftover::Remove(names::segment_new(number))));
    for &number in contents.segments.iter().filter(|&&number| !is_listed(number)) {
        let name = names::segment(number);
        let path = directory.file(&name);
        let holding = if manifest.retired.contains(&number) { Holding::Nothing } else { holds(directory, &path)? };
        match holding {
            Holding::Nothing => leftovers.push(Leftover::Remove(name)),
            Holding::Compacted(header) if header.store == manifest.store => leftovers.push(Leftover::Remove(name)),
            Holding::Log(header) if header.store == manifest.store && number >= manifest.next_number => {
                let message = "the manifest is older than this segment's data, as after restoring a part of the directory: restore all of it from one moment";
                return Err(Error::new(ErrorKind::Corrupt, message).with_file(&path, None));
            }
            _ => leftovers.push(Leftover::SetAside(name)),
        }
    }
    Ok(leftovers)
}

fn open_segments(directory: &Directory, options: &Options, manifest: &Manifest, active: &Active) -> Result<SegmentSet> {
    let mut segments = SegmentSet::from([(active.segment.number, active.segment.clone())]);
    for listed in manifest.segments.iter().filter(|listed| listed.end != 0) {
        if let Some(segment) = open_segment(directory, options, listed)? {
            segments.insert(segment.number, segment);
        }
    }
    Ok(segments)
}

/// Opens a listed segment for reading; `None` if its file is missing, which was reported before.
fn open_segment(directory: &Directory, options: &Options, listed: &Listed) -> Result<Option<Arc<Segment>>> {
    let path = directory.file(&names::segment(listed.number));
    let file = match directory.open_segment(listed.number) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::os("open", &path, error)),
    };
    let length = file.len().map_err(|error| Error::os("read", &path, error))?;
    segment(listed, path, file, options.mmap, length).map(Some)
}

/// A segment for reading, its first `length` bytes mapped unless mapping is off.
pub(crate) fn segment(listed: &Listed, path: std::path::PathBuf, file: Arc<dyn File>, mmap: bool, length: u64) -> Result<Arc<Segment>> {
    let number = examine::locate(listed.number, 0, 0)?.segment;
    let source = if mmap && length > 0 {
        Source::Mapped(file.map(length).map_err(|error| Error::os("map", &path, error))?)
    } else {
        Source::File(file)
    };
    Ok(Arc::new(Segment { number, path, salt: listed.salt, base: listed.base, source }))
}
