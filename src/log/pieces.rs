//! The files of a damaged directory that may hold frames, and how their frames are checked.
//!
//! A segment's header says what its frames are salted with; where the header is gone a manifest that
//! lists the segment says it too, and for the end of a segment that was set aside so does the
//! segment. Changes nothing; what cannot be opened or told is reported and passed over, unless it is the
//! system that lacks something: then nothing is known of the file, and a second try may read it.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;

use super::directory::{Contents, Directory};
use super::examine::finding;
use super::scan::{Found, Scan};
use crate::error::{Error, Result};
use crate::format::manifest::Manifest;
use crate::format::names;
use crate::format::segment::{HEADER_BYTES, Header, Kind};
use crate::fs::File;
use crate::report::Recovery;

/// Where a piece lies, which says how far it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Under a segment's own name.
    Segment,
    /// Under a working name: it was installed only if a manifest lists it.
    Working,
    /// In quarantine, whole.
    SetAside,
    /// In quarantine: the end of a segment, from an offset on, which nothing proved.
    End(u64),
}

/// A file that may hold frames.
pub(crate) struct Piece {
    pub path: PathBuf,
    pub file: Arc<dyn File>,
    /// The segment's number, by the file's name.
    pub number: u64,
    pub standing: Standing,
    /// Its header, where it has one that is sound.
    pub header: Option<Header>,
}

/// What is needed to check frames.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Salted {
    salt: u64,
    counted_from: u64,
    first_frame: u64,
    /// The position of the segment's byte 0, if it is a log segment.
    pub base: Option<u64>,
}

impl Salted {
    fn of(header: &Header) -> Salted {
        let base = match header.kind {
            Kind::Log { base } => Some(base),
            Kind::Compacted { .. } => None,
        };
        let first_frame = u64::from(header.first_frame);
        Salted { salt: header.salt, counted_from: base.unwrap_or(0), first_frame, base }
    }
}

impl Piece {
    /// Scans its frames up to a limit.
    pub fn scan(&self, salted: &Salted, limit: u64) -> Result<Scan> {
        let from = if let Standing::End(from) = self.standing { from } else { 0 };
        let counted_from = salted.counted_from.saturating_add(from);
        Scan::new(self.file.clone(), &self.path, salted.salt, counted_from, self.first_frame(salted), limit)
    }

    /// Where its first frame may stand.
    pub fn first_frame(&self, salted: &Salted) -> u64 {
        if let Standing::End(_) = self.standing { 0 } else { salted.first_frame }
    }

    /// How many sound frames it holds, at most so many.
    pub fn frames(&self, salted: &Salted, at_most: u64) -> Result<u64> {
        let (mut scan, mut frames) = (self.scan(salted, u64::MAX)?, 0);
        while frames < at_most
            && let Some(found) = scan.next()?
        {
            frames += u64::from(matches!(found, Found::Frame(_)));
        }
        Ok(frames)
    }

    /// The file's length.
    pub fn len(&self) -> Result<u64> {
        self.file.len().map_err(|error| Error::os("read", &self.path, error))
    }
}

/// Whether it was the system that lacked something (memory, a handle, a right): that tells nothing about the file.
pub(crate) fn is_of_the_system(error: &io::Error) -> bool {
    const LACKS: [Errno; 6] = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::AGAIN, Errno::ACCESS, Errno::PERM];
    Errno::from_io_error(error).is_some_and(|errno| LACKS.contains(&errno))
}

