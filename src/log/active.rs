//! The segment that is appended to: its file, where the next frame goes, how far it is written.
//!
//! A value: whoever holds the turn works on a copy, and what it wrote counts once the follower stands
//! behind it. Behind the end stand zeros, or what an unfinished write left; that is wiped or written
//! over.

use std::io;
use std::sync::Arc;

use super::directory::Directory;
use super::scan::{Found, FrameAt, Scan};
use super::segments::Segment;
use crate::error::{Error, Result, is_disk_full};
use crate::format::frame::{HEAD_BYTES, MAGIC};
use crate::format::manifest::Listed;
use crate::format::names;
use crate::fs::File;
use crate::options::Options;

/// How many zeros are written at a time over what an unfinished write left.
const WIPE_BYTES: u64 = 16 * 1024;

/// The segment that is appended to, as far as this process knows it.
#[derive(Clone, Debug)]
pub(crate) struct Active {
    /// For readers.
    pub segment: Arc<Segment>,
    /// For who writes and syncs.
    pub file: Arc<dyn File>,
    /// The offset at which the next frame goes.
    pub end: u64,
    /// Up to here the file is known to be written, with zeros past the end.
    pub filled: u64,
    /// The size at which it is sealed.
    pub capacity: u64,
    /// The head checksum of the last frame, to which the next one chains; `None` where damage took it.
    pub prev_check: Option<u32>,
}

impl Active {
    /// A listed segment in an open file whose frames end at `end`.
    pub fn new(
        directory: &Directory,
        options: &Options,
        listed: &Listed,
        file: Arc<dyn File>,
        end: u64,
        prev_check: Option<u32>,
    ) -> Result<Active> {
        let path = directory.file(&names::segment(listed.number));
        let filled = file.len().map_err(|error| Error::os("read", &path, error))?;
        let capacity = options.segment_bytes.max(filled);
        let segment = Segment::new(listed, path, file.clone(), options.mmap, capacity)?;
        Ok(Active { segment, file, end, filled, capacity, prev_check })
    }

    /// After a write that met a full disk: makes sure that no whole frame is left behind the end,
    /// which a recovery would take for a put. False if that cannot be had.
    pub fn forget_behind_end(&self) -> bool {
        match self.file.write_at(&[&[0; HEAD_BYTES]], self.end) {
            Ok(()) => true,
            // Where even writing over needs room, none may have been written: then all is well.
            Err(error) if is_disk_full(&error) => {
                let mut bytes = [0; HEAD_BYTES];
                self.file.read_at(&mut bytes, self.end).is_ok() && bytes[..MAGIC.len()] != MAGIC
            }
            Err(_) => false,
        }
    }

    /// The frames from an offset to the end; `None` unless all of them are sound and nothing is between.
    pub fn frames(&self, from: u64) -> Result<Option<Vec<FrameAt>>> {
        let Segment { path, salt, base, .. } = &*self.segment;
        let mut scan = Scan::new(self.file.clone(), path, *salt, *base, from, self.end)?;
        let (mut frames, mut at) = (Vec::new(), from);
        while let Some(found) = scan.next()? {
            match found {
                Found::Frame(frame) if frame.offset == at && scan.payload_is_sound(&frame)? => {
                    at = frame.end();
                    frames.push(frame);
                }
                _ => return Ok(None),
            }
        }
        Ok((at == self.end).then_some(frames))
    }

    /// Writes zeros over what an unfinished write left between the end and a position.
    pub fn wipe(&self, upto: u64) -> io::Result<()> {
        let upto = self.file.len()?.min(upto.saturating_sub(self.segment.base));
        let zeros = [0; WIPE_BYTES as usize];
        let mut at = self.end;
        while at < upto {
            let length = (upto - at).min(WIPE_BYTES);
            self.file.write_at(&[&zeros[..length as usize]], at)?;
            at += length;
        }
        Ok(())
    }

    /// Gives the room behind the end back to the file system. CRASH: a shorter file; the next put makes
    /// room again, as where it finds none.
    pub fn give_up_room(&mut self) -> io::Result<()> {
        self.file.cut(self.end)?;
        self.filled = self.end;
        Ok(())
    }

    /// The position of an offset in it.
    pub fn position(&self, offset: u64) -> u64 {
        self.segment.base + offset
    }

    /// The position at which the log ends.
    pub fn end_position(&self) -> u64 {
        self.position(self.end)
    }
}
