//! What is asked of a place in one go: operations that take effect together, and their results.
//!
//! A batch borrows what it carries. [`Batch::check`] is the door: every backend calls it first, so
//! ids, sizes and JSON are judged the same everywhere. Nothing here knows a backend.

#[cfg(feature = "tokio")]
mod owned;

use std::time::{Duration, SystemTime};

#[cfg(feature = "tokio")]
pub(crate) use self::owned::OwnedBatch;
use crate::checkpoint::{self, CheckpointId, Metadata, TypeTag};
use crate::error::{Error, ErrorKind, Result};
use crate::json;

/// The longest attachment key, in bytes.
pub const KEY_BYTES_MAX: usize = 1024;

/// What the thread's newest checkpoint must be for a put to be made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ExpectedHead {
    /// Whatever it is.
    #[default]
    Any,
    /// The thread must not exist.
    Empty,
    /// It must be this one, else `Conflict`.
    Id(CheckpointId),
}

impl ExpectedHead {
    /// Compares it with the thread's head. Errors: `Conflict`.
    pub(crate) fn check(&self, head: Option<&CheckpointId>) -> Result<()> {
        let expected = match self {
            ExpectedHead::Any => return Ok(()),
            ExpectedHead::Empty if head.is_none() => return Ok(()),
            ExpectedHead::Id(id) if head == Some(id) => return Ok(()),
            ExpectedHead::Empty => "an empty thread".to_owned(),
            ExpectedHead::Id(id) => id.to_string(),
        };
        let stands = head.map_or_else(|| "the thread is empty".to_owned(), |id| format!("the head is {id}"));
        Err(Error::new(ErrorKind::Conflict, format!("another writer moved the thread: {stands}, {expected} was expected")))
    }
}

/// What a checkpoint says it followed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Parent {
    /// The thread's newest checkpoint when the put is made.
    #[default]
    Head,
    /// None: it begins anew.
    Root,
    /// This one, which must be in the thread, else `NotFound`.
    Id(CheckpointId),
}

impl Parent {
    /// The parent that is meant, in a thread with that head. Errors: `NotFound`.
    pub(crate) fn find(&self, head: Option<&CheckpointId>, is_there: impl FnOnce(&CheckpointId) -> bool) -> Result<Option<CheckpointId>> {
        match self {
            Parent::Head => Ok(head.cloned()),
            Parent::Root => Ok(None),
            Parent::Id(id) if is_there(id) => Ok(Some(id.clone())),
            Parent::Id(id) => Err(Error::new(ErrorKind::NotFound, format!("the parent {id} is not in the thread; nothing was written"))),
        }
    }
}

/// What a put that returned has survived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// On the device: survives power loss.
    #[default]
    Sync,
    /// With the operating system: survives the death of the process, not of the machine.
    Buffered,
}

/// What happens to a value that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnExisting {
    /// The first one stays.
    Keep,
    /// The last one wins.
    Replace,
}

/// How one put is to be made; the default is a fresh id, parent the head, no condition.
///
/// ```
/// use taffrail::{CheckpointId, PutOptions};
/// let options = PutOptions::default().id(CheckpointId::new("step-1")?);
/// # Ok::<(), taffrail::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PutOptions {
    /// The caller's own id; by default a fresh one. An id that the thread has is replaced in place.
    pub id: Option<CheckpointId>,
    /// What it followed.
    pub parent: Parent,
    /// The condition on the thread's head.
    pub expected_head: ExpectedHead,
    /// A small JSON object kept beside the state.
    pub metadata: Metadata,
    /// The time to label it with; by default the clock's.
    pub saved_at: Option<SystemTime>,
    /// How durable; by default as the store was opened.
    pub durability: Option<Durability>,
}

impl PutOptions {
    /// Sets the caller's own id.
    pub fn id(mut self, id: CheckpointId) -> Self {
        self.id = Some(id);
        self
    }

    /// Sets what it followed.
    pub fn parent(mut self, parent: Parent) -> Self {
        self.parent = parent;
        self
    }

