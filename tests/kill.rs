//! kill -9 of a process with several workers, again and again on one directory: every acknowledged
//! put is there once and in order, at most those in flight are there beyond, and new ones work.
//!
//! The child is this test program run again. It tells of a put over a pipe after the call returned;
//! what it told is what must be there. Some children are killed while they open and recover.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use taffrail::{Checkpointer, Durability, HistoryQuery, PutOptions, Store, TypeTag};

const DIR: &str = "TAFFRAIL_TEST_KILL_DIR";
/// How many puts each worker makes; without it they go on until they are killed.
const PUTS: &str = "TAFFRAIL_TEST_KILL_PUTS";
const WORKERS: usize = 3;
const SEGMENT_BYTES: u64 = 64 * 1024;

/// A state that tells its worker and number, and whose length follows from them.
fn state(worker: usize, number: u64) -> Vec<u8> {
    let length = if number % 23 == 22 { 18_000 } else { 20 + (number * 37 % 400) as usize };
    let mut bytes = format!("{worker} {number} ").into_bytes();
    bytes.resize(length, worker as u8 ^ number as u8);
    bytes
}

fn number_of(worker: usize, bytes: &[u8]) -> u64 {
    let text: Vec<&[u8]> = bytes.splitn(3, |&byte| byte == b' ').collect();
    let number = std::str::from_utf8(text[1]).unwrap().parse().unwrap();
    assert!(bytes == state(worker, number), "a state that nobody put");
    number
}

fn child(dir: &str) -> ! {
    println!("begun");
    let durability = if std::env::var_os("TAFFRAIL_TEST_KILL_BUFFERED").is_some() { Durability::Buffered } else { Durability::Sync };
    let store = Store::options().max_history(None).segment_bytes(SEGMENT_BYTES).durability(durability).open(dir).unwrap();
    println!("opened");
    let puts = std::env::var(PUTS).map_or(u64::MAX / 2, |puts| puts.parse().unwrap());
    let worker = |worker: usize| {
        let thread = format!("worker {worker}");
        let next = store.get_bytes(&thread).unwrap().map_or(0, |head| number_of(worker, &head.state) + 1);
        for number in next..next + puts {
            store.put_bytes(&thread, TypeTag::BYTES, &state(worker, number), PutOptions::default()).unwrap();
            // One write call, so one line is never mixed with another's.
            std::io::stdout().lock().write_all(format!("{worker} {number}\n").as_bytes()).unwrap();
        }
    };
    std::thread::scope(|scope| {
        (0..WORKERS).for_each(|number| drop(scope.spawn(move || worker(number))));
    });
    std::process::exit(0)
}

/// Runs when the program is started as the writer, does nothing as a test.
#[test]
fn writer() {
    if let Ok(dir) = std::env::var(DIR) {
        child(&dir);
    }
}

fn spawn(dir: &Path, buffered: bool, prefix: &[&str]) -> Child {
    let program = std::env::current_exe().unwrap();
    let mut command = match prefix.split_first() {
        Some((tool, arguments)) => {
            let mut command = Command::new(tool);
            command.args(arguments).arg(program);
            command
        }
        None => Command::new(program),
    };
    command.args(["--exact", "writer", "--nocapture", "--test-threads=1"]).env(DIR, dir).stdout(Stdio::piped()).stderr(Stdio::piped());
    if !prefix.is_empty() {
        command.env(PUTS, "400");
    }
    if buffered {
        command.env("TAFFRAIL_TEST_KILL_BUFFERED", "1");
    }
    command.spawn().unwrap()
}

/// Reads what the child tells and notes what each worker has acknowledged last, until `enough` puts
/// were acknowledged or it ends; answers how many were. With 0 it stops at the child's first word.
fn acknowledged(told: &mut impl BufRead, acked: &mut BTreeMap<usize, u64>, enough: Option<u64>) -> u64 {
    let mut count = 0;
    let mut line = String::new();
    while told.read_line(&mut line).unwrap() > 0 {
        let numbers: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
        if let [worker, number] = numbers[..] {
            let before = acked.insert(worker as usize, number);
            assert!(before.is_none_or(|before| before < number), "acknowledged twice");
            count += 1;
        }
        if enough.is_some_and(|enough| count >= enough) && (count > 0 || line.trim_end().ends_with("begun")) {
            break;
        }
        line.clear();
    }
    count
}

