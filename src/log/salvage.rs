//! What can be read of a damaged directory: an index of frames, by their numbers.
//!
//! A manifest that knows the data says which segments count, and how far. Without one it is told from
//! the segments: a position that a later one begins at, or that a frame says was synced, proves what
//! stands before it. What proves nothing of itself (the end of a log behind a gap, working names,
//! ends that were set aside) is taken in with less trust: it may add a checkpoint, never take one
//! away. A frame that stands in several files counts once.

use std::collections::HashMap;

use super::copy::Scans;
use super::directory::Directory;
use super::examine::{finding, is_listed, locate};
use super::fresh;
use super::location::Location;
use super::pieces::{Piece, Salted, Standing};
use super::scan::{Found, FrameAt, Scan};
use super::tail::Marks;
use crate::delta;
use crate::error::{Error, ErrorKind, Result};
use crate::format::manifest::Manifest;
use crate::format::names;
use crate::format::record::{Attach, Coding, Put, Record};
use crate::report::Recovery;

/// A frame that can be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Indexed {
    /// Its number.
    pub seq: u64,
    /// Which piece it stands in.
    pub piece: u32,
    offset8: u32,
    /// Whether it is known to have been part of the log.
    pub trusted: bool,
}

impl Indexed {
    /// Its offset in the file.
    pub fn offset(&self) -> u64 {
        u64::from(self.offset8) * 8
    }
}

/// A frame that stands under a number which others have too.
struct Copied {
    frame: FrameAt,
    is_sound: bool,
    indexed: Indexed,
}

impl Copied {
    /// Whether it is an attachment at the place of its checkpoint: another copy of it may wait for that still.
    fn is_bound(&self) -> bool {
        matches!(Record::decode(&self.frame.record), Ok(Record::Attach(Attach { is_awaiting: false, .. })))
    }
}

/// How far a piece counts.
#[derive(Clone, Copy, Debug)]
struct Reach {
    /// Nothing behind it is looked at.
    limit: u64,
    /// Up to here each frame counts by itself, and what is none is damage.
    proven: u64,
    /// Frames must reach so far; 0 where nobody can say.
    expected: u64,
    /// Whether any of it is known to be part of the log.
    trusted: bool,
}

/// The readable frames of a directory.
pub(crate) struct Salvage {
    pub pieces: Vec<Piece>,
    salted: Vec<Option<Salted>>,
    /// Where segments of the log begin, in order. One without a frame may never have been part of it.
    bases: Vec<u64>,
    /// By number at first; by piece and offset once they are sorted for looking up.
    pub frames: Vec<Indexed>,
}

impl Salvage {
    /// Of these pieces, before they are read.
    pub fn new(pieces: Vec<Piece>, salted: Vec<Option<Salted>>) -> Result<Salvage> {
        let mut bases = Vec::new();
        for (piece, salted) in pieces.iter().zip(&salted) {
            let Some((salted, base)) = salted.and_then(|salted| Some((salted, salted.base?))) else { continue };
            if matches!(piece.standing, Standing::Segment | Standing::SetAside) && piece.frames(&salted, 1)? > 0 {
                bases.push(base);
            }
        }
        bases.sort_unstable();
        Ok(Salvage { pieces, salted, bases, frames: Vec::new() })
    }

    /// Opens a piece to be read at places that are known.
    pub fn open(&self, piece: u32) -> Result<Scan> {
        let gone = || Error::new(ErrorKind::Corrupt, "a file that was read is not known any more");
        let at = piece as usize;
        let salted = self.salted.get(at).copied().flatten().ok_or_else(gone)?;
        self.pieces[at].scan(&salted, u64::MAX)
    }

    /// Reads what a manifest lists, and whatever else there is that it has not retired.
    pub fn read_listed(&mut self, directory: &Directory, manifest: &Manifest, report: &mut Recovery) -> Result<()> {
        let page_synced = Marks::read(directory, manifest).map_or(0, |marks| marks.synced);
        // Under a segment's own name before a working name.
        let of_standing = |standing| (0..).zip(&self.pieces).filter(move |(_, piece)| piece.standing == standing);
        let named = of_standing(Standing::Working).chain(of_standing(Standing::Segment));
        let named: HashMap<u64, usize> = named.map(|(at, piece)| (piece.number, at)).collect();
        let mut was_read = vec![false; self.pieces.len()];
        let mut is_whole = true;
        for listed in &manifest.segments {
            let path = directory.file(&names::segment(listed.number));
            let Some(&at) = named.get(&listed.number) else {
                is_whole = false;
                report.damage.push(finding(&path, None, true, "the segment's file is missing"));
                continue;
            };
            match &self.pieces[at].header {
                Some(header) if !is_listed(header, manifest, listed) => {
                    is_whole = false;
                    report.damage.push(finding(&path, Some(0), true, "the file is not the one the manifest lists"));
                    continue;
                }
                Some(_) => {}
                None => report.damage.push(finding(&path, Some(0), true, "the segment's header is damaged")),
            }
            let end = match listed.end {
                0 => self.synced(at)?.max(page_synced).saturating_sub(listed.base).max(u64::from(listed.first_frame)),
                end => end,
            };
            let limit = if listed.end == 0 { u64::MAX } else { end };
            was_read[at] = true;
            self.read(at, Reach { limit, proven: end, expected: end, trusted: true }, report)?;
        }
        for at in (0..self.pieces.len()).filter(|&at| !was_read[at]) {
            let piece = &self.pieces[at];
            let retired = piece.standing == Standing::Segment && manifest.retired.contains(&piece.number);
            // What a missing one was made of may lie under a retired number.
            if !retired || !is_whole {
                let reach = Reach { expected: 0, ..self.reach(at)? };
                self.read(at, reach, report)?;
            }
        }
        Ok(())
    }

