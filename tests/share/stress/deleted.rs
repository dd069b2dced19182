//! What trims, limits and deletions of single checkpoints leave, held against the journals.

use std::collections::{BTreeMap, BTreeSet};

use super::check::{Found, Shown};
use super::journal::{self, Outcome};
use super::step::{Kind, NOT_VACUUMED, Step, VACUUMED_MAX, kept, tree};

/// What a thread keeps: its numbers, oldest first, and its limit.
type Kept = (Vec<u64>, usize);

fn newest((mut numbers, limit): Kept, keep: usize) -> Kept {
    numbers.drain(..numbers.len().saturating_sub(keep));
    (numbers, limit)
}

/// What a step may leave, if it happened.
fn after(before: &Kept, kind: Kind, number: u64, outcome: &Outcome) -> Vec<Kept> {
    let (mut numbers, limit) = before.clone();
    let told = if let Outcome::Done(words) = outcome { words.first().map(String::as_str) } else { None };
    match kind {
        Kind::Kept => {
            numbers.push(number);
            vec![newest((numbers, limit), limit)]
        }
        Kind::Retain(_) if numbers.is_empty() => Vec::from_iter((told != Some("true")).then(|| before.clone())),
        Kind::Retain(keep) if told != Some("false") => vec![newest((numbers, keep as usize), keep as usize)],
        Kind::Retain(_) => Vec::new(),
        Kind::Vacuum(_) if numbers.len() > VACUUMED_MAX => {
            Vec::from_iter(told.is_none_or(|told| told == NOT_VACUUMED).then(|| before.clone()))
        }
        Kind::Vacuum(keep) => {
            let going = numbers.len().saturating_sub(keep as usize);
            match told {
                Some(told) => Vec::from_iter((told == going.to_string()).then(|| newest((numbers, limit), keep as usize))),
                None => (0..1 << going).map(|left| (some_of(&numbers, going, left), limit)).collect(),
            }
        }
        _ => vec![before.clone()],
    }
}

/// Of the first so many numbers those whose bit is set, and all others.
fn some_of(numbers: &[u64], first: usize, left: u64) -> Vec<u64> {
    let stays = |at: &usize| *at >= first || left >> at & 1 == 1;
    (0..numbers.len()).filter(stays).map(|at| numbers[at]).collect()
}

impl Found<'_> {
    /// The thread of which only the newest are kept holds what its steps leave, where those in flight may have
    /// happened or not.
    pub fn kept_is_one_of(&self, writer: u64, steps: &BTreeMap<u64, Outcome>) {
        let Found { round, context, .. } = self;
        let mut possible = BTreeSet::from([(Vec::new(), usize::MAX)]);
        for (number, outcome) in steps {
            let kind = Step::of(round.seed, round.segment_bytes, writer, *number).kind;
            let mut next: BTreeSet<Kept> = possible.iter().flat_map(|before| after(before, kind, *number, outcome)).collect();
            assert!(!next.is_empty(), "{context}: writer {writer}: the answer to {number} cannot be: {outcome:?}");
            if *outcome == Outcome::Unknown {
                next.extend(possible);
            }
            possible = next;
        }
        let thread = kept(writer);
        let found: Vec<u64> = self.shown(&thread).iter().map(|one| one.number).collect();
        let is_possible = possible.iter().any(|(numbers, _)| *numbers == found);
        assert!(is_possible, "{context}: {thread} holds {found:?}, its steps leave one of {possible:?}");
    }

    /// Each checkpoint of that thread goes on from the put before it, whether that is there or gone: a vacuum that was
    /// killed has taken any of those that were to go.
    pub fn kept_names_what_was_put_before(&self, writer: u64, steps: &BTreeMap<u64, Outcome>) {
        let (context, thread) = (&self.context, kept(writer));
        let is_put = |number: u64| Step::of(self.round.seed, self.round.segment_bytes, writer, number).kind == Kind::Kept;
        // What may be the head: of the puts in flight that are not there nobody knows the id.
        let (mut head, mut or_another) = (None, false);
        let mut shown = self.shown(&thread).iter().peekable();
        for (number, outcome) in steps.iter().filter(|(number, _)| is_put(**number)) {
            let found = shown.next_if(|one| one.number == *number);
            if let Some(Shown { parent, .. }) = found {
                assert!(*parent == head || or_another, "{context}: {thread}: {number} has the parent {parent:?}, not {head:?}");
            }
            match (outcome, found) {
                (Outcome::Done(ids), _) => (head, or_another) = (Some(ids[0].clone()), false),
                (Outcome::Unknown, Some(one)) => (head, or_another) = (Some(one.id.clone()), false),
                (Outcome::Unknown, None) => or_another = true,
            }
        }
    }

    /// The tree holds every put that was acknowledged, behind the parent that it named, but for what was deleted.
    pub fn tree_is_what_was_done(&self, writer: u64, steps: &BTreeMap<u64, Outcome>) {
        let (context, thread) = (&self.context, tree(writer));
        let targets = journal::targets(&self.round.file(&format!("writer {writer}")));
        let shown: BTreeMap<u64, _> = self.shown(&thread).iter().map(|one| (one.number, one)).collect();
        let mut gone = BTreeSet::new();
        let mut perhaps_gone = BTreeSet::new();
        let mut put = BTreeMap::new();
        for (number, outcome) in steps {
            match (Step::of(self.round.seed, self.round.segment_bytes, writer, *number).kind, outcome) {
                (Kind::Branch, _) => drop(put.insert(*number, outcome)),
                (Kind::Prune, Outcome::Done(existed)) => {
                    assert_eq!(existed[0], targets.contains_key(number).to_string(), "{context}: {thread}: deletion {number}");
                    gone.extend(targets.get(number));
                }
                (Kind::Prune, Outcome::Unknown) => perhaps_gone.extend(targets.get(number)),
                _ => {}
            }
        }
        for (number, outcome) in &put {
            let found = shown.get(number);
            if let Some(one) = found {
                assert!(!gone.contains(&one.id), "{context}: {thread}: {number} was deleted and is there");
                assert_eq!(one.parent.as_ref(), targets.get(number), "{context}: {thread}: {number} has another parent");
            }
            if let Outcome::Done(ids) = outcome {
                let may_be_gone = gone.contains(&ids[0]) || perhaps_gone.contains(&ids[0]);
                assert!(may_be_gone || found.is_some_and(|one| one.id == ids[0]), "{context}: {thread}: {number} was acknowledged");
            }
        }
        assert!(shown.keys().all(|number| put.contains_key(number)), "{context}: {thread} has what was never put");
    }
}
