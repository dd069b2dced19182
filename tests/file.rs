//! Places of files as they lie on a disk: names, what people do to files, other processes, kills.
#![allow(unsafe_code, reason = "one test forks")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use taffrail::prelude::*;
use taffrail::{Batch, ErrorKind, FileCheckpointer, HistoryQuery, Metadata, OnExisting, PutOptions, TypeTag};

const DIR: &str = "TAFFRAIL_TEST_FILE_DIR";

/// A directory in memory, where there is such a place, with the place of files in it.
struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Scratch {
        let memory = Path::new("/dev/shm");
        let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        Scratch(made.or_else(|_| tempfile::tempdir()).unwrap())
    }

    fn dir(&self) -> PathBuf {
        self.0.path().join("place")
    }

    fn open(&self) -> taffrail::Result<FileCheckpointer> {
        FileCheckpointer::open(self.dir())
    }

    /// The names of the files, sorted.
    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(self.dir()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir().join(name)
    }
}

fn id(text: &str) -> CheckpointId {
    CheckpointId::new(text).unwrap()
}

fn put(place: &FileCheckpointer, thread: &str, own: &str, state: &[u8]) {
    place.put_bytes(thread, TypeTag::JSON, state, PutOptions::default().id(id(own))).unwrap();
}

#[test]
fn a_file_is_json_that_a_person_can_read() {
    let scratch = Scratch::new();
    let place = scratch.open().unwrap();
    let metadata = Metadata::from_json(r#"{"step": 1.0}"#).unwrap();
    let options = PutOptions::default().id(id("step-1")).metadata(metadata).saved_at(std::time::SystemTime::UNIX_EPOCH);
    place.put_bytes("trip", TypeTag::JSON, b"{\"n\": 18446744073709551616,\n \"n\": 1.0}", options).unwrap();
    place.put_bytes("trip", TypeTag::BYTES, b"\0\xff", PutOptions::default().id(id("step-2"))).unwrap();
    place.attach("trip", &id("step-2"), "paid?", TypeTag::JSON, b"true", OnExisting::Keep).unwrap();
    assert_eq!(
        scratch.names(),
        ["MANIFEST.json", "trip@000000000001@step-1.json", "trip@000000000002@step-2.json", "trip@000000000003@step-2@paid%3f.json"]
    );
    let text = fs::read_to_string(scratch.file("trip@000000000001@step-1.json")).unwrap();
    assert!(text.contains("  \"thread\": \"trip\",\n  \"id\": \"step-1\",\n  \"seq\": 1,\n"), "{text}");
    assert!(text.contains("  \"saved_at\": \"1970-01-01T00:00:00Z\",\n  \"metadata\": {\"step\": 1.0},\n"), "{text}");
    assert!(text.ends_with("  \"state\": {\"n\": 18446744073709551616,\n \"n\": 1.0}\n}\n"), "{text}");
    for (name, member, value) in [
        ("trip@000000000002@step-2.json", "data", "AP8="),
        ("trip@000000000002@step-2.json", "parent", "step-1"),
        ("trip@000000000003@step-2@paid%3f.json", "checkpoint", "step-2"),
        ("trip@000000000003@step-2@paid%3f.json", "key", "paid?"),
    ] {
        let json: serde_json::Value = serde_json::from_slice(&fs::read(scratch.file(name)).unwrap()).unwrap();
        assert_eq!(json[member], value);
    }
    put(&place, "trip", "step-1", b"2");
    place.delete_checkpoint("trip", &id("step-2")).unwrap();
    assert_eq!(scratch.names(), ["MANIFEST.json", "trip@000000000001.000000000004@step-1.json"]);
}

#[test]
fn hostile_names_stay_in_the_folder_and_apart() {
    let scratch = Scratch::new();
    let outside = scratch.0.path().join("outside");
    fs::write(&outside, b"mine").unwrap();
    let long = ["x".repeat(4096), "x".repeat(4095) + "y", "X".repeat(4096), "👩".repeat(1024), "../".repeat(1365), "\0".repeat(4096)];
    let odd =
        ["..", ".", "../outside", "/tmp/x", "CON", "con", "nul.txt", "x.", "x", "x ", "a\0b", "a\nb", "a/b", "~", "-rf", "%2e", "@", "a@b"];
    let threads: Vec<&str> = odd.into_iter().chain(long.iter().map(String::as_str)).collect();
    let own = |thread: &str| id(&thread[..thread.floor_char_boundary(255)]);
    let place = scratch.open().unwrap();
    for thread in &threads {
        let options = PutOptions::default().id(own(thread));
        place.put_with(thread, thread, options).unwrap();
        let key = &thread[..thread.floor_char_boundary(1024)];
        place.attach(thread, &own(thread), key, TypeTag::BYTES, thread.as_bytes(), OnExisting::Keep).unwrap();
    }
    drop(place);
    let names = scratch.names();
    assert_eq!(names.len(), 1 + 2 * threads.len());
    assert!(names.iter().all(|name| name.len() <= 255 && name.is_ascii() && !name.contains(|letter: char| letter.is_ascii_control())));
    let blind: std::collections::BTreeSet<String> = names.iter().map(|name| name.to_lowercase()).collect();
    assert_eq!(blind.len(), names.len(), "on a disk that does not tell case");
    let place = scratch.open().unwrap();
    for thread in &threads {
        assert_eq!(place.get::<String>(thread).unwrap().as_deref(), Some(*thread));
        assert_eq!(place.head(thread).unwrap().unwrap().id, own(thread));
        let attached = place.attachments(thread, &own(thread)).unwrap();
        assert!(attached.len() == 1 && *attached[0].value == *thread.as_bytes());
    }
    for thread in &threads {
        assert!(place.delete(thread).unwrap());
    }
    assert_eq!(scratch.names(), ["MANIFEST.json"]);
    assert_eq!(fs::read(&outside).unwrap(), b"mine");
    assert_eq!(fs::read_dir(scratch.0.path()).unwrap().count(), 2);
}

/// Panics unless the error is `Corrupt` and names the file.
#[track_caller]
fn is_corrupt<T>(answer: taffrail::Result<T>, name: &str) {
    let Err(error) = answer else { panic!("{name} should be refused") };
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error:?}");
    assert!(error.to_string().contains(name), "{error:?} should name {name}");
}

