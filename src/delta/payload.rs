//! A delta's bytes: `count | ops | literals`, through lz4 where that saves something.
//!
//! An op is `literal length | copy length | offset`: so many bytes that are brought along, then so
//! many of the base. Numbers are LEB128 in their shortest form. The offset is told as what it differs
//! by from the place right behind the last copy and as far on as the literal is long, zigzag: 0 where
//! a few bytes changed in place. Only the last op may copy nothing; it has no offset then. All
//! literals follow the ops, and the payload ends with them.
//!
//! What is read is believed of nothing: each length is checked before it is looked at or allocated.

use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};

use super::rule::{OPS_MAX, STATE_BYTES_MAX};
use crate::format::Flaw;

/// Below this lz4 is not tried.
const PACKED_FROM_BYTES: usize = 48;

/// What a payload may be longer than its state: ops that copy little.
const UNPACKED_OVER_BYTES: u64 = 64 << 10;

/// lz4 makes at most so many of each byte, and a little.
const LZ4_RATIO_MAX: u64 = 255;
const LZ4_OVER_BYTES: u64 = 64;

/// So many bytes that are brought along, then so many of the base from a place on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Op {
    pub literal: u32,
    pub copy: u32,
    pub from: u32,
}

/// A delta as it is stored, from outside: nothing of it is believed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored<'a> {
    /// The stored bytes.
    pub payload: &'a [u8],
    /// Whether they went through lz4.
    pub is_packed: bool,
    /// Their length before that, or as it is.
    pub unpacked_len: u32,
    /// The length of the state that it gives.
    pub state_len: u32,
}

/// The length of the payload that `write` makes of these ops.
pub(super) fn len(ops: &[Op]) -> usize {
    let mut after = 0;
    let mut length = varint_len(ops.len() as u32);
    for op in ops {
        let (distance, next) = told(op, after);
        after = next;
        length += varint_len(op.literal) + varint_len(op.copy) + op.literal as usize;
        length += if op.copy > 0 { varint_len(distance) } else { 0 };
    }
    length
}

/// Writes the payload of ops that make up all of `target`, in place of what `payload` holds.
pub(super) fn write(ops: &[Op], target: &[u8], payload: &mut Vec<u8>) {
    payload.clear();
    payload.reserve(len(ops));
    put_varint(payload, ops.len() as u32);
    let mut after = 0;
    for op in ops {
        let (distance, next) = told(op, after);
        after = next;
        put_varint(payload, op.literal);
        put_varint(payload, op.copy);
        if op.copy > 0 {
            put_varint(payload, distance);
        }
    }
    let mut at = 0;
    for op in ops {
        payload.extend_from_slice(&target[at..at + op.literal as usize]);
        at += op.literal as usize + op.copy as usize;
    }
}

/// Reads the ops of an unpacked payload; answers where its literals begin. They and the copies make
/// up the state exactly, and every copy lies in the base. Errors: `Corrupt`.
pub(super) fn read(payload: &[u8], base_len: u32, state_len: u32, ops: &mut Vec<Op>) -> Result<usize, Flaw> {
    ops.clear();
    let mut bytes = Bytes { all: payload, at: 0 };
    let count = bytes.varint()?;
    // An op takes two bytes at least.
    if count > OPS_MAX || count as usize > (payload.len() - bytes.at) / 2 {
        return Err(Flaw::Corrupt("delta ops"));
    }
    ops.reserve(count as usize);
    let (mut after, mut literals, mut total) = (0, 0u64, 0u64);
    for left in (0..count).rev() {
        let (literal, copy) = (bytes.varint()?, bytes.varint()?);
        let mut from = 0;
        if copy > 0 {
            let place = unzigzag(bytes.varint()?) + after + i64::from(literal);
            from = u32::try_from(place).map_err(|_| Flaw::Corrupt("delta copy"))?;
            after = i64::from(from) + i64::from(copy);
            if after > i64::from(base_len) {
                return Err(Flaw::Corrupt("delta copy"));
            }
        } else if left > 0 || literal == 0 {
            return Err(Flaw::Corrupt("delta op"));
        }
        literals += u64::from(literal);
        total += u64::from(literal) + u64::from(copy);
        ops.push(Op { literal, copy, from });
    }
    if total != u64::from(state_len) || literals != (payload.len() - bytes.at) as u64 {
        return Err(Flaw::Corrupt("delta lengths"));
    }
    Ok(bytes.at)
}

