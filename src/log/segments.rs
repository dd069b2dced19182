//! The live segments as readers hold them: an immutable set, swapped whole.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::directory::Directory;
use super::examine;
use super::view::Location;
use crate::checkpoint::{Region, StateBytes};
use crate::error::{Error, ErrorKind, Result};
use crate::format::frame::{self, Head, Place};
use crate::format::manifest::Listed;
use crate::format::names;
use crate::fs::File;

/// The live segments by number.
pub(crate) type SegmentSet = BTreeMap<u32, Arc<Segment>>;

/// A segment that frames are read from.
pub(crate) struct Segment {
    /// Its number.
    pub number: u32,
    /// Its file.
    pub path: PathBuf,
    /// The salt of its frames' checksums.
    pub salt: u64,
    /// The position of its byte 0.
    pub base: u64,
    /// Where its bytes come from.
    pub source: Source,
}

/// How a segment's bytes are read.
pub(crate) enum Source {
    /// From a map: no copy, no system call.
    Mapped(Arc<dyn Region>),
    /// By system calls.
    File(Arc<dyn File>),
}

impl Segment {
    /// Opens a listed segment for reading; `None` if its file is missing.
    pub fn open(directory: &Directory, mmap: bool, listed: &Listed) -> Result<Option<Arc<Segment>>> {
        let path = directory.file(&names::segment(listed.number));
        let file = match directory.open_segment(listed.number) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::os("open", &path, error)),
        };
        let length = file.len().map_err(|error| Error::os("read", &path, error))?;
        Self::new(listed, path, file, mmap, length).map(Some)
    }

    /// A segment in an open file, its first `length` bytes mapped unless mapping is off.
    pub fn new(listed: &Listed, path: PathBuf, file: Arc<dyn File>, mmap: bool, length: u64) -> Result<Arc<Segment>> {
        let number = examine::locate(listed.number, 0, 0)?.segment;
        let source = if mmap && length > 0 {
            Source::Mapped(file.map(length).map_err(|error| Error::os("map", &path, error))?)
        } else {
            Source::File(file)
        };
        Ok(Arc::new(Segment { number, path, salt: listed.salt, base: listed.base, source }))
    }

    /// Where a frame at `offset` stands, for its checksum.
    pub fn place(&self, offset: u64) -> Place {
        Place { salt: self.salt, position: self.base + offset }
    }

    /// The whole frame. Errors: `Corrupt` when the file ends before it, `Io`.
    pub fn frame(&self, at: Location) -> Result<StateBytes> {
        self.read(at, at.length())
    }

    /// The frame without its payload, as far as that can be had without reading it.
    pub fn head_and_record(&self, at: Location) -> Result<StateBytes> {
        match &self.source {
            Source::Mapped(_) => self.frame(at),
            Source::File(_) => {
                let head = self.read(at, frame::HEAD_BYTES as u64)?;
                let (record_len, _) = Head::peek(&head).map_err(|flaw| self.damaged(at.offset(), flaw))?;
                self.read(at, (frame::payload_start(record_len as usize) as u64).min(at.length()))
            }
        }
    }

    fn read(&self, at: Location, length: u64) -> Result<StateBytes> {
        let (start, length) = (at.offset() as usize, length as usize);
        match &self.source {
            Source::Mapped(map) => Ok(StateBytes::of_region(map.clone(), start..start + length)),
            Source::File(file) => {
                let mut bytes = vec![0; length];
                match file.read_at(&mut bytes, at.offset()) {
                    Ok(read) if read == length => Ok(bytes.into()),
                    Ok(_) => Err(self.damaged(at.offset(), crate::format::Flaw::Torn("the file ends inside a frame"))),
                    Err(error) => Err(Error::os("read", &self.path, error).with_file(&self.path, Some(at.offset()))),
                }
            }
        }
    }

    /// The error for bytes at `offset` that are not what was put there.
    pub fn damaged(&self, offset: u64, why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        let why = why.into();
        Error::new(ErrorKind::Corrupt, format!("damaged record: {why}")).with_file(&self.path, Some(offset)).with_source(why)
    }
}

impl std::fmt::Debug for Segment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Segment({})", self.path.display())
    }
}
