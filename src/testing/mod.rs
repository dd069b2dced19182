//! For the authors of other backends: what their tests can be made of.

pub mod conformance;
#[doc(hidden)]
pub mod crash;
#[doc(hidden)]
pub mod fuzzing;
#[doc(hidden)]
pub mod states;
