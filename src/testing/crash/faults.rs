//! Every call of every step fails in turn, once and for ever: the answer is typed and true, nothing that was
//! acknowledged is lost, and what comes next works or is refused as documented.
//!
//! Which calls there are is taken from a run in which none fails.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;

use super::VIOLATIONS_MAX;
use super::check::{Allowed, SAME_BOOT, check};
use super::choose::{self, Chance};
use super::disk::Disk;
use super::memory::{Call, Fault, Image, Memory};
use super::work::{Contents, STORE, Setup, Step, Worker, options};
use crate::batch::PutOptions;
use crate::checkpoint::TypeTag;
use crate::checkpointer::Checkpointer;
use crate::error::{Error, ErrorKind};
use crate::log::Store;

/// What fails, and with what.
const ERRORS: [Errno; 4] = [Errno::IO, Errno::NOSPC, Errno::AGAIN, Errno::INTR];
/// Of a write that fails, so many bytes are written.
const SHORT: [usize; 3] = [0, 40, 1000];

/// What was failed.
#[derive(Clone, Debug, Default)]
pub struct Failed {
    /// Runs in which the call that was to fail was made.
    pub runs: usize,
    /// How many different calls failed, by their kind.
    pub calls: BTreeMap<String, usize>,
    /// Answers, by what they were.
    pub answers: BTreeMap<String, usize>,
    /// Violations, each with what plays it again; the first few.
    pub violations: Vec<String>,
}

/// One call that fails.
#[derive(Clone, Copy, Debug)]
struct Trial {
    setup: Setup,
    step: Step,
    call: Call,
    fault: Fault,
}

/// Fails the calls, each in one of so many ways that it can; `only` the trial of a number.
pub fn faults(one_in: usize, only: Option<usize>, workers: usize) -> Failed {
    let trials = trials();
    let chosen: Vec<usize> = match only {
        Some(only) => vec![only],
        // Not a divisor of the number of ways, so that all ways are tried.
        None => (0..trials.len()).step_by(one_in).collect(),
    };
    let (next, all) = (AtomicUsize::new(0), Mutex::new(Failed::default()));
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(&number) = chosen.get(next.fetch_add(1, Relaxed)) {
                    let trial = &trials[number];
                    let tried = trial.run(&mut Chance::new(number as u64));
                    let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
                    match tried {
                        Ok(answer) => {
                            all.runs += 1;
                            *all.calls.entry(format!("{:?}", trial.call)).or_default() += 1;
                            *all.answers.entry(answer).or_default() += 1;
                        }
                        Err(what) if all.violations.len() < VIOLATIONS_MAX => {
                            all.violations.push(format!("TAFFRAIL_FAULTS_ONLY={number} {trial:?}: {what}"));
                        }
                        Err(_) => {}
                    }
                }
            });
        }
    });
    all.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Every call of every step, in every way that it can fail.
fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for setup in Setup::ALL {
        let steps: &[Step] = if setup == Setup::Nothing { &[Step::Open] } else { &Step::ALL };
        for &step in steps {
            let mut worker = ready(setup);
            let _other = beside(&worker, step);
            worker.fs.fail(None);
            worker.step(step).unwrap_or_else(|error| panic!("{setup:?}, {step:?}: {error}"));
            for (at, (call, _)) in worker.fs.calls().into_iter().enumerate() {
                let short: &[usize] = if call == Call::Write { &SHORT } else { &SHORT[..1] };
                for error in ERRORS {
                    for for_ever in [false, true] {
                        trials.extend(short.iter().map(|&short| {
                            let fault = Fault { at: at as u64, for_ever, errno: error.raw_os_error(), short };
                            Trial { setup, step, call, fault }
                        }));
                    }
                }
            }
        }
    }
    trials
}

/// A worker behind a setup.
fn ready(setup: Setup) -> Worker {
    let fs = Memory::of(&Image::empty(), SAME_BOOT);
    fs.record();
    let mut worker = Worker::new(&fs);
    for &step in setup.steps() {
        worker.step(step).unwrap_or_else(|error| panic!("{setup:?}, {step:?}: {error}"));
    }
    worker
}

/// Another handle, but where one has to be alone.
fn beside(worker: &Worker, step: Step) -> Option<Store> {
    let is_alone = matches!(step, Step::Open | Step::Reopen | Step::Repair);
    (!is_alone).then(|| options(&worker.fs).open(STORE).unwrap_or_else(|error| panic!("{step:?}: {error}")))
}

/// What the model would have, had the step been done.
fn had_it_been_done(setup: Setup, step: Step) -> Contents {
    let mut worker = ready(setup);
    worker.step(step).unwrap_or_else(|error| panic!("{setup:?}, {step:?}: {error}"));
    worker.shown()
}

