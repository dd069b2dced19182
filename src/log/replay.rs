//! From records to views: what each record does to its thread, live and at replay alike.

use std::collections::HashMap;
use std::sync::Arc;

use super::examine;
use super::ids::IdKey;
use super::scan::FrameAt;
use super::view::{Entry, Location, View};
use crate::error::{Error, ErrorKind, Result};
use crate::format::manifest::Manifest;
use crate::format::record::{Put, Record};

/// The thread after a record; `None` when it has ended or never was.
pub(crate) fn apply(current: Option<&View>, record: &Record<'_>, at: Location) -> Option<View> {
    after(current, record, at).filter(|next| next.len() > 0)
}

/// The same for a reading that may not meet all that was put: a thread may be without checkpoints
/// for a while, for those that are gone by now need not be in the log any more. Its floor and limit
/// count all the same; only a delete of the whole thread ends them.
fn after(current: Option<&View>, record: &Record<'_>, at: Location) -> Option<View> {
    let unmet = || View::empty(record.thread().into());
    Some(match (record, current) {
        (Record::Put(put), Some(view)) => view.put(entry(put, at), put.floor),
        (Record::Put(put), None) => unmet().put(entry(put, at), put.floor),
        (Record::DeleteThread { .. }, _) => return None,
        (Record::DeleteCheckpoint { place, .. }, _) => current?.without(*place),
        (Record::Trim { floor, .. }, Some(view)) => view.above(*floor),
        (Record::Trim { floor, .. }, None) => unmet().above(*floor),
        (Record::Keep { keep, .. }, Some(view)) => view.keeping(*keep),
        (Record::Keep { keep, .. }, None) => unmet().keeping(*keep),
    })
}

fn entry(put: &Put<'_>, at: Location) -> Entry {
    Entry { place: put.place, id: IdKey::of_record(&put.id), at, state_len: put.state_len }
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

    fn settle(&mut self) {
        if !self.run.is_empty() {
            self.view = self.view.put_run(std::mem::take(&mut self.run), self.floor);
        }
        if !self.deleted.is_empty() {
            self.view = self.view.without_all(&std::mem::take(&mut self.deleted));
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
        settled.filter(|(_, view)| view.len() > 0).collect()
    }
}
