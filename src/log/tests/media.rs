//! Where a store may lie: local file systems, others only for who promises to be alone, and never
//! quietly without a lock.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::Scratch;
use super::failing::{Failing, Fault, Kind};
use crate::batch::PutOptions;
use crate::checkpoint::TypeTag;
use crate::checkpointer::{Checkpointer, CheckpointerExt};
use crate::error::{Error, ErrorKind};
use crate::fs::Medium;
use crate::log::Store;
use crate::options::Options;

fn options(layer: &Failing) -> Options {
    Options { fs: Arc::new(layer.clone()), ..Store::options() }
}

#[test]
fn a_network_file_system_is_refused_by_name_unless_alone() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    layer.set_medium(Medium::Other("NFS".to_owned()));
    for read_only in [false, true] {
        let refused = options(&layer).read_only(read_only).open(scratch.dir().join("deep")).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
        let told = refused.to_string();
        assert!(told.contains("NFS") && told.contains("single_process(true)") && refused.file().is_some(), "{told}");
    }
    assert_eq!(std::fs::read_dir(scratch.0.path()).unwrap().count(), 0, "a refused place is left as it was");
    let store = options(&layer).single_process(true).open(scratch.dir()).unwrap();
    store.put("t", &1).unwrap();
    assert_eq!(store.get::<u32>("t").unwrap(), Some(1));
}

/// What a lock call answers where there are no locks.
const WITHOUT_LOCKS: [Errno; 3] = [Errno::NOLCK, Errno::OPNOTSUPP, Errno::NOSYS];

/// Every try for a lock fails from the one of that number on, on a path that has this in it.
fn no_lock(from: u64, errno: Errno, only: &'static str) -> Option<Fault> {
    Some(Fault { only: Some(only), ..Fault::fail(from, Kind::TryLock, false, errno, 0) })
}

#[track_caller]
fn is_told(error: &Error, file: &Path, context: &str) {
    assert_eq!((error.kind(), error.file().unwrap().0), (ErrorKind::Unsupported, file), "{context}: {error}");
    let told = error.to_string();
    assert!(told.contains("locks do not work") && told.contains("single_process(true)"), "{context}: {told}");
}

#[test]
fn a_disk_that_cannot_lock_is_never_taken_for_locked() {
    for errno in WITHOUT_LOCKS {
        // The directory's lock is asked for once to recover and once more to let others in.
        for (only, from, name) in [("open.lock", 0, "open.lock"), ("store/.", 0, "."), ("store/.", 1, ".")] {
            let (scratch, layer, context) = (Scratch::new(), Failing::default(), format!("{errno:?} for {only}"));
            layer.set(no_lock(from, errno, only));
            is_told(&options(&layer).open(scratch.dir()).unwrap_err(), &scratch.dir().join(name), &context);
            assert_eq!(layer.failed().len(), 1, "{context}");
            layer.set(None);
            options(&layer).open(scratch.dir()).unwrap().put("t", &1).unwrap();
        }
        let (scratch, layer) = (Scratch::new(), Failing::default());
        layer.set(Some(Fault::fail(0, Kind::TryLock, false, errno, 0)));
        let store = options(&layer).single_process(true).open(scratch.dir()).unwrap();
        store.put("t", &1).unwrap();
        layer.set(None);
        assert_eq!(Store::open(scratch.dir()).unwrap().get::<u32>("t").unwrap(), Some(1), "a promise to be alone that nobody checks");
    }
}

#[test]
fn a_turn_that_cannot_be_locked_writes_nothing() {
    for errno in WITHOUT_LOCKS {
        let (scratch, layer) = (Scratch::new(), Failing::default());
        let store = options(&layer).open(scratch.dir()).unwrap();
        store.put("t", &1).unwrap();
        let beside = Store::open(scratch.dir()).unwrap();
        let appended = store.shared.tail.appended();
        layer.set(no_lock(0, errno, "write.lock"));
        let large = vec![7u8; 40 << 20];
        for error in [
            store.put("t", &2).map(drop).unwrap_err(),
            store.put_bytes("t", TypeTag::BYTES, &large, PutOptions::default()).map(drop).unwrap_err(),
            store.delete("t").map(drop).unwrap_err(),
            store.retain(None, Some(1)).unwrap_err(),
        ] {
            is_told(&error, &scratch.dir().join("write.lock"), &format!("{errno:?}"));
        }
        assert_eq!(store.shared.tail.appended(), appended);
        // Others are not in the way, and neither is the refused one once it can lock again.
        beside.put("t", &3).unwrap();
        layer.set(None);
        store.put("t", &4).unwrap();
        assert_eq!(beside.history::<u32>("t", None).unwrap().into_iter().map(|read| read.state).collect::<Vec<_>>(), [4, 3, 1]);
    }
}

#[test]
fn where_nobody_can_lock_to_sync_everyone_syncs_by_itself() {
    for (errno, kind) in WITHOUT_LOCKS.into_iter().flat_map(|errno| [(errno, Kind::TryLock), (errno, Kind::Lock)]) {
        let (scratch, layer, context) = (Scratch::new(), Failing::default(), format!("{errno:?} for {kind:?}"));
        layer.set(Some(Fault { kind: Some(kind), ..no_lock(0, errno, "sync.lock").unwrap() }));
        let stores = [(); 2].map(|()| options(&layer).max_history(None).open(scratch.dir()).unwrap());
        let (start, syncs) = (Instant::now(), layer.syncs.load(SeqCst));
        for number in 0..1_000 {
            stores[0].put("t", &number).unwrap();
        }
        assert!(layer.syncs.load(SeqCst) - syncs >= 1_000, "{context}: a put was answered without a sync");
        // A syncer that does not move on is waited for 20 ms: once, not at every put.
        assert!(start.elapsed() < Duration::from_secs(10), "{context}: {:?}", start.elapsed());
        std::thread::scope(|scope| {
            for store in &stores {
                scope.spawn(|| (0..50).for_each(|number| drop(store.put("t", &number).unwrap())));
            }
        });
        assert!(!layer.failed().is_empty());
        for store in &stores {
            assert_eq!(store.history::<u32>("t", None).unwrap().len(), 1_100, "{context}");
            assert_eq!(store.shared.tail.synced(), store.shared.tail.appended(), "{context}");
        }
    }
}
