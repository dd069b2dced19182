//! The places for checkpoints that need no log; none knows another, and what they have in common stands beside them.

pub mod file;
pub mod memory;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod threads;
