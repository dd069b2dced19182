//! States that are stored as differences from the ones before them: right by every way to read them,
//! whoever put them and whatever became of what they were made of.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use super::{Scratch, index_is_derived, views};
use crate::batch::{Batch, Durability, ExpectedHead, Parent, PutOptions};
use crate::checkpoint::{CheckpointId, CheckpointInfo, TypeTag};
use crate::checkpointer::Checkpointer;
use crate::error::{ErrorKind, Result};
use crate::format::record::{Coding, Difference, Record};
use crate::log::Store;
use crate::log::{read, records};
use crate::options::Options;
use crate::query::{HistoryQuery, ThreadQuery};
use crate::testing::states::noise;

fn options() -> Options {
    Store::options().auto_compaction(false).max_history(None).durability(Durability::Buffered)
}

/// For one who takes the store as it is.
fn beside() -> Options {
    Store::options().auto_compaction(false).durability(Durability::Buffered)
}

fn id(text: &str) -> CheckpointId {
    CheckpointId::new(text).unwrap()
}

/// The state of a step: a line more than the one before.
fn grown(step: usize) -> Vec<u8> {
    noise(1, 4000 + 20 * step)
}

fn put_as(store: &Store, name: &str, state: &[u8]) {
    put_with(store, name, state, PutOptions::default()).unwrap();
}

fn put_with(store: &Store, name: &str, state: &[u8], options: PutOptions) -> Result<CheckpointId> {
    store.put_bytes("t", TypeTag::BYTES, state, options.id(id(name)))
}

/// Puts steps under their numbers; each but the first must be a delta.
fn put_chain(store: &Store, steps: std::ops::Range<usize>) {
    let first = steps.start;
    for step in steps {
        put_as(store, &step.to_string(), &grown(step));
        assert!(step == first || forms(store).ends_with('d'), "step {step} is no delta");
    }
}

/// The thread as its checkpoints are stored, oldest first: `w`hole, or a `d`elta.
fn forms(store: &Store) -> String {
    store.exists("t").unwrap();
    let view = store.shared.index.get("t");
    view.iter().flat_map(|view| view.entries()).map(|entry| if entry.is_delta() { 'd' } else { 'w' }).collect()
}

fn hidden(store: &Store) -> usize {
    store.shared.index.get("t").map_or(0, |view| view.hidden().len())
}

/// The thread shows these checkpoints, oldest first, by every way to read; and none of those that are gone.
#[track_caller]
fn shows(store: &Store, expected: &[(&str, Vec<u8>)], gone: &[&str]) {
    let all = HistoryQuery::default();
    let history: Vec<_> = store.history_bytes("t", &all).unwrap().map(Result::unwrap).collect();
    let listed: Vec<_> = store.list("t", &all).unwrap().map(Result::unwrap).collect();
    let names: Vec<&str> = expected.iter().rev().map(|(name, _)| *name).collect();
    assert_eq!(history.iter().map(|read| read.id.as_str()).collect::<Vec<_>>(), names);
    assert_eq!(listed.iter().map(|info| info.id.as_str()).collect::<Vec<_>>(), names);
    for ((name, state), read) in expected.iter().rev().zip(&history) {
        assert!(*read.state == **state, "{name} by history");
        assert!(*store.load_bytes("t", &id(name)).unwrap().unwrap().state == **state, "{name} by load");
        assert_eq!(read.bytes, state.len() as u64);
    }
    let head = store.get_bytes("t").unwrap();
    assert_eq!(head.as_ref().map(|head| head.id.as_str()), names.first().copied());
    assert!(head.is_none_or(|head| *head.state == *expected[expected.len() - 1].1), "by get");
    let threads: Vec<_> = store.list_threads(&ThreadQuery::default()).unwrap().map(Result::unwrap).collect();
    assert_eq!(threads.iter().map(|info| info.checkpoints as usize).sum::<usize>(), expected.len());
    for name in gone {
        assert!(store.load_bytes("t", &id(name)).unwrap().is_none(), "{name} is shown");
    }
}

/// The same live, by handles that keep nothing or map nothing, and once opened again.
#[track_caller]
fn shows_everywhere(store: &Store, dir: &Path, expected: &[(&str, Vec<u8>)], gone: &[&str]) {
    store.sync().unwrap();
    index_is_derived(store, dir);
    shows(store, expected, gone);
    for options in [beside().cache_bytes(0), beside().mmap(false), Store::options().read_only(true)] {
        shows(&options.open(dir).unwrap(), expected, gone);
    }
}

