//! Reading the log from its files: what is sound, what is damage, and where it ends.
//!
//! Changes nothing and knows no lock, so opening, read-only opening and verifying all judge by this
//! one reading. The *proven synced end* divides the active segment: below it bad bytes are damage
//! and what follows is kept; above it the log ends at the first thing that is not wholly right.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::directory::Directory;
use super::hints;
use super::ids;
use super::location::Location;
use super::scan::{Found, FrameAt, Scan};
use crate::error::{Error, ErrorKind, Result};
use crate::format::hint::{Group, Heading};
use crate::format::manifest::{Listed, Manifest};
use crate::format::names;
use crate::format::record::Record;
use crate::format::segment::{HEADER_BYTES, Header, Kind};
use crate::format::{Flaw, aligned};
use crate::fs::File;
use crate::report::Finding;

/// What the reading of a log found beside its records.
#[derive(Debug, Default)]
pub(crate) struct Examined {
    /// Frames that were taken in.
    pub frames: u64,
    /// The highest sequence number of any sound frame, applied or not, and of what MANIFEST's floor
    /// rules out.
    pub seq_max: u64,
    /// The highest sequence number of a frame that was taken in, or is in the tail.
    pub last_seq: u64,
    /// The same of those below the proven end.
    pub proven_seq: u64,
    /// Lost below the proven synced end.
    pub damage: Vec<Finding>,
    /// Whole frames behind the end of the log.
    pub unproven: Vec<Finding>,
    /// A segment that cannot be read at all or in part, so that nobody can say what is not there.
    pub unreadable: Option<PathBuf>,
    /// The numbers of segments of which something was not taken in.
    pub gaps: HashSet<u64>,
    /// The numbers of segments whose hint is there and not to be believed.
    pub disbelieved: Vec<u64>,
    /// Whether a sealed segment had to be read for want of one.
    pub unhinted: bool,
    /// Where the active segment stands.
    pub end: ActiveEnd,
}

/// Where the log ends in the active segment.
#[derive(Debug, Default)]
pub(crate) struct ActiveEnd {
    /// Up to here it is proven synced.
    pub proven: u64,
    /// Frames between there and the end, each whole and chained.
    pub tail: Vec<FrameAt>,
    /// Where the log ends.
    pub end: u64,
    /// The head checksum that the next frame chains to, where it is known.
    pub last_check: Option<u32>,
    /// Bytes behind the end that are not zero.
    pub torn_bytes: u64,
    /// The file's length.
    pub file_len: u64,
    /// Whether its header is the one that is listed.
    pub header_is_sound: bool,
    /// Whether the segment holds, or held, something proven.
    pub holds_proven: bool,
}

/// What to read, and how closely.
pub(crate) struct Examination<'a> {
    pub directory: &'a Directory,
    pub manifest: &'a Manifest,
    /// The synced end that the shared page tells.
    pub page_synced: u64,
    /// Whether payloads below the proven end are read and checked too.
    pub payloads: bool,
    /// Only up to this position, and all of that is believed: the visible end of a log that
    /// processes at work go on with.
    pub upto: Option<u64>,
}

