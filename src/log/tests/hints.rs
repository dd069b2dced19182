//! What an opening finds with hints is what it finds without, whatever the hints are.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use proptest::prelude::*;
use rustix::io::Errno;

use super::failing::{Failing, Fault, Kind};
use super::{Scratch, index_is_derived, views};
use crate::batch::{Batch, Durability, PutOptions};
use crate::checkpoint::{CheckpointId, TypeTag};
use crate::checkpointer::Checkpointer;
use crate::format::hint;
use crate::format::names;
use crate::fs::os::Os;
use crate::log::Store;
use crate::log::directory::Directory;
use crate::log::examine::{Examination, Examined};
use crate::log::hints;
use crate::log::replay::Replay;
use crate::log::scan::{Found, Scan};
use crate::log::tail::Marks;
use crate::log::view::View;
use crate::options::Options;
use crate::testing::states::noise;

type Threads = HashMap<Arc<str>, Arc<View>>;

fn directory(path: &Path) -> Directory {
    Directory { fs: Arc::new(Os), path: path.to_owned(), dir_mode: 0o700, file_mode: 0o600, found: Arc::default() }
}

/// What reading a store's files finds, by hints or by all that stands in the segments.
fn examined(dir: &Path, hinted: bool, upto: Option<u64>) -> (Examined, Threads) {
    let directory = directory(dir);
    let manifest = directory.manifest().unwrap();
    let page_synced = Marks::read(&directory, &manifest).map_or(0, |marks| marks.synced);
    let examination = Examination { directory: &directory, manifest: &manifest, page_synced, payloads: false, upto };
    let mut replay = Replay::default();
    let examined = if hinted {
        examination.run_with_hints(&mut replay).unwrap()
    } else {
        examination.run(&mut |record, at| replay.take(record, at)).unwrap()
    };
    (examined, replay.into_threads())
}

#[track_caller]
fn are_the_same(dir: &Path, upto: Option<u64>) {
    let ((mut with, with_threads), (mut without, without_threads)) = (examined(dir, true, upto), examined(dir, false, upto));
    // Only with hints is there one to disbelieve.
    with.disbelieved.clear();
    (with.unhinted, without.unhinted) = (false, false);
    assert_eq!(format!("{with:?}"), format!("{without:?}"), "up to {upto:?}");
    assert_eq!(with_threads, without_threads);
}

/// As files and as processes at work show it, up to each of some positions.
#[track_caller]
fn hints_change_nothing(dir: &Path) {
    are_the_same(dir, None);
    for upto in ends(dir) {
        are_the_same(dir, Some(upto));
    }
}

/// The positions at which frames of the active segment end, below its synced end.
fn ends(dir: &Path) -> Vec<u64> {
    let directory = directory(dir);
    let manifest = directory.manifest().unwrap();
    let active = manifest.segments.last().unwrap();
    let synced = Marks::read(&directory, &manifest).map_or(0, |marks| marks.synced);
    let (file, limit) = (directory.open_log(active.number, false).unwrap(), synced.saturating_sub(active.base));
    let path = directory.file(&names::segment(active.number));
    let mut scan = Scan::new(file, &path, active.salt, active.base, u64::from(active.first_frame), limit).unwrap();
    let mut ends = Vec::new();
    while let Some(found) = scan.next().unwrap() {
        if let Found::Frame(frame) = found {
            ends.push(active.base + frame.end());
        }
    }
    ends
}

/// Writes the hints of all segments, of the active one up to the position; answers how many it wrote.
fn write_hints(dir: &Path, upto: Option<u64>) -> usize {
    let directory = directory(dir);
    let manifest = directory.manifest().unwrap();
    let ends = manifest.segments.iter().map(|listed| if listed.end != 0 { Some(listed.end) } else { upto.map(|upto| upto - listed.base) });
    let write = |(listed, end): (_, Option<u64>)| end.is_some_and(|end| hints::write(&directory, &manifest, listed, end).unwrap());
    manifest.segments.iter().zip(ends).filter(|&pair| write(pair)).count()
}

fn files(dir: &Path, kind: &str) -> Vec<PathBuf> {
    let all = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = all.filter(|path| path.to_string_lossy().ends_with(kind)).collect();
    files.sort();
    files
}

fn small() -> Options {
    Store::options().auto_compaction(false).segment_bytes(64 * 1024).durability(Durability::Buffered)
}

