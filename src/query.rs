//! What is asked of a place: pages of history, lists of threads, searches, clean-ups.

use std::ops::{Bound, Range};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::checkpoint::{CheckpointId, check_thread};
use crate::error::{Error, ErrorKind, Result};

/// A page of one thread's history, newest first.
///
/// ```
/// use taffrail::prelude::*;
/// use taffrail::{HistoryQuery, MemoryCheckpointer};
/// let place = MemoryCheckpointer::new();
/// let ids = (0..5).map(|step| place.put("trip", &step)).collect::<taffrail::Result<Vec<_>>>()?;
/// let older = HistoryQuery { before: Some(ids[3].clone()), limit: Some(2), ..HistoryQuery::default() };
/// let page = place.list("trip", &older)?.map(|info| info.map(|info| info.id)).collect::<taffrail::Result<Vec<_>>>()?;
/// assert_eq!(page, [ids[2].clone(), ids[1].clone()]);
/// # Ok::<(), taffrail::Error>(())
/// ```
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
///
/// ```
/// use taffrail::prelude::*;
/// use taffrail::{Matching, MemoryCheckpointer, ThreadQuery};
/// let place = MemoryCheckpointer::new();
/// ["user-1/a", "user-1/b", "user-2/a"].iter().try_for_each(|thread| place.put(thread, &0).map(drop))?;
/// let page = ThreadQuery { matching: Matching::Glob("user-?/a".into()), limit: Some(1), ..ThreadQuery::default() };
/// let next = ThreadQuery { after: Some("user-1/a".into()), ..page.clone() };
/// assert_eq!(place.list_threads(&page)?.next().unwrap()?.thread, "user-1/a");
/// assert_eq!(place.list_threads(&next)?.next().unwrap()?.thread, "user-2/a");
/// # Ok::<(), taffrail::Error>(())
/// ```
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

/// A search for checkpoints; all conditions must hold, and without one every checkpoint is found.
///
/// ```
/// use taffrail::prelude::*;
/// use taffrail::{FindQuery, MemoryCheckpointer, Metadata, PutOptions};
/// let place = MemoryCheckpointer::new();
/// let metadata = Metadata::from_json(r#"{"user": {"name": "Ada"}, "step": 7}"#)?;
/// place.put_with("t", &"Hello, world", PutOptions::default().metadata(metadata))?;
/// let query = FindQuery {
///     metadata: vec![("user.name".into(), "Ada".into()), ("step".into(), 7.into())],
///     text: Some("world hello".into()),
///     ..FindQuery::default()
/// };
/// assert_eq!(place.find(&query)?.count(), 1);
/// # Ok::<(), taffrail::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct FindQuery {
    /// Only in this thread; one that is not there has nothing to find.
    pub thread: Option<String>,
    /// Metadata members and their values.
    ///
    /// A member is named by its path: names separated by dots, an element of an array by its number from 0
    /// on; `\` takes the next character as it is, so `a\.b` is the member `a.b`. Values are equal as JSON:
    /// numbers by their value (1, 1.0 and 1e0 are one, however large), a float here as its shortest text;
    /// objects in any order. A member that is null is not one that is absent.
    pub metadata: Vec<(String, serde_json::Value)>,
    /// The same with the values as JSON text, for numbers that `Value` does not hold to the last digit.
    pub metadata_json: Vec<(String, String)>,
    /// Words, separated by white space: each must be somewhere in the state, also within a longer word,
    /// upper and lower case being one (each character's lower case by Unicode; no accent is passed over).
    ///
    /// Of a JSON state that is in a string, a name, or a number, `true`, `false` or `null` as they are written;
    /// escapes are decoded. Of other states it is in their bytes where these are UTF-8.
    pub text: Option<String>,
    /// A text that must be in the state as it stands here, upper and lower case told apart, blanks and all;
    /// within one string of a JSON state.
    pub substring: Option<String>,
    /// At most so many, the newest; None for all, 0 for none.
    pub limit: Option<usize>,
    /// Who is told of each checkpoint that was looked at.
    pub progress: Progress,
}

/// Who is told how far a search has come; nobody by default.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use std::sync::Arc;
/// use taffrail::Progress;
/// let looked_at = Arc::new(AtomicU64::new(0));
/// let counter = looked_at.clone();
/// let progress = Progress::new(move |more| {
///     counter.fetch_add(more, Ordering::Relaxed);
/// });
/// progress.tell(3);
/// assert_eq!(looked_at.load(Ordering::Relaxed), 3);
/// ```
#[derive(Clone, Default)]
pub struct Progress(Option<Arc<dyn Fn(u64) + Send + Sync>>);

impl Progress {
    /// Calls `tell` with how many more checkpoints were looked at; it should be quick.
    pub fn new(tell: impl Fn(u64) + Send + Sync + 'static) -> Self {
        Progress(Some(Arc::new(tell)))
    }

