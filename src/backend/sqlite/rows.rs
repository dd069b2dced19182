//! From the tables to what a reader is given. Each function asks within a transaction of the caller's.
//!
//! A row of windlass' has no row of ours: its id is its number in decimal, its parent the row before it, its
//! time the seconds of a clock, and its state is believed as it stands. Texts are compared byte for byte
//! (no collation, no LIKE, no number taken for a text), and NUL is a byte like any other.

use std::ops::{Bound, Range};
use std::sync::Arc;
use std::time::SystemTime;

use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row};

use super::failure::{Failure, Outcome};
use super::proof::{self, Known};
use crate::batch::{nanos_of, time_of};
use crate::checkpoint::{Attachment, Checkpoint, CheckpointId, CheckpointInfo, Metadata, StateBytes, THREAD_BYTES_MAX, TypeTag};
use crate::finding::Search;
use crate::query::{HistoryQuery, ThreadInfo, ThreadQuery};

/// What is known of a checkpoint, read without its state: of a value that is long SQLite knows the length
/// without the pages, and of a row of ours nothing behind the state is asked for.
macro_rules! info {
    () => {
        "c.id, coalesce(t.name, CAST(c.id AS TEXT)),
        CASE WHEN t.tag IS NULL THEN (
            SELECT coalesce(u.name, CAST(p.id AS TEXT)) FROM checkpoints p LEFT JOIN taffrail_checkpoints u ON u.id = p.id
            WHERE p.thread_id = c.thread_id AND p.id < c.id ORDER BY p.id DESC LIMIT 1
        ) ELSE t.parent END,
        CASE WHEN t.tag IS NULL THEN c.saved_at ELSE t.saved_at END,
        coalesce(t.tag, CASE typeof(c.state) WHEN 'text' THEN 'json' ELSE 'bytes' END),
        coalesce(t.metadata, ''), coalesce(octet_length(t.data), octet_length(c.state)), t.hash, t.proof"
    };
}

/// Where they stand in such a row.
const HASH: usize = 7;
const PROOF: usize = 8;
/// Where one of these two stands behind them.
const STATE: usize = 9;
const THREAD: usize = 9;

/// Behind the number of bytes, what windlass is told of a state that is no JSON.
const TOLD: &str = " bytes that are no JSON: see taffrail_checkpoints\"";

macro_rules! joined {
    () => {
        " FROM checkpoints c LEFT JOIN taffrail_checkpoints t ON t.id = c.id "
    };
}

/// That a row's thread is one that can be named: others' rows may say anything there.
macro_rules! is_named {
    () => {
        " typeof(thread_id) = 'text' AND octet_length(thread_id) BETWEEN 1 AND 4096 "
    };
}
const _: () = assert!(THREAD_BYTES_MAX == 4096, "the statements say so too");

const PAGE: &str =
    concat!("SELECT ", info!(), joined!(), "WHERE c.thread_id = ?1 AND c.id >= ?2 AND c.id < ?3 ORDER BY c.id DESC LIMIT ?4");
const PAGE_WITH_STATES: &str = concat!(
    "SELECT ",
    info!(),
    ", coalesce(t.data, c.state)",
    joined!(),
    "WHERE c.thread_id = ?1 AND c.id >= ?2 AND c.id < ?3 ORDER BY c.id DESC LIMIT ?4"
);
/// Of all threads, each row with its own behind the rest.
const ALL: &str = concat!("SELECT ", info!(), ", c.thread_id", joined!(), "WHERE", is_named!(), "ORDER BY c.id DESC");
const SUMS: &str =
    concat!("SELECT count(*), total(coalesce(octet_length(t.data), octet_length(c.state)))", joined!(), "WHERE c.thread_id = ?1");

/// Some numbers of a thread: at most so many of the newest in that range.
pub(super) struct Page {
    rows: Range<i64>,
    limit: i64,
}

