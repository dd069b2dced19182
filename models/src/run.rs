//! Runs models: each must hold under every schedule, each control must fail as it is meant to.

use std::panic;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use crate::fs::page::{Orderings, set_orderings};

/// What loom says of workers that all wait.
pub(crate) const NOBODY_WAKES: &str = "deadlock";

/// So many preemptions a schedule, where the environment does not say.
const PREEMPTIONS: usize = 3;

/// The models that were run, and how many were not as they should be.
#[derive(Default)]
pub(crate) struct Run {
    passed: usize,
    failed: usize,
}

impl Run {
    /// A model that holds.
    pub fn holds(&mut self, name: &str, model: impl Fn() + Send + Sync + 'static) {
        let (schedules, start) = (Arc::new(AtomicUsize::new(0)), Instant::now());
        let failure = explore(Orderings::Asked, schedules.clone(), model);
        let outcome = failure.as_deref().map_or("holds".to_owned(), |failure| format!("FAILED: {failure}"));
        self.tell(failure.is_none(), name, &outcome, schedules.load(Relaxed), start);
    }

    /// A control: a model that fails with words that contain `with`.
    pub fn fails(&mut self, with: &str, name: &str, model: impl Fn() + Send + Sync + 'static) {
        self.fails_under(Orderings::Asked, with, name, model);
    }

    /// A control under weaker orderings.
    pub fn fails_under(&mut self, orderings: Orderings, with: &str, name: &str, model: impl Fn() + Send + Sync + 'static) {
        let (schedules, start) = (Arc::new(AtomicUsize::new(0)), Instant::now());
        let failure = explore(orderings, schedules.clone(), model);
        let found = failure.as_deref().is_some_and(|failure| failure.contains(with));
        let outcome = match failure {
            Some(_) if found => "found".to_owned(),
            Some(other) => format!("FAILED in another way: {other}"),
            None => "NOT FOUND".to_owned(),
        };
        let name = match orderings {
            Orderings::Asked => format!("  control: {name}"),
            weak => format!("  control: {name} ({weak:?})"),
        };
        self.tell(found, &name, &outcome, schedules.load(Relaxed), start);
    }

    fn tell(&mut self, good: bool, name: &str, outcome: &str, schedules: usize, start: Instant) {
        if good {
            self.passed += 1
        } else {
            self.failed += 1
        }
        println!("{name}: {outcome} ({schedules} schedules, {:.1} s)", start.elapsed().as_secs_f64());
    }

    /// Says what came of it.
    pub fn close(self) -> ExitCode {
        println!("{} models and controls passed, {} failed", self.passed, self.failed);
        if self.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// Runs a model under every schedule; answers how the first failed that did.
fn explore(orderings: Orderings, schedules: Arc<AtomicUsize>, model: impl Fn() + Send + Sync + 'static) -> Option<String> {
    set_orderings(orderings);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(PREEMPTIONS);
    // What fails is told in one line, and in a control it is meant to.
    panic::set_hook(Box::new(|_| {}));
    let explored = std::thread::spawn(move || {
        builder.check(move || {
            schedules.fetch_add(1, Relaxed);
            model();
        });
    });
    let failure = explored.join().err();
    drop(panic::take_hook());
    failure.map(|payload| match payload.downcast::<String>() {
        Ok(message) => *message,
        Err(payload) => payload.downcast::<&str>().map_or("a panic".to_owned(), |message| (*message).to_owned()),
    })
}
