//! A place of files: crashed at each point of each kind of write, and with each call failing.
//!
//! Whatever a crash leaves opens to what stood before the write or to all of it; to all of it once it was
//! answered. So does a disk of which the opening was interrupted. A call that fails leaves nothing of
//! the write and a handle that goes on, or a poisoned one, and then the next opening is to tell.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::choose::{self, Chance};
use super::disk::Disk;
use super::memory::{Change, Fault, Image, Memory};
use crate::backend::file::FileCheckpointer;
use crate::batch::{Batch, OnExisting, PutOptions};
use crate::checkpoint::{CheckpointId, TypeTag};
use crate::checkpointer::Checkpointer;
use crate::error::{ErrorKind, Result};
use crate::query::{HistoryQuery, VacuumQuery};

const DIR: &str = "/place";
const THREADS: [&str; 5] = ["full", "few", "../x", "new", "waits"];

/// What was looked at.
#[derive(Clone, Debug, Default)]
pub struct Looked {
    /// Disks that were opened.
    pub images: usize,
    /// Calls that failed.
    pub failed: usize,
    /// What was wrong; the first few.
    pub violations: Vec<String>,
}

/// Per thread its checkpoints, oldest first (id, seq, state), what is attached to any of the ids, and how many it keeps.
type Contents = BTreeMap<String, (Vec<(String, u64, Vec<u8>)>, Vec<String>, Option<usize>)>;

struct Write {
    name: &'static str,
    run: fn(&FileCheckpointer) -> Result<()>,
}

const WRITES: [Write; 20] = [
    Write { name: "a put", run: |place| put(place, "new", "a") },
    Write { name: "a put that trims", run: |place| put(place, "full", "d") },
    Write { name: "an id put again", run: |place| put(place, "full", "b") },
    Write { name: "an attachment", run: |place| attach(place, "few", "a", "other") },
    Write { name: "an attachment replaced", run: |place| attach(place, "full", "b", "k") },
    Write { name: "an attachment before its checkpoint", run: |place| attach(place, "new", "a", "k") },
    Write { name: "a checkpoint deleted", run: |place| place.delete_checkpoint("full", &id("b")).map(drop) },
    Write { name: "the last checkpoint deleted", run: |place| place.delete_checkpoint("few", &id("a")).map(drop) },
    Write { name: "a thread deleted", run: |place| place.delete("full").map(drop) },
    Write { name: "a limit", run: |place| place.retain(None, Some(1)) },
    Write { name: "a thread's own limit", run: |place| place.retain(Some("few"), None) },
    Write { name: "a vacuum", run: |place| place.vacuum(&VacuumQuery { keep: Some(2), ..VacuumQuery::default() }).map(drop) },
    Write { name: "a batch", run: batch },
    Write { name: "a fork at the head", run: |place| place.fork("full", None, "new").map(drop) },
    Write { name: "a fork at the oldest", run: |place| place.fork("full", Some(&id("a")), "new").map(drop) },
    Write { name: "a fork to where something waits", run: |place| place.fork("few", None, "waits").map(drop) },
    Write { name: "a rename", run: |place| place.rename("few", "new") },
    Write { name: "a rename to where something waits", run: |place| place.rename("full", "waits") },
    Write { name: "a rollback", run: |place| place.rollback("full", &id("a")).map(drop) },
    Write { name: "a rollback to the head", run: |place| place.rollback("full", &id("c")).map(drop) },
];

fn id(text: &str) -> CheckpointId {
    CheckpointId::new(text).unwrap_or_else(|_| CheckpointId::fresh())
}

fn put(place: &FileCheckpointer, thread: &str, own: &str) -> Result<()> {
    let state = format!("[{:?}, {:?}]", own, "long ".repeat(200));
    place.put_bytes(thread, TypeTag::JSON, state.as_bytes(), PutOptions::default().id(id(own))).map(drop)
}

fn attach(place: &FileCheckpointer, thread: &str, own: &str, key: &str) -> Result<()> {
    place.attach(thread, &id(own), key, TypeTag::BYTES, b"\0attached", OnExisting::Replace).map(drop)
}

fn batch(place: &FileCheckpointer) -> Result<()> {
    let mut batch = Batch::new();
    batch.delete("few", None).put("few", TypeTag::JSON, b" 1", PutOptions::default().id(id("z")));
    batch.put("full", TypeTag::BYTES, &[7; 700], PutOptions::default().id(id("d"))).delete("full", Some(id("b")));
    batch.attach("full", id("d"), "k", TypeTag::JSON, b"2", OnExisting::Keep).put(
        "new",
        TypeTag::JSON,
        b"3",
        PutOptions::default().id(id("a")),
    );
    batch.put("../x", TypeTag::JSON, b"4", PutOptions::default().id(id("a"))).attach(
        "new",
        id("e"),
        "k",
        TypeTag::JSON,
        b"5",
        OnExisting::Keep,
    );
    place.commit(&batch).map(drop)
}

