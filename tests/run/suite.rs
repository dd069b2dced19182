//! What a run's steps promise, on every kind of place.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};
use taffrail::prelude::*;
use taffrail::run::{NAME_BYTES_MAX, RUN_THREAD_BYTES_MAX, Recorded, Run, RunError, approve};
use taffrail::{Capabilities, Durability, Error, ErrorKind, HistoryQuery, MemoryCheckpointer, Operation, PutOptions, Result, TypeTag};

use crate::places::{Call, Watched, each};

type Trip<'a> = Run<&'a dyn Checkpointer, Vec<String>>;

fn open<'a>(place: &'a dyn Checkpointer, thread: &str) -> Trip<'a> {
    Run::start_or_resume(place, thread).unwrap()
}

/// A step that must be done now.
fn does(run: &mut Trip<'_>, name: &str, result: u32) {
    let mut done = false;
    let answered = run.step(name, |state| {
        (done, _) = (true, state.push(name.to_owned()));
        Ok::<_, String>(result)
    });
    assert_eq!((answered.unwrap(), done), (result, true), "{name}");
}

/// A step that must answer what was recorded.
fn is_recorded(run: &mut Trip<'_>, name: &str, result: u32) {
    let answered = run.step(name, |_| -> std::result::Result<u32, String> { panic!("{name} is done again") });
    assert_eq!(answered.unwrap(), result, "{name}");
}

fn place_error<T: std::fmt::Debug, E: std::fmt::Debug>(answer: std::result::Result<T, RunError<E>>) -> ErrorKind {
    match answer {
        Err(RunError::Place(error)) => error.kind(),
        other => panic!("{other:?} is no error of the place"),
    }
}

/// A run in which `name` was begun and its closure panicked.
fn in_doubt<'a>(place: &'a dyn Checkpointer, thread: &str, name: &str) -> Trip<'a> {
    let mut run = open(place, thread);
    let step = || {
        run.step(name, |state: &mut Vec<String>| -> std::result::Result<u32, String> {
            state.push("half".into());
            panic!("in the step, on purpose")
        })
    };
    assert!(catch_unwind(AssertUnwindSafe(step)).is_err());
    run
}

#[test]
fn a_recorded_step_is_never_done_again_whatever_is_kept() {
    for keep in [Some(1), Some(50), None] {
        each(keep, |place| {
            let mut run = open(place, "trip");
            assert!(!place.exists("trip").unwrap(), "beginning writes nothing");
            (0..60).for_each(|number| does(&mut run, &format!("step {number}"), number));
            let state: Vec<String> = (0..60).map(|number| format!("step {number}")).collect();
            for mut run in [run, open(place, "trip")] {
                (0..60).for_each(|number| is_recorded(&mut run, &format!("step {number}"), number));
                assert_eq!((run.state(), run.unknown()), (&state, None));
            }
            let kept = place.list("trip", &HistoryQuery::default()).unwrap().count();
            assert_eq!(kept, keep.unwrap_or(120).min(120), "looking at what is recorded writes nothing");
            assert_eq!(place.get::<Recorded<Vec<String>>>("trip").unwrap().unwrap().state, state);
        });
    }
}

