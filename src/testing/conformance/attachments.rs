//! Values attached to checkpoints: which of a key stands, and that they live and die with theirs.

use std::time::{Duration, SystemTime};

use super::probe::{good, id, is_unsupported, refused};
use super::{Make, Place, Setup};
use crate::batch::{Batch, Committed, KEY_BYTES_MAX, OnExisting, PutOptions};
use crate::checkpoint::{CheckpointId, TypeTag};
use crate::error::ErrorKind;
use crate::query::{ThreadQuery, VacuumQuery};

cases![
    they_work_or_are_unsupported,
    keys_come_in_byte_order,
    a_bad_key_or_value_is_refused,
    the_first_or_the_last_of_a_key_stands,
    any_value_comes_back_and_is_the_places_own,
    threads_and_ids_are_kept_apart,
    they_may_come_before_their_checkpoint,
    they_stand_in_the_order_of_their_batch,
    a_refused_batch_attaches_nothing,
    putting_the_id_again_keeps_them,
    they_go_with_their_checkpoint,
    they_go_with_what_falls_out,
    they_go_with_what_is_vacuumed,
    an_id_made_again_has_none,
    what_has_only_attachments_is_no_thread,
    those_whose_checkpoint_never_came_go_in_time,
    those_of_one_batch_are_not_older_than_its_puts,
    many_in_one_batch,
];

/// A place as the setup asks, or None where nothing can be attached.
fn having(make: Make<'_>, setup: Setup) -> Option<Place> {
    let place = make(setup);
    place.capabilities().attachments.then_some(place)
}

#[track_caller]
pub(super) fn attach(place: &Place, thread: &str, own: &str, key: &str, value: &str) -> bool {
    good("attach", place.attach(thread, &id(own), key, TypeTag::BYTES, value.as_bytes(), OnExisting::Replace))
}

/// Keys and values, as one text.
#[track_caller]
pub(super) fn attached(place: &Place, thread: &str, own: &str) -> String {
    let attachments = good("attachments", place.attachments(thread, &id(own)));
    let shown = attachments.iter().map(|attachment| format!("{}={}", attachment.key, String::from_utf8_lossy(&attachment.value)));
    shown.collect::<Vec<_>>().join(" ")
}

/// Panics unless what is attached is this, before and after a reopening.
#[track_caller]
pub(super) fn expect(place: &mut Place, thread: &str, wanted: &[(&str, &str)]) {
    for reopened in [false, true] {
        for (own, wanted) in wanted {
            assert_eq!(attached(place, thread, own), *wanted, "what is attached to {own} of {thread}, reopened: {reopened}");
        }
        place.audit(thread);
        place.reopen();
    }
}

/// Where they are not had, both calls are `Unsupported` and a batch with one is refused whole; where
/// they are, all three work.
pub fn they_work_or_are_unsupported(make: Make<'_>) {
    let place = make(Setup::default());
    let own = place.put_text("t", "1");
    let mut batch = Batch::new();
    batch.put("u", TypeTag::JSON, b"1", PutOptions::default()).attach("t", own.clone(), "k", TypeTag::BYTES, b"1", OnExisting::Keep);
    let (committed, listed) = (place.commit(&batch), place.attachments("t", &own));
    let alone = place.attach("t", &own, "k2", TypeTag::BYTES, b"1", OnExisting::Keep);
    if place.capabilities().attachments {
        assert_eq!(good("commit", committed).last(), Some(&Committed::Attached { written: true }));
        assert!(good("attach", alone) && good("attachments", listed).len() == 1);
        assert_eq!(attached(&place, "t", own.as_str()), "k=1 k2=1");
    } else {
        assert!(is_unsupported(&committed) && is_unsupported(&listed) && is_unsupported(&alone), "what is not had is Unsupported");
        assert!(place.audit("u").is_empty(), "a refused batch leaves nothing");
    }
    assert_eq!(place.audit("t").len(), 1);
}

