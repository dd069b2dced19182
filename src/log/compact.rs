//! Compaction: a run of neighbouring sealed segments is replaced by one that holds what is kept of it.
//!
//! One at a time across all processes, in steps of about a segment. A step plans on one moment of the
//! index that is wholly synced, writes beside everybody, and installs by one replacement of the
//! manifest: that alone needs the turn. The old files go afterwards; readers keep what they have
//! mapped. What fails before the manifest leaves everything as it was. The order of steps, and what a
//! crash leaves at each, is in DESIGN.md, section 10.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use super::Shared;
use super::before::Before;
use super::directory::{Contents, Directory};
use super::fresh;
use super::group::answer;
use super::hints;
use super::house::RightToCompact;
use super::index::Moment;
use super::install::install;
use super::leftovers;
use super::output::{self, Output};
use super::read;
use super::records::{self, Met};
use super::runs::{self, Candidate, Wanted};
use super::scan::{FrameAt, Scan};
use super::segments::SegmentSet;
use super::sift::{Fate, Sift};
use super::view::View;
use crate::delta;
use crate::error::{Error, ErrorKind, Result};
use crate::format::manifest::{Listed, Manifest};
use crate::format::names;
use crate::format::record::{Attach, Coding, Put, Record};
use crate::format::segment::Kind;
use crate::options::Compression;
use crate::plant::planted;
use crate::told;

/// A segment is written anew for the keyframes in it that can be packed where that saves one part in this.
const WORTH_PACKING: u64 = 16;

/// Compactions by one who holds the right to them, one step after the other.
pub(super) struct Pass<'a> {
    shared: &'a Shared,
    /// Called behind each piece written; ends the step by an error.
    pace: &'a dyn Fn(u64) -> Result<()>,
    before: Before,
    /// Whether bytes stand behind a segment's frames, as far as that was looked at.
    remains: HashMap<u64, bool>,
    /// The first segment that was left alone because something in it cannot be read.
    pub damaged: Option<PathBuf>,
    /// Why something hidden had to be kept.
    pub unpromoted: Option<Error>,
    pub right: RightToCompact<'a>,
}

/// What a step did.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Replaced {
    /// How many segments were replaced.
    pub segments: u64,
    /// How many bytes of files that gave back.
    pub bytes: u64,
    /// The position at which the run ended.
    pub end: u64,
}

/// What of a segment is needed at a moment, in bytes of frames.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shares {
    /// All of it.
    pub live: u64,
    /// Keyframes that are not packed and that their threads have gone on from.
    pub packable: u64,
}

impl Shares {
    /// By the segments' numbers.
    pub fn of(moment: &Moment) -> HashMap<u32, Shares> {
        let mut shares: HashMap<u32, Shares> = HashMap::new();
        for view in &moment.views {
            for one in view.attached().iter() {
                shares.entry(one.at.segment).or_default().live += one.at.length();
            }
            let mut is_left = false;
            for entry in view.entries().rev().chain(view.hidden()) {
                let share = shares.entry(entry.at.segment).or_default();
                share.live += entry.at.length();
                let is_keyframe = !entry.is_delta();
                // One that is packed is shorter than its state.
                if is_left && is_keyframe && entry.at.length() > u64::from(entry.state_len.bytes()) {
                    share.packable += entry.at.length();
                }
                is_left |= is_keyframe;
            }
        }
        shares
    }
}

/// A run of a manifest's segments.
struct Run {
    manifest: Arc<Manifest>,
    range: Range<usize>,
    /// The sum of its frames that are needed.
    live: u64,
    /// The position up to which it is known what is dead.
    known: u64,
}

impl Run {
    fn listed(&self) -> &[Listed] {
        &self.manifest.segments[self.range.clone()]
    }

    fn numbers(&self) -> HashSet<u32> {
        self.listed().iter().filter_map(|listed| u32::try_from(listed.number).ok()).collect()
    }

    fn first(&self) -> Listed {
        self.manifest.segments[self.range.start]
    }

