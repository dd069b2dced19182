//! Another process that shares the store: this test program run again, to do one thing and be
//! stopped or killed on the way.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use super::Scratch;
use super::failing::{Action, Failing, Fault, Kind, Moment};
use super::faults::{WRITES, options};
use crate::error::Result;
use crate::log::Store;

/// The files of the log.
pub(super) const SEGMENT: Option<&str> = Some(".seg");

/// A handle of the store in there, over a layer of its own.
pub(super) fn open(scratch: &Scratch, layer: &Failing) -> Store {
    options(layer).open(scratch.dir()).unwrap()
}

/// Tells the child where, what, and what it meets.
const JOB: [&str; 3] = ["TAFFRAIL_TEST_OTHER_DIR", "TAFFRAIL_TEST_OTHER_JOB", "TAFFRAIL_TEST_OTHER_FAULT"];

/// To open the store and do nothing else; the fault is met while opening.
pub(super) const OPENING: &str = "open";

const KINDS: [Kind; 18] = [
    Kind::CreateDir,
    Kind::SyncDir,
    Kind::List,
    Kind::Create,
    Kind::Open,
    Kind::Rename,
    Kind::Remove,
    Kind::Lock,
    Kind::TryLock,
    Kind::Unlock,
    Kind::Inode,
    Kind::MapPage,
    Kind::Length,
    Kind::Read,
    Kind::Write,
    Kind::Cut,
    Kind::Sync,
    Kind::Map,
];

/// A running other process. Killed with its owner.
pub(super) struct Other {
    child: Child,
    told: BufReader<ChildStdout>,
}

impl Other {
    /// Starts one that opens the store and does one of [`WRITES`], or [`OPENING`], where it meets the
    /// fault: `Stop` or `Kill`.
    pub fn start(dir: &Path, job: &str, fault: Fault) -> Other {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "log::tests::other::the_other_process", "--nocapture", "--test-threads=1"])
            .envs([(JOB[0], dir.as_os_str()), (JOB[1], job.as_ref()), (JOB[2], written(fault).as_ref())])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let told = BufReader::new(child.stdout.take().unwrap());
        Other { child, told }
    }

    /// One that has been stopped where its fault was.
    pub fn stopped(dir: &Path, job: &str, fault: Fault) -> Other {
        let mut other = Other::start(dir, job, fault);
        let (_, status) = waitpid(Some(other.pid()), WaitOptions::UNTRACED).unwrap().unwrap();
        if !status.stopped() {
            let mut told = String::new();
            other.told.read_to_string(&mut told).unwrap();
            panic!("{job} ended before {fault:?}: {status:?} {told}");
        }
        other
    }

    /// One that has put durably and is stopped before its sync: how that ends is known to nobody.
    pub fn stopped_in_its_sync(scratch: &Scratch) -> Other {
        let fault = Fault { only: SEGMENT, ..Fault::once(Kind::Sync, Action::Stop, Moment::Before) };
        Other::stopped(&scratch.dir(), "a durable put", fault)
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub fn go_on(&self) {
        kill_process(self.pid(), Signal::CONT).unwrap();
    }

    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end: whether it did its job, or `None` if it was killed.
    pub fn ended(mut self) -> Option<bool> {
        let mut answer = None;
        let mut line = String::new();
        while self.told.read_line(&mut line).unwrap() > 0 {
            if let Some(at) = line.find("answer: ") {
                answer = Some(line[at..].trim_end() == "answer: Ok(())");
                println!("the other process's {line}");
            }
            line.clear();
        }
        self.child.wait().unwrap();
        answer
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn written(fault: Fault) -> String {
    let kind = fault.kind.and_then(|kind| KINDS.iter().position(|&other| other == kind));
    let (action, moment) = (fault.action == Action::Kill, fault.moment == Moment::After);
    let kind = kind.map_or("-".to_owned(), |kind| kind.to_string());
    format!("{} {kind} {} {action} {moment} {}", fault.from, fault.only.unwrap_or("-"), fault.short)
}

fn read(text: &str) -> Fault {
    let mut words = text.split(' ');
    let mut next = || words.next().unwrap();
    let (from, kind, only) = (next().parse().unwrap(), next().parse::<usize>().ok().map(|at| KINDS[at]), next());
    let only = (only != "-").then(|| &*only.to_owned().leak());
    let action = if next() == "true" { Action::Kill } else { Action::Stop };
    let moment = if next() == "true" { Moment::After } else { Moment::Before };
    Fault { from, kind, only, once: true, action, moment, short: next().parse().unwrap() }
}

/// Runs when the program is started as the other process, does nothing as a test.
#[test]
fn the_other_process() {
    let [Ok(dir), Ok(job), Ok(fault)] = JOB.map(std::env::var) else { return };
    let (layer, fault) = (Failing::default(), read(&fault));
    if job == OPENING {
        layer.set(Some(fault));
    }
    let store = options(&layer).open(dir);
    layer.set(Some(fault));
    let run = |store: Store| -> Result<()> {
        let write = WRITES.iter().find(|write| write.name == job);
        write.map_or(Ok(()), |write| (write.run)(&store))
    };
    let answer = store.and_then(run);
    layer.set(None);
    // One write call, so one line is never mixed with another's.
    std::io::stdout().write_all(format!("\nanswer: {answer:?}\n").as_bytes()).unwrap();
    std::process::exit(0)
}