fn id(number: u64) -> CheckpointId {
    let text = if number.is_multiple_of(2) { format!("0190a6c1-1b2c-7d3e-8f40-{number:012x}") } else { format!("id \u{e9} {number}") };
    CheckpointId::new(text).unwrap()
}

/// Does what a few numbers say.
fn step(store: &Store, (what, thread, number): (u8, u8, u64)) {
    let thread = ["a", "b\u{e9}", "c", "long"][usize::from(thread) % 4];
    let put = |thread: &str, id: CheckpointId, length: usize| {
        // Some are like the one before.
        let state = noise(number / 8 % 3, length);
        store.put_bytes(thread, TypeTag::BYTES, &state, PutOptions::default().id(id)).map(drop)
    };
    // What is refused is no part of this test.
    let _ = match what {
        0 => store.delete(thread).map(drop),
        1 => store.delete_checkpoint(thread, &id(number % 9)).map(drop),
        2 => store.retain(Some(thread), Some(number as usize % 5 + 1)),
        3 => store.retain(None, (number % 3 != 0).then_some(number as usize % 7 + 1)),
        4 => {
            let mut batch = Batch::new();
            batch.put("a", TypeTag::BYTES, b"1", PutOptions::default()).put(thread, TypeTag::BYTES, b"2", PutOptions::default());
            batch.delete("c", None);
            store.commit(&batch).map(drop)
        }
        5 => store.sync(),
        6 => put(thread, CheckpointId::fresh(), 12_000),
        7 => put(thread, id(number % 9), 300),
        8 => (0..80).try_for_each(|_| put("long", CheckpointId::fresh(), 10)),
        _ => put(thread, CheckpointId::fresh(), number as usize % 3000),
    };
}

/// A store of several segments, closed; and how many of them are sealed.
fn filled(dir: &Path) -> usize {
    let store = small().max_history(None).open(dir).unwrap();
    for number in 0..60 {
        step(&store, (if number % 10 < 9 { 6 + number as u8 % 4 } else { number as u8 % 5 }, number as u8, number));
    }
    store.close().unwrap();
    files(dir, ".seg").len() - 1
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    #[test]
    fn any_store_is_the_same_with_hints(
        steps in prop::collection::vec((0..14u8, 0..8u8, 0..1000u64), 1..80),
        history in prop_oneof![Just(None), (1..9usize).prop_map(Some)],
        cut: prop::sample::Index,
    ) {
        let scratch = Scratch::new();
        let store = small().max_history(history).open(scratch.dir()).unwrap();
        let half = steps.len() / 2;
        steps[..half].iter().for_each(|&what| step(&store, what));
        store.sync().unwrap();
        // Hints of any age: of then sealed segments, and of a beginning of what is appended to.
        let synced = ends(&scratch.dir());
        write_hints(&scratch.dir(), (!synced.is_empty()).then(|| synced[cut.index(synced.len())]));
        hints_change_nothing(&scratch.dir());
        steps[half..].iter().for_each(|&what| step(&store, what));
        are_the_same(&scratch.dir(), None);
        // The live index is the one that an opening reads with them.
        index_is_derived(&store, &scratch.dir());
        drop(store);
        hints_change_nothing(&scratch.dir());
        write_hints(&scratch.dir(), ends(&scratch.dir()).last().copied());
        hints_change_nothing(&scratch.dir());
        index_is_derived(&small().open(scratch.dir()).unwrap(), &scratch.dir());
    }
}

#[test]
fn closing_leaves_hints_and_they_are_all_that_is_read() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let store = Store::options()
        .auto_compaction(false)
        .max_history(None)
        .segment_bytes(1 << 20)
        .durability(Durability::Buffered)
        .open(scratch.dir())
        .unwrap();
    for number in 0..2600u64 {
        store.put_bytes(["a", "b"][number as usize % 2], TypeTag::BYTES, &noise(number, 1024), PutOptions::default()).unwrap();
    }
    let before = views(&store);
    store.close().unwrap();
    let (segments, left) = (files(&scratch.dir(), ".seg"), files(&scratch.dir(), ".hint"));
    // The newest holds less than is worth one.
    assert_eq!((segments.len(), left.len()), (4, 3));
    let names = || files(&scratch.dir(), "");
    let lying = names();
    for read_only in [true, false] {
        let mut options = Store::options().read_only(read_only);
        options.fs = Arc::new(layer.clone());
        let read = layer.bytes_read.load(SeqCst);
        let store = options.open(scratch.dir()).unwrap();
        let read = layer.bytes_read.load(SeqCst) - read;
        assert!(read < (1 << 20) + 300_000, "{read} bytes were read of about 3 MB");
        assert_eq!(views(&store), before);
        assert_eq!(store.recovery().frames, 2600);
        if read_only {
            drop(store);
            assert_eq!(names(), lying, "a reader left something");
        }
    }
}

