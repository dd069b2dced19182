//! From records to views: what each record does to its thread, live and at replay alike.

use std::collections::HashMap;
use std::sync::Arc;

use super::examine;
use super::ids::IdKey;
use super::index::{Change, Index};
use super::scan::FrameAt;
use super::view::{Entry, Location, View};
use crate::error::{Error, ErrorKind, Result};
use crate::format::manifest::Manifest;
use crate::format::record::Record;

/// The thread after a record; `None` when it has ended or never was.
pub(crate) fn apply(current: Option<&View>, record: &Record<'_>, at: Location) -> Option<View> {
    let next = match record {
        Record::Put(put) => {
            let entry = Entry { place: put.place, id: IdKey::of_record(&put.id), at, state_len: put.state_len };
            match current {
                Some(view) => view.put(entry, put.floor),
                None => View::empty(put.thread.into()).put(entry, put.floor),
            }
        }
        Record::DeleteThread { .. } => return None,
        Record::DeleteCheckpoint { place, .. } => current?.without(*place),
        Record::Trim { floor, .. } => current?.above(*floor),
        Record::Keep { keep, .. } => current?.keeping(*keep),
    };
    (next.len() > 0).then_some(next)
}

/// The threads as far as the log has been read.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    views: HashMap<Arc<str>, View>,
}

impl Replay {
    /// Takes in the next record of the log.
    pub fn take(&mut self, record: &Record<'_>, at: Location) {
        let thread = record.thread();
        match apply(self.views.get(thread), record, at) {
            Some(next) => match self.views.get_mut(thread) {
                Some(view) => *view = next,
                None => {
                    self.views.insert(next.thread().clone(), next);
                }
            },
            None => {
                self.views.remove(thread);
            }
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

    /// The index of what was read.
    pub fn into_index(self) -> Index {
        let index = Index::default();
        for (thread, view) in self.views {
            index.show_at_once(&[Change { thread, view: Some(Arc::new(view)) }]);
        }
        index
    }
}