/// Everything that may hold frames, in quarantine too, in the order of names.
pub(crate) fn find(directory: &Directory, contents: &Contents, report: &mut Recovery) -> Result<Vec<Piece>> {
    let mut named: Vec<(PathBuf, u64, Standing)> = Vec::new();
    named.extend(contents.segments.iter().map(|&number| (directory.file(&names::segment(number)), number, Standing::Segment)));
    named.extend(contents.segments_new.iter().map(|&number| (directory.file(&names::segment_new(number)), number, Standing::Working)));
    if contents.quarantine {
        let path = directory.file(names::QUARANTINE);
        let mut aside = match directory.fs.list(&path) {
            Err(error) if is_of_the_system(&error) => return Err(Error::os("list", &path, error)),
            listed => listed.unwrap_or_else(|error| {
                report.damage.push(finding(&path, None, true, &format!("the folder cannot be read: {error}")));
                Vec::new()
            }),
        };
        aside.sort_unstable();
        for name in aside {
            if let Some((number, from)) = name.to_str().and_then(names::set_aside) {
                named.push((path.join(&name), number, from.map_or(Standing::SetAside, Standing::End)));
            }
        }
    }
    let mut pieces = Vec::new();
    for (path, number, standing) in named {
        match open(directory, &path, number, standing) {
            Ok(piece) => pieces.push(piece),
            Err(error) if is_of_the_system(&error) => return Err(Error::os("open", &path, error)),
            Err(error) => report.damage.push(finding(&path, None, true, &format!("the file cannot be read: {error}"))),
        }
    }
    Ok(pieces)
}

fn open(directory: &Directory, path: &Path, number: u64, standing: Standing) -> io::Result<Piece> {
    let file = directory.fs.open(path, false)?;
    let mut bytes = [0; HEADER_BYTES];
    let read = match file.read_at(&mut bytes, 0) {
        // A bad sector there costs the header alone.
        Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => 0,
        read => read?,
    };
    let header = if let Standing::End(_) = standing { None } else { Header::decode(&bytes[..read]).ok() };
    Ok(Piece { path: path.to_owned(), file, number, standing, header })
}

/// The store that most frames are of, with the files of others in the report.
pub(crate) fn largest_store(pieces: &[Piece], report: &mut Recovery) -> Result<Option<[u8; 16]>> {
    let mut frames: Vec<([u8; 16], u64)> = Vec::new();
    for header in pieces.iter().filter_map(|piece| piece.header.as_ref()) {
        if !frames.iter().any(|(store, _)| *store == header.store) {
            frames.push((header.store, 0));
        }
    }
    if let [_, _, ..] = frames[..] {
        for (piece, header) in pieces.iter().filter_map(|piece| Some((piece, piece.header?))) {
            let counted = piece.frames(&Salted::of(&header), u64::MAX)?;
            frames.iter_mut().filter(|(store, _)| *store == header.store).for_each(|(_, frames)| *frames += counted);
        }
    }
    // Of two that are as large the one whose file comes first.
    let store = frames.iter().rev().max_by_key(|(_, frames)| *frames).map(|(store, _)| *store);
    if let Some(store) = store {
        leave_out_others(pieces, &store, report);
    }
    Ok(store)
}

/// Reports the files of other stores.
pub(crate) fn leave_out_others(pieces: &[Piece], store: &[u8; 16], report: &mut Recovery) {
    for piece in pieces.iter().filter(|piece| piece.header.is_some_and(|header| header.store != *store)) {
        report.damage.push(finding(&piece.path, None, false, "a file of another store, which is left out"));
        report.set_aside.push(piece.path.clone());
    }
}

/// How the frames of a store's pieces are checked; `None` for those of other stores, and those of
/// which nothing says it.
pub(crate) fn salted(pieces: &[Piece], store: &[u8; 16], manifest: Option<&Manifest>) -> Vec<Option<Salted>> {
    // By number, where a header of its own does not say it: the manifest before other files' headers.
    let mut known: HashMap<u64, Salted> = HashMap::new();
    let own = |piece: &Piece| piece.header.filter(|header| header.store == *store);
    for (piece, header) in pieces.iter().rev().filter_map(|piece| Some((piece, own(piece)?))) {
        if header.number == piece.number {
            known.insert(piece.number, Salted::of(&header));
        }
    }
    for listed in manifest.iter().flat_map(|manifest| &manifest.segments) {
        let base = (!listed.compacted).then_some(listed.base);
        let first_frame = u64::from(listed.first_frame);
        known.insert(listed.number, Salted { salt: listed.salt, counted_from: listed.counted_from(), first_frame, base });
    }
    let of = |piece: &Piece| match piece.header {
        Some(header) => (header.store == *store).then(|| Salted::of(&header)),
        None => known.get(&piece.number).copied(),
    };
    pieces.iter().map(of).collect()
}
