//! Each distinct image is opened and judged by what the program had said by then; and two controls show that
//! the judge would notice: disks that keep nothing when a file, or a directory, is synced.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::Path;
use std::sync::mpsc;

use super::disk::{Disk, Syncs};
use super::sources::{Traced, of_the_command_line, of_the_library};
use super::variants::{Image, each};
use crate::calls::is_possible;
use crate::judge::{after_power_cut, judge, judge_copies};
use crate::role::{self, Told};
use crate::scratch::{Scratch, put_page};
use crate::script::{self, Script, named};

/// An image to be judged.
struct Trial {
    script: &'static Script,
    files: BTreeMap<String, Option<Vec<u8>>>,
    told: Vec<(usize, Told)>,
    how: String,
}

impl Trial {
    fn new(script: &'static Script, image: &Image, told: &[u8], event: usize) -> Trial {
        let files = image.there.iter().map(|(path, bytes)| (path.clone(), bytes.as_ref().map(|bytes| bytes.bytes.to_vec()))).collect();
        Trial { script, files, told: role::told(told), how: format!("{}, behind call {event}: {}", script.name, image.how) }
    }

    fn judged(&self) -> Result<(), String> {
        let scratch = Scratch::new();
        for (path, bytes) in &self.files {
            match bytes {
                None => fs::create_dir(scratch.path(path)).unwrap(),
                Some(bytes) => fs::write(scratch.path(path), bytes).unwrap(),
            }
        }
        for (path, page) in self.files.iter().filter(|(path, _)| path.ends_with("/tail")) {
            let page = page.as_ref().unwrap();
            if page.iter().any(|&byte| byte != 0) {
                put_page(scratch.path(path).parent().unwrap(), page);
            }
        }
        let dir = scratch.path("store");
        judge(&dir, "", &after_power_cut(self.script, &self.told, false))
            .and_then(|()| judge_copies(Path::new(&dir), self.script, "", &self.told))
    }
}

/// What came of judging.
#[derive(Debug, Default)]
struct Judged {
    distinct: usize,
    judged: usize,
    wrong: Vec<String>,
}

/// Judges one in `stride` of a trace's distinct images.
fn judge_images(traced: &Traced, syncs: Syncs, stride: usize) -> Judged {
    let (give, take) = mpsc::sync_channel::<Trial>(64);
    let take = std::sync::Mutex::new(take);
    let wrong = std::sync::Mutex::new(Vec::new());
    let mut seen = HashSet::new();
    let mut judged = 0;
    std::thread::scope(|scope| {
        for _ in 0..crate::workers() {
            scope.spawn(|| {
                while let Ok(trial) = { take.lock().unwrap().recv() } {
                    if let Err(what) = trial.judged() {
                        wrong.lock().unwrap().push(format!("{}: {what}", trial.how));
                    }
                }
            });
        }
        let mut disk = Disk::new(syncs, traced.before.clone());
        for (number, event) in traced.events.iter().enumerate() {
            disk.takes(event);
            each(&disk, |image| {
                if seen.insert(image.hash(&disk.told)) && seen.len().is_multiple_of(stride) {
                    judged += 1;
                    give.send(Trial::new(traced.script, &image, &disk.told, number)).unwrap();
                }
            });
        }
        drop(give);
    });
    Judged { distinct: seen.len(), judged, wrong: wrong.into_inner().unwrap() }
}

/// The scripts whose steps the command line can do.
const COMMAND_LINE: [&str; 3] = ["create", "delete", "compact"];

#[test]
fn what_a_power_cut_leaves_of_the_real_calls() {
    if !is_possible() {
        return;
    }
    let stride = 10_000 / crate::share(10_000, 400);
    let mut whole = Judged::default();
    let mut judge = |source: &str, traced: Traced| {
        let one = judge_images(&traced, Syncs::Kept, stride);
        println!("{} by {source}: {} calls, {} images, {} judged", traced.script.name, traced.events.len(), one.distinct, one.judged);
        whole.distinct += one.distinct;
        whole.judged += one.judged;
        whole.wrong.extend(one.wrong);
    };
    for script in script::wanted() {
        judge("the library", of_the_library(script));
        if COMMAND_LINE.contains(&script.name) {
            judge("the command line", of_the_command_line(script));
        }
    }
    println!("images: {} distinct, {} judged", whole.distinct, whole.judged);
    assert!(whole.wrong.is_empty(), "{} images went wrong:\n{}", whole.wrong.len(), whole.wrong.join("\n"));
    assert!(whole.judged * stride + whole.judged > whole.distinct, "only {} images", whole.judged);
}

#[test]
fn a_disk_that_keeps_nothing_is_noticed() {
    if !is_possible() {
        return;
    }
    for syncs in [Syncs::None, Syncs::FilesOnly] {
        for (name, stride) in [("create", 2), ("rotate", 25)] {
            let judged = judge_images(&of_the_library(named(name)), syncs, stride);
            println!("{syncs:?}, {name}: {} of {} images went wrong", judged.wrong.len(), judged.judged);
            assert!(!judged.wrong.is_empty(), "{syncs:?}, {name}: nobody noticed");
        }
    }
}
