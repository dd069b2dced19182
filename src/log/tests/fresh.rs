//! What goes into a fresh segment, and what is kept of the end that it goes on behind.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::FileExt;

use super::failing::Failing;
use super::faults::put;
use super::other::open;
use super::{Scratch, image};
use crate::batch::{Durability, PutOptions};
use crate::checkpoint::TypeTag;
use crate::checkpointer::Checkpointer;
use crate::log::Store;
use crate::log::fresh::salt;
use crate::testing::states::noise;

#[test]
fn no_two_segments_share_a_salt() {
    let scratch = Scratch::new();
    let store = open(&scratch, &Failing::default());
    (0..60).for_each(|_| put(&store, "t", 12_000, Durability::Buffered).unwrap());
    let listed = store.shared.directory.manifest().unwrap().segments;
    assert!(listed.len() > 10);
    assert_eq!(listed.iter().map(|listed| listed.salt).collect::<HashSet<_>>().len(), listed.len());
}

#[test]
fn every_random_bit_counts_for_a_salt() {
    let layer = Failing::default();
    let salted = |random: u128| {
        layer.set_random(random.to_le_bytes());
        salt(&layer)
    };
    for random in [0, u128::MAX, 0x0123_4567_89ab_cdef] {
        for bit in 0..128 {
            assert_ne!(salted(random), salted(random ^ 1 << bit), "bit {bit}");
        }
    }
}

/// Whole records behind a gap, some two MiB of them, are nothing that counts: they lie in quarantine as they stood.
#[test]
fn an_unproven_end_is_set_aside_byte_for_byte() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let live = Store::options().auto_compaction(false).durability(Durability::Buffered).open(scratch.0.path().join("live")).unwrap();
    let put = |state: &[u8]| live.put_bytes("t", TypeTag::BYTES, state, PutOptions::default()).unwrap();
    put(b"kept");
    let from = live.shared.follower.reading().active.end;
    put(b"lost");
    [1, 2, 3].iter().for_each(|&seed| _ = put(&noise(seed, 700_000)));
    image(&scratch.0.path().join("live"), &scratch.dir());
    fs::remove_file(scratch.dir().join("tail")).unwrap();
    let path = scratch.dir().join("0000000000000001.seg");
    fs::OpenOptions::new().write(true).open(&path).unwrap().write_all_at(&[0xff; 8], from + 8).unwrap();
    let before = fs::read(&path).unwrap();
    let store = open(&scratch, &layer);
    let aside: Vec<_> =
        store.recovery().set_aside.iter().filter(|path| path.parent().is_some_and(|dir| dir.ends_with("quarantine"))).collect();
    let [found] = aside[..] else { panic!("{:?}", store.recovery()) };
    assert_eq!(*found, scratch.dir().join(format!("quarantine/0000000000000001.seg.from-{from}")));
    assert!(fs::read(found).unwrap() == before[from as usize..], "what was set aside is not what stood there");
    assert_eq!(*store.get_bytes("t").unwrap().unwrap().state, *b"kept");
}
