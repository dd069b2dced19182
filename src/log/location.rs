//! Where a frame stands, and where frames have gone that were written anew.

use std::collections::{HashMap, HashSet};

use super::attached::Attached;
use super::view::Entry;

/// Where a frame stands: segment, offset and length, the latter two in units of 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    /// The segment's number.
    pub segment: u32,
    /// The frame's offset, in units of 8 bytes.
    pub offset8: u32,
    /// The frame's length, in units of 8 bytes.
    pub length8: u32,
}

impl Location {
    /// The frame's offset in its segment's file, in bytes.
    pub fn offset(&self) -> u64 {
        u64::from(self.offset8) * 8
    }

    /// The frame's length, in bytes.
    pub fn length(&self) -> u64 {
        u64::from(self.length8) * 8
    }
}

/// Where the frames of a segment from an offset on have gone, all together and in their order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shift {
    /// The first frame that has moved.
    pub from: Location,
    /// Where it stands now.
    pub to: Location,
}

impl Shift {
    /// Where a frame stands now that stood at `at`.
    pub fn of(&self, at: Location) -> Location {
        if at.segment != self.from.segment || at.offset8 < self.from.offset8 {
            return at;
        }
        Location { segment: self.to.segment, offset8: self.to.offset8 + (at.offset8 - self.from.offset8), ..at }
    }
}

/// Where compaction has put the frames of some segments that are gone: by thread, and place or number.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    /// The segments that are gone.
    pub gone: HashSet<u32>,
    /// Each thread's frames, in the order of the checkpoints' places and the attachments' numbers, of which no
    /// two are alike.
    to: HashMap<Box<str>, Vec<(u64, Location)>>,
}

impl Moves {
    /// Notes where the frame of a checkpoint stands now, or that of an attachment by its number.
    pub fn add(&mut self, thread: &str, place: u64, at: Location) {
        match self.to.get_mut(thread) {
            Some(places) => places.push((place, at)),
            None => drop(self.to.insert(thread.into(), vec![(place, at)])),
        }
    }

    /// To be called once all are noted, segment by segment in the log's order. Of a checkpoint that was
    /// put again while compaction went on, several may be there: the last one is what it is now.
    pub fn sort(&mut self) {
        self.to.values_mut().for_each(|places| places.sort_by_key(|(place, _)| *place));
    }

    /// The threads that have frames there.
    pub fn threads(&self) -> impl Iterator<Item = &str> {
        self.to.keys().map(|thread| &**thread)
    }

    /// What has moved of a thread.
    pub fn of(&self, thread: &str) -> MovesOf<'_> {
        MovesOf { gone: &self.gone, places: self.to.get(thread).map_or(&[], Vec::as_slice) }
    }
}

/// Where the frames of a thread's checkpoints stand now: asked entry by entry. The answers' inner `None`:
/// where it was; the outer one: nowhere that can be told.
pub(crate) struct MovesOf<'a> {
    gone: &'a HashSet<u32>,
    places: &'a [(u64, Location)],
}

impl MovesOf<'_> {
    /// A checkpoint that is shown.
    pub fn newest(&self, entry: &Entry) -> Option<Option<Entry>> {
        if !self.gone.contains(&entry.at.segment) {
            return Some(None);
        }
        self.at(entry.place).last().map(|(_, at)| Some(Entry { at: *at, ..entry.clone() }))
    }

    /// One that is hidden: what else was at its place may have moved too, and nothing tells them apart.
    pub fn only(&self, entry: &Entry) -> Option<Option<Entry>> {
        match self.at(entry.place) {
            _ if !self.gone.contains(&entry.at.segment) => Some(None),
            [(_, at)] => Some(Some(Entry { at: *at, ..entry.clone() })),
            _ => None,
        }
    }

    /// An attachment.
    pub fn attached(&self, one: &Attached) -> Option<Option<Attached>> {
        if !self.gone.contains(&one.at.segment) {
            return Some(None);
        }
        self.at(one.number).last().map(|(_, at)| Some(Attached { at: *at, ..one.clone() }))
    }

    fn at(&self, place: u64) -> &[(u64, Location)] {
        let from = self.places.partition_point(|(other, _)| *other < place);
        let length = self.places[from..].partition_point(|(other, _)| *other == place);
        &self.places[from..from + length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::ids::IdKey;
    use crate::log::view::{StateLen, View};

    fn at(segment: u32, offset8: u32) -> Location {
        Location { segment, offset8, length8: 2 }
    }

    /// A keyframe and two deltas on it, all in segment 1, the first two trimmed and hidden; and one behind them.
    fn view() -> View {
        let entry = |place: u64| {
            let state_len = StateLen::new(3, place == 2 || place == 3);
            Entry { place, id: IdKey::Uuid([0, place]), at: at(1, place as u32 * 10), state_len }
        };
        (1..=4).fold(View::empty("t".into()), |view, place| view.put(entry(place), 0)).above(3)
    }

    /// Where the frames stand: of what is hidden, and of what is shown.
    fn places(view: &View) -> (Vec<Location>, Vec<Location>) {
        (view.hidden().iter().map(|entry| entry.at).collect(), view.entries().map(|entry| entry.at).collect())
    }

    #[test]
    fn what_is_hidden_moves_with_what_is_shown() {
        assert_eq!(places(&view()), (vec![at(1, 10), at(1, 20)], vec![at(1, 30), at(1, 40)]));
        let shift = Shift { from: at(1, 20), to: at(2, 5) };
        let moved = view().moved(&shift);
        assert_eq!(places(&moved), (vec![at(1, 10), at(2, 5)], vec![at(2, 15), at(2, 25)]));
        let mut moves = Moves { gone: [1].into(), ..Moves::default() };
        (1..=4).for_each(|place| moves.add("t", place, at(7, place as u32)));
        moves.sort();
        let relocated = view().relocated(&moves).unwrap();
        assert_eq!(places(&relocated), (vec![at(7, 1), at(7, 2)], vec![at(7, 3), at(7, 4)]));
        assert_eq!((relocated.floor(), relocated.frame_bytes()), (3, 4 * 16));
        // One that is nowhere leaves nothing to be told.
        let mut moves = Moves { gone: [1].into(), ..Moves::default() };
        [1, 3, 4].iter().for_each(|&place| moves.add("t", place, at(7, place as u32)));
        moves.sort();
        assert!(view().relocated(&moves).is_none());
    }
}
