//! Operations on two threads, their answers, and what they mean: the model that the store is held
//! against. What of a thread matters here is its head. Pure.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The heads of the two threads, by number; None for a thread that is not there.
pub type Heads = [Option<u32>; 2];

/// What a put asks of its thread's head.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Expect {
    /// Nothing.
    Any,
    /// That it is this one, or that there is none.
    Head(Option<u32>),
}

/// An operation. A thread is 0 or 1, a checkpoint a number that is put once.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Operation {
    /// Puts a checkpoint to a thread.
    Put(usize, u32, Expect),
    /// Puts one to both threads, in one batch.
    Both(u32),
    /// Reads a thread's head.
    Get(usize),
    /// Reads both heads in one list.
    List,
    /// Deletes a thread.
    Delete(usize),
}

/// What an operation answered.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    /// A put was made.
    Made,
    /// A put was refused: the head was another.
    Conflict,
    /// The head that was read.
    Head(Option<u32>),
    /// Both heads that were read.
    Heads(Heads),
    /// Whether there was something to delete.
    Existed(bool),
}

/// One call, from when to when, and its answer; None if its process was killed within it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// The operation.
    pub operation: Operation,
    /// An instant before it was called.
    pub called: Duration,
    /// An instant after it returned, and the answer.
    pub returned: Option<(Duration, Answer)>,
}

impl Operation {
    /// What it answers when the heads are these, and what it leaves.
    pub fn apply(self, heads: Heads) -> (Answer, Heads) {
        let with = |thread: usize, head: Option<u32>| {
            let mut after = heads;
            after[thread] = head;
            after
        };
        match self {
            Operation::Put(thread, _, Expect::Head(expected)) if heads[thread] != expected => (Answer::Conflict, heads),
            Operation::Put(thread, number, _) => (Answer::Made, with(thread, Some(number))),
            Operation::Both(number) => (Answer::Made, [Some(number); 2]),
            Operation::Get(thread) => (Answer::Head(heads[thread]), heads),
            Operation::List => (Answer::Heads(heads), heads),
            Operation::Delete(thread) => (Answer::Existed(heads[thread].is_some()), with(thread, None)),
        }
    }
}

impl Call {
    /// The checkpoint that it puts, if it puts one.
    pub fn puts(&self) -> Option<u32> {
        match self.operation {
            Operation::Put(_, number, _) | Operation::Both(number) => Some(number),
            _ => None,
        }
    }

    /// Whether it and another one that was answered too were under way at one time.
    pub fn overlaps(&self, other: &Call) -> bool {
        let (Some((returned, _)), Some((other_returned, _))) = (self.returned, other.returned) else { return false };
        self != other && self.called < other_returned && other.called < returned
    }
}
