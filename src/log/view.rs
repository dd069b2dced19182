//! One thread as its readers see it: an immutable value, replaced whole by each change.
//!
//! Pure: a change takes a view and gives the next one, sharing what is the same, so whoever holds a
//! view (a reader, an iterator) has one moment of the thread for as long as it likes. Replay and the
//! live store make their views here alike, which is why the live index equals the rebuilt one.

use std::sync::{Arc, OnceLock};

use super::ids::{IdKey, IdTable};
use super::location::{Location, Moves, Shift};
use super::steps::Steps;

/// What the index knows of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Where it stands in the thread's order: the number it was first put under.
    pub place: u64,
    /// Its id.
    pub id: IdKey,
    /// Its frame.
    pub at: Location,
    /// Its state's size, in bytes.
    pub state_len: u32,
}

const _: () = assert!(size_of::<Entry>() == 48, "the index holds one of these per checkpoint");

/// How many checkpoints a thread keeps, where it has a limit of its own; `Some(None)` is all.
pub(crate) type Keep = Option<Option<u64>>;

/// A thread: its checkpoints in order, oldest first, and what it keeps.
#[derive(Clone, Debug)]
pub(crate) struct View {
    thread: Arc<str>,
    steps: Steps,
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
        View { thread, steps: Steps::default(), ids: OnceLock::new(), first: 0, floor: 0, keep: None, state_bytes: 0, frame_bytes: 0 }
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

    /// The sum of the states' sizes.
    pub fn state_bytes(&self) -> u64 {
        self.state_bytes
    }

    /// The sum of the frames' lengths.
    pub fn frame_bytes(&self) -> u64 {
        self.frame_bytes
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
        next.count(&entry, true);
        if self.head().is_none_or(|head| head.place < entry.place) {
            let dropped = self.below(next.floor);
            for index in 0..dropped {
                next.discount(self.entry(index));
            }
            next.first = next.first.wrapping_add(dropped as u32);
            next.steps = self.steps.after(dropped, entry);
            next.index_last();
            return next;
        }
        let index = self.below(entry.place);
        match self.entry(index).filter(|there| there.place == entry.place) {
            Some(there) => {
                next.discount(Some(there));
                let same_id = there.id == entry.id;
                next.steps = self.steps.replaced(index, entry);
                if !same_id {
                    next.index_anew();
                }
            }
            // Only where damage took the put that this one replaces.
            None => {
                let (before, after) = (0..index, index..self.len());
                let entries = before.filter_map(|at| self.entry(at)).chain([&entry]).chain(after.filter_map(|at| self.entry(at)));
                next.steps = entries.cloned().collect();
                next.index_anew();
            }
        }
        next.trimmed()
    }

    /// After `count` puts at ascending places above all that it has: what one put after the other would
    /// give. For replay, where nobody looks in between.
    pub fn put_run(&self, count: usize, entry: impl Fn(usize) -> Entry, floor: u64) -> View {
        let mut next = self.clone();
        next.floor = next.floor.max(floor);
        next.steps = self.steps.extended(count, entry);
        for index in self.len()..next.len() {
            if let Some(Entry { at, state_len, .. }) = next.steps.get(index) {
                next.state_bytes += u64::from(*state_len);
                next.frame_bytes += at.length();
            }
        }
        next.index_anew();
        next.trimmed()
    }

