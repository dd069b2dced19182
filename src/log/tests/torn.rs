//! What a killed write leaves behind the end, and those who open after it, one killed after the other.

use std::os::unix::fs::FileExt;

use super::Scratch;
use super::failing::{Action, Failing, Fault, Kind, Moment};
use super::faults::{acknowledged, contents, put};
use super::other::{OPENING, Other, SEGMENT, open};
use crate::batch::Durability;
use crate::log::Store;

#[test]
fn openings_that_are_killed_after_writes_that_were() {
    for (job, whole) in [("a durable put", 500), ("a buffered put", 500), ("a batch", 300), ("a delete", 56)] {
        let scratch = Scratch::new();
        let store = open(&scratch, &Failing::default());
        acknowledged(&store, 3);
        store.sync().unwrap();
        let mut expected = contents(&store);
        drop(store);
        let mut lengths = Vec::new();
        for (number, short) in [8, 40, 64, 100, 150, 200, 260, 330, 420].into_iter().filter(|short| *short < whole).enumerate() {
            let fault = Fault { only: SEGMENT, short, ..Fault::once(Kind::Write, Action::Kill, Moment::Before) };
            if Other::start(&scratch.dir(), job, fault).ended().is_some() {
                panic!("{job} was not killed");
            }
            for from in 0..3 {
                let fault = Fault { from: (number as u64 + from) % 3, short: 30, ..Fault::once(Kind::Write, Action::Kill, Moment::Before) };
                let _ = Other::start(&scratch.dir(), OPENING, Fault { only: SEGMENT, ..fault }).ended();
                let reader = Store::options().read_only(true).open(scratch.dir()).unwrap();
                assert!(contents(&reader) == expected, "{job} {short} read-only {:?}", reader.recovery());
            }
            let store = open(&scratch, &Failing::default());
            lengths.push((short, store.recovery().torn_bytes, store.recovery().fresh_segment));
            assert!(store.recovery().damage.is_empty() && store.recovery().unproven.is_empty());
            assert!(contents(&store) == expected, "{job} {short} {:?}", store.recovery());
            let durability = if number % 2 == 0 { Durability::Sync } else { Durability::Buffered };
            put(&store, "more", 200, durability).unwrap();
            expected = contents(&store);
            let damage: Vec<_> = store.verify().unwrap().into_iter().filter(|found| !found.file.ends_with("quarantine")).collect();
            assert!(damage.is_empty(), "{job} {short}: {damage:?} {:?}", store.recovery());
        }
        eprintln!("{job}: {lengths:?}");
    }
}

#[test]
fn all_of_a_torn_end_is_wiped_and_nothing_before_it() {
    for torn in [8, 16 * 1024, 20_000] {
        let scratch = Scratch::new();
        let store = open(&scratch, &Failing::default());
        acknowledged(&store, 0);
        store.sync().unwrap();
        let (expected, end) = (contents(&store), store.shared.follower.reading().active.end);
        drop(store);
        let path = scratch.dir().join("0000000000000001.seg");
        let before = std::fs::read(&path).unwrap();
        assert!(before[end as usize..].iter().all(|byte| *byte == 0) && before.len() as u64 > end + torn);
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(&vec![0xee; torn as usize], end).unwrap();
        let store = open(&scratch, &Failing::default());
        assert_eq!((store.recovery().torn_bytes, store.recovery().fresh_segment), (torn, false));
        assert!(std::fs::read(&path).unwrap() == before, "{torn} bytes behind the end");
        assert_eq!(contents(&store), expected);
    }
}
