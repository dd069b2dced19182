//! What becomes of each checkpoint of a thread that is taken elsewhere, decided from ids alone. Pure.
//!
//! A checkpoint can only be added at the end of its thread, so a thread that is there already is
//! extended only if the source tells the same story: all its ids, in the same order.

use std::collections::{HashMap, HashSet};

use crate::checkpoint::CheckpointId;

/// What becomes of a checkpoint that is to be taken into a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is put.
    Take,
    /// Its id is there already.
    Present,
    /// Newer ones fill what the thread keeps, or it would have to go in front of what is there.
    TooOld,
    /// What is there already did not come from this source.
    Diverged,
}

/// The fates of a source's rows of one thread. `there` are the ids the thread has, `rows` those of the source
/// (None: one that will be given a fresh id), both oldest first; `keep` is how many the thread keeps.
///
/// For an importer of one's own: so do [`copy`](crate::copy) and the imports decide. Cost: linear.
pub fn fates(there: &[CheckpointId], rows: &[Option<CheckpointId>], keep: Option<u64>) -> Vec<Fate> {
    let present: HashSet<&CheckpointId> = there.iter().collect();
    let mut first_at = HashMap::new();
    let mut fates: Vec<Fate> = rows
        .iter()
        .enumerate()
        .map(|(at, id)| match id {
            Some(id) if *first_at.entry(id).or_insert(at) != at || present.contains(id) => Fate::Present,
            _ => Fate::Take,
        })
        .collect();
    match last_common(there, &first_at) {
        Some(begin) => mark(&mut fates[..begin], Fate::TooOld),
        None => mark(&mut fates, Fate::Diverged),
    }
    let new: Vec<usize> = (0..fates.len()).filter(|&at| fates[at] == Fate::Take).collect();
    let room = keep.and_then(|keep| usize::try_from(keep).ok()).unwrap_or(usize::MAX);
    for &at in &new[..new.len().saturating_sub(room)] {
        fates[at] = Fate::TooOld;
    }
    fates
}

/// Whether a thread's ids are all among a source's, in the same order.
pub(super) fn is_same_story(there: &[CheckpointId], ids: &[CheckpointId]) -> bool {
    let mut at = HashMap::new();
    ids.iter().enumerate().for_each(|(index, id)| _ = at.entry(id).or_insert(index));
    last_common(there, &at).is_some()
}

/// Where the source goes on behind the thread; None unless it has all its ids, in order.
fn last_common(there: &[CheckpointId], first_at: &HashMap<&CheckpointId, usize>) -> Option<usize> {
    let mut end = 0;
    for id in there {
        let at = *first_at.get(id)?;
        if at < end {
            return None;
        }
        end = at + 1;
    }
    Some(end)
}

fn mark(fates: &mut [Fate], instead: Fate) {
    fates.iter_mut().filter(|fate| **fate == Fate::Take).for_each(|fate| *fate = instead);
}

#[cfg(test)]
mod tests {
    use super::*;
    use Fate::*;

    fn ids(text: &str) -> Vec<CheckpointId> {
        text.split_whitespace().map(|id| CheckpointId::new(id).unwrap()).collect()
    }

    /// `-` is a row without an id.
    fn of(there: &str, rows: &str, keep: Option<u64>) -> Vec<Fate> {
        let rows: Vec<_> = ids(rows).into_iter().map(|id| (id.as_str() != "-").then_some(id)).collect();
        fates(&ids(there), &rows, keep)
    }

    #[test]
    fn a_new_thread_takes_the_newest_that_it_keeps() {
        assert_eq!(of("", "a b c", None), [Take, Take, Take]);
        assert_eq!(of("", "a b c", Some(2)), [TooOld, Take, Take]);
        assert_eq!(of("", "a b a - -", Some(3)), [TooOld, Take, Present, Take, Take]);
    }

    #[test]
    fn a_second_time_adds_nothing() {
        assert_eq!(of("a b c", "a b c", None), [Present, Present, Present]);
        assert_eq!(of("b c", "a b c", Some(2)), [TooOld, Present, Present]);
        assert_eq!(of("a b c mine", "a b c", None), [Present, Present, Present]);
        assert_eq!(of("x y", "- -", None), [Diverged, Diverged]);
    }

    #[test]
    fn a_thread_is_extended_only_at_its_end_and_by_its_own_story() {
        assert_eq!(of("a b", "a b c d", None), [Present, Present, Take, Take]);
        assert_eq!(of("a c", "a b c d", None), [Present, TooOld, Present, Take]);
        assert_eq!(of("a b", "a b c d e", Some(2)), [Present, Present, TooOld, Take, Take]);
        assert_eq!(of("a mine", "a b", None), [Present, Diverged]);
        assert_eq!(of("b a", "a b c", None), [Present, Present, Diverged]);
    }
}
