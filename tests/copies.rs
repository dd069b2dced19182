//! Copies that are made of a directory while others put to it, as cp, rsync and tar make them: each is a
//! true earlier moment of every thread, or says what it lacks; never wrong bytes. A backup is one
//! moment of all threads.

#[path = "scratch/mod.rs"]
mod scratch;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use taffrail::{Batch, Checkpointer, CheckpointerExt, Durability, ErrorKind, Finding, Options, PutOptions, Store, TypeTag};

use scratch::{Scratch, history, state};

/// How many checkpoints a thread keeps.
const KEPT: usize = 20;
/// The writers' threads; that of the last one is deleted after every so many.
const THREADS: [&str; 3] = ["a", "b", "deleted"];
const DELETED_AFTER: u64 = 5;
/// How long a writer pauses between two puts: else a copy takes longer than the test.
const PAUSE: Duration = Duration::from_millis(2);
/// How long copies are made.
const LONG: Duration = Duration::from_secs(2);

fn options() -> Options {
    Store::options().segment_bytes(64 * 1024).max_history(KEPT)
}

fn state_of(thread: &str, number: u64) -> Vec<u8> {
    state(thread, number, 200 + (number * 379 % 5000) as usize)
}

/// Puts numbered states, each noted once it is acknowledged, until it is told to stop.
fn write(dir: &Path, thread: &str, acknowledged: &AtomicU64, stop: &AtomicBool) {
    let store = options().open(dir).unwrap();
    let mut number = 0;
    while !stop.load(SeqCst) {
        if thread == "deleted" && number % DELETED_AFTER == 0 {
            store.delete(thread).unwrap();
        }
        let durability = if number % 3 == 0 { Durability::Sync } else { Durability::Buffered };
        store.put_bytes(thread, TypeTag::BYTES, &state_of(thread, number), PutOptions::default().durability(durability)).unwrap();
        number += 1;
        acknowledged.store(number, SeqCst);
        std::thread::sleep(PAUSE);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    NameOrder,
    Reverse,
    /// Twice over the same copy, the second time only what differs.
    Twice,
    /// In the directory's order, each file as long as it was when it was opened.
    Archive,
}

const WAYS: [Way; 4] = [Way::NameOrder, Way::Reverse, Way::Twice, Way::Archive];

fn copy(from: &Path, to: &Path, way: Way) {
    fs::create_dir_all(to).unwrap();
    for pass in 0..if way == Way::Twice { 2 } else { 1 } {
        let mut names: Vec<OsString> = fs::read_dir(from).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        match way {
            Way::NameOrder | Way::Twice => names.sort(),
            Way::Reverse => names.sort_by(|one, other| other.cmp(one)),
            Way::Archive => {}
        }
        for name in names {
            // One that goes away meanwhile is passed over, as these tools do.
            let Ok(mut file) = File::open(from.join(&name)) else { continue };
            let mut bytes = Vec::new();
            let length = if way == Way::Archive { file.metadata().unwrap().len() } else { u64::MAX };
            let mut piece = [0; 8192];
            while (bytes.len() as u64) < length {
                let read = file.read(&mut piece).unwrap();
                if read == 0 {
                    break;
                }
                bytes.extend_from_slice(&piece[..read]);
                std::thread::sleep(Duration::from_micros(50));
            }
            bytes.truncate(usize::try_from(length).unwrap_or(usize::MAX));
            if pass == 1 && fs::read(to.join(&name)).is_ok_and(|there| there == bytes) {
                continue;
            }
            File::create(to.join(&name)).unwrap().write_all(&bytes).unwrap();
        }
    }
}

/// Judges what a copy shows; `before` is what was acknowledged before it was begun.
fn is_a_true_moment(store: &Store, findings: &[Finding], before: &BTreeMap<&str, u64>, context: &str) {
    let told = !findings.is_empty();
    for thread in store.threads().unwrap() {
        assert!(THREADS.contains(&&*thread), "{context}: a thread that nobody made: {thread}");
    }
    for (thread, &acknowledged) in before {
        let states = match history(store, thread) {
            Ok(states) => states,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{context}: {error}");
                continue;
            }
        };
        let number = |state: &Vec<u8>| {
            let digits = state.split(|byte| *byte == b'/').nth(1).map(String::from_utf8_lossy);
            let number = digits.and_then(|digits| digits.parse().ok()).unwrap_or(u64::MAX);
            assert!(number < u64::MAX && *state == state_of(thread, number), "{context}: bytes that nobody put");
            number
        };
        let numbers: Vec<u64> = states.iter().map(number).collect();
        assert!(numbers.is_sorted_by(|one, other| one < other), "{context}: {thread} is out of order: {numbers:?}");
        if told {
            continue;
        }
        let next = numbers.last().map_or(0, |last| last + 1);
        assert!(numbers.windows(2).all(|two| two[0] + 1 == two[1]), "{context}: {thread} has an untold gap: {numbers:?}");
        if *thread == "deleted" {
            assert!(
                numbers.is_empty() || numbers[0].is_multiple_of(DELETED_AFTER) && numbers.len() as u64 <= DELETED_AFTER,
                "{context}: {numbers:?}"
            );
            assert!(numbers.is_empty() || next >= acknowledged / DELETED_AFTER * DELETED_AFTER, "{context}: {next} of {acknowledged}");
        } else {
            assert_eq!(numbers.len(), KEPT.min(next as usize), "{context}: {thread}: {numbers:?}");
            assert!(next >= acknowledged, "{context}: {thread} ends at {next}, though {acknowledged} were acknowledged before");
        }
    }
}

