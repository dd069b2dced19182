//! Files that are held open while a log is read: they can be read on though compaction removes them.

use std::fs;
use std::io;

use super::Scratch;
use super::failing::Failing;
use super::faults::put;
use super::other::open;
use crate::batch::Durability;
use crate::format::names;
use crate::log::held::holding;
use crate::log::hints;

#[test]
fn what_is_held_is_read_on_when_it_is_gone_and_is_not_written_to() {
    let scratch = Scratch::new();
    let store = open(&scratch, &Failing::default());
    (0..8).for_each(|_| put(&store, "t", 12_000, Durability::Sync).unwrap());
    let (directory, manifest) = (&store.shared.directory, store.shared.directory.manifest().unwrap());
    let (sealed, active) = (manifest.segments[0], *manifest.segments.last().unwrap());
    assert!(sealed.end != 0 && active.end == 0);
    assert!(hints::write(directory, &manifest, &sealed, sealed.end).unwrap());
    let held = holding(directory, &manifest);
    let files =
        [names::segment(sealed.number), names::hint(sealed.number), names::segment(active.number)].map(|name| directory.file(&name));
    let whole = files.clone().map(|path| fs::read(path).unwrap());
    files.iter().for_each(|path| fs::remove_file(path).unwrap());
    for (path, whole) in files.iter().zip(&whole).take(2) {
        let mut bytes = vec![0; whole.len()];
        assert_eq!(held.fs.open(path, false).unwrap().read_at(&mut bytes, 0).unwrap(), whole.len());
        assert!(bytes == *whole, "{path:?}");
        assert_eq!(held.fs.open(path, true).unwrap_err().kind(), io::ErrorKind::NotFound, "{path:?}");
        assert_eq!(directory.fs.open(path, false).unwrap_err().kind(), io::ErrorKind::NotFound, "{path:?}");
    }
    // What is appended to is opened as it stands by then.
    assert_eq!(held.fs.open(&files[2], false).unwrap_err().kind(), io::ErrorKind::NotFound);
    // All else is the file system as it is.
    let free = directory.file("free");
    held.fs.create(&free, 0o600).unwrap();
    assert!(free.exists() && held.fs.is_dir(&free).unwrap() == Some(false));
    held.fs.rename(&free, &files[2]).unwrap();
    held.fs.remove(&files[2]).unwrap();
    assert!(!free.exists() && !files[2].exists());
}
