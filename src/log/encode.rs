//! How a batch's states are stored: as they are, packed, or as differences from what their threads hold.
//!
//! Done before the turn, for it is what costs; so nothing here is certain. A form names the checkpoint
//! that it is a difference from, and counts only if that is still the thread's newest in the turn. What
//! cannot be had, or believed, makes a state stored whole, never a put that fails.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use super::Shared;
use super::heads::Head;
use super::ids::IdKey;
use super::location::Location;
use crate::batch::{Batch, Operation};
use crate::checkpoint::{CheckpointId, StateBytes};
use crate::delta::{self, Encoded, Scratch, Sums};
use crate::format::frame::payload_check;
use crate::format::record::{Coding, Difference};
use crate::options::Compression;

/// After so many useless differences in a row only one put in so many tries another.
const USELESS_MAX: u32 = 4;
const TRIED_EVERY: u32 = 8;

/// A state as it is to be stored.
pub(crate) struct Form<'a> {
    /// What is written.
    pub payload: Cow<'a, [u8]>,
    /// Its checksum.
    pub payload_check: u32,
    /// How it makes the state.
    pub coding: Coding,
    /// What a delta is a difference from.
    pub base: Option<Base>,
    sums: Sums,
    useless: u32,
}

/// What a delta is a difference from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    /// The checkpoint at a place, in this very frame.
    Entry(u64, Location),
    /// What the put with that number in the batch puts.
    Put(usize),
}

/// A thread's newest state, as a put will find it.
#[derive(Clone)]
struct Newest<'a> {
    base: Base,
    state: Bytes<'a>,
    hash: u64,
    sums: Sums,
    useless: u32,
}

#[derive(Clone)]
enum Bytes<'a> {
    /// Of the store.
    Held(StateBytes),
    /// Of the batch.
    Given(&'a [u8]),
    /// Not worth reading now.
    Unread,
}

/// What the operations of a batch have made of a thread so far.
#[derive(Default)]
struct Changed<'a> {
    /// Its newest checkpoint, where that is not the one it had before; the inner `None` if it is no use.
    newest: Option<Option<Newest<'a>>>,
    ids: HashSet<&'a CheckpointId>,
    /// Whether it was deleted as a whole.
    is_begun_anew: bool,
}

impl Shared {
    /// The forms of a batch's puts, in their order. Reads what their threads hold, where that is not in
    /// memory; without `deltas` every state is stored whole.
    pub(super) fn forms<'a>(&self, batch: &'a Batch<'a>, deltas: bool) -> Vec<Form<'a>> {
        if deltas {
            // What cannot be read now is told where it has to be.
            let _ = self.follow_to(self.tail.appended());
        }
        // Where something could not be read, nobody knows what a checkpoint stands directly behind.
        let deltas = deltas && self.gaps.load().segments.is_empty();
        let operations = batch.operations();
        let mut forms = Vec::with_capacity(operations.len());
        let mut threads: HashMap<&str, Changed<'a>> = HashMap::new();
        for operation in operations {
            match operation {
                Operation::Put { thread, state, options, .. } => {
                    let changed = threads.entry(thread).or_default();
                    let is_new = |id| changed.ids.insert(id) && (changed.is_begun_anew || !self.has(thread, id));
                    let is_new = options.id.as_ref().is_none_or(is_new);
                    let newest = match &changed.newest {
                        // One that is put again goes to its place, and is no difference from what is newest.
                        _ if !deltas || !is_new || !delta::is_worth(state.len()) => None,
                        Some(newest) => newest.clone(),
                        None => self.newest(thread),
                    };
                    let form = self.form(state, newest);
                    if operations.len() > 1 {
                        changed.newest = Some(is_new.then(|| form.newest(forms.len(), state)));
                    }
                    forms.push(form);
                }
                Operation::Delete { thread, id: None } => {
                    threads.insert(thread, Changed { newest: Some(None), is_begun_anew: true, ..Changed::default() });
                }
                Operation::Delete { thread, .. } => threads.entry(thread).or_default().newest = Some(None),
                Operation::Attach { .. } => {}
            }
        }
        forms
    }

    /// The forms of what a batch attaches, in its order.
    pub(super) fn values<'a>(&self, batch: &'a Batch<'a>) -> Vec<Form<'a>> {
        let value = |operation: &'a Operation<'a>| match operation {
            Operation::Attach { value, .. } => Some(self.whole(value, 0)),
            _ => None,
        };
        batch.operations().iter().filter_map(value).collect()
    }

    fn has(&self, thread: &str, id: &CheckpointId) -> bool {
        self.index.appended(thread).is_some_and(|view| view.find(&IdKey::from(id)).is_some())
    }

    /// What a thread holds as its newest; `None` if that is nothing, cannot be read or is no use.
    fn newest<'a>(&self, thread: &str) -> Option<Newest<'a>> {
        let (view, segments) = self.at_one_moment(|| Ok(self.index.appended(thread))).ok()?;
        let view = view?;
        let entry = view.head().filter(|head| delta::is_worth(head.state_len.bytes() as usize))?;
        let known = self.heads.get(thread, entry);
        let useless = known.as_ref().map_or(0, |head| head.useless);
        let base = Base::Entry(entry.place, entry.at);
        if !is_tried(useless) {
            return Some(Newest { base, state: Bytes::Unread, hash: 0, sums: Sums::of_keyframe(0), useless });
        }
        let read = || self.states(&segments).head(&view, entry).ok();
        let Head { state, hash, sums, .. } = known.filter(|head| head.state.is_some()).or_else(read)?;
        Some(Newest { base, state: Bytes::Held(state?), hash, sums, useless })
    }

