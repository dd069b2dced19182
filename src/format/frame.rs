//! The frame: a checksummed envelope of one record and its payload.
//!
//! A head is believed if and only if its checksum, salted with the segment's salt and the frame's
//! position, fits; record and payload if and only if the checksums that the head keeps of them fit.
//! So an index is built from heads and records alone, a damaged record or payload is passed over by
//! its length, and bytes of an old tail, of another store or of a segment file stored as a state are
//! never taken for frames.
//!
//! `head (48) | record | zeros to 8 | payload | zeros to 8`; layout in DESIGN.md, "Frame".

use super::{Flaw, SEQS_END, aligned, are_counts, record, u32_at, u64_at};
use crate::plant::planted;

/// The size of a frame's head.
pub(crate) const HEAD_BYTES: usize = 48;
/// The first bytes of every frame.
pub(crate) const MAGIC: [u8; 4] = *b"TfRm";
/// The largest payload.
pub(crate) const PAYLOAD_BYTES_MAX: u64 = 3 * 1024 * 1024 * 1024;

/// Where a head keeps the checksum over all before it.
const CHECK_AT: usize = 44;

/// More frames of the same batch follow; the batch counts only when the last one is there.
const FLAG_MORE: u8 = 1;

/// Where a frame stands: what salts its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The segment's salt.
    pub salt: u64,
    /// The frame's position in the whole log.
    pub position: u64,
}

/// A frame's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// More frames of its batch follow.
    pub more: bool,
    /// The record's length.
    pub record_len: u32,
    /// The payload's length.
    pub payload_len: u32,
    /// Its number in the one order of the store.
    pub seq: u64,
    /// The synced end known when it was written.
    pub synced_end: u64,
    /// The head checksum of the frame before it (of the segment's header for the first).
    pub prev_check: u32,
    /// The payload's checksum.
    pub payload_check: u32,
}

impl Head {
    /// The length of the whole frame.
    pub fn frame_len(&self) -> u64 {
        frame_len(self.record_len as usize, u64::from(self.payload_len))
    }

    /// Where the payload begins in the frame.
    pub fn payload_start(&self) -> usize {
        payload_start(self.record_len as usize)
    }

    /// Encodes the head over its record; answers the bytes and the head checksum.
    pub fn encode(&self, place: Place, record: &[u8]) -> ([u8; HEAD_BYTES], u32) {
        let mut bytes = [0; HEAD_BYTES];
        bytes[0..4].copy_from_slice(&MAGIC);
        bytes[4] = if self.more { FLAG_MORE } else { 0 };
        bytes[8..12].copy_from_slice(&self.record_len.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.payload_len.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.seq.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.synced_end.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.prev_check.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.payload_check.to_le_bytes());
        bytes[40..44].copy_from_slice(&crc32fast::hash(record).to_le_bytes());
        let check = head_check(place, &bytes[..CHECK_AT]);
        bytes[CHECK_AT..].copy_from_slice(&check.to_le_bytes());
        (bytes, check)
    }

    /// The lengths a head claims, before its checksum is known: bounded, so that a reader can fetch
    /// the record. Errors: `Torn` when there are fewer than 48 bytes, `Corrupt`.
    pub fn peek(bytes: &[u8]) -> Result<(u32, u32), Flaw> {
        let short = Flaw::Torn("frame head");
        if bytes.len() < HEAD_BYTES {
            return Err(short);
        }
        if bytes[0..4] != MAGIC {
            return Err(Flaw::Corrupt("frame magic"));
        }
        let record_len = u32_at(bytes, 8).ok_or(short)?;
        let payload_len = u32_at(bytes, 12).ok_or(short)?;
        if record_len == 0 || record_len as usize > record::BYTES_MAX || u64::from(payload_len) > PAYLOAD_BYTES_MAX {
            return Err(Flaw::Corrupt("frame lengths"));
        }
        Ok((record_len, payload_len))
    }

    /// Decodes a head and checks the record behind it in `bytes`; answers the head and its checksum.
    /// Errors: `Torn`, `Corrupt`, `Unknown` for flags of a newer format.
    #[cfg(any(test, feature = "testing"))]
    pub fn decode(place: Place, bytes: &[u8]) -> Result<(Head, u32), Flaw> {
        let (head, check) = Self::alone(place, bytes)?;
        head.record(bytes)?;
        Ok((head, check))
    }

