//! kill -9 of the writer, again and again on one directory; some are killed while they open and
//! recover, and some at each of their system calls.

use std::collections::BTreeMap;
use std::io::BufReader;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::writer::{acknowledged, caught_up, check, spawn};

#[test]
fn acknowledged_puts_survive_sixty_kills() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("store");
    let mut acked = BTreeMap::new();
    let mut total = 0;
    let mut seed = std::process::id() as u64 | 1;
    println!("seed {seed}");
    for round in 0..60u64 {
        let mut child = spawn(&dir, round % 3 == 2, &[]);
        let mut told = BufReader::new(child.stdout.take().unwrap());
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // Some are killed while they open, most after some puts; when exactly is left to chance.
        let enough = if round % 6 == 5 { 0 } else { 1 + (seed >> 40) % 40 };
        total += acknowledged(&mut told, &mut acked, Some(enough));
        std::thread::sleep(Duration::from_micros((seed >> 33) % 3_000));
        child.kill().unwrap();
        total += acknowledged(&mut told, &mut acked, None);
        let ended = child.wait_with_output().unwrap();
        assert!(ended.status.code().is_none(), "the writer ended by itself: {}", String::from_utf8_lossy(&ended.stderr));
        // Every other round the next writer recovers itself, and may be killed at that too.
        if round % 2 == 1 {
            check(&dir, &mut acked, &format!("round {round}, killed after {enough} puts"));
        } else {
            caught_up(&dir, &mut acked);
        }
    }
    assert!(total > 500, "only {total} puts were acknowledged: nothing was tested");
}

#[test]
fn killed_at_each_system_call() {
    if Command::new("strace").arg("-V").stdout(Stdio::null()).status().is_err() {
        println!("SKIP strace is not there");
        return;
    }
    for (call, times) in [("pwritev", 12), ("fdatasync", 12), ("fsync", 7), ("rename", 4)] {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("store");
        let mut acked = BTreeMap::new();
        for when in 1..=times {
            // A large state, a rotation and an unclean opening come up within a few dozen puts.
            let when = if call == "pwritev" || call == "fdatasync" { when * 3 } else { when };
            let inject = format!("inject={call}:signal=SIGKILL:when={when}");
            let trace = format!("trace={call}");
            let mut child = spawn(&dir, false, &["strace", "-f", "-qq", "-o", "/dev/null", "-e", &trace, "-e", &inject]);
            acknowledged(&mut BufReader::new(child.stdout.take().unwrap()), &mut acked, None);
            let ended = child.wait_with_output().unwrap();
            let error = String::from_utf8_lossy(&ended.stderr).into_owned();
            if error.contains("ptrace") || error.contains("nvalid") {
                println!("SKIP strace cannot be used here: {error}");
                return;
            }
            if dir.join("MANIFEST").exists() {
                check(&dir, &mut acked, &format!("killed at {call} {when}"));
            }
            caught_up(&dir, &mut acked);
            assert!(!ended.status.success(), "{call} {when} did not kill the writer");
        }
    }
}
