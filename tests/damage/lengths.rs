//! Lengths that lie, and whole records exchanged (field case F2).

use std::fs;
use std::path::Path;

use taffrail::{Checkpointer, PutOptions, Store, TypeTag};

use crate::allocations;
use crate::scratch::{Expected, Scratch, frames, history, remove_hints, segments, state, twenty_puts};

/// Opens a copy whose newest segment was changed, for reading and for writing, and judges both.
fn judged(scratch: &Scratch, whole: &Path, expected: &Expected, context: &str, change: impl Fn(&mut Vec<u8>)) -> usize {
    let copy = scratch.copy(whole, "changed");
    let segment = segments(&copy).pop().unwrap();
    let mut bytes = fs::read(&segment).unwrap();
    change(&mut bytes);
    fs::write(&segment, bytes).unwrap();
    let mut damaged = 0;
    for read_only in [true, false] {
        let store = Store::options().read_only(read_only).open(&copy).unwrap_or_else(|error| panic!("{context}: {error}"));
        expected.is_told_truly_by(&store, context);
        damaged = store.recovery().damage.len();
        assert!(store.recovery().damage.iter().all(|found| found.file == segment && found.offset.is_some()), "{context}");
    }
    allocations::stayed_small();
    damaged
}

#[test]
fn a_length_that_lies_costs_its_record_alone() {
    let scratch = Scratch::new();
    let whole = scratch.path("whole");
    let expected = twenty_puts(&whole);
    let bytes = fs::read(segments(&whole).pop().unwrap()).unwrap();
    let all = frames(&bytes);
    for at in [0, 7, 19] {
        for field in [8, 12] {
            for length in [0, 1, 1 << 16, 1 << 31, u32::MAX, u32::MAX - 47, u32::MAX - 48, bytes.len() as u32] {
                let context = format!("length {length:#x} in field {field} of frame {at}");
                let damaged = judged(&scratch, &whole, &expected, &context, |bytes| {
                    let place = all[at].start + field;
                    bytes[place..place + 4].copy_from_slice(&length.to_le_bytes());
                });
                assert_eq!(damaged, 1, "{context}");
            }
        }
    }
}

#[test]
fn a_record_overwritten_costs_itself_alone() {
    let scratch = Scratch::new();
    let whole = scratch.path("whole");
    let expected = twenty_puts(&whole);
    let original = fs::read(segments(&whole).pop().unwrap()).unwrap();
    let all = frames(&original);
    for at in 0..all.len() {
        let frame = all[at].clone();
        let zeroed = judged(&scratch, &whole, &expected, &format!("frame {at} zeroed"), |bytes| bytes[frame.clone()].fill(0));
        let ones = judged(&scratch, &whole, &expected, &format!("frame {at} 0xff"), |bytes| bytes[frame.clone()].fill(0xff));
        let noise = judged(&scratch, &whole, &expected, &format!("frame {at} noise"), |bytes| {
            bytes[frame.clone()].copy_from_slice(&state("noise", at as u64, frame.len()));
        });
        // Another record's bytes, as a misdirected write leaves them.
        let other = all[(at + 3) % all.len()].clone();
        let length = frame.len().min(other.len());
        let misdirected = judged(&scratch, &whole, &expected, &format!("frame {at} misdirected"), |bytes| {
            let copied = original[other.start..other.start + length].to_vec();
            bytes[frame.start..frame.start + length].copy_from_slice(&copied);
        });
        assert_eq!((zeroed, ones, noise, misdirected), (1, 1, 1, 1), "frame {at}");
    }
}

