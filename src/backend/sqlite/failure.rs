//! What SQLite answers, told as one of our kinds of error, with the file's name.
//!
//! Inside a transaction both kinds of failure go up as they are; the connection that carries it out
//! needs to know which of them leave open whether the file was changed.

use std::path::Path;

use rusqlite::ErrorCode;
use rusqlite::ffi::SQLITE_READONLY_DBMOVED;

use crate::error::{Error, ErrorKind};

/// Why something could not be done in the database.
#[derive(Debug)]
pub(super) enum Failure {
    Sqlite(rusqlite::Error),
    Told(Error),
}

pub(super) type Outcome<T> = std::result::Result<T, Failure>;

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Failure::Sqlite(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Told(error)
    }
}

impl Failure {
    /// What is read is not what was written.
    pub fn damage(what: impl Into<String>) -> Self {
        Failure::Told(Error::new(ErrorKind::Corrupt, what))
    }

    /// Whether the system failed to read, write or sync.
    pub fn is_io(&self) -> bool {
        matches!(self, Failure::Sqlite(error) if error.sqlite_error_code() == Some(ErrorCode::SystemIoFailure))
    }

    /// Whether another one holds a lock that is needed.
    pub fn is_busy(&self) -> bool {
        matches!(self, Failure::Sqlite(error) if kind_of(error).0 == ErrorKind::Busy)
    }

    /// The error for the caller; a database in memory has no path.
    pub fn told(self, path: Option<&Path>) -> Error {
        let error = match self {
            Failure::Told(error) if error.kind() != ErrorKind::Corrupt => return error,
            Failure::Told(error) => error,
            Failure::Sqlite(error) => {
                let (kind, what) = kind_of(&error);
                Error::new(kind, format!("{what}: {error}")).with_source(error)
            }
        };
        match path {
            Some(path) => error.with_file(path, None),
            None => error,
        }
    }
}

fn kind_of(error: &rusqlite::Error) -> (ErrorKind, &'static str) {
    use rusqlite::Error as Sql;
    let code = match error {
        Sql::SqliteFailure(code, _) | Sql::SqlInputError { error: code, .. } => code,
        Sql::FromSqlConversionFailure(..) | Sql::InvalidColumnType(..) | Sql::IntegralValueOutOfRange(..) | Sql::Utf8Error(..) => {
            return (ErrorKind::Corrupt, "the database holds a value that nobody puts there");
        }
        Sql::NulError(_) | Sql::InvalidPath(_) => return (ErrorKind::InvalidInput, "no file can have this name"),
        _ => return (ErrorKind::Io, "SQLite failed"),
    };
    match code.code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            (ErrorKind::Busy, "another process or handle is writing and was waited for in vain; nothing was written")
        }
        ErrorCode::DiskFull => (ErrorKind::DiskFull, "there is no room; nothing was written"),
        ErrorCode::NotADatabase => (ErrorKind::Corrupt, "the file is no SQLite database, or its beginning is damaged"),
        // A statement that the database does not take: its tables are not those that were made.
        ErrorCode::DatabaseCorrupt | ErrorCode::Unknown => (ErrorKind::Corrupt, "the database is damaged"),
        ErrorCode::ReadOnly if code.extended_code == SQLITE_READONLY_DBMOVED => {
            (ErrorKind::Poisoned, "the file was moved or removed: open it where it is now")
        }
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied => (ErrorKind::ReadOnly, "the database cannot be written"),
        ErrorCode::TooBig => (ErrorKind::TooLarge, "SQLite does not take so much in one row; nothing was written"),
        ErrorCode::CannotOpen => (ErrorKind::Io, "the database cannot be opened"),
        _ => (ErrorKind::Io, "SQLite failed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::ffi;

    #[test]
    fn each_answer_has_its_kind_and_the_file() {
        for (code, kind) in [
            (ffi::SQLITE_BUSY, ErrorKind::Busy),
            (ffi::SQLITE_BUSY_SNAPSHOT, ErrorKind::Busy),
            (ffi::SQLITE_LOCKED, ErrorKind::Busy),
            (ffi::SQLITE_FULL, ErrorKind::DiskFull),
            (ffi::SQLITE_NOTADB, ErrorKind::Corrupt),
            (ffi::SQLITE_CORRUPT, ErrorKind::Corrupt),
            (ffi::SQLITE_CORRUPT_INDEX, ErrorKind::Corrupt),
            (ffi::SQLITE_READONLY, ErrorKind::ReadOnly),
            (ffi::SQLITE_READONLY_DIRECTORY, ErrorKind::ReadOnly),
            (ffi::SQLITE_READONLY_DBMOVED, ErrorKind::Poisoned),
            (ffi::SQLITE_PERM, ErrorKind::ReadOnly),
            (ffi::SQLITE_IOERR_FSYNC, ErrorKind::Io),
            (ffi::SQLITE_CANTOPEN, ErrorKind::Io),
            (ffi::SQLITE_TOOBIG, ErrorKind::TooLarge),
        ] {
            let failure = Failure::from(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None));
            assert_eq!(failure.is_busy(), kind == ErrorKind::Busy, "{code}");
            assert_eq!(failure.is_io(), code == ffi::SQLITE_IOERR_FSYNC, "{code}");
            let error = failure.told(Some(Path::new("/a/b.db")));
            assert_eq!((error.kind(), error.file().map(|(path, _)| path)), (kind, Some(Path::new("/a/b.db"))), "{code}");
            assert!(std::error::Error::source(&error).is_some());
        }
        let refused = Failure::from(Error::new(ErrorKind::Conflict, "moved")).told(Some(Path::new("/a/b.db")));
        assert_eq!((refused.kind(), refused.file()), (ErrorKind::Conflict, None));
        assert_eq!(Failure::damage("other bytes").told(None).kind(), ErrorKind::Corrupt);
    }
}