/// Where the records that count go, in the log's order.
pub(crate) trait Take {
    /// The next record.
    fn record(&mut self, record: &Record<'_>, at: Location);
    /// All that a segment's hint has of a thread: it stands for those records, which other threads'
    /// may stand between.
    fn group(&mut self, segment: u32, group: &Group<'_>);
}

/// Only the records themselves: whoever wants these reads the segments.
struct Each<'a>(&'a mut dyn FnMut(&Record<'_>, Location));

impl Take for Each<'_> {
    fn record(&mut self, record: &Record<'_>, at: Location) {
        (self.0)(record, at);
    }

    fn group(&mut self, _: u32, _: &Group<'_>) {}
}

impl Examination<'_> {
    /// Reads the whole log, hints aside, and hands every record that counts to `take`, in order.
    pub fn run(&self, take: &mut dyn FnMut(&Record<'_>, Location)) -> Result<Examined> {
        self.read(false, &mut Each(take))
    }

    /// The same with hints instead of what they cover, but for payloads.
    pub fn run_with_hints(&self, take: &mut dyn Take) -> Result<Examined> {
        self.read(!self.payloads, take)
    }

    fn read(&self, hints: bool, take: &mut dyn Take) -> Result<Examined> {
        let mut examined = Examined { seq_max: self.manifest.seq_floor.saturating_sub(1), ..Examined::default() };
        self.refuse_a_foreign_manifest()?;
        for listed in &self.manifest.segments {
            match self.open(listed, &mut examined)? {
                Some(Opened { file, path, header_check }) => {
                    let mut reading = Reading { examination: self, hints, listed, file, path, header_check, examined: &mut examined, take };
                    if listed.end == 0 { reading.active()? } else { reading.sealed()? }
                }
                None => {
                    examined.gaps.insert(listed.number);
                    examined.unreadable = Some(self.directory.file(&names::segment(listed.number)));
                }
            }
        }
        Ok(examined)
    }

    /// Errors: `Corrupt` when every segment that can be told is of another store than the manifest.
    fn refuse_a_foreign_manifest(&self) -> Result<()> {
        let header = |listed: &Listed| {
            let mut bytes = [0; HEADER_BYTES];
            let read = self.directory.open_log(listed.number, false).and_then(|file| file.read_at(&mut bytes, 0)).unwrap_or(0);
            Header::decode(&bytes[..read]).ok()
        };
        let mut foreign = false;
        for header in self.manifest.segments.iter().filter_map(header) {
            if header.store == self.manifest.store {
                return Ok(());
            }
            foreign = true;
        }
        if foreign {
            let message = "MANIFEST and the segments beside it are of different stores: put the store's own MANIFEST back, or salvage them with `repair`";
            return Err(Error::new(ErrorKind::Corrupt, message).with_file(&self.directory.file(names::MANIFEST), None));
        }
        Ok(())
    }

    /// Opens a listed segment and compares its header with the manifest's line.
    ///
    /// A missing sealed segment is damage; a missing active one is an error, because what was
    /// acknowledged last is in it.
    fn open(&self, listed: &Listed, examined: &mut Examined) -> Result<Option<Opened>> {
        let path = self.directory.file(&names::segment(listed.number));
        let file = match self.directory.open_log(listed.number, false) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && listed.end != 0 => {
                examined.damage.push(finding(&path, None, true, "the segment's file is missing"));
                return Ok(None);
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let message =
                    "the newest segment is missing, and with it what was put last: put the file back, or salvage the rest with `repair`";
                return Err(Error::new(ErrorKind::Corrupt, message).with_file(&path, None));
            }
            Err(error) => return Err(Error::os("open", &path, error)),
        };
        let mut bytes = [0; HEADER_BYTES];
        let read = file.read_at(&mut bytes, 0).unwrap_or(0);
        let header_check = match Header::decode(&bytes[..read]) {
            Ok(header) if is_listed(&header, self.manifest, listed) => Some(header.encode().1),
            Ok(_) => {
                examined.damage.push(finding(&path, Some(0), true, "the file is not the one the manifest lists"));
                examined.unreadable = Some(path.clone());
                None
            }
            Err(flaw @ Flaw::Unknown(_)) => return Err(Error::new(ErrorKind::Unsupported, flaw.to_string()).with_file(&path, Some(0))),
            Err(flaw) => {
                examined.damage.push(finding(&path, Some(0), true, &flaw.to_string()));
                examined.unreadable = Some(path.clone());
                None
            }
        };
        Ok(Some(Opened { file, path, header_check }))
    }
}

/// A listed segment's file, and its header's checksum if the header is the one that is listed.
struct Opened {
    file: Arc<dyn File>,
    path: PathBuf,
    header_check: Option<u32>,
}

/// One segment being read.
struct Reading<'a> {
    examination: &'a Examination<'a>,
    hints: bool,
    listed: &'a Listed,
    file: Arc<dyn File>,
    path: PathBuf,
    header_check: Option<u32>,
    examined: &'a mut Examined,
    take: &'a mut dyn Take,
}

impl Reading<'_> {
    fn scan(&self, from: u64, limit: u64) -> Result<Scan> {
        let listed = self.listed;
        Scan::new(self.file.clone(), &self.path, listed.salt, listed.counted_from(), from, limit)
    }

