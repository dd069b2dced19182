//! Processes that decide, or go on with a run, at once.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::Child;

use taffrail::ErrorKind;
use taffrail::run::{Run, RunError, approve};

use crate::child::{command, tell};
use crate::places;
use crate::scratch::Scratch;

/// The places that several processes have open at once.
fn shared(scratch: &Scratch) -> Vec<String> {
    let mut names = places::lasting(scratch);
    names.retain(|name| !name.starts_with("file:"));
    names
}

/// Says that it is ready, and waits until its input ends.
fn at_once() {
    tell("ready");
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// Lets all of them go at once when each is ready, and answers what each told behind that.
fn release(mut children: Vec<Child>) -> Vec<String> {
    let mut outputs: Vec<_> = children.iter_mut().map(|child| BufReader::new(child.stdout.take().unwrap()).lines()).collect();
    for output in &mut outputs {
        assert!(output.any(|line| line.unwrap() == "told ready"));
    }
    children.iter_mut().for_each(|child| drop(child.stdin.take()));
    let told =
        outputs.into_iter().map(|mut output| output.find_map(|line| line.unwrap().strip_prefix("told ").map(str::to_owned)).unwrap());
    let told = told.collect();
    children.iter_mut().for_each(|child| assert!(child.wait().unwrap().success()));
    told
}

pub fn approver(arguments: &[String]) {
    let [place, thread, own] = arguments else { panic!("{arguments:?}") };
    let place = taffrail::open(place).unwrap();
    at_once();
    match approve(&place, thread, own) {
        Ok(_) => tell("won"),
        Err(error) => tell(&format!("{:?}", error.kind())),
    }
}

#[test]
fn of_eight_processes_that_decide_one_is_heard() {
    let scratch = Scratch::new();
    for (name, round) in shared(&scratch).iter().flat_map(|name| (0..4).map(move |round| (name, round))) {
        let (place, thread) = (taffrail::open(name).unwrap(), format!("trip {round}"));
        let mut run: Run<_, u32> = Run::start_or_resume(&place, &thread).unwrap();
        assert_eq!(run.await_approval::<String>("sure?", "").unwrap(), None);
        let approver = |own: usize| command("approver", &[name, &thread, &own.to_string()]).spawn().unwrap();
        let told = release((0..8).map(approver).collect());
        let won: Vec<usize> = (0..8).filter(|own| told[*own] == "won").collect();
        assert!(
            won.len() == 1 && told.iter().all(|told| told == "won" || *told == format!("{:?}", ErrorKind::Conflict)),
            "{name}: {told:?}"
        );
        assert_eq!(run.await_approval::<String>("sure?", "").unwrap(), Some(won[0].to_string()));
    }
}

pub fn resumer(arguments: &[String]) {
    let [place, thread, effects] = arguments else { panic!("{arguments:?}") };
    let place = taffrail::open(place).unwrap();
    let mut run: Run<_, u32> = Run::start_or_resume(&place, thread).unwrap();
    at_once();
    let answer = run.step("next", |count| {
        *count += 1;
        OpenOptions::new().append(true).create(true).open(effects)?.write_all(b"done\n")
    });
    match answer {
        Ok(()) => tell("won"),
        Err(RunError::Place(error)) => tell(&format!("{:?}", error.kind())),
        Err(error) => tell(&error.to_string()),
    }
}

#[test]
fn of_two_processes_that_go_on_with_a_run_one_does_the_step() {
    let scratch = Scratch::new();
    for (name, round) in shared(&scratch).iter().flat_map(|name| (0..8).map(move |round| (name, round))) {
        let (place, thread) = (taffrail::open(name).unwrap(), format!("trip {round}"));
        // Every other run is a new one.
        if round % 2 == 0 {
            Run::<_, u32>::start_or_resume(&place, &thread).unwrap().step("first", |_| Ok::<_, String>(())).unwrap();
        }
        let effects = scratch.path(&format!("effects {} {round}", name.len()));
        let resumer = |_| command("resumer", &[name, &thread, effects.to_str().unwrap()]).spawn().unwrap();
        let mut told = release((0..2).map(resumer).collect());
        told.sort();
        assert_eq!(told, ["Conflict", "won"], "{name}");
        assert_eq!(std::fs::read_to_string(effects).unwrap(), "done\n");
        let run: Run<_, u32> = Run::start_or_resume(&place, &thread).unwrap();
        assert_eq!((*run.state(), run.unknown()), (1, None));
    }
}
