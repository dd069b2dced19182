//! Forks, renames and rollbacks in a file that windlass shares, beside other processes, and killed.

use std::io::{BufRead, BufReader};
use std::time::Duration;

use taffrail::prelude::*;
use taffrail::{Checkpoint, CheckpointInfo, ErrorKind, HistoryQuery, OnExisting, SqliteCheckpointer, StateBytes, ThreadQuery, TypeTag};

use crate::together::{FILE, both_journals, role};
use crate::windlass::{load, prune, save};
use crate::{Scratch, id, ids, put};

/// A checkpoint's id, all else that is known of it but thread and seq, and its state.
type Shown = (String, String, Vec<u8>);

/// A thread's checkpoints, newest first.
fn shown(place: &SqliteCheckpointer, thread: &str) -> Vec<Shown> {
    let one = |read: Checkpoint<StateBytes>| {
        let CheckpointInfo { id, parent, saved_at, metadata, tag, bytes, .. } = read.info;
        (id.to_string(), format!("{parent:?} {saved_at:?} {metadata:?} {tag} {bytes}"), read.state.to_vec())
    };
    place.history_bytes(thread, &HistoryQuery::default()).unwrap().map(|read| one(read.unwrap())).collect()
}

#[test]
fn a_run_of_windlass_is_forked_and_windlass_goes_on_with_it() {
    let scratch = Scratch::of_windlass();
    let (place, windlass) = (scratch.open().unwrap(), scratch.other());
    let source = shown(&place, "thread-1");
    let at = id(&source[20].0);
    place.fork("thread-1", None, "whole").unwrap();
    place.fork("thread-1", Some(&at), "part").unwrap();
    assert_eq!((shown(&place, "whole"), shown(&place, "part")), (source.clone(), source[20..].to_vec()));
    let state = |at: usize| String::from_utf8(source[at].2.clone()).unwrap();
    assert_eq!([load(&windlass, "whole"), load(&windlass, "part")], [Some(state(0)), Some(state(20))]);
    // Windlass puts to the fork, and keeps its newest of the source.
    let added = save(&windlass, "part", "{\"by\": \"windlass\"}").to_string();
    let head = place.head("part").unwrap().unwrap();
    assert_eq!((head.id.as_str(), head.parent.as_ref()), (&*added, Some(&at)));
    prune(&windlass, "thread-1", 0);
    assert_eq!(shown(&place, "whole"), source);
    assert_eq!(place.rollback("part", &at).unwrap(), 1);
    assert_eq!(load(&windlass, "part"), Some(state(20)));
    prune(&windlass, "part", 3);
    assert_eq!(shown(&place, "part"), source[20..23]);
    // What windlass puts is forked, renamed and rolled back as what is put here.
    (0..4).for_each(|step| assert!(save(&windlass, "whole", &step.to_string()) > 0));
    let source = shown(&place, "whole");
    place.rename("whole", "thread-1").unwrap();
    assert_eq!((shown(&place, "thread-1"), load(&windlass, "whole")), (source.clone(), None));
    assert_eq!(load(&windlass, "thread-1").as_deref(), Some("3"));
    assert_eq!(place.rollback("thread-1", &id(&source[3].0)).unwrap(), 3);
    assert_eq!(load(&windlass, "thread-1").as_deref(), Some("0"));
    assert_eq!(windlass.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0)).unwrap(), "ok");
}

/// Also where a row comes by a number that a fork's checkpoint has for an id.
#[test]
fn an_id_in_a_fork_stays_its_own() {
    let scratch = Scratch::new();
    let (place, windlass) = (scratch.open().unwrap(), scratch.other());
    // Rows 1 to 4; their copies are 5 to 8, and the next that windlass adds are 9 and 10.
    for own in ["6", "9", "5", "8"] {
        put(&place, "t", own, own.as_bytes());
    }
    place.fork("t", None, "u").unwrap();
    assert_eq!(ids(&place, "u"), ["8", "5", "9", "6"]);
    assert_eq!((save(&windlass, "u", "nine"), save(&windlass, "t", "ten")), (9, 10));
    let found = ids(&place, "u");
    assert!(found[0].starts_with("9-") && found[1..] == ["8", "5", "9", "6"], "{found:?}");
    for own in ["6", "9", "5", "8"] {
        assert_eq!(&*place.load_bytes("u", &id(own)).unwrap().unwrap().state, own.as_bytes());
    }
    // Rows 11 to 15 have those of the fork, and row 10's id is no more than that.
    place.rename("u", "v").unwrap();
    assert_eq!(ids(&place, "v"), found);
    assert_eq!(place.locate(&id("10")).unwrap(), ["t"]);
    place.fork("t", None, "w").unwrap();
    assert_eq!(ids(&place, "w"), ["10", "8", "5", "9", "6"]);
}

