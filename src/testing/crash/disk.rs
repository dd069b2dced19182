//! What a crash may leave of a record: the disk as it is for certain, and what is on its way there.
//!
//! Nothing is on the disk for certain before it was synced: the bytes of a file, its length and the names
//! of a directory each for itself, in any order, in part. Assumed is what DESIGN.md assumes: what was
//! synced stays, and bytes beside those that are written do not change.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::memory::{Bytes, Change, Image, write_to};
use crate::testing::states::noise;

/// The unit in which a disk writes.
pub(super) const SECTOR: usize = 512;

/// The disk after a prefix of a record.
#[derive(Clone, Debug)]
pub(super) struct Disk {
    synced: Image,
    /// Names that are not synced, in order.
    names: Vec<Vec<(PathBuf, Option<u64>)>>,
    /// What is not synced of files, in order.
    data: Vec<Unsynced>,
}

/// A change of a file that is not synced.
#[derive(Clone, Debug)]
struct Unsynced {
    file: u64,
    kind: Kind,
    /// A sync that would have had to keep it has failed: none that comes later keeps it.
    given_up: bool,
}

#[derive(Clone, Debug)]
enum Kind {
    Write {
        offset: u64,
        bytes: Bytes,
    },
    Cut {
        length: u64,
    },
    /// The whole shared page as it was once.
    Page(Bytes),
}

/// How much of a change that is not synced is on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Part {
    All,
    None,
    /// The first bytes.
    First(usize),
    /// All but the first bytes.
    Last(usize),
    /// All but the sector that begins there.
    Without(usize),
    /// Its length, and zeros for bytes.
    Zeros,
    /// The first bytes, and then something else up to the end of the sector: one of 256 things.
    Garbage(usize, u8),
}

/// What of all that is not synced is on the disk: one part for each.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Kept {
    pub names: Vec<bool>,
    pub data: Vec<Part>,
}

impl Disk {
    /// The disk before a record begins.
    pub fn of(image: Image) -> Disk {
        Disk { synced: image, names: Vec::new(), data: Vec::new() }
    }

    /// Goes one change on. Errors: what the change breaks that every order of writing rests on.
    pub fn take(&mut self, change: &Change) -> Result<(), String> {
        match change {
            // It is empty, and without a name nobody finds it.
            Change::MakeDir(dir) => drop(self.synced.files.insert(*dir, None)),
            Change::Names(names) => {
                let watched = self.watch_order(names);
                self.names.push(names.clone());
                return watched;
            }
            Change::Write { file, offset, bytes } => self.unsynced(*file, Kind::Write { offset: *offset, bytes: bytes.clone() }),
            Change::Cut { file, length } => self.unsynced(*file, Kind::Cut { length: *length }),
            Change::Page { file, bytes } => self.unsynced(*file, Kind::Page(bytes.clone())),
            Change::Sync { file } => self.sync(*file),
            Change::FailedSync { file } => {
                self.data.iter_mut().filter(|change| change.file == *file).for_each(|change| change.given_up = true);
            }
            Change::SyncDir(dir) => self.sync_dir(dir),
            Change::Mark(_) => {}
        }
        Ok(())
    }

    fn unsynced(&mut self, file: u64, kind: Kind) {
        self.data.push(Unsynced { file, kind, given_up: false });
    }

    fn sync(&mut self, file: u64) {
        let of_file = |change: &Unsynced| change.file == file && !change.given_up;
        let synced: Vec<Unsynced> = self.data.iter().filter(|change| of_file(change)).cloned().collect();
        // Of what was given up nothing is left where it was written over since.
        let covers = |change: &Unsynced| synced.iter().any(|later| touches(&later.kind, &change.kind));
        self.data.retain(|change| !(of_file(change) || change.file == file && covers(change)));
        let bytes = self.synced.files.entry(file).or_insert_with(|| Some(Bytes::default()));
        if let Some(bytes) = bytes {
            synced.iter().for_each(|change| apply(bytes, &change.kind, Part::All));
        }
    }

    fn sync_dir(&mut self, dir: &Path) {
        let is_in = |names: &[(PathBuf, Option<u64>)]| names.iter().any(|(path, _)| path.parent() == Some(dir));
        let (synced, pending) = std::mem::take(&mut self.names).into_iter().partition(|names| is_in(names));
        self.names = pending;
        let synced: Vec<Vec<(PathBuf, Option<u64>)>> = synced;
        synced.iter().for_each(|names| name(&mut self.synced, names));
    }

