//! Runs that are picked up where they stopped: steps that are done once, approvals that are given once.
//!
//! A [`Run`] is a thread of any place. Before a step its intent is recorded, after it its result with the state
//! that it left, each as a checkpoint that is put only if nobody else has put since. So a step whose result was
//! recorded is never executed again, and of two processes that go on with one run at once one gets a `Conflict`
//! before it executes anything. What no store can know is what a step did that was begun and has no outcome, nor
//! whether its process died or is still within it: that is told, by the step's name, and the caller decides. All calls block, as those of a place do: in a
//! runtime a run belongs to a worker that may (`spawn_blocking`).
//!
//! ```
//! use taffrail::MemoryCheckpointer;
//! use taffrail::run::{self, Run};
//!
//! let place = MemoryCheckpointer::new();
//! let mut run: Run<_, Vec<String>> = Run::start_or_resume(&place, "trip")?;
//! let flights: u32 = run.step("search", |notes| {
//!     notes.push("looked for flights".into());
//!     Ok::<_, std::fmt::Error>(3)
//! })?;
//! assert!(run.await_approval::<bool>("book", &format!("{flights} flights: book one?"))?.is_none());
//! drop(run); // The process may end here; the person decides in another one.
//!
//! let asked = run::waiting(&place)?.next().unwrap()?;
//! assert_eq!((asked.thread.as_str(), asked.name.as_str()), ("trip", "book"));
//! run::approve(&place, "trip", &true)?;
//! assert!(run::approve(&place, "trip", &false).is_err());
//!
//! let mut run: Run<_, Vec<String>> = Run::start_or_resume(&place, "trip")?;
//! let flights: u32 = run.step("search", |_| -> Result<u32, std::fmt::Error> { unreachable!("it was recorded") })?;
//! assert_eq!((flights, run.await_approval("book", "")?), (3, Some(true)));
//! assert_eq!(*run.state(), ["looked for flights"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod approval;
mod error;
mod record;
mod waiting;

use std::fmt::{self, Display};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub use self::approval::{approve, approve_at};
pub use self::error::RunError;
pub use self::record::NAME_BYTES_MAX;
use self::record::{Entry, Outcome, Record, decode, read_back};
pub use self::waiting::{MARKERS, Waiting, waiting};
use crate::batch::{Durability, ExpectedHead, PutOptions};
use crate::checkpoint::{Checkpoint, StateBytes, THREAD_BYTES_MAX, check_thread};
use crate::checkpointer::{Checkpointer, CheckpointerExt};
use crate::error::{Error, ErrorKind, Result};

/// What every thread id of this crate's own begins with; no run may have one that does.
const RESERVED: &str = "taffrail:";

/// The longest thread id of a run, in bytes: its marker's name is longer and must be a thread id too.
pub const RUN_THREAD_BYTES_MAX: usize = THREAD_BYTES_MAX - MARKERS.len();

/// What a program sees of a run's checkpoints with `get`, `load` and `history`.
///
/// ```
/// # use taffrail::MemoryCheckpointer;
/// use taffrail::prelude::*;
/// use taffrail::run::{Recorded, Run};
/// # let place = MemoryCheckpointer::new();
/// let mut run: Run<_, u32> = Run::start_or_resume(&place, "count")?;
/// run.step("one", |count| {
///     *count += 1;
///     Ok::<_, std::fmt::Error>(())
/// })?;
/// assert_eq!(place.get::<Recorded<u32>>("count")?.unwrap().state, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Recorded<S> {
    /// The caller's state behind the newest step that was done by then.
    pub state: S,
}

/// A run: a state of the caller's, and steps that are each done once.
///
/// A step's name stands for one step of the run: who asks for it again, in this process or a later one, gets
/// the recorded result. So in a loop the name holds a number (`format!("ask {turn}")`). Everything is recorded
/// in the newest checkpoint of the thread, whatever number of them the place keeps; a step costs two durable
/// puts of the state and all results so far, also in a place that is `Buffered` otherwise: a power cut that
/// took back an intent would have a step done twice unseen.
///
/// Nothing is held while a run is idle: it may be dropped, or its process killed, at any moment. The state and
/// results nest at most 124 deep as JSON. They are what is read back from it, in the process that did the step too:
/// what serde skips is its default again.
///
/// A thread that is rolled back, forked or updated from an older checkpoint knows what had been recorded by then:
/// what was done later is done again.
///
/// ```
/// use taffrail::MemoryCheckpointer;
/// use taffrail::run::Run;
/// let place = MemoryCheckpointer::new();
/// for _ in 0..2 {
///     let mut run: Run<_, u32> = Run::start_or_resume(&place, "count")?;
///     let found: u32 = run.step("count", |count| {
///         *count += 1;
///         Ok::<_, std::fmt::Error>(7)
///     })?;
///     assert_eq!((found, *run.state()), (7, 1), "done once");
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Run<C, S> {
    place: C,
    thread: String,
    record: Record,
    state: S,
    /// The thread's newest checkpoint as far as this handle knows.
    head: ExpectedHead,
    /// How a step ended, where that could not be recorded yet.
    unsaved: Option<Unsaved<S>>,
}