    /// Reads every piece, as far as the pieces themselves tell.
    pub fn read_all(&mut self, report: &mut Recovery) -> Result<()> {
        // In the place of what was compacted there is nothing to be missed.
        let compacted = self.salted.iter().flatten().any(|salted| salted.base.is_none());
        let first = self.bases.first().copied().filter(|&base| !compacted && !fresh::is_jump(base));
        let begins_at = |salted: &Option<Salted>| first.is_some() && salted.is_some_and(|salted| salted.base == first);
        if let Some(at) = self.salted.iter().position(begins_at) {
            report.damage.push(finding(&self.pieces[at].path, None, true, "the segments before this one are missing"));
        }
        for at in 0..self.pieces.len() {
            let reach = self.reach(at)?;
            self.read(at, Reach { expected: if compacted { 0 } else { reach.expected }, ..reach }, report)?;
        }
        Ok(())
    }

    /// The highest number of any frame.
    pub fn seq_max(&self) -> u64 {
        self.frames.iter().map(|frame| frame.seq).max().unwrap_or(0)
    }

    /// Orders the frames by their numbers and keeps one of each: of several that say the same the first
    /// that is sound.
    pub fn one_of_each(&mut self) -> Result<()> {
        let mut frames = std::mem::take(&mut self.frames);
        frames.sort_by_key(|frame| (frame.seq, !frame.trusted));
        let mut scans = Scans::default();
        for copies in frames.chunk_by(|one, other| one.seq == other.seq) {
            let kept = if copies.len() > 1 { self.distinct(copies, &mut scans)? } else { copies.to_vec() };
            self.frames.extend(kept);
        }
        Ok(())
    }

    /// Of frames under one number one of each that differ: where a number was given twice, both count.
    fn distinct(&self, copies: &[Indexed], scans: &mut Scans) -> Result<Vec<Indexed>> {
        let mut kept: Vec<Copied> = Vec::new();
        for &indexed in copies {
            let scan = scans.of(indexed.piece, |piece| self.open(piece))?;
            let Ok(frame) = scan.frame_at(indexed.offset())? else { continue };
            let is_sound = scan.payload_is_sound(&frame)?;
            let copied = Copied { frame, is_sound, indexed };
            let mut same = None;
            for (at, other) in kept.iter().enumerate() {
                if self.say_the_same(other, &copied, scans)? {
                    same = Some(at);
                    break;
                }
            }
            match same {
                Some(at) if is_sound && (!kept[at].is_sound || !kept[at].is_bound() && copied.is_bound()) => kept[at] = copied,
                Some(_) => {}
                None => kept.push(copied),
            }
        }
        Ok(kept.into_iter().map(|copied| copied.indexed).collect())
    }