    /// No manifest gets its name before it is synced, and nothing that the manifest lists is removed:
    /// whether a crash would show that or not.
    fn watch_order(&self, names: &[(PathBuf, Option<u64>)]) -> Result<(), String> {
        match names {
            [(to, Some(file)), (_, None)] if to.ends_with("MANIFEST") => match self.data.iter().any(|change| change.file == *file) {
                true => Err(format!("{} gets its name before it is synced", to.display())),
                false => Ok(()),
            },
            [(gone, None)] if gone.extension().is_some_and(|kind| kind == "seg") => {
                let is_manifest = |path: &Path| path.ends_with("MANIFEST") && path.parent() == gone.parent();
                match self.names.iter().flatten().any(|(path, _)| is_manifest(path)) {
                    true => Err(format!("{} is removed while the manifest's name is not synced", gone.display())),
                    false => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// Forgets most of what the shared page was once: the first and the last of it stay.
    pub fn thin_pages(&mut self) {
        let is_page = |change: &Unsynced| matches!(change.kind, Kind::Page(_));
        let pages: Vec<usize> = (0..self.data.len()).filter(|&at| is_page(&self.data[at])).collect();
        if let [first, .., last] = pages[..] {
            let mut at = 0..;
            self.data.retain(|change| at.next().is_some_and(|at| !is_page(change) || at == first || at == last));
        }
    }

    /// How much there is to choose from.
    pub fn unsynced_names(&self) -> usize {
        self.names.len()
    }

    /// The same of files; for each the length of what was written, and whether it is of the shared page.
    pub fn unsynced_data(&self) -> Vec<(usize, bool)> {
        let data = self.data.iter().map(|change| match &change.kind {
            Kind::Write { bytes, .. } => (bytes.len(), false),
            Kind::Cut { .. } => (0, false),
            Kind::Page(bytes) => (bytes.len(), true),
        });
        data.collect()
    }

    /// The file that each unsynced change is about.
    pub fn unsynced_files(&self) -> Vec<u64> {
        self.data.iter().map(|change| change.file).collect()
    }

    /// What is on the disk if that much of the rest is.
    pub fn image(&self, kept: &Kept) -> Image {
        let mut image = self.synced.clone();
        for (change, part) in self.data.iter().zip(&kept.data) {
            if *part != Part::None {
                let bytes = image.files.entry(change.file).or_insert_with(|| Some(Bytes::default()));
                if let Some(bytes) = bytes {
                    apply(bytes, &change.kind, *part);
                }
            }
        }
        for (names, _) in self.names.iter().zip(&kept.names).filter(|(_, kept)| **kept) {
            name(&mut image, names);
        }
        image.names = reachable(&image.names);
        let named: BTreeSet<u64> = image.names.values().copied().collect();
        image.files.retain(|file, _| named.contains(file));
        // A file of which only the name is there has no bytes.
        for file in named {
            image.files.entry(file).or_insert_with(|| Some(Bytes::default()));
        }
        image
    }
}

/// Names that stand in a directory that has one.
fn reachable(names: &BTreeMap<PathBuf, u64>) -> BTreeMap<PathBuf, u64> {
    let is_reachable = |path: &Path| path.ancestors().all(|path| names.contains_key(path));
    names.iter().filter(|(path, _)| is_reachable(path)).map(|(path, file)| (path.clone(), *file)).collect()
}

fn name(image: &mut Image, names: &[(PathBuf, Option<u64>)]) {
    // What leads nowhere yet can be renamed all the same: its name was on its way with it.
    for (path, file) in names {
        match file {
            Some(file) => drop(image.names.insert(path.clone(), *file)),
            None => drop(image.names.remove(path)),
        }
    }
}

fn touches(later: &Kind, earlier: &Kind) -> bool {
    match (later, earlier) {
        (Kind::Write { offset, bytes }, Kind::Write { offset: before, bytes: older }) => {
            *offset < before + older.len() as u64 && *before < offset + bytes.len() as u64
        }
        _ => true,
    }
}

fn apply(there: &mut Bytes, kind: &Kind, part: Part) {
    match (kind, part) {
        (_, Part::None) => {}
        (Kind::Cut { length }, _) => std::sync::Arc::make_mut(there).resize(*length as usize, 0),
        (Kind::Page(bytes), part) => apply_write(there, 0, bytes, part),
        (Kind::Write { offset, bytes }, part) => apply_write(there, *offset, bytes, part),
    }
}

fn apply_write(there: &mut Bytes, offset: u64, bytes: &[u8], part: Part) {
    let length = bytes.len();
    match part {
        Part::All => write_to(there, offset, bytes),
        Part::None => {}
        Part::First(first) => write_to(there, offset, &bytes[..first.min(length)]),
        Part::Last(first) => write_to(there, offset + first.min(length) as u64, &bytes[first.min(length)..]),
        Part::Without(from) => {
            write_to(there, offset, &bytes[..from.min(length)]);
            let behind = (from + SECTOR).min(length);
            write_to(there, offset + behind as u64, &bytes[behind..]);
        }
        Part::Zeros => {
            // The length alone: bytes that were there before stay.
            let end = offset as usize + length;
            if there.len() < end {
                std::sync::Arc::make_mut(there).resize(end, 0);
            }
        }
        Part::Garbage(from, what) => {
            let from = from.min(length);
            write_to(there, offset, &bytes[..from]);
            let sector = (offset as usize + from).next_multiple_of(SECTOR) - offset as usize;
            let to = sector.min(length);
            write_to(there, offset + from as u64, &noise(u64::from(what), to - from));
        }
    }
}
