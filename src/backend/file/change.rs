//! A change carried out: the files that it adds are written, then it counts, then the rest is done.
//!
//! The protocol, and what a crash at each point leaves, stands in `mod.rs`. Whoever calls holds the
//! writer's lock; readers go on with what stood before, until it counts.

use std::collections::HashSet;
use std::sync::Arc;

use super::folder::{Folder, poisoned};
use super::manifest::Manifest;
use super::names::MANIFEST;
use super::open::name_of;
use super::stored::{Origin, Stored};
use super::text::{self, Head, Kind};
use crate::backend::threads::{Thread, Threads};
use crate::batch::{Batch, Operation};
use crate::delta::content_hash;
use crate::error::{Error, Result};

/// A thread before and after, each if there is one.
type Pair<'a> = (&'a Arc<str>, Option<&'a Thread<Arc<Stored>>>, Option<&'a Thread<Arc<Stored>>>);

/// What a change does to the files.
pub(super) struct Change {
    manifest: Manifest,
    /// Files that are written and have their working names.
    added: Vec<(Arc<Stored>, String, u64)>,
    removed: Vec<Arc<Stored>>,
    /// Whether one file more is not all that it does.
    needs_manifest: bool,
}

/// What became of a change.
pub(super) enum Outcome {
    /// It is done and lasts; the files that do not count any more are still there.
    Done { manifest: Manifest, removed: Vec<Arc<Stored>> },
    /// Nothing was done.
    Refused(Error),
    /// The next opening knows.
    Unknown(Error),
}

