//! One thread as its readers see it: an immutable value, replaced whole by each change.
//!
//! Pure: a change takes a view and gives the next one, sharing what is the same, so whoever holds a
//! view (a reader, an iterator) has one moment of the thread for as long as it likes. Replay and the
//! live store make their views here alike, which is why the live index equals the rebuilt one.

use std::sync::{Arc, OnceLock};

use super::attached::{Attached, Attachments};
use super::ids::{IdKey, IdTable};
use super::location::{Location, Moves, Shift};
use super::steps::Steps;
use crate::checkpoint::CheckpointId;

/// What the index knows of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Where it stands in the thread's order: the number it was first put under.
    pub place: u64,
    /// Its id.
    pub id: IdKey,
    /// Its frame.
    pub at: Location,
    /// Its state's size, in bytes, and whether it is stored as a delta.
    pub state_len: StateLen,
}

const _: () = assert!(size_of::<Entry>() == 48, "the index holds one of these per checkpoint");

impl Entry {
    /// Whether its state is stored as a difference from the checkpoint before it.
    pub fn is_delta(&self) -> bool {
        self.state_len.is_delta()
    }
}

/// A state's size, and in the bits that no size needs whether it is stored as a delta.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StateLen(u32);

impl StateLen {
    const DELTA: u32 = 0b111 << 29;

    /// So many bytes: at most 3 GiB whole, and 64 MiB as a delta.
    pub fn new(bytes: u32, is_delta: bool) -> StateLen {
        StateLen(if is_delta { Self::DELTA | bytes } else { bytes.min(Self::DELTA - 1) })
    }

    /// The size, in bytes.
    pub fn bytes(self) -> u32 {
        if self.is_delta() { self.0 & !Self::DELTA } else { self.0 }
    }

    /// Whether it is a delta's.
    pub fn is_delta(self) -> bool {
        self.0 >= Self::DELTA
    }
}

/// How many checkpoints a thread keeps, where it has a limit of its own; `Some(None)` is all.
pub(crate) type Keep = Option<Option<u64>>;

/// A thread: its checkpoints in order, oldest first, and what it keeps.
///
/// A delta's base is the checkpoint that stood directly before it when it was put. One that is shown
/// no more is *hidden* for as long as the delta needs it: every hidden entry is directly followed, among
/// what is shown and hidden, by a delta. Of two at one place, the hidden one was there first.
#[derive(Clone, Debug)]
pub(crate) struct View {
    thread: Arc<str>,
    steps: Steps,
    /// In the order of their places.
    hidden: Arc<[Entry]>,
    attached: Attachments,
    /// Finds long threads' checkpoints by id; counted from the entry numbered `first` on. Made when
    /// it is first asked for, and shared with the views that come after.
    ids: OnceLock<Arc<IdTable>>,
    first: u32,
    floor: u64,
    keep: Keep,
    state_bytes: u64,
    frame_bytes: u64,
}

impl View {
    /// A thread without checkpoints, as it is before its first put.
    pub fn empty(thread: Arc<str>) -> View {
        let (steps, hidden, attached, ids) = (Steps::default(), Arc::default(), Attachments::default(), OnceLock::new());
        View { thread, steps, hidden, attached, ids, first: 0, floor: 0, keep: None, state_bytes: 0, frame_bytes: 0 }
    }

    /// Whether nothing is left of it: no checkpoint, nothing attached to one that is yet to come, and neither floor
    /// nor limit, which stay where the last checkpoint was deleted by who could not read all of the log.
    pub fn is_nothing(&self) -> bool {
        self.len() == 0 && self.attached.is_empty() && self.floor == 0 && self.keep.is_none()
    }

    /// The thread's id.
    pub fn thread(&self) -> &Arc<str> {
        &self.thread
    }

    /// How many checkpoints it shows.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// The checkpoint at `index`, oldest first.
    pub fn entry(&self, index: usize) -> Option<&Entry> {
        self.steps.get(index)
    }

    /// The newest checkpoint.
    pub fn head(&self) -> Option<&Entry> {
        self.len().checked_sub(1).and_then(|last| self.entry(last))
    }

