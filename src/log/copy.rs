//! A new store written from frames that stand elsewhere: what some threads show, and no more.
//!
//! Records, payloads and numbers stay byte for byte as they are, in their order; each frame is read
//! with system calls and checked whole before it is written. What the log says of a thread beside
//! its checkpoints (its limit, a floor that no copied record tells) follows behind them. Knows no
//! lock and no manifest but the one it makes: whoever calls says where frames stand.

use std::sync::Arc;

use super::destination::Destination;
use super::fresh;
use super::install::install;
use super::location::Location;
use super::output::{self, Output};
use super::read::is_meant;
use super::recovery::finish_renames;
use super::scan::Scan;
use super::tail::{Start, Tail};
use super::view::{Entry, View};
use crate::error::{Error, ErrorKind, Result};
use crate::format::Flaw;
use crate::format::frame;
use crate::format::manifest::Manifest;
use crate::format::record::Record;
use crate::format::segment::Kind;
use crate::options::Options;

/// So many source files are held open, each with a window of its bytes.
const SCANS_MAX: usize = 8;

/// Where frames come from. A location's segment is a number that only the source understands.
pub(crate) trait Source {
    /// Where a frame stands in the order in which frames are written.
    fn order(&self, at: Location) -> u64;
    /// Opens the file that holds a location.
    fn open(&self, segment: u32) -> Result<Scan>;
    /// Hears of a frame that is not as it should be; an error ends the copying, else it is left out.
    fn damaged(&mut self, scan: &Scan, view: &View, entry: &Entry, why: Flaw) -> Result<()>;
}

/// What the new store is to be.
pub(crate) struct Whole<'a> {
    /// The threads at one moment.
    pub views: &'a [Arc<View>],
    /// How many checkpoints a thread keeps; 0 for all.
    pub max_history: u64,
    /// A number above all that were ever given.
    pub next_seq: u64,
}

/// A frame to be copied: its place in the order, and which entry of which view it is.
struct Wanted {
    order: u64,
    view: u32,
    entry: u32,
}

/// What has come of a thread.
#[derive(Clone, Copy, Default)]
struct Copied {
    checkpoints: u64,
    /// The highest floor that a copied record tells.
    floor: u64,
}

/// Writes the store, whole and synced. Memory: 16 bytes a checkpoint, and windows of the files.
///
/// Errors: what the source says of damage; `DiskFull`, `Io`, with nothing at the destination that
/// counts.
pub(crate) fn write(destination: &Destination, options: &Options, whole: &Whole<'_>, source: &mut dyn Source) -> Result<()> {
    let mut wanted = Vec::new();
    for (view_at, view) in (0..).zip(whole.views) {
        wanted.extend((0..).zip(view.entries()).map(|(entry, at)| Wanted { order: source.order(at.at), view: view_at, entry }));
    }
    wanted.sort_unstable_by_key(|wanted| wanted.order);
    let mut segments = Segments::new(destination, options, whole);
    let mut scans = Scans::default();
    let mut copied = vec![Copied::default(); whole.views.len()];
    let mut left_out = None;
    for Wanted { view: view_at, entry, .. } in wanted {
        let view = &whole.views[view_at as usize];
        let Some(entry) = view.entry(entry as usize) else { continue };
        let scan = scans.of(entry.at.segment, |segment| source.open(segment))?;
        match copy(&mut segments, scan, view, entry)? {
            Ok(floor) => {
                let copied = &mut copied[view_at as usize];
                copied.checkpoints += 1;
                copied.floor = copied.floor.max(floor);
            }
            Err(why) => {
                source.damaged(scan, view, entry, why)?;
                left_out = Some((scan.path().to_owned(), entry.at.offset()));
            }
        }
    }
    if let (Some((path, offset)), true) = (left_out, copied.iter().all(|copied| copied.checkpoints == 0)) {
        return Err(Error::new(ErrorKind::Corrupt, "not one checkpoint can be read whole").with_file(&path, Some(offset)));
    }
    for (view, copied) in whole.views.iter().zip(&copied).filter(|(_, copied)| copied.checkpoints > 0) {
        let thread = view.thread();
        if let Some(keep) = view.keep() {
            segments.mark(&Record::Keep { thread, keep })?;
        }
        if view.floor() > copied.floor {
            segments.mark(&Record::Trim { thread, floor: view.floor() })?;
        }
    }
    segments.install(options)
}

