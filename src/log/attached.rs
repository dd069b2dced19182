//! What is attached to a thread's checkpoints, as the index keeps it: an immutable value, like the view
//! that it is part of.
//!
//! In the order of ids and keys, in chunks that successive values share: a change copies one chunk and
//! the list of them. An attachment goes with the place of its checkpoint, which its record tells; one
//! whose checkpoint is yet to come is told apart by that, and goes by a record of its own alone. So what
//! is attached is a function of the log, whatever compaction has left out of it. DESIGN.md, section 19.

use std::sync::Arc;

use super::ids::IdKey;
use super::location::Location;
use crate::format::record::Attach;

/// The most in one chunk.
const CHUNK_MAX: usize = 64;

/// What the index knows of an attachment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attached {
    /// The checkpoint's id.
    pub id: IdKey,
    /// What it is found by.
    pub key: Arc<str>,
    /// Its number.
    pub number: u64,
    /// The place of its checkpoint; where that is yet to come, what was put up to here is not newer.
    pub place: u64,
    /// Whether its checkpoint is yet to come.
    pub is_awaiting: bool,
    /// Its frame.
    pub at: Location,
}

impl Attached {
    /// What a record at a location attaches.
    pub fn of_record(attach: &Attach<'_>, at: Location) -> Attached {
        let Attach { id, key, number, place, is_awaiting, .. } = *attach;
        Attached { id: IdKey::of_record(&id), key: key.into(), number, place, is_awaiting, at }
    }

    /// The same at the place of its checkpoint, which has come.
    pub fn bound(&self, place: u64) -> Attached {
        Attached { place, is_awaiting: false, ..self.clone() }
    }

    /// Whether a record is the one that it was made of.
    pub fn is_meant(&self, thread: &str, attach: &Attach<'_>) -> bool {
        attach.number == self.number && attach.thread == thread && attach.key == &*self.key && self.id.matches(&attach.id)
    }

    fn name(&self) -> (&IdKey, &str) {
        (&self.id, &self.key)
    }
}

type Chunk = Arc<[Attached]>;

/// All that is attached in a thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attachments {
    /// None is empty.
    chunks: Arc<[Chunk]>,
    len: usize,
    awaiting: usize,
    frame_bytes: u64,
    /// No place of a checkpoint is lower, and no awaiting one's either; unless none has any.
    lowest: [Option<u64>; 2],
}

impl Attachments {
    fn of(chunks: Vec<Chunk>) -> Attachments {
        let mut all = Attachments::default();
        for one in chunks.iter().flat_map(|chunk| &**chunk) {
            all.count(one, 1);
        }
        Attachments { chunks: chunks.into(), ..all }
    }

    fn count(&mut self, one: &Attached, times: isize) {
        self.len = self.len.wrapping_add_signed(times);
        self.frame_bytes = self.frame_bytes.wrapping_add_signed(one.at.length() as i64 * times as i64);
        if one.is_awaiting {
            self.awaiting = self.awaiting.wrapping_add_signed(times);
        }
        if times > 0 {
            let lowest = &mut self.lowest[usize::from(one.is_awaiting)];
            *lowest = Some(lowest.map_or(one.place, |lowest| lowest.min(one.place)));
        }
    }

