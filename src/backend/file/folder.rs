//! The folder: what is asked of the system for it, and being the one process that has it open.
//!
//! It knows names and no meaning. The lock is on the folder itself, which nobody can unlink from under
//! its holder; it dies with the process, and with what that has forked.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::names::WORKING;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::fork::Home;
use crate::fs::{Fs, Lock, Medium, medium_at};

const DIR_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// How long an opening waits for who is about to close.
const PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(5);

/// A folder by its path.
#[derive(Debug)]
pub(super) struct Folder {
    pub fs: Arc<dyn Fs>,
    pub path: PathBuf,
    pub home: Home,
}

impl Folder {
    pub fn new(fs: Arc<dyn Fs>, path: &Path) -> Self {
        Folder { fs, path: path.to_owned(), home: Home::here() }
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Whether it is there. Errors: `Unsupported` if something else is.
    pub fn exists(&self) -> Result<bool> {
        match self.fs.is_dir(&self.path) {
            Ok(Some(false)) => Err(Error::new(ErrorKind::Unsupported, "the place is not a directory").with_file(&self.path, None)),
            Ok(found) => Ok(found.is_some()),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                Err(Error::new(ErrorKind::Unsupported, "a file stands in the way of the place").with_file(&self.path, None))
            }
            Err(error) => Err(Error::os("look at", &self.path, error)),
        }
    }

    /// Makes it and the parents it lacks, each to last; and where it is there already, makes that last.
    pub fn create(&self) -> Result<()> {
        let absolute = std::path::absolute(&self.path).map_err(|error| Error::os("find", &self.path, error))?;
        let is_lacking = |path: &&Path| matches!(self.fs.is_dir(path), Ok(None));
        let lacking: Vec<&Path> = absolute.ancestors().take_while(is_lacking).collect();
        for path in lacking.iter().rev() {
            match self.fs.create_dir(path, DIR_MODE) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(Error::os("make the directory", path, error)),
                _ => {}
            }
        }
        // CRASH: who made the first that is there may have died before this sync, so its name may not last yet.
        for path in absolute.ancestors().take(lacking.len() + 1).filter_map(Path::parent) {
            match self.fs.sync_dir(path) {
                // One that we may not open is none that such a process of ours has made.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                synced => synced.map_err(|error| Error::os("sync the directory", path, error))?,
            }
        }
        Ok(())
    }

    /// Errors: `Unsupported` where locks may not reach all processes.
    pub fn require_local(&self) -> Result<()> {
        match medium_at(&*self.fs, &self.path) {
            Ok(Medium::Local) => Ok(()),
            Ok(Medium::Other(name)) => {
                let message = format!("the directory is on a file system ({name}) that is not known to be local: locks may not work there");
                Err(Error::new(ErrorKind::Unsupported, message).with_file(&self.path, None))
            }
            Err(error) => Err(Error::os("look at the file system of", &self.path, error)),
        }
    }

    /// The names in it; those that are no UTF-8 are not ours, whatever they look like.
    pub fn names(&self) -> Result<Vec<String>> {
        let names = self.fs.list(&self.path).map_err(|error| Error::os("list", &self.path, error))?;
        Ok(names.iter().map(|name| name.to_string_lossy().into_owned()).collect())
    }

    /// The first bytes of a file.
    pub fn read(&self, name: &str, bytes_max: u64) -> io::Result<Vec<u8>> {
        let file = self.fs.open(&self.file(name), false)?;
        let mut bytes = vec![0; file.len()?.min(bytes_max) as usize];
        let read = file.read_at(&mut bytes, 0)?;
        bytes.truncate(read);
        Ok(bytes)
    }

    /// Writes a file under its working name, synced. Where that fails, nothing is left.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.file(&format!("{name}{WORKING}"));
        let create = || match self.fs.create(&path, FILE_MODE) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // What was begun once and never counted.
                self.fs.remove(&path)?;
                self.fs.create(&path, FILE_MODE)
            }
            created => created,
        };
        let file = create().map_err(|error| Error::os("make", &path, error))?;
        let written = file.write_at(&[bytes], 0).and_then(|()| file.sync()).map_err(|error| Error::os("write", &path, error));
        written.inspect_err(|_| self.discard(name))
    }

    /// Takes back what [`Folder::write`] has written.
    pub fn discard(&self, name: &str) {
        // What failed before is what is told; what is left counts for nothing.
        let _ = self.fs.remove(&self.file(&format!("{name}{WORKING}")));
    }

    /// Gives what was written its name.
    pub fn name(&self, name: &str) -> Result<()> {
        let from = self.file(&format!("{name}{WORKING}"));
        self.fs.rename(&from, &self.file(name)).map_err(|error| Error::os("rename", &from, error))
    }

    /// Removes a file, if it is there.
    pub fn remove(&self, name: &str) -> Result<()> {
        let path = self.file(name);
        match self.fs.remove(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::os("remove", &path, error)),
            _ => Ok(()),
        }
    }

    /// Makes its names last.
    pub fn sync(&self) -> Result<()> {
        self.fs.sync_dir(&self.path).map_err(|error| Error::os("sync the directory", &self.path, error))
    }
}

