//! Damage in a chain of differences: it costs the checkpoint that it struck and those that are made of it,
//! up to the next keyframe, each by name; all others stay, and `repair` brings them back.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use taffrail::{CheckpointId, Checkpointer, ErrorKind, Finding, HistoryQuery, PutOptions, Store, TypeTag};

use crate::scratch::{Scratch, frames, segments};

/// The steps of a thread: ids and states.
type Steps = Vec<(CheckpointId, Vec<u8>)>;

/// A text of a line for each step, and one that no other step has in the middle.
fn text(thread: &str, step: usize) -> Vec<u8> {
    let line = |step: usize| format!("{thread} {step}: {:x}\n", (step + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    (0..30 + step).map(line).collect::<String>().into_bytes()
}

fn put_steps(store: &Store, thread: &str, steps: usize) -> Steps {
    let put = |step| store.put_bytes(thread, TypeTag::BYTES, &text(thread, step), PutOptions::default()).unwrap();
    (0..steps).map(|step| (put(step), text(thread, step))).collect()
}

/// A frame of the thread "t".
struct Stands {
    file: PathBuf,
    start: usize,
    record: usize,
    payload_end: usize,
    is_delta: bool,
}

/// Where the puts of the thread "t" stand, in their order: only they are that long.
fn stands(dir: &Path) -> Vec<Stands> {
    let mut found = Vec::new();
    for file in segments(dir) {
        let bytes = fs::read(&file).unwrap();
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        for frame in frames(&bytes) {
            let (record, start) = (frame.start + 48, frame.start);
            let (record_len, payload_len) = (word(start + 8), word(start + 12));
            let is_put = bytes[record] == 1;
            let is_delta = is_put && bytes[record + 39] >= 2;
            let texts = record + 40 + if is_delta { 28 } else { 0 };
            if is_put && bytes[texts] == b't' {
                let payload_end = record + record_len.next_multiple_of(8) + payload_len;
                found.push(Stands { file: file.clone(), start, record, payload_end, is_delta });
            }
        }
    }
    found
}

fn flip(file: &Path, at: usize) {
    let mut bytes = fs::read(file).unwrap();
    bytes[at] ^= 0x10;
    fs::write(file, bytes).unwrap();
}

/// The ids that findings name as lost.
fn named(findings: &[Finding]) -> HashSet<CheckpointId> {
    assert!(findings.iter().all(|finding| finding.thread.as_deref().is_none_or(|thread| thread == "t")), "{findings:?}");
    findings.iter().filter(|finding| finding.damage).filter_map(|finding| finding.id.clone()).collect()
}

fn is_rebuilt(finding: &Finding) -> bool {
    !finding.what.contains("cannot be rebuilt")
}

/// A store in which damage strikes one frame, and what that costs.
struct Struck<'a> {
    scratch: &'a Scratch,
    dir: PathBuf,
    /// All that is shown, of "t" and of the thread "u" beside it.
    shown: Steps,
    beside: Steps,
    /// Where the frame that is damaged stands, and which of the shown steps that is, unless it is hidden.
    file: PathBuf,
    offset: usize,
    own: Option<CheckpointId>,
    /// The steps that are made of it.
    dependants: HashSet<CheckpointId>,
}

impl Struck<'_> {
    fn is_told_and_repaired(&self, context: &str) {
        let store = Store::options().read_only(true).open(&self.dir).unwrap_or_else(|error| panic!("{context}: {error}"));
        let listed: HashSet<_> = store.list("t", &HistoryQuery::default()).unwrap().map(|info| info.unwrap().id).collect();
        let own = self.own.iter().filter(|id| listed.contains(id));
        let lost: HashSet<_> = self.dependants.iter().chain(own).cloned().collect();

        let findings = store.verify().unwrap();
        let (of_others, unrebuilt): (Vec<Finding>, Vec<Finding>) = findings.into_iter().partition(is_rebuilt);
        assert_eq!(named(&unrebuilt), self.dependants, "{context}");
        assert_eq!(unrebuilt.len(), self.dependants.len(), "{context}: each once");
        assert_eq!(of_others.len(), 1, "{context}: {of_others:?}");
        assert_eq!((&of_others[0].file, of_others[0].offset), (&self.file, Some(self.offset as u64)), "{context}");
        assert!(of_others[0].id.is_none() || self.own.is_none() || of_others[0].id == self.own, "{context}: {of_others:?}");
        let is_known = self.own.as_ref().is_none_or(|own| listed.contains(own));
        if is_known && self.own.is_some() {
            assert_eq!(of_others[0].id, self.own, "{context}");
            assert!(unrebuilt.iter().all(|found| (&found.file, found.offset) == (&self.file, Some(self.offset as u64))), "{context}");
        }

        for (id, state) in &self.shown {
            match store.load_bytes("t", id) {
                Ok(Some(read)) => assert!(*read.state == **state && !lost.contains(id), "{context}: {id}"),
                Ok(None) => assert!(!listed.contains(id) && self.own.as_ref() == Some(id), "{context}: {id}"),
                Err(error) => {
                    assert_eq!((error.kind(), error.thread()), (ErrorKind::Corrupt, Some("t")), "{context}: {error}");
                    assert!(lost.contains(id) && error.file().is_some(), "{context}: {id}: {error}");
                }
            }
        }
        for (id, state) in &self.beside {
            assert_eq!(*store.load_bytes("u", id).unwrap().unwrap().state, **state, "{context}");
        }
        if !lost.is_empty() {
            let error = store.backup(self.scratch.path("backup")).unwrap_err();
            assert_eq!((error.kind(), error.thread()), (ErrorKind::Corrupt, Some("t")), "{context}: {error}");
        }
        drop(store);
        self.is_repaired(context);
    }

    fn is_repaired(&self, context: &str) {
        let dest = self.scratch.path("repaired");
        let _ = fs::remove_dir_all(&dest);
        let report = Store::repair(&self.dir, &dest).unwrap_or_else(|error| panic!("{context}: {error}"));
        let store = Store::open(&dest).unwrap();
        assert!(store.recovery().damage.is_empty() && store.verify().unwrap().is_empty(), "{context}");
        let is_lost = |id: &CheckpointId| self.dependants.contains(id) || self.own.as_ref() == Some(id);
        for (id, state) in &self.shown {
            match store.load_bytes("t", id).unwrap() {
                Some(read) => assert!(*read.state == **state && !is_lost(id), "{context}: {id}"),
                None => assert!(is_lost(id), "{context}: {id} did not come back"),
            }
        }
        for (id, state) in &self.beside {
            assert_eq!(*store.load_bytes("u", id).unwrap().unwrap().state, **state, "{context}");
        }
        let (_, unrebuilt): (Vec<Finding>, Vec<Finding>) = report.damage.into_iter().partition(is_rebuilt);
        assert_eq!(named(&unrebuilt), self.dependants, "{context}");
    }
}

