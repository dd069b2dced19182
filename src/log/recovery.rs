//! Opening a store: from what lies in the directory to a log that can be read and written.
//!
//! The steps are numbered as in DESIGN.md, "Recovery". Only the first opener, who is alone, judges
//! what the last users left; a later one takes the log as the shared page tells it. But for renames
//! that a manifest has already decided, nothing is changed before all of the log has been read and
//! judged, so an error leaves the directory as it was. It ends within a time that depends on the
//! files alone.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use super::active::Active;
use super::directory::{Contents, Directory};
use super::examine::Examined;
use super::fresh::{self, jump_above};
use super::hints;
use super::install::install;
use super::leftovers::{judge_unlisted, no_store_is_lost, refuse_foreign};
use super::locks::{self, Presence};
use super::look::{Gaps, Log, Read, look};
use super::replay::Replay;
use super::segments::SegmentSet;
use super::tail::{Marks, Start, Tail};
use crate::error::{Error, ErrorKind, Result};
use crate::format::manifest::{Listed, Manifest};
use crate::format::names;
use crate::fs::Lock;
use crate::options::{MAX_HISTORY_DEFAULT, Options};
use crate::plant::planted;
use crate::report::Recovery;
use crate::told;

/// A store as opening found or made it.
pub(crate) struct Opened {
    pub log: Log,
    pub tail: Tail,
    /// What writing needs; `None` for a read-only handle.
    pub writing: Option<Writing>,
}

/// What only a writing handle has.
pub(crate) struct Writing {
    pub presence: Presence,
    /// The lock that is the turn, and its path; `None` for a process that is alone.
    pub write_lock: Option<(Arc<dyn Lock>, PathBuf)>,
    pub sync_lock: Option<Arc<dyn Lock>>,
}

/// Opens, and where allowed makes, the store in a directory.
pub(crate) fn open(directory: &Directory, options: &Options) -> Result<Opened> {
    // 1. The directory, and the right to be in it.
    if !options.single_process {
        directory.require_local()?;
    }
    if !directory.exists()? {
        if options.read_only || !options.create {
            return Err(absent(directory, "there is no such directory"));
        }
        directory.create()?;
    }
    directory.find()?;
    // 2. What lies in it, before a lock file is made there.
    let contents = directory.contents()?;
    if !contents.manifest {
        refuse_foreign(&contents)?;
        if options.read_only || !options.create {
            no_store_is_lost(directory, &contents)?;
            return Err(absent(directory, "the directory holds no MANIFEST"));
        }
    }
    if options.read_only {
        return read_only(directory, options);
    }
    loop {
        let mut presence = Presence::enter(directory, options.busy_timeout, options.single_process)?;
        let locks = Locks::open(directory, &presence, options)?;
        let (log, tail) = if presence.is_first {
            let opened = first(directory, options, &locks)?;
            if options.single_process {
                presence.let_openers_in();
            } else if !presence.share()? {
                continue;
            }
            opened
        } else {
            later(directory, options, &locks, &mut presence)?
        };
        let writing = Some(Writing { presence, write_lock: locks.write, sync_lock: locks.sync });
        return Ok(Opened { log, tail, writing });
    }
}

/// The locks of one who writes.
struct Locks {
    write: Option<(Arc<dyn Lock>, PathBuf)>,
    sync: Option<Arc<dyn Lock>>,
}

impl Locks {
    fn open(directory: &Directory, presence: &Presence, options: &Options) -> Result<Locks> {
        if options.single_process || presence.is_without_locks() {
            return Ok(Locks { write: None, sync: None });
        }
        let path = directory.file(names::WRITE_LOCK);
        let write = locks::open(directory, &path)?;
        // Made now, while there is room for it.
        drop(locks::open(directory, &directory.file(names::COMPACT_LOCK)));
        // An economy only: without it everyone syncs by itself.
        let sync = locks::open(directory, &directory.file(names::SYNC_LOCK)).ok();
        Ok(Locks { write: Some((write, path)), sync })
    }

    /// The inode of the turn's lock, 0 without one.
    fn inode(&self) -> Result<u64> {
        let inode = |(lock, path): &(Arc<dyn Lock>, PathBuf)| lock.inode().map_err(|error| Error::os("look at", path, error));
        self.write.as_ref().map_or(Ok(0), inode)
    }
}