#[test]
fn an_edited_or_torn_file_is_told_by_its_name() {
    let scratch = Scratch::new();
    let place = scratch.open().unwrap();
    put(&place, "t", "a", br#"{"amount": 100}"#);
    put(&place, "t", "b", b"2");
    place.attach("t", &id("b"), "k", TypeTag::BYTES, b"three bytes", OnExisting::Keep).unwrap();
    let (a, k) = ("t@000000000001@a.json", "t@000000000003@b@k.json");
    let original = fs::read_to_string(scratch.file(a)).unwrap();
    let damage = |text: &str| fs::write(scratch.file(a), text).unwrap();
    // Under a handle that is open, the read that meets it tells; the thread's other checkpoints are there.
    for text in [&original.replace("100", "999"), &original.replace("\"seq\": 1", "\"seq\": 9"), &original[..original.len() / 2], "", "{}"]
    {
        damage(text);
        is_corrupt(place.load_bytes("t", &id("a")), a);
        let history: Vec<_> = place.history_bytes("t", &HistoryQuery::default()).unwrap().collect();
        assert!(history.len() == 2 && history[0].is_ok());
        assert_eq!(&*place.get_bytes("t").unwrap().unwrap().state, b"2");
    }
    fs::remove_file(scratch.file(a)).unwrap();
    is_corrupt(place.load_bytes("t", &id("a")), a);
    drop(place);
    // At opening a head is told, and a value by the read that meets it.
    for text in [original.replace("\"seq\": 1", "\"seq\": 9"), original.replace("\"t\"", "\"u\""), original[..40].to_owned(), String::new()]
    {
        damage(&text);
        is_corrupt(scratch.open(), a);
    }
    damage(&original.replace("100", "999"));
    let place = scratch.open().unwrap();
    is_corrupt(place.load_bytes("t", &id("a")), a);
    assert_eq!(place.list("t", &HistoryQuery::default()).unwrap().count(), 2);
    fs::write(scratch.file(k), fs::read_to_string(scratch.file(k)).unwrap().replace("\"data\": \"d", "\"data\": \"e")).unwrap();
    is_corrupt(place.attachments("t", &id("b")), k);
    drop(place);
    damage(&original);
    fs::copy(scratch.file(a), scratch.file("t@000000000009@a.json")).unwrap();
    is_corrupt(scratch.open(), "t@000000000009@a.json");
    fs::remove_file(scratch.file("t@000000000009@a.json")).unwrap();
    let manifest = fs::read_to_string(scratch.file("MANIFEST.json")).unwrap();
    fs::write(scratch.file("MANIFEST.json"), manifest.replace("50", "5")).unwrap();
    is_corrupt(scratch.open(), "MANIFEST.json");
    fs::write(scratch.file("MANIFEST.json"), manifest).unwrap();
    let place = scratch.open().unwrap();
    assert_eq!(&*place.load_bytes("t", &id("a")).unwrap().unwrap().state, br#"{"amount": 100}"#);
}

#[test]
fn a_changed_byte_anywhere_is_no_wrong_state() {
    let scratch = Scratch::new();
    let place = scratch.open().unwrap();
    put(&place, "t", "a", b" [1, \"two\"]\n");
    put(&place, "t", "b", b"2");
    drop(place);
    for name in ["t@000000000001@a.json", "t@000000000002@b.json", "MANIFEST.json"] {
        let original = fs::read(scratch.file(name)).unwrap();
        for at in 0..original.len() {
            let mut changed = original.clone();
            changed[at] ^= 1 << (at % 7);
            fs::write(scratch.file(name), &changed).unwrap();
            let read = scratch.open().and_then(|place| {
                place
                    .history_bytes("t", &HistoryQuery::default())?
                    .map(|read| read.map(|read| read.state.to_vec()))
                    .collect::<taffrail::Result<Vec<_>>>()
            });
            match read {
                Ok(states) => assert_eq!(states, [&b"2"[..], b" [1, \"two\"]\n"], "byte {at} of {name}"),
                Err(error) => assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains(name), "{error:?}"),
            }
        }
        fs::write(scratch.file(name), &original).unwrap();
    }
}

#[test]
fn what_is_not_ours_is_left_alone_and_is_no_place() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.dir()).unwrap();
    fs::write(scratch.file("notes.txt"), b"mine").unwrap();
    assert_eq!(scratch.open().unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(scratch.names(), ["notes.txt"]);
    fs::remove_file(scratch.file("notes.txt")).unwrap();
    assert_eq!(FileCheckpointer::options().create(false).open(scratch.dir()).unwrap_err().kind(), ErrorKind::NotFound);
    let place = scratch.open().unwrap();
    put(&place, "t", "a", b"1");
    let own = ["notes.json", "t@000000000001@a.json~", ".t@000000000001@a.json.swp", "a.json.new", "x@y.gone"];
    own.iter().for_each(|name| fs::write(scratch.file(name), b"mine").unwrap());
    drop(place);
    let place = scratch.open().unwrap();
    assert_eq!(place.threads().unwrap(), ["t"]);
    place.delete("t").unwrap();
    assert_eq!(scratch.names().len(), 1 + own.len());
    assert_eq!(Store::open(scratch.dir()).unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(FileCheckpointer::open(scratch.file("notes.json")).unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(FileCheckpointer::open("").unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(FileCheckpointer::options().max_history(0).open(scratch.dir()).unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn an_iterator_reads_on_what_was_deleted_and_nothing_of_it_stays() {
    let scratch = Scratch::new();
    let place = scratch.open().unwrap();
    for step in 0..20 {
        put(&place, "t", &format!("c{step}"), step.to_string().as_bytes());
    }
    let (open, beside) = (place.history_bytes("t", &HistoryQuery::default()).unwrap(), place.clone());
    put(&beside, "t", "c7", b"\"other\"");
    beside.delete("t").unwrap();
    assert_eq!(scratch.names().len(), 21, "kept for who reads");
    let states: Vec<String> = open.map(|read| String::from_utf8(read.unwrap().state.to_vec()).unwrap()).collect();
    assert_eq!(states, (0..20).rev().map(|step| step.to_string()).collect::<Vec<_>>());
    assert_eq!(scratch.names(), ["MANIFEST.json"]);
    put(&place, "t", "a", b"1");
    let open = place.history_bytes("t", &HistoryQuery::default()).unwrap();
    place.delete("t").unwrap();
    std::mem::forget(open);
    drop((place, beside));
    assert_eq!(scratch.names().len(), 2);
    assert!(scratch.open().unwrap().threads().unwrap().is_empty());
    assert_eq!(scratch.names(), ["MANIFEST.json"], "the next opening removes what a killed reader kept");
}

#[test]
fn a_fork_has_files_of_its_own_and_a_rename_leaves_none() {
    let scratch = Scratch::new();
    let place = scratch.open().unwrap();
    put(&place, "t", "a", b" [1]");
    put(&place, "t", "b", b"2");
    place.attach("t", &id("a"), "k", TypeTag::BYTES, b"\xff", OnExisting::Keep).unwrap();
    put(&place, "t", "a", b" [1.0]");
    place.fork("t", Some(&id("a")), "u").unwrap();
    let source = ["t@000000000001.000000000004@a.json", "t@000000000002@b.json", "t@000000000003@a@k.json"];
    assert_eq!(scratch.names(), [&["MANIFEST.json"][..], &source, &["u@000000000005@a.json", "u@000000000006@a@k.json"]].concat());
    // Whatever becomes of the source's files.
    source.iter().for_each(|name| fs::write(scratch.file(name), b"").unwrap());
    assert_eq!(&*place.get_bytes("u").unwrap().unwrap().state, b" [1.0]");
    let error = place.fork("t", None, "v").unwrap_err();
    assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains(source[0]), "{error:?}");
    assert_eq!(scratch.names().len(), 6, "what was written is taken back");
    assert_eq!(place.rollback("t", &id("a")).unwrap(), 1);
    assert!(place.delete("t").unwrap());
    place.rename("u", "v").unwrap();
    assert_eq!(scratch.names(), ["MANIFEST.json", "v@000000000007@a.json", "v@000000000008@a@k.json"]);
    drop(place);
    let place = scratch.open().unwrap();
    assert_eq!(&*place.get_bytes("v").unwrap().unwrap().state, b" [1.0]");
    assert_eq!(&*place.attachments("v", &id("a")).unwrap()[0].value, b"\xff");
}

#[test]
fn opening_changes_nothing_where_there_is_nothing_to_finish() {
    let scratch = Scratch::new();
    drop(scratch.open().unwrap().put("t", &1).unwrap());
    let look = || -> BTreeMap<String, (Vec<u8>, std::time::SystemTime)> {
        let file = |name: String| {
            let path = scratch.file(&name);
            (name, (fs::read(&path).unwrap(), fs::metadata(&path).unwrap().modified().unwrap()))
        };
        scratch.names().into_iter().map(file).collect()
    };
    let (before, changed) = (look(), fs::metadata(scratch.dir()).unwrap().modified().unwrap());
    assert_eq!(scratch.open().unwrap().get::<u8>("t").unwrap(), Some(1));
    assert_eq!(look(), before);
    assert_eq!(fs::metadata(scratch.dir()).unwrap().modified().unwrap(), changed);
}

#[test]
fn one_handle_at_a_time() {
    let scratch = Scratch::new();
    let place = scratch.open().unwrap();
    put(&place, "t", "a", b"1");
    let error = scratch.open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error:?}");
    let link = scratch.0.path().join("link");
    std::os::unix::fs::symlink(scratch.dir(), &link).unwrap();
    assert_eq!(FileCheckpointer::open(&link).unwrap_err().kind(), ErrorKind::Busy);
    let other = |dir: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_taffrail"));
        command.arg("--store").arg(format!("file:{}", dir.display())).args(["get", "t"]).stdin(Stdio::null()).output().unwrap()
    };
    let refused = other(&scratch.dir());
    assert_eq!(refused.status.code(), Some(4), "{refused:?}");
    put(&place, "t", "b", b"2");
    let clone = place.clone();
    drop(place);
    assert_eq!(scratch.open().unwrap_err().kind(), ErrorKind::Busy, "a clone is the same handle");
    drop(clone);
    assert_eq!(other(&scratch.dir()).stdout, b"2");
    for _ in 0..200 {
        drop(scratch.open().unwrap());
    }
}

/// The program that forks, at first alone, then beside a worker that is mostly in the middle of a put.
#[test]
fn forker() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let place = FileCheckpointer::open(&dir).unwrap();
    put(&place, "t", "a", b"1");
    assert!(fork_is_refused(&place));
    let (worker, done) = (place.clone(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Relaxed) {
                put(&worker, "beside", "a", b"1");
            }
        });
        let refused = (0..20).all(|_| fork_is_refused(&place));
        done.store(true, Relaxed);
        assert!(refused, "a child's copy answers Poisoned beside a put of its parent");
    });
    assert_eq!(FileCheckpointer::open(&dir).unwrap_err().kind(), ErrorKind::Busy, "the child gave up nothing");
    put(&place, "t", "b", b"2");
    println!("all went well");
}

