//! A place for checkpoints in this process's memory: for tests, and for runs that may be forgotten.
//!
//! All threads stand behind one lock, which gives the one order of the store. A checkpoint never
//! changes once it is there (putting its id again exchanges it), so readers take references under
//! the lock and read after it. Neither the clock nor a copy of a state is awaited under the lock.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::SystemTime;

use crate::batch::{Batch, Committed, Operation, Parent, PutOptions};
use crate::checkpoint::{Attachment, Checkpoint, CheckpointId, CheckpointInfo, StateBytes, TypeTag, check_thread};
use crate::checkpointer::{Capabilities, Checkpointer, Items};
use crate::error::{Error, ErrorKind, Result};
use crate::options::{MAX_HISTORY_DEFAULT, STATE_BYTES_DEFAULT, check_keep};
use crate::query::{HistoryQuery, Matching, ThreadInfo, ThreadQuery, VacuumQuery, Vacuumed, Verdict};

/// A [`Checkpointer`] in memory: gone when its last clone is; clones share one store.
///
/// States are copied in, and what was read stays as it was read. Durability options mean nothing.
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
        let threads = Threads { by_id: BTreeMap::new(), last_seq: 0, keep };
        MemoryCheckpointer { threads: Arc::new(RwLock::new(threads)), clock: Arc::new(SystemTime::now) }
    }

    // Nothing under the lock calls out of this file or panics, so a poison mark tells of no half-done
    // change and is passed over.
    fn read(&self) -> RwLockReadGuard<'_, Threads> {
        self.threads.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Threads> {
        self.threads.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The checkpoints of a page, newest first, as they are at this moment.
    fn page(&self, thread: &str, query: &HistoryQuery) -> Result<Vec<Arc<Kept>>> {
        check_thread(thread)?;
        let threads = self.read();
        let Some(found) = threads.by_id.get(thread) else {
            return query.range(thread, 0, |_| None).map(|_| Vec::new());
        };
        let range = query.range(thread, found.checkpoints.len(), |id| found.position(id))?;
        Ok(found.checkpoints.range(range).rev().cloned().collect())
    }
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
            vacuum: true,
            ttl: true,
            list_with_metadata: true,
            compare_and_put: true,
            ..Capabilities::default()
        }
    }

    fn commit(&self, batch: &Batch<'_>) -> Result<Vec<Committed>> {
        batch.check(STATE_BYTES_DEFAULT)?;
        let now = (self.clock)();
        let steps: Vec<Step<'_>> = batch.operations().iter().map(|operation| Step::of(operation, now)).collect::<Result<_>>()?;
        self.write().commit(steps)
    }

    fn get_bytes(&self, thread: &str) -> Result<Option<Checkpoint<StateBytes>>> {
        check_thread(thread)?;
        Ok(self.read().by_id.get(thread).and_then(Thread::head).map(|head| Kept::clone(head)))
    }

    fn load_bytes(&self, thread: &str, id: &CheckpointId) -> Result<Option<Checkpoint<StateBytes>>> {
        check_thread(thread)?;
        let threads = self.read();
        let found = threads.by_id.get(thread).and_then(|found| found.checkpoints.get(found.position(id)?));
        Ok(found.map(|kept| Kept::clone(kept)))
    }

    fn history_bytes(&self, thread: &str, query: &HistoryQuery) -> Result<Items<Checkpoint<StateBytes>>> {
        Ok(Box::new(self.page(thread, query)?.into_iter().map(|kept| Ok(Kept::clone(&kept)))))
    }

    fn list(&self, thread: &str, query: &HistoryQuery) -> Result<Items<CheckpointInfo>> {
        Ok(Box::new(self.page(thread, query)?.into_iter().map(|kept| Ok(kept.info.clone()))))
    }

    fn list_threads(&self, query: &ThreadQuery) -> Result<Items<ThreadInfo>> {
        query.check()?;
        let ThreadQuery { matching, offset, limit, .. } = query.clone();
        let limit = limit.unwrap_or(usize::MAX);
        // A pattern is tried after the lock: a costly one must not hold up those who put.
        let candidates = match matching {
            Matching::Glob(_) => usize::MAX,
            Matching::All | Matching::Prefix(_) => offset.saturating_add(limit),
        };
        let found = self.read().summaries(query, candidates);
        let fitting = found.into_iter().filter(move |summary| matching.fits(&summary.head.info.thread));
        Ok(Box::new(fitting.skip(offset).take(limit).map(|summary| Ok(summary.into_info()))))
    }

    fn attachments(&self, thread: &str, _: &CheckpointId) -> Result<Vec<Attachment>> {
        check_thread(thread)?;
        Err(Error::unsupported("attachments"))
    }

    fn locate(&self, id: &CheckpointId) -> Result<Vec<String>> {
        let threads = self.read();
        let holders = threads.by_id.iter().filter(|(_, thread)| thread.seqs.contains_key(id));
        Ok(holders.map(|(thread, _)| thread.to_string()).collect())
    }

    fn vacuum(&self, query: &VacuumQuery) -> Result<Vacuumed> {
        query.check()?;
        let now = (self.clock)();
        let judged = if query.dry_run { self.read().judge(query, now)? } else { self.write().vacuum(query, now)? };
        let mut vacuumed = Vacuumed::default();
        judged.into_iter().for_each(|(_, len, verdict)| vacuumed.add(verdict.count(len)));
        Ok(vacuumed)
    }

    fn retain(&self, thread: Option<&str>, keep: Option<usize>) -> Result<()> {
        thread.map_or(Ok(()), check_thread)?;
        check_keep(keep)?;
        self.write().retain(thread, keep)
    }
}

