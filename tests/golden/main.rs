//! Old files open for ever: stores of version 1 in all their states, kept in `v1/`, hold what they held.
//!
//! They were made once, by the code beside, and are never made again: whatever a later version writes, it
//! reads these. Names and salts in them are random, so no bytes are compared with a new run's; that the kept
//! ones stay as they are a checksum says. Lock files hold nothing and are made by who needs them, so none are kept.

mod common;
mod states;
mod whole;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use taffrail::{Checkpointer, PutOptions, Store, TypeTag};

/// One state of a store: how it was made, what it holds, and what an opening tells of it.
struct State {
    name: &'static str,
    make: fn(&Path),
    check: fn(&Store),
    torn: bool,
    damaged: bool,
    set_aside: bool,
}

impl State {
    const fn new(name: &'static str, make: fn(&Path), check: fn(&Store)) -> State {
        State { name, make, check, torn: false, damaged: false, set_aside: false }
    }
}

const STATES: [State; 9] = [
    State::new("attached", states::attached::make, states::attached::check),
    State::new("compacting", states::compacting::make, states::compacting::check),
    State { damaged: true, ..State::new("damaged", states::damaged::make, states::damaged::check) },
    State::new("new", states::new::make, states::new::check),
    State::new("recovered", states::recovered::make, states::recovered::check),
    State { set_aside: true, ..State::new("set-aside", states::set_aside::make, states::set_aside::check) },
    State { torn: true, ..State::new("unfinished", states::unfinished::make, states::unfinished::check) },
    State::new("whole", whole::make, whole::check),
    State::new("without-its-name", states::without_its_name::make, states::without_its_name::check),
];

fn golden(state: &State) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1").join(state.name)
}

/// A store's segments, in order.
fn segments(dir: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "seg"));
    paths.sort();
    paths
}

/// A store's page, as it may be found later.
struct Page {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Page {
    fn of(dir: &Path) -> Page {
        let path = dir.join("tail");
        Page { bytes: fs::read(&path).unwrap(), path }
    }

    fn set(&mut self, word: usize, bytes: &[u8]) {
        self.bytes[8 * word..][..bytes.len()].copy_from_slice(bytes);
    }

    fn number(&self, word: usize) -> u64 {
        u64::from_le_bytes(self.bytes[8 * word..][..8].try_into().unwrap())
    }

    fn set_number(&mut self, word: usize, number: u64) {
        self.set(word, &number.to_le_bytes());
    }

    /// As if that run of the system had written it.
    fn set_boot(&mut self, boot: [u8; 16]) {
        self.set(4, &boot);
    }

    /// As if a write had failed in its epoch.
    fn set_poisoned(&mut self) {
        self.set_number(36, self.number(35));
    }

    /// As if it had been written in its file.
    fn set_file(&mut self) {
        let inode = fs::metadata(&self.path).unwrap().ino();
        self.set_number(7, inode);
    }

    fn write(&self) {
        fs::write(&self.path, &self.bytes).unwrap();
    }
}

/// This run of the system, as the page names it.
fn this_boot() -> [u8; 16] {
    let told = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    uuid::Uuid::try_parse(told.trim()).unwrap_or_default().into_bytes()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let copied = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &copied);
        } else {
            fs::copy(entry.path(), copied).unwrap();
        }
    }
}

/// A kept store in a place of its own, its page as if `boot` had written it there.
fn copied(state: &State, boot: [u8; 16]) -> tempfile::TempDir {
    let scratch = tempfile::tempdir().unwrap();
    copy(&golden(state), scratch.path());
    let mut page = Page::of(scratch.path());
    page.set_boot(boot);
    page.set_file();
    page.write();
    scratch
}

/// It holds what it held, goes on, and holds that too.
fn goes_on(state: &State, dir: &Path, context: &str) {
    let store = Store::open(dir).unwrap_or_else(|error| panic!("{context}: {error}"));
    let report = store.recovery();
    assert!(report.unproven.is_empty() && (report.torn_bytes > 0) == state.torn, "{context}: {report:?}");
    assert!(report.damage.is_empty() || state.damaged, "{context}: {report:?}");
    assert_eq!(dir.join("quarantine").exists(), state.set_aside, "{context}: {report:?}");
    (state.check)(&store);
    store.put_bytes("more", TypeTag::JSON, b"1", PutOptions::default()).unwrap();
    store.compact().map(drop).unwrap_or_else(|error| assert!(state.damaged, "{context}: {error}"));
    store.close().unwrap();
    let again = Store::open(dir).unwrap();
    assert_eq!(*again.get_bytes("more").unwrap().unwrap().state, *b"1", "{context}");
    assert!(again.delete("more").unwrap(), "{context}");
    (state.check)(&again);
}

