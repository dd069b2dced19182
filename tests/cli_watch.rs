//! `watch` among other programs: what it prints, when, and how it ends.

#![cfg(feature = "cli")]

mod support;

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use support::{Cli, Ended, json_lines, keys};
use taffrail::prelude::*;

/// A verb that runs, and the lines that it prints.
struct Running {
    process: Child,
    lines: BufReader<ChildStdout>,
}

impl Running {
    fn start(cli: &Cli, args: &[&str]) -> Running {
        let mut command = cli.command();
        command.args(["--store", "runs"]).args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap());
        Running { process, lines }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        assert!(line.ends_with('\n'), "{line:?}");
        line
    }

    /// Waits until it prints: nothing else tells from when on it watches.
    fn is_there(&mut self, store: &Store) {
        let there = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !there.load(Relaxed) {
                    store.put("begin", &0).unwrap();
                    std::thread::sleep(Duration::from_millis(10));
                }
            });
            self.line();
            there.store(true, Relaxed);
        });
        // It has printed all that was put until now once it has printed the next.
        store.put("begun", &0).unwrap();
        while !self.line().contains("begun") {}
    }

    /// How it ended, which it must within a few seconds.
    fn ended(mut self) -> Ended {
        let start = Instant::now();
        while self.process.try_wait().unwrap().is_none() {
            assert!(start.elapsed() < Duration::from_secs(10), "it goes on");
            std::thread::sleep(Duration::from_millis(2));
        }
        Ended::of(self.process.wait_with_output().unwrap())
    }
}

fn store(cli: &Cli) -> Store {
    Store::options().max_history(None).open(cli.store()).unwrap()
}

#[test]
fn each_line_is_there_as_soon_as_its_checkpoint() {
    let cli = Cli::new();
    let store = store(&cli);
    store.put("t", &0).unwrap();
    for json in [false, true] {
        let mut all = Running::start(&cli, if json { &["watch", "--json"] } else { &["watch"] });
        all.is_there(&store);
        for number in 0..5 {
            let id = store.put("a\tb\n", &number).unwrap();
            let start = Instant::now();
            let line = all.line();
            assert!(start.elapsed() < Duration::from_secs(1), "told after {:?}", start.elapsed());
            if json {
                assert_eq!(keys(&line), ["thread", "id", "seq", "parent", "saved_at", "metadata", "type", "bytes"]);
                let told = &json_lines(line.as_bytes())[0];
                assert_eq!((&told["thread"], &told["id"], &told["bytes"]), (&"a\tb\n".into(), &id.as_str().into(), &1.into()));
            } else {
                let fields: Vec<&str> = line.trim_end().split('\t').collect();
                assert_eq!((fields[0], fields[2], fields[4], fields.len()), (r#""a\tb\n""#, id.as_str(), "1", 6), "{line:?}");
            }
        }
        all.process.kill().unwrap();
        all.process.wait().unwrap();
    }
}

#[test]
fn one_thread_looks_as_its_history_and_ends_after_so_many() {
    let cli = Cli::new();
    let store = store(&cli);
    let mut one = Running::start(&cli, &["watch", "t", "--limit", "3"]);
    let start = Instant::now();
    while one.process.try_wait().unwrap().is_none() {
        assert!(start.elapsed() < Duration::from_secs(10), "it goes on");
        store.put("t", &1).unwrap();
        store.put("another", &1).unwrap();
        std::thread::sleep(Duration::from_millis(2));
    }
    let told: Vec<String> = (0..3).map(|_| one.line()).collect();
    one.ended().done();
    let history = String::from_utf8(cli.ok(&["history", "t", "--limit", "all"])).unwrap();
    let mut oldest_first: Vec<&str> = history.split_inclusive('\n').collect();
    oldest_first.reverse();
    let from = oldest_first.iter().position(|line| *line == told[0]).unwrap();
    assert_eq!(told, oldest_first[from..from + 3]);
    assert!(cli.ok(&["watch", "--limit", "0"]).is_empty());
}

#[test]
fn who_reads_no_more_ends_it_quietly_and_a_full_device_is_told() {
    let cli = Cli::new();
    let store = store(&cli);
    let closed = {
        let mut watch = Running::start(&cli, &["watch"]);
        watch.is_there(&store);
        let Running { mut process, lines } = watch;
        drop(lines);
        store.put("t", &1).unwrap();
        let errors = process.stderr.take().unwrap();
        (process.wait().unwrap(), std::io::read_to_string(errors).unwrap())
    };
    assert_eq!((closed.0.code(), closed.1.as_str()), (Some(0), ""));
    let mut command = cli.command();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut process = command.args(["--store", "runs", "watch"]).stdout(full).stderr(Stdio::piped()).spawn().unwrap();
    while process.try_wait().unwrap().is_none() {
        store.put("t", &1).unwrap();
        std::thread::sleep(Duration::from_millis(2));
    }
    Ended::of(process.wait_with_output().unwrap()).failed(6, "standard output");
}
