//! Compacted segments that no manifest lists, and directories that lack a segment: what is removed, what
//! is kept, and what says that MANIFEST is older than the data.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Scratch;
use super::faults::{Contents, contents, put};
use crate::batch::Durability;
use crate::error::ErrorKind;
use crate::format::manifest::Manifest;
use crate::format::names;
use crate::format::segment::Kind;
use crate::fs::os::Os;
use crate::log::Store;
use crate::log::directory::Directory;
use crate::log::output::{self, Output};
use crate::log::pieces;
use crate::log::scan::Found;
use crate::options::Options;
use crate::report::Recovery;

fn options() -> Options {
    Store::options().auto_compaction(false).segment_bytes(64 * 1024).max_history(None)
}

/// A closed store of several sealed segments, and what it holds.
pub(super) fn closed(dir: &Path) -> Contents {
    let store = options().open(dir).unwrap();
    (0..40).for_each(|round| put(&store, ["a", "b"][round % 2], 9000 + round, Durability::Buffered).unwrap());
    store.close().unwrap();
    let store = Store::options().read_only(true).open(dir).unwrap();
    assert!(manifest(dir).segments.len() > 5);
    contents(&store)
}

pub(super) fn manifest(dir: &Path) -> Manifest {
    Manifest::decode(&fs::read(dir.join("MANIFEST")).unwrap()).unwrap()
}

pub(super) fn install(dir: &Path, manifest: &Manifest) {
    fs::write(dir.join("MANIFEST"), manifest.encode()).unwrap();
}

/// Makes a compacted segment of the segments from `first` to `last`, as one that was installed has its name.
fn compact(dir: &Path, number: u64, first: u64, last: u64) -> PathBuf {
    let directory = Directory { fs: Arc::new(Os), path: dir.to_owned(), dir_mode: 0o700, file_mode: 0o600, found: Arc::default() };
    let manifest = manifest(dir);
    let header = output::header(manifest.store, number, 99, Kind::Compacted { first, last });
    let mut compacted = Output::create(&directory, header, &|_| Ok(())).unwrap();
    let found = pieces::find(&directory, &directory.contents().unwrap(), &mut Recovery::default()).unwrap();
    let salted = pieces::salted(&found, &manifest.store, Some(&manifest));
    for (piece, salted) in found.iter().zip(salted).filter(|(piece, _)| (first..=last).contains(&piece.number)) {
        let mut scan = piece.scan(&salted.unwrap(), u64::MAX).unwrap();
        while let Some(Found::Frame(frame)) = scan.next().unwrap() {
            assert!(compacted.copy(&frame, &mut scan).unwrap());
        }
    }
    compacted.finish(0).unwrap();
    directory.rename(&names::segment_new(number), &names::segment(number)).unwrap();
    directory.file(&names::segment(number))
}

pub(super) fn names_in(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| !name.ends_with(".lock"));
    names.sort();
    names
}

#[test]
fn one_that_was_never_installed_or_is_retired_is_removed() {
    let scratch = Scratch::new();
    let dir = scratch.dir();
    let before = closed(&dir);
    let never = compact(&dir, 200, 2, 4);
    let retired = compact(&dir, 201, 2, 4);
    // Without a frame it holds nothing, whatever it was for.
    let empty = compact(&dir, 202, 90, 95);
    let mut edited = manifest(&dir);
    edited.retired.push(201);
    edited.next_number = 150;
    install(&dir, &edited);
    let [overtaken, strange] = [120, 203].map(|number| {
        let path = compact(&dir, number, 1, 1);
        let mut bytes = fs::read(&path).unwrap();
        let header = output::header(edited.store, number, 99, Kind::Compacted { first: 90, last: 95 });
        bytes[..72].copy_from_slice(&header.encode().0);
        fs::write(&path, &bytes).unwrap();
        path
    });
    let store = options().open(&dir).unwrap();
    assert_eq!(contents(&store), before);
    assert!(![&never, &retired, &empty, &overtaken, &strange].iter().any(|path| path.exists()));
    // Of what it replaced nobody knows anything: it is kept, elsewhere.
    assert_eq!(names_in(&dir.join("quarantine")), [names::segment(203)]);
    assert!(store.recovery().damage.is_empty());
}

