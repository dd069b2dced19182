//! Reading a whole log from its files into an index: as it is, or as processes at work show it.
//!
//! Changes nothing. What counts is judged by `examine`; here is where the reading goes to.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::active::Active;
use super::directory::Directory;
use super::examine::{Examination, Examined};
use super::follow::Reading;
use super::held;
use super::index::Index;
use super::replay::Replay;
use super::segments::{Segment, SegmentSet};
use super::tail::{Marks, Tail};
use super::view::View;
use crate::error::{Error, ErrorKind, Result};
use crate::format::manifest::{Listed, Manifest};
use crate::format::names;
use crate::options::Options;
use crate::report::Recovery;

/// What was not taken in of a log.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gaps {
    /// A segment that cannot be read at all or in part, so that nobody can say what is not there.
    pub unreadable: Option<PathBuf>,
    /// The numbers of segments of which something was not taken in: what is shown of them says nothing of
    /// what is dead in them.
    pub segments: HashSet<u64>,
}

/// The log as it was read from its files.
pub(crate) struct Log {
    pub threads: HashMap<Arc<str>, Arc<View>>,
    pub segments: SegmentSet,
    pub reading: Reading,
    pub report: Recovery,
    pub gaps: Gaps,
    /// Whether a sealed segment had to be read for want of a hint.
    pub unhinted: bool,
}

/// Reads the log as the processes at work, or the files, show it at this moment. Changes nothing.
pub(crate) fn look(directory: &Directory, options: &Options, tail: &Tail, write: bool) -> Result<Log> {
    // Where compaction was quicker than the first try, its files are held open for the next ones.
    let mut hold = false;
    loop {
        // The page before the manifest that it is judged by: a segment begun in between would else
        // make its end look like one that the segment before it has lost.
        let marks = if write { None } else { Marks::read(directory, &directory.manifest()?) };
        // The synced end first: all that a segment began with is visible once that end is raised to it.
        let synced = tail.synced();
        let visible = tail.visible();
        let manifest = directory.manifest()?;
        let first_frame = first_frame(&manifest);
        let sight = match write {
            false => Sight::Files(marks),
            true if synced < first_frame => Sight::Begun,
            // What was dead for a compaction is dead by a record before this, which may be newer than the look.
            true => Sight::Upto(visible.max(first_frame).max(manifest.compacted_at)),
        };
        let log = match hold {
            false => look_under(directory, options, &manifest, &sight, tail),
            true => look_under(&held::holding(directory, &manifest), options, &manifest, &sight, tail),
        };
        hold = true;
        // Nobody appends to a segment before the ends are raised to it; else it was read too late.
        let too_late = match &sight {
            Sight::Upto(_) => false,
            Sight::Begun => tail.synced() >= first_frame,
            Sight::Files(marks) => marks.is_some_and(|marks| {
                let lags = marks.boot == directory.fs.boot() && (marks.generation != manifest.generation || marks.synced < first_frame);
                let is_begun = |marks: Marks| marks.synced < first_frame;
                let lags_still = |now: Marks| now.generation == marks.generation && is_begun(now) == is_begun(marks);
                lags && !Marks::read(directory, &manifest).is_some_and(lags_still)
            }),
        };
        if too_late {
            continue;
        }
        // A file that went away under us was retired by a newer manifest.
        let is_whole = log.as_ref().is_ok_and(|log| log.gaps.unreadable.is_none());
        if is_whole || directory.manifest()?.generation == manifest.generation {
            return log;
        }
    }
}

/// Where the active segment begins.
fn first_frame(manifest: &Manifest) -> u64 {
    manifest.segments.last().map_or(0, |active| active.base + u64::from(active.first_frame))
}

/// How the active segment is looked at.
enum Sight {
    /// Up to a position, where a batch ends.
    Upto(u64),
    /// All of it: the ends are not raised to it yet, so it is as who began it has synced it.
    Begun,
    /// As the files show it, beside whoever writes them.
    Files(Option<Marks>),
}

fn look_under(directory: &Directory, options: &Options, manifest: &Manifest, sight: &Sight, tail: &Tail) -> Result<Log> {
    let mut read = match sight {
        Sight::Upto(position) => Read::upto(directory, manifest, *position)?,
        Sight::Begun => Read::files(directory, manifest, 0)?,
        Sight::Files(marks) => {
            let mut read = Read::files(directory, manifest, marks.map_or(0, |marks| marks.synced))?;
            // Behind the appended end stands what a writer is about to write, or died writing.
            let is_raised = |marks: &Marks| marks.generation == manifest.generation && marks.synced >= first_frame(manifest);
            let appended = marks.filter(|marks| marks.boot == directory.fs.boot() && is_raised(marks));
            read.cut_tail(manifest, appended.map_or(u64::MAX, |marks| marks.appended.max(manifest.compacted_at)));
            read
        }
    };
    read.replay.take_tail(manifest, &read.examined.end.tail)?;
    let active = read.active(directory, options, manifest, !matches!(sight, Sight::Files(_)))?;
    // Behind the opening: a sync that began later than this count tells this descriptor too.
    read.opened_at = tail.syncs_begun();
    read.into_log(directory, options, manifest.clone(), active, Recovery::default())
}

