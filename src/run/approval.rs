//! Approvals: a run asks and waits, and of all who decide, in any processes, one is heard.
//!
//! A decision is a put of the run's record that expects the checkpoint in which the run waits to be the newest:
//! the first one moves the thread, and every other one finds it moved. It goes in one batch with the removal of
//! the run's marker, as asking went in one with putting it, so that no crash comes between.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::record::{Entry, Outcome, Record, raw};
use super::waiting::{Marker, is_marker, marker_of};
use super::{Run, RunError, durable, read};
use crate::batch::{Batch, ExpectedHead, Parent};
use crate::checkpoint::{CheckpointId, TypeTag};
use crate::checkpointer::{Checkpointer, put_one};
use crate::error::{Error, ErrorKind, Result};
use crate::json;

impl<C: Checkpointer, S: Serialize + DeserializeOwned> Run<C, S> {
    /// Asks for an approval, or answers what was decided; None: not yet. It does not wait: ask again later, in
    /// this process or in another one (of a store, a [`watch`](crate::Store::watch) on the thread tells when).
    ///
    /// The first call makes the run one of those that [`waiting`](super::waiting()) lists, with `payload`, in one
    /// durable batch; later ones ignore their payload. A call that finds nothing decided reads no state. No new step
    /// is begun while the run waits; whether it asks before the step, and what it then does, is the caller's.
    ///
    /// Errors: `Unknown` where a step is in doubt; `Place`: `Conflict` where somebody else goes on with the run,
    /// or has a thread under the name of its marker; `InvalidInput` as for a step; `Decode` where the decision
    /// is no `D`: it stands all the same, and is read as what it is, or asked for anew under another name.
    pub fn await_approval<D: DeserializeOwned>(
        &mut self,
        name: &str,
        payload: &(impl Serialize + ?Sized),
    ) -> std::result::Result<Option<D>, RunError> {
        self.ready(name)?;
        match self.record.approval(name).map(|entry| entry.outcome) {
            None => {
                self.may_begin(None)?;
                self.ask(Entry::waits(name, raw(payload).map_err(|error| error.with_thread(&self.thread))?))?;
                return Ok(None);
            }
            Some(Outcome::Waits) if !self.is_decided()? => return Ok(None),
            Some(_) => {}
        }
        let decided = self.record.approval(name).map(|entry| entry.result()).transpose();
        Ok(decided.map_err(|error| error.with_thread(&self.thread))?)
    }

    /// Whether the approval that the run waits for was decided meanwhile; takes the decision in.
    fn is_decided(&mut self) -> Result<bool> {
        if self.is_at_head()? {
            let marked = self.mark_again();
            // A decision may have come between: then that is the answer.
            if marked.is_ok() || self.is_at_head()? {
                return marked.map(|()| false);
            }
        }
        // Nobody else goes on with this run: the newest checkpoint decides it, and follows the one known here.
        let newest = self.place.get_bytes(&self.thread)?;
        if let Some(newest) = newest.filter(|newest| newest.parent.clone().map(ExpectedHead::Id).as_ref() == Some(&self.head)) {
            let (record, state) = read(&newest).map_err(|error| error.with_thread(&self.thread))?;
            if record.unknown().is_none() && record.waits().is_none() {
                (self.record, self.state, self.head) = (record, state, ExpectedHead::Id(newest.info.id));
                return Ok(true);
            }
        }
        Err(Error::new(ErrorKind::Conflict, "somebody else has gone on with the run").with_thread(&self.thread))
    }

    fn is_at_head(&self) -> Result<bool> {
        Ok(self.place.head(&self.thread)?.is_some_and(|head| self.head == ExpectedHead::Id(head.id)))
    }

    /// Marks a run that waits, where its marker is not there: it is a fork, say, or the marker was deleted.
    fn mark_again(&mut self) -> Result<()> {
        let marker = self.place.head(&marker_of(&self.thread))?;
        if marker.is_some_and(|marker| self.head == ExpectedHead::Id(marker.id)) {
            return Ok(());
        }
        self.record.waits().cloned().map_or(Ok(()), |entry| self.ask(entry))
    }

