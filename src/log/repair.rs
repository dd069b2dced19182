//! Salvaging a damaged directory: everything that can be read goes into a new store.
//!
//! The directory is never changed, and no file is made in it; its own lock keeps others out. Frames of
//! all files are put in the order of their numbers and replayed as opening would, so that deletes and
//! trims count. What could not be read is told. A checkpoint whose newest record is damaged is
//! left out: what it was before is not what it is.

use std::cell::RefCell;
use std::collections::HashSet;
use std::error::Error as _;
use std::path::Path;
use std::sync::Arc;

use super::Store;
use super::chains::Unread;
use super::copy::{self, Scans, Shown, Source, Whole};
use super::destination::Destination;
use super::directory::{Contents, Directory};
use super::examine::{finding, locate};
use super::fresh::jump_above;
use super::ids;
use super::leftovers::{self, refuse_foreign};
use super::location::Location;
use super::locks;
use super::pieces::{self, Piece, Standing};
use super::replay::Replay;
use super::salvage::{Indexed, Salvage};
use super::scan::Scan;
use super::tail::Marks;
use super::view::{Entry, View};
use crate::error::{Error, ErrorKind, Result};
use crate::format::Flaw;
use crate::format::manifest::Manifest;
use crate::format::names;
use crate::format::record::Record;
use crate::format::segment::Kind;
use crate::options::Options;
use crate::report::{Finding, Recovery};

impl Store {
    /// Salvages all that can be read of a damaged directory into a new store in `dest`, and tells what
    /// could not be. Changes nothing in `dir`; works where opening it answers `Corrupt`.
    ///
    /// MANIFEST may be missing, damaged, another store's or older than the data; segments may be missing,
    /// damaged or in quarantine. Where the limit of the store cannot be read the copy keeps all. In the
    /// answer `damage` is what was lost (and, with `damage` false, what had to be done without), `unproven`
    /// what was taken in though nothing proves that it was part of the log, `set_aside` the files that
    /// were left out. A damaged delete can bring back what it deleted.
    ///
    /// Errors: `NotFound` where there is no store; `Unsupported` for a newer format; `Corrupt` where nothing
    /// can be read; `Busy` while others have it open; `Io` and `ReadOnly` where the system lacks something (handles,
    /// memory, the right to read), which a second try may have: a bad sector is no error but damage; for `dest` as [`Store::backup`]. There is no store in
    /// `dest` then. Memory: 24 bytes a record, and the index.
    pub fn repair(dir: impl AsRef<Path>, dest: impl AsRef<Path>) -> Result<Recovery> {
        repair(dir.as_ref(), dest.as_ref(), &Options::default())
    }
}

pub(crate) fn repair(dir: &Path, dest: &Path, options: &Options) -> Result<Recovery> {
    let Options { dir_mode, file_mode, .. } = *options;
    let directory = Directory { fs: options.fs.clone(), path: dir.to_owned(), dir_mode, file_mode, found: Arc::default() };
    if !directory.exists()? {
        return Err(absent(&directory));
    }
    let contents = directory.contents()?;
    if !contents.manifest {
        // A damaged store may have got something beside it; without anything of ours it is none.
        let ours = !contents.segments.is_empty() || !contents.segments_new.is_empty() || contents.quarantine;
        if !ours {
            refuse_foreign(&contents)?;
            return Err(absent(&directory));
        }
    }
    Destination::look(&directory, dest)?;
    let _alone = locks::alone_in(&directory, "has this store open: close it, and repair it then")?;
    let mut report = Recovery::default();
    let Guide { manifest, salvage } = read(&directory, &mut report)?;
    let next_seq = jump_above(next_seq(&directory, manifest.as_ref(), &salvage));
    let (views, salvage) = replay(salvage, &mut report)?;
    report.frames = salvage.frames.len() as u64;
    let lost = report.damage.iter().any(|finding| finding.damage);
    if report.frames == 0 && (manifest.is_none() || lost) {
        let nothing = Error::new(ErrorKind::Corrupt, "nothing in this directory can be read").with_file(&directory.path, None);
        return Err(if lost || contents.manifest { nothing } else { absent(&directory) });
    }
    let destination = Destination::take(&directory, dest, options)?;
    // All, where nobody can say it: nothing is trimmed by a guess.
    let max_history = manifest.map_or(0, |manifest| manifest.max_history);
    let whole = Whole { views: &views, max_history, next_seq };
    copy::write(&destination, options, &whole, &Salvaged { salvage, report: RefCell::new(&mut report) })?;
    destination.finish();
    Ok(report)
}

