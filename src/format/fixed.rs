//! Fixed-width parts by bincode: the only file that knows it.
//!
//! The encoding is plain: each integer little-endian in its own width, a sequence as its count in
//! eight bytes and then its elements, nothing between. DESIGN.md says so, so that the files outlive
//! the crate and replacing it is a change of this file alone.

use bincode::config::{Configuration, Fixint, Limit, LittleEndian};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Flaw;

/// No fixed part, a manifest's body included, is larger; decoding allocates no more.
const BYTES_MAX: usize = 64 * 1024 * 1024;

fn config() -> Configuration<LittleEndian, Fixint, Limit<BYTES_MAX>> {
    bincode::config::standard().with_fixed_int_encoding().with_limit::<BYTES_MAX>()
}

/// Appends `part` to `bytes`.
pub(super) fn append<T: Serialize>(part: &T, bytes: &mut Vec<u8>) {
    let encoded = bincode::serde::encode_into_std_write(part, bytes, config());
    debug_assert!(encoded.is_ok(), "fixed parts hold integers and sequences only");
}

/// Reads a `T` from the start of `bytes`; answers it and how many bytes it took.
pub(super) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<(T, usize), Flaw> {
    bincode::serde::decode_from_slice(bytes, config()).map_err(|_| Flaw::Corrupt("fixed part"))
}