/// Byte order, whatever the order in which they came; a key is any text of 1 to 1,024 bytes.
pub fn keys_come_in_byte_order(make: Make<'_>) {
    let Some(mut place) = having(make, Setup::default()) else { return };
    let longest = "x".repeat(KEY_BYTES_MAX);
    let alike = longest[1..].to_owned() + "y";
    let awkward = super::ids::AWKWARD.iter().copied().filter(|key| *key != "x");
    let mut keys: Vec<&str> = awkward.chain([longest.as_str(), &alike, "x"]).collect();
    place.put_id("t", "a", "1");
    for (at, key) in keys.iter().enumerate() {
        assert!(good("attach", place.attach("t", &id("a"), key, TypeTag::BYTES, &[at as u8], OnExisting::Keep)), "{key:?}");
    }
    let values: std::collections::BTreeMap<&str, u8> = keys.iter().enumerate().map(|(at, key)| (*key, at as u8)).collect();
    keys.sort_unstable();
    for _ in 0..2 {
        let attachments = good("attachments", place.attachments("t", &id("a")));
        assert_eq!(attachments.iter().map(|attachment| attachment.key.as_str()).collect::<Vec<_>>(), keys);
        assert!(attachments.iter().all(|attachment| *attachment.value == [values[attachment.key.as_str()]]));
        place.reopen();
    }
}

/// A key of no bytes or too many, a thread that cannot be, JSON that is none: `InvalidInput`, and
/// nothing is attached.
pub fn a_bad_key_or_value_is_refused(make: Make<'_>) {
    let Some(mut place) = having(make, Setup::default()) else { return };
    place.put_id("t", "a", "1");
    let long = "x".repeat(KEY_BYTES_MAX + 1);
    let try_it = |thread: &str, key: &str, tag, value: &[u8]| place.attach(thread, &id("a"), key, tag, value, OnExisting::Keep);
    refused(ErrorKind::InvalidInput, "an empty key", try_it("t", "", TypeTag::BYTES, b""));
    refused(ErrorKind::InvalidInput, "a key too long", try_it("t", &long, TypeTag::BYTES, b""));
    refused(ErrorKind::InvalidInput, "no thread id", try_it("", "k", TypeTag::BYTES, b""));
    refused(ErrorKind::InvalidInput, "bad JSON", try_it("t", "k", TypeTag::JSON, b"NaN"));
    refused(ErrorKind::InvalidInput, "no thread id", place.attachments("", &id("a")));
    expect(&mut place, "t", &[("a", "")]);
}

/// `Keep` keeps the first and says so, `Replace` has the last stand, with its tag.
pub fn the_first_or_the_last_of_a_key_stands(make: Make<'_>) {
    let Some(mut place) = having(make, Setup::default()) else { return };
    place.put_id("t", "here", "1");
    for own in ["here", "to come"] {
        for (value, on, written, stands) in [
            ("1", OnExisting::Keep, true, "k=1"),
            ("2", OnExisting::Keep, false, "k=1"),
            ("3", OnExisting::Replace, true, "k=3"),
            ("4", OnExisting::Keep, false, "k=3"),
            ("5", OnExisting::Replace, true, "k=5"),
        ] {
            let answer = good("attach", place.attach("t", &id(own), "k", TypeTag::JSON, value.as_bytes(), on));
            assert_eq!(answer, written, "{value} {on:?}");
            expect(&mut place, "t", &[(own, stands)]);
        }
        let tag = good("a tag", TypeTag::new("own/tag"));
        assert!(good("attach", place.attach("t", &id(own), "k", tag.clone(), b"[6", OnExisting::Replace)));
        place.reopen();
        assert_eq!(good("attachments", place.attachments("t", &id(own)))[0].tag, tag);
    }
}

/// Any bytes, any JSON text, byte for byte; what the caller does with its own afterwards, or what
/// happens to the attachment, changes nothing of what was given or read.
pub fn any_value_comes_back_and_is_the_places_own(make: Make<'_>) {
    let Some(mut place) = having(make, Setup::default()) else { return };
    place.put_id("t", "a", "1");
    let texts = super::values::json_texts().into_iter().map(|text| (TypeTag::JSON, text.into_bytes()));
    let bytes = [vec![], vec![0], (0..=255).collect(), vec![7; 100_000]].map(|bytes| (TypeTag::BYTES, bytes));
    let values: Vec<(TypeTag, Vec<u8>)> = texts.chain(bytes).collect();
    for (at, (tag, value)) in values.iter().enumerate() {
        let mut given = value.clone();
        good("attach", place.attach("t", &id("a"), &format!("{at:05}"), tag.clone(), &given, OnExisting::Keep));
        given.fill(b'!');
    }
    for _ in 0..2 {
        let read = good("attachments", place.attachments("t", &id("a")));
        assert!(read.iter().map(|one| (&one.tag, &*one.value)).eq(values.iter().map(|(tag, value)| (tag, value.as_slice()))));
        place.reopen();
    }
    let read = good("attachments", place.attachments("t", &id("a")));
    assert!(attach(&place, "t", "a", "00000", "other"));
    good("delete", place.delete("t"));
    drop(place);
    assert_eq!(*read[0].value, *values[0].1);
}

