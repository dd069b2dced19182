//! How many checkpoints a thread keeps, and what is true of those that fell out.

use super::probe::{good, id, is_unsupported, limited, refused};
use super::{Make, Place, Setup};
use crate::batch::{Batch, Parent, PutOptions};
use crate::checkpoint::TypeTag;
use crate::error::ErrorKind;
use crate::query::HistoryQuery;

cases![
    the_newest_are_kept,
    each_thread_counts_for_itself,
    what_fell_out_is_gone,
    putting_again_takes_no_room,
    a_deleted_one_makes_room,
    a_batch_is_trimmed_like_puts,
    a_lower_number_trims_at_once,
    a_thread_can_have_its_own_number,
    a_bad_number_is_refused,
    the_number_can_be_asked_for,
];

fn put_steps(place: &Place, thread: &str, steps: std::ops::Range<u32>) {
    steps.for_each(|step| drop(place.put_id(thread, &format!("c{step}"), &step.to_string())));
}

fn newest_of(steps: std::ops::Range<u32>, keep: usize) -> Vec<String> {
    steps.rev().take(keep).map(|step| step.to_string()).collect()
}

/// With 1, 2 and 10 exactly so many newest are there after each put; with none, all.
pub fn the_newest_are_kept(make: Make<'_>) {
    for keep in [1, 2, 10] {
        let mut place = make(Setup { max_history: Some(keep) });
        for step in 0..25 {
            put_steps(&place, "t", step..step + 1);
            assert_eq!(place.states("t"), newest_of(0..step + 1, keep), "max_history {keep}");
        }
        place.audit("t");
        place.reopen();
        assert_eq!(place.states("t"), newest_of(0..25, keep), "max_history {keep}, reopened");
        put_steps(&place, "t", 25..26);
        assert_eq!(place.states("t"), newest_of(0..26, keep), "max_history {keep}, reopened");
    }
    let place = make(Setup { max_history: None });
    put_steps(&place, "t", 0..120);
    assert_eq!(place.states("t"), newest_of(0..120, 120));
}

/// Puts to one thread take nothing from another.
pub fn each_thread_counts_for_itself(make: Make<'_>) {
    let place = make(Setup { max_history: Some(2) });
    place.put_text("quiet", "\"kept\"");
    put_steps(&place, "loud", 0..9);
    assert_eq!(place.states("quiet"), ["\"kept\""]);
    assert_eq!(place.states("loud").concat(), "87");
}

/// A checkpoint that fell out is absent by id, deletes as absent, is no parent and no page's point;
/// its id put again is a new checkpoint at the end.
pub fn what_fell_out_is_gone(make: Make<'_>) {
    let place = make(Setup { max_history: Some(2) });
    put_steps(&place, "t", 0..3);
    let before = place.audit("t");
    assert_eq!(place.find_id("t", &id("c0")), None);
    assert_eq!(before[1].parent, Some(id("c0")), "a parent may name one that fell out");
    assert!(!good("delete_checkpoint", place.delete_checkpoint("t", &id("c0"))));
    let on_it = PutOptions::default().parent(Parent::Id(id("c0")));
    refused(ErrorKind::NotFound, "a parent that fell out", place.put_bytes("t", TypeTag::JSON, b"9", on_it));
    let page = HistoryQuery { before: Some(id("c0")), ..HistoryQuery::default() };
    refused(ErrorKind::NotFound, "a page before it", place.list("t", &page));
    assert_eq!(place.audit("t"), before);
    place.put_id("t", "c0", "7");
    assert_eq!(place.states("t").concat(), "72");
    let again = place.newest("t");
    assert!(again.seq > before[0].seq && again.parent == Some(id("c2")), "{again:?} is a new checkpoint");
}

/// Putting an id that is there pushes nothing out.
pub fn putting_again_takes_no_room(make: Make<'_>) {
    let place = make(Setup { max_history: Some(3) });
    put_steps(&place, "t", 0..3);
    (0..5).for_each(|_| put_steps(&place, "t", 0..3));
    assert_eq!(place.states("t").concat(), "210");
    place.audit("t");
}

/// Only what is there counts: a deletion makes room, and what fell out before stays out.
pub fn a_deleted_one_makes_room(make: Make<'_>) {
    let place = make(Setup { max_history: Some(3) });
    put_steps(&place, "t", 0..4);
    good("delete_checkpoint", place.delete_checkpoint("t", &id("c2")));
    assert_eq!(place.states("t").concat(), "31");
    put_steps(&place, "t", 4..5);
    assert_eq!(place.states("t").concat(), "431");
    put_steps(&place, "t", 5..6);
    assert_eq!(place.states("t").concat(), "543");
    place.audit("t");
}