/// lz4's memory, kept from one delta to the next.
#[derive(Default)]
pub(super) struct Packer {
    table: CompressTable,
    packed: Vec<u8>,
}

impl Packer {
    /// A delta's payload through lz4; `None` where it is stored as it is.
    pub fn pack(&mut self, payload: &[u8]) -> Option<&[u8]> {
        if payload.len() < PACKED_FROM_BYTES {
            return None;
        }
        let most = get_maximum_output_size(payload.len());
        if self.packed.len() < most {
            self.packed.resize(most, 0);
        }
        let packed = compress_into_with_table(payload, &mut self.packed, &mut self.table).ok()?;
        saves(packed, payload.len()).then(|| &self.packed[..packed])
    }

    /// Lets go of memory beyond so many bytes.
    pub fn keep(&mut self, bytes: usize) {
        if self.packed.len() > bytes {
            *self = Packer::default();
        }
    }
}

/// The state through lz4; `None` where that saves less than a sixteenth.
pub(crate) fn pack(state: &[u8]) -> Option<Vec<u8>> {
    let packed = lz4_flex::block::compress(state);
    saves(packed.len(), state.len()).then_some(packed)
}

fn saves(packed: usize, whole: usize) -> bool {
    packed <= whole - whole.div_ceil(16)
}

/// What was packed, exactly `length` bytes. Errors: `Corrupt`.
///
/// Allocates nothing that the packed bytes could not give.
pub(crate) fn unpack(packed: &[u8], length: u32) -> Result<Vec<u8>, Flaw> {
    let mut state = Vec::new();
    unpack_lz4(packed, length, &mut state)?;
    Ok(state)
}

/// Appends a delta's unpacked payload, checking its length first. Errors: `Corrupt`; nothing is
/// appended then.
pub(super) fn unpack_onto(delta: &Stored<'_>, bytes: &mut Vec<u8>) -> Result<(), Flaw> {
    let length = u64::from(delta.unpacked_len);
    if delta.state_len as usize > STATE_BYTES_MAX || length > u64::from(delta.state_len) + UNPACKED_OVER_BYTES {
        return Err(Flaw::Corrupt("delta length"));
    }
    if delta.is_packed {
        return unpack_lz4(delta.payload, delta.unpacked_len, bytes);
    }
    if length != delta.payload.len() as u64 {
        return Err(Flaw::Corrupt("delta length"));
    }
    bytes.extend_from_slice(delta.payload);
    Ok(())
}

fn unpack_lz4(packed: &[u8], length: u32, bytes: &mut Vec<u8>) -> Result<(), Flaw> {
    if u64::from(length) > LZ4_RATIO_MAX * packed.len() as u64 + LZ4_OVER_BYTES {
        return Err(Flaw::Corrupt("packed length"));
    }
    let before = bytes.len();
    bytes.resize(before + length as usize, 0);
    match lz4_flex::block::decompress_into(packed, &mut bytes[before..]) {
        Ok(unpacked) if unpacked == length as usize => Ok(()),
        _ => {
            bytes.truncate(before);
            Err(Flaw::Corrupt("packed bytes"))
        }
    }
}

/// How an op's offset is told behind a copy that ended at `after`, and where its own copy ends.
fn told(op: &Op, after: i64) -> (u32, i64) {
    let distance = i64::from(op.from) - after - i64::from(op.literal);
    (zigzag(distance), i64::from(op.from) + i64::from(op.copy))
}

/// Distances within two states fit easily.
fn zigzag(distance: i64) -> u32 {
    ((distance << 1) ^ (distance >> 63)) as u32
}

fn unzigzag(told: u32) -> i64 {
    i64::from(told >> 1) ^ -i64::from(told & 1)
}

fn varint_len(number: u32) -> usize {
    (38 - (number | 1).leading_zeros() as usize) / 7
}

