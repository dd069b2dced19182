//! What a repair goes by: which manifest counts, which files are read and how far they reach, and what it
//! answers where there is nothing to read.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::answers::checked;
use super::failing::{Failing, Fault, Kind};
use super::faults::{Contents, contents, options, put};
use super::unlisted::{closed, install, manifest};
use super::{Scratch, image};
use crate::batch::Durability;
use crate::checkpointer::Checkpointer;
use crate::error::{ErrorKind, Result};
use crate::format::names;
use crate::format::segment::{Header, Kind as Segment};
use crate::log::Store;
use crate::log::output;
use crate::log::repair::repair;
use crate::options::Options;
use crate::report::{Finding, Recovery};

fn dest(scratch: &Scratch) -> PathBuf {
    scratch.0.path().join("repaired")
}

/// Repairs the store of a scratch: what is told, and what the copy holds.
fn repaired(scratch: &Scratch) -> (Recovery, Contents) {
    let dest = dest(scratch);
    let report = Store::repair(scratch.dir(), &dest).unwrap();
    let copied = contents(&Store::open(&dest).unwrap());
    fs::remove_dir_all(dest).unwrap();
    (report, copied)
}

/// What a report says of MANIFEST, if anything.
fn of_manifest(report: &Recovery) -> Option<&str> {
    let found = report.damage.iter().find(|found| found.file.ends_with("MANIFEST"));
    found.inspect(|found| assert!(!found.damage && found.offset.is_none(), "{found:?}")).map(|found| found.what.as_str())
}

fn lost(report: &Recovery) -> Vec<&Finding> {
    report.damage.iter().filter(|finding| finding.damage).collect()
}

fn segment(dir: &Path, number: u64) -> PathBuf {
    dir.join(names::segment(number))
}

fn overwrite(path: &Path, at: usize, with: &[u8]) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at..at + with.len()].copy_from_slice(with);
    fs::write(path, bytes).unwrap();
}

#[test]
fn where_there_is_no_record_the_answer_says_whether_there_was_a_store() {
    let without = |change: &dyn Fn(&Path)| -> Result<Recovery> {
        let scratch = Scratch::new();
        drop(options(&Failing::default()).open(scratch.dir()).unwrap());
        change(&scratch.dir());
        let answer = Store::repair(scratch.dir(), dest(&scratch));
        assert_eq!(dest(&scratch).join("MANIFEST").exists(), answer.is_ok());
        answer
    };
    let refused = |change: &dyn Fn(&Path)| without(change).unwrap_err().kind();
    let no_manifest = |dir: &Path| fs::remove_file(dir.join("MANIFEST")).unwrap();
    let garbage = |dir: &Path| fs::write(segment(dir, 1), [0xff; 300]).unwrap();
    assert_eq!(without(&|_| ()).unwrap(), Recovery::default(), "one that nobody has put to is whole");
    assert_eq!(refused(&no_manifest), ErrorKind::NotFound);
    assert_eq!(refused(&|dir| overwrite(&dir.join("MANIFEST"), 30, &[0xff; 2])), ErrorKind::Corrupt);
    assert_eq!(refused(&garbage), ErrorKind::Corrupt);
    assert_eq!(refused(&|dir| [no_manifest, garbage].iter().for_each(|change| change(dir))), ErrorKind::Corrupt);
}

