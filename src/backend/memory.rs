//! A place for checkpoints in this process's memory: for tests, and for runs that may be forgotten.
//!
//! All threads stand behind one lock, which gives the one order of the store. A checkpoint never
//! changes once it is there (putting its id again exchanges it), so readers take references under
//! the lock and read after it. Neither the clock nor a copy of a state is awaited under the lock.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::SystemTime;

use super::threads::{self, Step};
use crate::batch::{Batch, Committed};
use crate::branch::check_names;
use crate::checkpoint::{Attachment, Checkpoint, CheckpointId, CheckpointInfo, StateBytes, check_thread};
use crate::checkpointer::{Capabilities, Checkpointer, Items};
use crate::error::Result;
use crate::options::{MAX_HISTORY_DEFAULT, STATE_BYTES_DEFAULT, check_keep};
use crate::query::{FindQuery, HistoryQuery, ThreadInfo, ThreadQuery, VacuumQuery, Vacuumed};

/// A [`Checkpointer`] in memory: gone when its last clone is; clones share one store.
///
/// States and attached values are copied in, and what was read stays as it was read. Durability options
/// mean nothing.
///
/// ```
/// use taffrail::prelude::*;
/// use taffrail::MemoryCheckpointer;
/// let place = MemoryCheckpointer::with_max_history(2)?;
/// for step in 1..=3 {
///     place.put("t", &step)?;
/// }
/// let states: Vec<i32> = place.history("t", None)?.into_iter().map(|step| step.state).collect();
/// assert_eq!(states, [3, 2]);
/// # Ok::<(), taffrail::Error>(())
/// ```
#[derive(Clone)]
pub struct MemoryCheckpointer {
    threads: Arc<RwLock<Threads>>,
    clock: Arc<dyn Fn() -> SystemTime + Send + Sync>,
}

impl MemoryCheckpointer {
    /// An empty place that keeps the newest 50 checkpoints of each thread.
    pub fn new() -> Self {
        Self::keeping(Some(MAX_HISTORY_DEFAULT))
    }

    /// An empty place that keeps so many checkpoints of each thread; `None` keeps all.
    ///
    /// Errors: `InvalidInput` for 0.
    pub fn with_max_history(keep: impl Into<Option<usize>>) -> Result<Self> {
        let keep = keep.into();
        check_keep(keep)?;
        Ok(Self::keeping(keep))
    }

    /// This place with another source of time.
    #[doc(hidden)]
    pub fn clock(mut self, clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    fn keeping(keep: Option<usize>) -> Self {
        MemoryCheckpointer { threads: Arc::new(RwLock::new(Threads::new(keep))), clock: Arc::new(SystemTime::now) }
    }

    // Nothing under the lock calls out of this folder or panics, so a poison mark tells of no half-done
    // change and is passed over.
    fn read(&self) -> RwLockReadGuard<'_, Threads> {
        self.threads.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Threads> {
        self.threads.write().unwrap_or_else(PoisonError::into_inner)
    }
}

type Threads = threads::Threads<StateBytes>;
type Kept = threads::Kept<StateBytes>;

fn shown(kept: &Arc<Kept>) -> Checkpoint<StateBytes> {
    Checkpoint { info: kept.info.clone(), state: kept.value.clone() }
}

impl Default for MemoryCheckpointer {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryCheckpointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryCheckpointer").finish_non_exhaustive()
    }
}

