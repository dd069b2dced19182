//! LangGraph's tables: `checkpoints`, a row for each step of a thread in a namespace, and `writes`, what its
//! tasks had done before the step after it.
//!
//! | ours | the row's |
//! |---|---|
//! | thread | `thread_id` with `checkpoint_ns` (`names::thread`) |
//! | id; order | `checkpoint_id`; byte order of ids, by which LangGraph tells the newest |
//! | parent | `parent_checkpoint_id` |
//! | type, state | `type`, `checkpoint`, as they are; without a type it is `bytes` |
//! | metadata | `metadata`; one that is no JSON object is left behind |
//! | saved_at | the time in an id that is a UUID of version 6, as LangGraph's are; else that of the import |
//! | attachments | its `writes` (`names::key`); also those of a checkpoint that is not there |

mod names;

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use rusqlite::types::ValueRef;
use uuid::{Uuid, Version};

use super::open::Image;
use super::tables::{Rows, row, size};
use super::value::{bytes, name, shown, text};
use crate::batch::nanos_of;
use crate::carry::{Followed, Row, Source, Tally};
use crate::checkpoint::{Attachment, CheckpointId, Metadata, StateBytes, TypeTag, check_thread};
use crate::error::{Error, Result};

pub(super) struct LangGraph<'a> {
    image: &'a Image,
    /// What is asked of a row of writes.
    write_sql: &'static str,
    has_writes: bool,
    rows: Rows,
    writes: Rows,
    now: Thread,
}

/// The thread that is read now.
#[derive(Default)]
struct Thread {
    name: String,
    /// The numbers of its checkpoints' rows.
    rows: HashMap<CheckpointId, i64>,
    /// The numbers of its writes' rows.
    writes: HashMap<CheckpointId, Vec<i64>>,
}

const ROW: &str = "SELECT parent_checkpoint_id, type, checkpoint, metadata FROM checkpoints WHERE rowid = ?1";
const WRITE: &str = "SELECT task_id, idx, channel, '', type, value FROM writes WHERE rowid = ?1";
const WRITE_WITH_PATH: &str = "SELECT task_id, idx, channel, task_path, type, value FROM writes WHERE rowid = ?1";

impl<'a> LangGraph<'a> {
    pub fn new(image: &'a Image, has_paths: bool, has_writes: bool) -> Self {
        let write_sql = if has_paths { WRITE_WITH_PATH } else { WRITE };
        LangGraph { image, write_sql, has_writes, rows: Rows::default(), writes: Rows::default(), now: Thread::default() }
    }

