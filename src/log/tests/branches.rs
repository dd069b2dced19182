//! Forks, renames and rollbacks as the log has them: what is stored of them, beside others who write, of
//! threads that show less than they need, of what is longer than a segment has room for.

use rustix::io::Errno;

use super::failing::{Action, Failing, Fault, Kind, Moment};
use super::other::open as open_over;
use super::{Scratch, index_is_derived, views};
use crate::batch::{Durability, OnExisting, PutOptions};
use crate::checkpoint::{CheckpointId, TypeTag};
use crate::checkpointer::Checkpointer;
use crate::error::{ErrorKind, Result};
use crate::log::Store;
use crate::query::HistoryQuery;
use crate::testing::states::noise;

fn open(scratch: &Scratch) -> Store {
    let store = open_over(scratch, &Failing::default());
    store.retain(None, None).unwrap();
    store
}

fn id(name: &str) -> CheckpointId {
    CheckpointId::new(name).unwrap()
}

/// The state of a step: a line more than the one before.
fn grown(step: usize) -> Vec<u8> {
    noise(1, 4000 + 20 * step)
}

fn put(store: &Store, thread: &str, name: &str, state: &[u8]) {
    store.put_bytes(thread, TypeTag::BYTES, state, PutOptions::default().id(id(name))).unwrap();
}

fn put_steps(store: &Store, thread: &str, steps: std::ops::Range<usize>) {
    steps.for_each(|step| put(store, thread, &step.to_string(), &grown(step)));
}

fn attach(store: &Store, thread: &str, name: &str, value: &[u8]) {
    assert!(store.attach(thread, &id(name), "key", TypeTag::BYTES, value, OnExisting::Replace).unwrap());
}

/// A checkpoint: id, parent, what is attached, state.
type Shown = (String, Option<String>, Vec<Vec<u8>>, Vec<u8>);

/// A thread's checkpoints, newest first.
fn shown(store: &Store, thread: &str) -> Vec<Shown> {
    let all = store.history_bytes(thread, &HistoryQuery::default()).unwrap().collect::<Result<Vec<_>>>().unwrap();
    let attached = |id: &CheckpointId| store.attachments(thread, id).unwrap().into_iter().map(|one| one.value.to_vec()).collect();
    let of = |read: crate::Checkpoint<_>| {
        let crate::Checkpoint { info, state } = read;
        (info.id.to_string(), info.parent.as_ref().map(ToString::to_string), attached(&info.id), crate::StateBytes::into_vec(state))
    };
    all.into_iter().map(of).collect()
}

/// The thread as its checkpoints are stored, oldest first: `w`hole, or a `d`elta.
fn forms(store: &Store, thread: &str) -> String {
    views(store)[thread].entries().map(|entry| if entry.is_delta() { 'd' } else { 'w' }).collect()
}

#[test]
fn a_fork_is_stored_as_its_source_and_shows_the_same() {
    let scratch = Scratch::new();
    let store = open(&scratch);
    put_steps(&store, "t", 0..9);
    attach(&store, "t", "3", b"early");
    attach(&store, "t", "8", b"late");
    let before = store.stats().unwrap();
    assert_eq!(store.fork("t", None, "all").unwrap(), id("8"));
    assert_eq!(store.fork("t", Some(&id("4")), "some").unwrap(), id("4"));
    assert_eq!((forms(&store, "t"), forms(&store, "some")), (forms(&store, "all"), "wdddd".to_owned()));
    let after = store.stats().unwrap();
    assert!(after.stored_bytes - before.stored_bytes < before.stored_bytes * 2, "{before:?} {after:?}");
    let source = shown(&store, "t");
    assert_eq!(source, shown(&store, "all"));
    assert_eq!(source[4..], shown(&store, "some"));
    // Each goes on by itself.
    put(&store, "some", "5", b"another five");
    put(&store, "all", "9", &grown(9));
    store.delete("t").unwrap();
    store.compact().unwrap();
    assert_eq!(source, shown(&store, "all")[1..]);
    assert_eq!(forms(&store, "all"), "wddddddddd");
    assert_eq!(source[4..], shown(&store, "some")[1..]);
    index_is_derived(&store, &scratch.dir());
}

