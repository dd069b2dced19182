//! What a run of records does to threads, before anyone sees it: each thread's next view, once.
//!
//! A writer collects what its batch will do, a follower what a batch of another process has done.

use std::collections::HashMap;
use std::sync::Arc;

use super::index::{Change, Index};
use super::location::Location;
use super::replay;
use super::view::View;
use crate::format::record::Record;

/// Up to so many threads are looked through one by one.
const LOOKED_THROUGH: usize = 8;

/// Changes of threads, in the order in which each was first changed.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    list: Vec<Change>,
    /// Where each thread stands in the list, once they are many.
    places: HashMap<Arc<str>, usize>,
    /// Places deleted one after the other from the thread that stands there in the list: they are taken
    /// out of its view together, as a copy for each would cost the thread's length every time.
    deleted: Option<(usize, Vec<u64>)>,
}

impl Changes {
    /// The thread as the next record must see it.
    pub fn current(&mut self, index: &Index, thread: &str) -> Option<Arc<View>> {
        self.settle();
        match self.place(thread) {
            Some(at) => self.list[at].view.clone(),
            None => index.appended(thread),
        }
    }

    /// Notes what the next record, at `at`, does to its thread.
    pub fn take(&mut self, index: &Index, record: &Record<'_>, at: Location) {
        if let Record::DeleteCheckpoint { thread, place } = record {
            self.delete(index, thread, *place);
        } else {
            let current = self.current(index, record.thread());
            self.apply(current, record, at);
        }
    }

    /// Notes what a record at `at` does to a thread that stands as `current`.
    pub fn apply(&mut self, current: Option<Arc<View>>, record: &Record<'_>, at: Location) {
        debug_assert!(self.deleted.is_none(), "deletes are settled before their thread is looked at");
        let view = replay::apply(current.as_deref(), record, at).map(Arc::new);
        let thread = current.as_ref().or(view.as_ref()).map(|view| view.thread().clone());
        self.note(record.thread(), thread, view);
    }

    /// Notes that the checkpoint at a place is deleted.
    pub fn delete(&mut self, index: &Index, thread: &str, place: u64) {
        if let Some((at, places)) = &mut self.deleted
            && *self.list[*at].thread == *thread
        {
            places.push(place);
            return;
        }
        let current = self.current(index, thread);
        let at = self.note(thread, current.as_ref().map(|view| view.thread().clone()), current);
        self.deleted = Some((at, vec![place]));
    }

    /// The threads that are changed and there.
    pub fn views(&mut self) -> impl Iterator<Item = &Arc<View>> {
        self.settle();
        self.list.iter().filter_map(|change| change.view.as_ref())
    }

    /// The changes, for the index.
    pub fn into_list(mut self) -> Vec<Change> {
        self.settle();
        self.list
    }

    /// Takes what was deleted out of its thread's view.
    fn settle(&mut self) {
        if let Some((at, places)) = self.deleted.take() {
            let view = &mut self.list[at].view;
            *view = view.take().map(|view| view.without_all(&places)).filter(|view| !view.is_nothing()).map(Arc::new);
        }
    }

    /// Notes a thread's next view; answers where it stands in the list. `shared` is the thread's id
    /// where somebody has it already.
    fn note(&mut self, thread: &str, shared: Option<Arc<str>>, view: Option<Arc<View>>) -> usize {
        if let Some(at) = self.place(thread) {
            self.list[at].view = view;
            return at;
        }
        self.list.push(Change { thread: shared.unwrap_or_else(|| thread.into()), view });
        if self.list.len() > LOOKED_THROUGH {
            let unplaced = self.places.len()..self.list.len();
            self.places.extend(unplaced.map(|at| (self.list[at].thread.clone(), at)));
        }
        self.list.len() - 1
    }

    fn place(&self, thread: &str) -> Option<usize> {
        if self.places.is_empty() {
            return self.list.iter().position(|change| *change.thread == *thread);
        }
        self.places.get(thread).copied()
    }
}
