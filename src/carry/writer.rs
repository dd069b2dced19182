//! Rows on their way into a place, a batch at a time, and what became of them.
//!
//! A batch that is full is committed up to where its newest thread begins; that thread's rows are only parted
//! where they fill a batch alone. It is committed by a worker beside, while the next one is filled; none begins
//! before the last one has ended. One that is refused is parted, at a thread's beginning where there is one,
//! down to the row that is to blame, so that a row costs itself alone. Each batch expects the head that its
//! threads were decided on by: where another writer has moved one, its rows are dropped and that is told.

use std::collections::{HashMap, HashSet};
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::SystemTime;

use super::Tally;
use super::check::Print;
use crate::batch::{Batch, Committed, ExpectedHead, OnExisting, Parent, PutOptions};
use crate::checkpoint::{Attachment, CheckpointId, Metadata, StateBytes, TypeTag};
use crate::checkpointer::Checkpointer;
use crate::error::{Error, ErrorKind, Result};

/// The most rows of a batch.
pub(super) const ROWS_MAX: usize = 4096;
/// The most bytes of a batch, unless one row has more.
const BYTES_MAX: usize = 8 * 1024 * 1024;

/// A checkpoint on its way, or attachments of one that is there or is yet to come.
pub(super) struct Pending {
    pub thread: Arc<str>,
    pub id: CheckpointId,
    pub put: Option<Put>,
    pub attachments: Vec<Attachment>,
}

/// What is put.
pub(super) struct Put {
    pub tag: TypeTag,
    pub state: StateBytes,
    pub metadata: Metadata,
    pub saved_at: Option<SystemTime>,
    pub parent: Parent,
    /// What it followed is not there.
    pub begins_anew: bool,
}

/// What became of a thread's rows.
#[derive(Default)]
pub(super) struct Written {
    /// Those that were put, oldest first.
    pub puts: Vec<Print>,
    /// Those that were attached: to what, under which key, and what.
    pub attached: Vec<(CheckpointId, String, u64)>,
    /// Those that were not taken.
    pub not_taken: HashSet<CheckpointId>,
    /// Whether another writer has moved the thread, so that the rest of it was dropped.
    pub is_moved: bool,
    /// The thread's newest checkpoint.
    head: Option<CheckpointId>,
    /// The number of the batch that its newest row is in.
    batch: u64,
}

/// A batch that is being committed.
struct UnderWay<'scope> {
    /// The worker has them locked until it has ended.
    rows: Arc<Mutex<Vec<Pending>>>,
    worker: ScopedJoinHandle<'scope, Result<Vec<Committed>>>,
}

pub(super) struct Writer<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    dest: &'env dyn Checkpointer,
    rows: Vec<Pending>,
    bytes: usize,
    /// The number of the batch that is being filled; the first has 1.
    batch: u64,
    /// The batch before it, where that is not yet known to be committed.
    under_way: Option<UnderWay<'scope>>,
    threads: HashMap<Arc<str>, Written>,
}

impl<'scope, 'env> Writer<'scope, 'env> {
    pub fn new(scope: &'scope Scope<'scope, 'env>, dest: &'env dyn Checkpointer) -> Self {
        Writer { scope, dest, rows: Vec::new(), bytes: 0, batch: 1, under_way: None, threads: HashMap::new() }
    }

    /// Goes on with a thread whose newest checkpoint is this one.
    pub fn begin(&mut self, thread: &str, head: Option<&CheckpointId>) {
        self.threads.insert(thread.into(), Written { head: head.cloned(), ..Written::default() });
    }

    /// Whether all rows of a thread that was begun are committed, and what became of them is known.
    pub fn is_written(&self, thread: &str) -> bool {
        let filled = self.batch - u64::from(self.under_way.is_some());
        self.threads.get(thread).is_none_or(|written| written.batch < filled)
    }

    /// What became of a thread that was begun, once it is written.
    pub fn take(&mut self, thread: &str) -> Written {
        self.threads.remove(thread).unwrap_or_default()
    }

    /// Notes that a checkpoint of a thread was not even handed in.
    pub fn is_not_taken(&mut self, thread: &str, id: &CheckpointId) {
        self.of(thread).not_taken.insert(id.clone());
    }

    /// Adds a row, and begins to commit what would be too much with it.
    pub fn push(&mut self, row: Pending, tally: &mut Tally<'_>) -> Result<()> {
        let bytes = bytes_of(&row);
        if self.is_full(bytes) {
            let own = self.rows.iter().position(|other| other.thread == row.thread).unwrap_or(self.rows.len());
            let newest = self.rows.split_off(own);
            self.begin_commit(tally)?;
            self.bytes = newest.iter().map(bytes_of).sum();
            self.rows = newest;
            if self.is_full(bytes) {
                self.begin_commit(tally)?;
            }
        }
        let batch = self.batch;
        let thread = self.of(&row.thread);
        if !thread.is_moved {
            thread.batch = batch;
            self.bytes += bytes;
            self.rows.push(row);
        }
        Ok(())
    }

