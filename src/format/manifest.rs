//! The manifest: which segments are live, in order, and the settings of the store.
//!
//! It is replaced whole, so it is either one generation or the next. Its first 24 bytes stand the
//! same in every version: magic, version, checksum of all the rest, length of the body. Layout in
//! DESIGN.md, "Manifest".

use serde::{Deserialize, Serialize};

use super::{Flaw, SEQS_END, VERSION, are_counts, check_around, fixed, u16_at, u32_at, u64_at};

/// The largest manifest, over a million segments; none larger is written or read.
pub(crate) const BYTES_MAX: u64 = 64 * 1024 * 1024;
const MAGIC: [u8; 8] = *b"TAFFMAN\0";
const CHECK_AT: usize = 12;
const HEAD_BYTES: usize = 24;

/// A live segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Listed {
    /// Its number, which is its file's name.
    pub number: u64,
    /// The salt of its frames' checksums.
    pub salt: u64,
    /// The position of its byte 0; of a compacted one, that of the first segment it replaces.
    pub base: u64,
    /// The offset where its frames end once it is sealed; 0 while it is active.
    pub end: u64,
    /// Where its first frame begins.
    pub first_frame: u32,
    /// Whether it replaces older segments.
    pub compacted: bool,
}

impl Listed {
    /// What the positions that salt its frames' checksums are counted from: a compacted segment's
    /// frames are bound to their offsets, for where it stands in the log is the manifest's to say.
    pub fn counted_from(&self) -> u64 {
        if self.compacted { 0 } else { self.base }
    }

    /// Whether its frames can end where they are said to.
    fn ends_somewhere(&self) -> bool {
        self.end == 0 || self.end >= u64::from(self.first_frame)
    }
}

/// The manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// The store's random name.
    pub store: [u8; 16],
    /// Counts its replacements.
    pub generation: u64,
    /// Counts the store's lives between two poisonings.
    pub epoch: u64,
    /// No sequence number below this is given from now on.
    pub seq_floor: u64,
    /// The number of the next segment.
    pub next_number: u64,
    /// Counts the replacements that took segments out by compaction.
    pub compactions: u64,
    /// The position up to which the newest of them knew what was dead.
    pub compacted_at: u64,
    /// How many checkpoints a thread keeps; 0 for all.
    pub max_history: u64,
    /// The live segments in the log's order; the last one is active.
    pub segments: Vec<Listed>,
    /// The numbers that the last replacement retired.
    pub retired: Vec<u64>,
}

impl Manifest {
    /// That of a new store, before it has a segment or is installed.
    pub fn new(store: [u8; 16], max_history: u64) -> Manifest {
        Manifest {
            store,
            generation: 0,
            epoch: 1,
            seq_floor: 1,
            next_number: 1,
            compactions: 0,
            compacted_at: 0,
            max_history,
            segments: Vec::new(),
            retired: Vec::new(),
        }
    }

    /// How many checkpoints a thread keeps; `None` for all.
    pub fn keep(&self) -> Option<u64> {
        (self.max_history != 0).then_some(self.max_history)
    }

    /// Encodes the whole file.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; HEAD_BYTES];
        fixed::append(self, &mut bytes);
        let body_len = (bytes.len() - HEAD_BYTES) as u64;
        bytes[0..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..24].copy_from_slice(&body_len.to_le_bytes());
        let check = check_around(&bytes, CHECK_AT);
        bytes[CHECK_AT..CHECK_AT + 4].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// Decodes the whole file. Errors: `Torn`, `Corrupt`, `Unknown`.
    pub fn decode(bytes: &[u8]) -> Result<Manifest, Flaw> {
        let short = Flaw::Torn("manifest");
        if bytes.len() < HEAD_BYTES {
            return Err(short);
        }
        if bytes[0..8] != MAGIC {
            return Err(Flaw::Corrupt("manifest magic"));
        }
        let body_len = u64_at(bytes, 16).ok_or(short)?;
        let body = &bytes[HEAD_BYTES..];
        if body_len > body.len() as u64 {
            return Err(short);
        }
        if body_len != body.len() as u64 || u32_at(bytes, CHECK_AT).ok_or(short)? != check_around(bytes, CHECK_AT) {
            return Err(Flaw::Corrupt("manifest checksum"));
        }
        if u16_at(bytes, 8).ok_or(short)? != VERSION || bytes[10..12] != [0; 2] {
            return Err(Flaw::Unknown("manifest version"));
        }
        let (manifest, used) = fixed::read::<Manifest>(body)?;
        let is_possible = manifest.counts() && manifest.segments.iter().all(Listed::ends_somewhere);
        if used != body.len() || manifest.segments.is_empty() || !is_possible {
            return Err(Flaw::Corrupt("manifest body"));
        }
        Ok(manifest)
    }

    /// Whether all that is added to can be.
    pub fn counts(&self) -> bool {
        let Manifest { generation, epoch, seq_floor, next_number, compactions, compacted_at, .. } = *self;
        seq_floor < SEQS_END
            && are_counts(&[generation, epoch, next_number, compactions, compacted_at])
            && self.segments.iter().all(|listed| are_counts(&[listed.number, listed.base, listed.end]))
    }
}

