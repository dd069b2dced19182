//! Thread ids and checkpoint ids: any text, compared byte for byte, never trimmed or normalised.

use std::collections::HashSet;

use super::probe::{globbing, good, id, is_unsupported, refused};
use super::{Make, Place, Setup};
use crate::batch::{Batch, OnExisting, PutOptions};
use crate::checkpoint::{CheckpointId, ID_BYTES_MAX, THREAD_BYTES_MAX, TypeTag};
use crate::error::{ErrorKind, Result};
use crate::query::{HistoryQuery, ThreadQuery};

cases![
    thread_ids_are_kept_apart,
    a_deleted_thread_takes_no_other_along,
    the_longest_thread_id_works,
    a_bad_thread_id_is_refused_by_every_call,
    checkpoint_ids_are_kept_apart,
    fresh_ids_are_unique,
    one_id_in_two_threads_is_two_checkpoints,
];

/// Names that separators, file systems, C strings and Unicode forms have mixed up elsewhere.
pub(super) const AWKWARD: &[&str] = &[
    "a:b",
    "a",
    "b:c",
    "a:",
    ":a",
    "::",
    "a|b",
    "a/b",
    "a\tb",
    "a\nb",
    "a=b",
    "a,b",
    "\"a\"",
    "a b",
    "b",
    "/",
    "//",
    "a//b",
    "a/",
    "..",
    ".",
    "../../outside",
    "/tmp/x",
    "C:\\x",
    "a\\..\\b",
    "~",
    "CON",
    "con",
    "nul.txt",
    "x.",
    "x ",
    "x",
    "-",
    "--help",
    "-rf",
    "é",
    "e\u{301}",
    "내",
    "\u{1102}\u{1162}",
    "order-42",
    "order-42\n",
    " order-42",
    "order-42\u{200b}",
    " ",
    "\t",
    "\r\n",
    "\u{feff}",
    "👩‍👩‍👧",
    "👩",
    "👩‍👩",
    "\u{200d}",
    "a\0b",
    "\0",
    "a\0",
    "\u{1}",
    "\u{1f}",
    "\u{7f}",
    "\u{2028}",
    "\u{10ffff}",
    "A",
    "ａ",
    "ß",
    "SS",
    "ss",
    "john_doe",
    "john-doe",
    "johnXdoe",
    "100%",
    "100x",
    "a\\_b",
    "a*b",
    "a?b",
    "[ab]",
    "*",
    "?",
    "[",
    "\\",
    "**",
    "1",
    "01",
    "1.0",
    "true",
    "None",
    "null",
    "{}",
    "';--",
    "$(x)",
    "%2e%2e",
    "\u{1b}[31m",
];

fn fill(place: &Place) {
    for pass in ["first", "second"] {
        for thread in AWKWARD {
            place.put_text(thread, &format!("{:?}", format!("{pass} of {}", thread.escape_unicode())));
        }
    }
}

fn check_thread_alone(place: &Place, thread: &str) {
    let wanted = ["second", "first"].map(|pass| format!("{:?}", format!("{pass} of {}", thread.escape_unicode())));
    assert_eq!(place.states(thread), wanted, "the history of {thread:?}");
    place.audit(thread);
}

/// Each awkward name is a thread of its own in every call, and comes back byte for byte.
pub fn thread_ids_are_kept_apart(make: Make<'_>) {
    let mut place = make(Setup::default());
    fill(&place);
    for reopened in [false, true] {
        AWKWARD.iter().for_each(|thread| check_thread_alone(&place, thread));
        if place.capabilities().list_threads {
            let mut sorted = AWKWARD.to_vec();
            sorted.sort_unstable();
            assert_eq!(place.thread_ids(&ThreadQuery::default()), sorted, "reopened: {reopened}");
            assert_eq!(good("threads", place.threads()), sorted);
        }
        place.reopen();
    }
}

/// Deleting threads, `a` first, leaves every other as it was.
pub fn a_deleted_thread_takes_no_other_along(make: Make<'_>) {
    let mut place = make(Setup::default());
    fill(&place);
    let (odd, even): (Vec<_>, Vec<_>) = AWKWARD.iter().enumerate().partition(|(at, _)| at % 2 == 1);
    for (_, thread) in &odd {
        assert!(good("delete", place.delete(thread)), "{thread:?} was there");
    }
    for reopened in [false, true] {
        for (_, thread) in &odd {
            assert!(place.audit(thread).is_empty(), "{thread:?} was deleted, reopened: {reopened}");
        }
        even.iter().for_each(|(_, thread)| check_thread_alone(&place, thread));
        place.reopen();
    }
}

/// 4,096 bytes are accepted, in any characters; names that differ in the last byte stay apart.
pub fn the_longest_thread_id_works(make: Make<'_>) {
    let place = make(Setup::default());
    let ascii = "x".repeat(THREAD_BYTES_MAX);
    let threads = [ascii.clone(), ascii[1..].to_owned() + "y", ascii[1..].to_owned(), "👩".repeat(THREAD_BYTES_MAX / 4)];
    for (at, thread) in threads.iter().enumerate() {
        place.put_text(thread, &at.to_string());
    }
    for (at, thread) in threads.iter().enumerate() {
        assert_eq!(place.states(thread), [at.to_string()]);
        place.audit(thread);
    }
}

