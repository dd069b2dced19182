//! What an interruption leaves: a lowered limit half done, numbers given and lost.

use rustix::io::Errno;

use super::failing::{Failing, Fault, Kind};
use super::{Scratch, image, index_is_derived};
use crate::batch::{Durability, PutOptions};
use crate::checkpointer::{Checkpointer, CheckpointerExt};
use crate::error::ErrorKind;
use crate::log::Store;

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
