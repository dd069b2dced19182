//! Damaged files: every place where bytes can be wrong, missing or too many, and what is answered.
//!
//! One test program, so that one counting allocator watches over all of it: no length that a file
//! claims ever makes the store allocate more than a small multiple of what is there.

mod allocations;
mod beside;
mod chains;
mod changes;
mod flips;
mod lengths;
mod matrix;
mod misplaced;
mod oracle;
mod repair;
mod rounds;
mod sample;
#[path = "../scratch/mod.rs"]
mod scratch;
mod truncation;

#[global_allocator]
static ALLOCATOR: allocations::Counting = allocations::Counting;
