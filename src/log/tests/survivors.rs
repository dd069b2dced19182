//! A process is killed at each operation of a write or of an opening, while another one lives on
//! with the store open: that one goes on at once, and all it and others were answered is there.

use super::failing::{Action, Failing, Fault, Kind, Moment};
use super::faults::{Contents, WRITES, acknowledged, after, contents, options, put, reopens};
use super::other::{OPENING, Other};
use super::{Scratch, index_is_derived};
use crate::batch::Durability;
use crate::checkpointer::Checkpointer;
use crate::error::ErrorKind;
use crate::log::Store;
use rustix::io::Errno;

/// Every kill of one walk; `short` is how much of a write is done by one that is killed before it.
fn kills(from: u64) -> impl Iterator<Item = Fault> {
    let moments = [(Moment::Before, 0), (Moment::Before, 700), (Moment::After, 0)];
    let faults = moments.map(|(moment, short)| Fault { from, short, moment, ..Fault::once(Kind::Write, Action::Kill, Moment::Before) });
    faults.into_iter().map(|fault| Fault { kind: (fault.short > 0).then_some(Kind::Write), ..fault })
}

/// What is shown without the thread that the survivor puts to.
fn without_more(mut contents: Contents) -> Contents {
    contents.remove("more");
    contents
}

#[test]
fn a_writer_killed_at_each_operation_hinders_nobody() {
    let mut killed = 0;
    for write in &WRITES {
        let after = after(write.fill, write.run);
        let mut from = 0;
        loop {
            let mut met = false;
            for fault in kills(from) {
                let context = format!("{} killed at {fault:?}", write.name);
                let scratch = Scratch::new();
                let survivor = options(&Failing::default()).open(scratch.dir()).unwrap();
                acknowledged(&survivor, write.fill);
                let before = contents(&survivor);
                if Other::start(&scratch.dir(), write.name, fault).ended().is_some() {
                    continue;
                }
                (met, killed) = (true, killed + 1);
                put(&survivor, "more", 20, Durability::Sync).unwrap_or_else(|error| panic!("{context}: {error}"));
                let found = contents(&survivor);
                assert_eq!(found["more"].len(), 1, "{context}");
                index_is_derived(&survivor, &scratch.dir());
                let allowed = [before.clone(), after.clone()];
                assert!(allowed.contains(&without_more(found.clone())), "{context}: {:?}", found.keys());
                // And as large as the survivor likes: through rotations of its own.
                for _ in 0..8 {
                    put(&survivor, "more", 12_000, Durability::Sync).unwrap_or_else(|error| panic!("{context}: {error}"));
                }
                let found = contents(&survivor);
                index_is_derived(&survivor, &scratch.dir());
                drop(survivor);
                reopens(&scratch.dir(), &[found], &context);
            }
            if !met {
                break;
            }
            from += 1;
        }
    }
    assert!(killed > 150, "only {killed} were killed");
}

#[test]
fn one_who_opens_a_poisoned_store_may_be_killed_at_each_operation() {
    let mut killed = 0;
    for from in 0.. {
        let mut met = false;
        for fault in kills(from) {
            let (scratch, layer) = (Scratch::new(), Failing::default());
            let idle = options(&Failing::default()).open(scratch.dir()).unwrap();
            let failing = options(&layer).open(scratch.dir()).unwrap();
            acknowledged(&failing, 1);
            let before = contents(&idle);
            layer.set(Some(Fault::fail(0, Kind::Sync, true, Errno::IO, 0)));
            assert_eq!(put(&failing, "lost", 100, Durability::Sync).unwrap_err().kind(), ErrorKind::Poisoned);
            layer.set(None);
            if Other::start(&scratch.dir(), OPENING, fault).ended().is_some() {
                continue;
            }
            (met, killed) = (true, killed + 1);
            let context = format!("killed at {fault:?}");
            let next = Store::options().segment_bytes(64 * 1024).open(scratch.dir()).unwrap_or_else(|error| panic!("{context}: {error}"));
            let mut found = contents(&next);
            found.remove("lost");
            assert_eq!(found, before, "{context}");
            put(&next, "more", 20, Durability::Sync).unwrap_or_else(|error| panic!("{context}: {error}"));
            index_is_derived(&next, &scratch.dir());
            for old in [&idle, &failing] {
                assert_eq!(put(old, "x", 1, Durability::Buffered).unwrap_err().kind(), ErrorKind::Poisoned, "{context}");
                assert_eq!(contents(old), contents(&next), "{context}: what the old handles read");
            }
            drop((idle, failing));
            let found = contents(&next);
            assert!(next.exists("more").unwrap());
            drop(next);
            reopens(&scratch.dir(), &[found], &context);
        }
        if !met {
            break;
        }
    }
    assert!(killed > 20, "only {killed} were killed");
}
