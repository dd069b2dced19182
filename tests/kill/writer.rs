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
const WORKERS: usize = 3;
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

pub fn spawn(dir: &Path, buffered: bool, prefix: &[&str]) -> Child {
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