fn absent(directory: &Directory, what: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("no store here: {what}")).with_file(&directory.path, None)
}

/// Opens while nobody else has the store open.
fn first(directory: &Directory, options: &Options, locks: &Locks) -> Result<(Log, Tail)> {
    let write_lock = locks.inode()?;
    let contents = directory.contents()?;
    if contents.manifest {
        let began = told::began();
        let recovered = recover(directory, options, write_lock, &contents)?;
        told::recovered(&directory.path, &recovered.0.report, &began);
        return Ok(recovered);
    }
    no_store_is_lost(directory, &contents)?;
    if !options.create {
        return Err(absent(directory, "the directory holds no MANIFEST"));
    }
    create(directory, options, write_lock)
}

/// Makes a new store in a directory that holds nothing.
fn create(directory: &Directory, options: &Options, write_lock: u64) -> Result<(Log, Tail)> {
    directory.create()?;
    let max_history = options.max_history.unwrap_or(Some(MAX_HISTORY_DEFAULT)).map_or(0, |keep| keep as u64);
    let mut manifest = Manifest::new(directory.fs.random(), max_history);
    let tail = Tail::make(directory)?;
    tail.set_next_number(manifest.next_number);
    let active = fresh::empty(directory, options, &tail, &mut manifest, 0)?;
    // CRASH: until the manifest is installed the directory holds no store, only an empty segment
    // and a page that names none: the next opener begins again (step 2).
    install(directory, &tail, &mut manifest)?;
    tail.begin(directory.fs.boot(), Start { manifest: &manifest, end: active.end_position(), next_seq: 1, write_lock });
    let log = Log::new(manifest, Replay::default(), SegmentSet::new(), active, Recovery::default(), Gaps::default());
    Ok((log, tail))
}

/// Recovers what the last users left, alone with it.
fn recover(directory: &Directory, options: &Options, write_lock: u64, contents: &Contents) -> Result<(Log, Tail)> {
    // 3. The manifest, which says what counts.
    let mut manifest = directory.manifest()?;
    // 4. Segments that were listed before they had their name get it now.
    finish_renames(directory, &manifest, contents)?;
    // 5. The page; only what the log bears out is believed of it.
    let marks = Marks::read(directory, &manifest);
    // 6. The log.
    let mut read = Read::files(directory, &manifest, marks.map_or(0, |marks| marks.synced))?;
    // 7. Files the manifest does not list.
    let mut report = Recovery::default();
    let leftovers = judge_unlisted(directory, &manifest)?;
    if !leftovers.is_empty() {
        // CRASH: who installed this manifest may have died before it lasted; the one before it lists what goes here.
        directory.sync()?;
    }
    for leftover in leftovers {
        leftover.carry_out(directory, &mut report)?;
    }
    read.examined.disbelieved.iter().for_each(|&number| hints::remove(directory, number));
    // 8. Go on where the log ends, or in a fresh segment.
    let tail = Tail::make(directory)?;
    tail.set_next_number(manifest.next_number);
    let seq_max = read.examined.seq_max;
    let clean = marks.filter(|marks| planted!("end-believed") || ended_cleanly(marks, directory.fs.boot(), &manifest, &read.examined));
    let (active, next_seq) = match clean.map(|marks| wiped(directory, options, &manifest, &read).map(|active| (marks, active))) {
        Some(Ok((marks, active))) => {
            read.replay.take_tail(&manifest, &read.examined.end.tail)?;
            // Numbers that the last users burned; from a page that nobody can vouch for, not too many.
            (active, marks.next_seq.clamp(seq_max + 1, jump_above(seq_max)))
        }
        _ => {
            let next_seq = jump_above(seq_max);
            manifest.seq_floor = next_seq;
            manifest.epoch += u64::from(marks.is_some_and(|marks| marks.poisoned));
            report.fresh_segment = true;
            let active = fresh::carry_over(directory, options, &mut manifest, &tail, &mut read.examined, &mut read.replay, &mut report)?;
            (active, next_seq)
        }
    };
    // CRASH: killed before the page is written, it fits nothing and the next opener does the same.
    tail.begin(directory.fs.boot(), Start { manifest: &manifest, end: active.end_position(), next_seq, write_lock });
    Ok((read.into_log(directory, options, manifest, active, report)?, tail))
}