/// Forks a child that uses the place and gives its copy up: whether it was refused, and did not wait for ever.
fn fork_is_refused(place: &FileCheckpointer) -> bool {
    let is_refused = |kind: Option<ErrorKind>| kind == Some(ErrorKind::Poisoned);
    // SAFETY: the child leaves without unwinding or running the test program's exit handlers.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: the call touches no memory; the signal ends a child that waits for ever.
        unsafe { libc::alarm(20) };
        let read = is_refused(place.get_bytes("t").err().map(|error| error.kind()));
        let written = is_refused(place.put("t", &2).err().map(|error| error.kind()));
        // SAFETY: the child leaves by _exit, so its copy is dropped this once.
        drop(unsafe { std::ptr::read(place) });
        // SAFETY: as above.
        unsafe { libc::_exit(i32::from(!(read && written))) }
    }
    let mut status = -1;
    // SAFETY: the status is ours to write.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    status == 0
}

#[test]
fn a_forked_child_harms_nobody() {
    let scratch = Scratch::new();
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command.args(["--exact", "forker", "--nocapture"]).env(DIR, scratch.dir()).output().unwrap();
    assert!(output.status.success() && String::from_utf8_lossy(&output.stdout).contains("all went well"), "{output:?}");
    assert_eq!(scratch.open().unwrap().get::<u8>("t").unwrap(), Some(2));
}

