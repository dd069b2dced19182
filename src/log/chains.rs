//! Threads' states made from the files, one after the other: which checkpoints can be read, and why the
//! others cannot.
//!
//! For who copies a store, or reads all of it. Frames are read with system calls, so a bad sector is an
//! answer, and their checksums are looked at; but the state of a delta counts if and only if its content
//! hash is right, as for any other read. Memory: one chain, at most about three states. Says what is;
//! what is to be done about it is for who asks.

use std::fmt;
use std::path::PathBuf;

use super::attached::Attached;
use super::copy::Scans;
use super::location::Location;
use super::read::{MISPLACED, VALUE_LENGTH, is_meant};
use super::rebuild;
use super::scan::{FrameAt, Scan};
use super::view::{Entry, View};
use crate::delta::{self, Chain, Keep, Stored};
use crate::error::{ErrorKind, Result};
use crate::format::Flaw;
use crate::format::record::{Attach, Coding, Difference, Put, Record};

/// Why a checkpoint cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// Its own frame is damaged.
    Damaged(Flaw),
    /// The frame of a checkpoint that it needs is.
    Needs(Flaw),
    /// It cannot be rebuilt, though no frame is damaged.
    Lost(&'static str),
}

impl fmt::Display for Why {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Damaged(flaw) => flaw.fmt(out),
            Why::Needs(flaw) => write!(out, "checkpoint cannot be rebuilt: {}: {flaw}", rebuild::NEEDED),
            Why::Lost(what) => write!(out, "checkpoint cannot be rebuilt: {what}"),
        }
    }
}

/// A checkpoint that cannot be read: where that comes from, and why.
#[derive(Clone, Debug)]
pub(crate) struct Unread {
    /// The file.
    pub path: PathBuf,
    /// The offset of the frame that is damaged, or does not fit.
    pub offset: u64,
    /// What is wrong.
    pub why: Why,
}

/// What is wrong at a location, for the checkpoint there.
#[derive(Clone)]
struct Fault {
    at: Location,
    unread: Unread,
}

impl Fault {
    fn at(at: Location, path: PathBuf, why: Why) -> Fault {
        Fault { at, unread: Unread { path, offset: at.offset(), why } }
    }

    /// The same for the checkpoint at a location, which is this one or needs it.
    fn of(&self, at: Location) -> Unread {
        match self.unread.why {
            Why::Damaged(flaw) if self.at != at => Unread { why: Why::Needs(flaw), ..self.unread.clone() },
            _ => self.unread.clone(),
        }
    }
}

/// A frame that may be needed for others.
struct Part {
    at: Location,
    path: PathBuf,
    coding: Coding,
    state_len: u32,
    payload: Vec<u8>,
    is_sound: bool,
}

impl Part {
    fn fault(&self, why: Why) -> Fault {
        Fault::at(self.at, self.path.clone(), why)
    }
}

/// How far the chain that was met last has been followed.
struct Reached {
    at: Location,
    path: PathBuf,
    /// Up to there; `None` where it cannot be followed.
    chain: Option<Chain<Vec<u8>>>,
    /// What is wrong with what it is made of: what is nearest.
    fault: Option<Fault>,
}

impl Reached {
    fn broken(fault: Fault) -> Reached {
        Reached { at: fault.at, path: fault.unread.path.clone(), chain: None, fault: Some(fault) }
    }

    fn keyframe(part: Part) -> Reached {
        let fault = (!part.is_sound).then(|| part.fault(Why::Damaged(PAYLOAD)));
        let state = match part.coding {
            Coding::Packed => delta::unpack(&part.payload, part.state_len),
            _ if part.payload.len() != part.state_len as usize => Err(STATE_LENGTH),
            _ => Ok(part.payload),
        };
        let Part { at, path, .. } = part;
        match state {
            Ok(state) => Reached { at, path, chain: Some(Chain::new(state, Keep::Last)), fault },
            Err(flaw) => Reached::broken(fault.unwrap_or_else(|| Fault::at(at, path, Why::Damaged(flaw)))),
        }
    }

    fn push(&mut self, part: &Part, Difference { unpacked_len, is_packed, .. }: Difference) {
        (self.at, self.path) = (part.at, part.path.clone());
        if !part.is_sound {
            self.fault = Some(part.fault(Why::Damaged(PAYLOAD)));
        }
        let stored = Stored { payload: &part.payload, is_packed, unpacked_len, state_len: part.state_len };
        if let Some(Err(flaw)) = self.chain.as_mut().map(|chain| chain.push(&stored)) {
            self.chain = None;
            self.fault.get_or_insert_with(|| part.fault(Why::Damaged(flaw)));
        }
    }