fn absent(directory: &Directory) -> Error {
    Error::new(ErrorKind::NotFound, "no store here, nor what is left of one").with_file(&directory.path, None)
}

/// What a directory's files were read by.
struct Guide {
    /// The store's manifest, where it can be read; it may be older than the data.
    manifest: Option<Manifest>,
    salvage: Salvage,
}

/// Reads the frames of a directory, by its manifest as far as that can be believed.
fn read(directory: &Directory, report: &mut Recovery) -> Result<Guide> {
    let contents = directory.contents()?;
    let found = pieces::find(directory, &contents, report)?;
    let manifest = own_manifest(directory, &contents, &found, report)?;
    let store = match &manifest {
        Some(manifest) => {
            pieces::leave_out_others(&found, &manifest.store, report);
            Some(manifest.store)
        }
        None => pieces::largest_store(&found, report)?,
    };
    // Without a header that is sound there is no store to tell, and no frame to check.
    let salted = pieces::salted(&found, &store.unwrap_or_default(), manifest.as_ref());
    let mut salvage = Salvage::new(found, salted)?;
    match &manifest {
        Some(manifest) if !is_older(directory, manifest, &contents, &salvage.pieces)? => {
            salvage.read_listed(directory, manifest, report)?;
        }
        older => {
            if older.is_some() {
                let what = "MANIFEST is older than the data, so the segments were read without it";
                report.damage.push(finding(&directory.file(names::MANIFEST), None, false, what));
            }
            salvage.read_all(report)?;
        }
    }
    Ok(Guide { manifest, salvage })
}

/// The manifest, where there is one that can be read and is of the same store as any of the segments.
fn own_manifest(directory: &Directory, contents: &Contents, found: &[Piece], report: &mut Recovery) -> Result<Option<Manifest>> {
    let path = directory.file(names::MANIFEST);
    let mut without = |what: &str| {
        let what = format!("{what}: the segments were read without it, and the copy keeps all checkpoints of a thread");
        report.damage.push(finding(&path, None, false, &what));
    };
    let of_the_system = |error: &Error| error.source().and_then(|source| source.downcast_ref()).is_some_and(pieces::is_of_the_system);
    match directory.manifest() {
        Ok(manifest) => {
            let mut stores = found.iter().filter_map(|piece| Some(piece.header?.store)).peekable();
            if stores.peek().is_none() || stores.any(|store| store == manifest.store) {
                return Ok(Some(manifest));
            }
            without("MANIFEST is another store's");
            report.set_aside.push(path);
        }
        Err(_) if !contents.manifest => without("MANIFEST is missing"),
        Err(error) if error.kind() == ErrorKind::Unsupported || of_the_system(&error) => return Err(error),
        Err(_) => without("MANIFEST is damaged"),
    }
    Ok(None)
}

