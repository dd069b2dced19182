//! The places for checkpoints that need no log: one file each, none knowing another.

pub mod memory;
