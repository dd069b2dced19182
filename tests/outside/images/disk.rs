//! A disk that keeps what was synced and may keep any of the rest.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::lines::Event;

/// What is believed of syncs; all but the first are controls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Syncs {
    Kept,
    /// None keeps anything.
    None,
    /// Those of directories keep nothing.
    FilesOnly,
}

/// A change of a file's bytes.
#[derive(Clone, Debug)]
pub enum Change {
    Written(usize, Vec<u8>),
    Cut(usize),
}

impl Change {
    pub fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Change::Written(offset, new) => {
                let end = offset + new.len();
                reach(bytes, end);
                bytes[*offset..end].copy_from_slice(new);
            }
            Change::Cut(length) => {
                bytes.truncate(*length);
                reach(bytes, *length);
            }
        }
    }
}

/// Makes a file so long at least, by zeros; in one piece, which is fast in a test too.
fn reach(bytes: &mut Vec<u8>, length: usize) {
    bytes.extend_from_slice(&vec![0; length.saturating_sub(bytes.len())]);
}

/// What is at a name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Node {
    Dir,
    /// The file of this number.
    File(usize),
}

/// A change of the names in a directory.
#[derive(Clone, Debug)]
pub enum Named {
    Set(String, Node),
    Renamed(String, String, Node),
    Removed(String),
}

impl Named {
    fn path(&self) -> &str {
        let (Named::Set(path, _) | Named::Renamed(_, path, _) | Named::Removed(path)) = self;
        path
    }

    pub fn apply(&self, names: &mut BTreeMap<String, Node>) {
        match self {
            Named::Set(path, node) => drop(names.insert(path.clone(), *node)),
            Named::Renamed(from, to, node) => {
                names.remove(from);
                names.insert(to.clone(), *node);
            }
            Named::Removed(path) => drop(names.remove(path)),
        }
    }
}

/// A file: what is kept of it, and what may be.
#[derive(Clone, Debug, Default)]
pub struct File {
    pub kept: Rc<Vec<u8>>,
    pub pending: Vec<Change>,
}

#[derive(Clone, Debug)]
pub struct Disk {
    syncs: Syncs,
    pub files: Vec<File>,
    /// The names that are kept, and those that the program sees.
    pub kept: BTreeMap<String, Node>,
    now: BTreeMap<String, Node>,
    pub pending: Vec<Named>,
    /// What the program has said by now.
    pub told: Vec<u8>,
}

impl Disk {
    /// A disk that keeps these files (`None`: a directory) for good.
    pub fn new(syncs: Syncs, there: Vec<(String, Option<Vec<u8>>)>) -> Disk {
        let (mut files, mut kept) = (Vec::new(), BTreeMap::new());
        for (path, bytes) in there {
            let node = bytes.map_or(Node::Dir, |bytes| {
                files.push(File { kept: Rc::new(bytes), pending: Vec::new() });
                Node::File(files.len() - 1)
            });
            kept.insert(path, node);
        }
        Disk { syncs, files, now: kept.clone(), kept, pending: Vec::new(), told: Vec::new() }
    }

    pub fn takes(&mut self, event: &Event) {
        match event {
            Event::Told(bytes) => self.told.extend(bytes),
            Event::Made(path) if self.now.contains_key(path) => {}
            Event::Made(path) => {
                self.files.push(File::default());
                self.names(Named::Set(path.clone(), Node::File(self.files.len() - 1)));
            }
            Event::MadeDir(path) => self.names(Named::Set(path.clone(), Node::Dir)),
            Event::Renamed { from, to } => self.names(Named::Renamed(from.clone(), to.clone(), self.now[from])),
            Event::Removed(path) => self.names(Named::Removed(path.clone())),
            Event::Written { path, offset, bytes } => self.file(path).pending.push(Change::Written(*offset, bytes.clone())),
            Event::Cut { path, length } => self.file(path).pending.push(Change::Cut(*length)),
            Event::Synced(_) if self.syncs == Syncs::None => {}
            Event::Synced(path) if self.now.get(path).is_none_or(|node| *node == Node::Dir) => self.sync_dir(path),
            Event::Synced(path) => {
                let file = self.file(path);
                let kept = Rc::make_mut(&mut file.kept);
                file.pending.drain(..).for_each(|change| change.apply(kept));
            }
        }
    }

    fn sync_dir(&mut self, dir: &str) {
        if self.syncs == Syncs::Kept {
            let (synced, left) = self.pending.drain(..).partition(|named| parent(named.path()) == dir);
            self.pending = left;
            let synced: Vec<Named> = synced;
            synced.iter().for_each(|named| named.apply(&mut self.kept));
        }
    }

    fn names(&mut self, named: Named) {
        named.apply(&mut self.now);
        self.pending.push(named);
    }

    fn file(&mut self, path: &str) -> &mut File {
        let Some(Node::File(number)) = self.now.get(path) else { panic!("{path} is no file") };
        &mut self.files[*number]
    }
}

/// The directory of a path; the one that is looked at has no name.
pub fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(dir, _)| dir)
}
