//! Doubt: a process that came after a sync which failed unseen does not take its own for good.

use std::sync::Arc;

use loom::thread;

use crate::run::Run;
use crate::scene::{ACKNOWLEDGED_AND_LOST, Lock, Scene, Tried};

const ENDS: [u64; 2] = [8, 16];

/// Where the steps of a caller stand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Right,
    /// Who opens counts the syncs that were begun before it has the file open.
    CountFirst,
    /// Who opens trusts its descriptor.
    Trusting,
    /// Who passes by does not say so.
    Silent,
}

/// One of two syncers, with a descriptor as old as the file, dies in its sync, which fails, before it
/// can poison; with `other` there is another beside it. Who does not get the lock passes by. Then
/// somebody appends, opens, and syncs.
fn model(other: bool, order: Order) {
    let (scene, lock) = (Arc::new(Scene::new(&[0, 0])), Arc::new(Lock::new()));
    scene.append(0, ENDS[0]);
    let (first, second) = (scene.disk.open(0), scene.disk.open(0));
    let dying = thread::spawn({
        let (scene, lock, file) = (scene.clone(), lock.clone(), first);
        move || {
            let held = lock.take();
            let _ = scene.tail.begin_sync(!held && order != Order::Silent);
            scene.disk.fail();
            scene.disk.sync(&file);
            if held {
                // The lock dies with it.
                lock.give_back();
            }
        }
    });
    let other = other.then(|| {
        let (scene, lock, file) = (scene.clone(), lock.clone(), second);
        thread::spawn(move || {
            let held = lock.take();
            scene.sync_beside(&file, 0, ENDS[0], !held && order != Order::Silent);
            if held {
                lock.give_back();
            }
        })
    });
    scene.append(1, ENDS[1]);
    // `Reading::enter`, `look_under`.
    let counted = scene.tail.syncs_begun();
    let file = scene.disk.open(0);
    let opened_at = match order {
        Order::Right | Order::Silent => scene.tail.syncs_begun(),
        Order::CountFirst => counted,
        Order::Trusting => 0,
    };
    if scene.sync_beside(&file, opened_at, ENDS[1], true) == Tried::Done {
        drop(scene.is_kept(1, ENDS[1]));
    }
    dying.join().unwrap();
    if let Some(other) = other {
        other.join().unwrap();
    }
}

pub(crate) fn models(run: &mut Run) {
    run.holds("doubt: beside a syncer that dies", || model(false, Order::Right));
    run.fails(ACKNOWLEDGED_AND_LOST, "the syncs are counted before the opening", || model(false, Order::CountFirst));
    run.fails(ACKNOWLEDGED_AND_LOST, "no doubt is had", || model(false, Order::Trusting));
    run.holds("doubt: beside one that dies and one that passes it by", || model(true, Order::Right));
    run.fails(ACKNOWLEDGED_AND_LOST, "who passes by does not say so", || model(true, Order::Silent));
}