#[test]
fn rows_that_windlass_added_beyond_the_number_are_not_carried() {
    let scratch = Scratch::new();
    let place = SqliteCheckpointer::options().max_history(3).open(scratch.file()).unwrap();
    let windlass = scratch.other();
    (0..9).for_each(|step| assert!(save(&windlass, "t", &step.to_string()) > 0));
    place.attach("t", &id("2"), "k", TypeTag::BYTES, b"1", OnExisting::Keep).unwrap();
    place.attach("t", &id("8"), "k", TypeTag::BYTES, b"2", OnExisting::Keep).unwrap();
    place.fork("t", None, "u").unwrap();
    assert_eq!((ids(&place, "t").len(), ids(&place, "u")), (9, vec!["9".to_owned(), "8".to_owned(), "7".to_owned()]));
    assert_eq!(place.list("u", &HistoryQuery::default()).unwrap().last().unwrap().unwrap().parent, Some(id("6")));
    assert!(place.attachments("u", &id("2")).unwrap().is_empty() && place.attachments("u", &id("8")).unwrap().len() == 1);
    place.fork("t", Some(&id("2")), "v").unwrap();
    assert_eq!(ids(&place, "v"), ["2", "1"]);
}

#[test]
fn what_windlass_pruned_is_not_carried() {
    let scratch = Scratch::new();
    let (place, windlass) = (scratch.open().unwrap(), scratch.other());
    put(&place, "t", "a", b"1");
    place.attach("t", &id("never"), "k", TypeTag::BYTES, b"1", OnExisting::Keep).unwrap();
    save(&windlass, "t", "2");
    prune(&windlass, "t", 1);
    place.attach("t", &id("coming"), "k", TypeTag::BYTES, b"2", OnExisting::Keep).unwrap();
    place.fork("t", None, "u").unwrap();
    assert!(place.attachments("u", &id("never")).unwrap().is_empty());
    assert_eq!(place.attachments("u", &id("coming")).unwrap().len(), 1);
}

#[test]
fn what_is_damaged_is_not_forked_and_can_be_left_behind() {
    let scratch = Scratch::new();
    let (place, other) = (scratch.open().unwrap(), scratch.other());
    for own in ["a", "b", "c"] {
        put(&place, "t", own, b"state");
        place.attach("t", &id(own), "k", TypeTag::BYTES, b"value", OnExisting::Keep).unwrap();
    }
    other.execute("UPDATE taffrail_attachments SET value = x'00' WHERE name = 'c'", []).unwrap();
    let refused = |at: Option<&str>, kind: ErrorKind| {
        let error = place.fork("t", at.map(id).as_ref(), "u").unwrap_err();
        assert!(error.kind() == kind && error.file().is_some(), "{error:?}");
        assert_eq!(place.threads().unwrap(), ["t"], "nothing of it is there");
        assert!(place.attachments("u", &id("a")).unwrap().is_empty());
    };
    refused(None, ErrorKind::Corrupt);
    place.fork("t", Some(&id("b")), "whole").unwrap();
    place.delete("whole").unwrap();
    other.execute("UPDATE taffrail_checkpoints SET data = x'00' WHERE thread = 't' AND name = 'b'", []).unwrap();
    refused(Some("b"), ErrorKind::Corrupt);
    assert_eq!(place.rename("t", "u").unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(place.rollback("t", &id("a")).unwrap(), 2);
    assert_eq!(place.fork("t", None, "u").unwrap(), id("a"));
}

#[test]
fn who_waits_in_vain_is_busy_and_has_changed_nothing() {
    let scratch = Scratch::new();
    let place = SqliteCheckpointer::options().busy_timeout(Duration::from_millis(50)).open(scratch.file()).unwrap();
    ["a", "b"].iter().for_each(|own| put(&place, "t", own, b"1"));
    let other = scratch.other();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let answers = [place.fork("t", None, "u").map(drop), place.rename("t", "u"), place.rollback("t", &id("a")).map(drop)];
    assert!(answers.iter().all(|answer| answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::Busy)), "{answers:?}");
    other.execute_batch("COMMIT").unwrap();
    assert_eq!((place.threads().unwrap(), ids(&place, "t").len()), (vec!["t".to_owned()], 2));
}

