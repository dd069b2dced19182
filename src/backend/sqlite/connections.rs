//! The connections to one database: one that writes, and some that read beside it.
//!
//! Each piece of work is a transaction: what it reads is one moment, what it writes counts whole or not at
//! all. In a write-ahead log readers wait for nobody. A database in memory has the one connection for all. No
//! lock is held between two pieces of work.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::failure::{Failure, Outcome};
use super::schema::{self, Found};
use crate::batch::Durability;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::fork::Home;
use crate::fs::os::{Identity, holds_anything, identity, resolved};
use crate::fs::{Fs, Medium, medium_at};

/// So many connections that nobody reads with are kept open.
const IDLE_MAX: usize = 4;
/// More than there are: each is prepared once.
const STATEMENTS: usize = 64;
/// Between two tries at what SQLite itself does not wait for.
const PAUSE: Duration = Duration::from_millis(5);

/// A database, and how this process gets at it.
pub(super) struct Connections {
    pub fs: Arc<dyn Fs>,
    /// None of a database in memory.
    file: Option<DatabaseFile>,
    home: Home,
    busy_timeout: Duration,
    read_only: bool,
    /// None where nothing is written, and once a write has failed in a way that leaves open what was written.
    writer: Mutex<Option<Writer>>,
    idle: Mutex<Vec<Connection>>,
}

struct DatabaseFile {
    path: PathBuf,
    identity: Identity,
}

struct Writer {
    connection: Connection,
    /// Whether there is a write-ahead log, in which a commit need not be synced to be whole.
    is_wal: bool,
    synchronous: &'static str,
}

/// How to open a database.
pub(super) struct Opening {
    pub fs: Arc<dyn Fs>,
    pub create: bool,
    pub read_only: bool,
    pub busy_timeout: Duration,
    /// Of a new place.
    pub keep: Option<i64>,
}

impl Opening {
    pub fn in_memory(self) -> Result<Connections> {
        let connection = Connection::open_in_memory().and_then(|connection| ready(connection, self.busy_timeout));
        connection.map_err(Failure::from).and_then(|connection| self.enter(connection, None, false)).map_err(|failure| failure.told(None))
    }

    /// Errors: `NotFound`, `Unsupported`, `Corrupt`, `ReadOnly`, `Busy`, `Io`.
    pub fn at(self, path: &Path) -> Result<Connections> {
        let path = std::path::absolute(path).map_err(|error| Error::os("find", path, error))?;
        require_local(&*self.fs, &path)?;
        match self.fs.is_dir(&path).map_err(|error| Error::os("look at", &path, error))? {
            Some(true) => {
                return Err(Error::new(ErrorKind::Unsupported, "the place is a directory, and no SQLite file").with_file(&path, None));
            }
            None if !self.create => return Err(Error::new(ErrorKind::NotFound, "there is no SQLite file").with_file(&path, None)),
            _ => {}
        }
        let has_log = matches!(self.fs.is_dir(&log_of(&path)), Ok(Some(_)));
        let opened = open(&path, self.create, self.busy_timeout).map_err(Failure::from);
        opened.and_then(|connection| self.enter(connection, Some(&path), has_log)).map_err(|failure| {
            let error = failure.told(Some(&path));
            if error.file().is_some() { error } else { error.with_file(&path, None) }
        })
    }

    /// Looks at what is there before anything is changed, and makes what is lacking.
    fn enter(self, mut connection: Connection, path: Option<&Path>, has_log: bool) -> Outcome<Connections> {
        // Of another program's database not even a log that waits beside it is put in order.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, has_log)?;
        let found = schema::look(&connection)?;
        if found == Found::Nothing && path.is_some() {
            if !self.create {
                return Err(Error::new(ErrorKind::NotFound, "the SQLite file holds nothing yet").into());
            }
            begin_log(&connection, self.busy_timeout)?;
        }
        if self.read_only {
            return self.for_reading(connection, path);
        }
        if found != Found::Place {
            // CRASH: all of the tables or none; a file without any is a place that is yet to be made.
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            schema::make(&transaction, self.keep)?;
            transaction.commit()?;
        }
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
        let is_wal = connection.query_row("PRAGMA journal_mode", [], |row| row.get::<_, String>(0))? == "wal";
        let file = path.map(|path| self.known(path)).transpose()?;
        let writer = Writer { connection, is_wal, synchronous: "" };
        Ok(self.connections(file, Some(writer), Vec::new()))
    }

