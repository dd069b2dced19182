//! For who runs agents on taffrail: which settings, how large, how safe, and what to do when it says no.
//!
//! Text alone, a page for each question; its examples are run as tests.

#[doc = include_str!("durability.md")]
pub mod durability {}

#[doc = include_str!("sharing.md")]
pub mod sharing {}

#[doc = include_str!("sizing.md")]
pub mod sizing {}

#[doc = include_str!("backups.md")]
pub mod backups {}

#[doc = include_str!("errors.md")]
pub mod errors {}

#[doc = include_str!("moving.md")]
pub mod moving {}

#[doc = include_str!("watching.md")]
pub mod watching {}
