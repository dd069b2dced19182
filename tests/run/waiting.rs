//! Approvals and the list of runs that wait for one, on every kind of place.

use std::sync::Mutex;

use taffrail::prelude::*;
use taffrail::run::{MARKERS, Run, RunError, Waiting, approve, approve_at, waiting};
use taffrail::{Error, ErrorKind, HistoryQuery, PutOptions, ThreadQuery};

use crate::places::{Call, Watched, each};

type Asking<'a> = Run<&'a dyn Checkpointer, u32>;

fn open<'a>(place: &'a dyn Checkpointer, thread: &str) -> Asking<'a> {
    Run::start_or_resume(place, thread).unwrap()
}

fn asks<'a>(place: &'a dyn Checkpointer, thread: &str) -> Asking<'a> {
    let mut run = open(place, thread);
    assert_eq!(run.await_approval::<u32>("sure?", thread).unwrap(), None);
    run
}

fn listed(place: &dyn Checkpointer) -> Vec<Waiting> {
    waiting(place).unwrap().collect::<Result<_, _>>().unwrap()
}

fn threads_listed(place: &dyn Checkpointer) -> Vec<String> {
    listed(place).into_iter().map(|waiting| waiting.thread).collect()
}

fn markers(place: &dyn Checkpointer) -> Vec<String> {
    place.threads().unwrap().into_iter().filter(|thread| thread.starts_with(MARKERS)).collect()
}

#[track_caller]
fn conflicts<T: std::fmt::Debug>(answer: Result<T, Error>) {
    assert_eq!(answer.unwrap_err().kind(), ErrorKind::Conflict);
}

#[test]
fn a_decision_is_heard_once() {
    for keep in [Some(1), None] {
        each(keep, |place| {
            let mut run = asks(place, "trip");
            assert_eq!(run.await_approval::<u32>("sure?", "whatever").unwrap(), None);
            assert_eq!(open(place, "trip").await_approval::<u32>("sure?", "").unwrap(), None);
            let id = approve(place, "trip", &7).unwrap();
            assert_eq!(place.head("trip").unwrap().unwrap().id, id);
            conflicts(approve(place, "trip", &8));
            for mut run in [run, open(place, "trip")] {
                assert_eq!(run.await_approval::<u32>("sure?", "").unwrap(), Some(7));
                assert_eq!(run.await_approval::<u32>("sure?", "").unwrap(), Some(7));
                assert!(
                    matches!(run.await_approval::<String>("sure?", ""), Err(RunError::Place(error)) if error.kind() == ErrorKind::Decode)
                );
            }
            let mut run = open(place, "trip");
            assert_eq!(run.step("go", |_| Ok::<_, String>(1)).ok(), Some(1));
            assert_eq!(run.await_approval::<()>("and now?", "").unwrap(), None);
            approve(place, "trip", &()).unwrap();
            assert_eq!(run.await_approval::<()>("and now?", "").unwrap(), Some(()));
            assert_eq!(run.await_approval::<u32>("sure?", "").unwrap(), Some(7));
            assert!(markers(place).is_empty());
        });
    }
}

