//! Deleting by age, idle time and count: what goes, what never does, and what is counted.

use std::time::{Duration, SystemTime};

use super::probe::{Seen, good, id, refused};
use super::{Make, Place, Setup};
use crate::batch::{Batch, PutOptions};
use crate::checkpoint::TypeTag;
use crate::error::ErrorKind;
use crate::query::{ThreadQuery, VacuumQuery, Vacuumed};

cases![
    a_vacuum_that_asks_for_nothing_is_refused,
    the_newest_of_each_thread_are_kept,
    what_is_older_goes_and_no_head_does,
    clocks_label_and_need_not_rise,
    age_and_number_must_both_let_go,
    idle_threads_go_whole,
    a_dry_run_counts_and_changes_nothing,
    putting_again_makes_young,
    a_vacuumed_thread_goes_on,
    many_go_at_once,
];

const HOUR: Duration = Duration::from_secs(3600);

fn has_ages(place: &Place) -> bool {
    place.capabilities().vacuum && place.capabilities().ttl
}

/// Puts checkpoints that were saved so many hours ago, oldest first; a negative one is yet to come.
/// Each is named after its step.
fn put_aged(place: &Place, thread: &str, hours: &[i32]) {
    let now = SystemTime::now();
    for (step, hours) in hours.iter().enumerate() {
        let away = HOUR * hours.unsigned_abs();
        let saved_at = if *hours < 0 { now + away } else { now - away };
        place.put_text_with(thread, &step.to_string(), PutOptions::default().id(id(&format!("s{step}"))).saved_at(saved_at));
    }
}

fn keep(keep: usize) -> VacuumQuery {
    VacuumQuery { keep: Some(keep), ..VacuumQuery::default() }
}

fn older_than(hours: u32) -> VacuumQuery {
    VacuumQuery { older_than: Some(HOUR * hours), ..VacuumQuery::default() }
}

fn idle(hours: u32) -> VacuumQuery {
    VacuumQuery { idle: Some(HOUR * hours), ..VacuumQuery::default() }
}

#[track_caller]
fn vacuum(place: &Place, query: &VacuumQuery) -> (u64, u64) {
    let Vacuumed { checkpoints, threads } = good("vacuum", place.vacuum(query));
    (checkpoints, threads)
}

/// The states left, newest first, before and after a reopening.
#[track_caller]
fn left(place: &mut Place, thread: &str) -> String {
    let shown = |place: &Place| place.audit(thread).iter().map(Seen::text).collect::<Vec<_>>().join(" ");
    let before = shown(place);
    place.reopen();
    assert_eq!(shown(place), before, "{thread:?}, reopened");
    before
}

/// Without age, idle time or number, with a number of 0, or with no thread id, it is `InvalidInput`.
pub fn a_vacuum_that_asks_for_nothing_is_refused(make: Make<'_>) {
    let place = make(Setup::default());
    if !place.capabilities().vacuum {
        return;
    }
    place.put_text("t", "1");
    place.put_text("t", "2");
    for query in [
        VacuumQuery::default(),
        VacuumQuery { thread: Some("t".to_owned()), ..VacuumQuery::default() },
        VacuumQuery { dry_run: true, ..VacuumQuery::default() },
        keep(0),
        VacuumQuery { keep: Some(0), ..older_than(1) },
        VacuumQuery { thread: Some(String::new()), ..keep(1) },
    ] {
        refused(ErrorKind::InvalidInput, &format!("{query:?}"), place.vacuum(&query));
    }
    assert_eq!(place.audit("t").len(), 2);
}

/// A number trims every thread, or the one named; one that is not there has nothing to delete.
pub fn the_newest_of_each_thread_are_kept(make: Make<'_>) {
    let mut place = make(Setup::default());
    if !place.capabilities().vacuum {
        return;
    }
    for thread in ["a", "b"] {
        (0..5).for_each(|step| drop(place.put_text(thread, &step.to_string())));
    }
    place.put_text("c", "0");
    let of = |thread: &str, query: VacuumQuery| VacuumQuery { thread: Some(thread.to_owned()), ..query };
    assert_eq!(vacuum(&place, &of("nobody", keep(1))), (0, 0));
    assert_eq!(vacuum(&place, &of("a", keep(5))), (0, 0));
    assert_eq!(vacuum(&place, &of("a", keep(3))), (2, 0));
    assert_eq!(vacuum(&place, &of("a", keep(usize::MAX))), (0, 0));
    assert_eq!((left(&mut place, "a").as_str(), left(&mut place, "b").as_str()), ("4 3 2", "4 3 2 1 0"));
    assert_eq!(vacuum(&place, &keep(1)), (6, 0));
    assert_eq!(vacuum(&place, &keep(1)), (0, 0));
    assert_eq!((left(&mut place, "a").as_str(), left(&mut place, "b").as_str(), left(&mut place, "c").as_str()), ("4", "4", "0"));
}

