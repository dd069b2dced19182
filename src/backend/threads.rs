//! What operations do to threads, for places that hold in memory what is known of each.
//!
//! `V` stands for a state or a value: its bytes, or the file that has them. A thread that someone else
//! holds as well is copied before it changes, so what was taken out stays as it was. No lock of its
//! own, no clock, no file. Numbers rise with every put and every attachment, and none is given twice.

mod branch;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, RwLockReadGuard};
use std::time::SystemTime;

use crate::batch::{Batch, Committed, OnExisting, Operation, PutOptions};
use crate::checkpoint::{CheckpointId, CheckpointInfo, StateBytes, TypeTag};
use crate::checkpointer::Items;
use crate::error::{Error, ErrorKind, Result};
use crate::finding::{NewestFirst, Row, Search};
use crate::query::{FindQuery, HistoryQuery, Matching, ThreadInfo, ThreadQuery, VacuumQuery, Vacuumed, Verdict};

/// Of an attachment whose batch is not through yet: it is newer than all there is.
const UNNUMBERED: u64 = u64::MAX;

/// A checkpoint that is there.
#[derive(Clone)]
pub(super) struct Kept<V> {
    pub info: CheckpointInfo,
    /// The number of the put that it is from: its seq, or a higher one where its id was put again.
    pub number: u64,
    pub value: V,
}

/// A value that is attached.
#[derive(Clone)]
pub(super) struct Attached<V> {
    pub tag: TypeTag,
    /// The value's size.
    pub bytes: u64,
    pub number: u64,
    pub value: V,
}

/// An operation made ready: its value held, its id and time chosen.
pub(super) struct Step<'a, V> {
    thread: &'a str,
    what: What<'a, V>,
}

enum What<'a, V> {
    Put { id: CheckpointId, tag: &'a TypeTag, value: V, bytes: u64, saved_at: SystemTime, options: &'a PutOptions },
    Attach { id: &'a CheckpointId, key: &'a str, tag: &'a TypeTag, value: V, bytes: u64, on: OnExisting },
    Delete { id: Option<&'a CheckpointId> },
}

impl<'a, V> Step<'a, V> {
    pub fn thread(&self) -> &'a str {
        self.thread
    }

    /// The steps of a batch; `hold` is given where an operation stands in it, and its bytes.
    pub fn all(batch: &'a Batch<'a>, now: SystemTime, hold: impl Fn(usize, &[u8]) -> V) -> Vec<Self> {
        let step = |(at, operation): (usize, &'a Operation<'a>)| match operation {
            Operation::Put { thread, tag, state, options } => {
                let id = options.id.clone().unwrap_or_else(CheckpointId::fresh);
                let saved_at = options.saved_at.unwrap_or(now);
                let what = What::Put { id, tag, value: hold(at, state), bytes: state.len() as u64, saved_at, options };
                Step { thread, what }
            }
            Operation::Attach { thread, id, key, tag, value, on } => {
                let bytes = value.len() as u64;
                Step { thread, what: What::Attach { id, key, tag, value: hold(at, value), bytes, on: *on } }
            }
            Operation::Delete { thread, id } => Step { thread, what: What::Delete { id: id.as_ref() } },
        };
        batch.operations().iter().enumerate().map(step).collect()
    }
}

/// Threads, in byte order of their ids. One without a checkpoint does not exist: it stands here for as
/// long as something is attached to checkpoints that are yet to come.
#[derive(Clone)]
pub(super) struct Threads<V> {
    pub by_id: BTreeMap<Arc<str>, Arc<Thread<V>>>,
    /// The highest number that was given.
    pub last: u64,
    /// How many checkpoints each thread keeps, unless it has its own number.
    pub keep: Option<usize>,
}

impl<V: Clone> Threads<V> {
    /// None.
    pub fn new(keep: Option<usize>) -> Self {
        Threads { by_id: BTreeMap::new(), last: 0, keep }
    }

    pub fn get(&self, thread: &str) -> Option<&Arc<Thread<V>>> {
        self.by_id.get(thread)
    }

    /// Those of these threads that are there, and what is true of all.
    pub fn part(&self, threads: &BTreeSet<&str>) -> Self {
        let there = threads.iter().filter_map(|id| self.by_id.get_key_value(*id));
        Threads { by_id: there.map(|(id, thread)| (id.clone(), thread.clone())).collect(), last: self.last, keep: self.keep }
    }