/// How many steps behind one are made of it, of those that stand there.
fn made_of(stands: &[Stands], struck: usize) -> usize {
    stands[struck + 1..].iter().take_while(|frame| frame.is_delta).count()
}

#[test]
fn a_damaged_record_costs_what_is_made_of_it_and_no_more() {
    let scratch = Scratch::new();
    let whole = scratch.path("whole");
    let store = Store::options().max_history(None).open(&whole).unwrap();
    let (shown, beside) = (put_steps(&store, "t", 90), put_steps(&store, "u", 20));
    let stats = store.stats().unwrap();
    assert!(stats.deltas > 50 && stats.keyframes >= 3, "{stats:?}");
    store.close().unwrap();
    let stands = stands(&whole);
    let keyframes: Vec<usize> = (0..stands.len()).filter(|&at| !stands[at].is_delta).collect();
    assert!(stands.len() == shown.len() && keyframes.len() >= 2, "{keyframes:?}");
    let in_the_middle = keyframes[1] - 5;
    for struck in [in_the_middle, keyframes[0], keyframes[1], keyframes[1] - 1, shown.len() - 1] {
        let Stands { file, start, record, payload_end, .. } = &stands[struck];
        for (what, at) in [("payload", payload_end - 1), ("record", record + 2), ("head", start + 20)] {
            let dir = scratch.copy(&whole, "struck");
            let file = dir.join(file.file_name().unwrap());
            flip(&file, at);
            let dependants = shown[struck + 1..][..made_of(&stands, struck)].iter().map(|(id, _)| id.clone()).collect();
            let own = Some(shown[struck].0.clone());
            let (shown, beside) = (shown.clone(), beside.clone());
            let struck_at = Struck { scratch: &scratch, dir, shown, beside, file, offset: *start, own, dependants };
            struck_at.is_told_and_repaired(&format!("{what} of step {struck}"));
        }
    }
}

#[test]
fn a_damaged_record_that_is_only_needed_costs_what_needs_it() {
    let scratch = Scratch::new();
    for kind in ["trimmed", "deleted", "replaced"] {
        let whole = scratch.path(kind);
        let store = Store::options().max_history(None).open(&whole).unwrap();
        let (mut shown, beside) = (put_steps(&store, "t", 12), put_steps(&store, "u", 3));
        let stands = stands(&whole);
        assert!(stands[1..].iter().all(|frame| frame.is_delta), "one chain");
        let struck = 5;
        match kind {
            "trimmed" => {
                store.retain(Some("t"), Some(5)).unwrap();
                shown.drain(..7);
            }
            "deleted" => {
                assert!(store.delete_checkpoint("t", &shown[struck].0).unwrap());
                shown.remove(struck);
            }
            _ => {
                let options = PutOptions::default().id(shown[struck].0.clone());
                store.put_bytes("t", TypeTag::BYTES, b"another", options).unwrap();
                shown[struck].1 = b"another".to_vec();
            }
        }
        store.close().unwrap();
        let dir = scratch.copy(&whole, "struck");
        let file = dir.join(stands[struck].file.file_name().unwrap());
        flip(&file, stands[struck].payload_end - 1);
        let behind = shown.iter().filter(|(_, state)| state.len() > text("t", struck).len());
        let dependants = behind.map(|(id, _)| id.clone()).collect();
        let struck = Struck { scratch: &scratch, dir, shown, beside, file, offset: stands[struck].start, own: None, dependants };
        struck.is_told_and_repaired(kind);
    }
}
