//! Reading back what was put, and comparing it with what was read from the source.
//!
//! Of each checkpoint a hash over all that a place keeps of it is held until then, and its time beside that:
//! places differ in how finely they keep times. The order is compared too.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::time::{Duration, SystemTime};

use twox_hash::XxHash3_64;

use super::writer::Written;
use crate::checkpoint::{Attachment, CheckpointId, Metadata, TypeTag};
use crate::checkpointer::Checkpointer;
use crate::error::{Error, ErrorKind, Result};
use crate::query::HistoryQuery;

/// By how much less than this a time may differ.
const TIME_MAX: Duration = Duration::from_millis(1);

/// What is remembered of a checkpoint that was put.
pub(super) struct Print {
    pub id: CheckpointId,
    hash: u64,
    saved_at: Option<SystemTime>,
}

impl Print {
    pub fn of(
        id: &CheckpointId,
        tag: &TypeTag,
        metadata: &Metadata,
        parent: Option<&CheckpointId>,
        state: &[u8],
        saved_at: Option<SystemTime>,
    ) -> Print {
        let mut hasher = XxHash3_64::default();
        (tag, metadata.as_str(), parent, state).hash(&mut hasher);
        Print { id: id.clone(), hash: hasher.finish(), saved_at }
    }

    fn is(&self, other: &Print) -> bool {
        let near = |(one, other): (SystemTime, SystemTime)| {
            one.duration_since(other).or_else(|_| other.duration_since(one)).is_ok_and(|apart| apart < TIME_MAX)
        };
        self.hash == other.hash && self.saved_at.zip(other.saved_at).is_none_or(near)
    }
}

/// The same of an attachment.
pub(super) fn print_of(tag: &TypeTag, value: &[u8]) -> u64 {
    let mut hasher = XxHash3_64::default();
    (tag, value).hash(&mut hasher);
    hasher.finish()
}

/// Reads a thread back, as far as it was written.
pub(super) fn read_back(dest: &dyn Checkpointer, thread: &str, written: &Written) -> Result<()> {
    let mut left = written.puts.iter().rev().peekable();
    if left.peek().is_some() {
        for found in dest.history_bytes(thread, &HistoryQuery::default())? {
            let found = found?;
            let Some(print) = left.next_if(|print| print.id == found.info.id) else { continue };
            let info = &found.info;
            let read = Print::of(&info.id, &info.tag, &info.metadata, info.parent.as_ref(), &found.state, Some(info.saved_at));
            if !print.is(&read) {
                let message = format!("checkpoint {} is read back otherwise than it was put", print.id);
                return Err(Error::new(ErrorKind::Corrupt, message).with_thread(thread));
            }
            if left.peek().is_none() {
                break;
            }
        }
    }
    if let Some(missing) = left.next() {
        return Err(changed(thread, &missing.id, ""));
    }
    let mut read: HashMap<&CheckpointId, Vec<Attachment>> = HashMap::new();
    for (id, key, print) in &written.attached {
        if !read.contains_key(id) {
            read.clear();
            read.insert(id, dest.attachments(thread, id)?);
        }
        let found = read.get(id).into_iter().flatten().find(|attachment| attachment.key == *key);
        if found.is_none_or(|found| print_of(&found.tag, &found.value) != *print) {
            return Err(changed(thread, id, &format!(" with its attachment {key:?}")));
        }
    }
    Ok(())
}

fn changed(thread: &str, id: &CheckpointId, with: &str) -> Error {
    let message = format!("checkpoint {id} is not where it was put{with}: another writer has changed the thread");
    Error::new(ErrorKind::Conflict, message).with_thread(thread)
}