/// One key at the same id in two threads, and at two ids in one, is another attachment each time.
pub fn threads_and_ids_are_kept_apart(make: Make<'_>) {
    let Some(mut place) = having(make, Setup::default()) else { return };
    let pairs = [("t", "a"), ("t", "b"), ("u", "a"), ("a", "t"), ("t/a", "k"), ("t", "a/k"), ("t", "A")];
    for (thread, own) in pairs {
        place.put_id(thread, own, "1");
        attach(&place, thread, own, "k", &format!("{thread}+{own}"));
    }
    for (thread, own) in pairs {
        expect(&mut place, thread, &[(own, &format!("k={thread}+{own}"))]);
    }
    good("delete_checkpoint", place.delete_checkpoint("t", &id("a")));
    expect(&mut place, "t", &[("a", ""), ("b", "k=t+b"), ("A", "k=t+A"), ("a/k", "k=t+a/k")]);
    expect(&mut place, "u", &[("a", "k=u+a")]);
}

/// What is attached to an id is listed before its checkpoint comes, and is there with it.
pub fn they_may_come_before_their_checkpoint(make: Make<'_>) {
    let Some(mut place) = having(make, Setup::default()) else { return };
    attach(&place, "new", "first", "k", "1");
    place.put_id("old", "a", "1");
    attach(&place, "old", "b", "k", "2");
    attach(&place, "old", "b", "l", "3");
    expect(&mut place, "new", &[("first", "k=1"), ("second", "")]);
    expect(&mut place, "old", &[("b", "k=2 l=3"), ("a", "")]);
    place.put_id("new", "first", "1");
    place.put_id("old", "b", "2");
    attach(&place, "old", "b", "m", "4");
    expect(&mut place, "new", &[("first", "k=1")]);
    expect(&mut place, "old", &[("b", "k=2 l=3 m=4")]);
    place.put_id("new", "second", "2");
    expect(&mut place, "new", &[("first", "k=1")]);
}

/// Puts, attachments and deletes of a batch see what stands before them in it.
pub fn they_stand_in_the_order_of_their_batch(make: Make<'_>) {
    let Some(mut place) = having(make, Setup::default()) else { return };
    let mut batch = Batch::new();
    let (a, b) = (id("a"), id("b"));
    let keep = OnExisting::Keep;
    batch.attach("t", a.clone(), "k", TypeTag::BYTES, b"1", keep).put("t", TypeTag::JSON, b"1", PutOptions::default().id(a.clone()));
    batch.attach("t", a.clone(), "k", TypeTag::BYTES, b"2", keep).attach("t", a.clone(), "l", TypeTag::BYTES, b"3", OnExisting::Replace);
    batch.put("t", TypeTag::JSON, b"2", PutOptions::default().id(b.clone())).attach("t", b.clone(), "k", TypeTag::BYTES, b"4", keep);
    batch.delete("t", Some(b.clone())).put("t", TypeTag::JSON, b"3", PutOptions::default().id(b.clone()));
    batch.attach("t", b.clone(), "m", TypeTag::BYTES, b"5", keep).attach("u", a.clone(), "k", TypeTag::BYTES, b"6", keep);
    batch.delete("u", None).attach("u", a, "l", TypeTag::BYTES, b"7", keep);
    let results = good("commit", place.commit(&batch));
    let written: Vec<bool> =
        results.iter().filter_map(|done| if let Committed::Attached { written } = done { Some(*written) } else { None }).collect();
    assert_eq!(written, [true, false, true, true, true, true, true]);
    assert_eq!(results[10], Committed::Deleted { existed: false });
    expect(&mut place, "t", &[("a", "k=1 l=3"), ("b", "m=5")]);
    expect(&mut place, "u", &[("a", "l=7")]);
}

