//! Writers that end without warning: every acknowledged put is there once and in order, at most
//! those in flight are there beyond, nothing is half, and new ones work.

mod kills;
#[path = "../mounts/mod.rs"]
mod mounts;
mod power;
mod writer;
