//! What takes up more than a quarter of a segment: written and synced in a segment of its own before the turn.
//!
//! The payloads, which are nearly all of it, go to a file under a working name while nobody waits.
//! The turn then adds header, heads and records, and installs the segment between the sealed active
//! one and a new one. What the turn decides may change the records' lengths (another head's id as
//! the parent, say); then the payloads stand in the wrong places and are written once more, and if that
//! goes on, in the turn.

use std::sync::Arc;

use super::Shared;
use super::active::Active;
use super::append::{encode_heads, next_seq};
use super::commit::Written;
use super::fresh;
use super::group::answer;
use super::install::install;
use super::plan::{Plan, Planned, Terms};
use super::tail::poisoned;
use super::turn::Held;
use crate::error::{Error, Result};
use crate::format::frame::{frame_len, padding, payload_start};
use crate::format::manifest::Listed;
use crate::format::names;
use crate::format::segment::{HEADER_BYTES, Header, Kind};
use crate::fs::File;

/// So often the payloads are written while nobody waits, before they are written in the turn.
pub(super) const TRIES: usize = 4;

impl Shared {
    /// Plans and writes what is too long for the log itself; always durable. One that is stale is not
    /// written, and `None` the answer.
    ///
    /// Errors: as for any batch; `DiskFull` with nothing left behind.
    pub(super) fn write_large<'a>(&'a self, make: impl Fn(&mut Plan<'a>) -> Result<()>) -> Result<Option<Written>> {
        self.write_large_in(self.turn()?, TRIES, make)
    }

    /// The same in a turn that was taken before; it is given back `tries` times at most.
    pub(super) fn write_large_in<'a>(
        &'a self,
        mut turn: Held<'a>,
        tries: usize,
        make: impl Fn(&mut Plan<'a>) -> Result<()>,
    ) -> Result<Option<Written>> {
        // Taken for good: a working name that no manifest lists is removed by a first opener.
        let number = self.tail.take_number();
        let mut plan = match self.plan_large(&turn, number, &make) {
            Ok(plan) if plan.is_stale => return Ok(None),
            Ok(plan) if !plan.frames.is_empty() => plan,
            answer => return self.without_a_write(turn, answer).map(Some),
        };
        self.directory.require_in_force(&turn.manifest)?;
        let name = names::segment_new(number);
        let file = self.directory.create_file(&name)?;
        for _ in 0..tries {
            drop(turn);
            self.write_payloads(&*file, &name, &plan).inspect_err(|_| self.discard(&name))?;
            turn = self.turn().inspect_err(|_| self.discard(&name))?;
            let again = match self.plan_large(&turn, number, &make) {
                Ok(again) if again.is_stale => {
                    self.discard(&name);
                    return Ok(None);
                }
                Ok(again) if !again.frames.is_empty() => again,
                answer => {
                    self.discard(&name);
                    return self.without_a_write(turn, answer).map(Some);
                }
            };
            let lengths = |frame: &Planned<'_>| (frame.record.len(), frame.payload.len());
            let in_place = plan.frames.iter().map(lengths).eq(again.frames.iter().map(lengths));
            plan = again;
            if in_place {
                return self.install_large(turn, &file, number, plan).map(Some).inspect_err(|_| self.discard(&name));
            }
        }
        // Others kept changing the lengths: this once they wait.
        self.write_payloads(&*file, &name, &plan).inspect_err(|_| self.discard(&name))?;
        self.install_large(turn, &file, number, plan).map(Some).inspect_err(|_| self.discard(&name))
    }

    fn plan_large<'a>(&'a self, turn: &Held<'_>, number: u64, make: &impl Fn(&mut Plan<'a>) -> Result<()>) -> Result<Plan<'a>> {
        let terms = Terms { segment: number, start: HEADER_BYTES as u64, ..turn.terms(self) };
        let mut plan = Plan::new(&self.index, self.segments.load_full(), terms);
        make(&mut plan)?;
        Ok(plan)
    }

    fn write_payloads(&self, file: &dyn File, name: &str, plan: &Plan<'_>) -> Result<()> {
        let failed = |error| Error::os("write", &self.directory.file(name), error);
        let mut at = HEADER_BYTES as u64;
        for frame in &plan.frames {
            file.write_at(&[frame.payload, padding(frame.payload.len())], at + payload_start(frame.record.len()) as u64).map_err(failed)?;
            at += frame_len(frame.record.len(), frame.payload.len() as u64);
        }
        file.sync().map_err(failed)
    }

    fn install_large(&self, mut turn: Held<'_>, file: &Arc<dyn File>, number: u64, plan: Plan<'_>) -> Result<Written> {
        let path = self.directory.file(&names::segment(number));
        let failed = |error| Error::os("write", &path, error);
        let mut manifest = turn.sealed(self)?;
        let (base, next_seq) = (turn.active.end_position(), next_seq(self, &plan)?);
        let salt = fresh::salt(&*self.directory.fs);
        let first_frame = HEADER_BYTES as u32;
        let (header, check) = Header { store: manifest.store, number, salt, kind: Kind::Log { base }, first_frame }.encode();
        let start = base + HEADER_BYTES as u64;
        let (heads, _) = encode_heads(&plan.frames, salt, start, next_seq, self.tail.synced(), check);
        self.tail.raise_next_seq(plan.numbers_end(next_seq));
        file.write_at(&[&header], 0).map_err(failed)?;
        let (mut at, mut rest) = (HEADER_BYTES as u64, &heads[..]);
        for frame in &plan.frames {
            let (head, others) = rest.split_at(payload_start(frame.record.len()));
            file.write_at(&[head], at).map_err(failed)?;
            rest = others;
            at += frame_len(frame.record.len(), frame.payload.len() as u64);
        }
        // CRASH: whole and synced under its working name, and counted only once a manifest lists it.
        file.sync().map_err(failed)?;
        manifest.seq_floor = self.tail.next_seq();
        let is_empty = turn.active.end == turn.active.segment.first_frame;
        let empty = if is_empty { manifest.segments.pop().map(|empty| empty.number) } else { None };
        manifest.retired.extend(empty);
        let listed = Listed { number, salt, base, end: at, first_frame, compacted: false };
        manifest.segments.push(listed);
        let next = fresh::empty(&self.directory, &self.options, &self.tail, &mut manifest, base + at)?;
        let own = Active::new(&self.directory, &self.options, &listed, file.clone(), u64::from(first_frame), Some(check))?;
        install(&self.directory, &self.tail, &mut manifest).map_err(|error| answer(&self.tail, self.epoch, error))?;
        // CRASH: listed under its working name, under which it counts, too; the next first opener finishes it (step 4).
        let renamed = self.directory.rename(&names::segment_new(number), &names::segment(number)).and_then(|()| self.directory.sync());
        if let Err(error) = renamed {
            self.tail.poison(self.epoch);
            return Err(poisoned().with_source(error));
        }
        if let Some(empty) = empty {
            // Removed by the next opener if not now: the manifest names it as retired.
            let _ = self.directory.remove_log(empty);
        }
        // Its frames are read from it as by everyone else.
        turn.begin(self, manifest, vec![own, next])?;
        // What is kept is answered so, whatever else cannot be read: the next read will say it.
        let _ = self.refresh();
        Ok(Written { results: plan.results, placed: plan.placed })
    }

    /// Removes a file that was not installed; after a failed installation nobody knows, and it stays.
    fn discard(&self, name: &str) {
        if !self.tail.is_poisoned(self.epoch) {
            // What failed before is what is told; a leftover goes with the next opening.
            let _ = self.directory.remove(name);
        }
    }
}