type Kept = Checkpoint<StateBytes>;

/// An operation made ready outside the lock: its state copied, its id and time chosen.
enum Step<'a> {
    Put { thread: &'a str, id: CheckpointId, tag: TypeTag, state: StateBytes, saved_at: SystemTime, options: &'a PutOptions },
    Delete { thread: &'a str, id: Option<&'a CheckpointId> },
}

impl<'a> Step<'a> {
    fn of(operation: &'a Operation<'a>, now: SystemTime) -> Result<Self> {
        match operation {
            Operation::Put { thread, tag, state, options } => Ok(Step::Put {
                thread,
                id: options.id.clone().unwrap_or_else(CheckpointId::fresh),
                tag: tag.clone(),
                state: StateBytes::from(state.to_vec()),
                saved_at: options.saved_at.unwrap_or(now),
                options,
            }),
            Operation::Attach { thread, .. } => Err(Error::unsupported("attach").with_thread(thread)),
            Operation::Delete { thread, id } => Ok(Step::Delete { thread, id: id.as_ref() }),
        }
    }

    fn thread(&self) -> &'a str {
        match self {
            Step::Put { thread, .. } | Step::Delete { thread, .. } => thread,
        }
    }
}

/// Every thread, in byte order of their ids; a thread that is here has a checkpoint.
struct Threads {
    by_id: BTreeMap<Arc<str>, Thread>,
    last_seq: u64,
    keep: Option<usize>,
}

impl Threads {
    /// All or nothing: a step changes nothing when it is refused, and what the steps before it did
    /// is taken back.
    fn commit(&mut self, steps: Vec<Step<'_>>) -> Result<Vec<Committed>> {
        let before = if steps.len() > 1 { self.copy_of(&steps) } else { BTreeMap::new() };
        let done: Result<Vec<Committed>> = steps.into_iter().map(|step| self.apply(step)).collect();
        if done.is_err() {
            self.put_back(before);
        }
        done
    }

