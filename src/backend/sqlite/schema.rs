//! The tables: windlass' own, as it makes it, and ours beside it; and telling what a file holds.
//!
//! `checkpoints` is windlass': one row a checkpoint, and its number is our seq. What it has no column for is in
//! tables of our own, by that number. A row without one of ours is windlass' and is read as it is. Two triggers
//! hold this together whoever writes: what is ours goes with its row, and no two checkpoints of a thread
//! have one id. Nothing is written to a file before all of it was looked at.

use rusqlite::{Connection, OptionalExtension, Transaction};

use super::failure::{Failure, Outcome};
use crate::error::{Error, ErrorKind};

/// The version of our tables.
pub(super) const VERSION: i64 = 1;

/// Of an attachment whose batch is not through yet: it is newer than all there is.
pub(super) const UNNUMBERED: i64 = i64::MAX;

/// Windlass' table, in its own words.
const WINDLASS: &str = "
CREATE TABLE IF NOT EXISTS checkpoints (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    thread_id  TEXT NOT NULL,
    state      TEXT NOT NULL,
    saved_at   REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS idx_thread ON checkpoints(thread_id, id DESC);";

/// Ours. `name` is a checkpoint's id, `hash` its state's, and `proof` holds all of the row together (`proof`); a
/// row without `tag` gives a name to a row of windlass', and no more. `after` is the highest number that was
/// given when the value was attached.
const OURS: &str = "
CREATE TABLE IF NOT EXISTS taffrail_place (
    one      INTEGER PRIMARY KEY CHECK (one = 1),
    version  INTEGER NOT NULL,
    keep     INTEGER
);
CREATE TABLE IF NOT EXISTS taffrail_threads (
    thread  TEXT NOT NULL PRIMARY KEY,
    keep    INTEGER
);
CREATE TABLE IF NOT EXISTS taffrail_checkpoints (
    id        INTEGER PRIMARY KEY,
    thread    TEXT NOT NULL,
    name      TEXT NOT NULL,
    parent    TEXT,
    saved_at  INTEGER,
    tag       TEXT,
    metadata  TEXT,
    hash      INTEGER,
    proof     INTEGER,
    data      BLOB,
    UNIQUE (thread, name)
);
CREATE TABLE IF NOT EXISTS taffrail_attachments (
    thread  TEXT NOT NULL,
    name    TEXT NOT NULL,
    key     TEXT NOT NULL,
    after   INTEGER NOT NULL,
    tag     TEXT NOT NULL,
    proof   INTEGER NOT NULL,
    value   BLOB NOT NULL,
    UNIQUE (thread, name, key)
);
CREATE INDEX IF NOT EXISTS taffrail_attached ON taffrail_attachments(thread, after);
CREATE TRIGGER IF NOT EXISTS taffrail_gone AFTER DELETE ON checkpoints BEGIN
    DELETE FROM taffrail_attachments WHERE thread = OLD.thread_id
        AND name = coalesce((SELECT name FROM taffrail_checkpoints WHERE id = OLD.id), CAST(OLD.id AS TEXT));
    DELETE FROM taffrail_checkpoints WHERE id = OLD.id;
    DELETE FROM taffrail_threads WHERE thread = OLD.thread_id
        AND NOT EXISTS (SELECT 1 FROM checkpoints WHERE thread_id = OLD.thread_id);
END;
CREATE TRIGGER IF NOT EXISTS taffrail_named AFTER INSERT ON checkpoints
WHEN EXISTS (SELECT 1 FROM taffrail_checkpoints WHERE thread = NEW.thread_id AND name = CAST(NEW.id AS TEXT)) BEGIN
    INSERT INTO taffrail_checkpoints (id, thread, name)
    VALUES (NEW.id, NEW.thread_id, NEW.id || '-' || lower(hex(randomblob(8))));
END;";

/// How many of ours there are.
const OURS_COUNT: usize = 7;

/// A column: its name, its type, whether it is NOT NULL and whether it is the key.
type Column = (String, String, bool, bool);

/// What a database holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    /// Windlass' table, and not all of ours.
    Windlass,
    Place,
}

