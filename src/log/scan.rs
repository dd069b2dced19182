//! Frames in the order they stand in a file, and what stands between them that is none.
//!
//! Reads with system calls, so that a bad sector is an answer and not a signal. After bad bytes the
//! scan goes on at the next place where a head's checksum fits; it never decides what a bad place
//! means. Memory: one window of the file, at most a record larger than its usual size.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::format::Flaw;
use crate::format::frame::{self, HEAD_BYTES, Head, Place};
use crate::fs::File;

/// How much is read at a time.
const WINDOW_BYTES: u64 = 1024 * 1024;
/// How much is read of a frame behind a payload that was passed over: most records are shorter.
const AHEAD_BYTES: u64 = 1024;
/// How much is read at a time by who reads here and there: most frames of deltas are shorter.
const SCATTERED_BYTES: u64 = 4096;
/// A payload so long is passed over; shorter ones are read along, for a call costs as much.
const PASSED_BYTES: u64 = 8192;
/// The unit in which an unreadable stretch is passed over.
const SECTOR_BYTES: usize = 4096;

/// A frame whose head and record are sound.
#[derive(Debug)]
pub(crate) struct FrameAt {
    /// Its offset in the file.
    pub offset: u64,
    /// Its head.
    pub head: Head,
    /// Its head's checksum.
    pub check: u32,
    /// Its record's bytes.
    pub record: Vec<u8>,
}

impl FrameAt {
    /// Where the next frame begins.
    pub fn end(&self) -> u64 {
        self.offset + self.head.frame_len()
    }
}

/// What a scan meets.
#[derive(Debug)]
pub(crate) enum Found {
    /// A frame.
    Frame(FrameAt),
    /// Bytes that are no frame.
    Bad {
        /// Where they begin.
        from: u64,
        /// Where the next frame, or the end of what was asked, begins.
        to: u64,
        /// What is wrong at their beginning.
        why: Flaw,
    },
}

/// A scan of a segment's frames.
pub(crate) struct Scan {
    window: Window,
    salt: u64,
    base: u64,
    at: u64,
    limit: u64,
}

impl Scan {
    /// Scans the frames between two offsets; `limit` is cut to the file's length.
    pub fn new(file: Arc<dyn File>, path: &Path, salt: u64, base: u64, start: u64, limit: u64) -> Result<Scan> {
        let length = file.len().map_err(|error| Error::os("read", path, error))?;
        let window = Window { file, path: path.to_owned(), length, usual: WINDOW_BYTES, start: 0, bytes: Vec::new(), asked: 0 };
        Ok(Scan { window, salt, base, at: start, limit: limit.min(length) })
    }

    /// The same for who reads frames here and there, and not one behind the other.
    pub fn scattered(mut self) -> Scan {
        self.window.usual = SCATTERED_BYTES;
        self
    }

    /// The next frame or bad stretch; `None` at the limit or where nothing but zeros follows.
    ///
    /// Errors: `Unsupported` for a sound frame of a newer format.
    pub fn next(&mut self) -> Result<Option<Found>> {
        if self.at >= self.limit {
            return Ok(None);
        }
        let from = self.at;
        let (to, why) = match self.frame(from)? {
            Ok(frame) => {
                self.at = frame.end();
                return Ok(Some(Found::Frame(frame)));
            }
            // Its head is sound, and with it the length by which it is passed over.
            Err((why, Some(end))) => (end, why),
            Err((_, None)) if self.only_zeros(from)? => {
                self.at = self.limit;
                return Ok(None);
            }
            Err((why, None)) => (self.next_head_after(from)?, why),
        };
        self.at = to;
        Ok(Some(Found::Bad { from, to, why }))
    }

    /// The frame that is known to begin at an offset, or what is wrong there. Errors: as [`Scan::next`].
    pub fn frame_at(&mut self, offset: u64) -> Result<std::result::Result<FrameAt, Flaw>> {
        if offset >= self.limit {
            return Ok(Err(Flaw::Torn("the file ends before the frame")));
        }
        Ok(self.frame(offset)?.map_err(|(why, _)| why))
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.window.path
    }

