//! The calls that the program really made, made into what a power cut could have left of them.
//!
//! Nothing here shares a line with the layer that records inside the library: the trace is strace's, and
//! what a disk keeps is decided by `disk`. What is stored into the shared page, which is mapped, is in no
//! trace; it has the bytes that were written to its file, and names that file as its own.

mod disk;
mod lines;
mod sources;
mod trials;
mod variants;
