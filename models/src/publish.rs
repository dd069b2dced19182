//! Publishing: who sees an end has all below it.

use std::sync::Arc;

use loom::thread;

use crate::fs::page::Orderings::{NoAcquire, NoRelease};
use crate::run::Run;
use crate::scene::{ACKNOWLEDGED_AND_LOST, EPOCH, KEPT_AND_NOT_SHOWN, Scene, Tried};

const END: u64 = 8;
const SHOWN_AND_NOT_THERE: &str = "shown, and not in the file";

/// Where the steps of a caller stand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Right,
    /// The appended end before the bytes.
    EndFirst,
    /// The sync before the look at what is appended.
    SyncFirst,
}

/// What is looked at beside a writer and a syncer.
#[derive(Clone, Copy)]
enum Look {
    /// A reader, at the visible end.
    Visible,
    /// A put that waits, at the synced end.
    Kept,
    /// The same, for what it has put.
    Seen,
}

fn model(look: Look, order: Order) {
    let scene = Arc::new(Scene::new(&[0]));
    let writer = thread::spawn({
        let scene = scene.clone();
        move || match order {
            Order::EndFirst => {
                scene.tail.raise_appended(END);
                scene.disk.write(0);
            }
            _ => scene.append(0, END),
        }
    });
    let syncer = thread::spawn({
        let scene = scene.clone();
        move || {
            let file = scene.disk.open(0);
            if order == Order::SyncFirst {
                let number = scene.tail.begin_sync(false);
                assert!(scene.disk.sync(&file));
                scene.tail.end_sync(number, scene.tail.appended(), false);
            } else {
                assert_eq!(scene.sync_for_all(&file, 0, END), Tried::Done);
            }
        }
    });
    match look {
        Look::Visible => {
            if scene.tail.visible() >= END {
                assert!(scene.disk.reads(0), "{SHOWN_AND_NOT_THERE}");
            }
        }
        Look::Kept => drop(scene.is_kept(0, END)),
        Look::Seen => {
            if scene.tail.is_kept(END, EPOCH).unwrap() {
                assert!(scene.tail.visible() >= END, "{KEPT_AND_NOT_SHOWN}");
            }
        }
    }
    writer.join().unwrap();
    syncer.join().unwrap();
    assert!(!scene.tail.is_poisoned(EPOCH));
}

/// A Buffered put, which shows its batch by itself, and a reader.
fn buffered(end_first: bool) {
    let scene = Arc::new(Scene::new(&[0]));
    let writer = thread::spawn({
        let scene = scene.clone();
        move || {
            if end_first {
                scene.tail.raise_visible(END);
            }
            scene.append(0, END);
            scene.tail.raise_visible(END);
        }
    });
    if scene.tail.visible() >= END {
        assert!(scene.tail.appended() >= END, "visible before it is appended");
        assert!(scene.disk.reads(0), "{SHOWN_AND_NOT_THERE}");
    }
    writer.join().unwrap();
}

pub(crate) fn models(run: &mut Run) {
    let (shown, kept) = (|order| move || model(Look::Visible, order), |order| move || model(Look::Kept, order));
    run.holds("publish: a reader has all below the visible end", shown(Order::Right));
    run.fails(SHOWN_AND_NOT_THERE, "the end is raised before the bytes", shown(Order::EndFirst));
    run.fails_under(NoRelease, SHOWN_AND_NOT_THERE, "the same", shown(Order::Right));
    run.fails_under(NoAcquire, SHOWN_AND_NOT_THERE, "the same", shown(Order::Right));
    run.holds("publish: what is told as kept is on the disk", kept(Order::Right));
    run.fails(ACKNOWLEDGED_AND_LOST, "the end is raised before the bytes", kept(Order::EndFirst));
    run.fails(ACKNOWLEDGED_AND_LOST, "the appended end is read after the sync", kept(Order::SyncFirst));
    run.fails_under(NoRelease, ACKNOWLEDGED_AND_LOST, "the same", kept(Order::Right));
    run.fails_under(NoAcquire, ACKNOWLEDGED_AND_LOST, "the same", kept(Order::Right));
    run.holds("publish: what is told as kept is shown", || model(Look::Seen, Order::Right));
    run.fails_under(NoRelease, KEPT_AND_NOT_SHOWN, "the same", || model(Look::Seen, Order::Right));
    run.holds("publish: a Buffered put shows what is written", || buffered(false));
    run.fails("visible before it is appended", "it is shown before it is written", || buffered(true));
    run.fails_under(NoRelease, "visible before it is appended", "the same", || buffered(false));
}
