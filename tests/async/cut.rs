//! Many tasks over one store; calls that are dropped at any moment, and runtimes that end under them.
//!
//! What a task was answered is noted outside. Then the directory is opened anew: each put that was answered
//! is there, each that was not is there whole or not at all, each that nobody ever polled is not there,
//! and there is nothing else.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use taffrail::prelude::*;
use taffrail::{AsyncStore, CheckpointId, ExpectedHead, HistoryQuery, PutOptions};

use super::{alone, id, poll_once, several};

#[test]
fn many_tasks_at_once() {
    const TASKS: usize = 200;
    const STEPS: usize = 10;
    for runtime in [alone(), several()] {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("runs");
        runtime.block_on(async {
            let place = AsyncStore::new(Store::open(&dir).unwrap());
            let task = |number: usize| {
                let place = place.clone();
                async move {
                    let thread = format!("t{number}");
                    let mut head = ExpectedHead::Empty;
                    for step in 0..STEPS {
                        let id = place.put_with(&thread, &(number, step), PutOptions::default().expected_head(head)).await.unwrap();
                        assert_eq!(place.get::<(usize, usize)>(&thread).await.unwrap(), Some((number, step)));
                        head = ExpectedHead::Id(id);
                    }
                }
            };
            let tasks: Vec<_> = (0..TASKS).map(|number| tokio::spawn(task(number))).collect();
            for task in tasks {
                task.await.unwrap();
            }
            place.close().await.unwrap();
        });
        let store = Store::open(&dir).unwrap();
        assert_eq!(store.threads().unwrap().len(), TASKS);
        for number in 0..TASKS {
            let steps = store.history::<(usize, usize)>(&format!("t{number}"), None).unwrap();
            assert!(steps.iter().rev().map(|step| step.state).eq((0..STEPS).map(|step| (number, step))));
        }
    }
}

/// What is known of a put outside the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    /// It was never polled.
    Unasked,
    /// It was dropped, or its runtime ended.
    Cut,
    /// It was answered.
    Kept,
}

type Notes = Arc<Mutex<BTreeMap<(String, String), Fate>>>;

/// A state that tells whose it is, and is several frames' worth of text.
fn state(thread: &str, step: &str) -> String {
    format!("{thread} {step} ").repeat(40 + step.len() * 7)
}

/// Holds what is in the directory against the notes; answers how many of those that were cut are there.
fn judge(dir: &Path, notes: &Notes) -> usize {
    let store = Store::open(dir).unwrap();
    assert!(store.verify().unwrap().is_empty());
    let mut there = BTreeMap::new();
    for thread in store.threads().unwrap() {
        for info in store.list(&thread, &HistoryQuery::default()).unwrap() {
            let info = info.unwrap();
            let found = store.load::<String>(&thread, &info.id).unwrap().unwrap();
            assert_eq!(found.state, state(&thread, info.id.as_str()));
            there.insert((thread.clone(), info.id.to_string()), ());
        }
    }
    let notes = notes.lock().unwrap();
    for (put, fate) in notes.iter() {
        match fate {
            Fate::Unasked => assert!(!there.contains_key(put), "{put:?} was never asked for"),
            Fate::Kept => assert!(there.contains_key(put), "{put:?} was answered"),
            Fate::Cut => {}
        }
    }
    assert!(there.keys().all(|put| notes.contains_key(put)));
    there.keys().filter(|put| notes[*put] == Fate::Cut).count()
}

/// Numbers that look like chance.
fn dice(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut word = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move |sides| {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        (word >> 20) % sides
    }
}

