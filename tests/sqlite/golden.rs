//! A file that version 1 has made opens, for ever, and holds what it held. It is never made again.

use std::fs;
use std::time::{Duration, SystemTime};

use taffrail::prelude::*;
use taffrail::{HistoryQuery, TypeTag};

use crate::{Scratch, id, ids, put};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/sqlite-v1.db");

#[test]
fn a_file_of_version_1_holds_what_it_held_and_goes_on() {
    let scratch = Scratch::new();
    fs::write(scratch.file(), fs::read(GOLDEN).unwrap()).unwrap();
    for round in 0..2 {
        let place = scratch.open().unwrap();
        assert_eq!(place.threads().unwrap(), ["few", "trip", "w"]);
        let read: Vec<_> = place.history_bytes("trip", &HistoryQuery::default()).unwrap().map(Result::unwrap).collect();
        let shown: Vec<_> =
            read.iter().map(|one| (one.id.as_str(), one.seq, one.tag.as_str(), &*one.state, one.metadata.as_str())).collect();
        let wanted: [(&str, u64, &str, &[u8], &str); 3] = [
            ("s4", 4, "json", b" {\"n\": 18446744073709551616} ", "{}"),
            ("s3", 3, "own/tag", b"\0\xff", "{\"step\": 3}"),
            ("s2\0", 2, "bytes", b"", "{}"),
        ];
        assert_eq!(shown, wanted);
        assert_eq!(read.iter().map(|one| one.parent.clone()).collect::<Vec<_>>(), [Some(id("s3")), Some(id("s2\0")), Some(id("s1"))]);
        assert_eq!(read[0].saved_at, SystemTime::UNIX_EPOCH + Duration::new(1_800_000_000, 1));
        for (own, value) in [("s4", &b"1"[..]), ("to come", b"two")] {
            let attached = place.attachments("trip", &id(own)).unwrap();
            assert!(attached.len() == 1 && attached[0].key == "k\0" && *attached[0].value == *value, "{own}");
        }
        // Rows of windlass': the second came by a number that was an id already.
        let found = ids(&place, "w");
        assert!(found.len() == 3 && found[0] == "9" && found[1].starts_with("8-") && found[2] == "8", "{found:?}");
        assert_eq!(ids(&place, "few").len(), 1 + round);
        put(&place, "few", "one", b"1");
        put(&place, "few", "two", b"2");
        assert_eq!(ids(&place, "few"), ["two", "one"], "its own number");
        assert_eq!(place.head("few").unwrap().unwrap().tag, TypeTag::BYTES);
    }
    let place = scratch.open().unwrap();
    (0..9).for_each(|step| drop(place.put("new", &step).unwrap()));
    assert_eq!(ids(&place, "new").len(), 3, "the place's number");
    assert!(["few", "trip", "w", "new"].iter().all(|thread| place.delete(thread).unwrap()));
    let left: i64 = scratch.other().query_row("SELECT count(*) FROM taffrail_checkpoints", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 0);
}
