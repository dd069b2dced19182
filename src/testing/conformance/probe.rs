//! Asking a place under test, with a clear word when the answer is wrong.
//!
//! [`Place::audit`] is the invariant that most cases end with: all ways of reading agree.

use std::fmt;
use std::time::SystemTime;

use super::Place;
use crate::batch::PutOptions;
use crate::checkpoint::{Checkpoint, CheckpointId, CheckpointInfo, Metadata, StateBytes, TypeTag};
use crate::checkpointer::Items;
use crate::error::{ErrorKind, Result};
use crate::query::{HistoryQuery, Matching, ThreadInfo, ThreadQuery};

/// A checkpoint as it was seen, to be compared.
#[derive(Clone, PartialEq)]
pub(super) struct Seen {
    pub thread: String,
    pub id: CheckpointId,
    pub seq: u64,
    pub parent: Option<CheckpointId>,
    pub saved_at: SystemTime,
    pub metadata: Metadata,
    pub tag: TypeTag,
    pub bytes: u64,
    pub state: Option<Vec<u8>>,
}

impl From<CheckpointInfo> for Seen {
    fn from(info: CheckpointInfo) -> Self {
        let CheckpointInfo { thread, id, seq, parent, saved_at, metadata, tag, bytes } = info;
        Seen { thread: thread.to_string(), id, seq, parent, saved_at, metadata, tag, bytes, state: None }
    }
}

impl From<Checkpoint<StateBytes>> for Seen {
    fn from(checkpoint: Checkpoint<StateBytes>) -> Self {
        Seen { state: Some(checkpoint.state.into_vec()), ..Seen::from(checkpoint.info) }
    }
}

impl Seen {
    pub fn without_state(&self) -> Self {
        Seen { state: None, ..self.clone() }
    }

    pub fn text(&self) -> String {
        self.state.as_deref().map(|state| String::from_utf8_lossy(state).into_owned()).unwrap_or_default()
    }
}

impl fmt::Debug for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start: String = self.text().chars().take(40).collect();
        write!(f, "{:?}#{} {:?} after {:?} at {:?} ", self.thread, self.seq, self.id, self.parent, self.saved_at)?;
        write!(f, "{:?} {} {} bytes {start:?}", self.metadata, self.tag, self.bytes)
    }
}

/// What a call gave; panics with the call's name when it is an error.
#[track_caller]
pub(super) fn good<T>(what: &str, result: Result<T>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("{what} should work: {error:?}"),
    }
}

/// Panics unless the call was refused with `kind`.
#[track_caller]
pub(super) fn refused<T>(kind: ErrorKind, what: &str, result: Result<T>) {
    match result {
        Ok(_) => panic!("{what} should be {kind:?}, and was accepted"),
        Err(error) => assert_eq!(error.kind(), kind, "{what}: {error:?}"),
    }
}

/// Whether the call is one that this place does not have.
pub(super) fn is_unsupported<T>(result: &Result<T>) -> bool {
    matches!(result, Err(error) if error.kind() == ErrorKind::Unsupported)
}

#[track_caller]
pub(super) fn id(text: &str) -> CheckpointId {
    good("a checkpoint id", CheckpointId::new(text))
}

pub(super) fn limited(limit: impl Into<Option<usize>>) -> HistoryQuery {
    HistoryQuery { limit: limit.into(), ..HistoryQuery::default() }
}

pub(super) fn globbing(pattern: &str) -> ThreadQuery {
    ThreadQuery { matching: Matching::Glob(pattern.to_owned()), ..ThreadQuery::default() }
}

#[track_caller]
pub(super) fn all<T>(what: &str, items: Result<Items<T>>) -> Vec<T> {
    good(what, good(what, items).collect())
}

impl Place {
    /// Puts JSON text.
    #[track_caller]
    pub(super) fn put_text(&self, thread: &str, state: &str) -> CheckpointId {
        self.put_text_with(thread, state, PutOptions::default())
    }

    #[track_caller]
    pub(super) fn put_text_with(&self, thread: &str, state: &str, options: PutOptions) -> CheckpointId {
        good("put", self.put_bytes(thread, TypeTag::JSON, state.as_bytes(), options))
    }

    /// Puts JSON text under the caller's own id.
    #[track_caller]
    pub(super) fn put_id(&self, thread: &str, own: &str, state: &str) -> CheckpointId {
        self.put_text_with(thread, state, PutOptions::default().id(id(own)))
    }

