//! Newest first, by the order of commits and never by a clock; pages of a history.

use std::time::{Duration, SystemTime};

use super::probe::{all, good, id, limited, refused};
use super::{Make, Place, Setup};
use crate::batch::{Batch, PutOptions};
use crate::checkpoint::{Metadata, TypeTag};
use crate::error::ErrorKind;
use crate::query::HistoryQuery;

cases![
    newest_first,
    one_order_over_all_threads,
    clocks_label_and_never_order,
    a_time_out_of_range_is_refused,
    retention_goes_by_commit_and_not_by_clock,
    an_id_put_again_keeps_its_place,
    limits_mean_what_they_say,
    pages_before_and_after,
    a_page_needs_its_point,
    no_limit_has_no_hidden_cap,
    pages_do_not_shift_under_trimming,
];

/// The newest comes first, seqs rise, and each checkpoint follows the one before.
pub fn newest_first(make: Make<'_>) {
    let place = make(Setup::default());
    let ids: Vec<_> = (1..=5).map(|step| place.put_text("t", &step.to_string())).collect();
    assert_eq!(place.states("t"), ["5", "4", "3", "2", "1"]);
    let seen = place.audit("t");
    assert!(seen.iter().map(|checkpoint| &checkpoint.id).eq(ids.iter().rev()), "put answers the id it gave");
    assert_eq!(seen[4].parent, None, "the first has no parent");
    assert!(seen.windows(2).all(|pair| pair[0].parent.as_ref() == Some(&pair[1].id)), "each follows the one before: {seen:?}");
    assert!(seen[4].seq >= 1, "seqs start at 1");
}

/// Seqs rise over the whole store, not only within a thread.
pub fn one_order_over_all_threads(make: Make<'_>) {
    let place = make(Setup::default());
    let threads = ["a", "b", "c"];
    let mut last_seq = 0;
    for step in 0..12 {
        let thread = threads[step % 3];
        place.put_text(thread, &step.to_string());
        let seq = place.newest(thread).seq;
        assert!(seq > last_seq, "put {step} has seq {seq}, the one before had {last_seq}");
        last_seq = seq;
    }
    place.picture(&threads);
}

/// Times at an hour back, 1970 and 2100, in an order that no clock has; each comes back as it was.
fn odd_times() -> Vec<SystemTime> {
    let day = SystemTime::UNIX_EPOCH + Duration::new(1_800_000_000, 123_456_789);
    let in_2100 = SystemTime::UNIX_EPOCH + Duration::from_secs(4_102_444_800);
    let before_1970 = SystemTime::UNIX_EPOCH - Duration::from_secs(86_400);
    vec![day, day - Duration::from_secs(3600), SystemTime::UNIX_EPOCH, in_2100, before_1970, day, day, day - Duration::from_nanos(1)]
}

/// Puts a checkpoint at each of them; answers the states, newest first.
fn put_at_odd_times(place: &Place, thread: &str) -> Vec<String> {
    let times = odd_times();
    for (step, time) in times.iter().enumerate() {
        place.put_text_with(thread, &step.to_string(), PutOptions::default().saved_at(*time));
    }
    (0..times.len()).rev().map(|step| step.to_string()).collect()
}

/// A clock that steps back an hour, to 1970 or to 2100 shows in the label and not in the order.
pub fn clocks_label_and_never_order(make: Make<'_>) {
    let mut place = make(Setup::default());
    let wanted = put_at_odd_times(&place, "t");
    for reopened in [false, true] {
        let seen = place.audit("t");
        assert_eq!(place.states("t"), wanted, "reopened: {reopened}");
        assert!(seen.iter().rev().map(|checkpoint| checkpoint.saved_at).eq(odd_times()), "saved_at comes back as given: {seen:?}");
        place.reopen();
    }
    place.put_text_with("t", "\"last\"", PutOptions::default().saved_at(SystemTime::UNIX_EPOCH));
    assert_eq!(place.newest("t").text(), "\"last\"");
}

