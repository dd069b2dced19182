//! The clock labels and never orders, however it steps, also over reopenings (field case D1).

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::failing::Failing;
use super::{Scratch, index_is_derived};
use crate::batch::PutOptions;
use crate::checkpoint::TypeTag;
use crate::checkpointer::Checkpointer;
use crate::log::Store;

#[test]
fn a_clock_that_steps_back_changes_no_order() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let mut put = Vec::new();
    for seconds in [2_000_000_000u64, 1_999_996_400, 2_000_000_001, 0, 4_102_444_800, 2_000_000_002] {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        layer.set_clock(now);
        let mut options = Store::options().max_history(3);
        options.fs = Arc::new(layer.clone());
        let store = options.open(scratch.dir()).unwrap();
        put.insert(0, (store.put_bytes("t", TypeTag::BYTES, b"x", PutOptions::default()).unwrap(), now));
        put.truncate(3);
        let listed = store.list("t", &Default::default()).unwrap().map(|info| info.map(|info| (info.id, info.saved_at)).unwrap());
        assert_eq!(listed.collect::<Vec<_>>(), put);
        assert_eq!(store.get_bytes("t").unwrap().unwrap().id, put[0].0);
        index_is_derived(&store, &scratch.dir());
    }
}
