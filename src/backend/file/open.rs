//! Opening: what the last user left is finished or cleared away, and every head is read.
//!
//! A head that is not as it was written, or a file under a name that is not its own, is refused by its
//! name: of a place that shows less than it was given nobody would know. Values are looked at when they
//! are asked for. Where there is nothing to finish, nothing is changed.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use super::folder::{Folder, Presence};
use super::manifest::{self, Manifest};
use super::names::{self, GONE, MANIFEST, WORKING};
use super::stored::Stored;
use super::text::{self, HEAD_BYTES_MAX, Head, Kind};
use crate::backend::threads::{Attached, Kept, Thread, Threads};
use crate::checkpoint::CheckpointInfo;
use crate::error::{Error, ErrorKind, Result};

/// So much of a file is read at first: most heads are shorter.
const FIRST_BYTES: u64 = 4096;

/// A place that was found or made.
pub(super) struct Opened {
    pub presence: Presence,
    pub manifest: Manifest,
    pub threads: Threads<Arc<Stored>>,
}

/// Opens the folder; makes the place where there is none and `create` says so.
///
/// Errors: `NotFound` without `create`; `Busy`; `Unsupported`; `Corrupt` with the file's name.
pub(super) fn open(folder: &Arc<Folder>, create: bool, max_history: Option<usize>) -> Result<Opened> {
    folder.require_local()?;
    if !folder.exists()? {
        if !create {
            return Err(absent(folder));
        }
        folder.create()?;
    }
    let presence = Presence::enter(folder)?;
    // CRASH: a process that was killed may have left names that do not last yet: what is shown is to stay,
    // and what is finished here rests on the manifest.
    match folder.sync() {
        Err(error) if error.kind() == ErrorKind::ReadOnly => {}
        synced => synced?,
    }
    let mut there: BTreeSet<String> = folder.names()?.into_iter().collect();
    if !there.contains(MANIFEST) {
        make(folder, &there, create, max_history)?;
        there.insert(MANIFEST.to_owned());
    }
    let in_manifest = |error: Error| error.with_file(&folder.file(MANIFEST), None);
    let text = folder.read(MANIFEST, manifest::BYTES_MAX).map_err(|error| Error::os("read", &folder.file(MANIFEST), error))?;
    let manifest = Manifest::decode(&text).map_err(in_manifest)?;
    finish(folder, &manifest, &mut there)?;
    clear(folder, &there);
    let threads = Reading::default().all(folder, &manifest, there)?;
    Ok(Opened { presence, manifest, threads })
}

fn absent(folder: &Folder) -> Error {
    Error::new(ErrorKind::NotFound, "there is no place of files").with_file(&folder.path, None)
}

/// Makes a place in a folder that has nothing in it.
fn make(folder: &Folder, there: &BTreeSet<String>, create: bool, max_history: Option<usize>) -> Result<()> {
    let working = format!("{MANIFEST}{WORKING}");
    // The root of a mounted disk has this one.
    if let Some(foreign) = there.iter().find(|name| **name != working && *name != "lost+found") {
        let message = "no place of files: this is here, and MANIFEST.json is not";
        return Err(Error::new(ErrorKind::Unsupported, message).with_file(&folder.file(foreign), None));
    }
    if !create {
        return Err(absent(folder));
    }
    folder.create()?;
    folder.write(MANIFEST, Manifest::new(max_history).encode()?.as_bytes())?;
    // CRASH: until this rename there is no place; MANIFEST.json.new alone is as good as nothing.
    folder.name(MANIFEST)?;
    folder.sync()
}

/// Does what is left of the last batch. CRASH: in whatever order, and as often as need be: names are
/// never given twice, so what was done already is passed over, and what does not last is done again.
fn finish(folder: &Folder, manifest: &Manifest, there: &mut BTreeSet<String>) -> Result<()> {
    for name in &manifest.named {
        if there.remove(&format!("{name}{WORKING}")) {
            folder.name(name)?;
            there.insert(name.clone());
        }
    }
    for name in &manifest.removed {
        if there.remove(name) {
            folder.remove(name)?;
        }
    }
    Ok(())
}

/// Removes what counts for nothing; where that cannot be done it goes on counting for nothing.
fn clear(folder: &Folder, there: &BTreeSet<String>) {
    let is_left = |name: &str| {
        let own = name.strip_suffix(WORKING).or(name.strip_suffix(GONE));
        own.is_some_and(|own| own == MANIFEST || names::is_ours(own))
    };
    for name in there.iter().filter(|name| is_left(name)) {
        let _ = folder.remove(name);
    }
}

