//! The turn: one writer at a time appends at the end of the log.
//!
//! Taking it waits a bounded time; it is held for as long as one write takes. The writer's state is
//! moved out to its holder and back, so there is no way to touch it without the turn. A holder that
//! panics poisons the store: how far it came is unknown.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::directory::Directory;
use super::segments::Segment;
use super::tail::Tail;
use crate::error::{Error, ErrorKind, Result, is_disk_full};
use crate::format::frame::{HEAD_BYTES, MAGIC};
use crate::format::manifest::{Listed, Manifest};
use crate::format::names;
use crate::fs::File;

/// The segment that is appended to.
#[derive(Debug)]
pub(crate) struct Active {
    /// For readers.
    pub segment: Arc<Segment>,
    /// For the writer.
    pub file: Arc<dyn File>,
    /// The offset at which the next frame goes.
    pub end: u64,
    /// Up to here the file is written, with zeros past the end.
    pub filled: u64,
    /// The size at which it is sealed.
    pub capacity: u64,
    /// The head checksum of the last frame, to which the next one chains.
    pub prev_check: u32,
}

impl Active {
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        directory: &Directory,
        mmap: bool,
        listed: &Listed,
        file: Arc<dyn File>,
        end: u64,
        filled: u64,
        capacity: u64,
        prev_check: u32,
    ) -> Result<Active> {
        let path = directory.file(&names::segment(listed.number));
        let segment = Segment::new(listed, path, file.clone(), mmap, capacity)?;
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

    /// The position of an offset in it.
    pub fn position(&self, offset: u64) -> u64 {
        self.segment.base + offset
    }
}

/// What only the holder of the turn may touch.
#[derive(Debug)]
pub(crate) struct Writer {
    pub manifest: Manifest,
    pub active: Active,
    pub next_seq: u64,
}

/// The turn.
#[derive(Debug)]
pub(crate) struct Turn {
    desk: Mutex<Desk>,
    free: Condvar,
}

#[derive(Debug)]
struct Desk {
    /// Gone while someone has the turn.
    writer: Option<Box<Writer>>,
    waiting: usize,
}

impl Turn {
    pub fn new(writer: Writer) -> Turn {
        Turn { desk: Mutex::new(Desk { writer: Some(Box::new(writer)), waiting: 0 }), free: Condvar::new() }
    }

    /// Takes the turn. Waits at most `timeout`, then `Busy`.
    pub fn take<'a>(&'a self, tail: &'a Tail, timeout: Duration) -> Result<Held<'a>> {
        let mut desk = self.desk();
        let mut start = None;
        loop {
            if let Some(writer) = desk.writer.take() {
                return Ok(Held { turn: self, tail, writer: Some(writer), unwinding: std::thread::panicking() });
            }
            let left = timeout.saturating_sub(start.get_or_insert_with(Instant::now).elapsed());
            if left.is_zero() {
                let message = format!("another worker of this process has been writing for {timeout:?}; nothing was written");
                return Err(Error::new(ErrorKind::Busy, message));
            }
            desk.waiting += 1;
            desk = self.free.wait_timeout(desk, left).unwrap_or_else(PoisonError::into_inner).0;
            desk.waiting -= 1;
        }
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The turn while it is held; given back when dropped.
pub(crate) struct Held<'a> {
    turn: &'a Turn,
    tail: &'a Tail,
    /// Gone only while this is dropped.
    writer: Option<Box<Writer>>,
    /// The worker was panicking when it took the turn: a put made while unwinding is like any other.
    unwinding: bool,
}

impl Deref for Held<'_> {
    type Target = Writer;
    fn deref(&self) -> &Writer {
        self.writer.as_ref().unwrap_or_else(|| unreachable!("the writer is there until the drop"))
    }
}

impl DerefMut for Held<'_> {
    fn deref_mut(&mut self) -> &mut Writer {
        self.writer.as_mut().unwrap_or_else(|| unreachable!("the writer is there until the drop"))
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.unwinding {
            self.tail.poison();
        }
        let mut desk = self.turn.desk();
        desk.writer = self.writer.take();
        let waiting = desk.waiting;
        drop(desk);
        if waiting > 0 {
            self.turn.free.notify_one();
        }
    }
}
