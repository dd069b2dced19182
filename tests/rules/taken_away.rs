//! What is removed, replaced or moved under those who have a store open: they go on or answer a typed
//! error, newcomers are told, and nothing that was acknowledged is lost.

use std::fs;
use std::path::Path;

use taffrail::{Checkpointer, ErrorKind, Options, Store};

use crate::scratch::{Expected, Scratch, is_typed, segments, snapshot, state};

fn options() -> Options {
    Store::options().segment_bytes(64 * 1024).max_history(None)
}

/// Two handles and what they hold.
struct Pair {
    stores: [Store; 2],
    expected: Expected,
    puts: u64,
}

impl Pair {
    fn open(dir: &Path) -> Pair {
        let mut pair = Pair { stores: [(); 2].map(|()| options().open(dir).unwrap()), expected: Expected::default(), puts: 0 };
        pair.go_on(4, "at first");
        pair
    }

    /// They put in turns, and each sees all.
    fn go_on(&mut self, puts: u64, context: &str) {
        for number in self.puts..self.puts + puts {
            let thread = ["a", "b", "c"][number as usize % 3];
            self.expected.put(&self.stores[number as usize % 2], thread, state(thread, number, 900));
        }
        self.puts += puts;
        self.stores.iter().for_each(|store| self.expected.is_all_of(store, context));
    }

    /// Both at once, so that only the turn keeps their puts apart.
    fn go_on_at_once(&mut self, context: &str) {
        std::thread::scope(|scope| {
            for (store, thread) in self.stores.iter().zip(["one", "other"]) {
                scope.spawn(move || (0..30).for_each(|number| Expected::default().put(store, thread, state(thread, number, 300))));
            }
        });
        for thread in ["one", "other"] {
            (0..30).for_each(|number| self.expected.note(thread, state(thread, number, 300)));
        }
        self.stores.iter().for_each(|store| self.expected.is_all_of(store, context));
    }

    /// Both are closed; then the store opens as ever, for one and for two.
    fn close(self, dir: &Path, context: &str) -> taffrail::Recovery {
        self.stores.into_iter().for_each(|store| store.close().unwrap());
        let alone = Store::options().single_process(true).open(dir).unwrap_or_else(|error| panic!("{context}, afterwards: {error}"));
        self.expected.is_all_of(&alone, context);
        assert!(alone.verify().unwrap().iter().all(|finding| !finding.damage), "{context}");
        let report = alone.recovery().clone();
        drop(alone);
        let mut again = Pair { stores: [(); 2].map(|()| options().open(dir).unwrap()), expected: self.expected, puts: self.puts };
        again.go_on(4, context);
        report
    }
}

/// Takes a file away, or puts another in its place.
fn take_away(path: &Path, how: &str) {
    fs::remove_file(path).unwrap();
    match how {
        "removed" => {}
        "replaced" => fs::write(path, b"").unwrap(),
        "a folder now" => fs::create_dir(path).unwrap(),
        _ => panic!("{how}"),
    }
}

/// All but the lock files.
fn without_locks(dir: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let is_lock = |path: &Path| path.extension().is_some_and(|end| end == "lock");
    snapshot(dir).into_iter().filter(|(path, _)| !is_lock(path)).map(|(path, (_, _, bytes))| (path, bytes)).collect()
}

#[test]
fn the_locks_of_openers_and_syncers_are_missed_by_nobody() {
    for name in ["open.lock", "sync.lock"] {
        for how in ["removed", "replaced", "a folder now"] {
            let (scratch, context) = (Scratch::new(), format!("{name} {how}"));
            let dir = scratch.path("store");
            let mut pair = Pair::open(&dir);
            take_away(&dir.join(name), how);
            pair.go_on_at_once(&context);
            let newcomer = options().open(&dir).unwrap_or_else(|error| panic!("{context}: {error}"));
            pair.expected.is_all_of(&newcomer, &context);
            pair.expected.put(&newcomer, "new", state("new", 0, 900));
            pair.go_on(4, &context);
            pair.expected.is_all_of(&newcomer, &context);
            drop(newcomer);
            assert!(!pair.close(&dir, &context).fresh_segment, "{context}");
        }
    }
}

#[test]
fn a_turn_that_is_not_the_others_is_refused_to_newcomers() {
    for how in ["removed", "replaced", "a folder now"] {
        let (scratch, context) = (Scratch::new(), format!("write.lock {how}"));
        let dir = scratch.path("store");
        let mut pair = Pair::open(&dir);
        take_away(&dir.join("write.lock"), how);
        let before = without_locks(&dir);
        for _ in 0..3 {
            let error = options().open(&dir).unwrap_err();
            assert_eq!((error.kind(), error.file().unwrap().0), (ErrorKind::Corrupt, &*dir.join("write.lock")), "{context}: {error}");
        }
        assert!(before == without_locks(&dir), "{context}: a refused opener changed something");
        pair.expected.is_all_of(&Store::options().read_only(true).open(&dir).unwrap(), &context);
        pair.go_on_at_once(&context);
        pair.go_on(4, &context);
        assert!(!pair.close(&dir, &context).fresh_segment, "{context}");
    }
}

