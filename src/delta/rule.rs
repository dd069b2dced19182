//! When a state is stored whole instead of as a delta.
//!
//! The bounds keep a chain cheap to read: a read touches at most 65 records, and the bytes it reads
//! and unpacks besides the keyframe are about those of one state. They bind the writer; of a reader
//! only the number of deltas and the lengths of states, else it bounds what it allocates and does by
//! itself.

/// The shortest state that is the base of a delta, or one: below it a record costs more.
pub(super) const STATE_BYTES_MIN: usize = 128;

/// The longest state that is the base of a delta, or one.
pub(super) const STATE_BYTES_MAX: usize = 64 << 20;

/// The most deltas on one keyframe; readers refuse longer chains.
pub(crate) const DELTAS_MAX: u32 = 64;

/// The most ops of a chain's deltas together, and so of any delta.
pub(super) const OPS_MAX: u32 = 16_384;

/// What a chain's deltas may take up together, however small their keyframe is: with little states a
/// record costs as much as what is in it, and a read pays for each.
const STORED_BYTES_FLOOR: u32 = 512;

/// What a chain's deltas may unpack to together, however small the state is.
const UNPACKED_BYTES_FLOOR: usize = 4096;

/// What a chain has cost so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sums {
    /// The stored bytes of its keyframe.
    pub keyframe: u32,
    /// Its deltas.
    pub deltas: u32,
    /// The stored bytes of its deltas.
    pub stored: u32,
    /// What these unpack to.
    pub unpacked: u32,
    /// The ops of its deltas.
    pub ops: u32,
}

impl Sums {
    /// A chain that is only a keyframe yet, of so many stored bytes.
    pub fn of_keyframe(stored: u32) -> Sums {
        Sums { keyframe: stored, deltas: 0, stored: 0, unpacked: 0, ops: 0 }
    }

    /// The same with the deltas of a chain that goes on from here.
    pub fn and(self, more: Sums) -> Sums {
        let deltas = self.deltas.saturating_add(more.deltas);
        Sums { deltas, ..self.after(more.stored, more.unpacked, more.ops) }
    }

    /// The same with one more delta.
    pub fn after(self, stored: u32, unpacked: u32, ops: u32) -> Sums {
        Sums {
            keyframe: self.keyframe,
            deltas: self.deltas.saturating_add(1),
            stored: self.stored.saturating_add(stored),
            unpacked: self.unpacked.saturating_add(unpacked),
            ops: self.ops.saturating_add(ops),
        }
    }
}

/// Whether a state of such a length may be a delta on a base of such a length at all.
pub(super) fn may_follow(base_len: usize, target_len: usize, sums: Sums) -> bool {
    let sizes = STATE_BYTES_MIN..=STATE_BYTES_MAX;
    sizes.contains(&base_len) && sizes.contains(&target_len) && sums.deltas < DELTAS_MAX && sums.ops < OPS_MAX
}

/// How many ops the next delta may have.
pub(super) fn ops_left(sums: Sums) -> usize {
    OPS_MAX.saturating_sub(sums.ops) as usize
}

/// Whether the next delta may unpack to so many bytes.
pub(super) fn may_unpack(unpacked: usize, target_len: usize, sums: Sums) -> bool {
    (sums.unpacked as usize).saturating_add(unpacked) <= target_len.max(UNPACKED_BYTES_FLOOR)
}

/// Whether a delta of so many bytes saves enough.
pub(super) fn saves(stored: usize, target_len: usize) -> bool {
    stored.saturating_mul(4) < target_len.saturating_mul(3)
}

/// Whether the next delta may take up so many bytes, and saves enough.
pub(super) fn may_store(stored: usize, target_len: usize, sums: Sums) -> bool {
    saves(stored, target_len) && (sums.stored as usize).saturating_add(stored) <= sums.keyframe.max(STORED_BYTES_FLOOR) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Sums = Sums { keyframe: 5000, deltas: 0, stored: 0, unpacked: 0, ops: 0 };

    #[test]
    fn states_of_a_length_that_is_no_use_are_stored_whole() {
        for (length, may) in [(0, false), (127, false), (128, true), (64 << 20, true), ((64 << 20) + 1, false)] {
            assert_eq!(may_follow(length, 1000, NONE), may, "a base of {length}");
            assert_eq!(may_follow(1000, length, NONE), may, "a state of {length}");
        }
    }

    #[test]
    fn a_chain_has_at_most_64_deltas_and_16384_ops() {
        assert!(may_follow(1000, 1000, Sums { deltas: 63, ..NONE }));
        assert!(!may_follow(1000, 1000, Sums { deltas: 64, ..NONE }));
        assert!(may_follow(1000, 1000, Sums { ops: 16_383, ..NONE }));
        assert!(!may_follow(1000, 1000, Sums { ops: 16_384, ..NONE }));
        assert_eq!(ops_left(Sums { ops: 16_383, ..NONE }), 1);
        assert_eq!(ops_left(Sums { ops: u32::MAX, ..NONE }), 0);
    }

    #[test]
    fn deltas_unpack_to_at_most_one_state() {
        assert!(may_unpack(5000, 5000, NONE) && !may_unpack(5001, 5000, NONE));
        assert!(may_unpack(2000, 5000, Sums { unpacked: 3000, ..NONE }) && !may_unpack(2001, 5000, Sums { unpacked: 3000, ..NONE }));
        assert!(may_unpack(4096, 200, NONE) && !may_unpack(4097, 200, NONE), "little states may have 4 KiB");
    }

    #[test]
    fn deltas_take_up_at_most_what_their_keyframe_does() {
        let most = |stored| may_store(stored, 100_000, Sums { stored: 3000, ..NONE });
        assert!(most(2000) && !most(2001));
        let little = Sums { keyframe: 10, stored: 500, ..NONE };
        assert!(may_store(12, 100_000, little) && !may_store(13, 100_000, little), "little keyframes may have 512 B");
    }

    #[test]
    fn a_delta_saves_a_quarter() {
        assert!(may_store(749, 1000, NONE) && !may_store(750, 1000, NONE));
        assert!(may_store(95, 128, NONE) && !may_store(96, 128, NONE));
    }

    #[test]
    fn sums_add_up_and_never_wrap() {
        let sums = Sums::of_keyframe(7).after(1, 2, 3).after(10, 20, 30);
        assert_eq!(sums, Sums { keyframe: 7, deltas: 2, stored: 11, unpacked: 22, ops: 33 });
        let full = sums.after(u32::MAX, u32::MAX, u32::MAX);
        assert_eq!((full.stored, full.unpacked, full.ops), (u32::MAX, u32::MAX, u32::MAX));
    }
}
