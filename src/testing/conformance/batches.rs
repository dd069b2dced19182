//! A batch takes effect whole or not at all, its operations in order.

use super::probe::{good, id, refused};
use super::{Make, Place, Setup};
use crate::batch::{Batch, Committed, ExpectedHead, OnExisting, Parent, PutOptions};
use crate::checkpoint::{THREAD_BYTES_MAX, TypeTag};
use crate::error::ErrorKind;

cases![
    results_come_in_order,
    an_operation_sees_those_before_it,
    a_refused_operation_anywhere_leaves_nothing,
    a_batch_of_one_that_is_refused_leaves_nothing,
    an_empty_batch_does_nothing,
];

fn options(own: &str) -> PutOptions {
    PutOptions::default().id(id(own))
}

/// One result per operation, of its own kind.
pub fn results_come_in_order(make: Make<'_>) {
    let mut place = make(Setup::default());
    place.put_id("old", "x", "1");
    let mut batch = Batch::new();
    batch.put("a", TypeTag::JSON, b"1", options("p")).delete("absent", None).put("b", TypeTag::BYTES, b"2", options("q"));
    batch.delete("old", Some(id("y"))).delete("old", Some(id("x"))).put("a", TypeTag::JSON, b"3", PutOptions::default());
    let results = good("commit", place.commit(&batch));
    let (first, last) = results.split_at(5.min(results.len()));
    let gone = |existed| Committed::Deleted { existed };
    assert_eq!(first, [Committed::Put(id("p")), gone(false), Committed::Put(id("q")), gone(false), gone(true)]);
    for _ in 0..2 {
        assert_eq!(last, [Committed::Put(place.newest("a").id)]);
        assert_eq!((place.states("a").concat(), place.states("b").concat()), ("31".to_owned(), "2".to_owned()));
        assert!(place.newest("a").seq > place.newest("b").seq, "seqs rise within a batch");
        place.picture(&["a", "b", "old"]);
        place.reopen();
    }
}

/// A later operation builds on, replaces, deletes and re-makes what an earlier one did.
pub fn an_operation_sees_those_before_it(make: Make<'_>) {
    let mut place = make(Setup::default());
    let compares = place.capabilities().compare_and_put;
    let expecting = |own: &str, head: ExpectedHead| if compares { options(own).expected_head(head) } else { options(own) };
    let mut batch = Batch::new();
    batch.put("t", TypeTag::JSON, b"1", expecting("a", ExpectedHead::Empty));
    batch.put("t", TypeTag::JSON, b"2", expecting("b", ExpectedHead::Id(id("a"))));
    batch.put("t", TypeTag::JSON, b"3", options("c").parent(Parent::Id(id("a"))));
    batch.put("t", TypeTag::JSON, b"4", options("a"));
    batch.delete("t", Some(id("c"))).delete("t", Some(id("c")));
    batch.put("t", TypeTag::JSON, b"5", expecting("d", ExpectedHead::Id(id("b"))));
    batch.put("u", TypeTag::JSON, b"6", options("a")).delete("u", None).delete("u", None);
    batch.put("u", TypeTag::JSON, b"7", expecting("a", ExpectedHead::Empty));
    batch.put("v", TypeTag::JSON, b"8", options("a")).delete("v", Some(id("a")));
    let results = good("commit", place.commit(&batch));
    let existed: Vec<bool> =
        results.iter().filter_map(|done| if let Committed::Deleted { existed } = done { Some(*existed) } else { None }).collect();
    assert_eq!(existed, [true, false, true, false, true]);
    for _ in 0..2 {
        let seen = place.audit("t");
        assert_eq!(seen.iter().map(|checkpoint| checkpoint.text()).collect::<String>(), "524");
        assert_eq!(seen.iter().map(|checkpoint| checkpoint.parent.clone()).collect::<Vec<_>>(), [Some(id("b")), Some(id("a")), None]);
        assert_eq!(place.states("u"), ["7"]);
        assert_eq!(place.audit("u")[0].parent, None);
        assert!(place.audit("v").is_empty());
        place.reopen();
    }
}

