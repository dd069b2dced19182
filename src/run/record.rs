//! What a run's checkpoints hold: the caller's state and every step with its outcome, as JSON.
//!
//! Each checkpoint is the whole record, so the newest one alone is enough to go on from, however few a place
//! keeps. States and results are kept as the text that they were written as: who only adds a decision changes
//! nothing else. Pure: no place is known here.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::checkpoint::{Checkpoint, Metadata, StateBytes, TypeTag};
use crate::error::{Error, ErrorKind, Result};
use crate::json;

/// The layout that is written, told by the member `run` of records, markers and their metadata.
pub(super) const LAYOUT: u32 = 1;

/// The longest name of a step or an approval, in bytes.
pub const NAME_BYTES_MAX: usize = 1024;

/// All that a run is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Record {
    run: u32,
    pub state: Box<RawValue>,
    steps: Vec<Entry>,
}

/// A step or an approval, and how far it has come.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Entry {
    pub name: String,
    pub outcome: Outcome,
    /// What an approval is asked for; absent for null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Box<RawValue>>,
    /// What a step gave, or what was decided; absent for null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result: Option<Box<RawValue>>,
    /// The error of a step that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

/// How far a step (the first three) or an approval has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Outcome {
    Begun,
    Done,
    Failed,
    Waits,
    Decided,
}

impl Entry {
    fn new(name: &str, outcome: Outcome) -> Self {
        Entry { name: name.to_owned(), outcome, payload: None, result: None, message: None }
    }

    pub fn begun(name: &str) -> Self {
        Entry::new(name, Outcome::Begun)
    }

    pub fn done(name: &str, result: Box<RawValue>) -> Self {
        Entry { result: present(result), ..Entry::new(name, Outcome::Done) }
    }

    pub fn failed(name: &str, message: String) -> Self {
        Entry { message: Some(message), ..Entry::new(name, Outcome::Failed) }
    }

    pub fn waits(name: &str, payload: Box<RawValue>) -> Self {
        Entry { payload: present(payload), ..Entry::new(name, Outcome::Waits) }
    }

    fn is_approval(&self) -> bool {
        matches!(self.outcome, Outcome::Waits | Outcome::Decided)
    }

    /// The same approval, decided.
    pub fn decided(self, decision: Box<RawValue>) -> Self {
        Entry { outcome: Outcome::Decided, result: present(decision), ..self }
    }

    /// What it gave, as a value. Errors: `Decode`.
    pub fn result<T: DeserializeOwned>(&self) -> Result<T> {
        decode(self.result.as_deref().map_or("null", RawValue::get), &format!("the result of {:?}", self.name))
    }

    /// What the checkpoint that records it says of it in its metadata.
    pub fn metadata(&self) -> Result<Metadata> {
        #[derive(Serialize)]
        struct Told<'a> {
            run: u32,
            step: &'a str,
            outcome: Outcome,
        }
        Metadata::new(&Told { run: LAYOUT, step: &self.name, outcome: self.outcome })
    }
}

impl Record {
    /// A run that has not begun.
    pub fn new(state: Box<RawValue>) -> Self {
        Record { run: LAYOUT, state, steps: Vec::new() }
    }

