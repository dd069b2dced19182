//! A copy of the store as it is at one moment, made while others go on with it.
//!
//! The moment is the one at which the index is looked at. What it leads to stays where it is: frames
//! are never written over, and who replaces segments is kept out by its lock; a read-only handle,
//! which takes no lock, begins again where a segment was replaced under it.

use std::cell::Cell;
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::chains::{Unread, Why};
use super::copy::{self, Shown, Source, Whole};
use super::destination::Destination;
use super::directory::Directory;
use super::fresh::jump_above;
use super::house::RightToCompact;
use super::location::Location;
use super::scan::Scan;
use super::view::View;
use super::{Shared, Store};
use crate::error::{Error, ErrorKind, Result};
use crate::format::manifest::Manifest;
use crate::format::names;

/// So often a handle that cannot keep compaction out begins again.
const TRIES: usize = 16;

const MISSING: &str = "a segment that the copy needs is missing: put the file back, or salvage the rest with `repair`";

impl Store {
    /// Writes what the store shows at one moment into a new store in `dest`, while others go on with
    /// this one. Whole or nothing: `dest` holds no store until all of it is synced.
    ///
    /// `dest` is made, with the parents it lacks; it may be there if it is empty, or was left by a
    /// backup that was interrupted. Ids, order, times, metadata, states and limits are kept; the copy is
    /// a store of its own. A writing handle first syncs what was put; at a read-only one a step may
    /// be among it that is not synced yet. Cost: all that is shown is read, checked and written.
    ///
    /// Errors: `InvalidInput` for a `dest` that holds something, or lies in the store's directory;
    /// `Corrupt`, naming thread, file and offset, where something shown is damaged (see
    /// [`Store::repair`]); `Busy` while a compaction goes on, or where one
    /// replaces segments faster than a read-only handle can read them; `Poisoned`, `ReadOnly`, `DiskFull`, `Io`.
    pub fn backup(&self, dest: impl AsRef<Path>) -> Result<()> {
        self.shared.at_home()?;
        self.shared.backup(dest.as_ref())
    }
}

/// The store at one moment.
struct Picture {
    views: Vec<Arc<View>>,
    manifest: Arc<Manifest>,
    /// A number above all that were given by then.
    next_seq: u64,
}

impl Shared {
    fn backup(&self, dest: &Path) -> Result<()> {
        self.is_readable()?;
        let destination = Destination::take(&self.directory, dest, &self.options)?;
        let _kept_out = self.keep_replacing_out()?;
        for _ in 0..TRIES {
            let Picture { views, manifest, next_seq } = self.picture()?;
            let live = Live::new(&self.directory, &manifest);
            let whole = Whole { views: &views, max_history: manifest.max_history, next_seq };
            match copy::write(&destination, &self.options, &whole, &live) {
                Err(_) if live.gone.get() && self.directory.manifest()?.generation > manifest.generation => {
                    destination.empty()?;
                    self.follower.reading().renew(self)?;
                }
                Err(error) => return Err(error),
                Ok(()) => {
                    destination.finish();
                    return Ok(());
                }
            }
        }
        let message = "segments were replaced faster than they could be read: back up with a handle that writes, which keeps that out";
        Err(Error::new(ErrorKind::Busy, message).with_file(&self.directory.path, None))
    }

    /// Errors: `Corrupt` where a segment cannot be read, so that a copy would not be whole.
    fn is_readable(&self) -> Result<()> {
        let gaps = self.gaps.load();
        let Some(path) = &gaps.unreadable else { return Ok(()) };
        let message = "a segment cannot be read, so a copy would not be whole: see verify, and repair for what can be read";
        Err(Error::new(ErrorKind::Corrupt, message).with_file(path, None))
    }

    /// All threads at one moment, with what was put before it synced if this handle may do that.
    fn picture(&self) -> Result<Picture> {
        let writes = self.turn.is_some();
        if writes {
            self.sync()?;
        }
        let look = || {
            self.refresh()?;
            let reading = self.follower.reading();
            Ok((self.index.moment().views, reading.manifest.clone(), reading.last_seq))
        };
        let ((views, manifest, last_seq), _) = self.at_one_moment(look)?;
        let by_log = manifest.seq_floor.max(last_seq + 1);
        // Nothing vouches for the page.
        let given = self.tail.next_seq().clamp(by_log, jump_above(by_log));
        // Who only reads may not know of all that were given since.
        let next_seq = if writes { given } else { jump_above(given) };
        Ok(Picture { views, manifest, next_seq })
    }

    /// Keeps out who compacts, for as long as the answer lives. Nothing for a read-only handle. Errors:
    /// `Busy`.
    fn keep_replacing_out(&self) -> Result<Option<RightToCompact<'_>>> {
        if self.turn.is_some() { self.right_to_compact().map(Some) } else { Ok(None) }
    }
}

/// The segments of a moment.
pub(super) struct Live<'a> {
    directory: &'a Directory,
    manifest: &'a Manifest,
    /// Where each stands in the log.
    order: HashMap<u32, u32>,
    /// Whether one of them was not there any more.
    pub gone: Cell<bool>,
}

impl<'a> Live<'a> {
    pub fn new(directory: &'a Directory, manifest: &'a Manifest) -> Live<'a> {
        let order = (0..).zip(&manifest.segments).map(|(at, listed)| (listed.number as u32, at)).collect();
        Live { directory, manifest, order, gone: Cell::new(false) }
    }

    fn missing(&self, segment: u32) -> Error {
        self.gone.set(true);
        let path = self.directory.file(&names::segment(u64::from(segment)));
        Error::new(ErrorKind::Corrupt, MISSING).with_file(&path, None)
    }
}

impl Source for Live<'_> {
    fn order(&self, at: Location) -> u64 {
        let segment = self.order.get(&at.segment).copied().unwrap_or(u32::MAX);
        u64::from(segment) << 32 | u64::from(at.offset8)
    }

    fn open(&self, segment: u32) -> Result<Scan> {
        let listed = self.order.get(&segment).map(|&at| &self.manifest.segments[at as usize]);
        let Some(listed) = listed else { return Err(self.missing(segment)) };
        let path = self.directory.file(&names::segment(listed.number));
        match self.directory.open_log(listed.number, false) {
            Ok(file) => Scan::new(file, &path, listed.salt, listed.counted_from(), u64::from(listed.first_frame), u64::MAX),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(self.missing(segment)),
            Err(error) => Err(Error::os("open", &path, error)),
        }
    }

    fn damaged(&self, view: &View, _: &Shown<'_>, unread: &Unread) -> Result<()> {
        let Unread { path, offset, why } = unread;
        let message = match why {
            _ if self.gone.get() => MISSING.to_owned(),
            Why::Damaged(flaw) => format!("damaged record: {flaw}; a copy would not be whole: repair salvages what can be read"),
            why => format!("{why}; a copy would not be whole: repair salvages what can be read"),
        };
        let error = Error::new(ErrorKind::Corrupt, message).with_file(path, Some(*offset)).with_thread(view.thread());
        Err(match why {
            Why::Damaged(flaw) | Why::Needs(flaw) => error.with_source(*flaw),
            Why::Lost(_) => error,
        })
    }
}
