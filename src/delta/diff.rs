//! What of a state stands in its base: a list of copies, found by hashing the base at a fixed stride.
//!
//! First what both have in common at their starts and ends; then, after each copy, what goes on a
//! little further at the same distance; and last what an anchor of the base is met in, wherever it
//! is. The ops always make up the target exactly. Takes linear time on any bytes: what is tried and
//! not taken is bounded at each place, and where nothing is found the places tried become fewer.

use super::compare::{common_prefix, common_suffix, first_run};
use super::payload::Op;

/// A common start or end shorter than this costs as much as it saves.
const END_BYTES_LEAST: usize = 8;

/// How far behind a copy the same distance is tried.
const DIAGONAL_BYTES: usize = 256;

/// After so many misses in a row fewer places are tried, and fewer again after as many more.
const MISSES_BEFORE_HURRY: usize = 1024;

/// The largest step; odd as all are, so that every place within a stride is met in turn.
const STEP_MAX: usize = 17;

/// The bits of a slot that tell hashes of one place apart; the others are the anchor's number.
const TAG_BITS: u32 = 14;
const TAG_MASK: u32 = (1 << TAG_BITS) - 1;

/// Anchors are numbered from 1, so that an empty slot is 0.
const ANCHORS_MAX: usize = (1 << (32 - TAG_BITS)) - 1;

/// A base from here on is searched for longer matches at wider strides.
const LARGE_BASE_BYTES: usize = 64 << 10;

/// How closely a base is searched.
struct Grain {
    stride: usize,
    /// The shortest match that an anchor may give.
    least: usize,
    /// The shortest match at the distance of the copy before it.
    diagonal: usize,
}

const FINE: Grain = Grain { stride: 16, least: 16, diagonal: 8 };
const FINE_WINDOW: usize = 8;
const COARSE: Grain = Grain { stride: 64, least: 64, diagonal: 32 };
const COARSE_WINDOW: usize = 32;

/// The anchors of a base by the hash of what stands there: at most 2 MiB.
#[derive(Default)]
pub(super) struct Anchors {
    /// 2 to 4 for each anchor.
    slots: Vec<u32>,
    stride: usize,
    shift: u32,
}

/// Finds the ops that make `target` of `base`; `false` where they would be more than `room`.
pub(super) fn diff(base: &[u8], target: &[u8], room: usize, anchors: &mut Anchors, ops: &mut Vec<Op>) -> bool {
    ops.clear();
    let long_enough = |alike: usize| if alike >= END_BYTES_LEAST { alike } else { 0 };
    let prefix = long_enough(common_prefix(base, target));
    let suffix = long_enough(common_suffix(&base[prefix..], &target[prefix..]));
    let mut script = Script { ops, room, done: 0, after: 0 };
    script.copy(0, 0, prefix);
    let middle_end = target.len() - suffix;
    let middle = Middle { base, target: &target[..middle_end] };
    if base.len() < LARGE_BASE_BYTES {
        middle.search::<FINE_WINDOW>(&FINE, anchors, &mut script);
    } else {
        middle.search::<COARSE_WINDOW>(&COARSE, anchors, &mut script);
    }
    script.copy(middle_end, base.len() - suffix, suffix);
    script.finish(target.len())
}

/// The ops found so far.
struct Script<'a> {
    ops: &'a mut Vec<Op>,
    room: usize,
    /// How much of the target they make up.
    done: usize,
    /// Where in the base the last copy ended.
    after: usize,
}

impl Script<'_> {
    /// Copies to `at`, which lies behind what is done; what is between is brought along.
    fn copy(&mut self, at: usize, from: usize, length: usize) {
        if length == 0 {
            return;
        }
        match self.ops.last_mut() {
            Some(last) if at == self.done && from == self.after => last.copy += length as u32,
            _ => self.ops.push(Op { literal: (at - self.done) as u32, copy: length as u32, from: from as u32 }),
        }
        self.done = at + length;
        self.after = from + length;
    }

    /// Brings along what is left; answers whether there was room.
    fn finish(&mut self, length: usize) -> bool {
        if self.done < length {
            self.ops.push(Op { literal: (length - self.done) as u32, copy: 0, from: 0 });
        }
        self.ops.len() <= self.room
    }
}

