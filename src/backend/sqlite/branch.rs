//! Forks, renames and rollbacks in the tables. Each function works within a transaction of the caller's.
//!
//! The meaning is that of `backend/threads/branch`. A copy is read and proved like any checkpoint and written
//! like a put, into rows of new numbers: windlass' rows become ours in it, under the ids and parents that they
//! are read with, and windlass reads it and goes on with it as with any thread.

use std::collections::HashSet;

use rusqlite::Connection;

use super::change::{self, State};
use super::failure::{Failure, Outcome};
use super::rows::{self, Page};
use super::schema::UNNUMBERED;
use crate::batch::OnExisting;
use crate::branch::{no_checkpoint, no_thread, taken};
use crate::checkpoint::{Checkpoint, CheckpointId};

/// Makes a new thread of the checkpoints up to `at` (None: the head); answers its head's id.
pub(super) fn fork(connection: &Connection, thread: &str, at: Option<&CheckpointId>, new: &str) -> Outcome<CheckpointId> {
    // Windlass may have deleted rows since: what went with these is not carried.
    change::drop_orphans(connection, thread)?;
    let mut numbers = rows::numbers(connection, thread)?;
    let Some(head) = numbers.last().copied() else { return Err(no_thread(thread).into()) };
    let at = match at {
        Some(id) => rows::find(connection, thread, id)?.ok_or_else(|| no_checkpoint(thread, id))?,
        None => head,
    };
    if rows::has_any(connection, new)? {
        return Err(taken(new).into());
    }
    numbers.retain(|number| *number <= at);
    carry_keep(connection, thread, new)?;
    let keep = change::keep_of(connection, new)?.and_then(|keep| usize::try_from(keep).ok()).unwrap_or(usize::MAX);
    let kept = &numbers[numbers.len().saturating_sub(keep)..];
    let mut copied = Vec::with_capacity(kept.len());
    for number in kept {
        copied.extend(copy(connection, thread, *number, new)?);
    }
    carry_attachments(connection, thread, new, &copied, at == head)?;
    change::settle(connection, new)?;
    copied.pop().ok_or_else(|| no_thread(thread).into())
}

/// Gives a thread another id.
pub(super) fn rename(connection: &Connection, thread: &str, new: &str) -> Outcome<()> {
    fork(connection, thread, None, new)?;
    change::delete_thread(connection, thread)?;
    Ok(())
}

/// Has a checkpoint be the head; answers how many newer ones there were.
pub(super) fn rollback(connection: &Connection, thread: &str, to: &CheckpointId) -> Outcome<u64> {
    if !rows::has_any(connection, thread)? {
        return Err(no_thread(thread).into());
    }
    let row = rows::find(connection, thread, to)?.ok_or_else(|| no_checkpoint(thread, to))?;
    change::drop_orphans(connection, thread)?;
    let newer = connection.prepare_cached("DELETE FROM checkpoints WHERE thread_id = ?1 AND id > ?2")?.execute((thread, row))?;
    Ok(newer as u64)
}

/// Writes the checkpoint of a row once more, at the end of another thread; answers its id.
fn copy(connection: &Connection, thread: &str, row: i64, new: &str) -> Outcome<Option<CheckpointId>> {
    let Some(Checkpoint { info, state }) = Page::one(row).first(connection, &thread.into())? else { return Ok(None) };
    let state = State { tag: &info.tag, bytes: &state, saved_at: info.saved_at, metadata: &info.metadata };
    change::write(connection, new, &info.id, info.parent.clone(), &state, None)?;
    Ok(Some(info.id))
}

/// Has a thread that is about to be made keep as many as another one, where that has a number of its own.
fn carry_keep(connection: &Connection, thread: &str, new: &str) -> Outcome<()> {
    let sql = "INSERT OR REPLACE INTO taffrail_threads (thread, keep) SELECT ?2, keep FROM taffrail_threads WHERE thread = ?1";
    connection.prepare_cached(sql)?.execute((thread, new))?;
    Ok(())
}

/// Attaches what the copied checkpoints have, and where asked what waits; all that waits is newer than the copies.
fn carry_attachments(connection: &Connection, thread: &str, new: &str, copied: &[CheckpointId], with_waiting: bool) -> Outcome<()> {
    let waits_here = "UPDATE taffrail_attachments SET after = ?2 WHERE thread = ?1";
    connection.prepare_cached(waits_here)?.execute((new, UNNUMBERED))?;
    let copied: HashSet<&CheckpointId> = copied.iter().collect();
    for name in rows::attached_to(connection, thread)? {
        let id = CheckpointId::new(name).map_err(|_| Failure::damage("something is attached to what is no checkpoint id"))?;
        if copied.contains(&id) || with_waiting && rows::find(connection, thread, &id)?.is_none() {
            for attachment in rows::attachments(connection, thread, &id)? {
                let value = (attachment.key.as_str(), &attachment.tag, &*attachment.value);
                change::attach(connection, new, &id, value, OnExisting::Replace)?;
            }
        }
    }
    Ok(())
}