    /// The threads that are not the same in another version of these.
    pub fn difference(&self, other: &Self) -> Vec<Arc<str>> {
        let is_same = |id: &str, thread: &Arc<Thread<V>>| other.get(id).is_some_and(|other| Arc::ptr_eq(thread, other));
        let changed = self.by_id.iter().filter(|(id, thread)| !is_same(id, thread));
        let added = other.by_id.iter().filter(|(id, _)| self.get(id).is_none());
        changed.chain(added).map(|(id, _)| id.clone()).collect()
    }

    /// All or nothing: a step changes nothing when it is refused, and what the steps before it did is
    /// taken back.
    pub fn commit(&mut self, steps: Vec<Step<'_, V>>) -> Result<Vec<Committed>> {
        let touched: BTreeSet<&str> = steps.iter().map(|step| step.thread).collect();
        let before = (steps.len() > 1).then(|| self.standing(&touched));
        let done: Result<Vec<Committed>> = steps.into_iter().map(|step| self.apply(step)).collect();
        match (&done, before) {
            (Ok(_), _) => touched.into_iter().for_each(|thread| self.settle(thread)),
            (Err(_), Some(before)) => self.put_back(before),
            (Err(_), None) => {}
        }
        done
    }

    fn standing(&self, threads: &BTreeSet<&str>) -> BTreeMap<Arc<str>, Option<Arc<Thread<V>>>> {
        threads.iter().map(|id| (Arc::from(*id), self.by_id.get(*id).cloned())).collect()
    }

    /// Has those threads stand as they are given; `None` is one that is not there.
    pub fn put_back(&mut self, threads: impl IntoIterator<Item = (Arc<str>, Option<Arc<Thread<V>>>)>) {
        for (id, thread) in threads {
            match thread {
                Some(thread) => self.by_id.insert(id, thread),
                None => self.by_id.remove(&id),
            };
        }
    }

    fn apply(&mut self, step: Step<'_, V>) -> Result<Committed> {
        let Step { thread, what } = step;
        match what {
            What::Delete { id: None } => {
                let removed = self.by_id.remove(thread);
                Ok(Committed::Deleted { existed: removed.is_some_and(|thread| thread.exists()) })
            }
            What::Delete { id: Some(id) } => {
                let found = self.by_id.get_mut(thread).filter(|thread| thread.knows(id));
                let existed = found.is_some_and(|thread| Arc::make_mut(thread).delete(id));
                if existed && self.by_id.get(thread).is_some_and(|thread| !thread.exists()) {
                    // The last one ends the thread, with all that is attached.
                    self.by_id.remove(thread);
                }
                Ok(Committed::Deleted { existed })
            }
            What::Attach { id, key, tag, value, bytes, on } => {
                let is_there = self.by_id.get(thread).is_some_and(|thread| thread.attached(id).is_some_and(|keys| keys.contains_key(key)));
                let written = !is_there || on == OnExisting::Replace;
                if written {
                    let attached = Arc::new(Attached { tag: tag.clone(), bytes, number: UNNUMBERED, value });
                    Arc::make_mut(self.by_id.entry(Arc::from(thread)).or_default()).attach(id, key, attached);
                }
                Ok(Committed::Attached { written })
            }
            What::Put { id, tag, value, bytes, saved_at, options } => {
                let existing = self.by_id.get(thread);
                let head = existing.and_then(|thread| thread.head());
                let head_id = head.map(|head| &head.info.id);
                let is_there = |id: &CheckpointId| existing.is_some_and(|thread| thread.seqs.contains_key(id));
                let checked = options.expected_head.check(head_id).and_then(|()| options.parent.find(head_id, is_there));
                let parent = checked.map_err(|error| error.with_thread(thread))?;
                let name = head.map_or_else(|| Arc::from(thread), |head| head.info.thread.clone());
                self.last += 1;
                let info = CheckpointInfo {
                    thread: name.clone(),
                    id: id.clone(),
                    seq: self.last,
                    parent,
                    saved_at,
                    metadata: options.metadata.clone(),
                    tag: tag.clone(),
                    bytes,
                };
                let thread = Arc::make_mut(self.by_id.entry(name).or_default());
                thread.put(Kept { info, number: self.last, value });
                thread.trim(self.keep);
                Ok(Committed::Put(id))
            }
        }
    }

