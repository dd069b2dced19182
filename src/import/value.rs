//! Single values of a row, by what they are: SQLite lets any value stand in any column.

use std::path::Path;

use rusqlite::types::ValueRef;

use crate::error::{Error, ErrorKind, Result};

/// A text. Errors: `InvalidInput` for anything else, and for bytes that are not UTF-8.
pub(super) fn text<'a>(column: &str, value: ValueRef<'a>) -> Result<&'a str> {
    match value {
        ValueRef::Text(bytes) => std::str::from_utf8(bytes).map_err(|error| Error::invalid(format!("{column} is not UTF-8: {error}"))),
        other => Err(Error::invalid(format!("{column} is {}, not text", name(other)))),
    }
}

/// Bytes, of a blob or a text. Errors: `InvalidInput`.
pub(super) fn bytes<'a>(column: &str, value: ValueRef<'a>) -> Result<&'a [u8]> {
    match value {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Ok(bytes),
        other => Err(Error::invalid(format!("{column} is {}, not a blob or text", name(other)))),
    }
}

/// What a value is, in words.
pub(super) fn name(value: ValueRef<'_>) -> &'static str {
    match value {
        ValueRef::Null => "NULL",
        ValueRef::Integer(_) => "an integer",
        ValueRef::Real(_) => "a number",
        ValueRef::Text(_) => "text",
        ValueRef::Blob(_) => "a blob",
    }
}

/// A value as it can be named where it is not what it should be.
pub(super) fn shown(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "NULL".to_owned(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => String::from_utf8_lossy(&bytes[..bytes.len().min(256)]).into_owned(),
    }
}

/// What SQLite says of a database.
pub(super) fn flaw(path: &Path, error: rusqlite::Error) -> Error {
    use rusqlite::ErrorCode as Code;
    let extended = error.sqlite_error().map(|error| error.extended_code);
    let kind = match error.sqlite_error_code() {
        Some(Code::DatabaseBusy | Code::DatabaseLocked) => ErrorKind::Busy,
        Some(Code::ReadOnly) if extended == Some(rusqlite::ffi::SQLITE_READONLY_ROLLBACK) => ErrorKind::Busy,
        Some(Code::DatabaseCorrupt | Code::NotADatabase) => ErrorKind::Corrupt,
        Some(Code::DiskFull) => ErrorKind::DiskFull,
        Some(Code::TooBig | Code::OutOfMemory) => ErrorKind::TooLarge,
        Some(Code::SystemIoFailure) if extended == Some(rusqlite::ffi::SQLITE_IOERR_SHORT_READ) => ErrorKind::Corrupt,
        Some(Code::SystemIoFailure | Code::CannotOpen | Code::PermissionDenied) => ErrorKind::Io,
        _ => ErrorKind::Unsupported,
    };
    let advice = if kind == ErrorKind::Busy { "; if nobody is writing, open it once with the program that wrote it" } else { "" };
    Error::new(kind, format!("SQLite cannot read the database: {error}{advice}")).with_file(path, None).with_source(error)
}
