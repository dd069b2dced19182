//! A new store written from frames that stand elsewhere: what some threads show, and no more.
//!
//! Records, payloads and numbers stay byte for byte as they are, in their order; each frame is read
//! with system calls and checked whole before it is written. Only a delta whose base is not among what is
//! copied is written whole. What the log says of a thread beside its checkpoints (its limit, a floor that
//! no copied record tells) follows behind them. Knows no lock and no manifest but the one it makes:
//! whoever calls says where frames stand.

use std::sync::Arc;

use super::attached::Attached;
use super::chains::{self, Chains, Unread, Why};
use super::destination::Destination;
use super::encode::Form;
use super::fresh;
use super::ids::IdKey;
use super::install::install;
use super::location::Location;
use super::output::{self, Output};
use super::read::{self, is_meant};
use super::recovery::finish_renames;
use super::scan::Scan;
use super::tail::{Start, Tail};
use super::view::{Entry, View};
use crate::error::{Error, ErrorKind, Result};
use crate::format::frame;
use crate::format::manifest::Manifest;
use crate::format::record::{Attach, Coding, Difference, Followed, Put, Record};
use crate::format::segment::Kind;
use crate::options::{Compression, Options};

/// So many source files are held open, each with a window of its bytes.
const SCANS_MAX: usize = 8;

