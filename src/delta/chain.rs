//! A chain of deltas, composed before any byte is moved.
//!
//! The unpacked payloads stand one behind the other in one arena. Each state is a list of pieces of
//! the root and the arena, made from the list before it and the ops of its delta; only what is asked
//! for is put together. A delta that is refused leaves the states as they were. The lists are bounded
//! whatever the deltas say: where one would become too long, the state before it is put together
//! and takes the root's place, so a chain may be slow for its shape but never fails for it.

use std::collections::VecDeque;

use super::payload::{self, Op, Stored};
use super::rule::{OPS_MAX, STATE_BYTES_MAX, Sums};
use crate::format::Flaw;

/// Where a list would have more pieces than this the state before it becomes the root.
const PIECES_MAX: usize = 4096;

/// The list of one delta right on a root may be longer: a literal and a copy for each op.
const PIECES_OF_DELTA_MAX: usize = 2 * OPS_MAX as usize;

/// The pieces of all lists that are kept: 64 of the longest, 2 MiB.
const KEPT_PIECES_MAX: usize = 64 * PIECES_MAX;

/// The most bytes of unpacked payloads at a time.
const ARENA_BYTES_MAX: usize = 2 * STATE_BYTES_MAX;

/// So many pieces are looked at in turn before they are searched.
const WALKED_PIECES_MAX: usize = 8;

/// Which states of a chain can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// The newest.
    Last,
    /// All, within bounds.
    All,
}

/// A stretch of a state from `to` on to the next piece: `from` counts through the root and then the
/// arena. No piece lies in both, since a payload does not begin with its literals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    to: u32,
    from: u32,
}

/// A state in pieces, none of which goes on where the one before it ends.
struct List {
    pieces: Vec<Piece>,
    len: u32,
}

enum Root<B> {
    Given(B),
    Made(Vec<u8>),
}

/// A root, which is any whole state, and the deltas on it.
pub(crate) struct Chain<B> {
    root: Root<B>,
    keep: Keep,
    arena: Vec<u8>,
    /// Of the newest states, the last one last; none where that is the root.
    lists: VecDeque<List>,
    kept_pieces: usize,
    root_step: usize,
    sums: Sums,
    ops: Vec<Op>,
    spare: Vec<Piece>,
}