#[test]
fn the_active_segment_gets_a_hint_once_it_is_worth_one() {
    let scratch = Scratch::new();
    let put = |count: usize| {
        let store = Store::options().auto_compaction(false).max_history(None).durability(Durability::Buffered).open(scratch.dir()).unwrap();
        (0..count).for_each(|at| drop(store.put_bytes("t", TypeTag::BYTES, &noise(at as u64, 10_000), PutOptions::default()).unwrap()));
        index_is_derived(&store, &scratch.dir());
    };
    let hint = || files(&scratch.dir(), ".hint").first().map(|path| fs::read(path).unwrap());
    put(50);
    assert_eq!(hint(), None);
    put(60);
    let first = hint().unwrap();
    put(50);
    assert_eq!(hint().as_ref(), Some(&first), "half a megabyte more is not worth another one");
    put(60);
    assert!(hint().unwrap().len() > first.len());
    hints_change_nothing(&scratch.dir());
}

#[test]
fn a_hint_that_is_not_whole_or_not_of_the_segment_is_as_none() {
    let scratch = Scratch::new();
    let sealed = filled(&scratch.dir());
    assert!(sealed >= 2 && files(&scratch.dir(), ".hint").len() == sealed, "closing leaves the hints of what was sealed");
    write_hints(&scratch.dir(), ends(&scratch.dir()).last().copied());
    let hints: Vec<(PathBuf, Vec<u8>)> =
        files(&scratch.dir(), ".hint").into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect();
    let (directory, manifest) = (directory(&scratch.dir()), directory(&scratch.dir()).manifest().unwrap());
    for (at, ((path, bytes), listed)) in hints.iter().zip(&manifest.segments).enumerate() {
        let segment = directory.open_log(listed.number, false).unwrap();
        let is_believed = || hints::read(&directory, &manifest.store, listed, &*segment, u64::MAX).is_some();
        assert!(is_believed());
        let is_as_none = |content: &[u8], context: &str| {
            fs::write(path, content).unwrap();
            assert!(!is_believed(), "{context}");
        };
        for cut in 0..bytes.len() {
            is_as_none(&bytes[..cut], &format!("cut to {cut}"));
        }
        for bit in (0..bytes.len() * 8).step_by(if at == 0 { 1 } else { 7 }) {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            is_as_none(&flipped, &format!("bit {bit}"));
        }
        // Of another store, number or salt, with another end or last frame: all of these are whole.
        for field in [20, 32, 40, 48, 56, 97] {
            let mut other = bytes.clone();
            other[field] ^= 8;
            hint::repair(&mut other);
            is_as_none(&other, &format!("another at {field}"));
            are_the_same(&scratch.dir(), None);
        }
        for content in [&[], &hints[(at + 1) % hints.len()].1[..], &bytes[..bytes.len() / 2], &[bytes, &[0][..]].concat()] {
            is_as_none(content, "no hint at all");
            assert_eq!(examined(&scratch.dir(), true, None).0.disbelieved, [listed.number]);
            are_the_same(&scratch.dir(), None);
        }
        fs::write(path, bytes).unwrap();
    }
    // A directory stands where a hint would.
    fs::remove_file(&hints[0].0).unwrap();
    fs::create_dir(&hints[0].0).unwrap();
    are_the_same(&scratch.dir(), None);
}

#[test]
fn a_hint_of_another_stores_segment_is_as_none() {
    let (scratch, other) = (Scratch::new(), Scratch::new());
    filled(&scratch.dir());
    filled(&other.dir());
    for (from, to) in files(&other.dir(), ".hint").iter().zip(files(&scratch.dir(), ".hint")) {
        fs::copy(from, to).unwrap();
    }
    assert!(!examined(&scratch.dir(), true, None).0.disbelieved.is_empty());
    hints_change_nothing(&scratch.dir());
    let store = small().open(scratch.dir()).unwrap();
    assert!(store.recovery().set_aside.is_empty() && files(&scratch.dir(), ".hint").is_empty(), "what is disbelieved goes");
}

