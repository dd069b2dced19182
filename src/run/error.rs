//! Why a step of a run has no result, or an approval no decision.

use std::convert::Infallible;
use std::fmt;

use crate::error::Error;

/// Why a call of [`Run`](crate::run::Run) did not answer; `E` is the error of the step's own closure.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunError<E = Infallible> {
    /// The step ran and answered this error. What it changed of the state is undone, and that it failed is
    /// recorded: it is run again when it is asked for again.
    Failed(E),
    /// The step of this name was begun, and its outcome is not recorded: its process ended in it or is still within
    /// it, its closure panicked, or what it gave could not be recorded. Nothing else is run until [`step_again`](crate::run::Run::step_again) or
    /// [`settle`](crate::run::Run::settle) has decided.
    Unknown(String),
    /// What the place, or the run, said. `Conflict`: somebody else goes on with this run, and this handle is
    /// finished.
    Place(Error),
}

impl<E> From<Error> for RunError<E> {
    fn from(error: Error) -> Self {
        RunError::Place(error)
    }
}

impl<E: fmt::Display> fmt::Display for RunError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Failed(error) => write!(f, "the step failed: {error}"),
            RunError::Unknown(name) => {
                write!(f, "step {name:?} was begun and its outcome is unknown: run it again, or say what it was")
            }
            RunError::Place(error) => error.fmt(f),
        }
    }
}

/// The source is what the place's error has; a closure's error need be none, and is in the message.
impl<E: fmt::Debug + fmt::Display> std::error::Error for RunError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            RunError::Place(error) => std::error::Error::source(error),
            _ => None,
        }
    }
}
