//! Watching: new checkpoints in the log's order, as they become visible.
//!
//! A watch is a place in the log of its own. It reads the records between that place and what this
//! process has taken in as visible, so it sees what any process put, each put once, and an own put
//! like any other. Waiting is for the page's news. A put is told by what the index says of it at that
//! moment, and where the index has trimmed it, by the deletes further on in the log.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Shared;
use super::ids::{self, IdKey};
use super::read;
use super::segments::SegmentSet;
use crate::checkpoint::{CheckpointInfo, check_thread};
use crate::error::Result;
use crate::format::manifest::Manifest;
use crate::format::record::{Coding, Followed, Put, Record};

/// How long an idle watch sleeps before it looks by itself.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// How long a read-only one sleeps: it cannot ask to be woken. It begins with the first and doubles.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(200);

/// New checkpoints of one thread or of all, from any process, in the order of the store; made by
/// [`Store::watch`](crate::Store::watch).
///
/// Begins with what becomes visible after it was made. None is missed and none is told twice; one that
/// is put again under its id is told again. What was trimmed or replaced meanwhile is told all the same
/// unless compaction has reclaimed it by then; what was deleted is not. As an iterator it waits without
/// end and ends after an error; [`Watch::wait`] waits for a bounded time. It keeps the store open, as a clone of the handle does, and holds up nobody.
/// Waiting takes less than a thousandth of a processor: a handle that writes is woken; a read-only one
/// looks by itself, at most 200 ms after a put.
///
/// ```
/// use taffrail::prelude::*;
/// # let scratch = tempfile::tempdir().unwrap();
/// let store = Store::open(scratch.path().join("runs"))?;
/// let mut watch = store.watch(Some("thread-1"))?;
/// let id = store.put("thread-1", &42)?;
/// let told = watch.wait(std::time::Duration::from_secs(1))?;
/// assert_eq!(told.unwrap().id, id);
/// # Ok::<(), taffrail::Error>(())
/// ```
pub struct Watch {
    shared: Arc<Shared>,
    thread: Option<Arc<str>>,
    cursor: Cursor,
    ahead: Ahead,
    overtaken: Overtaken,
    /// The last put of each thread that was passed while the watch lags.
    passed: HashMap<Box<str>, (u64, IdKey)>,
    failed: bool,
}

impl Watch {
    pub(super) fn new(shared: &Arc<Shared>, thread: Option<&str>) -> Result<Watch> {
        thread.map_or(Ok(()), check_thread)?;
        shared.at_home()?;
        shared.refresh()?;
        let shared = shared.clone();
        // Before the place: what is compacted in between is looked at.
        let overtaken = Overtaken { compactions: Moment::now(&shared).manifest.compactions, ..Overtaken::default() };
        let cursor = Cursor::at_end(&shared);
        Ok(Watch {
            shared,
            thread: thread.map(Arc::from),
            cursor,
            ahead: Ahead::default(),
            overtaken,
            passed: HashMap::new(),
            failed: false,
        })
    }

