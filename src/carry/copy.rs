//! Copying from any place to any other: a place as a source.

use super::{Carried, Followed, Row, Source, Tally, Tell, carry};
use crate::checkpoint::{Attachment, Checkpoint, CheckpointId, StateBytes};
use crate::checkpointer::Checkpointer;
use crate::error::{Error, ErrorKind, Result};
use crate::query::{HistoryQuery, ThreadQuery};

/// Copies all threads from one place to another: ids, order, parents, metadata, times, tags, attachments,
/// every byte. `tell` hears how far it is, and by name whatever is left behind.
///
/// Nothing that `dest` has is changed. An id that its thread has there is skipped; a thread that is there is
/// extended at its end, and only where all its ids stand in `source` in the same order, else it is left behind.
/// Of each thread the newest are taken that `dest` keeps. So it can be done again, adding what is new, and goes
/// on where it was ended. A `dest` without a thread is first set to keep as many as `source` does, and threads
/// with a number of their own take it along, where both places can tell and set such numbers.
///
/// A thread goes in one batch where it fits into 8 MiB and 4,096 checkpoints (one with its own number: behind its
/// first checkpoint), else in several, oldest first; all are synced as `dest` does it. A full batch is committed by
/// a thread of its own (the caller's, where the system has none) while the next one is read; never two at once.
/// Afterwards all that was put is read back from `dest` and compared; times may differ by less than a millisecond,
/// for a place that keeps them less finely. A parent that is not there (it was trimmed, as a rule) is left out; so
/// is what is attached to checkpoints that never came, which no place lists. Of a `source` that is written to
/// meanwhile each thread is as it was when its turn came. Memory: three batches and a mebibyte, and about 150 bytes
/// for each checkpoint of a thread, and of those that wait to be read back, some 16,000.
///
/// Errors: `InvalidInput` for one handle as both places; `Conflict` where another writer of `dest` is in the way
/// again and again, or changed what was just copied; `Corrupt` where it is read back otherwise, or cannot be read
/// in `source`; and what reading and writing answer. What was copied before an error stays. A checkpoint of
/// `source` whose state is damaged is told, and the rest is copied before `Corrupt` is answered; done again, it is
/// only counted as too old, for newer ones are there. What `dest` refuses for what it is (`InvalidInput`,
/// `TooLarge`, `Unsupported`) is no error: it is told, counted, and the rest is copied.
///
/// ```
/// use taffrail::prelude::*;
/// use taffrail::{MemoryCheckpointer, carry::Event};
/// # let scratch = tempfile::tempdir().unwrap();
/// # let dir = scratch.path().join("runs");
/// let source = MemoryCheckpointer::new();
/// source.put("trip", &vec!["plan"])?;
/// let dest = Store::open(&dir)?;
/// let mut left = Vec::new();
/// let copied = taffrail::copy(&source, &dest, &mut |event| {
///     if let Event::Left(what) = event {
///         left.push(what.error.to_string());
///     }
/// })?;
/// assert_eq!((copied.put, left.len()), (1, 0));
/// assert_eq!(dest.get::<Vec<String>>("trip")?.unwrap(), ["plan"]);
/// # Ok::<(), taffrail::Error>(())
/// ```
pub fn copy(source: &dyn Checkpointer, dest: &dyn Checkpointer, tell: Tell<'_>) -> Result<Carried> {
    if std::ptr::addr_eq(source, dest) && size_of_val(source) > 0 {
        return Err(Error::invalid("a place cannot be copied to itself"));
    }
    let mut tally = Tally { carried: Carried::default(), tell };
    let mut source = Place { place: source, threads: Vec::new(), steps: Vec::new(), ahead: Vec::new(), asked: 0, alone: 0, damaged: 0 };
    carry(&mut source, dest, &mut tally)?;
    match source.damaged {
        0 => Ok(tally.carried),
        damaged => {
            let whole = tally.carried.put + tally.carried.present;
            let message = format!("{damaged} of the source's checkpoints are damaged and stay behind; {whole} are there");
            Err(Error::new(ErrorKind::Corrupt, message))
        }
    }
}

/// So many checkpoints are read at once, and so many bytes of states.
const AHEAD_MAX: usize = 256;
const AHEAD_BYTES_MAX: u64 = 1024 * 1024;

