//! What is hidden, and what makes it go: promoting, packing, and a compaction after both.

use rustix::io::Errno;

use super::compaction::occurrences;
use super::failing::{Failing, Fault, Moment};
use super::faults::{self, contents};
use super::{Scratch, index_is_derived};
use crate::batch::PutOptions;
use crate::checkpoint::{CheckpointId, TypeTag};
use crate::checkpointer::Checkpointer;
use crate::log::Store;
use crate::options::{Compression, Options};

/// A text that grows by a line a step, and says in the middle which step it is.
fn state(thread: &str, step: u32) -> Vec<u8> {
    let line = |at: u32| {
        format!("{{\"thread\":\"{thread}\",\"line\":{at},\"text\":\"{:x}\"}}\n", u128::from(at) * 0x9e37_79b9_7f4a_7c15_1234_5677)
    };
    let lines: String = (0..20 + step).map(line).collect();
    format!("step {step} of {thread} MARK-{thread}-{step}-\n{lines}").into_bytes()
}

fn options() -> Options {
    Store::options().segment_bytes(64 * 1024).auto_compaction(false).max_history(None)
}

fn put(store: &Store, thread: &str, step: u32) {
    let options = PutOptions::default().id(CheckpointId::new(format!("s{step}")).unwrap());
    store.put_bytes(thread, TypeTag::BYTES, &state(thread, step), options).unwrap();
}

fn hidden(store: &Store) -> usize {
    store.shared.refresh().unwrap();
    store.shared.index.moment().views.iter().map(|view| view.hidden().len()).sum()
}

fn deltas(store: &Store) -> usize {
    store.shared.index.moment().views.iter().map(|view| view.entries().filter(|entry| entry.is_delta()).count()).sum()
}

#[test]
fn what_a_delta_needed_is_nowhere_once_it_is_promoted() {
    for mmap in [true, false] {
        let scratch = Scratch::new();
        let (store, other) = (options().mmap(mmap).open(scratch.dir()).unwrap(), options().mmap(mmap).open(scratch.dir()).unwrap());
        for step in 0..200 {
            ["cut", "trimmed", "replaced", "kept"].into_iter().for_each(|thread| put(&store, thread, step));
        }
        assert!(deltas(&store) > 600, "{} deltas", deltas(&store));
        let cut = [3, 4, 50, 90, 199];
        for step in cut {
            assert!(store.delete_checkpoint("cut", &CheckpointId::new(format!("s{step}")).unwrap()).unwrap());
        }
        store.retain(Some("trimmed"), Some(9)).unwrap();
        for step in [10, 70] {
            let options = PutOptions::default().id(CheckpointId::new(format!("s{step}")).unwrap());
            store.put_bytes("replaced", TypeTag::BYTES, &state("replacing", step), options).unwrap();
        }
        assert!(hidden(&store) > 4, "{} hidden", hidden(&store));
        assert_eq!(hidden(&store), hidden(&other));
        let before = contents(&store);
        let marks: Vec<String> =
            cut.iter().map(|step| format!("MARK-cut-{step}-")).chain(["MARK-replaced-10-".into(), "MARK-replaced-70-".into()]).collect();
        other.compact().unwrap();
        assert_eq!((hidden(&store), hidden(&other)), (0, 0));
        for mark in marks {
            assert_eq!(occurrences(&scratch.dir(), mark.as_bytes()), 0, "{mark}");
        }
        assert!(contents(&store) == before && contents(&other) == before);
        assert_eq!(store.compact().unwrap().segments, 0, "there is nothing left to do");
        index_is_derived(&store, &scratch.dir());
        index_is_derived(&other, &scratch.dir());
        drop((store, other));
        let store = options().mmap(mmap).open(scratch.dir()).unwrap();
        assert!(contents(&store) == before && store.verify().unwrap().is_empty());
    }
}

#[test]
fn keyframes_that_are_left_are_packed() {
    let scratch = Scratch::new();
    let never = options().compression(Compression::Never).open(scratch.dir()).unwrap();
    for step in 0..400 {
        put(&never, "long", step);
    }
    let before = (contents(&never), never.stats().unwrap().stored_bytes);
    assert_eq!(never.compact().unwrap().segments, 0, "this handle packs nothing");
    let store = options().open(scratch.dir()).unwrap();
    assert!(store.compact().unwrap().segments > 0);
    let after = store.stats().unwrap().stored_bytes;
    assert!(after < before.1 * 9 / 10, "{} and {after}", before.1);
    assert!(contents(&store) == before.0 && contents(&never) == before.0);
    assert_eq!(store.compact().unwrap().segments, 0, "there is nothing left to do");
    index_is_derived(&never, &scratch.dir());
    put(&never, "long", 400);
    assert_eq!(*store.get_bytes("long").unwrap().unwrap().state, state("long", 400));
}

/// Cut at any operation, by one that fails or by all that come after it: what is shown stays as it was, and
/// the next compaction finishes.
#[test]
fn a_compaction_that_promotes_and_packs_may_fail_anywhere() {
    let mut met = 0;
    for (once, moment) in [(true, Moment::Before), (false, Moment::Before), (false, Moment::After)] {
        for from in 0.. {
            let (scratch, layer) = (Scratch::new(), Failing::default());
            let store = faults::options(&layer).max_history(None).open(scratch.dir()).unwrap();
            (0..30).for_each(|step| put(&store, "cut", step));
            assert!(deltas(&store) < 29, "a keyframe is left");
            (0..8).for_each(|step| put(&store, "trimmed", step));
            assert!(store.delete_checkpoint("cut", &CheckpointId::new("s3").unwrap()).unwrap());
            store.retain(Some("trimmed"), Some(3)).unwrap();
            assert!(hidden(&store) > 1);
            let before = contents(&store);
            let fault = Fault { moment, ..Fault::fail(from, None, once, Errno::IO, 40) };
            layer.set(Some(fault));
            let answer = store.compact();
            let failed = layer.failed();
            layer.set(None);
            let context = format!("{fault:?}: {:?}, {answer:?}", failed.first());
            drop(store);
            let store = options().open(scratch.dir()).unwrap_or_else(|error| panic!("{context}: {error:?}"));
            assert!(contents(&store) == before, "{context}");
            store.compact().unwrap_or_else(|error| panic!("{context}: {error:?}"));
            assert!(contents(&store) == before && hidden(&store) == 0, "{context}");
            assert!(store.verify().unwrap().iter().all(|finding| finding.file.ends_with("quarantine")), "{context}");
            if failed.is_empty() {
                break;
            }
            met += 1;
        }
    }
    assert!(met > 60, "only {met} faults were met");
}
