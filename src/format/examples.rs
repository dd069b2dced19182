//! DESIGN.md's hex examples, decoded and encoded again out of the document itself.

use super::frame::{HEAD_BYTES, Head, Place};
use super::hint::{Builder, Hint, Standing};
use super::manifest::Manifest;
use super::record::Record;
use super::segment::{Header, Kind};

const DESIGN: &str = include_str!("../../DESIGN.md");

/// The bytes of the block that begins with "```hex NAME"; `;` begins a comment.
pub(crate) fn example(name: &str) -> Vec<u8> {
    let start = format!("```hex {name}\n");
    let block =
        DESIGN.split(&start).nth(1).and_then(|rest| rest.split("```").next()).unwrap_or_else(|| panic!("DESIGN.md has no example {name}"));
    let digits: String = block.lines().map(|line| line.split(';').next().unwrap_or("")).flat_map(str::split_whitespace).collect();
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}

#[track_caller]
fn same(name: &str, bytes: &[u8], again: &[u8]) {
    let hex = |bytes: &[u8]| {
        bytes.chunks(16).map(|row| row.iter().map(|byte| format!("{byte:02x} ")).collect::<String>() + "\n").collect::<String>()
    };
    assert!(bytes == again, "example {name} should read\n{}", hex(again));
}

fn record(name: &str) -> Vec<u8> {
    let bytes = example(name);
    let record = Record::decode(&bytes).unwrap_or_else(|flaw| panic!("{name}: {flaw}"));
    let mut again = Vec::new();
    record.encode(&mut again);
    same(name, &bytes, &again);
    bytes
}

#[test]
fn the_segment_header() {
    let bytes = example("segment-header");
    let header = Header::decode(&bytes).unwrap();
    assert_eq!((header.number, header.salt, header.kind, header.first_frame), (1, 0x1122_3344_5566_7788, Kind::Log { base: 0 }, 72));
    same("segment-header", &bytes, &header.encode().0);
}

#[test]
fn the_records() {
    for name in ["record-delete-thread", "record-delete-checkpoint", "record-trim", "record-keep"] {
        record(name);
    }
    let bytes = record("record-put");
    let Ok(Record::Put(put)) = Record::decode(&bytes) else { panic!("record-put is no put") };
    assert_eq!((put.thread, put.place, put.tag, put.metadata, put.state_len), ("t", 1, "json", r#"{"a":1}"#, 4));
    assert_eq!(record("record-promote")[1..], bytes[1..], "a promoted checkpoint is told as a put is");
    record("record-put-delta");
    for name in ["record-bind", "record-detach"] {
        record(name);
    }
    let bytes = record("record-attach");
    let Ok(Record::Attach(attach)) = Record::decode(&bytes) else { panic!("record-attach is no attachment") };
    assert_eq!((attach.number, attach.place, attach.key, attach.tag, attach.value_len), (3, 1, "k", "json", 4));
}

#[test]
fn the_frame() {
    let bytes = example("frame");
    let place = Place { salt: 0x1122_3344_5566_7788, position: 72 };
    let (head, _) = Head::decode(place, &bytes).unwrap();
    assert_eq!(head.frame_len(), bytes.len() as u64);
    assert_eq!(head.payload(&bytes).unwrap(), b"true");
    let stands = &bytes[HEAD_BYTES..][..head.record_len as usize];
    same("frame's record", stands, &record("record-put"));
    assert_eq!(head.prev_check, Header::decode(&example("segment-header")).unwrap().encode().1, "the first frame chains to the header");
    same("frame", &bytes[..HEAD_BYTES], &head.encode(place, stands).0);
}

#[test]
fn the_hint_file() {
    let bytes = example("hint");
    let (frame, put) = (example("frame"), example("record-put"));
    let (head, check) = Head::decode(Place { salt: 0x1122_3344_5566_7788, position: 72 }, &frame).unwrap();
    let put = Record::decode(&put).unwrap();
    let trim = Record::Trim { thread: "t", floor: 2 };
    let mut builder = Builder::default();
    builder.push(&put, Standing { offset: 72, length: frame.len() as u64, check, seq: head.seq });
    builder.push(&trim, Standing { offset: 72 + frame.len() as u64, length: 64, check: 0x4433_2211, seq: 2 });
    let store = std::array::from_fn(|at| at as u8);
    same("hint", &bytes, &builder.encode(store, 1, 0x1122_3344_5566_7788).unwrap());
    let hint = Hint::decode(bytes).unwrap();
    let records: Vec<_> = hint.groups().flat_map(|group| group.items().map(move |item| item.record(group.thread))).collect();
    assert!(matches!((&records[0], &put), (Record::Put(here), Record::Put(there)) if (here.id, here.place) == (there.id, there.place)));
    assert_eq!(records[1..], [trim]);
}

#[test]
fn the_manifest() {
    let bytes = example("manifest");
    let manifest = Manifest::decode(&bytes).unwrap();
    assert_eq!((manifest.generation, manifest.max_history, manifest.segments.len()), (2, 50, 2));
    same("manifest", &bytes, &manifest.encode());
}
