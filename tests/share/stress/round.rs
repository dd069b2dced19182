//! One round: its directory, and all that its seed decides about it.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::chance::{Chance, number};

/// How a round ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ending {
    /// All end by themselves.
    Asked,
    /// All are killed at one moment.
    Killed,
    /// Some are killed, the others end by themselves afterwards.
    Mixed,
}

/// A round of the test.
pub struct Round {
    ground: Option<TempDir>,
    /// What decides all of it.
    pub seed: u64,
    /// How many writers there are.
    pub writers: u64,
    /// How many readers there are.
    pub readers: u64,
    /// At which size segments are sealed.
    pub segment_bytes: u64,
    /// After how many steps a writer opens the store anew; 0 for never.
    pub reopen: u64,
    /// How long it lasts, in milliseconds.
    pub millis: u64,
    /// How many times processes are killed.
    pub kills: u64,
    /// How it ends.
    pub ending: Ending,
}

impl Round {
    /// The round of a seed. `TAFFRAIL_STRESS_WRITERS`, `_READERS`, `_REOPEN` and `_MILLIS` overrule it;
    /// `TAFFRAIL_STRESS_KEEP` keeps the directory of a round that fails.
    pub fn new(seed: u64) -> Round {
        let mut chance = Chance::new(seed);
        let memory = Path::new("/dev/shm");
        let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        Round {
            ground: Some(made.unwrap()),
            seed,
            writers: number("TAFFRAIL_STRESS_WRITERS").unwrap_or(4),
            readers: number("TAFFRAIL_STRESS_READERS").unwrap_or(2),
            segment_bytes: chance.one_of(&[64 << 10, 64 << 10, 256 << 10, 64 << 20]),
            reopen: number("TAFFRAIL_STRESS_REOPEN").unwrap_or(chance.one_of(&[0, 0, 0, 7])),
            millis: number("TAFFRAIL_STRESS_MILLIS").unwrap_or(120 + chance.below(180)),
            kills: chance.one_of(&[0, 2, 4, 8]),
            ending: chance.one_of(&[Ending::Asked, Ending::Killed, Ending::Mixed]),
        }
    }

    /// The store's directory, which the first opener makes.
    pub fn dir(&self) -> PathBuf {
        self.file("store")
    }

    /// The directory that the store lies in, and what is written down beside it.
    pub fn ground(&self) -> PathBuf {
        self.ground.as_ref().unwrap().path().to_owned()
    }

    /// A file beside the store.
    pub fn file(&self, name: &str) -> PathBuf {
        self.ground().join(name)
    }

    /// What a failure says about the round.
    pub fn context(&self) -> String {
        let Round { seed, segment_bytes, reopen, kills, ending, .. } = self;
        format!("seed {seed} (segment_bytes {segment_bytes}, reopen {reopen}, kills {kills}, ending {ending:?})")
    }
}

impl Drop for Round {
    fn drop(&mut self) {
        if std::thread::panicking() && std::env::var_os("TAFFRAIL_STRESS_KEEP").is_some() {
            let kept = self.ground.take().unwrap().keep();
            println!("kept: {}", kept.display());
        }
    }
}