/// All of each worker's states are there, from 0 on, without a gap, up to the acknowledged one at
/// least and one in flight at most.
fn check(dir: &Path, acked: &mut BTreeMap<usize, u64>, context: &str) {
    let store = Store::open(dir).unwrap_or_else(|error| panic!("{context}: {error}"));
    assert!(store.recovery().damage.is_empty(), "{context}: {:?}", store.recovery());
    for worker in 0..WORKERS {
        let items = store.history_bytes(&format!("worker {worker}"), &HistoryQuery::default()).unwrap();
        let mut numbers: Vec<u64> = items.map(|item| number_of(worker, &item.unwrap().state)).collect();
        numbers.reverse();
        assert!(numbers.iter().copied().eq(0..numbers.len() as u64), "{context}: worker {worker} has a gap or a double");
        let least = acked.get(&worker).map_or(0, |acked| acked + 1);
        let there = numbers.len() as u64;
        assert!((least..=least + 1).contains(&there), "{context}: worker {worker} has {there}, acknowledged {least}");
        // One that was in flight counts from now on: the next writer goes on behind it.
        if let Some(&last) = numbers.last() {
            acked.insert(worker, last);
        }
    }
    assert!(!store.exists("never").unwrap(), "{context}");
    let probe = store.put_bytes("probe", TypeTag::BYTES, context.as_bytes(), PutOptions::default()).unwrap();
    drop(store);
    let again = Store::open(dir).unwrap();
    assert_eq!(again.head("probe").unwrap().unwrap().id, probe, "{context}");
}

#[test]
fn acknowledged_puts_survive_sixty_kills() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("store");
    let mut acked = BTreeMap::new();
    let mut total = 0;
    let mut seed = std::process::id() as u64 | 1;
    println!("seed {seed}");
    for round in 0..60u64 {
        let mut child = spawn(&dir, round % 3 == 2, &[]);
        let mut told = BufReader::new(child.stdout.take().unwrap());
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // Some are killed while they open, most after some puts; when exactly is left to chance.
        let enough = if round % 6 == 5 { 0 } else { 1 + (seed >> 40) % 40 };
        total += acknowledged(&mut told, &mut acked, Some(enough));
        std::thread::sleep(Duration::from_micros((seed >> 33) % 3_000));
        child.kill().unwrap();
        total += acknowledged(&mut told, &mut acked, None);
        let ended = child.wait_with_output().unwrap();
        assert!(ended.status.code().is_none(), "the writer ended by itself: {}", String::from_utf8_lossy(&ended.stderr));
        // Every other round the next writer recovers itself, and may be killed at that too.
        if round % 2 == 1 {
            check(&dir, &mut acked, &format!("round {round}, killed after {enough} puts"));
        } else {
            caught_up(&dir, &mut acked);
        }
    }
    assert!(total > 500, "only {total} puts were acknowledged: nothing was tested");
}

/// An unacknowledged put may be there: the next writer goes on behind it, so it counts from now on.
fn caught_up(dir: &Path, acked: &mut BTreeMap<usize, u64>) {
    let Ok(store) = Store::options().read_only(true).open(dir) else { return };
    for worker in 0..WORKERS {
        if let Some(head) = store.get_bytes(&format!("worker {worker}")).unwrap() {
            let number = number_of(worker, &head.state);
            let least = acked.get(&worker).copied();
            let told = store.recovery();
            assert!(
                least.is_none_or(|least| (least..=least + 1).contains(&number)),
                "worker {worker} has {number}, acknowledged {least:?}: {told:?}"
            );
            acked.insert(worker, number);
        }
    }
}

#[test]
fn killed_at_each_system_call() {
    if Command::new("strace").arg("-V").stdout(Stdio::null()).status().is_err() {
        println!("SKIP strace is not there");
        return;
    }
    for (call, times) in [("pwritev", 12), ("fdatasync", 12), ("fsync", 7), ("rename", 4)] {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("store");
        let mut acked = BTreeMap::new();
        for when in 1..=times {
            // A large state, a rotation and an unclean opening come up within a few dozen puts.
            let when = if call == "pwritev" || call == "fdatasync" { when * 3 } else { when };
            let inject = format!("inject={call}:signal=SIGKILL:when={when}");
            let trace = format!("trace={call}");
            let mut child = spawn(&dir, false, &["strace", "-f", "-qq", "-o", "/dev/null", "-e", &trace, "-e", &inject]);
            acknowledged(&mut BufReader::new(child.stdout.take().unwrap()), &mut acked, None);
            let ended = child.wait_with_output().unwrap();
            let error = String::from_utf8_lossy(&ended.stderr).into_owned();
            if error.contains("ptrace") || error.contains("nvalid") {
                println!("SKIP strace cannot be used here: {error}");
                return;
            }
            if dir.join("MANIFEST").exists() {
                check(&dir, &mut acked, &format!("killed at {call} {when}"));
            }
            caught_up(&dir, &mut acked);
            assert!(!ended.status.success(), "{call} {when} did not kill the writer");
        }
    }
}