#[test]
fn a_turn_that_came_back_lets_newcomers_in() {
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    let mut pair = Pair::open(&dir);
    fs::rename(dir.join("write.lock"), scratch.path("away")).unwrap();
    assert_eq!(options().open(&dir).unwrap_err().kind(), ErrorKind::Corrupt);
    fs::rename(scratch.path("away"), dir.join("write.lock")).unwrap();
    pair.expected.put(&options().open(&dir).unwrap(), "new", state("new", 0, 900));
    pair.go_on(2, "back again");
}

#[test]
fn a_page_that_is_not_the_others_is_refused_to_newcomers() {
    let scratch = Scratch::new();
    let other = scratch.path("other");
    drop(Pair::open(&other));
    let kinds = ["removed", "zeros", "too short", "an older self", "an equal self", "another store's", "a folder"];
    for how in kinds {
        let (dir, context) = (scratch.path(how), format!("tail {how}"));
        let page = dir.join("tail");
        let mut pair = Pair::open(&dir);
        let older = fs::read(&page).unwrap();
        pair.go_on(4, &context);
        let own = fs::read(&page).unwrap();
        fs::remove_file(&page).unwrap();
        match how {
            "removed" => {}
            "zeros" => fs::write(&page, [0; 4096]).unwrap(),
            "too short" => fs::write(&page, &own[..4095]).unwrap(),
            "an older self" => fs::write(&page, &older).unwrap(),
            "an equal self" => fs::write(&page, &own).unwrap(),
            "another store's" => drop(fs::copy(other.join("tail"), &page).unwrap()),
            _ => fs::create_dir(&page).unwrap(),
        }
        let before = without_locks(&dir);
        for _ in 0..2 {
            let error = options().open(&dir).map(drop).expect_err(&context);
            is_typed(&error, &context);
            assert_eq!(error.file().unwrap().0, page, "{context}: {error}");
            assert!(how == "a folder" || error.kind() == ErrorKind::Corrupt, "{context}: {error}");
        }
        assert!(before == without_locks(&dir), "{context}: a refused opener changed something");
        // On past the end of a segment, too.
        pair.go_on_at_once(&context);
        pair.go_on(80, &context);
        assert!(segments(&dir).len() > 1, "{context}");
        if how == "a folder" {
            fs::remove_dir(&page).unwrap();
        }
        assert!(pair.close(&dir, &context).fresh_segment, "{context}: a page that tells nothing of the log was believed");
    }
}

/// Puts by a handle until it is refused, which it must be for want of a file; what it answered with
/// success is expected.
fn put_until_refused(store: &Store, expected: &mut Expected, context: &str) -> taffrail::Error {
    for number in 1000..1100 {
        let state = state("last", number, 2000);
        match store.put_bytes("last", taffrail::TypeTag::BYTES, &state, Default::default()) {
            Ok(_) => expected.note("last", state),
            Err(error) => return error,
        }
        expected.is_all_of(store, context);
    }
    panic!("{context}: it went on as if nothing were");
}

/// Whatever it is asked, it tells the truth or a typed error.
fn is_told_truly(store: &Store, expected: &Expected, context: &str) {
    for (thread, states) in &expected.0 {
        match store.get_bytes(thread) {
            Ok(head) => assert!(head.is_some_and(|head| states.iter().any(|state| **state == *head.state)), "{context}: {thread}"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Poisoned, "{context}: {error}"),
        }
    }
    for answer in [store.threads().map(|threads| threads == expected.0.keys().cloned().collect::<Vec<_>>()), store.verify().map(|_| true)] {
        assert!(answer.unwrap_or_else(|error| error.kind() == ErrorKind::Poisoned), "{context}");
    }
}

/// What needs a file is refused to a handle whose directory is not at its path any more.
fn makes_nothing(store: &Store, expected: &mut Expected, context: &str) {
    let error = put_until_refused(store, expected, context);
    let large = state("large", 1, 30_000);
    let others = [
        store.put_bytes("large", taffrail::TypeTag::BYTES, &large, Default::default()).map(drop).unwrap_err(),
        store.retain(None, Some(1)).unwrap_err(),
        store.stats().map(drop).unwrap_err(),
    ];
    for error in others.iter().chain([&error]) {
        assert_eq!((error.kind(), error.file().is_some()), (ErrorKind::Poisoned, true), "{context}: {error}");
    }
    is_told_truly(store, expected, context);
}

