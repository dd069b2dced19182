//! Writers that end without warning: every acknowledged put is there once and in order, at most
//! those in flight are there beyond, nothing is half, and new ones work.

mod kills;
#[cfg(target_os = "linux")]
#[path = "../mounts/mod.rs"]
mod mounts;
#[cfg(target_os = "linux")]
mod power;
mod writer;