/// An empty or too long thread id is `InvalidInput` in every call that takes one.
pub fn a_bad_thread_id_is_refused_by_every_call(make: Make<'_>) {
    let place = make(Setup::default());
    place.put_text("t", "1");
    let before = place.picture(&["t"]);
    for thread in [String::new(), "x".repeat(THREAD_BYTES_MAX + 1), "👩".repeat(THREAD_BYTES_MAX / 4) + "x"] {
        refuse_in_every_call(&place, &thread);
    }
    assert_eq!(place.picture(&["t"]), before);
    if place.capabilities().list_threads {
        assert_eq!(place.thread_ids(&ThreadQuery::default()), ["t"]);
    }
}

fn refuse_in_every_call(place: &Place, thread: &str) {
    let own = id("c");
    let invalid = ErrorKind::InvalidInput;
    refused(invalid, "put", place.put_bytes(thread, TypeTag::JSON, b"1", PutOptions::default()));
    refused(invalid, "get", place.get_bytes(thread));
    refused(invalid, "load", place.load_bytes(thread, &own));
    refused(invalid, "history", place.history_bytes(thread, &HistoryQuery::default()));
    refused(invalid, "list", place.list(thread, &HistoryQuery::default()));
    refused(invalid, "delete", place.delete(thread));
    refused(invalid, "delete_checkpoint", place.delete_checkpoint(thread, &own));
    refused(invalid, "exists", place.exists(thread));
    refused(invalid, "head", place.head(thread));
    let mut batch = Batch::new();
    batch.put("good", TypeTag::JSON, b"1", PutOptions::default()).delete(thread, None);
    refused(invalid, "commit", place.commit(&batch));
    assert!(!good("exists", place.exists("good")), "a refused batch leaves nothing");
    refused_if_had("attach", place.attach(thread, &own, "k", TypeTag::BYTES, b"v", OnExisting::Keep));
    refused_if_had("attachments", place.attachments(thread, &own));
    refused_if_had("retain", place.retain(Some(thread), Some(1)));
    refused_if_had("fork", place.fork(thread, None, "new"));
    refused_if_had("fork to it", place.fork("t", None, thread));
    refused_if_had("rename", place.rename(thread, "new"));
    refused_if_had("rename to it", place.rename("t", thread));
    refused_if_had("rollback", place.rollback(thread, &own));
}

/// As [`refused`] with `InvalidInput`, for calls that a place may not have at all.
#[track_caller]
fn refused_if_had<T>(what: &str, result: Result<T>) {
    if !is_unsupported(&result) {
        refused(ErrorKind::InvalidInput, what, result);
    }
}

/// Awkward checkpoint ids are as many checkpoints of one thread, each found by its own id.
pub fn checkpoint_ids_are_kept_apart(make: Make<'_>) {
    let mut place = make(Setup::default());
    let fresh = CheckpointId::fresh();
    let others = [
        fresh.as_str().to_uppercase(),
        fresh.as_str().replace('-', ""),
        "x".repeat(ID_BYTES_MAX),
        "x".repeat(ID_BYTES_MAX - 1) + "y",
        "y".repeat(36),
        "y".repeat(37),
    ];
    let ids: Vec<CheckpointId> = AWKWARD.iter().copied().chain(others.iter().map(String::as_str)).map(id).chain([fresh]).collect();
    for (at, own) in ids.iter().enumerate() {
        assert_eq!(place.put_text_with("t", &at.to_string(), PutOptions::default().id(own.clone())), *own);
    }
    place.reopen();
    let seen = place.audit("t");
    assert!(seen.iter().rev().map(|checkpoint| &checkpoint.id).eq(&ids), "ids come back byte for byte, in order");
    for (at, own) in ids.iter().enumerate() {
        assert_eq!(place.find_id("t", own).map(|found| found.text()), Some(at.to_string()), "load {own:?}");
    }
    assert_eq!(place.find_id("t", &id("absent")), None);
    assert_eq!(place.find_id("absent", &ids[0]), None);
}

/// Ids that the store makes are never the same, over threads and workers.
pub fn fresh_ids_are_unique(make: Make<'_>) {
    let place = make(Setup::default());
    let place = &*place;
    let ids: Vec<CheckpointId> = std::thread::scope(|scope| {
        let put = |worker: usize| {
            let thread = format!("t{}", worker % 2);
            (0..50).map(|_| good("put", place.put_bytes(&thread, TypeTag::JSON, b"1", PutOptions::default()))).collect::<Vec<_>>()
        };
        let workers: Vec<_> = (0..4).map(|worker| scope.spawn(move || put(worker))).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("no worker panics")).collect()
    });
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 200);
}

/// An id means one checkpoint per thread; `locate` names every thread that has it.
pub fn one_id_in_two_threads_is_two_checkpoints(make: Make<'_>) {
    let place = make(Setup::default());
    place.put_id("t", "c", "1");
    place.put_id("u", "c", "2");
    place.put_id("v", "d", "3");
    assert_eq!((place.newest("t").text(), place.newest("u").text()), ("1".to_owned(), "2".to_owned()));
    assert_ne!(place.newest("t").seq, place.newest("u").seq);
    if place.capabilities().list_threads {
        assert_eq!(good("locate", place.locate(&id("c"))), ["t", "u"]);
        assert!(good("delete_checkpoint", place.delete_checkpoint("t", &id("c"))));
        assert_eq!(good("locate", place.locate(&id("c"))), ["u"]);
        assert!(good("locate", place.locate(&id("absent"))).is_empty());
        assert_eq!(place.thread_ids(&globbing("?")), ["u", "v"]);
    }
}
