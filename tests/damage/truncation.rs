//! The newest segment cut at every byte (field case F1), with and without the page that proves what
//! was synced, and its tail overwritten instead of cut.
//!
//! With the page, lost bytes are damage and reported as such; without it what no later frame proves
//! is a torn tail. Either way every record wholly before the cut is read, and the next put stays.

use std::fs;
use std::path::Path;

use taffrail::{Checkpointer, PutOptions, Store, TypeTag};

use crate::allocations;
use crate::scratch::{Expected, Scratch, frames, put_page, segments, snapshot, state, twenty_puts};

/// The puts whose frames end at or before `cut`, in the order they were made.
fn before(cut: usize, bytes: &[u8]) -> (Expected, usize) {
    let mut expected = Expected::default();
    let whole = frames(bytes).iter().take_while(|frame| frame.end <= cut).count();
    for number in 0..whole as u64 {
        let thread = ["a", "b", "c"][number as usize % 3];
        expected.note(thread, state(thread, number, 20 + number as usize));
    }
    (expected, whole)
}

/// Threads that have nothing left answer nothing, or an error where a file cannot be told.
fn reads_what_is_whole(store: &Store, expected: &Expected, context: &str) {
    let names: Vec<String> = expected.0.keys().cloned().collect();
    assert_eq!(store.threads().unwrap(), names, "{context}");
    expected.is_all_of(store, context);
}

fn goes_on(dir: &Path, mut expected: Expected, context: &str) {
    let files = snapshot(dir);
    let read_only = Store::options().read_only(true).open(dir).unwrap_or_else(|error| panic!("{context}: {error}"));
    reads_what_is_whole(&read_only, &expected, context);
    drop(read_only);
    assert!(files == snapshot(dir), "{context}: a read-only opening changed the files");
    let store = Store::open(dir).unwrap_or_else(|error| panic!("{context}: {error}"));
    reads_what_is_whole(&store, &expected, context);
    expected.put(&store, "a", state("a", 100, 33));
    expected.put(&store, "new", state("new", 0, 3000));
    reads_what_is_whole(&store, &expected, context);
    store.close().unwrap();
    let again = Store::open(dir).unwrap();
    reads_what_is_whole(&again, &expected, context);
    assert!(!again.recovery().fresh_segment, "{context}: the second opening found the first one's end unclean");
    assert_eq!(again.recovery().torn_bytes, 0, "{context}");
}

/// The lengths to cut to: every one up to the end of the log, and some in the zeros behind it.
fn cuts(bytes: &[u8]) -> Vec<usize> {
    let frames = frames(bytes);
    let end = frames.last().unwrap().end;
    (0..=end + 9).chain([end + 4096, bytes.len() - 1, bytes.len()]).collect()
}

#[test]
fn cut_anywhere_with_nothing_but_the_frames_to_prove_it() {
    let scratch = Scratch::new();
    let whole = scratch.path("whole");
    twenty_puts(&whole);
    let segment = segments(&whole).pop().unwrap();
    let bytes = fs::read(&segment).unwrap();
    for cut in cuts(&bytes) {
        let dir = scratch.copy(&whole, "cut");
        let file = dir.join(segment.file_name().unwrap());
        fs::write(&file, &bytes[..cut]).unwrap();
        fs::remove_file(dir.join("tail")).unwrap();
        let (expected, count) = before(cut, &bytes);
        let context = format!("cut to {cut}");
        let read_only = Store::options().read_only(true).open(&dir).unwrap();
        let report = read_only.recovery();
        // The frames prove each other, so a cut at a frame's end or inside it costs that one alone.
        let starts = frames(&bytes).iter().map(|frame| frame.start).filter(|&start| start <= cut).max().unwrap_or(72);
        if cut >= 72 {
            assert!(report.damage.is_empty(), "{context}: {report:?}");
            let torn = bytes[..cut].len().saturating_sub(starts).min(if count == 20 { 0 } else { usize::MAX });
            let inside = frames(&bytes).get(count).is_some_and(|frame| frame.start < cut);
            assert!(report.torn_bytes <= torn as u64 && (report.torn_bytes > 0) == (inside && torn > 0), "{context}: {report:?}");
        } else {
            assert_eq!(report.damage.len(), 1, "{context}: {report:?}");
        }
        drop(read_only);
        goes_on(&dir, expected, &context);
    }
    allocations::stayed_small();
}