/// Makes the checksum of what may be a manifest fit, so that the fuzz targets see behind it.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn repair(bytes: &mut [u8]) {
    if bytes.len() >= HEAD_BYTES {
        let body_len = (bytes.len() - HEAD_BYTES) as u64;
        bytes[16..24].copy_from_slice(&body_len.to_le_bytes());
        let check = check_around(bytes, CHECK_AT);
        bytes[CHECK_AT..CHECK_AT + 4].copy_from_slice(&check.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let listed = |number, end| Listed { number, salt: number * 3, base: number << 20, end, first_frame: 72, compacted: false };
        Manifest {
            store: [1; 16],
            generation: 4,
            epoch: 1,
            seq_floor: 9,
            next_number: 3,
            compactions: 0,
            compacted_at: 0,
            max_history: 50,
            segments: vec![listed(1, 800), listed(2, 0)],
            retired: vec![7],
        }
    }

    #[test]
    fn a_manifest_comes_back_and_any_changed_bit_is_noticed() {
        let bytes = manifest().encode();
        assert_eq!(Manifest::decode(&bytes), Ok(manifest()));
        for at in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[at / 8] ^= 1 << (at % 8);
            assert!(Manifest::decode(&flipped).is_err(), "bit {at}");
        }
        for cut in 0..bytes.len() {
            assert!(matches!(Manifest::decode(&bytes[..cut]), Err(Flaw::Torn(_))), "{cut}");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(Manifest::decode(&longer), Err(Flaw::Corrupt("manifest checksum")));
    }

    #[test]
    fn a_newer_version_is_told_from_damage() {
        for at in [8, 9, 10, 11] {
            let mut bytes = manifest().encode();
            bytes[at] = 9;
            repair(&mut bytes);
            assert_eq!(Manifest::decode(&bytes), Err(Flaw::Unknown("manifest version")), "byte {at}");
        }
    }

    #[test]
    fn a_body_that_goes_on_or_lists_nothing_is_corrupt() {
        let mut longer = [&manifest().encode()[..], &[0]].concat();
        repair(&mut longer);
        assert_eq!(Manifest::decode(&longer), Err(Flaw::Corrupt("manifest body")));
        let nothing = Manifest { segments: Vec::new(), ..manifest() }.encode();
        assert_eq!(Manifest::decode(&nothing), Err(Flaw::Corrupt("manifest body")));
    }

    #[test]
    fn a_number_that_nothing_could_be_added_to_is_corrupt() {
        let above = |count: u64| {
            [
                Manifest { generation: count, ..manifest() },
                Manifest { epoch: count, ..manifest() },
                Manifest { next_number: count, ..manifest() },
                Manifest { compactions: count, ..manifest() },
                Manifest { compacted_at: count, ..manifest() },
                Manifest { segments: vec![Listed { number: count, ..manifest().segments[0] }], ..manifest() },
                Manifest { segments: vec![Listed { base: count, ..manifest().segments[0] }], ..manifest() },
                Manifest { segments: vec![Listed { end: count, ..manifest().segments[0] }], ..manifest() },
            ]
        };
        let seqs = |seq_floor| Manifest { seq_floor, ..manifest() };
        for most in above((1 << 63) - 1).into_iter().chain([seqs(SEQS_END - 1)]) {
            assert_eq!(Manifest::decode(&most.encode()), Ok(most));
        }
        for more in above(1 << 63).into_iter().chain([seqs(SEQS_END)]) {
            assert_eq!(Manifest::decode(&more.encode()), Err(Flaw::Corrupt("manifest body")), "{more:?}");
        }
    }

    #[test]
    fn a_segment_that_ends_before_its_first_frame_is_corrupt() {
        let ending = |end| Manifest { segments: vec![Listed { end, ..manifest().segments[0] }], ..manifest() };
        for possible in [0, 72, 73].map(ending) {
            assert_eq!(Manifest::decode(&possible.encode()), Ok(possible));
        }
        for end in [1, 71] {
            assert_eq!(Manifest::decode(&ending(end).encode()), Err(Flaw::Corrupt("manifest body")));
        }
    }

    #[test]
    fn a_head_alone_is_looked_at() {
        assert_eq!(Manifest::decode(&[0; HEAD_BYTES]), Err(Flaw::Corrupt("manifest magic")));
        assert_eq!(Manifest::decode(&[0; HEAD_BYTES - 1]), Err(Flaw::Torn("manifest")));
    }

    #[test]
    fn a_manifest_may_list_a_million_segments_and_is_never_larger_than_64_mib() {
        let length = |segments: u64| {
            let listed = Manifest { segments: vec![manifest().segments[0]; segments as usize], ..manifest() };
            listed.encode().len() as u64
        };
        let each = length(3) - length(2);
        let most = (BYTES_MAX - length(0)) / each;
        assert!((1_000_000..2_000_000).contains(&most), "{most} segments");
        assert!(length(0) + most * each <= 64 << 20);
    }
}