#[test]
fn what_is_stored_is_plain_json() {
    each(50, |place| {
        let mut run = open(place, "trip");
        does(&mut run, "a", 1);
        drop(run.step("b", |_| Err::<(), _>("no seat")));
        run.step("c", |_| Ok::<_, String>(())).unwrap();
        let text = place.get_bytes("trip").unwrap().unwrap();
        let expected = concat!(
            r#"{"run":1,"state":["a"],"steps":[{"name":"a","outcome":"done","result":1},"#,
            r#"{"name":"b","outcome":"failed","message":"no seat"},{"name":"c","outcome":"done"}]}"#
        );
        assert_eq!(std::str::from_utf8(&text.state).unwrap(), expected);
        let told: Vec<String> =
            place.list("trip", &HistoryQuery::default()).unwrap().map(|info| info.unwrap().metadata.as_str().to_owned()).collect();
        let line = |step: &str, outcome: &str| format!(r#"{{"run":1,"step":"{step}","outcome":"{outcome}"}}"#);
        assert_eq!(
            told,
            [line("c", "done"), line("c", "begun"), line("b", "failed"), line("b", "begun"), line("a", "done"), line("a", "begun")]
        );
    });
}

#[test]
fn a_step_that_fails_leaves_the_state_and_may_be_tried_again() {
    each(50, |place| {
        let mut run = open(place, "trip");
        does(&mut run, "a", 1);
        for attempt in 0..3 {
            let failed = run.step("b", |state| {
                state.push("wrong".into());
                Err::<u32, _>(format!("attempt {attempt}"))
            });
            assert!(matches!(failed, Err(RunError::Failed(message)) if message == format!("attempt {attempt}")));
            assert_eq!((run.state().len(), run.unknown()), (1, None));
            run = open(place, "trip");
        }
        does(&mut run, "b", 2);
        is_recorded(&mut run, "b", 2);
        assert_eq!(open(place, "trip").state(), &["a", "b"]);
    });
}

#[test]
fn a_step_in_doubt_holds_up_all_that_is_new_until_it_is_decided() {
    each(50, |place| {
        drop(in_doubt(place, "trip", "pay"));
        let mut here = in_doubt(place, "here", "pay");
        for run in [&mut here, &mut open(place, "trip")] {
            assert_eq!((run.unknown(), run.state().len()), (Some("pay"), 0));
            for name in ["pay", "other"] {
                let answer = run.step(name, |_| -> std::result::Result<u32, String> { panic!("{name} is done") });
                assert!(matches!(answer, Err(RunError::Unknown(step)) if step == "pay"));
            }
            let again = run.step_again("other", |_| -> std::result::Result<u32, String> { panic!("other is done") });
            assert!(matches!(again, Err(RunError::Unknown(step)) if step == "pay"));
            assert!(matches!(run.await_approval::<bool>("sure?", "?"), Err(RunError::Unknown(step)) if step == "pay"));
            assert_eq!(run.settle("other", |_| 1).unwrap_err().kind(), ErrorKind::InvalidInput);
        }
        let mut run = open(place, "trip");
        run.settle("pay", |state| {
            state.push("paid, says the bank".into());
            7_u32
        })
        .unwrap();
        assert_eq!(run.settle("pay", |_| 8_u32).unwrap_err().kind(), ErrorKind::InvalidInput);
        is_recorded(&mut run, "pay", 7);
        assert_eq!(open(place, "trip").state(), &["paid, says the bank"]);
        assert_eq!(here.step_again("pay", |_| Ok::<u32, String>(9)).unwrap(), 9);
        is_recorded(&mut here, "pay", 9);
        assert_eq!(here.step_again("pay", |_| -> std::result::Result<u32, String> { panic!("again") }).unwrap(), 9);
    });
}

#[test]
fn of_two_handles_one_goes_on() {
    each(50, |place| {
        let (mut first, mut second) = (open(place, "trip"), open(place, "trip"));
        does(&mut first, "a", 1);
        let late = second.step("a", |_| -> std::result::Result<u32, String> { panic!("done twice") });
        assert_eq!(place_error(late), ErrorKind::Conflict);
        let mut third = open(place, "trip");
        is_recorded(&mut third, "a", 1);
        does(&mut third, "b", 2);
        assert_eq!(place_error(first.await_approval::<bool>("c", "")), ErrorKind::Conflict);
        is_recorded(&mut first, "a", 1);
        // Overtaken in the middle of a step: its result comes too late, and is in doubt for the other.
        let answer = third.step("c", |_| {
            let mut fourth = open(place, "trip");
            assert_eq!(fourth.unknown(), Some("c"));
            fourth.settle("c", |_| 3_u32).unwrap();
            Ok::<u32, String>(30)
        });
        assert_eq!(place_error(answer), ErrorKind::Conflict);
        is_recorded(&mut open(place, "trip"), "c", 3);
    });
}

#[test]
fn bad_names_and_threads_are_refused_and_write_nothing() {
    each(50, |place| {
        let long = "x".repeat(RUN_THREAD_BYTES_MAX + 1);
        for thread in ["", "taffrail:", "taffrail:waiting/a", &long] {
            let refused = Run::<_, u32>::start_or_resume(place, thread).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{thread}");
        }
        let mut run = open(place, &long[1..]);
        for name in [String::new(), "x".repeat(NAME_BYTES_MAX + 1)] {
            assert_eq!(place_error(run.step(&name, |_| Ok::<_, String>(()))), ErrorKind::InvalidInput);
            assert_eq!(place_error(run.await_approval::<()>(&name, "")), ErrorKind::InvalidInput);
        }
        assert!(place.threads().unwrap().is_empty());
        does(&mut run, &long[..NAME_BYTES_MAX], 1);
        assert!(run.await_approval::<()>(&long[..NAME_BYTES_MAX], "").unwrap().is_none());
        is_recorded(&mut run, &long[..NAME_BYTES_MAX], 1);
        assert_eq!(place_error(run.step("sure?", |_| Ok::<_, String>(()))), ErrorKind::InvalidInput);
        assert_eq!(place_error(run.step("next", |_| Ok::<_, String>(()))), ErrorKind::InvalidInput);
        assert_eq!(place_error(run.await_approval::<()>("another", "")), ErrorKind::InvalidInput);
    });
}

#[test]
fn a_thread_that_is_no_run_is_left_alone() {
    each(50, |place| {
        place.put("list", &[1, 2]).unwrap();
        place.put("object", &serde_json::json!({"state": 1})).unwrap();
        place.put("shape", &serde_json::json!({"run": 1, "state": 1})).unwrap();
        place.put_bytes("bytes", TypeTag::BYTES, br#"{"run":1}"#, PutOptions::default()).unwrap();
        place.put("newer", &serde_json::json!({"run": 2, "state": 1, "steps": []})).unwrap();
        place.put("typed", &serde_json::json!({"run": 1, "state": "text", "steps": []})).unwrap();
        for thread in ["list", "object", "shape", "bytes", "newer", "typed"] {
            let error = Run::<_, u32>::start_or_resume(place, thread).unwrap_err();
            let kind = if thread == "newer" { ErrorKind::Unsupported } else { ErrorKind::Decode };
            assert_eq!((error.kind(), error.thread()), (kind, Some(thread)), "{error}");
        }
    });
}

#[test]
fn values_that_cannot_be_recorded_are_told() {
    each(50, |place| {
        assert_eq!(Run::start_or_resume_with(place, "nan", || f64::NAN).unwrap_err().kind(), ErrorKind::InvalidInput);
        let mut run = open(place, "trip");
        assert_eq!(place_error(run.step("a", |_| Ok::<_, String>(f64::NAN))), ErrorKind::InvalidInput);
        assert_eq!(run.unknown(), Some("a"), "it was done, and nobody will know what it gave");
        run.settle("a", |_| 1).unwrap();
        assert_eq!(place_error(run.step("a", |_| Ok::<String, String>(String::new()))), ErrorKind::Decode);
        let nested = |depth: usize| serde_json::from_str::<serde_json::Value>(&("[".repeat(depth) + &"]".repeat(depth))).unwrap();
        assert_eq!(place_error(run.step("deep", |_| Ok::<_, String>(nested(125)))), ErrorKind::InvalidInput);
        run.settle("deep", |_| nested(124)).unwrap();
        assert_eq!(run.step("deep", |_| Ok::<_, String>(nested(1))).unwrap(), nested(124));
    });
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Odd {
    /// Without it the text is not read back.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<u32>,
    #[serde(skip)]
    forgotten: u32,
}

#[test]
fn what_would_not_be_read_back_is_refused_while_it_can_be_settled() {
    each(50, |place| {
        let empty = Run::start_or_resume_with(place, "trip", Odd::default).unwrap_err();
        assert_eq!((empty.kind(), empty.thread()), (ErrorKind::InvalidInput, Some("trip")));
        let begin = || Odd { notes: vec![1], forgotten: 1 };
        let mut run = Run::start_or_resume_with(place, "trip", begin).unwrap();
        let state = run.step("a", |state: &mut Odd| Ok::<_, String>(std::mem::take(state)));
        assert_eq!((place_error(state), run.unknown()), (ErrorKind::InvalidInput, Some("a")));
        run.settle("a", |state| state.notes.push(2)).unwrap();
        assert_eq!(place_error(run.step("b", |_| Ok::<_, String>(Odd::default()))), ErrorKind::InvalidInput);
        assert_eq!(run.settle("b", |_| Odd::default()).unwrap_err().kind(), ErrorKind::InvalidInput);
        // What is answered, and what the state is, does not depend on whether the process has been another one since.
        let step = |run: &mut Run<&dyn Checkpointer, Odd>| {
            let given = run.step_again("b", |state| {
                state.forgotten = 7;
                Ok::<_, String>((begin(), Some(None::<u32>)))
            });
            assert_eq!(given.unwrap(), (Odd { forgotten: 0, ..begin() }, None));
            assert_eq!(*run.state(), Odd { notes: vec![1, 2], forgotten: 0 });
        };
        step(&mut run);
        step(&mut Run::start_or_resume_with(place, "trip", begin).unwrap());
    });
}

#[test]
fn a_result_that_the_place_refuses_is_kept_by_the_handle() {
    each(50, |place| {
        let refuses = AtomicBool::new(true);
        let hear = |call: Call<'_>| match call {
            Call::Commit(_) if refuses.load(Ordering::SeqCst) => Err(Error::new(ErrorKind::DiskFull, "full")),
            _ => Ok(()),
        };
        let full = Watched::of(place, hear);
        let mut run: Run<_, Vec<String>> = Run::start_or_resume(&full, "trip").unwrap();
        let never = run.step("a", |_| -> std::result::Result<u32, String> { panic!("begun without its intent") });
        assert_eq!(place_error(never), ErrorKind::DiskFull);
        assert_eq!((run.unknown(), place.exists("trip").unwrap()), (None, false));
        refuses.store(false, Ordering::SeqCst);
        let late = run.step("a", |state| {
            state.push("a".into());
            refuses.store(true, Ordering::SeqCst);
            Ok::<u32, String>(1)
        });
        assert_eq!(place_error(late), ErrorKind::DiskFull);
        assert_eq!(run.unknown(), None, "this handle knows");
        assert_eq!(open(place, "trip").unknown(), Some("a"), "another does not");
        assert_eq!(place_error(run.step("a", |_| -> std::result::Result<u32, String> { panic!("again") })), ErrorKind::DiskFull);
        refuses.store(false, Ordering::SeqCst);
        assert_eq!(run.step("a", |_| -> std::result::Result<u32, String> { panic!("again") }).unwrap(), 1);
        assert_eq!(run.state(), &["a"]);
        let failed = run.step("b", |_| {
            refuses.store(true, Ordering::SeqCst);
            Err::<(), _>("no")
        });
        assert!(matches!(failed, Err(RunError::Failed("no"))));
        refuses.store(false, Ordering::SeqCst);
        assert_eq!(run.step("a", |_| Ok::<u32, String>(0)).unwrap(), 1);
        assert_eq!(open(place, "trip").unknown(), None, "that it failed was recorded with the next call");
    });
}

#[test]
fn a_place_that_panics_leaves_the_step_in_doubt() {
    each(50, |place| {
        let panics = AtomicBool::new(false);
        let hear = |call: Call<'_>| match call {
            Call::Commit(_) if panics.load(Ordering::SeqCst) => panic!("in the place, on purpose"),
            _ => Ok(()),
        };
        let place = Watched::of(place, hear);
        let mut run = open(&place, "trip");
        let step = || {
            run.step("a", |state| {
                state.push("a".into());
                panics.store(true, Ordering::SeqCst);
                Ok::<u32, String>(1)
            })
        };
        assert!(catch_unwind(AssertUnwindSafe(step)).is_err());
        panics.store(false, Ordering::SeqCst);
        assert_eq!((run.unknown(), run.state().len()), (Some("a"), 0), "nothing says that it was recorded");
        run.settle("a", |_| 2).unwrap();
        is_recorded(&mut run, "a", 2);
    });
}

#[test]
fn every_put_of_a_run_is_synced() {
    each(50, |place| {
        let puts = AtomicUsize::new(0);
        let hear = |call: Call<'_>| {
            if let Call::Commit(batch) = call {
                for operation in batch.operations() {
                    if let Operation::Put { options, .. } = operation {
                        assert_eq!(options.durability, Some(Durability::Sync), "whatever the place does otherwise");
                        puts.fetch_add(1, Ordering::SeqCst);
                    }
                }
            }
            Ok(())
        };
        let watched = Watched::of(place, hear);
        let mut run = open(&watched, "trip");
        does(&mut run, "a", 1);
        drop(run.step("b", |_| Err::<(), _>("no")));
        run.await_approval::<bool>("sure?", "").unwrap();
        approve(&watched, "trip", &true).unwrap();
        assert_eq!(puts.load(Ordering::SeqCst), 7);
    });
}

#[test]
fn a_place_that_cannot_compare_is_refused() {
    let hear = |_: Call<'_>| -> Result<()> { panic!("asked all the same") };
    let blind = Watched { place: MemoryCheckpointer::new(), hear, can: |_| Capabilities::default() };
    let error = Run::<_, u32>::start_or_resume(&blind, "trip").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert_eq!(approve(&blind, "trip", &true).unwrap_err().kind(), ErrorKind::Unsupported);
}