impl Change {
    /// Writes what it adds, under working names, each file synced. On failure nothing is left.
    pub fn write(
        folder: &Folder,
        before: &Manifest,
        after: &Threads<Arc<Stored>>,
        pairs: &[Pair<'_>],
        batch: &Batch<'_>,
    ) -> Result<Change> {
        let mut manifest = before.next(after.last, after.keep);
        let mut change = Change { manifest: Manifest::default(), added: Vec::new(), removed: Vec::new(), needs_manifest: false };
        for (id, old, new) in pairs {
            let written = new.iter().try_for_each(|new| change.add(folder, id, new, batch));
            written.inspect_err(|_| change.discard(folder))?;
            change.remove(*old, *new);
            match new.and_then(|new| new.keep) {
                Some(keep) => drop(manifest.threads.insert(id.to_string(), keep)),
                None => drop(manifest.threads.remove(&***id)),
            }
        }
        manifest.named = change.added.iter().map(|(_, name, _)| name.clone()).collect();
        manifest.removed = change.removed.iter().filter_map(|stored| stored.name()).map(str::to_owned).collect();
        let is_set = manifest.threads != before.threads || manifest.max_history != before.max_history;
        change.needs_manifest = is_set || change.added.len() > 1 || !change.removed.is_empty();
        change.manifest = manifest;
        Ok(change)
    }

    /// Writes the files of what is new in a thread.
    fn add(&mut self, folder: &Folder, thread: &str, new: &Thread<Arc<Stored>>, batch: &Batch<'_>) -> Result<()> {
        for kept in new.checkpoints().iter().filter(|kept| kept.value.name().is_none()) {
            let info = kept.info.clone();
            let kind =
                Kind::Checkpoint { id: info.id, seq: info.seq, parent: info.parent, saved_at: info.saved_at, metadata: info.metadata };
            let head = Head { thread: thread.to_owned(), number: kept.number, tag: info.tag, bytes: info.bytes, hash: 0, kind };
            self.add_file(folder, head, &kept.value, batch)?;
        }
        for (id, key, attached) in new.attachments().filter(|(_, _, attached)| attached.value.name().is_none()) {
            let kind = Kind::Attachment { checkpoint: id.clone(), key: key.to_owned() };
            let (tag, bytes) = (attached.tag.clone(), attached.bytes);
            let head = Head { thread: thread.to_owned(), number: attached.number, tag, bytes, hash: 0, kind };
            self.add_file(folder, head, &attached.value, batch)?;
        }
        Ok(())
    }

    fn add_file(&mut self, folder: &Folder, head: Head, stored: &Arc<Stored>, batch: &Batch<'_>) -> Result<()> {
        let copied;
        let value = match stored.from() {
            Origin::Operation(at) => match batch.operations().get(*at) {
                Some(Operation::Put { state, .. }) => *state,
                Some(Operation::Attach { value, .. }) => *value,
                Some(Operation::Delete { .. }) | None => &[],
            },
            // CRASH: the file stays where it is until the change counts, also where it goes by that.
            Origin::File(written) => {
                copied = written.read(folder, &head.thread, head.bytes)?;
                &copied
            }
        };
        let head = Head { hash: content_hash(value), ..head };
        let name = name_of(&head);
        let (text, check) = text::write(&head, value).map_err(|error| error.with_thread(&head.thread))?;
        folder.write(&name, &text).map_err(|error| error.with_thread(&head.thread))?;
        self.added.push((stored.clone(), name, check));
        Ok(())
    }

    /// Takes down the files of what is in a thread no more.
    fn remove(&mut self, old: Option<&Thread<Arc<Stored>>>, new: Option<&Thread<Arc<Stored>>>) {
        let stay: HashSet<&str> = new.into_iter().flat_map(files).filter_map(|stored| stored.name()).collect();
        let going = old.into_iter().flat_map(files).filter(|stored| stored.name().is_some_and(|name| !stay.contains(name)));
        self.removed.extend(going.cloned());
    }

    /// Takes back what was written.
    fn discard(&self, folder: &Folder) {
        self.added.iter().for_each(|(_, name, _)| folder.discard(name));
    }

    /// Has it count.
    pub fn commit(self, folder: &Folder) -> Outcome {
        if !self.needs_manifest {
            return self.commit_one(folder);
        }
        let written = self.manifest.encode().and_then(|text| folder.write(MANIFEST, text.as_bytes()));
        if let Err(error) = written {
            self.discard(folder);
            return Outcome::Refused(error);
        }
        // CRASH: before this sync nothing counts, and any of the working names may be gone. Behind the
        // next rename they are needed, so they have to last first.
        if let Err(error) = folder.sync() {
            return unknown(folder, error);
        }
        // CRASH: with this name the batch counts, and the next opening does what is left of it.
        if let Err(error) = folder.name(MANIFEST) {
            return unknown(folder, error);
        }
        // CRASH: until this sync a power cut may leave the manifest before it, and so nothing of the batch:
        // no file has its name yet, and none is removed.
        let named = folder.sync().and_then(|()| self.name_all(folder));
        match named {
            Ok(()) => Outcome::Done { manifest: self.manifest, removed: self.removed },
            Err(error) => unknown(folder, error),
        }
    }

    /// One file more, or none.
    fn commit_one(self, folder: &Folder) -> Outcome {
        // CRASH: the file is whole, and counts with its name; until the sync a power cut may take that.
        let synced = if self.added.is_empty() { Ok(()) } else { self.name_all(folder).and_then(|()| folder.sync()) };
        match synced {
            Ok(()) => Outcome::Done { manifest: self.manifest, removed: self.removed },
            Err(error) => unknown(folder, error),
        }
    }

    /// Gives what was written its names.
    fn name_all(&self, folder: &Folder) -> Result<()> {
        // CRASH: where there are several, the manifest names them all, and goes on doing so behind the last.
        for (stored, name, check) in &self.added {
            folder.name(name)?;
            stored.is_written(name.clone(), *check);
        }
        Ok(())
    }
}

fn files(thread: &Thread<Arc<Stored>>) -> impl Iterator<Item = &Arc<Stored>> {
    thread.checkpoints().iter().map(|kept| &kept.value).chain(thread.attachments().map(|(_, _, attached)| &attached.value))
}

/// What names lasts, or does not, when a rename or a directory's sync has failed: that is not tried again.
fn unknown(folder: &Folder, error: Error) -> Outcome {
    let message = format!("{error}; whether the batch was done the next opening will tell: open the place again");
    Outcome::Unknown(poisoned(&message, &folder.path).with_source(error))
}