/// What every write finds.
fn prepare(place: &FileCheckpointer) -> Result<()> {
    for own in ["a", "b", "c"] {
        put(place, "full", own)?;
        place.attach("full", &id(own), "k", TypeTag::JSON, b"1", OnExisting::Keep)?;
    }
    put(place, "few", "a")?;
    attach(place, "few", "e", "k")?;
    place.retain(Some("few"), Some(2))?;
    for (own, key) in [("b", "k"), ("e", "k"), ("e", "other"), ("z", "k")] {
        attach(place, "waits", own, key)?;
    }
    put(place, "../x", "a")
}

fn open(fs: &Memory) -> Result<FileCheckpointer> {
    let mut options = FileCheckpointer::options();
    options.fs = Arc::new(fs.clone());
    options.open(DIR)
}

fn contents(place: &FileCheckpointer) -> Result<Contents> {
    let mut contents = Contents::new();
    for thread in THREADS {
        let newest_first = place.history_bytes(thread, &HistoryQuery::default())?;
        let mut states: Vec<_> = newest_first
            .map(|read| read.map(|read| (read.info.id.to_string(), read.info.seq, read.state.to_vec())))
            .collect::<Result<_>>()?;
        states.reverse();
        let mut attached = Vec::new();
        for own in ["a", "b", "c", "d", "e", "z"] {
            for one in place.attachments(thread, &id(own))? {
                attached.push(format!("{own} {} {:?}", one.key, &*one.value));
            }
        }
        contents.insert(thread.to_owned(), (states, attached, place.max_history(Some(thread))?));
    }
    Ok(contents)
}

/// The disk behind some changes that were made to an image, and nothing of them lost.
fn image_of(before: Image, changes: &[Change]) -> std::result::Result<Image, String> {
    let mut disk = Disk::of(before);
    changes.iter().try_for_each(|change| disk.take(change))?;
    Ok(disk.image(&choose::all(&disk)))
}

/// Looks at all writes; `by_chance` disks at each point beside those that are always looked at.
pub fn files(by_chance: usize, seed: u64) -> Looked {
    let mut look = Look { by_chance, chance: Chance::new(seed), looked: Looked::default() };
    if let Err(what) = look.all() {
        look.looked.violations.push(format!("{what}, TAFFRAIL_CRASH_SEED={seed}"));
    }
    look.looked
}

struct Look {
    by_chance: usize,
    chance: Chance,
    looked: Looked,
}

type Checked = std::result::Result<(), String>;

fn text(error: crate::error::Error) -> String {
    format!("{error:?}")
}

impl Look {
    fn all(&mut self) -> Checked {
        let fs = Memory::of(&Image::empty(), 1);
        fs.record();
        let place = open_with_limit(&fs).map_err(text)?;
        let made = fs.recorded();
        let empty = contents(&place).map_err(text)?;
        // Nothing is there yet, or a place in which nothing is.
        self.crash("the making", Image::empty(), &made, &[&empty], &empty)?;
        prepare(&place).map_err(text)?;
        let put = fs.recorded();
        drop(place);
        let image = image_of(Image::empty(), &[made, put].concat())?;
        for Write { name, run } in &WRITES {
            let fs = Memory::of(&image, 1);
            let place = open(&fs).map_err(text)?;
            let before = contents(&place).map_err(text)?;
            fs.record();
            run(&place).map_err(text)?;
            let changes = fs.recorded();
            let after = contents(&place).map_err(text)?;
            self.crash(name, image.clone(), &changes, &[&before, &after], &after)?;
            self.fail(name, &image, *run, [&before, &after])?;
        }
        Ok(())
    }

    /// Crashes at each point of some changes, and in the openings of what that leaves.
    fn crash(&mut self, name: &str, image: Image, changes: &[Change], allowed: &[&Contents], after: &Contents) -> Checked {
        let mut disk = Disk::of(image);
        for at in 0..=changes.len() {
            let allowed = if at == changes.len() { &[after] } else { allowed };
            let mut choices = choose::always(&disk);
            choices.extend((0..self.by_chance).map(|_| choose::by_chance(&disk, &mut self.chance)));
            for choice in choices {
                let left = disk.image(&choice);
                let what = |what: String| format!("{name}, power cut at change {at} of {changes:?}, {choice:?}: {what}");
                self.opens(&left, Disk::of(left.clone()), allowed).map_err(what)?;
            }
            // What a killed process wrote without a sync the next one reads; a power cut takes it all the same.
            let all = disk.image(&choose::all(&disk));
            let what = |what: String| format!("{name}, killed at change {at} of {changes:?}: {what}");
            self.opens(&all, disk.clone(), allowed).map_err(what)?;
            if let Some(change) = changes.get(at) {
                disk.take(change)?;
            }
        }
        Ok(())
    }

