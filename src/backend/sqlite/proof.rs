//! What tells that a row is as it was written: SQLite's own pages have no checksums. Pure.
//!
//! Of a checkpoint the state has a hash of its own: what is known of it can be proved without the state, and
//! damage to that costs nothing else. A row of windlass' has no proof and is believed.

use crate::delta::content_hash;

/// All that is known of a checkpoint, as the tables have it.
pub(super) struct Known<'a> {
    pub row: i64,
    pub thread: &'a str,
    pub id: &'a str,
    pub parent: Option<&'a str>,
    pub nanos: i64,
    pub tag: &'a str,
    pub metadata: &'a str,
    /// Its state's.
    pub hash: i64,
}

impl Known<'_> {
    pub fn proof(&self) -> i64 {
        proof(&[
            &self.row.to_le_bytes(),
            self.thread.as_bytes(),
            self.id.as_bytes(),
            // No id is empty.
            self.parent.unwrap_or_default().as_bytes(),
            &self.nanos.to_le_bytes(),
            self.tag.as_bytes(),
            self.metadata.as_bytes(),
            &self.hash.to_le_bytes(),
        ])
    }
}

/// The proof of a value, of its key and of what it is attached to.
pub(super) fn of_attachment(thread: &str, id: &str, key: &str, tag: &str, value: &[u8]) -> i64 {
    proof(&[thread.as_bytes(), id.as_bytes(), key.as_bytes(), tag.as_bytes(), &hash(value).to_le_bytes()])
}

/// A state's hash, in the one kind of number that SQLite has.
pub(super) fn hash(bytes: &[u8]) -> i64 {
    content_hash(bytes).cast_signed()
}

/// Each part with its length before it, so that none can pass for a part of another.
fn proof(parts: &[&[u8]]) -> i64 {
    let mut all = Vec::with_capacity(parts.iter().map(|part| part.len() + 8).sum());
    for part in parts {
        all.extend((part.len() as u64).to_le_bytes());
        all.extend(*part);
    }
    hash(&all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_counts() {
        let known = || Known { row: 1, thread: "t", id: "a", parent: Some("p"), nanos: 2, tag: "json", metadata: "", hash: 4 };
        let others = [
            Known { row: 2, ..known() },
            Known { thread: "ta", id: "", ..known() },
            Known { id: "A", ..known() },
            Known { parent: None, ..known() },
            Known { nanos: -2, ..known() },
            Known { tag: "jso", metadata: "n", ..known() },
            Known { metadata: "{}", ..known() },
            Known { hash: -4, ..known() },
        ];
        assert!(others.iter().all(|other| other.proof() != known().proof()));
        let attached = of_attachment("t", "a", "k", "json", b"1");
        for (thread, id, key, tag, value) in [("ta", "", "k", "json", b"1"), ("t", "ak", "", "json", b"1"), ("t", "a", "k", "json", b"2")] {
            assert_ne!(of_attachment(thread, id, key, tag, value), attached);
        }
    }
}
