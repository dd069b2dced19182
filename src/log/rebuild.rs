//! From a delta to its state: its chain is read back to a keyframe, or to a state that is in memory.
//!
//! What is read on the way is parsed within bounds and believed no further: the state that comes out
//! counts if and only if its content hash is the one that the delta's own record, checked whole, tells.
//! Only where it does not are the frames checked one by one, to say which is damaged.

use std::ops::Range;

use super::heads::{Head, Heads};
use super::ids;
use super::read::{self, is_meant};
use super::segments::{Segment, SegmentSet};
use super::view::{Entry, View};
use crate::checkpoint::StateBytes;
use crate::delta::{self, Chain, Keep, Stored, Sums};
use crate::error::{Error, ErrorKind, Result};
use crate::format::Flaw;
use crate::format::frame::{self, HEAD_BYTES};
use crate::format::record::{Coding, Difference, Record};
use crate::plant::planted;

/// Why a state cannot be rebuilt: most of the time, a frame's checksums say so.
pub(crate) const NEEDED: &str = "a record that it needs is damaged";
/// The same where no frame is damaged.
pub(crate) const BASE_GONE: &str = "the checkpoint that it is a difference from is not there";
pub(crate) const TOO_LONG: &str = "it needs more records than any writer allows";
pub(crate) const DIFFERS: &str = "what it is made of is not what it was";

/// A chain that was read, up to a delta.
pub(crate) struct Rebuilt {
    chain: Chain<StateBytes>,
    /// The places of its deltas.
    places: Vec<u64>,
    /// What it has cost up to the last one.
    pub sums: Sums,
}

impl Rebuilt {
    /// Reads the chain that ends at an entry, a delta; `keep`: which of its states will be asked for.
    ///
    /// Errors: `Corrupt`, with the damaged record's file and offset where that can be told; `Io`.
    pub fn read(segments: &SegmentSet, heads: &Heads, view: &View, entry: &Entry, keep: Keep) -> Result<Rebuilt> {
        let mut links = Vec::new();
        let (root, before) = follow(segments, heads, view, entry, keep, &mut links)?;
        let mut chain = Chain::new(root, keep);
        for (link, Difference { unpacked_len, is_packed, .. }) in links.iter().rev() {
            let (unpacked_len, is_packed, state_len) = (*unpacked_len, *is_packed, link.state_len);
            let stored = Stored { payload: link.payload(), is_packed, unpacked_len, state_len };
            chain.push(&stored).map_err(|flaw| damaged(segments, view, entry, flaw))?;
        }
        let sums = before.and(chain.sums(0));
        Ok(Rebuilt { places: links.iter().rev().map(|(link, _)| link.entry.place).collect(), chain, sums })
    }

    /// The state of one of its deltas, given the content hash that its checked record tells; `None` where
    /// it is not among them, or not kept.
    ///
    /// Errors: `Corrupt` where it is not what was put.
    pub fn state(&self, segments: &SegmentSet, view: &View, entry: &Entry, hash: u64) -> Option<Result<StateBytes>> {
        let step = self.places.iter().rposition(|place| *place == entry.place)? + 1;
        let state = self.chain.state(step)?;
        if delta::content_hash(&state) == hash || planted!("hash-not-checked") {
            return Some(Ok(state.into()));
        }
        Some(Err(damaged(segments, view, entry, Flaw::Corrupt("content hash"))))
    }
}

/// A frame as it stands, of which no checksum was looked at.
struct Link<'a> {
    entry: &'a Entry,
    frame: StateBytes,
    payload: Range<usize>,
    coding: Coding,
    state_len: u32,
}

