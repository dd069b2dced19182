//! Opening a database that belongs to somebody else, so that nothing of it is changed.
//!
//! In WAL mode SQLite would make files beside it, or fold the `-wal` into it: so the file and its `-wal` are
//! copied, and the copy is opened. A writer only appends to the `-wal` until all of it has been taken into the
//! file; then it begins it anew, under another heading. So if the `-wal`, copied last, still has the heading
//! that it had before the file was copied, it holds every page that can have changed meanwhile, and the two
//! together are one moment. Without one, the file is locked, so that a `-wal` made meanwhile stays to be seen.
//!
//! In all other modes the file itself is opened to read, and not once more by anyone else here: a process loses
//! its locks on a file when it closes any handle of it. One that is left half written is refused by SQLite.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;
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
        let in_wal_mode = header(&opened(&real)?, &real)?[MODES].contains(&WAL_MODE);
        let wal = beside(&real, "-wal");
        // Beside an empty one, too, SQLite would make files.
        if !in_wal_mode && !wal.try_exists().map_err(|error| unreadable(path, error))? {
            let connection = set_up(&real, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(|error| flaw(path, error))?;
            is_whole(&connection, &real, path)?;
            return Ok(Image { connection, path: path.to_owned(), lacks_wal: false });
        }
        let copy = copied(&real, &wal)?;
        let has_wal = wal_header(&copy.path().join(WAL_COPY))?.is_some();
        let file = copy.path().join(COPY);
        let connection = set_up(&file, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(|error| flaw(path, error))?;
        if !has_wal {
            is_whole(&connection, &file, path)?;
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

/// Errors: `InvalidInput` where it is no plain file.
fn opened(path: &Path) -> Result<File> {
    // One that is no plain file may be waited for when it is opened.
    if !std::fs::metadata(path).map_err(|error| unreadable(path, error))?.is_file() {
        let message = "this is no SQLite database: it is no plain file";
        return Err(Error::new(ErrorKind::InvalidInput, message).with_file(path, None));
    }
    File::open(path).map_err(|error| unreadable(path, error))
}

/// The beginning of the file. Errors: `InvalidInput` where it is no database.
fn header(file: &File, path: &Path) -> Result<[u8; HEADER_BYTES]> {
    let refused = |kind, message: &str| Err(Error::new(kind, message).with_file(path, None));
    let begin = beginning(file, HEADER_BYTES).map_err(|error| unreadable(path, error))?;
    match <[u8; HEADER_BYTES]>::try_from(begin) {
        Ok(header) if header.starts_with(SQLITE_MAGIC) => Ok(header),
        Ok(_) => refused(ErrorKind::InvalidInput, "this is no SQLite database"),
        Err(short) if short.is_empty() => refused(ErrorKind::InvalidInput, "the file is empty: a database without even a header"),
        Err(short) if short.starts_with(SQLITE_MAGIC) => refused(ErrorKind::Corrupt, "the database ends within its header"),
        Err(_) => refused(ErrorKind::InvalidInput, "this is no SQLite database"),
    }
}

/// Holds a file that is locked or our own against the length that it tells, for SQLite takes what a cut page
/// lacks for zeros. The file is not opened: that would end the lock. Errors: `Corrupt`.
fn is_whole(connection: &Connection, file: &Path, named: &Path) -> Result<()> {
    let number = |pragma| connection.query_row(pragma, [], |row| row.get::<_, i64>(0)).map(i64::unsigned_abs);
    let told = || Ok((number("PRAGMA page_size")?, number("PRAGMA page_count")?));
    let (page, pages) = told().map_err(|error| flaw(named, error))?;
    let length = std::fs::metadata(file).map_err(|error| unreadable(named, error))?.len();
    if length < pages * page || !length.is_multiple_of(page) {
        return Err(Error::new(ErrorKind::Corrupt, format!("the database is cut short, at {length} bytes")).with_file(named, None));
    }
    Ok(())
}

/// At most so many bytes from the beginning of a file.
fn beginning(mut file: &File, bytes: usize) -> io::Result<Vec<u8>> {
    let mut begin = Vec::new();
    file.rewind()?;
    file.take(bytes as u64).read_to_end(&mut begin)?;
    Ok(begin)
}

/// The same of a file that lies beside the database; None where it is not there or holds nothing.
fn beginning_of(path: &Path, bytes: usize) -> Result<Option<Vec<u8>>> {
    match File::open(path).and_then(|file| beginning(&file, bytes)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        begin => begin.map(|begin| Some(begin).filter(|begin| !begin.is_empty())).map_err(|error| unreadable(path, error)),
    }
}

/// The heading of a `-wal`; None where it is not there or holds nothing.
fn wal_header(wal: &Path) -> Result<Option<Vec<u8>>> {
    beginning_of(wal, WAL_HEADER_BYTES)
}

/// A copy of a file and its `-wal` as they are together at one moment. Errors: `Busy`.
fn copied(path: &Path, wal: &Path) -> Result<TempDir> {
    let dir = tempfile::tempdir().map_err(|error| Error::os("make a temporary directory", &std::env::temp_dir(), error))?;
    // Locked from one try to the next: a `-wal` that spoilt one is still there for the next.
    let mut file = opened(path)?;
    for _ in 0..TRIES {
        if !is_named(&file, path)? {
            file = opened(path)?;
        }
        if copied_once(&file, path, wal, dir.path())? {
            return Ok(dir);
        }
        let _ = std::fs::remove_file(dir.path().join(WAL_COPY));
        sleep(PAUSE);
    }
    let message = "the database did not stand still for as long as it takes to copy it: a writer folds its -wal again and again, \
                   or a change is half written, with a -journal";
    Err(Error::new(ErrorKind::Busy, message).with_file(path, None))
}

/// Copies both; whether the copies are of one moment.
fn copied_once(file: &File, path: &Path, wal: &Path, dir: &Path) -> Result<bool> {
    let is_locked = lock(file);
    let (before, heading) = (look(file, path)?, wal_header(wal)?);
    let has_all_changes_in_wal = heading.is_some() && before.1[MODES].contains(&WAL_MODE);
    // One that is kept for the next change begins with zeros.
    let is_half_written = beginning_of(&beside(path, "-journal"), 1)?.is_some_and(|begin| begin != [0]);
    if is_half_written || !(is_locked || has_all_changes_in_wal) {
        return Ok(false);
    }
    copy(file, path, &dir.join(COPY))?;
    if heading.is_some() {
        let wal_copy = dir.join(WAL_COPY);
        let is_there = File::open(wal).is_ok_and(|source| copy(&source, wal, &wal_copy).is_ok());
        if !is_there || wal_header(&wal_copy)? != heading {
            return Ok(false);
        }
    }
    let stood_still = has_all_changes_in_wal || look(file, path)? == before;
    Ok(stood_still && is_named(file, path)? && wal_header(wal)? == heading)
}

/// Takes SQLite's own lock for reading: nobody takes a `-wal` away, or commits without one, until the file is
/// closed. False where somebody does so now; where a system has no such locks, looking must do.
fn lock(file: &File) -> bool {
    !matches!(fcntl_lock(file, FlockOperation::NonBlockingLockShared), Err(Errno::AGAIN | Errno::ACCESS))
}

/// What changes with the file: its length and time, and its header.
fn look(file: &File, path: &Path) -> Result<((u64, i64, i64), [u8; HEADER_BYTES])> {
    let found = file.metadata().map_err(|error| unreadable(path, error))?;
    Ok(((found.len(), found.mtime(), found.mtime_nsec()), header(file, path)?))
}

/// Whether the file still has its name.
fn is_named(file: &File, path: &Path) -> Result<bool> {
    let same = || Ok((file.metadata()?, std::fs::metadata(path)?));
    let (ours, named) = same().map_err(|error| unreadable(path, error))?;
    Ok((ours.dev(), ours.ino()) == (named.dev(), named.ino()))
}

fn copy(mut source: &File, from: &Path, to: &Path) -> Result<()> {
    let mut target = File::create(to).map_err(|error| Error::os("make a copy of the database", to, error))?;
    source.rewind().map_err(|error| unreadable(from, error))?;
    io::copy(&mut source, &mut target).map(drop).map_err(|error| Error::os("copy the database", to, error))
}
