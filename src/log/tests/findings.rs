//! What a finding names: the file, the place in it, the checkpoint, and whether anything is lost.

use std::fs;
use std::path::{Path, PathBuf};

use super::failing::Failing;
use super::faults::options;
use super::{Scratch, image, views};
use crate::batch::{Durability, PutOptions};
use crate::checkpoint::{CheckpointId, TypeTag};
use crate::checkpointer::Checkpointer;
use crate::log::Store;
use crate::log::view::Entry;
use crate::report::Finding;
use crate::testing::states::noise;

const FIRST: &str = "0000000000000001.seg";

fn id(name: &str) -> CheckpointId {
    CheckpointId::new(name).unwrap()
}

/// What a step has of its own, in the middle of its state.
fn own(step: usize) -> Vec<u8> {
    noise(50 + step as u64, 100)
}

/// What a step has more than the one before, at the end.
fn more(step: usize) -> Vec<u8> {
    noise(90 + step as u64, 60)
}

fn state(step: usize) -> Vec<u8> {
    let mut state = noise(1, 4000);
    state[1000..1100].copy_from_slice(&own(step));
    (1..=step).for_each(|step| state.extend(more(step)));
    state
}

fn put(store: &Store, thread: &str, name: &str, state: &[u8], durability: Durability) {
    store.put_bytes(thread, TypeTag::BYTES, state, PutOptions::default().id(id(name)).durability(durability)).unwrap();
}

/// A closed store of a keyframe `s0` and the deltas `s1` and `s2` on it, and another thread; and the chain's
/// entries.
fn chain(scratch: &Scratch) -> Vec<Entry> {
    let store = options(&Failing::default()).open(scratch.dir()).unwrap();
    (0..3).for_each(|step| put(&store, "t", &format!("s{step}"), &state(step), Durability::Sync));
    put(&store, "u", "other", b"other", Durability::Sync);
    let entries: Vec<Entry> = views(&store)["t"].entries().cloned().collect();
    assert_eq!(entries.iter().map(Entry::is_delta).collect::<Vec<_>>(), [false, true, true]);
    store.close().unwrap();
    entries
}

/// Changes a byte where some bytes stand that stand there once.
fn damage(dir: &Path, needle: &[u8]) {
    let path = dir.join(FIRST);
    let mut bytes = fs::read(&path).unwrap();
    let found: Vec<usize> = bytes.windows(needle.len()).enumerate().filter(|(_, window)| *window == needle).map(|(at, _)| at).collect();
    let [at] = found[..] else { panic!("{found:?}") };
    bytes[at + needle.len() / 2] ^= 1;
    fs::write(&path, bytes).unwrap();
}

/// A checkpoint that a finding names: its id and offset, whether it is lost, and whether by what it needs.
type Named = (String, u64, bool, bool);

/// The checkpoints of the chain that findings name.
fn named(findings: &[Finding]) -> Vec<Named> {
    let name = |found: &Finding| {
        assert_eq!((found.thread.as_deref(), found.file.file_name().unwrap()), (Some("t"), FIRST.as_ref()), "{found:?}");
        let needs = found.what.contains("cannot be rebuilt");
        (found.id.as_ref().unwrap().to_string(), found.offset.unwrap(), found.damage, needs)
    };
    findings.iter().map(name).collect()
}

/// What verify and repair find once these bytes of the chain are changed; and what a repaired copy holds of it.
fn found(needle: &[u8]) -> (Vec<u64>, Vec<Named>, Vec<String>) {
    let scratch = Scratch::new();
    let offsets = chain(&scratch).iter().map(|entry| entry.at.offset()).collect();
    damage(&scratch.dir(), needle);
    let verified = named(&Store::options().read_only(true).open(scratch.dir()).unwrap().verify().unwrap());
    let dest = scratch.0.path().join("repaired");
    let report = Store::repair(scratch.dir(), &dest).unwrap();
    assert_eq!(named(&report.damage), verified, "repair and verify");
    let copy = Store::open(&dest).unwrap();
    let kept = copy.list("t", &Default::default()).unwrap().map(|info| info.unwrap().id.to_string()).collect();
    (offsets, verified, kept)
}

#[test]
fn what_no_delta_needs_of_a_damaged_base_costs_the_base_alone() {
    let (offsets, found, kept) = found(&own(0));
    assert_eq!(found, [("s0".to_owned(), offsets[0], true, false)]);
    assert_eq!(kept, ["s2", "s1"]);
}

