//! One writer that is watched: it is killed, another one comes, or the first one comes late; and what
//! a watch tells that looks long after.

use std::fs;
use std::ops::Range;
use std::path::Path;

use taffrail::{CheckpointId, Checkpointer, Durability, HistoryQuery, PutOptions, Store, TypeTag};

use super::{ids_until, options, says_nothing};
use crate::child::{Child, next_order, say};
use crate::scratch::Scratch;

/// Plays a writer that carries out orders: how, a thread and an id. It says so when it is done.
pub fn putter(arguments: &[&str]) {
    let store = options().open(arguments[0]).unwrap();
    say("ready");
    while let Some(order) = next_order() {
        let words: Vec<&str> = order.split(' ').collect();
        let [how, thread, id] = words[..] else { panic!("{order:?}") };
        put(&store, thread, id, if how == "sync" { Durability::Sync } else { Durability::Buffered });
        say("done");
    }
}

fn start(dir: &Path) -> Child {
    let mut writer = Child::start("putter", &[dir.to_str().unwrap()]);
    writer.must_say_this("ready");
    writer
}

fn order(writer: &mut Child, order: &str) {
    writer.order(order);
    writer.must_say_this("done");
}

fn put(store: &Store, thread: &str, id: &str, durability: Durability) {
    let options = PutOptions::default().id(CheckpointId::new(id).unwrap()).durability(durability);
    store.put_bytes(thread, TypeTag::BYTES, id.as_bytes(), options).unwrap();
}

/// What a handle shows of a thread, oldest first, by its head and by its history.
fn shown(store: &Store, thread: &str) -> Vec<String> {
    let newest_first = store.history_bytes(thread, &HistoryQuery::default()).unwrap().map(Result::unwrap);
    let mut ids: Vec<String> = newest_first.map(|read| String::from_utf8(read.state.to_vec()).unwrap()).collect();
    ids.reverse();
    let head = store.get_bytes(thread).unwrap().map(|head| head.id.to_string());
    assert_eq!(head.as_ref(), ids.last());
    ids
}

/// Three lives of a writer that is killed while its last puts are not synced, so that whoever comes
/// next writes them anew.
fn watch_three_lives(watcher: &Store, dir: &Path) {
    let mut watch = watcher.watch(Some("t")).unwrap();
    let mut expected = Vec::new();
    for life in 0..3 {
        let mut writer = start(dir);
        for number in 0..40 {
            let how = if number % 10 == 0 { "sync" } else { "buffered" };
            order(&mut writer, &format!("{how} t {life}.{number}"));
            expected.push(format!("{life}.{number}"));
            if number == 33 {
                assert_eq!(ids_until(&mut watch, &format!("{life}.33")), expected.split_off(expected.len() - 34));
            }
        }
        // Made while what it must not tell is not synced.
        let mut late = watcher.watch(None).unwrap();
        writer.kill();
        let mut next = start(dir);
        order(&mut next, &format!("buffered t {life}.next"));
        expected.push(format!("{life}.next"));
        assert_eq!(ids_until(&mut late, &format!("{life}.next")), [format!("{life}.next")]);
        assert_eq!(ids_until(&mut watch, &format!("{life}.next")), expected.split_off(expected.len() - 7));
        next.kill();
        says_nothing(&mut watch);
        expected.clear();
    }
}

#[test]
fn a_watch_goes_on_when_the_writer_is_killed_and_another_one_comes() {
    let scratch = Scratch::new();
    let (beside, alone) = (scratch.path("beside"), scratch.path("alone"));
    watch_three_lives(&options().open(&beside).unwrap(), &beside);
    // Beside a reader each next one is the first, and recovers.
    options().open(&alone).unwrap().close().unwrap();
    watch_three_lives(&options().read_only(true).open(&alone).unwrap(), &alone);
}

/// What is done to a closed store's directory.
type Prepare = fn(&Path);