/// Where frames come from. A location's segment is a number that only the source understands.
pub(crate) trait Source {
    /// Where a frame stands in the order in which frames are written.
    fn order(&self, at: Location) -> u64;
    /// Opens the file that holds a location.
    fn open(&self, segment: u32) -> Result<Scan>;
    /// Hears of what cannot be read; an error ends the copying, else it is left out.
    fn damaged(&self, view: &View, shown: &Shown<'_>, unread: &Unread) -> Result<()>;
}

/// Something that a thread shows.
pub(crate) enum Shown<'a> {
    /// A checkpoint.
    Checkpoint(&'a Entry),
    /// A value attached to one.
    Attached(&'a Attached),
}

impl Shown<'_> {
    /// The checkpoint's id.
    pub fn id(&self) -> &IdKey {
        match self {
            Shown::Checkpoint(entry) => &entry.id,
            Shown::Attached(one) => &one.id,
        }
    }

    /// Its frame.
    pub fn at(&self) -> Location {
        match self {
            Shown::Checkpoint(entry) => entry.at,
            Shown::Attached(one) => one.at,
        }
    }
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

/// A frame to be copied: its place in the order, and what of which view it is.
struct Wanted {
    order: u64,
    view: u32,
    what: What,
}

/// Which of a view's checkpoints, or of what is attached in it.
#[derive(Clone, Copy)]
enum What {
    Checkpoint(u32),
    Attached(u32),
}

/// What has come of a thread.
#[derive(Clone, Copy, Default)]
struct Copied {
    checkpoints: u64,
    attachments: u64,
    /// The highest floor that a copied record tells.
    floor: u64,
}

/// What can be read of a thread, as far as that was looked at before anything was written.
#[derive(Default)]
struct Judged {
    /// Whether it was: it is where any checkpoint is a delta.
    has_deltas: bool,
    /// The places of the checkpoints that cannot be read, in order.
    unread: Vec<(u64, Unread)>,
}

impl Judged {
    fn of(view: &View, chains: &mut Chains<'_>) -> Result<Judged> {
        let mut judged = Judged { has_deltas: view.entries().any(Entry::is_delta), unread: Vec::new() };
        if judged.has_deltas {
            chains.judge(view, &mut |entry, unread| judged.unread.push((entry.place, unread)))?;
        }
        Ok(judged)
    }

    fn unread(&self, place: u64) -> Option<&Unread> {
        self.unread.binary_search_by_key(&place, |(place, _)| *place).ok().map(|found| &self.unread[found].1)
    }

    /// Whether what a delta is a difference from is copied, so that it may stay one.
    fn has_base(&self, view: &View, difference: &Difference) -> bool {
        !view.hides(difference.base) && view.at_place(difference.base).is_some() && self.unread(difference.base).is_none()
    }
}

/// Writes the store, whole and synced. Memory: 24 bytes a checkpoint, 32 an attachment, windows of the files, and one chain.
///
/// Errors: what the source says of damage; `DiskFull`, `Io`, with nothing at the destination that
/// counts.
pub(crate) fn write(destination: &Destination, options: &Options, whole: &Whole<'_>, source: &dyn Source) -> Result<()> {
    let mut wanted = Vec::new();
    let attached: Vec<Vec<&Attached>> =
        whole.views.iter().map(|view| view.attached().iter().filter(|one| view.shows(one)).collect()).collect();
    for (view, (shown, attached)) in (0..).zip(whole.views.iter().zip(&attached)) {
        let of = |at: Location, what| Wanted { order: source.order(at), view, what };
        wanted.extend((0..).zip(shown.entries()).map(|(number, entry)| of(entry.at, What::Checkpoint(number))));
        wanted.extend((0..).zip(attached).map(|(number, one)| of(one.at, What::Attached(number))));
    }
    wanted.sort_unstable_by_key(|wanted| wanted.order);
    let open = |segment| source.open(segment);
    let mut chains = Chains::new(&open, true);
    let judged = whole.views.iter().map(|view| Judged::of(view, &mut chains)).collect::<Result<Vec<_>>>()?;
    let mut writing = Writing { segments: Segments::new(destination, options, whole), chains, compression: options.compression };
    let mut scans = Scans::default();
    let mut copied = vec![Copied::default(); whole.views.len()];
    let mut left_out = None;
    for Wanted { view: view_at, what, .. } in wanted {
        let (view, judged) = (&whole.views[view_at as usize], &judged[view_at as usize]);
        let entry = match what {
            What::Checkpoint(number) => view.entry(number as usize),
            What::Attached(number) => {
                let one = attached[view_at as usize][number as usize];
                match writing.attachment(scans.of(one.at.segment, open)?, view, one)? {
                    Ok(()) => copied[view_at as usize].attachments += 1,
                    Err(unread) => {
                        source.damaged(view, &Shown::Attached(one), &unread)?;
                        left_out = Some((unread.path, unread.offset));
                    }
                }
                None
            }
        };
        let Some(entry) = entry else { continue };
        let written = match judged.unread(entry.place) {
            Some(unread) => Err(unread.clone()),
            None => {
                let scan = scans.of(entry.at.segment, open)?;
                let written = writing.checkpoint(scan, view, entry, judged)?;
                // Sound when it was judged, and others may have been written that need it.
                if written.is_err() && judged.has_deltas {
                    return Err(output::unsteady(scan.path(), entry.at.offset()).with_thread(view.thread()));
                }
                written
            }
        };
        match written {
            Ok(floor) => {
                let copied = &mut copied[view_at as usize];
                copied.checkpoints += 1;
                copied.floor = copied.floor.max(floor);
            }
            Err(unread) => {
                source.damaged(view, &Shown::Checkpoint(entry), &unread)?;
                left_out = Some((unread.path, unread.offset));
            }
        }
    }
    let is_nothing = |copied: &Copied| copied.checkpoints + copied.attachments == 0;
    if let (Some((path, offset)), true) = (left_out, copied.iter().all(is_nothing)) {
        return Err(Error::new(ErrorKind::Corrupt, "not one checkpoint can be read whole").with_file(&path, Some(offset)));
    }
    let Writing { mut segments, .. } = writing;
    for (view, copied) in whole.views.iter().zip(&copied).filter(|(_, copied)| !is_nothing(copied)) {
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

/// What checkpoints are written with.
struct Writing<'a> {
    segments: Segments<'a>,
    chains: Chains<'a>,
    compression: Compression,
}

impl Writing<'_> {
    /// Writes a checkpoint, and answers the floor that its record tells; or why it cannot be read.
    fn checkpoint(&mut self, scan: &mut Scan, view: &View, entry: &Entry, judged: &Judged) -> Result<std::result::Result<u64, Unread>> {
        let damaged =
            |scan: &Scan, why| Ok(Err(Unread { path: scan.path().to_owned(), offset: entry.at.offset(), why: Why::Damaged(why) }));
        let frame = match scan.frame_at(entry.at.offset())? {
            Ok(frame) => frame,
            Err(why) => return damaged(scan, why),
        };
        let record = match Record::decode(&frame.record) {
            Ok(record) => record,
            Err(why) => return damaged(scan, why),
        };
        let Some(put) = record.put().filter(|put| is_meant(put, view, entry)) else { return damaged(scan, read::MISPLACED) };
        match put.coding {
            Coding::Delta(difference) if !judged.has_base(view, &difference) => return self.whole(frame.head.seq, put, view, entry),
            _ => {}
        }
        if let Err(why) = chains::soundness(scan, &frame, put)? {
            return damaged(scan, why);
        }
        let sound = self.segments.with_room_for(frame.head.frame_len())?.copy(&frame, scan)?;
        // Sound a moment ago: the medium answers now this and now that, and what was written is not it.
        if !sound {
            return Err(output::unsteady(scan.path(), frame.offset).with_thread(view.thread()));
        }
        Ok(Ok(put.floor))
    }

    /// Writes an attachment; or why it cannot be read.
    fn attachment(&mut self, scan: &mut Scan, view: &View, one: &Attached) -> Result<std::result::Result<(), Unread>> {
        let damaged = |scan: &Scan, why| Ok(Err(Unread { path: scan.path().to_owned(), offset: one.at.offset(), why: Why::Damaged(why) }));
        let frame = match scan.frame_at(one.at.offset())? {
            Ok(frame) => frame,
            Err(why) => return damaged(scan, why),
        };
        let attach = match Record::decode(&frame.record) {
            Ok(Record::Attach(attach)) if one.is_meant(view.thread(), &attach) => attach,
            Ok(_) => return damaged(scan, read::MISPLACED),
            Err(why) => return damaged(scan, why),
        };
        if let Err(why) = chains::value_soundness(scan, &frame, &attach, true)? {
            return damaged(scan, why);
        }
        // What was bound to a checkpoint's place stands there from the beginning.
        let record = Record::Attach(Attach { place: one.place, is_awaiting: one.is_awaiting, ..attach });
        if !self.segments.with_room_for(frame.head.frame_len())?.copy_as(&record, &frame, scan)? {
            return Err(output::unsteady(scan.path(), frame.offset).with_thread(view.thread()));
        }
        Ok(Ok(()))
    }

    /// Writes a delta whole, under its own number.
    fn whole(&mut self, seq: u64, put: &Put<'_>, view: &View, entry: &Entry) -> Result<std::result::Result<u64, Unread>> {
        let state = match self.chains.state(view, entry)? {
            Ok(state) => state,
            Err(unread) => return Ok(Err(unread)),
        };
        let form = Form::whole(&state, 0, self.compression);
        let parent = read::parent(put, view);
        let parent = Followed::of(parent.as_ref().map(IdKey::to_record));
        self.segments.put(seq, &Record::Put(Put { parent, coding: form.coding, ..put.clone() }), &form.payload)?;
        Ok(Ok(put.floor))
    }
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
        self.put(seq, record, &[])
    }

    /// Writes a record with the payload that it speaks of.
    fn put(&mut self, seq: u64, record: &Record<'_>, payload: &[u8]) -> Result<()> {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        self.with_room_for(frame::frame_len(bytes.len(), payload.len() as u64))?.put(seq, record, payload)
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