#[test]
fn a_fork_needs_nothing_that_its_source_shows_no_more() {
    let scratch = Scratch::new();
    let store = open(&scratch);
    put_steps(&store, "t", 0..12);
    for gone in ["0", "5", "6"] {
        assert!(store.delete_checkpoint("t", &id(gone)).unwrap());
    }
    // What stands at its place is not what the next one differs from.
    put(&store, "t", "9", b"another nine");
    let source = shown(&store, "t");
    store.fork("t", None, "f").unwrap();
    assert_eq!(forms(&store, "f"), "wdddwdwwd");
    assert_eq!(shown(&store, "f"), source);
    store.retain(Some("t"), Some(2)).unwrap();
    store.fork("t", None, "g").unwrap();
    assert_eq!(shown(&store, "g"), source[..2]);
    assert!(views(&store)["f"].hidden().is_empty() && views(&store)["g"].hidden().is_empty());
    store.delete("t").unwrap();
    store.compact().unwrap();
    drop(store);
    let store = open(&scratch);
    assert_eq!((shown(&store, "f"), shown(&store, "g")), (source.clone(), source[..2].to_vec()));
    assert!(store.verify().unwrap().is_empty());
}

#[test]
fn what_takes_up_much_is_forked_and_renamed_in_a_segment_of_its_own() {
    let scratch = Scratch::new();
    let store = open(&scratch);
    for step in 0..8 {
        put(&store, "t", &step.to_string(), &noise(step + 1, 9000));
    }
    attach(&store, "t", "7", &noise(9, 9000));
    let source = shown(&store, "t");
    store.fork("t", None, "f").unwrap();
    store.rename("t", "r").unwrap();
    assert_eq!((shown(&store, "f"), shown(&store, "r")), (source.clone(), source));
    assert_eq!(store.threads().unwrap(), ["f", "r"]);
    assert_eq!(store.fork("r", None, "f").unwrap_err().kind(), ErrorKind::Conflict);
    index_is_derived(&store, &scratch.dir());
}

#[test]
fn more_than_a_segment_has_room_for_is_rolled_back_at_once() {
    let scratch = Scratch::new();
    let store = open(&scratch);
    let thread = "t".repeat(4096);
    put_steps(&store, &thread, 0..20);
    let source = shown(&store, &thread);
    assert_eq!(store.rollback(&thread, &id("2")).unwrap(), 17);
    assert_eq!(shown(&store, &thread), source[17..]);
    assert_eq!(store.rollback(&thread, &id("2")).unwrap(), 0);
    assert_eq!(store.rollback(&thread, &id("3")).unwrap_err().kind(), ErrorKind::NotFound);
    put(&store, &thread, "3", &grown(3));
    assert_eq!(shown(&store, &thread), source[16..]);
    index_is_derived(&store, &scratch.dir());
}

/// Branches, and does `between` through another handle each time all is read and the turn is not yet taken.
fn branch_while(times: usize, branch: impl Fn(&Store) + Sync, between: impl Fn(&Store, usize)) -> (Scratch, Store) {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let (other, store) = (open(&scratch), open_over(&scratch, &layer));
    put_steps(&other, "t", 0..5);
    let paused = Fault { only: Some("write.lock"), ..Fault::once(Kind::TryLock, Action::Pause, Moment::Before) };
    layer.set(Some(paused));
    std::thread::scope(|scope| {
        let branching = scope.spawn(|| branch(&store));
        for time in 0..times {
            layer.paused();
            between(&other, time);
            layer.set((time + 1 < times).then_some(paused));
            layer.resume();
        }
        branching.join().unwrap();
    });
    for handle in [&other, &store] {
        handle.head("t").unwrap();
    }
    assert_eq!(views(&other), views(&store), "the other handle has taken in the same");
    index_is_derived(&store, &scratch.dir());
    (scratch, store)
}