    /// The next new checkpoint, as soon as there is one; `None` after `timeout`.
    ///
    /// Errors: `Corrupt` where a record cannot be read, `Io`; the watch does not get past it. `Poisoned`
    /// in a forked child, or where the directory was moved.
    pub fn wait(&mut self, timeout: Duration) -> Result<Option<CheckpointInfo>> {
        let start = Instant::now();
        let mut pause = PAUSE_MIN;
        loop {
            // Before the look: what comes in between is news.
            let news = self.shared.tail.news();
            if let Some(info) = self.step()? {
                return Ok(Some(info));
            }
            let left = timeout.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Ok(None);
            }
            if self.shared.turn.is_some() {
                self.shared.tail.wait_for_news(news, left.min(LOOK_AGAIN));
            } else {
                std::thread::sleep(left.min(pause));
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
    }

    /// The next put that is visible by now and wanted.
    fn step(&mut self) -> Result<Option<CheckpointInfo>> {
        let shared = self.shared.clone();
        shared.at_home()?;
        shared.refresh()?;
        if shared.index.published() <= self.cursor.at && self.overtaken.held.is_none() && self.overtaken.promoted.is_empty() {
            return Ok(None);
        }
        let moment = Moment::now(&shared);
        self.overtaken.look(&moment, self.cursor)?;
        loop {
            let found = match self.overtaken.held.take() {
                Some(held) => Some(held),
                None => self.find(&shared, &moment)?,
            };
            if found.is_none() {
                // All is passed: what comes follows what is shown by now.
                self.passed.clear();
            }
            match self.overtaken.first(found) {
                First::Found(found) => return Ok(found),
                First::Promoted(place, thread) if self.wants(&thread) => {
                    if let Some(info) = current(&shared, &thread, place)? {
                        return Ok(Some(info));
                    }
                }
                First::Promoted(..) => {}
            }
        }
    }

    /// The next put in the log that is wanted.
    fn find(&mut self, shared: &Shared, moment: &Moment) -> Result<Option<Found>> {
        let Watch { thread, cursor, ahead, overtaken, passed, .. } = self;
        let begun = *cursor;
        ahead.forget_before(begun);
        cursor.find(moment, |seq, record| {
            let Record::Put(put) = record else { return Ok(None) };
            overtaken.promoted.remove(&put.place);
            if thread.as_ref().is_some_and(|wanted| **wanted != *put.thread) {
                return Ok(None);
            }
            let before = passed.insert(put.thread.into(), (put.place, IdKey::of_record(&put.id)));
            let Some(view) = shared.index.get(put.thread) else { return Ok(None) };
            // A trimmed one's place does not tell whether it was deleted before.
            if view.was_deleted(put.place) || view.was_trimmed(put.place) && ahead.deletes(shared, begun, seq, put)? {
                return Ok(None);
            }
            let mut info = read::describe(put, &view)?;
            if let (None, Followed::Base, Coding::Delta(difference)) = (&info.parent, &put.parent, put.coding) {
                // Its base was trimmed since; or it was promoted, and what it followed stands in that record.
                let base = before.filter(|(place, _)| *place == difference.base);
                info.parent = match base {
                    Some((_, id)) => Some(ids::public(&id.to_record())?),
                    None => current(shared, put.thread, put.place)?.and_then(|current| current.parent),
                };
            }
            Ok(Some((seq, info)))
        })
    }

    fn wants(&self, thread: &str) -> bool {
        self.thread.as_ref().is_none_or(|wanted| **wanted == *thread)
    }
}

/// What is shown at a place by now, if anything is.
fn current(shared: &Shared, thread: &str, place: u64) -> Result<Option<CheckpointInfo>> {
    let (view, segments) = shared.at_one_moment(|| Ok(shared.index.get(thread)))?;
    let shown = view.as_ref().and_then(|view| Some((view, view.at_place(place)?)));
    shown.map(|(view, entry)| read::info(&segments, view, entry)).transpose()
}

/// What there is to be read at one moment.
#[derive(Clone)]
struct Moment {
    visible: u64,
    manifest: Arc<Manifest>,
    segments: Arc<SegmentSet>,
}

impl Moment {
    fn now(shared: &Shared) -> Moment {
        let visible = shared.index.published();
        // Behind it, so that what is published stands in segments that the manifest lists; and both while
        // nobody moves them on: compaction lets go of segments.
        let reading = shared.follower.reading();
        Moment { visible, manifest: reading.manifest.clone(), segments: shared.segments.load_full() }
    }
}

/// A place in the log that goes from record to record.
#[derive(Clone, Copy)]
struct Cursor {
    /// The position of the next frame to look at.
    at: u64,
    /// The segment that this is counted in: if it is replaced, what stands there is another one's.
    segment: u64,
    /// The number of the last record passed: what is written anew is not passed a second time.
    last_seq: u64,
}

impl Cursor {
    /// Behind all that is visible.
    fn at_end(shared: &Shared) -> Cursor {
        let reading = shared.follower.reading();
        let (at, last_seq) = shared.index.shown();
        let covering = reading.manifest.segments[covering(&reading.manifest, at)];
        // In a compacted one a position says nothing: it is begun with, and passed by the numbers.
        Cursor { at, segment: if covering.compacted { 0 } else { covering.number }, last_seq }
    }

