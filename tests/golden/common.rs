//! What the golden stores are made with and held against.

use std::time::{Duration, SystemTime};

use taffrail::{CheckpointId, Checkpointer, HistoryQuery, PutOptions, Store, TypeTag};

pub fn at(seconds: u64) -> PutOptions {
    PutOptions::default().saved_at(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
}

pub fn id(text: &str) -> CheckpointId {
    CheckpointId::new(text).unwrap()
}

/// A thread's states, newest first, with their ids.
pub fn states(store: &Store, thread: &str) -> Vec<(String, Vec<u8>)> {
    let items = store.history_bytes(thread, &HistoryQuery::default()).unwrap();
    items.map(|item| item.unwrap()).map(|read| (read.id.to_string(), read.state.to_vec())).collect()
}

/// The state of a step of the threads that all but the whole one are made of: of some hundred bytes, or some thousands.
pub fn state(thread: &str, step: u64) -> Vec<u8> {
    let word = (step + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_string();
    format!("{thread} {step}: {}", word.repeat(1 + 40 * (step % 4) as usize)).into_bytes()
}

/// Puts these steps of a thread.
pub fn put(store: &Store, thread: &str, steps: std::ops::Range<u64>) {
    for step in steps {
        let options = at(step).id(id(&format!("{thread}{step}")));
        store.put_bytes(thread, TypeTag::BYTES, &state(thread, step), options).unwrap();
    }
}

/// Asserts that a thread holds these steps and no more.
pub fn holds(store: &Store, thread: &str, steps: impl DoubleEndedIterator<Item = u64>) {
    let expected: Vec<_> = steps.rev().map(|step| (format!("{thread}{step}"), state(thread, step))).collect();
    let found = states(store, thread);
    assert!(found == expected, "{thread}: {:?}", found.iter().map(|(id, _)| id).collect::<Vec<_>>());
}
