//! A whole directory with changes in its files, opened, read, verified, written to and repaired.
//!
//! The bytes are a mode and edits: `file | how | at (2) | length | bytes`, of which some make the file's
//! checksums fit again. Where none does, no state is another one than was put; else the files say what
//! nobody wrote, and only that all ends well or in an error about damage is asked.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

use super::scratch::Scratch;
use crate::batch::PutOptions;
use crate::checkpoint::{CheckpointId, TypeTag};
use crate::checkpointer::Checkpointer;
use crate::error::{Error, ErrorKind};
use crate::format::frame::{self, HEAD_BYTES, Head, Place};
use crate::format::segment::{HEADER_BYTES, Header, Kind};
use crate::format::{hint, manifest, segment};
use crate::log::Store;
use crate::options::{Compression, Options};
use crate::query::HistoryQuery;
use crate::testing::states::noise;

/// The edits of one run.
const EDITS_MAX: usize = 12;

/// A small store: its files by name, and each state by thread and id.
struct Sample {
    files: BTreeMap<String, Vec<u8>>,
    states: BTreeMap<(String, String), Vec<u8>>,
}

/// Opens the store with the edits that the bytes stand for; `true` if it could be opened.
pub fn directory(data: &[u8]) -> bool {
    static SAMPLE: OnceLock<Sample> = OnceLock::new();
    let sample = SAMPLE.get_or_init(Sample::new);
    let Some((&mode, edits)) = data.split_first() else { return false };
    let mut files = sample.files.clone();
    let fits = edit(&mut files, edits);
    let scratch = Scratch::new();
    let dir = scratch.0.join("store");
    std::fs::create_dir(&dir).unwrap();
    files.iter().for_each(|(name, bytes)| std::fs::write(dir.join(name), bytes).unwrap());
    let known = (!fits).then_some(&sample.states);
    let opened = read(Store::options().read_only(true).mmap(mode & 4 == 0).open(&dir), known);
    if mode & 1 == 1 {
        repair(&dir, &scratch.0.join("repaired"), known);
    }
    if mode & 2 == 2 {
        write(&dir, known);
    }
    opened
}

impl Sample {
    /// A compacted segment, a sealed one, a large one and an active one, without the room behind their ends.
    fn new() -> Sample {
        let scratch = Scratch::new();
        let dir = scratch.0.join("store");
        let options = || Options::default().segment_bytes(64 << 10).auto_compaction(false).max_history(4);
        let mut states = BTreeMap::new();
        let mut put = |store: &Store, thread: &str, number: u64, length: usize| {
            let (id, state) = (format!("{thread}{number}"), noise(3, length));
            let options = PutOptions::default().id(CheckpointId::new(&id).unwrap());
            store.put_bytes(thread, TypeTag::BYTES, &state, options).unwrap();
            states.insert((thread.to_owned(), id), state);
        };
        let store = options().compression(Compression::Always).open(&dir).unwrap();
        for round in 0..3u64 {
            (0..6).for_each(|step| put(&store, "a", 10 * round + step, 140 + 9 * step as usize));
            put(&store, "b", round, 30);
            if round == 1 {
                store.delete("b").unwrap();
                put(&store, "large", 0, 17 << 10);
            }
            store.delete_checkpoint("a", &CheckpointId::new(format!("a{}", 10 * round + 3)).unwrap()).unwrap();
            if round == 0 {
                store.retain(Some("b"), Some(2)).unwrap();
                store.compact().unwrap();
            }
        }
        store.close().unwrap();
        let entries = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap());
        let mut files: BTreeMap<String, Vec<u8>> =
            entries.map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())).collect();
        files.retain(|name, _| !name.ends_with(".lock"));
        for (_, segment) in files.iter_mut().filter(|(name, _)| name.ends_with(".seg")) {
            segment.truncate(frames(segment).last().map_or(HEADER_BYTES, |frame| frame.end));
        }
        Sample { files, states }
    }
}

