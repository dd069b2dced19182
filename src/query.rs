//! What is asked of a place: pages of history, lists of threads, searches, clean-ups.

use std::ops::{Bound, Range};
use std::time::{Duration, SystemTime};

use crate::checkpoint::CheckpointId;
use crate::error::{Error, ErrorKind, Result};

/// A page of one thread's history, newest first.
#[derive(Clone, Debug, Default)]
pub struct HistoryQuery {
    /// At most so many, the newest of those asked for; None for all, 0 for none.
    pub limit: Option<usize>,
    /// Only what is older than this one, which must be there (`NotFound`).
    pub before: Option<CheckpointId>,
    /// Only what is newer than this one, which must be there (`NotFound`).
    pub after: Option<CheckpointId>,
}

impl HistoryQuery {
    /// What it asks for out of a thread of `len` checkpoints; `position` answers where an id stands,
    /// counted from the oldest, and so does the range. Errors: `NotFound`.
    pub(crate) fn range(&self, thread: &str, len: usize, position: impl Fn(&CheckpointId) -> Option<usize>) -> Result<Range<usize>> {
        let find = |what: &str, id: &CheckpointId| {
            position(id).ok_or_else(|| {
                Error::new(ErrorKind::NotFound, format!("`{what}` names checkpoint {id}, which is not there")).with_thread(thread)
            })
        };
        let end = self.before.as_ref().map(|id| find("before", id)).transpose()?.unwrap_or(len);
        let start = self.after.as_ref().map(|id| find("after", id)).transpose()?.map_or(0, |at| at + 1);
        let start = start.min(end);
        Ok(end - self.limit.unwrap_or(usize::MAX).min(end - start)..end)
    }
}

/// Which thread ids are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Matching {
    /// All.
    #[default]
    All,
    /// `*` any text, `?` any one character, `\` takes the next character as it is; all else, `[`
    /// too, means itself. A pattern that ends in an open `\` is `InvalidInput`.
    Glob(String),
    /// Those that begin with this.
    Prefix(String),
}

impl Matching {
    /// Whether a thread id is one of those.
    pub(crate) fn fits(&self, thread: &str) -> bool {
        match self {
            Matching::All => true,
            Matching::Prefix(prefix) => thread.starts_with(prefix.as_str()),
            Matching::Glob(pattern) => glob(pattern, thread),
        }
    }

    /// What all of them begin with, as far as that can be told.
    pub(crate) fn prefix(&self) -> &str {
        if let Matching::Prefix(prefix) = self { prefix } else { "" }
    }
}

/// A page of the list of threads, in byte order of their ids.
#[derive(Clone, Debug, Default)]
pub struct ThreadQuery {
    /// Which.
    pub matching: Matching,
    /// Only ids greater than this one, which need not be there: a cursor that changes between
    /// pages cannot shift.
    pub after: Option<String>,
    /// How many of them to pass over.
    pub offset: usize,
    /// At most so many; None for all, 0 for none.
    pub limit: Option<usize>,
}

impl ThreadQuery {
    /// Checks the pattern; a backend calls it first. Errors: `InvalidInput`.
    pub fn check(&self) -> Result<()> {
        match &self.matching {
            Matching::Glob(pattern) if ends_in_open_escape(pattern) => {
                Err(Error::invalid(format!("the pattern {pattern:?} ends in an open \\: write \\\\ for a backslash")))
            }
            _ => Ok(()),
        }
    }

    /// From where on, in byte order, ids can be meant; they end where one lacks the prefix.
    pub(crate) fn range(&self) -> (Bound<&str>, Bound<&str>) {
        let (after, prefix) = (self.after.as_deref().unwrap_or(""), self.matching.prefix());
        (if after < prefix { Bound::Included(prefix) } else { Bound::Excluded(after) }, Bound::Unbounded)
    }
}