    /// Has a worker commit the batch, once the one before it is committed; where the system has no worker it is
    /// committed here.
    fn begin_commit(&mut self, tally: &mut Tally<'_>) -> Result<()> {
        self.end_commit(tally)?;
        let rows = self.next_batch();
        if rows.is_empty() {
            return Ok(());
        }
        let (dest, heads, rows) = (self.dest, self.heads(&rows), Arc::new(Mutex::new(rows)));
        let work = {
            let rows = rows.clone();
            move || commit(dest, &lock(&rows), heads)
        };
        match thread::Builder::new().name("taffrail-copy".to_owned()).spawn_scoped(self.scope, work) {
            Ok(worker) => self.under_way = Some(UnderWay { rows, worker }),
            Err(_) => self.commit(&mut lock(&rows), tally)?,
        }
        Ok(())
    }

    /// Waits for the batch that is under way, and notes what became of it.
    pub fn end_commit(&mut self, tally: &mut Tally<'_>) -> Result<()> {
        let Some(UnderWay { rows, worker }) = self.under_way.take() else { return Ok(()) };
        let done = worker.join().unwrap_or_else(|panic| resume_unwind(panic));
        self.committed(&mut lock(&rows), done, tally)
    }

    /// Commits all rows.
    pub fn flush(&mut self, tally: &mut Tally<'_>) -> Result<()> {
        self.end_commit(tally)?;
        let mut rows = self.next_batch();
        self.commit(&mut rows, tally)
    }

    /// The rows of the next batch, once all before it is committed: without those whose thread was found to be moved.
    fn next_batch(&mut self) -> Vec<Pending> {
        self.bytes = 0;
        self.batch += 1;
        let mut rows = std::mem::take(&mut self.rows);
        rows.retain(|row| self.threads.get(&row.thread).is_none_or(|thread| !thread.is_moved));
        rows
    }

    fn is_full(&self, more: usize) -> bool {
        !self.rows.is_empty() && (self.rows.len() >= ROWS_MAX || self.bytes + more > BYTES_MAX)
    }

    fn of(&mut self, thread: &str) -> &mut Written {
        self.threads.entry(thread.into()).or_default()
    }

    /// The heads that the threads of these rows are expected to have.
    fn heads(&self, rows: &[Pending]) -> HashMap<Arc<str>, ExpectedHead> {
        let head = |thread| self.threads.get(thread).and_then(|written| written.head.clone());
        let expected = |thread| head(thread).map_or(ExpectedHead::Empty, ExpectedHead::Id);
        let mut heads = HashMap::new();
        for Pending { thread, .. } in rows {
            if !heads.contains_key(thread) {
                heads.insert(thread.clone(), expected(thread));
            }
        }
        heads
    }

    /// Commits rows together if they can be, else in parts, down to the row that is to blame.
    fn commit(&mut self, rows: &mut [Pending], tally: &mut Tally<'_>) -> Result<()> {
        if rows.is_empty() || self.is_of_a_moved(rows) {
            return Ok(());
        }
        let done = commit(self.dest, rows, self.heads(rows));
        self.committed(rows, done, tally)
    }

    /// Whether all these are rows of one thread that another writer has moved.
    fn is_of_a_moved(&mut self, rows: &[Pending]) -> bool {
        is_one_thread(rows) && self.of(&rows[0].thread).is_moved
    }