    /// What is to be done once the steps of a batch are through: what they attached gets its numbers,
    /// higher than those of the batch's puts, and what can have no checkpoint any more goes.
    fn settle(&mut self, id: &str) {
        let Some(thread) = self.by_id.get_mut(id) else { return };
        if !thread.attachments.is_empty() {
            let thread = Arc::make_mut(thread);
            thread.number(&mut self.last);
            thread.drop_orphans();
        }
        if thread.is_nothing() {
            self.by_id.remove(id);
        }
    }

    /// How many checkpoints a thread, or each, keeps.
    pub fn kept_of(&self, thread: Option<&str>) -> Option<usize> {
        thread.and_then(|thread| self.get(thread)).and_then(|thread| thread.keep).unwrap_or(self.keep)
    }

    /// Sets how many checkpoints a thread, or each, keeps, and trims those that have more.
    pub fn retain(&mut self, thread: Option<&str>, keep: Option<usize>) -> Result<()> {
        match thread {
            Some(id) => {
                let absent = || Error::new(ErrorKind::NotFound, "retention is set for a thread that is not there").with_thread(id);
                let thread = self.by_id.get_mut(id).filter(|thread| thread.exists()).ok_or_else(absent)?;
                let thread = Arc::make_mut(thread);
                thread.keep = Some(keep);
                thread.trim(keep);
                self.settle(id);
            }
            None => {
                self.keep = keep;
                let long = |thread: &Thread<V>| thread.checkpoints.len() > thread.limit(keep);
                let trimmed: Vec<Arc<str>> = self.by_id.iter().filter(|(_, thread)| long(thread)).map(|(id, _)| id.clone()).collect();
                for id in trimmed {
                    self.by_id.get_mut(&id).into_iter().for_each(|thread| Arc::make_mut(thread).trim(keep));
                    self.settle(&id);
                }
            }
        }
        Ok(())
    }

    /// What a vacuum takes of each thread that exists, and how many checkpoints that has.
    pub fn judge(&self, query: &VacuumQuery, now: SystemTime) -> Result<Judged> {
        let judge = |(id, thread): (&Arc<str>, &Arc<Thread<V>>)| {
            let kept = &thread.checkpoints;
            Ok((id.clone(), kept.len(), query.judge(kept.len(), now, |index| Ok(kept[index].info.saved_at))?))
        };
        let exists = |(_, thread): &(&Arc<str>, &Arc<Thread<V>>)| thread.exists();
        let judged: Result<_> = match &query.thread {
            Some(id) => self.by_id.get_key_value(id.as_str()).into_iter().filter(exists).map(judge).collect(),
            None => self.by_id.iter().filter(exists).map(judge).collect(),
        };
        judged.map(Judged)
    }

    /// Deletes what a vacuum was judged to take.
    pub fn vacuum(&mut self, judged: &Judged) {
        for (id, _, verdict) in &judged.0 {
            match verdict {
                Verdict::Whole => drop(self.by_id.remove(id)),
                Verdict::Checkpoints(going) if going.is_empty() => {}
                Verdict::Checkpoints(going) => {
                    self.by_id.get_mut(id).into_iter().for_each(|thread| Arc::make_mut(thread).delete_all(going));
                    self.settle(id);
                }
            }
        }
    }

    /// The checkpoints of a page, newest first.
    pub fn page(&self, thread: &str, query: &HistoryQuery) -> Result<Vec<Arc<Kept<V>>>> {
        let Some(found) = self.by_id.get(thread) else {
            return query.range(thread, 0, |_| None).map(|_| Vec::new());
        };
        let range = query.range(thread, found.checkpoints.len(), |id| found.position(id))?;
        Ok(found.checkpoints.range(range).rev().cloned().collect())
    }

    /// At most `limit` threads behind the query's cursor and within its prefix.
    fn summaries(&self, query: &ThreadQuery, limit: usize) -> Vec<Summary<V>> {
        let threads = self.by_id.range::<str, _>(query.range()).take_while(|(id, _)| id.starts_with(query.matching.prefix()));
        threads.filter_map(|(_, thread)| thread.summary()).take(limit).collect()
    }

