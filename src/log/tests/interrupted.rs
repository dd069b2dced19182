//! What an interruption leaves: a lowered limit half done, numbers given and lost.

use std::os::unix::fs::FileExt;

use rustix::io::Errno;

use super::failing::{Failing, Fault, Kind};
use super::faults::{options, put};
use super::{Scratch, image, index_is_derived, views};
use crate::batch::{Durability, PutOptions};
use crate::checkpointer::{Checkpointer, CheckpointerExt};
use crate::error::ErrorKind;
use crate::log::Store;
use crate::log::commit::frame_around;

fn shown(store: &Store, thread: &str) -> usize {
    store.history::<u32>(thread, None).unwrap().len()
}

#[test]
fn a_lowered_limit_whose_trims_were_cut_short_is_finished_by_the_next_opening() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let mut options = Store::options();
    options.fs = std::sync::Arc::new(layer.clone());
    let store = options.clone().open(scratch.dir()).unwrap();
    for step in 0..10 {
        ["a", "b"].iter().for_each(|thread| _ = store.put(thread, &step).unwrap());
    }
    // The first write is the manifest's, the next one the trims'.
    layer.set(Some(Fault::fail(1, Kind::Write, false, Errno::NOSPC, 0)));
    assert_eq!(store.retain(None, Some(3)).unwrap_err().kind(), ErrorKind::DiskFull);
    layer.set(None);
    drop(store);
    let store = options.open(scratch.dir()).unwrap();
    assert_eq!((store.stats().unwrap().max_history, shown(&store, "a"), shown(&store, "b")), (Some(3), 3, 3));
    index_is_derived(&store, &scratch.dir());
}

#[test]
fn no_number_is_given_twice_when_a_power_cut_takes_buffered_puts() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let mut options = Store::options();
    options.fs = std::sync::Arc::new(layer.clone());
    let store = options.clone().open(scratch.dir()).unwrap();
    store.put("t", &1).unwrap();
    // What a power cut leaves if nothing that was not synced reaches the disk.
    let left = scratch.0.path().join("left");
    image(&scratch.dir(), &left);
    store.put_with("t", &2, PutOptions::default().durability(Durability::Buffered)).unwrap();
    let seen = store.head("t").unwrap().unwrap().seq;
    layer.set_boot([9; 16]);
    let after = options.open(&left).unwrap();
    after.put("t", &3).unwrap();
    assert!(after.head("t").unwrap().unwrap().seq > seen);
}

/// Else it could last, and what was put under the one before not.
#[test]
fn a_limit_is_not_lowered_before_what_was_put_is_kept() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let store = options(&layer).open(scratch.dir()).unwrap();
    let limit = || store.shared.directory.manifest().unwrap().keep();
    put(&store, "t", 100, Durability::Buffered).unwrap();
    store.retain(None, Some(7)).unwrap();
    assert_eq!((limit(), store.shared.tail.synced()), (Some(7), store.shared.tail.appended()));
    assert_eq!(store.stats().unwrap().segments, 1, "what is synced is not written anew");
    put(&store, "t", 100, Durability::Buffered).unwrap();
    layer.set(Some(Fault { only: Some(".seg"), ..Fault::fail(0, Kind::Sync, false, Errno::IO, 0) }));
    assert_eq!(store.retain(None, Some(3)).unwrap_err().kind(), ErrorKind::Poisoned);
    assert_eq!(limit(), Some(7));
}

/// In the smallest segments there are, a turn trims what a quarter of one has room for.
#[test]
fn a_lowered_limit_trims_as_many_threads_in_a_turn_as_fit_into_any_segment() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let store = options(&layer).max_history(None).open(scratch.dir()).unwrap();
    // So that 16 of them fit to the byte.
    let width = 1024 - frame_around("");
    for number in 0..50 {
        (0..2).for_each(|_| put(&store, &format!("{number:0width$}"), 10, Durability::Buffered).unwrap());
    }
    layer.set(Some(Fault { only: Some(".seg"), ..Fault::fail(1, Kind::Write, false, Errno::NOSPC, 0) }));
    assert_eq!(store.retain(None, Some(1)).unwrap_err().kind(), ErrorKind::DiskFull);
    layer.set(None);
    let trimmed = || views(&store).values().filter(|view| view.len() == 1).count();
    assert_eq!(trimmed(), 16);
    store.retain(None, Some(1)).unwrap();
    assert_eq!(trimmed(), 50);
    index_is_derived(&store, &scratch.dir());
}

/// The limit of its own may have come between the look at the threads and the turn.
#[test]
fn a_thread_with_a_limit_of_its_own_is_not_trimmed_to_the_store_s() {
    let scratch = Scratch::new();
    let store = options(&Failing::default()).max_history(3).open(scratch.dir()).unwrap();
    store.put("own", &0).unwrap();
    store.retain(Some("own"), Some(9)).unwrap();
    (1..6).for_each(|step| _ = store.put("own", &step).unwrap());
    let planned = store.shared.write(Durability::Sync, |plan| plan.trim_to_store("own")).unwrap().unwrap();
    assert!(planned.results.is_empty());
    assert_eq!(shown(&store, "own"), 6);
    store.retain(Some("own"), Some(2)).unwrap();
    assert_eq!(shown(&store, "own"), 2);
}

/// The page may give a lower number than the log holds, by damage: the next epoch goes by the log.
#[test]
fn an_epoch_that_begins_beside_others_gives_no_number_of_the_log_again() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let store = options(&layer).open(scratch.dir()).unwrap();
    (0..5).for_each(|_| put(&store, "t", 10, Durability::Sync).unwrap());
    let highest = store.head("t").unwrap().unwrap().seq;
    layer.set(Some(Fault::fail(0, Kind::Sync, false, Errno::IO, 0)));
    assert_eq!(put(&store, "lost", 10, Durability::Sync).unwrap_err().kind(), ErrorKind::Poisoned);
    layer.set(None);
    let page = std::fs::OpenOptions::new().write(true).open(scratch.dir().join("tail")).unwrap();
    page.write_all_at(&1u64.to_le_bytes(), 9 * 8).unwrap();
    let next = options(&layer).open(scratch.dir()).unwrap();
    put(&next, "next", 10, Durability::Sync).unwrap();
    // The put that was not kept had a number too, and stands in the log.
    assert!(next.head("next").unwrap().unwrap().seq > highest + 1);
    index_is_derived(&next, &scratch.dir());
}
