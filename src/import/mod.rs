//! Importing the SQLite databases in which other programs keep checkpoints: windlass' and LangGraph's.
//!
//! A database is read by SQLite itself, and never written: nothing beside it is made, removed or changed, not
//! even for a moment (`open`). Its tables are scanned once, in the order of their rows, by what the
//! values are and not by what the columns say; indexes are not relied on. Then each thread is read by its row
//! numbers and carried over as in a copy (`carry`).
//!
//! What each row becomes is told in DESIGN.md, section 23. What cannot be kept exactly is told by name.

mod langgraph;
mod open;
mod tables;
mod value;
mod windlass;

use std::fmt;
use std::path::Path;

use crate::carry::{Carried, Source, Tally, Tell, carry};
use crate::checkpointer::Checkpointer;
use crate::error::{Error, Result};
use open::Image;
use tables::Kind;

/// An SQLite database of windlass' or LangGraph's, open to be read, as it is at one moment.
///
/// Its kind is told by its table `checkpoints`; a place in an SQLite file is none of them, and is copied. A checkpoint's id is windlass' row number, or LangGraph's own;
/// a LangGraph thread in a namespace is `THREAD?checkpoint_ns=NAMESPACE`, and pending writes are attachments.
///
/// The file is only read; so is its `-wal`. Where there may be one, a copy of both is made in the temporary
/// directory, and takes up room without a name there until this is dropped; writers go on. Of a database in
/// another journal mode they wait until then, unless this process opens and closes the file elsewhere meanwhile,
/// for instance as a second `Database`: then the system drops all locks that the process has on it.
///
/// ```no_run
/// use taffrail::{Store, carry::Event, import::Database};
/// let database = Database::open("checkpoints.db")?;
/// let imported = database.carry_to(&Store::open("runs")?, &mut |event| {
///     if let Event::Left(what) = event {
///         eprintln!("{:?} {:?}: {}", what.thread, what.id, what.error);
///     }
/// })?;
/// println!("{} imported", imported.put);
/// # Ok::<(), taffrail::Error>(())
/// ```
pub struct Database {
    image: Image,
    kind: Kind,
}

impl Database {
    /// Opens a database, waiting up to 10 s for whoever writes to it.
    ///
    /// Errors: `NotFound` where there is no file; `InvalidInput` where it is no SQLite database, or empty;
    /// `Unsupported` where it has no checkpoints that are known, or those of both kinds; `Corrupt` where SQLite
    /// finds it damaged; `Busy` where it does not stand still for as long as it takes to copy or to lock it.
    pub fn open(file: impl AsRef<Path>) -> Result<Self> {
        let image = Image::open(file.as_ref())?;
        let kind = tables::kind(&image)?;
        Ok(Database { image, kind })
    }

    /// Takes all threads to a place, each in its own order.
    ///
    /// Retention, threads that are there already and doing it again: as in [`copy`](crate::copy), and so are the
    /// batches, what is read back, and the errors of `dest`. A row that cannot be kept as it is, is told, counted
    /// as refused and left out; a part of one that cannot is told and left behind, and the rest is put.
    /// `Corrupt` where SQLite finds the database damaged; what was put before stays. Memory: as a copy, and 8
    /// bytes for each row.
    pub fn carry_to(&self, dest: &dyn Checkpointer, tell: Tell<'_>) -> Result<Carried> {
        let mut tally = Tally { carried: Carried::default(), tell };
        let mut source: Box<dyn Source + '_> = match self.kind {
            Kind::Windlass => Box::new(windlass::Windlass::new(&self.image)),
            Kind::LangGraph { has_paths, has_writes } => Box::new(langgraph::LangGraph::new(&self.image, has_paths, has_writes)),
        };
        carry(&mut *source, dest, &mut tally)?;
        Ok(tally.carried)
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("path", &self.image.path).field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// A number of retention, which no such database has.
fn no_number() -> Result<Option<usize>> {
    Err(Error::unsupported("max_history"))
}
