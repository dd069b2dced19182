//! Following the log: taking in what other processes have appended, in the log's order.
//!
//! Each process reads every frame once, from the shared page's word that it is there: writers up to
//! the appended end, readers up to the visible one. Nobody is asked and no other process' lock is
//! taken. A newer generation means: read the manifest, pass through the segments behind the one read
//! last. What was taken in and then written anew is found at its new place; only in another epoch, or
//! where what was read last is not in the log any more, the whole index is built again.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Shared;
use super::active::Active;
use super::changes::Changes;
use super::examine::{self, locate};
use super::location::{Location, Moves, Shift};
use super::look::look;
use super::records::{self, Met};
use super::recovery;
use super::segments::{FrameHead, Segment};
use super::tail::poisoned;
use super::turn::Writer;
use crate::error::{Error, ErrorKind, Result, is_disk_full};
use crate::format::Flaw;
use crate::format::manifest::{Listed, Manifest};
use crate::format::names;
use crate::format::record::Record;
use crate::fs::File;

/// So many batches are taken in before those that are visible are shown.
const SHOWN_TOGETHER: usize = 256;

/// How far this process has read the log. The lock is held while frames, or a newer manifest, are
/// read, and by no one who waits for another process.
#[derive(Debug)]
pub(crate) struct Follower {
    reading: Mutex<Reading>,
    /// The generation that readers have met: with a newer one, segments may have been replaced.
    generation: AtomicU64,
}

/// Where the reading stands.
#[derive(Debug)]
pub(crate) struct Reading {
    /// The newest manifest that was read.
    pub manifest: Arc<Manifest>,
    /// The segment being read; its end is where the next frame will be looked for.
    pub active: Active,
    /// How many syncs had been begun when its file was opened here: if one of them failed and its
    /// process died before it could say so, this descriptor will not tell.
    pub opened_at: u64,
    /// The number of the last record taken in: one that is met again was written anew.
    pub last_seq: u64,
    /// The generation in which something could not be read: a read that fails is tried once more before
    /// this index is given up for one that lacks it.
    pub doubted: u64,
}

/// What a sync from this process would sync.
pub(crate) struct SyncTarget {
    /// The generation in which the file is that of the active segment.
    pub generation: u64,
    /// The file.
    pub file: Arc<dyn File>,
    /// As in [`Reading`].
    pub opened_at: u64,
}

impl Follower {
    /// A follower that stands there.
    pub fn new(reading: Reading) -> Follower {
        Follower { generation: AtomicU64::new(reading.manifest.generation), reading: Mutex::new(reading) }
    }

    /// What a sync would sync now.
    pub fn sync_target(&self) -> SyncTarget {
        let reading = self.reading();
        SyncTarget { generation: reading.manifest.generation, file: reading.active.file.clone(), opened_at: reading.opened_at }
    }

