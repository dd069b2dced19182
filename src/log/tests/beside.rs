//! What happens beside a writer: readers, puts of a worker that panics, and answers that rest on a
//! step which is not yet synced.

use std::sync::Arc;

use super::Scratch;
use crate::batch::{Batch, ExpectedHead, PutOptions};
use crate::checkpoint::TypeTag;
use crate::checkpointer::Checkpointer;
use crate::error::{ErrorKind, Result};
use crate::fs::os::Os;
use crate::log::Store;
use crate::log::encode::Form;
use crate::log::index::Index;
use crate::log::plan::{Plan, Prepared, Terms, names};
use crate::options::Compression;

fn put(store: &Store, length: usize) -> Result<()> {
    store.put_bytes("t", TypeTag::BYTES, &vec![7; length], PutOptions::default()).map(drop)
}

#[test]
fn a_put_while_unwinding_is_a_put() {
    struct SavesWhenDropped(Store);
    impl Drop for SavesWhenDropped {
        fn drop(&mut self) {
            // What it answers is told by the reads below: a panic in here would end the process.
            let _ = put(&self.0, 8);
        }
    }
    let scratch = Scratch::new();
    let store = Store::open(scratch.dir()).unwrap();
    let last_words = SavesWhenDropped(store.clone());
    let agent = std::thread::spawn(move || {
        let _last_words = last_words;
        std::panic::resume_unwind(Box::new("the agent fails"));
    });
    assert!(agent.join().is_err());
    assert!(store.exists("t").unwrap());
    put(&store, 9).unwrap();
}

#[test]
fn a_reader_counts_the_dead_bytes_that_the_writer_counts() {
    let scratch = Scratch::new();
    let store = Store::open(scratch.dir()).unwrap();
    put(&store, 1000).unwrap();
    store.delete("t").unwrap();
    let reader = Store::options().read_only(true).open(scratch.dir()).unwrap();
    assert!(store.stats().unwrap().dead_bytes > 1000);
    assert_eq!(reader.stats().unwrap().dead_bytes, store.stats().unwrap().dead_bytes);
}

#[test]
fn what_a_store_counts_of_itself_is_what_lies_there() {
    let scratch = Scratch::new();
    let store = Store::open(scratch.dir()).unwrap();
    for (thread, length) in [("a", 1000), ("a", 10), ("b", 300), ("c", 1)] {
        store.put_bytes(thread, TypeTag::BYTES, &vec![7; length], PutOptions::default()).unwrap();
    }
    // A folder counts nothing.
    std::fs::create_dir(scratch.dir().join("quarantine")).unwrap();
    let stats = store.stats().unwrap();
    assert_eq!((stats.threads, stats.checkpoints, stats.logical_bytes, stats.segments), (3, 4, 1311, 1));
    let files = std::fs::read_dir(scratch.dir()).unwrap().map(|entry| entry.unwrap().metadata().unwrap());
    assert_eq!(stats.disk_bytes, files.filter(|file| file.is_file()).map(|file| file.len()).sum::<u64>());
}

#[test]
fn an_empty_state_is_no_mark() {
    let (index, terms) = (Index::default(), Terms { segment: 1, start: 72, next_seq: 1, keep: None, is_whole: true });
    let mut batch = Batch::new();
    batch.put("t", TypeTag::BYTES, b"", PutOptions::default());
    let names = names(&batch, &Os).unwrap();
    let prepared = Prepared::new(&batch, &names, vec![Form::whole(b"", 0, Compression::Never)], &[]);
    let mut plan = Plan::new(&index, Arc::default(), terms);
    plan.batch(&prepared).unwrap();
    assert!(!plan.without_payload());
}

#[test]
fn a_conflict_is_answered_when_the_step_it_rests_on_is_kept() {
    let scratch = Scratch::new();
    let store = Store::options().segment_bytes(64 * 1024).open(scratch.dir()).unwrap();
    for (thread, length) in [("small", 30), ("large", 30_000)] {
        let shared = &store.shared;
        // A step of a worker that is between its turn and its sync.
        let mut batch = Batch::new();
        batch.put(thread, TypeTag::BYTES, b"x", PutOptions::default());
        let names = names(&batch, &Os).unwrap();
        let prepared = Prepared::new(&batch, &names, shared.forms(&batch, true), &[]);
        let mut turn = shared.turn().unwrap();
        let mut plan = Plan::new(&shared.index, shared.segments.load_full(), turn.terms(shared));
        plan.batch(&prepared).unwrap();
        let (_, end) = turn.append(shared, &plan).unwrap();
        shared.follower.reading().appended(&turn.active, shared.tail.next_seq() - 1);
        shared.index.append(end, shared.tail.next_seq() - 1, plan.changes.into_list());
        shared.tail.raise_appended(end);
        drop(turn);
        let asked = PutOptions::default().expected_head(ExpectedHead::Empty);
        let error = store.put_bytes(thread, TypeTag::BYTES, &vec![1; length], asked).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert_eq!(shared.tail.synced(), end, "{thread}");
    }
}