/// The years 1677 to 2262 can be labelled to the nanosecond; what is outside is `InvalidInput`.
pub fn a_time_out_of_range_is_refused(make: Make<'_>) {
    let mut place = make(Setup::default());
    let widest = Duration::from_nanos(i64::MAX.unsigned_abs());
    let edges = [SystemTime::UNIX_EPOCH - widest, SystemTime::UNIX_EPOCH + widest];
    edges.iter().for_each(|time| drop(place.put_text_with("t", "1", PutOptions::default().saved_at(*time))));
    for step in [Duration::from_nanos(2), Duration::from_secs(1 << 40)] {
        for time in [edges[0] - step, edges[1] + step] {
            let late = PutOptions::default().saved_at(time);
            refused(ErrorKind::InvalidInput, "a time out of range", place.put_bytes("t", TypeTag::JSON, b"2", late));
        }
    }
    place.reopen();
    assert!(place.audit("t").iter().rev().map(|checkpoint| checkpoint.saved_at).eq(edges));
}

/// What falls out is what was put first, whatever its time.
pub fn retention_goes_by_commit_and_not_by_clock(make: Make<'_>) {
    let mut place = make(Setup { max_history: Some(2) });
    let wanted = put_at_odd_times(&place, "t");
    assert_eq!(place.states("t"), wanted[..2]);
    place.reopen();
    assert_eq!(place.states("t"), wanted[..2]);
    place.audit("t");
}

/// An id that the thread has keeps seq, place and parent; metadata, tag, time and state are replaced.
pub fn an_id_put_again_keeps_its_place(make: Make<'_>) {
    let place = make(Setup { max_history: Some(3) });
    for (own, state) in [("a", "1"), ("b", "2"), ("c", "3")] {
        place.put_id("t", own, state);
    }
    for own in ["b", "c", "a"] {
        let before = place.audit("t");
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(9);
        let metadata = good("metadata", Metadata::from_json(format!("{{\"again\":\"{own}\"}}")));
        let options = PutOptions::default().id(id(own)).metadata(metadata.clone()).saved_at(time);
        let put = good("put again", place.put_bytes("t", TypeTag::BYTES, b"a longer state", options));
        assert_eq!(put, id(own));
        let mut wanted = before;
        for checkpoint in wanted.iter_mut().filter(|checkpoint| checkpoint.id == put) {
            (checkpoint.metadata, checkpoint.tag, checkpoint.saved_at) = (metadata.clone(), TypeTag::BYTES, time);
            (checkpoint.state, checkpoint.bytes) = (Some(b"a longer state".to_vec()), 14);
        }
        assert_eq!(place.audit("t"), wanted);
    }
    let ids: Vec<String> = place.seen("t").into_iter().map(|checkpoint| checkpoint.id.to_string()).collect();
    assert_eq!(ids, ["c", "b", "a"]);
    // The id counts within its thread.
    place.put_id("u", "a", "1");
    assert_eq!(place.states("u"), ["1"]);
    assert_eq!(place.states("t").len(), 3);
}

/// None gives all, 0 none, and a limit past the end what there is.
pub fn limits_mean_what_they_say(make: Make<'_>) {
    let place = make(Setup::default());
    let count = 7;
    (0..count).for_each(|step| drop(place.put_text("t", &step.to_string())));
    let whole = place.states("t");
    for limit in [0, 1, count - 1, count, count + 1, 1 << 63, usize::MAX] {
        let wanted = &whole[..limit.min(count)];
        assert_eq!(place.page("t", &limited(limit)), wanted, "history, limit {limit}");
        let listed = all("list", place.list("t", &limited(limit)));
        assert_eq!(listed.len(), wanted.len(), "list, limit {limit}");
        assert!(place.page("absent", &limited(limit)).is_empty(), "an absent thread has an empty history");
    }
    assert_eq!(place.page("t", &limited(None)), whole);
}