    /// Whether a frame's payload is as its head says. Memory: one window.
    pub fn payload_is_sound(&mut self, frame: &FrameAt) -> Result<bool> {
        self.payload_in_pieces(frame, |_| Ok(()))
    }

    /// Hands a frame's payload on, piece by piece and without its padding; answers whether it is as its
    /// head says. Where the file ends too soon, so do the pieces.
    pub fn payload_in_pieces(&mut self, frame: &FrameAt, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<bool> {
        let mut at = frame.offset + frame.head.payload_start() as u64;
        let end = at + u64::from(frame.head.payload_len);
        let mut crc = crc32fast::Hasher::new();
        while at < end {
            let part = self.window.read(at, (end - at).min(WINDOW_BYTES) as usize)?;
            if part.is_empty() {
                return Ok(false);
            }
            crc.update(part);
            take(part)?;
            at += part.len() as u64;
        }
        let padding = self.window.read(end, (frame.end() - end) as usize)?;
        Ok(padding.len() as u64 == frame.end() - end && padding.iter().all(|&byte| byte == 0) && crc.finalize() == frame.head.payload_check)
    }

    /// A frame's payload, whole, or what the file has of it. The caller knows that it fits into memory.
    pub fn payload(&mut self, frame: &FrameAt) -> Result<Vec<u8>> {
        Ok(self.window.read(frame.offset + frame.head.payload_start() as u64, frame.head.payload_len as usize)?.to_vec())
    }

    /// Whether all bytes from `from` to the limit are zero; ends at the first that is not.
    pub fn only_zeros(&mut self, from: u64) -> Result<bool> {
        let mut at = from;
        while at < self.limit {
            let part = self.window.read(at, (self.limit - at).min(WINDOW_BYTES) as usize)?;
            if part.is_empty() {
                break;
            }
            if !part.chunks(SECTOR_BYTES).all(is_zero) {
                return Ok(false);
            }
            at += part.len() as u64;
        }
        Ok(true)
    }

    /// Where the bytes from `from` on are zero to the limit.
    pub fn last_nonzero(&mut self, from: u64) -> Result<u64> {
        let (mut at, mut last) = (from, from);
        while at < self.limit {
            let part = self.window.read(at, (self.limit - at).min(WINDOW_BYTES) as usize)?;
            if part.is_empty() {
                break;
            }
            if let Some((sector, bytes)) = part.chunks(SECTOR_BYTES).enumerate().rfind(|(_, bytes)| !is_zero(bytes)) {
                let behind = bytes.iter().rposition(|&byte| byte != 0).unwrap_or_default();
                last = at + (sector * SECTOR_BYTES + behind) as u64 + 1;
            }
            at += part.len() as u64;
        }
        Ok(last)
    }

    /// The frame at an offset; else what is wrong there, and where it ends if its head is sound.
    fn frame(&mut self, offset: u64) -> Result<std::result::Result<FrameAt, (Flaw, Option<u64>)>> {
        let room = self.limit - offset;
        let (head, check) = match self.head(offset)? {
            Ok(head) => head,
            Err(why @ Flaw::Unknown(_)) => {
                let message = format!("{why}: this store was written by a newer version");
                return Err(Error::new(ErrorKind::Unsupported, message).with_file(&self.window.path, Some(offset)));
            }
            Err(why) => return Ok(Err((why, None))),
        };
        if head.frame_len() > room {
            return Ok(Err((Flaw::Torn("frame"), None)));
        }
        let bytes = self.window.read(offset, head.payload_start())?;
        Ok(match head.record(bytes) {
            Ok(record) => Ok(FrameAt { offset, head, check, record: record.to_vec() }),
            Err(why) => Err((why, Some(offset + head.frame_len()))),
        })
    }

    fn head(&mut self, offset: u64) -> Result<std::result::Result<(Head, u32), Flaw>> {
        let place = Place { salt: self.salt, position: self.base + offset };
        let room = (self.limit - offset).min(HEAD_BYTES as u64);
        Ok(Head::alone(place, self.window.read(offset, room as usize)?))
    }

    /// Where the next sound head begins, or the limit.
    fn next_head_after(&mut self, from: u64) -> Result<u64> {
        let mut at = from + 8;
        while at + HEAD_BYTES as u64 <= self.limit {
            let part = self.window.rest(at)?;
            match part.chunks_exact(8).position(|eight| eight[..4] == frame::MAGIC) {
                Some(candidate) => {
                    at += candidate as u64 * 8;
                    if at + HEAD_BYTES as u64 <= self.limit && matches!(self.head(at)?, Ok(_) | Err(Flaw::Unknown(_))) {
                        return Ok(at);
                    }
                    at += 8;
                }
                None => at += (part.len() as u64 / 8 * 8).max(8),
            }
        }
        Ok(self.limit)
    }
}

/// Whether at most a sector of bytes is all zero.
fn is_zero(bytes: &[u8]) -> bool {
    static ZEROS: [u8; SECTOR_BYTES] = [0; SECTOR_BYTES];
    bytes == &ZEROS[..bytes.len()]
}

/// A stretch of a file in memory.
struct Window {
    file: Arc<dyn File>,
    path: PathBuf,
    /// The file's length: no more than that is ever made room for.
    length: u64,
    /// How much is read unless more, or less, is asked for.
    usual: u64,
    start: u64,
    bytes: Vec<u8>,
    /// Where what was last asked for ended.
    asked: u64,
}

impl Window {
    /// The bytes at `offset`, fewer only at the end of the file. For whoever reads on a whole window is
    /// filled; who has passed something over may do so again.
    fn read(&mut self, offset: u64, length: usize) -> Result<&[u8]> {
        let end = offset + length as u64;
        let passed = !self.bytes.is_empty() && offset >= self.asked + PASSED_BYTES;
        self.asked = end;
        if offset < self.start || end > self.start + self.bytes.len() as u64 {
            self.fill(offset, (length as u64).max(if passed { AHEAD_BYTES } else { self.usual }) as usize)?;
        }
        let from = ((offset - self.start) as usize).min(self.bytes.len());
        let to = (from + length).min(self.bytes.len());
        Ok(&self.bytes[from..to])
    }