#[test]
fn what_waits_for_nothing_cannot_be_approved() {
    each(50, |place| {
        assert_eq!(approve(place, "none", &1).unwrap_err().kind(), ErrorKind::NotFound);
        open(place, "begun").step("a", |_| Ok::<_, String>(())).unwrap();
        conflicts(approve(place, "begun", &1));
        place.put("other", &1).unwrap();
        assert_eq!(approve(place, "other", &1).unwrap_err().kind(), ErrorKind::Decode);
        assert_eq!(approve(place, "", &1).unwrap_err().kind(), ErrorKind::InvalidInput);
        let waits = asks(place, "waits");
        assert_eq!(approve(place, "waits", &f64::NAN).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(threads_listed(place), ["waits"]);
        drop(waits);
    });
}

#[test]
fn nobody_decides_what_they_have_not_seen() {
    each(50, |place| {
        let mut run = asks(place, "trip");
        let seen = listed(place).remove(0);
        approve_at(place, "trip", &seen.checkpoint, &1).unwrap();
        run.await_approval::<u32>("sure?", "").unwrap();
        run.await_approval::<u32>("really?", "").unwrap();
        conflicts(approve_at(place, "trip", &seen.checkpoint, &2));
        let seen = listed(place).remove(0);
        assert_eq!(seen.name, "really?");
        approve_at(place, "trip", &seen.checkpoint, &3).unwrap();
        assert_eq!(run.await_approval::<u32>("really?", "").unwrap(), Some(3));
    });
}

#[test]
fn those_that_wait_are_listed_with_what_they_ask() {
    each(50, |place| {
        let threads = ["", "a", "b\n", "taffrail", "waiting/x", "é/../\0"];
        for thread in &threads[1..] {
            drop(asks(place, thread));
        }
        place.put("nobody's", &1).unwrap();
        let all = listed(place);
        assert_eq!(all.iter().map(|waiting| waiting.thread.as_str()).collect::<Vec<_>>(), threads[1..]);
        for waiting in &all {
            assert_eq!((waiting.name.as_str(), waiting.payload::<String>().unwrap()), ("sure?", waiting.thread.clone()));
            assert_eq!(waiting.payload::<u32>().unwrap_err().kind(), ErrorKind::Decode);
            let head = place.head(&waiting.thread).unwrap().unwrap();
            assert_eq!(waiting.checkpoint, head.id);
        }
        for (at, thread) in threads.iter().enumerate().skip(1) {
            assert_eq!(threads_listed(place), threads[at..]);
            approve(place, thread, &1).unwrap();
        }
        assert!(listed(place).is_empty() && markers(place).is_empty());
    });
}

#[test]
fn a_list_costs_what_it_answers() {
    each(50, |place| {
        for number in 0..60 {
            let thread = format!("trip {number:02}");
            let mut run = open(place, &thread);
            run.step("a", |_| Ok::<_, String>("x".repeat(1000))).unwrap();
            if number % 20 == 0 {
                run.await_approval::<bool>("sure?", "").unwrap();
            }
        }
        let calls = Mutex::new(Vec::new());
        let hear = |call: Call<'_>| {
            calls.lock().unwrap().push(match call {
                Call::ListThreads => "threads",
                Call::List => "head",
                Call::Load => "marker",
                _ => "more than that",
            });
            Ok(())
        };
        assert_eq!(threads_listed(&Watched::of(place, hear)), ["trip 00", "trip 20", "trip 40"]);
        assert_eq!(calls.into_inner().unwrap(), ["threads", "head", "marker", "head", "marker", "head", "marker"]);
    });
}

#[test]
fn a_stale_marker_is_not_listed_and_goes() {
    each(50, |place| {
        for (thread, spoil) in [
            ("deleted", (|place, thread| drop(place.delete(thread))) as fn(&dyn Checkpointer, &str)),
            ("moved", |place, thread| drop(place.put(thread, &1))),
            ("gone back", |place, thread| {
                let head = place.head(thread).unwrap().unwrap();
                place.delete_checkpoint(thread, &head.id).unwrap();
            }),
        ] {
            open(place, thread).step("a", |_| Ok::<_, String>(())).unwrap();
            let run = asks(place, thread);
            assert_eq!(threads_listed(place), [thread]);
            spoil(place, thread);
            assert_eq!(markers(place).len(), 1, "{thread}");
            assert!(listed(place).is_empty(), "{thread}");
            assert!(markers(place).is_empty(), "{thread}: a stale marker stays");
            drop(run);
        }
    });
}

