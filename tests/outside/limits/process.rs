//! Processes that may write no longer files than so, or have no more files open: set from outside while the
//! program waits to begin.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use rustix::process::{Resource, Rlimit, prlimit};

use crate::judge::{judge, judge_copies, possible};
use crate::role::{self, Ended, Program};
use crate::scratch::Scratch;
use crate::script::{Script, named};

/// Does a script under a limit; behind a shell that has the signal ignored, if asked.
fn limited(script: &Script, resource: Resource, limit: u64, ignores: bool) -> Result<Ended, String> {
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    role::prepare(script, "", &dir);
    let mut command = role::command(script, "", &dir);
    if ignores {
        let plain = command;
        command = Command::new("sh");
        command.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]).arg(plain.get_program()).args(plain.get_args());
        command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    }
    let program = Program::start(command);
    prlimit(Some(program.id()), resource, Rlimit { current: Some(limit), maximum: Some(limit) }).unwrap();
    let ended = program.ended();
    let has_ended = ended.status.success();
    if !has_ended && ended.status.signal() != Some(libc::SIGXFSZ) {
        return Err(format!("{ended:?}"));
    }
    let told = &ended.told;
    judge(&dir, "", &possible(script, "", told, has_ended))
        .and_then(|()| judge_copies(&dir, script, "", told))
        .map_err(|what| format!("{what}; {ended:?}"))?;
    Ok(ended)
}

const SCRIPTS: [&str; 9] = ["create", "put", "batch", "rotate", "compact", "delete", "backup", "repair", "mixed"];

#[test]
fn files_that_may_not_grow() {
    let all: Vec<_> =
        SCRIPTS.iter().flat_map(|name| (0..=18).flat_map(move |pages| [(*name, pages, true), (*name, pages, false)])).collect();
    let (mut refused, mut died) = (0, 0);
    for (name, pages, ignores) in crate::sampled(all, 30) {
        let context = format!("{name}, files of {pages} pages, signal ignored: {ignores}");
        let ended = limited(named(name), Resource::Fsize, pages * 4096, ignores).unwrap_or_else(|what| panic!("{context}: {what}"));
        let errors: Vec<_> = ended.told.iter().filter_map(|(_, how)| how.as_ref().err()).collect();
        let typed = |why: &&String| why.starts_with("DiskFull") || *why == crate::script::CLOSED;
        assert!(errors.iter().all(typed), "{context}: {errors:?}");
        assert!(!ignores || ended.status.success(), "{context}: {ended:?}");
        refused += usize::from(!errors.is_empty());
        died += usize::from(!ended.status.success());
    }
    println!("files that may not grow: {refused} told of it, {died} were ended by the signal");
    assert!(refused > 0 && died > 0);
}

#[test]
fn few_files_may_be_open() {
    let all: Vec<_> = SCRIPTS.iter().flat_map(|name| (3..=24).map(move |files| (*name, files))).collect();
    let (mut runs, mut refused) = (0, 0);
    for (name, files) in crate::sampled(all, 40) {
        let context = format!("{name}, {files} files");
        let ended = limited(named(name), Resource::Nofile, files, false).unwrap_or_else(|what| panic!("{context}: {what}"));
        assert!(ended.status.success(), "{context}: {ended:?}");
        runs += 1;
        refused += usize::from(ended.told.iter().any(|(_, how)| how.is_err()));
    }
    println!("few files: {runs} runs, {refused} of them found too few");
    assert!(refused > 5 && refused < runs);
}