    /// All checkpoints, oldest first.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        (0..self.len()).filter_map(|index| self.entry(index))
    }

    /// What is not shown and still needed, in the order of places.
    pub fn hidden(&self) -> &[Entry] {
        &self.hidden
    }

    /// What is attached to its checkpoints, and to those that are yet to come.
    pub fn attached(&self) -> &Attachments {
        &self.attached
    }

    /// Whether the frame of a checkpoint at a place is still needed.
    pub fn needs(&self, place: u64, at: Location) -> bool {
        let is_it = |entry: &Entry| entry.at == at;
        self.at_place(place).is_some_and(is_it) || self.hidden_at(place).is_some_and(is_it)
    }

    /// Whether what stood at a place is hidden there.
    pub fn hides(&self, place: u64) -> bool {
        self.hidden_at(place).is_some()
    }

    /// What the state of a delta put after it is a difference from, given that one's place.
    pub fn base(&self, place: u64) -> Option<&Entry> {
        self.hidden_at(place).or_else(|| self.at_place(place))
    }

    /// The deltas that are shown and need what is hidden, each with that.
    pub fn stranded(&self) -> impl Iterator<Item = (&Entry, &[Entry])> {
        let next = |hidden: &Entry| self.entry(self.below(hidden.place + 1));
        let needs_it = move |one: &Entry, other: &Entry| next(one).is_none_or(|shown| other.place <= shown.place);
        self.hidden.chunk_by(needs_it).filter_map(move |needed| Some((next(needed.last()?)?, needed)))
    }

    /// Whether a keyframe stands above a place: then what stands there is seldom asked for.
    pub fn has_left(&self, place: u64) -> bool {
        self.entries().rev().find(|entry| !entry.is_delta()).is_some_and(|keyframe| keyframe.place > place)
    }

    fn hidden_at(&self, place: u64) -> Option<&Entry> {
        self.hidden.binary_search_by_key(&place, |entry| entry.place).ok().map(|found| &self.hidden[found])
    }

    /// The sum of the states' sizes.
    pub fn state_bytes(&self) -> u64 {
        self.state_bytes
    }

    /// The sum of the frames' lengths, hidden ones and those of attachments among them.
    pub fn frame_bytes(&self) -> u64 {
        self.frame_bytes + self.attached.frame_bytes()
    }

    /// The thread's own limit.
    pub fn keep(&self) -> Keep {
        self.keep
    }

    /// Where the checkpoint of that id stands.
    pub fn find(&self, id: &IdKey) -> Option<usize> {
        if self.len() <= IdTable::WORTH_IT {
            return (0..self.len()).rev().find(|&index| self.entry(index).is_some_and(|entry| entry.id == *id));
        }
        self.ids.get_or_init(|| self.table()).find(id, |number| {
            let index = number.wrapping_sub(self.first) as usize;
            self.entry(index).filter(|entry| entry.id == *id).map(|_| index)
        })
    }

    /// Where the checkpoint of that id stands, or without one the newest.
    pub fn point(&self, id: Option<&CheckpointId>) -> Option<usize> {
        id.map_or_else(|| self.len().checked_sub(1), |id| self.find(&IdKey::from(id)))
    }

    fn table(&self) -> Arc<IdTable> {
        let table = IdTable::for_entries(self.len());
        for (number, entry) in self.entries().enumerate() {
            table.add(&entry.id, self.first.wrapping_add(number as u32));
        }
        Arc::new(table)
    }

    /// Whether a checkpoint that stood at a place was deleted, and not only trimmed.
    pub fn was_deleted(&self, place: u64) -> bool {
        place >= self.floor && self.entry(self.below(place)).is_none_or(|entry| entry.place != place)
    }

    /// Whether a place is below all that is kept.
    pub fn was_trimmed(&self, place: u64) -> bool {
        place < self.floor
    }

    /// The floor that a limit of `keep` gives, once one more checkpoint has been put at `added`.
    pub fn floor_keeping(&self, keep: Option<u64>, added: Option<u64>) -> u64 {
        let Some(keep) = keep.map(|keep| usize::try_from(keep).unwrap_or(usize::MAX)) else { return self.floor };
        let total = self.len() + usize::from(added.is_some());
        let lowest = match total.checked_sub(keep) {
            None | Some(0) => self.floor,
            Some(dropped) => self.entry(dropped).map(|entry| entry.place).or(added).unwrap_or(self.floor),
        };
        lowest.max(self.floor)
    }

    /// After a put: at its place, which is new or one the thread has, and above the floor.
    pub fn put(&self, entry: Entry, floor: u64) -> View {
        let mut next = self.clone();
        next.floor = next.floor.max(floor);
        if entry.place < next.floor {
            return next.trimmed();
        }
        if self.head().is_some_and(|head| head.place >= entry.place) {
            let replaced = next.set(entry);
            next.hide(replaced.iter());
            return next.trimmed();
        }
        next.count(&entry, true);
        let dropped = self.below(next.floor);
        for index in 0..dropped {
            next.discount(self.entry(index));
        }
        next.first = next.first.wrapping_add(dropped as u32);
        next.steps = self.steps.after(dropped, entry);
        next.index_last();
        next.let_go_below_floor();
        if dropped > 0 {
            let needed = next.needed_of(self, dropped);
            next.hide(needed);
        }
        next
    }

    /// After the checkpoint at a place was written anew, whole: what is stored as a difference from it
    /// needs that, and nothing of what it was.
    pub fn promoted(&self, entry: Entry, floor: u64) -> View {
        let mut next = self.clone();
        next.floor = next.floor.max(floor);
        if entry.place >= next.floor {
            next.set(entry);
            next.hide([].iter());
        }
        next.trimmed()
    }

    /// Sets the entry at its place; answers the one that stood there.
    fn set(&mut self, entry: Entry) -> Option<Entry> {
        self.count(&entry, true);
        let index = self.below(entry.place);
        let there = self.entry(index).filter(|there| there.place == entry.place).cloned();
        let same_id = there.as_ref().is_some_and(|there| there.id == entry.id);
        if there.is_some() {
            self.discount(there.as_ref());
            self.steps = self.steps.replaced(index, entry);
        } else {
            // Only where damage took the put that this one replaces, or compaction the one it promotes.
            let entries = self.entries().take(index).chain([&entry]).chain(self.entries().skip(index));
            self.steps = entries.cloned().collect();
        }
        if !same_id {
            self.index_anew();
        }
        there
    }

    /// After `count` puts at ascending places above all that it has: what one put after the other would
    /// give. For replay, where nobody looks in between.
    pub fn put_run(&self, count: usize, entry: impl Fn(usize) -> Entry, floor: u64) -> View {
        let mut next = self.clone();
        next.floor = next.floor.max(floor);
        next.steps = self.steps.extended(count, entry);
        for index in self.len()..next.len() {
            if let Some(Entry { at, state_len, .. }) = next.steps.get(index) {
                next.state_bytes += u64::from(state_len.bytes());
                next.frame_bytes += at.length();
            }
        }
        next.index_anew();
        next.trimmed()
    }

    /// After the checkpoint at a place was deleted.
    pub fn without(&self, place: u64) -> View {
        let mut next = self.clone();
        // What is attached to it may be met without it.
        next.let_go_of(|at| at == place);
        let index = self.below(place);
        let Some(gone) = self.entry(index).filter(|entry| entry.place == place) else { return next };
        next.discount(Some(gone));
        if index + 1 == self.len() {
            next.steps = self.steps.without_last();
        } else {
            next.steps = self.entries().filter(|entry| entry.place != place).cloned().collect();
            next.index_anew();
        }
        next.hide([gone].into_iter());
        next
    }

    /// After the checkpoints at these places were deleted: what one delete after the other would give,
    /// copied once.
    pub fn without_all(&self, places: &[u64]) -> View {
        if let [place] = places {
            return self.without(*place);
        }
        let mut sorted = places.to_vec();
        sorted.sort_unstable();
        let (gone, kept): (Vec<&Entry>, Vec<&Entry>) = self.entries().partition(|entry| sorted.binary_search(&entry.place).is_ok());
        let mut next = self.clone();
        next.let_go_of(|at| sorted.binary_search(&at).is_ok());
        if !gone.is_empty() {
            gone.iter().for_each(|entry| next.discount(Some(entry)));
            next.steps = kept.into_iter().cloned().collect();
            next.index_anew();
            next.hide(gone.into_iter());
        }
        next
    }

    /// After a trim: nothing below the floor is kept.
    pub fn above(&self, floor: u64) -> View {
        let mut next = self.clone();
        next.floor = next.floor.max(floor);
        next.trimmed()
    }

    /// After the thread was given a limit of its own.
    pub fn keeping(&self, keep: Option<u64>) -> View {
        View { keep: Some(keep), ..self.clone() }
    }

    /// After a value was attached to a checkpoint, under a key that may have had another.
    pub fn attach(&self, one: Attached) -> View {
        View { attached: self.attached.with(one), ..self.clone() }
    }

    /// After what was attached to a checkpoint before it came, up to a number, was bound to its place.
    pub fn bound(&self, id: &IdKey, number: u64, place: u64) -> View {
        let bound = |one: &Attached| {
            let is_it = one.is_awaiting && one.number <= number;
            is_it.then(|| one.bound(place))
        };
        let mut next = View { attached: self.attached.exchanged_of(id, bound), ..self.clone() };
        next.let_go_below_floor();
        next
    }

    /// After what was attached to a checkpoint that has not come, up to a number, went.
    pub fn detached(&self, id: &IdKey, number: u64) -> View {
        let stays = |one: &Attached| one.id != *id || !one.is_awaiting || one.number > number;
        View { attached: self.attached.retained(stays), ..self.clone() }
    }

    fn let_go_below_floor(&mut self) {
        let floor = self.floor;
        if self.attached.may_be_below(floor, false) {
            self.let_go_of(|place| place < floor);
        }
    }

    /// Whether an attachment is to be seen: its checkpoint is shown, or yet to come. Damage may have taken the checkpoint
    /// alone; then another one of its id has nothing of it.
    pub fn shows(&self, one: &Attached) -> bool {
        one.is_awaiting || self.at_place(one.place).is_some_and(|entry| entry.id == one.id)
    }

    /// Lets go of what is attached to checkpoints at the places of which `goes` says so.
    fn let_go_of(&mut self, goes: impl Fn(u64) -> bool) {
        if !self.attached.is_empty() {
            self.attached = self.attached.retained(|one| one.is_awaiting || !goes(one.place));
        }
    }

    /// After a run of its frames was written anew elsewhere.
    pub fn moved(&self, shift: &Shift) -> View {
        let moved = |entry: &Entry| Entry { at: shift.of(entry.at), ..entry.clone() };
        let attached = self.attached.exchanged(|one| Some(Some(Attached { at: shift.of(one.at), ..one.clone() })));
        let (steps, hidden) = (self.entries().map(moved).collect(), self.hidden.iter().map(moved).collect());
        View { steps, hidden, attached: attached.unwrap_or_default(), ..self.clone() }
    }

    /// After compaction wrote some of its frames anew; `None` if one of them is nowhere.
    pub fn relocated(&self, moves: &Moves) -> Option<View> {
        let thread = moves.of(&self.thread);
        // Trimmed entries at the front of a chunk may lead nowhere; nobody asks for them.
        let floor = self.entry(0).map_or(u64::MAX, |oldest| oldest.place);
        let steps = self.steps.exchanged(|entry| if entry.place < floor { Some(None) } else { thread.newest(entry) })?;
        let hidden = self.hidden.iter().map(|entry| Some(thread.only(entry)?.unwrap_or_else(|| entry.clone())));
        let attached = self.attached.exchanged(|one| thread.attached(one))?;
        let mut next = View { steps, hidden: hidden.collect::<Option<_>>()?, attached, ..self.clone() };
        next.frame_bytes = next.entries().chain(&*next.hidden).map(|entry| entry.at.length()).sum();
        Some(next)
    }

    /// The checkpoint at a place.
    pub fn at_place(&self, place: u64) -> Option<&Entry> {
        self.entry(self.below(place)).filter(|entry| entry.place == place)
    }

    /// The lowest place that it keeps.
    pub fn floor(&self) -> u64 {
        self.floor
    }

    /// How many checkpoints stand below a place.
    fn below(&self, place: u64) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.entry(middle).is_some_and(|entry| entry.place < place) { low = middle + 1 } else { high = middle }
        }
        low
    }

    fn trimmed(mut self) -> View {
        self.let_go_below_floor();
        let dropped = self.below(self.floor);
        if dropped > 0 {
            let before = self.clone();
            for index in 0..dropped {
                self.discount(before.entry(index));
            }
            self.first = self.first.wrapping_add(dropped as u32);
            self.steps = self.steps.without_first(dropped);
            let needed = self.needed_of(&before, dropped);
            self.hide(needed);
        }
        self
    }

    /// Of the first `dropped` checkpoints of what this thread was those that the oldest it has now needs.
    fn needed_of<'a>(&self, before: &'a View, dropped: usize) -> impl DoubleEndedIterator<Item = &'a Entry> + use<'a> {
        // What is hidden may need any of them.
        let goes_on = |entry: Option<&Entry>| !before.hidden.is_empty() || entry.is_some_and(Entry::is_delta);
        let (mut from, mut oldest) = (dropped, self.entry(0));
        while goes_on(oldest) && from > 0 {
            from -= 1;
            oldest = before.entry(from);
        }
        (from..dropped).filter_map(|index| before.entry(index))
    }

    /// Hides those of `gone` (in order, shown no more) that a delta needs, and lets go of what none needs
    /// any more.
    fn hide<'a>(&mut self, gone: impl DoubleEndedIterator<Item = &'a Entry>) {
        let mut gone = gone.rev().peekable();
        if self.hidden.is_empty() && gone.peek().is_none() {
            return;
        }
        let hidden = self.hidden.clone();
        let mut hidden = hidden.iter().rev().peekable();
        let mut kept: Vec<Entry> = Vec::new();
        loop {
            let (next_hidden, next_gone) = (hidden.peek().map(|entry| entry.place), gone.peek().map(|entry| entry.place));
            if next_gone.is_some() && next_gone == next_hidden {
                // What depends on this place was put before what is gone of it.
                gone.next();
            }
            let entry = if next_gone > next_hidden { gone.next() } else { hidden.next() };
            let Some(entry) = entry else { break };
            let shown = self.entry(self.below(entry.place + 1));
            let next = kept.last().filter(|hidden| shown.is_none_or(|shown| hidden.place <= shown.place)).or(shown);
            if next.is_some_and(Entry::is_delta) {
                kept.push(entry.clone());
            }
        }
        kept.reverse();
        let bytes = |entries: &[Entry]| entries.iter().map(|entry| entry.at.length()).sum::<u64>();
        self.frame_bytes = self.frame_bytes - bytes(&self.hidden) + bytes(&kept);
        self.hidden = kept.into();
    }

    fn count(&mut self, entry: &Entry, added: bool) {
        let sign = |total: &mut u64, bytes: u64| *total = if added { *total + bytes } else { total.saturating_sub(bytes) };
        sign(&mut self.state_bytes, u64::from(entry.state_len.bytes()));
        sign(&mut self.frame_bytes, entry.at.length());
    }

    fn discount(&mut self, entry: Option<&Entry>) {
        if let Some(entry) = entry {
            self.count(entry, false);
        }
    }

    /// Notes the newest entry's id, where there is a table.
    fn index_last(&mut self) {
        let number = self.first.wrapping_add(self.len() as u32 - 1);
        let noted = match (self.ids.get(), self.head()) {
            (Some(table), Some(head)) => table.add(&head.id, number),
            _ => false,
        };
        if !noted {
            self.index_anew();
        }
    }

    /// Counts entries from 0 again; the table is made when it is next asked for.
    fn index_anew(&mut self) {
        (self.first, self.ids) = (0, OnceLock::new());
    }
}

