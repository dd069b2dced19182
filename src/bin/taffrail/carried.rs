//! What a copy or an import tells while it goes on: a bar, a line for whatever is left behind, and the numbers.
//!
//! Lines begin with what they are about and go to standard error; standard output stays empty.

use indicatif::ProgressBar;
use taffrail::ErrorKind;
use taffrail::carry::{Carried, Event, Left, LeftWhat};

use crate::failure::{Failure, REFUSED, Result};
use crate::output::{note, quoted};
use crate::progress;

/// Tells what a copy or an import does.
pub struct Teller {
    /// How each line begins.
    about: String,
    bar: ProgressBar,
}

impl Teller {
    pub fn new(about: &str) -> Self {
        Teller { about: format!("taffrail: {about}"), bar: ProgressBar::hidden() }
    }

    /// Hears of it.
    pub fn hear(&mut self, event: Event<'_>) {
        match event {
            Event::Begun { checkpoints } => self.bar = progress::counting(checkpoints, Some("checkpoints")),
            Event::Done { checkpoints } => self.bar.inc(checkpoints),
            Event::Left(left) => self.bar.suspend(|| note(&format!("{}: {}", self.about, line(&left)))),
            _ => {}
        }
    }

    /// Ends the bar, says the numbers, and answers whether anything was refused. `done` is what was done.
    pub fn ended(&self, carried: &Carried, done: &str) -> Result<()> {
        self.bar.finish_and_clear();
        for (count, what) in [
            (carried.too_old, "are older than what the threads keep or have, and were left out"),
            (carried.begun_anew, "begin anew: what they followed is not there"),
            (carried.gone, "were deleted or trimmed meanwhile"),
        ] {
            if count > 0 {
                note(&format!("{count} {what}"));
            }
        }
        if carried.attached + carried.attachments_left > 0 {
            note(&format!("{} attachments written, {} left behind", carried.attached, carried.attachments_left));
        }
        note(&format!("{done} {}, skipped {}, refused {}", carried.put, carried.skipped(), carried.refused));
        if carried.refused > 0 { Err(Failure::said(REFUSED)) } else { Ok(()) }
    }
}

impl Drop for Teller {
    /// So that what is said of an error does not stand behind a bar.
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn line(left: &Left<'_>) -> String {
    let mut line = left.thread.map_or("a row without a thread".to_owned(), |thread| format!("thread {}", quoted(thread)));
    if let Some(id) = left.id {
        line += &format!(", checkpoint {}", quoted(id));
    }
    line + &match (left.what, left.id, left.thread) {
        (LeftWhat::Whole, None, Some(_)) => format!(" skipped: {}", left.error),
        (LeftWhat::Attachment(key), ..) => format!(": attachment {} left behind: {}", quoted(key), left.error),
        (LeftWhat::Part(part), ..) => format!(": {part} left behind: {}", left.error),
        _ if left.error.kind() == ErrorKind::Corrupt => format!(" left behind: {}", left.error),
        _ => format!(" refused: {}", left.error),
    }
}
