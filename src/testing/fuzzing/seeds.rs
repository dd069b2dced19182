//! Inputs to begin with, made from real values; `tests/corpus.rs` says how they are written.

use super::decoders::PLACE;
use crate::delta::{Scratch, Sums, encode};
use crate::format::frame::{Head, payload_check};
use crate::format::hint::{Builder, Standing};
use crate::format::manifest::{Listed, Manifest};
use crate::format::names;
use crate::format::record::{Attach, Coding, Difference, Followed, Id, Put, Record};
use crate::format::segment::{Header, Kind};

/// The inputs of a target, each of which it accepts; none for a name that is no target.
pub fn seeds(target: &str) -> Vec<Vec<u8>> {
    match target {
        "frame" => records().iter().flat_map(|record| [frame(record, b""), frame(record, b"{\"step\":1}")]).collect(),
        "record" => records(),
        "delta" => deltas(),
        "segment" => [Kind::Log { base: 4096 }, Kind::Compacted { first: 3, last: 9 }].map(segment).into(),
        "hint" => [1, 14].map(hint).into(),
        "manifest" => [1, 3].map(manifest).into(),
        "names" => {
            let fixed = [names::MANIFEST, names::MANIFEST_NEW, names::TAIL, names::QUARANTINE, "write.lock", "00000000000000ff.hint"];
            let built = [names::segment(0x1f), names::segment_new(u64::MAX), names::hint_new(7)];
            fixed.map(str::to_owned).into_iter().chain(built).map(String::into_bytes).collect()
        }
        "json" => texts(&[" [1, -0.0, 1e400]\n", r#"{"a":"\ud83d\u0000é","a":[null,true]}"#, "\"[[{\\\"\""]),
        "metadata" => texts(&[r#"{"step": 7, "a": 1, "a": {"b": null}}"#, "{}", r#"{"\u0061":2,"\"":0}"#]),
        "glob" => texts(&["\0\x05a*?\\*abc*", "\0\x03*a*xxaxx", "\x01\x04\x03\x00\x03\x01\x01\x00\x02\x01"]),
        "directory" => edits(),
        "operations" => runs(),
        // Setup, point, chance and steps.
        "crashes" => vec![vec![0, 40, 1, 0, 8, 13], vec![1, 20, 2, 9, 13, 5, 15], vec![2, 60, 3, 3, 13, 2, 6, 11, 17]],
        #[cfg(feature = "sqlite")]
        "database" => super::imports::seeds(),
        _ => Vec::new(),
    }
}

fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

fn records() -> Vec<Vec<u8>> {
    let (thread, uuid) = ("thread", Id::Uuid([7; 16]));
    let (parent, coding) = (Followed::Nothing, Coding::Whole);
    let put = Put { thread, id: uuid, place: 9, floor: 2, saved_at: -5, parent, tag: "json", metadata: "", state_len: 9, coding };
    let difference = Difference { base: 9, base_hash: 5, hash: 6, unpacked_len: 300, is_packed: true };
    let delta = Put { place: 10, parent: Followed::Base, state_len: 999, coding: Coding::Delta(difference), ..put.clone() };
    let named = Put { id: Id::Text("step-2"), parent: Followed::Id(uuid), metadata: "{\"a\":1}", ..put.clone() };
    let attach = Attach {
        thread,
        id: Id::Text("id"),
        key: "k",
        tag: "json",
        number: 9,
        place: 3,
        is_awaiting: false,
        value_len: 4,
        is_packed: false,
    };
    let records = [
        Record::Put(put.clone()),
        Record::Put(named),
        Record::Promote(Put { coding: Coding::Packed, ..put.clone() }),
        Record::Put(delta),
        Record::DeleteThread { thread },
        Record::DeleteCheckpoint { thread, place: 3 },
        Record::Trim { thread, floor: 4 },
        Record::Keep { thread, keep: Some(5) },
        Record::Keep { thread, keep: None },
        Record::Attach(attach.clone()),
        Record::Attach(Attach { id: put.id, is_awaiting: true, place: 9, is_packed: true, ..attach }),
        Record::Bind { thread, id: put.id, number: 4, place: 5 },
        Record::Detach { thread, id: Id::Text("id"), number: 4 },
    ];
    let encoded = |record: &Record<'_>| {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        bytes
    };
    records.iter().map(encoded).collect()
}

/// Behind the byte that asks for the checksums to be made to fit, so that changes get behind them.
fn frame(record: &[u8], payload: &[u8]) -> Vec<u8> {
    let head = Head {
        more: payload.is_empty(),
        record_len: record.len() as u32,
        payload_len: payload.len() as u32,
        seq: 7,
        synced_end: 4096,
        prev_check: 99,
        payload_check: payload_check(payload),
    };
    let mut bytes = vec![1];
    bytes.extend_from_slice(&head.encode(PLACE, record).0);
    bytes.extend_from_slice(record);
    bytes.resize(1 + head.payload_start(), 0);
    bytes.extend_from_slice(payload);
    bytes.resize(1 + head.frame_len() as usize, 0);
    bytes
}

fn segment(kind: Kind) -> Vec<u8> {
    let header = Header { store: [9; 16], number: 12, salt: 77, kind, first_frame: 72 };
    [&[1], &header.encode().0[..]].concat()
}

/// A hint of so many records, again and again the same seven.
fn hint(count: usize) -> Vec<u8> {
    let mut builder = Builder::default();
    for (at, record) in records().iter().cycle().take(count).enumerate() {
        if let Ok(record) = Record::decode(record) {
            builder.push(&record, Standing { offset: 72 + 128 * at as u64, length: 128, check: at as u32, seq: at as u64 });
        }
    }
    [vec![1], builder.encode([1; 16], 3, 9).unwrap_or_default()].concat()
}

fn manifest(segments: u64) -> Vec<u8> {
    let listed = |number| Listed { number, salt: number * 3, base: number << 20, end: 800, first_frame: 72, compacted: number == 1 };
    let manifest = Manifest {
        store: [1; 16],
        generation: 4,
        epoch: 1,
        seq_floor: 9,
        next_number: segments + 1,
        compactions: 0,
        compacted_at: 0,
        max_history: 50,
        segments: (1..=segments).map(listed).collect(),
        retired: vec![7],
    };
    [&[1], &manifest.encode()[..]].concat()
}

/// A counter and a longer text, step by step: few and small, or packed.
fn deltas() -> Vec<Vec<u8>> {
    let step = |number: usize, added: &str| format!("{{\"step\":{number},\"messages\":[{}]}}", added.repeat(8 + number)).into_bytes();
    let small: Vec<Vec<u8>> = (1..5).map(|number| step(number, "\"a message\",")).collect();
    let moved = [&small[3][40..], &small[0], &[b'x'; 100], &small[3][..40]].concat();
    vec![chained(&small), chained(&[small[0].clone(), moved, small[3].clone()])]
}

fn chained(states: &[Vec<u8>]) -> Vec<u8> {
    let counted = |bytes: &[u8]| [&(bytes.len() as u16).to_le_bytes(), bytes].concat();
    let mut input = counted(&states[0]);
    for pair in states.windows(2) {
        if let Ok(delta) = encode(&pair[0], &pair[1], Sums::of_keyframe(u32::MAX), &mut Scratch::default()) {
            input.push(u8::from(delta.is_packed));
            input.extend_from_slice(&(delta.unpacked_len as u16).to_le_bytes());
            input.extend_from_slice(&(pair[1].len() as u16).to_le_bytes());
            input.extend_from_slice(&counted(&delta.payload));
        }
    }
    input
}

/// Nothing, a byte in some files, and edits behind which the checksums fit.
fn edits() -> Vec<Vec<u8>> {
    let each: Vec<u8> = (0..5).flat_map(|file| [file, 0, 40, 0, 1, 1]).collect();
    let fitting = |file: u8, at: u8| vec![7, file, 4, at, 0, 2, 3, 3];
    vec![vec![0], [vec![3], each].concat(), fitting(0, 30), fitting(2, 60), fitting(4, 2), vec![7, 3, 2, 50, 0, 9], vec![3, 4, 3, 0, 1, 0]]
}

/// Runs that put, delete, batch, limit and reopen, and two that crash.
fn runs() -> Vec<Vec<u8>> {
    // A put: operation, thread, kind, size, id, parent, expected head, metadata.
    const PUT: [u8; 8] = [0, 0, 2, 40, 0, 7, 7, 1];
    let puts = |count: usize| PUT.repeat(count);
    let large: Vec<u8> = PUT.iter().enumerate().map(|(at, &byte)| if at == 3 { 230 } else { byte }).collect();
    vec![
        [puts(7), vec![13]].concat(),
        [puts(3), vec![10, 0, 1], puts(2), vec![9, 2, 13], puts(2), vec![12, 11]].concat(),
        [vec![8, 2], PUT[1..].repeat(4), vec![13], puts(1), vec![0, 0, 0, 13]].concat(),
        [large.repeat(4), vec![13], large.clone(), puts(2), vec![14]].concat(),
        [puts(2), vec![11], puts(3), vec![15, 8, 3], puts(1), vec![13, 15, 20, 0]].concat(),
        [large.repeat(3), puts(3), vec![15, 20, 1]].concat(),
    ]
}
