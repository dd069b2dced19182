//! What a place that outlives its handle shows when it is opened again: the same.

use std::time::SystemTime;

use super::probe::{good, id};
use super::{Make, Setup};
use crate::batch::{Batch, Durability, Parent, PutOptions};
use crate::checkpoint::{CheckpointId, Metadata, TypeTag};
use crate::query::ThreadQuery;

cases![a_reopened_place_is_the_same_and_goes_on, an_empty_place_stays_empty];

const THREADS: [&str; 6] = ["plain", "replaced", "trimmed", "a\0/é \n", "made again", "gone"];

/// A place with something of everything: replaced, trimmed, deleted and re-made, in and out of batches.
fn fill(place: &super::Place) {
    for (at, text) in super::values::json_texts().iter().take(4).enumerate() {
        let metadata = good("metadata", Metadata::from_json(format!("{{ \"step\":{at}.0}}")));
        place.put_text_with("plain", text, PutOptions::default().metadata(metadata));
    }
    for (own, parent) in [("a", Parent::Head), ("b", Parent::Root), ("c", Parent::Id(id("a"))), ("d", Parent::Head)] {
        place.put_text_with("replaced", "1", PutOptions::default().id(id(own)).parent(parent).saved_at(SystemTime::UNIX_EPOCH));
    }
    let tag = good("a tag", TypeTag::new("own/tag"));
    good("put again", place.put_bytes("replaced", tag, b"\0\xff", PutOptions::default().id(id("b"))));
    good("delete_checkpoint", place.delete_checkpoint("replaced", &id("d")));
    (0..9).for_each(|step| drop(place.put_text("trimmed", &step.to_string())));
    let mut batch = Batch::new();
    for thread in ["a\0/é \n", "made again", "gone"] {
        batch.put(thread, TypeTag::BYTES, b"", PutOptions::default()).put(thread, TypeTag::JSON, b" 1 ", PutOptions::default());
    }
    batch.delete("made again", None).put("made again", TypeTag::JSON, b"2", PutOptions::default());
    good("commit", place.commit(&batch));
    for durability in [Durability::Sync, Durability::Buffered] {
        place.put_text_with("plain", "\"durable\"", PutOptions::default().durability(durability));
    }
    // The newest seq of all belongs to what is deleted, so it must be remembered and not derived.
    place.put_text("gone", "3");
}

/// Threads, history, ids, seqs, parents, metadata, times and bytes are the same; the next put works
/// and has a higher seq than any before. Five times over.
pub fn a_reopened_place_is_the_same_and_goes_on(make: Make<'_>) {
    let mut place = make(Setup { max_history: Some(4) });
    fill(&place);
    let mut last_seq = place.newest("gone").seq;
    good("delete", place.delete("gone"));
    for round in 0..5 {
        let before = place.picture(&THREADS);
        assert!(before[5].is_empty() && before[..5].iter().all(|thread| !thread.is_empty()), "{before:?}");
        let has = place.capabilities();
        let infos = has.list_threads.then(|| place.thread_infos(&ThreadQuery::default()));
        if !place.reopen() {
            return;
        }
        assert_eq!(place.picture(&THREADS), before, "round {round}");
        assert_eq!(place.capabilities(), has);
        assert_eq!(has.list_threads.then(|| place.thread_infos(&ThreadQuery::default())), infos);
        let heads: Vec<Option<CheckpointId>> = before.iter().map(|thread| thread.first().map(|head| head.id.clone())).collect();
        for (thread, head) in THREADS.iter().zip(heads).take(2 + round) {
            let own = place.put_text(thread, &format!("\"round {round}\""));
            let newest = place.newest(thread);
            assert!(newest.id == own && newest.parent == head, "{newest:?} should follow {head:?}");
            assert!(newest.seq > last_seq, "{newest:?} after {last_seq}");
            last_seq = newest.seq;
        }
        good("delete", place.delete("gone"));
    }
}

/// Opened, closed and opened again without a put, and after all was deleted.
pub fn an_empty_place_stays_empty(make: Make<'_>) {
    let mut place = make(Setup::default());
    for _ in 0..3 {
        assert!(place.audit("t").is_empty());
        if place.capabilities().list_threads {
            assert!(place.thread_ids(&ThreadQuery::default()).is_empty());
        }
        if !place.reopen() {
            return;
        }
        place.reopen();
        place.put_text("t", "1");
        good("delete", place.delete("t"));
        place.reopen();
    }
}
