//! fork() after opening: the child's copy of the handle answers an error and harms nobody, whatever it
//! does; what it opens by itself is its own (field case G6).
#![allow(unsafe_code)]

use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use taffrail::prelude::*;
use taffrail::{Durability, ErrorKind, FindQuery, HistoryQuery, Options, PutOptions, ThreadQuery, TypeTag};

use crate::together;

const DIR: &str = "TAFFRAIL_TEST_FORK_DIR";
/// What a program says in which all went well.
const DONE: &str = "all went well";

/// Runs `child` in a forked child, beside this process.
fn fork(child: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child calls what the test gives it and leaves without unwinding or running the
    // test program's exit handlers.
    unsafe {
        match libc::fork() {
            0 => libc::_exit(child()),
            pid => pid,
        }
    }
}

/// The exit code of a child.
fn ended(pid: i32) -> i32 {
    let mut status = 0;
    // SAFETY: the status is ours to write.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    assert!(libc::WIFEXITED(status), "the child was ended by a signal");
    libc::WEXITSTATUS(status)
}

fn forked(child: impl FnOnce() -> i32) -> i32 {
    ended(fork(child))
}

/// A child that lives on with copies of all that was open, and runs no other program.
struct Idle(i32);

impl Idle {
    fn new() -> Idle {
        // SAFETY: waits for a signal, for ever.
        Idle(fork(|| unsafe { libc::pause() }))
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        // SAFETY: it is our child and was not waited for, so the number is still its own.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, std::ptr::null_mut(), 0);
        }
    }
}

fn is_refused<T>(answer: taffrail::Result<T>) -> bool {
    answer.is_err_and(|error| error.kind() == ErrorKind::Poisoned && error.to_string().contains("forked child"))
}

/// The program in which it happens: alone, so that no other worker holds a lock at the fork.
#[test]
fn forker() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let store = Store::open(&dir).unwrap();
    let id = store.put("t", &1).unwrap();
    store.put_with("t", &2, PutOptions::default().durability(Durability::Buffered)).unwrap();
    let all_refused = forked(|| {
        let refused = [
            is_refused(store.put("t", &3)),
            is_refused(store.get::<u32>("t")),
            is_refused(store.load::<u32>("t", &id)),
            is_refused(store.put_bytes("t", TypeTag::BYTES, b"x", PutOptions::default())),
            is_refused(store.delete("t")),
            is_refused(store.retain(None, Some(1))),
            is_refused(store.fork("t", None, "f")),
            is_refused(store.rename("t", "f")),
            is_refused(store.rollback("t", &id)),
            is_refused(store.find(&FindQuery::default()).map(drop)),
            is_refused(store.list("t", &HistoryQuery::default()).map(drop)),
            is_refused(store.list_threads(&ThreadQuery::default()).map(drop)),
            is_refused(store.stats()),
            is_refused(store.verify()),
            is_refused(store.sync()),
        ];
        // SAFETY: the child leaves by _exit, so its copy of the handle is dropped this once. It is
        // the last one there, and its drop must not sync, unlock or mark anything.
        drop(unsafe { std::ptr::read(&raw const store) });
        refused.iter().position(|refused| !refused).map_or(0, |at| at as i32 + 1)
    });
    assert_eq!(all_refused, 0, "the call of that number was not refused");
    // The parent is unharmed, and still in.
    store.put("t", &4).unwrap();
    assert_eq!(store.history::<u32>("t", None).unwrap().len(), 3);
    is_in(&dir);
    assert_eq!(together::in_another_process(dir.as_ref(), false), "3 checkpoints");
    assert_eq!(store.get_bytes("other").unwrap().unwrap().bytes, 1);
    // A program that is started, not forked, inherits nothing: closing is enough for the next one.
    let mut sleeper = Command::new("sleep").arg("10").stdin(Stdio::null()).spawn().unwrap();
    store.close().unwrap();
    let next = alone().open(&dir).unwrap();
    assert_eq!(next.get::<u32>("t").unwrap(), Some(4));
    assert!(!next.recovery().fresh_segment, "the child left the page unclean");
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    println!("{DONE}");
}

/// Comes in at once, if nobody else is in.
fn alone() -> Options {
    Store::options().single_process(true).busy_timeout(Duration::ZERO)
}

