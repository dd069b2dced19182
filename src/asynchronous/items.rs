//! Listings in a runtime: an iterator of the place, read off the runtime a few items at a time.
//!
//! What is being read is always in the hands of this value, never of one call of `next`: a call that
//! is dropped loses nothing.

use std::time::Duration;

use super::call::{Away, Begun, Lane};
use crate::checkpoint::CheckpointInfo;
use crate::checkpointer::Items;
use crate::error::Result;

/// How long a watch is waited for by one worker: so long at most a runtime's end waits for it.
const WATCH_AT_ONCE: Duration = Duration::from_millis(200);

/// What a source gave in one go.
pub(super) struct Chunk<T> {
    items: Vec<Result<T>>,
    /// Nothing comes after them.
    ended: bool,
}

type Source<T> = Away<Box<dyn FnMut() -> Chunk<T> + Send>>;

/// One moment's view of what was asked, as [`Items`], in a runtime; ends after an error.
///
/// Reads ahead: 16 checkpoints with their states, or 256 without. Holds up nobody while it is not asked.
pub struct AsyncItems<T: Send + 'static> {
    lane: Option<Lane>,
    read: std::vec::IntoIter<Result<T>>,
    state: State<T>,
}

enum State<T: Send + 'static> {
    Idle(Source<T>),
    Reading(Begun<(Source<T>, Chunk<T>)>),
    Ended,
}

impl<T: Send + 'static> AsyncItems<T> {
    /// Reads the first chunk here, off the runtime, and later ones in that lane.
    pub(super) fn begin(mut items: Items<T>, at_once: usize, lane: Lane) -> Self {
        let mut next = move || {
            let read: Vec<_> = items.by_ref().take(at_once).collect();
            let ended = read.len() < at_once || read.last().is_some_and(Result::is_err);
            Chunk { items: read, ended }
        };
        let first = next();
        let mut begun = AsyncItems { lane: Some(lane), read: Vec::new().into_iter(), state: State::Ended };
        begun.take_in(Away::new(Box::new(next)), first);
        begun
    }

    /// The next one; `None` at the end. Dropped before it answered, it has lost nothing.
    ///
    /// Errors: those of reading, each the last item; `Unsupported` outside a runtime, or in one that is shutting down.
    pub async fn next(&mut self) -> Option<Result<T>> {
        loop {
            if let Some(item) = self.read.next() {
                return Some(item);
            }
            match &mut self.state {
                State::Ended => return None,
                State::Reading(begun) => match begun.end().await {
                    Ok((source, chunk)) => self.take_in(source, chunk),
                    Err(error) => return Some(self.fail(error)),
                },
                State::Idle(_) => {
                    if let Err(error) = self.read_on().await {
                        return Some(self.fail(error));
                    }
                }
            }
        }
    }

    /// All that is left. Errors: the first one.
    pub async fn collect(mut self) -> Result<Vec<T>> {
        let mut all = Vec::new();
        while let Some(item) = self.next().await {
            all.push(item?);
        }
        Ok(all)
    }

    async fn read_on(&mut self) -> Result<()> {
        let turn = match &self.lane {
            Some(lane) => Some(lane.enter(1).await?),
            None => None,
        };
        if let State::Idle(mut source) = std::mem::replace(&mut self.state, State::Ended) {
            self.state = State::Reading(Begun::new(move || {
                let _turn = turn;
                let chunk = source();
                (source, chunk)
            })?);
        }
        Ok(())
    }

    fn take_in(&mut self, source: Source<T>, chunk: Chunk<T>) {
        self.read = chunk.items.into_iter();
        self.state = if chunk.ended { State::Ended } else { State::Idle(source) };
    }

    fn fail(&mut self, error: crate::Error) -> Result<T> {
        self.state = State::Ended;
        Err(error)
    }
}

/// A watch in a runtime: each new checkpoint, as it becomes visible; waits without end.
///
/// Dropped, its worker is free after 200 ms at most. Of the items of one watch none is lost or told twice.
impl From<crate::Watch> for AsyncItems<CheckpointInfo> {
    fn from(mut watch: crate::Watch) -> Self {
        let next = move || match watch.wait(WATCH_AT_ONCE) {
            Ok(told) => Chunk { items: told.into_iter().map(Ok).collect(), ended: false },
            Err(error) => Chunk { items: vec![Err(error)], ended: true },
        };
        AsyncItems { lane: None, read: Vec::new().into_iter(), state: State::Idle(Away::new(Box::new(next))) }
    }
}

impl<T: Send + 'static> std::fmt::Debug for AsyncItems<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AsyncItems").finish_non_exhaustive()
    }
}
