//! The hint file: every record of a segment up to an offset, grouped by thread.
//!
//! Disposable: it says nothing that the segment does not, and whatever is wrong with it costs only
//! the time to read the segment instead. A thread's records stand together and in the log's order, so
//! that its view is built from one slice. Which segment it is about, and whether that segment is
//! still the one, is for the reader to compare.
//!
//! `heading (112) | groups (12 each) | items (48 each) | thread ids | texts`; layout in DESIGN.md, "Hint file".

mod builder;

pub(crate) use builder::{Builder, Standing};

use super::record::{Attach, Coding, Difference, Followed, Id, Put, Record};
use super::{Flaw, SEQS_END, VERSION, check_around, field, u16_at, u32_at, u64_at};

/// The size of a heading.
pub(crate) const HEADING_BYTES: usize = 112;
const MAGIC: [u8; 8] = *b"TAFFHNT\0";
const CHECK_AT: usize = 12;
const GROUP_BYTES: usize = 12;
const ITEM_BYTES: usize = 48;

const KIND_PUT: u8 = 1;
const KIND_DELETE_THREAD: u8 = 2;
const KIND_DELETE_CHECKPOINT: u8 = 3;
const KIND_TRIM: u8 = 4;
const KIND_ATTACH: u8 = 5;
const KIND_KEEP: u8 = 6;
const KIND_PROMOTE: u8 = 7;
const KIND_BIND: u8 = 8;
const KIND_DETACH: u8 = 9;

/// Beside a key's length: its checkpoint is yet to come.
const AWAITING: u16 = 1 << 15;

/// The longest hint of a segment of that length: no record takes up twice its frame's length here.
pub(crate) fn bytes_max(segment_len: u64) -> u64 {
    segment_len.saturating_mul(2).saturating_add(HEADING_BYTES as u64)
}

/// What a hint is about and how far it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Heading {
    /// The store.
    pub store: [u8; 16],
    /// The segment's number.
    pub number: u64,
    /// The salt of its frames' checksums.
    pub salt: u64,
    /// The offset at which what is covered ends.
    pub end: u64,
    /// Where the last frame that is covered begins.
    pub last_frame: u64,
    /// How many frames are covered.
    pub frames: u64,
    /// The highest sequence number among them.
    pub seq_max: u64,
    /// The last frame's head checksum, to which the next frame chains.
    pub last_check: u32,
}

impl Heading {
    /// What a file's first bytes say of it, without a look at its checksum: for who decides whether
    /// another one is worth making. Errors: `Torn`, `Corrupt`.
    pub fn peek(bytes: &[u8]) -> Result<Heading, Flaw> {
        let short = Flaw::Torn("hint heading");
        let bytes = bytes.get(..HEADING_BYTES).ok_or(short)?;
        if bytes[0..8] != MAGIC {
            return Err(Flaw::Corrupt("hint magic"));
        }
        Ok(Heading {
            store: field(bytes, 16).ok_or(short)?,
            number: u64_at(bytes, 32).ok_or(short)?,
            salt: u64_at(bytes, 40).ok_or(short)?,
            end: u64_at(bytes, 48).ok_or(short)?,
            last_frame: u64_at(bytes, 56).ok_or(short)?,
            frames: u64_at(bytes, 64).ok_or(short)?,
            seq_max: u64_at(bytes, 72).ok_or(short)?,
            last_check: u32_at(bytes, 96).ok_or(short)?,
        })
    }
}

/// A hint file whose checksum, lengths and items are all as they should be.
pub(crate) struct Hint {
    heading: Heading,
    bytes: Vec<u8>,
    /// Where the items, the thread ids and the texts begin.
    areas: [usize; 3],
}

impl Hint {
    /// Decodes a whole file. Errors: `Torn`, `Corrupt`, `Unknown`.
    pub fn decode(bytes: Vec<u8>) -> Result<Hint, Flaw> {
        let heading = Heading::peek(&bytes)?;
        let (areas, length) = areas(&bytes, &heading).ok_or(Flaw::Corrupt("hint lengths"))?;
        if bytes.len() < length {
            return Err(Flaw::Torn("hint"));
        }
        if bytes.len() > length || u32_at(&bytes, CHECK_AT) != Some(check_around(&bytes, CHECK_AT)) {
            return Err(Flaw::Corrupt("hint checksum"));
        }
        if u16_at(&bytes, 8) != Some(VERSION) || bytes[10..12] != [0; 2] {
            return Err(Flaw::Unknown("hint version"));
        }
        if heading.seq_max >= SEQS_END {
            return Err(Flaw::Corrupt("hint number"));
        }
        let hint = Hint { heading, bytes, areas };
        if hint.is_sound() { Ok(hint) } else { Err(Flaw::Corrupt("hint items")) }
    }

