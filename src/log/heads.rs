//! The newest states of threads, whole in memory: what a get of a delta gives out without decoding, and
//! what a put takes its difference from.
//!
//! Bounded in bytes; what was used longest ago goes first. A state is kept with the place and the frame
//! that it was read from or written to, and counts for that frame alone: a frame never changes, so
//! whatever another process appends, or compaction moves, makes a miss and never a wrong state.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;

use super::location::Location;
use super::view::Entry;
use crate::checkpoint::StateBytes;
use crate::delta::Sums;

/// What one takes beside its state and its thread's id, about.
const AROUND_BYTES: u64 = 256;

/// A state, and what is known of the chain that ends with it.
#[derive(Clone)]
pub(crate) struct Head {
    /// Its checkpoint's place.
    pub place: u64,
    /// The frame that it is stored in.
    pub at: Location,
    /// The state; `None` where differences from it are not worth it.
    pub state: Option<StateBytes>,
    /// The state's memory, where it is a copy of what was put: the next one is copied to the same.
    pub copy: Option<Arc<Vec<u8>>>,
    /// Its content hash; 0 without a state.
    pub hash: u64,
    /// What its chain has cost so far.
    pub sums: Sums,
    /// How many puts in a row had so little in common with the one before that they were stored whole.
    pub useless: u32,
}

impl Head {
    /// The state of an entry.
    pub fn of(entry: &Entry, state: StateBytes, hash: u64, sums: Sums) -> Head {
        Head { place: entry.place, at: entry.at, state: Some(state), copy: None, hash, sums, useless: 0 }
    }
}

/// The heads that are kept.
pub(crate) struct Heads {
    bytes_max: u64,
    kept: Mutex<Kept>,
}

struct Kept {
    heads: LruCache<Arc<str>, Head>,
    bytes: u64,
}

impl Heads {
    /// At most so many bytes of them; 0 for none.
    pub fn new(bytes_max: u64) -> Heads {
        Heads { bytes_max, kept: Mutex::new(Kept { heads: LruCache::unbounded(), bytes: 0 }) }
    }

    /// The thread's head, if it is the checkpoint of that entry.
    pub fn get(&self, thread: &str, entry: &Entry) -> Option<Head> {
        if self.bytes_max == 0 {
            return None;
        }
        self.kept().heads.get(thread).filter(|head| (head.place, head.at) == (entry.place, entry.at)).cloned()
    }

    /// Whether a state of that length is kept at all.
    pub fn keeps(&self, length: usize) -> bool {
        length as u64 + AROUND_BYTES <= self.bytes_max
    }

    /// A copy of what was put to a thread, in the memory of the one before if nobody reads that: memory that
    /// is new costs as much as the copy.
    pub fn copied(&self, thread: &str, state: &[u8]) -> Arc<Vec<u8>> {
        let mut kept = self.kept();
        let before = kept.heads.pop(thread);
        kept.bytes -= before.as_ref().map_or(0, |head| bytes(thread, head));
        drop(kept);
        let memory = before.and_then(|Head { state, copy, .. }| {
            drop(state);
            Arc::try_unwrap(copy?).ok()
        });
        let mut copy = memory.filter(|memory| (state.len()..=2 * state.len()).contains(&memory.capacity())).unwrap_or_default();
        copy.clear();
        copy.reserve_exact(if copy.capacity() == 0 { state.len() + state.len() / 8 } else { 0 });
        copy.extend_from_slice(state);
        Arc::new(copy)
    }

    /// Keeps a thread's head instead of the one before, if there is room for it.
    pub fn keep(&self, thread: &Arc<str>, head: Head) {
        let added = bytes(thread, &head);
        if added > self.bytes_max {
            return;
        }
        // What goes is freed once nobody waits for it.
        let mut gone = Vec::new();
        let mut kept = self.kept();
        gone.extend(kept.heads.push(thread.clone(), head));
        kept.bytes += added;
        kept.bytes -= gone.first().map_or(0, |(thread, head)| bytes(thread, head));
        while kept.bytes > self.bytes_max
            && let Some((thread, head)) = kept.heads.pop_lru()
        {
            kept.bytes -= bytes(&thread, &head);
            gone.push((thread, head));
        }
        drop(kept);
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // A panic elsewhere leaves nothing half done here.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn bytes(thread: &str, head: &Head) -> u64 {
    let state = head.state.as_ref().map_or(0, |state| state.len());
    head.copy.as_ref().map_or(state, |copy| copy.capacity()) as u64 + thread.len() as u64 + AROUND_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::ids::IdKey;
    use crate::log::view::StateLen;

    fn head(place: u64, length: usize) -> Head {
        let (at, state) = (Location { segment: 1, offset8: place as u32, length8: 2 }, Some(vec![place as u8; length].into()));
        Head { place, at, state, copy: None, hash: place, sums: Sums::of_keyframe(1), useless: 0 }
    }

    fn entry(head: &Head) -> Entry {
        let state_len = StateLen::new(9, true);
        Entry { place: head.place, id: IdKey::Uuid([0, head.place]), at: head.at, state_len }
    }

    #[test]
    fn what_was_used_longest_ago_goes_and_the_bound_is_never_passed() {
        let heads = Heads::new(10_000);
        let threads: [Arc<str>; 4] = ["a", "b", "c", "d"].map(Arc::from);
        let has = |thread: usize, head: &Head| heads.get(&threads[thread], &entry(head)).is_some_and(|kept| kept.hash == head.hash);
        let keep = |thread: usize, head: &Head| {
            heads.keep(&threads[thread], head.clone());
            let kept = heads.kept();
            assert_eq!(kept.bytes, kept.heads.iter().map(|(thread, head)| bytes(thread, head)).sum::<u64>());
            assert!(kept.bytes <= 10_000);
        };
        let all = [1, 2, 3, 4].map(|place| head(place, 3000));
        (0..3).for_each(|thread| keep(thread, &all[thread]));
        assert!(has(1, &all[1]) && has(0, &all[0]));
        keep(3, &all[3]);
        assert!(has(0, &all[0]) && has(1, &all[1]) && has(3, &all[3]) && !has(2, &all[2]));
        // One that is bigger than all of it is not kept, and drives nothing out.
        keep(2, &head(5, 10_000));
        assert!(!has(2, &head(5, 10_000)) && has(0, &all[0]) && has(1, &all[1]) && has(3, &all[3]));
        // A thread has one, and it counts for its own place and frame alone.
        keep(0, &head(6, 100));
        assert!(has(0, &head(6, 100)) && !has(0, &all[0]));
        let elsewhere = Location { segment: 2, ..all[1].at };
        assert!(heads.get("b", &Entry { at: elsewhere, ..entry(&all[1]) }).is_none());
        assert!(heads.get("b", &Entry { place: 9, ..entry(&all[1]) }).is_none());
        // Without a state it is small, and counts all the same.
        keep(0, &Head { state: None, ..head(7, 0) });
        keep(2, &head(8, 2900));
        assert!(has(0, &head(7, 0)) && has(1, &all[1]) && has(2, &head(8, 2900)) && has(3, &all[3]));
        keep(2, &head(9, 9000));
        assert!(has(2, &head(9, 9000)) && !has(1, &all[1]) && !has(3, &all[3]));
    }

    #[test]
    fn without_room_nothing_is_kept() {
        let heads = Heads::new(0);
        heads.keep(&"a".into(), head(1, 10));
        assert!(heads.get("a", &entry(&head(1, 10))).is_none());
    }
}
