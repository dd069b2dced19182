//! One run of a script under strace, which joins the worker just before it begins: what it counts and fails
//! are the script's calls and no others.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use super::traced::Call;
use crate::role::{Ended, Program, command};
use crate::script::Script;

/// Runs a script in a directory that is prepared; answers how it ended, and the trace.
pub fn under_strace(script: &Script, prefix: &str, dir: &Path, options: &[&str]) -> (Ended, String) {
    let program = Program::start(command(script, prefix, dir));
    let trace = dir.with_extension("trace");
    let mut strace = Command::new("strace");
    strace.args(["-s", "0", "-o"]).arg(&trace).args(options).args(["-p", &program.worker.to_string()]);
    let mut strace = strace.stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(strace.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert!(line.contains("attached"), "strace: {line}");
    let ended = program.ended();
    said.read_to_string(&mut line).unwrap();
    strace.wait().unwrap();
    (ended, std::fs::read_to_string(trace).unwrap())
}

/// Runs it with something injected into one of its calls (`error=EIO`, say), from then on for ever if asked.
pub fn with(what: &str, for_ever: bool, call: &Call, script: &Script, prefix: &str, dir: &Path) -> (Ended, String) {
    let end = if for_ever { "+" } else { "" };
    let inject = format!("inject={}:{what}:when={}{end}", call.name, call.nth);
    under_strace(script, prefix, dir, &["-e", &format!("trace={}", call.name), "-e", &inject])
}

/// Whether strace can be used here; tells why if not.
pub fn is_possible() -> bool {
    match Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).output() {
        Ok(output) if output.status.success() => return true,
        Ok(output) => println!("SKIP strace: {}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => println!("SKIP strace: {error}"),
    }
    false
}