    /// What it is about.
    pub fn heading(&self) -> &Heading {
        &self.heading
    }

    /// The threads in the order of their ids, each with its records in the log's order.
    pub fn groups(&self) -> impl Iterator<Item = Group<'_>> {
        let [items, threads, texts] = self.areas;
        let mut items = self.bytes[items..threads].as_chunks().0;
        let (mut threads, mut texts) = (&self.bytes[threads..texts], &self.bytes[texts..]);
        let groups = self.bytes[HEADING_BYTES..self.areas[0]].as_chunks::<GROUP_BYTES>().0;
        // Nothing is cut short in what was decoded.
        groups.iter().map_while(move |group| {
            let own = items.split_off(..u32_at(group, 0)? as usize)?;
            let texts = texts.split_off(..u32_at(group, 4)? as usize)?;
            let thread = threads.split_off(..usize::from(u16_at(group, 8)?))?;
            Some(Group { thread: std::str::from_utf8(thread).ok()?, items: own, texts: std::str::from_utf8(texts).ok()? })
        })
    }

    /// Whether the groups use up all items, thread ids and texts, and the items say what records say.
    fn is_sound(&self) -> bool {
        let Heading { end, last_frame, frames, .. } = self.heading;
        let [items, threads, texts] = self.areas;
        let (mut count, mut before) = (0, "");
        let mut left = [(threads - items) / ITEM_BYTES, texts - threads, self.bytes.len() - texts];
        for group in self.groups() {
            count += 1;
            for (left, own) in left.iter_mut().zip([group.items.len(), group.thread.len(), group.texts.len()]) {
                *left -= own;
            }
            if group.thread <= before || !group.is_sound(end) {
                return false;
            }
            before = group.thread;
        }
        let zeros = self.bytes[HEADING_BYTES..items].as_chunks::<GROUP_BYTES>().0.iter().all(|group| group[10..] == [0; 2]);
        left == [0; 3]
            && count * GROUP_BYTES == items - HEADING_BYTES
            && zeros
            && frames > 0
            && last_frame < end
            && last_frame % 8 == 0
            && end % 8 == 0
            && self.bytes[100..104] == [0; 4]
            && self.bytes[108..112] == [0; 4]
    }
}

/// Where items, thread ids and texts begin, and where the last ends.
fn areas(bytes: &[u8], heading: &Heading) -> Option<([usize; 3], usize)> {
    let size = |at: usize| usize::try_from(u64_at(bytes, at)?).ok();
    let groups = (u32_at(bytes, 104)? as usize).checked_mul(GROUP_BYTES)?;
    let items = HEADING_BYTES.checked_add(groups)?;
    let threads = items.checked_add(usize::try_from(heading.frames).ok()?.checked_mul(ITEM_BYTES)?)?;
    let texts = threads.checked_add(size(80)?)?;
    Some(([items, threads, texts], texts.checked_add(size(88)?)?))
}

/// A thread's records.
#[derive(Clone, Copy)]
pub(crate) struct Group<'a> {
    /// The thread.
    pub thread: &'a str,
    items: &'a [[u8; ITEM_BYTES]],
    texts: &'a str,
}

impl<'a> Group<'a> {
    /// How many there are; at least one.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// The record at `index`, which is one of them.
    pub fn item(&self, index: usize) -> Item<'a> {
        Item { bytes: &self.items[index], texts: self.texts }
    }

    /// Its records, in the log's order.
    pub fn items(&self) -> impl ExactSizeIterator<Item = Item<'a>> + use<'a> {
        let texts = self.texts;
        self.items.iter().map(move |bytes| Item { bytes, texts })
    }

    fn is_sound(&self, end: u64) -> bool {
        let mut texts_at = 0;
        let sound = self.items().all(|item| item.is_sound(end, &mut texts_at));
        sound && texts_at == self.texts.len() && !self.items.is_empty()
    }
}