#[test]
fn a_marker_that_is_missing_or_stale_is_put_again() {
    each(50, |place| {
        let mut run = asks(place, "trip");
        place.delete(&format!("{MARKERS}trip")).unwrap();
        assert!(listed(place).is_empty());
        assert_eq!(run.await_approval::<u32>("sure?", "").unwrap(), None);
        assert_eq!(threads_listed(place), ["trip"]);
        // A run begun anew under the name of one that was deleted while it waited.
        place.delete("trip").unwrap();
        let mut anew = asks(place, "trip");
        let markers = place.list(&format!("{MARKERS}trip"), &HistoryQuery::default()).unwrap().count();
        assert_eq!((threads_listed(place).len(), markers), (1, 1));
        assert!(matches!(run.await_approval::<u32>("sure?", ""), Err(RunError::Place(error)) if error.kind() == ErrorKind::Conflict));
        // Approved without a marker.
        place.delete(&format!("{MARKERS}trip")).unwrap();
        approve(place, "trip", &5).unwrap();
        assert_eq!(anew.await_approval::<u32>("sure?", "").unwrap(), Some(5));
    });
}

#[test]
fn who_is_overtaken_while_waiting_is_told() {
    each(50, |place| {
        // By one that marked the run again: nothing is decided, and nothing must look so.
        let mut late: Run<_, u32> = asks(place, "trip");
        place.delete(&format!("{MARKERS}trip")).unwrap();
        let mut run = asks(place, "trip");
        let answer = late.await_approval::<()>("sure?", "");
        assert!(matches!(answer, Err(RunError::Place(error)) if error.kind() == ErrorKind::Conflict));
        // By one that took the decision and went on.
        let mut late = open(place, "trip");
        approve(place, "trip", &7).unwrap();
        assert_eq!(run.await_approval::<u32>("sure?", "").unwrap(), Some(7));
        run.step("go", |_| Ok::<_, String>(())).unwrap();
        let answer = late.await_approval::<u32>("sure?", "");
        assert!(matches!(answer, Err(RunError::Place(error)) if error.kind() == ErrorKind::Conflict));
    });
}

#[test]
fn cleaning_takes_no_marker_that_was_put_meanwhile() {
    each(50, |place| {
        drop(asks(place, "trip"));
        place.delete("trip").unwrap();
        let hear = |call: Call<'_>| {
            if let Call::Commit(_) = call {
                drop(asks(place, "trip"));
            }
            Ok(())
        };
        assert!(threads_listed(&Watched::of(place, hear)).is_empty());
        assert_eq!(threads_listed(place), ["trip"], "it was asked for while the old marker was being removed");
    });
}

#[test]
fn a_fork_waits_for_itself() {
    each(50, |place| {
        let mut run = asks(place, "trip");
        if !place.capabilities().branching {
            assert_eq!(place.fork("trip", None, "fork").unwrap_err().kind(), ErrorKind::Unsupported);
            return;
        }
        place.fork("trip", None, "fork").unwrap();
        assert_eq!(threads_listed(place), ["trip"], "nobody has asked for the fork");
        let mut fork = asks(place, "fork");
        assert_eq!(threads_listed(place), ["fork", "trip"]);
        approve(place, "fork", &1).unwrap();
        assert_eq!((fork.await_approval("sure?", "").unwrap(), run.await_approval::<u32>("sure?", "").unwrap()), (Some(1), None));
        // Back to where it waited: the decision is gone, and it waits again.
        let waited = place.head("trip").unwrap().unwrap().id;
        approve(place, "trip", &2).unwrap();
        assert_eq!(place.rollback("trip", &waited).unwrap(), 1);
        assert_eq!(run.await_approval::<u32>("sure?", "").unwrap(), None);
        assert_eq!(threads_listed(place), ["trip"]);
        place.rename("trip", "journey").unwrap();
        assert!(listed(place).is_empty());
        drop(asks(place, "journey"));
        assert_eq!(threads_listed(place), ["journey"]);
    });
}

