//! A forked child of a writer has copies of its handle and its locks, is refused, and takes nothing away.
#![allow(unsafe_code)]

use std::time::Duration;

use taffrail::{Checkpointer, ErrorKind, PutOptions, Store, TypeTag};

use super::step::COMMON;
use crate::posix;

/// Forks a child that uses the handle and then ends, now or when it has lived a while beside its parent; with
/// its copy dropped, or not.
pub fn fork(store: &Store, lives: Duration, drops: bool) {
    // SAFETY: the child calls what is below and leaves without unwinding or running exit handlers.
    let child = unsafe { libc::fork() };
    if child == 0 {
        posix::end_with_parent();
        let put = store.put_bytes(COMMON, TypeTag::BYTES, b"a child's", PutOptions::default()).map(drop);
        let refused = [put, store.get_bytes(COMMON).map(drop), store.sync()].into_iter().all(is_refused);
        if drops {
            // SAFETY: the child leaves by _exit, so its copy is dropped this once.
            drop(unsafe { std::ptr::read(store) });
        }
        std::thread::sleep(lives);
        // SAFETY: ends this process.
        unsafe { libc::_exit(i32::from(!refused)) };
    }
    let mut status = 0;
    // SAFETY: the call writes the status, which outlives it.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "a forked child was not refused: {status}");
}

fn is_refused(answer: taffrail::Result<()>) -> bool {
    answer.is_err_and(|error| error.kind() == ErrorKind::Poisoned)
}
