//! Promoting: a delta is written anew, whole, so that what is hidden for it can go.
//!
//! An ordinary append, in the turn and synced, at the end of the log: the checkpoint keeps its place and
//! all that is said of it. So no compaction ever has to keep what is shown no more, and what it replaces
//! means the same before and after.
//!
//! CRASH: cut before the sync, the delta and what it needs are still there, for nothing goes before what
//! makes it dead is synced; behind it, what was hidden is dead.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use super::Shared;
use super::commit::frame_around;
use super::encode::Form;
use super::ids::IdKey;
use super::index::Moment;
use super::read;
use super::view::{Entry, View};
use crate::batch::Durability;
use crate::error::{ErrorKind, Result};
use crate::format::record::Put;
use crate::options::Compression;

/// A checkpoint as it is to be written anew.
pub(crate) struct Promotion {
    /// Its thread, as it was when this was decided.
    pub view: Arc<View>,
    /// The delta.
    pub entry: Entry,
    /// What its record says of it, as in [`Put`].
    pub saved_at: i64,
    pub parent: Option<IdKey>,
    pub tag: String,
    pub metadata: String,
    /// Its state, whole.
    pub form: Form<'static>,
}

/// What came of promoting.
#[derive(Default)]
pub(crate) struct Promoted {
    /// How many deltas were written anew.
    pub checkpoints: u64,
    /// A file in which something cannot be read that one of them needs: it stays as it is.
    pub damaged: Option<PathBuf>,
}

impl Shared {
    /// Promotes the deltas that need a hidden frame in any of these segments; without segments, all of them.
    /// `pace` is called behind each write with its length.
    ///
    /// Errors: `DiskFull`, `Poisoned`, `Busy`, `Io`; what was promoted until then stays so.
    pub(super) fn promote(&self, moment: &Moment, segments: Option<&HashSet<u32>>, pace: &dyn Fn(u64) -> Result<()>) -> Result<Promoted> {
        let mut promoted = Promoted::default();
        if !self.gaps.load().segments.is_empty() {
            return Ok(promoted);
        }
        let (mut together, mut bytes) = (Vec::new(), 0);
        for view in &moment.views {
            let is_in = |needed: &Entry| segments.is_none_or(|segments| segments.contains(&needed.at.segment));
            for (entry, _) in view.stranded().filter(|(_, needed)| needed.iter().any(is_in)) {
                match self.promotion(view.thread(), entry) {
                    Ok(promotion) => {
                        bytes += promotion.as_ref().map_or(0, Promotion::length_at_most);
                        together.extend(promotion);
                    }
                    Err(error) if error.kind() == ErrorKind::Corrupt => {
                        promoted.damaged = promoted.damaged.or(error.file().map(|(path, _)| path.to_owned()));
                    }
                    Err(error) => return Err(error),
                }
                if bytes > self.options.segment_bytes / 16 {
                    promoted.checkpoints += self.write_promotions(&std::mem::take(&mut together), bytes)?;
                    pace(std::mem::take(&mut bytes))?;
                }
            }
        }
        promoted.checkpoints += self.write_promotions(&together, bytes)?;
        Ok(promoted)
    }

    /// A delta as it is written anew; `None` if it is not shown as that any more.
    fn promotion(&self, thread: &str, entry: &Entry) -> Result<Option<Promotion>> {
        let (view, segments) = self.at_one_moment(|| Ok(self.index.get(thread)))?;
        let Some(view) = view.filter(|view| view.at_place(entry.place) == Some(entry)) else { return Ok(None) };
        let state = self.states(&segments).checkpoint(&view, entry)?.state;
        let look = |put: &Put<'_>| {
            let (parent, tag, metadata) = (read::parent(put, &view), put.tag.to_owned(), put.metadata.to_owned());
            Ok((put.saved_at, parent, tag, metadata))
        };
        let (saved_at, parent, tag, metadata) = read::record(&segments, &view, entry, look)?;
        // One that the thread has gone on from is seldom asked for.
        let is_left = view.has_left(entry.place) && self.options.compression != Compression::Never;
        let compression = if is_left { Compression::Always } else { self.options.compression };
        let form = Form::whole(&state, 0, compression).into_owned();
        Ok(Some(Promotion { view, entry: entry.clone(), saved_at, parent, tag, metadata, form }))
    }

    /// Writes them in one turn, those that are still as they were; answers how many are done with.
    fn write_promotions(&self, promotions: &[Promotion], bytes: u64) -> Result<u64> {
        if promotions.is_empty() {
            return Ok(0);
        }
        if bytes > self.options.segment_bytes / 4 {
            self.write_large(|plan| plan.promote(promotions))?;
        } else {
            self.write(Durability::Sync, |plan| plan.promote(promotions))?;
        }
        Ok(promotions.len() as u64)
    }
}

impl Promotion {
    fn length_at_most(&self) -> u64 {
        (frame_around(self.view.thread()) + self.metadata.len() + self.form.payload.len()) as u64
    }
}
