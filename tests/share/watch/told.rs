//! Four processes and a worker of this one put, all at once: each watch tells every put once, in the
//! one order of the store.

use std::collections::HashMap;
use std::path::Path;

use taffrail::testing::states::noise;
use taffrail::{Batch, CheckpointId, CheckpointInfo, Checkpointer, Durability, HistoryQuery, PutOptions, Store, TypeTag};

use super::{options, says_nothing, until};
use crate::chance::{self, Chance};
use crate::child::{Child, say};
use crate::scratch::Scratch;
use crate::tidy::is_tidy;

const WRITERS: usize = 4;
const STEPS: u64 = 150;
/// The thread that all put to, and those whose checkpoints are never deleted.
const COMMON: &str = "all";
const KEPT: [&str; 2] = [COMMON, "own "];

/// Plays a writer.
pub fn writer(arguments: &[&str]) {
    let [dir, name, seed] = arguments else { panic!("{arguments:?}") };
    let store = options().open(dir).unwrap();
    say("ready");
    write(&store, name, seed.parse().unwrap());
    say("done");
}

fn write(store: &Store, name: &str, seed: u64) {
    let mut chance = Chance::new(seed);
    let (own, brief) = (format!("own {name}"), format!("brief {name}"));
    for step in 0..STEPS {
        // Four in a row are alike.
        let state = noise(step / 4, 60_000);
        let durability = if chance.once_in(3) { Durability::Sync } else { Durability::Buffered };
        let fresh = |number: u64| PutOptions::default().id(id(&format!("{name}-{step}.{number}"))).durability(durability);
        let length = chance.below(3_000) as usize;
        let mut batch = Batch::new();
        match chance.below(8) {
            0 => {
                for number in 0..1 + chance.below(5) {
                    let thread = chance.one_of(&[COMMON, &own, &brief]);
                    batch.put(thread, TypeTag::BYTES, &state[..length / 4], fresh(number));
                }
            }
            // Over a quarter of a segment, and over a whole one.
            1 if chance.once_in(3) => {
                batch.put(chance.one_of(&[COMMON, &own]), TypeTag::BYTES, &state[..20_000 + 10 * length], fresh(0));
            }
            // Once more under an id that it has, or may have.
            2 => {
                let old = id(&format!("{name}-{}.0", chance.below(step + 1)));
                batch.put(&own, TypeTag::BYTES, &state[..length], PutOptions::default().id(old).durability(durability));
            }
            3 => {
                let old = chance.once_in(2).then(|| id(&format!("{name}-{}.0", step.saturating_sub(1))));
                batch.delete(&brief, old);
            }
            _ => {
                batch.put(chance.one_of(&[COMMON, &own, &brief]), TypeTag::BYTES, &state[..length], fresh(0));
            }
        }
        store.commit(&batch).unwrap();
    }
}

fn id(text: &str) -> CheckpointId {
    CheckpointId::new(text).unwrap()
}

/// A checkpoint as the watches are compared by it.
type Told = (String, String, u64);

fn of_kept_threads(infos: Vec<CheckpointInfo>) -> Vec<Told> {
    let kept = infos.into_iter().filter(|info| KEPT.iter().any(|kept| info.thread.starts_with(kept)));
    kept.map(|info| (info.thread.to_string(), info.id.to_string(), info.seq)).collect()
}

fn mark(store: &Store, text: &str) {
    store.put_bytes(COMMON, TypeTag::BYTES, b"", PutOptions::default().id(id(text))).unwrap();
}

