//! Where a store may lie: local file systems, others only for who promises to be alone, and never
//! quietly without a lock.

use std::sync::Arc;

use rustix::io::Errno;

use super::Scratch;
use super::failing::{Failing, Fault, Kind};
use crate::checkpointer::CheckpointerExt;
use crate::error::ErrorKind;
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

#[test]
fn a_disk_that_cannot_lock_is_never_taken_for_locked() {
    for errno in [Errno::NOLCK, Errno::OPNOTSUPP, Errno::NOSYS] {
        let (scratch, layer) = (Scratch::new(), Failing::default());
        layer.set(Some(Fault::fail(0, Kind::TryLock, false, errno, 0)));
        let refused = options(&layer).open(scratch.dir()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported, "{errno:?}");
        assert!(refused.to_string().contains("locks do not work"), "{refused}");
        options(&layer).single_process(true).open(scratch.dir()).unwrap().put("t", &1).unwrap();
    }
}
