//! How a verb ends when it does not end well: an exit code, and one line for standard error.
//!
//! Every way to fail becomes a [`Failure`] here, so the table of exit codes stands in one place.
//! A reader that went away (a closed pipe) is no failure and says nothing.

use std::fmt::Display;
use std::io;
use std::path::Path;

use taffrail::{Error, ErrorKind};

/// What a verb answers.
pub type Result<T> = std::result::Result<T, Failure>;

pub const NOT_FOUND: u8 = 1;
pub const USAGE: u8 = 2;
pub const DAMAGE: u8 = 3;
pub const CONFLICT: u8 = 4;
pub const REFUSED: u8 = 5;
pub const SYSTEM: u8 = 6;

/// The end of a verb that did not do all it was asked.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub code: u8,
    /// What to say; None when all is said.
    pub message: Option<String>,
}

impl Failure {
    /// A failure with something to say.
    pub fn new(code: u8, message: impl Into<String>) -> Self {
        Failure { code, message: Some(message.into()) }
    }

    /// An exit code alone: what there is to say has been printed.
    pub fn said(code: u8) -> Self {
        Failure { code, message: None }
    }

    /// What was asked for is not there.
    pub fn not_found(message: impl Into<String>) -> Self {
        Failure::new(NOT_FOUND, message)
    }

    /// A file that is not the store's could not be read or written.
    pub fn file(what: &str, path: &Path, error: &io::Error) -> Self {
        Failure::new(SYSTEM, format!("cannot {what} {}: {error}", path.display()))
    }

    /// The same failure, with the place it happened in put before its message.
    pub fn at(mut self, place: impl Display) -> Self {
        self.message = self.message.map(|message| format!("{place}: {message}"));
        self
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::new(code_of(error.kind()), error.to_string())
    }
}

/// Only writing to standard output fails with a bare `io::Error`.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::said(0),
            _ => Failure::new(SYSTEM, format!("cannot write to standard output: {error}")),
        }
    }
}

fn code_of(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::NotFound => NOT_FOUND,
        ErrorKind::Corrupt => DAMAGE,
        ErrorKind::Conflict | ErrorKind::Busy => CONFLICT,
        ErrorKind::InvalidInput | ErrorKind::TooLarge | ErrorKind::Unsupported | ErrorKind::Decode => REFUSED,
        _ => SYSTEM,
    }
}
