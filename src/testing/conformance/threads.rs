//! Listing threads: in byte order, by pattern, page by page, with what is known of each.

use std::time::{Duration, SystemTime};

use super::probe::{globbing, good, id, refused};
use super::{Make, Place, Setup};
use crate::batch::PutOptions;
use crate::error::ErrorKind;
use crate::query::{Matching, ThreadInfo, ThreadQuery};

cases![
    threads_come_in_byte_order,
    a_pattern_means_what_is_documented,
    every_name_can_be_asked_for_exactly,
    a_malformed_pattern_is_refused,
    a_hostile_pattern_ends,
    a_prefix_is_plain_text,
    pages_by_offset_and_limit,
    pages_by_cursor_do_not_shift,
    a_listing_knows_its_threads,
];

const NAMES: [&str; 11] = ["john_doe", "john-doe", "johnXdoe", "100%", "100x", "a\\_b", "a*b", "a?b", "[ab]", "a", "b"];

/// A place with a thread of each name, or None where threads cannot be listed.
fn with_threads<'a>(make: Make<'_>, names: impl IntoIterator<Item = &'a str>) -> Option<Place> {
    let place = make(Setup::default());
    if !place.capabilities().list_threads {
        return None;
    }
    names.into_iter().for_each(|name| drop(place.put_text(name, "1")));
    Some(place)
}

fn prefixed(prefix: &str) -> ThreadQuery {
    ThreadQuery { matching: Matching::Prefix(prefix.to_owned()), ..ThreadQuery::default() }
}

/// Byte order of the ids, whatever the order of the puts; no threads, no list.
pub fn threads_come_in_byte_order(make: Make<'_>) {
    let names = ["b", "a", "ab", "a\0", "é", "Z", "z", "\u{10ffff}", "\u{ffff}", "a b", "B"];
    let Some(mut place) = with_threads(make, []) else { return };
    assert!(place.thread_ids(&ThreadQuery::default()).is_empty());
    names.iter().for_each(|name| drop(place.put_text(name, "1")));
    let mut sorted = names;
    sorted.sort_unstable();
    for _ in 0..2 {
        assert_eq!(place.thread_ids(&ThreadQuery::default()), sorted);
        assert_eq!(good("threads", place.threads()), sorted);
        place.reopen();
    }
}

/// `*`, `?` and `\` have a meaning, all else is itself.
pub fn a_pattern_means_what_is_documented(make: Make<'_>) {
    let Some(place) = with_threads(make, NAMES) else { return };
    let found = |pattern: &str| place.thread_ids(&globbing(pattern)).join(" ");
    assert_eq!(place.thread_ids(&globbing("*")).len(), NAMES.len());
    assert_eq!(place.thread_ids(&globbing("**")).len(), NAMES.len());
    assert_eq!(found("?"), "a b");
    assert_eq!(found(""), "", "the empty pattern fits no thread");
    assert_eq!(found("john_doe"), "john_doe");
    assert_eq!(found("john?doe"), "john-doe johnXdoe john_doe");
    assert_eq!(found("100%"), "100%");
    assert_eq!(found("[ab]"), "[ab]");
    assert_eq!(found("["), "");
    assert_eq!(found("a?b"), "a*b a?b");
    assert_eq!(found("a*b"), "a*b a?b a\\_b");
    assert_eq!(found("*doe"), "john-doe johnXdoe john_doe");
    assert_eq!(found("\\a"), "a");
    assert_eq!(found("A"), "");
}

/// With each special character escaped, a pattern finds the one thread of that name.
pub fn every_name_can_be_asked_for_exactly(make: Make<'_>) {
    let names = super::ids::AWKWARD;
    let Some(place) = with_threads(make, names.iter().copied()) else { return };
    for name in names {
        let escaped: String = name.chars().flat_map(|each| ['\\', each]).collect();
        assert_eq!(place.thread_ids(&globbing(&escaped)), [*name], "{escaped:?}");
        let least: String = name.chars().flat_map(|each| "*?\\".contains(each).then_some('\\').into_iter().chain([each])).collect();
        assert_eq!(place.thread_ids(&globbing(&least)), [*name], "{least:?}");
    }
}

/// A pattern that ends in an open `\` is `InvalidInput`, never all or nothing.
pub fn a_malformed_pattern_is_refused(make: Make<'_>) {
    let Some(place) = with_threads(make, NAMES) else { return };
    for pattern in ["\\", "a\\", "*\\", "\\\\\\"] {
        refused(ErrorKind::InvalidInput, pattern, place.list_threads(&globbing(pattern)));
        refused(ErrorKind::InvalidInput, pattern, place.list_threads(&ThreadQuery { limit: Some(0), ..globbing(pattern) }));
    }
}

/// 5,000 times `*a` against a long name of `a`s: no blow-up.
pub fn a_hostile_pattern_ends(make: Make<'_>) {
    let name = "a".repeat(4000) + "b";
    let Some(place) = with_threads(make, [name.as_str()]) else { return };
    assert!(place.thread_ids(&globbing(&"*a".repeat(5000))).is_empty());
    assert!(place.thread_ids(&globbing(&"*a".repeat(4001))).is_empty());
    assert_eq!(place.thread_ids(&globbing(&("*a".repeat(4000) + "*"))), [name]);
}

