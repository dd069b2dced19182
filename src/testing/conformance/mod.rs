//! The conformance suite: what every place for checkpoints does, as cases to run on a backend.
//!
//! A backend's test says how to make an empty place, and [`run_all`] does the rest; each case is
//! also a function of its own. A case asserts and panics with what it saw. What a place does not
//! have by its own [`Capabilities`](crate::Capabilities) is asked only to answer `Unsupported`.
//! The suite knows no backend: files, damage and power loss are for the backend's own tests.
//!
//! ```
//! use taffrail::MemoryCheckpointer;
//! use taffrail::testing::conformance::{Place, Setup, run_all};
//! run_all(&|setup: Setup| Place::new(MemoryCheckpointer::with_max_history(setup.max_history).unwrap()));
//! ```

use std::any::Any;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::backend::memory::MemoryCheckpointer;
use crate::checkpointer::Checkpointer;

/// Names a topic's cases, in the order they run.
macro_rules! cases {
    ($($case:ident),* $(,)?) => {
        pub(super) const CASES: &[super::Case] =
            &[$(super::Case { name: concat!(module_path!(), "::", stringify!($case)), run: $case }),*];
    };
}

pub mod attachments;
pub mod batches;
pub mod branches;
pub mod branches_beside;
pub mod branches_by_chance;
pub mod capabilities;
pub mod deletes;
pub mod finding;
pub mod heads;
pub mod ids;
pub mod moments;
pub mod order;
mod probe;
pub mod renames;
pub mod reopening;
pub mod retention;
pub mod rollbacks;
pub mod threads;
pub mod updates;
pub mod vacuum;
pub mod values;

/// What a case needs of the place it is given.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Setup {
    /// How many checkpoints each thread keeps; None for all.
    pub max_history: Option<usize>,
}

/// Makes an empty place as a [`Setup`] asks; called at least once by each case.
pub type Make<'a> = &'a dyn Fn(Setup) -> Place;

/// A place under test, and where it outlives its handle, how it is opened again.
pub struct Place {
    // Before the hook, which may own the directory: fields are dropped in this order.
    checkpointer: Box<dyn Checkpointer>,
    reopen: Option<Reopen>,
}

type Reopen = Box<dyn Fn() -> Box<dyn Checkpointer> + Send + Sync>;

impl Place {
    /// A place that ends with its handle.
    pub fn new(checkpointer: impl Checkpointer + 'static) -> Self {
        Place { checkpointer: Box::new(checkpointer), reopen: None }
    }

    /// Says how to open the same place again, with no settings; its handle is dropped by then. What
    /// the closure owns (a temporary directory) lives as long as the place.
    pub fn reopened_by<C: Checkpointer + 'static>(mut self, open: impl Fn() -> C + Send + Sync + 'static) -> Self {
        self.reopen = Some(Box::new(move || Box::new(open())));
        self
    }

    /// Closes and opens again; does nothing and answers `false` where the place ends with its handle.
    pub fn reopen(&mut self) -> bool {
        let Some(open) = &self.reopen else { return false };
        // Something must stand there while the old handle is gone and the new one is not yet made.
        self.checkpointer = Box::new(MemoryCheckpointer::new());
        self.checkpointer = open();
        true
    }
}

impl Deref for Place {
    type Target = dyn Checkpointer;
    fn deref(&self) -> &Self::Target {
        &*self.checkpointer
    }
}

/// One thing that must hold of every place.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The path of its function.
    pub name: &'static str,
    /// The function; panics when it does not hold.
    pub run: fn(Make<'_>),
}

/// All cases, topic by topic.
pub fn cases() -> impl Iterator<Item = Case> {
    let topics = [
        order::CASES,
        ids::CASES,
        values::CASES,
        retention::CASES,
        heads::CASES,
        deletes::CASES,
        vacuum::CASES,
        batches::CASES,
        attachments::CASES,
        branches::CASES,
        renames::CASES,
        rollbacks::CASES,
        branches_beside::CASES,
        branches_by_chance::CASES,
        threads::CASES,
        finding::CASES,
        updates::CASES,
        moments::CASES,
        capabilities::CASES,
        reopening::CASES,
    ];
    topics.into_iter().flatten().copied()
}

/// Runs every case, each on places of its own; panics at the end with the names of those that failed.
pub fn run_all(make: Make<'_>) {
    let failed: Vec<String> = cases().filter_map(|case| Some(format!("{}: {}", case.name, failure(case, make)?))).collect();
    assert!(failed.is_empty(), "{} conformance cases failed:\n{}", failed.len(), failed.join("\n"));
}

fn failure(case: Case, make: Make<'_>) -> Option<String> {
    let panicked: Box<dyn Any + Send> = catch_unwind(AssertUnwindSafe(|| (case.run)(make))).err()?;
    let message = panicked.downcast_ref::<String>().cloned();
    Some(message.or_else(|| panicked.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_listed() {
        let sources = [
            include_str!("order.rs"),
            include_str!("ids.rs"),
            include_str!("values.rs"),
            include_str!("retention.rs"),
            include_str!("heads.rs"),
            include_str!("deletes.rs"),
            include_str!("vacuum.rs"),
            include_str!("batches.rs"),
            include_str!("attachments.rs"),
            include_str!("branches.rs"),
            include_str!("renames.rs"),
            include_str!("rollbacks.rs"),
            include_str!("branches_beside.rs"),
            include_str!("branches_by_chance.rs"),
            include_str!("threads.rs"),
            include_str!("finding.rs"),
            include_str!("updates.rs"),
            include_str!("moments.rs"),
            include_str!("capabilities.rs"),
            include_str!("reopening.rs"),
        ];
        let written: usize = sources.iter().map(|source| source.matches("\npub fn ").count()).sum();
        assert_eq!(cases().count(), written);
    }

    #[test]
    fn a_place_that_fails_is_named() {
        let make = |_: Setup| -> Place { panic!("no place today") };
        let failed = catch_unwind(AssertUnwindSafe(|| run_all(&make))).unwrap_err();
        let message = failed.downcast_ref::<String>().unwrap();
        assert!(message.contains("order::newest_first: no place today"), "{message}");
    }
}