/// A copy that could be made.
struct Match {
    at: usize,
    from: usize,
    length: usize,
}

/// What is searched: the base, and the target up to the end that both have in common.
struct Middle<'a> {
    base: &'a [u8],
    target: &'a [u8],
}

impl Middle<'_> {
    /// Appends the copies of the middle, from the first on, each as long as it can be.
    fn search<const WINDOW: usize>(&self, grain: &Grain, anchors: &mut Anchors, script: &mut Script<'_>) {
        let mut is_indexed = false;
        while script.done + grain.diagonal <= self.target.len() && script.ops.len() <= script.room {
            let beside = self.beside(grain, script);
            // Nothing that an anchor may give fits before it.
            let is_near = beside.is_some_and(|ahead| ahead < grain.least);
            let mut found = None;
            if !is_near {
                if !is_indexed {
                    anchors.index::<WINDOW>(self.base, grain.stride);
                    is_indexed = true;
                }
                let stop = beside.map_or(self.target.len(), |ahead| script.done + ahead);
                found = self.by_anchor::<WINDOW>(grain, anchors, script.done, stop);
            }
            // How far it goes is looked at only where it is taken: looked at more often it would not be linear.
            let beside = || beside.map(|ahead| self.alike(script.done + ahead, script.after + ahead));
            let Some(Match { at, from, length }) = found.or_else(beside) else { return };
            script.copy(at, from, length);
        }
    }

    /// How far behind what is done the next match at the distance of the last copy is, if it is close.
    fn beside(&self, grain: &Grain, script: &Script<'_>) -> Option<usize> {
        first_run(&self.base[script.after..], &self.target[script.done..], grain.diagonal, DIAGONAL_BYTES)
    }

    /// All that is alike from two places on.
    fn alike(&self, at: usize, from: usize) -> Match {
        Match { at, from, length: common_prefix(&self.base[from..], &self.target[at..]) }
    }

    /// The first match with an anchor that is met from `done` on and before `stop`.
    fn by_anchor<const WINDOW: usize>(&self, grain: &Grain, anchors: &Anchors, done: usize, stop: usize) -> Option<Match> {
        let stop = stop.min((self.target.len() + 1).saturating_sub(WINDOW));
        let (mut at, mut step) = (done, 1);
        while at < stop {
            let hurry = stop.min(at + MISSES_BEFORE_HURRY * step);
            while at < hurry {
                let window: &[u8; WINDOW] = self.target[at..].first_chunk()?;
                let (place, tag) = anchors.place(hash(window));
                let slot = anchors.slots[place];
                if slot & TAG_MASK == tag
                    && let Some(found) = self.around(grain, anchors, slot, done, at)
                {
                    return Some(found);
                }
                at += step;
            }
            step = STEP_MAX.min(step + 2);
        }
        None
    }

    /// The match around `at` with the anchor of a slot, if it is long enough; not before `done`.
    fn around(&self, grain: &Grain, anchors: &Anchors, slot: u32, done: usize, at: usize) -> Option<Match> {
        let from = ((slot >> TAG_BITS) as usize).checked_sub(1)? * anchors.stride;
        let ahead = common_prefix(&self.base[from..], &self.target[at..]);
        let behind = common_suffix(&self.base[..from], &self.target[done..at]);
        (ahead + behind >= grain.least).then_some(Match { at: at - behind, from: from - behind, length: ahead + behind })
    }
}

impl Anchors {
    /// Makes an anchor of every place that is a multiple of the stride, or of a power of two of it.
    fn index<const WINDOW: usize>(&mut self, base: &[u8], stride: usize) {
        self.stride = stride;
        while base.len() / self.stride >= ANCHORS_MAX {
            self.stride *= 2;
        }
        let anchors = base.len().div_ceil(self.stride);
        let bits = (2 * anchors).next_power_of_two().ilog2();
        self.shift = 64 - bits - TAG_BITS;
        self.slots.clear();
        self.slots.resize(1 << bits, 0);
        // Backwards, so that of anchors that are alike the first is kept, without a look at the slot.
        for number in (0..anchors).rev() {
            let Some(window) = base[number * self.stride..].first_chunk::<WINDOW>() else { continue };
            let (place, tag) = self.place(hash(window));
            self.slots[place] = (number as u32 + 1) << TAG_BITS | tag;
        }
    }