fn overwrite_page(dir: &Path, range: Range<usize>) {
    let mut page = fs::read(dir.join("tail")).unwrap();
    page[range].fill(9);
    fs::write(dir.join("tail"), page).unwrap();
}

#[test]
fn what_was_opened_to_read_before_the_first_writer_follows_it() {
    let prepare: [(&str, Prepare); 4] = [
        ("closed before", |_| ()),
        ("without a page", |dir| fs::remove_file(dir.join("tail")).unwrap()),
        ("of another run of the system", |dir| overwrite_page(dir, 32..48)),
        ("with a page of another store", |dir| overwrite_page(dir, 16..32)),
    ];
    for (name, prepare) in prepare {
        let scratch = Scratch::new();
        let dir = scratch.path("store");
        let store = options().open(&dir).unwrap();
        put(&store, "t", "1", Durability::Sync);
        put(&store, "t", "2", Durability::Buffered);
        store.close().unwrap();
        prepare(&dir);
        let reader = options().read_only(true).open(&dir).unwrap();
        let mut watch = reader.watch(Some("t")).unwrap();
        assert_eq!(shown(&reader, "t"), ["1", "2"], "{name}");
        says_nothing(&mut watch);
        let mut writer = start(&dir);
        assert_eq!(shown(&reader, "t"), ["1", "2"], "{name}");
        says_nothing(&mut watch);
        order(&mut writer, "sync t 3");
        assert_eq!(shown(&reader, "t"), ["1", "2", "3"], "{name}");
        assert_eq!(ids_until(&mut watch, "3"), ["3"], "{name}");
        order(&mut writer, "buffered t 4");
        assert_eq!(reader.list_threads(&Default::default()).unwrap().next().unwrap().unwrap().checkpoints, 4, "{name}");
        // And so it does when that one has gone and the next one comes.
        writer.kill();
        let mut next = start(&dir);
        order(&mut next, "sync u 5");
        assert_eq!((shown(&reader, "t").len(), shown(&reader, "u").len()), (4, 1), "{name}");
        order(&mut next, "sync t 6");
        assert_eq!(ids_until(&mut watch, "6"), ["4", "6"], "{name}");
        next.end();
    }
}

#[test]
fn a_late_look_is_told_what_was_trimmed_and_not_what_was_deleted() {
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    let store = options().max_history(3).open(&dir).unwrap();
    let reader = options().read_only(true).open(&dir).unwrap();
    let mut watches = [store.watch(None).unwrap(), reader.watch(None).unwrap(), reader.watch(Some("t")).unwrap()];
    let mut writer = start(&dir);
    let other = |number: usize| format!("other-{number}");
    for number in 0..100 {
        order(&mut writer, &format!("buffered t {number}"));
        if number == 0 {
            put(&store, "gone", "whole thread", Durability::Sync);
            put(&store, "again", "first life", Durability::Sync);
        }
        if number % 10 == 5 {
            put(&store, "t", &other(number), Durability::Buffered);
            let deleted = CheckpointId::new(number.to_string()).unwrap();
            assert!(store.delete_checkpoint("t", &deleted).unwrap());
        }
    }
    assert!(store.delete("gone").unwrap() && store.delete("again").unwrap());
    (0..5).for_each(|number| put(&store, "again", &format!("second life {number}"), Durability::Buffered));
    put(&store, "t", "end", Durability::Sync);
    let mut of_t = Vec::new();
    for number in 0..100 {
        of_t.push(if number % 10 == 5 { other(number) } else { number.to_string() });
    }
    of_t.push("end".to_owned());
    let second_life: Vec<String> = (0..5).map(|number| format!("second life {number}")).collect();
    let of_all = [&of_t[..100], &second_life, &of_t[100..]].concat();
    for (watch, expected) in watches.iter_mut().zip([&of_all, &of_all, &of_t]) {
        assert_eq!(ids_until(watch, "end"), *expected);
        says_nothing(watch);
    }
    assert_eq!(shown(&reader, "t").len(), 3);
}