#[test]
fn a_directory_that_moves_away_takes_all_of_it_along() {
    let scratch = Scratch::new();
    let (dir, moved) = (scratch.path("d"), scratch.path("e"));
    let Pair { stores: [one, other], mut expected, .. } = Pair::open(&dir);
    fs::rename(&dir, &moved).unwrap();
    makes_nothing(&one, &mut expected, "moved");
    assert!(!dir.exists(), "something was made at the old place");
    // Who comes to the new place is beside them, and goes on where they cannot.
    let newcomer = options().open(&moved).unwrap();
    expected.is_all_of(&newcomer, "by its new name");
    for number in 0..40 {
        expected.put(&newcomer, "new", state("new", number, 2000));
    }
    assert!(segments(&moved).len() > 1);
    for store in [&one, &other] {
        is_told_truly(store, &expected, "moved, and others went on");
        let error = store.put_bytes("new", taffrail::TypeTag::BYTES, b"x", Default::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Poisoned, "{error}");
    }
    drop((one, other));
    newcomer.close().unwrap();
    let store = Store::options().single_process(true).open(&moved).unwrap();
    assert!(!store.recovery().fresh_segment && store.verify().unwrap().is_empty());
    expected.is_all_of(&store, "opened by its new name");
}

#[test]
fn a_directory_that_comes_back_is_as_if_it_had_never_been_away() {
    let scratch = Scratch::new();
    let (dir, moved) = (scratch.path("d"), scratch.path("e"));
    let mut pair = Pair::open(&dir);
    fs::rename(&dir, &moved).unwrap();
    makes_nothing(&pair.stores[0], &mut pair.expected, "moved");
    fs::rename(&moved, &dir).unwrap();
    pair.go_on(40, "back again");
    assert!(!pair.close(&dir, "back again").fresh_segment);
}

#[test]
fn another_store_in_the_place_of_one_that_moved_is_left_alone() {
    let scratch = Scratch::new();
    let (dir, moved) = (scratch.path("d"), scratch.path("e"));
    let Pair { stores: [one, other], mut expected, .. } = Pair::open(&dir);
    fs::rename(&dir, &moved).unwrap();
    let Pair { stores: [others, _], expected: theirs, .. } = Pair::open(&dir);
    let before = snapshot(&dir);
    makes_nothing(&one, &mut expected, "another in its place");
    let newcomer = options().open(&moved).unwrap();
    for number in 0..40 {
        expected.put(&newcomer, "new", state("new", number, 2000));
    }
    for store in [&one, &other] {
        is_told_truly(store, &expected, "another in its place, and others went on");
    }
    drop((one, other, newcomer));
    assert!(before == snapshot(&dir), "another store was touched");
    theirs.is_all_of(&others, "the other store");
    drop(others);
    theirs.is_all_of(&Store::open(&dir).unwrap(), "the other store, opened again");
    expected.is_all_of(&Store::open(&moved).unwrap(), "opened by its new name");
}

#[test]
fn an_older_copy_in_the_place_of_a_store_that_moved_is_left_alone() {
    let scratch = Scratch::new();
    let (dir, moved) = (scratch.path("d"), scratch.path("e"));
    let mut pair = Pair::open(&dir);
    let (copy, copied) = (scratch.copy(&dir, "copy"), pair.expected.clone());
    pair.go_on(4, "behind the copy");
    fs::rename(&dir, &moved).unwrap();
    fs::rename(&copy, &dir).unwrap();
    let before = snapshot(&dir);
    let Pair { stores: [one, other], mut expected, .. } = pair;
    makes_nothing(&one, &mut expected, "an older copy in its place");
    drop((one, other));
    assert!(before == snapshot(&dir), "the copy was touched");
    copied.is_all_of(&Store::open(&dir).unwrap(), "the copy");
    expected.is_all_of(&Store::open(&moved).unwrap(), "opened by its new name");
}

/// As `cp` restores: the same files, with what they held before (field case I7).
#[test]
fn older_bytes_in_the_files_in_use_end_the_handles_that_know_better() {
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    let mut pair = Pair::open(&dir);
    let (copy, copied) = (scratch.copy(&dir, "copy"), pair.expected.clone());
    pair.go_on(4, "behind the copy");
    for entry in fs::read_dir(&copy).unwrap() {
        let entry = entry.unwrap();
        fs::write(dir.join(entry.file_name()), fs::read(entry.path()).unwrap()).unwrap();
    }
    let restored = snapshot(&dir);
    for store in &pair.stores {
        let error = store.put_bytes("a", taffrail::TypeTag::BYTES, b"x", Default::default()).unwrap_err();
        assert_eq!((error.kind(), error.file().unwrap().0), (ErrorKind::Poisoned, &*dir.join("tail")), "{error}");
    }
    drop(pair);
    let contents = |seen: std::collections::BTreeMap<_, (u64, std::time::SystemTime, Vec<u8>)>| {
        seen.into_iter().filter(|(path, _): &(std::path::PathBuf, _)| !path.ends_with("tail")).collect::<Vec<_>>()
    };
    assert!(contents(restored) == contents(snapshot(&dir)), "what was restored was touched");
    let store = Store::open(&dir).unwrap();
    copied.is_all_of(&store, "restored");
    assert!(store.verify().unwrap().is_empty());
}