#[test]
fn a_segment_cut_short_replaced_or_damaged_is_told_of_as_without() {
    let scratch = Scratch::new();
    filled(&scratch.dir());
    let segment = files(&scratch.dir(), ".seg").remove(0);
    let bytes = fs::read(&segment).unwrap();
    let damage = |content: &[u8]| {
        fs::write(&segment, content).unwrap();
        examined(&scratch.dir(), true, None).0.damage.len()
    };
    let mut foreign = bytes.clone();
    foreign[20] ^= 1;
    let mut ended = bytes.clone();
    let last = ended.iter().rposition(|&byte| byte != 0).unwrap();
    ended[last - 15_000..].fill(0);
    for content in [&bytes[..bytes.len() / 2], &foreign, &ended, &[]] {
        assert!(damage(content) > 0);
        are_the_same(&scratch.dir(), None);
    }
    // What is wrong inside is for who reads it to tell.
    let mut inside = bytes.clone();
    inside[80] ^= 1;
    assert_eq!(damage(&inside), 0);
    let store = small().open(scratch.dir()).unwrap();
    assert!(store.verify().unwrap().iter().any(|finding| finding.damage && finding.file == segment));
    fs::remove_file(&segment).unwrap();
    are_the_same(&scratch.dir(), None);
}

#[test]
fn no_hint_is_written_of_what_is_damaged() {
    let scratch = Scratch::new();
    let sealed = filled(&scratch.dir());
    files(&scratch.dir(), ".hint").iter().for_each(|path| fs::remove_file(path).unwrap());
    let segment = files(&scratch.dir(), ".seg").remove(0);
    let mut bytes = fs::read(&segment).unwrap();
    bytes[80] ^= 1;
    fs::write(&segment, bytes).unwrap();
    assert_eq!(write_hints(&scratch.dir(), None), sealed - 1);
    assert_eq!(small().open(scratch.dir()).unwrap().recovery().damage.len(), 1, "so every opening tells of it");
}

#[test]
fn a_hint_that_cannot_be_written_costs_nothing() {
    let kinds = [Kind::Create, Kind::Open, Kind::Read, Kind::Write, Kind::Rename, Kind::Remove];
    for (kind, short) in kinds.map(|kind| (kind, 0)).into_iter().chain([(Kind::Write, 200)]) {
        let (scratch, layer) = (Scratch::new(), Failing::default());
        let mut options = small();
        options.fs = Arc::new(layer.clone());
        let store = options.open(scratch.dir()).unwrap();
        (0..12).for_each(|at| drop(store.put_bytes("t", TypeTag::BYTES, &noise(at, 10_000), PutOptions::default()).unwrap()));
        let before = views(&store);
        layer.set(Some(Fault { only: Some(".hint"), ..Fault::fail(0, kind, false, Errno::IO, short) }));
        store.close().unwrap();
        layer.set(None);
        let store = small().open(scratch.dir()).unwrap();
        assert_eq!(views(&store), before, "{kind:?}");
        let report = store.recovery();
        assert!(report.damage.is_empty() && report.set_aside.is_empty() && !report.fresh_segment, "{kind:?}: {report:?}");
        assert!(files(&scratch.dir(), ".new").is_empty(), "{kind:?}: a working name is left");
    }
}

#[test]
fn what_no_segment_goes_with_is_removed_and_not_spoken_of() {
    let scratch = Scratch::new();
    filled(&scratch.dir());
    let strangers = [names::hint(0x77), names::hint_new(1), names::hint_new(0x78)].map(|name| scratch.dir().join(name));
    strangers.iter().for_each(|path| fs::write(path, b"TAFFHNT\0 and no more").unwrap());
    hints_change_nothing(&scratch.dir());
    let store = small().open(scratch.dir()).unwrap();
    assert!(strangers.iter().all(|path| !path.exists()));
    assert!(store.recovery().set_aside.is_empty() && store.verify().unwrap().is_empty());
}

#[test]
fn two_that_write_at_once_leave_one_that_is_whole() {
    let scratch = Scratch::new();
    filled(&scratch.dir());
    let dir = scratch.dir();
    let upto = ends(&dir).last().copied();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let directory = directory(&dir);
                let manifest = directory.manifest().unwrap();
                for _ in 0..100 {
                    for listed in manifest.segments.iter().filter(|listed| listed.end != 0) {
                        // One may find the other's working name gone.
                        let _ = hints::write(&directory, &manifest, listed, listed.end);
                    }
                    are_the_same(&dir, None);
                }
            });
        }
    });
    write_hints(&dir, upto);
    assert!(examined(&dir, true, None).0.disbelieved.is_empty());
    hints_change_nothing(&dir);
}
