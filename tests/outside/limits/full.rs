//! A disk that has room for so many more blocks, from none to what two rotations take; and one that is too small
//! for a store at all. (`tests/rules` fills a disk by putting.)

use std::fs::{self, File};
use std::path::Path;

use crate::judge::{judge, possible, shown};
use crate::mounts;
use crate::role::{self, Hand, Told, copy_of};
use crate::scratch::Scratch;
use crate::script::{self, Script, Step, named};

const DISK: &str = "TAFFRAIL_TEST_OUTSIDE_FULL";
const BLOCK: u64 = 4096;

/// Leaves so many blocks of the disk.
fn leave(disk: &Path, blocks: u64) -> File {
    let ballast = File::create(disk.join("ballast")).unwrap();
    let free = rustix::fs::statvfs(disk).unwrap();
    let filled = (free.f_bavail * free.f_frsize).saturating_sub(blocks * BLOCK);
    // A small file system keeps some of what it says is free for itself.
    let flags = rustix::fs::FallocateFlags::empty();
    (0..64).find(|less| rustix::fs::fallocate(&ballast, flags, 0, filled.saturating_sub(less * BLOCK).max(1)).is_ok()).unwrap();
    ballast
}

/// Does a script with so many blocks left; with room again all is as it was told. Answers how many steps found
/// no room.
fn squeezed(disk: &Path, script: &Script, blocks: u64) -> Result<usize, String> {
    let dir = disk.join("store");
    role::prepare(script, "", &dir);
    let ballast = leave(disk, blocks);
    let mut hand = Hand::new(&dir, "");
    let mut told: Vec<(usize, Told)> = Vec::new();
    for (number, step) in script.all().skip(script.before.len()) {
        let how = hand.does(number, step).map_err(|error| format!("{:?} {error}", error.kind()));
        if let Err(why) = &how
            && !why.starts_with("DiskFull")
            && why != script::CLOSED
        {
            return Err(format!("{step:?}: {why}"));
        }
        told.push((number, how));
        if let Some(store) = hand.store() {
            let shown = shown(store, "").map_err(|error| format!("a read on a full disk: {error}"))?;
            let until = Script { steps: &script.steps[..=number - script.before.len()], ..*script };
            if !possible(&until, "", &told, true).contains(&shown) {
                return Err(format!("on a full disk it shows something else behind step {number}: {told:?}"));
            }
        }
    }
    let refused = told.iter().filter(|(_, how)| how.as_ref().is_err_and(|why| why.starts_with("DiskFull"))).count();
    // What deletes has room that is kept for it.
    let deletes = |(number, how): &&(usize, Told)| {
        matches!(script.all().nth(*number).unwrap().1, Step::Delete(_) | Step::DeleteOne(..)) && how.is_err()
    };
    if let Some((number, Err(why))) = told.iter().find(deletes)
        && why != script::CLOSED
    {
        return Err(format!("step {number} could not delete: {why}"));
    }
    fs::remove_file(disk.join("ballast")).unwrap();
    drop((ballast, hand));
    judge(&dir, "", &possible(script, "", &told, true)).map_err(|what| format!("{what}; told {told:?}"))?;
    for entry in fs::read_dir(disk).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.starts_with(&dir) || script.all().any(|(number, _)| entry == copy_of(&dir, number)) {
            fs::remove_dir_all(entry).unwrap();
        }
    }
    Ok(refused)
}

/// Runs in a mount namespace of its own, where the directory is a small disk.
#[test]
fn inside() {
    let Some(disk) = std::env::var_os(DISK) else { return };
    let disk = Path::new(&disk);
    let scripts = ["create", "put", "batch", "rotate", "compact", "delete", "backup", "repair", "mixed"];
    let all: Vec<_> = scripts.iter().flat_map(|name| (0..72).map(|blocks| (named(name), blocks))).collect();
    let (mut runs, mut refused) = (0, 0);
    for (script, blocks) in crate::sampled(all, 60) {
        refused += squeezed(disk, script, blocks).unwrap_or_else(|what| panic!("{}, {blocks} blocks left: {what}", script.name));
        runs += 1;
    }
    println!("full: {runs} runs, {refused} steps found no room");
    assert!(refused > runs / 4);
    println!("full: done");
}

#[test]
fn a_disk_with_little_room_left() {
    let tmpfs = "mount -t tmpfs -o size=4m none \"$1\"";
    let ext4 = "truncate -s 8M \"$1.img\" && mkfs.ext4 -q -F -m 0 \"$1.img\" && mount -o loop \"$1.img\" \"$1\" && rmdir \"$1/lost+found\"";
    for mount in [tmpfs, ext4] {
        let scratch = Scratch::new();
        let disk = scratch.path("disk");
        fs::create_dir(&disk).unwrap();
        mounts::inside(mount, &disk, "limits::full::inside", DISK, "full: done");
    }
}

const TINY: &str = "TAFFRAIL_TEST_OUTSIDE_TINY";

/// Runs in a mount namespace of its own, where the directory is a disk of a few blocks or names, which grows.
#[test]
fn inside_a_tiny_disk() {
    let Some(disk) = std::env::var_os(TINY) else { return };
    let dir = Path::new(&disk).join("store");
    let script = named("create");
    let (mut told, mut hand) = (Vec::new(), Hand::new(&dir, ""));
    for (number, step) in script.all() {
        let how = hand.does(number, step).map_err(|error| format!("{:?} {error}", error.kind()));
        assert!(how.as_ref().err().is_none_or(|why| why.starts_with("DiskFull") || why == script::CLOSED), "{how:?}");
        told.push((number, how));
    }
    drop(hand);
    crate::disks::run(std::process::Command::new("mount").args(["-o", "remount,size=4m,nr_inodes=100"]).arg(&disk)).unwrap();
    judge(&dir, "", &possible(script, "", &told, true)).unwrap_or_else(|what| panic!("{what}: {told:?}"));
    println!("tiny: done, {}", if told.iter().all(|(_, how)| how.is_ok()) { "large enough" } else { "too small" });
}

#[test]
fn a_disk_too_small_for_a_store() {
    let by_size = (1..=40).map(|blocks| format!("size={}k", blocks * 4));
    let by_names = (2..=14).map(|names| format!("size=4m,nr_inodes={names}"));
    for limit in crate::sampled(by_size.chain(by_names).collect(), 8) {
        let scratch = Scratch::new();
        let disk = scratch.path("disk");
        fs::create_dir(&disk).unwrap();
        let mount = format!("mount -t tmpfs -o {limit} none \"$1\"");
        mounts::inside(&mount, &disk, "limits::full::inside_a_tiny_disk", TINY, "tiny: done");
    }
}
