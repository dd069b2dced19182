//! fork() after opening: the child's copy answers an error and harms nobody, whatever it does.
#![allow(unsafe_code)]

use std::process::{Command, Stdio};
use std::time::Duration;

use taffrail::prelude::*;
use taffrail::{ErrorKind, HistoryQuery, PutOptions, ThreadQuery, TypeTag};

const DIR: &str = "TAFFRAIL_TEST_FORK_DIR";

/// Runs `child` in a forked child and answers its exit code.
fn forked(child: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child calls what the test gives it and leaves without unwinding or running the
    // test program's exit handlers.
    unsafe {
        match libc::fork() {
            0 => libc::_exit(child()),
            pid => {
                let mut status = 0;
                assert_eq!(libc::waitpid(pid, &raw mut status, 0), pid);
                assert!(libc::WIFEXITED(status), "the child was ended by a signal");
                libc::WEXITSTATUS(status)
            }
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
    store.put_with("t", &2, PutOptions::default().durability(taffrail::Durability::Buffered)).unwrap();
    let all_refused = forked(|| {
        let refused = [
            is_refused(store.put("t", &3)),
            is_refused(store.get::<u32>("t")),
            is_refused(store.load::<u32>("t", &id)),
            is_refused(store.put_bytes("t", TypeTag::BYTES, b"x", PutOptions::default())),
            is_refused(store.delete("t")),
            is_refused(store.retain(None, Some(1))),
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
    // The parent is unharmed, and still the only one who has the store.
    store.put("t", &4).unwrap();
    assert_eq!(store.history::<u32>("t", None).unwrap().len(), 3);
    let second = Store::options().busy_timeout(Duration::from_millis(20)).open(&dir).unwrap_err();
    assert_eq!(second.kind(), ErrorKind::Busy);
    // A program that is started, not forked, inherits nothing: closing is enough for the next one.
    let mut sleeper = Command::new("sleep").arg("10").stdin(Stdio::null()).spawn().unwrap();
    store.close().unwrap();
    let next = Store::open(&dir).unwrap();
    assert_eq!(next.get::<u32>("t").unwrap(), Some(4));
    assert!(!next.recovery().fresh_segment, "the child left the page unclean");
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    println!("all went well");
}

#[test]
fn a_forked_child_is_refused_and_harms_nobody() {
    let scratch = tempfile::tempdir().unwrap();
    let program = std::env::current_exe().unwrap();
    let ran = Command::new(program)
        .args(["--exact", "forked::forker", "--nocapture", "--test-threads=1"])
        .env(DIR, scratch.path().join("store"))
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && told.contains("all went well"), "{told}{}", String::from_utf8_lossy(&ran.stderr));
}