struct Unsaved<S> {
    entry: Entry,
    /// The state that the step left, as a value and as text; None where it is as before.
    state: Option<(S, Box<RawValue>)>,
}

impl<C: Checkpointer, S: Serialize + DeserializeOwned> Run<C, S> {
    /// Goes on with the run of that thread, or begins it with the default state. Writes nothing.
    ///
    /// `place` may be a reference. Errors: `InvalidInput` for a thread id that begins with `taffrail:` or has
    /// over [`RUN_THREAD_BYTES_MAX`] bytes, `Decode` for a thread that is no run or a state that is no `S`,
    /// `Unsupported` for a run of a newer version or a place without `compare_and_put`.
    pub fn start_or_resume(place: C, thread: &str) -> Result<Self>
    where
        S: Default,
    {
        Self::start_or_resume_with(place, thread, S::default)
    }

    /// As [`Run::start_or_resume`], with another state to begin with.
    pub fn start_or_resume_with(place: C, thread: &str, initial: impl FnOnce() -> S) -> Result<Self> {
        check_run_thread(thread)?;
        if !place.capabilities().compare_and_put {
            return Err(Error::unsupported("compare_and_put"));
        }
        let (record, state, head) = match place.get_bytes(thread)? {
            None => {
                let (text, state) = read_back(&initial(), "the run's state").map_err(|error| error.with_thread(thread))?;
                (Record::new(text), state, ExpectedHead::Empty)
            }
            Some(checkpoint) => {
                let (record, state) = read(&checkpoint).map_err(|error| error.with_thread(thread))?;
                (record, state, ExpectedHead::Id(checkpoint.info.id))
            }
        };
        Ok(Run { place, thread: thread.to_owned(), record, state, head, unsaved: None })
    }

    /// The run's thread.
    pub fn thread(&self) -> &str {
        &self.thread
    }

    /// The state behind the newest step that was done.
    pub fn state(&self) -> &S {
        &self.state
    }

    /// The step that was begun and whose outcome is not recorded: its process died in it or is still within it,
    /// its closure panicked, or what it gave could not be recorded. None of the others is in doubt.
    pub fn unknown(&self) -> Option<&str> {
        // What this handle has only to record is known.
        if self.unsaved.is_some() { None } else { self.record.unknown().map(|entry| entry.name.as_str()) }
    }

    /// Does a step, or answers the result that was recorded for it. Blocks for two durable puts.
    ///
    /// `run` gets the state to change; it is called only after the intent is recorded. If it answers an error
    /// the state is as before, that it failed is recorded, and the step may be asked for again.
    ///
    /// Errors: `Failed` with what `run` answered; `Unknown` where this step, or another one, is in doubt;
    /// `Place`: of kind `Conflict` where somebody else goes on with the run (`run` was not called, or its result
    /// came too late), `InvalidInput` for a name of 0 or over [`NAME_BYTES_MAX`] bytes, a
    /// result or state that cannot be JSON, is not read back from it or nests too deep, `TooLarge` for too much
    /// (where `run` was called, the step is then in doubt),
    /// `InvalidInput` too while an approval is awaited; `Decode` where the recorded result is no `T`; else as
    /// any put. A result that the place refuses for now (a full disk) is kept by this handle, and each later
    /// call tries to record it first.
    pub fn step<T, E>(&mut self, name: &str, run: impl FnOnce(&mut S) -> std::result::Result<T, E>) -> std::result::Result<T, RunError<E>>
    where
        T: Serialize + DeserializeOwned,
        E: Display,
    {
        self.step_unless(name, false, run)
    }