    /// Opens what a crash has left, at once and behind a power cut in the opening, which finds `disk`; and
    /// behind the opening, which has shown something.
    fn opens(&mut self, left: &Image, mut disk: Disk, allowed: &[&Contents]) -> Checked {
        let fs = Memory::of(left, 2);
        fs.record();
        let found = self.is_one_of(&fs, allowed)?;
        let changes = fs.recorded();
        for (at, change) in changes.iter().enumerate() {
            disk.take(change)?;
            let shown = [&found];
            let allowed = if at + 1 == changes.len() { &shown } else { allowed };
            for choice in [choose::all(&disk), choose::none(&disk), choose::by_chance(&disk, &mut self.chance)] {
                let again = Memory::of(&disk.image(&choice), 3);
                self.is_one_of(&again, allowed).map_err(|what| format!("then at change {at} of {changes:?}, {choice:?}: {what}"))?;
            }
        }
        // It goes on, and what it had stays.
        let place = open(&fs).map_err(text)?;
        put(&place, "new", "later").map_err(text)?;
        let head = place.head("new").map_err(text)?;
        let last = found.values().flat_map(|(states, ..)| states).map(|(_, seq, _)| *seq).max();
        if head.map(|head| head.seq) <= last {
            return Err("a seq was given twice".to_owned());
        }
        Ok(())
    }

    fn is_one_of(&mut self, fs: &Memory, allowed: &[&Contents]) -> std::result::Result<Contents, String> {
        self.looked.images += 1;
        let place = open_with_limit(fs).map_err(|error| format!("does not open: {error:?}"))?;
        let found = contents(&place).map_err(|error| format!("cannot be read: {error:?}"))?;
        if !allowed.contains(&&found) {
            return Err(format!("shows {found:?} and not one of {allowed:?}"));
        }
        Ok(found)
    }

    /// Has each call of a write fail, once and from then on, for want of room and for another reason.
    fn fail(&mut self, name: &str, image: &Image, run: fn(&FileCheckpointer) -> Result<()>, [before, after]: [&Contents; 2]) -> Checked {
        for (errno, for_ever) in [(5, false), (5, true), (28, false), (28, true)] {
            for at in 0.. {
                let fs = Memory::of(image, 1);
                let place = open(&fs).map_err(text)?;
                fs.fail(Some(Fault { at, for_ever, errno, short: 40 }));
                let answer = run(&place);
                let has_failed = fs.has_failed();
                fs.fail(None);
                let what = |what: String| format!("{name}, call {at} fails with {errno}, for ever: {for_ever}, {answer:?}: {what}");
                self.is_true(&fs, place, run, &answer, [before, after]).map_err(what)?;
                if !has_failed {
                    break;
                }
                self.looked.failed += 1;
            }
        }
        Ok(())
    }

    /// Holds an answer against what is there.
    fn is_true(
        &mut self,
        fs: &Memory,
        place: FileCheckpointer,
        run: fn(&FileCheckpointer) -> Result<()>,
        answer: &Result<()>,
        [before, after]: [&Contents; 2],
    ) -> Checked {
        let poisoned = matches!(answer, Err(error) if error.kind() == ErrorKind::Poisoned);
        if !poisoned {
            let shown = contents(&place).map_err(text)?;
            if shown != *if answer.is_ok() { after } else { before } {
                return Err(format!("shows {shown:?}"));
            }
            if answer.is_err() {
                run(&place).map_err(|error| format!("does not go on: {error:?}"))?;
                let shown = contents(&place).map_err(text)?;
                if shown != *after {
                    return Err(format!("goes on to {shown:?}"));
                }
            }
        } else if run(&place).is_ok() {
            return Err("a poisoned handle goes on".to_owned());
        }
        drop(place);
        let allowed: &[&Contents] = if poisoned { &[before, after] } else { &[after] };
        self.is_one_of(fs, allowed).map(drop)
    }
}

/// Opens; a place that is not there yet keeps three of each thread.
fn open_with_limit(fs: &Memory) -> Result<FileCheckpointer> {
    use crate::fs::Fs;
    let is_there = fs.is_dir(&Path::new(DIR).join("MANIFEST.json")).ok().flatten().is_some();
    let mut options = FileCheckpointer::options();
    if !is_there {
        options = options.max_history(3);
    }
    options.fs = Arc::new(fs.clone());
    options.open(DIR)
}
