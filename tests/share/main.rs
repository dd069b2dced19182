//! Several processes on one store at once: stress with kills and stops, openers at one instant,
//! linearizability, claims, waiting, watching, other names of a directory, and other pid namespaces.
//!
//! `TAFFRAIL_STRESS_ROUNDS` and `TAFFRAIL_STRESS_SEED` say how many rounds and from which seed on;
//! `TAFFRAIL_STRESS_REOPEN` makes all handles short-lived ones. `stress/round.rs` has more of these.

mod aliases;
mod branches;
mod chance;
mod child;
mod claims;
mod crowd;
mod handle;
mod linear;
#[path = "../mounts/mod.rs"]
mod mounts;
mod open_race;
mod pid_namespaces;
mod posix;
#[path = "../scratch/mod.rs"]
mod scratch;
mod stopped;
mod stress;
mod tidy;
mod watch;

/// Runs when the program is started in a role, does nothing as a test.
#[test]
fn role() {
    child::play(&[
        ("writer", stress::writer),
        ("reader", stress::reader),
        ("compactor", stress::compactor),
        ("opener", open_race::opener),
        ("linear", linear::worker),
        ("claimer", claims::claimer),
        ("brancher", branches::brancher),
        ("crowd writer", crowd::writer),
        ("crowd reader", crowd::reader),
        ("idler", stopped::idler),
        ("watched writer", watch::writer),
        ("putter", watch::putter),
        ("watching idler", watch::idler),
        ("ticker", watch::ticker),
        ("aliases", aliases::aliases),
        ("other", aliases::other),
        ("namespaced", pid_namespaces::namespaced),
    ]);
}
