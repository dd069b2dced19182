//! What opening, writing and refusing promise, seen from outside: places, rights, settings, limits.

mod few_files;
mod forked;
mod full_disk;
#[path = "../mounts/mod.rs"]
mod mounts;
mod numbers;
mod opening;
mod read_only;
#[path = "../scratch/mod.rs"]
mod scratch;
mod settings;
mod taken_away;
mod together;
