//! Power cuts: a real file system on a loop device is shut down under its writers, without writing anything
//! back, and mounted again. What was acknowledged has been on the device.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use crate::mounts;
use crate::writer::{WORKERS, acknowledged, check_all_sorts, spawn_all_sorts};

const MOUNTED: &str = "TAFFRAIL_TEST_POWER_DISK";
/// Rounds on ext4, half as many on xfs and a tenth on btrfs; 10, 10 and 3 at least.
const ROUNDS: &str = "TAFFRAIL_POWER_ROUNDS";
const SEED: &str = "TAFFRAIL_POWER_SEED";
/// So many rounds go over one store, which grows with each.
const ROUNDS_OF_A_STORE: u64 = 60;
const WRITERS: usize = 2;
/// Shuts a file system down at once; with 2 as its argument the journal is not written either.
const FS_IOC_SHUTDOWN: libc::Ioctl = 0x8004_587d;

fn shut_down(disk: &Path) {
    let root = File::open(disk).unwrap();
    let without_log: u32 = 2;
    // SAFETY: the call reads four bytes at the pointer, which outlive it.
    let answer = unsafe { libc::ioctl(root.as_raw_fd(), FS_IOC_SHUTDOWN, &raw const without_log) };
    assert_eq!(answer, 0, "{}", std::io::Error::last_os_error());
}

fn shell(script: &str, disk: &Path) {
    let ran = Command::new("sh").args(["-c", script, "sh"]).arg(disk).output().unwrap();
    assert!(ran.status.success(), "{script}: {}", String::from_utf8_lossy(&ran.stderr));
}

/// What the loop device holds is left, and nothing else. Where the file system cannot be shut down a copy
/// of the image, taken while it is mounted, takes its place.
fn cut_off(disk: &Path, by_copy: bool) {
    if by_copy {
        shell("cp --sparse=always \"$1.img\" \"$1.copy\"", disk);
    } else {
        shut_down(disk);
    }
}

/// Returns once no thread of a process runs or is within a call: what follows its name in `stat` is T.
fn wait_until_stopped(child: &Child) {
    let tasks = format!("/proc/{}/task", child.id());
    let is_stopped = || {
        std::fs::read_dir(&tasks).unwrap().all(|task| {
            let stat = std::fs::read_to_string(task.unwrap().path().join("stat"));
            // One that ended meanwhile does nothing either.
            stat.map_or(true, |stat| stat.rsplit_once(')').is_some_and(|(_, after)| after.trim_start().starts_with(['T', 'Z', 'X'])))
        })
    };
    let begun = Instant::now();
    while !is_stopped() {
        assert!(begun.elapsed() < Duration::from_secs(60), "process {} does not stop", child.id());
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn number_in(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text:?}")))
}

/// Runs in a mount namespace of its own, where the directory is a file system of its own.
#[test]
fn inside_a_disk_of_its_own() {
    let Some(disk) = std::env::var_os(MOUNTED) else { return };
    let disk = Path::new(&disk);
    let kind = disk.file_name().unwrap().to_str().unwrap();
    let rounds = number_in(ROUNDS).unwrap_or(0);
    let rounds = match kind {
        "ext4" => rounds.max(10),
        "xfs" => (rounds / 2).max(10),
        _ => (rounds / 10).max(3),
    };
    let dir = disk.join("store");
    let mut acked = BTreeMap::new();
    let mut total = 0;
    let mut seed = number_in(SEED).unwrap_or_else(|| u64::from(std::process::id()) | 1);
    println!("power, {kind}: {SEED}={seed} cargo test --test kill power");
    for round in 0..rounds {
        if round % ROUNDS_OF_A_STORE == 0 {
            let _ = std::fs::remove_dir_all(&dir);
            acked.clear();
        }
        let mut writers: Vec<_> = (0..WRITERS).map(|number| spawn_all_sorts(&dir, number * WORKERS)).collect();
        let mut told: Vec<_> = writers.iter_mut().map(|child| BufReader::new(child.stdout.take().unwrap())).collect();
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let enough = if round % 6 == 5 { 0 } else { 1 + (seed >> 40) % 80 };
        total += acknowledged(&mut told[round as usize % WRITERS], &mut acked, Some(enough));
        std::thread::sleep(Duration::from_micros((seed >> 33) % 3_000));
        // Stopped first: a sync that is under way while the power goes may answer that it went well.
        writers.iter().for_each(|child| shell(&format!("kill -STOP {}", child.id()), disk));
        writers.iter().for_each(wait_until_stopped);
        cut_off(disk, kind == "btrfs");
        for (child, told) in writers.iter_mut().zip(&mut told) {
            child.kill().unwrap();
            total += acknowledged(told, &mut acked, None);
            let ended = child.wait().unwrap();
            assert!(ended.code().is_none(), "round {round}: a writer ended by itself: {ended}");
        }
        shell("umount \"$1\" && { [ ! -e \"$1.copy\" ] || mv \"$1.copy\" \"$1.img\"; } && mount -o loop \"$1.img\" \"$1\"", disk);
        check_all_sorts(&dir, &mut acked, &format!("{kind}, round {round}, cut off after {enough} puts"), WRITERS);
    }
    println!("power, {kind}: {rounds} rounds, {total} puts acknowledged for good: done");
}

fn cuts(kind: &str, size: &str) {
    if !mounts::has(&format!("mkfs.{kind}")) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let disk = scratch.path().join(kind);
    std::fs::create_dir(&disk).unwrap();
    let force = if kind == "ext4" { "-F" } else { "-f" };
    let mount = format!("truncate -s {size} \"$1.img\" && mkfs.{kind} -q {force} \"$1.img\" && mount -o loop \"$1.img\" \"$1\"");
    mounts::inside(&mount, &disk, "power::inside_a_disk_of_its_own", MOUNTED, ": done");
}

#[test]
fn acknowledged_puts_survive_power_cuts_on_ext4() {
    cuts("ext4", "64M");
}

#[test]
fn acknowledged_puts_survive_power_cuts_on_xfs() {
    cuts("xfs", "320M");
}

#[test]
fn acknowledged_puts_survive_power_cuts_on_btrfs() {
    cuts("btrfs", "128M");
}
