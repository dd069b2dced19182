//! A segment that is written from beginning to end before anyone counts on it: what a compaction
//! keeps, a backup, what a repair brings back.
//!
//! Frames are encoded for their new place. A copied one's record, payload and number stay as they are,
//! a payload that is damaged too: its checksum goes with it, so it is not believed here either; others
//! are put as the caller says. Written in small pieces, each synced, so that whoever syncs beside it
//! never waits for more than one.

use std::path::Path;
use std::sync::Arc;

use super::directory::Directory;
use super::hints;
use super::scan::{FrameAt, Scan};
use crate::error::{Error, ErrorKind, Result};
use crate::format::frame::{self, Head, Place, padding};
use crate::format::hint::{Builder, Standing};
use crate::format::manifest::Listed;
use crate::format::names;
use crate::format::record::Record;
use crate::format::segment::{HEADER_BYTES, Header, Kind};
use crate::fs::File;
use crate::plant::planted;

/// So much is written and synced at a time.
const PIECE_BYTES: usize = 64 * 1024;

/// A segment being written under its working name; removed again unless it is finished.
pub(crate) struct Output<'a> {
    directory: &'a Directory,
    file: Arc<dyn File>,
    header: Header,
    prev_check: u32,
    /// Not written yet.
    buffer: Vec<u8>,
    written: u64,
    /// Where the frame being added is to end.
    frame_end: u64,
    hint: Builder,
    /// Called behind each synced piece with its length; an error ends the writing.
    pace: &'a dyn Fn(u64) -> Result<()>,
    finished: bool,
}

impl<'a> Output<'a> {
    /// Begins a segment. Errors: `DiskFull`, `Io`, with nothing left behind, here as further on.
    pub fn create(directory: &'a Directory, header: Header, pace: &'a dyn Fn(u64) -> Result<()>) -> Result<Output<'a>> {
        let file = directory.create_file(&names::segment_new(header.number))?;
        let (bytes, prev_check) = header.encode();
        let frame_end = u64::from(header.first_frame);
        let (buffer, hint) = (bytes.to_vec(), Builder::default());
        Ok(Output { directory, file, header, prev_check, buffer, written: 0, frame_end, hint, pace, finished: false })
    }

    /// How long it is so far.
    pub fn len(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Adds a frame as it stands elsewhere; answers whether its payload is sound.
    pub fn copy(&mut self, frame: &FrameAt, scan: &mut Scan) -> Result<bool> {
        self.copy_with(&frame.record, frame, scan)
    }

    /// The same with another record, which speaks of the same payload.
    pub fn copy_as(&mut self, record: &Record<'_>, frame: &FrameAt, scan: &mut Scan) -> Result<bool> {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        self.copy_with(&bytes, frame, scan)
    }

    fn copy_with(&mut self, record: &[u8], frame: &FrameAt, scan: &mut Scan) -> Result<bool> {
        self.begin(frame.head.seq, record, frame.head.payload_len, frame.head.payload_check)?;
        let sound = scan.payload_in_pieces(frame, |piece| self.payload(piece))?;
        self.end_frame()?;
        Ok(sound)
    }

    /// Adds a record with the payload that it speaks of.
    pub fn put(&mut self, seq: u64, record: &Record<'_>, payload: &[u8]) -> Result<()> {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        self.begin(seq, &bytes, payload.len() as u32, frame::payload_check(payload))?;
        self.payload(payload)?;
        self.end_frame()
    }

    /// Adds a record without a payload.
    pub fn mark(&mut self, seq: u64, record: &Record<'_>) -> Result<()> {
        self.put(seq, record, &[])
    }

    fn begin(&mut self, seq: u64, record: &[u8], payload_len: u32, payload_check: u32) -> Result<()> {
        let offset = self.len();
        let counted_from = match self.header.kind {
            Kind::Log { base } => base,
            Kind::Compacted { .. } => 0,
        };
        let head = Head {
            more: false,
            record_len: record.len() as u32,
            payload_len,
            seq,
            synced_end: 0,
            prev_check: self.prev_check,
            payload_check,
        };
        let (bytes, check) = head.encode(Place { salt: self.header.salt, position: counted_from + offset }, record);
        self.prev_check = check;
        self.frame_end = offset + head.frame_len();
        for part in [&bytes[..], record, padding(record.len())] {
            self.buffer.extend_from_slice(part);
        }
        let record = Record::decode(record).map_err(|flaw| Error::new(ErrorKind::Corrupt, flaw.to_string()).with_source(flaw))?;
        self.hint.push(&record, Standing { offset, length: head.frame_len(), check, seq });
        Ok(())
    }

    fn payload(&mut self, mut bytes: &[u8]) -> Result<()> {
        while self.buffer.len() + bytes.len() >= PIECE_BYTES {
            let (now, later) = bytes.split_at(PIECE_BYTES.saturating_sub(self.buffer.len()));
            self.buffer.extend_from_slice(now);
            self.write()?;
            bytes = later;
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    /// Fills the frame up to its length; also where its payload could not be read to its end.
    fn end_frame(&mut self) -> Result<()> {
        while self.len() < self.frame_end {
            let missing = (self.frame_end - self.len()).min(PIECE_BYTES as u64);
            self.buffer.resize(self.buffer.len() + missing as usize, 0);
            self.payload(&[])?;
        }
        self.payload(&[])
    }

    fn write(&mut self) -> Result<()> {
        let failed = |error| Error::os("write", &self.directory.file(&names::segment_new(self.header.number)), error);
        self.file.write_at(&[&self.buffer], self.written).map_err(failed)?;
        if !planted!("copy-not-synced") {
            self.file.sync().map_err(failed)?;
        }
        let length = self.buffer.len() as u64;
        self.written += length;
        self.buffer.clear();
        (self.pace)(length)
    }

    /// Ends the segment, whole and synced, still under its working name, and lists it as sealed with
    /// its byte 0 at `base`. Its hint is there too, if that could be had.
    ///
    /// CRASH: under a working name that no manifest lists it is removed by the next first opener, or
    /// the next compaction.
    pub fn finish(mut self, base: u64) -> Result<Listed> {
        self.write()?;
        self.finished = true;
        if let Some(hint) = self.hint.encode(self.header.store, self.header.number, self.header.salt) {
            // Nothing is lost without it.
            let _ = hints::install(self.directory, self.header.number, &hint);
        }
        let Header { number, salt, first_frame, kind, .. } = self.header;
        Ok(Listed { number, salt, base, end: self.written, first_frame, compacted: matches!(kind, Kind::Compacted { .. }) })
    }
}

/// A header for a new segment.
pub(crate) fn header(store: [u8; 16], number: u64, salt: u64, kind: Kind) -> Header {
    Header { store, number, salt, kind, first_frame: HEADER_BYTES as u32 }
}

/// The answer where bytes that were read twice differed: nobody can say what they are.
pub(crate) fn unsteady(path: &Path, offset: u64) -> Error {
    Error::new(ErrorKind::Corrupt, "damaged record: it reads now one way and now another").with_file(path, Some(offset))
}

impl Drop for Output<'_> {
    fn drop(&mut self) {
        if !self.finished {
            // What failed before is what is told; a leftover is removed later.
            let _ = self.directory.remove(&names::segment_new(self.header.number));
        }
    }
}
