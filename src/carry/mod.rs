//! Taking checkpoints from one place to another: what a copy and an import have in common.
//!
//! A source gives threads, one at a time, each oldest first. What becomes of a checkpoint is decided from
//! ids alone (`plan`), threads are walked through in `walk`, written in batches by `writer`, and read back
//! from where they went in `check`. Nothing that is there already is changed, so doing it all again adds only
//! what is not there yet.
//!
//! A thread goes in one batch where it fits into one, and several that do share one. Batches go one after the
//! other, each thread's in its order, while the source is read on: whatever ends it, what is there of a thread is
//! its beginning.

mod check;
mod copy;
mod plan;
mod walk;
mod writer;

use std::time::SystemTime;

pub use copy::copy;
pub use plan::{Fate, fates};
pub(crate) use walk::carry;

use crate::checkpoint::{Attachment, CheckpointId, Metadata, StateBytes, TypeTag};
use crate::error::{Error, Result};

/// What was done, in numbers: each checkpoint of the source is counted once, by what became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Carried {
    /// Checkpoints that were put, and read back as they were in the source.
    pub put: u64,
    /// Checkpoints whose ids their threads had already.
    pub present: u64,
    /// Checkpoints left out because newer ones fill what the thread keeps, or they would have to go in front
    /// of what is there.
    pub too_old: u64,
    /// Checkpoints of threads that are there with a story of their own.
    pub diverged: u64,
    /// Checkpoints that the destination, or what reads the source, did not take.
    pub refused: u64,
    /// Checkpoints that were deleted or trimmed in the source before they were read.
    pub gone: u64,
    /// Of those put: that what they followed is not there, so that they begin anew, without a parent.
    pub begun_anew: u64,
    /// Attachments that were written, and read back.
    pub attached: u64,
    /// Attachments that were left behind.
    pub attachments_left: u64,
}

impl Carried {
    /// Checkpoints that were passed over though nothing is wrong with them.
    pub fn skipped(&self) -> u64 {
        self.present + self.too_old + self.diverged + self.gone
    }
}

/// What is told while it goes on.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// About so many checkpoints are to be looked at; told once, first.
    Begun {
        /// Their number.
        checkpoints: u64,
    },
    /// So many more have been put or passed over.
    Done {
        /// Their number.
        checkpoints: u64,
    },
    /// Something was left behind.
    Left(Left<'a>),
}

/// Something that was left behind, by name.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Left<'a> {
    /// The thread; None where the source has none that could be named.
    pub thread: Option<&'a str>,
    /// The checkpoint; None for all of the thread.
    pub id: Option<&'a str>,
    /// What of it.
    pub what: LeftWhat<'a>,
    /// Why.
    pub error: &'a Error,
}

/// What of a checkpoint was left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeftWhat<'a> {
    /// All of it.
    Whole,
    /// The attachment of this key; the checkpoint was put.
    Attachment(&'a str),
    /// A part that has this name; the rest was put.
    Part(&'static str),
}

/// Who is told.
pub type Tell<'a> = &'a mut dyn FnMut(Event<'_>);

/// The numbers so far, and who is told.
pub(crate) struct Tally<'a> {
    pub carried: Carried,
    pub tell: Tell<'a>,
}

impl Tally<'_> {
    pub fn done(&mut self, checkpoints: u64) {
        if checkpoints > 0 {
            (self.tell)(Event::Done { checkpoints });
        }
    }

    /// A checkpoint that is not taken.
    pub fn refuse(&mut self, thread: Option<&str>, id: Option<&str>, error: &Error) {
        self.carried.refused += 1;
        self.leave(thread, id, error);
    }

    /// A checkpoint that stays behind.
    fn leave(&mut self, thread: Option<&str>, id: Option<&str>, error: &Error) {
        self.done(1);
        (self.tell)(Event::Left(Left { thread, id, what: LeftWhat::Whole, error }));
    }

    /// An attachment that stays behind.
    pub fn leave_attachment(&mut self, thread: &str, id: &str, key: &str, error: &Error) {
        self.carried.attachments_left += 1;
        (self.tell)(Event::Left(Left { thread: Some(thread), id: Some(id), what: LeftWhat::Attachment(key), error }));
    }

    /// A part of a checkpoint that stays behind.
    #[cfg(feature = "sqlite")]
    pub fn leave_part(&mut self, thread: &str, id: &str, part: &'static str, error: &Error) {
        (self.tell)(Event::Left(Left { thread: Some(thread), id: Some(id), what: LeftWhat::Part(part), error }));
    }

    /// A thread that is there with a story of its own.
    pub fn diverged(&mut self, thread: &str, error: &Error) {
        (self.tell)(Event::Left(Left { thread: Some(thread), id: None, what: LeftWhat::Whole, error }));
    }
}

/// Where checkpoints come from. What cannot be taken is told to the tally by the source, which goes on.
pub(crate) trait Source {
    /// About how many checkpoints there are; asked first.
    fn size(&mut self) -> Result<u64>;

    /// The threads, in the order in which they are to be taken.
    fn threads(&mut self, tally: &mut Tally<'_>) -> Result<Vec<String>>;

    /// As [`crate::checkpointer::Checkpointer::max_history`].
    fn max_history(&mut self, thread: Option<&str>) -> Result<Option<usize>>;

    /// The thread's checkpoints, oldest first, each id once.
    fn list(&mut self, thread: &str, tally: &mut Tally<'_>) -> Result<Vec<CheckpointId>>;

    /// A checkpoint that [`Source::list`] gave; None if it was told of or has gone.
    fn load(&mut self, thread: &str, id: &CheckpointId, tally: &mut Tally<'_>) -> Result<Option<Row>>;

    /// The attachments of a checkpoint, in byte order of their keys.
    fn attachments(&mut self, thread: &str, id: &CheckpointId, tally: &mut Tally<'_>) -> Result<Vec<Attachment>>;

    /// The ids that the thread lacks, and that something is attached to.
    fn awaited(&mut self, thread: &str, tally: &mut Tally<'_>) -> Result<Vec<CheckpointId>>;
}

/// A checkpoint as a source has it.
pub(crate) struct Row {
    pub tag: TypeTag,
    pub state: StateBytes,
    pub metadata: Metadata,
    pub saved_at: Option<SystemTime>,
    pub parent: Followed,
}

/// What a source says its checkpoint followed.
pub(crate) enum Followed {
    /// None.
    Nothing,
    /// Whatever stands before it where it goes.
    #[cfg(feature = "sqlite")]
    Previous,
    /// This one.
    Id(CheckpointId),
}
