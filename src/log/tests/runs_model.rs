//! Random stretches of the log compacted in any order by two handles, against a plain model; reopened,
//! and found again in a copy, after each round.

use rustix::io::Errno;

use super::failing::{Action, Failing, Fault, Kind, Moment};
use super::faults::options;
use super::{Scratch, image, index_is_derived, index_is_that_of};
use crate::backend::memory::MemoryCheckpointer;
use crate::batch::{Durability, OnExisting, PutOptions};
use crate::checkpoint::{CheckpointId, TypeTag};
use crate::checkpointer::Checkpointer;
use crate::log::Store;
use crate::log::compact::Pass;
use crate::log::runs::Wanted;
use crate::query::{HistoryQuery, VacuumQuery};
use crate::testing::states::noise;

struct Rng(u64);

impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

const THREADS: [&str; 4] = ["a", "b", "c", "d"];

type All = Vec<(String, Vec<(String, Option<String>, usize, u32)>)>;

/// What is attached to checkpoints of these ids stands among the steps.
const ATTACHED: [&str; 4] = ["id-0", "id-1", "id-2", "id-3"];

fn all(place: &dyn Checkpointer) -> All {
    try_all(place).unwrap()
}

fn try_all(place: &dyn Checkpointer) -> crate::Result<All> {
    let mut all = Vec::new();
    for thread in THREADS {
        let steps = place.history_bytes(thread, &HistoryQuery::default())?.collect::<crate::Result<Vec<_>>>()?.into_iter();
        let steps =
            steps.map(|it| (it.id.to_string(), it.parent.as_ref().map(|id| id.to_string()), it.state.len(), crc32fast::hash(&it.state)));
        let mut steps: Vec<_> = steps.collect();
        for id in ATTACHED {
            let attached = place.attachments(thread, &CheckpointId::new(id).unwrap())?.into_iter();
            steps.extend(attached.map(|it| (format!("{id} {}", it.key), None, it.value.len(), crc32fast::hash(&it.value))));
        }
        all.push((thread.to_owned(), steps));
    }
    Ok(all)
}

fn open(scratch: &std::path::Path) -> Store {
    open_over(scratch, &Failing::default())
}

fn open_over(scratch: &std::path::Path, layer: &Failing) -> Store {
    options(layer).durability(Durability::Buffered).open(scratch).unwrap()
}