fn put_varint(bytes: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Bytes being read.
struct Bytes<'a> {
    all: &'a [u8],
    at: usize,
}

impl Bytes<'_> {
    fn varint(&mut self) -> Result<u32, Flaw> {
        let mut number = 0;
        for shift in [0, 7, 14, 21, 28] {
            let byte = *self.all.get(self.at).ok_or(Flaw::Corrupt("delta number"))?;
            self.at += 1;
            number |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                let is_longer_than_needed = byte == 0 && shift > 0;
                let is_too_large = shift == 28 && byte > 0x0f;
                return if is_longer_than_needed || is_too_large { Err(Flaw::Corrupt("delta number")) } else { Ok(number) };
            }
        }
        Err(Flaw::Corrupt("delta number"))
    }
}

/// The payload of ops that make up all of `target`.
#[cfg(test)]
pub(super) fn written(ops: &[Op], target: &[u8]) -> Vec<u8> {
    let mut payload = b"of another".to_vec();
    write(ops, target, &mut payload);
    payload
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NUMBERS: [u32; 9] = [0, 1, 0x7f, 0x80, 0x3fff, 0x4000, 0x0fff_ffff, 0x1000_0000, u32::MAX];

    fn refused(payload: &[u8], base_len: u32, state_len: u32) -> bool {
        read(payload, base_len, state_len, &mut Vec::new()).is_err()
    }

    #[test]
    fn numbers_have_one_form() {
        for number in NUMBERS {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, number);
            assert_eq!(bytes.len(), varint_len(number));
            assert_eq!(Bytes { all: &bytes, at: 0 }.varint(), Ok(number));
            assert!(Bytes { all: &bytes[..bytes.len() - 1], at: 0 }.varint().is_err(), "{number} cut");
        }
        for wrong in [&[0x80, 0][..], &[0xff, 0x80, 0], &[0xff, 0xff, 0xff, 0xff, 0x10], &[0xff; 6], &[0x80; 5]] {
            assert!(Bytes { all: wrong, at: 0 }.varint().is_err(), "{wrong:x?}");
        }
        for distance in [0, -1, 1, -(64 << 20), 64 << 20, i64::from(i32::MAX)] {
            assert_eq!(unzigzag(zigzag(distance)), distance);
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let good = [2, 1, 3, 0, 1, 0, b'a', b'b'];
        assert_eq!(read(&good, 4, 5, &mut Vec::new()), Ok(6));
        assert!(refused(&good, 3, 5), "a copy of what the base does not have");
        assert!(refused(&good, 4, 6) && refused(&good, 4, 4), "another length than the state's");
        assert!(refused(&good[..7], 4, 5) && refused(&[&good[..], b"c"].concat(), 4, 5), "more or fewer literals");
        assert!(refused(&[2, 1, 0, 1, 3, 0, b'a', b'b'], 9, 5), "an op before the last that copies nothing");
        assert!(refused(&[2, 1, 3, 0, 0, 0, b'a'], 9, 4), "an op that does nothing");
        assert!(refused(&[1, 0, 3, 1], 9, 3), "a copy from before the base");
        assert!(refused(&[5, 1, 3, 0, 1, 0, b'a', b'b'], 9, 5), "more ops than there are");
        assert!(refused(&[], 0, 0) && !refused(&[0], 0, 0));
    }

    #[test]
    fn more_ops_than_a_chain_may_have_are_refused() {
        let ops = |count: u32| (0..count).map(|at| Op { literal: 0, copy: 1, from: at % 2 * 5 }).collect::<Vec<Op>>();
        let target = [0; OPS_MAX as usize + 1];
        assert!(!refused(&written(&ops(OPS_MAX), &target), 9, OPS_MAX));
        assert!(refused(&written(&ops(OPS_MAX + 1), &target), 9, OPS_MAX + 1));
    }

    #[test]
    fn lengths_are_checked_before_memory_is_asked_for() {
        let mut bytes = b"before".to_vec();
        let packed = [0; 8];
        for (is_packed, unpacked_len, state_len) in [
            (true, u32::MAX, u32::MAX),
            (true, 8 * 255 + 65, 64 << 20),
            (true, 100_000, 64 << 20),
            (true, 65 << 20, 64 << 20),
            (true, (64 << 10) + 1, 0),
            (false, 9, 100),
            (false, 7, 100),
            (false, 8, (64 << 20) + 1),
        ] {
            let delta = Stored { payload: &packed, is_packed, unpacked_len, state_len };
            assert!(unpack_onto(&delta, &mut bytes).is_err(), "{delta:?}");
            assert!(bytes == b"before" && bytes.capacity() < 4096, "{delta:?}");
        }
        assert!(unpack(&packed, u32::MAX).is_err());
    }

    #[test]
    fn what_lz4_hardly_shortens_is_left_as_it_is() {
        let mut packer = Packer::default();
        assert_eq!(packer.pack(&[0; 47]), None);
        assert!(packer.pack(&[0; 48]).is_some_and(|packed| packed.len() < 48));
        let unlike: Vec<u8> = (0..=255).collect();
        assert_eq!(pack(&unlike), None);
        assert_eq!(pack(&[]), None);
    }

    #[test]
    fn one_packer_packs_short_and_long_in_any_order() {
        let mut packer = Packer::default();
        for length in [100, 70_000, 48, 65_534, 65_535, 3000, 3_000_000, 60] {
            let payload: Vec<u8> = (0..length).map(|at| (at / 40) as u8).collect();
            let packed = packer.pack(&payload).unwrap();
            assert_eq!(unpack(packed, length as u32).unwrap(), payload, "{length}");
        }
        packer.keep(4 << 20);
        assert!(packer.packed.len() > 3_000_000);
        packer.keep(1 << 20);
        assert_eq!(packer.packed.capacity(), 0);
    }

    #[test]
    fn lengths_are_believed_up_to_their_bounds() {
        let (longest, over) = (STATE_BYTES_MAX as u32, UNPACKED_OVER_BYTES as usize);
        let payload = vec![7; over + 9];
        let read = |length: usize, state_len| {
            let mut bytes = Vec::new();
            let delta = Stored { payload: &payload[..length], is_packed: false, unpacked_len: length as u32, state_len };
            unpack_onto(&delta, &mut bytes).map(|()| bytes.len())
        };
        assert_eq!(read(8, longest), Ok(8));
        assert_eq!(read(8, longest + 1), Err(Flaw::Corrupt("delta length")));
        assert_eq!(read(over + 8, 8), Ok(over + 8));
        assert_eq!(read(over + 9, 8), Err(Flaw::Corrupt("delta length")));
    }

    proptest! {
        #[test]
        fn ops_come_back(lengths in prop::collection::vec((0..200u32, 1..200u32, 0..1000u32), 0..20), last in 0..9u32) {
            let mut ops: Vec<Op> = lengths.iter().map(|&(literal, copy, from)| Op { literal, copy, from }).collect();
            if last > 0 {
                ops.push(Op { literal: last, copy: 0, from: 0 });
            }
            let length = ops.iter().map(|op| op.literal + op.copy).sum::<u32>();
            let target: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let payload = written(&ops, &target);
            prop_assert_eq!(payload.len(), len(&ops));
            let mut again = Vec::new();
            let literals = read(&payload, 1200, length, &mut again).unwrap();
            prop_assert_eq!(&again, &ops);
            prop_assert_eq!(literals, payload.len() - ops.iter().map(|op| op.literal as usize).sum::<usize>());
        }

        #[test]
        fn what_was_packed_comes_back_at_its_length_only(state in prop::collection::vec(0..4u8, 0..2000)) {
            let Some(packed) = pack(&state) else { return Ok(()) };
            let length = state.len() as u32;
            prop_assert_eq!(unpack(&packed, length).unwrap(), state);
            prop_assert!(unpack(&packed, length - 1).is_err() && unpack(&packed, length + 1).is_err());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), length in 0..2000u32) {
            if let Ok(state) = unpack(&bytes, length) {
                prop_assert_eq!(state.len(), length as usize);
            }
            let mut ops = Vec::new();
            if read(&bytes, 100, length, &mut ops).is_ok() {
                prop_assert_eq!(ops.iter().map(|op| op.literal + op.copy).sum::<u32>(), length);
            }
        }
    }
}
