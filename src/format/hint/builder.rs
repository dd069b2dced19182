//! A hint file in the making: a segment's records as they come, gathered by thread.

use std::collections::HashMap;

use super::{
    AWAITING, KIND_ATTACH, KIND_BIND, KIND_DELETE_CHECKPOINT, KIND_DELETE_THREAD, KIND_DETACH, KIND_KEEP, KIND_PROMOTE, KIND_PUT, KIND_TRIM,
};
use super::{CHECK_AT, GROUP_BYTES, HEADING_BYTES, Heading, Hint, ITEM_BYTES, MAGIC};
use crate::format::record::{Id, Record};
use crate::format::{VERSION, check_around};

/// Where a frame stands, and what it says beside its record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    /// Its offset.
    pub offset: u64,
    /// Its length.
    pub length: u64,
    /// Its head's checksum.
    pub check: u32,
    /// Its number in the one order of the store.
    pub seq: u64,
}

/// A hint in the making: takes a segment's records in their order.
#[derive(Default)]
pub(crate) struct Builder {
    /// Where a thread stands in `groups`.
    threads: HashMap<Box<str>, usize>,
    groups: Vec<Gathered>,
    frames: u64,
    seq_max: u64,
    last: Option<Standing>,
}

/// A thread's items so far.
#[derive(Default)]
struct Gathered {
    thread: Box<str>,
    items: Vec<u8>,
    texts: Vec<u8>,
}

impl Gathered {
    /// Adds a text; answers where it begins.
    fn text(&mut self, text: &str) -> u32 {
        let at = self.texts.len() as u32;
        self.texts.extend_from_slice(text.as_bytes());
        at
    }
}

impl Builder {
    /// One that goes on behind what a hint of the same segment covers.
    pub fn after(hint: &Hint) -> Builder {
        let Heading { end, last_frame, frames, seq_max, last_check, .. } = hint.heading;
        let last = Standing { offset: last_frame, length: end - last_frame, check: last_check, seq: seq_max };
        let mut builder = Builder { frames, seq_max, last: Some(last), ..Builder::default() };
        for group in hint.groups() {
            let own = builder.group(group.thread);
            own.items.extend_from_slice(group.items.as_flattened());
            own.texts.extend_from_slice(group.texts.as_bytes());
        }
        builder
    }

    /// Where what it has taken ends, if that is anything.
    pub fn end(&self) -> Option<u64> {
        self.last.map(|last| last.offset + last.length)
    }

    /// Takes the next record.
    pub fn push(&mut self, record: &Record<'_>, at: Standing) {
        let own = self.group(record.thread());
        let mut item = [0; ITEM_BYTES];
        match record.id() {
            Some(Id::Uuid(bytes)) => item[32..].copy_from_slice(&bytes),
            Some(Id::Text(text)) => {
                item[1] = text.len() as u8;
                item[32..36].copy_from_slice(&own.text(text).to_le_bytes());
            }
            None => {}
        }
        let (kind, place, floor) = match record {
            Record::Put(put) | Record::Promote(put) => {
                item[2] = u8::from(put.coding.is_delta());
                item[4..8].copy_from_slice(&put.state_len.to_le_bytes());
                (if let Record::Promote(_) = record { KIND_PROMOTE } else { KIND_PUT }, put.place, put.floor)
            }
            Record::Attach(attach) => {
                let awaiting = if attach.is_awaiting { AWAITING } else { 0 };
                item[2..4].copy_from_slice(&(attach.key.len() as u16 | awaiting).to_le_bytes());
                item[4..8].copy_from_slice(&own.text(attach.key).to_le_bytes());
                (KIND_ATTACH, attach.number, attach.place)
            }
            Record::Bind { number, place, .. } => (KIND_BIND, *number, *place),
            Record::Detach { number, .. } => (KIND_DETACH, *number, 0),
            Record::DeleteThread { .. } => (KIND_DELETE_THREAD, 0, 0),
            Record::DeleteCheckpoint { place, .. } => (KIND_DELETE_CHECKPOINT, *place, 0),
            Record::Trim { floor, .. } => (KIND_TRIM, 0, *floor),
            Record::Keep { keep, .. } => (KIND_KEEP, keep.unwrap_or(0), 0),
        };
        item[0] = kind;
        item[8..16].copy_from_slice(&place.to_le_bytes());
        item[16..24].copy_from_slice(&floor.to_le_bytes());
        item[24..28].copy_from_slice(&((at.offset / 8) as u32).to_le_bytes());
        item[28..32].copy_from_slice(&((at.length / 8) as u32).to_le_bytes());
        own.items.extend_from_slice(&item);
        self.frames += 1;
        self.seq_max = self.seq_max.max(at.seq);
        self.last = Some(at);
    }

    fn group(&mut self, thread: &str) -> &mut Gathered {
        let at = match self.threads.get(thread) {
            Some(&at) => at,
            None => {
                self.threads.insert(thread.into(), self.groups.len());
                self.groups.push(Gathered { thread: thread.into(), ..Gathered::default() });
                self.groups.len() - 1
            }
        };
        &mut self.groups[at]
    }

    /// The whole file; `None` where nothing was taken.
    pub fn encode(&self, store: [u8; 16], number: u64, salt: u64) -> Option<Vec<u8>> {
        let last = self.last?;
        let mut groups: Vec<&Gathered> = self.groups.iter().collect();
        groups.sort_unstable_by(|one, other| one.thread.cmp(&other.thread));
        let size = |of: fn(&Gathered) -> usize| self.groups.iter().map(of).sum::<usize>();
        let (items, threads, texts) = (size(|group| group.items.len()), size(|group| group.thread.len()), size(|group| group.texts.len()));
        let mut bytes = Vec::with_capacity(HEADING_BYTES + self.groups.len() * GROUP_BYTES + items + threads + texts);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 6]);
        bytes.extend_from_slice(&store);
        for number in [number, salt, last.offset + last.length, last.offset, self.frames, self.seq_max, threads as u64, texts as u64] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for number in [last.check, 0, self.groups.len() as u32, 0] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for group in &groups {
            bytes.extend_from_slice(&((group.items.len() / ITEM_BYTES) as u32).to_le_bytes());
            bytes.extend_from_slice(&(group.texts.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&(group.thread.len() as u16).to_le_bytes());
            bytes.extend_from_slice(&[0; 2]);
        }
        groups.iter().for_each(|group| bytes.extend_from_slice(&group.items));
        groups.iter().for_each(|group| bytes.extend_from_slice(group.thread.as_bytes()));
        groups.iter().for_each(|group| bytes.extend_from_slice(&group.texts));
        let check = check_around(&bytes, CHECK_AT);
        bytes[CHECK_AT..CHECK_AT + 4].copy_from_slice(&check.to_le_bytes());
        Some(bytes)
    }
}
