//! What a writer was about to do and what was acknowledged, written down outside the store; and
//! what a reader has seen. A line counts if it is whole: its writer may be killed within it.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

/// A file of lines that is written to; several lives of one process use one file.
pub struct Journal(File);

impl Journal {
    /// Opens it for a new life.
    pub fn open(path: &Path) -> Journal {
        let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
        // Ends a line that was cut off.
        file.write_all(b"\nlife .\n").unwrap();
        Journal(file)
    }

    /// Notes a line, in one write.
    pub fn note(&mut self, line: &str) {
        self.0.write_all(format!("{line} .\n").as_bytes()).unwrap();
    }
}

/// The whole lines of a journal, each as its words.
pub fn lines(path: &Path) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let whole = text.lines().filter_map(|line| line.strip_suffix(" ."));
    whole.map(|line| line.split(' ').map(str::to_owned).collect()).collect()
}

/// What became of a step.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Its writer was killed before it wrote down an answer.
    Unknown,
    /// It was acknowledged: the ids that were put, or whether there was something to delete.
    Done(Vec<String>),
}

/// What a writer's steps were aimed at, by number, where they named a checkpoint.
pub fn targets(path: &Path) -> BTreeMap<u64, String> {
    let tries = lines(path).into_iter().filter(|words| words[0] == "try" && words.len() == 3);
    tries.map(|words| (words[1].parse().unwrap(), words[2].clone())).collect()
}

/// A writer's steps, by number, and how many lives it had.
pub fn steps(path: &Path) -> (BTreeMap<u64, Outcome>, u64) {
    let mut steps = BTreeMap::new();
    let mut lives = 0;
    for words in lines(path) {
        match words[0].as_str() {
            "life" => lives += 1,
            "try" => drop(steps.insert(words[1].parse().unwrap(), Outcome::Unknown)),
            "done" => drop(steps.insert(words[1].parse().unwrap(), Outcome::Done(words[2..].to_vec()))),
            other => panic!("a journal holds {other:?}"),
        }
    }
    (steps, lives)
}
