//! Renames: a thread is under another name, whole, and the old one is free.

use super::attachments::{attach, expect};
use super::branches::{expect_copy, having, put_grown, put_knotted, put_thousand};
use super::probe::{good, id, is_unsupported, refused};
use super::{Make, Setup};
use crate::checkpoint::THREAD_BYTES_MAX;
use crate::error::ErrorKind;
use crate::query::{HistoryQuery, ThreadQuery};

cases![
    a_rename_takes_all_along,
    the_old_name_begins_anew,
    what_cannot_be_renamed_is_refused,
    what_waits_under_the_new_name_stays,
    any_name_can_be_given,
    renamed_there_and_back,
];

/// Checkpoints, what is attached and what waits, and the number of its own; forks are not touched.
pub fn a_rename_takes_all_along(make: Make<'_>) {
    let Some(mut place) = having(make, Setup { max_history: Some(6) }) else { return };
    put_knotted(&place, "t");
    good("fork", place.fork("t", Some(&id("b")), "fork"));
    let has_attachments = place.capabilities().attachments;
    if has_attachments {
        attach(&place, "t", "b", "k", "1");
        attach(&place, "t", "coming", "k", "2");
    }
    let own = place.retain(Some("t"), Some(8));
    let (source, fork) = (place.audit("t"), place.audit("fork"));
    let open = good("history", place.history_bytes("t", &HistoryQuery::default()));
    good("rename", place.rename("t", "u"));
    assert!(open.map(|read| good("an item", read).info.id).eq(source.iter().map(|seen| seen.id.clone())), "an iterator shows its moment");
    for _ in 0..2 {
        expect_copy(&place.audit("u"), &source);
        assert!(place.audit("t").is_empty());
        assert_eq!(place.find_id("t", &id("a")), None);
        assert_eq!(place.audit("fork"), fork);
        if place.capabilities().list_threads {
            assert_eq!(place.thread_ids(&ThreadQuery::default()), ["fork", "u"]);
            assert_eq!(good("locate", place.locate(&id("e"))), ["u"]);
        }
        assert!(!good("delete", place.delete("t")), "nothing is left of the old name");
        place.reopen();
    }
    if has_attachments {
        expect(&mut place, "u", &[("b", "k=1"), ("coming", "k=2")]);
        expect(&mut place, "t", &[("b", ""), ("coming", "")]);
    }
    place.put_id("u", "next", "1");
    assert_eq!(place.newest("u").parent, Some(id("e")));
    if has_attachments {
        place.put_id("u", "coming", "1");
        expect(&mut place, "u", &[("b", "k=1"), ("coming", "k=2")]);
    }
    put_grown(&place, "u", 0..9);
    assert_eq!(place.audit("u").len(), if is_unsupported(&own) { 6 } else { 8 });
}

/// A thread that is made under the old name has nothing of before: no parent, no attachment, no number.
pub fn the_old_name_begins_anew(make: Make<'_>) {
    let Some(mut place) = having(make, Setup { max_history: Some(3) }) else { return };
    put_grown(&place, "t", 0..3);
    let has_attachments = place.capabilities().attachments;
    if has_attachments {
        attach(&place, "t", "c2", "k", "1");
        attach(&place, "t", "coming", "k", "2");
    }
    let own = place.retain(Some("t"), Some(1));
    let kept = if is_unsupported(&own) { 3 } else { 1 };
    good("rename", place.rename("t", "u"));
    place.put_id("t", "c2", "1");
    assert_eq!(place.newest("t").parent, None);
    put_grown(&place, "t", 3..9);
    place.put_id("t", "coming", "1");
    for _ in 0..2 {
        assert_eq!((place.audit("t").len(), place.audit("u").len()), (3, kept));
        place.reopen();
    }
    if has_attachments {
        expect(&mut place, "t", &[("c2", ""), ("coming", "")]);
        expect(&mut place, "u", &[("c2", "k=1"), ("coming", "k=2")]);
    }
}