/// What was read of the files so far.
#[derive(Default)]
struct Reading {
    checkpoints: BTreeMap<u64, Kept<Arc<Stored>>>,
    attachments: Vec<(Head, Arc<Stored>)>,
    numbers: HashSet<u64>,
    /// Thread, checkpoint id, and of an attachment its key.
    subjects: HashSet<(String, String, Option<String>)>,
}

impl Reading {
    fn all(mut self, folder: &Arc<Folder>, manifest: &Manifest, there: BTreeSet<String>) -> Result<Threads<Arc<Stored>>> {
        for name in there.into_iter().filter(|name| names::is_ours(name)) {
            let path = folder.file(&name);
            let corrupt = |what: &str| {
                Error::new(ErrorKind::Corrupt, format!("{what}: restore the file from a copy, or move it out of the folder for good: it cannot come back once something was put"))
                    .with_file(&path, None)
            };
            let (head, check) = read_head(folder, &name, corrupt)?;
            self.take(head, Stored::found(folder, name, check)).map_err(corrupt)?;
        }
        let mut threads = Threads::new(manifest.max_history);
        threads.last = self.numbers.iter().copied().max().unwrap_or(0).max(manifest.last);
        let mut by_id: BTreeMap<Arc<str>, Thread<Arc<Stored>>> = BTreeMap::new();
        for kept in self.checkpoints.into_values() {
            by_id.entry(kept.info.thread.clone()).or_default().put(kept);
        }
        for (head, value) in self.attachments {
            if let Kind::Attachment { checkpoint, key } = head.kind {
                let attached = Arc::new(Attached { tag: head.tag, number: head.number, bytes: head.bytes, value });
                by_id.entry(head.thread.into()).or_default().attach(&checkpoint, &key, attached);
            }
        }
        for (id, mut thread) in by_id {
            if thread.exists() {
                thread.keep = manifest.threads.get(&*id).copied();
            }
            threads.by_id.insert(id, Arc::new(thread));
        }
        Ok(threads)
    }

    /// Errors, as what is wrong: another file says the same.
    fn take(&mut self, head: Head, stored: Arc<Stored>) -> std::result::Result<(), &'static str> {
        const TWICE: &str = "two files say that they are the same checkpoint or attachment";
        let (id, key) = match &head.kind {
            Kind::Checkpoint { id, .. } => (id, None),
            Kind::Attachment { checkpoint, key } => (checkpoint, Some(key.clone())),
        };
        let is_new = self.subjects.insert((head.thread.clone(), id.as_str().to_owned(), key));
        if !is_new {
            return Err(TWICE);
        }
        if !self.numbers.insert(head.number) {
            return Err("another file has its number, which was given again while this one was elsewhere");
        }
        match head.kind {
            Kind::Checkpoint { id, seq, parent, saved_at, metadata } => {
                let info =
                    CheckpointInfo { thread: head.thread.into(), id, seq, parent, saved_at, metadata, tag: head.tag, bytes: head.bytes };
                let before = self.checkpoints.insert(seq, Kept { info, number: head.number, value: stored });
                if before.is_some() { Err(TWICE) } else { Ok(()) }
            }
            Kind::Attachment { .. } => {
                self.attachments.push((head, stored));
                Ok(())
            }
        }
    }
}

/// The head of a file, which must be under its own name.
fn read_head(folder: &Folder, name: &str, corrupt: impl Fn(&str) -> Error) -> Result<(Head, u64)> {
    for bytes_max in [FIRST_BYTES, HEAD_BYTES_MAX] {
        let text = folder.read(name, bytes_max).map_err(|error| Error::os("read", &folder.file(name), error))?;
        let Some(read) = text::read(&text).map_err(&corrupt)? else { continue };
        return match name == name_of(&read.head) {
            true => Ok((read.head, read.check)),
            false => Err(corrupt("the file is not under the name that it was given")),
        };
    }
    Err(corrupt("the file is torn, or none of this place"))
}

/// The name that a file of this head has.
pub(super) fn name_of(head: &Head) -> String {
    match &head.kind {
        Kind::Checkpoint { id, seq, .. } => names::checkpoint(&head.thread, *seq, head.number, id.as_str()),
        Kind::Attachment { checkpoint, key } => names::attachment(&head.thread, head.number, checkpoint.as_str(), key),
    }
}
