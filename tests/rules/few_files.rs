//! A store of 500 segments in a process that may have 64 files open at once: reading, writing,
//! compacting and verifying keep none of them open but the newest.

use std::path::Path;
use std::process::Command;

use taffrail::{Checkpointer, Durability, PutOptions, Store, TypeTag};

use crate::scratch::{Expected, Scratch, segments, state};

const DIR: &str = "TAFFRAIL_TEST_FEW_FILES";
const THREADS: u64 = 40;
const STEPS: u64 = 52;

fn thread(number: u64) -> String {
    format!("t{number}")
}

/// Runs where few files may be open.
#[test]
fn with_few_files() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let dir = Path::new(&dir);
    let mut expected = Expected::default();
    for step in 0..STEPS {
        (0..THREADS).for_each(|number| expected.note(&thread(number), state(&thread(number), step, 12_000)));
    }
    let open = || Store::options().segment_bytes(64 << 10).auto_compaction(false).open(dir).unwrap();
    let (store, reader) = (open(), Store::options().read_only(true).open(dir).unwrap());
    assert!(store.stats().unwrap().segments >= 500);
    expected.is_all_of(&store, "as it was");
    for number in 0..40 {
        expected.put(&store, "new", state("new", number, 12_000));
    }
    assert!(store.verify().unwrap().is_empty());
    for number in 0..THREADS / 2 {
        assert!(store.delete(&thread(number * 2)).unwrap());
        expected.0.remove(&thread(number * 2));
    }
    let done = store.compact().unwrap();
    assert!(done.segments >= 500, "{done:?}");
    for store in [&store, &reader, &open()] {
        expected.is_all_of(store, "compacted");
    }
    drop(store);
    expected.is_all_of(&open(), "opened again");
    println!("few files: done");
}

#[test]
fn five_hundred_segments_need_no_more_than_64_files() {
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    let options = Store::options().segment_bytes(64 << 10).max_history(None).durability(Durability::Buffered);
    let store = options.auto_compaction(false).open(&dir).unwrap();
    for step in 0..STEPS {
        for number in 0..THREADS {
            let state = state(&thread(number), step, 12_000);
            store.put_bytes(&thread(number), TypeTag::BYTES, &state, PutOptions::default()).unwrap();
        }
    }
    drop(store);
    assert!(segments(&dir).len() >= 500);
    let script = "ulimit -n 64 && exec \"$0\" --exact few_files::with_few_files --nocapture";
    let output = Command::new("sh").args(["-c", script]).arg(std::env::current_exe().unwrap()).env(DIR, &dir).output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("few files: done"), "{text}");
}