/// A record: what it does to its thread, and where its frame stands.
#[derive(Clone, Copy)]
pub(crate) struct Item<'a> {
    bytes: &'a [u8; ITEM_BYTES],
    texts: &'a str,
}

impl<'a> Item<'a> {
    /// Whether it is a put.
    pub fn is_put(&self) -> bool {
        self.bytes[0] == KIND_PUT
    }

    /// Whether it is a put of a difference.
    pub fn is_delta(&self) -> bool {
        self.bytes[2] == 1 && self.is_put()
    }

    /// The state's size, of a put.
    pub fn state_len(&self) -> u32 {
        self.u32(4)
    }

    /// The place put or deleted; of what is said of attachments, the number.
    pub fn place(&self) -> u64 {
        self.u64(8)
    }

    /// The lowest place the thread keeps from here on, of a put or trim; of what is said of attachments, the place.
    pub fn floor(&self) -> u64 {
        self.u64(16)
    }

    /// The frame's offset, in units of 8 bytes.
    pub fn offset8(&self) -> u32 {
        self.u32(24)
    }

    /// The frame's length, in units of 8 bytes.
    pub fn length8(&self) -> u32 {
        self.u32(28)
    }

    /// The checkpoint's id, of a put and of what is said of attachments.
    pub fn id(&self) -> Id<'a> {
        let [.., id] = self.bytes.as_chunks::<16>().0 else { return Id::Uuid([0; 16]) };
        match usize::from(self.bytes[1]) {
            0 => Id::Uuid(*id),
            length => {
                let at = self.u32(32) as usize;
                Id::Text(self.texts.get(at..at + length).unwrap_or_default())
            }
        }
    }

    /// The key, of a value attached.
    fn key(&self) -> &'a str {
        let at = self.u32(4) as usize;
        self.texts.get(at..at + usize::from(self.key_len())).unwrap_or_default()
    }

    fn key_len(&self) -> u16 {
        u16_at(self.bytes, 2).unwrap_or_default() & !AWAITING
    }

    /// Whether what is attached is so to a checkpoint that is yet to come.
    fn is_awaiting(&self) -> bool {
        u16_at(self.bytes, 2).unwrap_or_default() & AWAITING != 0
    }

    /// The checkpoint's id in words, of a put whose id is a UUID.
    pub fn uuid(&self) -> Option<[u64; 2]> {
        (self.bytes[1] == 0).then(|| [self.u64(32), self.u64(40)])
    }

    /// The record, as far as it is kept here: a put without clock, parent, tag and metadata, and of a
    /// difference only that it is one; a value attached without its tag, size and coding.
    pub fn record(&self, thread: &'a str) -> Record<'a> {
        let (place, floor) = (self.place(), self.floor());
        match self.bytes[0] {
            KIND_DELETE_THREAD => Record::DeleteThread { thread },
            KIND_DELETE_CHECKPOINT => Record::DeleteCheckpoint { thread, place },
            KIND_TRIM => Record::Trim { thread, floor },
            KIND_KEEP => Record::Keep { thread, keep: (place != 0).then_some(place) },
            KIND_ATTACH => {
                let (id, key, tag, number, place, is_awaiting) = (self.id(), self.key(), "", place, floor, self.is_awaiting());
                Record::Attach(Attach { thread, id, key, tag, number, place, is_awaiting, value_len: 0, is_packed: false })
            }
            KIND_BIND => Record::Bind { thread, id: self.id(), number: place, place: floor },
            KIND_DETACH => Record::Detach { thread, id: self.id(), number: place },
            _ => {
                let (id, state_len) = (self.id(), self.state_len());
                let coding = if self.is_delta() { Coding::Delta(Difference::default()) } else { Coding::Whole };
                let (saved_at, parent) = (0, Followed::Nothing);
                let put = Put { thread, id, place, floor, saved_at, parent, tag: "", metadata: "", state_len, coding };
                if self.bytes[0] == KIND_PROMOTE { Record::Promote(put) } else { Record::Put(put) }
            }
        }
    }

    /// Whether it says what such a record can say, of a frame before `end`.
    fn is_sound(&self, end: u64, texts_at: &mut usize) -> bool {
        let (place, floor, kind) = (self.place(), self.floor(), self.bytes[0]);
        let fits = self.length8() != 0 && (u64::from(self.offset8()) + u64::from(self.length8())) * 8 <= end;
        let flags = self.bytes[2..4] == [0; 2] || self.bytes[2..4] == [1, 0] && kind == KIND_PUT || kind == KIND_ATTACH;
        let said = match kind {
            KIND_PUT | KIND_PROMOTE => place != 0 && floor <= place && self.names_an_id(texts_at),
            KIND_ATTACH => {
                let numbers = place != 0 && floor != 0 && (!self.is_awaiting() || floor >= place);
                numbers && self.names_an_id(texts_at) && self.names_a_key(texts_at)
            }
            KIND_BIND => place != 0 && floor != 0 && self.state_len() == 0 && self.names_an_id(texts_at),
            KIND_DETACH => place != 0 && floor == 0 && self.state_len() == 0 && self.names_an_id(texts_at),
            kind => {
                let numbers = match kind {
                    KIND_DELETE_THREAD => place == 0 && floor == 0,
                    KIND_DELETE_CHECKPOINT | KIND_KEEP => floor == 0,
                    KIND_TRIM => place == 0,
                    _ => false,
                };
                numbers && self.bytes[1] == 0 && self.state_len() == 0 && self.bytes[32..] == [0; 16]
            }
        };
        fits && flags && said
    }

    /// Whether its id is a UUID, or the group's next text.
    fn names_an_id(&self, texts_at: &mut usize) -> bool {
        let length = usize::from(self.bytes[1]);
        length == 0 || self.u32(32) as usize == *texts_at && self.takes_text(length, texts_at) && self.bytes[36..] == [0; 12]
    }

    /// Whether its key is the group's next text.
    fn names_a_key(&self, texts_at: &mut usize) -> bool {
        let length = usize::from(self.key_len());
        length != 0 && self.u32(4) as usize == *texts_at && self.takes_text(length, texts_at)
    }

    fn takes_text(&self, length: usize, texts_at: &mut usize) -> bool {
        let at = std::mem::replace(texts_at, *texts_at + length);
        self.texts.get(at..at + length).is_some()
    }

    fn u32(&self, at: usize) -> u32 {
        u32_at(self.bytes, at).unwrap_or_default()
    }

    fn u64(&self, at: usize) -> u64 {
        u64_at(self.bytes, at).unwrap_or_default()
    }
}