/// A place to copy from.
struct Place<'a> {
    place: &'a dyn Checkpointer,
    threads: Vec<String>,
    /// The ids and sizes of the thread that was listed last, oldest first.
    steps: Vec<(CheckpointId, u64)>,
    /// Of these the ones that were read ahead, newest first.
    ahead: Vec<Checkpoint<StateBytes>>,
    /// Up to where in the steps they were read: who asks goes on from there, as a rule.
    asked: usize,
    /// Up to where they cannot be read together.
    alone: usize,
    /// How many cannot be read.
    damaged: u64,
}

impl Place<'_> {
    /// Reads a checkpoint and those that come next in its thread: one by one each would cost the place a
    /// moment of its own, and a chain of differences. Nothing is read where that cannot be done: then each
    /// answers for itself.
    fn read_ahead(&mut self, thread: &str, id: &CheckpointId) {
        self.ahead.clear();
        let stands = |from: usize| self.steps[from..].iter().position(|(step, _)| step == id).map(|at| from + at);
        let Some(first) = stands(self.asked).or_else(|| stands(0)) else { return };
        if first < self.alone {
            self.asked = first + 1;
            return;
        }
        let mut room = AHEAD_BYTES_MAX;
        let fits = |(_, bytes): &&(CheckpointId, u64)| room.checked_sub(*bytes).map(|left| room = left).is_some();
        let count = self.steps[first..].iter().take(AHEAD_MAX).take_while(fits).count();
        self.asked = first + count;
        if count < 2 {
            return;
        }
        let named = |at: Option<usize>| at.and_then(|at| self.steps.get(at)).map(|(id, _)| id.clone());
        let query = HistoryQuery { after: named(first.checked_sub(1)), before: named(Some(first + count)), limit: Some(count) };
        let read = self.place.history_bytes(thread, &query).and_then(Iterator::collect::<Result<Vec<_>>>);
        match read {
            Ok(read) => self.ahead = read,
            Err(_) => (self.asked, self.alone) = (first + 1, first + count),
        }
    }

    fn take_ahead(&mut self, id: &CheckpointId) -> Option<Checkpoint<StateBytes>> {
        self.ahead.pop_if(|next| next.id == *id)
    }
}

impl Source for Place<'_> {
    fn size(&mut self) -> Result<u64> {
        let mut checkpoints = 0;
        for info in self.place.list_threads(&ThreadQuery::default())? {
            let info = info?;
            checkpoints += info.checkpoints;
            self.threads.push(info.thread);
        }
        Ok(checkpoints)
    }

    fn threads(&mut self, _: &mut Tally<'_>) -> Result<Vec<String>> {
        Ok(std::mem::take(&mut self.threads))
    }

    fn max_history(&mut self, thread: Option<&str>) -> Result<Option<usize>> {
        self.place.max_history(thread)
    }

    fn list(&mut self, thread: &str, _: &mut Tally<'_>) -> Result<Vec<CheckpointId>> {
        (self.ahead, self.asked, self.alone) = (Vec::new(), 0, 0);
        let newest_first = self.place.list(thread, &HistoryQuery::default())?;
        self.steps = newest_first.map(|info| info.map(|info| (info.id, info.bytes))).collect::<Result<_>>()?;
        self.steps.reverse();
        Ok(self.steps.iter().map(|(id, _)| id.clone()).collect())
    }

    fn load(&mut self, thread: &str, id: &CheckpointId, tally: &mut Tally<'_>) -> Result<Option<Row>> {
        let mut ahead = self.take_ahead(id);
        if ahead.is_none() {
            self.read_ahead(thread, id);
            ahead = self.take_ahead(id);
        }
        let found = match ahead.map_or_else(|| self.place.load_bytes(thread, id), |ahead| Ok(Some(ahead))) {
            Ok(Some(found)) => found,
            Ok(None) => {
                tally.carried.gone += 1;
                tally.done(1);
                return Ok(None);
            }
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                self.damaged += 1;
                tally.leave(Some(thread), Some(id.as_str()), &error);
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let parent = found.info.parent.map_or(Followed::Nothing, Followed::Id);
        let (tag, metadata, saved_at) = (found.info.tag, found.info.metadata, Some(found.info.saved_at));
        Ok(Some(Row { tag, state: found.state, metadata, saved_at, parent }))
    }

    fn attachments(&mut self, thread: &str, id: &CheckpointId, _: &mut Tally<'_>) -> Result<Vec<Attachment>> {
        match self.place.attachments(thread, id) {
            Err(error) if error.kind() == ErrorKind::Unsupported => Ok(Vec::new()),
            found => found,
        }
    }

    fn awaited(&mut self, _: &str, _: &mut Tally<'_>) -> Result<Vec<CheckpointId>> {
        Ok(Vec::new())
    }
}