    /// Takes in what a hint covers of the segment, up to `limit`, if there is one to believe.
    fn hinted(&mut self, limit: u64) -> Result<Option<Heading>> {
        let Examination { directory, manifest, .. } = self.examination;
        if !self.hints || self.header_check.is_none() {
            return Ok(None);
        }
        let Some(hint) = hints::read(directory, &manifest.store, self.listed, &*self.file, limit) else {
            if hints::is_there(directory, self.listed.number) {
                self.examined.disbelieved.push(self.listed.number);
            }
            return Ok(None);
        };
        let segment = locate(self.listed.number, 0, 0)?.segment;
        hint.groups().for_each(|group| self.take.group(segment, &group));
        let heading = *hint.heading();
        self.count(heading.seq_max, heading.frames);
        Ok(Some(heading))
    }

    /// Notes frames below the proven end.
    fn count(&mut self, seq_max: u64, frames: u64) {
        let examined = &mut *self.examined;
        examined.seq_max = examined.seq_max.max(seq_max);
        examined.last_seq = examined.last_seq.max(seq_max);
        examined.proven_seq = examined.last_seq;
        examined.frames += frames;
    }

    /// All of a sealed segment is proven: whatever is not a frame is damage.
    fn sealed(&mut self) -> Result<()> {
        let end = self.listed.end;
        let mut reached = self.hinted(end)?.map_or(u64::from(self.listed.first_frame), |hint| hint.end);
        self.examined.unhinted |= reached < end;
        let mut scan = self.scan(reached, end)?;
        while let Some(found) = scan.next()? {
            reached = self.proven(&mut scan, found, end)?;
        }
        self.lost_to_zeros(reached, end)
    }

    fn active(&mut self) -> Result<()> {
        let file_len = self.file.len().map_err(|error| Error::os("read", &self.path, error))?;
        let first = u64::from(self.listed.first_frame);
        let upto = self.examination.upto.map(|upto| upto.saturating_sub(self.listed.base));
        let limit = upto.unwrap_or(file_len);
        // All that a hint covers was synced when it was written.
        let hint = self.hinted(limit)?;
        let from = hint.map_or(first, |hint| hint.end);
        let mut proven = upto.map_or_else(|| self.proven_end(from, file_len), Ok)?.max(from);
        let holds_proven = proven > first || self.header_check.is_none();
        let header_is_sound = self.header_check.is_some();
        let mut log = ActiveEnd {
            proven,
            file_len,
            header_is_sound,
            holds_proven,
            end: proven,
            last_check: hint.map(|hint| hint.last_check).or(self.header_check),
            ..ActiveEnd::default()
        };
        let (mut reached, mut ended) = (from, false);
        // Frames of a batch whose last one has not been met.
        let mut batch: Vec<FrameAt> = Vec::new();
        let mut scan = self.scan(from, limit)?;
        while let Some(found) = scan.next()? {
            match found {
                Found::Frame(frame) if frame.offset < proven => {
                    // Only a damaged page tells an end inside a frame, and no frame is cut for it.
                    proven = proven.max(frame.end());
                    (log.proven, log.end) = (proven, proven);
                    log.last_check = Some(frame.check);
                    reached = self.proven(&mut scan, Found::Frame(frame), proven)?;
                }
                Found::Bad { from, .. } if from < proven => {
                    log.last_check = None;
                    reached = self.proven(&mut scan, found, proven)?;
                }
                Found::Bad { .. } => ended = true,
                Found::Frame(frame) => {
                    self.examined.seq_max = self.examined.seq_max.max(frame.head.seq);
                    let follows = batch.last().map_or(log.end, FrameAt::end) == frame.offset;
                    let before = batch.last().map_or(log.last_check, |before| Some(before.check));
                    let chains = before.is_none_or(|check| check == frame.head.prev_check);
                    let sound = scan.payload_is_sound(&frame)?;
                    ended = ended || !follows || !chains || !sound;
                    if ended {
                        if sound {
                            let what = "a whole record behind the end of the log, which nothing proves";
                            let unproven = self.named(frame.offset, &frame.record, false, what);
                            self.examined.unproven.push(unproven);
                        }
                        continue;
                    }
                    let more = frame.head.more;
                    batch.push(frame);
                    if !more {
                        log.last_check = batch.last().map(|last| last.check);
                        log.end = batch.last().map_or(log.end, FrameAt::end);
                        self.examined.last_seq = self.examined.last_seq.max(batch.last().map_or(0, |last| last.head.seq));
                        log.tail.append(&mut batch);
                    }
                }
            }
        }
        self.lost_to_zeros(reached, proven)?;
        if upto.is_none() {
            log.torn_bytes = self.scan(log.end, file_len)?.last_nonzero(log.end.min(file_len))? - log.end.min(file_len);
        }
        self.examined.end = log;
        Ok(())
    }