#[test]
fn cut_anywhere_below_what_the_page_proves() {
    let scratch = Scratch::new();
    let whole = scratch.path("whole");
    twenty_puts(&whole);
    let segment = segments(&whole).pop().unwrap();
    let bytes = fs::read(&segment).unwrap();
    let end = frames(&bytes).last().unwrap().end;
    for cut in cuts(&bytes) {
        let dir = scratch.copy(&whole, "cut");
        fs::write(dir.join(segment.file_name().unwrap()), &bytes[..cut]).unwrap();
        let (expected, _) = before(cut, &bytes);
        let store = Store::open(&dir).unwrap();
        let context = format!("cut to {cut}");
        let report = store.recovery();
        assert_eq!(report.damage.is_empty(), cut >= end, "{context}: {report:?}");
        reads_what_is_whole(&store, &expected, &context);
        if cut < end {
            let damage = report.damage.last().unwrap();
            assert!(damage.damage && damage.file.ends_with(segment.file_name().unwrap()), "{context}: {damage:?}");
        }
        let mut expected = expected;
        expected.put(&store, "a", state("a", 100, 33));
        drop(store);
        let again = Store::open(&dir).unwrap();
        assert_eq!(again.recovery().damage.is_empty(), cut >= end, "{context}: damage is told by every opening");
        reads_what_is_whole(&again, &expected, &context);
    }
}

#[test]
fn the_end_overwritten_with_zeros_ones_noise_or_more() {
    let scratch = Scratch::new();
    let whole = scratch.path("whole");
    let mut everything = twenty_puts(&whole);
    let segment = segments(&whole).pop().unwrap();
    let bytes = fs::read(&segment).unwrap();
    let end = frames(&bytes).last().unwrap().end;
    let noise = state("noise", 7, bytes.len());
    let fills: [(&str, &dyn Fn(usize) -> u8); 3] = [("zeros", &|_| 0), ("ones", &|_| 0xff), ("noise", &|at| noise[at] | 1)];
    for (name, fill) in fills {
        for cut in (72..end).step_by(37).chain(frames(&bytes).iter().map(|frame| frame.end)) {
            for page in [false, true] {
                let dir = scratch.copy(&whole, "overwritten");
                let mut changed = bytes.clone();
                (cut..end + 64).for_each(|at| changed[at] = fill(at));
                fs::write(dir.join(segment.file_name().unwrap()), &changed).unwrap();
                // Zeros over zeros change nothing.
                let cut = (cut..end).find(|&at| changed[at] != bytes[at]).unwrap_or(end);
                let context = format!("{name} from {cut}, page {page}");
                if !page {
                    fs::remove_file(dir.join("tail")).unwrap();
                }
                let store = Store::options().read_only(true).open(&dir).unwrap();
                let damaged = store.verify().unwrap().iter().any(|finding| finding.damage);
                assert_eq!(damaged, page && cut < end, "{context}: {:?}", store.recovery());
                if damaged {
                    // A record whose head is whole still stands, and reading its state is an error.
                    for _ in 0..2 {
                        let store = Store::open(&dir).unwrap();
                        everything.is_told_truly_by(&store, &context);
                        store.put_bytes("new", TypeTag::BYTES, b"new", PutOptions::default()).unwrap();
                        assert_eq!(&*store.get_bytes("new").unwrap().unwrap().state, b"new", "{context}");
                        everything.note("new", b"new".to_vec());
                    }
                    everything.0.remove("new");
                    continue;
                }
                drop(store);
                goes_on(&dir, before(cut, &bytes).0, &context);
            }
        }
    }
    for more in [1, 7, 8, 48, 4096, 100_000] {
        let dir = scratch.copy(&whole, "longer");
        let longer = [&bytes[..], &noise[..more.min(noise.len())]].concat();
        fs::write(dir.join(segment.file_name().unwrap()), longer).unwrap();
        goes_on(&dir, before(end, &bytes).0, &format!("{more} bytes more"));
    }
}

#[test]
fn a_page_of_an_earlier_moment_costs_nothing() {
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    let mut pages = Vec::new();
    let store = Store::open(&dir).unwrap();
    let mut expected = Expected::default();
    for number in 0..6 {
        pages.push(fs::read(dir.join("tail")).unwrap());
        expected.put(&store, "a", state("a", number, 100));
    }
    store.close().unwrap();
    for (age, page) in pages.iter().enumerate() {
        let copy = scratch.copy(&dir, "stale");
        put_page(&copy, page);
        let store = Store::open(&copy).unwrap();
        assert!(store.recovery().damage.is_empty());
        drop(store);
        goes_on(&copy, expected.clone(), &format!("the page of put {age}"));
    }
}
