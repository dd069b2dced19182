//! Bytes to put where it matters what a state has in common with the one before it.

/// Bytes that have nothing in common with those of another seed, and that no packing makes fewer. Of one
/// seed the shorter are the beginning of the longer: so a thread's states grow out of each other.
pub fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length + 8);
    let mut state = seed.wrapping_mul(0xd134_2543_de82_ef95);
    while bytes.len() < length {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bytes.extend_from_slice(&(mixed ^ (mixed >> 31)).to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}
