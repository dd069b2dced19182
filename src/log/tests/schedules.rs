//! The schedules that the protocol between processes is made for, each forced.
//!
//! Two handles of one directory are to each other as two processes are: a call of one is blocked at
//! an operation while the other goes on. Where it matters that a process is stopped or dead, it is one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::failing::{Action, Failing, Fault, Kind, Moment};
use super::faults::{contents, options, put};
use super::other::{Other, SEGMENT, open};
use super::{Scratch, index_is_derived};
use crate::batch::{Batch, Durability, ExpectedHead, PutOptions};
use crate::checkpoint::TypeTag;
use crate::checkpointer::Checkpointer;
use crate::error::ErrorKind;
use crate::log::Store;

/// A put of a handle that is blocked at an operation, while `meanwhile` runs; its answer.
fn blocked<T>(store: &Store, layer: &Failing, fault: Fault, meanwhile: impl FnOnce() -> T) -> (crate::Result<()>, T) {
    layer.set(Some(fault));
    std::thread::scope(|scope| {
        let putting = scope.spawn(|| put(store, "blocked", 500, Durability::Sync));
        layer.paused();
        let meanwhile = meanwhile();
        layer.set(None);
        layer.resume();
        (putting.join().unwrap(), meanwhile)
    })
}

#[test]
fn a_syncer_held_up_before_it_can_say_so_while_another_rotates() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let (one, other) = (open(&scratch, &layer), open(&scratch, &Failing::default()));
    put(&one, "first", 10, Durability::Sync).unwrap();
    let fault = Fault { only: SEGMENT, ..Fault::once(Kind::Sync, Action::Pause, Moment::After) };
    let (answer, end) = blocked(&one, &layer, fault, || {
        for _ in 0..8 {
            put(&other, "other", 12_000, Durability::Sync).unwrap();
        }
        assert!(other.stats().unwrap().segments > 1);
        other.shared.tail.visible()
    });
    answer.unwrap();
    assert!(one.shared.tail.synced() >= end && one.shared.tail.visible() >= end, "an end went backwards");
    for store in [&one, &other] {
        assert!(store.exists("blocked").unwrap());
        index_is_derived(store, &scratch.dir());
    }
}

#[test]
fn one_who_syncs_what_others_appended_syncs_the_segment_that_it_stands_in() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let (idle, other) = (open(&scratch, &layer), open(&scratch, &Failing::default()));
    put(&idle, "first", 10, Durability::Sync).unwrap();
    (0..8).for_each(|_| put(&other, "other", 12_000, Durability::Sync).unwrap());
    put(&other, "buffered", 10, Durability::Buffered).unwrap();
    assert!(idle.shared.tail.synced() < idle.shared.tail.appended());
    // A sync of the segment that the idle one knows would be a false word about the newer one.
    layer.set(Some(Fault { only: Some("0000000000000001.seg"), ..Fault::fail(0, Kind::Sync, false, Errno::IO, 0) }));
    idle.sync().unwrap();
    assert_eq!(idle.shared.tail.synced(), idle.shared.tail.appended());
}

#[test]
fn who_stops_in_its_turn_makes_others_wait_for_a_bounded_time_and_then_overwrites_nothing() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let one = open(&scratch, &layer);
    let other = options(&Failing::default()).busy_timeout(Duration::from_millis(300)).open(scratch.dir()).unwrap();
    put(&one, "first", 10, Durability::Sync).unwrap();
    for moment in [Moment::Before, Moment::After] {
        // It is about to write its frame and the zeros behind it.
        let fault = Fault { only: SEGMENT, ..Fault::once(Kind::Write, Action::Pause, moment) };
        let (answer, ()) = blocked(&one, &layer, fault, || {
            let (start, error) = (Instant::now(), put(&other, "other", 10, Durability::Sync).unwrap_err());
            assert_eq!(error.kind(), ErrorKind::Busy);
            assert!(start.elapsed() >= Duration::from_millis(300) && start.elapsed() < Duration::from_secs(5));
            assert!(error.to_string().contains("this process"), "{error}");
            assert!(other.exists("first").unwrap(), "readers wait for nobody");
        });
        answer.unwrap();
        put(&other, "other", 10, Durability::Sync).unwrap();
        put(&one, "first", 10, Durability::Sync).unwrap();
    }
    assert_eq!(contents(&one), contents(&other));
    let lengths: Vec<_> = contents(&one).values().map(Vec::len).collect();
    assert_eq!(lengths, [2, 3, 2]);
    index_is_derived(&one, &scratch.dir());
}