/// An age takes what is older, in every thread, and of a thread that is all older all but its head.
pub fn what_is_older_goes_and_no_head_does(make: Make<'_>) {
    let mut place = make(Setup::default());
    if !has_ages(&place) {
        return;
    }
    put_aged(&place, "rising", &[9, 8, 7, 2, 1]);
    put_aged(&place, "old", &[9, 8, 7]);
    put_aged(&place, "young", &[2, 1]);
    put_aged(&place, "one", &[1000]);
    assert_eq!(vacuum(&place, &older_than(2000)), (0, 0));
    assert_eq!(vacuum(&place, &VacuumQuery { older_than: Some(Duration::MAX), idle: Some(Duration::MAX), ..keep(9) }), (0, 0));
    assert_eq!(vacuum(&place, &older_than(5)), (5, 0));
    assert_eq!((left(&mut place, "rising").as_str(), left(&mut place, "old").as_str()), ("4 3", "2"));
    assert_eq!((left(&mut place, "young").as_str(), left(&mut place, "one").as_str()), ("1 0", "0"));
    assert_eq!(vacuum(&place, &older_than(5)), (0, 0));
}

/// Ages go up and down along a thread, and some are yet to come: each checkpoint is judged by its own,
/// and the head is the newest by order.
pub fn clocks_label_and_need_not_rise(make: Make<'_>) {
    let mut place = make(Setup::default());
    if !has_ages(&place) {
        return;
    }
    put_aged(&place, "t", &[9, 1, 8, -5, 7, 7, 2, 9]);
    let parents: Vec<_> = place.audit("t").into_iter().map(|seen| (seen.id, seen.parent, seen.seq)).collect();
    assert_eq!(vacuum(&place, &older_than(5)), (4, 0));
    assert_eq!(left(&mut place, "t"), "7 6 3 1");
    for seen in place.audit("t") {
        assert!(parents.contains(&(seen.id, seen.parent, seen.seq)), "parents and seqs stay as they were");
    }
    for gone in ["s0", "s2", "s4", "s5"] {
        assert_eq!(place.find_id("t", &id(gone)), None);
    }
    put_aged(&place, "to come", &[-1, -2, -3]);
    assert_eq!(vacuum(&place, &VacuumQuery { older_than: Some(Duration::ZERO), ..idle(5) }), (4, 1));
    assert_eq!((left(&mut place, "t").as_str(), left(&mut place, "to come").as_str()), ("", "2 1 0"));
}

/// With both, a checkpoint goes that is older and not among the newest.
pub fn age_and_number_must_both_let_go(make: Make<'_>) {
    let mut place = make(Setup::default());
    if !has_ages(&place) {
        return;
    }
    put_aged(&place, "t", &[9, 1, 9, 9, 1, 9, 9]);
    assert_eq!(vacuum(&place, &VacuumQuery { keep: Some(3), ..older_than(5) }), (3, 0));
    assert_eq!(left(&mut place, "t"), "6 5 4 1");
    assert_eq!(vacuum(&place, &VacuumQuery { keep: Some(2), ..older_than(0) }), (2, 0));
    assert_eq!(left(&mut place, "t"), "6 5");
}

/// A thread whose head is old goes with all it has; the others are left, or to age and number.
pub fn idle_threads_go_whole(make: Make<'_>) {
    let mut place = make(Setup::default());
    if !has_ages(&place) {
        return;
    }
    let ages: [(&str, &[i32]); 4] = [("asleep", &[9, 1, 8]), ("awake", &[9, 8, 1]), ("ahead", &[9, -1]), ("one", &[9])];
    ages.iter().for_each(|(thread, hours)| put_aged(&place, thread, hours));
    assert_eq!(vacuum(&place, &VacuumQuery { thread: Some("awake".to_owned()), ..idle(5) }), (0, 0));
    assert_eq!(vacuum(&place, &VacuumQuery { thread: Some("one".to_owned()), ..idle(5) }), (1, 1));
    assert_eq!(vacuum(&place, &VacuumQuery { keep: Some(2), ..idle(5) }), (4, 1));
    for _ in 0..2 {
        if place.capabilities().list_threads {
            assert_eq!(place.thread_ids(&ThreadQuery::default()), ["ahead", "awake"]);
        }
        assert!(place.audit("asleep").is_empty() && place.audit("one").is_empty());
        assert!(!good("delete", place.delete("asleep")), "it was gone already");
        place.reopen();
    }
    assert_eq!((left(&mut place, "awake").as_str(), left(&mut place, "ahead").as_str()), ("2 1", "1 0"));
    place.put_text("asleep", "9");
    assert_eq!(place.audit("asleep")[0].parent, None, "a new history");
}

