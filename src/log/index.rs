//! Which checkpoints there are and where: what readers see, and what writers know beyond that.
//!
//! Readers look a thread up in a map that takes no lock and get its view. What is appended and not
//! yet visible waits in a queue, and in an overlay that only writers consult; publishing moves it
//! over in the log's order. A change of several threads shows in all of them at one instant. The
//! lock in here guards queue, overlay and names; no I/O happens under it.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::location::{Moves, Shift};
use super::view::View;
use crate::query::{Matching, ThreadQuery};

/// A thread's next view; `None` when it has ended.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// The thread.
    pub thread: Arc<str>,
    /// What it is from now on.
    pub view: Option<Arc<View>>,
}

/// A thread's place in the readers' map.
#[derive(Debug)]
enum Slot {
    Settled(Arc<View>),
    /// One of several threads that change together: `after` once the flag is set.
    Changing {
        done: Arc<AtomicBool>,
        before: Option<Arc<View>>,
        after: Option<Arc<View>>,
    },
}

impl Slot {
    fn current(&self) -> Option<&Arc<View>> {
        match self {
            Slot::Settled(view) => Some(view),
            Slot::Changing { done, before, after } => if done.load(Ordering::Acquire) { after } else { before }.as_ref(),
        }
    }
}

/// The index.
#[derive(Debug, Default)]
pub(crate) struct Index {
    slots: papaya::HashMap<Arc<str>, Slot>,
    /// How far [`Index::publish`] has come.
    published: AtomicU64,
    /// The sum of the frames that readers can get at, in bytes.
    live_bytes: AtomicU64,
    behind: Mutex<Behind>,
}

/// What stands behind the readers' map.
#[derive(Debug, Default)]
struct Behind {
    names: BTreeSet<Arc<str>>,
    /// Of threads without a checkpoint, in which something is attached to one that is yet to come.
    bare: BTreeSet<Arc<str>>,
    /// The number of the last record that is shown.
    shown_seq: u64,
    /// Batches that are appended and not visible.
    queue: VecDeque<Appended>,
    /// The newest appended view of each thread in the queue, with the end of its batch.
    overlay: HashMap<Arc<str>, (u64, Option<Arc<View>>)>,
}

/// A batch that is appended and not visible.
#[derive(Debug)]
struct Appended {
    /// Where it ends.
    end: u64,
    /// The number of its last record.
    seq: u64,
    changes: Vec<Change>,
}

/// All that readers see at one moment.
pub(crate) struct Moment {
    /// The threads, in order; also those without a checkpoint.
    pub views: Vec<Arc<View>>,
    /// Up to where in the log that is.
    pub published: u64,
}

impl Index {
    /// An index of a log that was read up to `end`, and its record numbered `seq`.
    pub fn of(end: u64, seq: u64, threads: HashMap<Arc<str>, Arc<View>>) -> Index {
        let index = Index { published: AtomicU64::new(end), ..Index::default() };
        let mut behind = index.behind();
        behind.shown_seq = seq;
        for (thread, view) in threads {
            index.settle(&mut behind, &Change { thread, view: Some(view) });
        }
        drop(behind);
        index
    }

    /// The thread as readers see it now. No lock, no system call.
    pub fn get(&self, thread: &str) -> Option<Arc<View>> {
        self.slots.pin().get(thread).and_then(Slot::current).cloned()
    }

    /// The thread as the next writer must see it: with what is appended and not yet visible.
    pub fn appended(&self, thread: &str) -> Option<Arc<View>> {
        match self.behind().overlay.get(thread) {
            Some((_, view)) => view.clone(),
            None => self.get(thread),
        }
    }

    /// How far what readers find here has come. Nothing that ends there is still to be taken in.
    pub fn published(&self) -> u64 {
        self.published.load(Ordering::Acquire)
    }

    /// The same, and the number of the last record that is shown: what comes is above it.
    pub fn shown(&self) -> (u64, u64) {
        let behind = self.behind();
        (self.published(), behind.shown_seq)
    }

    /// The sum of the frames that readers can get at, in bytes.
    pub fn live_bytes(&self) -> u64 {
        self.live_bytes.load(Ordering::Relaxed)
    }

    /// All that readers see, at one moment.
    pub fn moment(&self) -> Moment {
        let behind = self.behind();
        let slots = self.slots.pin();
        let all = behind.names.iter().chain(&behind.bare);
        let mut views: Vec<Arc<View>> = all.filter_map(|name| slots.get(name).and_then(Slot::current).cloned()).collect();
        if !behind.bare.is_empty() {
            views.sort_unstable_by(|one, other| one.thread().cmp(other.thread()));
        }
        Moment { views, published: self.published() }
    }

    /// Notes a batch's changes as appended up to `end` and the record numbered `seq`. In the turn, so
    /// in the log's order.
    pub fn append(&self, end: u64, seq: u64, changes: Vec<Change>) {
        let mut behind = self.behind();
        for change in &changes {
            behind.overlay.insert(change.thread.clone(), (end, change.view.clone()));
        }
        behind.queue.push_back(Appended { end, seq, changes });
    }

