//! The store's directory: what lies in it, and putting files there so that they last.
//!
//! Order of every change: write, sync the file, rename, sync the directory. This file knows names
//! and order; what the files mean is known to its callers.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::error::{Error, ErrorKind, Result};
use crate::format::Flaw;
use crate::format::manifest::{self, Manifest};
use crate::format::names::{self, Name};
use crate::format::segment::Header;
use crate::fs::{File, Fs, Lock, Medium, medium_at};
use crate::plant::planted;

/// The store's directory.
#[derive(Clone, Debug)]
pub(crate) struct Directory {
    pub fs: Arc<dyn Fs>,
    pub path: PathBuf,
    pub dir_mode: u32,
    pub file_mode: u32,
    /// The directory itself, once it was found: what has its path later may be another one.
    pub found: Arc<OnceLock<Arc<dyn Lock>>>,
}

/// What lies in a directory, by what its name means.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    pub manifest: bool,
    pub manifest_new: bool,
    pub quarantine: bool,
    pub segments: Vec<u64>,
    pub segments_new: Vec<u64>,
    pub hints: Vec<u64>,
    pub hints_new: Vec<u64>,
    /// A name that is not ours.
    pub foreign: Option<PathBuf>,
}

impl Contents {
    /// Whether a segment is there, under its own name or its working name.
    pub fn has(&self, number: u64) -> bool {
        self.segments.binary_search(&number).is_ok() || self.segments_new.binary_search(&number).is_ok()
    }
}

impl Directory {
    /// The path of a file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The path of a file in it that is not there yet: the name, or the name and a number.
    pub fn free_file(&self, name: &str) -> Result<PathBuf> {
        let mut path = self.file(name);
        let mut number = 1;
        while self.fs.is_dir(&path).map_err(|error| Error::os("look at", &path, error))?.is_some() {
            path = self.file(&format!("{name}.{number}"));
            number += 1;
        }
        Ok(path)
    }

