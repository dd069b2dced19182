//! kill -9 at each call: alone on a directory, and as one of three processes, of which the others notice
//! nothing.

use std::os::unix::process::ExitStatusExt;

use super::run::{is_possible, with};
use super::traced::{Call, calls};
use super::{told, try_all};
use crate::judge::{judge, judge_copies, possible};
use crate::role::{self, Ended, Program};
use crate::sampled;
use crate::scratch::Scratch;
use crate::script::{self, Script, named};

/// The one that is killed, beside others; and what these do meanwhile.
const KILLED: &str = "killed/";
const BESIDE: [(&str, &str); 2] = [("one/", "rotate"), ("two/", "compact")];

/// One run; answers whether it was killed.
fn killed(script: &Script, call: &Call) -> Result<bool, String> {
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    role::prepare(script, "", &dir);
    let (Ended { status, told, .. }, _) = with("signal=SIGKILL", false, call, script, "", &dir);
    judge(&dir, "", &possible(script, "", &told, false))
        .and_then(|()| judge_copies(&dir, script, "", &told))
        .map_err(|what| format!("{what}; told {told:?}"))?;
    Ok(status.signal() == Some(libc::SIGKILL))
}

/// One run of three processes, of which the first is killed; answers whether it was.
fn killed_beside_others(script: &Script, call: &Call) -> Result<bool, String> {
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    role::prepare(script, KILLED, &dir);
    BESIDE.into_iter().for_each(|(prefix, name)| role::prepare(named(name), prefix, &dir));
    let mut others = BESIDE.map(|(prefix, name)| Program::start(role::command(named(name), prefix, &dir)));
    others.iter_mut().for_each(Program::begin);
    let (Ended { status, told, .. }, _) = with("signal=SIGKILL", false, call, script, KILLED, &dir);
    for (other, (prefix, name)) in others.into_iter().zip(BESIDE) {
        let ended = other.ended();
        if !ended.status.success() || ended.told.iter().any(|(_, how)| how.is_err()) {
            return Err(format!("{name} beside it: {ended:?}"));
        }
        judge(&dir, prefix, &possible(named(name), prefix, &ended.told, true)).map_err(|what| format!("what {prefix} put: {what}"))?;
    }
    judge(&dir, KILLED, &possible(script, KILLED, &told, false)).map_err(|what| format!("{what}; told {told:?}"))?;
    Ok(status.signal() == Some(libc::SIGKILL))
}

type Trial = fn(&Script, &Call) -> Result<bool, String>;

#[test]
fn killed_at_each_system_call() {
    if !is_possible() {
        return;
    }
    let (mut alone, mut beside): (Vec<_>, Vec<_>) = Default::default();
    for script in script::wanted() {
        let scratch = Scratch::new();
        let calls = calls(script, &scratch.path(""));
        let is_shared = !matches!(script.name, "create" | "repair" | "mixed");
        beside.extend(
            calls
                .iter()
                .filter(|_| is_shared)
                .step_by(3)
                .map(|call| (script, call.clone(), "beside others", killed_beside_others as Trial)),
        );
        alone.extend(calls.into_iter().map(|call| (script, call, "alone", killed as Trial)));
    }
    let trials = [sampled(alone, 120), sampled(beside, 20)].concat();
    let kind = |(_, _, how, _): &(_, _, &str, _)| (*how).to_owned();
    let met = try_all(&trials, kind, |(script, call, how, trial)| trial(script, call).map_err(|what| told(script, call, how, &what)));
    println!("kills: {met:?}");
}
