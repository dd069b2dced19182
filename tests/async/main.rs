//! Places for checkpoints in a tokio runtime: what becomes of calls that are dropped, held up or cut off.
//!
//! Where it matters which of two things comes first, a place that is held by hand says so ([`gated`]); no
//! clock does. The conformance suite runs over the same calls.

mod cut;
mod gated;
mod items;
mod suite;

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use taffrail::CheckpointId;
use tokio::runtime::{Builder, Runtime};

/// A runtime of one worker, which is the one that blocks on it.
fn alone() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// A runtime of several workers.
fn several() -> Runtime {
    Builder::new_multi_thread().worker_threads(3).enable_all().build().unwrap()
}

/// Polls once, and drops what is not ready.
fn poll_once<T>(future: impl Future<Output = T>) -> Poll<T> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

fn id(text: &str) -> CheckpointId {
    CheckpointId::new(text).unwrap()
}