    /// Whether any may be bound to a place below this one, or await its checkpoint and be older than that.
    pub fn may_be_below(&self, place: u64, awaiting: bool) -> bool {
        self.lowest[usize::from(awaiting)].is_some_and(|lowest| lowest < place)
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether any waits for its checkpoint.
    pub fn has_awaiting(&self) -> bool {
        self.awaiting > 0
    }

    /// The sum of the frames' lengths.
    pub fn frame_bytes(&self) -> u64 {
        self.frame_bytes
    }

    /// In the order of ids and keys.
    pub fn iter(&self) -> impl Iterator<Item = &Attached> {
        self.chunks.iter().flat_map(|chunk| &**chunk)
    }

    /// Those of a checkpoint, in the order of their keys.
    pub fn of_id(&self, id: &IdKey) -> impl Iterator<Item = &Attached> {
        let first = self.chunks.partition_point(|chunk| chunk.last().is_some_and(|last| last.id < *id));
        let from_there = self.chunks[first..].iter().flat_map(|chunk| &**chunk);
        from_there.skip_while(move |one| one.id < *id).take_while(move |one| one.id == *id)
    }

    /// The one of a checkpoint and key.
    pub fn find(&self, id: &IdKey, key: &str) -> Option<&Attached> {
        let chunk = self.chunks.get(self.chunk_of((id, key)))?;
        chunk.binary_search_by(|one| one.name().cmp(&(id, key))).ok().map(|found| &chunk[found])
    }

    /// Where the chunk stands that one of that name is in, or belongs in.
    fn chunk_of(&self, name: (&IdKey, &str)) -> usize {
        self.chunks.partition_point(|chunk| chunk.first().is_some_and(|first| first.name() <= name)).saturating_sub(1)
    }

    /// With one more, or with another one of its name.
    pub fn with(&self, one: Attached) -> Attachments {
        let at = self.chunk_of(one.name());
        let mut next = self.clone();
        next.count(&one, 1);
        let mut chunk = self.chunks.get(at).map_or(Vec::new(), |chunk| chunk.to_vec());
        match chunk.binary_search_by(|other| other.name().cmp(&one.name())) {
            Ok(found) => {
                next.count(&chunk[found], -1);
                chunk[found] = one;
            }
            Err(between) => chunk.insert(between, one),
        }
        let halves = if chunk.len() > CHUNK_MAX { chunk.split_off(chunk.len() / 2) } else { Vec::new() };
        let changed = [chunk, halves].into_iter().filter(|chunk| !chunk.is_empty()).map(Chunk::from);
        let behind = self.chunks.iter().skip(at + 1).cloned();
        next.chunks = self.chunks.iter().take(at).cloned().chain(changed).chain(behind).collect();
        next
    }

    /// Those of which `stays` says so.
    pub fn retained(&self, stays: impl Fn(&Attached) -> bool) -> Attachments {
        if self.iter().all(&stays) {
            return self.clone();
        }
        let chunk = |chunk: &Chunk| match chunk.iter().all(&stays) {
            true => chunk.clone(),
            false => chunk.iter().filter(|one| stays(one)).cloned().collect(),
        };
        Attachments::of(self.chunks.iter().map(chunk).filter(|chunk| !chunk.is_empty()).collect())
    }

    /// With others of the same names in the place of some of a checkpoint, as `next` says. Looks at no others.
    pub fn exchanged_of(&self, id: &IdKey, next: impl Fn(&Attached) -> Option<Attached>) -> Attachments {
        let first = self.chunks.partition_point(|chunk| chunk.last().is_some_and(|last| last.id < *id));
        let end = self.chunks.partition_point(|chunk| chunk.first().is_some_and(|first| first.id <= *id));
        let (mut all, mut chunks) = (self.clone(), self.chunks.to_vec());
        for chunk in chunks.get_mut(first..end).into_iter().flatten() {
            let change = |one: &Attached| next(one).filter(|_| one.id == *id);
            let changed: Chunk = chunk.iter().map(|one| change(one).unwrap_or_else(|| one.clone())).collect();
            for (old, new) in chunk.iter().zip(&*changed).filter(|(old, new)| old != new) {
                all.count(old, -1);
                all.count(new, 1);
            }
            *chunk = changed;
        }
        Attachments { chunks: chunks.into(), ..all }
    }

    /// With others of the same names in the place of some, as `next` says; `None` as soon as it answers that.
    pub fn exchanged(&self, mut next: impl FnMut(&Attached) -> Option<Option<Attached>>) -> Option<Attachments> {
        let mut chunk = |chunk: &Chunk| -> Option<Chunk> {
            let mut changed: Option<Vec<Attached>> = None;
            for (at, one) in chunk.iter().enumerate() {
                if let Some(one) = next(one)? {
                    changed.get_or_insert_with(|| chunk.to_vec())[at] = one;
                }
            }
            Some(changed.map_or_else(|| chunk.clone(), Chunk::from))
        };
        Some(Attachments::of(self.chunks.iter().map(&mut chunk).collect::<Option<Vec<_>>>()?))
    }
}

impl PartialEq for Attachments {
    fn eq(&self, other: &Attachments) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use proptest::prelude::*;

    fn one(id: u8, key: u8, number: u64, awaiting: bool) -> Attached {
        let id = if id.is_multiple_of(2) { IdKey::Uuid([0, u64::from(id)]) } else { IdKey::Text(id.to_string().into()) };
        let at = Location { segment: 1, offset8: number as u32, length8: 1 + number as u32 % 7 };
        Attached { id, key: key.to_string().into(), number, place: if awaiting { number } else { number / 2 }, is_awaiting: awaiting, at }
    }

    proptest! {
        #[test]
        fn they_are_what_a_plain_map_would_be(steps in prop::collection::vec((0..9u8, 0..12u8, 0..40u8, any::<bool>()), 1..400)) {
            let (mut all, mut map) = (Attachments::default(), BTreeMap::new());
            for (number, (what, id, key, awaiting)) in (2..).zip(steps) {
                let it = one(id, key, number, awaiting);
                match what {
                    0 => {
                        all = all.retained(|other| other.id != it.id);
                        map.retain(|(id, _), _| *id != it.id);
                    }
                    1 => {
                        let bound = it.id.clone();
                        let next = move |other: &Attached| (other.id == bound).then(|| other.bound(1));
                        prop_assert_eq!(all.exchanged_of(&it.id, &next), all.exchanged(|other| Some(next(other))).unwrap());
                        all = all.exchanged_of(&it.id, &next);
                        map.values_mut().for_each(|other| *other = next(other).unwrap_or(other.clone()));
                    }
                    _ => {
                        all = all.with(it.clone());
                        map.insert((it.id.clone(), it.key.clone()), it.clone());
                    }
                }
                prop_assert!(all.iter().eq(map.values()));
                prop_assert_eq!((all.len(), all.is_empty()), (map.len(), map.is_empty()));
                prop_assert_eq!(all.has_awaiting(), map.values().any(|one| one.is_awaiting));
                for one in map.values() {
                    prop_assert!(all.may_be_below(one.place + 1, one.is_awaiting));
                }
                prop_assert_eq!(all.frame_bytes(), map.values().map(|one| one.at.length()).sum::<u64>());
                prop_assert!(all.of_id(&it.id).eq(map.values().filter(|other| other.id == it.id)));
                prop_assert_eq!(all.find(&it.id, &it.key), map.get(&(it.id.clone(), it.key.clone())));
                prop_assert!(all.chunks.iter().all(|chunk| (1..=CHUNK_MAX).contains(&chunk.len())));
                prop_assert_eq!(all.exchanged(|other| (other.id != it.id).then_some(None)).is_some(), all.of_id(&it.id).next().is_none());
            }
        }
    }
}
