//! Where a frame stands, and where frames have gone that were written anew.

use std::collections::{HashMap, HashSet};

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

/// Where compaction has put the frames of some segments that are gone: by thread and place.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    /// The segments that are gone.
    pub gone: HashSet<u32>,
    /// Each thread's frames, in the order of their places.
    to: HashMap<Box<str>, Vec<(u64, Location)>>,
}

impl Moves {
    /// Notes where a checkpoint's frame stands now.
    pub fn add(&mut self, thread: &str, place: u64, at: Location) {
        match self.to.get_mut(thread) {
            Some(places) => places.push((place, at)),
            None => drop(self.to.insert(thread.into(), vec![(place, at)])),
        }
    }

    /// To be called once all are noted, segment by segment in the log's order. Of a checkpoint that was
    /// put again while compaction went on, several may be there: the last one counts.
    pub fn sort(&mut self) {
        for places in self.to.values_mut() {
            places.sort_by_key(|(place, _)| *place);
            places.reverse();
            places.dedup_by_key(|(place, _)| *place);
            places.reverse();
        }
    }

    /// The threads that have frames there.
    pub fn threads(&self) -> impl Iterator<Item = &str> {
        self.to.keys().map(|thread| &**thread)
    }

    /// Where the frames of a thread's checkpoints stand now, as far as they have moved: asked entry by
    /// entry. The inner `None`: where it was; the outer one: nowhere.
    pub fn of(&self, thread: &str) -> impl Fn(&Entry) -> Option<Option<Entry>> + '_ {
        let places = self.to.get(thread).map_or(&[][..], Vec::as_slice);
        move |entry| {
            if !self.gone.contains(&entry.at.segment) {
                return Some(None);
            }
            let found = places.binary_search_by_key(&entry.place, |(place, _)| *place).ok()?;
            Some(Some(Entry { at: places[found].1, ..entry.clone() }))
        }
    }
}