    /// The whole history, newest first.
    #[track_caller]
    pub(super) fn seen(&self, thread: &str) -> Vec<Seen> {
        all("history", self.history_bytes(thread, &HistoryQuery::default())).into_iter().map(Seen::from).collect()
    }

    /// The states of the whole history as text, newest first.
    #[track_caller]
    pub(super) fn states(&self, thread: &str) -> Vec<String> {
        self.seen(thread).iter().map(Seen::text).collect()
    }

    /// The states of a page as text.
    #[track_caller]
    pub(super) fn page(&self, thread: &str, query: &HistoryQuery) -> Vec<String> {
        all("history", self.history_bytes(thread, query)).into_iter().map(|checkpoint| Seen::from(checkpoint).text()).collect()
    }

    /// The newest checkpoint, which must be there.
    #[track_caller]
    pub(super) fn newest(&self, thread: &str) -> Seen {
        match good("get", self.get_bytes(thread)) {
            Some(checkpoint) => checkpoint.into(),
            None => panic!("thread {thread:?} should have a checkpoint"),
        }
    }

    /// The checkpoint of that id, if it is there.
    #[track_caller]
    pub(super) fn find_id(&self, thread: &str, id: &CheckpointId) -> Option<Seen> {
        good("load", self.load_bytes(thread, id)).map(Seen::from)
    }

    #[track_caller]
    pub(super) fn thread_infos(&self, query: &ThreadQuery) -> Vec<ThreadInfo> {
        all("list_threads", self.list_threads(query))
    }

    #[track_caller]
    pub(super) fn thread_ids(&self, query: &ThreadQuery) -> Vec<String> {
        self.thread_infos(query).into_iter().map(|info| info.thread).collect()
    }

    /// Everything these threads hold, after an audit of each.
    #[track_caller]
    pub(super) fn picture(&self, threads: &[&str]) -> Vec<Vec<Seen>> {
        threads.iter().map(|thread| self.audit(thread)).collect()
    }

    /// Panics unless all ways to read the thread agree; answers its history.
    #[track_caller]
    pub(super) fn audit(&self, thread: &str) -> Vec<Seen> {
        let seen = self.seen(thread);
        let listed: Vec<Seen> = all("list", self.list(thread, &HistoryQuery::default())).into_iter().map(Seen::from).collect();
        let bare: Vec<Seen> = seen.iter().map(Seen::without_state).collect();
        assert_eq!(listed, bare, "list and history of {thread:?} differ");
        let newest = good("get", self.get_bytes(thread)).map(Seen::from);
        assert_eq!(newest.as_ref(), seen.first(), "get and history of {thread:?} differ");
        let head = good("head", self.head(thread)).map(Seen::from);
        assert_eq!(head.as_ref(), bare.first(), "head and history of {thread:?} differ");
        assert_eq!(good("exists", self.exists(thread)), !seen.is_empty(), "exists and history of {thread:?} differ");
        for checkpoint in &seen {
            assert_eq!(checkpoint.thread, thread, "a checkpoint names another thread");
            assert_eq!(checkpoint.bytes, checkpoint.state.as_ref().map_or(0, Vec::len) as u64, "bytes is not the state's size");
            assert_eq!(self.find_id(thread, &checkpoint.id).as_ref(), Some(checkpoint), "load and history of {thread:?} differ");
        }
        assert!(seen.windows(2).all(|pair| pair[0].seq > pair[1].seq), "seqs of {thread:?} do not fall from newest to oldest: {seen:?}");
        if self.capabilities().list_threads {
            self.audit_info(thread, &seen);
        }
        seen
    }

    #[track_caller]
    fn audit_info(&self, thread: &str, seen: &[Seen]) {
        let of_prefix = ThreadQuery { matching: Matching::Prefix(thread.to_owned()), limit: Some(1), ..ThreadQuery::default() };
        let info = self.thread_infos(&of_prefix).into_iter().find(|info| info.thread == thread);
        let wanted = seen.first().map(|head| ThreadInfo {
            thread: thread.to_owned(),
            head: head.id.clone(),
            checkpoints: seen.len() as u64,
            bytes: seen.iter().map(|checkpoint| checkpoint.bytes).sum(),
            last_saved: head.saved_at,
        });
        assert_eq!(info, wanted, "list_threads and history of {thread:?} differ");
    }
}
