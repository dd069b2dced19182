//! One bit flipped where it matters by which way the store is opened: without hints, beside a page that
//! proves the end or none, by a writer that goes on. Every bit of every file is `matrix`.

use std::fs;
use std::path::{Path, PathBuf};

use taffrail::{Checkpointer, Durability, ErrorKind, PutOptions, Store, TypeTag};

use crate::allocations;
use crate::scratch::{Expected, Scratch, frames, hints, remove_hints, segments, state};

/// A small store of two segments: the older sealed by a batch in a segment of its own.
fn small_store(dir: &Path, durability: Durability) -> Expected {
    let store = Store::options().segment_bytes(64 * 1024).durability(durability).open(dir).unwrap();
    let mut expected = Expected::default();
    for number in 0..5 {
        expected.put(&store, ["a", "b"][number as usize % 2], state(["a", "b"][number as usize % 2], number, 40));
    }
    expected.put(&store, "large", state("large", 0, 17 * 1024));
    for number in 5..9 {
        expected.put(&store, ["a", "b"][number as usize % 2], state(["a", "b"][number as usize % 2], number, 40));
    }
    store.close().unwrap();
    expected
}

fn flip(dir: &Path, file: &Path, bytes: &[u8], bit: usize) -> PathBuf {
    let path = dir.join(file.file_name().unwrap());
    let mut changed = bytes.to_vec();
    changed[bit / 8] ^= 1 << (bit % 8);
    fs::write(&path, changed).unwrap();
    path
}

#[test]
fn without_hints_an_opening_tells_of_the_damage_by_itself() {
    let scratch = Scratch::new();
    let whole = scratch.path("whole");
    let expected = small_store(&whole, Durability::Sync);
    assert!(!hints(&whole).is_empty());
    remove_hints(&whole);
    let copy = scratch.copy(&whole, "flipped");
    for segment in segments(&whole) {
        let bytes = fs::read(&segment).unwrap();
        for at in frames(&bytes).iter().flat_map(|frame| (frame.start..frame.start + 160).step_by(7)) {
            let path = flip(&copy, &segment, &bytes, at * 8 + at % 8);
            let context = format!("{} byte {at}", path.file_name().unwrap().display());
            let store = Store::options().read_only(true).mmap(false).open(&copy).unwrap_or_else(|error| panic!("{context}: {error}"));
            expected.is_told_truly_by(&store, &context);
            // Payloads are looked at when they are read.
            let told = store.recovery().damage.iter().any(|finding| finding.file == path);
            assert!(told || store.verify().unwrap()[0].what.contains("payload"), "{context}: {:?}", store.recovery());
        }
        fs::write(copy.join(segment.file_name().unwrap()), &bytes).unwrap();
    }
}

#[test]
fn a_writer_goes_on_beside_a_flipped_bit() {
    let scratch = Scratch::new();
    let whole = scratch.path("whole");
    let expected = small_store(&whole, Durability::Sync);
    for segment in segments(&whole) {
        let bytes = fs::read(&segment).unwrap();
        let end = frames(&bytes).last().unwrap().end;
        for at in (0..end.min(2000)).step_by(5) {
            let copy = scratch.copy(&whole, "flipped");
            let path = flip(&copy, &segment, &bytes, at * 8 + at % 8);
            let context = format!("{} byte {at}", path.file_name().unwrap().display());
            let store = Store::open(&copy).unwrap_or_else(|error| panic!("{context}: {error}"));
            expected.is_told_truly_by(&store, &context);
            let known = store.recovery().damage.len();
            store.put_bytes("after", TypeTag::BYTES, b"after", PutOptions::default()).unwrap();
            drop(store);
            let again = Store::open(&copy).unwrap();
            assert_eq!(&*again.get_bytes("after").unwrap().unwrap().state, b"after", "{context}");
            assert!(again.recovery().damage.len() >= known, "{context}: damage was papered over");
        }
    }
}

#[test]
fn a_flipped_bit_in_the_manifest_is_refused_by_name() {
    let scratch = Scratch::new();
    let whole = scratch.path("whole");
    let expected = small_store(&whole, Durability::Sync);
    let manifest = whole.join("MANIFEST");
    let bytes = fs::read(&manifest).unwrap();
    for bit in 0..bytes.len() * 8 {
        flip(&whole, &manifest, &bytes, bit);
        for read_only in [true, false] {
            let error = Store::options().read_only(read_only).open(&whole).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported), "bit {bit}: {error:?}");
            assert_eq!(error.file().map(|(path, _)| path), Some(&*manifest), "bit {bit}");
        }
    }
    fs::write(&manifest, &bytes).unwrap();
    expected.is_all_of(&Store::open(&whole).unwrap(), "after all flips");
    allocations::stayed_small();
}

#[test]
fn a_flipped_bit_in_the_page_loses_nothing() {
    for durability in [Durability::Sync, Durability::Buffered] {
        let scratch = Scratch::new();
        let whole = scratch.path("whole");
        let expected = small_store(&whole, durability);
        let tail = whole.join("tail");
        let bits = fs::read(&tail).unwrap().len() * 8;
        // Every bit of the words that are used, where no frame proves the ends; else some of them.
        let used = |bit: &usize| [0, 1, 2, 3, 8, 16, 24, 32, 33, 34, 35, 36].contains(&(bit / 64));
        let step = if durability == Durability::Buffered { 1 } else { 11 };
        for bit in (0..bits).filter(used).step_by(step).chain((0..bits).step_by(997)) {
            let copy = scratch.copy(&whole, "flipped");
            flip(&copy, &tail, &fs::read(copy.join("tail")).unwrap(), bit);
            let context = format!("{durability:?}, word {} bit {}", bit / 64, bit % 64);
            let mut expected = expected.clone();
            for opening in ["first", "second"] {
                let store = Store::open(&copy).unwrap_or_else(|error| panic!("{context}: {error}"));
                assert!(store.recovery().damage.is_empty(), "{context}, {opening} opening: {:?}", store.recovery());
                expected.is_all_of(&store, &format!("{context}, {opening} opening"));
                expected.put(&store, "a", state("a", 99, 40));
            }
        }
    }
}

#[test]
fn several_flipped_bits_in_the_page_lose_nothing() {
    let scratch = Scratch::new();
    let whole = scratch.path("whole");
    let expected = small_store(&whole, Durability::Buffered);
    for fill in [0u8, 0xff, 0x80, 0x5a] {
        for kept in [0, 64, 88, 4096] {
            // The words that make the page ours are kept, the ends are not.
            let copy = scratch.copy(&whole, "filled");
            let mut bytes = fs::read(copy.join("tail")).unwrap();
            bytes[kept.min(4095)..].fill(fill);
            fs::write(copy.join("tail"), &bytes).unwrap();
            for opening in ["first", "second", "third"] {
                let context = format!("{fill:#x} from {kept}, {opening} opening");
                let store = Store::open(&copy).unwrap_or_else(|error| panic!("{context}: {error}"));
                assert!(store.recovery().damage.is_empty(), "{context}: {:?}", store.recovery());
                expected.is_all_of(&store, &context);
            }
        }
    }
}
