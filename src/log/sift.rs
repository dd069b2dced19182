//! What compaction keeps of a run of segments, and what it may leave out.
//!
//! Pure: records in the log's order, and each thread as it is shown, in; what becomes of each record,
//! out. A put is kept while it is shown, or a delta needs it; an attachment while it is shown. What other
//! records say is kept while it still says something: a delete while what it deleted is kept or older
//! segments may hold it, a limit while it is in force, a floor where no record that is kept says it.
//! DESIGN.md, section 10, has the reasons.

use std::collections::HashMap;
use std::sync::Arc;

use super::attached::Attached;
use super::ids::IdKey;
use super::location::Location;
use super::view::View;
use crate::format::record::{Attach, Record};

/// A position in the whole log, which orders the records of a run.
type Position = u64;

/// What becomes of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is written to the new segment as it is.
    Kept,
    /// The same, packed if it is not yet and that saves anything: a keyframe that its thread has left.
    Packed,
    /// The same, of what was attached to a checkpoint before that came: at its place from now on.
    Bound(u64),
    /// A trim to this floor is written in its stead.
    Floor(u64),
    /// It says nothing any more.
    LeftOut,
}

/// What a run says of a thread, from its last delete in the run on.
#[derive(Debug, Default)]
struct Said {
    /// Where the last record stands that deletes the whole thread.
    deleted: Option<Position>,
    /// Where the last one stands that sets its limit.
    limited: Option<Position>,
    /// The highest floor that any record tells, and where that record stands.
    floor: (u64, Position),
    /// The highest floor that a put tells which is kept.
    kept_floor: u64,
}

/// A run being looked through: first every record is met, then each is asked about.
pub(crate) struct Sift<'a> {
    /// The threads as they are shown.
    threads: &'a HashMap<&'a str, &'a Arc<View>>,
    said: HashMap<Box<str>, Said>,
    has_deletes: bool,
}

/// What a record at a location attaches, where that is shown.
fn attached<'v>(view: &'v View, attach: &Attach<'_>, at: Location) -> Option<&'v Attached> {
    view.attached().find(&IdKey::of_record(&attach.id), attach.key).filter(|one| one.at == at)
}

impl<'a> Sift<'a> {
    /// A sift for a store that shows these threads.
    pub fn new(threads: &'a HashMap<&'a str, &'a Arc<View>>) -> Sift<'a> {
        Sift { threads, said: HashMap::new(), has_deletes: false }
    }

    /// Meets the thread's next record of the run; answers whether it is needed.
    pub fn meet(&mut self, position: Position, record: &Record<'_>, at: Location) -> bool {
        let is_needed = self.is_needed(record, at);
        let thread = record.thread();
        if !self.said.contains_key(thread) {
            self.said.insert(thread.into(), Said::default());
        }
        let Some(said) = self.said.get_mut(thread) else { return is_needed };
        let floor = match record {
            Record::Put(put) | Record::Promote(put) => put.floor,
            Record::Trim { floor, .. } => *floor,
            Record::DeleteThread { .. } => {
                self.has_deletes = true;
                *said = Said { deleted: Some(position), ..Said::default() };
                return false;
            }
            Record::Keep { .. } => {
                said.limited = Some(position);
                return false;
            }
            Record::DeleteCheckpoint { .. } | Record::Bind { .. } | Record::Detach { .. } => {
                self.has_deletes = true;
                return false;
            }
            Record::Attach(_) => return is_needed,
        };
        if is_needed {
            said.kept_floor = said.kept_floor.max(floor);
        }
        if floor > said.floor.0 {
            said.floor = (floor, position);
        }
        is_needed
    }

    /// Once all are met: forgets the floors that the thread's newest checkpoint tells too, wherever it
    /// stands. `head_floor` answers what that one tells; it is asked only where it matters.
    pub fn settle(&mut self, mut head_floor: impl FnMut(&View) -> u64) {
        for (thread, said) in &mut self.said {
            if said.floor.0 <= said.kept_floor {
                said.floor = (0, 0);
            } else if let Some(view) = self.threads.get(&**thread)
                && head_floor(view) >= said.floor.0
            {
                said.floor = (0, 0);
            }
        }
    }

    /// Whether what segments before the run hold matters.
    pub fn has_deletes(&self) -> bool {
        self.has_deletes
    }

    /// What becomes of a record that was met. `older` answers whether segments before the run may hold
    /// a record of a thread.
    pub fn fate(&self, position: Position, record: &Record<'_>, at: Location, older: &dyn Fn(&str) -> bool) -> Fate {
        let thread = record.thread();
        let kept = |yes: bool| if yes { Fate::Kept } else { Fate::LeftOut };
        let Some(said) = self.said.get(thread) else { return Fate::Kept };
        let view = self.threads.get(thread);
        match record {
            Record::DeleteThread { .. } => kept(said.deleted == Some(position) && older(thread)),
            // What the thread was before it ended is told by the delete alone.
            _ if said.deleted.is_some_and(|deleted| position < deleted) => Fate::LeftOut,
            // Within the run what they are about is written as they left it. That may have been all that the thread was, or
            // all of it that could be read.
            Record::Bind { .. } | Record::Detach { .. } => kept(older(thread)),
            Record::DeleteCheckpoint { place, .. } => kept(older(thread) || view.is_some_and(|view| view.hides(*place))),
            _ if view.is_none() => Fate::LeftOut,
            Record::Attach(attach) => match view.and_then(|view| attached(view, attach, at)) {
                Some(one) if attach.is_awaiting && !one.is_awaiting => Fate::Bound(one.place),
                Some(_) => Fate::Kept,
                None => Fate::LeftOut,
            },
            Record::Keep { .. } => kept(said.limited == Some(position) && view.is_some_and(|view| view.keep().is_some())),
            Record::Put(put) | Record::Promote(put) if self.is_needed(record, at) => {
                let is_left = !put.coding.is_delta() && view.is_some_and(|view| view.has_left(put.place));
                if is_left { Fate::Packed } else { Fate::Kept }
            }
            Record::Trim { floor, .. } if said.floor == (*floor, position) => Fate::Kept,
            Record::Put(_) | Record::Promote(_) | Record::Trim { .. } => {
                if said.floor.1 == position {
                    Fate::Floor(said.floor.0)
                } else {
                    Fate::LeftOut
                }
            }
        }
    }

    fn is_needed(&self, record: &Record<'_>, at: Location) -> bool {
        self.threads.get(record.thread()).is_some_and(|view| match record {
            Record::Put(put) | Record::Promote(put) => view.needs(put.place, at),
            Record::Attach(attach) => attached(view, attach, at).is_some(),
            _ => false,
        })
    }
}