/// Wherever the refused operation stands, what was attached is as it was.
pub fn a_refused_batch_attaches_nothing(make: Make<'_>) {
    let Some(mut place) = having(make, Setup { max_history: Some(2) }) else { return };
    place.put_id("t", "a", "1");
    attach(&place, "t", "a", "k", "1");
    attach(&place, "t", "b", "k", "2");
    for position in 0..=4 {
        let mut batch = Batch::new();
        for step in 0..=4 {
            if step == position {
                let parent = crate::batch::Parent::Id(id("never"));
                batch.put("t", TypeTag::JSON, b"1", PutOptions::default().parent(parent));
            }
            match step {
                0 => batch.attach("t", id("a"), "k", TypeTag::BYTES, b"9", OnExisting::Replace),
                1 => batch.attach("t", id("b"), "l", TypeTag::BYTES, b"9", OnExisting::Keep),
                2 => batch.delete("t", Some(id("a"))),
                3 => batch.attach("u", id("a"), "k", TypeTag::BYTES, b"9", OnExisting::Keep),
                _ => batch.delete("t", None),
            };
        }
        refused(ErrorKind::NotFound, "a batch", place.commit(&batch));
        expect(&mut place, "t", &[("a", "k=1"), ("b", "k=2")]);
        expect(&mut place, "u", &[("a", "")]);
    }
}

/// Replacing a checkpoint's state is not the end of it.
pub fn putting_the_id_again_keeps_them(make: Make<'_>) {
    let Some(mut place) = having(make, Setup { max_history: Some(3) }) else { return };
    for own in ["a", "b", "c"] {
        place.put_id("t", own, "1");
        attach(&place, "t", own, "k", own);
    }
    for own in ["a", "c", "b", "a"] {
        place.put_id("t", own, "2");
        expect(&mut place, "t", &[("a", "k=a"), ("b", "k=b"), ("c", "k=c")]);
    }
}

/// Deleting the checkpoint or its thread deletes them, those of others stay.
pub fn they_go_with_their_checkpoint(make: Make<'_>) {
    let Some(mut place) = having(make, Setup::default()) else { return };
    for (thread, own) in [("t", "a"), ("t", "b"), ("t", "c"), ("u", "a")] {
        place.put_id(thread, own, "1");
        attach(&place, thread, own, "k", own);
    }
    attach(&place, "t", "to come", "k", "1");
    assert!(good("delete_checkpoint", place.delete_checkpoint("t", &id("b"))));
    expect(&mut place, "t", &[("a", "k=a"), ("b", ""), ("c", "k=c"), ("to come", "k=1")]);
    assert!(!good("delete_checkpoint", place.delete_checkpoint("t", &id("to come"))), "there is no such checkpoint");
    expect(&mut place, "t", &[("a", "k=a"), ("to come", "")]);
    attach(&place, "t", "to come", "k", "2");
    assert!(good("delete", place.delete("t")));
    expect(&mut place, "t", &[("a", ""), ("b", ""), ("c", ""), ("to come", "")]);
    expect(&mut place, "u", &[("a", "k=a")]);
    assert!(good("delete_checkpoint", place.delete_checkpoint("u", &id("a"))), "the last one");
    expect(&mut place, "u", &[("a", "")]);
}

/// What a thread keeps no more has no attachments, whether a put or a lower number takes it.
pub fn they_go_with_what_falls_out(make: Make<'_>) {
    let Some(mut place) = having(make, Setup { max_history: Some(3) }) else { return };
    for own in ["a", "b", "c", "d"] {
        place.put_id("t", own, "1");
        attach(&place, "t", own, "k", own);
    }
    expect(&mut place, "t", &[("a", ""), ("b", "k=b"), ("c", "k=c"), ("d", "k=d")]);
    let lowered = place.retain(Some("t"), Some(2));
    if !is_unsupported(&lowered) {
        good("retain", lowered);
        expect(&mut place, "t", &[("b", ""), ("c", "k=c"), ("d", "k=d")]);
        good("retain", place.retain(Some("t"), Some(1)));
        expect(&mut place, "t", &[("c", ""), ("d", "k=d")]);
    }
    place.put_id("u", "a", "1");
    attach(&place, "u", "a", "k", "1");
    let mut batch = Batch::new();
    for own in ["b", "c", "d"] {
        batch.put("u", TypeTag::JSON, b"1", PutOptions::default().id(id(own))).attach(
            "u",
            id("a"),
            "l",
            TypeTag::BYTES,
            b"2",
            OnExisting::Keep,
        );
    }
    good("commit", place.commit(&batch));
    assert!(place.find_id("u", &id("a")).is_none());
    // The last of them came when its checkpoint had gone: it is attached to one that may come again.
    expect(&mut place, "u", &[("a", "l=2"), ("b", "")]);
}