    /// Puts the record with this approval asked for, and the marker, in one batch.
    fn ask(&mut self, entry: Entry) -> Result<()> {
        let marker = marker_of(&self.thread);
        let stale = self.place.head(&marker)?;
        if stale.as_ref().is_some_and(|stale| !is_marker(stale)) {
            let message = "a thread of this name is in the way of the run's marker: rename or delete it";
            return Err(Error::new(ErrorKind::Conflict, message).with_thread(&marker));
        }
        let (id, metadata) = (CheckpointId::fresh(), entry.metadata()?);
        let mark = Marker::of(&self.thread, &entry);
        let (mark, marked) = (json::to_text(&mark)?, mark.metadata()?);
        let record = self.record.with(entry);
        let text = json::to_text(&record)?;
        let mut batch = Batch::new();
        let options = durable().id(id.clone()).expected_head(self.head.clone()).metadata(metadata);
        batch.put(&self.thread, TypeTag::JSON, &text, options);
        if let Some(stale) = &stale {
            batch.delete(&marker, Some(stale.id.clone()));
        }
        // The marker has the id of the checkpoint that it stands for: where the two differ it is stale.
        batch.put(&marker, TypeTag::JSON, &mark, durable().id(id.clone()).parent(Parent::Root).metadata(marked));
        self.place.commit(&batch)?;
        (self.record, self.head) = (record, ExpectedHead::Id(id));
        Ok(())
    }
}

/// Decides what the run of that thread waits for, and answers the id of the checkpoint that says so. Of any
/// number of callers, in any processes, exactly one is answered so, and what it decided is what the run gets.
///
/// Blocks until it is durable. Errors: `NotFound` where there is no such thread; `Conflict` where it waits for
/// nothing: somebody else has decided, or it has not asked; `Decode` where it is no run; `Unsupported` for a run
/// of a newer version or a place without `compare_and_put`; and as any put.
///
/// ```
/// use taffrail::MemoryCheckpointer;
/// use taffrail::run::{self, Run};
/// let place = MemoryCheckpointer::new();
/// let mut run: Run<_, ()> = Run::start_or_resume(&place, "trip")?;
/// assert_eq!(run.await_approval::<bool>("book", "book the flight?")?, None);
/// run::approve(&place, "trip", &true)?;
/// assert!(run::approve(&place, "trip", &false).is_err(), "one is heard");
/// assert_eq!(run.await_approval("book", "")?, Some(true));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn approve(place: &(impl Checkpointer + ?Sized), thread: &str, decision: &(impl Serialize + ?Sized)) -> Result<CheckpointId> {
    decide(place, thread, None, &raw(decision)?)
}

/// As [`approve`], only if the run waits in that checkpoint ([`Waiting::checkpoint`](super::Waiting)): so that
/// nobody decides what they have not seen. Errors: `Conflict` too where it waits for something else by now.
pub fn approve_at(
    place: &(impl Checkpointer + ?Sized),
    thread: &str,
    checkpoint: &CheckpointId,
    decision: &(impl Serialize + ?Sized),
) -> Result<CheckpointId> {
    decide(place, thread, Some(checkpoint), &raw(decision)?)
}

fn decide(place: &(impl Checkpointer + ?Sized), thread: &str, at: Option<&CheckpointId>, decision: &RawValue) -> Result<CheckpointId> {
    if !place.capabilities().compare_and_put {
        return Err(Error::unsupported("compare_and_put"));
    }
    let conflict = |message: &str| Error::new(ErrorKind::Conflict, message).with_thread(thread);
    loop {
        let Some(checkpoint) = place.get_bytes(thread)? else {
            return Err(Error::new(ErrorKind::NotFound, "there is no such run").with_thread(thread));
        };
        let record = Record::read(&checkpoint).map_err(|error| error.with_thread(thread))?;
        let Some(entry) = record.waits().cloned() else {
            return Err(conflict("the run waits for no approval: somebody else has decided, or it has not asked"));
        };
        let waits_in = &checkpoint.info.id;
        if at.is_some_and(|at| at != waits_in) {
            return Err(conflict("the run waits in another checkpoint by now: look at what it asks for"));
        }
        let entry = entry.decided(decision.to_owned());
        let options = durable().expected_head(ExpectedHead::Id(waits_in.clone())).metadata(entry.metadata()?);
        let (text, marker) = (json::to_text(&record.with(entry))?, marker_of(thread));
        let mut batch = Batch::new();
        batch.put(thread, TypeTag::JSON, &text, options);
        // Whatever else stands under the marker's name stays, also what has the run's own ids: a fork.
        if place.head(&marker)?.is_some_and(|info| info.id == *waits_in && is_marker(&info)) {
            batch.delete(&marker, Some(waits_in.clone()));
        }
        match place.commit(&batch) {
            // Somebody was faster; what they did is read, and decides what is answered.
            Err(error) if error.kind() == ErrorKind::Conflict => {}
            Err(error) => return Err(error),
            Ok(mut committed) => {
                committed.truncate(1);
                return put_one(committed);
            }
        }
    }
}
