//! A store tried from outside: the real calls to a real system, failed, ended and remembered by others.
//!
//! Plain `cargo test` makes an even sample of the runs; `TAFFRAIL_OUTSIDE=10` makes ten times as many, and
//! `TAFFRAIL_OUTSIDE=all` all of them. `TAFFRAIL_OUTSIDE_SCRIPT=mixed` keeps to one script. Nothing is left to chance but what
//! the system does: a run that went wrong is told by its script, its call or its image, and comes again.
#![cfg(all(target_os = "linux", feature = "cli"))]

mod calls;
mod disks;
mod images;
mod judge;
mod limits;
#[path = "../mounts/mod.rs"]
mod mounts;
mod role;
#[path = "../scratch/mod.rs"]
mod scratch;
mod script;

/// How many of `all` runs are made where plain `cargo test` makes `wanted`.
fn share(all: usize, wanted: usize) -> usize {
    let times = match std::env::var("TAFFRAIL_OUTSIDE").as_deref() {
        Ok("all") => all,
        Ok(times) => times.parse().expect("TAFFRAIL_OUTSIDE is a number or `all`"),
        Err(_) => 1,
    };
    (wanted * times).min(all)
}

/// An even sample of all runs, of the size that is asked for.
fn sampled<T>(all: Vec<T>, wanted: usize) -> Vec<T> {
    let (count, share) = (all.len(), share(all.len(), wanted));
    let is_taken = |number: &usize| (number + 1) * share / count > number * share / count;
    all.into_iter().enumerate().filter(|(number, _)| is_taken(number)).map(|(_, run)| run).collect()
}

/// How many runs are made at once.
fn workers() -> usize {
    std::thread::available_parallelism().map_or(2, |count| count.get().min(4))
}
