//! Searching: the threads' entries, newest first, each held against a search.
//!
//! One moment's views and segments, without a lock. Of metadata the mapped record is read and no state; a
//! state only where text is sought, as a history reads it.

use std::sync::Arc;

use arc_swap::Guard;

use super::Shared;
use super::read;
use super::states::States;
use super::view::View;
use crate::checkpoint::CheckpointInfo;
use crate::checkpointer::Items;
use crate::error::Result;
use crate::finding::{NewestFirst, Row, Search};
use crate::query::{FindQuery, ThreadQuery};

impl Row for Arc<View> {
    fn seq(&self, at: usize) -> Option<u64> {
        self.entry(at).map(|entry| entry.place)
    }

    fn len(&self) -> usize {
        View::len(self)
    }
}

impl Shared {
    /// What a query finds, each checkpoint read when the iterator reaches it.
    pub(super) fn find(&self, query: &FindQuery) -> Result<Items<CheckpointInfo>> {
        let search = Search::new(query)?;
        self.at_home()?;
        self.refresh()?;
        let (views, segments) = self.at_one_moment(|| match &query.thread {
            Some(thread) => Ok(self.view(thread)?.into_iter().collect()),
            None => Ok(self.index.list(&ThreadQuery::default())),
        })?;
        let (segments, heads, mut chain) = (Guard::into_inner(segments), self.heads.clone(), None);
        let found = search.among(NewestFirst::of(views), move |search, (view, at): (Arc<View>, usize)| {
            let Some(entry) = view.entry(at) else { return Ok(None) };
            let fitting = read::record(&segments, &view, entry, |put| {
                let metadata = if put.metadata.is_empty() { "{}" } else { put.metadata };
                search.fits_metadata(metadata).then(|| read::describe(put, &view)).transpose()
            })?;
            if !search.reads_states() {
                return Ok(fitting);
            }
            let Some(info) = fitting else { return Ok(None) };
            let state = States { segments: &segments, heads: &heads }.older(&view, entry, &mut chain)?.state;
            Ok(search.fits_state(&info.tag, &state).then_some(info))
        });
        Ok(Box::new(found))
    }
}
