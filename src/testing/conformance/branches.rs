//! Forks: a new thread has what its source showed up to a checkpoint, and owns it.

use std::time::{Duration, SystemTime};

use super::attachments::{attach, attached, expect};
use super::probe::{Seen, good, id, is_unsupported, refused};
use super::{Make, Place, Setup};
use crate::batch::{Batch, ExpectedHead, Parent, PutOptions};
use crate::checkpoint::{CheckpointId, ID_BYTES_MAX, Metadata, THREAD_BYTES_MAX, TypeTag};
use crate::error::ErrorKind;
use crate::query::{HistoryQuery, ThreadQuery, VacuumQuery};
use crate::testing::states::noise;

cases![
    branches_work_or_are_unsupported,
    a_fork_has_all_up_to_its_point,
    a_fork_goes_on_by_itself,
    what_cannot_be_forked_is_refused,
    forks_of_forks,
    a_fork_owns_what_it_has,
    a_fork_keeps_as_many_as_its_source,
    what_is_attached_goes_along,
    what_waits_goes_along_with_the_head,
    what_waits_under_the_new_name_stays,
    any_thread_and_id_can_be_forked,
    a_long_history_is_forked,
];

/// A place as the setup asks, or None where there are no branches.
pub(super) fn having(make: Make<'_>, setup: Setup) -> Option<Place> {
    let place = make(setup);
    place.capabilities().branching.then_some(place)
}

/// States that grow out of each other, so that a place that keeps differences does so.
pub(super) fn grown(step: usize) -> Vec<u8> {
    noise(7, 1_500 + 40 * step)
}

#[track_caller]
pub(super) fn put_grown(place: &Place, thread: &str, steps: std::ops::Range<usize>) {
    for step in steps {
        let options = PutOptions::default().id(id(&format!("c{step}")));
        good("put", place.put_bytes(thread, TypeTag::BYTES, &grown(step), options));
    }
}

/// Panics unless some checkpoints are the others again: all but thread and seq, which is a new one.
#[track_caller]
pub(super) fn expect_copy(copy: &[Seen], of: &[Seen]) {
    let bare = |seen: &Seen| Seen { thread: String::new(), seq: 0, ..seen.clone() };
    let (bare_copy, bare_of): (Vec<Seen>, Vec<Seen>) = (copy.iter().map(bare).collect(), of.iter().map(bare).collect());
    assert_eq!(bare_copy, bare_of, "this is no copy");
    let last = of.iter().map(|source| source.seq).max();
    assert!(copy.iter().all(|copied| Some(copied.seq) > last), "a copy has new seqs: {copy:?} of {of:?}");
}