/// Opens a copy, to read and to write; where that is refused, what is salvaged of it.
fn judge(dir: &Path, before: &BTreeMap<&str, u64>, context: &str) -> &'static str {
    let mut came_of_it = "opened";
    for read_only in [true, false] {
        let context = &format!("{context}, read only {read_only}");
        match options().read_only(read_only).create(false).open(dir) {
            Ok(store) => {
                let findings: Vec<Finding> = [&store.recovery().damage[..], &store.recovery().unproven].concat();
                if !findings.is_empty() {
                    came_of_it = "told a gap";
                }
                is_a_true_moment(&store, &findings, before, context);
                if !read_only {
                    store.put("a", &1).unwrap_or_else(|error| panic!("{context}: {error}"));
                    drop(store);
                    assert_eq!(Store::open(dir).unwrap().get::<i32>("a").unwrap(), Some(1), "{context}");
                }
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{context}: {error}");
                assert!(error.to_string().contains("repair"), "{context}: {error}");
                let dest = dir.with_extension(if read_only { "repaired" } else { "repaired-again" });
                let report = Store::repair(dir, &dest).unwrap_or_else(|error| panic!("{context}: {error}"));
                let findings: Vec<Finding> = report.damage.into_iter().chain(report.unproven).collect();
                is_a_true_moment(&Store::open(&dest).unwrap(), &findings, before, &format!("{context}, repaired"));
                came_of_it = "repaired";
            }
        }
    }
    came_of_it
}

#[test]
fn a_copy_of_a_live_directory_is_a_true_moment_or_says_what_it_lacks() {
    let scratch = Scratch::new();
    let dir = scratch.path("live");
    drop(options().open(&dir).unwrap());
    let acknowledged = [const { AtomicU64::new(0) }; THREADS.len()];
    let stop = AtomicBool::new(false);
    let mut copies: Vec<(PathBuf, BTreeMap<&str, u64>, Way)> = Vec::new();
    std::thread::scope(|scope| {
        for (thread, acknowledged) in THREADS.iter().zip(&acknowledged) {
            let (dir, stop) = (&dir, &stop);
            scope.spawn(move || write(dir, thread, acknowledged, stop));
        }
        let start = Instant::now();
        while start.elapsed() < LONG && copies.len() < 60 {
            let way = WAYS[copies.len() % WAYS.len()];
            let before = THREADS.iter().zip(&acknowledged).map(|(thread, count)| (*thread, count.load(SeqCst))).collect();
            let to = scratch.path(&format!("copy{}", copies.len()));
            copy(&dir, &to, way);
            copies.push((to, before, way));
        }
        stop.store(true, SeqCst);
    });
    assert!(copies.len() >= 8, "only {} copies were made", copies.len());
    let mut ways: BTreeMap<String, u32> = BTreeMap::new();
    for (copy, before, way) in &copies {
        let came_of_it = judge(copy, before, &format!("{way:?}, {}", copy.display()));
        *ways.entry(format!("{way:?} {came_of_it}")).or_default() += 1;
    }
    println!("{ways:?}, {} segments", scratch::segments(&dir).len());
}

