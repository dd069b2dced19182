//! What once went wrong between processes: each of these failed before it was mended.

use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use super::failing::{Action, Failing, Fault, Kind, Moment};
use super::faults::{contents, options, put};
use super::other::{Other, SEGMENT, open};
use super::{Scratch, image, index_is_derived};
use crate::batch::{Batch, Durability, PutOptions};
use crate::checkpoint::TypeTag;
use crate::checkpointer::Checkpointer;
use crate::error::ErrorKind;
use crate::format::SEQS_END;
use crate::log::Store;

fn len(store: &Store, thread: &str) -> usize {
    contents(store).get(thread).map_or(0, Vec::len)
}

#[test]
fn an_opener_trims_by_no_limit_that_is_over() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let one = options(&Failing::default()).max_history(5).open(scratch.dir()).unwrap();
    (0..5).for_each(|_| put(&one, "t", 10, Durability::Sync).unwrap());
    // The opener has read the manifest, and not the log yet.
    layer.set(Some(Fault { only: SEGMENT, ..Fault::once(Kind::Open, Action::Pause, Moment::Before) }));
    std::thread::scope(|scope| {
        let opening = scope.spawn(|| open(&scratch, &layer));
        layer.paused();
        one.retain(None, None).unwrap();
        (0..20).for_each(|_| put(&one, "t", 10, Durability::Sync).unwrap());
        assert_eq!(len(&one, "t"), 25);
        layer.resume();
        opening.join().unwrap();
    });
    assert_eq!(len(&one, "t"), 25, "an opener trimmed what was put under no limit");
}

#[test]
fn a_lowering_trims_nothing_once_the_limit_was_raised_again() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let (one, other) = (open(&scratch, &layer), open(&scratch, &Failing::default()));
    (0..6).for_each(|_| put(&one, "t", 10, Durability::Sync).unwrap());
    // Between the manifest and the trims.
    layer.set(Some(Fault { from: 1, only: Some("write.lock"), ..Fault::once(Kind::TryLock, Action::Pause, Moment::Before) }));
    std::thread::scope(|scope| {
        let lowering = scope.spawn(|| one.retain(None, Some(5)));
        layer.paused();
        other.retain(None, None).unwrap();
        (0..20).for_each(|_| put(&other, "t", 10, Durability::Sync).unwrap());
        layer.resume();
        lowering.join().unwrap().unwrap();
    });
    assert!(len(&other, "t") >= 20, "{} are left of what was put under no limit", len(&other, "t"));
}

#[test]
fn a_death_in_a_sync_costs_one_fresh_segment_and_not_one_each_put() {
    let scratch = Scratch::new();
    let old = open(&scratch, &Failing::default());
    put(&old, "first", 10, Durability::Sync).unwrap();
    let other = Other::stopped_in_its_sync(&scratch);
    let young = open(&scratch, &Failing::default());
    other.kill();
    let mut counts = Vec::new();
    for _ in 0..10 {
        for store in [&young, &old] {
            put(store, "more", 10, Durability::Sync).unwrap();
            counts.push(store.stats().unwrap().segments);
        }
    }
    index_is_derived(&old, &scratch.dir());
    assert!(counts.last().unwrap() < &5, "{counts:?}");
}

#[test]
fn a_death_in_a_sync_does_not_make_others_read_the_whole_store_in_their_turn() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let old = open(&scratch, &Failing::default());
    for _ in 0..400 {
        put(&old, "big", 60_000, Durability::Buffered).unwrap();
    }
    let other = Other::stopped_in_its_sync(&scratch);
    let young = open(&scratch, &layer);
    other.kill();
    let before = layer.bytes_read.load(SeqCst);
    put(&young, "more", 10, Durability::Sync).unwrap();
    let read = layer.bytes_read.load(SeqCst) - before;
    assert!(read < 1 << 20, "{read} bytes were read");
}

