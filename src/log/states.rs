//! From an entry of the index to its state.
//!
//! One that is stored whole and not packed is the mapped bytes themselves, their payload checksum
//! checked. Of a delta the newest of a thread is taken from memory where it is there; else its chain is
//! decoded, and its content hash decides. Knows no lock but that of the heads, a short one of this process.

use super::heads::{Head, Heads};
use super::read::{self, Frame};
use super::rebuild::Rebuilt;
use super::segments::SegmentSet;
use super::view::{Entry, View};
use crate::checkpoint::{Checkpoint, StateBytes};
use crate::delta::{self, Keep, Sums};
use crate::error::{Error, ErrorKind, Result};
use crate::format::Flaw;
use crate::format::record::{Coding, Difference};

/// Where states are read from.
#[derive(Clone, Copy)]
pub(crate) struct States<'a> {
    /// The live segments.
    pub segments: &'a SegmentSet,
    /// The states that are in memory.
    pub heads: &'a Heads,
}

impl States<'_> {
    /// The checkpoint of an entry, with its state. Errors: `Corrupt`, `Io`.
    pub fn checkpoint(self, view: &View, entry: &Entry) -> Result<Checkpoint<StateBytes>> {
        self.one(view, entry, Keep::Last, &mut None)
    }

    /// The same for who goes on to older ones: `chain` is what was decoded last, and may serve for them.
    pub fn older(self, view: &View, entry: &Entry, chain: &mut Option<Rebuilt>) -> Result<Checkpoint<StateBytes>> {
        self.one(view, entry, Keep::All, chain)
    }

    fn one(self, view: &View, entry: &Entry, keep: Keep, chain: &mut Option<Rebuilt>) -> Result<Checkpoint<StateBytes>> {
        let (frame, info) = read::frame(self.segments, view, entry)?;
        let state = match frame.coding {
            Coding::Delta(Difference { hash, .. }) => match self.heads.get(view.thread(), entry) {
                Some(Head { state: Some(state), .. }) => state,
                _ => self.rebuilt(view, entry, hash, keep, chain)?.0,
            },
            _ => whole(&frame, view, entry)?,
        };
        Ok(Checkpoint { info, state })
    }

    /// A delta's state, and what its chain has cost. A thread's newest is kept: it is what is asked for
    /// again, and what the next put is a difference from.
    fn rebuilt(self, view: &View, entry: &Entry, hash: u64, keep: Keep, chain: &mut Option<Rebuilt>) -> Result<(StateBytes, Sums)> {
        let of = |chain: &Rebuilt| Some(chain.state(self.segments, view, entry, hash)?.map(|state| (state, chain.sums)));
        if let Some(rebuilt) = chain.as_ref().and_then(of) {
            return rebuilt;
        }
        // What was decoded before is let go of first: no more is held than one chain.
        *chain = None;
        let read = chain.insert(Rebuilt::read(self.segments, self.heads, view, entry, keep)?);
        let lost = || Error::new(ErrorKind::Corrupt, "a chain does not end with what it was read for").with_thread(view.thread());
        let (state, sums) = of(read).ok_or_else(lost)??;
        if view.head() == Some(entry) {
            self.heads.keep(view.thread(), Head::of(entry, state.clone(), hash, sums));
        }
        Ok((state, sums))
    }

    /// A thread's newest checkpoint as what the next one may be a difference from. Errors: as for a read.
    pub fn head(self, view: &View, entry: &Entry) -> Result<Head> {
        if let Some(head) = self.heads.get(view.thread(), entry).filter(|head| head.state.is_some()) {
            return Ok(head);
        }
        let (frame, _) = read::frame(self.segments, view, entry)?;
        if let Coding::Delta(Difference { hash, .. }) = frame.coding {
            let (state, sums) = self.rebuilt(view, entry, hash, Keep::Last, &mut None)?;
            return Ok(Head::of(entry, state, hash, sums));
        }
        let state = whole(&frame, view, entry)?;
        let hash = delta::content_hash(&state);
        Ok(Head::of(entry, state, hash, Sums::of_keyframe(frame.head.payload_len)))
    }
}

/// The state of a keyframe. Errors: `Corrupt`.
fn whole(frame: &Frame<'_>, view: &View, entry: &Entry) -> Result<StateBytes> {
    let length = entry.state_len.bytes();
    let damaged = |why| frame.segment.damaged(entry.at.offset(), why).with_thread(view.thread());
    match frame.coding {
        Coding::Packed => delta::unpack(&frame.payload(view, entry)?, length).map(StateBytes::from).map_err(damaged),
        _ if frame.head.payload_len != length => Err(damaged(Flaw::Corrupt("state length"))),
        _ => frame.payload(view, entry),
    }
}