    /// Makes every batch that ends at or before `visible` visible, in order. No batch that ends
    /// there may be noted later: the appended end goes up only after its changes are noted.
    pub fn publish(&self, visible: u64) {
        if self.published.load(Ordering::Acquire) >= visible {
            return;
        }
        let mut behind = self.behind();
        while behind.queue.front().is_some_and(|batch| batch.end <= visible) {
            let Some(Appended { end, seq, changes }) = behind.queue.pop_front() else { return };
            self.show(&mut behind, &changes);
            behind.shown_seq = seq;
            for change in changes {
                if behind.overlay.get(&change.thread).is_some_and(|(latest, _)| *latest == end) {
                    behind.overlay.remove(&change.thread);
                }
            }
        }
        self.published.fetch_max(visible, Ordering::Release);
    }

    /// Shows other threads than before, all at one instant: those of a log that was read anew up to
    /// `end` and the record numbered `seq`. What was appended and not visible is forgotten.
    pub fn replace(&self, end: u64, seq: u64, mut threads: HashMap<Arc<str>, Arc<View>>) {
        let mut behind = self.behind();
        behind.queue.clear();
        behind.overlay.clear();
        let mut changes = Vec::new();
        for thread in behind.names.iter().chain(&behind.bare) {
            let view = threads.remove(thread);
            if view != self.get(thread) {
                changes.push(Change { thread: thread.clone(), view });
            }
        }
        changes.extend(threads.into_iter().map(|(thread, view)| Change { thread, view: Some(view) }));
        self.show(&mut behind, &changes);
        behind.shown_seq = seq;
        // Not the highest: what was shown beyond that is not there any more.
        self.published.store(end, Ordering::Release);
    }

    /// Finds the frames of these threads where a run of them was written anew, in what readers see
    /// and in what is not visible yet.
    pub fn moved(&self, threads: &HashSet<Box<str>>, shift: &Shift) {
        self.each_view(threads.iter().map(|thread| &**thread), |view| view.moved(shift));
    }

    /// The same where compaction wrote them anew. False if one of them is nowhere to be found.
    pub fn relocated(&self, moves: &Moves) -> bool {
        let mut found = true;
        self.each_view(moves.threads(), |view| {
            view.relocated(moves).unwrap_or_else(|| {
                found = false;
                view.clone()
            })
        });
        found
    }

