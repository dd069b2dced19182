//! What a power cut can leave of a disk: of each file's unsynced writes none, all, all but one, or one of them
//! torn between two sectors; of the directories' unsynced changes none, all, the first few, or all but one.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::disk::{Change, Disk, File, Node, parent};

const SECTOR: usize = 512;

/// The bytes of a file, with their hash.
#[derive(Clone, Debug)]
pub struct Bytes {
    pub bytes: Rc<Vec<u8>>,
    hash: u64,
}

impl Bytes {
    fn new(bytes: Rc<Vec<u8>>) -> Bytes {
        Bytes { hash: twox_hash::XxHash3_64::oneshot(&bytes), bytes }
    }
}

/// What is on the disk then: files by their paths (`None`: a directory), and in words how it came about.
pub struct Image {
    pub there: BTreeMap<String, Option<Bytes>>,
    pub how: String,
}

impl Image {
    /// Tells images apart, together with what was told by then.
    pub fn hash(&self, told: &[u8]) -> u64 {
        let mut seen = told.to_vec();
        for (path, bytes) in &self.there {
            seen.extend(path.as_bytes());
            seen.extend(bytes.as_ref().map_or(0, |bytes| bytes.hash).to_le_bytes());
        }
        twox_hash::XxHash3_64::oneshot(&seen)
    }
}

/// Gives out each image that a power cut now could leave; some of them are the same.
pub fn each(disk: &Disk, mut give: impl FnMut(Image)) {
    let after = |file: &File, changes: &[Change]| {
        let mut bytes = file.kept.to_vec();
        changes.iter().for_each(|change| change.apply(&mut bytes));
        Bytes::new(Rc::new(bytes))
    };
    let none: Vec<Bytes> = disk.files.iter().map(|file| Bytes::new(file.kept.clone())).collect();
    let all: Vec<Bytes> = disk
        .files
        .iter()
        .zip(&none)
        .map(|(file, kept)| if file.pending.is_empty() { kept.clone() } else { after(file, &file.pending) })
        .collect();
    let names = all_names(disk);
    let mut image = |names: &BTreeMap<String, Node>, files: &[Bytes], how: String| {
        // A name counts if its directory does.
        let is_there = |path: &str| parent(path).is_empty() || names.contains_key(parent(path));
        let there = names.iter().filter(|(path, _)| is_there(path));
        let there =
            there.map(|(path, node)| (path.clone(), if let Node::File(number) = node { Some(files[*number].clone()) } else { None }));
        give(Image { there: there.collect(), how });
    };
    for (names, how) in &names {
        image(names, &none, format!("{how}, no write"));
        image(names, &all, format!("{how}, all writes"));
    }
    for (number, file) in disk.files.iter().enumerate() {
        let mut one = |changes: &[Change], how: &str| {
            let mut files = all.clone();
            files[number] = after(file, changes);
            // With all names, and with those alone that are kept.
            for (names, named) in names.iter().take(2) {
                image(names, &files, format!("{named}, of file {number} {how}"));
            }
        };
        for (which, change) in file.pending.iter().enumerate() {
            let but_it = |parts: Option<Change>| {
                file.pending[..which].iter().cloned().chain(parts).chain(file.pending[which + 1..].iter().cloned()).collect::<Vec<_>>()
            };
            one(&but_it(None), &format!("all writes but {which}"));
            let Change::Written(offset, bytes) = change else { continue };
            for cut in (SECTOR - offset % SECTOR..bytes.len()).step_by(SECTOR) {
                for (part, (offset, bytes)) in [(*offset, &bytes[..cut]), (offset + cut, &bytes[cut..])].into_iter().enumerate() {
                    let torn = Change::Written(offset, bytes.to_vec());
                    one(&but_it(Some(torn)), &format!("write {which} torn at {cut}, part {part}"));
                }
            }
        }
    }
}

/// The names that may be there, all changes first.
fn all_names(disk: &Disk) -> Vec<(BTreeMap<String, Node>, String)> {
    let pending = &disk.pending;
    let names = |which: &dyn Fn(usize) -> bool| {
        let mut names = disk.kept.clone();
        pending.iter().enumerate().filter(|(number, _)| which(*number)).for_each(|(_, change)| change.apply(&mut names));
        names
    };
    let mut found = vec![(names(&|_| true), "all names".to_owned())];
    for lost in 0..pending.len() {
        found.push((names(&|number| number < lost), format!("the first {lost} changes of names")));
        found.push((names(&|number| number != lost), format!("all changes of names but {lost}")));
    }
    found
}