    /// Where the reading stands, for as long as nobody else may move it.
    pub fn reading(&self) -> MutexGuard<'_, Reading> {
        // A panic elsewhere leaves the reading where its last whole batch was.
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reading {
    /// Takes in all up to a position that the page has told, from the segments that hold it.
    ///
    /// Errors: `Corrupt` where a frame that must be there is not sound; `Io`. What was taken in until
    /// then stays.
    pub fn follow_to(&mut self, shared: &Shared, position: u64) -> Result<()> {
        // The position is older than this look: a segment that it stands in is installed by now.
        if self.manifest.generation < shared.tail.generation() {
            self.renew(shared)?;
        }
        let base = self.active.segment.base;
        if self.active.end_position() < position {
            self.read_to(shared, position - base)?;
        }
        Ok(())
    }

    /// Takes in all that is visible, given the page's word for it; answers up to where that is by now.
    ///
    /// CRASH: who writes anew what others have seen may be stopped, or die, before it has raised the ends to where that
    /// stands now. Nobody misses it meanwhile.
    fn follow_to_visible(&mut self, shared: &Shared, mut visible: u64) -> Result<u64> {
        loop {
            self.follow_to(shared, visible)?;
            if visible >= self.first() {
                return Ok(visible);
            }
            // What was put there by one who failed is shown by the next opening, or never.
            if self.is_begun(shared) && !shared.tail.is_poisoned(shared.epoch) && self.read_begun(shared)? {
                return Ok(self.active.end_position());
            }
            let now = shared.tail.visible();
            // Only a damaged page has raised the synced end alone.
            if now <= visible {
                return Ok(visible);
            }
            visible = now;
        }
    }

    /// Stands behind what this process has appended by itself. In the turn.
    pub fn appended(&mut self, active: &Active, last_seq: u64) {
        (self.active.end, self.active.filled, self.active.prev_check) = (active.end, active.filled, active.prev_check);
        self.last_seq = last_seq;
    }

    /// Reads the manifest and goes on in what it lists.
    pub fn renew(&mut self, shared: &Shared) -> Result<()> {
        loop {
            let manifest = Arc::new(shared.directory.manifest()?);
            match self.go_on_in(shared, &manifest, Vec::new()) {
                // A file that went away under us was retired by a newer manifest.
                Err(_) if shared.directory.manifest()?.generation > manifest.generation => {}
                done => return done,
            }
        }
    }

    /// Goes on in a newer manifest; `own` are those of its segments that were made here, each to be
    /// read from its end on.
    pub fn go_on_in(&mut self, shared: &Shared, manifest: &Arc<Manifest>, own: Vec<Active>) -> Result<()> {
        // Not all that was appended in the old epoch need be there; and what compaction took out of
        // the log before it was read cannot be taken in any more.
        if manifest.epoch != self.manifest.epoch || self.is_overtaken(manifest) {
            return self.begin_again(shared);
        }
        if !self.pass_through(shared, manifest, own)? {
            return self.begin_again(shared);
        }
        if manifest.compactions != self.manifest.compactions && !self.relocate(shared, manifest)? {
            return self.begin_again(shared);
        }
        self.manifest = manifest.clone();
        shared.keep_segments(manifest);
        Ok(())
    }

    /// Whether compaction has reached beyond the segment that is being read: then what stood there,
    /// or behind it, is not in the log as it was put any more.
    fn is_overtaken(&self, manifest: &Manifest) -> bool {
        if manifest.compactions == self.manifest.compactions {
            return false;
        }
        let Some(here) = manifest.segments.iter().position(|listed| listed.number == u64::from(self.active.segment.number)) else {
            return true;
        };
        let behind = &manifest.segments[here..];
        behind.windows(2).any(|pair| pair[1].compacted || pair[0].base + pair[0].end != pair[1].base)
    }

    /// Takes in what a newer manifest lists behind the segment that was read last. False if that is not
    /// in the log any more.
    fn pass_through(&mut self, shared: &Shared, manifest: &Manifest, mut own: Vec<Active>) -> Result<bool> {
        let (number, first_frame) = (u64::from(self.active.segment.number), self.active.segment.first_frame);
        // Where the run begins that was written anew behind this segment, if one was.
        let mut moved_from = None;
        let behind = match manifest.segments.iter().position(|listed| listed.number == number) {
            Some(at) if manifest.segments[at].end == 0 => {
                if let Some(own) = own.pop() {
                    // Another worker has come here by itself; where it stands stays, in a file in no doubt.
                    (self.active.file, self.opened_at) = (own.file, 0);
                }
                return Ok(true);
            }
            Some(at) if self.active.end <= manifest.segments[at].end => {
                self.read_to(shared, manifest.segments[at].end)?;
                at + 1
            }
            Some(at) => {
                moved_from = Some(manifest.segments[at].end);
                at + 1
            }
            // Retired instead of sealed: it was empty, or all of it was written anew.
            None if self.active.end == first_frame || manifest.retired.contains(&number) => {
                moved_from = (self.active.end > first_frame).then_some(first_frame);
                manifest.segments.partition_point(|listed| listed.base < self.active.segment.base)
            }
            None => return Ok(false),
        };
        for listed in &manifest.segments[behind..] {
            let stood = moved_from.is_some().then(|| (self.active.clone(), self.opened_at));
            match own.iter().position(|own| u64::from(own.segment.number) == listed.number) {
                Some(at) => self.enter_own(shared, own.swap_remove(at)),
                None => self.enter(shared, manifest, listed)?,
            }
            if let (Some(from), Some(stood)) = (moved_from.take(), stood) {
                // Until they are passed over, the reading stands where they were: else they would be
                // taken in a second time.
                self.pass_moved(shared, locate(number, from, 0)?).inspect_err(|_| (self.active, self.opened_at) = stood)?;
            }
            if listed.end != 0 {
                self.read_to(shared, listed.end)?;
            }
        }
        Ok(true)
    }

    /// Finds what compaction has written anew, and lets go of what it has left out. False if something
    /// that is shown was left out: then this index is not what the files say.
    fn relocate(&mut self, shared: &Shared, manifest: &Manifest) -> Result<bool> {
        // All that was dead for the compaction must be dead here too.
        let at = manifest.compacted_at;
        if self.active.end_position() < at {
            self.read_to(shared, at.saturating_sub(self.active.segment.base))?;
        }
        shared.index.publish(at);
        let listed = |manifest: &Manifest| manifest.segments.iter().map(|listed| listed.number).collect::<HashSet<u64>>();
        let (before, now) = (listed(&self.manifest), listed(manifest));
        let (mut moves, mut is_sound) = (Moves::default(), true);
        // Also those that were entered in a manifest in between, of which something was gone already.
        let known = shared.segments.load();
        moves.gone.extend(known.keys().filter(|number| !now.contains(&u64::from(**number))));
        if !shared.gaps.load().segments.is_subset(&now) {
            // Of what was not taken in of it something may be in the new one, and would not be known there.
            return Ok(false);
        }
        for new in manifest.segments.iter().filter(|listed| listed.compacted && !before.contains(&listed.number)) {
            shared.add_segment(open_sealed(shared, manifest, new)?);
            records::each(&shared.directory, manifest, new, &mut |met| match met {
                Some(Met { record, at }) => match record {
                    Record::Put(put) | Record::Promote(put) => moves.add(put.thread, put.place, at),
                    Record::Attach(attach) => moves.add(attach.thread, attach.number, at),
                    _ => {}
                },
                None => is_sound = false,
            })?;
        }
        if !is_sound {
            self.doubt(shared, manifest.generation)?;
            return Ok(false);
        }
        moves.sort();
        Ok(shared.index.relocated(&moves))
    }

    /// Goes on in a segment that this process has made: its descriptor is in no doubt.
    fn enter_own(&mut self, shared: &Shared, own: Active) {
        shared.add_segment(own.segment.clone());
        self.active = own;
        self.opened_at = 0;
    }

    /// Goes on at the beginning of another segment.
    fn enter(&mut self, shared: &Shared, manifest: &Manifest, listed: &Listed) -> Result<()> {
        let path = shared.directory.file(&names::segment(listed.number));
        let write = listed.end == 0 && shared.turn.is_some();
        let file = shared.directory.open_log(listed.number, write).map_err(|error| Error::os("open", &path, error))?;
        // Behind the opening: a sync that began later than this count tells this descriptor too.
        let opened_at = shared.tail.syncs_begun();
        let header_check = examine::header_check(&*file, &path, manifest, listed)?;
        let first_frame = u64::from(listed.first_frame);
        self.active = Active::new(&shared.directory, &shared.options, listed, file, first_frame, Some(header_check))?;
        self.opened_at = opened_at;
        shared.add_segment(self.active.segment.clone());
        Ok(())
    }

    /// Passes over frames that were taken in before they were written anew here, and finds them here
    /// from now on. They stand at the beginning, in their order, and are synced.
    fn pass_moved(&mut self, shared: &Shared, from: Location) -> Result<()> {
        let to = locate(u64::from(self.active.segment.number), self.active.end, 0)?;
        let limit = self.active.file.len().map_err(|error| Error::os("read", &self.active.segment.path, error))?;
        self.reach(shared, limit)?;
        let mut threads = HashSet::new();
        while let Ok(frame) = self.active.segment.frame_head(self.active.end, limit) {
            if frame.head.seq > self.last_seq {
                break;
            }
            if let Ok(record) = Record::decode(&frame.record) {
                threads.insert(record.thread().into());
            }
            (self.active.end, self.active.prev_check) = (self.active.end + frame.head.frame_len(), Some(frame.check));
        }
        shared.index.moved(&threads, &Shift { from, to });
        Ok(())
    }

    /// Where the segment being read begins.
    fn first(&self) -> u64 {
        self.active.position(self.active.segment.first_frame)
    }

    /// Whether the ends are not raised to the segment being read: who began it has synced all that it holds, and nobody
    /// has appended to it.
    fn is_begun(&self, shared: &Shared) -> bool {
        shared.tail.synced() < self.first()
    }

    /// Takes in all that such a segment holds; false, and nothing is, where the ends were raised to it meanwhile.
    fn read_begun(&mut self, shared: &Shared) -> Result<bool> {
        let length = self.active.file.len().map_err(|error| Error::os("read", &self.active.segment.path, error))?;
        self.reach(shared, length)?;
        let mut limit = self.active.end;
        while let Ok(frame) = self.active.segment.frame_head(limit, length) {
            limit += frame.head.frame_len();
        }
        // Behind the look: what was there before the ends is what it began with.
        let is_begun = self.is_begun(shared);
        if is_begun {
            self.read_to(shared, limit)?;
        }
        Ok(is_begun)
    }

    /// Takes in the frames of the segment up to an offset where a batch ends. What is not sound there
    /// costs itself alone.
    fn read_to(&mut self, shared: &Shared, limit: u64) -> Result<()> {
        self.reach(shared, limit)?;
        let segment = self.active.segment.clone();
        let (mut at, mut seq) = (self.active.end, self.last_seq);
        let (mut changes, mut unshown) = (Changes::default(), 0);
        while at < limit {
            let frame = match segment.frame_head(at, limit) {
                Ok(frame) => Some(frame),
                // The page that a reader follows without a lock is older than the files.
                Err(error) if shared.turn.is_none() && segment.is_blank(at) => return Err(error),
                // Damage, which `verify` tells of; what stands behind it counts.
                Err(error) if error.kind() == ErrorKind::Corrupt => None,
                Err(error) => return Err(error),
            };
            if let Some(frame) = &frame {
                debug_assert!(shared.turn.is_none() || frame.head.seq > seq, "a frame is taken in once");
                take_in(shared, &segment, at, frame, &mut changes)?;
                seq = frame.head.seq;
            } else {
                shared.has_gap(segment.number);
            }
            at = frame.as_ref().map_or_else(|| segment.behind_damage(at, limit), |frame| at + frame.head.frame_len());
            if at == limit || frame.as_ref().is_none_or(|frame| !frame.head.more) {
                shared.index.append(segment.base + at, seq, std::mem::take(&mut changes).into_list());
                (self.active.end, self.active.prev_check) = (at, frame.map(|frame| frame.check));
                self.last_seq = seq;
                unshown += 1;
            }
            if unshown == SHOWN_TOGETHER {
                // One who lags far behind keeps no views that nobody will see.
                shared.index.publish((segment.base + self.active.end).min(shared.tail.visible()));
                unshown = 0;
            }
        }
        Ok(())
    }

    /// Maps more of the segment, where other processes make it longer than this one would.
    fn reach(&mut self, shared: &Shared, limit: u64) -> Result<()> {
        let Active { segment, file, .. } = &self.active;
        // A reader without a lock follows a page that may be older than its files.
        if segment.reaches(limit) && shared.turn.is_some() {
            return Ok(());
        }
        let length = file.len().map_err(|error| Error::os("read", &segment.path, error))?;
        if length < limit {
            return Err(segment.damaged(length, Flaw::Torn("the file ends before what was appended to it")));
        }
        if segment.reaches(limit) {
            return Ok(());
        }
        // Twice what is needed, so that a segment which grows is mapped again seldom.
        let longer = segment.with_length(file, shared.options.mmap, (limit * 2).max(length))?;
        shared.add_segment(longer.clone());
        self.active.segment = longer;
        Ok(())
    }

    /// Builds the index anew from the files, as an opener would.
    fn begin_again(&mut self, shared: &Shared) -> Result<()> {
        let looked = look(&shared.directory, &shared.options, &shared.tail, shared.turn.is_some())?;
        if !looked.gaps.segments.is_subset(&shared.gaps.load().segments) {
            self.doubt(shared, looked.reading.manifest.generation)?;
        }
        shared.replace(self, looked);
        Ok(())
    }

    /// Errors: `Corrupt` the first time that something cannot be read in a generation.
    fn doubt(&mut self, shared: &Shared, generation: u64) -> Result<()> {
        if std::mem::replace(&mut self.doubted, generation) == generation {
            return Ok(());
        }
        let message = "a segment that compaction or another process has written cannot be read: try again, and see verify";
        Err(Error::new(ErrorKind::Corrupt, message).with_file(&shared.directory.path, None))
    }
}

/// Opens a sealed segment that a manifest lists.
fn open_sealed(shared: &Shared, manifest: &Manifest, listed: &Listed) -> Result<Arc<Segment>> {
    let (file, path) = records::open(&shared.directory, manifest, listed)?;
    let length = file.len().map_err(|error| Error::os("read", &path, error))?;
    if length < listed.end {
        return Err(Error::new(ErrorKind::Corrupt, "the segment ends before what the manifest lists").with_file(&path, Some(length)));
    }
    Segment::new(listed, path, file, shared.options.mmap, length)
}

/// Takes in a frame's record; one that is damaged costs itself alone.
fn take_in(shared: &Shared, segment: &Segment, at: u64, frame: &FrameHead, changes: &mut Changes) -> Result<()> {
    match Record::decode(&frame.record) {
        Ok(record) => {
            let location = locate(u64::from(segment.number), at, frame.head.frame_len())?;
            changes.take(&shared.index, &record, location);
            Ok(())
        }
        Err(flaw @ Flaw::Unknown(_)) => Err(Error::new(ErrorKind::Unsupported, flaw.to_string()).with_file(&segment.path, Some(at))),
        Err(_) => {
            shared.has_gap(segment.number);
            Ok(())
        }
    }
}

impl Shared {
    /// Brings what readers see up to what is visible. Three loads where there is nothing new.
    ///
    /// Errors: as [`Reading::follow_to`].
    pub(super) fn refresh(&self) -> Result<()> {
        if self.turn.is_none() && !self.tail.is_there() {
            // A reader that came before the first writer looks for the page with every call.
            self.tail.observe(&self.directory, &self.follower.reading().manifest);
        }
        let (visible, generation) = (self.tail.visible(), self.tail.generation());
        if self.index.published() >= visible && self.follower.generation.load(Relaxed) >= generation {
            return Ok(());
        }
        self.refresh_to(visible, generation)
    }