#[test]
fn what_is_put_while_a_branch_is_read_is_in_it() {
    for times in [1, 3, 4] {
        let put_one = |other: &Store, time: usize| put_steps(other, "t", 5 + time..6 + time);
        let (_scratch, store) = branch_while(times, |store| drop(store.fork("t", None, "f").unwrap()), put_one);
        assert_eq!(shown(&store, "f"), shown(&store, "t"), "{times}");
        assert_eq!(shown(&store, "f").len(), 5 + times);
        let (_scratch, store) = branch_while(times, |store| store.rename("t", "f").unwrap(), put_one);
        assert_eq!((shown(&store, "f").len(), store.threads().unwrap()), (5 + times, vec!["f".to_owned()]));
        let attach_one = |other: &Store, time: usize| attach(other, "t", "2", &[time as u8]);
        let (_scratch, store) = branch_while(times, |store| drop(store.fork("t", Some(&id("3")), "f").unwrap()), attach_one);
        assert_eq!(shown(&store, "f"), shown(&store, "t")[1..], "{times}");
    }
}

#[test]
fn what_is_put_behind_the_point_of_a_fork_does_not_hold_it_up() {
    let put_one = |other: &Store, _| {
        put_steps(other, "t", 5..6);
        attach(other, "t", "4", b"behind it");
        attach(other, "t", "next", b"for one to come");
    };
    let (_scratch, store) = branch_while(1, |store| drop(store.fork("t", Some(&id("3")), "f").unwrap()), put_one);
    assert_eq!(shown(&store, "f"), shown(&store, "t")[2..]);
    assert!(store.attachments("f", &id("next")).unwrap().is_empty());
}

#[test]
fn a_limit_that_is_set_while_a_branch_is_read_goes_along() {
    let retain = |other: &Store, _| other.retain(Some("t"), Some(9)).unwrap();
    let (_scratch, store) = branch_while(1, |store| drop(store.fork("t", Some(&id("3")), "f").unwrap()), retain);
    assert_eq!((store.max_history(Some("t")).unwrap(), store.max_history(Some("f")).unwrap()), (Some(9), Some(9)));
}

#[test]
fn what_is_deleted_while_a_branch_is_read_is_not_in_it() {
    let delete = |other: &Store, _| assert!(other.delete_checkpoint("t", &id("2")).unwrap());
    let (_scratch, store) = branch_while(1, |store| drop(store.fork("t", Some(&id("3")), "f").unwrap()), delete);
    assert_eq!(shown(&store, "f").into_iter().map(|one| one.0).collect::<Vec<_>>(), ["3", "1", "0"]);
    let end = |other: &Store, _| assert!(other.delete("t").unwrap());
    let not_found = |store: &Store| assert_eq!(store.fork("t", None, "f").unwrap_err().kind(), ErrorKind::NotFound);
    let (_scratch, store) = branch_while(1, not_found, end);
    assert!(store.threads().unwrap().is_empty());
    let taken = |other: &Store, _| put_steps(other, "f", 0..1);
    let conflict = |store: &Store| assert_eq!(store.fork("t", None, "f").unwrap_err().kind(), ErrorKind::Conflict);
    let (_scratch, store) = branch_while(1, conflict, taken);
    assert_eq!((shown(&store, "f").len(), shown(&store, "t").len()), (1, 5));
}

#[test]
fn a_fork_holds_what_was_put_without_a_sync_and_syncs_it() {
    let scratch = Scratch::new();
    let store = open(&scratch);
    let buffered = PutOptions::default().durability(Durability::Buffered).id(id("0"));
    store.put_bytes("t", TypeTag::BYTES, &grown(0), buffered).unwrap();
    store.fork("t", None, "f").unwrap();
    assert_eq!(store.shared.tail.synced(), store.shared.tail.appended());
    assert_eq!(shown(&store, "f"), shown(&store, "t"));
}

#[test]
fn who_could_not_read_all_of_the_log_branches_nothing() {
    let scratch = Scratch::new();
    let store = open(&scratch);
    put_steps(&store, "t", 0..30);
    while store.shared.directory.manifest().unwrap().segments.len() < 2 {
        put(&store, "other", "o", &noise(3, 9000));
    }
    put_steps(&store, "t", 30..32);
    drop(store);
    let layer = Failing::default();
    let first = Fault { only: Some("0000000000000001.seg"), ..Fault::fail(0, Kind::Read, false, Errno::IO, 0) };
    layer.set(Some(first));
    let store = open_over(&scratch, &layer);
    layer.set(None);
    assert!(!store.recovery().damage.is_empty(), "{:?}", store.recovery());
    for answer in [
        store.fork("t", None, "f").map(drop),
        store.rename("t", "f"),
        store.rollback("t", &id("30")).map(drop),
        store.fork("unmet", None, "f").map(drop),
    ] {
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::Corrupt);
    }
    drop(store);
    let store = open(&scratch);
    assert_eq!((shown(&store, "t").len(), store.exists("f").unwrap()), (32, false));
}