#[test]
fn a_watch_tells_nothing_that_was_visible_before_it_was_made() {
    let scratch = Scratch::new();
    let old = open(&scratch, &Failing::default());
    put(&old, "first", 10, Durability::Sync).unwrap();
    let other = Other::stopped_in_its_sync(&scratch);
    let young = open(&scratch, &Failing::default());
    other.kill();
    young.sync().unwrap();
    // In doubt again: one that dies in its sync.
    put(&young, "before", 10, Durability::Buffered).unwrap();
    let other = Other::stopped_in_its_sync(&scratch);
    let third = open(&scratch, &Failing::default());
    assert!(third.exists("before").unwrap(), "it is visible");
    let mut watch = third.watch(None).unwrap();
    other.kill();
    put(&third, "after", 10, Durability::Sync).unwrap();
    let mut told = Vec::new();
    while let Some(info) = watch.wait(Duration::from_millis(50)).unwrap() {
        told.push(info.thread.to_string());
    }
    assert!(!told.contains(&"before".to_owned()), "{told:?}");
}

#[test]
fn a_reader_beside_a_writing_anew_meets_no_error() {
    let scratch = Scratch::new();
    let store = open(&scratch, &Failing::default());
    put(&store, "t", 10, Durability::Sync).unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    let failed = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut failed = Vec::new();
                    while !done.load(SeqCst) {
                        if let Err(error) = store.get_bytes("t") {
                            failed.push(error.to_string());
                        }
                    }
                    failed
                })
            })
            .collect();
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(2) {
            // A new empty segment, one put that is not synced, and that written anew: what a death in a
            // sync brings about.
            put(&store, "large", 20_000, Durability::Sync).unwrap();
            put(&store, "t", 10, Durability::Buffered).unwrap();
            store.shared.turn().unwrap().write_anew(&store.shared).unwrap();
        }
        done.store(true, SeqCst);
        readers.into_iter().flat_map(|reader| reader.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(failed.is_empty(), "{} failed, such as {:?}", failed.len(), failed[0]);
}

#[test]
fn a_read_only_handle_that_met_a_dead_batch_goes_on() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let survivor = open(&scratch, &Failing::default());
    put(&survivor, "first", 10, Durability::Sync).unwrap();
    (0..5).for_each(|_| put(&survivor, "fill", 10_000, Durability::Sync).unwrap());
    // The reader has read the page, and not the manifest that it judges by.
    layer.set(Some(Fault { only: Some("tail"), ..Fault::once(Kind::Read, Action::Pause, Moment::After) }));
    let reader = std::thread::scope(|scope| {
        let opening = scope.spawn(|| options(&layer).read_only(true).open(scratch.dir()).unwrap());
        layer.paused();
        // It rotates, writes its batch and dies before it is appended: its writes are the header of the
        // next segment and the batch.
        let fault = Fault { from: 1, only: SEGMENT, ..Fault::once(Kind::Write, Action::Kill, Moment::After) };
        assert_eq!(Other::start(&scratch.dir(), "a put that rotates", fault).ended(), None);
        layer.set(None);
        layer.resume();
        opening.join().unwrap()
    });
    for _ in 0..3 {
        put(&survivor, "more", 5_000, Durability::Sync).unwrap();
    }
    assert!(!survivor.exists("new").unwrap());
    assert_eq!(contents(&reader).keys().collect::<Vec<_>>(), contents(&survivor).keys().collect::<Vec<_>>());
}

#[test]
fn what_a_dead_one_wrote_anew_is_not_called_damage_later() {
    let scratch = Scratch::new();
    let old = open(&scratch, &Failing::default());
    // Nothing is synced in this segment.
    put(&old, "first", 10, Durability::Buffered).unwrap();
    let fault = Fault { only: SEGMENT, ..Fault::once(Kind::Sync, Action::Kill, Moment::Before) };
    assert_eq!(Other::start(&scratch.dir(), "a durable put", fault).ended(), None);
    // In doubt; writes anew and is killed before it removes what is retired.
    let fault = Fault { only: Some("0000000000000001.seg"), ..Fault::once(Kind::Remove, Action::Kill, Moment::Before) };
    assert_eq!(Other::start(&scratch.dir(), "a durable put", fault).ended(), None);
    // The survivor goes on through a rotation.
    for _ in 0..8 {
        put(&old, "more", 12_000, Durability::Sync).unwrap();
    }
    let expected = contents(&old);
    drop(old);
    let again = Store::open(scratch.dir()).unwrap();
    assert_eq!(contents(&again), expected);
    let findings = again.verify().unwrap();
    assert!(findings.iter().all(|finding| !finding.damage), "{findings:?}");
}