#[test]
fn a_folder_that_was_moved_away_takes_no_more() {
    let scratch = Scratch::new();
    let place = scratch.open().unwrap();
    put(&place, "t", "a", b"1");
    fs::rename(scratch.dir(), scratch.0.path().join("moved")).unwrap();
    assert_eq!(place.put("t", &2).unwrap_err().kind(), ErrorKind::Poisoned);
    fs::create_dir(scratch.dir()).unwrap();
    assert_eq!(place.put("t", &2).unwrap_err().kind(), ErrorKind::Poisoned);
    assert!(scratch.names().is_empty());
    drop(place);
    assert_eq!(FileCheckpointer::open(scratch.0.path().join("moved")).unwrap().get::<u8>("t").unwrap(), Some(1));
}

#[test]
fn a_lower_number_at_opening_trims() {
    let scratch = Scratch::new();
    let place = scratch.open().unwrap();
    (0..60).for_each(|step| drop(place.put("t", &step).unwrap()));
    let count = |place: &FileCheckpointer| place.list("t", &HistoryQuery::default()).unwrap().count();
    assert_eq!(count(&place), 50, "by default");
    drop(place);
    assert_eq!(count(&FileCheckpointer::options().max_history(3).open(scratch.dir()).unwrap()), 3);
    let place = scratch.open().unwrap();
    place.put("t", &60).unwrap();
    assert_eq!(count(&place), 3, "the place keeps its own");
    assert_eq!(scratch.names().len(), 4);
}

