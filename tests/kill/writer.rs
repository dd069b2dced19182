//! The program that is killed: this test program run again, with several workers that put states
//! which tell who put them. It tells of a put over a pipe after the call returned; what it told is
//! what must be there.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use taffrail::testing::states::noise;
use taffrail::{Checkpointer, Durability, HistoryQuery, PutOptions, Store, TypeTag};

const DIR: &str = "TAFFRAIL_TEST_KILL_DIR";
/// How many puts each worker makes; without it they go on until they are killed.
const PUTS: &str = "TAFFRAIL_TEST_KILL_PUTS";
/// The first worker of a process that does all sorts of things.
const ALL_SORTS: &str = "TAFFRAIL_TEST_KILL_ALL_SORTS";
/// Of each process.
pub const WORKERS: usize = 3;
const SEGMENT_BYTES: u64 = 64 * 1024;

/// A state that tells its worker and number, and whose length follows from them. Six in a row are alike, so
/// that most are deltas.
pub fn state(worker: usize, number: u64) -> Vec<u8> {
    let length = if number % 23 == 22 { 18_000 } else { 20 + (number * 37 % 400) as usize };
    let mut bytes = format!("{worker} {number} ").into_bytes();
    bytes.extend(noise(((worker as u64) << 32) | (number / 6), length.saturating_sub(bytes.len())));
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
    let all_sorts = std::env::var(ALL_SORTS).ok().map(|first| first.parse::<usize>().unwrap());
    let worker = |worker: usize| {
        let thread = format!("worker {worker}");
        let next = store.get_bytes(&thread).unwrap().map_or(0, |head| number_of(worker, &head.state) + 1);
        for number in next..next + puts {
            let is_buffered = all_sorts.is_some() && is_buffered(number);
            if all_sorts.is_some() {
                beside(&store, worker, number);
            }
            let options = if is_buffered { PutOptions::default().durability(Durability::Buffered) } else { PutOptions::default() };
            store.put_bytes(&thread, TypeTag::BYTES, &state(worker, number), options).unwrap();
            if !is_buffered {
                // One write call, so one line is never mixed with another's.
                std::io::stdout().lock().write_all(format!("{worker} {number}\n").as_bytes()).unwrap();
            }
        }
    };
    let first = all_sorts.unwrap_or(0);
    std::thread::scope(|scope| {
        (first..first + WORKERS).for_each(|number| drop(scope.spawn(move || worker(number))));
    });
    std::process::exit(0)
}

/// Two puts of four only survive the process, where all sorts of things are done.
fn is_buffered(number: u64) -> bool {
    matches!(number % 4, 1 | 2)
}

/// What a worker does beside its puts: a thread that comes before number 16 and goes before number 24, and so
/// on; and now and then a compaction.
fn beside(store: &Store, worker: usize, number: u64) {
    let thread = passing(worker);
    match number % 16 {
        0 => drop(store.put_bytes(&thread, TypeTag::BYTES, &noise(number, 9_000), PutOptions::default()).unwrap()),
        8 => drop(store.delete(&thread).unwrap()),
        12 if worker == 0 => drop(store.compact().unwrap()),
        _ => {}
    }
}

fn passing(worker: usize) -> String {
    format!("passing {worker}")
}

/// Runs when the program is started as the writer, does nothing as a test.
#[test]
fn writer() {
    if let Ok(dir) = std::env::var(DIR) {
        child(&dir);
    }
}

pub fn spawn(dir: &Path, buffered: bool, prefix: &[&str]) -> Child {
    let mut command = command(dir, prefix);
    if !prefix.is_empty() {
        command.env(PUTS, "400");
    }
    if buffered {
        command.env("TAFFRAIL_TEST_KILL_BUFFERED", "1");
    }
    command.spawn().unwrap()
}

fn command(dir: &Path, prefix: &[&str]) -> Command {
    let program = std::env::current_exe().unwrap();
    let mut command = match prefix.split_first() {
        Some((tool, arguments)) => {
            let mut command = Command::new(tool);
            command.args(arguments).arg(program);
            command
        }
        None => Command::new(program),
    };
    command
        .args(["--exact", "writer::writer", "--nocapture", "--test-threads=1"])
        .env(DIR, dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Spawns a writer that does all sorts of things, with workers from this one on.
pub fn spawn_all_sorts(dir: &Path, first: usize) -> Child {
    command(dir, &[]).env(ALL_SORTS, first.to_string()).spawn().unwrap()
}

/// Reads what the child tells and notes what each worker has acknowledged last, until `enough` puts
/// were acknowledged or it ends; answers how many were. With 0 it stops at the child's first word.
pub fn acknowledged(told: &mut impl BufRead, acked: &mut BTreeMap<usize, u64>, enough: Option<u64>) -> u64 {
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
pub fn check(dir: &Path, acked: &mut BTreeMap<usize, u64>, context: &str) {
    check_all(dir, acked, context, WORKERS, 1);
}

/// The same of `processes` that did all sorts of things: behind what was acknowledged for good may stand
/// two that only survive the process; and what a worker did beside fits what is there of its own.
pub fn check_all_sorts(dir: &Path, acked: &mut BTreeMap<usize, u64>, context: &str, processes: usize) {
    let store = check_all(dir, acked, context, processes * WORKERS, 3);
    for (&worker, &last) in acked.iter() {
        let there = store.get_bytes(&passing(worker)).unwrap().map(|head| head.state.to_vec());
        let begun = noise(last - last % 16, 9_000);
        match last % 16 {
            0..=6 => assert!(there == Some(begun), "{context}: what worker {worker} put beside number {last} is not there"),
            7 => assert!(there.is_none_or(|there| there == begun), "{context}: worker {worker}, {last}"),
            8..=14 => assert!(there.is_none(), "{context}: what worker {worker} deleted before number {last} is back"),
            _ => assert!(there.is_none_or(|there| there == noise(last + 1, 9_000)), "{context}: worker {worker}, {last}"),
        }
    }
}

fn check_all(dir: &Path, acked: &mut BTreeMap<usize, u64>, context: &str, workers: usize, beyond: u64) -> Store {
    let store = Store::open(dir).unwrap_or_else(|error| panic!("{context}: {error}"));
    assert!(store.recovery().damage.is_empty(), "{context}: {:?}", store.recovery());
    for worker in 0..workers {
        let items = store.history_bytes(&format!("worker {worker}"), &HistoryQuery::default()).unwrap();
        let mut numbers: Vec<u64> = items.map(|item| number_of(worker, &item.unwrap().state)).collect();
        numbers.reverse();
        assert!(numbers.iter().copied().eq(0..numbers.len() as u64), "{context}: worker {worker} has a gap or a double");
        let least = acked.get(&worker).map_or(0, |acked| acked + 1);
        let there = numbers.len() as u64;
        assert!((least..=least + beyond).contains(&there), "{context}: worker {worker} has {there}, acknowledged {least}");
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
    again
}

/// An unacknowledged put may be there: the next writer goes on behind it, so it counts from now on.
pub fn caught_up(dir: &Path, acked: &mut BTreeMap<usize, u64>) {
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