    /// Reads the ids of a thread; what is wrong with them is told to `tally` where there is one.
    fn begin(&mut self, thread: &str, mut tally: Option<&mut Tally<'_>>) -> Result<()> {
        self.now = Thread { name: thread.to_owned(), ..Thread::default() };
        let id_of = |values: &[ValueRef<'_>]| match text("checkpoint_id", values[0]).and_then(CheckpointId::new) {
            Ok(id) => Ok(id),
            Err(error) => Err((shown(values[0]), error)),
        };
        for &number in self.rows.of(thread) {
            let id = row(self.image, "SELECT checkpoint_id FROM checkpoints WHERE rowid = ?1", number, id_of)?;
            let twice = |id: CheckpointId| match self.now.rows.contains_key(&id) {
                true => Err((id.to_string(), Error::invalid("the thread has the id twice"))),
                false => Ok(id),
            };
            match (id.and_then(twice), &mut tally) {
                (Ok(id), _) => drop(self.now.rows.insert(id, number)),
                (Err((id, error)), Some(tally)) => tally.refuse(Some(thread), Some(&id), &error),
                _ => {}
            }
        }
        for &number in self.writes.of(thread) {
            let id = row(self.image, "SELECT checkpoint_id FROM writes WHERE rowid = ?1", number, id_of)?;
            match (id, &mut tally) {
                (Ok(id), _) => self.now.writes.entry(id).or_default().push(number),
                (Err((id, error)), Some(tally)) => tally.leave_attachment(thread, &id, &format!("row {number} of writes"), &error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Goes back to a thread that was read before.
    fn go_to(&mut self, thread: &str) -> Result<()> {
        if self.now.name == thread { Ok(()) } else { self.begin(thread, None) }
    }
}

impl Source for LangGraph<'_> {
    fn size(&mut self) -> Result<u64> {
        size(self.image)
    }

    fn threads(&mut self, tally: &mut Tally<'_>) -> Result<Vec<String>> {
        let sql = "SELECT rowid, thread_id, checkpoint_ns, checkpoint_id FROM checkpoints NOT INDEXED ORDER BY rowid";
        self.rows = Rows::scan(self.image, sql, |_, values| {
            thread_of(values).map_err(|error| tally.refuse(Some(&shown(values[0])), Some(&shown(values[2])), &error)).ok()
        })?;
        let mut threads = self.rows.threads.clone();
        if self.has_writes {
            let sql = "SELECT rowid, thread_id, checkpoint_ns, checkpoint_id FROM writes NOT INDEXED ORDER BY rowid";
            self.writes = Rows::scan(self.image, sql, |number, values| {
                let leave = |error| {
                    let (thread, id) = (shown(values[0]), shown(values[2]));
                    tally.leave_attachment(&thread, &id, &format!("row {number} of writes"), &error);
                };
                thread_of(values).map_err(leave).ok()
            })?;
            threads.extend(self.writes.threads.iter().filter(|thread| self.rows.of(thread).is_empty()).cloned());
        }
        Ok(threads)
    }

    fn max_history(&mut self, _: Option<&str>) -> Result<Option<usize>> {
        super::no_number()
    }

    fn list(&mut self, thread: &str, tally: &mut Tally<'_>) -> Result<Vec<CheckpointId>> {
        self.begin(thread, Some(tally))?;
        let mut ids: Vec<_> = self.now.rows.keys().cloned().collect();
        ids.sort_unstable();
        Ok(ids)
    }

    fn load(&mut self, thread: &str, id: &CheckpointId, tally: &mut Tally<'_>) -> Result<Option<Row>> {
        self.go_to(thread)?;
        let Some(&number) = self.now.rows.get(id) else { return Ok(None) };
        let (rows, id) = (&self.now.rows, id.as_str());
        let loaded = row(self.image, ROW, number, |values| {
            let (tag, state) = (tag_of(values[1])?, bytes("checkpoint", values[2])?);
            let (tag, state) = (tag, StateBytes::from(state.to_vec()));
            let metadata = metadata_of(values[3]).unwrap_or_else(|error| {
                tally.leave_part(thread, id, "metadata", &error);
                Metadata::default()
            });
            let mut leave_parent = |error: Error| tally.leave_part(thread, id, "parent", &error);
            let parent = parent_of(values[0]).unwrap_or_else(|error| {
                leave_parent(error);
                None
            });
            parent.as_ref().and_then(|parent| is_not_before(parent, id, rows)).into_iter().for_each(leave_parent);
            let parent = parent.map_or(Followed::Nothing, Followed::Id);
            Ok(Row { tag, state, metadata, saved_at: time_of(id), parent })
        })?;
        loaded.map(Some).or_else(|error: Error| {
            tally.refuse(Some(thread), Some(id), &error);
            Ok(None)
        })
    }

    fn attachments(&mut self, thread: &str, id: &CheckpointId, tally: &mut Tally<'_>) -> Result<Vec<Attachment>> {
        self.go_to(thread)?;
        let mut attachments: Vec<Attachment> = Vec::new();
        for &number in self.now.writes.get(id).map_or(&[][..], Vec::as_slice) {
            match row(self.image, self.write_sql, number, attachment_of)? {
                Ok(attachment) => attachments.push(attachment),
                Err(error) => tally.leave_attachment(thread, id.as_str(), &format!("row {number} of writes"), &error),
            }
        }
        attachments.sort_by(|one, other| one.key.cmp(&other.key));
        attachments.dedup_by(|second, first| {
            let is_twice = second.key == first.key;
            if is_twice {
                tally.leave_attachment(thread, id.as_str(), &second.key, &Error::invalid("the checkpoint has the write twice"));
            }
            is_twice
        });
        Ok(attachments)
    }

    fn awaited(&mut self, thread: &str, _: &mut Tally<'_>) -> Result<Vec<CheckpointId>> {
        self.go_to(thread)?;
        let mut ids: Vec<_> = self.now.writes.keys().filter(|id| !self.now.rows.contains_key(id)).cloned().collect();
        ids.sort_unstable();
        Ok(ids)
    }
}

/// The thread of a row that begins with `thread_id` and `checkpoint_ns`. Errors: `InvalidInput`.
fn thread_of(values: &[ValueRef<'_>]) -> Result<String> {
    let (thread, namespace) = (text("thread_id", values[0])?, text("checkpoint_ns", values[1])?);
    check_thread(thread)?;
    let thread = names::thread(thread, namespace);
    check_thread(&thread).map(|()| thread)
}

fn tag_of(value: ValueRef<'_>) -> Result<TypeTag> {
    if value == ValueRef::Null { Ok(TypeTag::BYTES) } else { TypeTag::new(text("type", value)?) }
}

fn metadata_of(value: ValueRef<'_>) -> Result<Metadata> {
    if value == ValueRef::Null {
        return Ok(Metadata::default());
    }
    let text = std::str::from_utf8(bytes("metadata", value)?);
    Metadata::from_json(text.map_err(|error| Error::invalid(format!("metadata is not UTF-8: {error}")))?)
}

fn parent_of(value: ValueRef<'_>) -> Result<Option<CheckpointId>> {
    if value == ValueRef::Null { Ok(None) } else { CheckpointId::new(text("parent_checkpoint_id", value)?).map(Some) }
}

/// Why a parent does not stand before its checkpoint in the order of ids.
fn is_not_before(parent: &CheckpointId, id: &str, rows: &HashMap<CheckpointId, i64>) -> Option<Error> {
    match rows.contains_key(parent) {
        false => Some(Error::invalid(format!("{parent} is not there"))),
        true => (parent.as_str() >= id).then(|| Error::invalid(format!("{parent} comes later in the order of ids"))),
    }
}

/// The time in a UUID of version 6, where it can be a label.
fn time_of(id: &str) -> Option<SystemTime> {
    let uuid = Uuid::try_parse(id).ok().filter(|uuid| uuid.get_version() == Some(Version::SortMac))?;
    let (seconds, nanos) = uuid.get_timestamp()?.to_unix();
    let time = SystemTime::UNIX_EPOCH.checked_add(Duration::new(seconds, nanos))?;
    nanos_of(time).ok().map(|_| time)
}

/// An attachment, of a row of [`WRITE`].
fn attachment_of(values: &[ValueRef<'_>]) -> Result<Attachment> {
    let ValueRef::Integer(idx) = values[1] else {
        return Err(Error::invalid(format!("idx is {}, not an integer", name(values[1]))));
    };
    let [task, channel] = [("task_id", values[0]), ("channel", values[2])].map(|(column, value)| text(column, value));
    let path = if values[3] == ValueRef::Null { "" } else { text("task_path", values[3])? };
    let key = names::key(task?, idx, channel?, path);
    Ok(Attachment { key, tag: tag_of(values[4])?, value: bytes("value", values[5])?.to_vec().into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_tells_its_time_where_it_has_one() {
        let time = time_of("1f1ebf06-f817-6f77-bfff-953fa09f76b5").unwrap();
        assert_eq!(nanos_of(time).unwrap() / 1_000_000_000, 1_795_955_332, "2026-11-29T12:28:52Z");
        for id in [
            "shared",
            "00000000-0000-6000-8000-000000000000",
            "01900000-0000-7000-8000-000000000001",
            "ffffffff-ffff-6fff-bfff-ffffffffffff",
        ] {
            assert_eq!(time_of(id), None, "{id}");
        }
    }
}