    /// Goes on to the first visible record for which `look`, given its number, answers something.
    /// Errors leave it before the record that they are about.
    fn find<T>(&mut self, moment: &Moment, mut look: impl FnMut(u64, &Record<'_>) -> Result<Option<T>>) -> Result<Option<T>> {
        let Moment { visible, manifest, segments } = moment;
        let here = manifest.segments.iter().position(|listed| listed.number == self.segment);
        let from = here.unwrap_or_else(|| covering(manifest, self.at));
        for listed in &manifest.segments[from..] {
            let first = listed.base + u64::from(listed.first_frame);
            if listed.number != self.segment {
                if first > *visible {
                    break;
                }
                // From its beginning: the numbers tell what of it was passed elsewhere.
                (self.segment, self.at) = (listed.number, first);
            }
            self.at = self.at.max(first);
            let whole = if listed.end == 0 { u64::MAX } else { listed.base + listed.end };
            let end = whole.min(*visible);
            let Some(segment) = u32::try_from(listed.number).ok().and_then(|number| segments.get(&number)) else { continue };
            while self.at < end {
                let offset = self.at - listed.base;
                let frame = segment.frame_head(offset, end - listed.base)?;
                let mut found = None;
                if frame.head.seq > self.last_seq {
                    let record = Record::decode(&frame.record).map_err(|flaw| segment.damaged(offset, flaw))?;
                    found = look(frame.head.seq, &record)?;
                    self.last_seq = frame.head.seq;
                }
                self.at += frame.head.frame_len();
                if found.is_some() {
                    return Ok(found);
                }
            }
            if self.at < whole {
                // The rest of it is not visible at this moment.
                break;
            }
        }
        Ok(None)
    }
}

/// The listed segment in which a position stands, or behind which it would.
fn covering(manifest: &Manifest, position: u64) -> usize {
    manifest.segments.partition_point(|listed| listed.base <= position).saturating_sub(1)
}

/// What compaction has overtaken of a watch: a delta that the watch has not come to may be gone, and its
/// checkpoint stand further on, promoted. It is told where the delta was.
#[derive(Default)]
struct Overtaken {
    /// The compactions that are known.
    compactions: u64,
    /// The checkpoints that are promoted ahead and were not passed as deltas, with their threads.
    promoted: BTreeMap<u64, Box<str>>,
    /// What was found and comes behind one of them.
    held: Option<Found>,
}

/// A put, by its record's number.
type Found = (u64, CheckpointInfo);

impl Overtaken {
    /// Looks ahead, if anything was compacted since the last look.
    fn look(&mut self, moment: &Moment, cursor: Cursor) -> Result<()> {
        if moment.manifest.compactions == self.compactions {
            return Ok(());
        }
        let (mut ahead, promoted) = (cursor, &mut self.promoted);
        // What compaction knew is visible, whether this process has shown it by then or not.
        let known = Moment { visible: moment.visible.max(moment.manifest.compacted_at), ..moment.clone() };
        ahead.find(&known, |_, record| {
            if let Record::Promote(put) = record
                && put.place > cursor.last_seq
            {
                promoted.insert(put.place, put.thread.into());
            }
            Ok(None::<()>)
        })?;
        self.compactions = moment.manifest.compactions;
        Ok(())
    }

    /// Of what was found and what is promoted ahead what comes first; the other is kept.
    fn first(&mut self, found: Option<Found>) -> First {
        match self.promoted.first_key_value() {
            Some((place, _)) if found.as_ref().is_none_or(|(seq, _)| place < seq) => {
                self.held = found;
                self.promoted.pop_first().map_or(First::Found(None), |(place, thread)| First::Promoted(place, thread))
            }
            _ => First::Found(found.map(|(_, info)| info)),
        }
    }
}

enum First {
    Found(Option<CheckpointInfo>),
    Promoted(u64, Box<str>),
}

/// The deletes between a watch and the visible end, read only when it lags behind a trim.
#[derive(Default)]
struct Ahead {
    /// How far they are read.
    cursor: Option<Cursor>,
    /// Each with its record's number; of a whole thread, or of the checkpoint at a place.
    deletes: HashMap<Box<str>, Vec<(u64, Option<u64>)>>,
}

impl Ahead {
    /// Forgets them once they are passed.
    fn forget_before(&mut self, watch: Cursor) {
        if self.cursor.is_some_and(|cursor| cursor.last_seq <= watch.last_seq) {
            *self = Ahead::default();
        }
    }

    /// Whether a put, whose record has the number `seq`, is deleted later. Reads on from `begun`, or
    /// from where it was.
    fn deletes(&mut self, shared: &Shared, begun: Cursor, seq: u64, put: &Put<'_>) -> Result<bool> {
        let Ahead { cursor, deletes } = self;
        cursor.get_or_insert(begun).find(&Moment::now(shared), |seq, record| {
            let place = match record {
                Record::DeleteThread { .. } => None,
                Record::DeleteCheckpoint { place, .. } => Some(*place),
                _ => return Ok(None),
            };
            deletes.entry(record.thread().into()).or_default().push((seq, place));
            Ok(None::<()>)
        })?;
        let later = |&(delete, place): &(u64, Option<u64>)| delete > seq && place.is_none_or(|place| place == put.place);
        Ok(deletes.get(put.thread).is_some_and(|deletes| deletes.iter().any(later)))
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("thread", &self.thread).field("at", &self.cursor.at).finish_non_exhaustive()
    }
}

impl Iterator for Watch {
    type Item = Result<CheckpointInfo>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.failed {
            match self.wait(Duration::MAX) {
                Ok(None) => {}
                Ok(Some(info)) => return Some(Ok(info)),
                Err(error) => {
                    self.failed = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}
