//! Files that are held open while a log is read, so that it can be read though compaction removes them.
//!
//! The file system as it is, but that a file which is held is not opened a second time. One that cannot
//! be held, for want of descriptors say, is opened when it is asked for, as ever.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::directory::Directory;
use crate::format::manifest::Manifest;
use crate::format::names;
use crate::fs::page::SharedPage;
use crate::fs::{File, Fs, Lock, Medium};

/// A directory in which the sealed segments of a manifest, and their hints, are held open.
pub(crate) fn holding(directory: &Directory, manifest: &Manifest) -> Directory {
    let mut files = HashMap::new();
    for listed in manifest.segments.iter().filter(|listed| listed.end != 0) {
        for path in [directory.file(&names::segment(listed.number)), directory.file(&names::hint(listed.number))] {
            if let Ok(file) = directory.fs.open(&path, false) {
                files.insert(path, file);
            }
        }
    }
    Directory { fs: Arc::new(Held { fs: directory.fs.clone(), files }), ..directory.clone() }
}

#[derive(Debug)]
struct Held {
    fs: Arc<dyn Fs>,
    files: HashMap<PathBuf, Arc<dyn File>>,
}

impl Fs for Held {
    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn File>> {
        match self.files.get(path) {
            Some(file) if !write => Ok(file.clone()),
            _ => self.fs.open(path, write),
        }
    }

    fn create_dir(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.fs.create_dir(path, mode)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.fs.sync_dir(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        self.fs.list(path)
    }

    fn is_dir(&self, path: &Path) -> io::Result<Option<bool>> {
        self.fs.is_dir(path)
    }

    fn lies_in(&self, path: &Path, dir: &Path) -> io::Result<bool> {
        self.fs.lies_in(path, dir)
    }

    fn create(&self, path: &Path, mode: u32) -> io::Result<Arc<dyn File>> {
        self.fs.create(path, mode)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.fs.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.fs.remove(path)
    }

    fn lock_file(&self, path: &Path, mode: u32) -> io::Result<Arc<dyn Lock>> {
        self.fs.lock_file(path, mode)
    }

    fn medium(&self, path: &Path) -> io::Result<Medium> {
        self.fs.medium(path)
    }

    fn map_page(&self, path: &Path, write: bool) -> io::Result<SharedPage> {
        self.fs.map_page(path, write)
    }

    fn now(&self) -> SystemTime {
        self.fs.now()
    }

    fn boot(&self) -> [u8; 16] {
        self.fs.boot()
    }

    fn random(&self) -> [u8; 16] {
        self.fs.random()
    }
}