/// As a fork is; its own name is taken too.
pub fn what_cannot_be_renamed_is_refused(make: Make<'_>) {
    let Some(mut place) = having(make, Setup::default()) else { return };
    put_grown(&place, "t", 0..3);
    place.put_id("u", "c0", "1");
    if place.capabilities().attachments {
        attach(&place, "waiting", "c0", "k", "1");
    }
    let threads = ["t", "u", "waiting", "new"];
    let before = place.picture(&threads);
    for absent in ["absent", "waiting", "T"] {
        let refusal = place.rename(absent, "new");
        assert_eq!(refusal.as_ref().err().and_then(|error| error.thread()), Some(absent), "{refusal:?}");
        refused(ErrorKind::NotFound, "a thread that is not there", refusal);
    }
    for taken in ["u", "t"] {
        let refusal = place.rename("t", taken);
        assert_eq!(refusal.as_ref().err().and_then(|error| error.thread()), Some(taken), "{refusal:?}");
        refused(ErrorKind::Conflict, "a name that is taken", refusal);
    }
    let long = "x".repeat(THREAD_BYTES_MAX + 1);
    for (thread, new) in [("t", ""), ("", "new"), ("t", &long), (&long, "new"), ("", "")] {
        refused(ErrorKind::InvalidInput, "no name", place.rename(thread, new));
    }
    for _ in 0..2 {
        assert_eq!(place.picture(&threads), before);
        place.reopen();
    }
    if place.capabilities().attachments {
        expect(&mut place, "waiting", &[("c0", "k=1")]);
    }
}

/// What waits under the new name waits on, or is attached to what comes; of the same key the thread's stands.
pub fn what_waits_under_the_new_name_stays(make: Make<'_>) {
    let Some(mut place) = having(make, Setup::default()) else { return };
    if !place.capabilities().attachments {
        return;
    }
    for (own, key) in [("a", "k"), ("a", "own"), ("coming", "k"), ("coming", "own"), ("later", "k")] {
        attach(&place, "new", own, key, "waited");
    }
    place.put_id("t", "a", "1");
    attach(&place, "t", "a", "k", "moved");
    attach(&place, "t", "coming", "k", "moved");
    good("rename", place.rename("t", "new"));
    let wanted = [("a", "k=moved own=waited"), ("coming", "k=moved own=waited"), ("later", "k=waited")];
    expect(&mut place, "new", &wanted);
    expect(&mut place, "t", &[("a", ""), ("coming", ""), ("later", "")]);
    place.put_id("new", "coming", "2");
    expect(&mut place, "new", &wanted[..2]);
    good("rename", place.rename("new", "t"));
    expect(&mut place, "t", &wanted[..2]);
}

/// From each awkward name to the next, and to the longest.
pub fn any_name_can_be_given(make: Make<'_>) {
    let Some(mut place) = having(make, Setup::default()) else { return };
    let long = "x".repeat(THREAD_BYTES_MAX);
    place.put_id("first", "a", "1");
    place.put_id("first", "\0", "2");
    let source = place.audit("first");
    let mut last = "first";
    for name in super::ids::AWKWARD.iter().copied().chain([long.as_str(), "first", "last"]) {
        good("rename", place.rename(last, name));
        assert!(!good("exists", place.exists(last)), "{last:?} is {name:?} now");
        expect_copy(&place.audit(name), &source);
        last = name;
    }
    place.reopen();
    expect_copy(&place.audit(last), &source);
    if place.capabilities().list_threads {
        assert_eq!(place.thread_ids(&ThreadQuery::default()), ["last"]);
    }
}

/// A thousand checkpoints go and come back, with a reopening between.
pub fn renamed_there_and_back(make: Make<'_>) {
    let Some(mut place) = having(make, Setup::default()) else { return };
    put_thousand(&place, "t");
    let source = place.seen("t");
    good("rename", place.rename("t", "u"));
    place.reopen();
    good("rename", place.rename("u", "t"));
    for _ in 0..2 {
        expect_copy(&place.seen("t"), &source);
        assert!(place.audit("u").is_empty());
        place.reopen();
    }
    place.put_id("t", "c1000", "1");
    assert_eq!(place.newest("t").parent, Some(id("c999")));
}