    /// Changes nothing of the file: what is lacking is made beside it, in each connection's own memory.
    fn for_reading(self, connection: Connection, path: Option<&Path>) -> Outcome<Connections> {
        let Some(path) = path else { return Err(Error::invalid("nothing can be read of a place that is made in memory").into()) };
        only_reads(&connection)?;
        let identity = identity(path).map_err(|error| Error::os("look at", path, error))?;
        let file = DatabaseFile { path: path.to_owned(), identity };
        Ok(self.connections(Some(file), None, vec![connection]))
    }

    fn connections(self, file: Option<DatabaseFile>, writer: Option<Writer>, idle: Vec<Connection>) -> Connections {
        Connections {
            fs: self.fs,
            file,
            home: Home::here(),
            busy_timeout: self.busy_timeout,
            read_only: self.read_only,
            writer: Mutex::new(writer),
            idle: Mutex::new(idle),
        }
    }

    fn known(&self, path: &Path) -> Result<DatabaseFile> {
        if let Some(dir) = resolved(path).parent() {
            // CRASH: a process that was killed may have left names that do not last yet, the log's among
            // them, and what is written from now on rests on these.
            match self.fs.sync_dir(dir) {
                Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {}
                synced => synced.map_err(|error| Error::os("sync the directory", dir, error))?,
            }
        }
        let identity = identity(path).map_err(|error| Error::os("look at", path, error))?;
        Ok(DatabaseFile { path: path.to_owned(), identity })
    }
}

impl Connections {
    pub fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(|file| &*file.path)
    }

    /// Reads one moment.
    pub fn read<R>(&self, work: impl FnOnce(&Connection) -> Outcome<R>) -> Result<R> {
        self.at_home()?;
        let Some(file) = &self.file else {
            let mut writer = self.writer();
            let writer = writer.as_mut().ok_or_else(|| self.poisoned("an earlier write failed half way"))?;
            return moment(&mut writer.connection, work).map_err(|failure| failure.told(None));
        };
        let kept = self.idle().pop();
        let mut connection = match kept {
            Some(kept) => kept,
            None => self.another(file)?,
        };
        let read = if self.read_only { self.moment_to_read(file, &mut connection, work) } else { moment(&mut connection, work) };
        let read = read.map_err(|failure| failure.told(Some(&file.path)))?;
        let mut idle = self.idle();
        if idle.len() < IDLE_MAX {
            idle.push(connection);
        }
        Ok(read)
    }

    /// Has `work` read in one transaction, at whose moment the file has none of the tables that stand in for its own.
    fn moment_to_read<R>(
        &self,
        file: &DatabaseFile,
        connection: &mut Connection,
        work: impl FnOnce(&Connection) -> Outcome<R>,
    ) -> Outcome<R> {
        loop {
            let transaction = connection.transaction()?;
            if !schema::is_outgrown(&transaction)? {
                return work(&transaction);
            }
            drop(transaction);
            *connection = self.another(file)?;
        }
    }

    /// Has `work` change the database, all or nothing, as durable as asked.
    pub fn write<R>(&self, durability: Durability, work: impl FnOnce(&Connection) -> Outcome<R>) -> Result<R> {
        self.at_home()?;
        if self.read_only {
            return Err(self.of(Error::new(ErrorKind::ReadOnly, "the place was opened to be read")));
        }
        let mut guard = self.writer();
        let writer = guard.as_mut().ok_or_else(|| self.poisoned("an earlier write failed half way"))?;
        self.file.as_ref().map_or(Ok(()), |file| self.is_there(file))?;
        let done = writer.carry_out(durability, work);
        match done {
            Err(failure) if failure.is_io() || !writer.connection.is_autocommit() => {
                // A sync that failed is not tried again: what it left out nobody would notice.
                *guard = None;
                let cause = failure.told(self.path());
                Err(self.poisoned(&format!("{cause}; whether the batch was done the next opening tells")).with_source(cause))
            }
            done => done.map_err(|failure| failure.told(self.path())),
        }
    }

    /// Before any lock, which a worker of the parent may hold for ever. Errors: `Poisoned` in a forked child.
    fn at_home(&self) -> Result<()> {
        if self.home.is_here() { Ok(()) } else { Err(self.poisoned("this is a forked child's copy of the handle")) }
    }

    fn another(&self, file: &DatabaseFile) -> Result<Connection> {
        self.is_there(file)?;
        let opened = open(&file.path, false, self.busy_timeout).map_err(Failure::from).and_then(|connection| {
            if self.read_only {
                only_reads(&connection)?;
            }
            Ok(connection)
        });
        opened.map_err(|failure| failure.told(Some(&file.path)))
    }

    /// Errors: `Poisoned` where another file, or none, is at the path now.
    fn is_there(&self, file: &DatabaseFile) -> Result<()> {
        match identity(&file.path) {
            Ok(now) if now == file.identity => Ok(()),
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::os("look at", &file.path, error)),
            _ => Err(self.poisoned("the file was moved or replaced")),
        }
    }

    fn poisoned(&self, why: &str) -> Error {
        self.of(Error::new(ErrorKind::Poisoned, format!("{why}: open the place again")))
    }

    fn of(&self, error: Error) -> Error {
        match self.path() {
            Some(path) => error.with_file(path, None),
            None => error,
        }
    }

    // A transaction that a panic has cut off was rolled back, so a poison mark is passed over.
    fn writer(&self) -> MutexGuard<'_, Option<Writer>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        if !self.home.is_here() {
            // A forked child closes nothing of its parent's: SQLite's locks and log are not its own.
            std::mem::forget(self.writer.get_mut().unwrap_or_else(PoisonError::into_inner).take());
            std::mem::forget(std::mem::take(self.idle.get_mut().unwrap_or_else(PoisonError::into_inner)));
            return;
        }
        let log = self.file.as_ref().map(|file| log_of(&file.path));
        if self.read_only && log.is_some_and(|log| !holds_anything(&log)) {
            // Only an empty log goes with who reads: what a killed writer left in one stays there.
            for connection in self.idle.get_mut().unwrap_or_else(PoisonError::into_inner) {
                let _ = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false);
            }
        }
    }
}