#[test]
fn a_page_that_is_newer_than_the_segments_beside_it_makes_no_damage() {
    let scratch = Scratch::new();
    let (dir, copied) = (scratch.path("live"), scratch.path("copied"));
    let store = options().open(&dir).unwrap();
    let put = |numbers: std::ops::Range<u64>| {
        for number in numbers {
            store.put_bytes("a", TypeTag::BYTES, &state_of("a", number), PutOptions::default()).unwrap();
        }
    };
    let take = |names: &[&str]| {
        for name in names {
            fs::copy(dir.join(name), copied.join(name)).unwrap();
        }
    };
    put(0..5);
    fs::create_dir(&copied).unwrap();
    take(&["0000000000000001.seg", "MANIFEST"]);
    put(5..8);
    take(&["tail"]);
    for read_only in [true, false] {
        let copy = options().read_only(read_only).open(&copied).unwrap();
        assert_eq!((&copy.recovery().damage[..], copy.recovery().torn_bytes), (&[][..], 0));
        assert!(history(&copy, "a").unwrap() == (0..5).map(|number| state_of("a", number)).collect::<Vec<_>>());
        assert!(copy.verify().unwrap().is_empty());
    }
    // A reader that came first follows whoever writes there later.
    fs::remove_dir_all(&copied).unwrap();
    fs::create_dir(&copied).unwrap();
    take(&["0000000000000001.seg", "MANIFEST", "tail"]);
    let reader = options().read_only(true).open(&copied).unwrap();
    options().open(&copied).unwrap().put("b", &1).unwrap();
    assert_eq!((reader.get::<i32>("b").unwrap(), history(&reader, "a").unwrap().len()), (Some(1), 8));
}

#[test]
fn a_backup_beside_writers_is_one_moment_of_all_threads() {
    let scratch = Scratch::new();
    let dir = scratch.path("live");
    let handles = [options().open(&dir).unwrap(), options().read_only(true).open(&dir).unwrap()];
    let (acknowledged, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut backups = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let store = options().open(&dir).unwrap();
            for number in 0.. {
                let states = ["a", "b"].map(|thread| state_of(thread, number));
                let mut batch = Batch::new();
                for (thread, state) in ["a", "b"].into_iter().zip(&states) {
                    batch.put(thread, TypeTag::BYTES, state, PutOptions::default());
                }
                store.commit(&batch).unwrap();
                acknowledged.store(number + 1, SeqCst);
                if stop.load(SeqCst) {
                    break;
                }
                std::thread::sleep(PAUSE);
            }
        });
        let start = Instant::now();
        while start.elapsed() < LONG {
            let (before, dest) = (acknowledged.load(SeqCst), scratch.path(&format!("backup{}", backups.len())));
            handles[backups.len() % 2].backup(&dest).unwrap();
            backups.push((before, dest, acknowledged.load(SeqCst)));
        }
        stop.store(true, SeqCst);
    });
    assert!(backups.len() >= 4, "only {} backups were made", backups.len());
    for (before, dest, after) in backups {
        let store = Store::open(&dest).unwrap();
        let report = store.recovery();
        assert!(report.damage.is_empty() && report.torn_bytes == 0 && !report.fresh_segment, "{report:?}");
        let [a, b] = ["a", "b"].map(|thread| history(&store, thread).unwrap());
        // One more than was acknowledged may be visible.
        let shown = (before..=after + 1).find(|&next| {
            let numbers = next.saturating_sub(KEPT as u64)..next;
            a == numbers.clone().map(|number| state_of("a", number)).collect::<Vec<_>>()
                && b == numbers.map(|number| state_of("b", number)).collect::<Vec<_>>()
        });
        assert!(shown.is_some(), "{} and {} states, between {before} and {after}", a.len(), b.len());
    }
}
