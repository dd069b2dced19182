//! From records to views: what each record does to its thread, live and at replay alike.

use std::collections::HashMap;
use std::sync::Arc;

use super::attached::Attached;
use super::examine::{self, Take};
use super::ids::IdKey;
use super::location::Location;
use super::scan::FrameAt;
use super::view::{Entry, StateLen, View};
use crate::error::{Error, ErrorKind, Result};
use crate::format::hint::{Group, Item};
use crate::format::manifest::Manifest;
use crate::format::record::{Put, Record};

/// The thread after a record; `None` when it has ended or never was. It may be without checkpoints, where
/// something is attached to one that is yet to come.
pub(crate) fn apply(current: Option<&View>, record: &Record<'_>, at: Location) -> Option<View> {
    after(current, record, at).filter(|next| !next.is_nothing())
}

/// The same for a reading that may not meet all that was put: a thread may be without checkpoints
/// for a while, for those that are gone by now need not be in the log any more. Its floor and limit
/// count all the same; only a delete of the whole thread ends them.
fn after(current: Option<&View>, record: &Record<'_>, at: Location) -> Option<View> {
    let unmet = || View::empty(record.thread().into());
    Some(match (record, current) {
        (Record::Put(put), Some(view)) => view.put(entry(put, at), put.floor),
        (Record::Put(put), None) => unmet().put(entry(put, at), put.floor),
        (Record::Promote(put), Some(view)) => view.promoted(entry(put, at), put.floor),
        (Record::Promote(put), None) => unmet().promoted(entry(put, at), put.floor),
        (Record::DeleteThread { .. }, _) => return None,
        (Record::DeleteCheckpoint { place, .. }, _) => current?.without(*place),
        (Record::Trim { floor, .. }, Some(view)) => view.above(*floor),
        (Record::Trim { floor, .. }, None) => unmet().above(*floor),
        (Record::Keep { keep, .. }, Some(view)) => view.keeping(*keep),
        (Record::Keep { keep, .. }, None) => unmet().keeping(*keep),
        (Record::Attach(attach), Some(view)) => view.attach(Attached::of_record(attach, at)),
        (Record::Attach(attach), None) => unmet().attach(Attached::of_record(attach, at)),
        (Record::Bind { id, number, place, .. }, _) => current?.bound(&IdKey::of_record(id), *number, *place),
        (Record::Detach { id, number, .. }, _) => current?.detached(&IdKey::of_record(id), *number),
    })
}

fn entry(put: &Put<'_>, at: Location) -> Entry {
    let state_len = StateLen::new(put.state_len, put.coding.is_delta());
    Entry { place: put.place, id: IdKey::of_record(&put.id), at, state_len }
}

/// Most of an opening is this: with both ways in one expression it takes twice as long.
#[inline(always)]
fn hinted_entry(item: &Item<'_>, segment: u32) -> Entry {
    let (place, at, state_len) = (item.place(), hinted_location(item, segment), StateLen::new(item.state_len(), item.is_delta()));
    match item.uuid() {
        Some(words) => Entry { place, id: IdKey::Uuid(words), at, state_len },
        None => Entry { place, id: IdKey::of_record(&item.id()), at, state_len },
    }
}

fn hinted_location(item: &Item<'_>, segment: u32) -> Location {
    Location { segment, offset8: item.offset8(), length8: item.length8() }
}

/// So many puts of a thread are taken in together.
const RUN_MAX: usize = 1024;

/// The threads as far as the log has been read.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    threads: HashMap<Arc<str>, Reading>,
}

/// A thread, and what its view does not hold yet: puts behind it, or places deleted from it.
#[derive(Debug)]
struct Reading {
    view: View,
    run: Vec<Entry>,
    floor: u64,
    deleted: Vec<u64>,
}

impl Reading {
    fn new(view: View) -> Reading {
        Reading { view, run: Vec::new(), floor: 0, deleted: Vec::new() }
    }

    /// Takes a put into the run, if it only adds to the thread's end.
    fn extend(&mut self, put: &Put<'_>, at: Location) -> bool {
        let extends = self.run.last().or(self.view.head()).is_none_or(|last| last.place < put.place);
        if extends {
            self.run.push(entry(put, at));
            self.floor = self.floor.max(put.floor);
            if self.run.len() == RUN_MAX {
                self.settle();
            }
        }
        extends
    }

    /// Takes a thread's next records in, if they are puts that only add to its end.
    fn extend_by(&mut self, segment: u32, group: &Group<'_>) -> bool {
        let mut last = self.run.last().or(self.view.head()).map_or(0, |last| last.place);
        let extends = group.items().all(|item| item.is_put() && std::mem::replace(&mut last, item.place()) < item.place());
        if extends {
            self.settle();
            self.floor = group.items().map(|item| item.floor()).fold(self.floor, u64::max);
            // What is trimmed by the end of them need not be made, but what the oldest kept needs.
            let mut trimmed = group.items().take_while(|item| item.place() < self.floor).count();
            while trimmed > 0 && (trimmed == group.len() || group.item(trimmed).is_delta()) {
                trimmed -= 1;
            }
            let entry = |at: usize| hinted_entry(&group.item(trimmed + at), segment);
            self.view = self.view.put_run(group.len() - trimmed, entry, self.floor);
        }
        extends
    }

