//! What is told, and what is passed over, where the system or another process's files answer a
//! directory's calls otherwise than expected.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;

use super::Scratch;
use super::failing::{Action, Failing, Fault, Kind, Moment};
use super::faults::put;
use super::other::open;
use crate::batch::Durability;
use crate::error::{Error, ErrorKind, Result};
use crate::log::directory::Directory;

fn directory(path: &Path, layer: &Failing) -> Directory {
    Directory { fs: Arc::new(layer.clone()), path: path.to_owned(), dir_mode: 0o700, file_mode: 0o600, found: Arc::default() }
}

fn kind<T>(answer: Result<T>) -> Option<ErrorKind> {
    answer.err().map(|error| error.kind())
}

/// Every such operation fails.
fn failing(kind: Kind, errno: Errno) -> Option<Fault> {
    Some(Fault::fail(0, kind, false, errno, 0))
}

#[test]
fn a_free_name_is_the_first_that_nothing_has() {
    let scratch = Scratch::new();
    let directory = directory(scratch.0.path(), &Failing::default());
    for expected in ["end", "end.1", "end.2", "end.3"] {
        let path = directory.free_file("end").unwrap();
        assert_eq!(path, directory.file(expected));
        fs::write(path, b"").unwrap();
    }
}

#[test]
fn only_a_file_in_the_way_makes_a_place_none_for_a_store() {
    let scratch = Scratch::new();
    let file = scratch.0.path().join("file");
    fs::write(&file, b"mine").unwrap();
    let exists = |path: PathBuf| directory(&path, &Failing::default()).exists();
    assert_eq!(kind(exists(file.clone())), Some(ErrorKind::Unsupported));
    assert_eq!(kind(exists(file.join("store"))), Some(ErrorKind::Unsupported));
    assert!(exists(scratch.0.path().to_owned()).unwrap() && !exists(scratch.dir()).unwrap());
    // A name longer than any file system has.
    assert_eq!(kind(exists(scratch.0.path().join("x".repeat(300)))), Some(ErrorKind::Io));
}

#[test]
fn a_directory_that_is_there_is_made_to_last_unless_its_parent_may_not_be_opened() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let directory = directory(&scratch.dir(), &layer);
    directory.create().unwrap();
    for (errno, told) in [(Errno::ACCESS, None), (Errno::IO, Some(ErrorKind::Io)), (Errno::NOSPC, Some(ErrorKind::DiskFull))] {
        layer.set(failing(Kind::SyncDir, errno));
        assert_eq!(kind(directory.create()), told, "{errno:?}");
        assert_eq!(layer.failed().len(), 1);
    }
}

#[test]
fn a_directory_that_another_makes_a_moment_earlier_is_as_good() {
    for (errno, moment, told) in [
        (Errno::EXIST, Moment::After, None),
        (Errno::IO, Moment::After, Some(ErrorKind::Io)),
        (Errno::IO, Moment::Before, Some(ErrorKind::Io)),
    ] {
        let (scratch, layer) = (Scratch::new(), Failing::default());
        layer.set(Some(Fault::once(Kind::CreateDir, Action::Fail(errno), moment)));
        assert_eq!(kind(directory(&scratch.dir().join("deep"), &layer).create()), told, "{errno:?} {moment:?}");
    }
}

#[test]
fn a_file_that_is_gone_is_removed_and_one_that_stays_is_told() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let directory = directory(scratch.0.path(), &layer);
    fs::write(directory.file("file"), b"").unwrap();
    layer.set(failing(Kind::Remove, Errno::IO));
    assert_eq!(kind(directory.remove("file")), Some(ErrorKind::Io));
    assert_eq!(kind(directory.create_file("file")), Some(ErrorKind::Io));
    layer.set(None);
    for _ in 0..2 {
        directory.remove("file").unwrap();
        assert!(!directory.file("file").exists());
    }
}

#[test]
fn names_that_could_not_be_made_to_last_are_told() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let directory = directory(scratch.0.path(), &layer);
    directory.sync().unwrap();
    layer.set(failing(Kind::SyncDir, Errno::IO));
    assert_eq!(kind(directory.sync()), Some(ErrorKind::Io));
}