    /// Reads a thread's checkpoint. Errors: `Decode` where it is no run's, `Unsupported` where a newer version
    /// wrote it.
    pub fn read(checkpoint: &Checkpoint<StateBytes>) -> Result<Self> {
        #[derive(Deserialize)]
        struct Head {
            run: u32,
        }
        let none = || Error::new(ErrorKind::Decode, "the thread is no run: its newest checkpoint is not a run's record");
        if checkpoint.tag != TypeTag::JSON {
            return Err(none());
        }
        let head: Head = serde_json::from_slice(&checkpoint.state).map_err(|error| none().with_source(error))?;
        if head.run > LAYOUT {
            let message = format!("the run was written by a newer version (layout {}, this one knows {LAYOUT})", head.run);
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        serde_json::from_slice(&checkpoint.state).map_err(|error| none().with_source(error))
    }

    pub fn step(&self, name: &str) -> Option<&Entry> {
        self.steps.iter().find(|entry| entry.name == name && !entry.is_approval())
    }

    pub fn approval(&self, name: &str) -> Option<&Entry> {
        self.steps.iter().find(|entry| entry.name == name && entry.is_approval())
    }

    /// The step that was begun and has no outcome; there is at most one.
    pub fn unknown(&self) -> Option<&Entry> {
        self.steps.iter().find(|entry| entry.outcome == Outcome::Begun)
    }

    /// The approval that the run waits for; there is at most one.
    pub fn waits(&self) -> Option<&Entry> {
        self.steps.iter().find(|entry| entry.outcome == Outcome::Waits)
    }

    /// The record with this entry in the place of the step, or the approval, of its name, or at the end.
    pub fn with(&self, entry: Entry) -> Record {
        let mut record = self.clone();
        match record.steps.iter().position(|old| old.name == entry.name && old.is_approval() == entry.is_approval()) {
            Some(at) => record.steps[at] = entry,
            None => record.steps.push(entry),
        }
        record
    }
}

/// What is written of a value: nothing for null, as that is what is read for it.
fn present(value: Box<RawValue>) -> Option<Box<RawValue>> {
    (value.get() != "null").then_some(value)
}

/// A value as JSON text. Errors: `InvalidInput` as for any put.
pub(super) fn raw<T: Serialize + ?Sized>(value: &T) -> Result<Box<RawValue>> {
    serde_json::from_slice(&json::to_text(value)?).map_err(|error| Error::invalid("the value cannot be written as JSON").with_source(error))
}

/// A value as JSON text, and as it is read out of it. Errors: `InvalidInput`, also where it is not read back.
pub(super) fn read_back<T: Serialize + DeserializeOwned>(value: &T, what: &str) -> Result<(Box<RawValue>, T)> {
    let text = raw(value)?;
    let read = serde_json::from_str(text.get()).map_err(|error| {
        Error::invalid(format!("{what} cannot be read back from the JSON that it is written as: {error}")).with_source(error)
    })?;
    Ok((text, read))
}

/// A value out of JSON text. Errors: `Decode`, naming `what` it is.
pub(super) fn decode<T: DeserializeOwned>(text: &str, what: &str) -> Result<T> {
    let message = |error: &serde_json::Error| format!("{what} is not of the type asked for: {error}");
    serde_json::from_str(text).map_err(|error| Error::new(ErrorKind::Decode, message(&error)).with_source(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_back_to_the_byte() {
        let mut record = Record::new(raw(&serde_json::json!({"to": "Lisbon"})).unwrap());
        let asked = Entry::waits("sure?", raw("go").unwrap());
        for entry in [
            Entry::done("search", RawValue::from_string("[18446744073709551616,1.0]".into()).unwrap()),
            Entry::failed("pay", "refused".into()),
            asked.decided(raw(&true).unwrap()),
            Entry::begun("book"),
        ] {
            record = record.with(entry);
        }
        let text = serde_json::to_string(&record).unwrap();
        let expected = concat!(
            r#"{"run":1,"state":{"to":"Lisbon"},"steps":[{"name":"search","outcome":"done","result":[18446744073709551616,1.0]},"#,
            r#"{"name":"pay","outcome":"failed","message":"refused"},"#,
            r#"{"name":"sure?","outcome":"decided","payload":"go","result":true},{"name":"book","outcome":"begun"}]}"#
        );
        assert_eq!(text, expected);
        let read: Record = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        assert_eq!(read.unknown().map(|entry| entry.name.as_str()), Some("book"));
    }

    #[test]
    fn nothing_is_a_result() {
        let text = serde_json::to_string(&Entry::done("a", raw(&()).unwrap())).unwrap();
        let read: Entry = serde_json::from_str(&text).unwrap();
        read.result::<()>().unwrap();
        assert_eq!(read.result::<Option<u8>>().unwrap(), None);
        assert_eq!(read.result::<u8>().unwrap_err().kind(), ErrorKind::Decode);
    }

    #[test]
    fn a_step_and_an_approval_may_have_one_name() {
        let mut record = Record::new(raw(&0).unwrap());
        let asked = Entry::waits("a", raw(&1).unwrap());
        for entry in [Entry::begun("a"), asked.clone(), Entry::failed("a", String::new()), asked.decided(raw(&2).unwrap())] {
            record = record.with(entry);
        }
        assert_eq!(record.steps.len(), 2);
        assert_eq!(record.step("a").map(|entry| entry.outcome), Some(Outcome::Failed));
        assert_eq!(record.approval("a").map(|entry| entry.outcome), Some(Outcome::Decided));
    }
}
