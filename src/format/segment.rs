//! The segment header: which store a file belongs to, and what its frames' checksums are salted with.
//!
//! A log segment holds a stretch of the log from its base position on; a compacted one stands for a
//! run of older segments. Layout in DESIGN.md, "Segment header".

use super::{Flaw, VERSION, are_counts, check_around, field, u16_at, u32_at, u64_at};

/// The size of a segment's header.
pub(crate) const HEADER_BYTES: usize = 72;
const MAGIC: [u8; 8] = *b"TAFFSEG\0";
const CHECK_AT: usize = 12;

/// What a segment stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A stretch of the log; its byte 0 has this position.
    Log {
        /// The position of the file's byte 0.
        base: u64,
    },
    /// What is kept of the segments with these numbers.
    Compacted {
        /// The first number it replaces.
        first: u64,
        /// The last number it replaces.
        last: u64,
    },
}

/// A segment's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// The store it belongs to.
    pub store: [u8; 16],
    /// Its number, which is its file's name.
    pub number: u64,
    /// The salt of its frames' checksums.
    pub salt: u64,
    /// What it stands for.
    pub kind: Kind,
    /// Where its first frame begins.
    pub first_frame: u32,
}

impl Header {
    /// Encodes the header; answers the bytes and the checksum, to which the first frame chains.
    pub fn encode(&self) -> ([u8; HEADER_BYTES], u32) {
        let (kind, a, b) = match self.kind {
            Kind::Log { base } => (1u16, base, 0),
            Kind::Compacted { first, last } => (2, first, last),
        };
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
        bytes[10..12].copy_from_slice(&kind.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.store);
        bytes[32..40].copy_from_slice(&self.number.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.salt.to_le_bytes());
        bytes[48..56].copy_from_slice(&a.to_le_bytes());
        bytes[56..64].copy_from_slice(&b.to_le_bytes());
        bytes[64..68].copy_from_slice(&self.first_frame.to_le_bytes());
        let check = check_around(&bytes, CHECK_AT);
        bytes[CHECK_AT..CHECK_AT + 4].copy_from_slice(&check.to_le_bytes());
        (bytes, check)
    }

    /// Decodes the header at the start of a segment file. Errors: `Torn`, `Corrupt`, `Unknown`.
    pub fn decode(bytes: &[u8]) -> Result<Header, Flaw> {
        let short = Flaw::Torn("segment header");
        let bytes = bytes.get(..HEADER_BYTES).ok_or(short)?;
        if bytes[0..8] != MAGIC {
            return Err(Flaw::Corrupt("segment magic"));
        }
        if u32_at(bytes, CHECK_AT).ok_or(short)? != check_around(bytes, CHECK_AT) {
            return Err(Flaw::Corrupt("segment header checksum"));
        }
        if u16_at(bytes, 8).ok_or(short)? != VERSION {
            return Err(Flaw::Unknown("segment version"));
        }
        let (a, b) = (u64_at(bytes, 48).ok_or(short)?, u64_at(bytes, 56).ok_or(short)?);
        let kind = match (u16_at(bytes, 10).ok_or(short)?, b) {
            (1, 0) => Kind::Log { base: a },
            (2, _) => Kind::Compacted { first: a, last: b },
            _ => return Err(Flaw::Unknown("segment kind")),
        };
        let first_frame = u32_at(bytes, 64).ok_or(short)?;
        let is_aligned = first_frame as usize >= HEADER_BYTES && first_frame % 8 == 0;
        if bytes[68..72] != [0; 4] {
            return Err(Flaw::Unknown("segment flags"));
        }
        if !is_aligned || !are_counts(&[a, b]) {
            return Err(Flaw::Corrupt("segment header"));
        }
        Ok(Header {
            store: field(bytes, 16).ok_or(short)?,
            number: u64_at(bytes, 32).ok_or(short)?,
            salt: u64_at(bytes, 40).ok_or(short)?,
            kind,
            first_frame,
        })
    }
}

/// Makes the checksum of what may be a header fit, so that the fuzz targets see behind it.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn repair(bytes: &mut [u8]) {
    if let Some(header) = bytes.get_mut(..HEADER_BYTES) {
        let check = check_around(header, CHECK_AT);
        header[CHECK_AT..CHECK_AT + 4].copy_from_slice(&check.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_comes_back_and_any_changed_bit_is_noticed() {
        for kind in [Kind::Log { base: 4096 }, Kind::Compacted { first: 3, last: 9 }] {
            let header = Header { store: [9; 16], number: 12, salt: 77, kind, first_frame: 72 };
            let bytes = header.encode().0;
            assert_eq!(Header::decode(&bytes), Ok(header));
            for at in 0..bytes.len() * 8 {
                let mut flipped = bytes;
                flipped[at / 8] ^= 1 << (at % 8);
                assert!(matches!(Header::decode(&flipped), Err(Flaw::Corrupt(_))), "bit {at}");
            }
            for cut in 0..bytes.len() {
                assert_eq!(Header::decode(&bytes[..cut]), Err(Flaw::Torn("segment header")));
            }
        }
    }

    #[test]
    fn a_newer_format_is_told_from_damage() {
        let sound = Header { store: [9; 16], number: 12, salt: 77, kind: Kind::Log { base: 4096 }, first_frame: 72 }.encode().0;
        let with = |at: usize, byte: u8| {
            let mut bytes = sound;
            bytes[at] = byte;
            repair(&mut bytes);
            Header::decode(&bytes).map(|header| header.first_frame)
        };
        assert_eq!(with(8, 9), Err(Flaw::Unknown("segment version")));
        assert_eq!((with(10, 0), with(10, 3)), (Err(Flaw::Unknown("segment kind")), Err(Flaw::Unknown("segment kind"))));
        assert_eq!(with(56, 1), Err(Flaw::Unknown("segment kind")), "a log has one base");
        assert_eq!((with(68, 1), with(71, 1)), (Err(Flaw::Unknown("segment flags")), Err(Flaw::Unknown("segment flags"))));
        for (at, byte) in [(64, 64), (64, 73)] {
            assert_eq!(with(at, byte), Err(Flaw::Corrupt("segment header")), "{byte} at {at}");
        }
        assert_eq!(with(64, 80), Ok(80), "the first frame may stand further on");
    }
}
