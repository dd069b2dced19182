//! The protocol on the shared page under every order of its processes' steps, and of their stores
//! as other processors may come to see them: `cargo run --release -p taffrail-models`.
//!
//! What is checked is the crate's own `src/log/tail.rs`, on loom's atomics. What calls it (a put, a
//! sync, a rotation, an opening) does work on files that no model can do, so each model repeats the
//! order of its caller's steps and names the place where that stands. A control is a model with one
//! step in the wrong place, or without an ordering: a checker that does not see it sees nothing. Loom
//! passes over some schedules, so what holds here is tested and not proven.
//!
//! An argument names one group of models. Bounded: three preemptions a schedule, or
//! `LOOM_MAX_PREEMPTIONS`.

#[allow(dead_code)]
#[path = "../../src/error.rs"]
mod error;
mod format;
mod fs;
#[allow(dead_code)]
mod log;
#[allow(dead_code)]
#[path = "../../src/plant.rs"]
mod plant;

mod disk;
mod run;
mod scene;

mod doubt;
mod group;
mod publish;
mod rotation;
mod takeover;
mod waking;

use run::Run;

/// A group of models.
type Models = fn(&mut Run);

fn main() -> std::process::ExitCode {
    let mut run = Run::default();
    let only = std::env::args().nth(1);
    let groups: [(&str, Models); 6] = [
        ("publish", publish::models),
        ("group", group::models),
        ("takeover", takeover::models),
        ("rotation", rotation::models),
        ("waking", waking::models),
        ("doubt", doubt::models),
    ];
    for (name, models) in groups {
        if only.as_deref().is_none_or(|only| only == name) {
            models(&mut run);
        }
    }
    run.close()
}
