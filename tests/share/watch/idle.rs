//! What waiting costs, and how soon news are told.

use std::time::Duration;

use taffrail::{CheckpointId, Checkpointer, PutOptions, TypeTag};

use super::options;
use crate::child::{Child, PATIENCE, say};
use crate::posix::{cpu_time, now};
use crate::scratch::Scratch;

const IDLE: Duration = Duration::from_secs(2);
/// A thousandth of one processor.
const COST_MAX: Duration = Duration::from_millis(2);

/// Plays a process that does nothing but watch; says how much of a processor it used, in nanoseconds.
pub fn idler(arguments: &[&str]) {
    let [dir, kind] = arguments else { panic!("{arguments:?}") };
    let store = options().read_only(*kind != "writer").open(dir).unwrap();
    let mut watch = store.watch(None).unwrap();
    // Warm.
    assert!(watch.wait(Duration::from_millis(300)).unwrap().is_none());
    let before = cpu_time();
    assert!(watch.wait(IDLE).unwrap().is_none());
    say(&(cpu_time() - before).as_nanos().to_string());
}

#[test]
fn waiting_costs_next_to_nothing() {
    let scratch = Scratch::new();
    let (dir, without_page) = (scratch.path("store"), scratch.path("without"));
    let store = options().open(&dir).unwrap();
    store.put_bytes("t", TypeTag::BYTES, b"x", PutOptions::default()).unwrap();
    options().open(&without_page).unwrap().close().unwrap();
    std::fs::remove_file(without_page.join("tail")).unwrap();
    let kinds = [("writer", &dir), ("reader", &dir), ("reader without a page", &without_page)];
    let mut idlers = kinds.map(|(kind, dir)| Child::start("watching idler", &[dir.to_str().unwrap(), kind]));
    for ((kind, _), idler) in kinds.iter().zip(&mut idlers) {
        let cost = Duration::from_nanos(idler.must_say().parse().unwrap());
        println!("{kind}: {cost:?} of {IDLE:?}");
        assert!(cost < COST_MAX, "{kind}: waiting for {IDLE:?} took {cost:?}");
        idler.end();
    }
}

#[test]
fn news_of_another_process_are_told_at_once() {
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    let store = options().open(&dir).unwrap();
    let reader = options().read_only(true).open(&dir).unwrap();
    let mut watches = [store.watch(Some("t")).unwrap(), reader.watch(None).unwrap()];
    let mut writer = Child::start("ticker", &[dir.to_str().unwrap()]);
    let longest = std::thread::scope(|scope| {
        let waiting = watches.each_mut().map(|watch| {
            scope.spawn(|| {
                let mut longest = Duration::ZERO;
                loop {
                    let told = watch.wait(PATIENCE).unwrap().expect("nothing is told");
                    match told.id.as_str().parse() {
                        Ok(nanos) => longest = longest.max(now() - Duration::from_nanos(nanos)),
                        Err(_) => return longest,
                    }
                }
            })
        });
        waiting.map(|watch| watch.join().unwrap())
    });
    println!("told at the latest after: writer {:?}, reader {:?}", longest[0], longest[1]);
    assert!(longest.iter().all(|longest| *longest < Duration::from_secs(1)), "{longest:?}");
    writer.end();
}

/// Plays a process that puts now and then, each checkpoint's id the time at which its put began.
pub fn ticker(arguments: &[&str]) {
    let store = options().open(arguments[0]).unwrap();
    let put = |id: &str| {
        let options = PutOptions::default().id(CheckpointId::new(id).unwrap());
        store.put_bytes("t", TypeTag::BYTES, b"x", options).unwrap();
    };
    for _ in 0..10 {
        std::thread::sleep(Duration::from_millis(150));
        put(&now().as_nanos().to_string());
    }
    put("end");
}
