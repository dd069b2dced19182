//! Which program's checkpoints a database holds, and the numbers of its rows, thread by thread.

use std::collections::{HashMap, HashSet};

use rusqlite::types::ValueRef;

use super::open::Image;
use super::value::flaw;
use crate::error::{Error, ErrorKind, Result};

/// Whose checkpoints they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Windlass,
    /// Whether there are pending writes, and whether those say which path led to them: older ones do not.
    LangGraph {
        has_paths: bool,
        has_writes: bool,
    },
}

const WINDLASS: [&str; 4] = ["id", "thread_id", "state", "saved_at"];
const LANGGRAPH: [&str; 7] = ["thread_id", "checkpoint_ns", "checkpoint_id", "parent_checkpoint_id", "type", "checkpoint", "metadata"];
const WRITES: [&str; 8] = ["thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "idx", "channel", "type", "value"];

/// Tells whose checkpoints they are. Errors: `Unsupported` where that cannot be told.
pub(super) fn kind(image: &Image) -> Result<Kind> {
    if !columns(image, "taffrail_place")?.is_empty() {
        let message = "this is a place of our own, which has more than windlass' rows: copy it, by its name sqlite:FILE";
        return Err(Error::new(ErrorKind::Unsupported, message).with_file(&image.path, None));
    }
    let columns = columns(image, "checkpoints")?;
    let has = |columns: &HashSet<String>, all: &[&str]| all.iter().all(|name| columns.contains(*name));
    let refused = |message: String| Err(Error::new(ErrorKind::Unsupported, message).with_file(&image.path, None));
    match (has(&columns, &WINDLASS), has(&columns, &LANGGRAPH)) {
        (true, false) => Ok(Kind::Windlass),
        (false, true) => {
            let writes = self::columns(image, "writes")?;
            if !writes.is_empty() && !has(&writes, &WRITES) {
                return refused("the table `writes` is not as LangGraph makes it".to_owned());
            }
            Ok(Kind::LangGraph { has_paths: writes.contains("task_path"), has_writes: !writes.is_empty() })
        }
        (true, true) => {
            refused("the table `checkpoints` has the columns of windlass' and of LangGraph's: which it is cannot be told".to_owned())
        }
        (false, false) => {
            let wal = if image.lacks_wal { " (is the -wal missing?)" } else { "" };
            refused(format!("no checkpoint tables here{wal}: neither windlass' nor LangGraph's"))
        }
    }
}

/// The columns of a table, in lower case; none where there is no such table of rows.
fn columns(image: &Image, table: &str) -> Result<HashSet<String>> {
    let read = || {
        // A view or a virtual table has no page of its own.
        let rows = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?1 COLLATE NOCASE AND rootpage > 0";
        if image.connection.query_row(rows, [table], |row| row.get::<_, i64>(0))? == 0 {
            return Ok(HashSet::new());
        }
        let mut columns = image.connection.prepare("SELECT lower(name) FROM pragma_table_info(?1)")?;
        columns.query_map([table], |row| row.get(0))?.collect()
    };
    read().map_err(|error| flaw(&image.path, error))
}

/// The numbers of a table's rows, by thread, in their order.
#[derive(Default)]
pub(super) struct Rows {
    /// The threads, in the order of their first rows.
    pub threads: Vec<String>,
    by_thread: HashMap<String, Vec<i64>>,
}

impl Rows {
    /// Reads a table once. `thread` makes a thread id of a row's first columns, behind its number, or tells that
    /// there is none.
    pub fn scan(image: &Image, sql: &str, mut thread: impl FnMut(i64, &[ValueRef<'_>]) -> Option<String>) -> Result<Rows> {
        let mut rows = Rows::default();
        let mut scan = || {
            let mut statement = image.connection.prepare(sql)?;
            let columns = statement.column_count();
            let mut found = statement.query([])?;
            let mut before = None;
            while let Some(row) = found.next()? {
                let number: i64 = row.get(0)?;
                // Pages that lead to one page again and again would never end.
                if before.replace(number).is_some_and(|before| before >= number) {
                    let corrupt = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
                    return Err(rusqlite::Error::SqliteFailure(corrupt, Some("the rows of a table are not in order".to_owned())));
                }
                let values = (1..columns).map(|at| row.get_ref(at)).collect::<rusqlite::Result<Vec<_>>>()?;
                if let Some(thread) = thread(number, &values) {
                    rows.add(thread, number);
                }
            }
            Ok(())
        };
        scan().map_err(|error| flaw(&image.path, error))?;
        Ok(rows)
    }

    fn add(&mut self, thread: String, number: i64) {
        if let Some(numbers) = self.by_thread.get_mut(&thread) {
            numbers.push(number);
            return;
        }
        self.threads.push(thread.clone());
        self.by_thread.insert(thread, vec![number]);
    }

    /// The numbers of a thread's rows.
    pub fn of(&self, thread: &str) -> &[i64] {
        self.by_thread.get(thread).map_or(&[], Vec::as_slice)
    }
}

/// How many checkpoints a database has, by whatever tells it soonest.
pub(super) fn size(image: &Image) -> Result<u64> {
    let count = image.connection.query_row("SELECT count(*) FROM checkpoints", [], |row| row.get::<_, i64>(0));
    count.map(i64::unsigned_abs).map_err(|error| flaw(&image.path, error))
}

/// Reads one row by its number; what `read` refuses is the inner result.
pub(super) fn row<T>(image: &Image, sql: &str, number: i64, read: impl FnOnce(&[ValueRef<'_>]) -> T) -> Result<T> {
    let find = || {
        let mut statement = image.connection.prepare_cached(sql)?;
        let columns = statement.column_count();
        let mut found = statement.query([number])?;
        let row = found.next()?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        let values = (0..columns).map(|at| row.get_ref(at)).collect::<rusqlite::Result<Vec<_>>>()?;
        Ok(read(&values))
    };
    find().map_err(|error| flaw(&image.path, error))
}