    /// The proven synced end as an offset: the highest that the page or any sound frame tells. A frame
    /// tells no end behind itself, so those before what is proven already need not be asked.
    fn proven_end(&self, from: u64, file_len: u64) -> Result<u64> {
        let mut proven = self.examination.page_synced;
        let told = aligned(proven.saturating_sub(self.listed.base).min(file_len));
        let mut scan = self.scan(told.max(from), file_len)?;
        while let Some(found) = scan.next()? {
            if let Found::Frame(frame) = found {
                proven = proven.max(frame.head.synced_end);
            }
        }
        Ok(proven.saturating_sub(self.listed.base))
    }

    /// Takes in what stands below the proven end; answers where it ends.
    fn proven(&mut self, scan: &mut Scan, found: Found, proven: u64) -> Result<u64> {
        let frame = match found {
            Found::Frame(frame) => frame,
            Found::Bad { from, to, why } => {
                let to = to.min(proven);
                self.damage(from, &format!("{why}; {} bytes are lost", to - from));
                return Ok(to);
            }
        };
        self.count(frame.head.seq, 1);
        if self.examination.payloads && !scan.payload_is_sound(&frame)? {
            let finding = self.named(frame.offset, &frame.record, true, "bad bytes: payload checksum");
            self.examined.damage.push(finding);
        }
        match Record::decode(&frame.record) {
            Ok(record) => self.take.record(&record, location(self.listed, &frame)?),
            Err(flaw) => self.undecoded(frame.offset, flaw)?,
        }
        Ok(frame.end())
    }

    fn undecoded(&mut self, offset: u64, flaw: Flaw) -> Result<()> {
        if let Flaw::Unknown(_) = flaw {
            let message = format!("{flaw}: this store was written by a newer version");
            return Err(Error::new(ErrorKind::Unsupported, message).with_file(&self.path, Some(offset)));
        }
        self.damage(offset, &flaw.to_string());
        Ok(())
    }

    /// Reports proven bytes that are zeros or not there any more.
    fn lost_to_zeros(&mut self, reached: u64, proven: u64) -> Result<()> {
        if reached < proven {
            self.damage(reached, &format!("{} bytes that were synced are zeros or cut off", proven - reached));
            self.examined.unreadable = Some(self.path.clone());
        }
        Ok(())
    }

