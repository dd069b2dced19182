//! Compaction: a run of neighbouring sealed segments is replaced by one that holds what is kept.
//!
//! One at a time across all processes, in steps of about a segment. A step plans on one moment of the
//! index that is wholly synced, writes beside everybody, and installs by one replacement of the
//! manifest: that alone needs the turn. The old files go afterwards; readers keep what they have
//! mapped. What fails before the manifest leaves everything as it was. The order of steps, and what a
//! crash leaves at each, is in DESIGN.md, section 10.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use super::Shared;
use super::directory::{Contents, Directory};
use super::examine::{self, locate, location};
use super::fresh;
use super::group::answer;
use super::hints;
use super::index::Moment;
use super::install::install;
use super::leftovers;
use super::output::{self, Output};
use super::read;
use super::runs::{self, Candidate, Wanted};
use super::scan::{Found, Scan};
use super::sift::{Fate, Sift};
use super::view::{Location, View};
use crate::error::{Error, ErrorKind, Result};
use crate::format::Flaw;
use crate::format::manifest::{Listed, Manifest};
use crate::format::names;
use crate::format::record::Record;
use crate::format::segment::Kind;
use crate::fs::File;

/// A run of segments of a manifest, and what was found out about it.
pub(super) struct Step<'a> {
    shared: &'a Shared,
    manifest: Arc<Manifest>,
    run: Range<usize>,
    /// The position up to which it is known what is dead.
    known: u64,
    /// Of these a part could not be read.
    damaged: HashSet<u64>,
}

impl Shared {
    /// One step, by who holds the right to compact. `None` where there is nothing to be done.
    ///
    /// `pace` is called behind each piece written, and ends the step by an error. Errors: `DiskFull`,
    /// `Poisoned`, `Busy`, `Io`, with everything as it was.
    pub(super) fn compact_step(
        &self,
        wanted: Wanted,
        settled: &mut HashSet<u64>,
        pace: &dyn Fn(u64) -> Result<()>,
    ) -> Result<Option<Replaced>> {
        self.refresh()?;
        let moment = self.index.moment();
        if self.tail.appended() < moment.published {
            // Who began the newest segment may have died before raising the ends to it: a turn does that.
            drop(self.turn()?);
        }
        // What is dead only by a record that a power cut can take is not dead.
        self.sync_to(moment.published)?;
        let manifest = self.follower.reading().manifest.clone();
        let candidates = candidates(&manifest, &moment, settled);
        let Some(run) = runs::choose(&candidates, wanted, self.options.segment_bytes) else { return Ok(None) };
        let numbers = manifest.segments[run.clone()].iter().map(|listed| listed.number);
        settled.extend(numbers);
        let size =
            candidates[run.clone()].iter().fold(Size::default(), |sum, it| Size { used: sum.used + it.used, live: sum.live + it.live });
        let end = manifest.segments[run.end - 1].base + manifest.segments[run.end - 1].end;
        let mut step = Step { shared: self, manifest, run, known: moment.published, damaged: HashSet::new() };
        let untouched = Replaced { segments: 0, bytes: 0, number: None, end, damaged: None };
        let replaced = match step.write(&moment, size, pace)? {
            Kept::AsMuch => untouched,
            Kept::Damaged => Replaced { damaged: Some(self.directory.file(&names::segment(step.listed()[0].number))), ..untouched },
            Kept::Nothing => step.install(None, end)?,
            Kept::In(listed) => step.install(Some(listed), end)?,
        };
        settled.extend(replaced.number);
        Ok(Some(replaced))
    }
}

impl Shared {
    /// Removes what compactions left that were not installed: compacted segments that no manifest lists,
    /// under either name. By who holds the right to compact, and in the turn, for one who lost
    /// `compact.lock` may be about to install one.
    pub(super) fn remove_uninstalled(&self) -> Result<()> {
        let is_leftover = |contents: &Contents, manifest: &Manifest| {
            let unlisted = |number: &&u64| manifest.segments.iter().all(|listed| listed.number != **number);
            let named = contents.segments.iter().filter(unlisted).map(|&number| names::segment(number));
            let working = contents.segments_new.iter().filter(unlisted).map(|&number| names::segment_new(number));
            let mut leftovers: Vec<String> = named.chain(working).collect();
            leftovers.retain(|name| leftovers::is_compacted(&self.directory, name, manifest));
            leftovers
        };
        let manifest = self.follower.reading().manifest.clone();
        if is_leftover(&self.directory.contents()?, &manifest).is_empty() {
            return Ok(());
        }
        let turn = self.turn()?;
        for name in is_leftover(&self.directory.contents()?, &turn.manifest) {
            self.directory.remove(&name)?;
        }
        Ok(())
    }
}