fn steps(numbers: impl IntoIterator<Item = usize>) -> Vec<(String, Vec<u8>)> {
    numbers.into_iter().map(|step| (step.to_string(), grown(step))).collect()
}

fn named(steps: &[(String, Vec<u8>)]) -> Vec<(&str, Vec<u8>)> {
    steps.iter().map(|(name, state)| (name.as_str(), state.clone())).collect()
}

#[test]
fn a_chain_ends_after_64_deltas_and_comes_back_by_every_way() {
    for put_by in [options(), options().cache_bytes(0), options().mmap(false), options().cache_bytes(0).mmap(false)] {
        let scratch = Scratch::new();
        let store = put_by.open(scratch.dir()).unwrap();
        let all = steps(0..150);
        all.iter().for_each(|(name, state)| put_as(&store, name, state));
        let chain = format!("w{}", "d".repeat(64));
        assert_eq!(forms(&store), format!("{chain}{chain}w{}", "d".repeat(19)));
        shows_everywhere(&store, &scratch.dir(), &named(&all), &[]);
        drop(store);
        shows(&beside().open(scratch.dir()).unwrap(), &named(&all), &[]);
    }
}

#[test]
fn two_handles_put_differences_from_what_the_other_has_put() {
    for cache in [0, 64 << 20] {
        let scratch = Scratch::new();
        let handles = [options().cache_bytes(cache).open(scratch.dir()).unwrap(), beside().cache_bytes(cache).open(scratch.dir()).unwrap()];
        let all = steps(0..60);
        for (number, (name, state)) in all.iter().enumerate() {
            // Runs of one and of several, so that what one keeps in memory is old for a while.
            let one = &handles[usize::from(number % 7 < 3) ^ (number % 2)];
            put_as(one, name, state);
            let got = handles[number % 2].get_bytes("t").unwrap().unwrap();
            assert!(*got.state == **state, "step {number}");
        }
        for store in &handles {
            assert_eq!(forms(store), format!("w{}", "d".repeat(59)));
            shows_everywhere(store, &scratch.dir(), &named(&all), &[]);
        }
    }
}

#[test]
fn workers_of_two_handles_put_to_one_thread_at_once() {
    const PUTS: usize = 30;
    let scratch = Scratch::new();
    let handles = [options().open(scratch.dir()).unwrap(), beside().open(scratch.dir()).unwrap()];
    let state = |worker: usize, number: usize| [&noise(1, 3000)[..], format!("{worker}-{number}").as_bytes()].concat();
    std::thread::scope(|scope| {
        for worker in 0..6 {
            let store = &handles[worker % 2];
            scope.spawn(move || (0..PUTS).for_each(|number| put_as(store, &format!("{worker}-{number}"), &state(worker, number))));
        }
    });
    for store in &handles {
        let forms = forms(store);
        assert_eq!(forms.len(), 6 * PUTS);
        assert!(forms.matches('d').count() > forms.len() / 2, "{forms}");
        for (worker, number) in (0..6).flat_map(|worker| (0..PUTS).map(move |number| (worker, number))) {
            let read = store.load_bytes("t", &id(&format!("{worker}-{number}"))).unwrap().unwrap();
            assert!(*read.state == *state(worker, number), "{worker}-{number}");
        }
        store.sync().unwrap();
        index_is_derived(store, &scratch.dir());
    }
}

#[test]
fn what_is_put_again_is_whole_and_what_it_was_stays_for_who_needs_it() {
    let scratch = Scratch::new();
    let store = options().open(scratch.dir()).unwrap();
    put_chain(&store, 0..6);
    let mut all = steps(0..6);
    // One that a delta needs, twice; the first of all; and the newest.
    for (round, step) in [2, 2, 0, 5].into_iter().enumerate() {
        all[step].1 = noise(100 + round as u64, 3000);
        put_as(&store, &step.to_string(), &all[step].1);
        assert_eq!(&forms(&store)[step..=step], "w");
        shows_everywhere(&store, &scratch.dir(), &named(&all), &[]);
    }
    assert_eq!((forms(&store).as_str(), hidden(&store)), ("wdwddw", 2));
    // What comes now is a difference from what the newest has become.
    all.push(("more".into(), [&all[5].1[..], b" and more"].concat()));
    put_as(&store, "more", &all[6].1);
    assert_eq!(forms(&store), "wdwddwd");
    shows_everywhere(&store, &scratch.dir(), &named(&all), &[]);
}

