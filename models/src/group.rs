//! Group commit beside a sync that fails: nobody is told that bytes are kept which it has lost.

use std::sync::Arc;
use std::time::Duration;

use loom::sync::Mutex;
use loom::thread;

use crate::disk::Descriptor;
use crate::fs::page::Orderings::NoRelease;
use crate::run::Run;
use crate::scene::{ACKNOWLEDGED_AND_LOST, EPOCH, Lock, Scene, Tried};

const ENDS: [u64; 2] = [8, 16];

/// Where the steps of a caller stand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Right,
    /// The poison after the lead was given up.
    PoisonLate,
    /// A sync that failed is tried again.
    TryAgain,
}

/// One process: a descriptor, and who leads; `Group`.
struct Process {
    file: Descriptor,
    leading: Lock,
}

/// Puts a batch and waits until it is kept: `Shared::write`, then `Group::sync_to`.
fn put(scene: &Scene, process: &Process, turn: &Mutex<usize>, order: Order) {
    let (batch, end) = {
        let mut appended = turn.lock().unwrap();
        let batch = *appended;
        *appended += 1;
        scene.append(batch, ENDS[batch]);
        (batch, ENDS[batch])
    };
    loop {
        let news = scene.tail.news();
        match scene.is_kept(batch, end) {
            Ok(false) => {}
            Ok(true) | Err(_) => return,
        }
        if !process.leading.take() {
            scene.tail.wait_for_news(news, Duration::MAX);
            continue;
        }
        let tried = lead(scene, process, end, order);
        process.leading.give_back();
        if order == Order::PoisonLate && tried == Tried::Failed {
            scene.tail.poison(EPOCH);
        }
        scene.tail.announce();
    }
}

fn lead(scene: &Scene, process: &Process, end: u64, order: Order) -> Tried {
    if order == Order::Right {
        return scene.sync_for_all(&process.file, 0, end);
    }
    let appended = scene.tail.appended();
    if !matches!(scene.tail.is_kept(end, EPOCH), Ok(false)) {
        return Tried::Done;
    }
    let number = scene.tail.begin_sync(false);
    if scene.disk.sync(&process.file) || order == Order::TryAgain && scene.disk.sync(&process.file) {
        scene.tail.end_sync(number, appended, false);
        return Tried::Done;
    }
    if order == Order::TryAgain {
        scene.tail.poison(EPOCH);
    }
    Tried::Failed
}

/// Two puts, in as many processes as that, of which one meets a sync that fails.
fn model(processes: usize, order: Order) {
    let scene = Arc::new(Scene::new(&[0, 0]));
    let open = |_| Arc::new(Process { file: scene.disk.open(0), leading: Lock::new() });
    let processes: Vec<_> = (0..processes).map(open).collect();
    let turn = Arc::new(Mutex::new(0));
    scene.disk.fail();
    let other = thread::spawn({
        let (scene, process, turn) = (scene.clone(), processes[0].clone(), turn.clone());
        move || put(&scene, &process, &turn, order)
    });
    put(&scene, &processes[processes.len() - 1], &turn, order);
    other.join().unwrap();
    assert!(scene.tail.is_poisoned(EPOCH));
    assert!(order != Order::Right || scene.tail.synced() == 0, "shown after a sync failed");
}

pub(crate) fn models(run: &mut Run) {
    run.holds("group: a failed sync reaches both workers of a process", || model(1, Order::Right));
    run.fails(ACKNOWLEDGED_AND_LOST, "poisoned after the lead is given up", || model(1, Order::PoisonLate));
    run.fails(ACKNOWLEDGED_AND_LOST, "a failed sync is tried again", || model(1, Order::TryAgain));
    run.fails_under(NoRelease, ACKNOWLEDGED_AND_LOST, "the same", || model(1, Order::Right));
    run.holds("group: a failed sync reaches both processes", || model(2, Order::Right));
    run.fails(ACKNOWLEDGED_AND_LOST, "a failed sync is tried again", || model(2, Order::TryAgain));
}