/// A thread in which ids were put again, deleted, and put with other parents; newest first: e, c, b, a.
pub(super) fn put_knotted(place: &Place, thread: &str) {
    let at = |seconds: u64| PutOptions::default().saved_at(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
    let metadata = good("metadata", Metadata::from_json("{ \"step\":1.0}"));
    good("put", place.put_bytes(thread, TypeTag::JSON, b" [1]\n", at(9).id(id("a")).metadata(metadata)));
    good("put", place.put_bytes(thread, good("a tag", TypeTag::new("own/tag")), b"\0\xff", at(3).id(id("b")).parent(Parent::Root)));
    good("put", place.put_bytes(thread, TypeTag::BYTES, b"", at(5).id(id("c"))));
    good("put", place.put_bytes(thread, TypeTag::JSON, b"\"deleted\"", at(5).id(id("d"))));
    good("put", place.put_bytes(thread, TypeTag::BYTES, &grown(3), at(0).id(id("e"))));
    good("put", place.put_bytes(thread, TypeTag::BYTES, &grown(4), at(7).id(id("b"))));
    assert!(good("delete_checkpoint", place.delete_checkpoint(thread, &id("d"))));
}

/// Where branches are not had, all three calls are `Unsupported` and do nothing; where they are, all work.
pub fn branches_work_or_are_unsupported(make: Make<'_>) {
    let place = make(Setup::default());
    let first = place.put_text("t", "1");
    place.put_text("t", "2");
    let before = place.picture(&["t", "u", "v"]);
    if place.capabilities().branching {
        assert_eq!(good("fork", place.fork("t", Some(&first), "u")), first);
        good("rename", place.rename("u", "v"));
        assert_eq!(good("rollback", place.rollback("t", &first)), 1);
        assert_eq!([place.states("t"), place.states("u"), place.states("v")].map(|states| states.concat()), ["1", "", "1"]);
    } else {
        let answers = [place.fork("t", None, "u").map(drop), place.rename("t", "u"), place.rollback("t", &first).map(drop)];
        assert!(answers.iter().all(is_unsupported), "what is not had is Unsupported: {answers:?}");
        assert_eq!(place.picture(&["t", "u", "v"]), before);
    }
}

/// At the oldest, at each one between, at the head by its id and without one: ids, order, parents, times,
/// metadata, tags and bytes are the source's, which stays as it was.
pub fn a_fork_has_all_up_to_its_point(make: Make<'_>) {
    let Some(mut place) = having(make, Setup::default()) else { return };
    put_knotted(&place, "t");
    let source = place.audit("t");
    let ids: Vec<&str> = source.iter().map(|seen| seen.id.as_str()).collect();
    assert_eq!(ids, ["e", "c", "b", "a"]);
    assert_eq!(source[0].parent, Some(id("d")), "a parent that was deleted is still told");
    let points = [(Some("a"), 3), (Some("b"), 2), (Some("c"), 1), (Some("e"), 0), (None, 0)];
    for (at, from) in points {
        let name = format!("up to {at:?}");
        let head = good("fork", place.fork("t", at.map(id).as_ref(), &name));
        assert_eq!(head, source[from].id, "a fork answers its head");
        expect_copy(&place.audit(&name), &source[from..]);
        assert_eq!(place.audit("t"), source);
    }
    place.reopen();
    assert_eq!(place.audit("t"), source);
    let mut seqs: Vec<u64> = source.iter().map(|seen| seen.seq).collect();
    for (at, from) in points {
        let copy = place.audit(&format!("up to {at:?}"));
        expect_copy(&copy, &source[from..]);
        seqs.extend(copy.iter().map(|seen| seen.seq));
    }
    let count = seqs.len();
    seqs.sort_unstable();
    seqs.dedup();
    assert_eq!(seqs.len(), count, "no seq is given twice");
    if place.capabilities().list_threads {
        assert_eq!(good("threads", place.threads()).len(), 6);
        assert_eq!(good("locate", place.locate(&id("c"))), ["t", "up to None", "up to Some(\"c\")", "up to Some(\"e\")"]);
    }
}

/// Its head is what a put builds on and expects; pages, loads and parents find what it has and nothing else.
pub fn a_fork_goes_on_by_itself(make: Make<'_>) {
    let Some(mut place) = having(make, Setup::default()) else { return };
    put_grown(&place, "t", 0..5);
    let waiting = good("history", place.history_bytes("t", &HistoryQuery::default()));
    good("fork", place.fork("t", Some(&id("c2")), "u"));
    assert_eq!(waiting.count(), 5);
    assert_eq!(place.find_id("u", &id("c3")), None);
    let on = |parent: &str| PutOptions::default().parent(Parent::Id(id(parent)));
    refused(ErrorKind::NotFound, "a parent the fork has not", place.put_bytes("u", TypeTag::JSON, b"1", on("c3")));
    let before = HistoryQuery { before: Some(id("c3")), ..HistoryQuery::default() };
    refused(ErrorKind::NotFound, "a page before it", place.list("u", &before));
    if place.capabilities().compare_and_put {
        let expecting = |head: &str| PutOptions::default().expected_head(ExpectedHead::Id(id(head)));
        refused(ErrorKind::Conflict, "the source's head", place.put_bytes("u", TypeTag::JSON, b"1", expecting("c4")));
        place.put_text_with("u", "1", expecting("c2").id(id("own")));
    } else {
        place.put_id("u", "own", "1");
    }
    place.put_id("u", "c3", "2");
    place.put_id("u", "c1", "3");
    let (source, wanted) =
        (place.audit("t"), [("c3", Some("own")), ("own", Some("c2")), ("c2", Some("c1")), ("c1", Some("c0")), ("c0", None)]);
    assert!(source.iter().map(|seen| seen.state.clone()).eq((0..5).rev().map(|step| Some(grown(step)))));
    for _ in 0..2 {
        let seen = place.audit("u");
        let read: Vec<_> = seen.iter().map(|seen| (seen.id.as_str(), seen.parent.as_ref().map(CheckpointId::as_str))).collect();
        assert_eq!(read, wanted);
        assert_eq!(place.page("u", &HistoryQuery { after: Some(id("c2")), ..HistoryQuery::default() }), ["2", "1"]);
        assert_eq!(place.find_id("u", &id("c1")).map(|seen| seen.text()).as_deref(), Some("3"), "put again in the fork alone");
        assert_eq!(place.audit("t"), source);
        place.reopen();
    }
}

/// `NotFound` for what is not there to be forked, `Conflict` where the name is taken, `InvalidInput` for what
/// is no name; nothing is changed.
pub fn what_cannot_be_forked_is_refused(make: Make<'_>) {
    let Some(mut place) = having(make, Setup { max_history: Some(3) }) else { return };
    put_grown(&place, "t", 0..5);
    place.put_id("u", "other", "1");
    place.put_id("gone", "c4", "1");
    good("delete_checkpoint", place.delete_checkpoint("t", &id("c3")));
    good("delete", place.delete("gone"));
    if place.capabilities().attachments {
        attach(&place, "waiting", "c4", "k", "1");
        attach(&place, "t", "to come", "k", "1");
    }
    let threads = ["t", "u", "gone", "waiting", "new"];
    let before = place.picture(&threads);
    for (thread, at) in [("absent", None), ("gone", None), ("waiting", None), ("absent", Some("c4")), ("waiting", Some("c4"))] {
        refused(ErrorKind::NotFound, "a thread that is not there", place.fork(thread, at.map(id).as_ref(), "new"));
    }
    for at in ["never", "c3", "c0", "other", "to come", "C4"] {
        let refusal = place.fork("t", Some(&id(at)), "new");
        assert_eq!(refusal.as_ref().err().and_then(|error| error.thread()), Some("t"), "{refusal:?}");
        refused(ErrorKind::NotFound, "a checkpoint that is not in the thread", refusal);
    }
    for new in ["t", "u"] {
        for at in [None, Some(id("c4")), Some(id("c2"))] {
            let refusal = place.fork("t", at.as_ref(), new);
            assert_eq!(refusal.as_ref().err().and_then(|error| error.thread()), Some(new), "{refusal:?}");
            refused(ErrorKind::Conflict, "a name that is taken", refusal);
        }
    }
    let long = "x".repeat(THREAD_BYTES_MAX + 1);
    for (thread, new) in [("t", ""), ("", "new"), ("t", &long), (&long, "new"), ("", "")] {
        refused(ErrorKind::InvalidInput, "no name", place.fork(thread, None, new));
    }
    for _ in 0..2 {
        assert_eq!(place.picture(&threads), before, "a refused fork changes nothing");
        place.reopen();
    }
    good("the name of a thread that was deleted", place.fork("t", None, "gone"));
    good("a name under which something waits", place.fork("t", Some(&id("c2")), "waiting"));
    good("delete", place.delete("gone"));
    good("a name again", place.fork("t", Some(&id("c2")), "gone"));
    assert_eq!([place.audit("gone").len(), place.audit("waiting").len()], [1, 1]);
}

/// Each from the one before, at its head, its middle and its oldest; then from back to front.
pub fn forks_of_forks(make: Make<'_>) {
    let Some(mut place) = having(make, Setup::default()) else { return };
    put_grown(&place, "f0", 0..8);
    let first = place.audit("f0");
    for (step, kept) in [8, 7, 7, 4, 1].into_iter().enumerate() {
        let (from, to) = (format!("f{step}"), format!("f{}", step + 1));
        good("fork", place.fork(&from, Some(&id(&format!("c{}", kept - 1))), &to));
        expect_copy(&place.audit(&to), &first[8 - kept..]);
    }
    for gone in ["f0", "f2", "f4"] {
        assert!(good("delete", place.delete(gone)));
        place.reopen();
    }
    for (name, kept) in [("f1", 8), ("f3", 7), ("f5", 1)] {
        expect_copy(&place.audit(name), &first[8 - kept..]);
    }
    put_grown(&place, "f5", 1..4);
    good("fork", place.fork("f5", None, "f0"));
    let states = place.audit("f0").into_iter().map(|seen| seen.state);
    assert!(states.eq((0..4).rev().map(|step| Some(grown(step)))));
}

type Change = fn(&Place, &str);

/// What is done to a thread of six to have it lose something, or all.
const LOSSES: [(&str, Change); 7] = [
    ("a deletion", |place, thread| assert!(good("delete", place.delete(thread)))),
    ("deletions by id", |place, thread| {
        for step in (0..6).filter(|step| step % 2 == 0) {
            assert!(good("delete_checkpoint", place.delete_checkpoint(thread, &id(&format!("c{step}")))));
        }
    }),
    ("its last deletion by id", |place, thread| {
        (0..6).for_each(|step| assert!(good("delete_checkpoint", place.delete_checkpoint(thread, &id(&format!("c{step}"))))));
    }),
    ("a lower number", |place, thread| {
        let kept = place.retain(Some(thread), Some(1));
        assert!(is_unsupported(&kept) || kept.is_ok(), "{kept:?}");
    }),
    ("a vacuum", |place, thread| {
        let query = VacuumQuery { thread: Some(thread.to_owned()), keep: Some(1), ..VacuumQuery::default() };
        let done = place.vacuum(&query);
        assert!(is_unsupported(&done) || done.is_ok(), "{done:?}");
    }),
    ("a rollback", |place, thread| assert_eq!(good("rollback", place.rollback(thread, &id("c0"))), 5)),
    ("other states", |place, thread| (0..6).for_each(|step| drop(place.put_id(thread, &format!("c{step}"), "\"other\"")))),
];

/// Whatever the source loses its forks keep, and the other way round; so do what is attached.
pub fn a_fork_owns_what_it_has(make: Make<'_>) {
    for (what, lose) in LOSSES {
        let Some(mut place) = having(make, Setup::default()) else { return };
        put_grown(&place, "t", 0..6);
        let has_attachments = place.capabilities().attachments;
        if has_attachments {
            (0..6).for_each(|step| assert!(attach(&place, "t", &format!("c{step}"), "k", &step.to_string())));
        }
        let source = place.audit("t");
        good("fork", place.fork("t", Some(&id("c4")), "u"));
        good("fork", place.fork("t", None, "v"));
        lose(&place, "t");
        for reopened in [false, true] {
            expect_copy(&place.audit("u"), &source[1..]);
            expect_copy(&place.audit("v"), &source);
            for step in (0..5).filter(|_| has_attachments) {
                let both = ["u", "v"].map(|thread| attached(&place, thread, &format!("c{step}")));
                assert_eq!(both, [format!("k={step}"), format!("k={step}")], "after {what} in the source, reopened: {reopened}");
            }
            place.reopen();
        }
        let source = place.audit("t");
        lose(&place, "v");
        if has_attachments {
            attach(&place, "u", "c1", "k", "the fork's own");
        }
        place.reopen();
        assert_eq!(place.audit("t"), source, "after {what} in a fork");
        assert_eq!(place.audit("u").len(), 5, "after {what} in another fork");
        if has_attachments && place.find_id("t", &id("c1")).is_some() {
            assert_eq!(attached(&place, "t", "c1"), "k=1");
        }
    }
}

/// A number of the source's own goes along, also that for all; without one the place's holds.
pub fn a_fork_keeps_as_many_as_its_source(make: Make<'_>) {
    let Some(mut place) = having(make, Setup { max_history: Some(3) }) else { return };
    for thread in ["few", "all", "plain"] {
        put_grown(&place, thread, 0..3);
    }
    let own = place.retain(Some("few"), Some(2));
    let has_own = !is_unsupported(&own);
    if has_own {
        good("retain", own);
        good("retain", place.retain(Some("all"), None));
        put_grown(&place, "all", 3..6);
        good("fork", place.fork("few", Some(&id("c1")), "few's"));
        good("fork", place.fork("all", Some(&id("c4")), "all's"));
    }
    good("fork", place.fork("plain", Some(&id("c1")), "plain's"));
    let forks = [("few's", 1, 2), ("all's", 5, 13), ("plain's", 2, 3)];
    let forks: Vec<_> = forks.into_iter().filter(|(name, ..)| has_own || *name == "plain's").collect();
    for (name, kept, _) in &forks {
        assert_eq!(place.audit(name).len(), *kept, "{name}");
    }
    place.reopen();
    for (name, _, kept) in &forks {
        put_grown(&place, name, 10..18);
        assert_eq!(place.audit(name).len(), *kept, "{name}");
    }
    if has_own {
        // It is the fork's own: neither the source's end nor another number touches it.
        good("delete", place.delete("few"));
        good("retain", place.retain(Some("all"), Some(1)));
        good("retain", place.retain(None, Some(2)));
        let kept = ["few's", "all's", "plain's"].map(|name| place.audit(name).len());
        assert_eq!(kept, [2, 13, 2]);
        let asked = place.max_history(Some("all's"));
        if !is_unsupported(&asked) {
            assert_eq!([asked, place.max_history(Some("few's"))].map(|asked| good("max_history", asked)), [None, Some(2)]);
        }
    }
}

/// What is attached to the checkpoints that it has, and to no others.
pub fn what_is_attached_goes_along(make: Make<'_>) {
    let Some(mut place) = having(make, Setup::default()) else { return };
    if !place.capabilities().attachments {
        return;
    }
    for own in ["a", "b", "c"] {
        attach(&place, "t", own, "before", own);
        place.put_id("t", own, "1");
        attach(&place, "t", own, "k", own);
    }
    let tag = good("a tag", TypeTag::new("own/tag"));
    let bytes: Vec<u8> = (0..=255).collect();
    good("attach", place.attach("t", &id("a"), "raw", tag.clone(), &bytes, crate::batch::OnExisting::Keep));
    good("fork", place.fork("t", Some(&id("b")), "u"));
    for _ in 0..2 {
        let raw = good("attachments", place.attachments("u", &id("a"))).into_iter().find(|attachment| attachment.key == "raw");
        assert!(raw.is_some_and(|raw| raw.tag == tag && *raw.value == *bytes));
        place.reopen();
    }
    expect(&mut place, "u", &[("b", "before=b k=b"), ("c", "")]);
    attach(&place, "t", "b", "k", "the source's");
    attach(&place, "u", "b", "before", "the fork's");
    place.put_id("u", "c", "2");
    good("delete_checkpoint", place.delete_checkpoint("t", &id("a")));
    expect(&mut place, "u", &[("b", "before=the fork's k=b"), ("c", "")]);
    expect(&mut place, "t", &[("a", ""), ("b", "before=b k=the source's"), ("c", "before=c k=c")]);
    assert_eq!(good("attachments", place.attachments("u", &id("a"))).len(), 3);
    good("delete_checkpoint", place.delete_checkpoint("u", &id("a")));
    expect(&mut place, "u", &[("a", "")]);
}

/// What waits for a checkpoint yet to come goes with the head alone, and waits on in both.
pub fn what_waits_goes_along_with_the_head(make: Make<'_>) {
    let Some(mut place) = having(make, Setup { max_history: Some(3) }) else { return };
    if !place.capabilities().attachments {
        return;
    }
    place.put_id("t", "a", "1");
    attach(&place, "t", "coming", "k", "1");
    place.put_id("t", "b", "2");
    good("fork", place.fork("t", Some(&id("a")), "old"));
    good("fork", place.fork("t", Some(&id("b")), "by id"));
    good("fork", place.fork("t", None, "head"));
    expect(&mut place, "old", &[("coming", "")]);
    for thread in ["by id", "head", "t"] {
        expect(&mut place, thread, &[("coming", "k=1"), ("a", ""), ("b", "")]);
    }
    for thread in ["by id", "head"] {
        // It is no older than what the fork began with: it does not go with the next put.
        place.put_id(thread, "c", "3");
        expect(&mut place, thread, &[("coming", "k=1")]);
        place.put_id(thread, "coming", "4");
        expect(&mut place, thread, &[("coming", "k=1"), ("c", "")]);
    }
    place.put_id("old", "coming", "4");
    expect(&mut place, "old", &[("coming", "")]);
    good("delete", place.delete("t"));
    expect(&mut place, "head", &[("coming", "k=1")]);
    // In the fork it goes in time, as everywhere.
    attach(&place, "head", "never", "k", "2");
    good("fork", place.fork("head", None, "later"));
    ["d", "e", "f"].into_iter().for_each(|own| drop(place.put_id("later", own, "5")));
    place.put_id("later", "g", "6");
    expect(&mut place, "later", &[("never", "")]);
}

/// What waits under the new name waits on, or is attached to what the fork brings; of the same key the
/// source's stands.
pub fn what_waits_under_the_new_name_stays(make: Make<'_>) {
    let Some(mut place) = having(make, Setup::default()) else { return };
    if !place.capabilities().attachments {
        return;
    }
    for (own, key) in [("a", "k"), ("a", "own"), ("coming", "k"), ("coming", "own"), ("b", "k")] {
        attach(&place, "new", own, key, "waited");
    }
    place.put_id("t", "a", "1");
    attach(&place, "t", "a", "k", "copied");
    attach(&place, "t", "coming", "k", "copied");
    attach(&place, "t", "coming", "l", "copied");
    place.put_id("t", "b", "2");
    good("fork", place.fork("t", None, "new"));
    expect(&mut place, "new", &[("a", "k=copied own=waited"), ("b", "k=waited"), ("coming", "k=copied l=copied own=waited")]);
    expect(&mut place, "t", &[("a", "k=copied"), ("b", ""), ("coming", "k=copied l=copied")]);
    place.put_id("new", "coming", "3");
    expect(&mut place, "new", &[("coming", "k=copied l=copied own=waited")]);
    attach(&place, "other", "coming", "k", "waited");
    good("fork", place.fork("t", Some(&id("a")), "other"));
    expect(&mut place, "other", &[("coming", "k=waited"), ("a", "k=copied")]);
    place.put_id("other", "coming", "3");
    expect(&mut place, "other", &[("coming", "k=waited")]);
}

/// Any name to any other, with any ids.
pub fn any_thread_and_id_can_be_forked(make: Make<'_>) {
    let Some(mut place) = having(make, Setup::default()) else { return };
    let awkward = super::ids::AWKWARD;
    let (long, alike) = ("x".repeat(THREAD_BYTES_MAX), "x".repeat(THREAD_BYTES_MAX - 1) + "y");
    let long_id = "x".repeat(ID_BYTES_MAX);
    for own in awkward.iter().copied().chain([long_id.as_str()]) {
        place.put_text_with("source", &format!("{:?}", own.escape_unicode().to_string()), PutOptions::default().id(id(own)));
    }
    let source = place.audit("source");
    for (from, to) in [("source", long.as_str()), (&long, &alike)] {
        good("fork", place.fork(from, None, to));
        expect_copy(&place.audit(to), &source);
    }
    // The first few have as many, the others five.
    for (at, name) in awkward.iter().enumerate() {
        let point = id(awkward[at.min(4)]);
        assert_eq!(good("fork", place.fork("source", Some(&point), name)), point);
    }
    place.reopen();
    for (at, name) in awkward.iter().enumerate() {
        expect_copy(&place.audit(name), &source[source.len() - 1 - at.min(4)..]);
    }
    expect_copy(&place.audit(&alike), &source);
    assert_eq!(place.audit("source"), source);
}

/// A thousand checkpoints, and the first half of them.
pub fn a_long_history_is_forked(make: Make<'_>) {
    let Some(mut place) = having(make, Setup::default()) else { return };
    put_thousand(&place, "t");
    let source = place.seen("t");
    good("fork", place.fork("t", None, "u"));
    good("fork", place.fork("t", Some(&id("c499")), "v"));
    good("delete", place.delete("t"));
    for _ in 0..2 {
        expect_copy(&place.seen("u"), &source);
        expect_copy(&place.seen("v"), &source[500..]);
        place.reopen();
    }
    if place.capabilities().list_threads {
        let infos = place.thread_infos(&ThreadQuery::default());
        assert_eq!(infos.iter().map(|info| info.checkpoints).collect::<Vec<_>>(), [1000, 500]);
    }
}

/// Puts 1,000 small checkpoints, c0 to c999.
pub(super) fn put_thousand(place: &Place, thread: &str) {
    let states: Vec<String> = (0..1000).map(|step| format!("{{\"step\":{step}}}")).collect();
    for (round, states) in states.chunks(250).enumerate() {
        let mut batch = Batch::new();
        for (at, state) in states.iter().enumerate() {
            let own = id(&format!("c{}", 250 * round + at));
            batch.put(thread, TypeTag::JSON, state.as_bytes(), PutOptions::default().id(own));
        }
        good("commit", place.commit(&batch));
    }
}