/// What a step did.
#[derive(Clone, Debug)]
pub(super) struct Replaced {
    pub segments: u64,
    pub bytes: u64,
    /// The segment that replaces them, if one does.
    pub number: Option<u64>,
    /// The position at which the run ended.
    pub end: u64,
    /// Where the run begins, if it was left alone because something shown in it cannot be read.
    pub damaged: Option<PathBuf>,
}

/// How large a run is.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    used: u64,
    live: u64,
}

enum Kept {
    /// What would be written is not worth it.
    AsMuch,
    /// Something shown cannot be read.
    Damaged,
    Nothing,
    In(Listed),
}

/// The sealed segments that the moment shows to their ends, with what is live in each: of one that was
/// sealed since then it says nothing.
fn candidates(manifest: &Manifest, moment: &Moment, settled: &HashSet<u64>) -> Vec<Candidate> {
    let mut live: HashMap<u32, u64> = HashMap::new();
    for entry in moment.views.iter().flat_map(|view| view.entries()) {
        *live.entry(entry.at.segment).or_default() += entry.at.length();
    }
    let sealed = manifest.segments.iter().take_while(|listed| listed.end != 0 && listed.base + listed.end <= moment.published);
    let candidate = |listed: &Listed| Candidate {
        at: listed.base,
        used: listed.end - u64::from(listed.first_frame),
        live: u32::try_from(listed.number).ok().and_then(|number| live.get(&number)).copied().unwrap_or(0),
        settled: settled.contains(&listed.number),
    };
    sealed.map(candidate).collect()
}