    /// Whether two frames say the same: byte for byte, or the same state of a checkpoint, once as it is and
    /// once packed. Where one of these is damaged the other is taken for it.
    fn say_the_same(&self, one: &Copied, other: &Copied, scans: &mut Scans) -> Result<bool> {
        if (&one.frame.record, one.frame.head.payload_check) == (&other.frame.record, other.frame.head.payload_check) {
            return Ok(true);
        }
        let (Ok(record), Ok(other_record)) = (Record::decode(&one.frame.record), Record::decode(&other.frame.record)) else {
            return Ok(false);
        };
        if let (Record::Attach(attach), Record::Attach(other_attach)) = (&record, &other_record) {
            // Once before its checkpoint came, and once as compaction wrote it when it had.
            let is_bound = *attach == Attach { place: attach.place, is_awaiting: attach.is_awaiting, ..other_attach.clone() };
            return Ok(is_bound && one.frame.head.payload_check == other.frame.head.payload_check);
        }
        let is_recoded = match (record.put(), other_record.put()) {
            (Some(put), Some(other)) if put.coding != other.coding && !put.coding.is_delta() => {
                *put == Put { coding: put.coding, ..other.clone() } && !other.coding.is_delta()
            }
            _ => false,
        };
        if !is_recoded || !one.is_sound || !other.is_sound {
            return Ok(is_recoded);
        }
        let mut state = |copied: &Copied, put: Option<&Put<'_>>| {
            let payload = scans.of(copied.indexed.piece, |piece| self.open(piece))?.payload(&copied.frame)?;
            Ok::<_, Error>(match put {
                Some(Put { coding: Coding::Packed, state_len, .. }) => delta::unpack(&payload, *state_len).ok(),
                _ => Some(payload),
            })
        };
        Ok(state(one, record.put())? == state(other, other_record.put())?)
    }

    /// Sorts the frames by where they stand.
    pub fn by_location(&mut self) {
        self.frames.sort_unstable_by_key(|frame| (frame.piece, frame.offset8));
    }

    /// How far a piece counts that no manifest lists.
    fn reach(&self, at: usize) -> Result<Reach> {
        let everything = Reach { limit: u64::MAX, proven: u64::MAX, expected: 0, trusted: true };
        if let Standing::Working | Standing::End(_) = self.pieces[at].standing {
            return Ok(Reach { proven: 0, trusted: false, ..everything });
        }
        let Some(base) = self.salted[at].and_then(|salted| salted.base) else { return Ok(everything) };
        let proven = match self.bases.get(self.bases.partition_point(|&other| other <= base)) {
            // The one behind it begins where it ends.
            Some(&next) if !fresh::is_jump(next) => next - base,
            _ => self.synced(at)?.saturating_sub(base),
        };
        Ok(Reach { proven, expected: proven, ..everything })
    }

    /// The highest synced end that a frame of a piece tells.
    fn synced(&self, at: usize) -> Result<u64> {
        let Some(salted) = &self.salted[at] else { return Ok(0) };
        let (mut scan, mut synced) = (self.pieces[at].scan(salted, u64::MAX)?, 0);
        while let Some(found) = scan.next()? {
            if let Found::Frame(frame) = found {
                synced = synced.max(frame.head.synced_end);
            }
        }
        Ok(synced)
    }

    fn read(&mut self, at: usize, reach: Reach, report: &mut Recovery) -> Result<()> {
        let piece = &self.pieces[at];
        let Some(salted) = self.salted[at] else {
            // One of another store was reported before; one without a byte holds nothing.
            if piece.header.is_none() && !Scan::new(piece.file.clone(), &piece.path, 0, 0, 0, u64::MAX)?.only_zeros(0)? {
                let what = "its header is damaged, and nothing else tells how its frames are checked";
                let counted = matches!(piece.standing, Standing::Segment | Standing::SetAside);
                report.damage.push(finding(&piece.path, Some(0), counted, what));
            }
            return Ok(());
        };
        let first = piece.first_frame(&salted);
        let (mut proven, mut reached) = (reach.proven, first);
        let (mut end, mut ended) = (proven.max(first), !reach.trusted);
        let mut last_check = piece.header.map(|header| header.encode().1);
        // Frames of a batch whose last one has not been met.
        let mut batch: Vec<FrameAt> = Vec::new();
        let mut scan = piece.scan(&salted, reach.limit)?;
        while let Some(found) = scan.next()? {
            match found {
                Found::Frame(frame) if frame.offset < proven => {
                    proven = proven.max(frame.end());
                    (end, reached, last_check) = (proven, frame.end(), Some(frame.check));
                    self.frames.push(indexed(at, &frame, true)?);
                }
                Found::Bad { from, to, why } if from < proven => {
                    let to = to.min(proven);
                    report.damage.push(finding(&piece.path, Some(from), true, &format!("{why}; {} bytes are lost", to - from)));
                    (reached, last_check) = (to, None);
                }
                Found::Bad { .. } => {
                    ended = true;
                    batch.clear();
                }
                Found::Frame(frame) => {
                    let before = batch.last().map(|last| (last.end(), Some(last.check)));
                    let goes_on =
                        |(end, check): (u64, Option<u32>)| end == frame.offset && check.is_none_or(|check| check == frame.head.prev_check);
                    let sound = scan.payload_is_sound(&frame)?;
                    ended = ended || !sound || !goes_on(before.unwrap_or((end, last_check)));
                    if !sound || !before.is_none_or(goes_on) {
                        batch.clear();
                    }
                    if !sound {
                        continue;
                    }
                    let more = frame.head.more;
                    batch.push(frame);
                    if !more {
                        (end, last_check) = batch.last().map_or((end, last_check), |last| (last.end(), Some(last.check)));
                        for frame in batch.drain(..) {
                            self.frames.push(indexed(at, &frame, !ended)?);
                        }
                    }
                }
            }
        }
        if reached < reach.expected {
            let what =
                format!("{} bytes that were synced are missing: zeros, cut off, or in a file that is not there", reach.expected - reached);
            report.damage.push(finding(&piece.path, Some(reached), true, &what));
        }
        if reach.trusted && reach.limit == u64::MAX {
            let (end, length) = (end.min(piece.len()?), piece.len()?);
            report.torn_bytes += piece.scan(&salted, length)?.last_nonzero(end)? - end;
        }
        Ok(())
    }
}

fn indexed(piece: usize, frame: &FrameAt, trusted: bool) -> Result<Indexed> {
    let Location { segment, offset8, .. } = locate(piece as u64, frame.offset, frame.head.frame_len())?;
    Ok(Indexed { seq: frame.head.seq, piece: segment, offset8, trusted })
}
