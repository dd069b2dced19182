//! The locks that processes sharing a directory take, and waiting for one for a bounded time.
//!
//! `open.lock`: openers go one at a time. The directory itself: held shared by every handle for as
//! long as it lives, exclusively by the first opener while it recovers; nobody can unlink it.
//! `write.lock`: the turn. `sync.lock`: who syncs for all. flock dies with its holder and no content
//! of a lock file is ever looked at.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::directory::Directory;
use crate::error::{Error, ErrorKind, Result};
use crate::format::names;
use crate::fs::Lock;
use crate::fs::fork::Home;
use crate::plant::planted;

/// How long the first pause between two tries for a lock is; it doubles up to 32 times that.
const PAUSE: Duration = Duration::from_micros(500);

/// Being in a directory: what an opener holds, and keeps for as long as its handle lives.
#[derive(Debug)]
pub(crate) struct Presence {
    /// Whether nobody else was in.
    pub is_first: bool,
    /// The lock on the directory; `None` where locks do not work and the caller promised to be alone.
    directory: Option<(Arc<dyn Lock>, PathBuf)>,
    /// Openers go one at a time.
    opening: Option<Arc<dyn Lock>>,
    home: Home,
}

impl Presence {
    /// Comes in. Waits for other openers at most `timeout`, then `Busy`.
    ///
    /// Who promised to be `alone` comes in when nobody else is there, and keeps others out. Errors:
    /// `Unsupported` where locks do not work, unless `alone`.
    pub fn enter(directory: &Directory, timeout: Duration, alone: bool) -> Result<Presence> {
        match Self::enter_locked(directory, timeout, alone) {
            Err(error) if alone && error.kind() == ErrorKind::Unsupported => {
                Ok(Presence { is_first: true, directory: None, opening: None, home: Home::here() })
            }
            entered => entered,
        }
    }

    fn enter_locked(directory: &Directory, timeout: Duration, alone: bool) -> Result<Presence> {
        let start = Instant::now();
        let path = directory.file(names::OPEN_LOCK);
        let opening = open(directory, &path)?;
        wait_for(&*opening, &path, "has been opening this store", start, timeout, || Ok(opening.try_exclusive()?.then_some(())))?;
        let mut presence = Presence { is_first: false, directory: None, opening: Some(opening), home: Home::here() };
        // The dot: a directory that is gone is an error, and no file is made in its place.
        let path = directory.file(".");
        let lock = open(directory, &path)?;
        presence.is_first = wait_for(&*lock, &path, "has this store open", start, timeout, || {
            // Never taken over from one to the other: what failed holds nothing.
            Ok(if lock.try_exclusive()? { Some(true) } else { (!alone && lock.try_shared()?).then_some(false) })
        })?;
        presence.directory = Some((lock, path));
        Ok(presence)
    }

    /// Lets others in beside the first opener, once the store stands. False if another opener got in
    /// between, who is first now: then all is to be begun again.
    pub fn share(&mut self) -> Result<bool> {
        let shared = match &self.directory {
            Some((lock, path)) => lock.try_shared().map_err(|error| refused(error, path))?,
            None => true,
        };
        self.let_openers_in();
        Ok(shared)
    }

    /// Whether locks do not work here, and the caller promised to be alone.
    pub fn is_without_locks(&self) -> bool {
        self.directory.is_none()
    }

    /// Lets the next opener come.
    pub fn let_openers_in(&mut self) {
        if let Some(opening) = self.opening.take() {
            give_up(&*opening);
        }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        // A forked child's copy is not the child's to give up.
        if self.home.is_here() || planted!("unlocked-by-child") {
            self.let_openers_in();
            if let Some((lock, _)) = &self.directory {
                give_up(&**lock);
            }
        }
    }
}

/// A lock that is given up with its owner.
#[derive(Debug)]
pub(crate) struct Held(Arc<dyn Lock>);

impl Held {
    /// One that was taken.
    pub fn new(lock: Arc<dyn Lock>) -> Held {
        Held(lock)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        give_up(&*self.0);
    }
}

/// Keeps everybody else out of a directory, of which no file is made; `None` where locks do not work.
/// Errors: `Busy`, at once, with what is wrong about whoever is in.
pub(crate) fn alone_in(directory: &Directory, doing: &str) -> Result<Option<Held>> {
    let path = directory.file(".");
    let lock = directory.fs.lock_file(&path, directory.file_mode).map_err(|error| Error::os("open the directory", &path, error))?;
    match lock.try_exclusive() {
        Ok(true) => Ok(Some(Held(lock))),
        Ok(false) => {
            let holder = lock.holder().unwrap_or_else(|| "another process".to_owned());
            Err(Error::new(ErrorKind::Busy, format!("{holder} {doing}")).with_file(&directory.path, None))
        }
        Err(_) => Ok(None),
    }
}

/// Gives a lock up for all who have a copy of it: a child that was forked meanwhile may live on.
fn give_up(lock: &dyn Lock) {
    // What cannot be given up here is given up with the last copy.
    let _ = lock.unlock();
}

/// Opens a lock.
pub(crate) fn open(directory: &Directory, path: &Path) -> Result<Arc<dyn Lock>> {
    directory.fs.lock_file(path, directory.file_mode).map_err(|error| refused(error, path))
}

/// Tries for a lock until it is had, with growing pauses. Errors: `Busy` after `timeout`.
pub(crate) fn wait_for<T>(
    lock: &dyn Lock,
    path: &Path,
    doing: &str,
    start: Instant,
    timeout: Duration,
    mut attempt: impl FnMut() -> io::Result<Option<T>>,
) -> Result<T> {
    let mut pause = PAUSE;
    loop {
        if let Some(had) = attempt().map_err(|error| refused(error, path))? {
            return Ok(had);
        }
        let left = timeout.saturating_sub(start.elapsed());
        if left.is_zero() {
            return Err(busy(lock, path, doing, timeout));
        }
        std::thread::sleep(pause.min(left));
        pause = (pause * 2).min(PAUSE * 32);
    }
}

/// The answer when a lock could not be had in time.
pub(crate) fn busy(lock: &dyn Lock, path: &Path, doing: &str, timeout: Duration) -> Error {
    let holder = lock.holder().unwrap_or_else(|| "another process".to_owned());
    let message = format!("{holder} {doing}, and after waiting for {timeout:?} nothing was written: let it end, or raise busy_timeout");
    Error::new(ErrorKind::Busy, message).with_file(path, None)
}

/// The answer when a lock cannot be asked for.
pub(crate) fn refused(error: io::Error, path: &Path) -> Error {
    use rustix::io::Errno;
    let without_locks = [Errno::NOLCK, Errno::OPNOTSUPP, Errno::NOSYS, Errno::INVAL];
    if without_locks.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error())) {
        let message = "locks do not work in this directory's file system; if no other process uses it, open with single_process(true)";
        return Error::new(ErrorKind::Unsupported, message).with_file(path, None).with_source(error);
    }
    Error::os("lock", path, error)
}