#[test]
fn deleted_bases_are_hidden_and_deltas_go_on() {
    let scratch = Scratch::new();
    let store = options().open(scratch.dir()).unwrap();
    put_chain(&store, 0..8);
    let delete = |step: usize| assert!(store.delete_checkpoint("t", &id(&step.to_string())).unwrap());
    [3, 4, 0].into_iter().for_each(delete);
    assert_eq!(hidden(&store), 3);
    shows_everywhere(&store, &scratch.dir(), &named(&steps([1, 2, 5, 6, 7])), &["0", "3", "4"]);
    // A rollback, and on from there: what nothing needs any more is let go of.
    [7, 6, 5].into_iter().for_each(delete);
    assert_eq!(hidden(&store), 1, "of the rolled back ones nothing is needed");
    shows_everywhere(&store, &scratch.dir(), &named(&steps([1, 2])), &["0", "3", "4", "5", "6", "7"]);
    put_chain(&store, 20..23);
    assert_eq!(forms(&store), "ddddd");
    shows_everywhere(&store, &scratch.dir(), &named(&steps([1, 2, 20, 21, 22])), &["7"]);
    // The newest goes and comes back under its id.
    delete(22);
    put_as(&store, "22", &grown(30));
    let mut all = steps([1, 2, 20, 21, 22]);
    all[4].1 = grown(30);
    assert_eq!(forms(&store), "ddddd");
    shows_everywhere(&store, &scratch.dir(), &named(&all), &["0"]);
    // One by one to the last.
    [1, 2, 20, 21].into_iter().for_each(delete);
    shows_everywhere(&store, &scratch.dir(), &named(&all[4..]), &["21"]);
    assert_eq!(hidden(&store), 5);
    delete(22);
    shows_everywhere(&store, &scratch.dir(), &[], &["22", "1"]);
}

#[test]
fn a_trim_hides_what_the_oldest_kept_needs() {
    let scratch = Scratch::new();
    let store = options().max_history(10).open(scratch.dir()).unwrap();
    let mut watch = store.watch(Some("t")).unwrap();
    for step in 0..140 {
        put_as(&store, &step.to_string(), &grown(step));
        let told = watch.wait(Duration::ZERO).unwrap().unwrap();
        assert_eq!(told.id.as_str(), step.to_string());
        // The chain begins at every 65th; what is kept of the one before needs all of it up to there.
        let oldest = (step + 1).saturating_sub(10);
        assert_eq!(hidden(&store), oldest % 65, "step {step}");
        if step % 13 == 12 || [64, 65, 74, 75].contains(&step) {
            let gone = oldest.checked_sub(1).map(|step| step.to_string());
            shows_everywhere(&store, &scratch.dir(), &named(&steps(oldest..step + 1)), gone.as_deref().as_slice());
        }
    }
    assert!(watch.wait(Duration::ZERO).unwrap().is_none(), "what is hidden is no news");
    store.retain(None, Some(2)).unwrap();
    shows_everywhere(&store, &scratch.dir(), &named(&steps(138..140)), &["137"]);
}