    /// Tells of so many more.
    pub fn tell(&self, more: u64) {
        if let Some(tell) = &self.0 {
            tell(more);
        }
    }
}

impl std::fmt::Debug for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Progress(told)" } else { "Progress(nobody)" })
    }
}

/// What to delete by age, idle time or count; at least one of them.
///
/// Age goes by `saved_at`, against the place's clock: it need not rise along a thread, and a time to
/// come is not old. Which checkpoints are a thread's newest, and which is its head, goes by their
/// order, as everywhere. A thread that `idle` does not take is left to `older_than` and `keep`: a
/// checkpoint goes if it is not the head and each of these two that is given lets it go.
///
/// ```
/// use std::time::Duration;
/// use taffrail::prelude::*;
/// use taffrail::{MemoryCheckpointer, VacuumQuery};
/// let place = MemoryCheckpointer::new();
/// (0..5).try_for_each(|step| place.put("trip", &step).map(drop))?;
/// let query = VacuumQuery { keep: Some(2), dry_run: true, ..VacuumQuery::default() };
/// assert_eq!(place.vacuum(&query)?.checkpoints, 3);
/// let query = VacuumQuery { older_than: Some(Duration::from_secs(30 * 86_400)), ..VacuumQuery::default() };
/// assert_eq!(place.vacuum(&query)?.checkpoints, 0);
/// # Ok::<(), taffrail::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct VacuumQuery {
    /// Only in this thread; one that is not there has nothing to delete.
    pub thread: Option<String>,
    /// Keep so many newest of each thread, whatever their age; 0 is `InvalidInput`.
    pub keep: Option<usize>,
    /// Delete checkpoints older than this; never a head.
    pub older_than: Option<Duration>,
    /// Delete threads whose newest checkpoint is older than this, whole.
    pub idle: Option<Duration>,
    /// Count only.
    pub dry_run: bool,
}

impl VacuumQuery {
    /// Checks what it asks for; a backend calls it first. Errors: `InvalidInput`.
    pub fn check(&self) -> Result<()> {
        self.thread.as_deref().map_or(Ok(()), check_thread)?;
        if self.keep == Some(0) {
            return Err(Error::invalid("a vacuum keeps at least 1 checkpoint of each thread; to delete whole threads give `idle`"));
        }
        if self.keep.is_none() && self.older_than.is_none() && self.idle.is_none() {
            return Err(Error::invalid("a vacuum deletes by `older_than`, `idle` or `keep`: none of them is given"));
        }
        Ok(())
    }

    /// How many of a thread's newest are out of question: what it keeps, and always the head.
    pub(crate) fn spared(&self) -> usize {
        self.keep.unwrap_or(1).max(1)
    }

    /// What it takes of a thread of `len` checkpoints, at least 1. `saved_at` answers by where one
    /// stands, counted from the oldest, and is asked no more often than the answer needs.
    pub(crate) fn judge(&self, len: usize, now: SystemTime, saved_at: impl Fn(usize) -> Result<SystemTime>) -> Result<Verdict> {
        // The age is compared, and no time before now worked out: the clock need not reach back so far.
        let older = |index: usize, than: Duration| Ok(now.duration_since(saved_at(index)?).is_ok_and(|age| age > than));
        if let Some(idle) = self.idle
            && older(len - 1, idle)?
        {
            return Ok(Verdict::Whole);
        }
        let candidates = 0..len.saturating_sub(self.spared());
        let going = match (self.older_than, self.keep) {
            (Some(than), _) => {
                let old = candidates.map(|index| Ok(older(index, than)?.then_some(index)));
                old.filter_map(Result::transpose).collect::<Result<_>>()?
            }
            (None, Some(_)) => candidates.collect(),
            (None, None) => Vec::new(),
        };
        Ok(Verdict::Checkpoints(going))
    }
}

/// What a vacuum takes of one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// All of it.
    Whole,
    /// Those that stand there, counted from the oldest, ascending; never the newest.
    Checkpoints(Vec<usize>),
}

impl Verdict {
    /// How much that is of a thread of `len` checkpoints.
    pub fn count(&self, len: usize) -> Vacuumed {
        match self {
            Verdict::Whole => Vacuumed { checkpoints: len as u64, threads: 1 },
            Verdict::Checkpoints(going) => Vacuumed { checkpoints: going.len() as u64, threads: 0 },
        }
    }
}

/// What a vacuum deleted, or would.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vacuumed {
    /// Checkpoints, those of whole threads too.
    pub checkpoints: u64,
    /// Whole threads.
    pub threads: u64,
}

impl Vacuumed {
    /// Counts more.
    pub(crate) fn add(&mut self, more: Vacuumed) {
        self.checkpoints += more.checkpoints;
        self.threads += more.threads;
    }
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

