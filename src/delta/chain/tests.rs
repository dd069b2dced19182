//! Chains of honest, odd and damaged deltas.

use super::super::{Encoded, Scratch, encode};
use super::*;
use proptest::prelude::*;

const ROOMY: Sums = Sums { keyframe: u32::MAX, deltas: 0, stored: 0, unpacked: 0, ops: 0 };

/// A payload of ops and literals that nobody would find, on a state of any length.
fn raw(ops: &[Op], literals: &[u8]) -> (Vec<u8>, u32) {
    let state_len = ops.iter().map(|op| op.literal + op.copy).sum();
    let mut target = Vec::new();
    let mut rest = literals;
    for op in ops {
        let (literal, after) = rest.split_at(op.literal as usize);
        target.extend_from_slice(literal);
        target.extend_from_slice(&vec![0; op.copy as usize]);
        rest = after;
    }
    (payload::written(ops, &target), state_len)
}

fn stored((payload, state_len): &(Vec<u8>, u32)) -> Stored<'_> {
    Stored { payload, is_packed: false, unpacked_len: payload.len() as u32, state_len: *state_len }
}

/// What a delta gives on a state, byte by byte.
fn applied(base: &[u8], delta: &Stored<'_>) -> Option<Vec<u8>> {
    let (mut bytes, mut ops) = (Vec::new(), Vec::new());
    payload::unpack_onto(delta, &mut bytes).ok()?;
    let mut at = payload::read(&bytes, base.len() as u32, delta.state_len, &mut ops).ok()?;
    let mut state = Vec::new();
    for op in ops {
        state.extend_from_slice(&bytes[at..at + op.literal as usize]);
        state.extend_from_slice(&base[op.from as usize..][..op.copy as usize]);
        at += op.literal as usize;
    }
    Some(state)
}

/// States that grow, shrink and change a little at each step.
fn steps(count: u32) -> Vec<Vec<u8>> {
    let mut messages = vec!["a system prompt that says at some length what to do and what to leave".to_owned(); 3];
    let step = |number: u32| {
        messages.push(format!("message {number}: {}", (number * 7919 % 1000).to_string().repeat(1 + number as usize % 9)));
        if number % 13 == 12 {
            messages.drain(3..9);
        }
        if number % 5 == 4 {
            messages.swap(1, 4);
        }
        format!("{{\"step\":{number},\"at\":{},\"messages\":{messages:?}}}", 1_700_000_000 + number * 37).into_bytes()
    };
    (0..count).map(step).collect()
}

fn encoded(steps: &[Vec<u8>]) -> Vec<Encoded> {
    let mut scratch = Scratch::default();
    let mut sums = ROOMY;
    let pairs = steps.windows(2);
    pairs.map(|pair| encode(&pair[0], &pair[1], std::mem::replace(&mut sums, ROOMY), &mut scratch).unwrap()).collect()
}

#[test]
fn every_state_of_a_chain_comes_back() {
    let steps = steps(65);
    let deltas = encoded(&steps);
    let mut all = Chain::new(&steps[0], Keep::All);
    let mut last = Chain::new(&steps[0], Keep::Last);
    assert_eq!(all.last(), steps[0]);
    for (delta, state) in deltas.iter().zip(&steps[1..]) {
        let delta = delta.stored(state.len() as u32);
        all.push(&delta).unwrap();
        last.push(&delta).unwrap();
        assert_eq!(last.last(), *state);
    }
    for (step, state) in steps.iter().enumerate() {
        assert_eq!(all.state(step).as_ref(), Some(state));
        assert_eq!(last.state(step).is_some(), step == 0 || step == 64, "only the root and the newest are kept");
    }
    assert_eq!((all.state(65), last.state(65)), (None, None));
    let sum = |of: fn(&Encoded) -> u32| deltas.iter().map(of).sum::<u32>();
    let sums = Sums {
        keyframe: 77,
        deltas: 64,
        stored: sum(|delta| delta.payload.len() as u32),
        unpacked: sum(|delta| delta.unpacked_len),
        ops: sum(|delta| delta.sums.ops),
    };
    assert_eq!(all.sums(77), sums);
}