impl<B: AsRef<[u8]>> Chain<B> {
    /// A chain of no delta yet.
    pub fn new(root: B, keep: Keep) -> Self {
        Chain {
            root: Root::Given(root),
            keep,
            arena: Vec::new(),
            lists: VecDeque::new(),
            kept_pieces: 0,
            root_step: 0,
            sums: Sums::of_keyframe(0),
            ops: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// Adds a delta on the newest state. Errors: `Corrupt`; the newest state stays the same then.
    ///
    /// Allocates at most what the lengths of the delta's own bytes allow, and sometimes a state.
    pub fn push(&mut self, delta: &Stored<'_>) -> Result<(), Flaw> {
        if self.root().len() > STATE_BYTES_MAX {
            return Err(Flaw::Corrupt("delta on a state that is too long"));
        }
        let unpacked_len = delta.unpacked_len as usize;
        if self.arena.len().saturating_add(unpacked_len) > ARENA_BYTES_MAX && !self.arena.is_empty() {
            self.make_root();
        }
        let start = self.arena.len();
        payload::unpack_onto(delta, &mut self.arena)?;
        let (base_len, payload) = (self.len(), &self.arena[start..]);
        let literals = payload::read(payload, base_len, delta.state_len, &mut self.ops).inspect_err(|_| self.arena.truncate(start))?;
        let mut pieces = std::mem::take(&mut self.spare);
        if !self.compose(start + literals, PIECES_MAX, &mut pieces) {
            let payload = self.arena.split_off(start);
            self.make_root();
            self.arena = payload;
            // Of a root alone an op makes two pieces at most: it fits.
            self.compose(literals, PIECES_OF_DELTA_MAX, &mut pieces);
        }
        self.add(List { pieces, len: delta.state_len });
        self.sums = self.sums.after(delta.payload.len() as u32, delta.unpacked_len, self.ops.len() as u32);
        Ok(())
    }

    /// What the chain has cost, on a keyframe of so many stored bytes.
    pub fn sums(&self, keyframe: u32) -> Sums {
        Sums { keyframe, ..self.sums }
    }

    /// The newest state.
    pub fn last(&self) -> Vec<u8> {
        self.lists.back().map_or_else(|| self.root().to_vec(), |list| self.put_together(list))
    }

    /// The state after so many deltas, of none the root; `None` where it is not kept, or not there.
    pub fn state(&self, step: usize) -> Option<Vec<u8>> {
        if step == self.root_step {
            return Some(self.root().to_vec());
        }
        let first = (self.sums.deltas as usize + 1).checked_sub(self.lists.len())?;
        self.lists.get(step.checked_sub(first)?).map(|list| self.put_together(list))
    }

    fn root(&self) -> &[u8] {
        match &self.root {
            Root::Given(root) => root.as_ref(),
            Root::Made(root) => root,
        }
    }

    /// The length of the newest state.
    fn len(&self) -> u32 {
        self.lists.back().map_or(self.root().len() as u32, |list| list.len)
    }

    fn put_together(&self, list: &List) -> Vec<u8> {
        let root = self.root();
        let mut state = Vec::with_capacity(list.len as usize);
        let ends = list.pieces.iter().skip(1).map(|next| next.to).chain([list.len]);
        for (piece, end) in list.pieces.iter().zip(ends) {
            let (from, length) = (piece.from as usize, (end - piece.to) as usize);
            let bytes = match from.checked_sub(root.len()) {
                Some(from) => &self.arena[from..from + length],
                None => &root[from..from + length],
            };
            state.extend_from_slice(bytes);
        }
        state
    }

    /// Puts the newest state in the root's place; those before it are not kept.
    fn make_root(&mut self) {
        if !self.lists.is_empty() {
            self.root = Root::Made(self.last());
        }
        self.root_step = self.sums.deltas as usize;
        self.lists.clear();
        self.kept_pieces = 0;
        self.arena.clear();
    }

    /// Makes the pieces of the ops read last, whose literals stand in the arena; `false` where they
    /// would be more than `most`.
    fn compose(&self, literals: usize, most: usize, pieces: &mut Vec<Piece>) -> bool {
        let whole = [Piece { to: 0, from: 0 }];
        let base = self.lists.back().map_or(&whole[..], |list| &list.pieces);
        let mut composed = Composed { pieces, base, most, to: 0, near: 0 };
        composed.pieces.clear();
        composed.pieces.reserve(most.min(base.len() + 2 * self.ops.len()));
        let mut literal = (self.root().len() + literals) as u32;
        self.ops.iter().all(|op| {
            composed.literal(literal, op.literal);
            literal += op.literal;
            composed.copy(op.from, op.copy)
        })
    }

    /// Appends a list and drops those that are not kept.
    fn add(&mut self, list: List) {
        self.kept_pieces += list.pieces.len();
        self.lists.push_back(list);
        while self.lists.len() > 1 && (self.keep == Keep::Last || self.kept_pieces > KEPT_PIECES_MAX) {
            if let Some(dropped) = self.lists.pop_front() {
                self.kept_pieces -= dropped.pieces.len();
                self.spare = dropped.pieces;
            }
        }
    }
}

/// A list being made from the list before it.
struct Composed<'a> {
    pieces: &'a mut Vec<Piece>,
    base: &'a [Piece],
    most: usize,
    /// How much of the state is made up.
    to: u32,
    /// The piece of the base that was met last: copies mostly go forward.
    near: usize,
}

impl Composed<'_> {
    fn literal(&mut self, from: u32, length: u32) {
        if length > 0 {
            self.append(from);
            self.to += length;
        }
    }

    /// `false` where the pieces become too many.
    fn copy(&mut self, from: u32, length: u32) -> bool {
        if length > 0 {
            self.near = self.piece_at(from);
            let first = self.base[self.near];
            self.append(first.from + (from - first.to));
            let others = &self.base[self.near + 1..];
            let count = others.iter().take_while(|piece| piece.to < from + length).count();
            if self.pieces.len() + count > self.most {
                return false;
            }
            let to = self.to;
            self.pieces.extend(others[..count].iter().map(|piece| Piece { to: piece.to - from + to, from: piece.from }));
            self.near += count;
            self.to += length;
        }
        self.pieces.len() <= self.most
    }

    fn append(&mut self, from: u32) {
        let to = self.to;
        let goes_on = self.pieces.last().is_some_and(|last| last.from + (to - last.to) == from);
        if !goes_on {
            self.pieces.push(Piece { to, from });
        }
    }

    /// The piece of the base that a place lies in.
    fn piece_at(&self, place: u32) -> usize {
        if self.base[self.near].to <= place {
            let ahead = &self.base[self.near + 1..];
            let walked = ahead.iter().take(WALKED_PIECES_MAX).take_while(|piece| piece.to <= place).count();
            if walked < WALKED_PIECES_MAX {
                return self.near + walked;
            }
        }
        self.base.partition_point(|piece| piece.to <= place) - 1
    }
}

#[cfg(test)]
mod tests;
