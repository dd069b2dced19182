//! Every system call that a script makes on its directory, failed or its last: by strace's inject.
//!
//! The calls are taken from a trace, so none is forgotten; each is told by its name and how many of that
//! name the worker has made by then. A run in which the call was not met does not count.

mod errors;
mod kills;
mod run;
mod traced;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::script::Script;
pub use run::{is_possible, under_strace};
use traced::Call;

/// Makes all trials, several at once: each answers whether its call was met, or what went wrong. Answers how many
/// of each kind met theirs.
fn try_all<T: Sync>(
    trials: &[T],
    kind: impl Fn(&T) -> String,
    trial: impl Fn(&T) -> Result<bool, String> + Sync,
) -> BTreeMap<String, usize> {
    let (next, met, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let work = || {
        while let Some(one) = trials.get(next.fetch_add(1, Ordering::Relaxed)) {
            match trial(one) {
                Ok(true) => met.lock().unwrap().push(one),
                Ok(false) => {}
                Err(what) => wrong.lock().unwrap().push(what),
            }
        }
    };
    std::thread::scope(|scope| (0..crate::workers()).for_each(|_| drop(scope.spawn(work))));
    let (met, wrong) = (met.into_inner().unwrap(), wrong.into_inner().unwrap());
    assert!(wrong.is_empty(), "{} of {} went wrong:\n{}", wrong.len(), trials.len(), wrong.join("\n"));
    assert!(met.len() * 4 >= trials.len() * 3, "only {} of {} met their call", met.len(), trials.len());
    let mut counts = BTreeMap::new();
    met.into_iter().for_each(|one| *counts.entry(kind(one)).or_default() += 1);
    counts
}

/// What went wrong, with all that is needed to do it again.
fn told(script: &Script, call: &Call, how: &str, what: &str) -> String {
    let Call { name, nth, line } = call;
    format!(
        "{what}\n  {how}, at {name} number {nth}: {line}\n  TAFFRAIL_OUTSIDE=all TAFFRAIL_OUTSIDE_SCRIPT={} cargo test --test outside calls",
        script.name
    )
}