    /// After the checkpoint at a place was deleted.
    pub fn without(&self, place: u64) -> View {
        let index = self.below(place);
        let Some(gone) = self.entry(index).filter(|entry| entry.place == place) else { return self.clone() };
        let mut next = self.clone();
        next.discount(Some(gone));
        if index + 1 == self.len() {
            next.steps = self.steps.without_last();
        } else {
            next.steps = self.entries().filter(|entry| entry.place != place).cloned().collect();
            next.index_anew();
        }
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
        if !gone.is_empty() {
            gone.into_iter().for_each(|entry| next.discount(Some(entry)));
            next.steps = kept.into_iter().cloned().collect();
            next.index_anew();
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

    /// After a run of its frames was written anew elsewhere.
    pub fn moved(&self, shift: &Shift) -> View {
        let moved = self.entries().map(|entry| Entry { at: shift.of(entry.at), ..entry.clone() });
        View { steps: moved.collect(), ..self.clone() }
    }

    /// After compaction wrote some of its frames anew; `None` if one of them is nowhere.
    pub fn relocated(&self, moves: &Moves) -> Option<View> {
        let of = moves.of(&self.thread);
        // Trimmed entries at the front of a chunk may lead nowhere; nobody asks for them.
        let floor = self.entry(0).map_or(u64::MAX, |oldest| oldest.place);
        let steps = self.steps.exchanged(|entry| if entry.place < floor { Some(None) } else { of(entry) })?;
        Some(View { steps, ..self.clone() })
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
        let dropped = self.below(self.floor);
        if dropped > 0 {
            for index in 0..dropped {
                let gone = self.entry(index).cloned();
                self.discount(gone.as_ref());
            }
            self.first = self.first.wrapping_add(dropped as u32);
            self.steps = self.steps.without_first(dropped);
        }
        self
    }

    fn count(&mut self, entry: &Entry, added: bool) {
        let sign = |total: &mut u64, bytes: u64| *total = if added { *total + bytes } else { total.saturating_sub(bytes) };
        sign(&mut self.state_bytes, u64::from(entry.state_len));
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(place: u64) -> Entry {
        Entry { place, id: IdKey::Uuid([0, place]), at: Location { segment: 1, offset8: place as u32, length8: 2 }, state_len: 3 }
    }

    /// The same thread as a plain list.
    #[derive(Default)]
    struct Model(Vec<Entry>, u64);

    impl Model {
        fn trim(&mut self, floor: u64) {
            self.1 = self.1.max(floor);
            self.0.retain(|entry| entry.place >= self.1);
        }
    }

    proptest! {
        #[test]
        fn a_view_is_what_a_plain_list_would_be(steps in prop::collection::vec((0..10u8, any::<prop::sample::Index>()), 1..400), keep in prop_oneof![Just(None), (1..200u64).prop_map(Some)]) {
            let (mut view, mut model) = (View::empty("t".into()), Model::default());
            for (number, (what, pick)) in steps.iter().enumerate() {
                let place = number as u64 + 1;
                let old = (!model.0.is_empty()).then(|| model.0[pick.index(model.0.len())].clone());
                match (what, old) {
                    (0, Some(old)) => {
                        view = view.without(old.place);
                        model.0.retain(|entry| entry.place != old.place);
                    }
                    (1, Some(old)) => {
                        let again = Entry { state_len: 9, ..old };
                        view = view.put(again.clone(), 0);
                        model.0.iter_mut().filter(|entry| entry.place == again.place).for_each(|entry| *entry = again.clone());
                    }
                    (2, Some(old)) => {
                        view = view.above(old.place);
                        model.trim(old.place);
                    }
                    _ => {
                        let floor = view.floor_keeping(keep, Some(place));
                        view = view.put(entry(place), floor);
                        model.0.push(entry(place));
                        let dropped = keep.map_or(0, |keep| model.0.len().saturating_sub(keep as usize));
                        model.0.drain(..dropped);
                    }
                }
                prop_assert!(view.entries().eq(model.0.iter()));
                for (index, entry) in model.0.iter().enumerate() {
                    prop_assert_eq!(view.find(&entry.id), Some(index));
                }
                prop_assert_eq!(view.find(&entry(0).id), None);
                prop_assert_eq!(view.state_bytes(), model.0.iter().map(|entry| u64::from(entry.state_len)).sum::<u64>());
                prop_assert_eq!(view.frame_bytes(), 16 * model.0.len() as u64);
            }
        }
    }

    proptest! {
        #[test]
        fn a_run_of_puts_is_one_put_after_the_other(before in 0..100u64, run in 1..200u64, keep in prop_oneof![Just(None), (1..150u64).prop_map(Some)]) {
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
}