/// Each by a connection of its own, as other processes have.
#[test]
fn of_handles_that_fork_to_one_name_at_once_one_wins() {
    const HANDLES: usize = 4;
    for scratch in both_journals() {
        let places: Vec<SqliteCheckpointer> = (0..HANDLES).map(|_| scratch.open().unwrap()).collect();
        for handle in 0..HANDLES {
            (0..=handle).for_each(|step| put(&places[0], &format!("source {handle}"), &step.to_string(), b"1"));
        }
        for round in 0..10 {
            let new = format!("new {round}");
            let barrier = std::sync::Barrier::new(HANDLES);
            let fork = &|handle: usize| {
                barrier.wait();
                places[handle].fork(&format!("source {handle}"), None, &new)
            };
            let answers: Vec<_> = std::thread::scope(|scope| {
                let begun: Vec<_> = (0..HANDLES).map(|handle| scope.spawn(move || fork(handle))).collect();
                begun.into_iter().map(|worker| worker.join().unwrap()).collect()
            });
            let won = answers.iter().position(Result::is_ok).expect("one wins");
            for (handle, answer) in answers.iter().enumerate().filter(|(handle, _)| *handle != won) {
                assert!(answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::Conflict), "{handle}: {answer:?}");
            }
            assert_eq!(ids(&places[0], &new), ids(&places[0], &format!("source {won}")));
        }
    }
}

const LENGTH: usize = 12;

/// The process that is killed: a thread of twelve goes from name to name, is forked, and the fork rolled back
/// and deleted; each is told once it is done.
#[test]
fn brancher() {
    let Ok(file) = std::env::var(FILE) else { return };
    let place = SqliteCheckpointer::open(file).unwrap();
    for round in 0.. {
        let name = place.threads().unwrap().into_iter().find(|name| name.starts_with("name")).unwrap();
        let next = format!("name {round}");
        if name != next {
            place.rename(&name, &next).unwrap();
        }
        println!("done");
        if place.exists("fork").unwrap() {
            place.delete("fork").unwrap();
        }
        place.fork(&next, None, "fork").unwrap();
        println!("done");
        assert!(place.rollback("fork", &id("c3")).unwrap() > 0);
        println!("done");
    }
}

#[test]
fn a_killed_process_leaves_whole_steps() {
    for scratch in both_journals() {
        let place = scratch.open().unwrap();
        place.delete("thread-1").unwrap();
        for step in 0..LENGTH {
            let own = format!("c{step}");
            put(&place, "name", &own, &vec![step as u8; 9_000]);
            place.attach("name", &id(&own), "k", TypeTag::BYTES, own.as_bytes(), OnExisting::Keep).unwrap();
        }
        place.attach("name", &id("coming"), "k", TypeTag::BYTES, b"waits", OnExisting::Keep).unwrap();
        let wanted = shown(&place, "name");
        drop(place);
        for round in 0..12 {
            let mut child = role("branches::brancher", &scratch, "");
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(|line| line.unwrap_or_default());
            let mut done = 0;
            while done < 2 + round {
                done += usize::from(lines.next().expect("the child goes on").ends_with("done"));
            }
            std::thread::sleep(Duration::from_micros(331 * round as u64));
            child.kill().unwrap();
            child.wait().unwrap();
            let place = scratch.open().unwrap();
            let infos: Vec<_> = place.list_threads(&ThreadQuery::default()).unwrap().map(Result::unwrap).collect();
            let named: Vec<&str> = infos.iter().map(|info| &*info.thread).filter(|name| name.starts_with("name")).collect();
            assert_eq!(named.len(), 1, "{infos:?}");
            let fork = shown(&place, "fork");
            assert!([0, 4, LENGTH].contains(&fork.len()), "half a step: {}", fork.len());
            assert_eq!(fork, wanted[LENGTH - fork.len()..]);
            assert_eq!(shown(&place, named[0]), wanted);
            for (thread, length) in [(named[0], LENGTH), ("fork", fork.len())] {
                for step in 0..LENGTH {
                    let own = format!("c{step}");
                    let attached = place.attachments(thread, &id(&own)).unwrap();
                    assert_eq!(attached.first().map(|one| one.value.to_vec()), (step < length).then(|| own.into_bytes()));
                }
                assert_eq!(place.attachments(thread, &id("coming")).unwrap().len(), usize::from(length > 0), "{thread}");
            }
            drop(place);
            let whole: String = scratch.other().query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
            assert_eq!(whole, "ok");
        }
    }
}