#[test]
fn a_stopped_process_is_named_and_its_put_is_kept_when_it_goes_on() {
    let scratch = Scratch::new();
    let survivor = options(&Failing::default()).busy_timeout(Duration::from_millis(300)).open(scratch.dir()).unwrap();
    put(&survivor, "first", 10, Durability::Sync).unwrap();
    let fault = Fault { only: SEGMENT, ..Fault::once(Kind::Write, Action::Stop, Moment::Before) };
    let other = Other::stopped(&scratch.dir(), "a durable put", fault);
    let error = put(&survivor, "more", 10, Durability::Sync).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    let name = format!("process {}", other.pid().as_raw_nonzero());
    assert!(error.to_string().contains(&name), "{error}");
    assert!(error.file().is_some_and(|(file, _)| file.ends_with("write.lock")), "{error:?}");
    other.go_on();
    assert_eq!(other.ended(), Some(true));
    put(&survivor, "more", 10, Durability::Sync).unwrap();
    assert!(survivor.exists("new").unwrap());
    index_is_derived(&survivor, &scratch.dir());
}

#[test]
fn a_stopped_syncer_is_passed_by() {
    let scratch = Scratch::new();
    let survivor = open(&scratch, &Failing::default());
    put(&survivor, "first", 10, Durability::Sync).unwrap();
    for moment in [Moment::Before, Moment::After] {
        let fault = Fault { only: SEGMENT, ..Fault::once(Kind::Sync, Action::Stop, moment) };
        let other = Other::stopped(&scratch.dir(), "a durable put", fault);
        let start = Instant::now();
        for _ in 0..50 {
            put(&survivor, "more", 10, Durability::Sync).unwrap();
        }
        assert!(start.elapsed() < Duration::from_secs(5), "each put waited for a stopped syncer");
        other.go_on();
        assert_eq!(other.ended(), Some(true));
        assert!(survivor.exists("new").unwrap());
    }
    index_is_derived(&survivor, &scratch.dir());
}

#[test]
fn leftovers_of_a_dead_turn_under_a_shorter_frame_are_no_puts() {
    let scratch = Scratch::new();
    let survivor = open(&scratch, &Failing::default());
    put(&survivor, "first", 10, Durability::Sync).unwrap();
    // All of the batch is written, and the appended end does not say so: puts to "new", twice, and a
    // delete of "c".
    let fault = Fault { only: SEGMENT, ..Fault::once(Kind::Write, Action::Kill, Moment::After) };
    assert_eq!(Other::start(&scratch.dir(), "a batch", fault).ended(), None);
    put(&survivor, "c", 1, Durability::Sync).unwrap();
    let expected = contents(&survivor);
    assert_eq!(expected.keys().collect::<Vec<_>>(), ["c", "first"]);
    index_is_derived(&survivor, &scratch.dir());
    drop(survivor);
    for with_page in [true, false] {
        if !with_page {
            std::fs::remove_file(scratch.dir().join("tail")).unwrap();
        }
        assert_eq!(contents(&Store::open(scratch.dir()).unwrap()), expected);
    }
}

#[test]
fn a_dead_writer_s_unsynced_step_is_kept_before_an_answer_rests_on_it() {
    let scratch = Scratch::new();
    let survivor = open(&scratch, &Failing::default());
    put(&survivor, "first", 10, Durability::Sync).unwrap();
    let fault = Fault { only: SEGMENT, ..Fault::once(Kind::Sync, Action::Kill, Moment::Before) };
    assert_eq!(Other::start(&scratch.dir(), "a durable put", fault).ended(), None);
    let tail = &survivor.shared.tail;
    assert!(tail.synced() < tail.appended(), "the step is appended and not synced");
    assert!(!survivor.exists("new").unwrap(), "a step that a power cut may take was shown");
    let asked = PutOptions::default().expected_head(ExpectedHead::Empty);
    let error = survivor.put_bytes("new", TypeTag::BYTES, b"x", asked).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(tail.synced(), tail.appended(), "Conflict was answered over a step that a power cut may take");
    assert!(survivor.exists("new").unwrap());
}