impl Page {
    /// What a query asks for. Errors: `NotFound`.
    pub fn of(connection: &Connection, thread: &str, query: &HistoryQuery) -> Outcome<Page> {
        let mut points = Vec::new();
        for id in query.before.iter().chain(&query.after) {
            points.push((id, find(connection, thread, id)?));
        }
        let stands = |id: &CheckpointId| points.iter().find(|(point, _)| *point == id).and_then(|(_, row)| usize::try_from((*row)?).ok());
        // By number, where not every number is a checkpoint: the limit is for SQLite to count.
        let unlimited = HistoryQuery { limit: None, ..query.clone() };
        let range = unlimited.range(thread, usize::MAX, stands)?;
        let number = |at: usize| i64::try_from(at).unwrap_or(i64::MAX);
        // A row below 0 cannot be shown, and is not to be passed over either.
        let start = if range.start == 0 { i64::MIN } else { number(range.start) };
        Ok(Page { rows: start..number(range.end), limit: query.limit.map_or(-1, number) })
    }

    pub fn newest() -> Page {
        Page { rows: i64::MIN..i64::MAX, limit: 1 }
    }

    pub fn one(row: i64) -> Page {
        Page { rows: row..row.saturating_add(1), limit: 1 }
    }

    /// Newest first, without any state; it ends with the first that cannot be had.
    pub fn infos(&self, connection: &Connection, thread: &Arc<str>) -> Outcome<Vec<Outcome<CheckpointInfo>>> {
        let mut statement = connection.prepare_cached(PAGE)?;
        let mut rows = statement.query((&**thread, self.rows.start, self.rows.end, self.limit))?;
        let mut infos = Vec::new();
        while let Some(row) = rows.next()? {
            infos.push(info(row, thread));
            if infos.last().is_some_and(Result::is_err) {
                break;
            }
        }
        Ok(infos)
    }

    /// What is known of the newest.
    pub fn info(&self, connection: &Connection, thread: &Arc<str>) -> Outcome<Option<CheckpointInfo>> {
        self.infos(connection, thread)?.into_iter().next().transpose()
    }

    /// Newest first, each with its state, or with why it cannot be had; until `take` fails.
    pub fn each(
        &self,
        connection: &Connection,
        thread: &Arc<str>,
        mut take: impl FnMut(Outcome<Checkpoint<StateBytes>>) -> Outcome<()>,
    ) -> Outcome<()> {
        let mut statement = connection.prepare_cached(PAGE_WITH_STATES)?;
        let mut rows = statement.query((&**thread, self.rows.start, self.rows.end, self.limit))?;
        while let Some(row) = rows.next()? {
            take(checkpoint(row, thread))?;
        }
        Ok(())
    }

    /// The newest, with its state.
    pub fn first(&self, connection: &Connection, thread: &Arc<str>) -> Outcome<Option<Checkpoint<StateBytes>>> {
        let mut statement = connection.prepare_cached(PAGE_WITH_STATES)?;
        let mut rows = statement.query((&**thread, self.rows.start, self.rows.end, 1))?;
        rows.next()?.map(|row| checkpoint(row, thread)).transpose()
    }
}

fn info(row: &Row<'_>, thread: &Arc<str>) -> Outcome<CheckpointInfo> {
    let number: i64 = row.get(0)?;
    let (id, parent): (String, Option<String>) = (row.get(1)?, row.get(2)?);
    let (tag, metadata): (String, String) = (row.get(4)?, row.get(5)?);
    let bytes = row.get::<_, i64>(6)?.unsigned_abs();
    let saved_at = time(row.get_ref(3)?).ok_or_else(|| damaged(thread, number, "its time is none"))?;
    if let (Some(hash), Some(proof)) = (row.get::<_, Option<i64>>(HASH)?, row.get::<_, Option<i64>>(PROOF)?) {
        let (nanos, parent) = (nanos_of(saved_at)?, parent.as_deref());
        let known = Known { row: number, thread, id: &id, parent, nanos, tag: &tag, metadata: &metadata, hash };
        if known.proof() != proof {
            return Err(damaged(thread, number, "what is known of it is not as it was put"));
        }
    }
    let named = |text: String| CheckpointId::new(text).map_err(|_| damaged(thread, number, "its id is none"));
    Ok(CheckpointInfo {
        thread: thread.clone(),
        id: named(id)?,
        seq: u64::try_from(number).map_err(|_| damaged(thread, number, "its number is below 0"))?,
        parent: parent.map(named).transpose()?,
        saved_at,
        metadata: Metadata::of_stored(&metadata),
        tag: TypeTag::of_stored(&tag),
        bytes,
    })
}

