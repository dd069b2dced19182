//! Searches meet damage where they read it, and nowhere else; deltas are searched as the states they are.

use std::fs;
use std::os::unix::fs::FileExt;

use super::Scratch;
use crate::batch::{Batch, PutOptions};
use crate::checkpoint::{CheckpointId, Metadata, TypeTag};
use crate::checkpointer::Checkpointer;
use crate::error::ErrorKind;
use crate::log::Store;
use crate::query::FindQuery;
use crate::testing::states::noise;

/// What is found, newest first, and how it ends.
fn found(store: &Store, query: &FindQuery) -> (String, Option<ErrorKind>) {
    let (mut ids, mut end) = (Vec::new(), None);
    for item in store.find(query).unwrap() {
        assert_eq!(end, None, "it ends after an error");
        match item {
            Ok(info) => ids.push(info.id.to_string()),
            Err(error) => end = Some(error.kind()),
        }
    }
    (ids.join(" "), end)
}

fn about(metadata: &str) -> FindQuery {
    FindQuery { metadata_json: vec![(metadata.to_owned(), "true".to_owned())], ..FindQuery::default() }
}

#[test]
fn damage_is_met_where_it_is_read() {
    let scratch = Scratch::new();
    let store = Store::open(scratch.dir()).unwrap();
    for (id, state) in [("s0", "needle zero"), ("s1", "needle one"), ("s2", "needle two"), ("s3", "needle three")] {
        let metadata = Metadata::from_json(format!("{{\"{id} is meant\":true,\"all\":true}}")).unwrap();
        let options = PutOptions::default().id(CheckpointId::new(id).unwrap()).metadata(metadata);
        store.put_bytes("t", TypeTag::BYTES, state.as_bytes(), options).unwrap();
    }
    store.close().unwrap();
    let damage = |needle: &str| {
        // In its place: the file is mapped.
        let path = scratch.dir().join("0000000000000001.seg");
        let bytes = fs::read(&path).unwrap();
        let at = bytes.windows(needle.len()).position(|window| window == needle.as_bytes()).unwrap();
        fs::OpenOptions::new().write(true).open(path).unwrap().write_all_at(&[bytes[at] ^ 1], at as u64).unwrap();
    };
    damage("needle one");
    let store = Store::open(scratch.dir()).unwrap();
    let needle = FindQuery { text: Some("needle".to_owned()), ..FindQuery::default() };
    assert_eq!(found(&store, &needle), ("s3 s2".to_owned(), Some(ErrorKind::Corrupt)));
    assert_eq!(found(&store, &FindQuery { limit: Some(2), ..needle.clone() }), ("s3 s2".to_owned(), None));
    assert_eq!(found(&store, &about("all")), ("s3 s2 s1 s0".to_owned(), None), "no state is read");
    assert_eq!(found(&store, &FindQuery { text: needle.text.clone(), ..about("s0 is meant") }), ("s0".to_owned(), None));
    // A record that was damaged before the opening would not be there: this one is met by the search.
    damage("s2 is meant");
    assert_eq!(found(&store, &about("all")), ("s3".to_owned(), Some(ErrorKind::Corrupt)));
}

#[test]
fn threads_of_deltas_that_take_turns_are_searched_whole() {
    const THREADS: usize = 7;
    let scratch = Scratch::new();
    let store = Store::options().max_history(None).open(scratch.dir()).unwrap();
    let (mut states, mut wanted) = (vec![noise(3, 5000); THREADS], Vec::new());
    let names: Vec<String> = (0..THREADS).map(|thread| format!("t{thread}")).collect();
    for step in 0..140 {
        let (state, name) = (&mut states[step % THREADS], &names[step % THREADS]);
        let mark = format!("<mark {step}>");
        state.extend(mark.as_bytes());
        let id = CheckpointId::new(format!("s{step}")).unwrap();
        let mut batch = Batch::new();
        batch.put(name, TypeTag::BYTES, state, PutOptions::default().id(id));
        store.commit(&batch).unwrap();
        if step % THREADS == 3 && step >= 3 + 4 * THREADS {
            wanted.push(format!("s{step}"));
        }
    }
    assert!(store.stats().unwrap().deltas > 100);
    wanted.reverse();
    // What the fifth state of one thread brought all later ones of it have, and no other thread's.
    let query = FindQuery { substring: Some(format!("<mark {}>", 3 + 4 * THREADS)), ..FindQuery::default() };
    assert_eq!(found(&store, &query), (wanted.join(" "), None));
    store.close().unwrap();
    assert_eq!(found(&Store::options().cache_bytes(0).mmap(false).open(scratch.dir()).unwrap(), &query), (wanted.join(" "), None));
}