impl PartialEq for View {
    fn eq(&self, other: &View) -> bool {
        self.thread == other.thread
            && (self.floor, self.keep, self.state_bytes, self.frame_bytes)
                == (other.floor, other.keep, other.state_bytes, other.frame_bytes)
            && self.len() == other.len()
            && self.entries().eq(other.entries())
            && self.hidden == other.hidden
            && self.attached == other.attached
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(place: u64) -> Entry {
        numbered(place, place as u32, false)
    }

    fn numbered(place: u64, offset8: u32, is_delta: bool) -> Entry {
        let at = Location { segment: 1, offset8, length8: 2 };
        Entry { place, id: IdKey::Uuid([0, place]), at, state_len: StateLen::new(3, is_delta) }
    }

    /// The same thread as a plain list, with what each delta needs by name: by the offset of its frame.
    #[derive(Default)]
    struct Model {
        shown: Vec<Entry>,
        all: Vec<(Entry, Option<u32>)>,
        floor: u64,
    }

    impl Model {
        fn trim(&mut self, floor: u64) {
            self.floor = self.floor.max(floor);
            self.shown.retain(|entry| entry.place >= self.floor);
        }

        fn put(&mut self, entry: Entry) {
            let base = self.shown.last().map(|head| head.at.offset8).filter(|_| entry.is_delta());
            self.all.push((entry.clone(), base));
            self.shown.push(entry);
        }

        fn put_again(&mut self, entry: Entry) {
            self.all.push((entry.clone(), None));
            self.shown.iter_mut().filter(|there| there.place == entry.place).for_each(|there| *there = entry.clone());
        }

        fn promote(&mut self, old: &Entry, entry: Entry) {
            self.put_again(entry.clone());
            let needs_it = self.all.iter_mut().filter(|(_, base)| *base == Some(old.at.offset8));
            needs_it.for_each(|(_, base)| *base = Some(entry.at.offset8));
        }

        fn hidden(&self) -> Vec<Entry> {
            let mut hidden = Vec::new();
            for shown in &self.shown {
                let mut at = shown.at.offset8;
                while let Some((_, Some(base))) = self.all.iter().find(|(entry, _)| entry.at.offset8 == at) {
                    at = *base;
                    hidden.extend(self.all.iter().map(|(entry, _)| entry).find(|entry| entry.at.offset8 == at).cloned());
                }
            }
            hidden.retain(|entry| !self.shown.contains(entry));
            hidden.sort_by_key(|entry| entry.place);
            hidden.dedup();
            hidden
        }

        /// The deltas that need what is hidden.
        fn stranded(&self) -> Vec<Entry> {
            let is_shown = |offset8| self.shown.iter().any(|entry| entry.at.offset8 == offset8);
            let stranded = self.all.iter().filter(|(entry, base)| is_shown(entry.at.offset8) && base.is_some_and(|base| !is_shown(base)));
            let mut stranded: Vec<Entry> = stranded.map(|(entry, _)| entry.clone()).collect();
            stranded.sort_by_key(|entry| entry.place);
            stranded
        }
    }

    proptest! {
        #[test]
        fn a_view_is_what_a_plain_list_would_be(steps in prop::collection::vec((0..14u8, any::<prop::sample::Index>()), 1..400), keep in prop_oneof![Just(None), (1..200u64).prop_map(Some)]) {
            let (mut view, mut model) = (View::empty("t".into()), Model::default());
            for (number, (what, pick)) in steps.iter().enumerate() {
                let place = number as u64 + 1;
                let old = (!model.shown.is_empty()).then(|| model.shown[pick.index(model.shown.len())].clone());
                match (what, old) {
                    (0, Some(old)) => {
                        view = view.without(old.place);
                        model.shown.retain(|entry| entry.place != old.place);
                    }
                    (1, Some(old)) => {
                        let again = Entry { state_len: StateLen::new(9, false), ..numbered(old.place, place as u32, false) };
                        view = view.put(again.clone(), 0);
                        model.put_again(again);
                    }
                    (2, Some(old)) => {
                        view = view.above(old.place);
                        model.trim(old.place);
                    }
                    (3, Some(old)) if old.is_delta() => {
                        let whole = numbered(old.place, place as u32, false);
                        view = view.promoted(whole.clone(), 0);
                        model.promote(&old, whole);
                    }
                    (4, Some(old)) => {
                        let places: Vec<u64> = model.shown.iter().map(|entry| entry.place).filter(|place| place % 3 == old.place % 3).collect();
                        view = view.without_all(&places);
                        model.shown.retain(|entry| !places.contains(&entry.place));
                    }
                    (what, old) => {
                        let floor = view.floor_keeping(keep, Some(place));
                        let entry = numbered(place, place as u32, old.is_some() && *what > 6);
                        view = view.put(entry.clone(), floor);
                        model.put(entry);
                        model.trim(floor);
                    }
                }
                prop_assert!(view.entries().eq(model.shown.iter()));
                for (index, entry) in model.shown.iter().enumerate() {
                    prop_assert_eq!(view.find(&entry.id), Some(index));
                }
                prop_assert_eq!(view.find(&entry(0).id), None);
                let hidden = model.hidden();
                prop_assert_eq!(view.hidden(), &hidden[..]);
                prop_assert_eq!(view.stranded().map(|(entry, _)| entry.clone()).collect::<Vec<_>>(), model.stranded());
                prop_assert_eq!(view.stranded().map(|(_, needed)| needed.len()).sum::<usize>(), hidden.len());
                let state_bytes = model.shown.iter().map(|entry| u64::from(entry.state_len.bytes())).sum::<u64>();
                prop_assert_eq!(view.state_bytes(), state_bytes);
                prop_assert_eq!(view.frame_bytes(), 16 * (model.shown.len() + hidden.len()) as u64);
            }
        }
    }

    proptest! {
        #[test]
        fn a_run_of_puts_is_one_put_after_the_other(before in 0..100u64, run in 1..200u64, keep in prop_oneof![Just(None), (1..150u64).prop_map(Some)]) {
            let entry = |place: u64| numbered(place, place as u32, place > 1 && place * 7 % 10 < 8);
            let start = (1..=before).fold(View::empty("t".into()), |view, place| view.put(entry(place), view.floor_keeping(keep, Some(place))));
            let (mut one_by_one, mut floor) = (start.clone(), 0);
            for place in before + 1..=before + run {
                floor = one_by_one.floor_keeping(keep, Some(place));
                one_by_one = one_by_one.put(entry(place), floor);
            }
            let at_once = start.put_run(run as usize, |at| entry(before + 1 + at as u64), floor);
            prop_assert_eq!(&at_once, &one_by_one);
            prop_assert!(at_once.entries().all(|entry| at_once.find(&entry.id) == one_by_one.find(&entry.id)));
        }
    }

    proptest! {
        #[test]
        fn a_run_of_deletes_is_one_delete_after_the_other(length in 0..200u64, places in prop::collection::vec(0..220u64, 0..200)) {
            let entry = |place: u64| numbered(place, place as u32, place > 1 && place * 7 % 10 < 8);
            let start = (1..=length).fold(View::empty("t".into()), |view, place| view.put(entry(place), 0));
            let one_by_one = places.iter().fold(start.clone(), |view, &place| view.without(place));
            let at_once = start.without_all(&places);
            prop_assert_eq!(&at_once, &one_by_one);
            prop_assert!(start.entries().all(|entry| at_once.find(&entry.id) == one_by_one.find(&entry.id)));
        }
    }

    #[test]
    fn a_put_whose_predecessor_is_lost_takes_its_place() {
        let view = [1, 5].into_iter().fold(View::empty("t".into()), |view, place| view.put(entry(place), 0));
        let places: Vec<u64> = view.put(entry(3), 0).entries().map(|entry| entry.place).collect();
        assert_eq!(places, [1, 3, 5]);
        assert_eq!(view.put(entry(3), 4).entries().map(|entry| entry.place).collect::<Vec<_>>(), [5]);
    }

    #[test]
    fn an_old_view_stays_as_it_was() {
        let mut view = View::empty("t".into());
        for place in 1..=100 {
            view = view.put(entry(place), 0);
        }
        let old = view.clone();
        for place in 101..=400 {
            view = view.put(entry(place), place - 99);
        }
        assert_eq!(old.len(), 100);
        assert_eq!((old.find(&entry(1).id), old.find(&entry(101).id)), (Some(0), None));
        assert_eq!((view.len(), view.find(&entry(1).id)), (100, None));
    }

    #[test]
    fn what_was_deleted_is_told_from_what_was_trimmed() {
        let view = (1..=6).fold(View::empty("t".into()), |view, place| view.put(entry(place), 0)).above(3).without(5);
        let told = |place| (view.was_trimmed(place), view.was_deleted(place));
        assert_eq!([1, 2].map(told), [(true, false); 2]);
        assert_eq!([3, 4, 6].map(told), [(false, false); 3]);
        assert_eq!([5, 7].map(told), [(false, true); 2]);
    }
}