    /// Replaces each view of these threads, those that readers see and those that are not visible yet.
    fn each_view<'a>(&self, threads: impl Iterator<Item = &'a str>, mut next: impl FnMut(&View) -> View) {
        let mut behind = self.behind();
        let threads: HashSet<&str> = threads.collect();
        let Behind { queue, overlay, .. } = &mut *behind;
        for change in queue.iter_mut().flat_map(|batch| &mut batch.changes).filter(|change| threads.contains(&*change.thread)) {
            change.view = change.view.as_ref().map(|view| Arc::new(next(view)));
        }
        for (_, (_, view)) in overlay.iter_mut().filter(|(thread, _)| threads.contains(&***thread)) {
            *view = view.as_ref().map(|view| Arc::new(next(view)));
        }
        for thread in threads {
            if let Some(view) = self.get(thread) {
                self.settle(&mut behind, &Change { thread: view.thread().clone(), view: Some(Arc::new(next(&view))) });
            }
        }
    }

    /// One moment's threads with checkpoints that a query asks for, in order.
    pub fn list(&self, query: &ThreadQuery) -> Vec<Arc<View>> {
        let (offset, limit) = (query.offset, query.limit.unwrap_or(usize::MAX));
        if let Matching::Glob(_) = query.matching {
            // Matching may take long, so it is done when writers do not wait for it.
            let all = self.range(query, 0, usize::MAX);
            return all.into_iter().filter(|view| query.matching.fits(view.thread())).skip(offset).take(limit).collect();
        }
        self.range(query, offset, limit)
    }

    fn range(&self, query: &ThreadQuery, offset: usize, limit: usize) -> Vec<Arc<View>> {
        let behind = self.behind();
        let slots = self.slots.pin();
        let names = behind.names.range::<str, _>(query.range()).take_while(|name| name.starts_with(query.matching.prefix()));
        names.skip(offset).take(limit).filter_map(|name| slots.get(name).and_then(Slot::current).cloned()).collect()
    }

    /// How many batches are taken in and not shown.
    #[cfg(test)]
    pub fn unshown(&self) -> usize {
        self.behind().queue.len()
    }

    fn behind(&self) -> MutexGuard<'_, Behind> {
        // A panic elsewhere leaves nothing half done here: each step of ours is complete in itself.
        self.behind.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn show(&self, behind: &mut Behind, changes: &[Change]) {
        if let [change] = changes {
            self.settle(behind, change);
            return;
        }
        let done = Arc::new(AtomicBool::new(false));
        for change in changes {
            let before = self.get(&change.thread);
            self.slots.pin().insert(change.thread.clone(), Slot::Changing { done: done.clone(), before, after: change.view.clone() });
        }
        // The one instant at which all of them change for every reader.
        done.store(true, Ordering::Release);
        for change in changes {
            self.settle(behind, change);
        }
    }

    fn settle(&self, behind: &mut Behind, change: &Change) {
        let slots = self.slots.pin();
        let Behind { names, bare, .. } = behind;
        let (its, not_its) = if change.view.as_ref().is_none_or(|view| view.len() > 0) { (names, bare) } else { (bare, names) };
        not_its.remove(&change.thread);
        let old = match &change.view {
            Some(view) => {
                if !its.contains(&change.thread) {
                    its.insert(change.thread.clone());
                }
                slots.insert(change.thread.clone(), Slot::Settled(view.clone()))
            }
            None => {
                its.remove(&change.thread);
                slots.remove(&change.thread)
            }
        };
        // A slot that is changing was counted as it was before.
        let counted = old.and_then(|slot| match slot {
            Slot::Settled(view) => Some(view),
            Slot::Changing { before, .. } => before.as_ref(),
        });
        let bytes = |view: Option<&Arc<View>>| view.map_or(0, |view| view.frame_bytes());
        let live = self.live_bytes.load(Ordering::Relaxed);
        self.live_bytes.store(live + bytes(change.view.as_ref()) - bytes(counted), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::ids::IdKey;
    use crate::log::location::Location;
    use crate::log::view::{Entry, StateLen};
    use crate::query::Matching;

    fn change(thread: &str, place: u64) -> Change {
        let at = Location { segment: 1, offset8: 9, length8: 9 };
        let entry = Entry { place, id: IdKey::Text("id".into()), at, state_len: StateLen::new(1, false) };
        let thread: Arc<str> = thread.into();
        Change { thread: thread.clone(), view: Some(Arc::new(View::empty(thread).put(entry, 0))) }
    }

    fn gone(thread: &str) -> Change {
        Change { thread: thread.into(), view: None }
    }

    fn place(view: Option<Arc<View>>) -> Option<u64> {
        view.and_then(|view| view.head().map(|entry| entry.place))
    }

    #[test]
    fn readers_see_what_is_visible_and_writers_what_is_appended() {
        let index = Index::default();
        index.append(10, 1, vec![change("t", 1)]);
        index.append(20, 2, vec![gone("t")]);
        index.append(30, 3, vec![change("t", 3)]);
        index.append(40, 4, vec![gone("t")]);
        for (visible, reader) in [(0, None), (10, Some(1)), (25, None), (30, Some(3)), (40, None)] {
            index.publish(visible);
            assert_eq!((place(index.get("t")), place(index.appended("t"))), (reader, None), "visible to {visible}");
        }
        assert!(index.behind().queue.is_empty() && index.behind().overlay.is_empty());
    }

    #[test]
    fn a_list_is_in_order_and_paged() {
        let index = Index::default();
        for (end, thread) in ["b", "a", "ab", "é", "a*"].into_iter().enumerate() {
            index.append(end as u64, end as u64, vec![change(thread, end as u64 + 1)]);
        }
        index.publish(9);
        let list = |query: ThreadQuery| index.list(&query).iter().map(|view| view.thread().to_string()).collect::<Vec<_>>();
        assert_eq!(list(ThreadQuery::default()), ["a", "a*", "ab", "b", "é"]);
        assert_eq!(list(ThreadQuery { offset: 1, limit: Some(2), ..Default::default() }), ["a*", "ab"]);
        assert_eq!(
            list(ThreadQuery { matching: Matching::Prefix("a".into()), after: Some("a".into()), ..Default::default() }),
            ["a*", "ab"]
        );
        assert_eq!(list(ThreadQuery { matching: Matching::Prefix("b".into()), after: Some("a".into()), ..Default::default() }), ["b"]);
        assert_eq!(list(ThreadQuery { matching: Matching::Glob(r"a\*".into()), ..Default::default() }), ["a*"]);
        assert!(list(ThreadQuery { offset: 9, ..Default::default() }).is_empty());
    }

    #[test]
    fn threads_that_change_together_are_never_seen_half() {
        let index = Arc::new(Index::default());
        let rounds = 2000;
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                loop {
                    let first = place(index.get("a")).unwrap_or(0);
                    let second = place(index.get("b")).unwrap_or(0);
                    assert!(second >= first, "b was seen at {second} after a at {first}");
                    if first == rounds {
                        return;
                    }
                }
            });
            for round in 1..=rounds {
                index.append(round, round, vec![change("a", round), change("b", round)]);
                index.publish(round);
            }
            reader.join().unwrap();
        });
    }
}