fn run(seed: u64, rounds: u64, failing: bool) {
    let layer = Failing::default();
    let mut rng = Rng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let scratch = Scratch::new();
    let mut dir = scratch.dir();
    let first = Store::options().segment_bytes(64 * 1024).auto_compaction(false).max_history(None).open(&dir).unwrap();
    drop(first);
    let model = MemoryCheckpointer::with_max_history(None).unwrap();
    let mut handles = vec![open_over(&dir, &layer), open_over(&dir, &layer)];
    let mut trace: Vec<String> = Vec::new();
    let mut byte = 0u8;
    for round in 0..rounds {
        for _ in 0..rng.below(14) + 1 {
            let at = rng.below(2) as usize;
            let thread = THREADS[rng.below(4) as usize];
            let id = CheckpointId::new(format!("id-{}", rng.below(8))).unwrap();
            let what = rng.below(44);
            let other = THREADS[rng.below(4) as usize];
            byte = byte.wrapping_add(1);
            let store = &handles[at];
            let (size, sync) = ([100, 3_000, 6_000, 12_000, 20_000][rng.below(5) as usize], rng.below(6) == 0);
            let own = rng.below(3) == 0;
            let keep = [None, Some(1), Some(3)][rng.below(3) as usize];
            trace.push(format!("{what} {thread} {id} {size} {own} {keep:?} by {at}"));
            let both = |run: &dyn Fn(&dyn Checkpointer) -> String| assert_eq!(run(store), run(&model), "seed {seed} round {round}");
            let id_or_fresh = if own { id.clone() } else { CheckpointId::fresh() };
            match what {
                0..=1 => both(&|it| format!("{:?}", it.delete(thread).map_err(|error| error.kind()))),
                2..=6 => both(&|it| format!("{:?}", it.delete_checkpoint(thread, &id).map_err(|error| error.kind()))),
                7..=8 => both(&|it| format!("{:?}", it.retain(Some(thread), keep).map_err(|error| error.kind()))),
                9 => {
                    let query = VacuumQuery { thread: Some(thread.to_owned()), keep: Some(size % 7 % 3), ..VacuumQuery::default() };
                    both(&|it| format!("{:?}", it.vacuum(&query).map_err(|error| error.kind())));
                }
                10 => {
                    // The newest ones, one after the other: the last ends the thread.
                    while let Some(head) = model.head(thread).unwrap() {
                        both(&|it| format!("{:?}", it.delete_checkpoint(thread, &head.id).map_err(|error| error.kind())));
                        if own {
                            break;
                        }
                    }
                }
                40 => both(&|it| format!("{:?}", it.fork(thread, own.then_some(&id), other).map_err(|error| error.kind()))),
                41 => both(&|it| format!("{:?}", it.rename(thread, other).map_err(|error| error.kind()))),
                42..=43 => both(&|it| format!("{:?}", it.rollback(thread, &id).map_err(|error| error.kind()))),
                11..=17 => both(&|it| {
                    let id = CheckpointId::new(ATTACHED[size % 11 % 4]).unwrap();
                    let on = if own { OnExisting::Keep } else { OnExisting::Replace };
                    let value = noise(u64::from(byte), size / 20);
                    format!("{:?}", it.attach(thread, &id, ["k", "l"][size % 3 % 2], TypeTag::BYTES, &value, on))
                }),
                _ => both(&|it| {
                    let durability = if sync { Durability::Sync } else { Durability::Buffered };
                    let options = PutOptions::default().id(id_or_fresh.clone()).durability(durability);
                    // Every other one is like some before it.
                    let state = [&[byte], &noise(if byte.is_multiple_of(2) { 0 } else { u64::from(byte) }, size)[..]].concat();
                    format!("{:?}", it.put_bytes(thread, TypeTag::BYTES, &state, options).map(drop).map_err(|error| error.kind()))
                }),
            }
        }
        for _ in 0..rng.below(4) {
            let at = rng.below(2) as usize;
            let store = &handles[at];
            let bases: Vec<u64> = store.shared.directory.manifest().unwrap().segments.iter().map(|it| it.base).collect();
            let thorough = rng.below(2) == 0;
            if store.shared.tail.is_poisoned(store.shared.tail.epoch()) {
                break;
            }
            let right = store.shared.right_to_compact().unwrap();
            let mut pass = Pass::begin(&store.shared, right, &|_| Ok(()), thorough).unwrap();
            for _ in 0..rng.below(4) + 1 {
                let one = bases[rng.below(bases.len() as u64) as usize];
                let two = bases[rng.below(bases.len() as u64) as usize] + rng.below(2);
                let wanted = match rng.below(8) {
                    0 => Wanted::Dead,
                    1 => Wanted::Best,
                    _ => Wanted::Next(one.min(two), one.max(two)),
                };
                let errno = [Errno::IO, Errno::NOSPC][rng.below(2) as usize];
                let (from, moment) = (rng.below(60), [Moment::Before, Moment::After][rng.below(2) as usize]);
                if failing && rng.below(2) == 0 {
                    let kinds = [
                        Kind::List,
                        Kind::Create,
                        Kind::Open,
                        Kind::Rename,
                        Kind::Remove,
                        Kind::Length,
                        Kind::Write,
                        Kind::Write,
                        Kind::Cut,
                        Kind::Sync,
                        Kind::SyncDir,
                        Kind::Map,
                    ];
                    let fault = Fault::fail(from % 15, kinds[rng.below(12) as usize], rng.below(2) == 0, errno, rng.below(3) as usize * 30);
                    layer.set(Some(Fault { moment, action: Action::Fail(errno), ..fault }));
                }
                let did = pass.step(wanted);
                let failed = layer.failed();
                layer.set(None);
                trace.push(format!("{wanted:?} thorough {thorough} by {at}: {did:?} {failed:?}"));
                if failing && did.is_err() {
                    break;
                }
                did.unwrap();
                if failing {
                    continue;
                }
                assert!(pass.damaged.is_none(), "seed {seed} round {round}: {:?}", pass.damaged);
            }
        }
        if rng.below(12) == 0 {
            trace.push("compact".into());
            let done = handles[rng.below(2) as usize].compact();
            assert!(done.is_ok() || failing, "{done:?}");
        }
        let expected = all(&model);
        let tail = &handles[0].shared.tail;
        if tail.is_poisoned(tail.epoch()) {
            trace.push("poisoned".into());
            let one_by_one = rng.below(2) == 0;
            if !one_by_one {
                handles.clear();
            }
            handles = vec![open_over(&dir, &layer), open_over(&dir, &layer)];
        }
        let tell = |trace: &[String]| trace[trace.len().saturating_sub(6000)..].join("\n");
        let look = rng.below(4);
        for at in [look as usize % 2, 1 - look as usize % 2].into_iter().take(if look > 1 { 1 } else { 2 }) {
            let found = try_all(&handles[at]);
            assert!(found.is_ok(), "seed {seed} round {round} handle {at}: {found:?}\n{}", tell(&trace));
            let found = found.unwrap();
            let differ = found.iter().zip(&expected).find(|(found, expected)| found != expected);
            assert!(differ.is_none(), "seed {seed} round {round} handle {at}: {differ:?}\n{}", tell(&trace));
            // What a write that failed has left behind the end is there until the next one.
            index_is_that_of(&handles[at], &Store::options().read_only(true).open(&dir).unwrap());
        }
        match rng.below(6) {
            0 => {
                handles.clear();
                handles.extend([open_over(&dir, &layer), open_over(&dir, &layer)]);
                assert!(handles[0].recovery().damage.is_empty() && handles[0].recovery().unproven.is_empty());
            }
            1 => {
                // As if killed here: opened as it is.
                let to = dir.with_file_name(format!("image-{round}"));
                image(&dir, &to);
                handles.clear();
                std::fs::remove_dir_all(&dir).unwrap();
                dir = to;
                handles.extend([open_over(&dir, &layer), open_over(&dir, &layer)]);
                assert!(
                    handles[0].recovery().damage.is_empty() && handles[0].recovery().unproven.is_empty(),
                    "{:?}",
                    handles[0].recovery()
                );
            }
            2 => handles[1] = open_over(&dir, &layer),
            _ => {}
        }
        assert!(all(&handles[0]) == expected, "seed {seed} round {round} opened again\n{}", tell(&trace));
        if rng.below(10) == 0 && expected.iter().any(|(_, steps)| !steps.is_empty()) {
            let dest = dir.with_file_name(format!("backup-{round}"));
            handles[1].backup(&dest).unwrap();
            assert!(all(&open(&dest)) == expected, "seed {seed} round {round} backup");
            std::fs::remove_dir_all(&dest).unwrap();
            let copy = dir.with_file_name(format!("copy-{round}"));
            image(&dir, &copy);
            let report = Store::repair(&copy, &dest).unwrap();
            assert!(all(&open(&dest)) == expected, "seed {seed} round {round} repair {report:?}\n{}", tell(&trace));
            std::fs::remove_dir_all(&dest).unwrap();
            // Without MANIFEST nobody can tell what was retired and could not be removed.
            let directory = &handles[0].shared.directory;
            let (there, manifest) = (directory.contents().unwrap().segments, directory.manifest().unwrap());
            if there.iter().all(|number| manifest.segments.iter().any(|listed| listed.number == *number)) {
                std::fs::remove_file(copy.join("MANIFEST")).unwrap();
                let report = Store::repair(&copy, &dest).unwrap();
                assert!(all(&open(&dest)) == expected, "seed {seed} round {round} repair without MANIFEST {report:?}\n{}", tell(&trace));
                std::fs::remove_dir_all(&dest).unwrap();
            }
            std::fs::remove_dir_all(&copy).unwrap();
        }
    }
    let found = handles[0].verify().unwrap();
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn runs_in_any_order_by_two_handles() {
    let first = std::env::var("TAFFRAIL_SEED").ok().and_then(|it| it.parse().ok()).unwrap_or(1);
    let count = std::env::var("TAFFRAIL_SEEDS").ok().and_then(|it| it.parse().ok()).unwrap_or(4);
    for seed in first..first + count {
        run(seed, 60, false);
    }
}

#[test]
fn runs_that_fail_at_any_operation() {
    let first = std::env::var("TAFFRAIL_SEED").ok().and_then(|it| it.parse().ok()).unwrap_or(1);
    let count = std::env::var("TAFFRAIL_SEEDS").ok().and_then(|it| it.parse().ok()).unwrap_or(4);
    for seed in first..first + count {
        run(seed, 60, true);
    }
}

/// A mark that says something only of what older segments hold is kept while one of these was written anew from
/// segments on either side of those that were looked through before.
#[test]
fn what_was_merged_since_is_looked_through_again() {
    let scratch = Scratch::new();
    let store = open(&scratch.dir());
    store.retain(None, None).unwrap();
    let put = |thread: &str| drop(store.put_bytes(thread, TypeTag::BYTES, b"1", PutOptions::default()).unwrap());
    let seal = || store.shared.turn().unwrap().rotate(&store.shared).unwrap();
    ["kept", "dead"].into_iter().for_each(put);
    seal();
    // A delete that nothing is left of has what stands before be looked through.
    ["a", "a", "a", "b"].into_iter().for_each(put);
    store.vacuum(&VacuumQuery { thread: Some("a".to_owned()), keep: Some(1), ..VacuumQuery::default() }).unwrap();
    assert!(store.delete("b").unwrap());
    seal();
    assert!(store.delete("a").unwrap() && store.delete("dead").unwrap());
    put("kept");
    seal();
    put("a");
    seal();
    let bases: Vec<u64> = store.shared.directory.manifest().unwrap().segments.iter().map(|listed| listed.base).collect();
    let mut pass = Pass::begin(&store.shared, store.shared.right_to_compact().unwrap(), &|_| Ok(()), true).unwrap();
    let replaced =
        [(1, 2), (0, 2), (2, 3)].map(|(from, upto)| pass.step(Wanted::Next(bases[from], bases[upto])).unwrap().unwrap().segments);
    assert_eq!(replaced[..2], [1, 2]);
    drop(pass);
    index_is_derived(&store, &scratch.dir());
}