fn is_in(dir: &str) {
    assert_eq!(alone().open(dir).unwrap_err().kind(), ErrorKind::Busy);
}

/// A child that opens the store by itself is like any other process.
#[test]
fn forker_with_a_child_of_its_own() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let store = Store::options().max_history(None).open(&dir).unwrap();
    store.put("t", &0).unwrap();
    let child = fork(|| {
        let own = Store::open(&dir).unwrap();
        let puts = (1..=50).all(|number| own.put("child", &number).is_ok() && own.put("t", &number).is_ok());
        let sees = own.get::<u32>("child").unwrap() == Some(50) && own.get::<u32>("t").unwrap().is_some();
        let refused = is_refused(store.get::<u32>("t"));
        // SAFETY: as above; its own handle is still open.
        drop(unsafe { std::ptr::read(&raw const store) });
        let still_in = own.put("child", &51).is_ok() && alone().open(&dir).is_err();
        drop(own);
        [puts, sees, refused, still_in].iter().position(|went_well| !went_well).map_or(0, |at| at as i32 + 1)
    });
    (1..=50).for_each(|number| drop(store.put("t", &number).unwrap()));
    assert_eq!(ended(child), 0, "the check of that number failed in the child");
    assert_eq!(store.get::<u32>("child").unwrap(), Some(51), "the child's put is not seen at once");
    assert_eq!(store.history::<u32>("t", None).unwrap().len(), 101);
    is_in(&dir);
    store.close().unwrap();
    let next = alone().open(&dir).unwrap();
    assert!(!next.recovery().fresh_segment && next.verify().unwrap().is_empty());
    assert_eq!(next.stats().unwrap().checkpoints, 101 + 51);
    println!("{DONE}");
}

/// Children that live on, forked in the middle of puts, openings and closings, keep nothing.
#[test]
fn forker_with_idle_children() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let store = Store::options().busy_timeout(SOON).open(&dir).unwrap();
    store.put("t", &0).unwrap();
    let mut idle = Vec::new();
    let at_work = AtomicBool::new(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while at_work.load(Relaxed) {
                store.put_with("t", &1, PutOptions::default().durability(Durability::Buffered)).unwrap();
            }
        });
        scope.spawn(|| {
            while at_work.load(Relaxed) {
                Store::options().busy_timeout(SOON).open(&dir).unwrap().put("opener", &1).unwrap();
            }
        });
        for _ in 0..40 {
            idle.push(Idle::new());
            std::thread::sleep(Duration::from_micros(700));
        }
        at_work.store(false, Relaxed);
    });
    store.put("t", &2).unwrap();
    let beside = Store::options().busy_timeout(SOON).open(&dir).unwrap();
    beside.put("t", &3).unwrap();
    assert_eq!(store.get::<u32>("t").unwrap(), Some(3));
    drop(beside);
    is_in(&dir);
    store.close().unwrap();
    // All of them still live, and nobody is in.
    let next = alone().open(&dir).unwrap();
    idle.push(Idle::new());
    assert!(!next.recovery().fresh_segment && next.verify().unwrap().is_empty());
    assert_eq!(next.get::<u32>("t").unwrap(), Some(3));
    drop(next);
    Store::options().busy_timeout(SOON).open(&dir).unwrap().put("t", &4).unwrap();
    println!("{DONE}");
}

/// Longer than a turn or an opening ever takes, and shorter than the children live.
const SOON: Duration = Duration::from_secs(5);

/// Runs one of the above in a program of its own.
fn in_a_program(forker: &str) {
    let scratch = tempfile::tempdir().unwrap();
    let program = std::env::current_exe().unwrap();
    let ran = Command::new(program)
        .args(["--exact", forker, "--nocapture", "--test-threads=1"])
        .env(DIR, scratch.path().join("store"))
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && told.contains(DONE), "{told}{}", String::from_utf8_lossy(&ran.stderr));
}

#[test]
fn a_forked_child_is_refused_and_harms_nobody() {
    in_a_program("forked::forker");
}

#[test]
fn a_forked_child_may_open_the_store_by_itself() {
    in_a_program("forked::forker_with_a_child_of_its_own");
}

#[test]
fn children_that_live_on_keep_nobody_out() {
    in_a_program("forked::forker_with_idle_children");
}
