//! One file that is there: its value, read when it is asked for and held against what was known of it.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

use super::folder::Folder;
use super::names::GONE;
use super::text::{self, HEAD_BYTES_MAX};
use crate::checkpoint::StateBytes;
use crate::error::{Error, ErrorKind, Result};

/// A file; who holds it can read it, also when it does not count any more.
#[derive(Debug)]
pub(super) struct Stored {
    folder: Arc<Folder>,
    from: Origin,
    written: OnceLock<Written>,
    is_gone: AtomicBool,
}

/// Where its value is for as long as it has no file.
#[derive(Clone, Debug)]
pub(super) enum Origin {
    /// In its batch, where the operation stands there.
    Operation(usize),
    /// In a file that is there. A name alone: whoever holds the file counts as somebody who reads it.
    File(Written),
}

/// A file, and what tells it from another of its name.
#[derive(Clone, Debug)]
pub(super) struct Written {
    name: String,
    check: u64,
}

impl Stored {
    /// What a batch is about to put.
    pub fn fresh(folder: &Arc<Folder>, operation: usize) -> Arc<Stored> {
        Stored::new(folder, Origin::Operation(operation), OnceLock::new())
    }

    /// A file that was found.
    pub fn found(folder: &Arc<Folder>, name: String, check: u64) -> Arc<Stored> {
        Stored::new(folder, Origin::Operation(0), OnceLock::from(Written { name, check }))
    }

    /// The value of this file, about to be put once more.
    pub fn again(&self) -> Arc<Stored> {
        let from = self.written.get().map_or(self.from.clone(), |written| Origin::File(written.clone()));
        Stored::new(&self.folder, from, OnceLock::new())
    }

    fn new(folder: &Arc<Folder>, from: Origin, written: OnceLock<Written>) -> Arc<Stored> {
        Arc::new(Stored { folder: folder.clone(), from, written, is_gone: AtomicBool::new(false) })
    }

    /// Where its value is for as long as it has no file.
    pub fn from(&self) -> &Origin {
        &self.from
    }

    /// It is a file from now on.
    pub fn is_written(&self, name: String, check: u64) {
        self.written.get_or_init(|| Written { name, check });
    }

    /// The file's name; None as long as it has none.
    pub fn name(&self) -> Option<&str> {
        self.written.get().map(|written| written.name.as_str())
    }

    /// Its value, of so many bytes. Errors: `Corrupt`, and what the system says; with the file's name.
    pub fn read(&self, thread: &str, bytes: u64) -> Result<StateBytes> {
        match self.written.get() {
            Some(written) => written.read(&self.folder, thread, bytes),
            None => Err(Error::new(ErrorKind::Poisoned, "it was not written: open the place again").with_thread(thread)),
        }
    }

    /// Removes the file; it stays for as long as somebody may still read it.
    pub fn remove(self: Arc<Self>) -> Result<()> {
        let Some(name) = self.name() else { return Ok(()) };
        // Nobody takes hold of it any more, so nobody is missed.
        if Arc::strong_count(&self) == 1 {
            return self.folder.remove(name);
        }
        let from = self.folder.file(name);
        match self.folder.fs.rename(&from, &self.folder.file(&format!("{name}{GONE}"))) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            renamed => renamed.map_err(|error| Error::os("rename", &from, error))?,
        }
        self.is_gone.store(true, SeqCst);
        Ok(())
    }
}

impl Written {
    /// The file's value, as [`Stored::read`] answers it.
    pub fn read(&self, folder: &Folder, thread: &str, bytes: u64) -> Result<StateBytes> {
        let Written { name, check } = self;
        let path = folder.file(name);
        let corrupt = |what: &str| Error::new(ErrorKind::Corrupt, what.to_owned()).with_thread(thread).with_file(&path, None);
        // A value as a string has at most six bytes for each of its own.
        let bytes_max = bytes.saturating_mul(6) + 2 * HEAD_BYTES_MAX;
        let read = folder.read(name, bytes_max);
        let read = match read {
            Err(error) if error.kind() == io::ErrorKind::NotFound => folder.read(&format!("{name}{GONE}"), bytes_max),
            read => read,
        };
        let text = match read {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(corrupt("the file was removed or renamed by somebody else"));
            }
            read => read.map_err(|error| Error::os("read", &path, error).with_thread(thread))?,
        };
        let head = text::read(&text).map_err(corrupt)?.ok_or_else(|| corrupt("the file is torn"))?;
        if head.check != *check {
            return Err(corrupt("the file is another one than it was"));
        }
        text::value(text, &head).map_err(corrupt)
    }
}

impl Drop for Stored {
    fn drop(&mut self) {
        if self.is_gone.load(SeqCst)
            && self.folder.home.is_here()
            && let Some(name) = self.name()
        {
            // Where that fails, the next opening does it.
            let _ = self.folder.remove(&format!("{name}{GONE}"));
        }
    }
}
