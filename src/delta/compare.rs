//! How far bytes are alike, in wide steps.
//!
//! Only compares: what a difference is made of is decided in `diff`.

/// Compared at once where long runs are alike; the compiler makes vector code of it.
const BLOCK: usize = 64;

const WORD: usize = size_of::<u64>();

/// Whether two blocks are alike, in few branches and no call.
fn alike(block: &[u8; BLOCK], other: &[u8; BLOCK]) -> bool {
    let (words, _) = block.as_chunks::<WORD>();
    let (others, _) = other.as_chunks::<WORD>();
    words.iter().zip(others).fold(0, |unlike, (word, other)| unlike | (u64::from_le_bytes(*word) ^ u64::from_le_bytes(*other))) == 0
}

/// How many bytes the two have in common from the start.
pub(super) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let length = a.len().min(b.len());
    let (a, b) = (&a[..length], &b[..length]);
    let (blocks, _) = a.as_chunks::<BLOCK>();
    let (others, _) = b.as_chunks::<BLOCK>();
    let same = blocks.iter().zip(others).position(|(block, other)| !alike(block, other)).unwrap_or(blocks.len()) * BLOCK;
    let (words, _) = a[same..].as_chunks::<WORD>();
    let (others, _) = b[same..].as_chunks::<WORD>();
    for (at, (word, other)) in words.iter().zip(others).enumerate() {
        let unlike = u64::from_le_bytes(*word) ^ u64::from_le_bytes(*other);
        if unlike != 0 {
            return same + at * WORD + unlike.trailing_zeros() as usize / 8;
        }
    }
    let same = same + words.len() * WORD;
    same + a[same..].iter().zip(&b[same..]).take_while(|(byte, other)| byte == other).count()
}

/// How many bytes the two have in common at the end.
pub(super) fn common_suffix(a: &[u8], b: &[u8]) -> usize {
    let length = a.len().min(b.len());
    let (a, b) = (&a[a.len() - length..], &b[b.len() - length..]);
    let (_, blocks) = a.as_rchunks::<BLOCK>();
    let (_, others) = b.as_rchunks::<BLOCK>();
    let same = blocks.iter().zip(others).rev().position(|(block, other)| !alike(block, other)).unwrap_or(blocks.len()) * BLOCK;
    let (_, words) = a[..length - same].as_rchunks::<WORD>();
    let (_, others) = b[..length - same].as_rchunks::<WORD>();
    for (at, (word, other)) in words.iter().zip(others).rev().enumerate() {
        let unlike = u64::from_le_bytes(*word) ^ u64::from_le_bytes(*other);
        if unlike != 0 {
            return same + at * WORD + unlike.leading_zeros() as usize / 8;
        }
    }
    let left = length - same - words.len() * WORD;
    let same = same + words.len() * WORD;
    same + a[..left].iter().rev().zip(b[..left].iter().rev()).take_while(|(byte, other)| byte == other).count()
}

/// Where the first `least` bytes begin that the two have alike at the same place, looked for from the
/// start on and to `within` at most. `least` is a multiple of 8.
///
/// Looks at the end of such a run first: where that is not alike, no run begins before it.
pub(super) fn first_run(a: &[u8], b: &[u8], least: usize, within: usize) -> Option<usize> {
    let length = a.len().min(b.len());
    let mut from = 0;
    'runs: while from <= within && from + least <= length {
        let (words, _) = a[from..from + least].as_chunks::<WORD>();
        let (others, _) = b[from..from + least].as_chunks::<WORD>();
        for (at, (word, other)) in words.iter().zip(others).enumerate().rev() {
            let unlike = u64::from_le_bytes(*word) ^ u64::from_le_bytes(*other);
            if unlike != 0 {
                from += at * WORD + WORD - unlike.leading_zeros() as usize / 8;
                continue 'runs;
            }
        }
        return Some(from);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_first_run_is_found_up_to_the_limit() {
        let a: Vec<u8> = (0..100).collect();
        let mut b = a.clone();
        b[10] = 255;
        assert_eq!(first_run(&a, &b, 32, 100), Some(11));
        assert_eq!(first_run(&a, &b, 32, 11), Some(11));
        assert_eq!(first_run(&a, &b, 32, 10), None);
        assert_eq!(first_run(&a, &b, 8, 0), Some(0));
        assert_eq!(first_run(&a[..40], &b, 32, 100), None, "29 bytes are left");
        assert_eq!(first_run(&[], &b, 8, 100), None);
    }

    proptest! {
        #[test]
        fn the_same_as_byte_by_byte(mut a in prop::collection::vec(0..2u8, 0..300), changes in prop::collection::vec(0..300usize, 0..4), cut in 0..9usize) {
            let mut b = a.clone();
            for at in changes {
                if let Some(byte) = b.get_mut(at) {
                    *byte ^= 1;
                }
            }
            let prefix = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
            prop_assert_eq!(common_prefix(&a, &b), prefix);
            for least in [8, 32] {
                let slow = (0..a.len()).find(|&from| from + least <= a.len() && a[from..from + least] == b[from..from + least]);
                prop_assert_eq!(first_run(&a, &b, least, 400), slow);
            }
            a.drain(..cut.min(a.len()));
            let suffix = a.iter().rev().zip(b.iter().rev()).take_while(|(x, y)| x == y).count();
            prop_assert_eq!(common_suffix(&a, &b), suffix);
        }
    }
}