#[test]
fn a_failed_sync_of_one_process_refuses_all_and_an_idle_one_stands_in_nobody_s_way() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let (idle, failing) = (open(&scratch, &Failing::default()), open(&scratch, &layer));
    put(&failing, "first", 10, Durability::Sync).unwrap();
    put(&failing, "first", 10, Durability::Buffered).unwrap();
    layer.set(Some(Fault::fail(0, Kind::Sync, true, Errno::IO, 0)));
    assert_eq!(put(&failing, "lost", 10, Durability::Sync).unwrap_err().kind(), ErrorKind::Poisoned);
    layer.set(None);
    for store in [&idle, &failing] {
        for durability in [Durability::Sync, Durability::Buffered] {
            assert_eq!(put(store, "first", 10, durability).unwrap_err().kind(), ErrorKind::Poisoned);
        }
        assert_eq!(contents(store)["first"].len(), 2, "reads go on");
        assert!(!store.exists("lost").unwrap());
    }
    let again = open(&scratch, &Failing::default());
    assert!(again.recovery().fresh_segment, "what the cache holds was trusted");
    put(&again, "first", 10, Durability::Sync).unwrap();
    for store in [&idle, &failing] {
        assert_eq!(put(store, "first", 10, Durability::Sync).unwrap_err().kind(), ErrorKind::Poisoned, "its epoch is over");
        assert_eq!(contents(store), contents(&again), "reads go on");
    }
    // A later word of the old epoch does no harm to the new one.
    failing.shared.tail.poison(failing.shared.epoch);
    put(&again, "first", 10, Durability::Sync).unwrap();
    index_is_derived(&again, &scratch.dir());
    let third = open(&scratch, &Failing::default());
    assert!(!third.recovery().fresh_segment);
    put(&third, "first", 10, Durability::Sync).unwrap();
    assert_eq!(contents(&third), contents(&idle));
}

#[test]
fn a_sync_that_failed_unseen_is_never_covered_by_a_younger_descriptor() {
    for killed in [true, false] {
        let scratch = Scratch::new();
        let old = open(&scratch, &Failing::default());
        put(&old, "first", 10, Durability::Sync).unwrap();
        // Its sync is counted as begun: how it ends is known to nobody else.
        let other = Other::stopped_in_its_sync(&scratch);
        let young = open(&scratch, &Failing::default());
        assert!(young.shared.follower.sync_target().opened_at > young.shared.tail.syncs_proven());
        if killed {
            other.kill();
            put(&young, "young", 10, Durability::Sync).unwrap();
            assert_eq!(young.stats().unwrap().segments, 2, "what the dead one may not have synced was trusted");
        } else {
            // Passed by, it may still fail; once it has ended well all is well.
            put(&old, "old", 10, Durability::Sync).unwrap();
            assert!(young.shared.follower.sync_target().opened_at > young.shared.tail.syncs_proven());
            other.go_on();
            assert_eq!(other.ended(), Some(true));
            put(&young, "young", 10, Durability::Sync).unwrap();
            assert_eq!(young.stats().unwrap().segments, 1);
        }
        assert!(old.exists("new").unwrap() && young.exists("new").unwrap());
        put(&old, "old", 10, Durability::Sync).unwrap();
        assert_eq!(contents(&old), contents(&young));
        for store in [&old, &young] {
            index_is_derived(store, &scratch.dir());
        }
    }
}

#[test]
fn what_was_appended_is_never_answered_as_if_nothing_was_written() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let old = open(&scratch, &Failing::default());
    put(&old, "first", 10, Durability::Sync).unwrap();
    let other = Other::stopped_in_its_sync(&scratch);
    let young = open(&scratch, &layer);
    other.kill();
    // It must write anew, and there is no room for that.
    layer.set(Some(Fault::fail(0, Kind::Create, false, Errno::NOSPC, 0)));
    assert_eq!(put(&young, "young", 10, Durability::Sync).unwrap_err().kind(), ErrorKind::Poisoned);
    layer.set(None);
    put(&old, "first", 10, Durability::Sync).unwrap();
    assert_eq!(contents(&old)["young"].len(), 1, "it was written, so nobody must be told to try again");
}

