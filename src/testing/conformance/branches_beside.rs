//! Forks, renames and rollbacks beside puts and each other: nobody sees a state between.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use super::branches::{expect_copy, having, put_grown};
use super::probe::{Seen, good, id, refused};
use super::{Make, Place, Setup};
use crate::batch::PutOptions;
use crate::checkpoint::TypeTag;
use crate::checkpointer::Checkpointer;
use crate::error::{ErrorKind, Result};
use crate::query::{HistoryQuery, ThreadQuery};

cases![
    of_many_forks_to_one_name_one_is_made,
    of_many_renames_of_one_thread_one_is_made,
    a_fork_beside_puts_is_what_was_there_at_one_moment,
    a_rename_beside_puts_loses_none,
    a_rollback_beside_puts_counts_what_it_took,
    readers_see_all_of_it_or_nothing,
];

/// Who does the same over and over leaves others their turn.
const PAUSE: Duration = Duration::from_micros(500);

/// What each of so many workers was answered, all at one instant.
fn at_once<T: Send>(workers: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let (barrier, work) = (&Barrier::new(workers), &work);
    std::thread::scope(|scope| {
        let begun: Vec<_> = (0..workers)
            .map(|worker| {
                scope.spawn(move || {
                    barrier.wait();
                    work(worker)
                })
            })
            .collect();
        begun.into_iter().map(|worker| worker.join().expect("no worker panics")).collect()
    })
}

/// Who won, if it was one; the others must have been refused so.
#[track_caller]
fn winner<T>(answers: Vec<Result<T>>, kind: ErrorKind) -> usize {
    let won: Vec<usize> = answers.iter().enumerate().filter(|(_, answer)| answer.is_ok()).map(|(worker, _)| worker).collect();
    answers.into_iter().filter(Result::is_err).for_each(|answer| refused(kind, "a loser", answer));
    assert_eq!(won.len(), 1, "exactly one wins");
    won[0]
}

fn put_steps(place: &dyn Checkpointer, thread: &str, steps: std::ops::Range<usize>) {
    for step in steps {
        let options = PutOptions::default().id(id(&format!("c{step}")));
        good("put", place.put_bytes(thread, TypeTag::JSON, step.to_string().as_bytes(), options));
    }
}

/// From as many sources: it is the winner's, and the others are told `Conflict`.
pub fn of_many_forks_to_one_name_one_is_made(make: Make<'_>) {
    let Some(mut place) = having(make, Setup::default()) else { return };
    for worker in 0..6 {
        put_grown(&place, &format!("source {worker}"), worker..worker + 3);
    }
    for round in 0..6 {
        let (new, shared) = (format!("new {round}"), &*place);
        let won = winner(at_once(6, |worker| shared.fork(&format!("source {worker}"), None, &new)), ErrorKind::Conflict);
        let source = place.audit(&format!("source {won}"));
        expect_copy(&place.audit(&new), &source);
    }
    place.reopen();
    (0..6).for_each(|round| assert_eq!(place.audit(&format!("new {round}")).len(), 3));
}

/// To as many names: one has it, the others are told that it is not there.
pub fn of_many_renames_of_one_thread_one_is_made(make: Make<'_>) {
    let Some(mut place) = having(make, Setup::default()) else { return };
    for round in 0..6 {
        put_grown(&place, "t", 0..3);
        let (source, shared) = (place.audit("t"), &*place);
        let name = |worker: usize| format!("new {round} {worker}");
        let won = winner(at_once(6, |worker| shared.rename("t", &name(worker))), ErrorKind::NotFound);
        place.reopen();
        for worker in 0..6 {
            expect_copy(&place.audit(&name(worker)), if worker == won { &source } else { &[] });
        }
        assert!(place.audit("t").is_empty());
    }
}

/// While one worker puts, each fork is what the thread had at some moment: its beginning, without a gap.
pub fn a_fork_beside_puts_is_what_was_there_at_one_moment(make: Make<'_>) {
    const STEPS: usize = 120;
    const FORKS: usize = 10;
    let Some(mut place) = having(make, Setup::default()) else { return };
    put_steps(&*place, "t", 0..1);
    let shared = &*place;
    at_once(3, |worker| match worker {
        0 => put_steps(shared, "t", 1..STEPS),
        _ => (0..FORKS).for_each(|fork| {
            let before = good("head", shared.head("t"));
            let head = good("fork", shared.fork("t", None, &format!("{worker} {fork}")));
            let of_fork = good("head", shared.head(&format!("{worker} {fork}")));
            assert_eq!(of_fork.map(|of_fork| of_fork.id), Some(head.clone()));
            let source = good("load", shared.load_bytes("t", &head)).map(|source| source.info.seq);
            assert!(source >= before.map(|before| before.seq), "a fork is not older than what was there when it was asked for");
        }),
    });
    for _ in 0..2 {
        let source = place.audit("t");
        assert_eq!(source.len(), STEPS);
        for (worker, fork) in (1..3).flat_map(|worker| (0..FORKS).map(move |fork| (worker, fork))) {
            let copy = place.audit(&format!("{worker} {fork}"));
            let bare = |seen: &Seen| (seen.id.clone(), seen.parent.clone(), seen.state.clone());
            assert!(copy.iter().map(bare).eq(source[STEPS - copy.len()..].iter().map(bare)), "{copy:?}");
        }
        place.reopen();
    }
}

