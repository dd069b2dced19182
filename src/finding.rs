//! A search through the checkpoints of a place: what is meant, and the newest first.
//!
//! A place hands over its checkpoints of one moment in falling order of their seqs ([`NewestFirst`] makes
//! one such row of many threads) and says how each is looked at; conditions, limit and end stand here.
//! Metadata is asked before the state, and a state only where text is sought. Knows no place.

mod members;
mod text;

use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use self::members::Wanted;
use self::text::Texts;
use crate::checkpoint::{CheckpointInfo, TypeTag, check_thread};
use crate::error::Result;
use crate::query::{FindQuery, Progress};

/// What is searched for.
pub(crate) struct Search {
    members: Vec<Wanted>,
    texts: Texts,
    limit: Option<usize>,
    progress: Progress,
}

impl Search {
    /// What a query asks for; a backend makes it first. Errors: `InvalidInput`.
    pub fn new(query: &FindQuery) -> Result<Self> {
        query.thread.as_deref().map_or(Ok(()), check_thread)?;
        let values = query.metadata.iter().map(|(path, value)| (path, value.to_string()));
        let texts = query.metadata_json.iter().map(|(path, json)| (path, json.clone()));
        let members = values.chain(texts).map(|(path, json)| Wanted::new(path, json)).collect::<Result<_>>()?;
        let texts = Texts::new(query.text.as_deref(), query.substring.as_deref())?;
        Ok(Search { members, texts, limit: query.limit, progress: query.progress.clone() })
    }

    /// Whether metadata is as it is meant to be.
    pub fn fits_metadata(&self, metadata: &str) -> bool {
        self.members.iter().all(|member| member.is_in(metadata))
    }

    /// Whether states have to be read.
    pub fn reads_states(&self) -> bool {
        !self.texts.is_empty()
    }

    /// Whether a state is as it is meant to be.
    pub fn fits_state(&mut self, tag: &TypeTag, state: &[u8]) -> bool {
        self.texts.are_in(tag, state)
    }

    /// What of the candidates, newest first, `look` finds to fit; it ends with the limit, or after an error.
    pub fn among<C, E>(
        mut self,
        mut candidates: impl Iterator<Item = C>,
        mut look: impl FnMut(&mut Search, C) -> std::result::Result<Option<CheckpointInfo>, E>,
    ) -> impl Iterator<Item = std::result::Result<CheckpointInfo, E>> {
        let mut left = self.limit.unwrap_or(usize::MAX);
        std::iter::from_fn(move || {
            while left > 0 {
                let looked = look(&mut self, candidates.next()?);
                self.progress.tell(1);
                left = if looked.is_err() { 0 } else { left - usize::from(matches!(looked, Ok(Some(_)))) };
                if let Some(found) = looked.transpose() {
                    return Some(found);
                }
            }
            None
        })
    }
}

/// A thread as a row of checkpoints, oldest first.
pub(crate) trait Row: Clone {
    /// The number of the checkpoint that stands there; `None` behind the last.
    fn seq(&self, at: usize) -> Option<u64>;
    /// How many there are.
    fn len(&self) -> usize;
}

/// The checkpoints of many threads, newest first; holds one number for each thread.
pub(crate) struct NewestFirst<R> {
    rows: Vec<Option<R>>,
    /// For each row that has one left: its next checkpoint's seq, the row, and where in it that stands.
    next: BinaryHeap<(u64, usize, usize)>,
}

impl<R: Row> NewestFirst<R> {
    pub fn of(rows: impl IntoIterator<Item = R>) -> Self {
        let rows: Vec<Option<R>> = rows.into_iter().map(Some).collect();
        let last = |(row, its): (usize, &Option<R>)| {
            let at = its.as_ref()?.len().checked_sub(1)?;
            Some((its.as_ref()?.seq(at)?, row, at))
        };
        NewestFirst { next: rows.iter().enumerate().filter_map(last).collect(), rows }
    }
}

impl<R: Row> Iterator for NewestFirst<R> {
    type Item = (R, usize);

    fn next(&mut self) -> Option<(R, usize)> {
        let mut newest = self.next.peek_mut()?;
        let (_, row, at) = *newest;
        let its = self.rows.get_mut(row)?;
        let before = at.checked_sub(1).and_then(|before| Some((its.as_ref()?.seq(before)?, row, before)));
        match before {
            Some(before) => {
                *newest = before;
                its.clone().map(|its| (its, at))
            }
            None => {
                PeekMut::pop(newest);
                its.take().map(|its| (its, at))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl Row for Vec<u64> {
        fn seq(&self, at: usize) -> Option<u64> {
            self.get(at).copied()
        }
        fn len(&self) -> usize {
            Vec::len(self)
        }
    }

    proptest! {
        #[test]
        fn rows_are_made_one(owners in prop::collection::vec(0..5_usize, 0..100)) {
            let mut rows = vec![Vec::new(); 5];
            for (seq, owner) in owners.iter().enumerate() {
                rows[*owner].push(seq as u64);
            }
            let seqs: Vec<u64> = NewestFirst::of(rows).map(|(row, at)| row[at]).collect();
            prop_assert!(seqs.into_iter().eq((0..owners.len() as u64).rev()));
        }
    }
}