    #[cold]
    fn refresh_to(&self, visible: u64, generation: u64) -> Result<()> {
        let mut reading = self.follower.reading();
        match reading.follow_to_visible(self, visible) {
            // Without a lock nobody says that the page is as new as the files: what it tells of and
            // they do not hold is not there for a reader.
            Err(error) if self.turn.is_none() && error.kind() == ErrorKind::Corrupt => {
                if reading.active.end_position() >= visible {
                    self.index.publish(visible);
                }
            }
            // All that is visible is here, in segments that were replaced: a later call lets go of them.
            Err(_) if self.index.published() >= visible => return Ok(()),
            followed => self.index.publish(followed?),
        }
        self.follower.generation.fetch_max(generation, Relaxed);
        Ok(())
    }

    /// Takes in what others appended up to a position, for writers.
    pub(super) fn follow_to(&self, position: u64) -> Result<()> {
        self.follower.reading().follow_to(self, position)
    }

    /// What the holder of the turn works on: all that was appended is taken in.
    ///
    /// Errors: `Poisoned` also where the page went backwards under us; `Corrupt`.
    pub(super) fn up_to_date(&self) -> Result<Writer> {
        let tail = &self.tail;
        if tail.is_poisoned(self.epoch) {
            return Err(poisoned());
        }
        if tail.is_installing() {
            // CRASH: who installed a manifest died before it could say so, or before the rename.
            self.finish_installing()?;
        }
        let mut reading = self.follower.reading();
        reading.follow_to(self, tail.appended())?;
        if reading.is_begun(self) {
            // CRASH: who began this segment died before it had raised all ends up to what it holds.
            reading.read_begun(self)?;
            tail.raise_all(reading.active.end_position());
        }
        let (manifest, active) = (reading.manifest.clone(), reading.active.clone());
        drop(reading);
        if tail.appended() < active.end_position() {
            return Err(went_backwards(self));
        }
        let unwiped = self.wipe(&active)?;
        Ok(Writer { manifest, active, unwiped })
    }