    fn last(&self) -> Listed {
        self.manifest.segments[self.range.end - 1]
    }

    fn end(&self) -> u64 {
        self.last().base + self.last().end
    }
}

/// What is kept of a run: where it stands in the log, and as what it is written.
enum Kept {
    /// Something cannot be read. Where it stands it may be read another time.
    Damaged,
    /// All of it, or nothing that is worth it.
    AsMuch,
    /// These, in the log's order; the rest is left out.
    These(Vec<(u64, Fate)>),
}

impl<'a> Pass<'a> {
    /// Begins, by removing what earlier ones left. `thorough`: whatever may be left out is.
    ///
    /// Errors: as [`Pass::step`].
    pub fn begin(shared: &'a Shared, right: RightToCompact<'a>, pace: &'a dyn Fn(u64) -> Result<()>, thorough: bool) -> Result<Pass<'a>> {
        // In an older manifest what they were to replace would not be listed yet.
        shared.refresh()?;
        remove_uninstalled(shared)?;
        Ok(Pass { shared, pace, before: Before::new(thorough), remains: HashMap::new(), damaged: None, unpromoted: None, right })
    }

    /// One step; `None` where there is nothing to be done.
    ///
    /// Errors: `DiskFull`, `Poisoned`, `Busy`, `Corrupt`, `Io`, with everything as it was.
    pub fn step(&mut self, wanted: Wanted) -> Result<Option<Replaced>> {
        let Some((mut run, mut moment)) = self.choose(wanted)? else { return Ok(None) };
        if wanted != Wanted::Dead && self.promote(Some(run.numbers()), &moment)? {
            // What was hidden in it is dead now.
            match self.choose(wanted)? {
                Some(chosen) => (run, moment) = chosen,
                None => return Ok(None),
            }
        }
        self.replace(run, &moment, wanted).map(Some)
    }

    /// The run to take next, and the moment that it was chosen at.
    fn choose(&mut self, wanted: Wanted) -> Result<Option<(Run, Moment)>> {
        let shared = self.shared;
        shared.refresh()?;
        let (moment, manifest) = {
            // Together: else what is found anew in between, by another worker or a second try, would look dead where
            // the manifest says that it is.
            let reading = shared.follower.reading();
            (shared.index.moment(), reading.manifest.clone())
        };
        if shared.tail.appended() < moment.published {
            // Who began the newest segment may have died before raising the ends to it: a turn does that.
            drop(shared.turn()?);
        }
        // What is dead only by a record that a power cut can take is not dead.
        shared.sync_to(moment.published)?;
        let candidates = self.candidates(&manifest, &moment);
        let Some(range) = runs::choose(&candidates, wanted, shared.options.segment_bytes) else { return Ok(None) };
        let live = candidates[range.clone()].iter().map(|candidate| candidate.live).sum();
        Ok(Some((Run { manifest, range, live, known: moment.published }, moment)))
    }

    /// Promotes whatever needs a hidden frame. Errors: as [`Pass::step`].
    pub fn promote_all(&mut self) -> Result<()> {
        self.shared.refresh()?;
        self.promote(None, &self.shared.index.moment()).map(|_| ())
    }

    /// Promotes what needs a hidden frame in any of these segments; answers whether there was anything.
    fn promote(&mut self, segments: Option<HashSet<u32>>, moment: &Moment) -> Result<bool> {
        let promoted = match self.shared.promote(moment, segments.as_ref(), self.pace) {
            Ok(promoted) => promoted,
            // What is hidden is kept then; the rest can do without.
            Err(error) if error.kind() == ErrorKind::DiskFull => {
                self.unpromoted = Some(error);
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        self.damaged = self.damaged.take().or(promoted.damaged);
        Ok(promoted.checkpoints > 0)
    }

    /// Replaces a run by what is kept of it.
    fn replace(&mut self, mut run: Run, moment: &Moment, wanted: Wanted) -> Result<Replaced> {
        let (shared, began) = (self.shared, told::began());
        self.right.settled.extend(run.listed().iter().map(|listed| listed.number));
        let untouched = Replaced { end: run.end(), ..Replaced::default() };
        let kept = match self.keep(&run, moment)? {
            Kept::Damaged => None,
            Kept::AsMuch => return Ok(untouched),
            Kept::These(kept) if kept.is_empty() => Some(None),
            Kept::These(kept) if wanted == Wanted::Dead => {
                // Only what needs no room: the segments in front of the first of which something is kept.
                let of_first = kept.first().map_or(0, |(position, _)| *position);
                let clean = run.listed().iter().take_while(|listed| listed.base + listed.end <= of_first).count();
                let later = &run.listed()[clean.max(1)..];
                self.right.settled.retain(|number| later.iter().all(|listed| listed.number != *number));
                if clean == 0 {
                    return Ok(untouched);
                }
                run.range.end = run.range.start + clean;
                Some(None)
            }
            Kept::These(kept) => self.write(&run, &kept)?.map(Some),
        };
        let Some(listed) = kept else {
            let path = || shared.directory.file(&names::segment(run.first().number));
            self.damaged.get_or_insert_with(path);
            return Ok(untouched);
        };
        self.right.settled.extend(listed.map(|listed| listed.number));
        let replaced = self.install(&run, listed)?;
        told::compacted(replaced.segments, replaced.bytes, &began);
        Ok(replaced)
    }

    /// The sealed segments that the moment shows to their ends, with what is live in each: of one that
    /// was sealed since then it says nothing, and one that cannot be opened is no candidate.
    fn candidates(&mut self, manifest: &Manifest, moment: &Moment) -> Vec<Candidate> {
        let (shares, packs) = (Shares::of(moment), self.packs());
        let (segments, gaps): (Arc<SegmentSet>, _) = (self.shared.segments.load_full(), self.shared.gaps.load_full());
        let sealed = manifest.segments.iter().take_while(|listed| listed.end != 0 && listed.base + listed.end <= moment.published);
        // What was not taken in may need what stands before it.
        let last_gap = manifest.segments.iter().rposition(|listed| gaps.segments.contains(&listed.number));
        let behind_gaps = last_gap.map_or(0, |at| manifest.segments[at].base + 1);
        let mut candidate = |listed: &Listed| {
            let number = u32::try_from(listed.number).unwrap_or(u32::MAX);
            let is_there = segments.contains_key(&number) && listed.base >= behind_gaps;
            if !is_there {
                self.damaged.get_or_insert_with(|| self.shared.directory.file(&names::segment(listed.number)));
            }
            let Shares { live, packable } = shares.get(&number).copied().unwrap_or_default();
            Candidate {
                at: listed.base,
                used: listed.end - u64::from(listed.first_frame),
                live,
                packable: if packs { packable } else { 0 },
                is_there,
                has_remains: is_there && self.has_remains(manifest, listed),
                settled: self.right.settled.contains(&listed.number),
            }
        };
        sealed.map(&mut candidate).collect()
    }

    /// Whether a segment was sealed before its end, because what stood behind was written anew: then that
    /// is there twice. Looked at only by who is thorough, once. What cannot be read has none.
    fn has_remains(&mut self, manifest: &Manifest, listed: &Listed) -> bool {
        if !self.before.thorough || listed.compacted {
            return false;
        }
        let look = || {
            let (file, path) = records::open(&self.shared.directory, manifest, listed)?;
            let mut scan = Scan::new(file, &path, listed.salt, listed.counted_from(), listed.end, u64::MAX)?;
            Ok::<bool, Error>(!scan.only_zeros(listed.end)?)
        };
        *self.remains.entry(listed.number).or_insert_with(|| look().unwrap_or(false))
    }

    /// Decides what is kept of a run.
    fn keep(&mut self, run: &Run, moment: &Moment) -> Result<Kept> {
        let directory = &self.shared.directory;
        let threads: HashMap<&str, &Arc<View>> = moment.views.iter().map(|view| (&**view.thread(), view)).collect();
        let mut sift = Sift::new(&threads);
        let (mut is_sound, mut shown, mut records) = (true, 0, 0);
        let has_gaps = !self.shared.gaps.load().segments.is_empty();
        for listed in run.listed() {
            records::each(directory, &run.manifest, listed, &mut |met| {
                records += 1;
                match met {
                    Some(Met { record, at }) if sift.meet(listed.base + at.offset(), record, at) => shown += at.length(),
                    // Alone of all, what is made of it may stand before it.
                    Some(Met { record: Record::Promote(_), .. }) if has_gaps => is_sound = false,
                    Some(_) => {}
                    None => is_sound = false,
                }
            })?;
        }
        if !is_sound || shown != run.live {
            return Ok(Kept::Damaged);
        }
        let segments = self.shared.segments.load_full();
        sift.settle(|view| view.head().and_then(|head| read::floor(&segments, view, head)).unwrap_or(0));
        if sift.has_deletes() {
            self.before.look(directory, &run.manifest, run.range.start);
        }
        let mut kept: Vec<(u64, Fate)> = Vec::new();
        for listed in run.listed() {
            records::each(directory, &run.manifest, listed, &mut |met| {
                let Some(Met { record, at }) = met else { return };
                let position = listed.base + at.offset();
                let fate = sift.fate(position, record, at, &|thread| !planted!("delete-dropped") && self.before.may_hold(thread));
                if fate != Fate::LeftOut {
                    kept.push((position, fate));
                }
            })?;
        }
        let has_remains = run.listed().iter().any(|listed| self.remains.get(&listed.number) == Some(&true));
        let as_it_is = |(_, fate): &(u64, Fate)| matches!(fate, Fate::Kept | Fate::Packed | Fate::Bound(_));
        if run.range.len() == 1
            && !has_remains
            && kept.len() == records
            && kept.iter().all(as_it_is)
            && !self.is_worth_packing(run, &kept)?
        {
            return Ok(Kept::AsMuch);
        }
        // A hint tells a segment's records thread by thread.
        kept.sort_unstable_by_key(|(position, _)| *position);
        Ok(Kept::These(kept))
    }

    /// Whether enough of a run's keyframes can be packed that it is worth writing it anew for that.
    fn is_worth_packing(&self, run: &Run, kept: &[(u64, Fate)]) -> Result<bool> {
        let (listed, mut saved) = (run.first(), 0);
        if !self.packs() || kept.iter().all(|(_, fate)| *fate != Fate::Packed) {
            return Ok(false);
        }
        let (file, path) = records::open(&self.shared.directory, &run.manifest, &listed)?;
        let mut scan = Scan::new(file, &path, listed.salt, listed.counted_from(), u64::from(listed.first_frame), listed.end)?;
        for (position, _) in kept.iter().filter(|(_, fate)| *fate == Fate::Packed) {
            if let Ok(frame) = scan.frame_at(position - listed.base)?
                && let Ok(record) = Record::decode(&frame.record)
                && let Some((_, payload)) = self.packed(&record, &frame, &mut scan)?
            {
                saved += u64::from(frame.head.payload_len) - payload.len() as u64;
            }
        }
        Ok(saved >= run.live / WORTH_PACKING)
    }

    /// Whether this handle packs keyframes.
    pub fn packs(&self) -> bool {
        self.shared.options.compression != Compression::Never
    }

    /// A keyframe's record and payload once it is packed, where that saves anything. What is damaged is for
    /// who copies it to find.
    fn packed<'r>(&self, record: &Record<'r>, frame: &FrameAt, scan: &mut Scan) -> Result<Option<(Record<'r>, Vec<u8>)>> {
        let Some(put) = record.put().filter(|put| put.coding == Coding::Whole && delta::is_worth(put.state_len as usize)) else {
            return Ok(None);
        };
        let state = if self.packs() && scan.payload_is_sound(frame)? { scan.payload(frame)? } else { return Ok(None) };
        let Some(packed) = delta::pack(&state) else { return Ok(None) };
        let put = Put { coding: Coding::Packed, ..put.clone() };
        Ok(Some((if let Record::Promote(_) = record { Record::Promote(put) } else { Record::Put(put) }, packed)))
    }

    /// Writes what is kept of a run into a new segment, whole, synced and with a lasting name; `None` if
    /// something of it cannot be read.
    fn write(&self, run: &Run, kept: &[(u64, Fate)]) -> Result<Option<Listed>> {
        let directory = &self.shared.directory;
        let kind = Kind::Compacted { first: run.first().number, last: run.last().number };
        let header = output::header(run.manifest.store, self.shared.tail.take_number(), fresh::salt(&*directory.fs), kind);
        let mut output = Output::create(directory, header, self.pace)?;
        let mut rest = kept;
        for listed in run.listed() {
            let (here, behind) = rest.split_at(rest.partition_point(|(position, _)| *position < listed.base + listed.end));
            rest = behind;
            if here.is_empty() {
                continue;
            }
            let (file, path) = records::open(directory, &run.manifest, listed)?;
            let mut scan = Scan::new(file, &path, listed.salt, listed.counted_from(), u64::from(listed.first_frame), listed.end)?;
            for (position, fate) in here {
                let Ok(frame) = scan.frame_at(position - listed.base)? else { return Ok(None) };
                let record = Record::decode(&frame.record);
                if let (Fate::Packed, Ok(record)) = (fate, &record)
                    && let Some((record, payload)) = self.packed(record, &frame, &mut scan)?
                {
                    output.put(frame.head.seq, &record, &payload)?;
                    continue;
                }
                let is_sound = match (fate, record) {
                    (Fate::Floor(floor), Ok(record)) => {
                        output.mark(frame.head.seq, &Record::Trim { thread: record.thread(), floor: *floor })?;
                        true
                    }
                    (Fate::Bound(place), Ok(Record::Attach(attach))) => {
                        output.copy_as(&Record::Attach(Attach { place: *place, is_awaiting: false, ..attach }), &frame, &mut scan)?
                    }
                    (_, Ok(_)) => output.copy(&frame, &mut scan)?,
                    _ => false,
                };
                if !is_sound {
                    return Ok(None);
                }
            }
        }
        let listed = output.finish(run.first().base)?;
        debug_assert!(listed.base + listed.end <= run.end(), "positions behind it would stand in it");
        // CRASH: a compacted segment that no manifest lists, beside all that it would replace, was never
        // installed: it is removed by the next first opener, or the next compaction.
        let named = directory.rename(&names::segment_new(listed.number), &names::segment(listed.number));
        named.and_then(|()| directory.sync()).inspect_err(|_| {
            // It counts for nobody. What failed first is what is told.
            let _ = directory.remove(&names::segment_new(listed.number));
            discard(directory, listed.number);
        })?;
        Ok(Some(listed))
    }

    /// Replaces the run in the manifest, and removes its files.
    fn install(&self, run: &Run, listed: Option<Listed>) -> Result<Replaced> {
        let shared = self.shared;
        if planted!("removed-too-early") {
            run.listed().iter().for_each(|gone| _ = remove(&shared.directory, gone));
        }
        let installed = replace(shared, run, listed);
        if let (Err(_), Some(listed)) = (&installed, listed)
            && !shared.tail.is_poisoned(shared.epoch)
        {
            // What failed before is what is told.
            discard(&shared.directory, listed.number);
        }
        installed?;
        // Behind the turn: finding the frames anew keeps nobody waiting. What cannot be read now is
        // told by whoever reads it.
        let _ = shared.follow_to(shared.tail.appended());
        let _ = shared.refresh();
        let bytes: u64 = run.listed().iter().map(|gone| remove(&shared.directory, gone)).sum();
        let added = listed.map_or(0, |listed| listed.end);
        Ok(Replaced { segments: run.range.len() as u64, bytes: bytes.saturating_sub(added), end: run.end() })
    }
}

/// Replaces a run by a segment, or by none, in the manifest.
fn replace(shared: &Shared, run: &Run, listed: Option<Listed>) -> Result<()> {
    let mut turn = shared.turn()?;
    let mut manifest = Manifest::clone(&turn.manifest);
    shared.directory.require_in_force(&manifest)?;
    let at = manifest.segments.iter().position(|listed| listed.number == run.first().number);
    let range = at.map(|at| at..at + run.range.len()).filter(|range| manifest.segments.get(range.clone()) == Some(run.listed()));
    let Some(range) = range else {
        let message = "the segments were replaced by another compaction: somebody removed compact.lock while it was held";
        return Err(Error::new(ErrorKind::Busy, message).with_file(&shared.directory.path, None));
    };
    if let Some(listed) = listed {
        // Somebody who removed compact.lock may have let another compactor take it for a leftover.
        records::open(&shared.directory, &manifest, &listed)?;
        manifest.next_number = manifest.next_number.max(listed.number + 1);
    }
    fresh::remove_retired(&shared.directory, &mut manifest);
    manifest.retired.extend(run.listed().iter().map(|listed| listed.number));
    manifest.segments.splice(range, listed);
    manifest.compactions += 1;
    manifest.compacted_at = manifest.compacted_at.max(run.known);
    manifest.seq_floor = shared.tail.next_seq();
    // CRASH: before the rename in here the old segments count, and the new one is a leftover; behind it
    // the new one counts, and the old ones are leftovers that the manifest names as retired.
    let mut installed = install(&shared.directory, &shared.tail, &mut manifest);
    if listed.is_none() && matches!(&installed, Err(error) if error.kind() == ErrorKind::DiskFull) {
        // No room even for the manifest, though much will be given back: what is kept behind the end
        // for deletes makes it, and the hints of what is to go.
        run.listed().iter().for_each(|listed| hints::remove(&shared.directory, listed.number));
        turn.give_up_room(shared);
        installed = install(&shared.directory, &shared.tail, &mut manifest);
    }
    installed.map_err(|error| answer(&shared.tail, shared.epoch, error))
}

/// Removes a segment that was replaced; answers how many bytes that gives back. One that cannot be
/// removed now is named as retired until it can.
fn remove(directory: &Directory, listed: &Listed) -> u64 {
    hints::remove(directory, listed.number);
    let bytes = directory.open_log(listed.number, false).and_then(|file| file.len()).unwrap_or(0);
    directory.remove_log(listed.number).map_or(0, |()| bytes)
}

/// Removes a compacted segment that was not installed.
fn discard(directory: &Directory, number: u64) {
    hints::remove(directory, number);
    // It counts for nobody, and is removed later if not now.
    let _ = directory.remove(&names::segment(number));
}

/// Removes what compactions left that were not installed: compacted segments that no manifest lists,
/// under either name. In the turn, for one who lost `compact.lock` may be about to install one.
fn remove_uninstalled(shared: &Shared) -> Result<()> {
    let directory = &shared.directory;
    let uninstalled = |contents: &Contents, manifest: &Manifest| {
        let is_compacted = |name: String| leftovers::is_compacted(directory, &name, manifest);
        let is_leftover = |number: &u64| is_compacted(names::segment(*number)) || is_compacted(names::segment_new(*number));
        let unlisted = |number: &u64| manifest.segments.iter().all(|listed| listed.number != *number);
        let numbers = contents.segments.iter().chain(&contents.segments_new).copied().filter(unlisted);
        numbers.filter(is_leftover).collect::<HashSet<u64>>()
    };
    let manifest = shared.follower.reading().manifest.clone();
    if uninstalled(&directory.contents()?, &manifest).is_empty() {
        return Ok(());
    }
    let turn = shared.turn()?;
    for number in uninstalled(&directory.contents()?, &turn.manifest) {
        hints::remove(directory, number);
        directory.remove_log(number)?;
    }
    Ok(())
}
