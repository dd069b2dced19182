//! A file layer that fails on order: the nth operation of a kind, once or for ever.
//!
//! Everything else goes to the real one. Counts every operation, so that a test can walk through
//! them all, and every sync and byte read, so that it can say which were made.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use rustix::io::Errno;

use crate::checkpoint::Region;
use crate::fs::os::Os;
use crate::fs::page::SharedPage;
use crate::fs::{File, Fs, Lock, Medium};

/// What fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    CreateDir,
    SyncDir,
    List,
    Create,
    Open,
    Rename,
    Remove,
    Lock,
    MapPage,
    Length,
    Read,
    Write,
    Sync,
    Map,
}

/// How it fails.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fault {
    /// From which operation on, counted from when the fault was set.
    pub from: u64,
    /// Only of this kind; `None` for all.
    pub kind: Option<Kind>,
    /// Only that one, or all from there on.
    pub once: bool,
    pub errno: Errno,
    /// How many bytes a failing write writes before it fails.
    pub short: usize,
}

#[derive(Debug, Default)]
struct Orders {
    fault: Option<Fault>,
    seen: u64,
    failed: Vec<(Kind, PathBuf)>,
    clock: Option<SystemTime>,
    boot: Option<[u8; 16]>,
    medium: Option<Medium>,
}

/// The layer; clones share their orders.
#[derive(Clone, Debug, Default)]
pub(super) struct Failing {
    orders: Arc<Mutex<Orders>>,
    pub syncs: Arc<AtomicU64>,
    pub bytes_read: Arc<AtomicU64>,
}

impl Failing {
    /// From now on fails so; `None` not at all. Counting begins anew.
    pub fn set(&self, fault: Option<Fault>) {
        let mut orders = self.orders.lock().unwrap();
        (orders.fault, orders.seen) = (fault, 0);
        orders.failed.clear();
    }

    /// What failed since the fault was set.
    pub fn failed(&self) -> Vec<(Kind, PathBuf)> {
        self.orders.lock().unwrap().failed.clone()
    }

    pub fn set_clock(&self, now: SystemTime) {
        self.orders.lock().unwrap().clock = Some(now);
    }

    /// Says from now on that the system was started anew.
    pub fn set_boot(&self, boot: [u8; 16]) {
        self.orders.lock().unwrap().boot = Some(boot);
    }

    /// Says from now on that everything is on such a file system.
    pub fn set_medium(&self, medium: Medium) {
        self.orders.lock().unwrap().medium = Some(medium);
    }

    fn pass(&self, kind: Kind, path: &Path) -> Result<(), Fault> {
        let mut orders = self.orders.lock().unwrap();
        let Some(fault) = orders.fault else { return Ok(()) };
        if fault.kind.is_some_and(|only| only != kind) {
            return Ok(());
        }
        let number = orders.seen;
        orders.seen += 1;
        if number < fault.from || fault.once && number > fault.from {
            return Ok(());
        }
        orders.failed.push((kind, path.to_owned()));
        Err(fault)
    }

    fn check(&self, kind: Kind, path: &Path) -> io::Result<()> {
        self.pass(kind, path).map_err(|fault| fault.errno.into())
    }

    fn wrap(&self, file: Arc<dyn File>, path: &Path) -> Arc<dyn File> {
        Arc::new(FailingFile { file, path: path.to_owned(), layer: self.clone() })
    }
}

impl Fs for Failing {
    fn create_dir(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.check(Kind::CreateDir, path)?;
        Os.create_dir(path, mode)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.check(Kind::SyncDir, path)?;
        Os.sync_dir(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        self.check(Kind::List, path)?;
        Os.list(path)
    }

    fn is_dir(&self, path: &Path) -> io::Result<Option<bool>> {
        Os.is_dir(path)
    }

    fn create(&self, path: &Path, mode: u32) -> io::Result<Arc<dyn File>> {
        self.check(Kind::Create, path)?;
        Ok(self.wrap(Os.create(path, mode)?, path))
    }

    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn File>> {
        self.check(Kind::Open, path)?;
        Ok(self.wrap(Os.open(path, write)?, path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check(Kind::Rename, from)?;
        Os.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.check(Kind::Remove, path)?;
        Os.remove(path)
    }

    fn lock_file(&self, path: &Path, mode: u32) -> io::Result<Arc<dyn Lock>> {
        self.check(Kind::Lock, path)?;
        Os.lock_file(path, mode)
    }

    fn medium(&self, path: &Path) -> io::Result<Medium> {
        match self.orders.lock().unwrap().medium.clone() {
            Some(medium) => Ok(medium),
            None => Os.medium(path),
        }
    }

    fn map_page(&self, path: &Path, write: bool) -> io::Result<SharedPage> {
        self.check(Kind::MapPage, path)?;
        Os.map_page(path, write)
    }

    fn now(&self) -> SystemTime {
        self.orders.lock().unwrap().clock.unwrap_or_else(|| Os.now())
    }

    fn boot(&self) -> [u8; 16] {
        self.orders.lock().unwrap().boot.unwrap_or_else(|| Os.boot())
    }

    fn random(&self) -> [u8; 16] {
        Os.random()
    }
}

#[derive(Debug)]
struct FailingFile {
    file: Arc<dyn File>,
    path: PathBuf,
    layer: Failing,
}

impl File for FailingFile {
    fn len(&self) -> io::Result<u64> {
        self.layer.check(Kind::Length, &self.path)?;
        self.file.len()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.layer.check(Kind::Read, &self.path)?;
        let read = self.file.read_at(buffer, offset)?;
        self.layer.bytes_read.fetch_add(read as u64, SeqCst);
        Ok(read)
    }

    fn write_at(&self, parts: &[&[u8]], offset: u64) -> io::Result<()> {
        if let Err(fault) = self.layer.pass(Kind::Write, &self.path) {
            let whole = parts.concat();
            self.file.write_at(&[&whole[..fault.short.min(whole.len())]], offset)?;
            return Err(fault.errno.into());
        }
        self.file.write_at(parts, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.layer.syncs.fetch_add(1, SeqCst);
        self.layer.check(Kind::Sync, &self.path)?;
        self.file.sync()
    }

    fn map(&self, length: u64) -> io::Result<Arc<dyn Region>> {
        self.layer.check(Kind::Map, &self.path)?;
        self.file.map(length)
    }
}
