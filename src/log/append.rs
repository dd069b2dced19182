//! Appending a plan's frames at the end of the log; done by who holds the turn.
//!
//! One write per batch, behind it the zeros that the next ones will fall into: a durable put then
//! changes no file size and costs one flush. Room past the end is kept for deletes, so that a full
//! disk can be emptied.

use std::sync::Arc;

use super::Shared;
use super::active::Active;
use super::follow::Reading;
use super::fresh;
use super::group::{Synced, answer};
use super::install::install;
use super::plan::{Plan, Planned, Terms};
use super::tail::poisoned;
use super::turn::Writer;
use crate::error::{Error, ErrorKind, Result, is_disk_full};
use crate::format::frame::{Head, Place, padding, payload_start};
use crate::format::manifest::Manifest;
use crate::format::{SEQS_END, names};

/// Zeros are written in steps of at most so much.
const FILL_BYTES_MAX: u64 = 1024 * 1024;
/// And of at least so much.
const FILL_BYTES_MIN: u64 = 64 * 1024;
/// A batch of this length or more extends the file instead: zeroing first would cost more.
const FILL_WORTH_BELOW: u64 = 256 * 1024;
/// So much written room is left behind every put, for the deletes that empty a full disk.
const LEDGE_BYTES: u64 = 16 * 1024;
/// The end of a segment that serves deletes and trims only.
const RESERVE_BYTES: u64 = 256 * 1024;

static ZEROS: [u8; FILL_BYTES_MAX as usize] = [0; FILL_BYTES_MAX as usize];

impl Writer {
    /// On what terms a plan is made now.
    pub fn terms(&self, shared: &Shared) -> Terms {
        Terms {
            segment: u64::from(self.active.segment.number),
            start: self.active.end,
            // What only a damaged page gives, the append refuses: the sums of a plan stay in range until then.
            next_seq: shared.tail.next_seq().min(SEQS_END),
            keep: self.manifest.keep(),
            is_whole: shared.gaps.load().segments.is_empty(),
        }
    }

    /// Whether a batch fits behind the end.
    pub fn has_room(&self, length: u64, without_payload: bool) -> bool {
        let reserve = if without_payload { 0 } else { RESERVE_BYTES.min(self.active.capacity / 8) };
        self.active.end + length + reserve <= self.active.capacity
    }

    /// Writes the plan's frames; answers the positions where they begin and end. The appended end is
    /// for the caller to move, once the index knows of them.
    ///
    /// Errors: `DiskFull`, with the end where it was; any other failure poisons.
    pub fn append(&mut self, shared: &Shared, plan: &Plan<'_>) -> Result<(u64, u64)> {
        let (active, tail) = (&mut self.active, &shared.tail);
        let (start, next_seq) = (active.end_position(), next_seq(shared, plan)?);
        let Some(prev_check) = active.prev_check else {
            let message = "the last record of the log is damaged: close the store in every process, and the next opening goes on behind it";
            return Err(Error::new(ErrorKind::Corrupt, message).with_file(&active.segment.path, Some(active.end)));
        };
        let (heads, last_check) = encode_heads(&plan.frames, active.segment.salt, start, next_seq, tail.synced(), prev_check);
        let mut parts = parts(&heads, &plan.frames);
        let after = active.end + plan.length;
        if after + LEDGE_BYTES > active.filled {
            // Others may have filled more of it.
            active.filled = active.file.len().map_err(|error| Error::os("read", &active.segment.path, error))?.max(active.filled);
        }
        let zeros = zeros_behind(after, plan.length, active.filled, active.capacity, plan.without_payload());
        let ledge = if plan.without_payload() { 0 } else { LEDGE_BYTES.min(zeros) };
        parts.push(&ZEROS[..zeros as usize]);
        // A number is burned even if the write fails or is never finished: what was written may be
        // found by a recovery.
        tail.raise_next_seq(plan.numbers_end(next_seq));
        tail.set_writing(active.position(after + zeros).max(self.unwiped));
        // CRASH: killed or cut here, a part of the batch may stand behind the end: the next turn wipes
        // it, or recovery drops it (step 6).
        let written = match active.file.write_at(&parts, active.end) {
            Err(error) if zeros > ledge && is_disk_full(&error) => {
                // The room for the next ones does not fit, the batch itself still may.
                parts.pop();
                parts.push(&ZEROS[..ledge as usize]);
                active.file.write_at(&parts, active.end).map(|()| ledge)
            }
            written => written.map(|()| zeros),
        };
        let zeros = written.map_err(|error| {
            let error = Error::os("append", &active.segment.path, error);
            if error.kind() == ErrorKind::DiskFull && active.forget_behind_end() {
                return error;
            }
            tail.poison(shared.epoch);
            poisoned().with_source(error)
        })?;
        active.end = after;
        active.filled = active.filled.max(after + zeros);
        active.prev_check = Some(last_check);
        Ok((start, active.end_position()))
    }