#[test]
fn a_sync_that_may_still_fail_is_not_counted_as_harmless() {
    let scratch = Scratch::new();
    let old = open(&scratch, &Failing::default());
    put(&old, "first", 10, Durability::Sync).unwrap();
    // Counted as begun, not made yet.
    let other = Other::stopped_in_its_sync(&scratch);
    put(&old, "old", 10, Durability::Sync).unwrap();
    // What is appended now is covered by no sync; the stopped one's would be the first, fails, and its
    // process dies before it says so.
    put(&old, "buffered", 10, Durability::Buffered).unwrap();
    other.kill();
    let young = open(&scratch, &Failing::default());
    let (opened_at, proven) = (young.shared.follower.sync_target().opened_at, young.shared.tail.syncs_proven());
    assert!(opened_at > proven, "opened at {opened_at}, proven {proven}: a sync from here is trusted");
}

#[test]
fn one_who_lags_far_behind_keeps_no_views_that_nobody_sees() {
    let scratch = Scratch::new();
    let (one, lagging) = (open(&scratch, &Failing::default()), open(&scratch, &Failing::default()));
    (0..5_000).for_each(|_| put(&one, "t", 10, Durability::Buffered).unwrap());
    let shared = &lagging.shared;
    shared.follow_to(shared.tail.visible()).unwrap();
    assert!(shared.index.unshown() < 1_000, "{} batches are kept", shared.index.unshown());
    assert_eq!(contents(&lagging), contents(&one));
}

/// Kills of one walk.
fn kills(from: u64) -> impl Iterator<Item = Fault> {
    [(Moment::Before, None, 0), (Moment::Before, Some(Kind::Write), 700), (Moment::After, None, 0)]
        .into_iter()
        .map(move |(moment, kind, short)| Fault { from, short, moment, kind, ..Fault::once(Kind::Write, Action::Kill, Moment::Before) })
}

#[test]
fn one_in_doubt_may_be_killed_at_each_operation() {
    let mut killed = 0;
    for buffered in [false, true] {
        for job in ["a durable put"] {
            for from in 0.. {
                let mut met = false;
                for fault in kills(from) {
                    let context = format!("{job}, buffered {buffered}, {fault:?}");
                    let scratch = Scratch::new();
                    let survivor = open(&scratch, &Failing::default());
                    put(&survivor, "a", 300, if buffered { Durability::Buffered } else { Durability::Sync }).unwrap();
                    let fill = if job == "a put that rotates" { 5 } else { 1 };
                    (0..fill).for_each(|_| put(&survivor, "fill", 10_000, Durability::Buffered).unwrap());
                    let first = Fault { only: SEGMENT, ..Fault::once(Kind::Sync, Action::Kill, Moment::Before) };
                    assert_eq!(Other::start(&scratch.dir(), "a durable put", first).ended(), None);
                    if Other::start(&scratch.dir(), job, fault).ended().is_some() {
                        continue;
                    }
                    (met, killed) = (true, killed + 1);
                    let third = open(&scratch, &Failing::default());
                    for _ in 0..4 {
                        for store in [&survivor, &third] {
                            put(store, "more", 6_000, Durability::Sync).unwrap_or_else(|error| panic!("{context}: {error}"));
                        }
                    }
                    let found = contents(&survivor);
                    assert_eq!(found, contents(&third), "{context}");
                    assert!(found["a"].len() == 1 && found["fill"].len() == fill && found["more"].len() == 8, "{context}");
                    index_is_derived(&survivor, &scratch.dir());
                    drop((survivor, third));
                    super::faults::reopens(&scratch.dir(), &[found], &context);
                }
                if !met {
                    break;
                }
            }
        }
    }
}