    /// Sets the condition on the thread's head.
    pub fn expected_head(mut self, head: ExpectedHead) -> Self {
        self.expected_head = head;
        self
    }

    /// Sets the metadata.
    pub fn metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }

    /// Sets the time to label it with.
    pub fn saved_at(mut self, time: SystemTime) -> Self {
        self.saved_at = Some(time);
        self
    }

    /// Sets how durable.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }
}

/// One thing a batch does.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Operation<'a> {
    /// Puts a state.
    Put {
        /// The thread.
        thread: &'a str,
        /// What the bytes are.
        tag: TypeTag,
        /// The bytes.
        state: &'a [u8],
        /// How.
        options: PutOptions,
    },
    /// Attaches a keyed value to a checkpoint.
    Attach {
        /// The thread.
        thread: &'a str,
        /// The checkpoint, which may come later.
        id: CheckpointId,
        /// The key.
        key: &'a str,
        /// What the value is.
        tag: TypeTag,
        /// The value.
        value: &'a [u8],
        /// If the key is there already.
        on: OnExisting,
    },
    /// Deletes a thread, or one checkpoint of it.
    Delete {
        /// The thread.
        thread: &'a str,
        /// The checkpoint; None for the whole thread.
        id: Option<CheckpointId>,
    },
}

/// Operations that take effect together: all or nothing, one sync.
///
/// ```
/// use taffrail::prelude::*;
/// use taffrail::{Batch, MemoryCheckpointer, PutOptions, TypeTag};
/// let place = MemoryCheckpointer::new();
/// let mut batch = Batch::new();
/// batch.put("a", TypeTag::JSON, b"1", PutOptions::default()).put("b", TypeTag::JSON, b"2", PutOptions::default());
/// place.commit(&batch)?;
/// assert_eq!(place.threads()?, ["a", "b"]);
/// # Ok::<(), taffrail::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Batch<'a> {
    operations: Vec<Operation<'a>>,
    /// The states were serialised by us and need no second look at their grammar.
    serialised: bool,
}

impl<'a> Batch<'a> {
    /// An empty batch; committing it does nothing.
    pub fn new() -> Self {
        Batch::default()
    }

    /// A batch of one state that [`json::to_text`] has just written.
    pub(crate) fn of_serialised(thread: &'a str, text: &'a [u8], options: PutOptions) -> Self {
        let operations = vec![Operation::Put { thread, tag: TypeTag::JSON, state: text, options }];
        Batch { operations, serialised: true }
    }

    /// Adds a put.
    pub fn put(&mut self, thread: &'a str, tag: TypeTag, state: &'a [u8], options: PutOptions) -> &mut Self {
        self.serialised = false;
        self.operations.push(Operation::Put { thread, tag, state, options });
        self
    }

    /// Adds an attachment.
    pub fn attach(&mut self, thread: &'a str, id: CheckpointId, key: &'a str, tag: TypeTag, value: &'a [u8], on: OnExisting) -> &mut Self {
        self.operations.push(Operation::Attach { thread, id, key, tag, value, on });
        self
    }

    /// Adds the deletion of a thread, or of one checkpoint.
    pub fn delete(&mut self, thread: &'a str, id: Option<CheckpointId>) -> &mut Self {
        self.operations.push(Operation::Delete { thread, id });
        self
    }

    /// The operations, in order.
    pub fn operations(&self) -> &[Operation<'a>] {
        &self.operations
    }

    /// Checks every thread id, key, size, time and JSON text; a backend calls it before all else.
    ///
    /// Errors: `InvalidInput`; `TooLarge` for a state or value over `state_bytes_max`.
    pub fn check(&self, state_bytes_max: u64) -> Result<()> {
        for operation in &self.operations {
            let (thread, checked) = match operation {
                Operation::Put { thread, tag, state, options } => (thread, self.check_put(tag, state, options, state_bytes_max)),
                Operation::Attach { thread, key, tag, value, .. } => {
                    (thread, check_key(key).and_then(|()| check_bytes(tag, value, state_bytes_max)))
                }
                Operation::Delete { thread, .. } => (thread, Ok(())),
            };
            checkpoint::check_thread(thread)?;
            checked.map_err(|error| error.with_thread(thread))?;
        }
        Ok(())
    }