#[test]
fn a_base_that_is_damaged_makes_a_keyframe_and_no_error() {
    // Of a keyframe and of a delta: the newest one's payload, just before the puts go on.
    for (steps, mmap) in [(1, true), (3, true), (1, false), (3, false)] {
        let scratch = Scratch::new();
        let store = options().cache_bytes(0).mmap(mmap).open(scratch.dir()).unwrap();
        (0..steps).for_each(|step| put_as(&store, &step.to_string(), &grown(step)));
        let at = store.shared.index.get("t").unwrap().head().unwrap().at;
        let file = std::fs::OpenOptions::new().read(true).write(true).open(scratch.dir().join("0000000000000001.seg")).unwrap();
        let last = at.offset() + at.length() - 1;
        let (mut bytes, mut found) = (vec![0; at.length() as usize], last);
        file.read_exact_at(&mut bytes, at.offset()).unwrap();
        found -= bytes.iter().rev().take_while(|&&byte| byte == 0).count() as u64;
        file.write_all_at(&[!bytes[(found - at.offset()) as usize]], found).unwrap();
        assert_eq!(store.get_bytes("t").unwrap_err().kind(), ErrorKind::Corrupt);
        let before = forms(&store);
        put_as(&store, "new", &grown(steps));
        put_as(&store, "newer", &grown(steps + 1));
        assert_eq!(forms(&store), before + "wd");
        for (name, step) in [("new", steps), ("newer", steps + 1)] {
            assert!(*store.load_bytes("t", &id(name)).unwrap().unwrap().state == *grown(step), "{name}");
        }
        let damaged = store.load_bytes("t", &id(&(steps - 1).to_string())).unwrap_err();
        assert!(damaged.kind() == ErrorKind::Corrupt && damaged.file().is_some(), "{damaged}");
    }
}

#[test]
fn useless_differences_are_tried_less_and_taken_up_again() {
    let scratch = Scratch::new();
    let store = options().open(scratch.dir()).unwrap();
    let mut all: Vec<(String, Vec<u8>)> = (0..21).map(|step| (step.to_string(), noise(100 + step, 1000))).collect();
    all.iter().for_each(|(name, state)| put_as(&store, name, state));
    assert_eq!(forms(&store), "w".repeat(21));
    let head = store.shared.index.get("t").unwrap().head().unwrap().clone();
    assert!(store.shared.heads.get("t", &head).is_some_and(|head| head.useless == 20 && head.state.is_none()));
    all.extend((21..31).map(|step| (step.to_string(), noise(7, 900 + step))));
    for (name, state) in &all[21..] {
        put_as(&store, name, state);
    }
    let forms = forms(&store);
    assert!(forms[21..29].contains('d') && forms.ends_with("dd"), "{forms}");
    shows_everywhere(&store, &scratch.dir(), &named(&all), &[]);
}

#[test]
fn more_threads_than_are_kept_in_memory_stay_right() {
    let scratch = Scratch::new();
    let store = options().cache_bytes(1 << 20).open(scratch.dir()).unwrap();
    let state = |thread: u64, round: usize| noise(thread, 100 << 10)[..(100 << 10) - 100 * round].to_vec();
    for (round, thread) in (0..3).flat_map(|round| (0..100).map(move |thread| (round, thread))) {
        store.put_bytes(&format!("t{thread}"), TypeTag::BYTES, &state(thread, round), PutOptions::default()).unwrap();
    }
    for thread in 0..100 {
        let name = format!("t{thread}");
        let view = store.shared.index.get(&name).unwrap();
        assert_eq!(view.entries().map(|entry| entry.is_delta()).collect::<Vec<_>>(), [false, true, true]);
        assert!(*store.get_bytes(&name).unwrap().unwrap().state == *state(thread, 2), "{name}");
    }
}

#[test]
fn a_long_history_comes_back_whole() {
    let scratch = Scratch::new();
    let all = noise(1, 400 + 10 * 3000);
    let state = |step: usize| &all[..400 + 10 * step];
    let store = options().open(scratch.dir()).unwrap();
    (0..3000).for_each(|step| drop(store.put_bytes("t", TypeTag::BYTES, state(step), PutOptions::default()).unwrap()));
    assert!(forms(&store).matches('d').count() > 2800);
    store.close().unwrap();
    for options in [beside(), beside().mmap(false), beside().cache_bytes(0)] {
        let store = options.open(scratch.dir()).unwrap();
        let history = store.history_bytes("t", &HistoryQuery::default()).unwrap().map(Result::unwrap);
        let mut count = 0;
        for (read, step) in history.zip((0..3000).rev()) {
            assert!(*read.state == *state(step), "step {step}");
            count += 1;
        }
        assert_eq!(count, 3000);
    }
}

#[test]
fn short_states_are_stored_whole() {
    let scratch = Scratch::new();
    let store = options().open(scratch.dir()).unwrap();
    let lengths = [128, 128, 129, 127, 128, 127, 127, 0, 0, 128, 128, 0, 300, 128, 129];
    let all: Vec<_> = lengths.iter().enumerate().map(|(at, &length)| (at.to_string(), noise(1, length))).collect();
    all.iter().for_each(|(name, state)| put_as(&store, name, state));
    assert_eq!(forms(&store), "wddwwwwwwwdwwdd");
    shows_everywhere(&store, &scratch.dir(), &named(&all), &[]);
}

