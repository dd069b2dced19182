//! Room that was given up, and those who still count on it.

use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::failing::{Action, Failing, Fault, Kind, Moment};
use super::faults::{contents, options, put};
use super::other::open;
use super::{Scratch, image, index_is_derived};
use crate::batch::Durability;
use crate::checkpointer::Checkpointer;
use crate::error::ErrorKind;
use crate::format::frame::{HEAD_BYTES, MAGIC};
use crate::log::Store;

/// Everything wholly dead goes though there is no room for the manifest; then another handle, which
/// knows more room than there is, puts, with room and without, and is killed.
#[test]
fn a_put_of_another_handle_after_room_was_given_up() {
    for (durability, full) in [
        (Durability::Buffered, None),
        (Durability::Sync, None),
        (Durability::Buffered, Some(20)),
        (Durability::Sync, Some(300)),
        (Durability::Sync, Some(70)),
    ] {
        let (scratch, layer, other_layer) = (Scratch::new(), Failing::default(), Failing::default());
        let (one, two) = (open(&scratch, &layer), open(&scratch, &other_layer));
        for _ in 0..12 {
            put(&one, "dead", 10_000, Durability::Buffered).unwrap();
        }
        put(&two, "kept", 100, Durability::Sync).unwrap();
        one.delete("dead").unwrap();
        put(&two, "kept", 100, Durability::Sync).unwrap();
        layer.set(Some(Fault { only: Some("MANIFEST.new"), ..Fault::fail(0, Kind::Write, true, Errno::NOSPC, 10) }));
        let right = one.shared.right_to_compact().unwrap();
        let mut pass = crate::log::compact::Pass::begin(&one.shared, right, &|_| Ok(()), true).unwrap();
        let done = pass.step(crate::log::runs::Wanted::Dead).unwrap().unwrap();
        assert!(done.segments > 0 && !layer.failed().is_empty());
        drop(pass);
        layer.set(None);
        let active = two.shared.follower.reading().active.segment.path.clone();
        let mut expected = contents(&one);
        if let Some(short) = full {
            other_layer.set(Some(Fault { only: Some(".seg"), ..Fault::fail(0, Kind::Write, false, Errno::NOSPC, short) }));
            let error = put(&two, "kept", 200, durability).unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::DiskFull, "{error}");
            other_layer.set(None);
        }
        let len = std::fs::metadata(&active).unwrap().len();
        let copy = scratch.dir().with_file_name("copy");
        image(&scratch.dir(), &copy);
        let opened = Store::open(&copy).unwrap();
        assert!(contents(&opened) == expected, "{durability:?} {full:?} length {len} {:?}", opened.recovery());
        drop(opened);
        std::fs::remove_dir_all(&copy).unwrap();
        put(&two, "kept", 300, durability).unwrap();
        put(&one, "kept", 400, durability).unwrap();
        put(&two, "kept", 500, durability).unwrap();
        expected.get_mut("kept").unwrap().splice(0..0, [vec![5; 500], vec![5; 400], vec![5; 300]]);
        for store in [&one, &two] {
            assert!(contents(store) == expected);
            index_is_derived(store, &scratch.dir());
        }
        image(&scratch.dir(), &copy);
        let opened = Store::open(&copy).unwrap();
        assert!(contents(&opened) == expected && opened.recovery().damage.is_empty(), "{durability:?} {full:?}");
    }
}

/// Who holds the right to compact and does not go on, as one that is stopped or a long backup, is not waited
/// for by every put.
#[test]
fn a_stopped_compaction_does_not_cost_every_put_a_second() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let stopped = open(&scratch, &layer);
    let store = options(&Failing::default()).auto_compaction(true).open(scratch.dir()).unwrap();
    let right = stopped.shared.right_to_compact().unwrap();
    for _ in 0..60 {
        put(&stopped, "dead", 10_000, Durability::Buffered).unwrap();
    }
    stopped.delete("dead").unwrap();
    let start = Instant::now();
    for _ in 0..5 {
        put(&store, "live", 10, Durability::Buffered).unwrap();
    }
    let took = start.elapsed();
    drop(right);
    assert!(took < Duration::from_secs(4), "five puts of 10 bytes took {took:?}");
}

/// What is wholly dead but holds a mark that is still needed would have to be written anew, for which a full disk has no
/// room; what is wholly dead beside it goes all the same.
#[test]
fn on_a_full_disk_what_is_wholly_dead_goes_though_a_mark_beside_it_stays() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let store = open(&scratch, &layer);
    store.retain(None, None).unwrap();
    // The oldest segment stays: it holds what is live, and something of the thread that goes.
    put(&store, "live", 12_000, Durability::Buffered).unwrap();
    put(&store, "live", 12_000, Durability::Buffered).unwrap();
    put(&store, "live", 12_000, Durability::Buffered).unwrap();
    put(&store, "gone", 100, Durability::Buffered).unwrap();
    for _ in 0..3 {
        put(&store, "dead", 10_000, Durability::Buffered).unwrap();
    }
    store.delete("gone").unwrap();
    for _ in 0..40 {
        put(&store, "dead", 10_000, Durability::Buffered).unwrap();
    }
    store.delete("dead").unwrap();
    store.sync().unwrap();
    let before = store.stats().unwrap().segments;
    layer.set(Some(Fault { only: Some(".seg.new"), ..Fault::fail(0, Kind::Write, false, Errno::NOSPC, 0) }));
    let answer = store.compact();
    layer.set(None);
    let after = store.stats().unwrap().segments;
    assert!(after < before - 5, "of {before} segments, nearly all wholly dead, {after} are left: {answer:?}");
    let _ = Fault::once(Kind::Read, Action::Pause, Moment::Before);
}

