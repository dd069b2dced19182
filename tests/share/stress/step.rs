//! What a writer does at each number, which follows from the round's seed, its own number and that;
//! and states that tell who put them.

use taffrail::Durability;
use taffrail::testing::states::noise;

use crate::chance::Chance;

/// The thread that all writers put to.
pub const COMMON: &str = "common";

/// A writer's own thread.
pub fn own(writer: u64) -> String {
    format!("own {writer}")
}

/// The two threads of a writer that always get the same number in one batch.
pub fn pair(writer: u64) -> [String; 2] {
    [format!("pair {writer} left"), format!("pair {writer} right")]
}

/// The thread that a writer deletes from time to time.
pub fn brief(writer: u64) -> String {
    format!("brief {writer}")
}

/// The thread of which a writer keeps only the newest, and now and then fewer.
pub fn kept(writer: u64) -> String {
    format!("kept {writer}")
}

/// The thread in which a writer goes on from older checkpoints, and deletes single ones.
pub fn tree(writer: u64) -> String {
    format!("tree {writer}")
}

/// The longest thread that is vacuumed: where its writer is killed, any of what was to go may have gone.
pub const VACUUMED_MAX: usize = 12;
/// What is answered of a longer one.
pub const NOT_VACUUMED: &str = "longer";

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A put to the writer's own thread.
    Own,
    /// A put to the thread of all.
    Common,
    /// A batch of one put to each thread of the pair.
    Pair,
    /// A put to the thread that is deleted from time to time.
    Brief,
    /// Its deletion.
    Delete,
    /// A put to the thread of which only the newest are kept.
    Kept,
    /// From now on it keeps so many.
    Retain(u64),
    /// All but so many of its newest go, unless it is long.
    Vacuum(u64),
    /// A put that names a checkpoint of the tree as its parent.
    Branch,
    /// The deletion of one checkpoint of the tree.
    Prune,
}

/// One step of a writer.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// What is done.
    pub kind: Kind,
    /// The length of the state, in bytes.
    pub length: usize,
    /// How durable.
    pub durability: Durability,
}

impl Step {
    /// The step of a writer with a number.
    pub fn of(seed: u64, segment_bytes: u64, writer: u64, number: u64) -> Step {
        let mut chance = Chance::new(seed ^ (writer << 48) ^ (number << 16));
        let kind = chance.one_of(&[
            Kind::Own,
            Kind::Own,
            Kind::Own,
            Kind::Common,
            Kind::Common,
            Kind::Common,
            Kind::Pair,
            Kind::Pair,
            Kind::Pair,
            Kind::Brief,
            Kind::Brief,
            Kind::Delete,
            Kind::Kept,
            Kind::Kept,
            Kind::Kept,
            Kind::Retain(2 + number % 5),
            Kind::Vacuum(1 + number % 3),
            Kind::Branch,
            Kind::Branch,
            Kind::Branch,
            Kind::Prune,
        ]);
        // What is over a quarter of a segment goes to a segment of its own.
        let large = (segment_bytes / 4 + 1 + chance.below(4000)).min(100_000);
        let length = if chance.once_in(20) { large } else { 30 + chance.below(600) };
        let durability = if chance.once_in(3) { Durability::Buffered } else { Durability::Sync };
        Step { kind, length: length as usize, durability }
    }
}

/// A state that tells who put it, its number and its length. Some in a row are alike, whoever puts them, so that
/// many are deltas.
pub fn state(writer: u64, number: u64, length: usize) -> Vec<u8> {
    let mut bytes = format!("{writer} {number} {length} ").into_bytes();
    bytes.extend(noise(number / 8, length.saturating_sub(bytes.len())));
    bytes.truncate(length);
    bytes
}

/// The writer and the number of a state, which must be exactly as it was put.
pub fn told(bytes: &[u8], context: &str) -> (u64, u64) {
    let mut words = bytes.splitn(4, |&byte| byte == b' ').map(|word| std::str::from_utf8(word).ok()?.parse().ok());
    let mut next = || words.next().flatten().unwrap_or_else(|| panic!("{context}: a state that nobody put"));
    let (writer, number, length) = (next(), next(), next());
    assert!(bytes == state(writer, number, length as usize), "{context}: the state of {writer} {number} is not as it was put");
    (writer, number)
}