impl Step<'_> {
    fn listed(&self) -> &[Listed] {
        &self.manifest.segments[self.run.clone()]
    }

    /// Writes what is kept of the run, as large as `size` says, into a new segment, whole and synced.
    fn write(&mut self, moment: &Moment, size: Size, pace: &dyn Fn(u64) -> Result<()>) -> Result<Kept> {
        let shared = self.shared;
        let threads: HashMap<&str, &Arc<View>> = moment.views.iter().map(|view| (&**view.thread(), view)).collect();
        let mut sift = Sift::new(&threads);
        let (mut damaged, mut shown, mut records) = (HashSet::new(), 0, 0);
        for listed in self.listed() {
            each_record(&shared.directory, &self.manifest, listed, &mut |met| {
                records += 1;
                match met {
                    Some(Met { record, at }) if sift.meet(listed.base + at.offset(), record, at) => shown += at.length(),
                    Some(_) => {}
                    None => drop(damaged.insert(listed.number)),
                }
            })?;
        }
        if shown != size.live {
            // Something shown cannot be read now. Where it stands it may be read another time.
            return Ok(Kept::Damaged);
        }
        self.damaged = damaged;
        let segments = shared.segments.load_full();
        sift.settle(|view| view.head().and_then(|head| read::floor(&segments, view, head)).unwrap_or(0));
        let older = OnceCell::new();
        let older = |thread: &str| older.get_or_init(|| self.older()).may_hold(thread);
        let mut kept: Vec<(u64, Fate)> = Vec::new();
        for listed in self.listed() {
            each_record(&shared.directory, &self.manifest, listed, &mut |met| {
                let Some(Met { record, at }) = met else { return };
                let position = listed.base + at.offset();
                let fate = sift.fate(position, record, at, &older);
                if fate != Fate::LeftOut {
                    kept.push((position, fate));
                }
            })?;
        }
        if kept.is_empty() {
            return Ok(Kept::Nothing);
        }
        if self.run.len() == 1 && kept.len() == records && kept.iter().all(|(_, fate)| *fate == Fate::Kept) {
            return Ok(Kept::AsMuch);
        }
        // A hint tells a segment's records thread by thread.
        kept.sort_unstable_by_key(|(position, _)| *position);
        self.write_out(&kept, pace)
    }

    /// Writes the records at these positions into a new segment.
    fn write_out(&mut self, kept: &[(u64, Fate)], pace: &dyn Fn(u64) -> Result<()>) -> Result<Kept> {
        let directory = &self.shared.directory;
        let (first, last) = (self.listed()[0], self.listed()[self.run.len() - 1]);
        let kind = Kind::Compacted { first: first.number, last: last.number };
        let header = output::header(self.manifest.store, self.shared.tail.take_number(), fresh::salt(&*directory.fs), kind);
        let mut output = Output::create(directory, header, pace)?;
        let (mut rest, mut damaged) = (kept, HashSet::new());
        for listed in self.listed() {
            let (here, behind) = rest.split_at(rest.partition_point(|(position, _)| *position < listed.base + listed.end));
            rest = behind;
            if here.is_empty() {
                continue;
            }
            let (file, path) = open(directory, &self.manifest, listed)?;
            let mut scan = Scan::new(file, &path, listed.salt, listed.counted_from(), u64::from(listed.first_frame), listed.end)?;
            for (position, fate) in here {
                let Ok(frame) = scan.frame_at(position - listed.base)? else { return Ok(Kept::Damaged) };
                match (fate, Record::decode(&frame.record)) {
                    (Fate::Floor(floor), Ok(record)) => {
                        output.mark(frame.head.seq, &Record::Trim { thread: record.thread(), floor: *floor })?;
                    }
                    (_, Ok(_)) if output.copy(&frame, &mut scan)? => {}
                    // As damaged as it was; but who wants to try again finds the whole file.
                    (_, Ok(_)) => drop(damaged.insert(listed.number)),
                    (_, Err(_)) => return Ok(Kept::Damaged),
                }
            }
        }
        self.damaged.extend(damaged);
        let listed = output.finish(first.base)?;
        debug_assert!(listed.base + listed.end <= last.base + last.end, "positions behind it would stand in it");
        // CRASH: a compacted segment that no manifest lists, beside all that it would replace, was never
        // installed: it is removed by the next first opener, or the next compaction.
        let named = directory.rename(&names::segment_new(listed.number), &names::segment(listed.number));
        named.and_then(|()| directory.sync()).inspect_err(|_| {
            // It counts for nobody. What failed first is what is told.
            let _ = directory.remove(&names::segment_new(listed.number));
            discard(directory, listed.number);
        })?;
        Ok(Kept::In(listed))
    }

    /// Which threads may have a record in front of the run.
    fn older(&self) -> Older {
        let mut older = Older { all: false, hasher: RandomState::new(), threads: HashSet::new() };
        for listed in &self.manifest.segments[..self.run.start] {
            let read = each_record(&self.shared.directory, &self.manifest, listed, &mut |met| match met {
                Some(met) => drop(older.threads.insert(older.hasher.hash_one(met.record.thread()))),
                None => older.all = true,
            });
            // Nobody can say what one holds that cannot be read.
            if read.is_err() || older.all {
                older.all = true;
                return older;
            }
        }
        older
    }

    /// Replaces the run in the manifest, and removes its files.
    fn install(&self, listed: Option<Listed>, end: u64) -> Result<Replaced> {
        let installed = self.replace_run(listed);
        if let (Err(_), Some(listed)) = (&installed, listed)
            && !self.shared.tail.is_poisoned(self.shared.epoch)
        {
            // What failed before is what is told.
            discard(&self.shared.directory, listed.number);
        }
        installed?;
        // Behind the turn: finding the frames anew keeps nobody waiting. What cannot be read now is
        // told by whoever reads it.
        let _ = self.shared.follow_to(self.shared.tail.appended());
        let _ = self.shared.refresh();
        let mut bytes = 0;
        for gone in self.listed() {
            // What cannot be set aside now is by the next first opener.
            bytes += self.remove(gone).unwrap_or(0);
        }
        let added = listed.map_or(0, |listed| listed.end);
        Ok(Replaced {
            segments: self.run.len() as u64,
            bytes: bytes.saturating_sub(added),
            number: listed.map(|listed| listed.number),
            end,
            damaged: None,
        })
    }

    fn replace_run(&self, listed: Option<Listed>) -> Result<()> {
        let shared = self.shared;
        let mut turn = shared.turn()?;
        let mut manifest = Manifest::clone(&turn.manifest);
        shared.directory.require_in_force(&manifest)?;
        let first = self.listed()[0].number;
        let at = manifest.segments.iter().position(|listed| listed.number == first);
        let run = at.map(|at| at..at + self.run.len()).filter(|run| manifest.segments.get(run.clone()) == Some(self.listed()));
        let Some(run) = run else {
            let message = "the segments were replaced by another compaction: somebody removed compact.lock while it was held";
            return Err(Error::new(ErrorKind::Busy, message).with_file(&shared.directory.path, None));
        };
        if let Some(listed) = listed {
            // Somebody who removed compact.lock may have let another compactor take it for a leftover.
            shared
                .directory
                .open_log(listed.number, false)
                .map_err(|error| Error::os("open", &shared.directory.file(&names::segment(listed.number)), error))?;
            manifest.next_number = manifest.next_number.max(listed.number + 1);
        }
        fresh::remove_retired(&shared.directory, &mut manifest);
        // One that could not be read to its end is not named: then nobody removes it.
        let whole = self.listed().iter().map(|listed| listed.number).filter(|number| !self.damaged.contains(number));
        manifest.retired.extend(whole);
        manifest.segments.splice(run, listed);
        manifest.compactions += 1;
        manifest.compacted_at = manifest.compacted_at.max(self.known);
        manifest.seq_floor = shared.tail.next_seq();
        // CRASH: before the rename in here the old segments count, and the new one is a leftover; behind it
        // the new one counts, and the old ones are leftovers that the manifest names as retired.
        let mut installed = install(&shared.directory, &shared.tail, &mut manifest);
        if listed.is_none() && matches!(&installed, Err(error) if error.kind() == ErrorKind::DiskFull) {
            // No room even for the manifest, though much will be given back: what is kept behind the end
            // for deletes makes it, and the hints of what is to go.
            self.listed().iter().for_each(|listed| hints::remove(&shared.directory, listed.number));
            turn.give_up_room(shared);
            installed = install(&shared.directory, &shared.tail, &mut manifest);
        }
        installed.map_err(|error| answer(&shared.tail, shared.epoch, error))
    }

    /// Removes a segment that was replaced; one that could not be read to its end goes to quarantine
    /// whole. Answers how many bytes that gives back.
    fn remove(&self, listed: &Listed) -> Result<u64> {
        let directory = &self.shared.directory;
        let name = names::segment(listed.number);
        hints::remove(directory, listed.number);
        let bytes = directory.fs.open(&directory.file(&name), false).and_then(|file| file.len()).unwrap_or(0);
        if self.damaged.contains(&listed.number) {
            // CRASH: one that is left here is listed by nobody and set aside by the next first opener.
            return leftovers::set_aside(directory, &name).map(|_| 0);
        }
        // What cannot be removed now is named as retired until it can.
        Ok(directory.remove(&name).map_or(0, |()| bytes))
    }
}