impl Writer {
    fn carry_out<R>(&mut self, durability: Durability, work: impl FnOnce(&Connection) -> Outcome<R>) -> Outcome<R> {
        // Without a write-ahead log less than all syncs could cost the whole file in a power cut; and all of
        // them, the directory's behind the journal's removal too, is EXTRA.
        let synchronous = if self.is_wal && durability == Durability::Buffered { "NORMAL" } else { "EXTRA" };
        if self.synchronous != synchronous {
            self.connection.pragma_update(None, "synchronous", synchronous)?;
            self.synchronous = synchronous;
        }
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let done = work(&transaction)?;
        // CRASH: before this nothing of the batch is there, behind it all of it, as long as SQLite promises.
        transaction.commit()?;
        Ok(done)
    }
}

/// Has `work` read in one transaction.
fn moment<R>(connection: &mut Connection, work: impl FnOnce(&Connection) -> Outcome<R>) -> Outcome<R> {
    let transaction = connection.transaction()?;
    work(&transaction)
}

fn open(path: &Path, create: bool, busy_timeout: Duration) -> rusqlite::Result<Connection> {
    // No URI: a name that looks like one is a file's name all the same.
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    flags.set(OpenFlags::SQLITE_OPEN_CREATE, create);
    ready(Connection::open_with_flags(path, flags)?, busy_timeout)
}

/// Has a connection wait for others, and believe nothing of a file that it need not.
fn ready(connection: Connection, busy_timeout: Duration) -> rusqlite::Result<Connection> {
    // In milliseconds, of which SQLite takes so many.
    connection.busy_timeout(busy_timeout.min(Duration::from_millis(i32::MAX as u64)))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // Else a statement is planned anew for each value that is compared with a range: most of what a read costs.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    Ok(connection)
}

/// Has a connection change nothing of the file, nor put its log in order when it closes.
fn only_reads(connection: &Connection) -> Outcome<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    schema::stand_in(connection)
}

/// Where SQLite keeps a database's write-ahead log.
fn log_of(path: &Path) -> PathBuf {
    // SQLite follows links, and the log is beside the file itself.
    let mut log = resolved(path).into_os_string();
    log.push("-wal");
    log.into()
}

/// Gives an empty database a write-ahead log; where there can be none it goes on without.
fn begin_log(connection: &Connection, patience: Duration) -> Outcome<()> {
    let start = Instant::now();
    loop {
        match connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())).map_err(Failure::from) {
            // Two that do so at once are refused without a wait.
            Err(failure) if failure.is_busy() && start.elapsed() < patience => std::thread::sleep(PAUSE),
            done => return done,
        }
    }
}

/// Errors: `Unsupported` where locks may not reach all processes.
fn require_local(fs: &dyn Fs, path: &Path) -> Result<()> {
    match medium_at(fs, path) {
        Ok(Medium::Local) => Ok(()),
        Ok(Medium::Other(name)) => {
            let message = format!("the file is on a file system ({name}) that is not known to be local: locks may not work there");
            Err(Error::new(ErrorKind::Unsupported, message).with_file(path, None))
        }
        Err(error) => Err(Error::os("look at the file system of", path, error)),
    }
}
