//! Files beside those of a store that are not its own: foreign ones, and names that nearly fit. They cost
//! nothing, and what is nobody's is left alone.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use taffrail::Store;

use crate::sample::{Sample, files, shown};
use crate::scratch::{Scratch, put_page};

/// Nearly names of ours: none of them is.
const NEARLY: [&str; 22] = [
    "MANIFEST ",
    "MANIFEST.bak",
    "MANIFEST.new~",
    "manifest",
    "tail.new",
    "Tail",
    "1.seg",
    "0000000000000001.SEG",
    "000000000000000A.seg",
    "000000000000000g.seg",
    "00000000000000001.seg",
    "000000000000001.seg",
    "+000000000000001.seg",
    "0x00000000000001.seg",
    "0000000000000001.seg.old",
    "0000000000000001.seg.new.new",
    "0000000000000001.hint~",
    "0000000000000001 .seg",
    "0000000000000001.seg\n",
    "open.lock.1",
    ".write.lock",
    "quarantine.old",
];

#[test]
fn what_is_not_ours_is_left_alone() {
    let sample = Sample::new();
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    fs::create_dir(&dir).unwrap();
    sample.whole.iter().for_each(|(name, bytes)| fs::write(dir.join(name), bytes).unwrap());
    put_page(&dir, &sample.whole["tail"]);
    let active = &sample.whole[sample.active()];
    for (number, name) in NEARLY.iter().enumerate() {
        fs::write(dir.join(name), if number % 2 == 0 { &active[..] } else { b"mine" }).unwrap();
    }
    let strange = dir.join(OsStr::from_bytes(b"\xff\xfe.seg"));
    fs::write(&strange, active).unwrap();
    fs::create_dir_all(dir.join("a folder.seg/within")).unwrap();
    std::os::unix::fs::symlink("nowhere", dir.join("link")).unwrap();
    for read_only in [true, false, false] {
        let store = Store::options().read_only(read_only).open(&dir).unwrap();
        assert!(shown(&store) == sample.shown);
        assert_eq!(*store.recovery(), taffrail::Recovery { frames: store.recovery().frames, ..Default::default() });
        assert_eq!(store.verify().unwrap(), []);
    }
    let dest = scratch.path("repaired");
    let report = Store::repair(&dir, &dest).unwrap();
    assert!(report.damage.is_empty() && report.unproven.is_empty(), "{report:?}");
    assert!(shown(&Store::open(&dest).unwrap()) == sample.shown);
    for (number, name) in NEARLY.iter().enumerate() {
        let left = fs::read(dir.join(name)).unwrap_or_else(|error| panic!("{name:?}: {error}"));
        assert!(left == if number % 2 == 0 { &active[..] } else { b"mine" }, "{name:?}");
    }
    assert!(fs::read(&strange).unwrap() == *active && dir.join("a folder.seg/within").is_dir() && dir.join("link").is_symlink());
    assert!(files(&dest).keys().all(|name| !NEARLY.contains(&name.as_str())));
}

/// A name of ours that is no file: nothing is read there for ever, and nothing is lost.
#[test]
fn a_pipe_under_a_name_of_ours_keeps_nobody_waiting() {
    let sample = Sample::new();
    let scratch = Scratch::new();
    for name in ["0000000000000002.hint", "0000000000000063.seg", "0000000000000063.seg.new", "MANIFEST.new", "quarantine"] {
        let dir = scratch.path(name);
        fs::create_dir(&dir).unwrap();
        sample.whole.iter().for_each(|(name, bytes)| fs::write(dir.join(name), bytes).unwrap());
        put_page(&dir, &sample.whole["tail"]);
        let _ = fs::remove_file(dir.join(name));
        let made = std::process::Command::new("mkfifo").arg(dir.join(name)).status();
        if !made.is_ok_and(|status| status.success()) {
            println!("SKIP a pipe as {name}: there is no mkfifo");
            return;
        }
        println!("a pipe as {name}");
        for read_only in [true, false] {
            match Store::options().read_only(read_only).open(&dir) {
                Ok(store) => assert!(shown(&store) == sample.shown, "{name}"),
                Err(error) => assert!(!read_only && error.file().is_some(), "{name}: {error}"),
            }
        }
    }
}
