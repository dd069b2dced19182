//! Each call answered with an error, once or from then on for ever: the program ends by itself, every step
//! is answered, and a step that was acknowledged is there when the store is opened in peace.

use super::run::{is_possible, with};
use super::traced::{Call, calls};
use super::{told, try_all};
use crate::judge::{judge, judge_copies, possible};
use crate::role::{self, Ended};
use crate::sampled;
use crate::scratch::Scratch;
use crate::script::{self, Script};

/// An error that a call can answer, and whether it then answers it for ever.
type Fault = (&'static str, bool);

/// What a call may answer. Interrupted for ever it would only be tried for ever.
fn faults(call: &Call) -> Vec<Fault> {
    let both = |errors: &[&'static str]| errors.iter().flat_map(|&error| [(error, false), (error, true)]).collect::<Vec<Fault>>();
    let mut faults = match call.name.as_str() {
        "open" | "openat" if call.line.contains("O_CREAT") => both(&["EIO", "EMFILE", "ENOSPC"]),
        "open" | "openat" => both(&["EIO", "EMFILE"]),
        "pwritev" | "pwrite64" | "write" | "fdatasync" | "fsync" | "rename" | "mkdir" | "ftruncate" => both(&["EIO", "ENOSPC"]),
        "flock" => both(&["ENOLCK"]),
        "mmap" => both(&["ENOMEM"]),
        "unlink" | "rmdir" | "pread64" | "read" | "statx" | "fstat" | "newfstatat" | "statfs" | "fstatfs" | "getdents64" | "readlink"
        | "lseek" => both(&["EIO"]),
        // Nobody asks how it went; cutting off what would be read ahead is only advice.
        "close" | "madvise" | "fcntl" => Vec::new(),
        other => panic!("nobody has said how {other} may fail: {}", call.line),
    };
    if matches!(call.name.as_str(), "open" | "openat" | "pwritev" | "pwrite64" | "fdatasync" | "fsync" | "flock" | "pread64" | "ftruncate")
    {
        faults.push(("EINTR", false));
    }
    faults
}

/// One run; answers whether the call was met.
fn fails(script: &Script, call: &Call, (error, for_ever): Fault) -> Result<bool, String> {
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    role::prepare(script, "", &dir);
    let (Ended { status, told, error: said }, trace) = with(&format!("error={error}"), for_ever, call, script, "", &dir);
    if !trace.contains("(INJECTED)") {
        return Ok(false);
    }
    if !status.success() {
        return Err(format!("it ended with {status}: {said}"));
    }
    let refused: Vec<_> = told.iter().filter(|(_, how)| how.is_err()).collect();
    if error == "EINTR" && !refused.is_empty() {
        return Err(format!("interrupted, it refused: {refused:?}"));
    }
    let whole = possible(script, "", &told, true);
    judge(&dir, "", &whole).and_then(|()| judge_copies(&dir, script, "", &told)).map_err(|what| format!("{what}; told {told:?}"))?;
    Ok(true)
}

#[test]
fn each_system_call_fails() {
    if !is_possible() {
        return;
    }
    let mut all = Vec::new();
    for script in script::wanted() {
        let scratch = Scratch::new();
        for call in calls(script, &scratch.path("")) {
            all.extend(faults(&call).into_iter().map(|fault| (script, call.clone(), fault)));
        }
    }
    let whole = all.len();
    let kind = |(_, call, fault): &(_, Call, Fault)| format!("{} {}", call.name, fault.0);
    let met = try_all(&sampled(all, 150), kind, |(script, call, fault)| {
        fails(script, call, *fault).map_err(|what| told(script, call, &format!("{fault:?}"), &what))
    });
    println!("errors: {} of {whole}: {met:?}", met.values().sum::<usize>());
}
