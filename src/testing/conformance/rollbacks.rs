//! Rollbacks: a checkpoint is the head again, and what came after it is gone.

use super::attachments::{attach, expect};
use super::branches::{expect_copy, having, put_grown, put_knotted, put_thousand};
use super::probe::{good, id, refused};
use super::{Make, Setup};
use crate::batch::{ExpectedHead, Parent, PutOptions};
use crate::checkpoint::{THREAD_BYTES_MAX, TypeTag};
use crate::error::ErrorKind;
use crate::query::HistoryQuery;

cases![
    the_point_is_the_head_again,
    the_next_put_follows_the_point,
    an_id_can_be_put_again,
    what_cannot_be_rolled_back_is_refused,
    what_is_attached_to_the_newer_goes,
    a_rollback_makes_room,
    forks_stay_as_they_were,
    a_long_way_back,
];

/// To each checkpoint in turn, newest first; it answers how many went, and what is kept is as it was.
pub fn the_point_is_the_head_again(make: Make<'_>) {
    let Some(mut place) = having(make, Setup::default()) else { return };
    put_knotted(&place, "t");
    put_grown(&place, "u", 0..3);
    let (mut wanted, other) = (place.audit("t"), place.audit("u"));
    for (to, gone) in [("e", 0), ("b", 2), ("b", 0), ("a", 1), ("a", 0)] {
        let open = good("history", place.history_bytes("t", &HistoryQuery::default()));
        assert_eq!(good("rollback", place.rollback("t", &id(to))), gone, "to {to}");
        let shown = open.map(|read| good("an item", read).info.id);
        assert!(shown.eq(wanted.iter().map(|seen| seen.id.clone())), "an iterator shows its moment");
        wanted.drain(..gone as usize);
        for _ in 0..2 {
            assert_eq!(place.audit("t"), wanted, "to {to}");
            assert_eq!(place.find_id("t", &id("c")).is_some(), wanted.len() > 2);
            place.reopen();
        }
    }
    assert_eq!(place.audit("u"), other);
}

/// By default it builds on the point, and may expect it; what was rolled back is no ground to build on.
pub fn the_next_put_follows_the_point(make: Make<'_>) {
    let Some(mut place) = having(make, Setup::default()) else { return };
    put_grown(&place, "t", 0..5);
    let last_seq = place.newest("t").seq;
    assert_eq!(good("rollback", place.rollback("t", &id("c2"))), 2);
    place.reopen();
    let on = |parent: &str| PutOptions::default().parent(Parent::Id(id(parent)));
    refused(ErrorKind::NotFound, "a parent that is gone", place.put_bytes("t", TypeTag::JSON, b"1", on("c3")));
    let before = HistoryQuery { before: Some(id("c4")), ..HistoryQuery::default() };
    refused(ErrorKind::NotFound, "a page before what is gone", place.list("t", &before));
    if place.capabilities().compare_and_put {
        let expecting = |head: &str| PutOptions::default().expected_head(ExpectedHead::Id(id(head)));
        refused(ErrorKind::Conflict, "the head that was", place.put_bytes("t", TypeTag::JSON, b"1", expecting("c4")));
        place.put_text_with("t", "1", expecting("c2"));
    } else {
        place.put_text("t", "1");
    }
    let newest = place.newest("t");
    assert_eq!(newest.parent, Some(id("c2")));
    assert!(newest.seq > last_seq, "a seq is not given twice");
    assert_eq!(place.audit("t").len(), 4);
}

/// As a new checkpoint, at the end, without what was attached to the one before.
pub fn an_id_can_be_put_again(make: Make<'_>) {
    let Some(mut place) = having(make, Setup::default()) else { return };
    for round in 0..3 {
        put_grown(&place, "t", 0..4);
        if place.capabilities().attachments {
            attach(&place, "t", "c3", "k", "1");
        }
        let last_seq = place.newest("t").seq;
        assert_eq!(good("rollback", place.rollback("t", &id("c1"))), 2);
        let state = format!("\"round {round}\"");
        place.put_id("t", "c3", &state);
        for _ in 0..2 {
            let seen = place.audit("t");
            assert_eq!(seen.iter().map(|seen| seen.id.as_str()).collect::<Vec<_>>(), ["c3", "c1", "c0"]);
            assert_eq!((seen[0].text(), &seen[0].parent), (state.clone(), &Some(id("c1"))));
            assert!(seen[0].seq > last_seq);
            place.reopen();
        }
        if place.capabilities().attachments {
            expect(&mut place, "t", &[("c3", "")]);
        }
        assert_eq!(good("rollback", place.rollback("t", &id("c1"))), 1);
    }
}