    fn copy_of(&self, steps: &[Step<'_>]) -> BTreeMap<Arc<str>, Option<Thread>> {
        let ids: BTreeSet<&str> = steps.iter().map(Step::thread).collect();
        ids.into_iter().map(|id| (Arc::from(id), self.by_id.get(id).cloned())).collect()
    }

    fn put_back(&mut self, before: BTreeMap<Arc<str>, Option<Thread>>) {
        for (id, thread) in before {
            match thread {
                Some(thread) => self.by_id.insert(id, thread),
                None => self.by_id.remove(&id),
            };
        }
    }

    fn apply(&mut self, step: Step<'_>) -> Result<Committed> {
        match step {
            Step::Delete { thread, id: None } => Ok(Committed::Deleted { existed: self.by_id.remove(thread).is_some() }),
            Step::Delete { thread, id: Some(id) } => Ok(Committed::Deleted { existed: self.delete_checkpoint(thread, id) }),
            Step::Put { thread, id, tag, state, saved_at, options } => {
                let existing = self.by_id.get(thread);
                let head = existing.and_then(Thread::head).map(|head| &head.info.id);
                options.expected_head.check(head).map_err(|error| error.with_thread(thread))?;
                let parent = find_parent(thread, &options.parent, existing)?;
                let info = CheckpointInfo {
                    thread: existing.and_then(Thread::head).map_or_else(|| Arc::from(thread), |head| head.info.thread.clone()),
                    id: id.clone(),
                    seq: self.last_seq + 1,
                    parent,
                    saved_at,
                    metadata: options.metadata.clone(),
                    tag,
                    bytes: state.len() as u64,
                };
                self.put(Kept { info, state });
                Ok(Committed::Put(id))
            }
        }
    }

    fn put(&mut self, kept: Kept) {
        self.last_seq = kept.info.seq;
        let thread = self.by_id.entry(kept.info.thread.clone()).or_default();
        thread.put(kept);
        thread.trim(self.keep);
    }

    fn delete_checkpoint(&mut self, thread: &str, id: &CheckpointId) -> bool {
        let Entry::Occupied(mut found) = self.by_id.entry(Arc::from(thread)) else { return false };
        let existed = found.get_mut().delete(id);
        if found.get().checkpoints.is_empty() {
            found.remove();
        }
        existed
    }

    fn retain(&mut self, thread: Option<&str>, keep: Option<usize>) -> Result<()> {
        match thread {
            Some(id) => {
                let absent = || Error::new(ErrorKind::NotFound, "retention is set for a thread that is not there").with_thread(id);
                let thread = self.by_id.get_mut(id).ok_or_else(absent)?;
                thread.keep = Some(keep);
                thread.trim(keep);
            }
            None => {
                self.keep = keep;
                self.by_id.values_mut().for_each(|thread| thread.trim(keep));
            }
        }
        Ok(())
    }

    /// What a vacuum takes of each thread, and how many checkpoints that thread has.
    fn judge(&self, query: &VacuumQuery, now: SystemTime) -> Result<Vec<(Arc<str>, usize, Verdict)>> {
        let judge = |(id, thread): (&Arc<str>, &Thread)| {
            let kept = &thread.checkpoints;
            Ok((id.clone(), kept.len(), query.judge(kept.len(), now, |index| Ok(kept[index].info.saved_at))?))
        };
        match &query.thread {
            Some(id) => self.by_id.get_key_value(id.as_str()).into_iter().map(judge).collect(),
            None => self.by_id.iter().map(judge).collect(),
        }
    }

    /// Deletes what a vacuum takes; answers what that was.
    fn vacuum(&mut self, query: &VacuumQuery, now: SystemTime) -> Result<Vec<(Arc<str>, usize, Verdict)>> {
        let judged = self.judge(query, now)?;
        for (id, _, verdict) in &judged {
            match verdict {
                Verdict::Whole => drop(self.by_id.remove(id)),
                Verdict::Checkpoints(going) => {
                    if let Some(thread) = self.by_id.get_mut(id) {
                        thread.delete_all(going);
                    }
                }
            }
        }
        Ok(judged)
    }

    /// At most `limit` threads behind the query's cursor and within its prefix.
    fn summaries(&self, query: &ThreadQuery, limit: usize) -> Vec<Summary> {
        let threads = self.by_id.range::<str, _>(query.range()).take_while(|(id, _)| id.starts_with(query.matching.prefix()));
        threads.filter_map(|(_, thread)| thread.summary()).take(limit).collect()
    }
}

/// One thread's checkpoints, oldest first, which is also the order of their seqs.
#[derive(Clone, Default)]
struct Thread {
    checkpoints: VecDeque<Arc<Kept>>,
    seqs: HashMap<CheckpointId, u64>,
    bytes: u64,
    /// How many it keeps where that is not the store's number.
    keep: Option<Option<usize>>,
}

impl Thread {
    fn head(&self) -> Option<&Arc<Kept>> {
        self.checkpoints.back()
    }

