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
    let next = match record {
        Record::Put(put) => match current {
            Some(view) => view.put(entry(put, at), put.floor),
            None => View::empty(put.thread.into()).put(entry(put, at), put.floor),
        },
        Record::DeleteThread { .. } => return None,
        Record::DeleteCheckpoint { place, .. } => current?.without(*place),
        Record::Trim { floor, .. } => current?.above(*floor),
        Record::Keep { keep, .. } => current?.keeping(*keep),
    };
    (next.len() > 0).then_some(next)
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

/// A thread, and puts behind it that its view does not hold yet.
#[derive(Debug)]
struct Reading {
    view: View,
    run: Vec<Entry>,
    floor: u64,
}

impl Reading {
    fn new(view: View) -> Reading {
        Reading { view, run: Vec::new(), floor: 0 }
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
    }
}

impl Replay {
    /// Takes in the next record of the log.
    pub fn take(&mut self, record: &Record<'_>, at: Location) {
        let thread = record.thread();
        let reading = match (self.threads.get_mut(thread), record) {
            (Some(reading), _) => reading,
            (None, Record::Put(put)) => {
                let view = View::empty(put.thread.into());
                self.threads.entry(view.thread().clone()).or_insert(Reading::new(view))
            }
            (None, _) => return,
        };
        if let Record::Put(put) = record
            && reading.extend(put, at)
        {
            return;
        }
        reading.settle();
        match apply(Some(&reading.view), record, at) {
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
