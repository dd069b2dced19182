//! Which threads segments before a run may speak of.
//!
//! Compaction asks, for a delete says something only while a record before it may be left that it is
//! about. The answer errs on the side of yes: then a record too many is kept.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use super::directory::Directory;
use super::records;
use crate::format::manifest::{Listed, Manifest};

/// How many segments before a run are looked through unasked.
const LOOKED_THROUGH_MAX: usize = 64;

/// The threads that may have a record before some position, by a hash of their ids: one may be taken
/// for another. It only grows while runs are taken from the oldest on.
pub(super) struct Before {
    /// Looks through however many segments there are.
    pub thorough: bool,
    upto: u64,
    /// Nobody can say: one of the segments cannot be read, or they are too many to be read unasked.
    all: bool,
    hasher: RandomState,
    threads: HashSet<u64>,
}

impl Before {
    /// Nothing is looked through yet.
    pub fn new(thorough: bool) -> Before {
        Before { thorough, upto: 0, all: false, hasher: RandomState::new(), threads: HashSet::new() }
    }

    /// Looks through the segments before the one at an index, those that were not looked through yet.
    pub fn look(&mut self, directory: &Directory, manifest: &Manifest, index: usize) {
        let position = manifest.segments[index].base;
        if position < self.upto {
            *self = Before::new(self.thorough);
        }
        // By where each ends: one that was written since may begin before what was looked through, and hold what stood
        // behind it.
        let ends_behind = |pair: &&[Listed]| pair[1].base > self.upto;
        let new: Vec<&Listed> = manifest.segments[..=index].windows(2).filter(ends_behind).map(|pair| &pair[0]).collect();
        self.upto = position;
        self.all |= !self.thorough && new.len() > LOOKED_THROUGH_MAX;
        for listed in new {
            if self.all {
                return;
            }
            let read = records::each(directory, manifest, listed, &mut |met| match met {
                Some(met) => drop(self.threads.insert(self.hasher.hash_one(met.record.thread()))),
                None => self.all = true,
            });
            self.all |= read.is_err();
        }
    }

    /// Whether there may be a record of a thread.
    pub fn may_hold(&self, thread: &str) -> bool {
        self.all || self.threads.contains(&self.hasher.hash_one(thread))
    }
}
