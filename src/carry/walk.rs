//! Walking through a source, thread by thread: what is taken, what is passed over, what is told.
//!
//! Where another writer of the destination comes in between, so that a thread is not as it was when it was
//! decided on, the thread is decided on anew. What is counted and told of a thread is so once, when all of it
//! is written and was read back.

use std::collections::{HashSet, VecDeque};

use super::check;
use super::plan::{Fate, fates, is_same_story};
use super::writer::{Pending, Put, ROWS_MAX, Writer, Written};
use super::{Event, Followed, Source, Tally};
use crate::batch::Parent;
use crate::checkpoint::{Attachment, CheckpointId};
use crate::checkpointer::Checkpointer;
use crate::error::{Error, ErrorKind, Result};
use crate::query::{HistoryQuery, ThreadQuery};

/// So many ids of threads that wait to be read back are held, and one thread's more; more than two batches have.
const HELD_MAX: usize = 4 * ROWS_MAX;

/// How often a thread is decided on anew before the other writers are called a conflict.
const TRIES_MAX: u32 = 100;

/// Takes all of a source to a place.
pub(crate) fn carry(source: &mut dyn Source, dest: &dyn Checkpointer, tally: &mut Tally<'_>) -> Result<()> {
    (tally.tell)(Event::Begun { checkpoints: source.size()? });
    let threads = source.threads(tally)?;
    // CRASH: before the first put, so that who goes on finds the number, or a place that is still empty.
    let number = told(source.max_history(None))?;
    if let Some(number) = number
        && dest.list_threads(&ThreadQuery { limit: Some(1), ..ThreadQuery::default() })?.next().is_none()
    {
        set(dest, None, number)?;
    }
    let attaches = dest.capabilities().attachments;
    std::thread::scope(|scope| {
        let writer = Writer::new(scope, dest);
        let mut walk = Walk { source, dest, tally, writer, attaches, number, walked: VecDeque::new(), held: 0 };
        let ended = walk.through(threads);
        // What is under way is seen to its end whatever ended the walk.
        ended.and(walk.writer.end_commit(walk.tally))
    })
}

/// A number that is kept, where it can be told.
fn told(number: Result<Option<usize>>) -> Result<Option<Option<usize>>> {
    match number {
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(None),
        number => number.map(Some),
    }
}

/// Has a place keep so many; one that cannot be told keeps what it keeps.
fn set(dest: &dyn Checkpointer, thread: Option<&str>, number: Option<usize>) -> Result<()> {
    if told(dest.max_history(thread))? == Some(number) {
        return Ok(());
    }
    match dest.retain(thread, number) {
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(()),
        done => done,
    }
}

/// The ids of a thread, oldest first.
fn ids_of(place: &dyn Checkpointer, thread: &str) -> Result<Vec<CheckpointId>> {
    let newest_first = place.list(thread, &HistoryQuery::default())?;
    let mut ids: Vec<_> = newest_first.map(|info| info.map(|info| info.id)).collect::<Result<_>>()?;
    ids.reverse();
    Ok(ids)
}

struct Walk<'scope, 'env, 'a, 't> {
    source: &'a mut dyn Source,
    dest: &'env dyn Checkpointer,
    tally: &'a mut Tally<'t>,
    writer: Writer<'scope, 'env>,
    /// Whether the destination takes attachments.
    attaches: bool,
    /// How many checkpoints of a thread the source keeps, where it tells.
    number: Option<Option<usize>>,
    /// Threads that are decided on and perhaps not all written, in the order in which they were decided on.
    walked: VecDeque<Walked>,
    /// How many ids they have, each thread counted as one too.
    held: usize,
}

/// A thread that is being taken.
struct Walked {
    thread: String,
    /// Those of the source that nothing was found wrong with, oldest first.
    ids: Vec<CheckpointId>,
    /// How often it was decided on anew.
    tries: u32,
    /// How many of them were put before it was decided on anew.
    put: u64,
    counts: Counts,
}

