//! Checkpoint ids as the index keeps them, and finding a long thread's checkpoint by its id.

use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

use uuid::Uuid;

use crate::checkpoint::CheckpointId;
use crate::error::Result;
use crate::format::record::Id;

/// A checkpoint id: 16 bytes for a UUID in its usual form, else the text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum IdKey {
    /// A UUID, in words: an entry is copied several times as fast as with bytes.
    Uuid([u64; 2]),
    /// Any other text.
    Text(Arc<str>),
}

/// A UUID's bytes as words.
fn words(bytes: u128) -> [u64; 2] {
    [bytes as u64, (bytes >> 64) as u64]
}

/// A UUID's words as bytes.
fn bytes([low, high]: [u64; 2]) -> [u8; 16] {
    (u128::from(high) << 64 | u128::from(low)).to_le_bytes()
}

impl IdKey {
    /// The key of an id as records keep it.
    pub fn of_record(id: &Id<'_>) -> IdKey {
        match id {
            Id::Uuid(uuid) => IdKey::Uuid(words(u128::from_le_bytes(*uuid))),
            Id::Text(text) => IdKey::Text((*text).into()),
        }
    }

    /// Whether it is that id, without making a key of it.
    pub fn matches(&self, id: &Id<'_>) -> bool {
        match (self, id) {
            (IdKey::Uuid(own), Id::Uuid(other)) => bytes(*own) == *other,
            (IdKey::Text(own), Id::Text(other)) => **own == **other,
            _ => false,
        }
    }

    /// As records keep it.
    pub fn to_record(&self) -> Id<'_> {
        match self {
            IdKey::Uuid(words) => Id::Uuid(bytes(*words)),
            IdKey::Text(text) => Id::Text(text),
        }
    }
}

impl From<&CheckpointId> for IdKey {
    fn from(id: &CheckpointId) -> IdKey {
        match id.to_uuid() {
            Some(uuid) => IdKey::of_record(&Id::Uuid(uuid.into_bytes())),
            None => IdKey::Text(id.as_str().into()),
        }
    }
}

/// The public id of one in a record. Errors: `InvalidInput` for a text no id can be.
pub(crate) fn public(id: &Id<'_>) -> Result<CheckpointId> {
    match id {
        Id::Uuid(bytes) => Ok(CheckpointId::from_uuid(Uuid::from_bytes(*bytes))),
        Id::Text(text) => CheckpointId::new(text),
    }
}

/// Numbers by the hash of an id, open addressing, shared by the successive views of one thread.
///
/// It only ever gains numbers, and whoever looks one up checks it against a view of its own, so a
/// number that is trimmed, or newer than that view, does no harm. No lock is needed.
#[derive(Debug)]
pub(super) struct IdTable {
    hasher: RandomState,
    /// A number plus one; 0 is free.
    slots: Box<[AtomicU32]>,
    used: AtomicUsize,
}

impl IdTable {
    /// Up to this many entries a thread is searched one by one.
    pub const WORTH_IT: usize = 64;

    /// A table with room for so many entries and some more.
    pub fn for_entries(entries: usize) -> IdTable {
        let slots = (entries + entries / 2).next_power_of_two();
        IdTable { hasher: RandomState::new(), slots: (0..slots).map(|_| AtomicU32::new(0)).collect(), used: AtomicUsize::new(0) }
    }

    /// Notes a number; false if the table is too full and must be made anew. One worker at a time.
    pub fn add(&self, id: &IdKey, number: u32) -> bool {
        let used = self.used.load(Relaxed);
        if used + 1 > self.slots.len() / 4 * 3 || number == u32::MAX {
            return false;
        }
        // Relaxed: the view that makes the number meaningful is published after it, with release.
        if let Some(free) = self.probe(id).find(|slot| slot.load(Relaxed) == 0) {
            free.store(number + 1, Relaxed);
            self.used.store(used + 1, Relaxed);
        }
        true
    }

    /// The first number under that id's hash that `accept` takes.
    pub fn find(&self, id: &IdKey, accept: impl Fn(u32) -> Option<usize>) -> Option<usize> {
        self.probe(id).map(|slot| slot.load(Relaxed)).take_while(|&kept| kept != 0).find_map(|kept| accept(kept - 1))
    }

    fn probe(&self, id: &IdKey) -> impl Iterator<Item = &AtomicU32> {
        let mask = self.slots.len() - 1;
        let start = self.hasher.hash_one(id) as usize;
        (0..self.slots.len()).map(move |step| &self.slots[start.wrapping_add(step) & mask])
    }
}
