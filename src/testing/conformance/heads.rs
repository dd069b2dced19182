//! What a put builds on: its parent, and the head it expects.

use std::sync::Barrier;

use super::probe::{good, id, is_unsupported, refused};
use super::{Make, Setup};
use crate::batch::{ExpectedHead, Parent, PutOptions};
use crate::checkpoint::TypeTag;
use crate::error::ErrorKind;

cases![
    a_parent_is_the_head_none_or_the_one_named,
    a_missing_parent_is_not_found,
    a_deleted_thread_is_no_ground_to_build_on,
    an_expected_head_is_judged_by_id,
    an_expected_head_names_thread_and_comes_first,
    one_of_many_workers_wins,
];

/// By default the head, with `Root` none, with `Id` that one, which makes it no head.
pub fn a_parent_is_the_head_none_or_the_one_named(make: Make<'_>) {
    let mut place = make(Setup::default());
    let put = |own: &str, parent: Parent| place.put_text_with("t", "1", PutOptions::default().id(id(own)).parent(parent));
    put("a", Parent::Head);
    put("b", Parent::Head);
    put("c", Parent::Root);
    put("d", Parent::Id(id("a")));
    put("e", Parent::Head);
    put("b", Parent::Root);
    let wanted = [("e", Some("d")), ("d", Some("a")), ("c", None), ("b", Some("a")), ("a", None)];
    place.reopen();
    let seen = place.audit("t");
    let read: Vec<(&str, Option<&str>)> =
        seen.iter().map(|checkpoint| (checkpoint.id.as_str(), checkpoint.parent.as_ref().map(|parent| parent.as_str()))).collect();
    assert_eq!(read, wanted);
}

/// A parent that the thread does not have is `NotFound` and nothing is written.
pub fn a_missing_parent_is_not_found(make: Make<'_>) {
    let place = make(Setup::default());
    place.put_id("t", "a", "1");
    place.put_id("t", "gone", "2");
    place.put_id("u", "b", "3");
    good("delete_checkpoint", place.delete_checkpoint("t", &id("gone")));
    let before = place.picture(&["t", "u"]);
    for (thread, own, parent) in
        [("t", "x", "never"), ("t", "x", "gone"), ("t", "x", "b"), ("t", "x", "x"), ("t", "a", "b"), ("new", "x", "a")]
    {
        let options = PutOptions::default().id(id(own)).parent(Parent::Id(id(parent)));
        let result = place.put_bytes(thread, TypeTag::JSON, b"9", options);
        refused(ErrorKind::NotFound, &format!("{own} on {parent} in {thread}"), result);
    }
    assert_eq!(place.picture(&["t", "u"]), before);
    assert!(!good("exists", place.exists("new")), "a refused put makes no thread");
}

/// A late writer that builds on a deleted thread does not bring it back.
pub fn a_deleted_thread_is_no_ground_to_build_on(make: Make<'_>) {
    let mut place = make(Setup::default());
    place.put_id("t", "c1", "1");
    good("delete", place.delete("t"));
    for _ in 0..2 {
        let on_it = PutOptions::default().parent(Parent::Id(id("c1")));
        refused(ErrorKind::NotFound, "a deleted parent", place.put_bytes("t", TypeTag::JSON, b"2", on_it));
        assert!(place.audit("t").is_empty());
        place.reopen();
    }
    place.put_text("t", "3");
    let seen = place.audit("t");
    assert_eq!((seen.len(), &seen[0].parent), (1, &None), "a put without a parent begins anew");
}