#[test]
fn a_follower_that_meets_an_error_goes_on_afterwards() {
    use rustix::io::Errno;
    for read_only in [false, true] {
        for errno in [Errno::IO, Errno::MFILE, Errno::NOMEM] {
            for from in 0.. {
                let (scratch, layer) = (Scratch::new(), Failing::default());
                let one = open(&scratch, &Failing::default());
                put(&one, "first", 10, Durability::Sync).unwrap();
                let other = options(&layer).read_only(read_only).open(scratch.dir()).unwrap();
                for _ in 0..3 {
                    (0..6).for_each(|_| put(&one, "more", 12_000, Durability::Sync).unwrap());
                    put(&one, "large", 30_000, Durability::Sync).unwrap();
                }
                layer.set(Some(Fault::fail(from, None, true, errno, 0)));
                let answer = other.get_bytes("more").map(drop);
                let put_answer = if read_only { Ok(()) } else { put(&other, "x", 10, Durability::Buffered) };
                let failed = layer.failed();
                layer.set(None);
                let context = format!("{read_only} {failed:?} {answer:?} {put_answer:?}");
                assert_eq!(contents(&other), contents(&one), "{context}");
                let poisoned = put_answer.is_err_and(|error| error.kind() == ErrorKind::Poisoned);
                assert!(!poisoned || failed[0].0 == Kind::Write, "{context}");
                if !read_only && !poisoned {
                    put(&other, "y", 10, Durability::Sync).unwrap_or_else(|error| panic!("{context}: {error}"));
                }
                index_is_derived(&other, &scratch.dir());
                if failed.is_empty() {
                    break;
                }
            }
        }
    }
}

#[test]
fn a_reader_of_before_the_first_writer_follows_it() {
    type Prepare = fn(&std::path::Path);
    let prepares: [(&str, Prepare); 4] = [
        ("clean", |_| ()),
        ("no page", |dir| std::fs::remove_file(dir.join("tail")).unwrap()),
        ("short page", |dir| std::fs::write(dir.join("tail"), b"x").unwrap()),
        ("zero page", |dir| std::fs::write(dir.join("tail"), [0; 4096]).unwrap()),
    ];
    for (name, prepare) in prepares {
        for boot in [false, true] {
            let (scratch, layer) = (Scratch::new(), Failing::default());
            let one = open(&scratch, &Failing::default());
            (0..7).for_each(|_| put(&one, "first", 10_000, Durability::Buffered).unwrap());
            std::mem::forget(one.clone());
            // As if killed: nothing is synced, locks are given up.
            let copy = Scratch::new();
            image(&scratch.dir(), &copy.dir());
            prepare(&copy.dir());
            if boot {
                layer.set_boot([9; 16]);
            }
            let reader = options(&layer).read_only(true).open(copy.dir()).unwrap();
            let before = contents(&reader);
            let writer = options(&layer).open(copy.dir()).unwrap();
            assert_eq!(contents(&writer), contents(&reader), "{name} {boot}");
            for _ in 0..20 {
                put(&writer, "second", 10_000, Durability::Sync).unwrap();
                assert_eq!(contents(&writer), contents(&reader), "{name} {boot} {:?}", before.keys());
            }
        }
    }
}

#[test]
fn damage_that_a_follower_meets_costs_what_stands_there_alone() {
    use std::os::unix::fs::FileExt;
    for read_only in [true, false] {
        let scratch = Scratch::new();
        let one = open(&scratch, &Failing::default());
        put(&one, "first", 10, Durability::Sync).unwrap();
        let other = options(&Failing::default()).read_only(read_only).open(scratch.dir()).unwrap();
        assert!(other.exists("first").unwrap());
        let at = one.shared.tail.appended();
        put(&one, "damaged", 10, Durability::Sync).unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(scratch.dir().join("0000000000000001.seg")).unwrap();
        file.write_all_at(&[0xff], at + 60).unwrap();
        for _ in 0..10 {
            put(&one, "more", 12_000, Durability::Sync).unwrap();
        }
        let answers = [other.exists("first").map_err(|error| error.kind()), other.exists("more").map_err(|error| error.kind())];
        println!("read-only {read_only}: first and more: {answers:?}; verify: {}", other.verify().unwrap().len());
        assert_eq!(answers, [Ok(true), Ok(true)], "read-only {read_only}");
    }
}

