//! The command line under test: the real binary, in a directory of its own, with a store beside it.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// A directory with (at first) nothing in it; the store is `runs` in it.
pub struct Cli {
    scratch: TempDir,
}

impl Cli {
    pub fn new() -> Self {
        Cli { scratch: tempfile::tempdir().unwrap() }
    }

    pub fn dir(&self) -> &Path {
        self.scratch.path()
    }

    pub fn store(&self) -> PathBuf {
        self.dir().join("runs")
    }

    /// The binary with the scratch directory as its own and no place named.
    pub fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_taffrail"));
        command.current_dir(self.dir()).env_remove("TAFFRAIL_STORE").stdin(Stdio::null());
        command
    }

    /// Runs a verb on the store.
    pub fn run<S: AsRef<OsStr>>(&self, args: &[S]) -> Ended {
        self.run_with(args, b"")
    }

    /// Runs a verb on the store with this on standard input.
    pub fn run_with<S: AsRef<OsStr>>(&self, args: &[S], input: &[u8]) -> Ended {
        let typed = tempfile::NamedTempFile::new().unwrap();
        fs::write(typed.path(), input).unwrap();
        let mut command = self.command();
        command.args(["--store", "runs"]).args(args).stdin(File::open(typed.path()).unwrap());
        Ended::of(command.output().unwrap())
    }

    /// Runs a verb that must end well and answers its output.
    pub fn ok<S: AsRef<OsStr>>(&self, args: &[S]) -> Vec<u8> {
        self.run(args).done()
    }

    /// Puts a state that must be taken and answers its id.
    pub fn put(&self, thread: &str, state: &[u8], options: &[&str]) -> String {
        let args: Vec<&str> = [&["put"], options, &["--", thread]].concat();
        let id = String::from_utf8(self.run_with(&args, state).done()).unwrap();
        id.strip_suffix('\n').unwrap().to_owned()
    }

    /// A shell command, with the binary as `$T`.
    pub fn shell(&self, script: &str) -> Ended {
        let mut command = Command::new("bash");
        command.arg("-c").arg(script).current_dir(self.dir()).env("T", env!("CARGO_BIN_EXE_taffrail")).env("TAFFRAIL_STORE", "runs");
        Ended::of(command.stdin(Stdio::null()).output().unwrap())
    }

    /// Everything in the scratch directory outside the store, by path and content.
    pub fn outside(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut found = Vec::new();
        walk(self.dir(), &mut found);
        found.retain(|(path, _)| !path.starts_with(self.store()));
        found.sort();
        found
    }
}

fn walk(dir: &Path, found: &mut Vec<(PathBuf, Vec<u8>)>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.push((path.clone(), Vec::new()));
            walk(&path, found);
        } else {
            let bytes = fs::read(&path).unwrap();
            found.push((path, bytes));
        }
    }
}

/// How a run of the binary ended.
#[derive(Debug)]
pub struct Ended {
    /// None when a signal ended it.
    pub code: Option<i32>,
    pub out: Vec<u8>,
    pub err: String,
}

impl Ended {
    pub fn of(output: Output) -> Self {
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        Ended { code: output.status.code(), out: output.stdout, err }
    }

    /// The output of a run that must have ended well and silently.
    #[track_caller]
    pub fn done(self) -> Vec<u8> {
        assert_eq!(self.code, Some(0), "{}", self.err);
        assert_eq!(self.err, "");
        self.out
    }

    /// Checks that it failed with this code, one line that holds `words`, and no output.
    #[track_caller]
    pub fn failed(self, code: i32, words: &str) {
        assert_eq!(self.code, Some(code), "{}", self.err);
        assert!(self.err.starts_with("taffrail: ") && self.err.ends_with('\n'), "{:?}", self.err);
        assert_eq!(self.err.matches('\n').count(), 1, "{:?}", self.err);
        assert!(self.err.contains(words), "{:?} should hold {words:?}", self.err);
        assert!(self.out.is_empty(), "{}", String::from_utf8_lossy(&self.out));
    }

    /// The lines of a run that must have ended well, each as JSON.
    #[track_caller]
    pub fn json(self) -> Vec<serde_json::Value> {
        json_lines(&self.done())
    }
}

/// Lines of JSON, parsed.
pub fn json_lines(text: &[u8]) -> Vec<serde_json::Value> {
    std::str::from_utf8(text).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The names of a JSON object's members in the order of the text; values must hold no commas.
pub fn keys(line: &str) -> Vec<String> {
    line.trim().trim_matches(['{', '}']).split(',').map(|member| member.split('"').nth(1).unwrap().to_owned()).collect()
}