    /// The slot and the tag of a hash.
    fn place(&self, hash: u64) -> (usize, u32) {
        let place = hash >> self.shift;
        ((place >> TAG_BITS) as usize, place as u32 & TAG_MASK)
    }
}

/// A hash whose high bits are good, of 8 bytes or of 32.
fn hash<const WINDOW: usize>(window: &[u8; WINDOW]) -> u64 {
    const FACTORS: [u64; 4] = [0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f, 0x1656_67b1_9e37_79f9, 0xd6e8_feb8_6659_fd93];
    let (words, _) = window.as_chunks::<8>();
    let mixed = |sum: u64, (word, factor): (&[u8; 8], u64)| sum ^ u64::from_le_bytes(*word).wrapping_mul(factor).rotate_left(29);
    words.iter().zip(FACTORS).fold(0, mixed).wrapping_mul(FACTORS[0])
}

#[cfg(test)]
mod tests {
    use super::super::{payload, tests::noise};
    use super::*;

    /// What is found at `length` bytes, after some change of them: the ops, and the bytes of all that is stored.
    fn found(length: usize, change: impl FnOnce(&mut Vec<u8>)) -> (usize, usize) {
        let base = noise(1, length);
        let mut target = base.clone();
        change(&mut target);
        let mut ops = Vec::new();
        assert!(diff(&base, &target, usize::MAX, &mut Anchors::default(), &mut ops));
        assert_eq!(ops.iter().map(|op| (op.literal + op.copy) as usize).sum::<usize>(), target.len());
        (ops.len(), payload::len(&ops))
    }

    /// A worse search would give every state back too: only its cost would tell.
    #[test]
    fn what_is_found_costs_what_it_did() {
        let every = |step: usize, length: usize| found(length, |state| state.iter_mut().step_by(step).for_each(|byte| *byte ^= 1));
        let blocks =
            |length: usize, block: usize| found(length, |state| *state = state.chunks(block).rev().flatten().copied().collect::<Vec<u8>>());
        let inserts = |length: usize, step: usize| {
            found(length, |state| *state = state.chunks(step).flat_map(|chunk| [chunk, b"and what is new"].concat()).collect())
        };
        assert_eq!(every(7, 3000), (1, 3004));
        assert_eq!(every(17, 3000), (177, 716));
        assert_eq!(every(40, 3000), (75, 301));
        assert_eq!(every(31, 70_000), (1, 70005));
        assert_eq!(every(90, 70_000), (778, 3114));
        assert_eq!(every(333, 70_000), (211, 1056));
        assert_eq!(blocks(3000, 20), (135, 721));
        assert_eq!(blocks(3000, 50), (60, 241));
        assert_eq!(blocks(3000, 700), (5, 26));
        assert_eq!(blocks(70_000, 70), (557, 33337));
        assert_eq!(blocks(70_000, 200), (348, 2145));
        assert_eq!(blocks(70_000, 3000), (24, 122));
        assert_eq!(inserts(3000, 30), (95, 1967));
        assert_eq!(inserts(3000, 300), (11, 193));
        assert_eq!(inserts(70_000, 90), (641, 26033));
        assert_eq!(inserts(70_000, 3000), (25, 459));
        assert_eq!(found(3000, |state| drop(state.drain(1000..1400))), (2, 10));
        assert_eq!(found(70_000, |state| drop(state.drain(1000..1400))), (2, 11));
        assert_eq!(found(3000, |state| state.extend_from_within(..1500)), (2, 10));
        // What is there twice goes on into the end that both have.
        assert_eq!(found(3000, |state| *state = [&state[..1500], &state[500..]].concat()), (2, 10));
        assert_eq!(found(70_000, |state| state.extend_from_within(300..2000)), (2, 12));
        assert_eq!(found(70_000, |state| drop(state.splice(5000..5000, noise(2, 130_000)))), (2, 130014));
    }

    #[test]
    fn anchors_of_a_long_base_stand_further_apart() {
        let mut anchors = Anchors::default();
        for (length, stride) in [(ANCHORS_MAX * 64 - 1, 64), (ANCHORS_MAX * 64, 128)] {
            anchors.index::<COARSE_WINDOW>(&vec![0; length], 64);
            assert_eq!(anchors.stride, stride, "{length} bytes");
        }
    }
}