fn checkpoint(row: &Row<'_>, thread: &Arc<str>) -> Outcome<Checkpoint<StateBytes>> {
    let info = info(row, thread)?;
    let state = match row.get_ref(STATE)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.to_vec(),
        _ => return Err(damaged(thread, row.get(0)?, "its state is neither text nor bytes")),
    };
    match row.get::<_, Option<i64>>(HASH)? {
        Some(hash) if hash != proof::hash(&state) => Err(damaged(thread, row.get(0)?, "its state is not as it was put")),
        None if state.ends_with(TOLD.as_bytes()) => Err(damaged(thread, row.get(0)?, "its bytes in taffrail_checkpoints are gone")),
        _ => Ok(Checkpoint { info, state: state.into() }),
    }
}

/// What windlass is told of a state that is no JSON: a JSON text, which no state of its own looks like.
pub(super) fn told_of(state: &[u8]) -> String {
    format!("\"{}{TOLD}", state.len())
}

fn damaged(thread: &str, number: i64, what: &str) -> Failure {
    let error = Failure::damage(format!("row {number} of the table `checkpoints` cannot be read: {what}"));
    match error {
        Failure::Told(error) => Failure::Told(error.with_thread(thread)),
        other => other,
    }
}

/// Nanoseconds of ours, or windlass' seconds.
fn time(value: ValueRef<'_>) -> Option<SystemTime> {
    match value {
        ValueRef::Integer(nanos) => Some(time_of(nanos)),
        ValueRef::Real(seconds) => {
            // Whole seconds apart: a product of all would lose digits that the number has.
            let (whole, part) = (seconds.trunc(), seconds.fract());
            let nanos = (whole as i128).checked_mul(1_000_000_000)?.checked_add((part * 1e9).round() as i128)?;
            i64::try_from(nanos).ok().filter(|_| seconds.is_finite()).map(time_of)
        }
        _ => None,
    }
}

/// A time as windlass writes it, to about a quarter of a microsecond. Errors: `InvalidInput`.
pub(super) fn seconds(time: SystemTime) -> Outcome<f64> {
    let nanos = nanos_of(time)?;
    // Whole seconds apart, as above: so many nanoseconds are no number of a float.
    Ok(nanos.div_euclid(1_000_000_000) as f64 + nanos.rem_euclid(1_000_000_000) as f64 / 1e9)
}

/// The row of a thread's checkpoint of that id.
pub(super) fn find(connection: &Connection, thread: &str, id: &CheckpointId) -> Outcome<Option<i64>> {
    let mut named = connection.prepare_cached(
        "SELECT c.id FROM taffrail_checkpoints t JOIN checkpoints c ON c.id = t.id AND c.thread_id = t.thread WHERE t.thread = ?1 AND t.name = ?2",
    )?;
    let found: Option<i64> = named.query_row((thread, id.as_str()), |row| row.get(0)).optional()?;
    let Some(number) = decimal(id).filter(|_| found.is_none()) else { return Ok(found) };
    let mut numbered =
        connection.prepare_cached(concat!("SELECT c.id", joined!(), "WHERE c.id = ?2 AND c.thread_id = ?1 AND t.id IS NULL"))?;
    Ok(numbered.query_row((thread, number), |row| row.get(0)).optional()?)
}

/// The number that an id is the decimal text of.
fn decimal(id: &CheckpointId) -> Option<i64> {
    id.as_str().parse().ok().filter(|number: &i64| number.to_string() == id.as_str())
}

/// What a search finds in one thread or in all; it ends with the first row that cannot be had. Costs a row's
/// head for each checkpoint that is looked at; and of those that fit so far the state, where that is searched.
pub(super) fn found(connection: &Connection, thread: Option<&str>, search: Search) -> Outcome<Vec<Outcome<CheckpointInfo>>> {
    let mut statement = connection.prepare_cached(if thread.is_some() { PAGE } else { ALL })?;
    let mut rows = match thread {
        Some(thread) => statement.query((thread, i64::MIN, i64::MAX, -1))?,
        None => statement.query([])?,
    };
    let mut name: Arc<str> = thread.unwrap_or_default().into();
    let mut read = |row: &Row<'_>| {
        if thread.is_none() {
            let its = row.get_ref(THREAD)?.as_str().map_err(rusqlite::Error::from)?;
            if *its != *name {
                name = its.into();
            }
        }
        info(row, &name)
    };
    let infos = std::iter::from_fn(|| match rows.next() {
        Ok(row) => row.map(&mut read),
        Err(error) => Some(Err(error.into())),
    });
    let found = search.among(infos, |search, info| {
        let info = info?;
        if !search.fits_metadata(info.metadata.as_str()) {
            return Ok(None);
        }
        let fits = !search.reads_states() || {
            let state = Page::one(info.seq as i64).first(connection, &info.thread)?;
            state.is_some_and(|checkpoint| search.fits_state(&checkpoint.info.tag, &checkpoint.state))
        };
        Ok(fits.then_some(info))
    });
    Ok(found.collect())
}

