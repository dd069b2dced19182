//! A file system that gives up and goes read-only under a store at work (ext4, told to abort its journal): writing
//! answers a typed error, reading goes on, and mounted again it has all that was acknowledged.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::disks::run;
use crate::judge::{after_power_cut, judge, possible, shown};
use crate::mounts;
use crate::role::{self, Hand, Told};
use crate::scratch::Scratch;
use crate::script::{Script, named};

const DISK: &str = "TAFFRAIL_TEST_OUTSIDE_ABORTED";

/// Does a script on a file system that gives up before a step. Answers how many steps were refused.
fn abandoned(disk: &Path, script: &Script, at: usize) -> Result<usize, String> {
    let (image, dir) = (disk.with_extension("img"), disk.join("store"));
    fs::File::create(&image).and_then(|file| file.set_len(16 << 20)).unwrap();
    run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image))?;
    let mount = || run(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(disk));
    mount()?;
    role::prepare(script, "", &dir);
    let mut hand = Hand::new(&dir, "");
    let mut told: Vec<(usize, Told)> = Vec::new();
    for (number, step) in script.all().skip(script.before.len()) {
        if number - script.before.len() == at {
            run(Command::new("mount").args(["-o", "remount,abort"]).arg(disk))?;
        }
        let how = hand.does(number, step).map_err(|error| format!("{:?} {error}", error.kind()));
        told.push((number, how));
        if let Some(store) = hand.store() {
            let shown = shown(store, "").map_err(|error| format!("a read behind step {number}: {error}"))?;
            let until = Script { steps: &script.steps[..=number - script.before.len()], ..*script };
            if !possible(&until, "", &told, true).contains(&shown) {
                return Err(format!("it shows something else behind step {number}: {told:?}"));
            }
        }
    }
    drop(hand);
    run(Command::new("umount").arg(disk))?;
    mount()?;
    judge(&dir, "", &after_power_cut(script, &told, true)).map_err(|what| format!("{what}; told {told:?}"))?;
    run(Command::new("umount").arg(disk))?;
    Ok(told.iter().filter(|(_, how)| how.is_err()).count())
}

/// Runs in a mount namespace of its own.
#[test]
fn inside() {
    let Some(disk) = std::env::var_os(DISK) else { return };
    let steps =
        ["put", "batch", "rotate", "compact", "delete", "mixed"].map(|name| (1..named(name).steps.len()).map(move |at| (named(name), at)));
    let (mut runs, mut refused) = (0, 0);
    for (script, at) in crate::sampled(steps.into_iter().flatten().collect(), 7) {
        refused +=
            abandoned(Path::new(&disk), script, at).unwrap_or_else(|what| panic!("{}, given up before step {at}: {what}", script.name));
        runs += 1;
    }
    println!("a file system that gives up: {runs} runs, {refused} steps refused");
    assert!(refused >= runs);
    println!("aborted: done");
}

#[test]
fn a_file_system_that_gives_up() {
    if !mounts::has("mkfs.ext4") {
        return;
    }
    let scratch = Scratch::new();
    let disk = scratch.path("disk");
    fs::create_dir(&disk).unwrap();
    mounts::inside("true", &disk, "limits::aborted::inside", DISK, "aborted: done");
}