#[test]
fn a_delta_that_is_refused_leaves_the_state() {
    let steps = steps(4);
    let deltas = encoded(&steps);
    let mut chain = Chain::new(&steps[0], Keep::All);
    chain.push(&deltas[0].stored(steps[1].len() as u32)).unwrap();
    let good = deltas[1].stored(steps[2].len() as u32);
    for wrong in [
        Stored { state_len: good.state_len + 1, ..good },
        Stored { unpacked_len: good.unpacked_len - 1, ..good },
        Stored { is_packed: !good.is_packed, ..good },
        Stored { payload: &good.payload[1..], ..good },
    ] {
        assert!(matches!(chain.push(&wrong), Err(Flaw::Corrupt(_))), "{wrong:?}");
        assert_eq!(chain.last(), steps[1]);
    }
    chain.push(&good).unwrap();
    assert_eq!(chain.last(), steps[2]);
    assert_eq!(chain.state(1).as_ref(), Some(&steps[1]));
}

#[test]
fn states_that_double_are_bounded() {
    let root: Vec<u8> = (0..=255).collect();
    let mut chain = Chain::new(&root, Keep::All);
    let (mut length, mut pushed) = (256u32, 0);
    for _ in 0..64 {
        let double = [Op { literal: 0, copy: length, from: 0 }, Op { literal: 1, copy: length, from: 0 }];
        let delta = raw(&double, b"x");
        match chain.push(&stored(&delta)) {
            Ok(()) => (length, pushed) = (2 * length + 1, pushed + 1),
            Err(flaw) => assert_eq!(flaw, Flaw::Corrupt("delta length"), "at {length} bytes"),
        }
        assert!(chain.lists.iter().all(|list| list.pieces.len() <= PIECES_MAX));
    }
    assert_eq!(pushed, 17, "the state after would pass 64 MiB");
    assert!(chain.kept_pieces <= KEPT_PIECES_MAX && chain.arena.len() < 1000);
    let last = chain.last();
    assert_eq!(last.len(), length as usize);
    assert!(last[..256] == root && last[256] == b'x' && last[length as usize - 256..] == root);
    assert_eq!(chain.state(1), None, "the state before the long list took the root's place");
}

#[test]
fn a_copy_of_more_pieces_than_may_be_is_not_begun() {
    let base: Vec<Piece> = (0..100).map(|at| Piece { to: at * 10, from: at * 20 }).collect();
    let mut pieces = Vec::new();
    for (most, may) in [(100, true), (99, false)] {
        pieces.clear();
        let mut composed = Composed { pieces: &mut pieces, base: &base, most, to: 0, near: 0 };
        assert!(composed.copy(0, 0) && composed.pieces.is_empty(), "nothing is in no piece");
        assert!(composed.copy(0, 10) && composed.pieces.len() == 1, "one piece to its end");
        composed.pieces.clear();
        assert_eq!(composed.copy(5, 995), may, "at most {most}");
        assert_eq!(pieces.len(), if may { 100 } else { 1 });
    }
}

#[test]
fn a_keyframe_that_is_too_long_has_no_deltas() {
    let copy = raw(&[Op { literal: 0, copy: 1, from: 0 }], b"");
    for (length, may) in [(64 << 20, true), ((64 << 20) + 1, false)] {
        assert_eq!(Chain::new(vec![0; length], Keep::Last).push(&stored(&copy)).is_ok(), may, "{length} bytes");
    }
}

#[test]
fn lists_that_grow_long_are_cut_short() {
    let root: Vec<u8> = (0..9000u32).map(|at| (at % 251) as u8).collect();
    // Every second byte is new, so that each state is in thousands of pieces.
    let holes = |shift: u32| -> Vec<Op> { (0..2999).map(|at| Op { literal: 1, copy: 2, from: (at * 3 + shift) % 8000 }).collect() };
    let mut chain = Chain::new(&root[..], Keep::All);
    let mut state = root.clone();
    for shift in 0..9 {
        let delta = raw(&holes(shift), &[b'a' + shift as u8; 2999]);
        state = applied(&state, &stored(&delta)).unwrap();
        chain.push(&stored(&delta)).unwrap();
        assert!(chain.last() == state, "after {shift}");
        assert!(chain.arena.len() <= 3 * delta.0.len(), "old payloads are dropped");
    }
    assert!(chain.state(9).is_some() && chain.state(8).is_some());
    assert_eq!((chain.state(0), chain.state(7)), (None, None));
}

