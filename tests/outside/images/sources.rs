//! What is traced: the test program doing a script, and the command line doing one, a process a step.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::lines::{CALLS, Event, events};
use crate::calls::under_strace;
use crate::role;
use crate::scratch::Scratch;
use crate::script::{self, Script, Step};

/// A trace: what was there before, by path (`None`: a directory), and what happened.
pub struct Traced {
    pub script: &'static Script,
    pub before: Vec<(String, Option<Vec<u8>>)>,
    pub events: Vec<Event>,
}

/// Whole strings, in hex.
const WHOLE: [&str; 6] = ["-y", "-xx", "-s", "100000000", "-e", CALLS];

pub fn of_the_library(script: &'static Script) -> Traced {
    traced(script, |dir| {
        let (ended, trace) = under_strace(script, "", dir, &WHOLE);
        assert!(ended.status.success(), "{ended:?}");
        trace
    })
}

pub fn of_the_command_line(script: &'static Script) -> Traced {
    traced(script, |dir| {
        let trace = dir.with_extension("trace");
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-e", "signal=none", "-o"]).arg(&trace).args(WHOLE).args(["sh", "-e", "-c", &commands(script, dir)]);
        let output = command.env("T", env!("CARGO_BIN_EXE_taffrail")).env("TAFFRAIL_STORE", dir).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fs::read_to_string(trace).unwrap()
    })
}

fn traced(script: &'static Script, run: impl FnOnce(&Path) -> String) -> Traced {
    let scratch = Scratch::new();
    let home = scratch.path("home");
    fs::create_dir(&home).unwrap();
    let dir = home.join("store");
    role::prepare(script, "", &dir);
    let mut before = Vec::new();
    for path in walk(&home) {
        let name = path.strip_prefix(&home).unwrap().to_str().unwrap().to_owned();
        before.push((name, (!path.is_dir()).then(|| fs::read(&path).unwrap())));
    }
    let events = events(&run(&dir), &home);
    let told: Vec<u8> = events.iter().flat_map(|event| if let Event::Told(bytes) = event { bytes.clone() } else { Vec::new() }).collect();
    assert!(role::told(&told).len() == script.steps.len() && events.len() > 10, "{}: {}", script.name, String::from_utf8_lossy(&told));
    Traced { script, before, events }
}

fn walk(dir: &Path) -> Vec<PathBuf> {
    let inside = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    inside.flat_map(|path| if path.is_dir() { [vec![path.clone()], walk(&path)].concat() } else { vec![path] }).collect()
}

/// A script as shell commands that tell of each step as the test program does; the states lie in files.
fn commands(script: &Script, dir: &Path) -> String {
    let mut commands = String::new();
    for (number, step) in script.all().skip(script.before.len()) {
        let id = script::id(number);
        match step {
            Step::Open => {}
            Step::Put { thread, length } => {
                let file = dir.with_extension(format!("state-{number}"));
                fs::write(&file, script::state(thread, number, length)).unwrap();
                writeln!(commands, "\"$T\" put --type bytes --id {id} {thread} {}", file.display()).unwrap();
            }
            Step::Delete(thread) => writeln!(commands, "\"$T\" delete {thread}").unwrap(),
            Step::DeleteOne(thread, put) => writeln!(commands, "\"$T\" delete {thread} --id {}", script::id(put)).unwrap(),
            Step::Compact => writeln!(commands, "\"$T\" compact").unwrap(),
            other => panic!("no command for {other:?}"),
        }
        writeln!(commands, "echo '> ok {number}'").unwrap();
    }
    commands
}