#[test]
fn every_kept_store_opens_and_holds_what_it_held() {
    for state in &STATES {
        let store = Store::options().read_only(true).open(golden(state)).unwrap_or_else(|error| panic!("{}: {error}", state.name));
        (state.check)(&store);
        let is_sound = store.verify().unwrap().iter().all(|finding| !finding.damage);
        // What is in quarantine is told until it is removed.
        assert_eq!(is_sound, !state.damaged && !state.set_aside, "{}", state.name);
    }
}

#[test]
fn every_kept_store_goes_on() {
    for state in &STATES {
        let scratch = copied(state, this_boot());
        goes_on(state, scratch.path(), &format!("{}, in this run of the system", state.name));
        // Nobody can vouch for a page that an earlier run of the system wrote.
        let scratch = copied(state, [1; 16]);
        goes_on(state, scratch.path(), &format!("{}, in another run of the system", state.name));
    }
}

#[test]
fn a_store_that_was_closed_goes_on_where_it_ended() {
    let state = STATES.iter().find(|state| state.name == "whole").unwrap();
    let scratch = copied(state, this_boot());
    let store = Store::open(scratch.path()).unwrap();
    assert!(!store.recovery().fresh_segment, "it was closed cleanly");
    store.retain(None, Some(1)).unwrap();
    drop(store);
    let again = Store::open(scratch.path()).unwrap();
    assert_eq!(common::states(&again, "json"), [("third".to_owned(), b"3".to_vec())]);
    assert_eq!(common::states(&again, "limited").len(), 2, "a thread's own limit stands");
    let scratch = copied(state, [1; 16]);
    assert!(Store::open(scratch.path()).unwrap().recovery().fresh_segment);
}

#[test]
fn a_repair_brings_back_what_a_kept_store_holds() {
    for state in &STATES {
        let dest = tempfile::tempdir().unwrap();
        let dest = dest.path().join("repaired");
        let repaired = Store::repair(golden(state), &dest);
        repaired.unwrap_or_else(|error| panic!("{}: {error}", state.name));
        let store = Store::options().create(false).open(&dest).unwrap();
        match state.name {
            "damaged" => common::holds(&store, "a", 0..5),
            // Frames that nothing proves add what they hold.
            "set-aside" => common::holds(&store, "a", [0, 1, 2, 4, 5].into_iter()),
            "attached" | "new" | "unfinished" | "recovered" | "compacting" | "without-its-name" | "whole" => (state.check)(&store),
            name => panic!("{name}"),
        }
    }
}

#[test]
fn what_this_version_makes_reads_the_same() {
    for state in &STATES {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("store");
        (state.make)(&dir);
        (state.check)(&Store::options().read_only(true).open(&dir).unwrap());
        (state.check)(&Store::options().mmap(false).open(&dir).unwrap());
    }
}

/// Every file and its bytes, as one number.
fn checksum(dir: &Path, sum: &mut crc32fast::Hasher) {
    let entries: BTreeSet<PathBuf> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    for path in entries {
        sum.update(path.file_name().unwrap().as_encoded_bytes());
        if path.is_dir() { checksum(&path, sum) } else { sum.update(&fs::read(&path).unwrap()) }
    }
}

#[test]
fn what_is_kept_is_never_made_again() {
    let kept = golden(&STATES[0]).parent().unwrap().to_owned();
    let names: BTreeSet<_> = fs::read_dir(&kept).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(names, STATES.iter().map(|state| state.name.to_owned()).collect());
    // Those that were made together have one sum.
    for (later, expected) in [(false, 1_286_652_641), (true, 3_346_346_502)] {
        let mut sum = crc32fast::Hasher::new();
        let together = names.iter().filter(|name| later == (**name == "attached"));
        for name in together {
            sum.update(name.as_bytes());
            checksum(&kept.join(name), &mut sum);
        }
        assert_eq!(sum.finalize(), expected, "a kept file is another one: {later:?}");
    }
}