    /// A page of the list of threads, which `read` is asked for under a lock.
    pub fn listed<'a>(query: &ThreadQuery, read: impl FnOnce() -> Result<RwLockReadGuard<'a, Self>>) -> Result<Items<ThreadInfo>>
    where
        V: Send + Sync + 'static,
    {
        query.check()?;
        let ThreadQuery { matching, offset, limit, .. } = query.clone();
        let limit = limit.unwrap_or(usize::MAX);
        // A pattern is tried after the lock: a costly one must not hold up those who put.
        let candidates = match matching {
            Matching::Glob(_) => usize::MAX,
            Matching::All | Matching::Prefix(_) => offset.saturating_add(limit),
        };
        let found = read()?.summaries(query, candidates);
        let fitting = found.into_iter().filter(move |summary| matching.fits(&summary.head.info.thread));
        Ok(Box::new(fitting.skip(offset).take(limit).map(|summary| Ok(summary.into_info()))))
    }

    /// What a query finds; `read` is asked for the threads under a lock, `state` for a state behind it.
    pub fn found<'a>(
        query: &FindQuery,
        read: impl FnOnce() -> Result<RwLockReadGuard<'a, Self>>,
        state: impl Fn(&Kept<V>) -> Result<StateBytes> + Send + 'static,
    ) -> Result<Items<CheckpointInfo>>
    where
        V: Send + Sync + 'static,
    {
        let search = Search::new(query)?;
        let threads: Vec<Arc<Thread<V>>> = match &query.thread {
            Some(thread) => read()?.get(thread).cloned().into_iter().collect(),
            None => read()?.by_id.values().cloned().collect(),
        };
        let found = search.among(NewestFirst::of(threads), move |search, (thread, at): (Arc<Thread<V>>, usize)| {
            let fits = |kept: &&Arc<Kept<V>>| search.fits_metadata(kept.info.metadata.as_str());
            let Some(kept) = thread.checkpoints.get(at).filter(fits) else { return Ok(None) };
            let fits = !search.reads_states() || search.fits_state(&kept.info.tag, &state(kept)?);
            Ok(fits.then(|| kept.info.clone()))
        });
        Ok(Box::new(found))
    }

    /// The threads that hold a checkpoint of that id.
    pub fn holders(&self, id: &CheckpointId) -> Vec<String> {
        self.by_id.iter().filter(|(_, thread)| thread.get(id).is_some()).map(|(thread, _)| thread.to_string()).collect()
    }
}

/// What a vacuum takes of each thread, and how many checkpoints that has.
pub(super) struct Judged(Vec<(Arc<str>, usize, Verdict)>);

impl Judged {
    pub fn count(&self) -> Vacuumed {
        let mut vacuumed = Vacuumed::default();
        self.0.iter().for_each(|(_, len, verdict)| vacuumed.add(verdict.count(*len)));
        vacuumed
    }
}

/// What is attached to one checkpoint, by key.
pub(super) type Keys<V> = BTreeMap<String, Arc<Attached<V>>>;

/// One thread's checkpoints, oldest first, which is also the order of their seqs; and what is attached
/// to these and to others that are yet to come.
#[derive(Clone)]
pub(super) struct Thread<V> {
    checkpoints: VecDeque<Arc<Kept<V>>>,
    seqs: HashMap<CheckpointId, u64>,
    bytes: u64,
    /// How many it keeps where that is not the store's number.
    pub keep: Option<Option<usize>>,
    /// By checkpoint id; never an empty map.
    attachments: BTreeMap<CheckpointId, Keys<V>>,
}

impl<V: Clone> Row for Arc<Thread<V>> {
    fn seq(&self, at: usize) -> Option<u64> {
        self.checkpoints.get(at).map(|kept| kept.info.seq)
    }

    fn len(&self) -> usize {
        self.checkpoints.len()
    }
}

impl<V> Default for Thread<V> {
    fn default() -> Self {
        Thread { checkpoints: VecDeque::new(), seqs: HashMap::new(), bytes: 0, keep: None, attachments: BTreeMap::new() }
    }
}