/// Tells what a database holds, and changes nothing. Errors: `Unsupported` for another program's, and for a
/// newer version of ours.
pub(super) fn look(connection: &Connection) -> Outcome<Found> {
    let named = |name: &str, kind: &str| -> Outcome<Option<String>> {
        let sql = "SELECT sql FROM sqlite_schema WHERE name = ?1 AND type = ?2";
        Ok(connection.query_row(sql, (name, kind), |row| row.get(0)).optional()?)
    };
    if named("taffrail_place", "table")?.is_some() {
        let version: Option<i64> = connection.query_row("SELECT version FROM taffrail_place", [], |row| row.get(0)).optional()?;
        if version.is_some_and(|version| version > VERSION) {
            return Err(refused("a newer version of taffrail has made its tables"));
        }
    }
    let Some(made) = named("checkpoints", "table")? else {
        let others: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        return if others == 0 {
            Ok(Found::Nothing)
        } else {
            Err(refused("it is another program's database, without a table `checkpoints`"))
        };
    };
    if columns(connection)? != own_columns() || !made.to_ascii_uppercase().contains("AUTOINCREMENT") {
        return Err(refused("its table `checkpoints` has other columns, so it is another program's"));
    }
    if connection.query_row("PRAGMA encoding", [], |row| row.get::<_, String>(0))? != "UTF-8" {
        return Err(refused("its texts are in UTF-16"));
    }
    let ours = own_definitions(connection)?;
    // SQLite keeps a definition as it was given, but for these words.
    let given = OURS.replace("IF NOT EXISTS ", "");
    if let Some((name, _)) = ours.iter().find(|(_, made)| !given.contains(made.as_str())) {
        return Err(Failure::damage(format!("`{name}` is not as it was made")));
    }
    Ok(if ours.len() == OURS_COUNT { Found::Place } else { Found::Windlass })
}

/// The names of what is ours, each with how it was made.
fn own_definitions(connection: &Connection) -> Outcome<Vec<(String, String)>> {
    let mut statement = connection.prepare(r"SELECT name, sql FROM sqlite_schema WHERE name LIKE 'taffrail\_%' ESCAPE '\'")?;
    let definitions = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(definitions.collect::<rusqlite::Result<_>>()?)
}

/// Makes what is not there; a new place keeps so many checkpoints of each thread.
///
/// A place that windlass began keeps all: its rows are not ours to delete before somebody says so.
pub(super) fn make(transaction: &Transaction<'_>, keep: Option<i64>) -> Outcome<()> {
    // Another opener, or windlass, may have been here since.
    let keep = if look(transaction)? == Found::Nothing { keep } else { None };
    transaction.execute_batch(WINDLASS)?;
    transaction.execute_batch(OURS)?;
    // Where the triggers were not there some may be of rows that are not there any more.
    transaction.execute("DELETE FROM taffrail_checkpoints WHERE id NOT IN (SELECT id FROM checkpoints)", [])?;
    transaction.execute("INSERT OR IGNORE INTO taffrail_place (one, version, keep) VALUES (1, ?1, ?2)", (VERSION, keep))?;
    Ok(())
}

/// Makes what a reader asks for of ours and the file does not have, empty, in the connection's own memory. From
/// then on the connection writes nothing.
pub(super) fn stand_in(connection: &Connection) -> Outcome<()> {
    let there = own_definitions(connection)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    for made in OURS.split_inclusive(";\n").filter(|made| made.contains("CREATE TABLE")) {
        let is_there = there.iter().any(|(name, _)| made.contains(&format!(" {name} ")));
        if !is_there {
            connection.execute_batch(&made.replace("CREATE TABLE IF NOT EXISTS ", "CREATE TEMP TABLE "))?;
        }
    }
    if !there.iter().any(|(name, _)| name == "taffrail_place") {
        connection.execute("INSERT INTO taffrail_place (one, version, keep) VALUES (1, ?1, NULL)", [VERSION])?;
    }
    connection.pragma_update(None, "query_only", true)?;
    Ok(())
}