    /// Decodes a head alone; answers it and its checksum. Errors: `Torn`, `Corrupt`, `Unknown` for flags of
    /// a newer format.
    pub fn alone(place: Place, bytes: &[u8]) -> Result<(Head, u32), Flaw> {
        let (record_len, payload_len) = Self::peek(bytes)?;
        let short = Flaw::Torn("frame head");
        let check = u32_at(bytes, CHECK_AT).ok_or(short)?;
        if check != head_check(place, &bytes[..CHECK_AT]) {
            return Err(Flaw::Corrupt("frame head checksum"));
        }
        if bytes[4] & !FLAG_MORE != 0 || bytes[5..8] != [0; 3] {
            return Err(Flaw::Unknown("frame flags"));
        }
        let head = Head {
            more: bytes[4] & FLAG_MORE != 0,
            record_len,
            payload_len,
            seq: u64_at(bytes, 16).ok_or(short)?,
            synced_end: u64_at(bytes, 24).ok_or(short)?,
            prev_check: u32_at(bytes, 32).ok_or(short)?,
            payload_check: u32_at(bytes, 36).ok_or(short)?,
        };
        if head.seq >= SEQS_END || !are_counts(&[head.synced_end]) {
            return Err(Flaw::Corrupt("frame number"));
        }
        Ok((head, check))
    }

    /// The record in a frame, if its checksum fits. Errors: `Torn`, `Corrupt`.
    pub fn record<'a>(&self, frame: &'a [u8]) -> Result<&'a [u8], Flaw> {
        let padded = frame.get(HEAD_BYTES..self.payload_start()).ok_or(Flaw::Torn("frame record"))?;
        let (record, padding) = padded.split_at(self.record_len as usize);
        if padding.iter().any(|&byte| byte != 0) || Some(crc32fast::hash(record)) != u32_at(frame, 40) {
            return Err(Flaw::Corrupt("record checksum"));
        }
        Ok(record)
    }

    /// The payload in a whole frame, if its checksum fits. Errors: `Torn`, `Corrupt`.
    pub fn payload<'a>(&self, frame: &'a [u8]) -> Result<&'a [u8], Flaw> {
        let rest = frame.get(self.payload_start()..).ok_or(Flaw::Torn("frame payload"))?;
        let length = self.payload_len as usize;
        let padded = rest.get(..aligned(length as u64) as usize).ok_or(Flaw::Torn("frame payload"))?;
        let (payload, padding) = padded.split_at(length);
        if padding.iter().any(|&byte| byte != 0) || payload_check(payload) != self.payload_check {
            return Err(Flaw::Corrupt("payload checksum"));
        }
        Ok(payload)
    }
}

/// The length of a frame of such a record and payload.
pub(crate) fn frame_len(record_len: usize, payload_len: u64) -> u64 {
    payload_start(record_len) as u64 + aligned(payload_len)
}

/// Where the payload begins in a frame of such a record.
pub(crate) fn payload_start(record_len: usize) -> usize {
    HEAD_BYTES + record_len.next_multiple_of(8)
}

/// The zeros behind a record or payload of that length.
pub(crate) fn padding(length: usize) -> &'static [u8] {
    &[0; 8][..length.next_multiple_of(8) - length]
}

/// The checksum a head keeps of its payload.
pub(crate) fn payload_check(payload: &[u8]) -> u32 {
    crc32fast::hash(payload)
}

/// Makes the checksums of what may be a frame fit, so that the fuzz targets see behind them.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn repair(place: Place, bytes: &mut [u8]) {
    let Ok((record_len, payload_len)) = Head::peek(bytes) else { return };
    let (start, length) = (payload_start(record_len as usize), payload_len as usize);
    if let Some(payload) = bytes.get(start..).and_then(|rest| rest.get(..length)) {
        let check = payload_check(payload);
        bytes[36..40].copy_from_slice(&check.to_le_bytes());
    }
    if let Some(record) = bytes.get(HEAD_BYTES..HEAD_BYTES + record_len as usize) {
        let check = crc32fast::hash(record);
        bytes[40..44].copy_from_slice(&check.to_le_bytes());
    }
    let check = head_check(place, &bytes[..CHECK_AT]);
    bytes[CHECK_AT..HEAD_BYTES].copy_from_slice(&check.to_le_bytes());
}