    const NOW: u64 = 1_000;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    /// The judgement on a thread whose checkpoints were saved then, oldest first.
    fn judge(query: &VacuumQuery, saved_at: &[u64]) -> Verdict {
        query.check().unwrap();
        query.judge(saved_at.len(), at(NOW), |index| Ok(at(saved_at[index]))).unwrap()
    }

    fn older_than(seconds: u64) -> VacuumQuery {
        VacuumQuery { older_than: Some(Duration::from_secs(seconds)), ..VacuumQuery::default() }
    }

    fn idle(seconds: u64) -> VacuumQuery {
        VacuumQuery { idle: Some(Duration::from_secs(seconds)), ..VacuumQuery::default() }
    }

    fn those(going: &[usize]) -> Verdict {
        Verdict::Checkpoints(going.to_vec())
    }

    #[test]
    fn a_vacuum_asks_for_something() {
        let refused = |query: VacuumQuery| query.check().unwrap_err().kind() == ErrorKind::InvalidInput;
        assert!(refused(VacuumQuery::default()) && refused(VacuumQuery { thread: Some("t".into()), dry_run: true, ..Default::default() }));
        assert!(refused(VacuumQuery { keep: Some(0), ..older_than(1) }));
        assert!(refused(VacuumQuery { thread: Some(String::new()), ..older_than(1) }));
    }

    #[test]
    fn what_is_older_goes_and_the_head_never() {
        assert_eq!(judge(&older_than(100), &[100, 899, 900, 901, 950]), those(&[0, 1]));
        assert_eq!(judge(&older_than(100), &[1, 2, 3]), those(&[0, 1]));
        assert_eq!(judge(&older_than(100), &[1]), those(&[]));
        assert_eq!(judge(&older_than(0), &[NOW - 1, NOW, NOW]), those(&[0]));
    }

    #[test]
    fn ages_need_not_rise_along_a_thread() {
        // The clock stepped back after the second, and was ahead for the fourth.
        assert_eq!(judge(&older_than(100), &[950, 960, 500, 2_000, 600, 999]), those(&[2, 4]));
        // The newest by the clock is not the head, and goes if it is old.
        assert_eq!(judge(&older_than(100), &[10, 890, 20]), those(&[0, 1]));
        assert_eq!(judge(&older_than(0), &[2_000, 3_000, 4_000]), those(&[]));
        assert_eq!(judge(&idle(100), &[950, 950, 500]), Verdict::Whole);
        assert_eq!(judge(&idle(100), &[1, 1, 2_000]), those(&[]));
    }

    #[test]
    fn the_newest_are_kept_whatever_their_age() {
        let keep = |keep: usize, query: VacuumQuery| VacuumQuery { keep: Some(keep), ..query };
        assert_eq!(judge(&keep(2, VacuumQuery::default()), &[2_000, 1, 2_000, 1]), those(&[0, 1]));
        assert_eq!(judge(&keep(9, VacuumQuery::default()), &[1, 2]), those(&[]));
        assert_eq!(judge(&keep(usize::MAX, older_than(0)), &[1, 2]), those(&[]));
        assert_eq!(judge(&keep(2, older_than(100)), &[1, 950, 1, 1, 1]), those(&[0, 2]));
        assert_eq!(judge(&keep(1, older_than(100)), &[1, 950, 1, 1, 1]), those(&[0, 2, 3]));
    }

    #[test]
    fn an_idle_thread_goes_whole_and_another_is_left_to_the_rest() {
        let both = VacuumQuery { keep: Some(3), idle: Some(Duration::from_secs(500)), ..older_than(100) };
        assert_eq!(judge(&both, &[1, 2, 499]), Verdict::Whole);
        assert_eq!(judge(&both, &[1, 2, 3, 4, 500]), those(&[0, 1]));
        assert_eq!(judge(&idle(500), &[1, 2, 3, 4, 500]), those(&[]));
    }

    #[test]
    fn an_age_beyond_all_clocks_matches_nothing() {
        let query = VacuumQuery { older_than: Some(Duration::MAX), idle: Some(Duration::MAX), ..VacuumQuery::default() };
        assert_eq!(judge(&query, &[0, 0, 0]), those(&[]));
    }

    #[test]
    fn no_more_times_are_asked_for_than_needed() {
        let asked = std::cell::RefCell::new(Vec::new());
        let judge = |query: VacuumQuery| {
            let saved_at = |index: usize| {
                asked.borrow_mut().push(index);
                Ok(at(999))
            };
            query.judge(5, at(NOW), saved_at).unwrap();
            asked.take()
        };
        assert!(judge(VacuumQuery { keep: Some(1), ..Default::default() }).is_empty());
        assert_eq!(judge(idle(1)), [4]);
        assert_eq!(judge(VacuumQuery { keep: Some(3), ..older_than(1) }), [0, 1]);
    }

    #[test]
    fn a_hostile_pattern_ends_soon() {
        assert!(!glob(&"*a".repeat(5000), &("a".repeat(4999) + "b")));
    }
}
