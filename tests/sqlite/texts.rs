//! What SQLite would confuse: NUL in texts, case, texts that look like numbers, bytes that are no text.

use taffrail::prelude::*;
use taffrail::{HistoryQuery, Matching, OnExisting, PutOptions, ThreadQuery, TypeTag};

use crate::{Scratch, id, ids, put};

/// Names that an affinity, a collation, a C string or a pattern would take for one another.
const ALIKE: [&str; 22] = [
    "1", "01", "1.0", "1e0", " 1", "+1", "1\0", "a", "A", "a\0", "a\0b", "a\0B", "\0", "\0\0", "é", "e\u{301}", "É", "%", "_", "null",
    "x'31'", "';--",
];

#[test]
fn names_that_look_alike_are_kept_apart() {
    let scratch = Scratch::new();
    for _ in 0..2 {
        let place = scratch.open().unwrap();
        for thread in ALIKE {
            for own in ALIKE {
                put(&place, thread, own, format!("{thread}/{own}").as_bytes());
            }
            place.attach(thread, &id(thread), thread, TypeTag::BYTES, thread.as_bytes(), OnExisting::Replace).unwrap();
        }
    }
    let place = scratch.open().unwrap();
    let mut sorted = ALIKE.to_vec();
    sorted.sort_unstable();
    assert_eq!(place.threads().unwrap(), sorted);
    for thread in ALIKE {
        assert!(ids(&place, thread).iter().rev().eq(ALIKE.iter()), "{thread:?}");
        for own in ALIKE {
            let read = place.load_bytes(thread, &id(own)).unwrap().unwrap();
            assert_eq!(&*read.state, format!("{thread}/{own}").as_bytes());
            assert_eq!(place.locate(&id(own)).unwrap(), sorted);
        }
        let attached = place.attachments(thread, &id(thread)).unwrap();
        assert!(attached.len() == 1 && attached[0].key == thread && *attached[0].value == *thread.as_bytes());
        let prefix = ThreadQuery { matching: Matching::Prefix(thread.to_owned()), ..ThreadQuery::default() };
        let wanted: Vec<&str> = sorted.iter().copied().filter(|other| other.starts_with(thread)).collect();
        let found: Vec<String> = place.list_threads(&prefix).unwrap().map(|info| info.unwrap().thread).collect();
        assert_eq!(found, wanted, "{thread:?}");
    }
    for (at, thread) in ALIKE.iter().enumerate() {
        assert!(place.delete_checkpoint(thread, &id(thread)).unwrap());
        assert_eq!(ids(&place, thread).len(), ALIKE.len() - 1);
        assert!(place.delete(thread).unwrap());
        assert_eq!(place.threads().unwrap().len(), ALIKE.len() - at - 1);
    }
}

#[test]
fn any_bytes_come_back() {
    let scratch = Scratch::new();
    let every: Vec<u8> = (0..=255).collect();
    let large: Vec<u8> = (0..1_u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let states: [&[u8]; 7] = [b"", b"\0", b"\xff\xfe", b"{\xed\xa0\x80}", b"123", &every, &large];
    let place = scratch.open().unwrap();
    for state in states {
        put(&place, "t", &format!("{} bytes", state.len()), state);
        place.attach("t", &id("to come"), &state.len().to_string(), TypeTag::BYTES, state, OnExisting::Replace).unwrap();
    }
    let text = format!("\"{}\"", "é\\u0000".repeat(1 << 17));
    place.put_bytes("json", TypeTag::JSON, text.as_bytes(), PutOptions::default()).unwrap();
    drop(place);
    let place = scratch.open().unwrap();
    for state in states.iter().filter(|state| ![1, 5].contains(&state.len())) {
        assert!(*place.load_bytes("t", &id(&format!("{} bytes", state.len()))).unwrap().unwrap().state == **state);
        let attached = place.attachments("t", &id("to come")).unwrap();
        assert!(attached.iter().any(|one| one.key == state.len().to_string() && *one.value == **state));
    }
    assert!(*place.get_bytes("json").unwrap().unwrap().state == *text.as_bytes());
    assert_eq!(place.head("json").unwrap().unwrap().bytes, text.len() as u64);
}

/// A history that is more than is kept in memory is the same, whatever becomes of its thread meanwhile.
#[test]
fn a_long_history_shows_its_moment() {
    let scratch = Scratch::new();
    let place = scratch.open().unwrap();
    let state = |step: u8| vec![step; 1 << 20];
    for step in 0..20 {
        put(&place, "t", &format!("s{step}"), &state(step));
    }
    let history = place.history_bytes("t", &HistoryQuery::default()).unwrap();
    put(&place, "t", "s3", b"other");
    assert!(place.delete("t").unwrap());
    put(&place, "t", "s7", b"new");
    let mut wanted = (0..20).rev();
    for read in history {
        let (read, step) = (read.unwrap(), wanted.next().unwrap());
        assert!(read.id == id(&format!("s{step}")) && *read.state == *state(step), "step {step}");
    }
    assert_eq!(wanted.next(), None);
    assert_eq!(ids(&place, "t"), ["s7"]);
}
