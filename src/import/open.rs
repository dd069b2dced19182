//! Opening a database that belongs to somebody else, so that nothing of it is changed.
//!
//! In WAL mode SQLite would make files beside it, or fold the `-wal` into it: so the file and its `-wal` are
//! copied, and the copy is opened. A writer only appends to the `-wal` until all of it has been taken into the
//! file; then it begins it anew, under another heading. So if the `-wal`, copied last, still has the heading
//! that it had before the file was copied, it holds every page that can have changed meanwhile, and the two
//! together are one moment. Without one, there must be none afterwards.
//!
//! In all other modes the file itself is opened to read: locks alone keep a writer from changing it meanwhile,
//! and one that somebody left half written is refused by SQLite.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

use super::value::flaw;
use crate::error::{Error, ErrorKind, Result};

/// How a file of SQLite's begins.
const SQLITE_MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// How long a writer is waited for.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a file that does not stand still is copied.
const TRIES: u32 = 20;
/// How long it is left alone in between.
const PAUSE: Duration = Duration::from_millis(100);
/// A database's header, of which two bytes tell that it is in WAL mode.
const HEADER_BYTES: usize = 100;
const MODES: std::ops::Range<usize> = 18..20;
const WAL_MODE: u8 = 2;
/// Where it tells how many pages there are, how often it was changed, and which change that was told at.
const PAGES: usize = 28;
const CHANGES: usize = 24;
const CHANGES_AT_PAGES: usize = 92;
/// The heading of a `-wal`: its numbers change whenever it is begun anew.
const WAL_HEADER_BYTES: usize = 32;

/// A database as it is at one moment, until this is dropped.
pub(super) struct Image {
    pub connection: Connection,
    /// The file as it was named, for errors.
    pub path: PathBuf,
    /// Whether it is in WAL mode and there is no `-wal`.
    pub lacks_wal: bool,
}

impl Image {
    pub fn open(path: &Path) -> Result<Self> {
        // SQLite looks for a `-wal` beside the file itself, not beside a link to it.
        let real = path.canonicalize().map_err(|error| unreadable(path, error))?;
        let in_wal_mode = header(&real)?[MODES].contains(&WAL_MODE);
        let wal = beside(&real, "-wal");
        // Beside an empty one, too, SQLite would make files.
        if !in_wal_mode && !wal.try_exists().map_err(|error| unreadable(path, error))? {
            let connection = set_up(&real, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(|error| flaw(path, error))?;
            is_whole(&real).map_err(|error| error.with_file(path, None))?;
            return Ok(Image { connection, path: path.to_owned(), lacks_wal: false });
        }
        let copy = copied(&real, &wal)?;
        let has_wal = wal_header(&copy.path().join(WAL_COPY))?.is_some();
        let file = copy.path().join(COPY);
        let connection = set_up(&file, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(|error| flaw(path, error))?;
        if !has_wal {
            is_whole(&file).map_err(|error| error.with_file(path, None))?;
        }
        // What is open needs no names, and without them nothing stays behind a process that is killed.
        drop(copy);
        Ok(Image { connection, path: path.to_owned(), lacks_wal: in_wal_mode && !has_wal })
    }
}

fn set_up(file: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(file, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // What the file says is nothing to act on.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.execute_batch("PRAGMA cell_size_check = ON; PRAGMA query_only = ON; BEGIN")?;
    // The moment begins with the first look.
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0))?;
    Ok(connection)
}

/// What the copy is called.
const COPY: &str = "database";
const WAL_COPY: &str = "database-wal";

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

fn unreadable(path: &Path, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound => Error::new(ErrorKind::NotFound, "no such database").with_file(path, None),
        _ => Error::new(ErrorKind::Io, format!("cannot read the database: {error}")).with_file(path, None).with_source(error),
    }
}

