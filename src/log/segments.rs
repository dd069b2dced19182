//! The live segments as readers hold them: an immutable set, swapped whole.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::directory::Directory;
use super::examine;
use super::location::Location;
use crate::checkpoint::{Region, StateBytes};
use crate::error::{Error, ErrorKind, Result};
use crate::format::Flaw;
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
    /// What the positions in its frames' checksums are counted from.
    counted_from: u64,
    /// Where its first frame begins.
    pub first_frame: u64,
    /// Where its bytes come from.
    source: Source,
}

/// How a segment's bytes are read.
enum Source {
    /// From a map of so many bytes: no copy, no system call.
    Mapped(Arc<dyn Region>, u64),
    /// By system calls.
    File(Arc<dyn File>),
}

impl Segment {
    /// Opens a listed segment for reading; `None` if its file is missing.
    pub fn open(directory: &Directory, mmap: bool, listed: &Listed) -> Result<Option<Arc<Segment>>> {
        let path = directory.file(&names::segment(listed.number));
        let file = match directory.open_log(listed.number, false) {
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
        let source = Source::new(&path, &file, mmap, length)?;
        let first_frame = u64::from(listed.first_frame);
        Ok(Arc::new(Segment {
            number,
            path,
            salt: listed.salt,
            base: listed.base,
            counted_from: listed.counted_from(),
            first_frame,
            source,
        }))
    }

    /// The same segment, with so many bytes of its file mapped.
    pub fn with_length(&self, file: &Arc<dyn File>, mmap: bool, length: u64) -> Result<Arc<Segment>> {
        let source = Source::new(&self.path, file, mmap, length)?;
        Ok(Arc::new(Segment { path: self.path.clone(), source, ..*self }))
    }

    /// Whether bytes up to `end` can be read, if the file has them.
    pub fn reaches(&self, end: u64) -> bool {
        match &self.source {
            Source::Mapped(_, length) => end <= *length,
            Source::File(_) => true,
        }
    }

    /// The head and record of the frame at an offset, which ends at or before `limit`.
    ///
    /// Errors: `Corrupt` where none stands there.
    pub fn frame_head(&self, offset: u64, limit: u64) -> Result<FrameHead> {
        let (head, check) = self.head(offset, limit)?;
        let bytes = self.bytes(offset, head.payload_start())?;
        let record = head.record(&bytes).map_err(|flaw| self.damaged(offset, flaw))?.to_vec();
        Ok(FrameHead { head, check, record })
    }

    /// Where the next frame begins behind one that is not sound, as far as can be told; else `limit`.
    pub fn behind_damage(&self, offset: u64, limit: u64) -> u64 {
        match self.head(offset, limit) {
            Ok((head, _)) => offset + head.frame_len(),
            Err(_) => (offset + 8..limit).step_by(8).find(|&at| self.head(at, limit).is_ok()).unwrap_or(limit),
        }
    }

    /// Whether zeros stand where a frame would begin.
    pub fn is_blank(&self, offset: u64) -> bool {
        self.bytes(offset, frame::MAGIC.len()).is_ok_and(|bytes| bytes.iter().all(|&byte| byte == 0))
    }

    fn head(&self, offset: u64, limit: u64) -> Result<(Head, u32)> {
        let damaged = |flaw| self.damaged(offset, flaw);
        if offset + frame::HEAD_BYTES as u64 > limit {
            return Err(damaged(Flaw::Torn("frame")));
        }
        let (head, check) = Head::alone(self.place(offset), &self.bytes(offset, frame::HEAD_BYTES)?).map_err(damaged)?;
        if offset + head.frame_len() > limit { Err(damaged(Flaw::Torn("frame"))) } else { Ok((head, check)) }
    }

    /// Where a frame at `offset` stands, for its checksum.
    pub fn place(&self, offset: u64) -> Place {
        Place { salt: self.salt, position: self.counted_from + offset }
    }

    /// The whole frame. Errors: `Corrupt` when the file ends before it, `Io`.
    pub fn frame(&self, at: Location) -> Result<StateBytes> {
        self.bytes(at.offset(), at.length() as usize)
    }

    /// The frame without its payload, as far as that can be had without reading it.
    pub fn head_and_record(&self, at: Location) -> Result<StateBytes> {
        match &self.source {
            Source::Mapped(..) => self.frame(at),
            Source::File(_) => {
                let head = self.bytes(at.offset(), frame::HEAD_BYTES)?;
                let (record_len, _) = Head::peek(&head).map_err(|flaw| self.damaged(at.offset(), flaw))?;
                self.bytes(at.offset(), frame::payload_start(record_len as usize).min(at.length() as usize))
            }
        }
    }

    fn bytes(&self, offset: u64, length: usize) -> Result<StateBytes> {
        let start = offset as usize;
        match &self.source {
            Source::Mapped(map, _) => Ok(StateBytes::of_region(map.clone(), start..start + length)),
            Source::File(file) => {
                let mut bytes = vec![0; length];
                match file.read_at(&mut bytes, offset) {
                    Ok(read) if read == length => Ok(bytes.into()),
                    Ok(_) => Err(self.damaged(offset, Flaw::Torn("the file ends inside a frame"))),
                    Err(error) => Err(Error::os("read", &self.path, error).with_file(&self.path, Some(offset))),
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

/// What a frame says before its payload.
#[derive(Debug)]
pub(crate) struct FrameHead {
    /// Its head.
    pub head: Head,
    /// Its head's checksum.
    pub check: u32,
    /// Its record's bytes.
    pub record: Vec<u8>,
}

impl Source {
    fn new(path: &Path, file: &Arc<dyn File>, mmap: bool, length: u64) -> Result<Source> {
        if mmap && length > 0 {
            let map = file.map(length).map_err(|error| Error::os("map", path, error))?;
            Ok(Source::Mapped(map, length))
        } else {
            Ok(Source::File(file.clone()))
        }
    }
}

impl std::fmt::Debug for Segment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Segment({})", self.path.display())
    }
}