/// The active segment to go on in, without what an unfinished write left behind its end.
fn wiped(directory: &Directory, options: &Options, manifest: &Manifest, read: &Read) -> Result<Active> {
    let active = read.active(directory, options, manifest, true)?;
    let torn_bytes = read.examined.end.torn_bytes;
    if torn_bytes > 0 && !planted!("end-not-wiped") {
        // CRASH: half wiped, it is as torn as it was.
        let wiped = active.wipe(active.position(active.end + torn_bytes));
        wiped.map_err(|error| Error::os("write", &active.segment.path, error))?;
    }
    Ok(active)
}

/// Opens while others have the store open: takes it as they go on with it.
fn later(directory: &Directory, options: &Options, locks: &Locks, presence: &mut Presence) -> Result<(Log, Tail)> {
    let manifest = directory.manifest()?;
    let tail = Tail::join(directory, &manifest)?;
    if let Some((lock, path)) = &locks.write {
        if locks.inode()? != tail.write_lock() {
            let message =
                "other processes have this store open, but their write.lock was removed or replaced: close them all and open again";
            return Err(Error::new(ErrorKind::Corrupt, message).with_file(path, None));
        }
        if tail.is_poisoned(tail.epoch()) {
            let start = Instant::now();
            let attempt = || Ok(lock.try_exclusive()?.then_some(()));
            locks::wait_for(&**lock, path, "has been writing", start, options.busy_timeout, attempt)?;
            // Another opener, let in by an open.lock that somebody removed, may have been there first.
            let poisoned = tail.is_poisoned(tail.epoch());
            let log = if poisoned { begin_epoch(directory, options, &tail) } else { look(directory, options, &tail, true) };
            lock.unlock().map_err(|error| Error::os("unlock", path, error))?;
            presence.let_openers_in();
            return Ok((log?, tail));
        }
    }
    presence.let_openers_in();
    Ok((look(directory, options, &tail, true)?, tail))
}

/// Begins the next epoch while others have the store open, after a failed write or sync: what is not
/// proven synced is written anew as it is found. In the turn.
fn begin_epoch(directory: &Directory, options: &Options, tail: &Tail) -> Result<Log> {
    let contents = directory.contents()?;
    let mut manifest = directory.manifest()?;
    finish_renames(directory, &manifest, &contents)?;
    let mut read = Read::files(directory, &manifest, tail.synced())?;
    manifest.epoch = manifest.epoch.max(tail.epoch()) + 1;
    tail.raise_next_seq(read.examined.seq_max + 1);
    manifest.seq_floor = tail.next_seq();
    // Before there is another segment: none of these is of that.
    let begun = tail.syncs_begun();
    let mut report = Recovery { fresh_segment: true, ..Recovery::default() };
    let active = fresh::carry_over(directory, options, &mut manifest, tail, &mut read.examined, &mut read.replay, &mut report)?;
    tail.go_on(&manifest, active.end_position());
    tail.settle_syncs(begun);
    read.into_log(directory, options, manifest, active, report)
}

/// Opens for reading alone: no lock, no change.
fn read_only(directory: &Directory, options: &Options) -> Result<Opened> {
    let tail = Tail::absent();
    tail.observe(directory, &directory.manifest()?);
    let log = look(directory, options, &tail, false)?;
    Ok(Opened { log, tail, writing: None })
}

/// Gives a listed segment that still has its working name its own.
pub(crate) fn finish_renames(directory: &Directory, manifest: &Manifest, contents: &Contents) -> Result<()> {
    let pending = |listed: &&Listed| contents.segments_new.contains(&listed.number) && !contents.segments.contains(&listed.number);
    let mut renamed = false;
    for listed in manifest.segments.iter().filter(pending) {
        directory.rename(&names::segment_new(listed.number), &names::segment(listed.number))?;
        renamed = true;
    }
    if renamed { directory.sync() } else { Ok(()) }
}

/// Whether the last users ended between two puts, or in the middle of one that the page does not count:
/// then nothing unproven can stand in the log.
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
        && examined.end.last_check.is_some()
        && examined.end.header_is_sound
        && examined.unproven.is_empty()
}
