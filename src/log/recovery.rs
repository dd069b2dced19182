//! Opening a store: from what lies in the directory to a log that can be read and written.
//!
//! The steps are numbered as in DESIGN.md, "Recovery". But for renames that a manifest has already
//! decided, nothing is changed before all of the log has been read and judged, so an error leaves the
//! directory as it was. It ends within a time that
//! depends on the files alone.

use super::directory::{Contents, Directory};
use super::examine::{self, Examination, Examined};
use super::fresh::{self, jump_above};
use super::index::Index;
use super::install::install;
use super::leftovers::{judge_unlisted, no_store_is_lost};
use super::replay::Replay;
use super::segments::{Segment, SegmentSet};
use super::tail::{Marks, Tail};
use super::turn::Active;
use crate::error::{Error, ErrorKind, Result};
use crate::format::manifest::{Listed, Manifest};
use crate::format::names;
use crate::fs::Held;
use crate::fs::page::SharedPage;
use crate::options::{MAX_HISTORY_DEFAULT, Options};
use crate::report::Recovery;

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
    if !options.single_process {
        directory.require_local()?;
    }
    if !directory.exists()? {
        if options.read_only || !options.create {
            return Err(absent("there is no such directory"));
        }
        directory.create()?;
    }
    let lock = if options.read_only { None } else { Some(directory.lock(options.busy_timeout, options.single_process)?) };
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
        None => examine::beside_writer(directory, manifest, |manifest, marks| read_only(directory, options, manifest, marks)),
    }
}

/// Makes a new store in a directory that holds nothing.
fn create(directory: &Directory, options: &Options, lock: Held) -> Result<Opened> {
    directory.create()?;
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
    let tail = Tail::open(directory)?;
    let active = fresh::empty(directory, options, &mut manifest, 0)?;
    // CRASH: until the manifest is installed the directory holds no store, only an empty segment
    // and a page that names none: the next opener begins again (step 2).
    install(directory, &tail, &mut manifest)?;
    tail.begin(directory, &manifest, active.position(active.end));
    let segments = SegmentSet::from([(active.segment.number, active.segment.clone())]);
    let writing = Some(Writing { active, next_seq: 1, lock });
    Ok(Opened { manifest, index: Index::default(), segments, tail, report: Recovery::default(), unreadable: None, writing })
}

fn recover(directory: &Directory, options: &Options, lock: Held, mut manifest: Manifest, contents: &Contents) -> Result<Opened> {
    // 4. Segments that were listed before they had their name get it now.
    let mut report = Recovery::default();
    finish_renames(directory, &manifest, contents)?;
    // 5. The page; only what the log bears out is believed of it.
    let marks = Marks::read(directory, &manifest);
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
    let tail = Tail::open(directory)?;
    let clean = marks.filter(|marks| ended_cleanly(marks, directory.fs.boot(), &manifest, &examined));
    let (active, next_seq) = match clean {
        Some(marks) => {
            replay.take_tail(&manifest, &examined.end.tail)?;
            tail.reset(&manifest.store, Marks { visible: marks.appended, ..marks });
            (go_on(directory, options, &manifest, &examined)?, examined.seq_max + 1)
        }
        None => {
            let next_seq = jump_above(examined.seq_max);
            manifest.seq_floor = next_seq;
            manifest.epoch += u64::from(marks.is_some_and(|marks| marks.poisoned));
            report.fresh_segment = true;
            let active = fresh::carry_over(directory, options, &mut manifest, &tail, &mut examined, &mut replay, &mut report)?;
            (active, next_seq)
        }
    };
    let mut segments = open_segments(directory, options, manifest.segments.iter().filter(|listed| listed.end != 0))?;
    segments.insert(active.segment.number, active.segment.clone());
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

/// Reads the store as it is at this moment, beside whoever writes it.
fn read_only(directory: &Directory, options: &Options, manifest: &Manifest, marks: Option<Marks>) -> Result<Opened> {
    let mut replay = Replay::default();
    let examination = Examination { directory, manifest, page_synced: marks.map_or(0, |marks| marks.synced), payloads: false };
    let examined = examination.run(&mut |record, at| replay.take(record, at))?;
    replay.take_tail(manifest, &examined.end.tail)?;
    let segments = open_segments(directory, options, manifest.segments.iter())?;
    let report = Recovery {
        frames: examined.frames + examined.end.tail.len() as u64,
        torn_bytes: examined.end.torn_bytes,
        damage: examined.damage,
        unproven: examined.unproven,
        ..Recovery::default()
    };
    let tail = Tail::new(SharedPage::unshared());
    tail.begin(directory, manifest, manifest.segments.last().map_or(0, |active| active.base + examined.end.end));
    Ok(Opened {
        manifest: manifest.clone(),
        index: replay.into_index(),
        segments,
        tail,
        report,
        unreadable: examined.unreadable,
        writing: None,
    })
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

/// Whether the last user ended between two puts: then nothing unproven can stand in the log.
fn ended_cleanly(marks: &Marks, boot: [u8; 16], manifest: &Manifest, examined: &Examined) -> bool {
    let Some(listed) = manifest.segments.last() else { return false };
    let end = listed.base + examined.end.end;
    marks.boot == boot
        && !marks.poisoned
        && !marks.syncing
        && marks.installing == marks.generation
        && marks.generation == manifest.generation
        && marks.epoch == manifest.epoch
        && marks.appended == end
        && marks.synced == end
        && examined.end.torn_bytes == 0
        && examined.end.last_check.is_some()
        && examined.end.header_is_sound
        && examined.unproven.is_empty()
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

/// Opens listed segments for reading; one whose file is missing was reported before.
fn open_segments<'a>(directory: &Directory, options: &Options, listed: impl Iterator<Item = &'a Listed>) -> Result<SegmentSet> {
    let opened = listed.filter_map(|listed| Segment::open(directory, options.mmap, listed).transpose());
    opened.map(|segment| segment.map(|segment| (segment.number, segment))).collect()
}