/// It counts what the real one then deletes.
pub fn a_dry_run_counts_and_changes_nothing(make: Make<'_>) {
    let place = make(Setup::default());
    if !has_ages(&place) {
        return;
    }
    put_aged(&place, "a", &[9, 1, 9, 9, 1, 9, 9]);
    put_aged(&place, "b", &[9, 1, 1]);
    put_aged(&place, "c", &[90, 90]);
    let before = place.picture(&["a", "b", "c"]);
    let both = VacuumQuery { keep: Some(1), idle: Some(HOUR * 50), ..older_than(5) };
    for (query, count) in [(keep(2), (6, 0)), (older_than(5), (6, 0)), (idle(50), (2, 1)), (both, (7, 1))] {
        assert_eq!(vacuum(&place, &VacuumQuery { dry_run: true, ..query.clone() }), count, "{query:?}");
        assert_eq!(place.picture(&["a", "b", "c"]), before);
        if query.older_than.is_some() && query.idle.is_some() {
            assert_eq!(vacuum(&place, &query), count);
        }
    }
}

/// An id that is put again has its new age, and keeps its place.
pub fn putting_again_makes_young(make: Make<'_>) {
    let mut place = make(Setup::default());
    if !has_ages(&place) {
        return;
    }
    put_aged(&place, "t", &[9, 9, 9, 9]);
    place.put_id("t", "s1", "\"young\"");
    assert_eq!(vacuum(&place, &older_than(5)), (2, 0));
    assert_eq!(left(&mut place, "t"), "3 \"young\"");
    place.put_id("t", "s3", "\"awake\"");
    assert_eq!(vacuum(&place, &idle(5)), (0, 0));
    assert_eq!(left(&mut place, "t"), "\"awake\" \"young\"");
}

/// What is put after it follows the head, has a higher seq, and may have an id that went.
pub fn a_vacuumed_thread_goes_on(make: Make<'_>) {
    let mut place = make(Setup::default());
    if !place.capabilities().vacuum {
        return;
    }
    (0..4).for_each(|step| drop(place.put_id("t", &format!("s{step}"), &step.to_string())));
    let head = place.newest("t");
    assert_eq!(vacuum(&place, &keep(1)), (3, 0));
    place.put_id("t", "s0", "\"again\"");
    let newest = place.newest("t");
    assert!(newest.seq > head.seq && newest.parent == Some(head.id), "{newest:?}");
    assert_eq!(left(&mut place, "t"), "\"again\" 3");
}

/// Thousands in one thread, every other one old, and hundreds of threads.
pub fn many_go_at_once(make: Make<'_>) {
    const STEPS: u32 = 4000;
    const THREADS: u32 = 600;
    let mut place = make(Setup::default());
    if !has_ages(&place) {
        return;
    }
    let now = SystemTime::now();
    let aged = |hours: u32| PutOptions::default().saved_at(now - HOUR * hours);
    let (mut long, mut wide) = (Batch::new(), Batch::new());
    for step in 0..STEPS {
        long.put("long", TypeTag::JSON, b"1", aged(if step % 2 == 0 { 9 } else { 1 }));
    }
    let names: Vec<String> = (0..THREADS).map(|number| format!("wide {number:03}")).collect();
    for (number, name) in names.iter().enumerate() {
        wide.put(name, TypeTag::JSON, b"1", aged(9)).put(name, TypeTag::JSON, b"2", aged(if number % 3 == 0 { 9 } else { 1 }));
    }
    good("commit", place.commit(&long));
    good("commit", place.commit(&wide));
    let query = VacuumQuery { idle: Some(HOUR * 5), ..older_than(5) };
    let old = u64::from(STEPS / 2 + THREADS + THREADS / 3);
    assert_eq!(vacuum(&place, &VacuumQuery { dry_run: true, ..query.clone() }), (old, u64::from(THREADS / 3)));
    assert_eq!(vacuum(&place, &query), (old, u64::from(THREADS / 3)));
    assert_eq!(vacuum(&place, &query), (0, 0));
    for _ in 0..2 {
        assert_eq!(place.seen("long").len(), STEPS as usize / 2);
        for (number, name) in names.iter().enumerate() {
            assert_eq!(place.states(name).len(), usize::from(number % 3 != 0), "{name}");
        }
        place.reopen();
    }
}
