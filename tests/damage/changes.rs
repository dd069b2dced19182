//! What can happen to one file, and what lies there then.

use taffrail::testing::states::noise;

use crate::oracle::Content;
use crate::sample::Sample;
use crate::scratch::frames;

/// One damage to one file.
#[derive(Clone, Debug)]
pub struct Case {
    pub file: String,
    pub change: Change,
}

/// What happens to a file's bytes.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    Flip {
        byte: usize,
        bit: u8,
    },
    /// What stood from here on is gone.
    Cut {
        at: usize,
    },
    /// The length stays, and all from here on is zero.
    ZerosFrom {
        at: usize,
    },
    /// The same, and up to the sector's end stands something else.
    GarbageFrom {
        at: usize,
    },
    /// What stands at `from` stands at `to` too.
    Copied {
        from: usize,
        to: usize,
        length: usize,
    },
    Exchanged {
        one: usize,
        other: usize,
        length: usize,
    },
    /// What stood behind `at` stands so many bytes further on.
    Inserted {
        at: usize,
        length: usize,
    },
    /// So many bytes are gone, and what stood behind stands there.
    Removed {
        at: usize,
        length: usize,
    },
    /// Up to five bytes anywhere that counts.
    Random {
        seed: u64,
    },
    Emptied,
    Zeroed,
    Noise,
    OfOther,
    Older,
    Nothing,
    Folder,
}

/// As a disk leaves it that writes no half sectors.
const SECTOR: usize = 512;

impl Case {
    /// What lies there afterwards.
    pub fn content(&self, sample: &Sample) -> Content {
        let whole = &sample.whole[&self.file];
        let mut bytes = whole.clone();
        match self.change {
            Change::Flip { byte, bit } => bytes[byte] ^= 1 << bit,
            Change::Cut { at } => bytes.truncate(at),
            Change::ZerosFrom { at } => bytes[at..].fill(0),
            Change::GarbageFrom { at } => {
                let sector = (at + 1).next_multiple_of(SECTOR).min(bytes.len());
                bytes[at..sector].fill(0xa5);
                bytes[sector..].fill(0);
            }
            Change::Copied { from, to, length } => bytes.copy_within(from..from + length, to),
            Change::Exchanged { one, other, length } => {
                bytes[other..other + length].copy_from_slice(&whole[one..one + length]);
                bytes[one..one + length].copy_from_slice(&whole[other..other + length]);
            }
            Change::Inserted { at, length } => drop(bytes.splice(at..at, noise(at as u64, length))),
            Change::Removed { at, length } => drop(bytes.drain(at..at + length)),
            Change::Random { seed } => {
                let chance = noise(seed, 128);
                let number = |at: usize| u64::from_le_bytes(chance[at * 8..at * 8 + 8].try_into().unwrap()) as usize;
                for at in 0..2 + number(0) % 4 {
                    bytes[number(2 * at + 1) % that_counts(sample, &self.file)] = number(2 * at + 2) as u8;
                }
            }
            Change::Emptied => bytes.clear(),
            Change::Zeroed => bytes.fill(0),
            Change::Noise => bytes = noise(5, bytes.len().max(4096)),
            Change::OfOther => bytes = sample.other[&self.file].clone(),
            Change::Older => bytes = sample.older.get(&self.file).cloned().unwrap_or_default(),
            Change::Nothing => return Content::Nothing,
            Change::Folder => return Content::Folder,
        }
        Content::Bytes(bytes)
    }
}

/// The length of a file up to where nothing is but room for more.
pub fn that_counts(sample: &Sample, file: &str) -> usize {
    let whole = &sample.whole[file];
    match file {
        "tail" => 512,
        _ if file.ends_with(".seg") => sample.end(file),
        _ => whole.len(),
    }
}

/// Each bit of headings and of the files that are small, one of each byte elsewhere; and some of the room.
pub fn flips(sample: &Sample) -> Vec<Case> {
    let mut cases = Vec::new();
    for (file, whole) in sample.whole.iter().filter(|(_, whole)| !whole.is_empty()) {
        let is_segment = file.ends_with(".seg");
        let heads: Vec<usize> = if is_segment { frames(whole).iter().map(|frame| frame.start).collect() } else { Vec::new() };
        let end = that_counts(sample, file);
        for byte in (0..end).chain((end..whole.len()).step_by(1021)) {
            let head = heads[..heads.partition_point(|head| *head <= byte)].last();
            let heading = !is_segment || byte < 72 || head.is_some_and(|head| byte - head < 48);
            let bits = if heading && byte < end { 0..8 } else { byte as u8 % 8..byte as u8 % 8 + 1 };
            cases.extend(bits.map(|bit| case(file, Change::Flip { byte, bit })));
        }
    }
    cases
}

/// Each length that a file may be left with, cut, or with zeros or garbage behind.
pub fn cuts(sample: &Sample) -> Vec<Case> {
    let mut cases = Vec::new();
    for (file, whole) in &sample.whole {
        let end = that_counts(sample, file);
        for at in (0..end).chain((end..whole.len()).step_by(4099)) {
            cases.extend([Change::Cut { at }, Change::ZerosFrom { at }, Change::GarbageFrom { at }].map(|change| case(file, change)));
        }
    }
    cases
}

/// Ranges repeated, moved and exchanged: frames, words, sectors and odd pieces.
pub fn ranges(sample: &Sample) -> Vec<Case> {
    let mut cases = Vec::new();
    for (file, whole) in sample.whole.iter().filter(|(_, whole)| !whole.is_empty()) {
        let end = that_counts(sample, file);
        let mut pieces: Vec<(usize, usize)> = Vec::new();
        if file.ends_with(".seg") {
            pieces.extend(frames(whole).iter().map(|frame| (frame.start, frame.len())));
        }
        for length in [1, 8, 40, SECTOR] {
            pieces.extend((0..end).step_by((end / 40).max(length)).map(|at| (at, length)));
        }
        pieces.retain(|(at, length)| at + length <= end);
        for (number, &(at, length)) in pieces.iter().enumerate() {
            for &(other, beside) in [1, 2, 5].iter().filter_map(|step| pieces.get(number + step)) {
                let length = length.min(beside);
                let mut changes = vec![Change::Copied { from: at, to: other, length }, Change::Copied { from: other, to: at, length }];
                if at + length <= other {
                    changes.push(Change::Exchanged { one: at, other, length });
                }
                cases.extend(changes.into_iter().map(|change| case(file, change)));
            }
            cases.extend([Change::Inserted { at, length }, Change::Removed { at, length }].map(|change| case(file, change)));
        }
    }
    cases
}

/// Each file replaced as a whole.
pub fn replaced(sample: &Sample) -> Vec<Case> {
    let all = [Change::Emptied, Change::Zeroed, Change::Noise, Change::OfOther, Change::Older, Change::Nothing, Change::Folder];
    sample.whole.keys().flat_map(|file| all.map(|change| case(file, change))).collect()
}

fn case(file: &str, change: Change) -> Case {
    Case { file: file.to_owned(), change }
}
