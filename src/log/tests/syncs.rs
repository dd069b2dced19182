//! Group commit under a failing device: every waiter learns of it, and nobody syncs a second time.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Barrier};

use rustix::io::Errno;

use super::Scratch;
use super::failing::{Failing, Fault, Kind};
use crate::batch::{Durability, PutOptions};
use crate::checkpoint::TypeTag;
use crate::checkpointer::Checkpointer;
use crate::error::ErrorKind;
use crate::log::Store;

#[test]
fn a_failed_sync_reaches_every_waiter_and_is_never_tried_again() {
    for errno in [Errno::IO, Errno::NOSPC, Errno::DQUOT] {
        let scratch = Scratch::new();
        let layer = Failing::default();
        let mut options = Store::options();
        options.fs = Arc::new(layer.clone());
        let store = options.open(scratch.dir()).unwrap();
        let put = |thread: &str| store.put_bytes(thread, TypeTag::BYTES, thread.as_bytes(), PutOptions::default());
        put("before").unwrap();
        layer.set(Some(Fault::fail(0, Kind::Sync, true, errno, 0)));
        let syncs = layer.syncs.load(SeqCst);
        let barrier = Barrier::new(8);
        std::thread::scope(|scope| {
            for worker in 0..8 {
                let (put, barrier) = (&put, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    let error = put(&format!("worker {worker}")).unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::Poisoned, "{errno:?}: {error}");
                });
            }
        });
        assert_eq!(layer.syncs.load(SeqCst), syncs + 1, "a sync was tried again after one failed");
        let buffered = PutOptions::default().durability(Durability::Buffered);
        for error in [
            put("after").map(drop).unwrap_err(),
            store.put_bytes("after", TypeTag::BYTES, b"x", buffered).map(drop).unwrap_err(),
            store.delete("before").map(drop).unwrap_err(),
            store.retain(None, Some(1)).unwrap_err(),
            store.sync().unwrap_err(),
            store.clone().close().unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Poisoned);
        }
        assert_eq!(store.threads().unwrap(), ["before"], "a step that may be lost was shown");
        assert_eq!(&*store.get_bytes("before").unwrap().unwrap().state, b"before");
        drop(store);
        assert_eq!(layer.syncs.load(SeqCst), syncs + 1, "closing synced a poisoned store");
        let again = Store::open(scratch.dir()).unwrap();
        assert!(again.recovery().fresh_segment, "what the cache holds was trusted");
        assert!(again.recovery().damage.is_empty());
        assert_eq!(&*again.get_bytes("before").unwrap().unwrap().state, b"before");
        again.put_bytes("after", TypeTag::BYTES, b"x", PutOptions::default()).unwrap();
    }
}

#[test]
fn workers_that_put_at_once_share_syncs_and_keep_their_order() {
    let scratch = Scratch::new();
    let layer = Failing::default();
    let mut options = Store::options().max_history(None);
    options.fs = Arc::new(layer.clone());
    let store = options.open(scratch.dir()).unwrap();
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let store = &store;
            scope.spawn(move || {
                for number in 0..100u32 {
                    let (own, state) = (format!("own {worker}"), [worker as u32, number].map(u32::to_le_bytes).concat());
                    store.put_bytes(&own, TypeTag::BYTES, &state, PutOptions::default()).unwrap();
                    assert_eq!(&*store.get_bytes(&own).unwrap().unwrap().state, &state[..], "one's own put is not seen");
                    store.put_bytes("shared", TypeTag::BYTES, &state, PutOptions::default()).unwrap();
                }
            });
        }
    });
    super::index_is_derived(&store, &scratch.dir());
    let shared: Vec<_> = store.history_bytes("shared", &Default::default()).unwrap().map(Result::unwrap).collect();
    assert_eq!(shared.len(), 400);
    for pair in shared.windows(2) {
        assert_eq!(pair[0].parent.as_ref(), Some(&pair[1].id), "a put did not follow the head it was made on");
        assert!(pair[0].seq > pair[1].seq);
    }
    for worker in 0..4u32 {
        let numbers: Vec<_> = shared.iter().filter(|put| put.state[..4] == worker.to_le_bytes()).map(|put| put.state[4]).collect();
        assert_eq!(numbers, (0..100u8).rev().collect::<Vec<_>>());
    }
}