/// Within a batch, too, no more than the newest are left.
pub fn a_batch_is_trimmed_like_puts(make: Make<'_>) {
    let mut place = make(Setup { max_history: Some(2) });
    put_steps(&place, "t", 0..2);
    let states: Vec<String> = (2..7).map(|step| step.to_string()).collect();
    let mut batch = Batch::new();
    for state in &states {
        batch.put("t", TypeTag::JSON, state.as_bytes(), PutOptions::default());
    }
    assert_eq!(good("commit", place.commit(&batch)).len(), 5);
    for _ in 0..2 {
        assert_eq!(place.states("t").concat(), "65");
        place.audit("t");
        place.reopen();
    }
}

/// `retain` for the store trims every thread at once; raising the number brings nothing back.
pub fn a_lower_number_trims_at_once(make: Make<'_>) {
    let mut place = make(Setup { max_history: Some(10) });
    put_steps(&place, "t", 0..12);
    put_steps(&place, "u", 0..2);
    let lowered = place.retain(None, Some(3));
    if is_unsupported(&lowered) {
        return;
    }
    good("retain", lowered);
    for _ in 0..2 {
        assert_eq!(place.states("t"), newest_of(0..12, 3));
        assert_eq!(place.states("u").concat(), "10");
        place.picture(&["t", "u"]);
        place.reopen();
    }
    good("retain", place.retain(None, None));
    assert_eq!(place.states("t"), newest_of(0..12, 3), "raising brings nothing back");
    put_steps(&place, "t", 12..32);
    assert_eq!(place.states("t"), newest_of(0..32, 23));
    place.reopen();
    put_steps(&place, "t", 32..33);
    assert_eq!(place.states("t").len(), 24);
}

/// `retain` for one thread holds for that thread, until the thread is deleted.
pub fn a_thread_can_have_its_own_number(make: Make<'_>) {
    let mut place = make(Setup { max_history: Some(3) });
    ["few", "all", "other"].iter().for_each(|thread| put_steps(&place, thread, 0..3));
    let own = place.retain(Some("few"), Some(1));
    if is_unsupported(&own) {
        return;
    }
    good("retain", own);
    good("retain", place.retain(Some("all"), None));
    assert_eq!(place.states("few").concat(), "2", "trimmed at once");
    for from in [3, 7] {
        ["few", "all", "other"].iter().for_each(|thread| put_steps(&place, thread, from..from + 4));
        let end = from + 4;
        assert_eq!(place.states("few"), newest_of(0..end, 1));
        assert_eq!(place.states("all"), newest_of(0..end, 99));
        assert_eq!(place.states("other"), newest_of(0..end, 3));
        place.picture(&["few", "all", "other"]);
        place.reopen();
    }
    good("retain", place.retain(None, Some(2)));
    assert_eq!(place.states("all").len(), 11, "the store's number does not touch a thread with its own");
    assert_eq!(place.states("other").len(), 2);
    good("delete", place.delete("all"));
    good("delete_checkpoint", place.delete_checkpoint("few", &id("c10")));
    place.reopen();
    ["few", "all"].iter().for_each(|thread| put_steps(&place, thread, 0..4));
    assert_eq!((place.states("few").concat(), place.states("all").concat()), ("32".to_owned(), "32".to_owned()));
}

/// 0 is `InvalidInput`, a thread that is not there `NotFound`; neither changes anything.
pub fn a_bad_number_is_refused(make: Make<'_>) {
    let place = make(Setup { max_history: Some(3) });
    put_steps(&place, "t", 0..3);
    if is_unsupported(&place.retain(None, Some(3))) {
        return;
    }
    refused(ErrorKind::InvalidInput, "retain 0", place.retain(None, Some(0)));
    refused(ErrorKind::InvalidInput, "retain 0", place.retain(Some("t"), Some(0)));
    refused(ErrorKind::NotFound, "retain of an absent thread", place.retain(Some("absent"), Some(1)));
    assert_eq!(place.page("t", &limited(None)).concat(), "210");
    assert!(!good("exists", place.exists("absent")));
}

/// Where it can be told how many are kept, it is what was set: for each thread, and for one with its own.
pub fn the_number_can_be_asked_for(make: Make<'_>) {
    let mut place = make(Setup { max_history: Some(7) });
    let asked = place.max_history(None);
    if is_unsupported(&asked) {
        return;
    }
    assert_eq!(good("max_history", asked), Some(7));
    refused(ErrorKind::InvalidInput, "no thread", place.max_history(Some("")));
    put_steps(&place, "t", 0..3);
    assert_eq!(good("max_history", place.max_history(Some("not there"))), Some(7));
    if is_unsupported(&place.retain(None, None)) {
        return;
    }
    good("retain", place.retain(Some("t"), Some(2)));
    place.reopen();
    let kept = [None, Some("t"), Some("u")].map(|thread| good("max_history", place.max_history(thread)));
    assert_eq!(kept, [None, Some(2), None]);
    good("retain", place.retain(Some("t"), None));
    good("retain", place.retain(None, Some(4)));
    assert_eq!([None, Some("t")].map(|thread| good("max_history", place.max_history(thread))), [Some(4), None]);
    good("delete", place.delete("t"));
    assert_eq!(good("max_history", place.max_history(Some("t"))), Some(4), "its own number ended with it");
}
