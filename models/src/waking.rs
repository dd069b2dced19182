//! Waiting: who looks, finds nothing and waits is woken by what comes after its look.

use std::sync::Arc;
use std::time::Duration;

use loom::thread;

use crate::run::{NOBODY_WAKES, Run};
use crate::scene::{Lock, Scene};

const END: u64 = 8;

/// Where the steps of who waits stand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Right,
    /// The counter is read after the look.
    LookFirst,
    /// It does not say that it waits.
    Unasked,
}

/// Waits until an end is visible: `Group::sync_to`, `Watch::wait`.
fn await_news(scene: &Scene, order: Order) {
    loop {
        let before = scene.tail.news();
        if scene.tail.visible() >= END {
            return;
        }
        let seen = if order == Order::LookFirst { scene.tail.news() } else { before };
        scene.tail.wait_for_news(seen, Duration::MAX);
    }
}

/// So many who wait, and so many who tell; the last of all that is told is what they wait for.
fn news(waiters: usize, tellers: usize, order: Order) {
    let scene = Arc::new(Scene::new(&[]));
    let mut others = Vec::new();
    for teller in 0..tellers {
        let scene = scene.clone();
        others.push(thread::spawn(move || {
            if teller == 0 {
                scene.tail.announce();
            }
            if teller + 1 == tellers {
                scene.tail.raise_visible(END);
            }
        }));
    }
    for _ in 1..waiters {
        let scene = scene.clone();
        others.push(thread::spawn(move || await_news(&scene, order)));
    }
    await_news(&scene, order);
    for other in others {
        other.join().unwrap();
    }
}

/// Takes the turn and gives it back: `Turn::take`, `Right::drop`.
fn take_turn(scene: &Scene, turn: &Lock, order: Order) {
    loop {
        let before = scene.tail.turns();
        if turn.take() {
            turn.give_back();
            scene.tail.turn_is_free();
            return;
        }
        let seen = if order == Order::LookFirst { scene.tail.turns() } else { before };
        if order != Order::Unasked {
            scene.tail.want_turn(seen);
        }
        scene.tail.wait_for_turn(seen, Duration::MAX);
    }
}

/// One takes the turn beside so many others.
fn turns(others: usize, order: Order) {
    let (scene, turn) = (Arc::new(Scene::new(&[])), Arc::new(Lock::new()));
    let others: Vec<_> = (0..others)
        .map(|_| {
            let (scene, turn) = (scene.clone(), turn.clone());
            thread::spawn(move || take_turn(&scene, &turn, order))
        })
        .collect();
    take_turn(&scene, &turn, order);
    for other in others {
        other.join().unwrap();
    }
}

pub(crate) fn models(run: &mut Run) {
    run.holds("waking: news reach one who waits", || news(1, 1, Order::Right));
    run.holds("waking: news of two reach one who waits", || news(1, 2, Order::Right));
    run.fails(NOBODY_WAKES, "the counter is read after the look", || news(1, 1, Order::LookFirst));
    run.holds("waking: the turn goes on to who waits", || turns(1, Order::Right));
    run.holds("waking: the turn goes on to two who wait", || turns(2, Order::Right));
    run.fails(NOBODY_WAKES, "the counter is read after the try", || turns(2, Order::LookFirst));
    run.fails(NOBODY_WAKES, "nobody is told of the wait", || turns(1, Order::Unasked));
}
