//! What may be there after a script was done as far as it told: every acknowledged step, whole; of the one in
//! flight, or answered `Poisoned`, all or nothing; of any other that was refused, nothing.

use std::path::Path;
use std::sync::Arc;

use taffrail::{Checkpointer, HistoryQuery, PutOptions, Store, TypeTag};

use crate::role::{self, Told};
use crate::script::{Script, Step, Threads};

/// All that the store may hold, each thread under `prefix`; the script was `ended`, or cut off in a step.
pub fn possible(script: &Script, prefix: &str, told: &[(usize, Told)], ended: bool) -> Vec<Threads> {
    all_possible(script, prefix, told, ended, false)
}

/// The same after a power cut, or on a file system that gave up: puts that only survive the process, and that no
/// acknowledged step after them made last, may be lost from any of them on.
pub fn after_power_cut(script: &Script, told: &[(usize, Told)], ended: bool) -> Vec<Threads> {
    all_possible(script, "", told, ended, true)
}

fn all_possible(script: &Script, prefix: &str, told: &[(usize, Told)], ended: bool, loses_buffered: bool) -> Vec<Threads> {
    let mut possible = vec![script.beginning(prefix)];
    // What is left if a put is lost that only survives the process, and all after it.
    let mut cut_short = Vec::new();
    // Whether a step of the handle was answered `Poisoned` already: then it writes nothing more.
    let mut is_poisoned = false;
    for (number, step) in script.all().skip(script.before.len()) {
        let how = told.iter().find(|(told, _)| *told == number).map(|(_, how)| how);
        is_poisoned &= step != Step::Open;
        let may_be_absent = match how {
            Some(Ok(())) => {
                assert!(!is_poisoned || !writes(step), "step {number} of {} was acknowledged by a poisoned handle", script.name);
                false
            }
            Some(Err(why)) if why.starts_with("Poisoned") && !is_poisoned => {
                is_poisoned = true;
                true
            }
            Some(Err(_)) => continue,
            None if ended => panic!("step {number} of {} was never answered", script.name),
            None => true,
        };
        match step {
            Step::Buffered { .. } if loses_buffered => cut_short.extend(possible.iter().cloned()),
            Step::Put { .. } | Step::Batch { .. } | Step::Delete(_) | Step::DeleteOne(..) if !may_be_absent => cut_short.clear(),
            _ => {}
        }
        let without = if may_be_absent { possible.clone() } else { Vec::new() };
        possible.iter_mut().for_each(|threads| step.apply(number, prefix, threads));
        possible.extend(without);
        if how.is_none() {
            break;
        }
    }
    possible.extend(cut_short);
    possible
}

fn writes(step: Step) -> bool {
    !matches!(step, Step::Open | Step::Repair)
}

/// What a store shows, of the threads whose names begin with `prefix`.
pub fn shown(store: &Store, prefix: &str) -> taffrail::Result<Threads> {
    let mut threads = Threads::new();
    for thread in store.threads()?.into_iter().filter(|thread| thread.starts_with(prefix)) {
        let mut states = Vec::new();
        for read in store.history_bytes(&thread, &HistoryQuery::default())? {
            let read = read?;
            states.push((read.info.id.to_string(), Arc::from(&*read.state)));
        }
        states.reverse();
        threads.insert(thread, states);
    }
    Ok(threads)
}

/// Says in a few words what threads hold, for who reads of a failure.
pub fn in_words(threads: &Threads) -> String {
    let words = threads
        .iter()
        .map(|(thread, states)| format!("{thread}: {}", states.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>().join(" ")));
    words.collect::<Vec<_>>().join("; ")
}

/// Opens a directory in which all is well again, and judges it: nothing is damaged, it shows one of
/// `possible`, a further put works and is there when it is opened again.
pub fn judge(dir: &Path, prefix: &str, possible: &[Threads]) -> Result<(), String> {
    let open = || Store::options().max_history(None).auto_compaction(false).open(dir).map_err(|error| format!("it does not open: {error}"));
    let store = open()?;
    if !store.recovery().damage.is_empty() {
        return Err(format!("damage: {:?}", store.recovery()));
    }
    is_one_of(&store, prefix, possible)?;
    let probe = store.put_bytes("probe", TypeTag::BYTES, b"probe", PutOptions::default()).map_err(|error| format!("a put: {error}"))?;
    drop(store);
    let store = open()?;
    match store.head("probe") {
        Ok(Some(head)) if head.id == probe => {}
        other => return Err(format!("what was put last is not there: {other:?}")),
    }
    is_one_of(&store, prefix, possible)?;
    match store.verify() {
        // What nothing proves is kept apart; that it lies there is told, and no loss.
        Ok(found) if found.iter().all(|finding| !finding.damage || finding.file.ends_with("quarantine")) => Ok(()),
        other => Err(format!("verify: {other:?}")),
    }
}

/// Judges the copies that a script's backups and repairs made: one that was acknowledged is whole; another is
/// whole or no store. A repair that told of a loss is all that could be read.
pub fn judge_copies(dir: &Path, script: &Script, prefix: &str, told: &[(usize, Told)]) -> Result<(), String> {
    for (number, step) in script.all().filter(|(_, step)| matches!(step, Step::Backup | Step::Repair)) {
        let copy = role::copy_of(dir, number);
        let is_acknowledged = told.contains(&(number, Ok(())));
        let has_told = told.iter().any(|(told, how)| *told == number && how.as_ref().is_err_and(|why| why.contains("and lost")));
        if !is_acknowledged && (has_told || !copy.join("MANIFEST").exists()) {
            continue;
        }
        let by_then: Vec<_> = told.iter().filter(|(told, _)| *told < number).cloned().collect();
        let until = Script { steps: &script.steps[..number - script.before.len()], ..*script };
        judge(&copy, prefix, &possible(&until, prefix, &by_then, true)).map_err(|what| format!("{step:?} {number}: {what}"))?;
    }
    Ok(())
}

fn is_one_of(store: &Store, prefix: &str, possible: &[Threads]) -> Result<(), String> {
    let shown = shown(store, prefix).map_err(|error| format!("a read: {error}"))?;
    let without_probe: Threads = shown.into_iter().filter(|(thread, _)| thread != "probe").collect();
    if possible.contains(&without_probe) {
        return Ok(());
    }
    let wanted: Vec<String> = possible.iter().map(in_words).collect();
    Err(format!("it shows [{}], not one of {wanted:?}: {:?}", in_words(&without_probe), store.recovery()))
}
