//! What a run of records does to threads, before anyone sees it: each thread's next view, once.
//!
//! A writer collects what its batch will do, a follower what a batch of another process has done.

use std::collections::HashMap;
use std::sync::Arc;

use super::index::{Change, Index};
use super::replay;
use super::view::{Location, View};
use crate::format::record::Record;

/// Up to so many threads are looked through one by one.
const LOOKED_THROUGH: usize = 8;

/// Changes of threads, in the order in which each was first changed.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    list: Vec<Change>,
    /// Where each thread stands in the list, once they are many.
    places: HashMap<Arc<str>, usize>,
}

impl Changes {
    /// The thread as the next record must see it.
    pub fn current(&self, index: &Index, thread: &str) -> Option<Arc<View>> {
        match self.place(thread) {
            Some(at) => self.list[at].view.clone(),
            None => index.appended(thread),
        }
    }

    /// Notes what a record at `at` does to a thread that stands as `current`.
    pub fn apply(&mut self, current: Option<Arc<View>>, record: &Record<'_>, at: Location) {
        let view = replay::apply(current.as_deref(), record, at).map(Arc::new);
        if let Some(place) = self.place(record.thread()) {
            self.list[place].view = view;
            return;
        }
        let thread: Arc<str> = match current.as_ref().or(view.as_ref()) {
            Some(view) => view.thread().clone(),
            None => record.thread().into(),
        };
        self.list.push(Change { thread, view });
        if self.list.len() > LOOKED_THROUGH {
            let unplaced = self.places.len()..self.list.len();
            self.places.extend(unplaced.map(|at| (self.list[at].thread.clone(), at)));
        }
    }

    /// The changes, for the index.
    pub fn into_list(self) -> Vec<Change> {
        self.list
    }

    fn place(&self, thread: &str) -> Option<usize> {
        if self.places.is_empty() {
            return self.list.iter().position(|change| *change.thread == *thread);
        }
        self.places.get(thread).copied()
    }
}