fn head_check(place: Place, head: &[u8]) -> u32 {
    // In one piece: the checksum of three would cost three times its start.
    let mut bytes = [0; 16 + CHECK_AT];
    bytes[..8].copy_from_slice(&place.salt.to_le_bytes());
    bytes[8..16].copy_from_slice(&place.position.to_le_bytes());
    bytes[16..].copy_from_slice(head);
    if planted!("place-not-checked") {
        bytes[..16].fill(0);
    }
    if planted!("length-not-checked") {
        bytes[24..32].fill(0);
    }
    crc32fast::hash(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(place: Place, head: &Head, record: &[u8], payload: &[u8]) -> Vec<u8> {
        let mut bytes = head.encode(place, record).0.to_vec();
        bytes.extend_from_slice(record);
        bytes.resize(payload_start(record.len()), 0);
        bytes.extend_from_slice(payload);
        bytes.resize(head.frame_len() as usize, 0);
        bytes
    }

    fn head(record: &[u8], payload: &[u8]) -> Head {
        Head {
            more: payload.len() % 2 == 1,
            record_len: record.len() as u32,
            payload_len: payload.len() as u32,
            seq: 7,
            synced_end: 4096,
            prev_check: 99,
            payload_check: payload_check(payload),
        }
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded(record in prop::collection::vec(any::<u8>(), 1..200), payload in prop::collection::vec(any::<u8>(), 0..200), salt: u64, position: u64) {
            let place = Place { salt, position };
            let head = head(&record, &payload);
            let bytes = frame(place, &head, &record, &payload);
            prop_assert_eq!(Head::decode(place, &bytes).unwrap().0, head);
            prop_assert_eq!(head.payload(&bytes).unwrap(), &payload[..]);
        }

        #[test]
        fn any_changed_bit_is_noticed(record in prop::collection::vec(any::<u8>(), 1..40), payload in prop::collection::vec(any::<u8>(), 0..40), at: prop::sample::Index, bit in 0..8u8) {
            let place = Place { salt: 1, position: 8 };
            let head = head(&record, &payload);
            let mut bytes = frame(place, &head, &record, &payload);
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            prop_assert!(Head::decode(place, &bytes).is_err() || head.payload(&bytes).is_err());
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), magic: bool) {
            let mut bytes = bytes;
            if magic && bytes.len() > 4 { bytes[..4].copy_from_slice(&MAGIC); }
            let _ = Head::decode(Place { salt: 0, position: 0 }, &bytes);
        }
    }

    #[test]
    fn a_frame_in_another_place_is_not_believed() {
        let place = Place { salt: 5, position: 64 };
        let bytes = frame(place, &head(b"r", b"p"), b"r", b"p");
        for other in [Place { salt: 6, ..place }, Place { position: 72, ..place }] {
            assert_eq!(Head::decode(other, &bytes), Err(Flaw::Corrupt("frame head checksum")));
        }
    }

    #[test]
    fn torn_corrupt_and_unknown_are_three_answers() {
        let place = Place { salt: 5, position: 64 };
        let whole = frame(place, &head(b"record", b"p"), b"record", b"p");
        for cut in 0..HEAD_BYTES + 8 {
            assert!(matches!(Head::decode(place, &whole[..cut]), Err(Flaw::Torn(_))), "{cut}");
        }
        let mut newer = whole.clone();
        newer[4] = 0x80;
        let check = head_check(place, &newer[..CHECK_AT]);
        newer[CHECK_AT..HEAD_BYTES].copy_from_slice(&check.to_le_bytes());
        assert_eq!(Head::decode(place, &newer), Err(Flaw::Unknown("frame flags")));
        for length in [0u32, 1 << 31, u32::MAX, u32::MAX - 48] {
            let mut crazy = whole.clone();
            crazy[8..12].copy_from_slice(&length.to_le_bytes());
            assert_eq!(Head::decode(place, &crazy), Err(Flaw::Corrupt("frame lengths")));
        }
    }

    #[test]
    fn lengths_and_numbers_go_up_to_their_bounds() {
        let place = Place { salt: 5, position: 64 };
        let lengths = |record_len, payload_len| {
            let bytes = Head { record_len, payload_len, ..head(b"r", b"p") }.encode(place, b"r").0;
            Head::peek(&bytes)
        };
        let (record_max, payload_max) = (70_462, 3 << 30);
        assert_eq!(lengths(record_max, payload_max), Ok((record_max, payload_max)));
        assert_eq!(lengths(record_max + 1, 0), Err(Flaw::Corrupt("frame lengths")));
        assert_eq!(lengths(1, payload_max + 1), Err(Flaw::Corrupt("frame lengths")));
        let numbers = |seq, synced_end| {
            let head = Head { seq, synced_end, ..head(b"r", b"p") };
            Head::decode(place, &frame(place, &head, b"r", b"p")).map(|(head, _)| (head.seq, head.synced_end))
        };
        assert_eq!(numbers(SEQS_END - 1, (1 << 63) - 1), Ok((SEQS_END - 1, (1 << 63) - 1)));
        assert_eq!(numbers(SEQS_END, 0), Err(Flaw::Corrupt("frame number")));
        assert_eq!(numbers(0, 1 << 63), Err(Flaw::Corrupt("frame number")));
    }
}