#[test]
fn two_records_of_one_length_exchanged_are_both_refused() {
    let scratch = Scratch::new();
    let whole = scratch.path("whole");
    let store = Store::open(&whole).unwrap();
    let mut expected = Expected::default();
    for number in 0..6 {
        expected.put(&store, "t", state("t", number, 64));
    }
    store.close().unwrap();
    let bytes = fs::read(segments(&whole).pop().unwrap()).unwrap();
    let all = frames(&bytes);
    for (one, other) in [(1, 2), (1, 4), (4, 5)] {
        assert_eq!(all[one].len(), all[other].len());
        judged(&scratch, &whole, &expected, &format!("frames {one} and {other} exchanged"), |changed| {
            changed[all[one].clone()].copy_from_slice(&bytes[all[other].clone()]);
            changed[all[other].clone()].copy_from_slice(&bytes[all[one].clone()]);
        });
    }
}

#[test]
fn a_segment_kept_as_a_state_is_never_taken_for_one() {
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    let mut expected = twenty_puts(&dir);
    // As they are, and not as differences from each other.
    let store = Store::options().delta(false).open(&dir).unwrap();
    let bytes = fs::read(segments(&dir).pop().unwrap()).unwrap();
    let segment = bytes[..frames(&bytes).last().unwrap().end].to_vec();
    expected.put(&store, "own", segment.clone());
    expected.put(&store, "own", [&[0; 3][..], &segment].concat());
    store.delete("a").unwrap();
    expected.0.remove("a");
    expected.put(&store, "own", segment);
    store.close().unwrap();
    expected.is_all_of(&Store::open(&dir).unwrap(), "reopened");
    // With the head of the record that holds them damaged, the scan runs through the kept frames.
    let path = segments(&dir).pop().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let holder = frames(&bytes)[20].clone();
    bytes[holder.start + 9] ^= 1;
    fs::write(&path, bytes).unwrap();
    for _ in 0..2 {
        let store = Store::open(&dir).unwrap();
        assert_eq!(store.get_bytes("a").unwrap().map(|found| found.info.seq), None, "a deleted thread came back");
        assert_eq!(history(&store, "own").unwrap(), expected.0["own"][1..], "only the damaged record is gone");
        assert_eq!(history(&store, "b").unwrap(), expected.0["b"]);
        assert_eq!(store.recovery().damage.len(), 1);
        store.put_bytes("more", TypeTag::BYTES, b"x", PutOptions::default()).unwrap();
    }
}

#[test]
fn a_damaged_record_is_passed_over_by_its_length_whatever_the_state_holds() {
    let scratch = Scratch::new();
    let whole = scratch.path("whole");
    // A state that looks like nothing but frame heads with long records.
    let mut head = [0u8; 48];
    head[..4].copy_from_slice(b"TfRm");
    head[8..12].copy_from_slice(&70_000u32.to_le_bytes());
    let hostile = head.repeat(40_000);
    let store = Store::options().segment_bytes(64 << 20).open(&whole).unwrap();
    for (thread, state) in [("before", b"x".to_vec()), ("hostile", hostile.clone()), ("behind", b"y".to_vec())] {
        store.put_bytes(thread, TypeTag::BYTES, &state, PutOptions::default()).unwrap();
    }
    store.close().unwrap();
    remove_hints(&whole);
    let bytes = fs::read(segments(&whole).pop().unwrap()).unwrap();
    let frame = frames(&bytes)[1].clone();
    // One byte of its record, and one of its head: the scan has to look through the state for that.
    for at in [frame.start + 50, frame.start + 20] {
        let copy = scratch.copy(&whole, "changed");
        let segment = segments(&copy).pop().unwrap();
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        fs::write(&segment, changed).unwrap();
        let store = Store::open(&copy).unwrap();
        let damage = &store.recovery().damage;
        assert_eq!((damage.len(), damage[0].offset), (1, Some(frame.start as u64)), "{damage:?}");
        assert!(damage[0].what.contains(&format!("{} bytes", frame.len())), "{damage:?}");
        assert_eq!(history(&store, "before").unwrap(), [b"x"]);
        assert_eq!(history(&store, "behind").unwrap(), [b"y"]);
    }
    allocations::stayed_small();
}
