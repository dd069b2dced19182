//! One call, done off the runtime: what a future is until it has begun, and what becomes of it after.
//!
//! A call waits for its turn in a lane, which bounds how many are under way, and is then handed to the
//! runtime's blocking workers. Until one of them takes it up it can be called off; from then on it goes
//! to its end, whoever still waits for it. Nothing here knows what the calls do.

use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

use crate::error::{Error, ErrorKind, Result};

/// A call of [`AsyncStore`](crate::AsyncStore) that is yet to be made; it owns all it needs.
///
/// Nothing happens before it is polled. Dropped before a worker has taken it up, it is never made; from
/// then on it goes to its end, also if it is dropped: a put is wholly there then, or wholly absent.
/// A panic of the place goes on in who awaits the call. Errors, besides those of the call itself:
/// `Unsupported` where it is polled outside a tokio runtime, or in one that is shutting down;
/// nothing was done then.
#[must_use = "nothing is done until it is awaited"]
pub struct Call<T>(Pin<Box<dyn Future<Output = Result<T>> + Send>>);

impl<T: 'static> Call<T> {
    pub(super) fn new(steps: impl Future<Output = Result<T>> + Send + 'static) -> Self {
        Call(Box::pin(steps))
    }
}

impl<T> Future for Call<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        self.0.as_mut().poll(context)
    }
}

impl<T> std::fmt::Debug for Call<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call").finish_non_exhaustive()
    }
}

/// How many calls of a kind are under way at once; the others wait, in their order.
#[derive(Clone)]
pub(super) struct Lane(Arc<Semaphore>);

impl Lane {
    pub fn new(calls_max: u32) -> Self {
        Lane(Arc::new(Semaphore::new(calls_max as usize)))
    }

    /// Waits until so many more may be under way.
    pub async fn enter(&self, calls: u32) -> Result<OwnedSemaphorePermit> {
        self.0.clone().acquire_many_owned(calls).await.map_err(|closed| nowhere("the lane is closed").with_source(closed))
    }
}

/// Work in the hands of the runtime's blocking workers; dropped, it is called off unless it has begun.
pub(super) struct Begun<T>(JoinHandle<T>);

impl<T: Send + 'static> Begun<T> {
    /// Hands it over. Errors: `Unsupported` where there is no runtime.
    pub fn new(work: impl FnOnce() -> T + Send + 'static) -> Result<Self> {
        match Handle::try_current() {
            Ok(runtime) => Ok(Begun(runtime.spawn_blocking(work))),
            Err(none) => Err(nowhere("an AsyncStore works in a tokio runtime, and here is none").with_source(none)),
        }
    }

    /// Waits for its end; may be dropped and asked again. A panic goes on here.
    pub async fn end(&mut self) -> Result<T> {
        match (&mut self.0).await {
            Ok(answer) => Ok(answer),
            Err(failed) => match failed.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(cancelled) => Err(nowhere("the tokio runtime shuts down: nothing was done").with_source(cancelled)),
            },
        }
    }
}

impl<T> Drop for Begun<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn nowhere(message: &str) -> Error {
    Error::new(ErrorKind::Unsupported, message)
}

/// A value whose end may block (a last handle syncs): in a runtime it is dropped by a blocking worker.
pub(super) struct Away<T: Send + 'static>(Option<T>);

impl<T: Send + 'static> Away<T> {
    pub fn new(value: T) -> Self {
        Away(Some(value))
    }

    /// The value, to be dropped wherever the caller is.
    pub fn take(mut self) -> Option<T> {
        self.0.take()
    }
}

impl<T: Send + 'static> Deref for Away<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.0 {
            Some(value) => value,
            None => unreachable!("only who owns it takes the value out"),
        }
    }
}

impl<T: Send + 'static> DerefMut for Away<T> {
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.0 {
            Some(value) => value,
            None => unreachable!("only who owns it takes the value out"),
        }
    }
}

impl<T: Send + 'static> Drop for Away<T> {
    fn drop(&mut self) {
        if let Some(value) = self.0.take()
            && let Ok(runtime) = Handle::try_current()
        {
            drop(runtime.spawn_blocking(move || drop(value)));
        }
    }
}
