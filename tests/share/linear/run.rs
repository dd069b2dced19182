//! Recorded histories: processes that do a few operations each at one time, on two threads, and say
//! what they call and what was answered, with the machine's clock.

use std::time::Duration;

use taffrail::{Batch, CheckpointId, Checkpointer, ErrorKind, ExpectedHead, PutOptions, Store, ThreadQuery, TypeTag};

use super::history::{Answer, Call, Expect, Heads, Operation};
use super::search::is_linearizable;
use crate::chance::{self, Chance};
use crate::child::{Child, PATIENCE, in_micros, instant_of, next_order, say, wait_until};
use crate::handle::Handle;
use crate::posix::now;
use crate::scratch::Scratch;

const PROCESSES: u64 = 3;
const OPERATIONS: u64 = 6;
const THREADS: [&str; 2] = ["a", "b"];
/// A checkpoint that nobody puts.
const NOBODYS: Option<u32> = Some(0);

fn handle(dir: &str) -> Handle {
    Handle::new(dir, Store::options().max_history(None).busy_timeout(PATIENCE))
}

/// Plays a process. The orders of a run are a directory with a seed, and an instant. It says each
/// operation before it calls it, and its instants and answer afterwards; at last `done`.
pub fn worker(arguments: &[&str]) {
    let process: u64 = arguments[0].parse().unwrap();
    while let Some(order) = next_order() {
        let (dir, seed) = order.split_once(' ').unwrap();
        let handle = handle(dir);
        say("open");
        let instant = next_order().unwrap();
        wait_until(instant_of(&instant));
        let mut chance = Chance::new(seed.parse::<u64>().unwrap() ^ (process + 1) << 56);
        let mut seen = [None; 2];
        for number in 1..=OPERATIONS {
            // Moments apart, or a process does all of its own while the others wait for a core.
            std::thread::sleep(chance.micros(200));
            let operation = choose(&mut chance, (process * 100 + number) as u32, number == 1, seen);
            say(&serde_json::to_string(&Call { operation, called: now(), returned: None }).unwrap());
            let called = now();
            let answer = handle.with(|store| perform(store, operation));
            let returned = Some((now(), answer));
            say(&serde_json::to_string(&Call { operation, called, returned }).unwrap());
            match (operation, answer) {
                (Operation::Put(thread, number, _), Answer::Made) => seen[thread] = Some(number),
                (Operation::Both(number), _) => seen = [Some(number); 2],
                (Operation::Get(thread), Answer::Head(head)) => seen[thread] = head,
                (Operation::Delete(thread), _) => seen[thread] = None,
                (_, Answer::Heads(heads)) => seen = heads,
                _ => {}
            }
        }
        drop(handle);
        say("done");
    }
}

/// Chooses an operation; most puts ask for the head that this process has seen last.
fn choose(chance: &mut Chance, number: u32, first: bool, seen: Heads) -> Operation {
    let thread = chance.below(3) as usize / 2;
    match chance.below(10) {
        0..=3 => Operation::Put(thread, number, Expect::Head(seen[thread])),
        _ if first => Operation::Put(0, number, Expect::Head(None)),
        4 => Operation::Put(thread, number, Expect::Any),
        5 => Operation::Both(number),
        6 | 7 => Operation::Get(thread),
        8 => Operation::List,
        _ => Operation::Delete(thread),
    }
}

fn id(number: u32) -> CheckpointId {
    CheckpointId::new(format!("n-{number}")).unwrap()
}

fn number_of(id: &CheckpointId) -> u32 {
    id.as_str().strip_prefix("n-").and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("an id that nobody put: {id}"))
}

fn perform(store: &Store, operation: Operation) -> Answer {
    let put = |number: u32| PutOptions::default().id(id(number));
    match operation {
        Operation::Put(thread, number, expect) => {
            let expected = match expect {
                Expect::Any => ExpectedHead::Any,
                Expect::Head(None) => ExpectedHead::Empty,
                Expect::Head(Some(head)) => ExpectedHead::Id(id(head)),
            };
            let text = number.to_string();
            match store.put_bytes(THREADS[thread], TypeTag::JSON, text.as_bytes(), put(number).expected_head(expected)) {
                Ok(_) => Answer::Made,
                Err(error) if error.kind() == ErrorKind::Conflict => Answer::Conflict,
                Err(error) => panic!("{operation:?}: {error:?}"),
            }
        }
        Operation::Both(number) => {
            let text = number.to_string();
            let mut batch = Batch::new();
            for thread in THREADS {
                batch.put(thread, TypeTag::JSON, text.as_bytes(), put(number));
            }
            store.commit(&batch).unwrap();
            Answer::Made
        }
        Operation::Get(thread) => {
            let head = store.get_bytes(THREADS[thread]).unwrap();
            Answer::Head(head.map(|head| {
                assert_eq!(*head.state, *number_of(&head.id).to_string().as_bytes());
                number_of(&head.id)
            }))
        }
        Operation::List => {
            let mut heads = [None; 2];
            for info in store.list_threads(&ThreadQuery::default()).unwrap() {
                let info = info.unwrap();
                heads[THREADS.iter().position(|thread| *thread == info.thread).unwrap()] = Some(number_of(&info.head));
            }
            Answer::Heads(heads)
        }
        Operation::Delete(thread) => Answer::Existed(store.delete(THREADS[thread]).unwrap()),
    }
}

