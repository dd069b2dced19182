//! What operations do to the tables. Each function works within a transaction of the caller's.
//!
//! The meaning of each operation is that of `backend/threads`, which the conformance suite holds both to.
//! Rows are numbered by SQLite and no number is given twice, so a row's number is its seq. Deleting a row takes
//! along what is ours of it (the triggers in `schema`).

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;
use std::time::SystemTime;

use rusqlite::{Connection, OptionalExtension};

use super::failure::Outcome;
use super::proof::{self, Known};
use super::rows::{self, Page, keep_value};
use super::schema::UNNUMBERED;
use crate::batch::{Batch, Committed, OnExisting, Operation, Parent, PutOptions, nanos_of};
use crate::checkpoint::{CheckpointId, CheckpointInfo, Metadata, TypeTag};
use crate::error::{Error, ErrorKind};
use crate::query::{VacuumQuery, Vacuumed, Verdict};

/// A state to be put.
pub(super) struct State<'a> {
    pub tag: &'a TypeTag,
    pub bytes: &'a [u8],
    pub saved_at: SystemTime,
    pub metadata: &'a Metadata,
}

/// Carries out a batch; `now` labels what has no time of its own.
pub(super) fn commit(connection: &Connection, batch: &Batch<'_>, now: SystemTime) -> Outcome<Vec<Committed>> {
    let touched: BTreeSet<&str> = batch.operations().iter().map(thread_of).collect();
    // Windlass may have deleted rows since: what went with these does not come back by this batch.
    touched.iter().try_for_each(|thread| drop_orphans(connection, thread))?;
    let done: Outcome<Vec<Committed>> = batch.operations().iter().map(|operation| apply(connection, operation, now)).collect();
    let done = done?;
    touched.iter().try_for_each(|thread| settle(connection, thread))?;
    Ok(done)
}

fn thread_of<'a>(operation: &Operation<'a>) -> &'a str {
    match operation {
        Operation::Put { thread, .. } | Operation::Attach { thread, .. } | Operation::Delete { thread, .. } => thread,
    }
}

fn apply(connection: &Connection, operation: &Operation<'_>, now: SystemTime) -> Outcome<Committed> {
    match operation {
        Operation::Put { thread, tag, state, options } => {
            let saved_at = options.saved_at.unwrap_or(now);
            put(connection, thread, &State { tag, bytes: state, saved_at, metadata: &options.metadata }, options).map(Committed::Put)
        }
        Operation::Attach { thread, id, key, tag, value, on } => {
            Ok(Committed::Attached { written: attach(connection, thread, id, (key, tag, value), *on)? })
        }
        Operation::Delete { thread, id: None } => Ok(Committed::Deleted { existed: delete_thread(connection, thread)? }),
        Operation::Delete { thread, id: Some(id) } => Ok(Committed::Deleted { existed: delete(connection, thread, id)? }),
    }
}

/// Attaches a key's value of that type; answers whether it was written.
pub(super) fn attach(
    connection: &Connection,
    thread: &str,
    id: &CheckpointId,
    (key, tag, value): (&str, &TypeTag, &[u8]),
    on: OnExisting,
) -> Outcome<bool> {
    let existing = match on {
        OnExisting::Keep => "DO NOTHING",
        OnExisting::Replace => "DO UPDATE SET after = excluded.after, tag = excluded.tag, proof = excluded.proof, value = excluded.value",
    };
    let sql = format!(
        "INSERT INTO taffrail_attachments (thread, name, key, after, tag, proof, value) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
        ON CONFLICT (thread, name, key) {existing}"
    );
    let proof = proof::of_attachment(thread, id.as_str(), key, tag.as_str(), value);
    let values = (thread, id.as_str(), key, UNNUMBERED, tag.as_str(), proof, value);
    Ok(connection.prepare_cached(&sql)?.execute(values)? > 0)
}

fn put(connection: &Connection, thread: &str, state: &State<'_>, options: &PutOptions) -> Outcome<CheckpointId> {
    let name: Arc<str> = thread.into();
    let head = Page::newest().info(connection, &name)?.map(|info| info.id);
    let is_there = match &options.parent {
        Parent::Id(id) => rows::find(connection, thread, id)?.is_some(),
        _ => false,
    };
    let checked = options.expected_head.check(head.as_ref()).and_then(|()| options.parent.find(head.as_ref(), |_| is_there));
    let parent = checked.map_err(|error| error.with_thread(thread))?;
    let id = options.id.clone().unwrap_or_else(CheckpointId::fresh);
    let existing = match &options.id {
        Some(id) => rows::find(connection, thread, id)?,
        None => None,
    };
    let replaced = match existing {
        Some(row) => Page::one(row).info(connection, &name)?,
        None => None,
    };
    write(connection, thread, &id, parent, state, replaced)?;
    trim(connection, thread, keep_of(connection, thread)?)?;
    Ok(id)
}