    /// Wipes what an unfinished write left behind the end; answers up to where something is left.
    ///
    /// CRASH: who had the turn before died in its write, or had no room to finish it.
    fn wipe(&self, active: &Active) -> Result<u64> {
        let writing = self.tail.writing();
        if writing <= active.end_position() {
            return Ok(0);
        }
        match active.wipe(writing) {
            Ok(()) => {
                self.tail.set_writing(0);
                Ok(0)
            }
            // Where even writing over needs room, it is left to a later turn: it chains to nothing.
            Err(error) if is_disk_full(&error) => Ok(writing),
            Err(error) => {
                self.tail.poison(self.epoch);
                Err(poisoned().with_source(Error::os("write", &active.segment.path, error)))
            }
        }
    }

    /// Finishes the installation of a manifest whose process died in it. In the turn.
    fn finish_installing(&self) -> Result<()> {
        let manifest = self.directory.manifest()?;
        let contents = self.directory.contents()?;
        recovery::finish_renames(&self.directory, &manifest, &contents)?;
        self.directory.sync().inspect_err(|_| self.tail.poison(self.epoch))?;
        self.tail.set_generation(manifest.generation);
        self.tail.set_installing(manifest.generation);
        Ok(())
    }
}

/// The answer where the page tells less than this process has seen.
pub(crate) fn went_backwards(shared: &Shared) -> Error {
    let message = "the store's files were replaced by older ones while they are in use: close it and open it again";
    Error::new(ErrorKind::Poisoned, message).with_file(&shared.directory.file(names::TAIL), None)
}
