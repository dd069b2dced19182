//! What is deleted is gone, once, and takes nothing else along.

use super::probe::{good, id};
use super::{Make, Setup};
use crate::query::{HistoryQuery, ThreadQuery};

cases![
    a_thread_is_deleted_once,
    a_thread_made_again_has_only_its_new_history,
    seqs_are_never_given_twice,
    any_checkpoint_can_be_deleted,
    the_last_checkpoint_ends_its_thread,
];

/// `true`, then `false`; other threads stay; what is absent is no error.
pub fn a_thread_is_deleted_once(make: Make<'_>) {
    let mut place = make(Setup::default());
    let gone = place.put_text("t", "1");
    place.put_text("t", "2");
    place.put_text("u", "3");
    let other = place.picture(&["u"]);
    assert!(!good("delete", place.delete("absent")), "what is absent was not there");
    assert!(good("delete", place.delete("t")), "it was there");
    assert!(!good("delete", place.delete("t")), "it was gone already");
    for _ in 0..2 {
        assert!(place.audit("t").is_empty());
        assert_eq!(place.find_id("t", &gone), None);
        assert_eq!(place.picture(&["u"]), other);
        if place.capabilities().list_threads {
            assert_eq!(good("threads", place.threads()), ["u"]);
        }
        place.reopen();
    }
    assert!(!good("delete", place.delete("t")), "and stays so");
}

/// Put, delete and put again, also with the same ids: nothing of before shows.
pub fn a_thread_made_again_has_only_its_new_history(make: Make<'_>) {
    let mut place = make(Setup::default());
    for round in 0..4 {
        place.put_id("t", "a", &format!("[{round},1]"));
        place.put_id("t", &format!("only {round}"), &format!("[{round},2]"));
        let wanted = [format!("[{round},2]"), format!("[{round},1]")];
        assert_eq!(place.audit("t").iter().map(|checkpoint| checkpoint.text()).collect::<Vec<_>>(), wanted);
        place.reopen();
        assert_eq!(place.states("t"), wanted);
        assert_eq!(place.seen("t")[1].parent, None, "the first of a new history has no parent");
        if round > 0 {
            assert_eq!(place.find_id("t", &id(&format!("only {}", round - 1))), None);
        }
        assert!(good("delete", place.delete("t")));
        if round % 2 == 0 {
            place.reopen();
        }
    }
    assert!(place.audit("t").is_empty());
}

/// A seq is not given again after deletes, not even when nothing is left.
pub fn seqs_are_never_given_twice(make: Make<'_>) {
    let mut place = make(Setup::default());
    let mut last_seq = 0;
    for round in 0..6 {
        (0..3).for_each(|step| drop(place.put_text("t", &step.to_string())));
        let seqs: Vec<u64> = place.seen("t").iter().rev().map(|checkpoint| checkpoint.seq).collect();
        assert!(seqs[0] > last_seq, "round {round}: {seqs:?} after {last_seq}");
        last_seq = seqs[2];
        if round % 2 == 0 {
            good("delete", place.delete("t"));
        } else {
            for checkpoint in place.seen("t") {
                good("delete_checkpoint", place.delete_checkpoint("t", &checkpoint.id));
            }
        }
        place.reopen();
    }
}

/// The oldest, one between, and the newest, which lays the one before bare; parents stay as written.
pub fn any_checkpoint_can_be_deleted(make: Make<'_>) {
    let mut place = make(Setup::default());
    for (step, own) in ["a", "b", "c", "d", "e"].into_iter().enumerate() {
        place.put_id("t", own, &step.to_string());
    }
    let mut wanted = place.audit("t");
    for own in ["c", "a", "e"] {
        assert!(good("delete_checkpoint", place.delete_checkpoint("t", &id(own))), "{own} was there");
        assert!(!good("delete_checkpoint", place.delete_checkpoint("t", &id(own))), "{own} was gone already");
        wanted.retain(|checkpoint| checkpoint.id != id(own));
        assert_eq!(place.audit("t"), wanted, "after {own}");
        place.reopen();
        assert_eq!(place.audit("t"), wanted, "after {own}, reopened");
        assert_eq!(place.find_id("t", &id(own)), None);
    }
    assert!(!good("delete_checkpoint", place.delete_checkpoint("t", &id("never"))));
    place.put_text("t", "9");
    assert_eq!(place.newest("t").parent, Some(id("d")), "the next follows the one laid bare");
    let before = HistoryQuery { before: Some(id("d")), ..HistoryQuery::default() };
    assert_eq!(place.page("t", &before), ["1"]);
}

/// A thread without a checkpoint is no thread.
pub fn the_last_checkpoint_ends_its_thread(make: Make<'_>) {
    let mut place = make(Setup::default());
    let (first, second) = (place.put_text("t", "1"), place.put_text("t", "2"));
    assert!(good("delete_checkpoint", place.delete_checkpoint("t", &second)));
    assert!(good("delete_checkpoint", place.delete_checkpoint("t", &first)));
    for _ in 0..2 {
        assert!(place.audit("t").is_empty());
        assert!(!good("delete_checkpoint", place.delete_checkpoint("t", &first)));
        assert!(!good("delete", place.delete("t")));
        if place.capabilities().list_threads {
            assert!(place.thread_ids(&ThreadQuery::default()).is_empty());
        }
        place.reopen();
    }
    place.put_text("t", "3");
    assert_eq!(place.audit("t")[0].parent, None);
}