/// What was read of a log.
pub(crate) struct Read {
    pub replay: Replay,
    pub examined: Examined,
    opened_at: u64,
}

impl Read {
    /// As the files show it: all that is proven, and what counts behind that, not yet taken in.
    pub fn files(directory: &Directory, manifest: &Manifest, page_synced: u64) -> Result<Read> {
        Self::run(Examination { directory, manifest, page_synced, payloads: false, upto: None })
    }

    /// Up to where processes at work have made it visible.
    fn upto(directory: &Directory, manifest: &Manifest, visible: u64) -> Result<Read> {
        Self::run(Examination { directory, manifest, page_synced: 0, payloads: false, upto: Some(visible) })
    }

    fn run(examination: Examination<'_>) -> Result<Read> {
        let mut replay = Replay::default();
        let examined = examination.run_with_hints(&mut replay)?;
        Ok(Read { replay, examined, opened_at: 0 })
    }

    /// Forgets what stands behind a position.
    fn cut_tail(&mut self, manifest: &Manifest, position: u64) {
        let Some(active) = manifest.segments.last() else { return };
        let end = &mut self.examined.end;
        let counted = end.tail.partition_point(|frame| active.base + frame.end() <= position);
        if counted < end.tail.len() {
            let last = end.tail[..counted].last();
            end.end = last.map_or(end.proven, |frame| frame.end());
            end.last_check = last.map(|frame| frame.check);
            self.examined.last_seq = last.map_or(self.examined.proven_seq, |frame| frame.head.seq);
            end.tail.truncate(counted);
        }
    }

    /// The active segment as it stands.
    pub fn active(&self, directory: &Directory, options: &Options, manifest: &Manifest, write: bool) -> Result<Active> {
        let listed = manifest.segments.last().ok_or_else(|| Error::new(ErrorKind::Corrupt, "the manifest lists no segment"))?;
        let path = directory.file(&names::segment(listed.number));
        let file = directory.open_log(listed.number, write).map_err(|error| Error::os("open", &path, error))?;
        let end = &self.examined.end;
        Active::new(directory, options, listed, file, end.end, end.last_check)
    }

    /// The log of which it was read, with its sealed segments open.
    pub fn into_log(
        self,
        directory: &Directory,
        options: &Options,
        manifest: Manifest,
        active: Active,
        mut report: Recovery,
    ) -> Result<Log> {
        let missing: Vec<&Path> = self.examined.damage.iter().filter(|it| it.offset.is_none()).map(|it| it.file.as_path()).collect();
        let segments = open_segments(directory, options, manifest.segments.iter().filter(|listed| listed.end != 0), &missing)?;
        let Examined { frames, damage, unproven, unreadable, gaps, unhinted, end, last_seq, .. } = self.examined;
        report.frames = frames + end.tail.len() as u64;
        report.torn_bytes = end.torn_bytes;
        report.damage = damage;
        report.unproven = unproven;
        let mut log = Log::new(manifest, self.replay, segments, active, report, Gaps { unreadable, segments: gaps });
        (log.reading.opened_at, log.reading.last_seq, log.unhinted) = (self.opened_at, last_seq, unhinted);
        Ok(log)
    }
}

impl Log {
    /// A log of which so much was read.
    pub fn new(manifest: Manifest, replay: Replay, mut segments: SegmentSet, active: Active, report: Recovery, gaps: Gaps) -> Log {
        segments.insert(active.segment.number, active.segment.clone());
        let reading = Reading { manifest: Arc::new(manifest), active, opened_at: 0, last_seq: 0, doubted: 0 };
        Log { threads: replay.into_threads(), segments, reading, report, gaps, unhinted: false }
    }

    /// An index of its threads.
    pub fn index(&mut self) -> Index {
        Index::of(self.reading.active.end_position(), self.reading.last_seq, std::mem::take(&mut self.threads))
    }
}

/// Opens listed segments for reading, but for those that were `missing` before.
fn open_segments<'a>(
    directory: &Directory,
    options: &Options,
    listed: impl Iterator<Item = &'a Listed>,
    missing: &[&Path],
) -> Result<SegmentSet> {
    let mut segments = SegmentSet::new();
    for listed in listed {
        let path = directory.file(&names::segment(listed.number));
        match Segment::open(directory, options.mmap, listed)? {
            Some(segment) => drop(segments.insert(segment.number, segment)),
            None if missing.contains(&path.as_path()) => {}
            // It was there when it was read: another process has compacted since.
            None => return Err(Error::os("open", &path, std::io::ErrorKind::NotFound.into())),
        }
    }
    Ok(segments)
}