/// What a process says of a run: its calls, the last one without an answer if it was killed in it.
fn calls_of(process: &mut Child, may_be_killed: bool) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    loop {
        let word = match process.word() {
            Some(word) if word == "done" => break,
            Some(word) => word,
            None => {
                assert!(may_be_killed, "a process failed behind {:?}", calls.last());
                break;
            }
        };
        let call: Call = serde_json::from_str(&word).unwrap();
        if call.returned.is_some() {
            calls.pop();
        }
        calls.push(call);
    }
    calls
}

/// Runs one history: all open the store, begin at one instant, and the store is read at the end.
fn record(processes: &mut [Child], dir: &str, seed: u64) -> Vec<Call> {
    let mut chance = Chance::new(seed);
    processes.iter_mut().for_each(|process| process.order(&format!("{dir} {seed}")));
    processes.iter_mut().for_each(|process| process.must_say_this("open"));
    let instant = in_micros(1_000);
    processes.iter_mut().for_each(|process| process.order(&instant));
    let victim = chance.once_in(3).then(|| chance.below(PROCESSES) as usize);
    if let Some(victim) = victim {
        std::thread::sleep(Duration::from_micros(1_000) + chance.micros(3_000));
        processes[victim].kill();
    }
    let told = processes.iter_mut().enumerate().flat_map(|(number, process)| calls_of(process, victim == Some(number)));
    let mut calls: Vec<Call> = told.collect();
    let called = now();
    let answer = handle(dir).with(|store| perform(store, Operation::List));
    calls.push(Call { operation: Operation::List, called, returned: Some((now(), answer)) });
    calls
}

/// The history with one answer changed or added in a way that no order explains.
fn lies(calls: &[Call]) -> Vec<Vec<Call>> {
    let shown = |number: u32| {
        calls.iter().any(|call| match call.returned {
            Some((_, Answer::Head(head))) => head == Some(number),
            Some((_, Answer::Heads(heads))) => heads.contains(&Some(number)),
            _ => false,
        })
    };
    let mut lies = Vec::new();
    for (at, call) in calls.iter().enumerate() {
        let Some((instant, told)) = call.returned else { continue };
        let lie = match (call.operation, told) {
            (_, Answer::Head(_)) => Answer::Head(NOBODYS),
            (_, Answer::Heads([_, other])) => Answer::Heads([NOBODYS, other]),
            (Operation::Put(_, number, _), Answer::Made) if shown(number) => Answer::Conflict,
            _ => continue,
        };
        let mut lying = calls.to_vec();
        lying[at].returned = Some((instant, lie));
        lies.push(lying);
    }
    if let Some(&Call { returned: Some((instant, Answer::Heads(heads))), .. }) = calls.last()
        && calls.iter().all(|call| call.returned.is_some())
    {
        // Nothing is under way any more, and a later look finds something else.
        let other = if heads == [None; 2] { [calls.iter().find_map(Call::puts), None] } else { [None; 2] };
        let later = |nanos| instant + Duration::from_nanos(nanos);
        let look = Call { operation: Operation::List, called: later(1), returned: Some((later(2), Answer::Heads(other))) };
        lies.push(calls.iter().copied().chain([look]).collect());
    }
    lies
}

fn start(process: u64) -> Child {
    Child::start("linear", &[&process.to_string()])
}

#[test]
fn what_processes_do_at_one_time_has_one_order() {
    let (memory, disk) = (Scratch::new(), tempfile::tempdir().unwrap());
    let mut processes: Vec<Child> = (0..PROCESSES).map(start).collect();
    let (mut overlapping, mut refused) = (0, 0);
    for seed in chance::rounds(60, Duration::from_secs(30)) {
        // On a disk a sync takes its time, so calls overlap more.
        let name = format!("store-{seed}");
        let dir = if seed % 2 == 0 { memory.path(&name) } else { disk.path().join(&name) };
        let calls = record(&mut processes, dir.to_str().unwrap(), seed);
        assert!(is_linearizable(&calls), "seed {seed}: no order explains {calls:#?}");
        for lie in lies(&calls) {
            assert!(!is_linearizable(&lie), "seed {seed}: an order was found for a lie: {lie:#?}");
            refused += 1;
        }
        overlapping += calls.iter().filter(|call| calls.iter().any(|other| call.overlaps(other))).count();
        for (number, process) in processes.iter_mut().enumerate() {
            if process.ended().is_some() {
                *process = start(number as u64);
            }
        }
    }
    println!("{overlapping} calls overlapped another, {refused} lies were refused");
    assert!(refused > 0 && overlapping > 0, "nothing was tested");
    processes.iter_mut().for_each(Child::end);
}