#[test]
fn a_put_ends_where_the_page_went_backwards_before_its_sync() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let one = open(&scratch, &layer);
    put(&one, "first", 10, Durability::Sync).unwrap();
    let older = std::fs::read(scratch.dir().join("tail")).unwrap();
    layer.set(Some(Fault { only: Some("write.lock"), ..Fault::once(Kind::Unlock, Action::Pause, Moment::After) }));
    std::thread::scope(|scope| {
        let putting = scope.spawn(|| put(&one, "t", 10, Durability::Sync));
        layer.paused();
        std::fs::write(scratch.dir().join("tail"), older).unwrap();
        let syncs = layer.syncs.load(SeqCst);
        layer.set(None);
        layer.resume();
        std::thread::sleep(Duration::from_secs(2));
        let ended = putting.is_finished();
        let syncs = layer.syncs.load(SeqCst) - syncs;
        one.shared.tail.poison(one.shared.epoch);
        assert!(ended, "it syncs without end: {syncs} syncs in 2 s");
    });
}

#[test]
fn a_read_after_others_wrote_anew_does_not_read_the_whole_store() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let old = open(&scratch, &layer);
    for _ in 0..400 {
        put(&old, "big", 60_000, Durability::Buffered).unwrap();
    }
    put(&old, "small", 10, Durability::Sync).unwrap();
    put(&old, "small", 10, Durability::Buffered).unwrap();
    let other = Other::stopped_in_its_sync(&scratch);
    let young = open(&scratch, &Failing::default());
    other.kill();
    put(&young, "more", 10, Durability::Sync).unwrap();
    let before = layer.bytes_read.load(SeqCst);
    assert!(old.exists("small").unwrap());
    let read = layer.bytes_read.load(SeqCst) - before;
    assert!(read < 1 << 20, "one get read {read} bytes");
}

#[test]
fn a_late_sync_of_an_older_segment_proves_nothing_of_a_newer_one() {
    let scratch = Scratch::new();
    let (late, other) = (open(&scratch, &Failing::default()), open(&scratch, &Failing::default()));
    put(&late, "first", 10, Durability::Sync).unwrap();
    // As `Lead::sync` does it: it has found its target in force, and is stopped before it counts its sync.
    let (appended, target) = (late.shared.tail.appended(), late.shared.follower.sync_target());
    assert!(target.generation >= late.shared.tail.generation() && target.opened_at <= late.shared.tail.syncs_proven());
    for _ in 0..6 {
        put(&other, "other", 12_000, Durability::Sync).unwrap();
    }
    // A sync of the newer segment, of which nobody knows how it ended.
    let fault = Fault { only: SEGMENT, ..Fault::once(Kind::Sync, Action::Kill, Moment::After) };
    assert_eq!(Other::start(&scratch.dir(), "a durable put", fault).ended(), None);
    let number = late.shared.tail.begin_sync(true);
    target.file.sync().unwrap();
    late.shared.tail.end_sync(number, appended, true);
    let young = open(&scratch, &Failing::default());
    let (opened_at, proven) = (young.shared.follower.sync_target().opened_at, young.shared.tail.syncs_proven());
    assert!(opened_at > proven, "opened at {opened_at}, proven {proven}");
}

#[test]
fn a_worker_that_follows_while_another_writes_anew_takes_nothing_in_twice() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let old = open(&scratch, &Failing::default());
    put(&old, "first", 10, Durability::Sync).unwrap();
    let other = Other::stopped_in_its_sync(&scratch);
    let young = open(&scratch, &layer);
    other.kill();
    // The fresh segment is listed, and the ends are not raised to it.
    layer.set(Some(Fault { only: Some(".seg.new"), ..Fault::once(Kind::Rename, Action::Pause, Moment::After) }));
    std::thread::scope(|scope| {
        let putting = scope.spawn(|| put(&young, "young", 10, Durability::Sync));
        layer.paused();
        young.shared.follow_to(young.shared.tail.appended()).unwrap();
        layer.resume();
        putting.join().unwrap().unwrap();
    });
    assert_eq!(contents(&young), contents(&old));
    index_is_derived(&young, &scratch.dir());
}