/// Whether there are segments that a manifest does not know of yet.
fn is_older(directory: &Directory, manifest: &Manifest, contents: &Contents, found: &[Piece]) -> Result<bool> {
    let known: HashSet<u64> = manifest.segments.iter().map(|listed| listed.number).chain(manifest.retired.iter().copied()).collect();
    for piece in found.iter().filter(|piece| piece.standing == Standing::Segment && !known.contains(&piece.number)) {
        let Some(header) = piece.header.filter(|header| header.store == manifest.store) else { continue };
        let newer = match header.kind {
            Kind::Log { .. } => piece.number >= manifest.next_number,
            Kind::Compacted { first, last } => leftovers::replaces_missing(manifest, contents, first, last),
        };
        if newer && !leftovers::is_empty(directory, &piece.path)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The lowest number that was never given, as far as anything tells.
fn next_seq(directory: &Directory, manifest: Option<&Manifest>, salvage: &Salvage) -> u64 {
    let by_page = manifest.and_then(|manifest| Marks::read(directory, manifest)).map_or(0, |marks| marks.next_seq);
    let by_manifest = manifest.map_or(0, |manifest| manifest.seq_floor);
    let by_log = by_manifest.max(salvage.seq_max() + 1);
    // Nothing vouches for the page.
    by_page.clamp(by_log, jump_above(by_log))
}

/// The threads that the frames make; the frames are then ordered by where they stand.
fn replay(mut salvage: Salvage, report: &mut Recovery) -> Result<(Vec<Arc<View>>, Salvage)> {
    salvage.one_of_each()?;
    let mut replay = Replay::default();
    let mut scans = Scans::default();
    for indexed in &salvage.frames {
        let scan = scans.of(indexed.piece, |piece| salvage.open(piece))?;
        let path = &salvage.pieces[indexed.piece as usize].path;
        let frame = match scan.frame_at(indexed.offset())? {
            Ok(frame) => frame,
            // It was sound when it was read first: the medium answers now this and now that.
            Err(why) => {
                report.damage.push(finding(path, Some(indexed.offset()), true, &why.to_string()));
                continue;
            }
        };
        let record = match Record::decode(&frame.record) {
            Ok(record) => record,
            Err(why @ Flaw::Unknown(_)) => {
                let message = format!("{why}: this store was written by a newer version");
                return Err(Error::new(ErrorKind::Unsupported, message).with_file(path, Some(frame.offset)));
            }
            Err(why) => {
                report.damage.push(finding(path, Some(frame.offset), true, &why.to_string()));
                continue;
            }
        };
        if !indexed.trusted {
            // What nothing proves may add something, and takes nothing away.
            let Some(put) = record.put() else {
                if let Record::Attach(attach) = &record {
                    let what = "a whole attachment that nothing proves to be part of the log, left out";
                    let (thread, id) = (Some(attach.thread.to_owned()), ids::public(&attach.id).ok());
                    report.unproven.push(Finding { thread, id, ..finding(path, Some(frame.offset), false, what) });
                }
                continue;
            };
            let what = "a whole record that nothing proves to be part of the log, taken in";
            let id = ids::public(&put.id).ok();
            report.unproven.push(Finding { thread: Some(put.thread.to_owned()), id, ..finding(path, Some(frame.offset), false, what) });
        }
        replay.take(&record, locate(u64::from(indexed.piece), frame.offset, frame.head.frame_len())?);
    }
    let mut views: Vec<Arc<View>> = replay.into_threads().into_values().collect();
    views.sort_unstable_by(|one, other| one.thread().cmp(other.thread()));
    for view in &mut views {
        one_of_each_id(view, &salvage, report);
    }
    salvage.by_location();
    Ok((views, salvage))
}

/// Leaves out of a thread what stands under an id that a newer checkpoint has: it was deleted, or
/// nothing proves that it ever counted.
fn one_of_each_id(view: &mut Arc<View>, salvage: &Salvage, report: &mut Recovery) {
    let mut seen = HashSet::new();
    let doubles: Vec<Entry> = view.entries().rev().filter(|entry| !seen.insert(&entry.id)).cloned().collect();
    for entry in doubles {
        let path = &salvage.pieces[entry.at.segment as usize].path;
        let shown = Shown::Checkpoint(&entry);
        report.damage.push(named(path, view, &shown, false, "left out, for a newer checkpoint has its id"));
        *view = Arc::new(view.without(entry.place));
    }
}

fn named(path: &Path, view: &View, shown: &Shown<'_>, damage: bool, what: &str) -> Finding {
    let id = ids::public(&shown.id().to_record()).ok();
    Finding { thread: Some(view.thread().to_string()), id, ..finding(path, Some(shown.at().offset()), damage, what) }
}

/// The salvaged frames as what a new store is written from.
struct Salvaged<'a> {
    salvage: Salvage,
    report: RefCell<&'a mut Recovery>,
}

impl Salvaged<'_> {
    fn frame(&self, at: Location) -> Option<&Indexed> {
        let key = |frame: &Indexed| (frame.piece, frame.offset());
        let found = self.salvage.frames.binary_search_by_key(&(at.segment, at.offset()), key);
        found.ok().map(|found| &self.salvage.frames[found])
    }
}

impl Source for Salvaged<'_> {
    fn order(&self, at: Location) -> u64 {
        self.frame(at).map_or(u64::MAX, |frame| frame.seq)
    }

    fn open(&self, segment: u32) -> Result<Scan> {
        self.salvage.open(segment)
    }

    fn damaged(&self, view: &View, shown: &Shown<'_>, unread: &Unread) -> Result<()> {
        // What nothing proves was never known to be there.
        let damage = self.frame(shown.at()).is_none_or(|frame| frame.trusted);
        let what = match shown {
            Shown::Checkpoint(_) => unread.why.to_string(),
            Shown::Attached(one) => format!("attachment {:?}: {}", one.key, unread.why),
        };
        let finding = Finding { offset: Some(unread.offset), ..named(&unread.path, view, shown, damage, &what) };
        self.report.borrow_mut().damage.push(finding);
        Ok(())
    }
}