fn parents(store: &Store) -> Vec<Option<String>> {
    let text = |info: &CheckpointInfo| info.parent.as_ref().map(|parent| parent.to_string());
    let listed: Vec<_> = store.list("t", &HistoryQuery::default()).unwrap().map(|info| text(&info.unwrap())).collect();
    let read: Vec<_> = store.history_bytes("t", &HistoryQuery::default()).unwrap().map(|read| text(&read.unwrap().info)).collect();
    assert_eq!(listed, read);
    assert_eq!(store.get_bytes("t").unwrap().map(|head| text(&head.info)), read.first().cloned());
    listed.into_iter().rev().collect()
}

#[test]
fn a_parent_is_told_whatever_became_of_it() {
    let scratch = Scratch::new();
    let store = options().open(scratch.dir()).unwrap();
    put_chain(&store, 0..3);
    put_with(&store, "root", &grown(3), PutOptions::default().parent(Parent::Root)).unwrap();
    put_with(&store, "fork", &grown(4), PutOptions::default().parent(Parent::Id(id("1")))).unwrap();
    put_with(&store, "head", &grown(5), PutOptions::default().parent(Parent::Id(id("fork")))).unwrap();
    assert_eq!(forms(&store), "wddddd");
    let expected = [None, Some("0"), Some("1"), None, Some("1"), Some("fork")].map(|parent| parent.map(str::to_owned));
    assert_eq!(parents(&store), expected);
    // Deleted, put again, trimmed: what names it goes on to.
    assert!(store.delete_checkpoint("t", &id("1")).unwrap());
    put_as(&store, "2", &grown(9));
    put_as(&store, "fork", &grown(9));
    let expected: Vec<_> = [0, 2, 3, 4, 5].map(|at| expected[at].clone()).into();
    assert_eq!(parents(&store), expected);
    store.retain(Some("t"), Some(3)).unwrap();
    assert_eq!(forms(&store), "dwd");
    for store in [&store, &beside().open(scratch.dir()).unwrap(), &Store::options().read_only(true).open(scratch.dir()).unwrap()] {
        assert_eq!(parents(store), expected[2..]);
    }
    store.retain(Some("t"), Some(1)).unwrap();
    assert_eq!(parents(&store), expected[4..]);
    shows_everywhere(&store, &scratch.dir(), &[("head", grown(5))], &["fork", "root"]);
}

#[test]
fn an_expected_head_that_is_not_there_is_a_conflict() {
    let scratch = Scratch::new();
    let handles = [options().open(scratch.dir()).unwrap(), beside().open(scratch.dir()).unwrap()];
    put_chain(&handles[0], 0..3);
    let asked = |name: &str| PutOptions::default().expected_head(ExpectedHead::Id(id(name)));
    for store in &handles {
        for options in [asked("1"), PutOptions::default().expected_head(ExpectedHead::Empty)] {
            assert_eq!(put_with(store, "no", &grown(4), options).unwrap_err().kind(), ErrorKind::Conflict);
        }
        let missing = PutOptions::default().parent(Parent::Id(id("nobody")));
        assert_eq!(put_with(store, "no", &grown(4), missing).unwrap_err().kind(), ErrorKind::NotFound);
    }
    put_with(&handles[1], "3", &grown(3), asked("2")).unwrap();
    assert_eq!(put_with(&handles[0], "no", &grown(4), asked("2")).unwrap_err().kind(), ErrorKind::Conflict);
    put_with(&handles[0], "4", &grown(4), asked("3")).unwrap();
    assert_eq!(forms(&handles[0]), "wdddd");
    shows_everywhere(&handles[1], &scratch.dir(), &named(&steps(0..5)), &["no"]);
}

#[test]
fn a_handle_without_deltas_beside_one_with_them() {
    let scratch = Scratch::new();
    let handles = [options().open(scratch.dir()).unwrap(), beside().delta(false).open(scratch.dir()).unwrap()];
    let all = steps(0..12);
    for (number, (name, state)) in all.iter().enumerate() {
        put_as(&handles[usize::from(number % 3 == 2)], name, state);
    }
    assert_eq!(forms(&handles[1]), "wdwddwddwddw");
    for store in &handles {
        shows_everywhere(store, &scratch.dir(), &named(&all), &[]);
    }
}