#[test]
fn damage_in_a_thread_is_told_by_its_fork_which_writes_nothing() {
    let scratch = Scratch::new();
    let store = open(&scratch);
    put_steps(&store, "t", 0..4);
    let at = views(&store)["t"].entry(2).unwrap().at;
    let path = store.shared.segments.load()[&at.segment].path.clone();
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[0xff; 4], at.offset() + at.length() - 24).unwrap();
    let error = store.fork("t", None, "f").unwrap_err();
    assert_eq!((error.kind(), error.thread()), (ErrorKind::Corrupt, Some("t")));
    assert!(!store.exists("f").unwrap());
    // What stands before it is another thing.
    store.fork("t", Some(&id("1")), "f").unwrap();
    assert_eq!(shown(&store, "f").len(), 2);
}

#[test]
fn a_fork_to_a_name_that_is_taken_reads_no_state_and_one_of_nothing_either() {
    let scratch = Scratch::new();
    let store = open(&scratch);
    put_steps(&store, "t", 0..4);
    put_steps(&store, "f", 0..1);
    let at = views(&store)["t"].entry(2).unwrap().at;
    let path = store.shared.segments.load()[&at.segment].path.clone();
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[0xff; 4], at.offset() + at.length() - 24).unwrap();
    // What is damaged is not looked at.
    let kind = |answer: Result<CheckpointId>| answer.unwrap_err().kind();
    assert_eq!(kind(store.fork("t", None, "f")), ErrorKind::Conflict);
    assert_eq!(kind(store.fork("t", Some(&id("9")), "g")), ErrorKind::NotFound);
    assert_eq!(kind(store.fork("nobody", None, "g")), ErrorKind::NotFound);
    assert_eq!(kind(store.fork("t", None, "g")), ErrorKind::Corrupt);
}

#[test]
fn what_a_refusal_rests_on_is_kept_first() {
    let scratch = Scratch::new();
    let store = open(&scratch);
    put_steps(&store, "t", 0..2);
    let layer = Failing::default();
    let other = open_over(&scratch, &layer);
    // Its delete is appended, and its sync is held up.
    layer.set(Some(Fault::once(Kind::Sync, Action::Pause, Moment::Before)));
    std::thread::scope(|scope| {
        let deleting = scope.spawn(|| other.delete("t").unwrap());
        layer.paused();
        let forking = scope.spawn(|| store.fork("t", None, "f").unwrap_err().kind());
        std::thread::sleep(std::time::Duration::from_millis(100));
        let answered_before = forking.is_finished() && store.shared.tail.synced() < store.shared.tail.appended();
        layer.set(None);
        layer.resume();
        assert!(!answered_before, "what is gone could still come back");
        assert_eq!((forking.join().unwrap(), deleting.join().unwrap()), (ErrorKind::NotFound, true));
    });
}

#[test]
fn who_may_not_write_is_told_so_before_any_lock() {
    let scratch = Scratch::new();
    put_steps(&open(&scratch), "t", 0..2);
    let store = Store::options().read_only(true).open(scratch.dir()).unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    // As in a forked child, where the one that holds it is not there.
    let held = store.shared.follower.reading();
    let handle = store.clone();
    let asking = std::thread::spawn(move || {
        let put = handle.put_bytes("t", TypeTag::BYTES, &grown(2), PutOptions::default()).map(drop);
        let branches = [handle.fork("t", None, "f").map(drop), handle.rename("t", "f"), handle.rollback("t", &id("0")).map(drop)];
        tell.send([put].into_iter().chain(branches).map(|answer| answer.unwrap_err().kind()).collect::<Vec<_>>()).unwrap();
    });
    let kinds = told.recv_timeout(std::time::Duration::from_secs(20));
    drop(held);
    asking.join().unwrap();
    assert_eq!(kinds.unwrap(), [ErrorKind::ReadOnly; 4]);
}