    /// Gives the room behind the end back to the file system, where that can be had.
    pub fn give_up_room(&mut self, shared: &Shared) {
        if self.active.give_up_room().is_ok() {
            shared.follower.reading().active.filled = self.active.filled;
        }
    }

    /// Seals the active segment, wholly synced, and goes on in a new one.
    ///
    /// Errors: `DiskFull` and what else the new files meet, with everything as it was; `Poisoned`.
    pub fn rotate(&mut self, shared: &Shared) -> Result<()> {
        let mut manifest = self.sealed(shared)?;
        let base = self.active.end_position();
        let next = fresh::empty(&shared.directory, &shared.options, &shared.tail, &mut manifest, base)?;
        // CRASH: an empty segment that no manifest lists is removed by the next first opener (step 7).
        install(&shared.directory, &shared.tail, &mut manifest).map_err(|error| {
            if !shared.tail.is_poisoned(shared.epoch) {
                // What failed is told; the empty file is no harm and goes with the next opening.
                let _ = shared.directory.fs.remove(&next.segment.path);
            }
            answer(&shared.tail, shared.epoch, error)
        })?;
        self.begin(shared, manifest, vec![next])
    }

    /// Syncs all that was appended.
    pub fn sync(&mut self, shared: &Shared) -> Result<()> {
        if shared.group.sync_to(shared, self.active.end_position())? == Synced::InDoubt {
            self.write_anew(shared)?;
        }
        Ok(())
    }

    /// The manifest in which the active segment, wholly synced, is sealed; not installed here.
    pub fn sealed(&mut self, shared: &Shared) -> Result<Manifest> {
        self.sync(shared)?;
        let mut manifest = Manifest::clone(&self.manifest);
        manifest.seq_floor = shared.tail.next_seq();
        fresh::remove_retired(&shared.directory, &mut manifest);
        if let Some(last) = manifest.segments.last_mut() {
            last.end = self.active.end;
        }
        Ok(manifest)
    }

    /// Goes on in an installed manifest; `own` are the segments it lists that were made here.
    ///
    /// Errors: `Poisoned` where they cannot be read.
    ///
    /// CRASH: killed before the ends are raised, the next turn finds them below the active segment,
    /// reads what that holds, all of it synced, and raises them.
    pub fn begin(&mut self, shared: &Shared, manifest: Manifest, own: Vec<Active>) -> Result<()> {
        let mut reading = shared.follower.reading();
        reading.go_on_in(shared, &Arc::new(manifest), own).map_err(|error| {
            shared.tail.poison(shared.epoch);
            answer(&shared.tail, shared.epoch, error)
        })?;
        self.follow(&reading);
        // All before it was synced, and so is its header.
        shared.tail.raise_all(self.active.end_position());
        Ok(())
    }

    /// Writes what is not proven synced anew into a fresh segment, and goes on there.
    pub fn write_anew(&mut self, shared: &Shared) -> Result<()> {
        let (tail, active) = (&shared.tail, &self.active);
        let first_frame = active.segment.first_frame;
        let proven = tail.synced().saturating_sub(active.segment.base).max(first_frame);
        let Some(mut frames) = active.frames(proven)? else {
            // Something is missing: whoever waits for it must not be told that it is kept.
            tail.poison(shared.epoch);
            return Err(poisoned());
        };
        // Before there is another segment: none of these is of that.
        let begun = tail.syncs_begun();
        let mut manifest = Manifest::clone(&self.manifest);
        manifest.seq_floor = tail.next_seq();
        let (file_len, holds_proven) = (active.filled.max(active.end), proven > first_frame);
        let (directory, options) = (&shared.directory, &shared.options);
        let own = fresh::anew(directory, options, &mut manifest, tail, holds_proven.then_some(proven), file_len, &mut frames)
            .map_err(|error| answer(tail, shared.epoch, error))?;
        let end = own.end_position();
        let beginning = Active { end: own.segment.first_frame, ..own };
        let mut reading = shared.follower.reading();
        // CRASH: killed before the ends are raised, the next turn reads what was begun.
        let followed = reading.go_on_in(shared, &Arc::new(manifest), vec![beginning]).and_then(|()| reading.follow_to(shared, end));
        followed.inspect_err(|_| tail.poison(shared.epoch)).map_err(|error| answer(tail, shared.epoch, error))?;
        tail.raise_all(end);
        tail.settle_syncs(begun);
        self.follow(&reading);
        Ok(())
    }