fn put_all<'a>(batch: &mut Batch<'a>, steps: &'a [(String, Vec<u8>)]) {
    for (name, state) in steps {
        batch.put("t", TypeTag::BYTES, state, PutOptions::default().id(id(name)));
    }
}

#[test]
fn puts_of_one_batch_are_differences_from_each_other() {
    let scratch = Scratch::new();
    let store = options().open(scratch.dir()).unwrap();
    put_chain(&store, 0..2);
    let all = steps(0..9);
    let mut batch = Batch::new();
    put_all(&mut batch, &all[2..6]);
    store.commit(&batch).unwrap();
    assert_eq!(forms(&store), "wddddd");
    shows_everywhere(&store, &scratch.dir(), &named(&all[..6]), &[]);
    // A delete between them, of what the next would have been a difference from; and one put twice.
    let mut batch = Batch::new();
    put_all(&mut batch, &all[6..8]);
    batch.delete("t", Some(id("7")));
    put_all(&mut batch, &all[8..9]);
    put_all(&mut batch, &all[8..9]);
    store.commit(&batch).unwrap();
    let mut left = all.clone();
    left.remove(7);
    shows_everywhere(&store, &scratch.dir(), &named(&left), &["7"]);
    // The thread ends and begins anew.
    let mut batch = Batch::new();
    batch.delete("t", None);
    put_all(&mut batch, &all[3..6]);
    store.commit(&batch).unwrap();
    assert_eq!(forms(&store), "wdd");
    shows_everywhere(&store, &scratch.dir(), &named(&all[3..6]), &["0", "8"]);
    assert_eq!(views(&store).len(), 1);
}

/// What `tests/golden` cannot see: how its checkpoints are stored.
/// A delta tells the content hash of the state before it, by which a reader who has that one need go no further.
#[test]
fn a_delta_tells_the_hash_of_what_it_is_a_difference_from() {
    let scratch = Scratch::new();
    let store = options().open(scratch.dir()).unwrap();
    let all = steps(0..7);
    all[..2].iter().for_each(|(name, state)| put_as(&store, name, state));
    let mut batch = Batch::new();
    put_all(&mut batch, &all[2..5]);
    store.commit(&batch).unwrap();
    all[5..].iter().for_each(|(name, state)| put_as(&store, name, state));
    assert_eq!(forms(&store), "wdddddd");
    let (view, segments) = (store.shared.index.get("t").unwrap(), store.shared.segments.load_full());
    let hash = |step: usize| crate::delta::content_hash(&all[step].1);
    for (step, entry) in view.entries().enumerate().skip(1) {
        let coding = read::record(&segments, &view, entry, |put| Ok(put.coding)).unwrap();
        let Coding::Delta(Difference { base_hash, hash: own, .. }) = coding else { panic!("{coding:?}") };
        assert_eq!((base_hash, own), (hash(step - 1), hash(step)), "step {step}");
    }
}

#[test]
fn the_golden_directory_holds_every_coding() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1/whole");
    let store = Store::options().read_only(true).open(golden).unwrap();
    let segments = store.shared.segments.load();
    let mut codings = [0; 4];
    for view in views(&store).values() {
        for entry in view.entries().chain(view.hidden()) {
            codings[match read::record(&segments, view, entry, |put| Ok(put.coding)).unwrap() {
                Coding::Whole => 0,
                Coding::Packed => 1,
                Coding::Delta(Difference { is_packed: false, .. }) => 2,
                Coding::Delta(_) => 3,
            }] += 1;
        }
    }
    assert!(codings.iter().all(|&count| count > 0), "{codings:?}");
    assert!(views(&store).values().any(|view| !view.hidden().is_empty()));
    let mut promoted = 0;
    let directory = &store.shared.directory;
    let manifest = directory.manifest().unwrap();
    for listed in manifest.segments.iter().filter(|listed| listed.end != 0) {
        let count = &mut |met: Option<records::Met<'_>>| promoted += usize::from(matches!(met.unwrap().record, Record::Promote(_)));
        records::each(directory, &manifest, listed, count).unwrap();
    }
    assert!(promoted > 0);
}