#[test]
fn kept_lists_are_bounded() {
    let root = vec![7; 9000];
    let ops: Vec<Op> = (0..2000).map(|at| Op { literal: 1, copy: 1, from: at * 3 }).collect();
    let delta = raw(&ops, &[1; 2000]);
    let same = raw(&[Op { literal: 0, copy: 4000, from: 0 }], &[]);
    let mut chain = Chain::new(&root[..], Keep::All);
    chain.push(&stored(&delta)).unwrap();
    for _ in 0..100 {
        chain.push(&stored(&same)).unwrap();
    }
    assert!(chain.kept_pieces <= KEPT_PIECES_MAX && chain.lists.len() == KEPT_PIECES_MAX / 4000);
    assert!(chain.state(0).is_some() && chain.state(1).is_none());
    assert_eq!(chain.state(101 - 64), Some(chain.last()));
}

#[test]
fn payloads_are_bounded() {
    let root = [7; 200];
    let literals = vec![1; 40 << 20];
    let delta = raw(&[Op { literal: 40 << 20, copy: 200, from: 0 }], &literals);
    let mut chain = Chain::new(&root[..], Keep::Last);
    for _ in 0..5 {
        chain.push(&stored(&delta)).unwrap();
        assert!(chain.arena.len() <= ARENA_BYTES_MAX);
    }
    assert_eq!(chain.len(), (40 << 20) + 200);
}

#[derive(Clone, Debug)]
enum Damage {
    Flip(usize),
    Cut(usize),
    Length(u32),
    Claim(u32),
    Packed,
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        4 => any::<usize>().prop_map(Damage::Flip),
        1 => any::<usize>().prop_map(Damage::Cut),
        1 => prop_oneof![any::<u32>(), 0..9000u32].prop_map(Damage::Length),
        1 => prop_oneof![any::<u32>(), 0..9000u32].prop_map(Damage::Claim),
        1 => Just(Damage::Packed),
    ]
}

proptest! {
    #[test]
    fn damaged_deltas_are_refused_or_give_their_length(damages in prop::collection::vec((0..20usize, damage()), 1..4)) {
        let steps = steps(21);
        let deltas = encoded(&steps);
        let mut chain = Chain::new(&steps[0], Keep::All);
        for (at, delta) in deltas.iter().enumerate() {
            let mut payload = delta.payload.clone();
            let mut fields = (delta.is_packed, delta.unpacked_len, steps[at + 1].len() as u32);
            for (_, damage) in damages.iter().filter(|(step, _)| *step == at) {
                match damage {
                    Damage::Flip(bit) => {
                        let bit = bit % (payload.len() * 8).max(1);
                        payload[bit / 8..].iter_mut().take(1).for_each(|byte| *byte ^= 1 << (bit % 8));
                    }
                    Damage::Cut(length) => payload.truncate(length % (payload.len() + 1)),
                    Damage::Length(length) => fields.2 = *length,
                    Damage::Claim(length) => fields.1 = *length,
                    Damage::Packed => fields.0 = !fields.0,
                }
            }
            let stored = Stored { payload: &payload, is_packed: fields.0, unpacked_len: fields.1, state_len: fields.2 };
            let before = chain.last();
            match chain.push(&stored) {
                Ok(()) => {
                    prop_assert_eq!(chain.len(), stored.state_len);
                    prop_assert_eq!(Some(chain.last()), applied(&before, &stored));
                }
                Err(flaw) => {
                    prop_assert!(matches!(flaw, Flaw::Corrupt(_)));
                    prop_assert_eq!(chain.last(), before);
                }
            }
            prop_assert!(chain.arena.capacity() < 1 << 20, "a length was believed");
        }
    }

    #[test]
    fn composing_is_applying_one_after_the_other(
        deltas in prop::collection::vec(prop::collection::vec((0..4u32, 1..60u32, any::<u32>()), 1..40), 1..12),
    ) {
        let root: Vec<u8> = (0..300u32).map(|at| (at % 253) as u8).collect();
        let mut states = vec![root];
        let mut chain = Chain::new(states[0].clone(), Keep::All);
        for (number, delta) in deltas.iter().enumerate() {
            let base = states[number].clone();
            let op = |&(literal, copy, from): &(u32, u32, u32)| {
                let copy = copy.min(base.len() as u32);
                Op { literal, copy, from: from % (base.len() as u32 - copy + 1) }
            };
            let ops: Vec<Op> = delta.iter().map(op).collect();
            let delta = raw(&ops, &vec![number as u8; 4 * ops.len()]);
            states.push(applied(&base, &stored(&delta)).unwrap());
            chain.push(&stored(&delta)).unwrap();
        }
        for (step, state) in states.iter().enumerate() {
            prop_assert_eq!(chain.state(step), Some(state.clone()));
        }
    }
}