/// Makes a manifest's checksum, over all but itself, fit.
pub(super) fn checked(mut manifest: Vec<u8>) -> Vec<u8> {
    let check = crc32fast::hash(&[&manifest[..12], &manifest[16..]].concat());
    manifest[12..16].copy_from_slice(&check.to_le_bytes());
    manifest
}

#[test]
fn who_meets_a_newer_manifest_is_not_sent_to_repair_it() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    drop(open(&scratch, &layer));
    let (directory, path) = (directory(&scratch.dir(), &layer), scratch.dir().join("MANIFEST"));
    let whole = fs::read(&path).unwrap();
    assert_eq!(checked(whole.clone()), whole);
    let mut other = whole.clone();
    other[8] += 1;
    for (bytes, told, advised) in [(checked(other.clone()), ErrorKind::Unsupported, false), (other, ErrorKind::Corrupt, true)] {
        fs::write(&path, bytes).unwrap();
        let error = directory.manifest().unwrap_err();
        assert_eq!((error.kind(), error.file().unwrap().0), (told, &*path), "{error}");
        assert_eq!(error.to_string().contains("repair"), advised, "{error}");
    }
}

/// A page is taken for the one that processes at work share if it is that very file, and of this version.
#[test]
fn who_comes_later_takes_no_other_page_than_the_shared_one() {
    // The words of the magic and the layout, and what is written there.
    let (magic, layout) = ((0, 1u64), (8, 2u64));
    type Words<'a> = &'a [(u64, u64)];
    let cases: [(Words<'_>, bool, ErrorKind, &str); 5] = [
        (&[], true, ErrorKind::Corrupt, "was replaced"),
        (&[layout], false, ErrorKind::Unsupported, "another version"),
        (&[magic], false, ErrorKind::Corrupt, "was replaced"),
        (&[magic, layout], false, ErrorKind::Corrupt, "was replaced"),
        // Another store's.
        (&[(16, 3)], false, ErrorKind::Corrupt, "was replaced"),
    ];
    for (words, is_copied, told, how) in cases {
        let (scratch, layer) = (Scratch::new(), Failing::default());
        let store = open(&scratch, &layer);
        put(&store, "t", 10, Durability::Sync).unwrap();
        let page = scratch.dir().join("tail");
        if is_copied {
            fs::copy(&page, scratch.dir().join("copy")).unwrap();
            fs::rename(scratch.dir().join("copy"), &page).unwrap();
        }
        let file = fs::OpenOptions::new().write(true).open(&page).unwrap();
        words.iter().for_each(|(at, word)| file.write_all_at(&word.to_le_bytes(), *at).unwrap());
        let error = super::faults::options(&layer).open(scratch.dir()).unwrap_err();
        assert_eq!((error.kind(), error.file().unwrap().0), (told, &*page), "{words:?} {error}");
        assert!(error.to_string().contains(how), "{words:?}: {error}");
    }
}

#[test]
fn who_comes_later_tells_a_page_that_is_gone_from_one_that_cannot_be_had() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let store = open(&scratch, &layer);
    put(&store, "t", 10, Durability::Sync).unwrap();
    let page = scratch.dir().join("tail");
    let refused = || super::faults::options(&layer).open(scratch.dir()).unwrap_err();
    layer.set(failing(Kind::MapPage, Errno::NOMEM));
    let error = refused();
    assert_eq!((error.kind(), error.file().unwrap().0), (ErrorKind::Io, &*page), "{error}");
    layer.set(None);
    fs::rename(&page, scratch.dir().with_file_name("aside")).unwrap();
    for is_cut in [false, true] {
        if is_cut {
            fs::write(&page, b"TAFFTAIL").unwrap();
        }
        let error = refused();
        assert_eq!((error.kind(), error.file().unwrap().0), (ErrorKind::Corrupt, &*page), "{error}");
        assert!(error.to_string().contains("was removed"), "{error}");
    }
}

#[test]
fn items_end_with_their_first_error() {
    let failed = || Error::new(ErrorKind::Corrupt, "what is damaged");
    let items = [Ok(1), Err(failed()), Ok(2), Err(failed())].into_iter();
    let seen: Vec<Option<i32>> = crate::log::ending_after_error(items).map(Result::ok).collect();
    assert_eq!(seen, [Some(1), None]);
}