/// `Empty` and `Id` hold or are `Conflict`; after one nothing is written.
pub fn an_expected_head_is_judged_by_id(make: Make<'_>) {
    let place = make(Setup::default());
    if !place.capabilities().compare_and_put {
        return;
    }
    let put = |own: &str, head: ExpectedHead| {
        place.put_bytes("t", TypeTag::JSON, format!("\"{own}\"").as_bytes(), PutOptions::default().id(id(own)).expected_head(head))
    };
    let conflict = ErrorKind::Conflict;
    refused(conflict, "a head in an empty thread", put("a", ExpectedHead::Id(id("a"))));
    assert!(!good("exists", place.exists("t")));
    good("empty as expected", put("a", ExpectedHead::Empty));
    refused(conflict, "an empty thread that is not", put("b", ExpectedHead::Empty));
    refused(conflict, "an empty thread that is not, by the head's own id", put("a", ExpectedHead::Empty));
    good("the head as expected", put("b", ExpectedHead::Id(id("a"))));
    refused(conflict, "a head that was", put("c", ExpectedHead::Id(id("a"))));
    good("any head", put("c", ExpectedHead::Any));
    good("replacing the head", put("c", ExpectedHead::Id(id("c"))));
    good("replacing an older one", put("a", ExpectedHead::Id(id("c"))));
    refused(conflict, "what was replaced is no head", put("d", ExpectedHead::Id(id("a"))));
    assert_eq!(place.states("t").concat(), r#""c""b""a""#);
    good("delete_checkpoint", place.delete_checkpoint("t", &id("c")));
    refused(conflict, "a deleted head", put("d", ExpectedHead::Id(id("c"))));
    good("the head that a deletion laid bare", put("d", ExpectedHead::Id(id("b"))));
    good("delete", place.delete("t"));
    refused(conflict, "the head of a deleted thread", put("e", ExpectedHead::Id(id("d"))));
    good("a deleted thread is empty", put("e", ExpectedHead::Empty));
    place.audit("t");
}

/// A conflict names its thread, and is told before a missing parent.
pub fn an_expected_head_names_thread_and_comes_first(make: Make<'_>) {
    let place = make(Setup::default());
    place.put_id("t", "a", "1");
    let options = PutOptions::default().expected_head(ExpectedHead::Id(id("b"))).parent(Parent::Id(id("never")));
    let result = place.put_bytes("t", TypeTag::JSON, b"2", options);
    if !place.capabilities().compare_and_put {
        assert!(is_unsupported(&result), "without compare_and_put an expected head is Unsupported");
        return;
    }
    assert_eq!(result.as_ref().err().and_then(|error| error.thread()), Some("t"));
    refused(ErrorKind::Conflict, "a conflict and a missing parent", result);
    assert_eq!(place.states("t"), ["1"]);
}

/// Of 8 workers that expect the same head exactly one wins; the others get `Conflict`.
pub fn one_of_many_workers_wins(make: Make<'_>) {
    const WORKERS: usize = 8;
    let place = make(Setup::default());
    if !place.capabilities().compare_and_put {
        return;
    }
    let (place, barrier) = (&*place, &Barrier::new(WORKERS));
    let mut expected = ExpectedHead::Empty;
    for round in 1..=12 {
        let put = |worker: usize, head: ExpectedHead| {
            barrier.wait();
            place.put_bytes("t", TypeTag::JSON, worker.to_string().as_bytes(), PutOptions::default().expected_head(head))
        };
        let results: Vec<_> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..WORKERS).map(|worker| (expected.clone(), worker)).collect();
            let workers: Vec<_> = workers.into_iter().map(|(head, worker)| scope.spawn(move || put(worker, head))).collect();
            workers.into_iter().map(|worker| worker.join().expect("no worker panics")).collect()
        });
        let (won, lost): (Vec<_>, Vec<_>) = results.into_iter().partition(|result| result.is_ok());
        assert_eq!(won.len(), 1, "round {round}: exactly one wins");
        lost.into_iter().for_each(|result| refused(ErrorKind::Conflict, "a loser", result));
        let head = good("head", place.head("t")).map(|head| head.id);
        assert_eq!(head.as_ref(), won[0].as_ref().ok(), "round {round}: the winner is the head");
        expected = head.map_or(ExpectedHead::Empty, ExpectedHead::Id);
        assert_eq!(super::probe::all("list", place.list("t", &Default::default())).len(), round);
    }
}