/// One round: watches of all and of one thread, made before, and some made while others write.
fn round(dir: &Path, seed: u64) {
    let store = options().max_history(None).open(dir).unwrap();
    let reader = options().read_only(true).mmap(Chance::new(seed).once_in(2)).open(dir).unwrap();
    let mut of_all = [store.watch(None).unwrap(), reader.watch(None).unwrap()];
    let mut of_one = [store.watch(Some(COMMON)).unwrap(), reader.watch(Some(COMMON)).unwrap()];
    let mut writers: Vec<Child> = (0..WRITERS)
        .map(|number| Child::start("watched writer", &[dir.to_str().unwrap(), &format!("w{number}"), &format!("{}", seed + number as u64)]))
        .collect();
    writers.iter_mut().for_each(|writer| writer.must_say_this("ready"));
    let (all, one, late) = std::thread::scope(|scope| {
        let all = of_all.each_mut().map(|watch| scope.spawn(|| until(watch, "end")));
        let one = of_one.each_mut().map(|watch| scope.spawn(|| until(watch, "end")));
        let own = scope.spawn(|| write(&store, "here", seed));
        // Made while the others write.
        let mut late = Vec::new();
        for number in 0..4 {
            mark(&store, &format!("before {number}"));
            let reader = options().read_only(true).open(dir).unwrap();
            let watches = [store.watch(None).unwrap(), reader.watch(None).unwrap()];
            mark(&store, &format!("behind {number}"));
            late.extend(watches.map(|watch| (number, watch)));
        }
        writers.iter_mut().for_each(|writer| writer.must_say_this("done"));
        own.join().unwrap();
        mark(&store, "end");
        (all.map(|told| told.join().unwrap()), one.map(|told| told.join().unwrap()), late)
    });
    let [told, of_reader] = all.map(of_kept_threads);
    assert!(told == of_reader, "seed {seed}: a reader is told something else than a writer");
    let common: Vec<Told> = told.iter().filter(|(thread, ..)| thread == COMMON).cloned().collect();
    for one in one.map(of_kept_threads) {
        assert!(one == common, "seed {seed}: of one thread something else is told");
    }
    for (number, mut watch) in late {
        let late = of_kept_threads(until(&mut watch, "end"));
        assert!(told.ends_with(&late), "seed {seed}: a later watch tells something else");
        let marks = |text: &str| late.iter().any(|(_, id, _)| *id == format!("{text} {number}"));
        assert_eq!((marks("before"), marks("behind")), (false, true), "seed {seed}");
    }
    is_what_the_store_holds(&store, &told, seed);
    of_all.iter_mut().chain(&mut of_one).for_each(says_nothing);
    writers.iter_mut().for_each(Child::end);
}

/// First puts are told in the store's order, none is missing; later ones tell the place of the first.
fn is_what_the_store_holds(store: &Store, told: &[Told], seed: u64) {
    let mut first: Vec<Told> = Vec::new();
    let mut places: HashMap<(&str, &str), u64> = HashMap::new();
    for (thread, id, place) in told {
        let known = *places.entry((thread, id)).or_insert_with(|| {
            first.push((thread.clone(), id.clone(), *place));
            *place
        });
        assert_eq!(known, *place, "seed {seed}: {thread} {id}");
    }
    assert!(first.is_sorted_by(|before, after| before.2 < after.2), "seed {seed}: out of order");
    let mut held: Vec<Told> = Vec::new();
    for thread in store.threads().unwrap() {
        held.extend(of_kept_threads(store.list(&thread, &HistoryQuery::default()).unwrap().map(Result::unwrap).collect()));
    }
    held.sort_by_key(|(_, _, place)| *place);
    assert!(first == held, "seed {seed}: {} are told, {} are there", first.len(), held.len());
    let puts_again = told.len() - first.len();
    assert!(puts_again > 0 && first.len() > 100, "hardly anything was tested: {} and {puts_again}", first.len());
}

#[test]
fn every_put_of_any_process_is_told_once_and_in_order() {
    for seed in chance::rounds(3, std::time::Duration::from_secs(20)) {
        let scratch = Scratch::new();
        let dir = scratch.path("store");
        round(&dir, seed.wrapping_mul(16));
        is_tidy(&dir, "watched");
    }
}