/// Being in: others are kept out until it is dropped, in the process that came in.
#[derive(Debug)]
pub(super) struct Presence {
    folder: Arc<Folder>,
    lock: Arc<dyn Lock>,
}

impl Presence {
    /// Errors: `Busy` where another has it open, `Unsupported` where locks do not work.
    pub fn enter(folder: &Arc<Folder>) -> Result<Presence> {
        let start = Instant::now();
        let lock = at_path(folder).map_err(|error| Error::os("open the directory", &folder.path, error))?;
        loop {
            match lock.try_exclusive() {
                Ok(true) => return Ok(Presence { folder: folder.clone(), lock }),
                Ok(false) if start.elapsed() < PATIENCE => std::thread::sleep(PAUSE),
                Ok(false) => {
                    let holder = lock.holder().unwrap_or_else(|| "another process".to_owned());
                    let message = format!("{holder} has it open, and a place of files is for one at a time");
                    return Err(Error::new(ErrorKind::Busy, message).with_file(&folder.path, None));
                }
                Err(error) if error.raw_os_error().is_some_and(is_without_locks) => {
                    let message = "locks do not work in this directory's file system";
                    return Err(Error::new(ErrorKind::Unsupported, message).with_file(&folder.path, None).with_source(error));
                }
                Err(error) => return Err(Error::os("lock", &folder.path, error)),
            }
        }
    }

    /// Errors: `Poisoned` in a forked child, and where the folder is not at its path any more.
    pub fn check(&self) -> Result<()> {
        if !self.folder.home.is_here() {
            return Err(poisoned("this is a forked child's copy of the handle: open the place again", &self.folder.path));
        }
        match at_path(&self.folder).and_then(|now| Ok(now.inode()? == self.lock.inode()?)) {
            Ok(true) => Ok(()),
            Err(error) if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Err(Error::os("look at", &self.folder.path, error))
            }
            _ => Err(poisoned("the folder was moved or replaced: close it and open it where it is now", &self.folder.path)),
        }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        // A forked child's copy is not the child's to give up; nothing else can be done about a failure.
        if self.folder.home.is_here() {
            let _ = self.lock.unlock();
        }
    }
}

pub(super) fn poisoned(message: &str, path: &Path) -> Error {
    Error::new(ErrorKind::Poisoned, message).with_file(path, None)
}

/// What stands at the path now. The dot: a folder that is gone is an error, and no file is made in its place.
fn at_path(folder: &Folder) -> io::Result<Arc<dyn Lock>> {
    folder.fs.lock_file(&folder.file("."), FILE_MODE)
}

fn is_without_locks(errno: i32) -> bool {
    use rustix::io::Errno;
    [Errno::NOLCK, Errno::OPNOTSUPP, Errno::NOSYS, Errno::INVAL].iter().any(|lacking| lacking.raw_os_error() == errno)
}
