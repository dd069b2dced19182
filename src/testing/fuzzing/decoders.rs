//! The decoders of `format`: they never panic, and what they accept is encoded to the same bytes.
//!
//! Where the bytes carry a checksum the first byte of the input chooses whether it is made to fit:
//! without that a fuzzer would never get behind it.

use crate::delta::{Chain, Keep, Scratch, Stored, Sums, encode};
use crate::format::frame::{self, HEAD_BYTES, Head, Place};
use crate::format::hint::{self, Builder, Heading, Hint};
use crate::format::manifest::{self, Manifest};
use crate::format::names::{self as file_names, Name};
use crate::format::record::Record;
use crate::format::segment::{self, HEADER_BYTES, Header};

/// Where the fuzzed frame stands; any place will do.
pub(super) const PLACE: Place = Place { salt: 0x5a17, position: 4096 };

/// A frame: its head, its record and its payload.
pub fn frame(data: &[u8]) -> bool {
    let bytes = repaired(data, |bytes| frame::repair(PLACE, bytes));
    let Ok((head, check)) = Head::decode(PLACE, &bytes) else { return false };
    let record = &bytes[HEAD_BYTES..HEAD_BYTES + head.record_len as usize];
    let (again, check_again) = head.encode(PLACE, record);
    assert_eq!(&again[..], &bytes[..HEAD_BYTES], "the head came back with other bytes");
    assert_eq!(check_again, check);
    let decoded = Record::decode(record).is_ok();
    let Ok(payload) = head.payload(&bytes) else { return false };
    assert_eq!(payload.len(), head.payload_len as usize);
    assert!(head.frame_len() <= bytes.len() as u64, "a frame longer than its bytes was believed");
    decoded
}

/// A record, which has no checksum of its own.
pub fn record(data: &[u8]) -> bool {
    let Ok(record) = Record::decode(data) else { return false };
    let mut again = Vec::new();
    record.encode(&mut again);
    assert_eq!(again, data, "{record:?} came back with other bytes");
    !record.thread().is_empty()
}

/// A segment's header.
pub fn segment(data: &[u8]) -> bool {
    let bytes = repaired(data, segment::repair);
    let Ok(header) = Header::decode(&bytes) else { return false };
    assert_eq!(header.encode().0, bytes[..HEADER_BYTES], "{header:?} came back with other bytes");
    true
}

/// A hint file.
pub fn hint(data: &[u8]) -> bool {
    let bytes = repaired(data, hint::repair);
    let Ok(hint) = Hint::decode(bytes.clone()) else { return false };
    let Heading { store, number, salt, end, frames, .. } = *hint.heading();
    let mut items = 0;
    for group in hint.groups() {
        for item in group.items() {
            assert!(!group.thread.is_empty() && item.record(group.thread).thread() == group.thread);
            assert!((u64::from(item.offset8()) + u64::from(item.length8())) * 8 <= end, "a frame behind what is covered");
            items += 1;
        }
    }
    assert_eq!(items, frames);
    assert_eq!(Builder::after(&hint).encode(store, number, salt), Some(bytes), "the hint came back with other bytes");
    true
}

/// The manifest.
pub fn manifest(data: &[u8]) -> bool {
    let bytes = repaired(data, manifest::repair);
    let Ok(manifest) = Manifest::decode(&bytes) else { return false };
    assert_eq!(manifest.encode(), bytes, "{manifest:?} came back with other bytes");
    true
}

/// A file name: what is read as ours is the name we would build.
pub fn names(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else { return false };
    let Some(name) = Name::parse(text) else { return false };
    let built = match name {
        Name::Segment(number) => file_names::segment(number),
        Name::SegmentNew(number) => file_names::segment_new(number),
        Name::Hint(number) => file_names::hint(number),
        Name::HintNew(number) => file_names::hint_new(number),
        Name::Manifest => file_names::MANIFEST.to_owned(),
        Name::ManifestNew => file_names::MANIFEST_NEW.to_owned(),
        Name::Tail => file_names::TAIL.to_owned(),
        Name::Quarantine => file_names::QUARANTINE.to_owned(),
        Name::Lock => {
            assert!(text.ends_with(".lock"));
            return true;
        }
    };
    assert_eq!(built, text);
    true
}

/// The deltas of one input.
const DELTAS_MAX: usize = 12;

/// `length of the root | root | deltas`, each `packed | unpacked length | state length | length |
/// payload`, the lengths of two bytes: composed they give what they give one after the other. The last
/// state is encoded as a delta on the root and back.
pub fn delta(data: &[u8]) -> bool {
    let mut rest = data;
    let Some(root) = counted(&mut rest) else { return false };
    let mut chain = Chain::new(root, Keep::All);
    let mut states = vec![root.to_vec()];
    let mut accepted = false;
    while let Some((&[packed, a, b, c, d], behind)) = rest.split_first_chunk()
        && states.len() <= DELTAS_MAX
    {
        rest = behind;
        let Some(payload) = counted(&mut rest) else { break };
        let (unpacked_len, state_len) = (u32::from(u16::from_le_bytes([a, b])), u32::from(u16::from_le_bytes([c, d])));
        let stored = Stored { payload, is_packed: packed % 2 == 1, unpacked_len, state_len };
        let mut alone = Chain::new(&states[states.len() - 1], Keep::Last);
        let is_good = alone.push(&stored).is_ok();
        assert_eq!(chain.push(&stored).is_ok(), is_good, "a chain judges as its last delta alone");
        if is_good {
            let state = alone.last();
            assert_eq!(state.len(), state_len as usize, "a state of another length");
            states.push(state);
            accepted = true;
        }
    }
    for (step, state) in states.iter().enumerate() {
        assert!(chain.state(step).is_none_or(|composed| composed == *state), "composed the state is another one");
    }
    let target = &states[states.len() - 1];
    assert!(chain.last() == *target, "composed the last state is another one");
    encoded_again(root, target);
    encoded_again(target, root);
    accepted
}

/// What is encoded at all comes back.
fn encoded_again(base: &[u8], target: &[u8]) {
    let sums = Sums::of_keyframe(u32::MAX);
    let Ok(encoded) = encode(base, target, sums, &mut Scratch::default()) else { return };
    let mut chain = Chain::new(base, Keep::Last);
    chain.push(&encoded.stored(target.len() as u32)).unwrap();
    assert!(chain.last() == target, "a state came back as another one");
    assert_eq!(chain.sums(u32::MAX), encoded.sums);
}

/// Bytes behind their length, which is cut to what there is.
fn counted<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, behind) = rest.split_first_chunk()?;
    let (bytes, behind) = behind.split_at(behind.len().min(usize::from(u16::from_le_bytes(*length))));
    *rest = behind;
    Some(bytes)
}

/// The input behind its first byte, with the checksum made to fit where that byte is odd.
fn repaired(data: &[u8], repair: impl Fn(&mut [u8])) -> Vec<u8> {
    let Some((&mode, bytes)) = data.split_first() else { return Vec::new() };
    let mut bytes = bytes.to_vec();
    if mode % 2 == 1 {
        repair(&mut bytes);
    }
    bytes
}