/// A prefix has no special characters, and works with a cursor before, in and behind it.
pub fn a_prefix_is_plain_text(make: Make<'_>) {
    let names = ["a", "a*", "a*b", "a*c", "ab", "b", "*", "é", "é1"];
    let Some(place) = with_threads(make, names) else { return };
    let after =
        |prefix: &str, cursor: &str| place.thread_ids(&ThreadQuery { after: Some(cursor.to_owned()), ..prefixed(prefix) }).join(" ");
    assert_eq!(place.thread_ids(&prefixed("a*")), ["a*", "a*b", "a*c"]);
    assert_eq!(place.thread_ids(&prefixed("é")), ["é", "é1"]);
    assert_eq!(place.thread_ids(&prefixed("")).len(), names.len());
    assert!(place.thread_ids(&prefixed("absent")).is_empty());
    assert_eq!(after("a*", ""), "a* a*b a*c");
    assert_eq!(after("a*", "a"), "a* a*b a*c");
    assert_eq!(after("a*", "a*"), "a*b a*c");
    assert_eq!(after("a*", "a*bb"), "a*c");
    assert_eq!(after("a*", "a*c"), "");
    assert_eq!(after("a*", "b"), "");
    let page = ThreadQuery { offset: 1, limit: Some(1), ..prefixed("a*") };
    assert_eq!(place.thread_ids(&page), ["a*b"]);
}

/// Limit 0 gives none, None all; an offset past the end an empty page; both count what fits.
pub fn pages_by_offset_and_limit(make: Make<'_>) {
    let names: Vec<String> = (0..7).map(|at| format!("t{at}")).collect();
    let Some(place) = with_threads(make, names.iter().map(String::as_str).chain(["other", "z"])) else { return };
    for matching in [Matching::Glob("t*".into()), Matching::Glob("t?".into()), Matching::Prefix("t".into())] {
        for offset in [0, 1, 6, 7, 8, usize::MAX] {
            for limit in [None, Some(0), Some(1), Some(6), Some(7), Some(8), Some(1 << 63), Some(usize::MAX)] {
                let query = ThreadQuery { matching: matching.clone(), offset, limit, after: None };
                let wanted: Vec<&String> = names.iter().skip(offset).take(limit.unwrap_or(usize::MAX)).collect();
                assert_eq!(place.thread_ids(&query).iter().collect::<Vec<_>>(), wanted, "{query:?}");
                let query = ThreadQuery { after: Some("t1".into()), ..query };
                let wanted: Vec<&String> = names[2..].iter().skip(offset).take(limit.unwrap_or(usize::MAX)).collect();
                assert_eq!(place.thread_ids(&query).iter().collect::<Vec<_>>(), wanted, "{query:?}");
            }
        }
    }
    assert_eq!(place.thread_ids(&ThreadQuery { limit: Some(2), ..ThreadQuery::default() }), ["other", "t0"]);
    assert_eq!(place.thread_ids(&ThreadQuery { offset: 8, ..ThreadQuery::default() }), ["z"]);
}

/// 205 threads of one frozen moment, paged by 100 with changes between: each untouched thread shows
/// exactly once.
pub fn pages_by_cursor_do_not_shift(make: Make<'_>) {
    let names: Vec<String> = (0..205).map(|at| format!("t{at:03}")).collect();
    let Some(place) = with_threads(make, []) else { return };
    let frozen = PutOptions::default().saved_at(SystemTime::UNIX_EPOCH);
    names.iter().for_each(|name| drop(place.put_text_with(name, "1", frozen.clone())));
    let mut shown: Vec<String> = Vec::new();
    for round in 0.. {
        let query = ThreadQuery { after: shown.last().cloned(), limit: Some(100), ..ThreadQuery::default() };
        let page = place.thread_ids(&query);
        if page.is_empty() {
            break;
        }
        shown.extend(page);
        // Touch one that was shown and one that was not, make one, and delete the cursor itself.
        place.put_text("t000", "2");
        place.put_text("t204", "2");
        place.put_text(&format!("t0000 made {round}"), "2");
        good("delete", place.delete(shown.last().map_or("", String::as_str)));
    }
    assert_eq!(shown, names);
}

/// Head, count, size and time of each thread, as puts, replacements and deletes leave them.
pub fn a_listing_knows_its_threads(make: Make<'_>) {
    let Some(mut place) = with_threads(make, []) else { return };
    let at = |seconds: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    let put =
        |own: &str, state: &str, seconds: u64| place.put_text_with("t", state, PutOptions::default().id(id(own)).saved_at(at(seconds)));
    let info = |head: &str, checkpoints: u64, bytes: u64, seconds: u64| ThreadInfo {
        thread: "t".to_owned(),
        head: id(head),
        checkpoints,
        bytes,
        last_saved: at(seconds),
    };
    let listed = || place.thread_infos(&ThreadQuery::default());
    put("a", "1", 30);
    assert_eq!(listed(), [info("a", 1, 1, 30)]);
    put("b", "[22]", 20);
    assert_eq!(listed(), [info("b", 2, 5, 20)]);
    put("a", "[333,333]", 90);
    assert_eq!(listed(), [info("b", 2, 13, 20)]);
    put("c", "\"\"", 10);
    good("delete_checkpoint", place.delete_checkpoint("t", &id("a")));
    assert_eq!(listed(), [info("c", 2, 6, 10)]);
    place.reopen();
    assert_eq!(place.thread_infos(&ThreadQuery::default()), [info("c", 2, 6, 10)]);
    good("delete", place.delete("t"));
    assert!(place.thread_infos(&ThreadQuery::default()).is_empty());
}