#[test]
fn a_manifest_that_is_no_use_is_done_without_and_told_by_what_it_is() {
    let (scratch, other) = (Scratch::new(), Scratch::new());
    let before = closed(&scratch.dir());
    closed(&other.dir());
    let path = scratch.dir().join("MANIFEST");
    let own = fs::read(&path).unwrap();
    let mut damaged = own.clone();
    damaged[30] ^= 1;
    let foreign = fs::read(other.dir().join("MANIFEST")).unwrap();
    for (bytes, told) in [(Some(&foreign), "another store's"), (Some(&damaged), "is damaged"), (None, "is missing"), (Some(&own), "")] {
        fs::remove_file(&path).unwrap();
        bytes.iter().for_each(|bytes| fs::write(&path, bytes).unwrap());
        let (report, copied) = repaired(&scratch);
        assert!(copied == before, "{told}");
        assert!(of_manifest(&report).map_or(told.is_empty(), |what| !told.is_empty() && what.contains(told)), "{told}: {report:?}");
        assert_eq!(report.set_aside, if told.starts_with("another") { vec![path.clone()] } else { vec![] }, "{told}");
        assert!(lost(&report).is_empty(), "{told}: {report:?}");
        fs::write(&path, &own).unwrap();
    }
}

#[test]
fn a_newer_manifest_and_one_that_the_system_cannot_open_now_end_a_repair() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    closed(&scratch.dir());
    layer.set(Some(Fault { only: Some("MANIFEST"), ..Fault::fail(0, Kind::Open, false, Errno::MFILE, 0) }));
    let error = repair(&scratch.dir(), &dest(&scratch), &options(&layer)).unwrap_err();
    let path = scratch.dir().join("MANIFEST");
    assert_eq!((error.kind(), error.file().unwrap().0), (ErrorKind::Io, &*path), "{error}");
    let mut newer = fs::read(&path).unwrap();
    newer[8] += 1;
    fs::write(&path, checked(newer)).unwrap();
    let error = Store::repair(scratch.dir(), dest(&scratch)).unwrap_err();
    assert_eq!((error.kind(), error.file().unwrap().0), (ErrorKind::Unsupported, &*path), "{error}");
}

#[test]
fn a_bad_sector_under_a_header_costs_the_header_alone() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let before = closed(&scratch.dir());
    layer.set(Some(Fault { only: Some("store/0000000000000002.seg"), ..Fault::fail(0, Kind::Read, true, Errno::IO, 0) }));
    let report = repair(&scratch.dir(), &dest(&scratch), &options(&layer)).unwrap();
    let told: Vec<_> = lost(&report).iter().map(|found| (found.file.clone(), found.offset)).collect();
    assert_eq!((told, layer.failed().len()), (vec![(segment(&scratch.dir(), 2), Some(0))], 1));
    assert!(contents(&Store::open(dest(&scratch)).unwrap()) == before);
}

#[test]
fn a_quarantine_that_cannot_be_listed_is_told_unless_the_system_lacks_something() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let (before, path) = (closed(&scratch.dir()), scratch.dir().join("quarantine"));
    fs::create_dir(&path).unwrap();
    let list = |errno| {
        layer.set(Some(Fault { only: Some("quarantine"), ..Fault::fail(0, Kind::List, false, errno, 0) }));
        repair(&scratch.dir(), &dest(&scratch), &options(&layer))
    };
    let error = list(Errno::MFILE).unwrap_err();
    assert_eq!((error.kind(), error.file().unwrap().0), (ErrorKind::Io, &*path), "{error}");
    let report = list(Errno::IO).unwrap();
    assert_eq!(lost(&report).iter().map(|found| found.file.clone()).collect::<Vec<_>>(), [path]);
    assert!(contents(&Store::open(dest(&scratch)).unwrap()) == before);
}

/// The manifest alone says then how frames are checked, and nothing says that it is not the store's own.
#[test]
fn a_manifest_counts_where_no_segment_has_a_header_any_more() {
    let scratch = Scratch::new();
    let before = closed(&scratch.dir());
    let listed = manifest(&scratch.dir()).segments;
    listed.iter().for_each(|listed| overwrite(&segment(&scratch.dir(), listed.number), 20, &[0xff; 8]));
    let (report, copied) = repaired(&scratch);
    assert!(copied == before && of_manifest(&report).is_none() && report.set_aside.is_empty(), "{report:?}");
    assert_eq!(lost(&report).len(), listed.len());
}

