//! What stands in the files: names, frames, records, segment headers, hints, the manifest.
//!
//! Pure: bytes and values in, bytes and values out; no file, clock or lock is known here, and every
//! decoder checks each length before it looks or allocates. The layouts stand in DESIGN.md, with
//! examples that a test decodes and encodes again.

#[cfg(test)]
pub(crate) mod examples;
mod fixed;
pub(crate) mod frame;
pub(crate) mod hint;
pub(crate) mod manifest;
pub(crate) mod names;
pub(crate) mod record;
pub(crate) mod segment;

/// Why bytes are not what they should be; three different answers, from decoder to caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// They end before they are complete.
    #[error("incomplete: {0}")]
    Torn(&'static str),
    /// They are whole and wrong.
    #[error("bad bytes: {0}")]
    Corrupt(&'static str),
    /// They are sound and of a format this version does not know.
    #[error("a newer format: {0}")]
    Unknown(&'static str),
}

/// The format that this version writes.
pub(crate) const VERSION: u16 = 1;

/// Numbers, positions and counts are all below this, so that adding to one overflows nothing.
const COUNTS_END: u64 = 1 << 63;

/// Sequence numbers are below this.
pub(crate) const SEQS_END: u64 = COUNTS_END / 2;

/// Whether each of these can be a number, a position or a count.
fn are_counts(numbers: &[u64]) -> bool {
    numbers.iter().all(|number| *number < COUNTS_END)
}

/// The next multiple of 8: everything in a segment is aligned so.
pub(crate) const fn aligned(length: u64) -> u64 {
    length.next_multiple_of(8)
}

/// A fixed-width little-endian field; `None` past the end.
fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    field(bytes, at).map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    field(bytes, at).map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    field(bytes, at).map(u64::from_le_bytes)
}

/// The checksum of all bytes but the four at `hole`, where it is kept itself.
fn check_around(bytes: &[u8], hole: usize) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&bytes[..hole]);
    crc.update(&bytes[hole + 4..]);
    crc.finalize()
}