/// What was seen is not missed by anyone while it is written anew, however long that takes.
#[test]
fn what_others_have_seen_is_seen_while_it_is_written_anew() {
    for is_killed in [false, true] {
        let scratch = Scratch::new();
        let behind = [false, true].map(|read_only| options(&Failing::default()).read_only(read_only));
        let store = open(&scratch, &Failing::default());
        put(&store, "first", 10, Durability::Sync).unwrap();
        let behind = behind.map(|options| options.open(scratch.dir()).unwrap());
        put(&store, "seen", 10, Durability::Buffered).unwrap();
        let other = Other::stopped_in_its_sync(&scratch);
        // It is in doubt of what the stopped one did, and writes anew; the ends are not raised to where that stands.
        let fault = |action| Fault { only: Some(".seg.new"), ..Fault::once(Kind::Rename, action, Moment::After) };
        let held = if is_killed {
            other.kill();
            assert_eq!(Other::start(&scratch.dir(), "a durable put", fault(Action::Kill)).ended(), None);
            None
        } else {
            let writer = Other::stopped(&scratch.dir(), "a durable put", fault(Action::Stop));
            Some((other, writer))
        };
        let opened = [false, true].map(|read_only| options(&Failing::default()).read_only(read_only).open(scratch.dir()).unwrap());
        for reader in behind.iter().chain([&store]).chain(&opened) {
            assert!(reader.exists("seen").unwrap(), "killed: {is_killed}, {reader:?}");
        }
        if let Some((other, writer)) = held {
            writer.go_on();
            assert_eq!(writer.ended(), Some(true));
            other.kill();
        }
        put(&store, "more", 10, Durability::Sync).unwrap();
        for reader in behind.iter().chain([&store]).chain(&opened) {
            assert_eq!(contents(reader), contents(&store), "killed: {is_killed}");
        }
        index_is_derived(&store, &scratch.dir());
    }
}

/// Who began a segment died before it gave it its name, and others go on with the store.
#[test]
fn what_was_deleted_goes_from_a_segment_under_its_working_name_too() {
    let scratch = Scratch::new();
    let store = open(&scratch, &Failing::default());
    put(&store, "first", 10, Durability::Sync).unwrap();
    let fault = Fault { only: Some(".seg.new"), ..Fault::once(Kind::Rename, Action::Kill, Moment::Before) };
    assert_eq!(Other::start(&scratch.dir(), "a put in a segment of its own", fault).ended(), None);
    let unnamed = || {
        let names = std::fs::read_dir(scratch.dir()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.ends_with(".seg.new")).collect::<Vec<_>>()
    };
    assert_eq!(unnamed().len(), 1);
    assert!(store.exists("new").unwrap(), "it is listed");
    store.delete("new").unwrap();
    store.compact().unwrap();
    assert_eq!(unnamed(), [""; 0]);
    index_is_derived(&store, &scratch.dir());
}

#[test]
fn a_follower_that_fails_on_its_way_through_what_was_written_anew_takes_nothing_in_twice() {
    for (kind, from) in [Kind::Length, Kind::Open, Kind::Read, Kind::Map].into_iter().flat_map(|kind| (0..4).map(move |from| (kind, from)))
    {
        let (scratch, layer) = (Scratch::new(), Failing::default());
        let old = open(&scratch, &layer);
        put(&old, "first", 10, Durability::Sync).unwrap();
        let other = Other::stopped_in_its_sync(&scratch);
        let young = open(&scratch, &Failing::default());
        other.kill();
        // It has taken in what the dead one appended, before that is written anew.
        old.shared.follow_to(old.shared.tail.appended()).unwrap();
        put(&young, "young", 10, Durability::Sync).unwrap();
        layer.set(Some(Fault::fail(from, kind, true, rustix::io::Errno::IO, 0)));
        // It fails here or does not; what counts is what it goes on from.
        let _ = old.get_bytes("young");
        layer.set(None);
        put(&old, "old", 10, Durability::Sync).unwrap();
        assert_eq!(contents(&old), contents(&young), "{kind:?} {from}");
        index_is_derived(&old, &scratch.dir());
    }
}

