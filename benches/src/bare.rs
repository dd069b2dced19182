//! The limit: length, checksum and state appended to one file and flushed, read from a mapping.
//!
//! No names, ids or numbers reach the disk; a vector of places for each thread is the whole index.
//! Durable puts of several workers share a flush in the simplest way: who finds no flush running
//! flushes for all that was appended by then, the others wait.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Error, IoSlice};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use memmap2::Mmap;

use crate::{Durability, Outcome, Place, Room, Worker, touch};

const HEADER_BYTES: usize = 8;
const STEP_BYTES: u64 = 1 << 20;
/// From this size on an append grows the file, as taffrail's do.
const GROWS_FROM_BYTES: usize = 256 << 10;
/// The room made before the clock starts; the log begins anew at its end.
const BEFORE_BYTES: u64 = 64 << 20;

static ZEROS: [u8; STEP_BYTES as usize] = [0; STEP_BYTES as usize];

#[derive(Clone, Copy)]
struct Location {
    offset: u64,
    length: usize,
}

#[derive(Default)]
struct Log {
    end: u64,
    filled: u64,
    appended: u64,
    synced: u64,
    syncing: bool,
    threads: HashMap<String, Vec<Location>>,
}

struct Shared {
    file: File,
    room: Room,
    durability: Durability,
    log: Mutex<Log>,
    flushed: Condvar,
}

#[derive(Clone)]
pub struct Bare(Arc<Shared>);

impl Bare {
    pub fn open(dir: &Path, room: Room, durability: Durability) -> Outcome<Self> {
        let file = File::options().read(true).write(true).create(true).truncate(true).open(dir.join("bare.log"))?;
        let mut log = Log::default();
        if room == Room::Before {
            while log.filled < BEFORE_BYTES {
                write_all(&file, &ZEROS, &[], log.filled)?;
                log.filled += STEP_BYTES;
            }
        }
        file.sync_all()?;
        File::open(dir)?.sync_all()?;
        Ok(Bare(Arc::new(Shared { file, room, durability, log: Mutex::new(log), flushed: Condvar::new() })))
    }
}

impl Place for Bare {
    fn worker(&self) -> Outcome<Box<dyn Worker>> {
        Ok(Box::new(User { shared: self.0.clone(), map: None }))
    }
}

fn write_all(file: &File, head: &[u8], body: &[u8], offset: u64) -> Outcome<()> {
    let written = rustix::io::pwritev(file, &[IoSlice::new(head), IoSlice::new(body)], offset)?;
    if written != head.len() + body.len() { Err(Error::other("a short write").into()) } else { Ok(()) }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn make_room(&self, log: &mut Log, bytes: usize) -> Outcome<()> {
        if self.room == Room::Before && log.end + bytes as u64 > log.filled {
            log.end = 0;
        }
        if self.room == Room::Steps && bytes < GROWS_FROM_BYTES {
            while log.end + bytes as u64 > log.filled {
                let start = log.filled.max(log.end);
                write_all(&self.file, &ZEROS, &[], start)?;
                log.filled = start + STEP_BYTES;
            }
        }
        Ok(())
    }

    /// Appends, and answers the count of bytes that must be flushed for it to be durable.
    fn append(&self, thread: &str, state: &[u8]) -> Outcome<u64> {
        let mut head = [0; HEADER_BYTES];
        head[..4].copy_from_slice(&u32::try_from(state.len())?.to_le_bytes());
        head[4..].copy_from_slice(&crc32fast::hash(state).to_le_bytes());
        let bytes = (HEADER_BYTES + state.len()).next_multiple_of(8);
        let mut log = self.lock();
        self.make_room(&mut log, bytes)?;
        let offset = log.end;
        write_all(&self.file, &head, state, offset)?;
        log.end += bytes as u64;
        log.appended += bytes as u64;
        let location = Location { offset, length: state.len() };
        match log.threads.get_mut(thread) {
            Some(locations) => locations.push(location),
            None => drop(log.threads.insert(thread.to_owned(), vec![location])),
        }
        Ok(log.appended)
    }

    fn flush(&self, end: u64) -> Outcome<()> {
        let mut log = self.lock();
        while log.synced < end {
            if log.syncing {
                log = self.flushed.wait(log).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            log.syncing = true;
            let appended = log.appended;
            drop(log);
            self.file.sync_data()?;
            log = self.lock();
            log.synced = appended;
            log.syncing = false;
            self.flushed.notify_all();
        }
        Ok(())
    }
}

struct User {
    shared: Arc<Shared>,
    map: Option<Mmap>,
}

impl User {
    fn read(&mut self, location: Location) -> Outcome<u64> {
        let start = usize::try_from(location.offset)?;
        let end = start + HEADER_BYTES + location.length;
        if self.map.as_ref().is_none_or(|map| map.len() < end) {
            // SAFETY: the file is the bench's own and is never cut short.
            self.map = Some(unsafe { Mmap::map(&self.shared.file)? });
        }
        let Some(record) = self.map.as_ref().and_then(|map| map.get(start..end)) else {
            return Err(Error::other("a state beyond the end").into());
        };
        let (head, state) = record.split_at(HEADER_BYTES);
        if head[4..] != crc32fast::hash(state).to_le_bytes() {
            return Err(Error::other("not the bytes as put").into());
        }
        Ok(touch(state))
    }
}

impl Worker for User {
    fn put(&mut self, thread: &str, state: &[u8]) -> Outcome<()> {
        let end = self.shared.append(thread, state)?;
        if self.shared.durability == Durability::Sync { self.shared.flush(end) } else { Ok(()) }
    }

    fn get(&mut self, thread: &str) -> Outcome<u64> {
        let newest = self.shared.lock().threads.get(thread).and_then(|locations| locations.last().copied());
        newest.map_or(Ok(0), |location| self.read(location))
    }

    fn history(&mut self, thread: &str, limit: usize) -> Outcome<u64> {
        let newest: Vec<Location> =
            self.shared.lock().threads.get(thread).map_or_else(Vec::new, |locations| locations.iter().rev().take(limit).copied().collect());
        let mut sum = 0;
        for location in newest {
            sum += self.read(location)?;
        }
        Ok(sum)
    }
}