#[test]
fn somebody_elses_thread_under_the_prefix_is_never_touched() {
    each(50, |place| {
        let own = CheckpointId::new("own").unwrap();
        for name in ["", "trip", "other", "same id"] {
            place.put_with(&format!("{MARKERS}{name}"), &name, PutOptions::default().id(own.clone())).unwrap();
        }
        place.put_with("same id", &1, PutOptions::default().id(own)).unwrap();
        assert!(listed(place).is_empty());
        let mut run = open(place, "trip");
        let refused = run.await_approval::<u32>("sure?", "");
        assert!(
            matches!(refused, Err(RunError::Place(error)) if error.kind() == ErrorKind::Conflict && error.thread() == Some("taffrail:waiting/trip"))
        );
        assert!(!place.exists("trip").unwrap(), "half of it was written");
        place.delete(&format!("{MARKERS}trip")).unwrap();
        assert_eq!(run.await_approval::<u32>("sure?", "").unwrap(), None);
        // One that came behind the marker.
        place.put(&format!("{MARKERS}trip"), &"mine").unwrap();
        approve(place, "trip", &1).unwrap();
        assert_eq!(place.get::<String>(&format!("{MARKERS}trip")).unwrap().as_deref(), Some("mine"));
        assert!(listed(place).is_empty());
        assert_eq!(markers(place).len(), 4);
    });
}

#[test]
fn a_run_under_a_markers_name_is_no_marker() {
    each(50, |place| {
        let mut run = open(place, "trip");
        run.step("a", |_| Ok::<_, String>(())).unwrap();
        assert_eq!(run.await_approval::<u32>("sure?", "").unwrap(), None);
        let waits = place.get_bytes("trip").unwrap().unwrap();
        let options = || PutOptions::default().id(waits.info.id.clone()).metadata(waits.info.metadata.clone());
        // As a fork and a rename bring it there: beside no run, and beside the run whose marker has gone.
        place.delete(&format!("{MARKERS}trip")).unwrap();
        for name in ["nobody", "trip"] {
            place.put_bytes(&format!("{MARKERS}{name}"), waits.tag.clone(), &waits.state, options()).unwrap();
        }
        assert!(listed(place).is_empty());
        approve(place, "trip", &1).unwrap();
        assert_eq!(markers(place).len(), 2, "somebody's run was taken for a marker");
    });
}

#[test]
fn many_workers_decide_and_one_is_heard() {
    each(50, |place| {
        for round in 0..10 {
            let thread = format!("trip {round}");
            let mut run = asks(place, &thread);
            let decide = |own: u32| approve(place, &thread, &own).map(|_| own);
            let answers: Vec<Result<u32, Error>> = std::thread::scope(|scope| {
                let workers: Vec<_> = (0..8).map(|own| scope.spawn(move || decide(own))).collect();
                workers.into_iter().map(|worker| worker.join().unwrap()).collect()
            });
            let (won, lost): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
            assert_eq!((won.len(), lost.len()), (1, 7));
            lost.into_iter().for_each(conflicts);
            assert_eq!(run.await_approval::<u32>("sure?", "").unwrap(), won.into_iter().next().map(Result::unwrap));
        }
    });
}

#[test]
fn listing_beside_those_who_ask_and_decide_takes_nobodys_marker() {
    each(50, |place| {
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::SeqCst) {
                    listed(place);
                }
            });
            for round in 0..40_u32 {
                let mut run = open(place, "trip");
                assert_eq!(run.await_approval::<u32>(&format!("sure {round}?"), "").unwrap(), None);
                assert_eq!(markers(place), ["taffrail:waiting/trip"], "round {round}");
                approve(place, "trip", &round).unwrap();
                assert_eq!(run.await_approval::<u32>(&format!("sure {round}?"), "").unwrap(), Some(round));
            }
            done.store(true, std::sync::atomic::Ordering::SeqCst);
        });
        let all = place.list_threads(&ThreadQuery::default()).unwrap().count();
        assert_eq!(all, 1);
    });
}
