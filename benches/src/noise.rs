//! States to put: text that does not compress and of which no two in a row resemble each other.

/// A ring of text that states are cut from; the same in every run.
pub struct Noise {
    text: Vec<u8>,
    at: usize,
}

const RING_BYTES: usize = 16 << 20;
const LETTERS: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";

impl Noise {
    /// Noise that begins at another place for each worker.
    pub fn new(worker: usize) -> Self {
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(worker as u64 + 1) | 1;
        let text = (0..RING_BYTES)
            .map(|_| {
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                LETTERS[(seed >> 58) as usize]
            })
            .collect();
        Noise { text, at: 0 }
    }

    /// The next state of that many bytes, at most 16 MiB.
    pub fn next(&mut self, bytes: usize) -> &[u8] {
        if self.at + bytes > RING_BYTES {
            self.at = 0;
        }
        self.at += bytes;
        &self.text[self.at - bytes..self.at]
    }
}
