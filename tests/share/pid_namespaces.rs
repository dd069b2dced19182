//! Two processes in pid namespaces of their own, where both are number 1: no number of a process
//! may mean anything between them.

use std::process::Command;

use taffrail::prelude::*;
use taffrail::{HistoryQuery, Store};

use crate::child::{Child, PATIENCE, in_micros, instant_of, next_order, say, wait_until};
use crate::scratch::Scratch;
use crate::tidy::is_tidy;

const PUTS: usize = 60;

/// Plays one of them: says its number, and at the instant that it is given puts to a thread of its
/// own and to one of both.
pub fn namespaced(arguments: &[&str]) {
    let [dir, name] = arguments else { panic!("{arguments:?}") };
    say(&std::process::id().to_string());
    let instant = next_order().unwrap();
    wait_until(instant_of(&instant));
    let store = Store::options().max_history(None).busy_timeout(PATIENCE).open(dir).unwrap();
    for number in 0..PUTS {
        store.put(name, &number).unwrap();
        store.put("both", &(name, number)).unwrap();
    }
    store.close().unwrap();
    say("done");
}

#[test]
fn processes_in_different_pid_namespaces_share_a_store() {
    let ways: [&[&str]; 2] = [&["unshare", "--pid", "--fork"], &["unshare", "--user", "--map-root-user", "--pid", "--fork"]];
    let works = |way: &&&[&str]| Command::new(way[0]).args(&way[1..]).arg("true").output().is_ok_and(|ran| ran.status.success());
    let Some(way) = ways.iter().find(works) else {
        println!("SKIP no pid namespaces here");
        return;
    };
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    let mut children = ["a", "b"].map(|name| Child::start_under(way, "namespaced", &[dir.to_str().unwrap(), name], None));
    for child in &mut children {
        child.must_say_this("1");
    }
    let instant = in_micros(3_000);
    children.iter_mut().for_each(|child| child.order(&instant));
    for child in &mut children {
        child.must_say_this("done");
        child.end();
    }
    let store = Store::open(&dir).unwrap();
    assert!(store.recovery().damage.is_empty(), "{:?}", store.recovery());
    for name in ["a", "b"] {
        let own: Vec<usize> = store.history::<usize>(name, None).unwrap().into_iter().map(|read| read.state).collect();
        assert!(own.iter().copied().eq((0..PUTS).rev()), "{name}: {own:?}");
        let both = store.history::<(String, usize)>("both", None).unwrap().into_iter().map(|read| read.state);
        assert!(both.filter(|(by, _)| by == name).map(|(_, number)| number).eq((0..PUTS).rev()), "{name} in the thread of both");
    }
    let shown: Vec<_> = store.list("both", &HistoryQuery::default()).unwrap().map(Result::unwrap).collect();
    assert!(shown.windows(2).all(|pair| pair[0].parent.as_ref() == Some(&pair[1].id)), "each follows the one before it");
    store.close().unwrap();
    is_tidy(&dir, "two namespaces");
}
