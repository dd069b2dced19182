//! A batch that owns what it carries, for a call that outlives who asked for it.
//!
//! It is a copy, and gives back a batch that borrows from it: places know only the borrowed form.

use super::{Batch, OnExisting, Operation, PutOptions};
use crate::checkpoint::{CheckpointId, TypeTag};

/// The operations of a [`Batch`], with their own bytes.
pub(crate) struct OwnedBatch {
    operations: Vec<Owned>,
    serialised: bool,
}

enum Owned {
    Put { thread: String, tag: TypeTag, state: Vec<u8>, options: PutOptions },
    Attach { thread: String, id: CheckpointId, key: String, tag: TypeTag, value: Vec<u8>, on: OnExisting },
    Delete { thread: String, id: Option<CheckpointId> },
}

impl OwnedBatch {
    /// One state, moved in.
    pub fn put(thread: &str, tag: TypeTag, state: Vec<u8>, options: PutOptions) -> Self {
        OwnedBatch { operations: vec![Owned::Put { thread: thread.to_owned(), tag, state, options }], serialised: false }
    }

    /// One state that [`crate::json::to_text`] has just written.
    pub fn of_serialised(thread: &str, text: Vec<u8>, options: PutOptions) -> Self {
        OwnedBatch { serialised: true, ..OwnedBatch::put(thread, TypeTag::JSON, text, options) }
    }

    /// The batch again, to be committed.
    pub fn borrow(&self) -> Batch<'_> {
        let operations = self.operations.iter().map(Owned::borrow).collect();
        Batch { operations, serialised: self.serialised }
    }
}

impl From<&Batch<'_>> for OwnedBatch {
    fn from(batch: &Batch<'_>) -> Self {
        OwnedBatch { operations: batch.operations.iter().map(Owned::of).collect(), serialised: batch.serialised }
    }
}

impl Owned {
    fn of(operation: &Operation<'_>) -> Self {
        match operation.clone() {
            Operation::Put { thread, tag, state, options } => Owned::Put { thread: thread.to_owned(), tag, state: state.to_vec(), options },
            Operation::Attach { thread, id, key, tag, value, on } => {
                Owned::Attach { thread: thread.to_owned(), id, key: key.to_owned(), tag, value: value.to_vec(), on }
            }
            Operation::Delete { thread, id } => Owned::Delete { thread: thread.to_owned(), id },
        }
    }

    fn borrow(&self) -> Operation<'_> {
        match self {
            Owned::Put { thread, tag, state, options } => Operation::Put { thread, tag: tag.clone(), state, options: options.clone() },
            Owned::Attach { thread, id, key, tag, value, on } => {
                Operation::Attach { thread, id: id.clone(), key, tag: tag.clone(), value, on: *on }
            }
            Owned::Delete { thread, id } => Operation::Delete { thread, id: id.clone() },
        }
    }
}