/// What is known of a thread without reading a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadInfo {
    /// Its id.
    pub thread: String,
    /// Its newest checkpoint.
    pub head: CheckpointId,
    /// How many checkpoints it shows.
    pub checkpoints: u64,
    /// The sum of their states' sizes, in bytes.
    pub bytes: u64,
    /// The newest checkpoint's `saved_at`.
    pub last_saved: SystemTime,
}

/// A search for checkpoints; all conditions must hold.
#[derive(Clone, Debug, Default)]
pub struct FindQuery {
    /// Only in this thread.
    pub thread: Option<String>,
    /// Metadata members and their values.
    pub metadata: Vec<(String, serde_json::Value)>,
    /// Text in the state.
    pub text: Option<String>,
    /// At most so many; None for all, 0 for none.
    pub limit: Option<usize>,
}

/// What to delete by age, idle time or count.
#[derive(Clone, Debug, Default)]
pub struct VacuumQuery {
    /// Only in this thread.
    pub thread: Option<String>,
    /// Keep so many newest of each thread.
    pub keep: Option<usize>,
    /// Delete checkpoints older than this; never a head.
    pub older_than: Option<Duration>,
    /// Delete threads whose newest checkpoint is older than this.
    pub idle: Option<Duration>,
    /// Count only.
    pub dry_run: bool,
}

/// What a vacuum deleted, or would.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vacuumed {
    /// Checkpoints.
    pub checkpoints: u64,
    /// Whole threads.
    pub threads: u64,
}

fn ends_in_open_escape(pattern: &str) -> bool {
    (pattern.len() - pattern.trim_end_matches('\\').len()) % 2 == 1
}

/// Whether `text` fits a checked pattern; its cost is at most pattern times text, without recursion.
pub(crate) fn glob(pattern: &str, text: &str) -> bool {
    let (mut rest, mut left) = (pattern.chars(), text.chars());
    // Where to go on when what follows the last `*` does not fit: the star takes one more character.
    let mut retry: Option<(std::str::Chars<'_>, std::str::Chars<'_>)> = None;
    loop {
        let fits = match rest.next() {
            Some('*') => {
                retry = Some((rest.clone(), left.clone()));
                continue;
            }
            None if left.as_str().is_empty() => return true,
            None => false,
            Some('?') => left.next().is_some(),
            Some('\\') => rest.next() == left.next(),
            Some(literal) => left.next() == Some(literal),
        };
        if !fits {
            let Some((after_star, mut taken)) = retry else { return false };
            if taken.next().is_none() {
                return false;
            }
            (rest, left) = (after_star.clone(), taken.clone());
            retry = Some((after_star, taken));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_means_what_the_page_says() {
        let fits = |pattern: &str, text: &str| glob(pattern, text);
        assert!(fits("*", "") && fits("**", "abc") && fits("a*c", "abbc") && fits("a?c", "aéc"));
        assert!(fits("john_doe", "john_doe") && !fits("john_doe", "johnXdoe"));
        assert!(fits("100%", "100%") && !fits("100%", "100x") && fits("[ab]", "[ab]") && !fits("[ab]", "a"));
        assert!(fits(r"a\*b", "a*b") && !fits(r"a\*b", "axb") && fits(r"a\\_b", r"a\_b"));
        assert!(fits("", "") && !fits("", "a") && !fits("?", "") && fits("*a*b", "xaayb") && !fits("*a*b", "xaayc"));
    }

    #[test]
    fn an_open_escape_is_refused() {
        let check = |pattern: &str| ThreadQuery { matching: Matching::Glob(pattern.into()), ..Default::default() }.check();
        assert!(check("\\").is_err() && check(r"a\\\").is_err() && check(r"a\\").is_ok() && check("[").is_ok());
    }

    #[test]
    fn a_hostile_pattern_ends_soon() {
        assert!(!glob(&"*a".repeat(5000), &("a".repeat(4999) + "b")));
    }
}
