//! A sealed segment's records: from its hint if there is one to believe, else from the segment itself.
//!
//! Reads with system calls. For those who want to know what a segment says without its states:
//! compaction, and who finds what compaction has moved.

use std::path::PathBuf;
use std::sync::Arc;

use super::directory::Directory;
use super::examine::{self, locate, location};
use super::hints;
use super::location::Location;
use super::scan::{Found, Scan};
use crate::error::{Error, ErrorKind, Result};
use crate::format::Flaw;
use crate::format::manifest::{Listed, Manifest};
use crate::format::names;
use crate::format::record::Record;
use crate::fs::File;

/// A record of a segment, and where its frame stands.
pub(crate) struct Met<'a> {
    pub record: &'a Record<'a>,
    pub at: Location,
}

/// Opens a listed segment. Errors: `Corrupt` where it is not the one that is listed, `Io`.
pub(crate) fn open(directory: &Directory, manifest: &Manifest, listed: &Listed) -> Result<(Arc<dyn File>, PathBuf)> {
    let path = directory.file(&names::segment(listed.number));
    let file = directory.open_log(listed.number, false).map_err(|error| Error::os("open", &path, error))?;
    examine::header_check(&*file, &path, manifest, listed)?;
    Ok((file, path))
}

/// Hands on every record of a sealed segment, each thread's in the log's order; `None` for what cannot
/// be read.
///
/// Errors: as [`open`]; `Unsupported` for records of a newer format.
pub(crate) fn each(directory: &Directory, manifest: &Manifest, listed: &Listed, take: &mut dyn FnMut(Option<Met<'_>>)) -> Result<()> {
    let (file, path) = open(directory, manifest, listed)?;
    let hint = hints::read(directory, &manifest.store, listed, &*file, listed.end);
    if let Some(hint) = hint.filter(|hint| hint.heading().end == listed.end) {
        for group in hint.groups() {
            for item in group.items() {
                let at = locate(listed.number, u64::from(item.offset8()) * 8, u64::from(item.length8()) * 8)?;
                take(Some(Met { record: &item.record(group.thread), at }));
            }
        }
        return Ok(());
    }
    let mut reached = u64::from(listed.first_frame);
    let mut scan = Scan::new(file, &path, listed.salt, listed.counted_from(), reached, listed.end)?;
    while let Some(found) = scan.next()? {
        let Found::Frame(frame) = found else {
            take(None);
            continue;
        };
        reached = frame.end();
        match Record::decode(&frame.record) {
            Ok(record) => take(Some(Met { record: &record, at: location(listed, &frame)? })),
            Err(flaw @ Flaw::Unknown(_)) => {
                return Err(Error::new(ErrorKind::Unsupported, flaw.to_string()).with_file(&path, Some(frame.offset)));
            }
            Err(_) => take(None),
        }
    }
    if reached < listed.end {
        take(None);
    }
    Ok(())
}
