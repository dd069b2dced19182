//! Power cuts: a real file system on a loop device is shut down under the writer, without writing
//! anything back, and mounted again. What was acknowledged has been on the device.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::mounts;
use crate::writer::{acknowledged, check, spawn};

const MOUNTED: &str = "TAFFRAIL_TEST_POWER_DISK";
const ROUNDS: u64 = 30;
/// Shuts a file system down at once; with 2 as its argument the journal is not written either.
const FS_IOC_SHUTDOWN: libc::Ioctl = 0x8004_587d;

fn cut_off(disk: &Path) {
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

/// Runs in a mount namespace of its own, where the directory is an ext4 of 64 MiB.
#[test]
fn inside_a_disk_of_its_own() {
    let Some(disk) = std::env::var_os(MOUNTED) else { return };
    let disk = Path::new(&disk);
    let dir = disk.join("store");
    let mut acked = BTreeMap::new();
    let mut seed = u64::from(std::process::id()) | 1;
    println!("seed {seed}");
    for round in 0..ROUNDS {
        let mut child = spawn(&dir, false, &[]);
        let mut told = BufReader::new(child.stdout.take().unwrap());
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let enough = if round % 6 == 5 { 0 } else { 1 + (seed >> 40) % 80 };
        acknowledged(&mut told, &mut acked, Some(enough));
        std::thread::sleep(Duration::from_micros((seed >> 33) % 3_000));
        // Stopped first: a sync that is under way while the power goes may answer that it went well.
        shell(&format!("kill -STOP {}", child.id()), disk);
        std::thread::sleep(Duration::from_millis(10));
        cut_off(disk);
        child.kill().unwrap();
        acknowledged(&mut told, &mut acked, None);
        child.wait().unwrap();
        shell("umount \"$1\" && mount -o loop \"$1.img\" \"$1\"", disk);
        check(&dir, &mut acked, &format!("round {round}, cut off after {enough} puts"));
    }
    println!("power: done");
}

#[test]
fn acknowledged_puts_survive_power_cuts() {
    let scratch = tempfile::tempdir().unwrap();
    let disk = scratch.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let mount = "truncate -s 64M \"$1.img\" && mkfs.ext4 -q -F \"$1.img\" && mount -o loop \"$1.img\" \"$1\"";
    mounts::inside(mount, &disk, "power::inside_a_disk_of_its_own", MOUNTED, "power: done");
}
