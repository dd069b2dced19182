//! Runs: what their steps and approvals promise on every place, and with processes that are killed, or many,
//! at once.

mod child;
mod kills;
mod places;
#[path = "../scratch/mod.rs"]
mod scratch;
mod suite;
mod together;
mod waiting;

/// Runs when the program is started in a role, does nothing as a test.
#[test]
fn role() {
    child::play(&[("agent", kills::agent), ("approver", together::approver), ("resumer", together::resumer)]);
}
