//! Forks, renames and rollbacks among puts, deletes, limits and attachments, by chance, held against a model.
//!
//! The model knows what the calls mean and nothing of how a place does it: of each thread its checkpoints and
//! what is attached, in plain vectors. What waits for a checkpoint is left to the cases that ask for it.

use std::collections::BTreeMap;

use super::attachments::{attach, attached};
use super::branches::{grown, having};
use super::probe::{good, id};
use super::{Make, Place, Setup};
use crate::batch::PutOptions;
use crate::checkpoint::TypeTag;
use crate::error::{ErrorKind, Result};
use crate::testing::states::noise;

cases![random_operations_mean_what_they_say];

const KEEP: usize = 6;
const THREADS: [&str; 4] = ["a", "a/b", "b", "c"];
const IDS: usize = 12;

#[derive(Clone, Debug, PartialEq)]
struct Kept {
    id: String,
    parent: Option<String>,
    state: Vec<u8>,
    value: String,
}

/// A thread, oldest first, and how many it keeps if that is its own number.
#[derive(Clone, Debug, Default, PartialEq)]
struct Line {
    kept: Vec<Kept>,
    own: Option<usize>,
}

impl Line {
    fn position(&self, own: &str) -> Option<usize> {
        self.kept.iter().position(|kept| kept.id == own)
    }

    fn trim(&mut self) {
        let over = self.kept.len().saturating_sub(self.own.unwrap_or(KEEP));
        self.kept.drain(..over);
    }
}

#[derive(Default)]
struct Model(BTreeMap<&'static str, Line>);

impl Model {
    fn put(&mut self, thread: &'static str, own: &str, state: &[u8]) {
        let line = self.0.entry(thread).or_default();
        match line.position(own) {
            Some(at) => line.kept[at].state = state.to_vec(),
            None => {
                let parent = line.kept.last().map(|head| head.id.clone());
                line.kept.push(Kept { id: own.to_owned(), parent, state: state.to_vec(), value: String::new() });
            }
        }
        line.trim();
    }

    fn delete(&mut self, thread: &str, own: &str) {
        if let Some(line) = self.0.get_mut(thread) {
            line.kept.retain(|kept| kept.id != own);
            self.0.retain(|_, line| !line.kept.is_empty());
        }
    }

    fn fork(&mut self, thread: &str, at: Option<&str>, new: &'static str) -> std::result::Result<String, ErrorKind> {
        let line = self.0.get(thread).ok_or(ErrorKind::NotFound)?;
        let end = at.map_or(Some(line.kept.len() - 1), |at| line.position(at)).ok_or(ErrorKind::NotFound)?;
        if self.0.contains_key(new) {
            return Err(ErrorKind::Conflict);
        }
        let fork = Line { kept: line.kept[..=end].to_vec(), own: line.own };
        self.0.insert(new, fork);
        Ok(self.0[new].kept[end].id.clone())
    }

    fn rename(&mut self, thread: &str, new: &'static str) -> std::result::Result<(), ErrorKind> {
        self.fork(thread, None, new).map(|_| drop(self.0.remove(thread)))
    }

    fn rollback(&mut self, thread: &str, to: &str) -> std::result::Result<u64, ErrorKind> {
        let line = self.0.get_mut(thread).ok_or(ErrorKind::NotFound)?;
        let end = line.position(to).ok_or(ErrorKind::NotFound)? + 1;
        Ok(line.kept.drain(end..).count() as u64)
    }
}

/// Some hundred operations, of several seeds, with reopenings between; after each the place shows what the
/// model has, and a refusal is one of the model's.
pub fn random_operations_mean_what_they_say(make: Make<'_>) {
    for seed in 1..=4 {
        let Some(mut place) = having(make, Setup { max_history: Some(KEEP) }) else { return };
        let mut model = Model::default();
        for (step, choice) in noise(seed, 8 * 160).chunks_exact(8).enumerate() {
            let what = format!("operation {step} of seed {seed}: {choice:?}");
            let touched = operate(&place, &mut model, step, choice, &what);
            touched.iter().for_each(|thread| compare(&place, &model, thread, &what));
            if choice[7] < 16 {
                place.reopen();
                THREADS.iter().for_each(|thread| compare(&place, &model, thread, &what));
            }
        }
        THREADS.iter().for_each(|thread| compare(&place, &model, thread, "the end"));
    }
}

/// Does one operation on both; answers the threads that it is about.
fn operate(place: &Place, model: &mut Model, step: usize, choice: &[u8], what: &str) -> [&'static str; 2] {
    let pick = |at: usize, bound: usize| usize::from(choice[at]) % bound;
    let (thread, new) = (THREADS[pick(1, THREADS.len())], THREADS[pick(2, THREADS.len())]);
    let own = format!("c{}", pick(3, IDS));
    match choice[0] % 16 {
        0..=5 => {
            let state = if choice[4] < 200 { grown(step) } else { Vec::new() };
            good(what, place.put_bytes(thread, TypeTag::BYTES, &state, PutOptions::default().id(id(&own))));
            model.put(thread, &own, &state);
        }
        6 | 7 => {
            let line = model.0.get_mut(thread);
            if let Some(kept) = line.and_then(|line| line.position(&own).map(|at| &mut line.kept[at]))
                && place.capabilities().attachments
            {
                kept.value = format!("k={step}");
                attach(place, thread, &own, "k", &step.to_string());
            }
        }
        8 => {
            good(what, place.delete_checkpoint(thread, &id(&own)));
            model.delete(thread, &own);
        }
        9 => {
            let keep = 2 + pick(4, 8);
            if place.retain(Some(thread), Some(keep)).is_ok()
                && let Some(line) = model.0.get_mut(thread)
            {
                line.own = Some(keep);
                line.trim();
            }
        }
        10..=12 => {
            let at = (choice[4] < 170).then_some(own);
            let answer = place.fork(thread, at.as_deref().map(id).as_ref(), new);
            same(answer.map(|head| head.to_string()), model.fork(thread, at.as_deref(), new), what);
        }
        13 => same(place.rename(thread, new), model.rename(thread, new), what),
        14 => same(place.rollback(thread, &id(&own)), model.rollback(thread, &own), what),
        _ => {
            assert_eq!(good(what, place.delete(thread)), model.0.remove(thread).is_some(), "{what}");
        }
    }
    [thread, new]
}

#[track_caller]
fn same<T: PartialEq + std::fmt::Debug>(place: Result<T>, model: std::result::Result<T, ErrorKind>, what: &str) {
    match (place, model) {
        // Which of two refusals is told first is the place's own.
        (Err(error), Err(_)) if [ErrorKind::NotFound, ErrorKind::Conflict].contains(&error.kind()) => {}
        (place, model) => assert_eq!(place.map_err(|error| error.kind()), model, "{what}"),
    }
}

#[track_caller]
fn compare(place: &Place, model: &Model, thread: &str, what: &str) {
    let seen = place.audit(thread);
    let value = |own: &str| if place.capabilities().attachments { attached(place, thread, own) } else { String::new() };
    let shown: Vec<Kept> = seen
        .into_iter()
        .rev()
        .map(|seen| Kept {
            id: seen.id.to_string(),
            parent: seen.parent.map(|parent| parent.to_string()),
            state: seen.state.unwrap_or_default(),
            value: value(seen.id.as_str()),
        })
        .collect();
    let wanted = model.0.get(thread).map_or(&[][..], |line| &line.kept);
    assert!(shown == wanted, "{what}: {thread:?} shows {shown:?} and not {wanted:?}");
}
