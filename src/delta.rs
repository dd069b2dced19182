//! States as differences from others: bytes in, bytes out.
//!
//! A delta lists what to copy from its base and brings the rest along. A chain of deltas is composed
//! before any byte is moved, so that reading costs about one copy of the state however long the
//! chain is. Nothing is assumed about the bytes, and every delta is read back and compared with its
//! state before it is handed out: a mistake in here costs room, never a state.
//!
//! Pure: no file, clock or lock is known here, nor who a base is or whether it is the right one; for
//! that the content hash stands in the record. The layout is in DESIGN.md, with an example.

mod chain;
mod compare;
mod diff;
mod payload;
mod rule;

pub(crate) use chain::{Chain, Keep};
pub(crate) use payload::{Stored, pack, unpack};
pub(crate) use rule::{DELTAS_MAX, Sums};

/// The content hash of a whole state: xxh3-64.
pub(crate) fn content_hash(state: &[u8]) -> u64 {
    twox_hash::XxHash3_64::oneshot(state)
}

/// A state as a difference from another.
#[derive(Debug)]
pub(crate) struct Encoded {
    /// The bytes to store.
    pub payload: Vec<u8>,
    /// Whether they went through lz4.
    pub is_packed: bool,
    /// Their length before that, or as it is.
    pub unpacked_len: u32,
    /// What the chain costs with it.
    pub sums: Sums,
}

impl Encoded {
    /// The delta as it is read back, of a state of so many bytes.
    pub fn stored(&self, state_len: u32) -> Stored<'_> {
        Stored { payload: &self.payload, is_packed: self.is_packed, unpacked_len: self.unpacked_len, state_len }
    }
}

/// Memory that one difference after the other is found in, so that none allocates anything large.
///
/// Keeps at most 5 MiB between two uses.
#[derive(Default)]
pub(crate) struct Scratch {
    anchors: diff::Anchors,
    ops: Vec<payload::Op>,
    unpacked: Vec<u8>,
    packer: payload::Packer,
}

/// What of the unpacked bytes, and of the packed ones, is kept for the next use.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Why a state is stored whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whole {
    /// It has too little in common with its base.
    Useless,
    /// The chain has cost enough, or the state is no use as a delta.
    Keyframe,
}

/// Whether a state of that length can be a delta, or the base of one.
pub(crate) fn is_worth(length: usize) -> bool {
    (rule::STATE_BYTES_MIN..=rule::STATE_BYTES_MAX).contains(&length)
}

/// `target` as a difference from `base`, at the end of a chain that has cost `sums` so far; or why it is
/// better stored whole. Takes time linear in both lengths.
pub(crate) fn encode(base: &[u8], target: &[u8], sums: Sums, scratch: &mut Scratch) -> Result<Encoded, Whole> {
    if !rule::may_follow(base.len(), target.len(), sums) {
        return Err(Whole::Keyframe);
    }
    let is_short = diff::diff(base, target, rule::ops_left(sums), &mut scratch.anchors, &mut scratch.ops);
    let whole = |bytes| if is_short && !rule::saves(bytes, target.len()) { Whole::Useless } else { Whole::Keyframe };
    let length = payload::len(&scratch.ops);
    if !is_short || !rule::may_unpack(length, target.len(), sums) {
        return Err(whole(length));
    }
    let ops = scratch.ops.len() as u32;
    payload::write(&scratch.ops, target, &mut scratch.unpacked);
    let unpacked_len = scratch.unpacked.len() as u32;
    let packed = scratch.packer.pack(&scratch.unpacked);
    let is_packed = packed.is_some();
    let payload = packed.unwrap_or(&scratch.unpacked).to_vec();
    if !rule::may_store(payload.len(), target.len(), sums) {
        return Err(whole(payload.len()));
    }
    let sums = sums.after(payload.len() as u32, unpacked_len, ops);
    let encoded = Encoded { payload, is_packed, unpacked_len, sums };
    let is_right = gives(&encoded.stored(target.len() as u32), base, target, scratch);
    scratch.packer.keep(KEPT_BYTES_MAX);
    if scratch.unpacked.capacity() > KEPT_BYTES_MAX {
        scratch.unpacked = Vec::new();
    }
    if is_right { Ok(encoded) } else { Err(Whole::Keyframe) }
}

