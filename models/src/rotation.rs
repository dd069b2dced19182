//! Rotation: no sync of a segment is taken for one of the next.

use std::sync::Arc;

use loom::thread;

use crate::fs::page::Orderings::{NoAcquire, NoRelease};
use crate::run::Run;
use crate::scene::{ACKNOWLEDGED_AND_LOST, EPOCH, GENERATION, Scene, Tried};

/// Where the first batch ends, the next segment's frames begin, and the batch in it ends.
const ENDS: [u64; 2] = [8, 24];
const NEXT: u64 = 16;

/// Where the steps of a caller stand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Right,
    /// The syncer reads the generation before the appended end.
    GenerationFirst,
    /// The rotation raises the ends before it says that the manifest is installed.
    EndsFirst,
    /// The rotation does not wait until the segment is synced.
    Unsynced,
}

/// Puts a batch, rotates, puts another: `Writer::rotate`, `install`, `Writer::begin`.
fn writer(scene: &Scene, order: Order) {
    let tail = &scene.tail;
    scene.append(0, ENDS[0]);
    if order != Order::Unsynced {
        assert_eq!(scene.sync_for_all(&scene.disk.open(0), 0, ENDS[0]), Tried::Done);
    }
    tail.set_installing(GENERATION + 1);
    if order == Order::EndsFirst {
        tail.raise_all(NEXT);
        scene.append(1, ENDS[1]);
        tail.set_generation(GENERATION + 1);
        return;
    }
    tail.set_generation(GENERATION + 1);
    tail.raise_all(NEXT);
    scene.append(1, ENDS[1]);
}

/// A process that has the first segment open: `Lead::sync`; it leaves when it finds another.
fn syncer(scene: &Scene, order: Order) {
    let (tail, file) = (&scene.tail, scene.disk.open(0));
    let (appended, generation) = if order == Order::GenerationFirst {
        let generation = tail.generation();
        (tail.appended(), generation)
    } else {
        let appended = tail.appended();
        (appended, tail.generation())
    };
    if generation != GENERATION {
        return;
    }
    let number = tail.begin_sync(false);
    assert!(scene.disk.sync(&file));
    tail.end_sync(number, appended, false);
}

fn model(order: Order) {
    let scene = Arc::new(Scene::new(&[0, 1]));
    let writer = thread::spawn({
        let scene = scene.clone();
        move || writer(&scene, order)
    });
    let syncer = thread::spawn({
        let scene = scene.clone();
        move || syncer(&scene, order)
    });
    drop(scene.is_kept(1, ENDS[1]));
    drop(scene.is_kept(0, ENDS[0]));
    writer.join().unwrap();
    syncer.join().unwrap();
    drop(scene.is_kept(1, ENDS[1]));
    assert!(!scene.tail.is_poisoned(EPOCH));
}

pub(crate) fn models(run: &mut Run) {
    run.holds("rotation: a sync of the last segment tells nothing of the next", || model(Order::Right));
    run.fails(ACKNOWLEDGED_AND_LOST, "the generation is read before the appended end", || model(Order::GenerationFirst));
    run.fails(ACKNOWLEDGED_AND_LOST, "the ends are raised before the generation", || model(Order::EndsFirst));
    run.fails(ACKNOWLEDGED_AND_LOST, "the segment is sealed before it is synced", || model(Order::Unsynced));
    run.fails_under(NoRelease, ACKNOWLEDGED_AND_LOST, "the same", || model(Order::Right));
    run.fails_under(NoAcquire, ACKNOWLEDGED_AND_LOST, "the same", || model(Order::Right));
}