    /// As [`Run::step`], and does the step again if its outcome is unknown: for what does no harm twice, or can
    /// tell by itself that it was done. No store can tell a dead process from one that is still within the step.
    pub fn step_again<T, E>(
        &mut self,
        name: &str,
        run: impl FnOnce(&mut S) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, RunError<E>>
    where
        T: Serialize + DeserializeOwned,
        E: Display,
    {
        self.step_unless(name, true, run)
    }

    /// Records a result for the step whose outcome is unknown, without doing it; `give` may change the state as
    /// the step would have. Errors: `InvalidInput` where that step is not in doubt, and as any put.
    pub fn settle<T: Serialize + DeserializeOwned>(&mut self, name: &str, give: impl FnOnce(&mut S) -> T) -> Result<()> {
        self.flush()?;
        if self.unknown() != Some(name) {
            return Err(self.misuse(format!("the outcome of step {name:?} is not unknown")));
        }
        let mut state = self.copy_of_state()?;
        let result = give(&mut state);
        self.finish(name, &result, &state).map(drop)
    }

    fn step_unless<T, E>(
        &mut self,
        name: &str,
        again: bool,
        run: impl FnOnce(&mut S) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, RunError<E>>
    where
        T: Serialize + DeserializeOwned,
        E: Display,
    {
        self.ready(name)?;
        if let Some(entry) = self.record.step(name).filter(|entry| entry.outcome == Outcome::Done) {
            return Ok(entry.result().map_err(|error| error.with_thread(&self.thread))?);
        }
        self.may_begin::<E>(again.then_some(name))?;
        let mut state = self.copy_of_state()?;
        // CRASH: before this put the step is not known; behind it, until how it ended is recorded, it is unknown.
        self.write(Entry::begun(name), None)?;
        match run(&mut state) {
            Ok(result) => Ok(self.finish(name, &result, &state)?),
            Err(error) => {
                self.unsaved = Some(Unsaved { entry: Entry::failed(name, error.to_string()), state: None });
                // If that cannot be recorded now, the next call tries again, and answers why it cannot.
                let _ = self.flush();
                Err(RunError::Failed(error))
            }
        }
    }

    /// Whether something new may begin: nothing is in doubt but `settled`, and no approval is awaited.
    fn may_begin<E>(&self, settled: Option<&str>) -> std::result::Result<(), RunError<E>> {
        match (self.record.unknown(), self.record.waits()) {
            (Some(entry), _) if settled != Some(&entry.name) => Err(RunError::Unknown(entry.name.clone())),
            (_, Some(entry)) => Err(self.misuse(format!("the run waits for the approval {:?}: ask for that first", entry.name)).into()),
            _ => Ok(()),
        }
    }

    fn ready(&mut self, name: &str) -> Result<()> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(self.misuse(format!("the name of a step has 1 to {NAME_BYTES_MAX} bytes, this one has {}", name.len())));
        }
        self.flush()
    }

    /// Records what a step gave and the state that it left, and answers the first as it will be read.
    fn finish<T: Serialize + DeserializeOwned>(&mut self, name: &str, result: &T, state: &S) -> Result<T> {
        let with_thread = |error: Error| error.with_thread(&self.thread);
        let (text, result) = read_back(result, &format!("the result of {name:?}")).map_err(with_thread)?;
        let entry = Entry::done(name, text);
        // What cannot be read would end the run: it is refused while the step can still be settled.
        let (text, state) = read_back(state, "the run's state").map_err(with_thread)?;
        self.unsaved = Some(Unsaved { entry, state: Some((state, text)) });
        self.flush()?;
        Ok(result)
    }

    /// Records how a step ended, where that is still to be done.
    fn flush(&mut self) -> Result<()> {
        let Some(Unsaved { entry, state }) = self.unsaved.take() else { return Ok(()) };
        let text = state.as_ref().map(|(_, text)| text.clone());
        if let Err(error) = self.write(entry.clone(), text) {
            // What can never be recorded leaves the step in doubt.
            if !matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::TooLarge) {
                self.unsaved = Some(Unsaved { entry, state });
            }
            return Err(error);
        }
        if let Some((state, _)) = state {
            self.state = state;
        }
        Ok(())
    }

    /// Puts the record with this entry, and with this state; after an error, or a panic, it is as before.
    fn write(&mut self, entry: Entry, state: Option<Box<RawValue>>) -> Result<()> {
        let metadata = entry.metadata()?;
        let mut record = self.record.with(entry);
        record.state = state.unwrap_or(record.state);
        let options = durable().expected_head(self.head.clone()).metadata(metadata);
        let id = self.place.put_with(&self.thread, &record, options)?;
        (self.record, self.head) = (record, ExpectedHead::Id(id));
        Ok(())
    }

    /// The recorded state as a value of its own: what a step that fails, or panics, does to it is lost.
    fn copy_of_state(&self) -> Result<S> {
        decode(self.record.state.get(), "the run's state").map_err(|error| error.with_thread(&self.thread))
    }

    fn misuse(&self, message: String) -> Error {
        Error::invalid(message).with_thread(&self.thread)
    }
}

impl<C, S> fmt::Debug for Run<C, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("thread", &self.thread).field("head", &self.head).finish_non_exhaustive()
    }
}

/// A run's puts are synced whatever the place does otherwise.
fn durable() -> PutOptions {
    PutOptions::default().durability(Durability::Sync)
}

fn read<S: DeserializeOwned>(checkpoint: &Checkpoint<StateBytes>) -> Result<(Record, S)> {
    let record = Record::read(checkpoint)?;
    let state = decode(record.state.get(), "the run's state")?;
    Ok((record, state))
}

fn check_run_thread(thread: &str) -> Result<()> {
    check_thread(thread)?;
    if thread.starts_with(RESERVED) {
        return Err(
            Error::invalid(format!("a run's thread cannot begin with `{RESERVED}`: such threads are taffrail's own")).with_thread(thread)
        );
    }
    if thread.len() > RUN_THREAD_BYTES_MAX {
        return Err(Error::invalid(format!("a run's thread id has at most {RUN_THREAD_BYTES_MAX} bytes, this one has {}", thread.len())));
    }
    Ok(())
}