/// One task: puts, of which some are dropped at some moment.
async fn cut_at_random(place: AsyncStore, thread: String, steps: usize, notes: Notes) {
    let mut roll = dice(thread.bytes().map(u64::from).sum());
    for step in 0..steps {
        let step = format!("s{step}");
        let note = |fate| notes.lock().unwrap().insert((thread.clone(), step.clone()), fate);
        note(Fate::Unasked);
        let put = place.put_with(&thread, &state(&thread, &step), PutOptions::default().id(id(&step)));
        match roll(5) {
            0 => drop(put),
            1 => {
                note(Fate::Cut);
                if let Poll::Ready(answer) = poll_once(put) {
                    answer.unwrap();
                    note(Fate::Kept);
                }
            }
            2 | 3 => {
                note(Fate::Cut);
                if let Ok(answer) = tokio::time::timeout(Duration::from_micros(roll(3_000)), put).await {
                    answer.unwrap();
                    note(Fate::Kept);
                }
            }
            _ => {
                note(Fate::Cut);
                put.await.unwrap();
                note(Fate::Kept);
            }
        }
    }
}

#[test]
fn a_dropped_put_is_wholly_there_or_not_at_all() {
    const TASKS: usize = 40;
    const STEPS: usize = 40;
    for runtime in [alone(), several()] {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("runs");
        let notes = Notes::default();
        runtime.block_on(async {
            let place = AsyncStore::new(Store::open(&dir).unwrap());
            let task = |number| tokio::spawn(cut_at_random(place.clone(), format!("t{number}"), STEPS, notes.clone()));
            let tasks: Vec<_> = (0..TASKS).map(task).collect();
            for task in tasks {
                task.await.unwrap();
            }
            place.settled().await.unwrap();
            let before = place.list_threads(&Default::default()).await.unwrap().collect().await.unwrap();
            place.settled().await.unwrap();
            let after = place.list_threads(&Default::default()).await.unwrap().collect().await.unwrap();
            assert_eq!(before, after, "something came after all had settled");
            place.close().await.unwrap();
        });
        assert_eq!(notes.lock().unwrap().len(), TASKS * STEPS);
        let landed = judge(&dir, &notes);
        let cut = notes.lock().unwrap().values().filter(|fate| **fate == Fate::Cut).count();
        println!("{cut} puts were cut, {landed} of them are there");
    }
}

#[test]
fn a_runtime_that_ends_loses_nothing_that_was_answered() {
    for after_puts in [1, 30, 200] {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("runs");
        let notes = Notes::default();
        let runtime = several();
        let place = AsyncStore::new(Store::open(&dir).unwrap());
        let (answered, mut told) = tokio::sync::mpsc::unbounded_channel::<CheckpointId>();
        for number in 0..100 {
            let (place, notes, answered, thread) = (place.clone(), notes.clone(), answered.clone(), format!("t{number}"));
            runtime.spawn(async move {
                for step in 0.. {
                    let step = format!("s{step}");
                    notes.lock().unwrap().insert((thread.clone(), step.clone()), Fate::Cut);
                    let put = place.put_with(&thread, &state(&thread, &step), PutOptions::default().id(id(&step)));
                    let Ok(id) = put.await else { return };
                    notes.lock().unwrap().insert((thread.clone(), step), Fate::Kept);
                    answered.send(id).unwrap();
                }
            });
        }
        for _ in 0..after_puts {
            told.blocking_recv().unwrap();
        }
        // Waits for what the blocking workers have taken up.
        drop(runtime);
        drop(place);
        let landed = judge(&dir, &notes);
        let kept = notes.lock().unwrap().values().filter(|fate| **fate == Fate::Kept).count();
        assert!(kept >= after_puts);
        println!("{kept} puts were answered, {landed} more are there");
    }
}

#[test]
fn what_only_a_store_has_goes_through_blocking() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("runs");
    alone().block_on(async {
        let store = Store::open(&dir).unwrap();
        let place = AsyncStore::new(store.clone());
        place.put("t", &1).await.unwrap();
        let stats = place.blocking(move |_| store.stats()).await.unwrap();
        assert_eq!(stats.checkpoints, 1);
        let added = place.blocking(|place| {
            let before: i32 = place.get("t")?.unwrap_or_default();
            place.put("t", &(before + 1))?;
            Ok(before)
        });
        assert_eq!(added.await.unwrap(), 1);
        assert_eq!(place.history::<i32>("t", 1).await.unwrap()[0].state, 2);
        place.close().await.unwrap();
    });
}
