//! Forks, renames and rollbacks of threads. All or nothing, as everything that is done to threads.
//!
//! A copy is as a batch of puts: its checkpoints get new seqs, and what waits for others yet to come counts as
//! newer than these. So nothing of a fork is older than the fork, and what waits does not go with its first put.

use std::sync::Arc;

use super::{Attached, Kept, Thread, Threads, UNNUMBERED};
use crate::branch::{no_checkpoint, no_thread, taken};
use crate::checkpoint::{CheckpointId, CheckpointInfo};
use crate::error::Result;

impl<V: Clone> Threads<V> {
    /// Makes a new thread of the checkpoints up to `at` (None: the head); `hold` gives a copy what holds its value.
    pub fn fork(&mut self, thread: &str, at: Option<&CheckpointId>, new: &str, hold: impl Fn(&V) -> V) -> Result<CheckpointId> {
        let source = self.existing(thread)?.clone();
        let head = source.checkpoints.len() - 1;
        let at = at.map_or(Ok(head), |at| source.find(thread, at))?;
        let waiting = self.get(new).cloned().unwrap_or_default();
        if waiting.exists() {
            return Err(taken(new));
        }
        let mut fork = (*waiting).clone();
        fork.keep = source.keep;
        let name: Arc<str> = new.into();
        let from = (at + 1).saturating_sub(fork.limit(self.keep));
        for kept in source.checkpoints.range(from..=at) {
            self.last += 1;
            let info = CheckpointInfo { thread: name.clone(), seq: self.last, ..kept.info.clone() };
            fork.put(Kept { info, number: self.last, value: hold(&kept.value) });
        }
        fork.wait_anew(&hold);
        for (id, key, attached) in source.attachments() {
            let is_waiting = at == head && !source.seqs.contains_key(id);
            if is_waiting || fork.seqs.contains_key(id) {
                fork.attach(id, key, attached.anew(&hold));
            }
        }
        self.by_id.insert(name, Arc::new(fork));
        self.settle(new);
        Ok(source.checkpoints[at].info.id.clone())
    }

    /// Gives a thread another id.
    pub fn rename(&mut self, thread: &str, new: &str, hold: impl Fn(&V) -> V) -> Result<()> {
        self.fork(thread, None, new, hold)?;
        self.by_id.remove(thread);
        Ok(())
    }

    /// Has a checkpoint be the head; answers how many newer ones there were.
    pub fn rollback(&mut self, thread: &str, to: &CheckpointId) -> Result<u64> {
        let found = self.existing(thread)?;
        let at = found.find(thread, to)?;
        let newer = found.checkpoints.len() - 1 - at;
        if newer > 0 {
            Arc::make_mut(found).cut(at + 1);
        }
        Ok(newer as u64)
    }

    fn existing(&mut self, thread: &str) -> Result<&mut Arc<Thread<V>>> {
        self.by_id.get_mut(thread).filter(|thread| thread.exists()).ok_or_else(|| no_thread(thread))
    }
}

impl<V> Thread<V> {
    /// Where a checkpoint stands. Errors: `NotFound`.
    fn find(&self, thread: &str, id: &CheckpointId) -> Result<usize> {
        self.position(id).ok_or_else(|| no_checkpoint(thread, id))
    }

    /// Deletes all from there on.
    fn cut(&mut self, at: usize) {
        for kept in self.checkpoints.split_off(at) {
            self.forget(&kept);
        }
    }

    /// Has what waits for checkpoints yet to come be newer than all that is there.
    fn wait_anew(&mut self, hold: impl Fn(&V) -> V) {
        let waiting = self.attachments.iter_mut().filter(|(id, _)| !self.seqs.contains_key(*id));
        for attached in waiting.flat_map(|(_, keys)| keys.values_mut()) {
            *attached = attached.anew(&hold);
        }
    }
}

impl<V> Attached<V> {
    /// The same value once more, yet to be numbered.
    fn anew(&self, hold: impl Fn(&V) -> V) -> Arc<Self> {
        Arc::new(Attached { tag: self.tag.clone(), bytes: self.bytes, number: UNNUMBERED, value: hold(&self.value) })
    }
}