/// Does the edits; answers whether any made checksums fit.
fn edit(files: &mut BTreeMap<String, Vec<u8>>, mut edits: &[u8]) -> bool {
    let mut fits = false;
    let names: Vec<String> = files.keys().cloned().collect();
    for _ in 0..EDITS_MAX {
        let Some((&[file, how, low, high, length], rest)) = edits.split_first_chunk() else { break };
        let name = &names[usize::from(file) % names.len()];
        let (new, rest) = rest.split_at(rest.len().min(usize::from(length)));
        edits = rest;
        let Some(bytes) = files.get_mut(name) else { continue };
        let at = usize::from(u16::from_le_bytes([low, high])).min(bytes.len());
        let end = (at + usize::from(length)).min(bytes.len());
        match how % 4 {
            0 => {
                let end = (at + new.len()).min(bytes.len());
                bytes[at..end].copy_from_slice(&new[..end - at]);
            }
            1 => drop(bytes.splice(at..at, new.iter().copied())),
            2 => drop(bytes.drain(at..end)),
            _ => bytes.truncate(at),
        }
        if how & 4 == 4 {
            fits = true;
            match name.rsplit('.').next() {
                Some("seg") => fit_segment(bytes),
                Some("hint") => hint::repair(bytes),
                _ if name == "MANIFEST" => manifest::repair(bytes),
                _ => {}
            }
        }
        if how & 24 == 24 {
            files.remove(name);
        }
    }
    fits
}

/// Makes the header's checksum fit, and those of all frames behind it, each chained to the one before.
fn fit_segment(bytes: &mut [u8]) {
    segment::repair(bytes);
    let Ok(header) = Header::decode(bytes) else { return };
    let base = if let Kind::Log { base } = header.kind { base } else { 0 };
    let mut check: [u8; 4] = bytes[12..16].try_into().unwrap();
    for at in frames(bytes) {
        bytes[at.start + 32..at.start + 36].copy_from_slice(&check);
        frame::repair(Place { salt: header.salt, position: base.wrapping_add(at.start as u64) }, &mut bytes[at.clone()]);
        check = bytes[at.start + HEAD_BYTES - 4..at.start + HEAD_BYTES].try_into().unwrap();
    }
}

/// Where frames stand, one behind the other, by their lengths alone.
fn frames(segment: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut found = Vec::new();
    let mut at = HEADER_BYTES;
    while let Some(Ok((record, payload))) = segment.get(at..).map(Head::peek) {
        let padded = |length: u32| (length as usize).next_multiple_of(8);
        let end = at + HEAD_BYTES + padded(record) + padded(payload);
        if end > segment.len() {
            break;
        }
        found.push(at..end);
        at = end;
    }
    found
}

type Known<'a> = Option<&'a BTreeMap<(String, String), Vec<u8>>>;

/// Reads and verifies what was opened; `false` if it was refused.
fn read(opened: crate::Result<Store>, known: Known<'_>) -> bool {
    let store = match opened {
        Ok(store) => store,
        Err(error) => return is_about_damage(&error),
    };
    for thread in listed(store.threads()) {
        let _ = store.get_bytes(&thread).map_err(|error| is_about_damage(&error));
        let Ok(history) = store.history_bytes(&thread, &HistoryQuery::default()) else { continue };
        for item in history {
            match item {
                Ok(read) => {
                    let key = (thread.clone(), read.id.to_string());
                    assert!(known.is_none_or(|known| known.get(&key).is_some_and(|state| **state == *read.state)), "{key:?} was never put");
                }
                Err(error) => drop(is_about_damage(&error)),
            }
        }
    }
    let _ = store.verify().map_err(|error| is_about_damage(&error));
    true
}

fn listed(threads: crate::Result<Vec<String>>) -> Vec<String> {
    threads.unwrap_or_else(|error| {
        is_about_damage(&error);
        Vec::new()
    })
}

/// Puts, and finds it again, where there is no damage that forbids it.
fn write(dir: &Path, known: Known<'_>) {
    for number in 0..2u8 {
        match Store::options().auto_compaction(false).open(dir) {
            Ok(store) => {
                let put = store.put_bytes("new", TypeTag::BYTES, &[number], PutOptions::default());
                assert!(put.is_ok() || known.is_none(), "{put:?}");
            }
            Err(error) => {
                is_about_damage(&error);
                assert!(number == 0 || known.is_none(), "it could be opened once: {error:?}");
                return;
            }
        }
    }
}

/// What can be read comes into a store that is sound.
fn repair(dir: &Path, dest: &Path, known: Known<'_>) {
    match Store::repair(dir, dest) {
        Ok(_) => {
            let store = Store::options().create(false).open(dest).unwrap();
            assert!(store.verify().unwrap().is_empty(), "repaired, and not sound");
            read(Ok(store), known);
        }
        Err(error) => drop(is_about_damage(&error)),
    }
}

/// Asserts that an error tells of damage; answers `false`.
fn is_about_damage(error: &Error) -> bool {
    assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported | ErrorKind::NotFound), "{error:?}");
    false
}