    /// What the window holds from `offset` on; filled anew only where that is less than a head.
    fn rest(&mut self, offset: u64) -> Result<&[u8]> {
        let held = (self.start + self.bytes.len() as u64).saturating_sub(offset);
        let length = if offset >= self.start && held >= HEAD_BYTES as u64 { held } else { WINDOW_BYTES };
        self.read(offset, length as usize)
    }

    fn fill(&mut self, offset: u64, length: usize) -> Result<()> {
        self.bytes.resize(length.min(self.length.saturating_sub(offset) as usize), 0);
        self.start = offset;
        let read = match self.file.read_at(&mut self.bytes, offset) {
            Ok(read) => read,
            Err(_) => self.fill_by_sectors()?,
        };
        self.bytes.truncate(read);
        Ok(())
    }

    /// Reads what can be read; an unreadable sector is filled with bytes that are neither a frame
    /// nor the zeros that end a log.
    fn fill_by_sectors(&mut self) -> Result<usize> {
        let mut done = 0;
        while done < self.bytes.len() {
            let sector = done..(done + SECTOR_BYTES).min(self.bytes.len());
            match self.file.read_at(&mut self.bytes[sector.clone()], self.start + done as u64) {
                Ok(read) if read < sector.len() => return Ok(done + read),
                Ok(_) => {}
                Err(error) if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => self.bytes[sector.clone()].fill(0xff),
                Err(error) => return Err(Error::os("read", &self.path, error)),
            }
            done = sector.end;
        }
        Ok(done)
    }
}