/// Makes the checksum of what may be a hint fit, so that the fuzz targets see behind it.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn repair(bytes: &mut [u8]) {
    if bytes.len() >= HEADING_BYTES {
        let check = check_around(bytes, CHECK_AT);
        bytes[CHECK_AT..CHECK_AT + 4].copy_from_slice(&check.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STORE: [u8; 16] = [3; 16];

    /// A record of each kind by its number, of one of three threads.
    fn record(kind: u8, number: u64, text: &str) -> Record<'_> {
        let thread = ["a", "thread \u{e9}", "c"][number as usize % 3];
        let id = if kind == 0 { Id::Uuid([number as u8; 16]) } else { Id::Text(text) };
        let (saved_at, parent, tag, metadata) = (0, Followed::Nothing, "", "");
        match kind {
            0 | 1 | 7 => {
                let (place, floor, state_len) = (number + 1, number / 2, number as u32);
                let coding = if number.is_multiple_of(3) && kind < 7 { Coding::Delta(Difference::default()) } else { Coding::Whole };
                let put = Put { thread, id, place, floor, saved_at, parent, tag, metadata, state_len, coding };
                if kind == 7 { Record::Promote(put) } else { Record::Put(put) }
            }
            2 => Record::DeleteThread { thread },
            3 => Record::DeleteCheckpoint { thread, place: number + 1 },
            4 => Record::Trim { thread, floor: number },
            5 => Record::Keep { thread, keep: None },
            6 => Record::Keep { thread, keep: Some(number + 1) },
            8 | 9 => {
                let (id, key) = (if kind == 8 { Id::Uuid([number as u8; 16]) } else { id }, text);
                let (number, place, is_awaiting) =
                    if kind == 8 { (number + 1, number + 2, true) } else { (number + 1, number / 2 + 1, false) };
                Record::Attach(Attach { thread, id, key, tag, number, place, is_awaiting, value_len: 0, is_packed: false })
            }
            10 => Record::Bind { thread, id, number: number + 1, place: number + 2 },
            _ => Record::Detach { thread, id, number: number + 1 },
        }
    }

    fn standing(number: u64) -> Standing {
        Standing { offset: 72 + number * 64, length: 64, check: number as u32 ^ 0x55, seq: number * 2 }
    }

    fn built(records: &[(u8, u64, String)]) -> (Builder, Vec<u8>) {
        let mut builder = Builder::default();
        for (at, (kind, number, text)) in records.iter().enumerate() {
            builder.push(&record(*kind, *number, text), standing(at as u64));
        }
        let bytes = builder.encode(STORE, 7, 8).unwrap();
        (builder, bytes)
    }

    fn any_records() -> impl Strategy<Value = Vec<(u8, u64, String)>> {
        prop::collection::vec((0..12u8, 0..1000u64, ".{1,40}"), 1..60)
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded_grouped_by_thread(records in any_records()) {
            let (_, bytes) = built(&records);
            let hint = Hint::decode(bytes.clone()).unwrap();
            let last = standing(records.len() as u64 - 1);
            let heading = Heading {
                store: STORE, number: 7, salt: 8, end: last.offset + 64, last_frame: last.offset,
                frames: records.len() as u64, seq_max: last.seq, last_check: last.check,
            };
            prop_assert_eq!(*hint.heading(), heading);
            prop_assert_eq!(Heading::peek(&bytes), Ok(heading));
            let mut seen = 0;
            for group in hint.groups() {
                let own = records.iter().enumerate().filter(|(_, (kind, number, text))| record(*kind, *number, text).thread() == group.thread);
                let (mut items, mut count) = (group.items(), 0);
                for (at, (kind, number, text)) in own {
                    let item = items.next().unwrap();
                    prop_assert_eq!(item.record(group.thread), record(*kind, *number, text));
                    prop_assert_eq!(item.is_put(), *kind < 2);
                    let words = match kind {
                        0 | 8 => Some([u64::from_le_bytes([*number as u8; 8]); 2]),
                        1 | 7 | 9 | 10 | 11 => None,
                        _ => Some([0; 2]),
                    };
                    prop_assert_eq!(item.uuid(), words);
                    prop_assert_eq!((u64::from(item.offset8()) * 8, u64::from(item.length8()) * 8), (standing(at as u64).offset, 64));
                    count += 1;
                }
                prop_assert!(items.next().is_none() && count == group.len());
                seen += count;
            }
            prop_assert_eq!(seen, records.len());
        }

        #[test]
        fn going_on_behind_a_hint_is_as_taking_all(records in any_records(), cut: prop::sample::Index) {
            let cut = cut.index(records.len()) + 1;
            let (_, first) = built(&records[..cut]);
            let mut builder = Builder::after(&Hint::decode(first).unwrap());
            prop_assert_eq!(builder.end(), Some(72 + 64 * cut as u64));
            for (at, (kind, number, text)) in records.iter().enumerate().skip(cut) {
                builder.push(&record(*kind, *number, text), standing(at as u64));
            }
            prop_assert_eq!(builder.encode(STORE, 7, 8), Some(built(&records).1));
        }

        #[test]
        fn bad_bytes_are_noticed(records in any_records(), at: prop::sample::Index, bit in 0..8u8) {
            let (_, bytes) = built(&records);
            let mut flipped = bytes.clone();
            flipped[at.index(bytes.len())] ^= 1 << bit;
            prop_assert!(Hint::decode(flipped).is_err());
            let cut = Hint::decode(bytes[..at.index(bytes.len())].to_vec()).err();
            prop_assert!(matches!(cut, Some(Flaw::Torn(_))));
            prop_assert!(Hint::decode([&bytes[..], &[0]].concat()).is_err());
        }

        #[test]
        fn bytes_with_a_fitting_checksum_are_refused_or_make_sense(records in any_records(), at: prop::sample::Index, byte: u8) {
            let mut bytes = built(&records).1;
            let at = at.index(bytes.len());
            bytes[at] = byte;
            repair(&mut bytes);
            if let Ok(hint) = Hint::decode(bytes.clone()) {
                prop_assert_eq!(hint.groups().map(|group| group.items().count() as u64).sum::<u64>(), hint.heading().frames);
                let Heading { store, number, salt, .. } = *hint.heading();
                prop_assert_eq!(Builder::after(&hint).encode(store, number, salt), Some(bytes));
            }
        }
    }

    #[test]
    fn a_newer_version_is_told_from_damage_and_nothing_is_no_hint() {
        let mut bytes = built(&[(0, 1, String::new())]).1;
        bytes[8] = 9;
        repair(&mut bytes);
        assert_eq!(Hint::decode(bytes).err(), Some(Flaw::Unknown("hint version")));
        assert!(Builder::default().encode(STORE, 1, 1).is_none());
    }

    /// What is said of a hint of those records whose bytes were changed and whose checksum was made to fit.
    fn changed(records: &[(u8, u64, &str)], changes: &[(usize, &[u8])]) -> Option<Flaw> {
        let records: Vec<_> = records.iter().map(|(kind, number, text)| (*kind, *number, (*text).to_owned())).collect();
        let mut bytes = built(&records).1;
        for (at, change) in changes {
            bytes[*at..at + change.len()].copy_from_slice(change);
        }
        repair(&mut bytes);
        Hint::decode(bytes).err()
    }

    /// One thing wrong at a time, and everything else as it was: nothing else would refuse it.
    #[test]
    fn an_item_that_says_what_no_record_says_is_refused() {
        const ITEM: usize = HEADING_BYTES + GROUP_BYTES;
        const NUMBER: [u8; 8] = 9u64.to_le_bytes();
        let one = |kind, changes: &[(usize, &[u8])]| {
            let changes: Vec<_> = changes.iter().map(|(at, change)| (ITEM + at, *change)).collect();
            changed(&[(kind, 3, "id")], &changes)
        };
        let refused = Some(Flaw::Corrupt("hint items"));
        for kind in 0..12 {
            assert_eq!(one(kind, &[]), None);
            assert_eq!(one(kind, &[(0, &[99])]), refused, "no kind of record");
            assert_eq!(one(kind, &[(3, &[1])]), refused, "{kind}: byte 3");
            assert_eq!(one(kind, &[(28, &[0])]), refused, "{kind}: no length");
            assert_eq!(one(kind, &[(28, &[9])]), refused, "{kind}: a frame that ends behind the end");
            assert_eq!(one(kind, &[(2, &[3])]), refused, "{kind}: byte 2");
        }
        for kind in 2..8 {
            assert_eq!(one(kind, &[(2, &[1])]), refused, "{kind} as a difference");
        }
        for put in [0, 1, 7] {
            assert_eq!(one(put, &[(8, &[0; 16])]), refused, "{put} at no place");
            assert_eq!(one(put, &[(16, &NUMBER)]), refused, "{put} below its thread's floor");
        }
        for kind in [8, 9] {
            assert_eq!(one(kind, &[(8, &[0; 8])]), refused, "{kind} without a number");
            assert_eq!(one(kind, &[(16, &[0; 8])]), refused, "{kind} without a place");
            assert_eq!(one(kind, &[(2, &[0])]), refused, "{kind} without a key");
            assert_eq!(one(kind, &[(2, &[1])]), refused, "{kind} with a part of its key");
            assert_eq!(one(kind, &[(4, &[9])]), refused, "{kind} with another part of the texts for its key");
        }
        for kind in [10, 11] {
            assert_eq!(one(kind, &[(8, &[0; 8])]), refused, "{kind} without a number");
            assert_eq!(one(kind, &[(4, &[1])]), refused, "{kind} with a size");
            assert_eq!(one(kind, &[(2, &[1])]), refused, "{kind} as a difference");
        }
        assert_eq!(one(8, &[(16, &3u64.to_le_bytes())]), refused, "waiting, and older than itself");
        assert_eq!(one(10, &[(16, &[0; 8])]), refused, "bound to no place");
        assert_eq!(one(11, &[(16, &NUMBER)]), refused, "gone from a place");
        for text in [1, 7, 9, 11] {
            assert_eq!(one(text, &[(1, &[1])]), refused, "a part of the texts");
            assert_eq!(one(text, &[(32, &[1])]), refused, "another part of the texts");
            assert_eq!(one(text, &[(36, &[1])]), refused, "something behind the text's place");
        }
        for (without_place, without_floor, kind) in
            [(true, true, 2), (false, true, 3), (true, false, 4), (false, true, 5), (false, true, 6)]
        {
            assert_eq!(one(kind, &[(8, &NUMBER)]), refused.filter(|_| without_place), "{kind} with a place");
            assert_eq!(one(kind, &[(16, &NUMBER)]), refused.filter(|_| without_floor), "{kind} with a floor");
            assert_eq!(one(kind, &[(1, &[1])]), refused, "{kind} with an id");
            assert_eq!(one(kind, &[(4, &[1])]), refused, "{kind} with a state");
            assert_eq!(one(kind, &[(32, &[1])]), refused, "{kind} with a UUID");
        }
    }

    #[test]
    fn groups_and_a_heading_that_no_records_give_are_refused() {
        const GROUP: usize = HEADING_BYTES;
        const OTHER: usize = HEADING_BYTES + GROUP_BYTES;
        let refused = Some(Flaw::Corrupt("hint items"));
        // Threads "a" and "c", of one record each and no texts.
        let two = |changes: &[(usize, &[u8])]| changed(&[(0, 3, ""), (0, 5, "")], changes);
        let threads = HEADING_BYTES + 2 * (GROUP_BYTES + ITEM_BYTES);
        assert_eq!(two(&[]), None);
        assert_eq!(two(&[(threads, b"ca")]), refused, "out of order");
        assert_eq!(two(&[(threads, b"aa")]), refused, "one twice");
        assert_eq!(two(&[(threads, b"\xffc")]), refused, "no text");
        assert_eq!(two(&[(GROUP, &[2]), (OTHER, &[0])]), refused, "a thread without a record");
        assert_eq!(two(&[(GROUP, &[2]), (GROUP + 8, &[2]), (OTHER, &[5])]), refused, "a group that nothing is left for");
        assert_eq!(two(&[(GROUP + 10, &[1])]), refused, "the group's zeros");
        assert_eq!(two(&[(OTHER + 11, &[1])]), refused, "the group's zeros");
        assert_eq!(two(&[(OTHER, &[0])]), refused, "an item of nobody");
        assert_eq!(two(&[(100, &[1])]), refused, "the heading's zeros");
        assert_eq!(two(&[(111, &[1])]), refused, "the heading's zeros");
        let (end, last_frame) = (standing(2).offset, standing(1).offset);
        assert_eq!(two(&[(48, &end.to_le_bytes()), (56, &last_frame.to_le_bytes())]), None);
        assert_eq!(two(&[(48, &(end + 1).to_le_bytes())]), refused, "an end that no frame has");
        assert_eq!(two(&[(56, &(last_frame + 1).to_le_bytes())]), refused, "a frame where none begins");
        assert_eq!(two(&[(56, &end.to_le_bytes())]), refused, "a last frame that begins where all ends");
        // What is of no thread or no text stands behind what is.
        for at in [80, 88] {
            let mut bytes = built(&[(0, 3, String::new())]).1;
            bytes.push(b'x');
            let length = u64_at(&bytes, at).unwrap() + 1;
            bytes[at..at + 8].copy_from_slice(&length.to_le_bytes());
            repair(&mut bytes);
            assert_eq!(Hint::decode(bytes).err(), refused, "a length at {at}");
        }
        let mut nothing = built(&[(0, 3, String::new())]).1[..HEADING_BYTES].to_vec();
        for at in [64, 80, 88, 104] {
            nothing[at..at + 4].fill(0);
        }
        repair(&mut nothing);
        assert_eq!(Hint::decode(nothing).err(), refused, "no frame");
    }

    #[test]
    fn a_number_too_high_and_a_byte_too_many_are_refused() {
        assert_eq!(changed(&[(0, 1, "")], &[(72, &(SEQS_END - 1).to_le_bytes())]), None);
        assert_eq!(changed(&[(0, 1, "")], &[(72, &SEQS_END.to_le_bytes())]), Some(Flaw::Corrupt("hint number")));
        let mut longer = built(&[(0, 1, String::new())]).1;
        longer.push(0);
        repair(&mut longer);
        assert_eq!(Hint::decode(longer).err(), Some(Flaw::Corrupt("hint checksum")));
    }
}
