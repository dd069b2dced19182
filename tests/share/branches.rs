//! Two processes that go on from one checkpoint (field case TF-G3): both steps are kept, each with
//! the parent that it names, and the later commit is the head for both processes.

use taffrail::{CheckpointId, Checkpointer, HistoryQuery, Parent, PutOptions, Store, TypeTag};

use crate::child::{Child, PATIENCE, next_order, say};
use crate::handle::Handle;
use crate::scratch::Scratch;

fn handle(dir: &str) -> Handle {
    Handle::new(dir, Store::options().max_history(None).busy_timeout(PATIENCE))
}

fn head(handle: &Handle) -> String {
    handle.with(|store| store.head("t").unwrap().unwrap().id.to_string())
}

fn put_behind(handle: &Handle, parent: &str) -> String {
    let options = PutOptions::default().parent(Parent::Id(CheckpointId::new(parent).unwrap()));
    handle.with(|store| store.put_bytes("t", TypeTag::BYTES, b"step", options).unwrap().to_string())
}

/// Plays the other process: says the head that it sees, and for each order puts behind the
/// checkpoint that is named; `head` asks for the head again.
pub fn brancher(arguments: &[&str]) {
    let handle = handle(arguments[0]);
    say(&head(&handle));
    while let Some(order) = next_order() {
        say(&if order == "head" { head(&handle) } else { put_behind(&handle, &order) });
    }
}

#[test]
fn two_processes_that_go_on_from_one_checkpoint_keep_both_steps() {
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    let dir = dir.to_str().unwrap();
    let own = handle(dir);
    let mut begun = own.with(|store| store.put_bytes("t", TypeTag::BYTES, b"begun", PutOptions::default()).unwrap().to_string());
    let mut other = Child::start("brancher", &[dir]);
    other.must_say_this(&begun);
    let mut expected = vec![(begun.clone(), None)];
    for round in 0..20 {
        // Now one is the later, now the other.
        let steps = if round % 2 == 0 {
            let first = put_behind(&own, &begun);
            other.order(&begun);
            [first, other.must_say()]
        } else {
            other.order(&begun);
            let first = other.must_say();
            [first, put_behind(&own, &begun)]
        };
        expected.extend(steps.iter().map(|step| (step.clone(), Some(begun.clone()))));
        let [_, later] = steps;
        other.order("head");
        assert_eq!((head(&own), other.must_say()), (later.clone(), later.clone()));
        begun = later;
    }
    other.end();
    drop(own);
    // After a restart of both it is the same history.
    let store = Store::open(dir).unwrap();
    let infos = store.list("t", &HistoryQuery::default()).unwrap().map(Result::unwrap);
    let mut found: Vec<_> = infos.map(|info| (info.id.to_string(), info.parent.map(|parent| parent.to_string()))).collect();
    found.reverse();
    assert_eq!(found, expected);
}