/// A record of a segment, and where its frame stands.
struct Met<'a> {
    record: &'a Record<'a>,
    at: Location,
}

/// Opens a listed segment. Errors: `Corrupt` where it is not the one that is listed, `Io`.
fn open(directory: &Directory, manifest: &Manifest, listed: &Listed) -> Result<(Arc<dyn File>, PathBuf)> {
    let path = directory.file(&names::segment(listed.number));
    let file = directory.open_log(listed.number, false).map_err(|error| Error::os("open", &path, error))?;
    examine::header_check(&*file, &path, manifest, listed)?;
    Ok((file, path))
}

/// Hands on every record of a sealed segment, each thread's in the log's order, and where it stands;
/// `None` for what cannot be read. From the segment's hint, if there is one to believe.
fn each_record(directory: &Directory, manifest: &Manifest, listed: &Listed, take: &mut dyn FnMut(Option<Met<'_>>)) -> Result<()> {
    let (file, path) = open(directory, manifest, listed)?;
    let hint = hints::read(directory, &manifest.store, listed, &*file, listed.end);
    if let Some(hint) = hint.filter(|hint| hint.heading().end == listed.end) {
        for group in hint.groups() {
            for item in group.items() {
                let at = locate(listed.number, u64::from(item.offset8()) * 8, u64::from(item.length8()) * 8)?;
                take(Some(Met { record: &item.record(group.thread), at }));
            }
        }
        return Ok(());
    }
    let mut reached = u64::from(listed.first_frame);
    let mut scan = Scan::new(file, &path, listed.salt, listed.counted_from(), reached, listed.end)?;
    while let Some(found) = scan.next()? {
        let Found::Frame(frame) = found else {
            take(None);
            continue;
        };
        reached = frame.end();
        match Record::decode(&frame.record) {
            Ok(record) => take(Some(Met { record: &record, at: location(listed, &frame)? })),
            Err(flaw @ Flaw::Unknown(_)) => {
                return Err(Error::new(ErrorKind::Unsupported, flaw.to_string()).with_file(&path, Some(frame.offset)));
            }
            Err(_) => take(None),
        }
    }
    if reached < listed.end {
        take(None);
    }
    Ok(())
}

/// Removes a compacted segment that was not installed.
fn discard(directory: &Directory, number: u64) {
    hints::remove(directory, number);
    // It counts for nobody, and is removed later if not now.
    let _ = directory.remove(&names::segment(number));
}

/// Threads by a hash of their ids: one that is taken for another keeps a record too many.
struct Older {
    all: bool,
    hasher: RandomState,
    threads: HashSet<u64>,
}

impl Older {
    fn may_hold(&self, thread: &str) -> bool {
        self.all || self.threads.contains(&self.hasher.hash_one(thread))
    }
}