    fn settle(&mut self) {
        if !self.run.is_empty() {
            self.view = self.view.put_run(self.run.len(), |at| self.run[at].clone(), self.floor);
            self.run.clear();
        }
        if !self.deleted.is_empty() {
            self.view = self.view.without_all(&std::mem::take(&mut self.deleted));
        }
    }
}

impl Take for Replay {
    fn record(&mut self, record: &Record<'_>, at: Location) {
        self.take(record, at);
    }

    fn group(&mut self, segment: u32, group: &Group<'_>) {
        if !self.threads.contains_key(group.thread) {
            let thread: Arc<str> = group.thread.into();
            self.threads.insert(thread.clone(), Reading::new(View::empty(thread)));
        }
        if self.threads.get_mut(group.thread).is_some_and(|reading| reading.extend_by(segment, group)) {
            return;
        }
        for item in group.items() {
            self.take(&item.record(group.thread), hinted_location(&item, segment));
        }
    }
}

impl Replay {
    /// Takes in the next record of the log.
    pub fn take(&mut self, record: &Record<'_>, at: Location) {
        let thread = record.thread();
        let Some(reading) = self.threads.get_mut(thread) else {
            if let Some(view) = after(None, record, at) {
                self.threads.insert(view.thread().clone(), Reading::new(view));
            }
            return;
        };
        if let Record::DeleteCheckpoint { place, .. } = record {
            if !reading.run.is_empty() {
                reading.settle();
            }
            return reading.deleted.push(*place);
        }
        if !reading.deleted.is_empty() {
            reading.settle();
        }
        if let Record::Put(put) = record
            && reading.extend(put, at)
        {
            return;
        }
        reading.settle();
        match after(Some(&reading.view), record, at) {
            Some(next) => reading.view = next,
            None => drop(self.threads.remove(thread)),
        }
    }

    /// Takes in frames of the active segment; each is sound.
    pub fn take_tail(&mut self, manifest: &Manifest, frames: &[FrameAt]) -> Result<()> {
        let Some(active) = manifest.segments.last() else { return Ok(()) };
        for frame in frames {
            let record = Record::decode(&frame.record).map_err(|flaw| {
                Error::new(ErrorKind::Unsupported, format!("a sound record that cannot be read: {flaw}")).with_source(flaw)
            })?;
            self.take(&record, examine::location(active, frame)?);
        }
        Ok(())
    }

    /// The threads as they were read.
    pub fn into_threads(self) -> HashMap<Arc<str>, Arc<View>> {
        let settled = self.threads.into_iter().map(|(thread, mut reading)| {
            reading.settle();
            (thread, Arc::new(reading.view))
        });
        settled.filter(|(_, view)| !view.is_nothing()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::record::{Coding, Followed, Id};

    #[test]
    fn a_thread_that_shows_nothing_any_more_is_none() {
        let at = Location { segment: 1, offset8: 9, length8: 2 };
        let put = |place| {
            let (id, parent, coding) = (Id::Uuid([place as u8; 16]), Followed::Nothing, Coding::Whole);
            Record::Put(Put { thread: "t", id, place, floor: 0, saved_at: 0, parent, tag: "", metadata: "", state_len: 3, coding })
        };
        let one = apply(None, &put(1), at).unwrap();
        assert_eq!(one.len(), 1);
        let two = apply(Some(&one), &put(2), at).unwrap();
        let thread = "t";
        assert_eq!(apply(Some(&two), &Record::DeleteCheckpoint { thread, place: 2 }, at), Some(one.clone()));
        for ends in [Record::DeleteCheckpoint { thread, place: 1 }, Record::DeleteThread { thread }] {
            assert_eq!(apply(Some(&one), &ends, at), None, "{ends:?}");
            assert_eq!(apply(None, &ends, at), None, "{ends:?}");
        }
        // A floor and a limit stay until the thread is deleted.
        for stays in [Record::Trim { thread, floor: 2 }, Record::Keep { thread, keep: Some(3) }] {
            let left = apply(None, &stays, at).unwrap();
            assert_eq!(left.len(), 0, "{stays:?}");
            assert_eq!(apply(Some(&left), &Record::DeleteThread { thread }, at), None, "{stays:?}");
        }
        assert_eq!(apply(Some(&one), &Record::Trim { thread, floor: 2 }, at).unwrap().len(), 0);
    }
}
