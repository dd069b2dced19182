//! What the fuzz targets ask of any bytes, as plain functions: the properties stand here once.
//!
//! `fuzz/` calls each function under a fuzzer, `tests/corpus.rs` calls it with the inputs that are
//! committed. A function panics where its property does not hold and answers whether the input got
//! past the refusals, so that a corpus that tests nothing is noticed. Inputs to begin with
//! are made by `seeds` from real values.

mod decoders;
mod directory;
#[cfg(feature = "sqlite")]
mod imports;
mod operations;
mod scratch;
mod seeds;
mod texts;

pub use super::crash::crashes;
pub use decoders::{delta, frame, hint, manifest, names, record, segment};
pub use directory::directory;
#[cfg(feature = "sqlite")]
pub use imports::database;
pub use operations::operations;
pub use seeds::seeds;
pub use texts::{glob, json, metadata};

/// A property of any bytes; answers whether the input was accepted.
pub type Property = fn(&[u8]) -> bool;

/// Every target by the name of its folder and its fuzz target.
pub const TARGETS: &[(&str, Property)] = &[
    ("frame", frame),
    ("record", record),
    ("delta", delta),
    ("segment", segment),
    ("hint", hint),
    ("manifest", manifest),
    ("names", names),
    ("json", json),
    ("glob", glob),
    ("metadata", metadata),
    ("directory", directory),
    ("operations", operations),
    ("crashes", crashes),
    #[cfg(feature = "sqlite")]
    ("database", database),
];