impl Checkpointer for MemoryCheckpointer {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            list_threads: true,
            branching: true,
            metadata_query: true,
            vacuum: true,
            ttl: true,
            search: true,
            list_with_metadata: true,
            compare_and_put: true,
            attachments: true,
            ..Capabilities::default()
        }
    }

    fn commit(&self, batch: &Batch<'_>) -> Result<Vec<Committed>> {
        batch.check(STATE_BYTES_DEFAULT)?;
        let steps = Step::all(batch, (self.clock)(), |_, bytes| StateBytes::from(bytes.to_vec()));
        self.write().commit(steps)
    }

    fn get_bytes(&self, thread: &str) -> Result<Option<Checkpoint<StateBytes>>> {
        check_thread(thread)?;
        Ok(self.read().get(thread).and_then(|found| found.head()).map(shown))
    }

    fn load_bytes(&self, thread: &str, id: &CheckpointId) -> Result<Option<Checkpoint<StateBytes>>> {
        check_thread(thread)?;
        Ok(self.read().get(thread).and_then(|found| found.get(id)).map(shown))
    }

    fn history_bytes(&self, thread: &str, query: &HistoryQuery) -> Result<Items<Checkpoint<StateBytes>>> {
        check_thread(thread)?;
        let page = self.read().page(thread, query)?;
        Ok(Box::new(page.into_iter().map(|kept| Ok(shown(&kept)))))
    }

    fn list(&self, thread: &str, query: &HistoryQuery) -> Result<Items<CheckpointInfo>> {
        check_thread(thread)?;
        let page = self.read().page(thread, query)?;
        Ok(Box::new(page.into_iter().map(|kept| Ok(kept.info.clone()))))
    }

    fn list_threads(&self, query: &ThreadQuery) -> Result<Items<ThreadInfo>> {
        Threads::listed(query, || Ok(self.read()))
    }

    fn attachments(&self, thread: &str, id: &CheckpointId) -> Result<Vec<Attachment>> {
        check_thread(thread)?;
        let threads = self.read();
        let keys = threads.get(thread).and_then(|found| found.attached(id));
        let attachment = |(key, attached): (&String, &Arc<threads::Attached<StateBytes>>)| Attachment {
            key: key.clone(),
            tag: attached.tag.clone(),
            value: attached.value.clone(),
        };
        Ok(keys.into_iter().flatten().map(attachment).collect())
    }

    fn locate(&self, id: &CheckpointId) -> Result<Vec<String>> {
        Ok(self.read().holders(id))
    }

    fn fork(&self, thread: &str, at: Option<&CheckpointId>, new: &str) -> Result<CheckpointId> {
        check_names(thread, new)?;
        self.write().fork(thread, at, new, StateBytes::clone)
    }

    fn rename(&self, thread: &str, new: &str) -> Result<()> {
        check_names(thread, new)?;
        self.write().rename(thread, new, StateBytes::clone)
    }

    fn rollback(&self, thread: &str, to: &CheckpointId) -> Result<u64> {
        check_thread(thread)?;
        self.write().rollback(thread, to)
    }

    fn find(&self, query: &FindQuery) -> Result<Items<CheckpointInfo>> {
        Threads::found(query, || Ok(self.read()), |kept| Ok(kept.value.clone()))
    }

    fn vacuum(&self, query: &VacuumQuery) -> Result<Vacuumed> {
        query.check()?;
        let now = (self.clock)();
        if query.dry_run {
            return Ok(self.read().judge(query, now)?.count());
        }
        let mut threads = self.write();
        let judged = threads.judge(query, now)?;
        threads.vacuum(&judged);
        Ok(judged.count())
    }

    fn retain(&self, thread: Option<&str>, keep: Option<usize>) -> Result<()> {
        thread.map_or(Ok(()), check_thread)?;
        check_keep(keep)?;
        self.write().retain(thread, keep)
    }

    fn max_history(&self, thread: Option<&str>) -> Result<Option<usize>> {
        thread.map_or(Ok(()), check_thread)?;
        Ok(self.read().kept_of(thread))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::PutOptions;
    use crate::checkpoint::TypeTag;
    use crate::checkpointer::CheckpointerExt;
    use crate::error::ErrorKind;
    use crate::query::Matching;
    use std::time::Duration;

    #[test]
    fn keeping_nothing_is_refused() {
        assert_eq!(MemoryCheckpointer::with_max_history(0).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert!(MemoryCheckpointer::with_max_history(None).is_ok());
    }

    #[test]
    fn fifty_are_kept_by_default() {
        let place = MemoryCheckpointer::default();
        (0..60).for_each(|step| drop(place.put("t", &step).unwrap()));
        let states: Vec<i32> = place.history("t", None).unwrap().into_iter().map(|step| step.state).collect();
        assert_eq!(states, (10..60).rev().collect::<Vec<_>>());
    }

    #[test]
    fn clones_share_one_store_and_copy_what_they_are_given() {
        let place = MemoryCheckpointer::new();
        let mut state = b"[1]".to_vec();
        place.clone().put_bytes("t", TypeTag::JSON, &state, PutOptions::default()).unwrap();
        state[1] = b'2';
        let read = place.get_bytes("t").unwrap().unwrap();
        place.delete("t").unwrap();
        assert_eq!(&*read.state, b"[1]");
    }

    #[test]
    fn the_clock_labels() {
        let frozen = SystemTime::UNIX_EPOCH + Duration::from_secs(7);
        let place = MemoryCheckpointer::new().clock(move || frozen);
        place.put("t", &1).unwrap();
        assert_eq!(place.head("t").unwrap().unwrap().saved_at, frozen);
    }

    #[test]
    fn a_thread_of_its_own_keeps_its_own_number_until_it_ends() {
        let place = MemoryCheckpointer::with_max_history(3).unwrap();
        let put = |count: i32| (0..count).for_each(|step| drop(place.put("t", &step).unwrap()));
        let count = || place.list("t", &HistoryQuery::default()).unwrap().count();
        put(3);
        place.retain(Some("t"), Some(2)).unwrap();
        place.retain(None, Some(1)).unwrap();
        assert_eq!(count(), 2);
        place.delete("t").unwrap();
        put(3);
        assert_eq!(count(), 1);
    }

    #[test]
    fn a_worker_that_panicked_stops_no_one() {
        let place = MemoryCheckpointer::new();
        let other = place.clone();
        let panicked = std::thread::spawn(move || {
            let _held = other.write();
            panic!("under the lock, on purpose");
        });
        assert!(panicked.join().is_err());
        assert!(place.put("t", &1).is_ok());
    }

    #[test]
    fn a_hostile_pattern_holds_no_lock() {
        let place = MemoryCheckpointer::new();
        place.put(&"a".repeat(4000), &1).unwrap();
        let matching = Matching::Glob("*a".repeat(5000) + "b");
        let mut found = place.list_threads(&ThreadQuery { matching, ..ThreadQuery::default() }).unwrap();
        place.put("t", &1).unwrap();
        assert!(found.next().is_none());
    }
}