/// Each put is in the thread before it was renamed, or in the one that begins under its name: once, in order.
pub fn a_rename_beside_puts_loses_none(make: Make<'_>) {
    const STEPS: usize = 120;
    const RENAMES: usize = 8;
    let Some(mut place) = having(make, Setup::default()) else { return };
    let (shared, done) = (&*place, &AtomicBool::new(false));
    let made: Vec<usize> = at_once(2, |worker| {
        if worker == 0 {
            put_steps(shared, "t", 0..STEPS);
            done.store(true, SeqCst);
            return 0;
        }
        let mut made = 0;
        while made < RENAMES && !done.load(SeqCst) {
            match shared.rename("t", &format!("renamed {made}")) {
                Ok(()) => made += 1,
                Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{error:?}"),
            }
            std::thread::sleep(PAUSE);
        }
        made
    });
    place.reopen();
    let names = (0..made[1]).map(|at| format!("renamed {at}")).chain(["t".to_owned()]);
    let mut steps = Vec::new();
    for name in names {
        let seen = place.audit(&name);
        assert!(seen.last().is_none_or(|oldest| oldest.parent.is_none()), "a thread that was renamed is no ground to build on");
        steps.extend(seen.iter().rev().map(Seen::text));
    }
    assert!(steps.iter().cloned().eq((0..STEPS).map(|step| step.to_string())), "{steps:?}");
}

/// What was put is there still or was counted; what is put later builds on the point.
pub fn a_rollback_beside_puts_counts_what_it_took(make: Make<'_>) {
    const STEPS: usize = 120;
    let Some(mut place) = having(make, Setup::default()) else { return };
    put_steps(&*place, "t", 0..1);
    let (shared, done) = (&*place, &AtomicBool::new(false));
    let taken: Vec<u64> = at_once(3, |worker| {
        if worker == 0 {
            put_steps(shared, "t", 1..STEPS);
            done.store(true, SeqCst);
            return 0;
        }
        let mut taken = 0;
        while !done.load(SeqCst) {
            taken += good("rollback", shared.rollback("t", &id("c0")));
            std::thread::sleep(PAUSE);
        }
        taken
    });
    for _ in 0..2 {
        let seen = place.audit("t");
        assert_eq!(seen.len() as u64 + taken.iter().sum::<u64>(), STEPS as u64);
        let left = seen.len() - 1;
        assert!(seen[..left].iter().rev().map(Seen::text).eq((STEPS - left..STEPS).map(|step| step.to_string())), "{seen:?}");
        assert!(seen.windows(2).all(|pair| pair[0].parent.as_ref() == Some(&pair[1].id)), "each follows the one before: {seen:?}");
        place.reopen();
    }
}

/// Of a thread that goes from name to name a list shows one, whole; a fork has all at once, and a rollback
/// takes all at once.
pub fn readers_see_all_of_it_or_nothing(make: Make<'_>) {
    const ROUNDS: usize = 25;
    let Some(place) = having(make, Setup::default()) else { return };
    put_grown(&place, "name 0", 0..12);
    let (shared, done) = (&*place, &AtomicBool::new(false));
    at_once(3, |worker| {
        if worker == 0 {
            work_on(shared, ROUNDS);
            return done.store(true, SeqCst);
        }
        while !done.load(SeqCst) {
            look(shared);
        }
    });
    shown_at_once(&place);
}

fn work_on(place: &dyn Checkpointer, rounds: usize) {
    for round in 0..rounds {
        good("rename", place.rename(&format!("name {}", round % 3), &format!("name {}", (round + 1) % 3)));
        good("fork", place.fork(&format!("name {}", (round + 1) % 3), None, "fork"));
        assert_eq!(good("rollback", place.rollback("fork", &id("c3"))), 8);
        good("delete", place.delete("fork"));
    }
}

fn look(place: &dyn Checkpointer) {
    let history = good("history", place.history_bytes("fork", &HistoryQuery::default()));
    let seen: Vec<Seen> = history.map(|read| Seen::from(good("an item", read))).collect();
    assert!([0, 4, 12].contains(&seen.len()), "{seen:?}");
    assert!(seen.iter().rev().enumerate().all(|(step, seen)| seen.id == id(&format!("c{step}"))), "{seen:?}");
    if place.capabilities().list_threads {
        let threads = good("list_threads", place.list_threads(&ThreadQuery::default()));
        let infos: Vec<_> = threads.map(|info| good("an item", info)).collect();
        let named: Vec<_> = infos.iter().filter(|info| info.thread.starts_with("name")).collect();
        assert!(named.len() == 1 && named[0].checkpoints == 12, "{infos:?}");
        let forks = infos.iter().filter(|info| info.thread == "fork");
        forks.for_each(|fork| assert!([4, 12].contains(&fork.checkpoints), "{infos:?}"));
    }
}

fn shown_at_once(place: &Place) {
    let left: Vec<usize> = (0..3).map(|name| place.audit(&format!("name {name}")).len()).filter(|len| *len > 0).collect();
    assert_eq!(left, [12]);
    assert!(place.audit("fork").is_empty());
}