/// Whether a delta on `base` gives `target`: compares piece by piece, builds nothing.
fn gives(stored: &Stored<'_>, base: &[u8], target: &[u8], scratch: &mut Scratch) -> bool {
    scratch.unpacked.clear();
    if payload::unpack_onto(stored, &mut scratch.unpacked).is_err() {
        return false;
    }
    let Ok(mut literals) = payload::read(&scratch.unpacked, base.len() as u32, stored.state_len, &mut scratch.ops) else {
        return false;
    };
    let mut rest = target;
    for op in &scratch.ops {
        let (literal, copy, from) = (op.literal as usize, op.copy as usize, op.from as usize);
        let (brought, after) = rest.split_at(literal);
        let (copied, after) = after.split_at(copy);
        if brought != &scratch.unpacked[literals..literals + literal] || copied != &base[from..from + copy] {
            return false;
        }
        literals += literal;
        rest = after;
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::examples::example;
    use crate::format::record::{Coding, Difference, Put, Record};
    use proptest::prelude::*;

    const ROOMY: Sums = Sums { keyframe: u32::MAX, deltas: 0, stored: 0, unpacked: 0, ops: 0 };

    /// Bytes that look like no others, the same for a seed.
    pub(super) fn noise(seed: u64, length: usize) -> Vec<u8> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        };
        (0..length).map(|_| next()).collect()
    }

    fn decoded(base: &[u8], encoded: &Encoded, state_len: usize) -> Vec<u8> {
        let mut chain = Chain::new(base, Keep::Last);
        chain.push(&encoded.stored(state_len as u32)).unwrap();
        chain.last()
    }

    /// The target as a delta and back, and by the ops alone where it is better stored whole.
    fn holds(base: &[u8], target: &[u8]) -> Option<Encoded> {
        let mut scratch = Scratch::default();
        assert!(diff::diff(base, target, usize::MAX, &mut scratch.anchors, &mut scratch.ops));
        let unpacked = payload::written(&scratch.ops, target);
        assert_eq!(unpacked.len(), payload::len(&scratch.ops));
        if scratch.ops.len() <= rule::OPS_MAX as usize {
            let raw = Encoded { unpacked_len: unpacked.len() as u32, payload: unpacked, is_packed: false, sums: ROOMY };
            assert!(decoded(base, &raw, target.len()) == target, "other bytes came back");
        }
        let encoded = encode(base, target, ROOMY, &mut scratch).ok()?;
        assert!(decoded(base, &encoded, target.len()) == target, "other bytes came back");
        assert!(encoded.payload.len() * 4 < target.len() * 3);
        Some(encoded)
    }

    #[derive(Clone, Debug)]
    enum Edit {
        Insert(usize, Vec<u8>),
        Remove(usize, usize),
        Move(usize, usize, usize),
        Repeat(usize, usize),
        Change(usize),
    }

    fn edits() -> impl Strategy<Value = Vec<Edit>> {
        let place = || 0..1usize << 20;
        let edit = prop_oneof![
            (place(), prop::collection::vec(any::<u8>(), 0..300)).prop_map(|(at, bytes)| Edit::Insert(at, bytes)),
            (place(), 0..500usize).prop_map(|(at, length)| Edit::Remove(at, length)),
            (place(), place(), 0..500usize).prop_map(|(from, to, length)| Edit::Move(from, to, length)),
            (place(), 0..500usize).prop_map(|(at, length)| Edit::Repeat(at, length)),
            place().prop_map(Edit::Change),
        ];
        prop::collection::vec(edit, 0..12)
    }

    fn edited(base: &[u8], edits: &[Edit]) -> Vec<u8> {
        let mut bytes = base.to_vec();
        for edit in edits {
            let within = |at: usize, bytes: &[u8]| at % (bytes.len() + 1);
            let range = |at: usize, length: usize, bytes: &[u8]| within(at, bytes)..(within(at, bytes) + length).min(bytes.len());
            match edit {
                Edit::Insert(at, new) => drop(bytes.splice(within(*at, &bytes)..within(*at, &bytes), new.iter().copied())),
                Edit::Remove(at, length) => drop(bytes.drain(range(*at, *length, &bytes))),
                Edit::Move(from, to, length) => {
                    let moved: Vec<u8> = bytes.drain(range(*from, *length, &bytes)).collect();
                    let to = within(*to, &bytes);
                    bytes.splice(to..to, moved);
                }
                Edit::Repeat(at, length) => bytes.extend_from_within(range(*at, *length, &bytes)),
                Edit::Change(at) => {
                    let at = within(*at, &bytes);
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte ^= 0x55;
                    }
                }
            }
        }
        bytes
    }

    /// The example of DESIGN.md: a counter has changed and a message was added.
    #[test]
    fn the_example_is_as_it_is_shown() {
        let base = br#"{"step":7,"messages":[{"role":"user","content":"What is the weather in Lisbon today?"},{"role":"assistant","content":"Let me look that up for you."}]}"#;
        let target = br#"{"step":8,"messages":[{"role":"user","content":"What is the weather in Lisbon today?"},{"role":"assistant","content":"Let me look that up for you."},{"role":"tool","content":"21 degrees, clear"}]}"#;
        let encoded = holds(base, target).unwrap();
        assert_eq!(encoded.payload, example("delta"));
        assert_eq!((base.len(), target.len(), encoded.unpacked_len, encoded.is_packed), (150, 196, 59, false));
        let record = example("record-put-delta");
        let Ok(Record::Put(Put { coding: Coding::Delta(told), .. })) = Record::decode(&record) else { panic!("no delta") };
        let (base_hash, hash) = (content_hash(base), content_hash(target));
        assert_eq!(
            told,
            Difference { base: 1, base_hash, hash, unpacked_len: 59, is_packed: false },
            "{:02x?} {:02x?}",
            base_hash.to_le_bytes(),
            hash.to_le_bytes()
        );
    }

    #[test]
    fn lengths_around_the_bounds_come_back() {
        for length in [0, 1, 127, 128, 129, 4095, 4096, 4097, 65_535, 65_536, 65_537] {
            let base = noise(1, length);
            let mut target = base.clone();
            target.splice(length / 2..length / 2, *b"inserted");
            let small = |encoded: Encoded| encoded.payload.len() < 40;
            assert_eq!(holds(&base, &target).is_some_and(small), length >= 128, "{length} bytes and 8 more");
            assert_eq!(holds(&target, &base).is_some_and(small), length >= 128, "{length} bytes of 8 more");
            assert_eq!(holds(&base, &base).is_some_and(small), length >= 128, "{length} bytes again");
            holds(&base, &noise(2, length));
            holds(&vec![0; length], &vec![0; length + 7]);
        }
    }

    #[test]
    fn why_a_state_is_stored_whole_is_told() {
        let why = |base: &[u8], target: &[u8], sums| encode(base, target, sums, &mut Scratch::default()).unwrap_err();
        let (base, other) = (noise(1, 5000), noise(2, 5000));
        assert_eq!(why(&base, &other, ROOMY), Whole::Useless);
        assert_eq!(why(&base, &base[..100], ROOMY), Whole::Keyframe, "too short");
        assert_eq!(why(&base, &base, Sums { deltas: 64, ..ROOMY }), Whole::Keyframe, "the chain is long");
        // One op, and what is left of it is not enough; an op more than there is room for.
        assert_eq!(why(&base, &base, Sums { keyframe: 1000, stored: 1000, ..ROOMY }), Whole::Keyframe, "no room is left");
        assert_eq!(why(&base, &base, Sums { unpacked: 5000, ..ROOMY }), Whole::Keyframe, "it unpacks to too much");
        let two = [&base[..2000], b"new", &base[2000..]].concat();
        assert_eq!(why(&base, &two, Sums { ops: 16_383, ..ROOMY }), Whole::Keyframe, "too many ops");
        assert!(encode(&base, &two, Sums { ops: 16_382, ..ROOMY }, &mut Scratch::default()).is_ok());
    }

    #[test]
    fn a_delta_that_gives_another_state_is_noticed() {
        let (base, target) = (b"0123456789", b"01234abc56");
        let ops = [payload::Op { literal: 0, copy: 5, from: 0 }, payload::Op { literal: 3, copy: 2, from: 5 }];
        let bytes = payload::written(&ops, target);
        let right = Stored { payload: &bytes, is_packed: false, unpacked_len: bytes.len() as u32, state_len: 10 };
        let mut scratch = Scratch::default();
        assert!(gives(&right, base, target, &mut scratch));
        assert!(!gives(&right, base, b"01234abd56", &mut scratch), "another literal");
        assert!(!gives(&right, base, b"01234abc57", &mut scratch), "another copy");
        assert!(!gives(&right, base, b"01234abc567", &mut scratch), "a longer state");
        assert!(!gives(&right, &base[..6], target, &mut scratch), "a shorter base");
        assert!(!gives(&Stored { unpacked_len: 99, ..right }, base, target, &mut scratch), "another length");
    }

    #[test]
    fn memory_is_kept_for_the_next_difference_up_to_a_bound() {
        let base = noise(1, 3 << 20);
        let mut scratch = Scratch::default();
        encode(&base, &[&base[..], b"a little"].concat(), ROOMY, &mut scratch).unwrap();
        assert!((1..4096).contains(&scratch.unpacked.capacity()));
        encode(&base, &[&base[..], &noise(2, 3 << 19)].concat(), ROOMY, &mut scratch).unwrap();
        assert_eq!(scratch.unpacked.capacity(), 0, "more than 1 MiB was let go");
    }

    #[test]
    fn what_is_alike_is_found_wherever_it_is() {
        let base = noise(3, 200_000);
        let shuffled: Vec<u8> = (0..50).flat_map(|block| &base[block * 7 % 50 * 4000..][..4000]).copied().collect();
        let encoded = holds(&base, &shuffled).unwrap();
        assert!(encoded.payload.len() < 1000 && encoded.sums.ops < 110, "{encoded:?}");
        let rows = |change: u8| -> Vec<u8> {
            (0..9000u32).flat_map(|row| format!("row {row:06}: the same {}\n", row % 7 * u32::from(change)).into_bytes()).collect()
        };
        let encoded = holds(&rows(1), &rows(2)).unwrap();
        assert!(encoded.payload.len() < 60_000, "{} bytes", encoded.payload.len());
        let zeros = vec![0; 300_000];
        let dotted: Vec<u8> = (0..300_000u32).map(|at| u8::from(at % 97 == 0)).collect();
        holds(&zeros, &dotted);
        holds(&dotted, &zeros);
    }

    proptest! {
        #[test]
        fn any_two_come_back(base in prop::collection::vec(any::<u8>(), 0..600), target in prop::collection::vec(any::<u8>(), 0..600)) {
            holds(&base, &target);
        }

        #[test]
        fn few_letters_come_back(base in prop::collection::vec(0..3u8, 0..2000), target in prop::collection::vec(0..3u8, 0..2000)) {
            holds(&base, &target);
        }

        #[test]
        fn an_edited_base_comes_back(seed in any::<u64>(), length in prop_oneof![0..5000usize, 60_000..70_000usize], edits in edits()) {
            let base = noise(seed, length);
            holds(&base, &edited(&base, &edits));
        }
    }
}