#[test]
fn a_manifest_is_older_where_a_segment_of_its_store_that_it_does_not_know_holds_records() {
    let scratch = Scratch::new();
    let dir = scratch.dir();
    let first = Options { max_history: Some(None), ..options(&Failing::default()) };
    let store = first.open(&dir).unwrap();
    put(&store, "t", 100, Durability::Sync).unwrap();
    let older = fs::read(dir.join("MANIFEST")).unwrap();
    let next = manifest(&dir).next_number;
    (0..6).for_each(|_| put(&store, "t", 12_000, Durability::Sync).unwrap());
    let before = contents(&store);
    store.close().unwrap();
    let newest = fs::read(dir.join("MANIFEST")).unwrap();
    assert_eq!(manifest(&dir).next_number, next + 1, "one segment more, with the very next number");
    fs::write(dir.join("MANIFEST"), older).unwrap();
    let (report, copied) = repaired(&scratch);
    assert!(of_manifest(&report).is_some_and(|what| what.contains("older")) && copied == before, "{report:?}");
    fs::write(dir.join("MANIFEST"), newest).unwrap();

    // What a killed step leaves, and what is another store's, makes it none.
    let edited = manifest(&dir);
    let empty = output::header(edited.store, next + 1, 9, Segment::Log { base: 1 << 32 }).encode().0;
    let mut foreign = fs::read(segment(&dir, 1)).unwrap();
    let header = Header { store: [9; 16], ..Header::decode(&foreign).unwrap() };
    foreign[..72].copy_from_slice(&header.encode().0);
    let unfinished = dir.join(names::segment_new(next + 1));
    for (path, bytes) in
        [(segment(&dir, next + 1), empty.to_vec()), (segment(&dir, next + 2), foreign), (unfinished, fs::read(segment(&dir, 1)).unwrap())]
    {
        fs::write(&path, bytes).unwrap();
        let (report, copied) = repaired(&scratch);
        assert!(of_manifest(&report).is_none() && lost(&report).is_empty() && copied == before, "{path:?}: {report:?}");
        fs::remove_file(path).unwrap();
    }
}

/// A store whose first segments are gone by a compaction, with all that was in them, and are put back.
fn put_back(scratch: &Scratch) -> (Contents, Vec<u64>) {
    let dir = scratch.dir();
    let store = options(&Failing::default()).open(&dir).unwrap();
    (0..12).for_each(|_| put(&store, "gone", 12_000, Durability::Sync).unwrap());
    put(&store, "kept", 100, Durability::Sync).unwrap();
    let old: Vec<u64> = manifest(&dir).segments.iter().filter(|listed| listed.end != 0).map(|listed| listed.number).collect();
    let files = old.iter().map(|&number| fs::read(segment(&dir, number)).unwrap()).collect::<Vec<_>>();
    store.delete("gone").unwrap();
    store.compact().unwrap();
    // In the segment behind, so that it is known to be one of the log.
    put(&store, "kept", 200, Durability::Sync).unwrap();
    let before = contents(&store);
    store.close().unwrap();
    assert!(old.len() > 1 && !old.iter().any(|&number| segment(&dir, number).exists()));
    old.iter().zip(files).for_each(|(&number, bytes)| fs::write(segment(&dir, number), bytes).unwrap());
    (before, old)
}

#[test]
fn what_a_manifest_has_retired_is_read_no_more_and_what_it_does_not_name_is() {
    let scratch = Scratch::new();
    let (before, old) = put_back(&scratch);
    let (report, copied) = repaired(&scratch);
    assert!(copied.contains_key("gone") && copied["kept"] == before["kept"]);
    assert!(report.damage.is_empty(), "nothing is missed of what nobody lists: {report:?}");
    let mut edited = manifest(&scratch.dir());
    edited.retired = old;
    install(&scratch.dir(), &edited);
    let (report, copied) = repaired(&scratch);
    assert!(copied == before && report.damage.is_empty(), "{report:?}");
}