/// The threads that hold a checkpoint of that id, in byte order.
pub(super) fn holders(connection: &Connection, id: &CheckpointId) -> Outcome<Vec<String>> {
    let sql = concat!(
        "SELECT c.thread_id",
        joined!(),
        "WHERE (t.name = ?1 OR (t.id IS NULL AND c.id = ?2)) AND",
        is_named!(),
        "ORDER BY c.thread_id"
    );
    let mut statement = connection.prepare_cached(sql)?;
    let holders = statement.query_map((id.as_str(), decimal(id)), |row| row.get(0))?;
    Ok(holders.collect::<rusqlite::Result<_>>()?)
}

/// The first thread in byte order behind a bound, of those that have a checkpoint.
pub(super) fn next_thread(connection: &Connection, from: Bound<&str>) -> Outcome<Option<String>> {
    const AT: &str = concat!("SELECT thread_id FROM checkpoints WHERE thread_id >= ?1 AND", is_named!(), "ORDER BY thread_id LIMIT 1");
    const BEHIND: &str = concat!("SELECT thread_id FROM checkpoints WHERE thread_id > ?1 AND", is_named!(), "ORDER BY thread_id LIMIT 1");
    let (sql, from) = match from {
        Bound::Included(from) => (AT, from),
        Bound::Excluded(from) => (BEHIND, from),
        Bound::Unbounded => (AT, ""),
    };
    Ok(connection.prepare_cached(sql)?.query_row([from], |row| row.get(0)).optional()?)
}

/// A page of the list of threads. Costs a look-up for each thread passed over, and one row's head for each
/// checkpoint of those shown.
pub(super) fn threads(connection: &Connection, query: &ThreadQuery) -> Outcome<Vec<ThreadInfo>> {
    let (mut shown, mut passed) = (Vec::new(), 0);
    let mut next = next_thread(connection, query.range().0)?;
    while let Some(thread) = next.filter(|thread| thread.starts_with(query.matching.prefix())) {
        if shown.len() >= query.limit.unwrap_or(usize::MAX) {
            break;
        }
        next = next_thread(connection, Bound::Excluded(&thread))?;
        if query.matching.fits(&thread) {
            passed += 1;
            if passed > query.offset {
                shown.extend(summary(connection, thread)?);
            }
        }
    }
    Ok(shown)
}

fn summary(connection: &Connection, thread: String) -> Outcome<Option<ThreadInfo>> {
    let Some(head) = Page::newest().info(connection, &Arc::from(thread.as_str()))? else { return Ok(None) };
    let (checkpoints, bytes) = connection
        .prepare_cached(SUMS)?
        .query_row([&thread], |row| Ok((row.get::<_, i64>(0)?.unsigned_abs(), row.get::<_, f64>(1)? as u64)))?;
    Ok(Some(ThreadInfo { thread, head: head.id, checkpoints, bytes, last_saved: head.saved_at }))
}

/// Whether a thread has a checkpoint.
pub(super) fn has_any(connection: &Connection, thread: &str) -> Outcome<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM checkpoints WHERE thread_id = ?1)";
    Ok(connection.prepare_cached(sql)?.query_row([thread], |row| row.get(0))?)
}

/// The numbers of a thread's checkpoints, oldest first.
pub(super) fn numbers(connection: &Connection, thread: &str) -> Outcome<Vec<i64>> {
    let mut statement = connection.prepare_cached("SELECT id FROM checkpoints WHERE thread_id = ?1 ORDER BY id")?;
    let numbers = statement.query_map([thread], |row| row.get(0))?;
    Ok(numbers.collect::<rusqlite::Result<_>>()?)
}

