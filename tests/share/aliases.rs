//! One directory by several names in one process (field case TF-G5): each handle works as another
//! process's would.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use taffrail::prelude::*;
use taffrail::testing::states::noise;
use taffrail::{ErrorKind, Store};

use crate::child::{Child, say};
use crate::mounts;
use crate::scratch::Scratch;

const BOUND: &str = "TAFFRAIL_TEST_SHARE_BOUND";

fn open(place: impl AsRef<Path>) -> Store {
    let place = place.as_ref();
    let options = Store::options().max_history(None).busy_timeout(Duration::from_secs(5)).create(false);
    options.open(place).unwrap_or_else(|error| panic!("{}: {error:?}", place.display()))
}

/// Each handle puts, and all see it at once.
fn each_sees_the_others(stores: &[Store]) {
    for writer in stores {
        let id = writer.put("t", "by an alias").unwrap();
        for (number, reader) in stores.iter().enumerate() {
            assert_eq!(reader.head("t").unwrap().map(|head| head.id), Some(id.clone()), "handle {number} does not see it");
        }
    }
}

/// Plays another process: puts once and says how many checkpoints it sees.
pub fn other(arguments: &[&str]) {
    let store = open(arguments[0]);
    store.put("t", "by another process").unwrap();
    say(&store.history::<String>("t", None).unwrap().len().to_string());
}

fn another_process_puts(dir: &str, stores: &[Store], expected: usize) {
    let mut other = Child::start("other", &[dir]);
    other.must_say_this(&expected.to_string());
    other.end();
    for (number, store) in stores.iter().enumerate() {
        let shown = store.history::<String>("t", None).unwrap();
        assert_eq!((shown.len(), shown[0].state.as_str()), (expected, "by another process"), "handle {number}");
    }
}

/// Plays the process with the handles; it is started where the store is, so that relative names hold.
pub fn aliases(arguments: &[&str]) {
    let dir = arguments[0];
    Store::options().max_history(None).open(dir).unwrap();
    let mut stores = Vec::new();
    for alias in ["store", "./store", "store/.", "../ground/store", "link", dir, "store"] {
        stores.push(open(alias));
        each_sees_the_others(&stores);
    }
    let mut puts = stores.len() * (stores.len() + 1) / 2;
    // Closing one takes nothing from the others.
    while stores.len() > 1 {
        stores.remove(stores.len() / 2).close().unwrap();
        another_process_puts(dir, &stores, puts + 1);
        each_sees_the_others(&stores);
        puts += 1 + stores.len();
    }
    say("all went well");
}

#[test]
fn one_directory_by_several_names_is_one_store() {
    let scratch = Scratch::new();
    let ground = scratch.path("ground");
    fs::create_dir(&ground).unwrap();
    symlink("store", ground.join("link")).unwrap();
    let dir = ground.join("store");
    let mut child = Child::start_under(&[], "aliases", &[dir.to_str().unwrap()], Some(ground.as_os_str()));
    child.must_say_this("all went well");
    child.end();
}

/// Runs in a mount namespace of its own, where the directory is there by a second name.
#[test]
fn inside_a_bind_mount() {
    let Some(dir) = std::env::var_os(BOUND) else { return };
    let bound = Path::new(&dir).with_extension("bound");
    let stores = [open(&dir), open(&bound)];
    each_sees_the_others(&stores);
    another_process_puts(bound.to_str().unwrap(), &stores, 3);
    let [store, other] = stores;
    store.close().unwrap();
    each_sees_the_others(&[other]);
    println!("bind mount: done");
}

#[test]
fn a_bind_mount_is_the_same_store() {
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    Store::options().max_history(None).open(&dir).unwrap();
    let mount = "mkdir \"$1.bound\" && mount --bind \"$1\" \"$1.bound\"";
    mounts::inside(mount, &dir, "aliases::inside_a_bind_mount", BOUND, "bind mount: done");
}

#[test]
fn a_directory_that_is_renamed_under_a_handle_loses_nothing() {
    let scratch = Scratch::new();
    let (dir, renamed) = (scratch.path("store"), scratch.path("renamed"));
    let store = Store::options().max_history(None).segment_bytes(64 * 1024).open(&dir).unwrap();
    let state = |number: u32| (number, noise(u64::from(number), 1000));
    store.put("t", &state(0)).unwrap();
    fs::rename(&dir, &renamed).unwrap();
    let other = open(&renamed);
    let mut acknowledged = vec![0];
    for number in 1..=60 {
        // The old handle goes on, or says that its directory is not there any more.
        let by = if number % 2 == 0 { &store } else { &other };
        match by.put("t", &state(number)) {
            Ok(_) => acknowledged.push(number),
            Err(error) => assert!(number % 2 == 0 && error.file().is_some(), "put {number}: {error:?}"),
        }
    }
    assert!(!dir.exists(), "the old name was made again");
    drop((store, other));
    let mut found: Vec<u32> = open(&renamed).history::<(u32, Vec<u8>)>("t", None).unwrap().into_iter().map(|read| read.state.0).collect();
    found.reverse();
    assert_eq!(found, acknowledged);
}

#[test]
fn a_store_may_stand_behind_a_symlink() {
    let scratch = Scratch::new();
    let (target, link) = (scratch.path("elsewhere"), scratch.path("store"));
    fs::create_dir(&target).unwrap();
    symlink(&target, &link).unwrap();
    let store = Store::options().max_history(None).open(&link).unwrap();
    store.put("t", &1).unwrap();
    store.close().unwrap();
    assert!(target.join("MANIFEST").exists() && fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(Store::open(&target).unwrap().get::<u32>("t").unwrap(), Some(1));
}

#[test]
fn a_dangling_symlink_is_told_by_name_and_nothing_is_made() {
    let scratch = Scratch::new();
    let link = scratch.path("store");
    symlink(scratch.path("nowhere"), &link).unwrap();
    for options in [Store::options(), Store::options().create(false), Store::options().read_only(true)] {
        let error = options.open(&link).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Unsupported | ErrorKind::Io), "{error:?}");
        assert_eq!(error.file().map(|(path, _)| path), Some(link.as_path()), "{error:?}");
        assert!(!scratch.path("nowhere").exists() && fs::symlink_metadata(&link).unwrap().is_symlink());
    }
}