/// `NotFound` for a thread or a checkpoint that is not there; nothing is changed.
pub fn what_cannot_be_rolled_back_is_refused(make: Make<'_>) {
    let Some(mut place) = having(make, Setup { max_history: Some(3) }) else { return };
    put_grown(&place, "t", 0..5);
    place.put_id("u", "other", "1");
    good("delete_checkpoint", place.delete_checkpoint("t", &id("c3")));
    if place.capabilities().attachments {
        attach(&place, "t", "to come", "k", "1");
        attach(&place, "waiting", "c2", "k", "1");
    }
    let threads = ["t", "u", "waiting", "absent"];
    let before = place.picture(&threads);
    for (thread, to) in [("t", "never"), ("t", "c3"), ("t", "c0"), ("t", "other"), ("t", "to come"), ("absent", "c2"), ("waiting", "c2")] {
        let refusal = place.rollback(thread, &id(to));
        assert_eq!(refusal.as_ref().err().and_then(|error| error.thread()), Some(thread), "{refusal:?}");
        refused(ErrorKind::NotFound, "what is not there", refusal);
    }
    for thread in ["", &"x".repeat(THREAD_BYTES_MAX + 1)] {
        refused(ErrorKind::InvalidInput, "no name", place.rollback(thread, &id("c2")));
    }
    for _ in 0..2 {
        assert_eq!(place.picture(&threads), before);
        place.reopen();
    }
    if place.capabilities().attachments {
        expect(&mut place, "t", &[("to come", "k=1")]);
        expect(&mut place, "waiting", &[("c2", "k=1")]);
    }
}

/// It goes with its checkpoint; what the older have stays, and so does what waits.
pub fn what_is_attached_to_the_newer_goes(make: Make<'_>) {
    let Some(mut place) = having(make, Setup::default()) else { return };
    if !place.capabilities().attachments {
        return;
    }
    for own in ["a", "b", "c"] {
        place.put_id("t", own, "1");
        attach(&place, "t", own, "k", own);
    }
    attach(&place, "t", "coming", "k", "1");
    place.put_id("t", "d", "1");
    attach(&place, "t", "later", "k", "2");
    assert_eq!(good("rollback", place.rollback("t", &id("d"))), 0);
    assert_eq!(good("rollback", place.rollback("t", &id("b"))), 2);
    expect(&mut place, "t", &[("a", "k=a"), ("b", "k=b"), ("c", ""), ("d", ""), ("coming", "k=1"), ("later", "k=2")]);
    place.put_id("t", "c", "2");
    place.put_id("t", "coming", "2");
    expect(&mut place, "t", &[("c", ""), ("coming", "k=1"), ("later", "k=2")]);
    assert_eq!(good("rollback", place.rollback("t", &id("a"))), 3);
    expect(&mut place, "t", &[("a", "k=a"), ("b", ""), ("coming", ""), ("later", "k=2")]);
}

/// What went does not count, and what fell out before stays out.
pub fn a_rollback_makes_room(make: Make<'_>) {
    let Some(mut place) = having(make, Setup { max_history: Some(4) }) else { return };
    put_grown(&place, "t", 0..6);
    assert_eq!(good("rollback", place.rollback("t", &id("c3"))), 2);
    assert_eq!(place.audit("t").len(), 2);
    put_grown(&place, "t", 4..6);
    place.reopen();
    let ids: Vec<String> = place.audit("t").iter().map(|seen| seen.id.to_string()).collect();
    assert_eq!(ids, ["c5", "c4", "c3", "c2"]);
    put_grown(&place, "t", 6..7);
    assert_eq!(place.audit("t").len(), 4);
    assert_eq!(place.find_id("t", &id("c2")), None);
}

/// Neither what a fork has of what went is lost, nor does it come back.
pub fn forks_stay_as_they_were(make: Make<'_>) {
    let Some(mut place) = having(make, Setup::default()) else { return };
    put_grown(&place, "t", 0..6);
    let source = place.audit("t");
    good("fork", place.fork("t", None, "u"));
    assert_eq!(good("rollback", place.rollback("t", &id("c1"))), 4);
    good("fork", place.fork("t", None, "v"));
    refused(ErrorKind::NotFound, "what was rolled back", place.fork("t", Some(&id("c2")), "w"));
    assert_eq!(good("rollback", place.rollback("u", &id("c4"))), 1);
    for _ in 0..2 {
        expect_copy(&place.audit("u"), &source[1..]);
        expect_copy(&place.audit("v"), &source[4..]);
        assert_eq!(place.audit("t"), source[4..]);
        place.reopen();
    }
}

/// From a thousand to one, and on from there.
pub fn a_long_way_back(make: Make<'_>) {
    let Some(mut place) = having(make, Setup::default()) else { return };
    put_thousand(&place, "t");
    let source = place.seen("t");
    assert_eq!(good("rollback", place.rollback("t", &id("c700"))), 299);
    assert_eq!(place.seen("t"), source[299..]);
    assert_eq!(good("rollback", place.rollback("t", &id("c0"))), 700);
    place.reopen();
    assert_eq!(place.audit("t"), source[999..]);
    put_thousand(&place, "t");
    assert_eq!(place.seen("t").len(), 1000);
}