/// The ids that something is attached to, of checkpoints that are there or yet to come.
pub(super) fn attached_to(connection: &Connection, thread: &str) -> Outcome<Vec<String>> {
    let mut statement = connection.prepare_cached("SELECT DISTINCT name FROM taffrail_attachments WHERE thread = ?1 ORDER BY name")?;
    let names = statement.query_map([thread], |row| row.get(0))?;
    Ok(names.collect::<rusqlite::Result<_>>()?)
}

/// The numbers and times of a thread's checkpoints, oldest first.
pub(super) fn ages(connection: &Connection, thread: &str) -> Outcome<Vec<(i64, SystemTime)>> {
    let sql = concat!(
        "SELECT c.id, CASE WHEN t.tag IS NULL THEN c.saved_at ELSE t.saved_at END",
        joined!(),
        "WHERE c.thread_id = ?1 ORDER BY c.id"
    );
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([thread])?;
    let mut ages = Vec::new();
    while let Some(row) = rows.next()? {
        let number = row.get(0)?;
        ages.push((number, time(row.get_ref(1)?).ok_or_else(|| damaged(thread, number, "its time is none"))?));
    }
    Ok(ages)
}

/// What is attached to a checkpoint, or to one that is yet to come and still can.
pub(super) fn attachments(connection: &Connection, thread: &str, id: &CheckpointId) -> Outcome<Vec<Attachment>> {
    let mut statement = connection
        .prepare_cached("SELECT key, tag, value, proof, after FROM taffrail_attachments WHERE thread = ?1 AND name = ?2 ORDER BY key")?;
    let mut rows = statement.query((thread, id.as_str()))?;
    let (mut attachments, mut floor) = (Vec::new(), None);
    while let Some(row) = rows.next()? {
        // Asked for where there is something: that is seldom.
        let floor = match floor {
            Some(floor) => floor,
            None => *floor.insert(oldest_that_waits(connection, thread, id)?),
        };
        if row.get::<_, i64>(4)? < floor {
            continue;
        }
        let (key, tag, value): (String, String, Vec<u8>) = (row.get(0)?, row.get(1)?, row.get(2)?);
        if row.get::<_, i64>(3)? != proof::of_attachment(thread, id.as_str(), &key, &tag, &value) {
            return Err(Failure::damage(format!("the value {key:?} of checkpoint {id} is not as it was attached")));
        }
        attachments.push(Attachment { key, tag: TypeTag::of_stored(&tag), value: value.into() });
    }
    Ok(attachments)
}

/// What is attached to a checkpoint that is there counts whenever that was; to one that is not, from its thread's
/// oldest on.
fn oldest_that_waits(connection: &Connection, thread: &str, id: &CheckpointId) -> Outcome<i64> {
    if find(connection, thread, id)?.is_some() {
        return Ok(0);
    }
    let mut oldest = connection.prepare_cached("SELECT coalesce(min(id), 0) FROM checkpoints WHERE thread_id = ?1")?;
    Ok(oldest.query_row([thread], |row| row.get(0))?)
}

/// A number of checkpoints to keep, as SQLite has it.
pub(super) fn keep_value(keep: Option<usize>) -> Value {
    keep.map_or(Value::Null, |keep| Value::Integer(i64::try_from(keep).unwrap_or(i64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_both_kinds() {
        for nanos in [0, 1, -1, i64::MAX, i64::MIN + 1] {
            assert_eq!(time(ValueRef::Integer(nanos)), Some(time_of(nanos)));
        }
        for (seconds, nanos) in
            [(0.0, 0), (1.5, 1_500_000_000), (-0.25, -250_000_000), (1_795_955_344.198_777_2, 1_795_955_344_198_777_199)]
        {
            assert_eq!(time(ValueRef::Real(seconds)), Some(time_of(nanos)), "{seconds}");
        }
        for odd in [f64::NAN, f64::INFINITY, -1e300, 1e19] {
            assert_eq!(time(ValueRef::Real(odd)), None);
        }
        assert_eq!(time(ValueRef::Text(b"1")), None);
        assert_eq!(time(ValueRef::Null), None);
    }

    #[test]
    fn only_the_usual_text_of_a_number_is_one() {
        let number = |text: &str| decimal(&CheckpointId::new(text).unwrap());
        assert_eq!((number("7"), number("9223372036854775807")), (Some(7), Some(i64::MAX)));
        for other in ["07", "+7", "7.0", " 7", "7\0", "0x7", "9223372036854775808", "a"] {
            assert_eq!(number(other), None, "{other}");
        }
    }
}