#[test]
fn a_damaged_base_is_named_for_itself_and_for_each_delta_on_it() {
    let (offsets, all, kept) = found(&noise(1, 900)[800..]);
    let expected = [("s0", false), ("s1", true), ("s2", true)].map(|(id, needs)| (id.to_owned(), offsets[0], true, needs));
    assert_eq!(all, expected);
    assert!(kept.is_empty());
    let (offsets, all, kept) = found(&more(1));
    let expected = [("s1", false), ("s2", true)].map(|(id, needs)| (id.to_owned(), offsets[1], true, needs));
    assert_eq!(all, expected);
    assert_eq!(kept, ["s0"]);
}

/// The files as a power cut leaves them where nothing was synced, but all of it reached the disk.
fn unsynced(scratch: &Scratch, fill: impl Fn(&Store)) -> PathBuf {
    let (live, dir) = (scratch.0.path().join("live"), scratch.dir());
    let store = options(&Failing::default()).open(&live).unwrap();
    fill(&store);
    image(&live, &dir);
    fs::remove_file(dir.join("tail")).unwrap();
    dir
}

/// What stands behind a gap of an end that nothing proves may add something; it is named, and nothing is lost with it.
#[test]
fn what_nothing_proves_is_named_and_is_no_loss() {
    let (scratch, lone) = (Scratch::new(), noise(7, 500));
    let dir = unsynced(&scratch, |store| {
        put(store, "t", "a", b"first", Durability::Buffered);
        put(store, "lost", "lost", &lone, Durability::Buffered);
        put(store, "t", "b", b"second", Durability::Buffered);
    });
    damage(&dir, &lone[..100]);
    let entries: Vec<Entry> =
        views(&options(&Failing::default()).open(scratch.0.path().join("live")).unwrap())["t"].entries().cloned().collect();
    let report = Store::repair(&dir, scratch.0.path().join("repaired")).unwrap();
    assert_eq!(named(&report.unproven), [("b".to_owned(), entries[1].at.offset(), false, false)]);
    assert!(report.damage.is_empty(), "{report:?}");
}

/// A delta that nothing proves, on a base that is damaged.
#[test]
fn what_nothing_proves_and_cannot_be_rebuilt_was_never_known_to_be_there() {
    let scratch = Scratch::new();
    let dir = unsynced(&scratch, |store| {
        put(store, "u", "other", b"other", Durability::Buffered);
        (0..2).for_each(|step| put(store, "t", &format!("s{step}"), &state(step), Durability::Buffered));
    });
    let entries: Vec<Entry> =
        views(&options(&Failing::default()).open(scratch.0.path().join("live")).unwrap())["t"].entries().cloned().collect();
    damage(&dir, &noise(1, 900)[800..]);
    let report = Store::repair(&dir, scratch.0.path().join("repaired")).unwrap();
    assert_eq!(named(&report.damage), [("s1".to_owned(), entries[1].at.offset(), false, true)]);
}

/// A checkpoint that was deleted and put again under its id, whose delete cannot be read any more.
#[test]
fn an_older_checkpoint_under_a_newer_one_s_id_is_named_and_left_out() {
    let scratch = Scratch::new();
    let store = options(&Failing::default()).open(scratch.dir()).unwrap();
    put(&store, "t", "a", b"older", Durability::Sync);
    put(&store, "t", "b", b"between", Durability::Sync);
    let entries: Vec<Entry> = views(&store)["t"].entries().cloned().collect();
    assert!(store.delete_checkpoint("t", &id("a")).unwrap());
    put(&store, "t", "a", b"newer", Durability::Sync);
    store.close().unwrap();
    let path = scratch.dir().join(FIRST);
    let mut bytes = fs::read(&path).unwrap();
    bytes[(entries[1].at.offset() + entries[1].at.length()) as usize + 8] ^= 1;
    fs::write(&path, bytes).unwrap();
    let dest = scratch.0.path().join("repaired");
    let report = Store::repair(scratch.dir(), &dest).unwrap();
    let doubled: Vec<Finding> = report.damage.into_iter().filter(|finding| !finding.damage).collect();
    assert_eq!(named(&doubled), [("a".to_owned(), entries[0].at.offset(), false, false)]);
    let copy = Store::open(&dest).unwrap();
    assert_eq!(*copy.load_bytes("t", &id("a")).unwrap().unwrap().state, *b"newer");
    assert_eq!(copy.list("t", &Default::default()).unwrap().count(), 2);
}