#[test]
fn what_cannot_be_wiped_is_wiped_later_or_poisons() {
    for (errno, kind) in [(Errno::NOSPC, None), (Errno::IO, Some(ErrorKind::Poisoned))] {
        let (scratch, layer) = (Scratch::new(), Failing::default());
        let survivor = open(&scratch, &layer);
        put(&survivor, "first", 10, Durability::Sync).unwrap();
        let fault = Fault { only: SEGMENT, ..Fault::once(Kind::Write, Action::Kill, Moment::After) };
        assert_eq!(Other::start(&scratch.dir(), "a batch", fault).ended(), None);
        layer.set(Some(Fault::fail(0, Kind::Write, true, errno, 0)));
        assert_eq!(put(&survivor, "c", 1, Durability::Sync).err().map(|error| error.kind()), kind);
        layer.set(None);
        if kind.is_none() {
            put(&survivor, "c", 1, Durability::Sync).unwrap();
            index_is_derived(&survivor, &scratch.dir());
        }
    }
}

#[test]
fn what_was_appended_is_never_answered_busy() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let old = open(&scratch, &Failing::default());
    put(&old, "first", 10, Durability::Sync).unwrap();
    let other = Other::stopped_in_its_sync(&scratch);
    let young = options(&layer).busy_timeout(Duration::from_millis(300)).open(scratch.dir()).unwrap();
    other.kill();
    // Young has appended, and must write anew because it cannot sync; then someone stops in its turn.
    let fault = Fault { only: Some("sync.lock"), ..Fault::once(Kind::TryLock, Action::Pause, Moment::After) };
    let (answer, third) = blocked(&young, &layer, fault, || {
        let fault = Fault { only: SEGMENT, ..Fault::once(Kind::Write, Action::Stop, Moment::Before) };
        Other::stopped(&scratch.dir(), "a buffered put", fault)
    });
    assert_eq!(answer.unwrap_err().kind(), ErrorKind::Poisoned);
    third.go_on();
    third.ended();
    put(&old, "first", 10, Durability::Sync).unwrap();
    assert_eq!(contents(&old)["first"].len(), 2);
    index_is_derived(&old, &scratch.dir());
}

#[test]
fn a_segment_that_another_began_is_in_doubt_while_its_sync_is() {
    let scratch = Scratch::new();
    let survivor = open(&scratch, &Failing::default());
    (0..5).for_each(|_| put(&survivor, "fill", 10_000, Durability::Sync).unwrap());
    // The first sync of that file makes it, the second one is its first put's.
    let fault = Fault { from: 1, only: Some("2.seg"), ..Fault::once(Kind::Sync, Action::Stop, Moment::Before) };
    let other = Other::stopped(&scratch.dir(), "a put that rotates", fault);
    survivor.shared.follow_to(survivor.shared.tail.appended()).unwrap();
    other.kill();
    put(&survivor, "fill", 10, Durability::Sync).unwrap();
    assert!(survivor.exists("new").unwrap());
    assert!(!scratch.dir().join("0000000000000002.seg").exists(), "what the dead one may not have synced was trusted");
    index_is_derived(&survivor, &scratch.dir());
}

#[test]
fn what_is_in_doubt_and_cannot_be_read_back_is_told_to_nobody_as_kept() {
    let scratch = Scratch::new();
    let old = open(&scratch, &Failing::default());
    put(&old, "first", 10, Durability::Sync).unwrap();
    let other = Other::stopped_in_its_sync(&scratch);
    let young = open(&scratch, &Failing::default());
    let unsynced = old.shared.tail.synced();
    other.kill();
    let file = std::fs::OpenOptions::new().write(true).open(scratch.dir().join("0000000000000001.seg")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[0xff; 8], unsynced + 300).unwrap();
    for store in [&young, &old] {
        assert_eq!(put(store, "young", 10, Durability::Sync).unwrap_err().kind(), ErrorKind::Poisoned);
    }
    let again = open(&scratch, &Failing::default());
    assert!(again.exists("first").unwrap());
    put(&again, "again", 10, Durability::Sync).unwrap();
    index_is_derived(&again, &scratch.dir());
}

#[test]
fn a_panic_in_the_turn_poisons() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let (one, other) = (open(&scratch, &layer), open(&scratch, &Failing::default()));
    put(&one, "first", 10, Durability::Sync).unwrap();
    layer.set(Some(Fault { only: SEGMENT, ..Fault::once(Kind::Write, Action::Panic, Moment::After) }));
    let panicked = std::thread::scope(|scope| scope.spawn(|| put(&one, "half", 10, Durability::Sync)).join());
    assert!(panicked.is_err());
    for store in [&one, &other] {
        assert_eq!(put(store, "first", 10, Durability::Sync).unwrap_err().kind(), ErrorKind::Poisoned);
        assert!(store.exists("first").unwrap());
    }
}