type Add = fn(&mut Batch<'static>);

/// Operations that change what [`prepared`] holds, in every way there is.
const CHANGES: [Add; 7] = [
    |batch| _ = batch.put("new", TypeTag::JSON, b"1", PutOptions::default()),
    |batch| _ = batch.put("t", TypeTag::JSON, b"9", options("added")),
    |batch| _ = batch.put("t", TypeTag::BYTES, b"replaced", options("b")),
    |batch| _ = batch.delete("t", Some(id("c"))),
    |batch| _ = batch.delete("u", None),
    |batch| _ = batch.put("u", TypeTag::JSON, b"0", PutOptions::default().saved_at(std::time::SystemTime::UNIX_EPOCH)),
    |batch| _ = batch.delete("v", Some(id("only"))),
];

fn expect_other_head(batch: &mut Batch<'static>) {
    batch.put("t", TypeTag::JSON, b"1", PutOptions::default().expected_head(ExpectedHead::Id(id("never"))));
}

/// Operations that a place must refuse whatever [`CHANGES`] did before, with their kinds.
fn refusals(place: &Place) -> Vec<(ErrorKind, Add)> {
    let mut all: Vec<(ErrorKind, Add)> = vec![
        (ErrorKind::InvalidInput, |batch| _ = batch.put("t", TypeTag::JSON, b"NaN", PutOptions::default())),
        (ErrorKind::InvalidInput, |batch| _ = batch.put("", TypeTag::JSON, b"1", PutOptions::default())),
        (ErrorKind::InvalidInput, |batch| _ = batch.delete("", None)),
        (ErrorKind::InvalidInput, |batch| _ = batch.attach("t", id("a"), "", TypeTag::BYTES, b"", OnExisting::Keep)),
        (ErrorKind::NotFound, |batch| _ = batch.put("t", TypeTag::JSON, b"1", PutOptions::default().parent(Parent::Id(id("never"))))),
        (ErrorKind::NotFound, |batch| _ = batch.put("new2", TypeTag::JSON, b"1", PutOptions::default().parent(Parent::Id(id("a"))))),
    ];
    if place.capabilities().compare_and_put {
        all.extend([
            (ErrorKind::Conflict, expect_other_head as Add),
            (ErrorKind::Conflict, |batch| _ = batch.put("w", TypeTag::JSON, b"1", options("x").expected_head(ExpectedHead::Empty))),
        ]);
    }
    all
}

const THREADS: [&str; 6] = ["t", "u", "v", "w", "new", "new2"];

fn prepared(make: Make<'_>) -> Place {
    let place = make(Setup { max_history: Some(3) });
    ["a", "b", "c"].into_iter().for_each(|own| drop(place.put_id("t", own, "1")));
    ["x", "y"].into_iter().for_each(|own| drop(place.put_id("u", own, "2")));
    place.put_id("v", "only", "3");
    place.put_id("w", "only", "4");
    place
}

/// Wherever in a batch the refused operation stands, nothing of the batch was done, and the next
/// put works.
pub fn a_refused_operation_anywhere_leaves_nothing(make: Make<'_>) {
    let mut place = prepared(make);
    let before = place.picture(&THREADS);
    for (at, (kind, bad)) in refusals(&place).into_iter().enumerate() {
        for position in 0..=CHANGES.len() {
            let mut batch = Batch::new();
            CHANGES[..position].iter().for_each(|add| add(&mut batch));
            bad(&mut batch);
            CHANGES[position..].iter().for_each(|add| add(&mut batch));
            refused(kind, &format!("refusal {at} at {position}"), place.commit(&batch));
            assert_eq!(place.picture(&THREADS), before, "refusal {at} at {position} left something");
        }
    }
    place.reopen();
    assert_eq!(place.picture(&THREADS), before, "refused batches show after a reopen");
    let last_seq = before.iter().flatten().map(|checkpoint| checkpoint.seq).max();
    place.put_text("w", "5");
    assert!(Some(place.newest("w").seq) > last_seq);
    let mut batch = Batch::new();
    CHANGES.iter().take(5).for_each(|add| add(&mut batch));
    assert_eq!(good("the changes alone", place.commit(&batch)).len(), 5);
    assert!(place.audit("u").is_empty() && place.states("t") == ["9", "replaced"]);
}

/// A refused put or attachment on its own makes no thread and changes none.
pub fn a_batch_of_one_that_is_refused_leaves_nothing(make: Make<'_>) {
    let place = prepared(make);
    let before = place.picture(&THREADS);
    for (kind, bad) in refusals(&place) {
        let mut batch = Batch::new();
        bad(&mut batch);
        refused(kind, "a batch of one", place.commit(&batch));
    }
    let long = "x".repeat(THREAD_BYTES_MAX + 1);
    let mut batch = Batch::new();
    batch.delete(&long, None);
    refused(ErrorKind::InvalidInput, "a long thread id", place.commit(&batch));
    assert_eq!(place.picture(&THREADS), before);
}

/// No operations, no results, no change.
pub fn an_empty_batch_does_nothing(make: Make<'_>) {
    let place = prepared(make);
    let before = place.picture(&THREADS);
    assert!(good("commit", place.commit(&Batch::new())).is_empty());
    assert_eq!(place.picture(&THREADS), before);
}