    fn form<'a>(&self, state: &'a [u8], newest: Option<Newest<'a>>) -> Form<'a> {
        let Some(newest) = newest else { return self.whole(state, 0) };
        let base = match &newest.state {
            Bytes::Held(state) => state,
            Bytes::Given(state) => *state,
            Bytes::Unread => return self.whole(state, newest.useless + 1),
        };
        match self.scratches.with(|scratch| delta::encode(base, state, newest.sums, scratch)) {
            Ok(Encoded { payload, is_packed, unpacked_len, sums }) => {
                let base_hash = newest.hash;
                let hash = delta::content_hash(state);
                // The place is for the turn to say.
                let difference = Difference { base: 0, base_hash, hash, unpacked_len, is_packed };
                let (payload_check, payload) = (payload_check(&payload), Cow::Owned(payload));
                Form { payload, payload_check, coding: Coding::Delta(difference), base: Some(newest.base), sums, useless: 0 }
            }
            Err(delta::Whole::Useless) => self.whole(state, newest.useless + 1),
            Err(delta::Whole::Keyframe) => self.whole(state, 0),
        }
    }

    fn whole<'a>(&self, state: &'a [u8], useless: u32) -> Form<'a> {
        Form::whole(state, useless, self.options.compression)
    }

    /// Keeps the states that a batch has put, each thread's newest, for the puts and gets to come.
    pub(super) fn keep_heads(&self, batch: &Batch<'_>, forms: &[Form<'_>], placed: &[(u64, Location)]) {
        let mut puts = forms.iter().zip(placed).rev();
        let mut seen = HashSet::new();
        for operation in batch.operations().iter().rev() {
            let (thread, state, put) = match operation {
                Operation::Put { thread, state, .. } => (*thread, *state, puts.next()),
                Operation::Delete { thread, .. } => (*thread, &[][..], None),
                Operation::Attach { .. } => continue,
            };
            let is_newest = batch.operations().len() == 1 || seen.insert(thread);
            let is_kept = is_newest && self.options.delta && delta::is_worth(state.len()) && self.heads.keeps(state.len());
            let Some((form, (place, at))) = put.filter(|_| is_kept) else { continue };
            let copy = is_tried(form.useless).then(|| self.heads.copied(thread, state));
            let kept = copy.as_ref().map(|copy| StateBytes::of_region(copy.clone(), 0..state.len()));
            let hash = copy.as_ref().map_or(0, |_| form.hash(state));
            let head = Head { place: *place, at: *at, state: kept, copy, hash, sums: form.sums, useless: form.useless };
            self.heads.keep(&Arc::from(thread), head);
        }
    }
}

/// Whether the next put tries a difference, after so many that were useless.
fn is_tried(useless: u32) -> bool {
    useless < USELESS_MAX || useless.is_multiple_of(TRIED_EVERY)
}

impl<'s> Form<'s> {
    /// The same with a payload of its own.
    pub fn into_owned(self) -> Form<'static> {
        Form { payload: Cow::Owned(self.payload.into_owned()), ..self }
    }

    /// A keyframe, of a thread with so many useless differences in a row.
    pub fn whole(state: &'s [u8], useless: u32, compression: Compression) -> Form<'s> {
        let packed = if compression == Compression::Always && delta::is_worth(state.len()) { delta::pack(state) } else { None };
        let (coding, payload) = match packed {
            Some(packed) => (Coding::Packed, Cow::Owned(packed)),
            None => (Coding::Whole, Cow::Borrowed(state)),
        };
        let (payload_check, sums) = (payload_check(&payload), Sums::of_keyframe(payload.len() as u32));
        Form { payload, payload_check, coding, base: None, sums, useless }
    }

    fn hash(&self, state: &[u8]) -> u64 {
        match self.coding {
            Coding::Delta(Difference { hash, .. }) => hash,
            Coding::Whole | Coding::Packed => delta::content_hash(state),
        }
    }

    /// What the next put of the thread in the same batch finds.
    fn newest<'a>(&self, put: usize, state: &'a [u8]) -> Newest<'a> {
        let (base, useless) = (Base::Put(put), self.useless);
        match is_tried(useless) {
            true => Newest { base, state: Bytes::Given(state), hash: self.hash(state), sums: self.sums, useless },
            false => Newest { base, state: Bytes::Unread, hash: 0, sums: self.sums, useless },
        }
    }
}

/// Memory for differences, lent to one worker at a time; others make their own.
#[derive(Default)]
pub(crate) struct Scratches(Mutex<Option<Box<Scratch>>>);

impl Scratches {
    fn with<T>(&self, work: impl FnOnce(&mut Scratch) -> T) -> T {
        let lent = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut scratch = lent().take().unwrap_or_default();
        let done = work(&mut scratch);
        *lent() = Some(scratch);
        done
    }
}