#[test]
fn a_page_that_goes_backwards_under_its_users_is_noticed() {
    let scratch = Scratch::new();
    let (one, other) = (open(&scratch, &Failing::default()), open(&scratch, &Failing::default()));
    put(&one, "first", 10, Durability::Sync).unwrap();
    let older = std::fs::read(scratch.dir().join("tail")).unwrap();
    put(&one, "first", 10, Durability::Sync).unwrap();
    assert_eq!(contents(&other)["first"].len(), 2);
    std::fs::write(scratch.dir().join("tail"), older).unwrap();
    for store in [&one, &other] {
        assert_eq!(put(store, "over it", 10, Durability::Sync).unwrap_err().kind(), ErrorKind::Poisoned);
    }
    drop((one, other));
    let again = Store::open(scratch.dir()).unwrap();
    assert_eq!(contents(&again)["first"].len(), 2);
}

#[test]
fn handles_with_other_segment_sizes_and_ways_to_read_share_a_store() {
    let scratch = Scratch::new();
    let large = Store::options().auto_compaction(false).segment_bytes(8 << 20).open(scratch.dir()).unwrap();
    let small = open(&scratch, &Failing::default());
    let unmapped = Store::options().auto_compaction(false).mmap(false).open(scratch.dir()).unwrap();
    let reader = Store::options().read_only(true).open(scratch.dir()).unwrap();
    for round in 0..30 {
        put(&large, "large", 60_000, Durability::Sync).unwrap();
        let writer = [&small, &unmapped][round % 2];
        put(writer, "others", 5_000, if round % 3 == 0 { Durability::Buffered } else { Durability::Sync }).unwrap();
        let expected = contents(&large);
        for store in [&small, &unmapped, &reader] {
            assert_eq!(contents(store), expected, "round {round}");
        }
    }
    index_is_derived(&small, &scratch.dir());
}

#[test]
fn a_reader_sees_no_step_of_another_process_before_it_is_kept() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let (one, other) = (open(&scratch, &layer), open(&scratch, &Failing::default()));
    let reader = Store::options().read_only(true).open(scratch.dir()).unwrap();
    put(&one, "first", 10, Durability::Sync).unwrap();
    let fault = Fault { only: SEGMENT, ..Fault::once(Kind::Sync, Action::Pause, Moment::Before) };
    let (answer, ()) = blocked(&one, &layer, fault, || {
        for store in [&one, &other, &reader] {
            assert!(store.exists("first").unwrap());
            assert!(!store.exists("blocked").unwrap());
        }
        // Nor by a Buffered put behind it, which has to wait for its sync.
        put(&other, "buffered", 10, Durability::Buffered).unwrap();
        assert_eq!(other.shared.tail.synced(), other.shared.tail.appended());
    });
    answer.unwrap();
    for store in [&one, &other, &reader] {
        assert!(store.exists("blocked").unwrap());
    }
}

#[test]
fn a_batch_of_another_process_shows_in_all_its_threads_at_once() {
    let scratch = Scratch::new();
    let writer = open(&scratch, &Failing::default());
    let reader = Arc::new(open(&scratch, &Failing::default()));
    let rounds = 300u32;
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let number = |thread: &str| {
                let head = reader.get_bytes(thread).unwrap();
                head.map_or(0, |head| u32::from_le_bytes(head.state[..4].try_into().unwrap()))
            };
            loop {
                let (first, second) = (number("a"), number("b"));
                assert!(second >= first, "b was seen at {second} after a at {first}");
                if first == rounds {
                    return;
                }
            }
        });
        for round in 1..=rounds {
            let (state, mut batch) = (round.to_le_bytes(), Batch::new());
            let buffered = PutOptions::default().durability(if round % 2 == 0 { Durability::Buffered } else { Durability::Sync });
            batch.put("a", TypeTag::BYTES, &state, buffered.clone()).put("b", TypeTag::BYTES, &state, buffered);
            writer.commit(&batch).unwrap();
        }
        reading.join().unwrap();
    });
}