/// What was passed over of a thread.
#[derive(Default)]
struct Counts {
    present: u64,
    too_old: u64,
    diverged: u64,
}

impl Walk<'_, '_, '_, '_> {
    /// Takes all threads, and reads them back.
    fn through(&mut self, threads: Vec<String>) -> Result<()> {
        for thread in threads {
            let ids = self.source.list(&thread, self.tally)?;
            self.decide(Walked { thread, ids, tries: 0, put: 0, counts: Counts::default() })?;
            self.settle()?;
            if self.held > HELD_MAX {
                self.writer.flush(self.tally)?;
                self.settle()?;
            }
        }
        while !self.walked.is_empty() {
            self.writer.flush(self.tally)?;
            self.settle()?;
        }
        Ok(())
    }

    /// Decides on a thread, and has the writer write it.
    fn decide(&mut self, mut walked: Walked) -> Result<()> {
        let there = ids_of(self.dest, &walked.thread)?;
        let own = self.own_number(&walked, &there)?;
        let keep = match own {
            Some(own) => own,
            None => told(self.dest.max_history(Some(&walked.thread)))?.flatten(),
        };
        let rows: Vec<_> = walked.ids.iter().cloned().map(Some).collect();
        let fates = fates(&there, &rows, keep.map(|keep| keep as u64));
        let of = |fate: Fate| fates.iter().filter(|&&each| each == fate).count() as u64;
        walked.counts = Counts { present: of(Fate::Present), too_old: of(Fate::TooOld), diverged: of(Fate::Diverged) };
        self.writer.begin(&walked.thread, there.last());
        if walked.counts.diverged == 0 {
            let mut taking = Taking { known: there.iter().cloned().collect(), own };
            for (id, fate) in walked.ids.iter().zip(&fates) {
                self.set_own(&walked, &mut taking)?;
                self.row(&walked, id, *fate, &mut taking)?;
            }
            self.set_own(&walked, &mut taking)?;
            for id in self.source.awaited(&walked.thread, self.tally)? {
                self.attach_missing(&walked, &id)?;
            }
        }
        self.held += 1 + walked.ids.len();
        self.walked.push_back(walked);
        Ok(())
    }

    /// The thread's own number, where it has one that is not the source's, and it takes nothing from what is there:
    /// not where the thread has one there already, tells another story, or is longer.
    fn own_number(&mut self, walked: &Walked, there: &[CheckpointId]) -> Result<Option<Option<usize>>> {
        let Some(number) = self.number else { return Ok(None) };
        let own = told(self.source.max_history(Some(&walked.thread)))?.filter(|&own| own != number);
        let fits = own.is_some_and(|own| own.is_none_or(|own| there.len() <= own)) && is_same_story(there, &walked.ids);
        if !fits || told(self.dest.max_history(Some(&walked.thread)))? != told(self.dest.max_history(None))? {
            return Ok(None);
        }
        Ok(own)
    }

    fn row(&mut self, walked: &Walked, id: &CheckpointId, fate: Fate, taking: &mut Taking) -> Result<()> {
        match fate {
            Fate::Take => {}
            Fate::Present => return self.attach_missing(walked, id),
            Fate::TooOld | Fate::Diverged => return Ok(()),
        }
        let thread = &walked.thread;
        let Some(row) = self.source.load(thread, id, self.tally)? else {
            self.writer.is_not_taken(thread, id);
            return Ok(());
        };
        let (parent, begins_anew) = match row.parent {
            Followed::Nothing => (Parent::Root, false),
            #[cfg(feature = "sqlite")]
            Followed::Previous => (Parent::Head, false),
            Followed::Id(parent) if taking.known.contains(&parent) => (Parent::Id(parent), false),
            Followed::Id(_) => (Parent::Root, true),
        };
        taking.known.insert(id.clone());
        let attachments = self.source.attachments(thread, id, self.tally)?;
        let attachments = self.attachable(walked, id, attachments);
        let (tag, state, metadata, saved_at) = (row.tag, row.state, row.metadata, row.saved_at);
        let put = Put { tag, state, metadata, saved_at, parent, begins_anew };
        self.writer.push(Pending { thread: thread.as_str().into(), id: id.clone(), put: Some(put), attachments }, self.tally)
    }

