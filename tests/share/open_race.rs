//! Many processes that open one missing directory, with missing parents, at one instant; one of
//! them is killed at a random moment, and nobody else notices.

use std::path::Path;
use std::time::Duration;

use taffrail::{Checkpointer, HistoryQuery, PutOptions, Store, TypeTag};

use crate::chance::{self, Chance};
use crate::child::{Child, PATIENCE, in_micros, instant_of, next_order, say, wait_until};
use crate::scratch::Scratch;
use crate::tidy::is_tidy;

const OPENERS: usize = 16;

/// Plays an opener. An order is a directory, an instant and whether the store is kept open until
/// `close`; the answer is the id of what was put.
pub fn opener(arguments: &[&str]) {
    let name = arguments[0];
    let mut kept: Option<Store> = None;
    while let Some(order) = next_order() {
        drop(kept.take());
        if order == "close" {
            say("closed");
            continue;
        }
        let words: Vec<&str> = order.split(' ').collect();
        let [dir, instant, keep] = words[..] else { panic!("{order:?}") };
        wait_until(instant_of(instant));
        let options = Store::options().max_history(None).busy_timeout(PATIENCE);
        let store = options.open(dir).unwrap_or_else(|error| panic!("opener {name}: {error:?}"));
        let id = store.put_bytes("t", TypeTag::BYTES, name.as_bytes(), PutOptions::default()).unwrap();
        assert!(store.load_bytes("t", &id).unwrap().is_some());
        kept = (keep == "keep").then_some(store);
        say(&id.to_string());
    }
}

#[test]
fn openers_at_one_instant_of_a_missing_directory_all_succeed() {
    let scratch = Scratch::new();
    let mut openers: Vec<Child> = (0..OPENERS).map(start).collect();
    for (round, seed) in chance::rounds(100, Duration::from_secs(30)).enumerate() {
        let ground = scratch.path(&format!("round {round}").replace(' ', "-"));
        let dir = ground.join("a/b/store");
        let mut chance = Chance::new(seed);
        // Short-lived in every other round: then the last one closes while others open.
        let keep = if chance.once_in(2) && chance::number("TAFFRAIL_STRESS_REOPEN").is_none() { "keep" } else { "close" };
        let order = format!("{} {} {keep}", dir.to_str().unwrap(), in_micros(3_000));
        openers.iter_mut().for_each(|opener| opener.order(&order));
        let victim = chance.below(OPENERS as u64) as usize;
        std::thread::sleep(Duration::from_micros(2_500) + chance.micros(15_000));
        openers[victim].kill();
        let answers: Vec<Option<String>> = openers.iter_mut().map(Child::word).collect();
        openers[victim] = start(victim);
        // Where they keep it open this is one more opener beside them.
        holds_what_was_answered(&dir, &answers, victim, seed);
        if keep == "keep" {
            openers.iter_mut().for_each(|opener| opener.order("close"));
            openers.iter_mut().for_each(|opener| opener.must_say_this("closed"));
            holds_what_was_answered(&dir, &answers, victim, seed);
        }
        is_tidy(&dir, &format!("seed {seed}"));
        std::fs::remove_dir_all(&ground).unwrap();
    }
    openers.iter_mut().for_each(Child::end);
}

fn start(number: usize) -> Child {
    Child::start("opener", &[&number.to_string()])
}

fn holds_what_was_answered(dir: &Path, answers: &[Option<String>], victim: usize, seed: u64) {
    let store = Store::options().busy_timeout(PATIENCE).open(dir).unwrap_or_else(|error| panic!("seed {seed}: {error:?}"));
    assert!(store.recovery().damage.is_empty(), "seed {seed}: {:?}", store.recovery());
    let shown: Vec<_> = store.history_bytes("t", &HistoryQuery::default()).unwrap().map(Result::unwrap).collect();
    for (number, answer) in answers.iter().enumerate() {
        let name = number.to_string();
        let ids: Vec<String> = shown.iter().filter(|read| *read.state == *name.as_bytes()).map(|read| read.id.to_string()).collect();
        match answer {
            Some(id) => assert_eq!(ids, [id.as_str()], "seed {seed}: opener {number}"),
            None => assert!(number == victim && ids.len() <= 1, "seed {seed}: opener {number} gave no answer"),
        }
    }
    let parents = shown.iter().map(|read| read.parent.clone()).eq(shown.iter().skip(1).map(|read| Some(read.id.clone())).chain([None]));
    assert!(parents, "seed {seed}: each follows the one before it");
}
