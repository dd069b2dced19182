//! A process that is stopped while it does nothing hinders nobody, however short the others' patience.

use std::time::{Duration, Instant};

use taffrail::{Checkpointer, Durability, HistoryQuery, PutOptions, Store, TypeTag};

use crate::child::{Child, PATIENCE, next_order, say};
use crate::posix::{signal, stop};
use crate::scratch::Scratch;

/// How long the others wait for anything.
const SHORT: Duration = Duration::from_millis(500);
const PUTS: usize = 20;

/// Plays one that has the store open and an iterator in hand; told to, it puts once more.
pub fn idler(arguments: &[&str]) {
    let [dir, durability] = arguments else { panic!("{arguments:?}") };
    let durability = if *durability == "buffered" { Durability::Buffered } else { Durability::Sync };
    let store = Store::options().max_history(None).durability(durability).busy_timeout(PATIENCE).open(dir).unwrap();
    store.put_bytes("t", TypeTag::BYTES, b"idler", PutOptions::default()).unwrap();
    let mut items = store.history_bytes("t", &HistoryQuery::default()).unwrap();
    assert!(items.next().unwrap().is_ok());
    say("idle");
    while next_order().is_some() {
        store.put_bytes("t", TypeTag::BYTES, b"idler", PutOptions::default()).unwrap();
        say(&store.list("t", &HistoryQuery::default()).unwrap().count().to_string());
    }
}

fn put_at_once(store: &Store) {
    let start = Instant::now();
    for _ in 0..PUTS {
        store.put_bytes("t", TypeTag::BYTES, b"other", PutOptions::default()).unwrap();
    }
    // Were each to wait its time out first, it would be four times as long.
    let longest = SHORT * PUTS as u32 / 4;
    assert!(start.elapsed() < longest, "{PUTS} puts beside a stopped process took {:?}", start.elapsed());
}

#[test]
fn a_stopped_idle_process_hinders_nobody() {
    for durability in ["sync", "buffered"] {
        let scratch = Scratch::new();
        let dir = scratch.path("store");
        let mut idler = Child::start("idler", &[dir.to_str().unwrap(), durability]);
        idler.must_say_this("idle");
        let open = || Store::options().busy_timeout(SHORT).open(&dir).unwrap();
        let before = open();
        stop(idler.id());
        put_at_once(&before);
        // Who comes only now is let in, and so is who comes when only the stopped one is left.
        put_at_once(&open());
        drop(before);
        put_at_once(&open());
        signal(idler.id(), libc::SIGCONT);
        idler.order("put");
        idler.must_say_this(&(2 + 3 * PUTS).to_string());
        idler.end();
    }
}
