//! A handle in a forked child, and one whose file was taken away.

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use taffrail::prelude::*;
use taffrail::{ErrorKind, SqliteCheckpointer};

use crate::{Scratch, ids, put};

const FILE: &str = "TAFFRAIL_TEST_SQLITE_FORK";

/// The program that forks, at first alone, then beside a worker that is mostly in the middle of a put.
#[test]
fn forker() {
    let Ok(file) = std::env::var(FILE) else { return };
    let place = SqliteCheckpointer::open(&file).unwrap();
    put(&place, "t", "a", b"1");
    assert!(fork_is_refused(&place));
    let (worker, done) = (place.clone(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Relaxed) {
                put(&worker, "beside", "a", b"1");
                assert_eq!(ids(&worker, "beside"), ["a"]);
            }
        });
        let refused = (0..20).all(|_| fork_is_refused(&place));
        done.store(true, Relaxed);
        assert!(refused, "a child's copy answers Poisoned beside a put of its parent");
    });
    put(&place, "t", "b", b"2");
    println!("all went well");
}

/// Forks a child that uses the place and gives its copy up: whether it was refused, and did not wait for ever.
fn fork_is_refused(place: &SqliteCheckpointer) -> bool {
    let is_refused = |kind: Option<ErrorKind>| kind == Some(ErrorKind::Poisoned);
    // SAFETY: the child leaves without unwinding or running the test program's exit handlers.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: the call touches no memory; the signal ends a child that waits for ever.
        unsafe { libc::alarm(20) };
        let read = is_refused(place.get_bytes("t").err().map(|error| error.kind()));
        let written = is_refused(place.put("t", &2).err().map(|error| error.kind()));
        // SAFETY: the child leaves by _exit, so its copy is dropped this once.
        drop(unsafe { std::ptr::read(place) });
        // SAFETY: as above.
        unsafe { libc::_exit(i32::from(!(read && written))) }
    }
    let mut status = -1;
    // SAFETY: the status is ours to write.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    status == 0
}

#[test]
fn a_forked_child_harms_nobody() {
    let scratch = Scratch::new();
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command.args(["--exact", "forked::forker", "--nocapture"]).env(FILE, scratch.file()).output().unwrap();
    assert!(output.status.success() && String::from_utf8_lossy(&output.stdout).contains("all went well"), "{output:?}");
    assert_eq!(ids(&scratch.open().unwrap(), "t"), ["b", "a"]);
}

#[test]
fn a_file_that_was_moved_away_takes_no_more() {
    let scratch = Scratch::new();
    let place = scratch.open().unwrap();
    put(&place, "t", "a", b"1");
    let moved = scratch.0.path().join("moved.db");
    fs::rename(scratch.file(), &moved).unwrap();
    assert_eq!(place.put("t", &2).unwrap_err().kind(), ErrorKind::Poisoned);
    // Another file in its place is not taken for it either.
    let other = Scratch::new();
    put(&other.open().unwrap(), "theirs", "a", b"1");
    fs::copy(other.file(), scratch.file()).unwrap();
    assert_eq!(place.put("t", &2).unwrap_err().kind(), ErrorKind::Poisoned);
    assert_eq!(place.threads().err().map(|error| error.kind()), Some(ErrorKind::Poisoned), "a first read opens by name");
    assert_eq!(fs::read(scratch.file()).unwrap(), fs::read(other.file()).unwrap());
    fs::remove_file(scratch.file()).unwrap();
    fs::rename(&moved, scratch.file()).unwrap();
    put(&place, "t", "b", b"2");
    drop(place);
    assert_eq!(ids(&scratch.open().unwrap(), "t"), ["b", "a"]);
}