impl<V> Thread<V> {
    pub fn exists(&self) -> bool {
        !self.checkpoints.is_empty()
    }

    fn is_nothing(&self) -> bool {
        self.checkpoints.is_empty() && self.attachments.is_empty()
    }

    pub fn head(&self) -> Option<&Arc<Kept<V>>> {
        self.checkpoints.back()
    }

    /// Oldest first.
    pub fn checkpoints(&self) -> &VecDeque<Arc<Kept<V>>> {
        &self.checkpoints
    }

    pub fn position(&self, id: &CheckpointId) -> Option<usize> {
        let seq = self.seqs.get(id)?;
        self.checkpoints.binary_search_by_key(seq, |kept| kept.info.seq).ok()
    }

    pub fn get(&self, id: &CheckpointId) -> Option<&Arc<Kept<V>>> {
        self.checkpoints.get(self.position(id)?)
    }

    /// What is attached to a checkpoint of that id, whether it is there or not.
    pub fn attached(&self, id: &CheckpointId) -> Option<&Keys<V>> {
        self.attachments.get(id)
    }

    /// All that is attached: checkpoint ids, keys and values.
    pub fn attachments(&self) -> impl Iterator<Item = (&CheckpointId, &str, &Arc<Attached<V>>)> {
        self.attachments.iter().flat_map(|(id, keys)| keys.iter().map(move |(key, attached)| (id, key.as_str(), attached)))
    }

    fn knows(&self, id: &CheckpointId) -> bool {
        self.seqs.contains_key(id) || self.attached(id).is_some()
    }

    pub fn attach(&mut self, id: &CheckpointId, key: &str, attached: Arc<Attached<V>>) {
        self.attachments.entry(id.clone()).or_default().insert(key.to_owned(), attached);
    }

    /// Adds a checkpoint at the end, or exchanges the one of its id, whose seq, place and parent stay.
    pub fn put(&mut self, mut kept: Kept<V>) {
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

    /// Deletes the checkpoint of an id, with what is attached to that id; answers whether it was there.
    fn delete(&mut self, id: &CheckpointId) -> bool {
        self.attachments.remove(id);
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

    /// How many it keeps.
    fn limit(&self, store_keep: Option<usize>) -> usize {
        self.keep.unwrap_or(store_keep).unwrap_or(usize::MAX)
    }

    fn trim(&mut self, store_keep: Option<usize>) {
        while self.checkpoints.len() > self.limit(store_keep) {
            let Some(oldest) = self.checkpoints.pop_front() else { return };
            self.forget(&oldest);
        }
    }

    fn forget(&mut self, kept: &Kept<V>) {
        self.seqs.remove(&kept.info.id);
        self.attachments.remove(&kept.info.id);
        self.bytes -= kept.info.bytes;
    }

    /// Drops what was attached to a checkpoint that is not there, before the oldest one that is was put.
    fn drop_orphans(&mut self) {
        let Some(oldest) = self.checkpoints.front().map(|oldest| oldest.info.seq) else { return };
        self.attachments.retain(|id, keys| {
            if !self.seqs.contains_key(id) {
                keys.retain(|_, attached| attached.number > oldest);
            }
            !keys.is_empty()
        });
    }

    fn summary(&self) -> Option<Summary<V>> {
        Some(Summary { head: self.head()?.clone(), checkpoints: self.checkpoints.len() as u64, bytes: self.bytes })
    }
}

impl<V: Clone> Thread<V> {
    /// Gives what was attached last its numbers.
    fn number(&mut self, last: &mut u64) {
        for attached in self.attachments.values_mut().flat_map(BTreeMap::values_mut) {
            if attached.number == UNNUMBERED {
                *last += 1;
                Arc::make_mut(attached).number = *last;
            }
        }
    }
}

/// What a listing of threads takes along from under a lock.
struct Summary<V> {
    head: Arc<Kept<V>>,
    checkpoints: u64,
    bytes: u64,
}

impl<V> Summary<V> {
    fn into_info(self) -> ThreadInfo {
        let CheckpointInfo { thread, id, saved_at, .. } = &self.head.info;
        ThreadInfo { thread: thread.to_string(), head: id.clone(), checkpoints: self.checkpoints, bytes: self.bytes, last_saved: *saved_at }
    }
}