impl<'a> Link<'a> {
    /// Errors: `Corrupt` where it could not be handled.
    fn read(segment: &Segment, view: &View, entry: &'a Entry) -> Result<Link<'a>> {
        let frame = segment.frame(entry.at)?;
        let link = Self::of(&frame, view, entry).map_err(|flaw| segment.damaged(entry.at.offset(), flaw))?;
        Ok(Link { frame, ..link })
    }

    fn of(frame: &StateBytes, view: &View, entry: &'a Entry) -> std::result::Result<Link<'a>, Flaw> {
        let (record_len, payload_len) = frame::Head::peek(frame)?;
        let start = frame::payload_start(record_len as usize);
        let payload = start..start + payload_len as usize;
        if payload.end > frame.len() {
            return Err(Flaw::Corrupt("frame lengths"));
        }
        let record = Record::decode(&frame[HEAD_BYTES..HEAD_BYTES + record_len as usize])?;
        let put = record.put().filter(|put| is_meant(put, view, entry)).ok_or(read::MISPLACED)?;
        Ok(Link { entry, payload, coding: put.coding, state_len: put.state_len, frame: frame.clone() })
    }

    fn payload(&self) -> &[u8] {
        &self.frame[self.payload.clone()]
    }

    /// The state, of a keyframe.
    fn state(&self) -> std::result::Result<StateBytes, Flaw> {
        match self.coding {
            Coding::Packed => delta::unpack(self.payload(), self.state_len).map(StateBytes::from),
            _ => Ok(self.frame.part(self.payload.clone())),
        }
    }
}

/// Collects the deltas from an entry back to what the first of them is a difference from; answers that
/// state, and what the chain has cost up to there.
fn follow<'a>(
    segments: &SegmentSet,
    heads: &Heads,
    view: &'a View,
    entry: &'a Entry,
    keep: Keep,
    links: &mut Vec<(Link<'a>, Difference)>,
) -> Result<(StateBytes, Sums)> {
    let mut at = entry;
    loop {
        let segment = read::segment_of(segments, view, at.at)?;
        let lost = |what: &str| unrebuilt(view, entry, what).with_file(&segment.path, Some(at.at.offset()));
        let link = Link::read(segment, view, at).map_err(|error| match error.kind() {
            ErrorKind::Corrupt => lost(NEEDED).with_source(error),
            _ => error.with_thread(view.thread()),
        })?;
        let Coding::Delta(difference) = link.coding else {
            let state = link.state().map_err(|flaw| damaged(segments, view, entry, flaw))?;
            return Ok((state, Sums::of_keyframe(link.payload.len() as u32)));
        };
        if links.len() == delta::DELTAS_MAX as usize {
            return Err(lost(TOO_LONG));
        }
        links.push((link, difference));
        at = view.base(difference.base).ok_or_else(|| lost(BASE_GONE))?;
        // Who goes on to older states needs what they are made of.
        if keep == Keep::Last
            && let Some(Head { state: Some(state), hash, sums, .. }) = heads.get(view.thread(), at)
            && hash == difference.base_hash
        {
            return Ok((state, sums));
        }
    }
}

/// Says why a state cannot be rebuilt: which of the frames that it needs is not as it was written.
fn damaged(segments: &SegmentSet, view: &View, entry: &Entry, flaw: Flaw) -> Error {
    let mut next = Some(entry);
    while let Some(needed) = next {
        match checked(segments, view, needed) {
            // Bases stand at ever lower places.
            Ok(Coding::Delta(difference)) => next = view.base(difference.base),
            Ok(_) => next = None,
            Err(error) => {
                let unrebuilt = unrebuilt(view, entry, NEEDED);
                let placed = match error.file() {
                    Some((path, offset)) => unrebuilt.with_file(path, offset),
                    None => unrebuilt,
                };
                return placed.with_source(error);
            }
        }
    }
    let path = segments.get(&entry.at.segment).map(|segment| segment.path.clone()).unwrap_or_default();
    unrebuilt(view, entry, DIFFERS).with_file(&path, Some(entry.at.offset())).with_source(flaw)
}

fn checked(segments: &SegmentSet, view: &View, entry: &Entry) -> Result<Coding> {
    let (frame, _) = read::frame(segments, view, entry)?;
    frame.payload(view, entry).map(|_| frame.coding)
}

fn unrebuilt(view: &View, entry: &Entry, why: &str) -> Error {
    let id = ids::public(&entry.id.to_record()).map_or_else(|_| String::new(), |id| format!(" {id}"));
    Error::new(ErrorKind::Corrupt, format!("checkpoint{id} cannot be rebuilt: {why}")).with_thread(view.thread())
}