/// Copies the frame of an entry, and answers the floor that its record tells; or what is wrong with it.
fn copy(segments: &mut Segments<'_>, scan: &mut Scan, view: &View, entry: &Entry) -> Result<std::result::Result<u64, Flaw>> {
    let frame = match scan.frame_at(entry.at.offset())? {
        Ok(frame) => frame,
        Err(why) => return Ok(Err(why)),
    };
    let floor = match Record::decode(&frame.record) {
        Ok(Record::Put(put)) if is_meant(&put, view, entry) => put.floor,
        Ok(_) => return Ok(Err(Flaw::Corrupt("another record stands in its place"))),
        Err(why) => return Ok(Err(why)),
    };
    if !scan.payload_is_sound(&frame)? {
        return Ok(Err(Flaw::Corrupt("payload checksum")));
    }
    let sound = segments.with_room_for(frame.head.frame_len())?.copy(&frame, scan)?;
    // Sound a moment ago: the medium answers now this and now that, and what was written is not it.
    if !sound {
        return Err(output::unsteady(scan.path(), frame.offset).with_thread(view.thread()));
    }
    Ok(Ok(floor))
}

/// Source files that are open, the one used last first.
#[derive(Default)]
pub(crate) struct Scans(Vec<(u32, Scan)>);

impl Scans {
    /// The one of a file.
    pub fn of(&mut self, segment: u32, open: impl FnOnce(u32) -> Result<Scan>) -> Result<&mut Scan> {
        let found = match self.0.iter().position(|(number, _)| *number == segment) {
            Some(at) => self.0.remove(at),
            None => {
                self.0.truncate(SCANS_MAX - 1);
                (segment, open(segment)?)
            }
        };
        self.0.insert(0, found);
        Ok(&mut self.0[0].1)
    }
}

/// The new store's segments, written one after the other.
struct Segments<'a> {
    destination: &'a Destination,
    segment_bytes: u64,
    output: Option<Output<'a>>,
    manifest: Manifest,
    /// The position of the next segment's byte 0.
    base: u64,
    next_seq: u64,
}

impl<'a> Segments<'a> {
    fn new(destination: &'a Destination, options: &Options, whole: &Whole<'_>) -> Segments<'a> {
        let manifest = Manifest::new(destination.directory.fs.random(), whole.max_history);
        let segment_bytes = options.segment_bytes;
        Segments { destination, segment_bytes, output: None, manifest, base: 0, next_seq: whole.next_seq }
    }

    /// The segment to write a frame of that length to.
    fn with_room_for(&mut self, length: u64) -> Result<&mut Output<'a>> {
        let output = match self.output.take() {
            Some(output) if output.len() + length <= self.segment_bytes => output,
            full => {
                self.seal(full)?;
                let directory = &self.destination.directory;
                let (number, salt) = (self.manifest.next_number, fresh::salt(&*directory.fs));
                self.manifest.next_number += 1;
                let header = output::header(self.manifest.store, number, salt, Kind::Log { base: self.base });
                Output::create(directory, header, &|_| Ok(()))?
            }
        };
        Ok(self.output.insert(output))
    }

    fn seal(&mut self, output: Option<Output<'_>>) -> Result<()> {
        if let Some(output) = output {
            let listed = output.finish(self.base)?;
            self.base += listed.end;
            self.manifest.segments.push(listed);
        }
        Ok(())
    }

    /// Writes a record without a payload under a number of its own.
    fn mark(&mut self, record: &Record<'_>) -> Result<()> {
        let seq = self.next_seq;
        self.next_seq += 1;
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        self.with_room_for(frame::frame_len(bytes.len(), 0))?.mark(seq, record)
    }

    /// Makes a store of it.
    fn install(mut self, options: &Options) -> Result<()> {
        let directory = &self.destination.directory;
        let last = self.output.take();
        self.seal(last)?;
        let Segments { mut manifest, base, next_seq, .. } = self;
        manifest.seq_floor = next_seq;
        let tail = Tail::make(directory)?;
        tail.set_next_number(manifest.next_number);
        let active = fresh::empty(directory, options, &tail, &mut manifest, base)?;
        // CRASH: until the manifest is installed there are working names, an empty segment and a page
        // that names no store: no store, and the next copy to this place begins again.
        install(directory, &tail, &mut manifest)?;
        let start = Start { manifest: &manifest, end: active.end_position(), next_seq, write_lock: 0 };
        tail.begin(directory.fs.boot(), start);
        // CRASH: listed under their working names; the next opener renames them (step 4).
        finish_renames(directory, &manifest, &directory.contents()?)
    }
}