    fn check_put(&self, tag: &TypeTag, state: &[u8], options: &PutOptions, state_bytes_max: u64) -> Result<()> {
        if let Some(time) = options.saved_at {
            nanos_of(time)?;
        }
        if self.serialised { check_size(state, state_bytes_max) } else { check_bytes(tag, state, state_bytes_max) }
    }
}

/// What a batch's operation did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Committed {
    /// The checkpoint's id.
    Put(CheckpointId),
    /// Whether the value was written (an earlier one may have been kept).
    Attached {
        /// True if this value is the one that stands.
        written: bool,
    },
    /// Whether there was something to delete.
    Deleted {
        /// True if it was there.
        existed: bool,
    },
}

fn check_size(bytes: &[u8], bytes_max: u64) -> Result<()> {
    if bytes.len() as u64 > bytes_max {
        let message = format!("{} bytes are more than the limit of {bytes_max}; nothing was written", bytes.len());
        return Err(Error::new(ErrorKind::TooLarge, message));
    }
    Ok(())
}

fn check_bytes(tag: &TypeTag, bytes: &[u8], bytes_max: u64) -> Result<()> {
    check_size(bytes, bytes_max)?;
    if *tag == TypeTag::JSON { json::check(bytes) } else { Ok(()) }
}

fn check_key(key: &str) -> Result<()> {
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        return Err(Error::invalid(format!("an attachment key has 1 to {KEY_BYTES_MAX} bytes, this one has {}", key.len())));
    }
    Ok(())
}

/// A time as nanoseconds from 1970, which reach from 1677 to 2262; else `InvalidInput`.
pub(crate) fn nanos_of(time: SystemTime) -> Result<i64> {
    let nanos = match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_nanos()),
        Err(before) => i64::try_from(-(before.duration().as_nanos() as i128)),
    };
    nanos.map_err(|_| Error::invalid("saved_at is outside the years 1677 to 2262"))
}

/// The clock as nanoseconds from 1970; one that is out of that range, which only labels, is cut to it.
pub(crate) fn nanos_of_clock(now: SystemTime) -> i64 {
    nanos_of(now).unwrap_or(if now < SystemTime::UNIX_EPOCH { i64::MIN + 1 } else { i64::MAX })
}

/// The time of [`nanos_of`].
pub(crate) fn time_of(nanos: i64) -> SystemTime {
    let distance = Duration::from_nanos(nanos.unsigned_abs());
    if nanos >= 0 { SystemTime::UNIX_EPOCH + distance } else { SystemTime::UNIX_EPOCH - distance }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_and_after_1970_come_back() {
        for nanos in [0, 1, -1, i64::MAX, i64::MIN + 1, 4_102_444_800_000_000_000] {
            assert_eq!(nanos_of(time_of(nanos)).unwrap(), nanos);
        }
        let far = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 40);
        assert_eq!(nanos_of(far).unwrap_err().kind(), ErrorKind::InvalidInput);
    }

    #[test]
    fn the_door_refuses_and_names_the_thread() {
        let mut batch = Batch::new();
        batch.put("t", TypeTag::JSON, b"{", PutOptions::default());
        assert_eq!(batch.check(10).unwrap_err().thread(), Some("t"));
        let mut batch = Batch::new();
        batch.put("t", TypeTag::BYTES, b"{", PutOptions::default());
        assert!(batch.check(1).is_ok());
        assert_eq!(batch.check(0).unwrap_err().kind(), ErrorKind::TooLarge);
        let mut batch = Batch::new();
        batch.delete("", None);
        assert_eq!(batch.check(0).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}