    fn damage(&mut self, offset: u64, what: &str) {
        self.examined.gaps.insert(self.listed.number);
        self.examined.damage.push(finding(&self.path, Some(offset), true, what));
    }

    fn named(&self, offset: u64, record: &[u8], damage: bool, what: &str) -> Finding {
        let mut finding = finding(&self.path, Some(offset), damage, what);
        if let Ok(record) = Record::decode(record) {
            finding.thread = Some(record.thread().to_owned());
            finding.id = record.id().and_then(|id| ids::public(&id).ok());
        }
        finding
    }
}

/// The checksum of a listed segment's header. Errors: `Corrupt` where it is not the header that the
/// manifest lists, `Io`.
pub(crate) fn header_check(file: &dyn File, path: &Path, manifest: &Manifest, listed: &Listed) -> Result<u32> {
    let mut bytes = [0; HEADER_BYTES];
    let read = file.read_at(&mut bytes, 0).map_err(|error| Error::os("read", path, error))?;
    match Header::decode(&bytes[..read]) {
        Ok(header) if is_listed(&header, manifest, listed) => Ok(header.encode().1),
        _ => {
            let message = "the file is not the segment that the manifest lists: put the store's own file back";
            Err(Error::new(ErrorKind::Corrupt, message).with_file(path, Some(0)))
        }
    }
}

/// Whether a header is the one that the manifest lists.
pub(crate) fn is_listed(header: &Header, manifest: &Manifest, listed: &Listed) -> bool {
    let kind = match header.kind {
        Kind::Log { base } => !listed.compacted && base == listed.base,
        Kind::Compacted { .. } => listed.compacted,
    };
    kind && header.store == manifest.store && header.number == listed.number && header.salt == listed.salt
}

/// Where a frame stands, as the index keeps it.
pub(crate) fn location(listed: &Listed, frame: &FrameAt) -> Result<Location> {
    locate(listed.number, frame.offset, frame.head.frame_len())
}

/// The same from numbers. Errors: `Unsupported` past what the index can hold.
pub(crate) fn locate(number: u64, offset: u64, length: u64) -> Result<Location> {
    let narrow =
        |value: u64| u32::try_from(value).map_err(|_| Error::new(ErrorKind::Unsupported, "a segment is too large or its number too high"));
    Ok(Location { segment: narrow(number)?, offset8: narrow(offset / 8)?, length8: narrow(length / 8)? })
}

/// A finding that no thread can be told of.
pub(crate) fn finding(file: &Path, offset: Option<u64>, damage: bool, what: &str) -> Finding {
    Finding { file: file.to_owned(), offset, thread: None, id: None, damage, what: what.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_the_listed_one_in_all_that_names_it() {
        let listed = |compacted| Listed { number: 3, salt: 7, base: 4096, end: 0, first_frame: 72, compacted };
        let manifest = Manifest {
            store: [1; 16],
            generation: 1,
            epoch: 1,
            seq_floor: 1,
            next_number: 4,
            compactions: 0,
            compacted_at: 0,
            max_history: 0,
            segments: vec![listed(false)],
            retired: Vec::new(),
        };
        let log = Header { store: [1; 16], number: 3, salt: 7, kind: Kind::Log { base: 4096 }, first_frame: 72 };
        let compacted = Header { kind: Kind::Compacted { first: 1, last: 2 }, ..log };
        for (header, other) in [(log, compacted), (compacted, log)] {
            let listed = listed(header == compacted);
            assert!(is_listed(&header, &manifest, &listed));
            assert!(!is_listed(&other, &manifest, &listed), "of the other kind");
            assert!(!is_listed(&Header { store: [2; 16], ..header }, &manifest, &listed));
            assert!(!is_listed(&Header { number: 4, ..header }, &manifest, &listed));
            assert!(!is_listed(&Header { salt: 8, ..header }, &manifest, &listed));
        }
        assert!(!is_listed(&Header { kind: Kind::Log { base: 4104 }, ..log }, &manifest, &listed(false)));
    }
}