/// Writes a checkpoint's rows, at the end of its thread or over those that have its id: then number, place
/// and parent stay.
pub(super) fn write(
    connection: &Connection,
    thread: &str,
    id: &CheckpointId,
    parent: Option<CheckpointId>,
    state: &State<'_>,
    replaced: Option<CheckpointInfo>,
) -> Outcome<()> {
    // Windlass reads JSON: what is none it is told of, and has the bytes beside.
    let json = std::str::from_utf8(state.bytes).ok().filter(|_| *state.tag == TypeTag::JSON);
    let told = json.is_none().then(|| rows::told_of(state.bytes));
    let (text, data) = (json.or(told.as_deref()), json.is_none().then_some(state.bytes));
    let seconds = rows::seconds(state.saved_at)?;
    let (row, parent) = match replaced {
        Some(CheckpointInfo { seq, parent, .. }) => {
            let update = "UPDATE checkpoints SET state = ?2, saved_at = ?3 WHERE id = ?1";
            connection.prepare_cached(update)?.execute((seq.cast_signed(), text, seconds))?;
            (seq.cast_signed(), parent)
        }
        None => {
            let insert = "INSERT INTO checkpoints (thread_id, state, saved_at) VALUES (?1, ?2, ?3)";
            let row = connection.prepare_cached(insert)?.insert((thread, text, seconds))?;
            (row, parent)
        }
    };
    let known = Known {
        row,
        thread,
        id: id.as_str(),
        parent: parent.as_ref().map(CheckpointId::as_str),
        nanos: nanos_of(state.saved_at)?,
        tag: state.tag.as_str(),
        metadata: state.metadata.to_stored(),
        hash: proof::hash(state.bytes),
    };
    // The trigger for windlass' rows may have named this one already.
    let ours = "INSERT INTO taffrail_checkpoints (id, thread, name, parent, saved_at, tag, metadata, hash, proof, data)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
        ON CONFLICT (id) DO UPDATE SET name = excluded.name, parent = excluded.parent, saved_at = excluded.saved_at,
        tag = excluded.tag, metadata = excluded.metadata, hash = excluded.hash, proof = excluded.proof, data = excluded.data";
    let Known { id, parent, nanos, tag, metadata, hash, .. } = known;
    let values = (row, thread, id, parent, nanos, tag, metadata, hash, known.proof(), data);
    connection.prepare_cached(ours)?.execute(values)?;
    Ok(())
}

pub(super) fn delete_thread(connection: &Connection, thread: &str) -> Outcome<bool> {
    let existed = connection.prepare_cached("DELETE FROM checkpoints WHERE thread_id = ?1")?.execute([thread])? > 0;
    connection.prepare_cached("DELETE FROM taffrail_attachments WHERE thread = ?1")?.execute([thread])?;
    Ok(existed)
}

fn delete(connection: &Connection, thread: &str, id: &CheckpointId) -> Outcome<bool> {
    let existing = rows::find(connection, thread, id)?;
    match existing {
        Some(row) => {
            connection.prepare_cached("DELETE FROM checkpoints WHERE id = ?1")?.execute([row])?;
            // The last one ends the thread, with all that is attached.
            let waiting = "DELETE FROM taffrail_attachments WHERE thread = ?1
                AND NOT EXISTS (SELECT 1 FROM checkpoints WHERE thread_id = ?1)";
            connection.prepare_cached(waiting)?.execute([thread])?
        }
        None => {
            connection.prepare_cached("DELETE FROM taffrail_attachments WHERE thread = ?1 AND name = ?2")?.execute((thread, id.as_str()))?
        }
    };
    Ok(existing.is_some())
}

/// How many checkpoints a thread keeps: its own number, or else the place's.
pub(super) fn keep_of(connection: &Connection, thread: &str) -> Outcome<Option<i64>> {
    let own = connection.prepare_cached("SELECT keep FROM taffrail_threads WHERE thread = ?1")?.query_row([thread], |row| row.get(0));
    match own.optional()? {
        Some(own) => Ok(own),
        None => place_keep(connection),
    }
}

/// How many checkpoints a thread without a number of its own keeps.
pub(super) fn place_keep(connection: &Connection) -> Outcome<Option<i64>> {
    Ok(connection.prepare_cached("SELECT keep FROM taffrail_place")?.query_row([], |row| row.get(0))?)
}