/// A vacuum's are gone too: by number, by age, and of whole threads.
pub fn they_go_with_what_is_vacuumed(make: Make<'_>) {
    let Some(mut place) = having(make, Setup::default()) else { return };
    let has = place.capabilities();
    if !has.vacuum {
        return;
    }
    let old = SystemTime::now() - Duration::from_secs(9000);
    for (thread, own) in [("t", "a"), ("t", "b"), ("t", "c"), ("asleep", "a")] {
        place.put_text_with(thread, "1", PutOptions::default().id(id(own)).saved_at(old));
        attach(&place, thread, own, "k", own);
    }
    place.put_id("t", "d", "1");
    attach(&place, "asleep", "to come", "k", "1");
    attach(&place, "nobody", "to come", "k", "1");
    let by_count = VacuumQuery { thread: Some("t".to_owned()), keep: Some(3), ..VacuumQuery::default() };
    assert_eq!(good("vacuum", place.vacuum(&by_count)).checkpoints, 1);
    expect(&mut place, "t", &[("a", ""), ("b", "k=b"), ("c", "k=c")]);
    if !has.ttl {
        return;
    }
    let hour = Some(Duration::from_secs(3600));
    let by_age = VacuumQuery { thread: Some("t".to_owned()), older_than: hour, ..VacuumQuery::default() };
    good("vacuum", place.vacuum(&VacuumQuery { dry_run: true, ..by_age.clone() }));
    expect(&mut place, "t", &[("b", "k=b"), ("c", "k=c")]);
    assert_eq!(good("vacuum", place.vacuum(&by_age)).checkpoints, 2);
    expect(&mut place, "t", &[("b", ""), ("c", "")]);
    let idle = VacuumQuery { idle: hour, ..VacuumQuery::default() };
    let vacuumed = good("vacuum", place.vacuum(&idle));
    assert_eq!((vacuumed.checkpoints, vacuumed.threads), (1, 1), "what has only attachments is no thread");
    expect(&mut place, "asleep", &[("a", ""), ("to come", "")]);
    expect(&mut place, "nobody", &[("to come", "k=1")]);
}

/// A checkpoint that comes under an id that was deleted begins without any.
pub fn an_id_made_again_has_none(make: Make<'_>) {
    let Some(mut place) = having(make, Setup { max_history: Some(2) }) else { return };
    place.put_id("t", "a", "1");
    attach(&place, "t", "a", "k", "1");
    good("delete_checkpoint", place.delete_checkpoint("t", &id("a")));
    place.put_id("t", "a", "2");
    expect(&mut place, "t", &[("a", "")]);
    attach(&place, "t", "a", "k", "2");
    good("delete", place.delete("t"));
    place.put_id("t", "a", "3");
    expect(&mut place, "t", &[("a", "")]);
    attach(&place, "t", "a", "k", "3");
    ["b", "c", "a"].into_iter().for_each(|own| drop(place.put_id("t", own, "4")));
    expect(&mut place, "t", &[("a", "")]);
    let mut batch = Batch::new();
    batch.attach("t", id("a"), "k", TypeTag::BYTES, b"4", OnExisting::Keep).delete("t", Some(id("a")));
    batch.put("t", TypeTag::JSON, b"5", PutOptions::default().id(id("a")));
    good("commit", place.commit(&batch));
    expect(&mut place, "t", &[("a", "")]);
}

/// A thread exists once it has a checkpoint; deleting what is none answers so and takes the attachments.
pub fn what_has_only_attachments_is_no_thread(make: Make<'_>) {
    let Some(mut place) = having(make, Setup::default()) else { return };
    attach(&place, "t", "a", "k", "1");
    attach(&place, "t", "b", "k", "2");
    for _ in 0..2 {
        assert!(place.audit("t").is_empty());
        if place.capabilities().list_threads {
            assert!(place.thread_ids(&ThreadQuery::default()).is_empty());
            assert!(good("locate", place.locate(&id("a"))).is_empty());
        }
        let retained = place.retain(Some("t"), Some(1));
        if !is_unsupported(&retained) {
            refused(ErrorKind::NotFound, "retain", retained);
        }
        if place.capabilities().vacuum {
            let vacuumed = good("vacuum", place.vacuum(&VacuumQuery { keep: Some(1), ..VacuumQuery::default() }));
            assert_eq!((vacuumed.checkpoints, vacuumed.threads), (0, 0));
        }
        place.reopen();
    }
    expect(&mut place, "t", &[("a", "k=1"), ("b", "k=2")]);
    assert!(!good("delete", place.delete("t")), "it was no thread");
    expect(&mut place, "t", &[("a", ""), ("b", "")]);
    attach(&place, "t", "a", "k", "3");
    let of = |head| PutOptions::default().id(id("a")).expected_head(head);
    if place.capabilities().compare_and_put {
        place.put_text_with("t", "1", of(crate::batch::ExpectedHead::Empty));
        assert_eq!(place.audit("t")[0].parent, None);
        expect(&mut place, "t", &[("a", "k=3")]);
    }
}