    /// Goes on with rows that were committed together, or refused.
    fn committed(&mut self, rows: &mut [Pending], done: Result<Vec<Committed>>, tally: &mut Tally<'_>) -> Result<()> {
        match done {
            Ok(done) => {
                let attached = done.into_iter().filter(|done| !matches!(done, Committed::Put(_)));
                self.note(rows, attached, tally);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::Conflict && is_one_thread(rows) => {
                self.of(&rows[0].thread.clone()).is_moved = true;
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::Conflict || refuses_input(&error) => match rows {
                [row] => self.commit_parts(row, &error, tally),
                rows => {
                    let (older, newer) = rows.split_at_mut(middle(rows));
                    self.commit(older, tally)?;
                    self.commit(newer, tally)
                }
            },
            Err(error) => Err(error),
        }
    }

    /// A row that was refused: without what is wrong with it, if anything is left then.
    fn commit_parts(&mut self, row: &mut Pending, error: &Error, tally: &mut Tally<'_>) -> Result<()> {
        match &mut row.put {
            // The parent was refused, or trimmed by what was put since.
            Some(put) if error.kind() == ErrorKind::NotFound && matches!(put.parent, Parent::Id(_)) => {
                (put.parent, put.begins_anew) = (Parent::Root, true);
                return self.commit(std::slice::from_mut(row), tally);
            }
            Some(_) if row.attachments.is_empty() => {
                tally.refuse(Some(&row.thread), Some(row.id.as_str()), error);
                self.is_not_taken(&row.thread.clone(), &row.id);
                return Ok(());
            }
            None if row.attachments.len() == 1 => {
                tally.leave_attachment(&row.thread, row.id.as_str(), &row.attachments[0].key, error);
                return Ok(());
            }
            _ => {}
        }
        let attachments = std::mem::take(&mut row.attachments);
        let alone = |put, attachments| Pending { thread: row.thread.clone(), id: row.id.clone(), put, attachments };
        let attachments: Vec<_> = attachments.into_iter().map(|attachment| alone(None, vec![attachment])).collect();
        let put = row.put.take().map(|put| alone(Some(put), Vec::new()));
        let not_taken = self.of(&row.thread).not_taken.len();
        for mut part in put.into_iter().chain(attachments) {
            if self.of(&row.thread).not_taken.len() > not_taken {
                tally.leave_attachment(&row.thread, row.id.as_str(), &part.attachments[0].key, error);
            } else {
                self.commit(std::slice::from_mut(&mut part), tally)?;
            }
        }
        Ok(())
    }

    /// Notes what was committed, `attached` being the answers to its attachments.
    fn note(&mut self, rows: &[Pending], mut attached: impl Iterator<Item = Committed>, tally: &mut Tally<'_>) {
        let before = tally.carried.put;
        for row in rows {
            let thread = self.of(&row.thread);
            if let Some(put) = &row.put {
                let parent = match &put.parent {
                    Parent::Head => thread.head.take(),
                    Parent::Root => None,
                    Parent::Id(parent) => Some(parent.clone()),
                };
                thread.puts.push(Print::of(&row.id, &put.tag, &put.metadata, parent.as_ref(), &put.state, put.saved_at));
                thread.head = Some(row.id.clone());
                tally.carried.put += 1;
                tally.carried.begun_anew += u64::from(put.begins_anew);
            }
            for attachment in &row.attachments {
                // One that another writer has written meanwhile stays as it is.
                if matches!(attached.next(), Some(Committed::Attached { written: true })) {
                    let print = super::check::print_of(&attachment.tag, &attachment.value);
                    thread.attached.push((row.id.clone(), attachment.key.clone(), print));
                    tally.carried.attached += 1;
                }
            }
        }
        tally.done(tally.carried.put - before);
    }
}

/// Commits rows as one batch; the first of each thread expects its head.
fn commit(dest: &dyn Checkpointer, rows: &[Pending], mut heads: HashMap<Arc<str>, ExpectedHead>) -> Result<Vec<Committed>> {
    let mut batch = Batch::new();
    for row in rows {
        if let Some(put) = &row.put {
            let mut options = PutOptions::default().id(row.id.clone()).metadata(put.metadata.clone()).parent(put.parent.clone());
            options.saved_at = put.saved_at;
            if let Some(head) = heads.remove(&row.thread) {
                options.expected_head = head;
            }
            batch.put(&row.thread, put.tag.clone(), &put.state, options);
        }
        for Attachment { key, tag, value } in &row.attachments {
            batch.attach(&row.thread, row.id.clone(), key, tag.clone(), value, OnExisting::Keep);
        }
    }
    dest.commit(&batch)
}

/// Whoever panicked with them has changed none.
fn lock(rows: &Mutex<Vec<Pending>>) -> MutexGuard<'_, Vec<Pending>> {
    rows.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_one_thread(rows: &[Pending]) -> bool {
    rows.iter().all(|row| row.thread == rows[0].thread)
}

/// Whether it is the row's fault and not the place's.
fn refuses_input(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::TooLarge | ErrorKind::NotFound | ErrorKind::Unsupported)
}

fn bytes_of(row: &Pending) -> usize {
    let attached: usize = row.attachments.iter().map(|attachment| attachment.key.len() + attachment.value.len()).sum();
    row.put.as_ref().map_or(0, |put| put.state.len() + put.metadata.as_str().len()) + attached
}

/// Where two or more rows are parted: where a thread begins, as near the middle as there is one.
fn middle(rows: &[Pending]) -> usize {
    let begins = (1..rows.len()).filter(|&at| rows[at].thread != rows[at - 1].thread);
    begins.min_by_key(|&at| at.abs_diff(rows.len() / 2)).unwrap_or(rows.len() / 2)
}
