//! Eight writers and four readers at once, one of the writers stopped for a while (field case
//! TF-G1): everybody waits his turn, and all that was put is there.

use std::time::Duration;

use taffrail::testing::states::noise;
use taffrail::{Checkpointer, HistoryQuery, PutOptions, Store, TypeTag};

use crate::child::{Child, PATIENCE, in_micros, instant_of, next_order, say, wait_until};
use crate::handle::Handle;
use crate::posix::signal;
use crate::scratch::Scratch;
use crate::tidy::is_tidy;

const WRITERS: usize = 8;
const READERS: usize = 4;
const PUTS: usize = 40;
const STATE_BYTES: usize = 20_000;

/// The state of a step, which tells its number; of two in a row the second is a delta.
fn state(number: usize) -> Vec<u8> {
    [&[number as u8], &noise(number as u64 / 2, STATE_BYTES)[..]].concat()
}

fn handle(dir: &str) -> Handle {
    Handle::new(dir, Store::options().max_history(None).segment_bytes(1 << 20).busy_timeout(PATIENCE))
}

/// Plays a writer: from the instant it is given on it puts to its own thread, then to that of all.
pub fn writer(arguments: &[&str]) {
    let [dir, name] = arguments else { panic!("{arguments:?}") };
    let handle = handle(dir);
    say("ready");
    wait_until(instant_of(&next_order().unwrap()));
    for thread in [name, "all"] {
        for number in 0..PUTS {
            let state = state(number);
            handle.with(|store| store.put_bytes(thread, TypeTag::BYTES, &state, PutOptions::default()).unwrap());
        }
    }
    say("done");
}

/// Plays a reader: asks until everything is there; what it sees never becomes less.
pub fn reader(arguments: &[&str]) {
    let handle = handle(arguments[0]);
    let mut seen = 0;
    while seen < 2 * WRITERS * PUTS {
        let infos: Vec<_> = handle.with(|store| store.list_threads(&Default::default()).unwrap().map(Result::unwrap).collect());
        let shown = infos.iter().map(|info| info.checkpoints as usize).sum();
        assert!(shown >= seen, "{shown} are shown, {seen} were");
        seen = shown;
        for info in infos {
            let newest = HistoryQuery { limit: Some(3), ..HistoryQuery::default() };
            let read: Vec<_> = handle.with(|store| store.history_bytes(&info.thread, &newest).unwrap().map(Result::unwrap).collect());
            let whole = |read: &[u8]| *read == *state(usize::from(read[0]));
            assert!(read.iter().all(|read| whole(&read.state)));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    say("seen");
}

#[test]
fn a_crowd_of_writers_and_readers_all_get_their_turn() {
    let scratch = Scratch::new();
    let path = scratch.path("store");
    let dir = path.to_str().unwrap();
    let mut readers: Vec<Child> = (0..READERS).map(|_| Child::start("crowd reader", &[dir])).collect();
    let mut writers: Vec<Child> = (0..WRITERS).map(|number| Child::start("crowd writer", &[dir, &format!("own {number}")])).collect();
    writers.iter_mut().for_each(|writer| writer.must_say_this("ready"));
    let instant = in_micros(1_000);
    writers.iter_mut().for_each(|writer| writer.order(&instant));
    std::thread::sleep(Duration::from_millis(20));
    if writers[0].ended().is_none() {
        signal(writers[0].id(), libc::SIGSTOP);
        std::thread::sleep(Duration::from_millis(500));
        signal(writers[0].id(), libc::SIGCONT);
    }
    writers.iter_mut().for_each(|writer| writer.must_say_this("done"));
    writers.iter_mut().for_each(Child::end);
    readers.iter_mut().for_each(|reader| reader.must_say_this("seen"));
    readers.iter_mut().for_each(Child::end);
    let store = Store::open(&path).unwrap();
    assert!(store.recovery().damage.is_empty(), "{:?}", store.recovery());
    for number in 0..WRITERS {
        assert_eq!(store.list(&format!("own {number}"), &HistoryQuery::default()).unwrap().count(), PUTS);
    }
    assert_eq!(store.list("all", &HistoryQuery::default()).unwrap().count(), WRITERS * PUTS);
    store.close().unwrap();
    is_tidy(&path, "a crowd");
}
