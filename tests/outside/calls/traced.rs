//! The calls that a script makes on its directory, read from a plain trace of it.

use std::collections::BTreeMap;
use std::path::Path;

use super::run::under_strace;
use crate::role;
use crate::script::Script;

/// One system call on the directory or a file in it.
#[derive(Clone, Debug)]
pub struct Call {
    pub name: String,
    /// It is the nth of its name that the worker makes.
    pub nth: usize,
    /// As strace told it.
    pub line: String,
}

/// All calls that the script makes with a path or a file in `home`, in their order.
pub fn calls(script: &Script, home: &Path) -> Vec<Call> {
    let dir = home.join("store");
    role::prepare(script, "", &dir);
    let (ended, trace) = under_strace(script, "", &dir, &["-y"]);
    assert!(ended.status.success() && ended.told.len() == script.steps.len(), "{}: {ended:?}", script.name);
    assert!(ended.told.iter().all(|(_, how)| how.is_ok()), "{}: {ended:?}", script.name);
    let home = home.to_str().unwrap();
    let mut made: BTreeMap<&str, usize> = BTreeMap::new();
    let mut calls = Vec::new();
    for line in trace.lines() {
        let Some((name, _)) = line.split_once('(') else { continue };
        let nth = made.entry(name).or_default();
        *nth += 1;
        if line.contains(home) {
            calls.push(Call { name: name.to_owned(), nth: *nth, line: line.to_owned() });
        }
    }
    assert!(calls.len() > 50, "only {} calls on the directory: {trace}", calls.len());
    calls
}
