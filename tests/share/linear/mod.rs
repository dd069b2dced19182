//! Linearizability: what several processes did and were answered, with the instants of each call, is
//! explained by one order in which every operation takes effect between its call and its answer.

mod history;
mod run;
mod search;

pub use self::run::worker;
