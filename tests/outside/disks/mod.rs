//! Disks that fail, fill up or lie under a real file system: after an error no handle acknowledges anything
//! until it is opened again, others see the poison, and what was acknowledged is there when the file system
//! was mounted again. Of a disk that lies it may be lost, but nothing is wrong and nothing panics.

mod disk;
mod rig;
mod server;

use std::path::Path;
use std::process::Command;

use disk::{Disk, EIO, ENOSPC, Fault};
use rig::Rig;
pub use rig::run;
use taffrail::{Checkpointer, ErrorKind, PutOptions, Store, TypeTag};

use crate::judge::{after_power_cut, judge, shown};
use crate::mounts;
use crate::role::{self, Hand, Told};
use crate::scratch::Scratch;
use crate::script::{self, Script, Step, named};

const HOME: &str = "TAFFRAIL_TEST_OUTSIDE_DISKS";

/// What the disk does while a script is done, from the step on that is so far behind its first.
type Case = (&'static str, &'static Script, usize, Fault);

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for kind in ["ext4", "xfs"] {
        for (script, step) in [("put", 2), ("rotate", 3), ("compact", 1), ("batch", 3), ("delete", 2), ("mixed", 9)] {
            for error in [EIO, ENOSPC] {
                cases.extend([false, true].map(|for_ever| (kind, named(script), step, Fault::Writes(error, for_ever))));
            }
            cases.extend([false, true].map(|for_ever| (kind, named(script), step, Fault::Flushes(EIO, for_ever))));
            cases.extend([Fault::Reads(EIO), Fault::ForgetsAll, Fault::ForgetsSome].map(|fault| (kind, named(script), step, fault)));
        }
    }
    cases
}

/// Does the script; answers what was told, and by which of it the disk began to do wrong.
fn done(rig: &Rig, script: &Script, at: usize, fault: Fault) -> (Vec<(usize, Told)>, usize) {
    let dir = rig.dir();
    role::prepare(script, "", &dir);
    let mut hand = Hand::new(&dir, "");
    let beside = Store::options().auto_compaction(false).open(&dir).unwrap();
    let (mut told, mut before) = (Vec::new(), 0);
    let mut is_poisoned = false;
    for (number, step) in script.all().skip(script.before.len()) {
        if number - script.before.len() == at {
            rig.disk().set(fault);
            before = told.len();
        }
        let how = hand.does(number, step).map_err(|error| format!("{:?} {error}", error.kind()));
        is_poisoned |= how.as_ref().is_err_and(|why| why.starts_with("Poisoned"));
        told.push((number, how));
    }
    if is_poisoned {
        let answer = beside.put_bytes("beside", TypeTag::BYTES, b"x", PutOptions::default());
        let kind = answer.as_ref().map_err(|error| error.kind()).err();
        // Who must first open what is new may meet a file system that has given up.
        assert!(
            matches!(kind, Some(ErrorKind::Poisoned | ErrorKind::ReadOnly | ErrorKind::Io)),
            "another handle goes on: {answer:?}, told {told:?}"
        );
    }
    (told, before)
}

/// Nothing that is shown is anything but what was put, whatever else is answered.
fn is_true(dir: &Path, script: &Script) -> Result<(), String> {
    let Ok(store) = Store::open(dir) else { return Ok(()) };
    let Ok(threads) = shown(&store, "") else { return Ok(()) };
    for (thread, states) in threads {
        for (id, state) in states {
            let put = |(number, step): (usize, Step)| match step {
                Step::Put { length, .. } | Step::Buffered { length, .. } | Step::Batch { length, .. } => {
                    id == script::id(number) && state == script::state(&thread, number, length)
                }
                _ => false,
            };
            if !script.all().any(put) {
                return Err(format!("{thread}, {id}: bytes that nobody put"));
            }
        }
    }
    Ok(())
}

/// One case; answers whether the disk did anything wrong.
fn tried(template: &Disk, home: &Path, (_, script, at, fault): Case) -> Result<bool, String> {
    let rig = Rig::new(template.clone(), home);
    let during = if matches!(fault, Fault::Reads(_)) { Fault::None } else { fault };
    let (told, before) = done(&rig, script, at, during);
    if during != fault {
        rig.cut()?;
        rig.disk().set(fault);
        rig.drop_cache();
        is_true(&rig.dir(), script)?;
    }
    let faults = rig.disk().faults;
    if let Err(what) = rig.cut() {
        println!("the file system itself is broken: {what}");
        return if fault == Fault::ForgetsSome { Ok(true) } else { Err(what) };
    }
    match fault {
        Fault::ForgetsSome => is_true(&rig.dir(), script)?,
        Fault::ForgetsAll => {
            let until = Script { steps: &script.steps[..before], ..*script };
            judge(&rig.dir(), "", &after_power_cut(&until, &told[..before], true))?;
            // A control: who believed this disk would notice.
            assert!(judge(&rig.dir(), "", &after_power_cut(script, &told, true)).is_err(), "nothing was forgotten");
        }
        _ => judge(&rig.dir(), "", &after_power_cut(script, &told, true)).map_err(|what| format!("{what}; told {told:?}"))?,
    }
    rig.unmount();
    Ok(faults > 0)
}

/// Runs in a mount namespace of its own, where the directory is in memory.
#[test]
fn inside() {
    let Some(home) = std::env::var_os(HOME) else { return };
    let home = Path::new(&home);
    let templates = [("ext4", "64M", "-F"), ("xfs", "320M", "-f")].map(|(kind, size, force)| {
        let image = home.join(kind);
        run(Command::new("truncate").args(["-s", size]).arg(&image)).unwrap();
        run(Command::new(format!("mkfs.{kind}")).args(["-q", force]).arg(&image)).unwrap();
        Disk::of(&image)
    });
    let (mut met, mut all) = (0, 0);
    for (number, case) in crate::sampled(cases(), 11).into_iter().enumerate() {
        let template = &templates[usize::from(case.0 == "xfs")];
        let context = format!("{}, {} from step {} on, {:?}", case.0, case.1.name, case.2, case.3);
        let begun = std::time::Instant::now();
        let tried = tried(template, &home.join(number.to_string()), case);
        println!("{context}: {:?}, {} ms", tried, begun.elapsed().as_millis());
        met += usize::from(tried.unwrap_or_else(|what| panic!("{context}: {what}")));
        all += 1;
    }
    println!("{met} of {all} disks did wrong");
    assert!(met * 3 >= all * 2);
    println!("disks: done");
}

#[test]
fn disks_that_fail_or_lie() {
    if !["nbdfuse", "mkfs.ext4", "mkfs.xfs"].into_iter().all(mounts::has) {
        return;
    }
    if !Path::new("/dev/fuse").exists() {
        println!("SKIP disks: no /dev/fuse");
        return;
    }
    let scratch = Scratch::new();
    let home = scratch.path("disks");
    std::fs::create_dir(&home).unwrap();
    mounts::inside("mount -t tmpfs none \"$1\"", &home, "disks::inside", HOME, "disks: done");
}