    fn position(&self, id: &CheckpointId) -> Option<usize> {
        let seq = self.seqs.get(id)?;
        self.checkpoints.binary_search_by_key(seq, |kept| kept.info.seq).ok()
    }

    /// Adds a checkpoint at the end, or exchanges the one of its id, whose seq, place and parent stay.
    fn put(&mut self, mut kept: Kept) {
        self.bytes += kept.info.bytes;
        let place = self.position(&kept.info.id).and_then(|at| self.checkpoints.get_mut(at));
        if let Some(place) = place {
            kept.info.seq = place.info.seq;
            kept.info.parent = place.info.parent.clone();
            self.bytes -= place.info.bytes;
            *place = Arc::new(kept);
        } else {
            self.seqs.insert(kept.info.id.clone(), kept.info.seq);
            self.checkpoints.push_back(Arc::new(kept));
        }
    }

    fn delete(&mut self, id: &CheckpointId) -> bool {
        let removed = self.position(id).and_then(|at| self.checkpoints.remove(at));
        removed.inspect(|kept| self.forget(kept)).is_some()
    }

    /// Deletes those that stand there, counted from the oldest, ascending.
    fn delete_all(&mut self, going: &[usize]) {
        let mut going = going.iter().peekable();
        for (index, kept) in std::mem::take(&mut self.checkpoints).into_iter().enumerate() {
            if going.next_if_eq(&&index).is_some() { self.forget(&kept) } else { self.checkpoints.push_back(kept) }
        }
    }

    fn trim(&mut self, store_keep: Option<usize>) {
        let keep = self.keep.unwrap_or(store_keep).unwrap_or(usize::MAX);
        while self.checkpoints.len() > keep {
            let Some(oldest) = self.checkpoints.pop_front() else { return };
            self.forget(&oldest);
        }
    }

    fn forget(&mut self, kept: &Kept) {
        self.seqs.remove(&kept.info.id);
        self.bytes -= kept.info.bytes;
    }

    fn summary(&self) -> Option<Summary> {
        Some(Summary { head: self.head()?.clone(), checkpoints: self.checkpoints.len() as u64, bytes: self.bytes })
    }
}

/// What a listing of threads takes along from under the lock.
struct Summary {
    head: Arc<Kept>,
    checkpoints: u64,
    bytes: u64,
}

impl Summary {
    fn into_info(self) -> ThreadInfo {
        let CheckpointInfo { thread, id, saved_at, .. } = &self.head.info;
        ThreadInfo { thread: thread.to_string(), head: id.clone(), checkpoints: self.checkpoints, bytes: self.bytes, last_saved: *saved_at }
    }
}

fn find_parent(thread: &str, parent: &Parent, existing: Option<&Thread>) -> Result<Option<CheckpointId>> {
    match parent {
        Parent::Head => Ok(existing.and_then(Thread::head).map(|head| head.info.id.clone())),
        Parent::Root => Ok(None),
        Parent::Id(id) if existing.is_some_and(|existing| existing.seqs.contains_key(id)) => Ok(Some(id.clone())),
        Parent::Id(id) => {
            Err(Error::new(ErrorKind::NotFound, format!("the parent {id} is not in the thread; nothing was written")).with_thread(thread))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpointer::CheckpointerExt;
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