    /// The newest state, if it has a content hash. What is wrong, if anything, stays known for what
    /// is made of it.
    fn state(&mut self, hash: Option<u64>) -> std::result::Result<Vec<u8>, Unread> {
        let is_own = self.fault.as_ref().is_some_and(|fault| fault.at == self.at);
        let state = self.chain.as_ref().filter(|_| !is_own).map(Chain::last);
        match state.filter(|state| Some(delta::content_hash(state)) == hash) {
            Some(state) => Ok(state),
            None => Err(self.fault.get_or_insert_with(|| Fault::at(self.at, self.path.clone(), Why::Lost(rebuild::DIFFERS))).of(self.at)),
        }
    }
}

const PAYLOAD: Flaw = Flaw::Corrupt("payload checksum");
const STATE_LENGTH: Flaw = Flaw::Corrupt("state length");
const BASE_UNFIT: Why = Why::Lost("it is a difference from what no writer takes one from");

/// Reads threads' states. A location's segment is a number that `open` understands.
pub(crate) struct Chains<'a> {
    open: &'a dyn Fn(u32) -> Result<Scan>,
    scans: Scans,
    reached: Option<Reached>,
    /// Whether the payloads of keyframes that nothing needs are looked at too.
    payloads: bool,
}

impl<'a> Chains<'a> {
    /// For files that `open` opens; one that it answers `Corrupt` for is damaged all over.
    pub fn new(open: &'a dyn Fn(u32) -> Result<Scan>, payloads: bool) -> Chains<'a> {
        Chains { open, scans: Scans::default(), reached: None, payloads }
    }

    /// Looks at every checkpoint that a thread shows, oldest first, and tells of those that cannot be read.
    /// Errors: `Unsupported`, `Io`.
    pub fn judge(&mut self, view: &View, tell: &mut dyn FnMut(&Entry, Unread)) -> Result<()> {
        for index in 0..view.len() {
            let Some(entry) = view.entry(index) else { continue };
            let is_base = || view.entry(index + 1).is_some_and(Entry::is_delta) && delta::is_worth(entry.state_len.bytes() as usize);
            let unread = match entry.is_delta() {
                true => self.state(view, entry)?.err(),
                false if is_base() => self.follow(view, entry)?.fault.as_ref().map(|fault| fault.of(entry.at)),
                false => self.alone(view, entry)?,
            };
            if let Some(unread) = unread {
                tell(entry, unread);
            }
        }
        Ok(())
    }

    /// What is wrong with an attachment, if anything is. Errors: `Unsupported`, `Io`.
    pub fn attachment(&mut self, view: &View, one: &Attached) -> Result<Option<Unread>> {
        let payloads = self.payloads;
        let found = self.record(one.at, |scan, frame, record| match record {
            Record::Attach(attach) if one.is_meant(view.thread(), attach) => value_soundness(scan, frame, attach, payloads).map(Some),
            _ => Ok(None),
        })?;
        Ok(match found {
            Ok((_, Ok(()))) => None,
            Ok((path, Err(flaw))) => Some(Unread { path, offset: one.at.offset(), why: Why::Damaged(flaw) }),
            Err(fault) => Some(fault.unread),
        })
    }

    /// The state of a delta, or why it cannot be had. Errors: `Unsupported`, `Io`.
    pub fn state(&mut self, view: &View, entry: &Entry) -> Result<std::result::Result<Vec<u8>, Unread>> {
        let (mut reached, hash) = self.chain(view, entry)?;
        let state = reached.state(hash);
        self.reached = Some(reached);
        Ok(state)
    }

    fn follow(&mut self, view: &View, entry: &Entry) -> Result<&Reached> {
        let (reached, _) = self.chain(view, entry)?;
        Ok(self.reached.insert(reached))
    }

    /// The chain up to an entry, from what was reached last if that is on the way; and of a delta its
    /// content hash.
    fn chain(&mut self, view: &View, entry: &Entry) -> Result<(Reached, Option<u64>)> {
        let mut parts: Vec<(Part, Difference)> = Vec::new();
        let mut next = entry;
        let mut reached = loop {
            if let Some(reached) = self.reached.take_if(|reached| reached.at == next.at && !parts.is_empty()) {
                break reached;
            }
            // Ends: bases stand at ever lower places.
            let part = match self.part(view, next)? {
                Ok(part) => part,
                Err(fault) => break Reached::broken(fault),
            };
            let Coding::Delta(difference) = part.coding else { break Reached::keyframe(part) };
            let base = match view.base(difference.base) {
                None => Err(Why::Lost(rebuild::BASE_GONE)),
                Some(base) if !delta::is_worth(base.state_len.bytes() as usize) => Err(BASE_UNFIT),
                Some(_) if parts.len() == delta::DELTAS_MAX as usize => Err(Why::Lost(rebuild::TOO_LONG)),
                Some(base) => Ok(base),
            };
            let base = base.map_err(|why| part.fault(why));
            parts.push((part, difference));
            match base {
                Ok(base) => next = base,
                Err(fault) => break Reached::broken(fault),
            }
        };
        // What was reached before is let go of once it is known to be no use.
        self.reached = None;
        let hash = parts.first().map(|(_, difference)| difference.hash);
        for (part, difference) in parts.iter().rev() {
            reached.push(part, *difference);
        }
        Ok((reached, hash))
    }

    /// What is wrong with a keyframe that nothing needs.
    fn alone(&mut self, view: &View, entry: &Entry) -> Result<Option<Unread>> {
        let payloads = self.payloads;
        let found = self.frame(view, entry, |scan, frame, put| match payloads || put.coding == Coding::Packed {
            true => Ok(soundness(scan, frame, put)?.err()),
            false => Ok((put.coding == Coding::Whole && frame.head.payload_len != put.state_len).then_some(STATE_LENGTH)),
        })?;
        Ok(match found {
            Ok((_, None)) => None,
            Ok((path, Some(flaw))) => Some(Unread { path, offset: entry.at.offset(), why: Why::Damaged(flaw) }),
            Err(fault) => Some(fault.unread),
        })
    }

    fn part(&mut self, view: &View, entry: &Entry) -> Result<std::result::Result<Part, Fault>> {
        let read = self
            .frame(view, entry, |scan, frame, put| Ok((scan.payload(frame)?, scan.payload_is_sound(frame)?, put.coding, put.state_len)))?;
        Ok(read.map(|(path, (payload, is_sound, coding, state_len))| Part { at: entry.at, path, coding, state_len, payload, is_sound }))
    }

    /// What `look` sees in an entry's frame, whose head and record are sound; and its file.
    fn frame<T>(
        &mut self,
        view: &View,
        entry: &Entry,
        look: impl FnOnce(&mut Scan, &FrameAt, &Put<'_>) -> Result<T>,
    ) -> Result<std::result::Result<(PathBuf, T), Fault>> {
        self.record(entry.at, |scan, frame, record| match record.put().filter(|put| is_meant(put, view, entry)) {
            Some(put) => look(scan, frame, put).map(Some),
            None => Ok(None),
        })
    }

    /// What `look` sees in the frame at a location, whose head and record are sound, unless it is not the one
    /// that is meant; and its file.
    fn record<T>(
        &mut self,
        at: Location,
        look: impl FnOnce(&mut Scan, &FrameAt, &Record<'_>) -> Result<Option<T>>,
    ) -> Result<std::result::Result<(PathBuf, T), Fault>> {
        let fault = |path: PathBuf, flaw| Fault::at(at, path, Why::Damaged(flaw));
        let scan = match self.scans.of(at.segment, |segment| Ok((self.open)(segment)?.scattered())) {
            Ok(scan) => scan,
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                let path = error.file().map(|(path, _)| path.to_owned()).unwrap_or_default();
                return Ok(Err(fault(path, Flaw::Torn("its segment is missing"))));
            }
            Err(error) => return Err(error),
        };
        let path = scan.path().to_owned();
        let frame = match scan.frame_at(at.offset())? {
            Ok(frame) => frame,
            Err(flaw) => return Ok(Err(fault(path, flaw))),
        };
        match Record::decode(&frame.record) {
            Ok(record) => {
                Ok(look(scan, &frame, &record)?.map_or_else(|| Err(fault(path.clone(), MISPLACED)), |seen| Ok((path.clone(), seen))))
            }
            Err(flaw) => Ok(Err(fault(path, flaw))),
        }
    }
}

/// Whether a frame's payload is a value as it was attached; of one that is not packed its bytes are looked at
/// only where `payloads` says so.
pub(crate) fn value_soundness(
    scan: &mut Scan,
    frame: &FrameAt,
    attach: &Attach<'_>,
    payloads: bool,
) -> Result<std::result::Result<(), Flaw>> {
    if !attach.is_packed && frame.head.payload_len != attach.value_len {
        return Ok(Err(VALUE_LENGTH));
    }
    if (payloads || attach.is_packed) && !scan.payload_is_sound(frame)? {
        return Ok(Err(PAYLOAD));
    }
    Ok(if attach.is_packed { delta::unpack(&scan.payload(frame)?, attach.value_len).map(drop) } else { Ok(()) })
}

/// Whether a frame's payload is as it was written; of a keyframe also whether it is a state.
pub(crate) fn soundness(scan: &mut Scan, frame: &FrameAt, put: &Put<'_>) -> Result<std::result::Result<(), Flaw>> {
    if !scan.payload_is_sound(frame)? {
        return Ok(Err(PAYLOAD));
    }
    Ok(match put.coding {
        Coding::Whole if frame.head.payload_len != put.state_len => Err(STATE_LENGTH),
        Coding::Packed => delta::unpack(&scan.payload(frame)?, put.state_len).map(drop),
        Coding::Whole | Coding::Delta(_) => Ok(()),
    })
}
