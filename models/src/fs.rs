//! In the place of the crate's `fs`: the page alone.

pub(crate) mod page;