    fn follow(&mut self, reading: &Reading) {
        self.manifest = reading.manifest.clone();
        self.active = reading.active.clone();
    }
}

/// The number of the plan's first frame, which the others' follow. Errors: `Corrupt` for one that only damage to the
/// page can have made, and that nobody would read again.
pub(super) fn next_seq(shared: &Shared, plan: &Plan<'_>) -> Result<u64> {
    let next = shared.tail.next_seq();
    if plan.numbers_end(next) >= SEQS_END {
        let message = "the page that processes share says that no numbers are left: close the store in every process, and open it again";
        return Err(Error::new(ErrorKind::Corrupt, message).with_file(&shared.directory.file(names::TAIL), None));
    }
    Ok(next)
}

/// All heads and records, each padded, in one piece; and the last head's checksum.
pub(super) fn encode_heads(
    frames: &[Planned<'_>],
    salt: u64,
    start: u64,
    next_seq: u64,
    synced_end: u64,
    mut prev_check: u32,
) -> (Vec<u8>, u32) {
    let mut bytes = Vec::with_capacity(frames.iter().map(|frame| payload_start(frame.record.len())).sum());
    let mut position = start;
    for (number, frame) in frames.iter().enumerate() {
        let head = Head {
            more: number + 1 < frames.len(),
            record_len: frame.record.len() as u32,
            payload_len: frame.payload.len() as u32,
            seq: next_seq + number as u64,
            synced_end,
            prev_check,
            payload_check: frame.payload_check,
        };
        let (encoded, check) = head.encode(Place { salt, position }, &frame.record);
        bytes.extend_from_slice(&encoded);
        bytes.extend_from_slice(&frame.record);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        prev_check = check;
        position += head.frame_len();
    }
    (bytes, prev_check)
}

/// The slices of all frames in order: head and record, payload, padding.
fn parts<'a>(heads: &'a [u8], frames: &[Planned<'a>]) -> Vec<&'a [u8]> {
    let mut parts = Vec::with_capacity(frames.len() * 3 + 1);
    let mut rest = heads;
    for frame in frames {
        let (head, others) = rest.split_at(payload_start(frame.record.len()));
        rest = others;
        parts.extend_from_slice(&[head, frame.payload, padding(frame.payload.len())]);
    }
    parts
}

/// How many zeros to write behind a batch that ends at `after`.
fn zeros_behind(after: u64, length: u64, filled: u64, capacity: u64, without_payload: bool) -> u64 {
    let wanted = if without_payload { after } else { after + LEDGE_BYTES };
    if wanted <= filled {
        return 0;
    }
    let upto = if length < FILL_WORTH_BELOW {
        let step = after.next_power_of_two().clamp(FILL_BYTES_MIN, FILL_BYTES_MAX);
        (after + LEDGE_BYTES).next_multiple_of(step)
    } else {
        after + LEDGE_BYTES
    };
    upto.min(capacity).saturating_sub(after).min(FILL_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_made_ahead_in_steps_and_a_ledge_is_left() {
        const KIB: u64 = 1024;
        let capacity = 1 << 30;
        let zeros = |after, length, filled| zeros_behind(after, length, filled, capacity, false);
        // Small batches fill up to a step that grows with the segment.
        assert_eq!(zeros(KIB, 100, KIB), 63 * KIB);
        assert_eq!(zeros(100 * KIB, 100, 0), 28 * KIB);
        assert_eq!(zeros(600 * KIB, 100, 0), 424 * KIB);
        assert_eq!(zeros(1024 * KIB, 100, 0), 1024 * KIB);
        assert_eq!(zeros(5000 * KIB, 100, 0), 120 * KIB);
        // Never less than the ledge.
        assert_eq!(zeros(60 * KIB, 100, 0), 68 * KIB);
        // Large ones leave the ledge alone.
        assert_eq!(zeros(600 * KIB, 256 * KIB - 1, 0), 424 * KIB);
        assert_eq!(zeros(600 * KIB, 256 * KIB, 0), 16 * KIB);
        // What is filled already is not filled again.
        assert_eq!(zeros(KIB, 100, 17 * KIB), 0);
        assert_eq!(zeros(KIB, 100, 17 * KIB - 1), 63 * KIB);
        // What has no payload may use up the ledge, and nothing goes behind the capacity.
        assert_eq!(zeros_behind(KIB, 100, KIB, capacity, true), 0);
        assert_eq!(zeros_behind(KIB, 100, KIB - 1, capacity, true), 63 * KIB);
        assert_eq!(zeros_behind(KIB, 100, 0, 9 * KIB, false), 8 * KIB);
        assert_eq!(zeros_behind(KIB, 100, 0, KIB - 1, false), 0);
    }
}
