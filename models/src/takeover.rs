//! Takeover: who waits in an epoch that is over is not told that its bytes are kept.

use std::sync::Arc;

use loom::thread;

use crate::fs::page::Orderings::{NoAcquire, NoRelease};
use crate::run::Run;
use crate::scene::{EPOCH, GENERATION, Scene, Tried, manifest};

const END: u64 = 8;
/// Where the next epoch's segment begins.
const NEXT: u64 = 1 << 32;
const DROPPED: &str = "told as kept by who dropped it";

/// Why another epoch begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    /// A sync failed.
    Poisoned,
    /// Nobody knows whether one did, and what was appended cannot be read any more.
    InDoubt,
}

fn model(why: Why, ends_first: bool) {
    let scene = Arc::new(Scene::new(&[0]));
    scene.append(0, END);
    let syncer = (why == Why::Poisoned).then(|| {
        let scene = scene.clone();
        scene.disk.fail();
        thread::spawn(move || {
            assert_eq!(scene.sync_for_all(&scene.disk.open(0), 0, END), Tried::Failed);
            // Said twice, and late: it is no word on the next epoch.
            scene.tail.poison(EPOCH);
        })
    });
    // `recovery::write_anew`, which reads the log without the batch.
    let taker = thread::spawn({
        let scene = scene.clone();
        move || {
            let tail = &scene.tail;
            if why == Why::Poisoned && !tail.is_poisoned(tail.epoch()) {
                return;
            }
            let manifest = manifest(GENERATION + 1, tail.epoch() + 1);
            tail.set_installing(manifest.generation);
            tail.set_generation(manifest.generation);
            if ends_first {
                tail.raise_all(NEXT);
            }
            tail.go_on(&manifest, NEXT);
            assert!(tail.is_kept(NEXT, manifest.epoch).is_ok_and(|kept| kept), "the next epoch is poisoned by the last");
        }
    });
    assert!(!scene.tail.is_kept(END, EPOCH).unwrap_or(false), "{DROPPED}");
    taker.join().unwrap();
    if let Some(syncer) = syncer {
        syncer.join().unwrap();
    }
}

pub(crate) fn models(run: &mut Run) {
    run.holds("takeover: after a failed sync", || model(Why::Poisoned, false));
    run.holds("takeover: in doubt", || model(Why::InDoubt, false));
    run.fails(DROPPED, "the ends are raised before the epoch", || model(Why::InDoubt, true));
    run.fails_under(NoRelease, DROPPED, "the same", || model(Why::InDoubt, false));
    run.fails_under(NoAcquire, DROPPED, "the same", || model(Why::InDoubt, false));
}