    /// Whether it is there. Errors: `Unsupported` if something else is.
    pub fn exists(&self) -> Result<bool> {
        match self.fs.is_dir(&self.path) {
            Ok(Some(true)) => Ok(true),
            Ok(Some(false)) => {
                Err(Error::new(ErrorKind::Unsupported, "not a store: the place is not a directory").with_file(&self.path, None))
            }
            Ok(None) => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                Err(Error::new(ErrorKind::Unsupported, "not a store: a file stands in the way").with_file(&self.path, None))
            }
            Err(error) => Err(Error::os("look at", &self.path, error)),
        }
    }

    /// Makes it and the parents it lacks, each to last; and where it is there already, makes that last.
    pub fn create(&self) -> Result<()> {
        let absolute = std::path::absolute(&self.path).map_err(|error| Error::os("find", &self.path, error))?;
        self.create_all(&absolute)
    }

    fn create_all(&self, path: &Path) -> Result<()> {
        let Some(parent) = path.parent() else { return Ok(()) };
        if self.fs.is_dir(path).map_err(|error| Error::os("look at", path, error))?.is_some() {
            // CRASH: who made it may have died before this sync, so its name may not last yet. A
            // parent that we may not open is not one that such a process of ours has made.
            return match self.fs.sync_dir(parent) {
                Err(error) if error.kind() != io::ErrorKind::PermissionDenied => Err(Error::os("sync the directory", parent, error)),
                _ => Ok(()),
            };
        }
        self.create_all(parent)?;
        match self.fs.create_dir(path, self.dir_mode) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(Error::os("make the directory", path, error)),
            _ => {}
        }
        // CRASH: before this sync a power cut may take the directory; nothing is in it yet.
        self.fs.sync_dir(parent).map_err(|error| Error::os("sync the directory", parent, error))
    }

    /// Refuses a file system that is not known to be local, before anything is made there: the one
    /// that the directory is on, or would be. Errors: `Unsupported`.
    pub fn require_local(&self) -> Result<()> {
        match medium_at(&*self.fs, &self.path) {
            Ok(Medium::Local) => Ok(()),
            Ok(Medium::Other(name)) => {
                let message = format!(
                    "the directory is on a file system ({name}) that is not known to be local: locks and mappings may not reach \
                     other processes there; if no other process uses it, open with single_process(true)"
                );
                Err(Error::new(ErrorKind::Unsupported, message).with_file(&self.path, None))
            }
            Err(error) => Err(Error::os("look at the file system of", &self.path, error)),
        }
    }

    /// Remembers which directory stands at the path.
    pub fn find(&self) -> Result<()> {
        let found = self.at_path().map_err(|error| Error::os("open the directory", &self.path, error))?;
        self.found.get_or_init(|| found);
        Ok(())
    }

    /// What stands at the path now. The dot: a directory that is gone is an error, and no file is
    /// made in its place.
    fn at_path(&self) -> io::Result<Arc<dyn Lock>> {
        self.fs.lock_file(&self.file("."), self.file_mode)
    }

    /// Errors: `Poisoned` where the directory was moved away, or another stands in its place.
    fn is_in_place(&self) -> Result<()> {
        let Some(found) = self.found.get() else { return Ok(()) };
        let same = match self.at_path().and_then(|now| Ok(now.inode()? == found.inode()?)) {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => false,
            same => same.map_err(|error| Error::os("look at", &self.path, error))?,
        };
        if same { Ok(()) } else { Err(self.replaced("the directory was moved or replaced while this handle had it open")) }
    }

    fn replaced(&self, what: &str) -> Error {
        Error::new(ErrorKind::Poisoned, format!("{what}: close it and open it where it is now")).with_file(&self.path, None)
    }

    /// Refuses to make files for a log that does not lie here any more. In the turn, or while alone.
    ///
    /// Errors: `Poisoned` where another manifest stands here than the one that is in force.
    pub fn require_in_force(&self, manifest: &Manifest) -> Result<()> {
        let here = self.manifest()?;
        match (here.store, here.generation) == (manifest.store, manifest.generation) {
            true => Ok(()),
            false => Err(self.replaced("the store's files were replaced by others while this handle had them open")),
        }
    }

    /// What lies in it.
    pub fn contents(&self) -> Result<Contents> {
        let mut contents = Contents::default();
        for name in self.fs.list(&self.path).map_err(|error| Error::os("list", &self.path, error))? {
            match name.to_str().and_then(Name::parse) {
                Some(Name::Manifest) => contents.manifest = true,
                Some(Name::ManifestNew) => contents.manifest_new = true,
                Some(Name::Quarantine) => contents.quarantine = true,
                Some(Name::Segment(number)) => contents.segments.push(number),
                Some(Name::SegmentNew(number)) => contents.segments_new.push(number),
                Some(Name::Hint(number)) => contents.hints.push(number),
                Some(Name::HintNew(number)) => contents.hints_new.push(number),
                Some(Name::Tail | Name::Lock) => {}
                // The root of a mounted disk has this one; it is empty unless the disk was repaired.
                None if name == "lost+found" => {}
                None => contents.foreign = Some(self.path.join(name)),
            }
        }
        contents.segments.sort_unstable();
        contents.segments_new.sort_unstable();
        Ok(contents)
    }

    /// The whole content of a file of bounded size.
    pub fn read(&self, name: &str, bytes_max: u64) -> Result<Vec<u8>> {
        let path = self.file(name);
        let read = || -> io::Result<Vec<u8>> {
            let file = self.fs.open(&path, false)?;
            let length = file.len()?;
            if length > bytes_max {
                return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{length} bytes are too many for this file")));
            }
            let mut bytes = vec![0; length as usize];
            let read = file.read_at(&mut bytes, 0)?;
            bytes.truncate(read);
            Ok(bytes)
        };
        read().map_err(|error| Error::os("read", &path, error))
    }

    /// Opens a listed segment, for writing too if asked; also one that a killed writer listed under
    /// its working name and did not rename any more.
    pub fn open_log(&self, number: u64, write: bool) -> io::Result<Arc<dyn File>> {
        let absent = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        let open = |name: String| self.fs.open(&self.file(&name), write);
        match open(names::segment(number)) {
            Err(error) if absent(&error) => match open(names::segment_new(number)) {
                // Renamed between the two looks, if it is there at all.
                Err(error) if absent(&error) => open(names::segment(number)),
                found => found,
            },
            found => found,
        }
    }

    /// Whether a segment may be there, under either of its names.
    pub fn may_have_log(&self, number: u64) -> bool {
        let names = [names::segment(number), names::segment_new(number)];
        names.iter().any(|name| !matches!(self.fs.is_dir(&self.file(name)), Ok(None)))
    }

    /// Removes a segment: under its working name, too, where who began it died before it had its own.
    pub fn remove_log(&self, number: u64) -> Result<()> {
        self.remove(&names::segment_new(number))?;
        self.remove(&names::segment(number))
    }

    /// Makes a file; what stood there was never counted on and is removed first.
    pub fn create_file(&self, name: &str) -> Result<Arc<dyn File>> {
        let path = self.file(name);
        self.remove(name)?;
        self.fs.create(&path, self.file_mode).map_err(|error| Error::os("make", &path, error))
    }

    /// Removes a file, if it is there.
    pub fn remove(&self, name: &str) -> Result<()> {
        let path = self.file(name);
        match self.fs.remove(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::os("remove", &path, error)),
            _ => Ok(()),
        }
    }

    /// Renames a file within it.
    pub fn rename(&self, from: &str, to: &str) -> Result<()> {
        let path = self.file(from);
        self.fs.rename(&path, &self.file(to)).map_err(|error| Error::os("rename", &path, error))
    }

    /// Makes its names last.
    pub fn sync(&self) -> Result<()> {
        if planted!("names-not-synced") {
            return Ok(());
        }
        self.fs.sync_dir(&self.path).map_err(|error| Error::os("sync the directory", &self.path, error))
    }

    /// Reads the manifest. Errors: `Corrupt`, `Unsupported` for a newer format, `Poisoned` where the
    /// directory is not at its path any more.
    pub fn manifest(&self) -> Result<Manifest> {
        let read = self.read(names::MANIFEST, manifest::BYTES_MAX);
        self.is_in_place()?;
        let bytes = read?;
        Manifest::decode(&bytes).map_err(|flaw| {
            let kind = if matches!(flaw, Flaw::Unknown(_)) { ErrorKind::Unsupported } else { ErrorKind::Corrupt };
            let advice = if kind == ErrorKind::Corrupt {
                "; restore the whole directory from a copy, or salvage what is here with `repair`"
            } else {
                ""
            };
            Error::new(kind, format!("cannot use the manifest: {flaw}{advice}"))
                .with_file(&self.file(names::MANIFEST), None)
                .with_source(flaw)
        })
    }

    /// Writes the next manifest beside the old one, synced. On failure the old one stands alone.
    pub fn write_next_manifest(&self, manifest: &Manifest) -> Result<()> {
        let path = self.file(names::MANIFEST_NEW);
        if !manifest.counts() {
            let message = "the store's numbers are too high to have been counted, so nothing more is written: close it in every process and open it again; if that is refused too, salvage it with `repair`";
            return Err(Error::new(ErrorKind::Corrupt, message).with_file(&path, None));
        }
        let encoded = manifest.encode();
        if encoded.len() as u64 > manifest::BYTES_MAX {
            let message = format!("{} segments are more than a manifest can list: use larger segments", manifest.segments.len());
            return Err(Error::new(ErrorKind::Unsupported, message).with_file(&path, None));
        }
        let file = self.create_file(names::MANIFEST_NEW)?;
        // CRASH: until the rename, only a MANIFEST.new is left, whole or not: recovery step 7 removes it.
        let written = file.write_at(&[&encoded], 0).and_then(|()| if planted!("manifest-not-synced") { Ok(()) } else { file.sync() });
        let written = written.map_err(|error| Error::os("write", &path, error));
        if written.is_err() {
            // The first error is the one to tell; a leftover is removed by the next opener.
            let _ = self.remove(names::MANIFEST_NEW);
        }
        written
    }

    /// Makes a segment file that holds its header alone, under `name`, not yet synced.
    pub fn create_segment(&self, name: &str, header: &Header) -> Result<(Arc<dyn File>, u32)> {
        let file = self.create_file(name)?;
        let (bytes, check) = header.encode();
        let written = file.write_at(&[&bytes], 0).map_err(|error| Error::os("write", &self.file(name), error));
        written.inspect_err(|_| {
            // What failed first is what is told; an empty file that is left goes with the next opening.
            let _ = self.remove(name);
        })?;
        Ok((file, check))
    }
}