#[test]
fn without_a_manifest_a_missing_beginning_is_told_and_what_compaction_dropped_is_not_missed() {
    let told = |report: &Recovery| -> Vec<(PathBuf, bool)> {
        let missing = report.damage.iter().filter(|found| found.what.contains("before this one are missing"));
        missing.map(|found| (found.file.clone(), found.damage)).collect()
    };
    let scratch = Scratch::new();
    let (dir, before) = (scratch.dir(), closed(&scratch.dir()));
    fs::remove_file(dir.join("MANIFEST")).unwrap();
    let (report, copied) = repaired(&scratch);
    assert!(told(&report).is_empty() && lost(&report).is_empty() && copied == before, "{report:?}");
    fs::remove_file(segment(&dir, 1)).unwrap();
    let (report, _) = repaired(&scratch);
    assert_eq!(told(&report), [(segment(&dir, 2), true)]);

    // Where a power cut has ended the log's beginning, it begins behind a jump.
    let (scratch, live) = (Scratch::new(), Scratch::new());
    let store = options(&Failing::default()).open(live.dir()).unwrap();
    put(&store, "t", 100, Durability::Buffered).unwrap();
    image(&live.dir(), &scratch.dir());
    fs::remove_file(scratch.dir().join("tail")).unwrap();
    let store = options(&Failing::default()).open(scratch.dir()).unwrap();
    assert!(store.recovery().fresh_segment && !segment(&scratch.dir(), 1).exists());
    drop(store);
    fs::remove_file(scratch.dir().join("MANIFEST")).unwrap();
    let (report, copied) = repaired(&scratch);
    assert!(lost(&report).is_empty() && copied.len() == 1, "{report:?}");
}

/// What stood between two segments of the log is in a compacted one by now, or nowhere.
#[test]
fn without_a_manifest_nothing_is_missed_between_segments_that_were_compacted() {
    let scratch = Scratch::new();
    let dir = scratch.dir();
    let store = Options { max_history: Some(None), ..options(&Failing::default()) }.open(&dir).unwrap();
    for thread in ["before", "dead", "dead", "dead", "behind", "behind", "behind"] {
        (0..4).for_each(|_| put(&store, thread, 12_000, Durability::Sync).unwrap());
    }
    put(&store, "before", 100, Durability::Sync).unwrap();
    store.delete("dead").unwrap();
    store.compact().unwrap();
    let before = contents(&store);
    store.close().unwrap();
    let listed = manifest(&dir).segments;
    let compacted = listed.iter().position(|listed| listed.compacted).unwrap();
    assert!(!listed[0].compacted && listed.len() > compacted + 1, "{listed:?}");
    fs::remove_file(dir.join("MANIFEST")).unwrap();
    let (report, copied) = repaired(&scratch);
    assert!(lost(&report).is_empty() && copied == before, "{report:?}");
}

/// An older self of the store went on by itself, and gave a number that the store has given too; for the
/// same state, as it happens.
#[test]
fn two_records_under_one_number_both_count_and_one_that_stands_twice_counts_once() {
    let (scratch, other) = (Scratch::new(), Scratch::new());
    let (dir, beside) = (scratch.dir(), other.dir());
    let store = options(&Failing::default()).open(&dir).unwrap();
    put(&store, "both", 100, Durability::Sync).unwrap();
    store.close().unwrap();
    image(&dir, &beside);
    for (dir, thread) in [(&dir, "one"), (&beside, "two")] {
        let store = options(&Failing::default()).open(dir).unwrap();
        assert!(!store.recovery().fresh_segment);
        put(&store, thread, 100, Durability::Sync).unwrap();
        store.close().unwrap();
    }
    fs::create_dir(dir.join("quarantine")).unwrap();
    fs::copy(segment(&beside, 1), segment(&dir.join("quarantine"), 1)).unwrap();
    let (report, copied) = repaired(&scratch);
    assert_eq!(copied.keys().collect::<Vec<_>>(), ["both", "one", "two"]);
    assert_eq!((report.frames, copied["both"].len()), (3, 1));
}