/// The process that is killed: batches of three threads and a trim, numbered, each told once it is done.
#[test]
fn putter() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let place = FileCheckpointer::options().max_history(2).open(dir).unwrap();
    let begin = place.get::<u64>("a").unwrap().map_or(0, |last| last + 1);
    for step in begin.. {
        let state = step.to_string();
        let mut batch = Batch::new();
        for thread in ["a", "b", "c"] {
            batch.put(thread, TypeTag::JSON, state.as_bytes(), PutOptions::default().id(id(&format!("s{step}"))));
        }
        batch.attach("a", id(&format!("s{step}")), "k", TypeTag::JSON, state.as_bytes(), OnExisting::Keep);
        place.commit(&batch).unwrap();
        println!("done {step}");
    }
}

#[test]
fn a_killed_process_leaves_whole_batches() {
    use std::io::{BufRead, BufReader};
    let scratch = Scratch::new();
    for round in 0..20 {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "putter", "--nocapture"]).env(DIR, scratch.dir()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(|line| line.unwrap_or_default());
        let mut done: Vec<u64> = Vec::new();
        let told = |line: String| line.rsplit_once("done ").and_then(|(_, step)| step.parse::<u64>().ok());
        while done.len() < 3 + round {
            done.extend(told(lines.next().expect("the child goes on")));
        }
        std::thread::sleep(std::time::Duration::from_micros(137 * round as u64));
        child.kill().unwrap();
        child.wait().unwrap();
        done.extend(lines.filter_map(told));
        let place = scratch.open().unwrap();
        let heads = ["a", "b", "c"].map(|thread| place.get::<u64>(thread).unwrap().unwrap());
        assert!(heads[0] == heads[1] && heads[1] == heads[2], "half a batch: {heads:?}");
        let last = *done.last().unwrap();
        assert!(heads[0] == last || heads[0] == last + 1, "{heads:?} after {last}");
        let newest = place.history::<u64>("a", None).unwrap();
        assert_eq!(newest.len(), 2);
        assert_eq!(place.attachments("a", &newest[0].id).unwrap()[0].value.to_vec(), heads[0].to_string().into_bytes());
        assert_eq!(scratch.names().len(), 1 + 6 + 2, "nothing is left over: {:?}", scratch.names());
    }
}