/// `before` gives what is older, `after` what is newer, both what is between; a limit takes the newest.
pub fn pages_before_and_after(make: Make<'_>) {
    let place = make(Setup::default());
    (1..=5).for_each(|step| drop(place.put_id("t", &format!("c{step}"), &step.to_string())));
    let page = |before: Option<u32>, after: Option<u32>, limit: Option<usize>| {
        let own = |step: u32| id(&format!("c{step}"));
        place.page("t", &HistoryQuery { before: before.map(own), after: after.map(own), limit }).concat()
    };
    assert_eq!(page(Some(4), None, None), "321");
    assert_eq!(page(Some(4), None, Some(2)), "32");
    assert_eq!(page(Some(1), None, None), "");
    assert_eq!(page(Some(5), None, Some(usize::MAX)), "4321");
    assert_eq!(page(None, Some(2), None), "543");
    assert_eq!(page(None, Some(2), Some(2)), "54");
    assert_eq!(page(None, Some(5), None), "");
    assert_eq!(page(None, Some(1), Some(0)), "");
    assert_eq!(page(Some(5), Some(1), None), "432");
    assert_eq!(page(Some(5), Some(1), Some(1)), "4");
    assert_eq!(page(Some(2), Some(4), None), "");
    assert_eq!(page(Some(3), Some(3), None), "");
}

/// A `before` or `after` that is not in the thread is `NotFound`, also in a thread that is not there.
pub fn a_page_needs_its_point(make: Make<'_>) {
    let place = make(Setup::default());
    place.put_id("t", "here", "1");
    place.put_id("u", "there", "1");
    place.put_id("t", "gone", "2");
    good("delete_checkpoint", place.delete_checkpoint("t", &id("gone")));
    for (thread, own) in [("t", "never"), ("t", "there"), ("t", "gone"), ("absent", "here")] {
        for limit in [None, Some(0), Some(1)] {
            let before = HistoryQuery { before: Some(id(own)), limit, ..HistoryQuery::default() };
            let after = HistoryQuery { after: Some(id(own)), limit, ..HistoryQuery::default() };
            for query in [before, after] {
                refused(ErrorKind::NotFound, "history", place.history_bytes(thread, &query));
                refused(ErrorKind::NotFound, "list", place.list(thread, &query));
            }
        }
    }
}

/// 12,000 checkpoints and no limit give 12,000.
pub fn no_limit_has_no_hidden_cap(make: Make<'_>) {
    let place = make(Setup::default());
    let mut batch = Batch::new();
    for _ in 0..12_000 {
        batch.put("t", TypeTag::JSON, b"1", PutOptions::default());
    }
    assert_eq!(good("commit", place.commit(&batch)).len(), 12_000);
    assert_eq!(place.page("t", &HistoryQuery::default()).len(), 12_000);
    assert_eq!(place.page("t", &limited(11_999)).len(), 11_999);
    let seqs: Vec<u64> = all("list", place.list("t", &limited(None))).iter().map(|info| info.seq).collect();
    assert!(seqs.windows(2).all(|pair| pair[0] > pair[1]), "seqs fall from newest to oldest");
}

/// Pages by `before` show nothing twice and pass over nothing that is still there; a point that was
/// trimmed meanwhile is `NotFound`.
pub fn pages_do_not_shift_under_trimming(make: Make<'_>) {
    let place = make(Setup { max_history: Some(10) });
    (0..10).for_each(|step| drop(place.put_id("t", &format!("c{step}"), &step.to_string())));
    assert_eq!(place.page("t", &limited(5)).concat(), "98765");
    let second = HistoryQuery { limit: Some(5), before: Some(id("c5")), after: None };
    (10..13).for_each(|step| drop(place.put_text("t", &step.to_string())));
    assert_eq!(place.page("t", &second).concat(), "43");
    (13..17).for_each(|step| drop(place.put_text("t", &step.to_string())));
    refused(ErrorKind::NotFound, "a page before a trimmed one", place.history_bytes("t", &second));
    assert_eq!(place.find_id("t", &id("c5")), None);
}
