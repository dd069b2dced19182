//! The runs that wait for an approval: a marker for each, a thread of its own under one prefix.
//!
//! A marker's checkpoint has the id of the one in which its run waits. It counts while that is the head of its
//! run's thread: so a marker that something else left behind (its run deleted, rolled back) is not listed, and
//! removing it by its id never takes one that was put since.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::time::SystemTime;

use super::record::{Entry, LAYOUT, decode};
use crate::checkpoint::{CheckpointId, CheckpointInfo, Metadata};
use crate::checkpointer::Checkpointer;
use crate::error::Result;
use crate::query::{Matching, ThreadInfo, ThreadQuery};

/// What the names of markers begin with; the run's thread follows. They are threads as any: lists of threads, watches,
/// searches and exports have them too.
pub const MARKERS: &str = "taffrail:waiting/";

/// The name of a run's marker.
pub(super) fn marker_of(thread: &str) -> String {
    format!("{MARKERS}{thread}")
}

/// What a marker's checkpoint holds.
#[derive(Serialize, Deserialize)]
pub(super) struct Marker {
    run: u32,
    thread: String,
    name: String,
    payload: Option<Box<RawValue>>,
}

impl Marker {
    pub fn of(thread: &str, entry: &Entry) -> Self {
        Marker { run: LAYOUT, thread: thread.to_owned(), name: entry.name.clone(), payload: entry.payload.clone() }
    }

    /// What tells a marker from a run's own checkpoint, which may come under such a name by a fork or a rename.
    pub fn metadata(&self) -> Result<Metadata> {
        #[derive(Serialize)]
        struct Told<'a> {
            run: u32,
            waiting: &'a str,
        }
        Metadata::new(&Told { run: self.run, waiting: &self.name })
    }
}

/// Whether a checkpoint under a marker's name is a marker, by its metadata.
pub(super) fn is_marker(info: &CheckpointInfo) -> bool {
    let waiting = || info.metadata.get::<String>("waiting").is_ok_and(|name| name.is_some());
    info.metadata.get::<u32>("run").is_ok_and(|run| run.is_some()) && waiting()
}

/// A run that waits for an approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The run's thread.
    pub thread: String,
    /// The checkpoint in which it waits, for [`approve_at`](super::approve_at).
    pub checkpoint: CheckpointId,
    /// The approval's name.
    pub name: String,
    /// What it is asked for, as JSON text.
    pub payload: String,
    /// When it asked.
    pub since: SystemTime,
}

impl Waiting {
    /// What it is asked for, as a value. Errors: `Decode`.
    pub fn payload<T: DeserializeOwned>(&self) -> Result<T> {
        decode(&self.payload, "the payload").map_err(|error| error.with_thread(&self.thread))
    }
}

/// The runs that wait for an approval, in byte order of their threads. Costs what the answer does: nothing is
/// read of runs that do not wait, and no run's state.
///
/// A stale marker is passed over and removed, where the place can be written. Needs `list_threads`.
///
/// ```
/// use taffrail::MemoryCheckpointer;
/// use taffrail::run::{self, Run};
/// let place = MemoryCheckpointer::new();
/// let mut run: Run<_, ()> = Run::start_or_resume(&place, "trip")?;
/// assert_eq!(run.await_approval::<bool>("book", "book the flight?")?, None);
/// let all = run::waiting(&place)?.collect::<taffrail::Result<Vec<_>>>()?;
/// assert_eq!((all.len(), all[0].payload::<String>()?), (1, "book the flight?".into()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn waiting<C: Checkpointer + ?Sized>(place: &C) -> Result<impl Iterator<Item = Result<Waiting>> + '_> {
    let query = ThreadQuery { matching: Matching::Prefix(MARKERS.to_owned()), ..ThreadQuery::default() };
    Ok(place.list_threads(&query)?.filter_map(move |marker| marker.and_then(|marker| judge(place, &marker)).transpose()))
}

/// What a marker stands for, or None where it is stale or none.
fn judge<C: Checkpointer + ?Sized>(place: &C, marker: &ThreadInfo) -> Result<Option<Waiting>> {
    let thread = marker.thread.strip_prefix(MARKERS).unwrap_or_default();
    let head = if thread.is_empty() { None } else { place.head(thread)? };
    if head.is_none_or(|head| head.id != marker.head) {
        clean(place, marker)?;
        return Ok(None);
    }
    // It may have gone since it was listed, and a thread of somebody else's may be named as a marker.
    let Some(found) = place.load_bytes(&marker.thread, &marker.head)?.filter(|found| is_marker(found)) else { return Ok(None) };
    let Marker { name, payload, .. } =
        decode(&String::from_utf8_lossy(&found.state), "a marker").map_err(|error| error.with_thread(&marker.thread))?;
    Ok(Some(Waiting {
        thread: thread.to_owned(),
        checkpoint: found.info.id,
        name,
        payload: payload.map_or_else(|| "null".to_owned(), |payload| payload.get().to_owned()),
        since: found.info.saved_at,
    }))
}

/// Removes a stale marker. The head that makes it stale was read behind it, and a run never waits in the same
/// checkpoint again, unless somebody rolls it back to there: it then puts its marker again.
fn clean<C: Checkpointer + ?Sized>(place: &C, marker: &ThreadInfo) -> Result<()> {
    if place.head(&marker.thread)?.is_some_and(|info| info.id == marker.head && is_marker(&info)) {
        // A place that is read only, full or busy keeps it: it is passed over again.
        let _ = place.delete_checkpoint(&marker.thread, &marker.head);
    }
    Ok(())
}