#[test]
fn one_that_was_never_installed_is_removed_by_who_compacts_next_however_long_it_was_idle() {
    let scratch = Scratch::new();
    let dir = scratch.dir();
    let idle = options().open(&dir).unwrap();
    closed(&dir);
    let left = compact(&dir, 200, 2, 4);
    idle.compact().unwrap();
    assert!(!left.exists());
}

#[test]
fn one_that_stands_for_a_missing_segment_says_that_the_manifest_is_older() {
    for gone in [&[2][..], &[3], &[4], &[2, 3, 4]] {
        let scratch = Scratch::new();
        let dir = scratch.dir();
        let before = closed(&dir);
        let path = compact(&dir, 200, 2, 4);
        gone.iter().for_each(|&number| fs::remove_file(dir.join(names::segment(number))).unwrap());
        fs::write(dir.join("MANIFEST.new"), b"x").unwrap();
        let there = names_in(&dir);
        for _ in 0..2 {
            let error = options().open(&dir).unwrap_err();
            assert_eq!((error.kind(), error.file().unwrap().0), (ErrorKind::Corrupt, &*path), "{error}");
            assert!(error.to_string().contains("repair"), "{error}");
            assert_eq!(names_in(&dir), there);
        }
        let dest = scratch.0.path().join("repaired");
        let report = Store::repair(&dir, &dest).unwrap();
        assert!(report.damage.iter().all(|finding| !finding.damage), "{gone:?}: {report:?}");
        assert_eq!(contents(&Store::open(&dest).unwrap()), before, "{gone:?}");
    }
}

#[test]
fn where_a_listed_segment_is_missing_nothing_is_removed_or_moved() {
    let scratch = Scratch::new();
    let dir = scratch.dir();
    let before = closed(&dir);
    // What the missing one was made of lies under a retired number.
    let path = dir.join(names::segment(3));
    let retired = dir.join(names::segment(100));
    let mut bytes = fs::read(&path).unwrap();
    let listed = manifest(&dir).segments[2];
    let header = output::header(manifest(&dir).store, 100, listed.salt, Kind::Log { base: listed.base });
    bytes[..72].copy_from_slice(&header.encode().0);
    fs::write(&retired, bytes).unwrap();
    fs::remove_file(&path).unwrap();
    let mut edited = manifest(&dir);
    edited.retired.push(100);
    edited.next_number = 150;
    install(&dir, &edited);
    compact(&dir, 120, 1, 2);
    for name in ["MANIFEST.new", &names::segment_new(130)] {
        fs::write(dir.join(name), b"x").unwrap();
    }
    fs::remove_file(dir.join("tail")).unwrap();
    let there = names_in(&dir);
    let store = options().open(&dir).unwrap();
    assert_eq!(store.recovery().damage.len(), 1, "{:?}", store.recovery());
    (0..20).for_each(|_| put(&store, "later", 9000, Durability::Buffered).unwrap());
    drop(store);
    let now = names_in(&dir);
    // The next manifest was written since, and what the active one held was written anew.
    let active = names::segment(edited.segments.last().unwrap().number);
    let kept = |name: &&String| **name != "MANIFEST.new" && **name != active;
    assert!(there.iter().filter(kept).all(|name| now.contains(name)), "{there:?} became {now:?}");
    assert!(!dir.join("quarantine").exists());
    let dest = scratch.0.path().join("repaired");
    Store::repair(&dir, &dest).unwrap();
    let mut back = contents(&Store::open(&dest).unwrap());
    assert_eq!(back.remove("later").map(|later| later.len()), Some(20));
    assert!(back == before, "what was retired is read where a listed one is missing");
}