#[test]
fn an_opener_that_comes_second_to_a_poisoned_store_ends_no_epoch() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let failing = open(&scratch, &layer);
    put(&failing, "first", 10, Durability::Sync).unwrap();
    layer.set(Some(Fault::fail(0, Kind::Sync, true, rustix::io::Errno::IO, 0)));
    assert_eq!(put(&failing, "lost", 10, Durability::Sync).unwrap_err().kind(), ErrorKind::Poisoned);
    layer.set(Some(Fault { only: Some("write.lock"), ..Fault::once(Kind::TryLock, Action::Pause, Moment::Before) }));
    std::thread::scope(|scope| {
        let second = scope.spawn(|| open(&scratch, &layer));
        layer.paused();
        std::fs::remove_file(scratch.dir().join("open.lock")).unwrap();
        let first = open(&scratch, &Failing::default());
        layer.set(None);
        layer.resume();
        let second = second.join().unwrap();
        for store in [&first, &second] {
            put(store, "more", 10, Durability::Sync).unwrap();
        }
        assert_eq!(contents(&first), contents(&second));
    });
}

#[test]
fn a_large_put_comes_through_where_others_keep_changing_the_length_of_its_record() {
    let scratch = Scratch::new();
    let (large, small) = (open(&scratch, &Failing::default()), open(&scratch, &Failing::default()));
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0.. {
                if done.load(SeqCst) {
                    return;
                }
                // It becomes the parent that the large one's record names.
                let id = crate::CheckpointId::new("x".repeat(1 + number * 37 % 200)).unwrap();
                let options = PutOptions::default().id(id).durability(Durability::Buffered);
                small.delete("t").unwrap();
                small.put_bytes("t", TypeTag::BYTES, b"small", options).unwrap();
            }
        });
        let answers: Vec<_> = (0..40).map(|_| put(&large, "t", 40_000, Durability::Sync)).collect();
        done.store(true, SeqCst);
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    });
    assert_eq!(contents(&large), contents(&small));
    index_is_derived(&large, &scratch.dir());
}

#[test]
fn a_batch_that_would_reach_the_last_number_is_refused_and_a_shorter_one_is_not() {
    let scratch = Scratch::new();
    let store = open(&scratch, &Failing::default());
    store.shared.tail.raise_next_seq(SEQS_END - 3);
    for (puts, refused) in [(3, Some(ErrorKind::Corrupt)), (2, None), (1, Some(ErrorKind::Corrupt))] {
        let mut batch = Batch::new();
        (0..puts).for_each(|_| _ = batch.put("t", TypeTag::BYTES, b"state", PutOptions::default()));
        assert_eq!(store.commit(&batch).err().map(|error| error.kind()), refused, "{puts}");
    }
    assert_eq!(len(&store, "t"), 2);
    index_is_derived(&store, &scratch.dir());
}

#[test]
fn numbers_that_only_a_damaged_page_gives_are_put_under_by_nobody() {
    let scratch = Scratch::new();
    let store = open(&scratch, &Failing::default());
    put(&store, "t", 10, Durability::Sync).unwrap();
    for (seq, length) in [(SEQS_END, 10), (u64::MAX - 3, 10), (SEQS_END, 20 << 20), (u64::MAX, 10)] {
        store.shared.tail.raise_next_seq(seq);
        let refused = put(&store, "t", length, Durability::Sync).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corrupt, "{refused}");
        let mut batch = Batch::new();
        (0..2).for_each(|_| _ = batch.put("t", TypeTag::BYTES, b"state", PutOptions::default()));
        assert_eq!(store.commit(&batch).unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(len(&store, "t"), 1);
        assert!(!store.shared.directory.path.join("0000000000000002.seg.new").exists(), "a large put was left");
        // Nor is it kept as a floor, which would refuse the manifest wherever it is read.
        store.retain(None, Some(5)).unwrap_err();
        let copy = Scratch::new();
        store.backup(copy.dir()).unwrap();
        put(&open(&copy, &Failing::default()), "t", 10, Durability::Sync).unwrap();
    }
    drop(store);
    let store = open(&scratch, &Failing::default());
    put(&store, "t", 10, Durability::Sync).unwrap();
    assert_eq!(len(&store, "t"), 2);
    index_is_derived(&store, &scratch.dir());
}