fn trim(connection: &Connection, thread: &str, keep: Option<i64>) -> Outcome<()> {
    let Some(keep) = keep else { return Ok(()) };
    let sql = "DELETE FROM checkpoints WHERE thread_id = ?1
        AND id <= (SELECT id FROM checkpoints WHERE thread_id = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)";
    connection.prepare_cached(sql)?.execute((thread, keep))?;
    Ok(())
}

/// What is to be done once the operations of a batch are through: what they attached is newer than what
/// they put, and what can have no checkpoint any more goes.
pub(super) fn settle(connection: &Connection, thread: &str) -> Outcome<()> {
    let sql = "UPDATE taffrail_attachments SET after = coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'checkpoints'), 0)
        WHERE thread = ?1 AND after = ?2";
    connection.prepare_cached(sql)?.execute((thread, UNNUMBERED))?;
    drop_orphans(connection, thread)
}

/// Drops what was attached to a checkpoint that is not there, before the oldest one that is was put.
pub(super) fn drop_orphans(connection: &Connection, thread: &str) -> Outcome<()> {
    let sql = "DELETE FROM taffrail_attachments AS a
        WHERE a.thread = ?1 AND a.after < (SELECT min(id) FROM checkpoints WHERE thread_id = ?1)
        AND NOT EXISTS (SELECT 1 FROM taffrail_checkpoints t WHERE t.thread = a.thread AND t.name = a.name)
        AND NOT EXISTS (
            SELECT 1 FROM checkpoints c LEFT JOIN taffrail_checkpoints t ON t.id = c.id
            WHERE c.id = CAST(a.name AS INTEGER) AND c.thread_id = a.thread AND CAST(c.id AS TEXT) = a.name AND t.id IS NULL
        )";
    connection.prepare_cached(sql)?.execute([thread])?;
    Ok(())
}

/// Sets how many checkpoints a thread, or each, keeps, and trims those that have more.
pub(super) fn retain(connection: &Connection, thread: Option<&str>, keep: Option<usize>) -> Outcome<()> {
    let Some(thread) = thread else {
        connection.execute("UPDATE taffrail_place SET keep = ?1", [keep_value(keep)])?;
        return each_thread(connection, |thread| {
            trim(connection, thread, keep_of(connection, thread)?)?;
            drop_orphans(connection, thread)
        });
    };
    if !rows::has_any(connection, thread)? {
        return Err(Error::new(ErrorKind::NotFound, "retention is set for a thread that is not there").with_thread(thread).into());
    }
    let sql = "INSERT INTO taffrail_threads (thread, keep) VALUES (?1, ?2) ON CONFLICT (thread) DO UPDATE SET keep = excluded.keep";
    connection.execute(sql, (thread, keep_value(keep)))?;
    trim(connection, thread, keep_of(connection, thread)?)?;
    drop_orphans(connection, thread)
}

/// Counts what a vacuum takes, and deletes it unless it is a dry run.
pub(super) fn vacuum(connection: &Connection, query: &VacuumQuery, now: SystemTime) -> Outcome<Vacuumed> {
    let mut vacuumed = Vacuumed::default();
    let mut one = |thread: &str| -> Outcome<()> {
        let ages = rows::ages(connection, thread)?;
        if ages.is_empty() {
            return Ok(());
        }
        let verdict = query.judge(ages.len(), now, |index| Ok(ages[index].1))?;
        vacuumed.add(verdict.count(ages.len()));
        match verdict {
            _ if query.dry_run => {}
            Verdict::Whole => drop(delete_thread(connection, thread)?),
            Verdict::Checkpoints(going) if going.is_empty() => {}
            Verdict::Checkpoints(going) => {
                let mut delete = connection.prepare_cached("DELETE FROM checkpoints WHERE id = ?1")?;
                going.iter().try_for_each(|at| delete.execute([ages[*at].0]).map(drop))?;
                drop_orphans(connection, thread)?;
            }
        }
        Ok(())
    };
    match &query.thread {
        Some(thread) => one(thread)?,
        None => each_thread(connection, one)?,
    }
    Ok(vacuumed)
}

/// Each thread that has a checkpoint, in byte order.
fn each_thread(connection: &Connection, mut work: impl FnMut(&str) -> Outcome<()>) -> Outcome<()> {
    let mut next = rows::next_thread(connection, Bound::Unbounded)?;
    while let Some(thread) = next {
        work(&thread)?;
        next = rows::next_thread(connection, Bound::Excluded(&thread))?;
    }
    Ok(())
}