/// A store of one segment is emptied on a full disk: what is kept behind the end for deletes makes the room
/// that sealing it takes.
#[test]
fn on_a_full_disk_the_active_segment_can_be_sealed() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let store = open(&scratch, &layer);
    put(&store, "dead", 10_000, Durability::Sync).unwrap();
    let full = std::fs::metadata(scratch.dir().join("0000000000000001.seg")).unwrap().len();
    store.delete("dead").unwrap();
    layer.set(Some(Fault { only: Some("0000000000000002.seg"), ..Fault::fail(0, Kind::Write, true, Errno::NOSPC, 0) }));
    let compacted = store.compact().unwrap();
    assert!(!layer.failed().is_empty());
    layer.set(None);
    assert!(compacted.segments == 1 && compacted.bytes < full, "{compacted:?}, and the segment had {full} bytes");
    put(&store, "live", 100, Durability::Sync).unwrap();
    index_is_derived(&store, &scratch.dir());
}

/// What a put meets whose first write fails once, with all behind it as before.
fn one_failed_write(puts_before: usize, errno: Errno, short: usize) -> (Scratch, Store, crate::Result<()>, usize) {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let store = open(&scratch, &layer);
    (0..puts_before).for_each(|_| put(&store, "t", 100, Durability::Sync).unwrap());
    layer.set(Some(Fault { only: Some(".seg"), ..Fault::fail(0, Kind::Write, true, errno, short) }));
    let answer = put(&store, "t", 200, Durability::Sync);
    let met = layer.failed().len();
    layer.set(None);
    (scratch, store, answer, met)
}

#[test]
fn a_put_that_fits_is_put_though_the_zeros_behind_it_do_not() {
    let (scratch, store, answer, met) = one_failed_write(0, Errno::NOSPC, 100);
    answer.unwrap();
    assert_eq!((met, contents(&store)["t"].len()), (1, 1));
    let end = store.shared.follower.reading().active.end;
    assert_eq!(std::fs::metadata(scratch.dir().join("0000000000000001.seg")).unwrap().len(), end + 16 * 1024, "the ledge is there");
    put(&store, "t", 300, Durability::Sync).unwrap();
    index_is_derived(&store, &scratch.dir());
}

#[test]
fn a_put_that_is_no_shorter_without_zeros_is_refused_on_a_full_disk() {
    let (scratch, store, answer, met) = one_failed_write(1, Errno::NOSPC, 0);
    assert_eq!((answer.unwrap_err().kind(), met), (ErrorKind::DiskFull, 1));
    assert_eq!(contents(&store)["t"].len(), 1);
    put(&store, "t", 300, Durability::Sync).unwrap();
    index_is_derived(&store, &scratch.dir());
}

#[test]
fn a_write_that_fails_for_another_reason_is_never_tried_again() {
    for puts_before in [0, 1] {
        let (scratch, store, answer, _) = one_failed_write(puts_before, Errno::IO, 100);
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::Poisoned);
        assert_eq!(contents(&store).len(), puts_before);
        assert_eq!(put(&store, "t", 300, Durability::Sync).unwrap_err().kind(), ErrorKind::Poisoned);
        drop(store);
        put(&open(&scratch, &Failing::default()), "t", 300, Durability::Sync).unwrap();
    }
}

#[test]
fn what_a_full_disk_left_behind_the_end_is_wiped_or_known_to_be_no_record() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let store = open(&scratch, &layer);
    put(&store, "t", 100, Durability::Sync).unwrap();
    let active = store.shared.follower.reading().active.clone();
    let file = std::fs::OpenOptions::new().read(true).write(true).open(&active.segment.path).unwrap();
    let forgets = |kind: Option<Kind>, errno| {
        layer.set(Some(Fault::fail(0, kind, false, errno, 0)));
        active.forget_behind_end()
    };
    assert!(forgets(Some(Kind::Write), Errno::NOSPC), "nothing stands there");
    assert!(!forgets(None, Errno::NOSPC), "nobody can say what stands there");
    assert!(!forgets(Some(Kind::Write), Errno::IO));
    file.write_all_at(&MAGIC, active.end).unwrap();
    assert!(!forgets(Some(Kind::Write), Errno::NOSPC), "it may be a whole record");
    layer.set(None);
    assert!(active.forget_behind_end());
    let mut left = [9; HEAD_BYTES];
    file.read_exact_at(&mut left, active.end).unwrap();
    assert_eq!(left, [0; HEAD_BYTES]);
}