impl Trial {
    /// Does the step, in which the call fails; answers what was answered. Errors: what is wrong.
    fn run(&self, chance: &mut Chance) -> Result<String, String> {
        let mut worker = ready(self.setup);
        let other = beside(&worker, self.step);
        let before = worker.shown();
        worker.fs.fail(Some(self.fault));
        let answer = worker.step(self.step);
        let has_failed = worker.fs.has_failed();
        worker.fs.fail(None);
        if !has_failed {
            return Err("the call was not made".to_owned());
        }
        let done = if answer.is_ok() { worker.shown() } else { had_it_been_done(self.setup, self.step) };
        let mut allowed = match &answer {
            Ok(()) => vec![done.clone()],
            Err(error) if error.kind() == ErrorKind::Poisoned => vec![before.clone(), done],
            // A limit for all is set before the threads are trimmed to it, and what is closed is repaired or
            // opened again in a call of its own.
            Err(_) if self.step == Step::TrimAll => vec![before.clone(), done],
            Err(_) => vec![before.clone()],
        };
        if let Some(Ok(found)) = worker.found().filter(|_| answer.is_ok())
            && !allowed.contains(&found)
        {
            return Err("the handle shows something else".to_owned());
        }
        // What may be lost in a power cut although it was answered.
        let unsynced = if self.step == Step::Buffered { vec![before] } else { Vec::new() };
        let is_put = self.goes_on(&worker, other.as_ref(), &answer)?;
        if is_put {
            allowed.iter_mut().for_each(|contents| drop(contents.insert("more".to_owned(), more())));
        }
        drop(other);
        worker.let_go();
        self.leaves(&worker.fs, &allowed, unsynced, is_put, chance)?;
        Ok(answer.map_or_else(|error| format!("{:?}", error.kind()), |()| "Ok".to_owned()))
    }

    /// Puts once more where that may work; answers whether it did.
    fn goes_on(&self, worker: &Worker, other: Option<&Store>, answer: &Result<(), Error>) -> Result<bool, String> {
        let put = |store: &Store| store.put_bytes("more", TypeTag::BYTES, b"more", PutOptions::default().id(id()));
        let is_poisoned = matches!(answer, Err(error) if error.kind() == ErrorKind::Poisoned);
        // A lock that cannot be given up is held until the handle has gone.
        let is_locked = |error: &Error| error.kind() == ErrorKind::Busy && (self.fault.for_ever || self.call == Call::Unlock);
        if is_poisoned {
            for store in worker.store().into_iter().chain(other) {
                match put(store) {
                    Err(error) if error.kind() == ErrorKind::Poisoned || is_locked(&error) => {}
                    again => return Err(format!("behind {answer:?} a put answers {again:?}")),
                }
            }
            return Ok(false);
        }
        match worker.store().or(other) {
            None => Ok(false),
            Some(store) => match put(store) {
                Ok(_) => Ok(true),
                Err(error) if is_locked(&error) => Ok(false),
                // Found out only now: the failure was one that nobody had to be told of.
                Err(error) if error.kind() == ErrorKind::Poisoned && self.fault.for_ever => Ok(false),
                Err(error) => Err(format!("behind {answer:?} a put answers {error:?}")),
            },
        }
    }

    /// Looks at what is there once the process has ended, and the power has gone.
    fn leaves(&self, fs: &Memory, allowed: &[Contents], unsynced: Vec<Contents>, is_put: bool, chance: &mut Chance) -> Result<(), String> {
        let mut disk = Disk::of(Image::empty());
        for change in fs.recorded() {
            // Who cleans up behind a sync that failed need not wait for it.
            let _ = disk.take(&change);
        }
        let nothing = self.setup == Setup::Nothing && !is_put;
        let all = choose::all(&disk);
        check(&disk.image(&all), SAME_BOOT, &Allowed { shown: allowed, nothing }, false, true)
            .map_err(|what| format!("then killed: {what}"))?;
        let after_a_cut: Vec<Contents> = if is_put { allowed.to_vec() } else { allowed.iter().cloned().chain(unsynced).collect() };
        for choice in [all, choose::by_chance(&disk, chance), choose::by_chance(&disk, chance)] {
            let allowed = Allowed { shown: &after_a_cut, nothing };
            check(&disk.image(&choice), SAME_BOOT + 1, &allowed, false, false)
                .map_err(|what| format!("then the power is cut, {choice:?}: {what}"))?;
        }
        Ok(())
    }
}

fn id() -> crate::checkpoint::CheckpointId {
    crate::checkpoint::CheckpointId::new("more").unwrap_or_else(|error| panic!("{error}"))
}

fn more() -> Vec<(String, u64)> {
    vec![("more".to_owned(), crate::delta::content_hash(b"more"))]
}