    /// Sets the thread's own number, once the thread is there.
    ///
    /// CRASH: behind its first checkpoint, and before any that its place's number would take away. Who goes on
    /// finds the thread there, and sets it first.
    fn set_own(&mut self, walked: &Walked, taking: &mut Taking) -> Result<()> {
        let Some(own) = taking.own else { return Ok(()) };
        self.writer.flush(self.tally)?;
        if self.dest.exists(&walked.thread)? {
            set(self.dest, Some(&walked.thread), own)?;
            taking.own = None;
        }
        Ok(())
    }

    /// Attaches what a checkpoint that is there, or is yet to come, lacks.
    fn attach_missing(&mut self, walked: &Walked, id: &CheckpointId) -> Result<()> {
        let attachments = self.source.attachments(&walked.thread, id, self.tally)?;
        let mut attachments = self.attachable(walked, id, attachments);
        if attachments.is_empty() {
            return Ok(());
        }
        let there: HashSet<String> = self.dest.attachments(&walked.thread, id)?.into_iter().map(|there| there.key).collect();
        attachments.retain(|attachment| !there.contains(&attachment.key));
        let thread = walked.thread.as_str().into();
        self.writer.push(Pending { thread, id: id.clone(), put: None, attachments }, self.tally)
    }

    /// What can be attached; all of it is left behind where the place has no attachments.
    fn attachable(&mut self, walked: &Walked, id: &CheckpointId, attachments: Vec<Attachment>) -> Vec<Attachment> {
        if self.attaches {
            return attachments;
        }
        let error = Error::new(ErrorKind::Unsupported, "the place it would go to has no attachments");
        for attachment in attachments.iter().filter(|_| walked.tries == 0) {
            self.tally.leave_attachment(&walked.thread, id.as_str(), &attachment.key, &error);
        }
        Vec::new()
    }

    /// Reads back the threads that are written, and decides anew on those where others came in between.
    fn settle(&mut self) -> Result<()> {
        while let Some(first) = self.walked.front()
            && self.writer.is_written(&first.thread)
            && let Some(mut walked) = self.walked.pop_front()
        {
            self.held -= 1 + walked.ids.len();
            let written = self.writer.take(&walked.thread);
            check::read_back(self.dest, &walked.thread, &written)?;
            if written.is_moved {
                walked.put += written.puts.len() as u64;
                self.decide(walked.anew(&written)?)?;
            } else {
                self.count(&walked);
            }
        }
        Ok(())
    }

    fn count(&mut self, walked: &Walked) {
        let Counts { present, too_old, diverged } = walked.counts;
        // What an earlier try has put is there now.
        let present = present.saturating_sub(walked.put);
        self.tally.carried.present += present;
        self.tally.carried.too_old += too_old;
        self.tally.carried.diverged += diverged;
        self.tally.done(present + too_old + diverged);
        if diverged > 0 {
            let error = Error::new(ErrorKind::Conflict, "what the thread has is not there in the same order");
            self.tally.diverged(&walked.thread, &error);
        }
    }
}

impl Walked {
    /// The thread, to be decided on anew. Errors: `Conflict` after too many times.
    fn anew(mut self, written: &Written) -> Result<Walked> {
        self.tries += 1;
        if self.tries > TRIES_MAX {
            let message = "other writers moved the thread each time that it was to be extended";
            return Err(Error::new(ErrorKind::Conflict, message).with_thread(&self.thread));
        }
        self.ids.retain(|id| !written.not_taken.contains(id));
        Ok(self)
    }
}

/// What is known of a thread while it is taken.
struct Taking {
    /// The ids that a parent can be found among.
    known: HashSet<CheckpointId>,
    /// The thread's own number, until it is set.
    own: Option<Option<usize>>,
}
