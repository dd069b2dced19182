//! The real operating system behind the seam.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use super::lock::{FileLock, uninterrupted};
use super::map::Map;
use super::page::SharedPage;
use super::{File, Fs, Lock, Medium, medium};
use crate::checkpoint::Region;
use crate::plant::hold_up;

/// The operating system.
#[derive(Debug)]
pub(crate) struct Os;

/// Which file this is, by whatever name: its device and its inode.
#[cfg(feature = "sqlite")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity(u64, u64);

/// Which file is at a path. Opens nothing: to close a file would give up the locks that SQLite has on it.
#[cfg(feature = "sqlite")]
pub(crate) fn identity(path: &Path) -> io::Result<Identity> {
    fs::metadata(path).map(|metadata| Identity(metadata.dev(), metadata.ino()))
}

/// A path without links, as far as what it names is there.
#[cfg(feature = "sqlite")]
pub(crate) fn resolved(path: &Path) -> std::path::PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// Whether a file is there and holds anything. Opens nothing.
#[cfg(feature = "sqlite")]
pub(crate) fn holds_anything(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.len() > 0)
}

impl Fs for Os {
    fn create_dir(&self, path: &Path, mode: u32) -> io::Result<()> {
        DirBuilder::new().mode(mode).create(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        hold_up();
        fs::File::open(path)?.sync_all()
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        hold_up();
        uninterrupted(|| fs::read_dir(path))?.map(|entry| entry.map(|entry| entry.file_name())).collect()
    }

    fn is_dir(&self, path: &Path) -> io::Result<Option<bool>> {
        match fs::metadata(path) {
            Ok(metadata) => Ok(Some(metadata.is_dir())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn lies_in(&self, path: &Path, dir: &Path) -> io::Result<bool> {
        let same = |path: &Path| fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino()));
        let (dir, absolute) = (same(dir)?, std::path::absolute(path)?);
        // Links are followed as far as there is anything; what is not there is no link.
        let Some(there) = absolute.ancestors().find_map(|path| fs::canonicalize(path).ok()) else { return Ok(false) };
        for ancestor in there.ancestors() {
            if same(ancestor)? == dir {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn create(&self, path: &Path, mode: u32) -> io::Result<Arc<dyn File>> {
        hold_up();
        Ok(Arc::new(OpenOptions::new().read(true).write(true).create_new(true).mode(mode).open(path)?))
    }

    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn File>> {
        hold_up();
        Ok(Arc::new(at_once(write).open(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        hold_up();
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        hold_up();
        fs::remove_file(path)
    }

    fn lock_file(&self, path: &Path, mode: u32) -> io::Result<Arc<dyn Lock>> {
        Ok(Arc::new(FileLock::open(path, mode)?))
    }

    fn medium(&self, path: &Path) -> io::Result<Medium> {
        medium::of(path)
    }

    fn map_page(&self, path: &Path, write: bool) -> io::Result<SharedPage> {
        let file = at_once(write).open(path)?;
        if write { SharedPage::map(&file) } else { SharedPage::map_read_only(&file) }
    }

    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn boot(&self) -> [u8; 16] {
        let told = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        uuid::Uuid::try_parse(told.trim()).unwrap_or_default().into_bytes()
    }

    fn random(&self) -> [u8; 16] {
        uuid::Uuid::new_v4().into_bytes()
    }
}

/// To open a file that is there, without waiting for anyone where a pipe stands in its place.
fn at_once(write: bool) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(write).custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32);
    options
}

impl File for fs::File {
    fn len(&self) -> io::Result<u64> {
        hold_up();
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        hold_up();
        let mut done = 0;
        while done < buffer.len() {
            match FileExt::read_at(self, &mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    #[cfg(target_os = "linux")]
    fn write_at(&self, parts: &[&[u8]], offset: u64) -> io::Result<()> {
        hold_up();
        let length: u64 = parts.iter().map(|part| part.len() as u64).sum();
        let mut done = 0;
        while done < length {
            match rustix::io::pwritev(self, &super::remaining(parts, done), offset + done) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => done += written as u64,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    #[cfg(not(target_os = "linux"))]
    fn write_at(&self, parts: &[&[u8]], mut offset: u64) -> io::Result<()> {
        for part in parts {
            self.write_all_at(part, offset)?;
            offset += part.len() as u64;
        }
        Ok(())
    }

    fn cut(&self, length: u64) -> io::Result<()> {
        hold_up();
        self.set_len(length)
    }

    fn sync(&self) -> io::Result<()> {
        hold_up();
        // Not retried: after a failed sync the kernel may hold the pages for clean.
        self.sync_data()
    }

    fn map(&self, length: u64) -> io::Result<Arc<dyn Region>> {
        hold_up();
        Ok(Arc::new(Map::new(self, length)?))
    }
}