/// Whether the file has got what [`stand_in`] has made.
pub(super) fn is_outgrown(connection: &Connection) -> Outcome<bool> {
    let mut both = connection.prepare_cached("SELECT count(*) FROM temp.sqlite_schema t JOIN main.sqlite_schema m ON m.name = t.name")?;
    Ok(both.query_row([], |row| row.get::<_, i64>(0))? > 0)
}

fn columns(connection: &Connection) -> Outcome<Vec<Column>> {
    let mut statement = connection.prepare(r#"SELECT name, upper(type), "notnull", pk FROM pragma_table_xinfo('checkpoints')"#)?;
    let columns = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
    Ok(columns.collect::<rusqlite::Result<_>>()?)
}

fn own_columns() -> Vec<Column> {
    let column = |name: &str, kind: &str, key: bool| (name.to_owned(), kind.to_owned(), !key, key);
    vec![
        column("id", "INTEGER", true),
        column("thread_id", "TEXT", false),
        column("state", "TEXT", false),
        column("saved_at", "REAL", false),
    ]
}

fn refused(why: &str) -> Failure {
    Failure::Told(Error::new(ErrorKind::Unsupported, format!("no place for checkpoints: {why}; nothing was changed")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn database(sql: &str) -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(sql).unwrap();
        connection
    }

    #[test]
    fn what_is_made_is_found() {
        let mut connection = database("");
        assert_eq!(look(&connection).unwrap(), Found::Nothing);
        for _ in 0..2 {
            let transaction = connection.transaction().unwrap();
            make(&transaction, Some(50)).unwrap();
            transaction.commit().unwrap();
            assert_eq!(look(&connection).unwrap(), Found::Place);
            let keep: Option<i64> = connection.query_row("SELECT keep FROM taffrail_place", [], |row| row.get(0)).unwrap();
            assert_eq!(keep, Some(50));
        }
        connection.execute_batch("DROP TRIGGER taffrail_gone").unwrap();
        assert_eq!(look(&connection).unwrap(), Found::Windlass, "what is lacking is made again");
    }

    #[test]
    fn other_tables_of_that_name_are_refused() {
        let windlass = "CREATE TABLE checkpoints (id INTEGER PRIMARY KEY AUTOINCREMENT, thread_id TEXT NOT NULL, state TEXT NOT NULL, saved_at REAL NOT NULL";
        let own = database(&format!("{windlass}); CREATE TABLE beside (x)"));
        assert_eq!(look(&own).unwrap(), Found::Windlass);
        for sql in [
            &format!("{windlass}, more TEXT)"),
            &windlass.replace(" AUTOINCREMENT", "").replace("saved_at REAL NOT NULL", "saved_at REAL NOT NULL)"),
            &(windlass.replace("REAL", "TEXT") + ")"),
            &(windlass.replace("state TEXT NOT NULL", "state TEXT") + ")"),
            "CREATE TABLE checkpoints (thread_id TEXT, checkpoint_ns TEXT, checkpoint BLOB)",
            "CREATE TABLE notes (x)",
            "CREATE VIEW checkpoints AS SELECT 1",
        ] {
            let error = look(&database(sql)).unwrap_err().told(None);
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{sql}");
        }
        let utf16 = database(&format!("PRAGMA encoding = 'UTF-16'; {windlass});"));
        assert_eq!(look(&utf16).unwrap_err().told(None).kind(), ErrorKind::Unsupported);
    }

    #[test]
    fn a_newer_version_is_refused() {
        let mut connection = database("");
        let transaction = connection.transaction().unwrap();
        make(&transaction, None).unwrap();
        transaction.execute("UPDATE taffrail_place SET version = ?1", [VERSION + 1]).unwrap();
        transaction.commit().unwrap();
        assert_eq!(look(&connection).unwrap_err().told(None).kind(), ErrorKind::Unsupported);
    }
}