/// An attachment without a checkpoint goes when the oldest that its thread keeps came after it, and not
/// before; that the clock says otherwise changes nothing.
pub fn those_whose_checkpoint_never_came_go_in_time(make: Make<'_>) {
    let Some(mut place) = having(make, Setup { max_history: Some(2) }) else { return };
    let at = |hours: u64| PutOptions::default().saved_at(SystemTime::UNIX_EPOCH + Duration::from_secs(3600 * hours));
    let put = |place: &Place, own: &str, hours| drop(place.put_text_with("t", "1", at(hours).id(id(own))));
    put(&place, "a", 100);
    attach(&place, "t", "never", "k", "1");
    attach(&place, "t", "never", "l", "1");
    put(&place, "b", 50);
    expect(&mut place, "t", &[("never", "k=1 l=1")]);
    // The value is another one, and newer: b stays behind it.
    attach(&place, "t", "never", "l", "2");
    put(&place, "c", 1);
    expect(&mut place, "t", &[("never", "l=2")]);
    put(&place, "b", 200);
    expect(&mut place, "t", &[("never", "l=2")]);
    put(&place, "d", 0);
    expect(&mut place, "t", &[("never", "")]);
    attach(&place, "t", "never", "k", "3");
    good("delete_checkpoint", place.delete_checkpoint("t", &id("d")));
    expect(&mut place, "t", &[("never", "k=3")]);
    put(&place, "e", 0);
    expect(&mut place, "t", &[("never", "k=3")]);
    good("delete_checkpoint", place.delete_checkpoint("t", &id("c")));
    expect(&mut place, "t", &[("never", ""), ("e", "")]);
    // The last checkpoint ends the thread, and all that waits in it.
    attach(&place, "t", "coming", "k", "4");
    good("delete_checkpoint", place.delete_checkpoint("t", &id("e")));
    expect(&mut place, "t", &[("coming", "")]);
    attach(&place, "t", "coming", "k", "5");
    put(&place, "coming", 0);
    expect(&mut place, "t", &[("coming", "k=5")]);
}

/// What a batch attaches is not older than what it puts: it can wait for a later batch.
pub fn those_of_one_batch_are_not_older_than_its_puts(make: Make<'_>) {
    let Some(mut place) = having(make, Setup { max_history: Some(2) }) else { return };
    let mut batch = Batch::new();
    batch.attach("t", id("b"), "k", TypeTag::BYTES, b"1", OnExisting::Keep);
    batch.put("t", TypeTag::JSON, b"1", PutOptions::default().id(id("a")));
    good("commit", place.commit(&batch));
    expect(&mut place, "t", &[("b", "k=1")]);
    place.put_id("u", "other", "1");
    place.put_id("t", "b", "2");
    expect(&mut place, "t", &[("b", "k=1"), ("a", "")]);
}

/// Hundreds at one checkpoint, and one at each of hundreds.
pub fn many_in_one_batch(make: Make<'_>) {
    let Some(mut place) = having(make, Setup::default()) else { return };
    let ids: Vec<CheckpointId> = (0..300).map(|at| id(&format!("c{at}"))).collect();
    let keys: Vec<String> = (0..300).map(|at| format!("{at:03}")).collect();
    let mut batch = Batch::new();
    for (own, key) in ids.iter().zip(&keys) {
        batch.put("t", TypeTag::JSON, b"1", PutOptions::default().id(own.clone()));
        batch.attach("t", own.clone(), key, TypeTag::BYTES, key.as_bytes(), OnExisting::Keep);
        batch.attach("t", ids[0].clone(), key, TypeTag::BYTES, b"", OnExisting::Keep);
    }
    good("commit", place.commit(&batch));
    for _ in 0..2 {
        assert_eq!(good("attachments", place.attachments("t", &ids[0])).len(), 300);
        for (own, key) in ids.iter().zip(&keys).skip(1) {
            assert_eq!(attached(&place, "t", own.as_str()), format!("{key}={key}"));
        }
        place.reopen();
    }
}