/// The beginning of the file. Errors: `InvalidInput` where it is no database.
fn header(path: &Path) -> Result<[u8; HEADER_BYTES]> {
    let refused = |kind, message: &str| Err(Error::new(kind, message).with_file(path, None));
    let is_file = std::fs::metadata(path).map_err(|error| unreadable(path, error))?.is_file();
    if !is_file {
        return refused(ErrorKind::InvalidInput, "this is no SQLite database: it is no plain file");
    }
    let begin = beginning(path, HEADER_BYTES)?.unwrap_or_default();
    match <[u8; HEADER_BYTES]>::try_from(begin) {
        Ok(header) if header.starts_with(SQLITE_MAGIC) => Ok(header),
        Ok(_) => refused(ErrorKind::InvalidInput, "this is no SQLite database"),
        Err(short) if short.is_empty() => refused(ErrorKind::InvalidInput, "the file is empty: a database without even a header"),
        Err(short) if short.starts_with(SQLITE_MAGIC) => refused(ErrorKind::Corrupt, "the database ends within its header"),
        Err(_) => refused(ErrorKind::InvalidInput, "this is no SQLite database"),
    }
}

/// Holds a file that is locked or our own against the length that it tells, for SQLite takes what a cut page
/// lacks for zeros. Errors: `Corrupt`.
fn is_whole(path: &Path) -> Result<()> {
    let header = header(path)?;
    let number = |at: usize| header[at..at + 4].iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
    let page = match u64::from(header[16]) << 8 | u64::from(header[17]) {
        1 => 65_536,
        page => page.max(1),
    };
    let length = std::fs::metadata(path).map_err(|error| unreadable(path, error))?.len();
    // Very old programs do not keep the number of pages; then it is not of the last change.
    let told = if number(CHANGES) == number(CHANGES_AT_PAGES) { number(PAGES) * page } else { 0 };
    if length < told || !length.is_multiple_of(page) {
        return Err(Error::new(ErrorKind::Corrupt, format!("the database is cut short, at {length} bytes")));
    }
    Ok(())
}

/// At most so many bytes from the beginning of a file; None where there is none.
fn beginning(path: &Path, bytes: usize) -> Result<Option<Vec<u8>>> {
    let read = || {
        let mut begin = Vec::new();
        File::open(path)?.take(bytes as u64).read_to_end(&mut begin)?;
        Ok(begin)
    };
    match read() {
        Err(error) if io::Error::kind(&error) == io::ErrorKind::NotFound => Ok(None),
        begin => begin.map(Some).map_err(|error| unreadable(path, error)),
    }
}

/// The heading of a `-wal`; None where it is not there or holds nothing.
fn wal_header(wal: &Path) -> Result<Option<Vec<u8>>> {
    Ok(beginning(wal, WAL_HEADER_BYTES)?.filter(|begin| !begin.is_empty()))
}

/// A copy of a file and its `-wal` as they are together at one moment. Errors: `Busy`.
fn copied(file: &Path, wal: &Path) -> Result<TempDir> {
    let dir = tempfile::tempdir().map_err(|error| Error::os("make a temporary directory", &std::env::temp_dir(), error))?;
    let (file_copy, wal_copy) = (dir.path().join(COPY), dir.path().join(WAL_COPY));
    let inode = || std::fs::metadata(file).map(|found| found.ino()).map_err(|error| unreadable(file, error));
    for _ in 0..TRIES {
        let before = (inode()?, wal_header(wal)?);
        copy(file, &file_copy)?;
        let copied = match &before.1 {
            Some(_) => copy(wal, &wal_copy).is_ok() && wal_header(&wal_copy)? == before.1,
            None => true,
        };
        if copied && (inode()?, wal_header(wal)?) == before {
            return Ok(dir);
        }
        let _ = std::fs::remove_file(&wal_copy);
        sleep(PAUSE);
    }
    let message = "the database did not stand still for as long as it takes to copy it: a writer folds its -wal again and again";
    Err(Error::new(ErrorKind::Busy, message).with_file(file, None))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let mut source = File::open(from).map_err(|error| unreadable(from, error))?;
    let mut target = File::create(to).map_err(|error| Error::os("make a copy of the database", to, error))?;
    io::copy(&mut source, &mut target).map(drop).map_err(|error| Error::os("copy the database", to, error))
}
