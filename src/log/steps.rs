//! A thread's entries as a persistent sequence: a change makes a new one and shares the rest.
//!
//! Threads of up to 64 entries, which is nearly all of them, are one exact array. Longer ones are
//! chunks of 32: the newest chunk grows by copies, full ones are shared, first in a short list that
//! is copied with every new chunk and then in a long one that is copied every 64 chunks. So a put
//! copies at most 64 entries and, now and then, a list of pointers.

use std::sync::Arc;

use super::view::Entry;

/// Up to so many entries are one array, and none of it is trimmed space.
const EXACT: usize = 64;
/// Entries per chunk of a longer one.
const CHUNK: usize = 32;
/// Chunks in the short list before they join the long one.
const RECENT: usize = 64;

type Chunk = Arc<[Entry]>;

#[derive(Clone, Debug, Default)]
pub(super) struct Steps {
    /// Entries at the front of the first chunk that are trimmed already.
    skip: usize,
    old: Arc<Vec<Chunk>>,
    recent: Arc<Vec<Chunk>>,
    last: Chunk,
}

impl Steps {
    pub fn len(&self) -> usize {
        (self.old.len() + self.recent.len()) * CHUNK + self.last.len() - self.skip
    }

    pub fn get(&self, index: usize) -> Option<&Entry> {
        let index = index + self.skip;
        let chunk = index / CHUNK;
        let full = self.old.len() + self.recent.len();
        if chunk < self.old.len() {
            self.old[chunk].get(index % CHUNK)
        } else if chunk < full {
            self.recent[chunk - self.old.len()].get(index % CHUNK)
        } else {
            self.last.get(index - full * CHUNK)
        }
    }

    /// Without the first `dropped` entries, and with one more at the end.
    pub fn after(&self, dropped: usize, entry: Entry) -> Steps {
        let one_array = self.old.is_empty() && self.recent.is_empty();
        if one_array && self.last.len() - dropped < EXACT {
            let last = self.last[dropped..].iter().cloned().chain([entry]).collect();
            return Steps { last, ..Steps::default() };
        }
        if self.last.len() > CHUNK {
            return (dropped..self.len()).filter_map(|index| self.get(index)).cloned().chain([entry]).collect();
        }
        let mut next = self.clone();
        if next.last.len() == CHUNK {
            let recent = self.recent.iter().cloned().chain([std::mem::take(&mut next.last)]);
            if self.recent.len() + 1 == RECENT {
                next.old = Arc::new(self.old.iter().cloned().chain(recent).collect());
                next.recent = Arc::default();
            } else {
                next.recent = Arc::new(recent.collect());
            }
        }
        next.last = next.last.iter().cloned().chain([entry]).collect();
        next.without_first(dropped)
    }

    /// With `count` more entries at the end, each made in its place.
    pub fn extended(&self, count: usize, entry: impl Fn(usize) -> Entry) -> Steps {
        let one_array = self.old.is_empty() && self.recent.is_empty();
        let (held, total) = (self.last.len(), self.last.len() + count);
        let chunk = |from: usize, to: usize| -> Chunk {
            // A range's length is known, so the chunk is filled without a copy.
            (from..to).map(|at| if at < held { self.last[at].clone() } else { entry(at - held) }).collect()
        };
        if one_array && total <= EXACT {
            return Steps { last: chunk(0, total), ..Steps::default() };
        }
        let full = total.saturating_sub(1) / CHUNK * CHUNK;
        let mut chunks = Vec::with_capacity(self.old.len() + self.recent.len() + full / CHUNK);
        chunks.extend(self.old.iter().chain(&*self.recent).cloned());
        chunks.extend((0..full).step_by(CHUNK).map(|from| chunk(from, from + CHUNK)));
        Steps { skip: self.skip, old: Arc::new(chunks), recent: Arc::default(), last: chunk(full, total) }
    }

    /// Without the first `dropped` entries.
    pub fn without_first(mut self, dropped: usize) -> Steps {
        if self.len() - dropped <= EXACT {
            return (dropped..self.len()).filter_map(|index| self.get(index)).cloned().collect();
        }
        self.skip += dropped;
        let chunks = self.skip / CHUNK;
        self.skip %= CHUNK;
        let from_old = chunks.min(self.old.len());
        if from_old > 0 {
            self.old = Arc::new(self.old[from_old..].to_vec());
        }
        if chunks > from_old {
            self.recent = Arc::new(self.recent[chunks - from_old..].to_vec());
        }
        self
    }

    /// Without the last entry.
    pub fn without_last(&self) -> Steps {
        if self.last.len() > 1 {
            return Steps { last: self.last[..self.last.len() - 1].into(), ..self.clone() };
        }
        (0..self.len().saturating_sub(1)).filter_map(|index| self.get(index)).cloned().collect()
    }

    /// With another entry at `index`.
    pub fn replaced(&self, index: usize, entry: Entry) -> Steps {
        let mut next = self.clone();
        let index = index + self.skip;
        let (chunk, old) = (index / CHUNK, self.old.len());
        let full = old + self.recent.len();
        let (chunk, within) = if chunk < old {
            (&mut Arc::make_mut(&mut next.old)[chunk], index % CHUNK)
        } else if chunk < full {
            (&mut Arc::make_mut(&mut next.recent)[chunk - old], index % CHUNK)
        } else {
            (&mut next.last, index - full * CHUNK)
        };
        Arc::make_mut(chunk)[within] = entry;
        next
    }
}

impl Steps {
    /// With other entries in the place of some, as `next` says: chunks without any are shared. `None` as
    /// soon as `next` answers that.
    pub fn exchanged(&self, mut next: impl FnMut(&Entry) -> Option<Option<Entry>>) -> Option<Steps> {
        let mut chunk = |chunk: &Chunk| -> Option<Chunk> {
            let mut changed: Option<Vec<Entry>> = None;
            for (at, entry) in chunk.iter().enumerate() {
                if let Some(entry) = next(entry)? {
                    changed.get_or_insert_with(|| chunk.to_vec())[at] = entry;
                }
            }
            Some(changed.map_or_else(|| chunk.clone(), Chunk::from))
        };
        let mut list = |list: &Arc<Vec<Chunk>>| list.iter().map(&mut chunk).collect::<Option<Vec<_>>>().map(Arc::new);
        let (old, recent) = (list(&self.old)?, list(&self.recent)?);
        Some(Steps { skip: self.skip, old, recent, last: chunk(&self.last)? })
    }
}

impl FromIterator<Entry> for Steps {
    fn from_iter<I: IntoIterator<Item = Entry>>(entries: I) -> Steps {
        let entries: Vec<Entry> = entries.into_iter().collect();
        if entries.len() <= EXACT {
            return Steps { last: entries.into(), ..Steps::default() };
        }
        let mut chunks: Vec<Chunk> = entries.chunks(CHUNK).map(Chunk::from).collect();
        let last = chunks.pop().unwrap_or_default();
        Steps { skip: 0, old: Arc::new(chunks), recent: Arc::default(), last }
    }
}
