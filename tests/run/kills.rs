//! Agents that are killed: at each of their writes, and at any moment from outside. Each effect of a step is a
//! line in a file beside the place: what stands there twice was done twice.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use taffrail::prelude::*;
use taffrail::run::{Run, RunError, approve, waiting};

use crate::child::{command, tell, told};
use crate::places::{self, Call, Watched};
use crate::scratch::Scratch;

/// What the agent does: steps, the third of which fails at first, and an approval behind the second.
const STEPS: [&str; 4] = ["search", "choose", "pay", "book"];
/// What each of its commits records.
const COMMITS: [&str; 13] = [
    "begun search",
    "done search",
    "begun choose",
    "done choose",
    "waits",
    "decided",
    "begun pay",
    "failed pay",
    "begun pay",
    "done pay",
    "begun book",
    "done book",
    "nothing more",
];

/// `place`, whose process is killed before or behind one of its commits.
fn deadly(place: Box<dyn Checkpointer>, dies_at: Option<usize>, behind: bool) -> impl Checkpointer {
    let commits = AtomicUsize::new(0);
    Watched::of(place, move |call: Call<'_>| {
        let number = match call {
            Call::Commit(_) if !behind => commits.fetch_add(1, Ordering::SeqCst),
            Call::Committed if behind => commits.fetch_add(1, Ordering::SeqCst),
            _ => return Ok(()),
        };
        if dies_at == Some(number) {
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap();
        }
        Ok(())
    })
}

fn effects(file: &Path) -> Vec<String> {
    fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// Does a step's effect, and fails the first payment.
fn effect(file: &Path, name: &str, state: &mut Vec<String>) -> std::result::Result<usize, String> {
    if name == "pay" && !effects(file).iter().any(|line| line == "refused") {
        OpenOptions::new().append(true).create(true).open(file).unwrap().write_all(b"refused\n").unwrap();
        return Err("refused".into());
    }
    OpenOptions::new().append(true).create(true).open(file).unwrap().write_all(format!("{name}\n").as_bytes()).unwrap();
    state.push(name.to_owned());
    Ok(name.len())
}

type Agent<'a> = Run<&'a dyn Checkpointer, Vec<String>>;

/// Decides about what is in doubt: if its effect is there it is settled, else it is done again.
fn resolve(run: &mut Agent<'_>, file: &Path) {
    let Some(name) = run.unknown().map(str::to_owned) else { return };
    tell(&format!("unknown {name}"));
    if effects(file).contains(&name) {
        run.settle(&name, |state| {
            state.push(name.clone());
            name.len()
        })
        .unwrap();
    } else {
        attempt(run, file, &name, true);
    }
}

fn attempt(run: &mut Agent<'_>, file: &Path, name: &str, mut again: bool) {
    loop {
        let effect = |state: &mut Vec<String>| effect(file, name, state);
        let answer = if again { run.step_again(name, effect) } else { run.step(name, effect) };
        match answer {
            Ok(result) => return assert_eq!(result, name.len()),
            Err(RunError::Failed(_)) => again = false,
            Err(error) => panic!("{name}: {error}"),
        }
    }
}

/// `place`, the file of effects, the commit to die at, whether behind it; how often to do the steps.
pub fn agent(arguments: &[String]) {
    let [place, file, dies_at, behind, turns] = arguments else { panic!("{arguments:?}") };
    let (dies_at, file) = (dies_at.parse().ok(), Path::new(file));
    let place = deadly(taffrail::open(place).unwrap(), dies_at, behind == "behind");
    let mut run: Agent<'_> = Run::start_or_resume(&place as &dyn Checkpointer, "trip").unwrap();
    resolve(&mut run, file);
    for turn in 0..turns.parse::<usize>().unwrap() {
        let name = |step: &str| if turn == 0 { step.to_owned() } else { format!("{step} {turn}") };
        STEPS[..2].iter().for_each(|step| attempt(&mut run, file, &name(step), false));
        while run.await_approval::<bool>(&name("sure?"), "?").unwrap().is_none() {
            assert_eq!(waiting(&place).unwrap().map(|one| one.unwrap().thread).collect::<Vec<_>>(), ["trip"]);
            approve(&place, "trip", &true).unwrap();
        }
        STEPS[2..].iter().for_each(|step| attempt(&mut run, file, &name(step), false));
    }
    assert!(waiting(&place).unwrap().next().is_none());
    tell(&format!("state {}", run.state().join(" ")));
}

fn run(place: &str, file: &Path, dies_at: &str, behind: &str) -> (bool, Vec<String>) {
    let output = command("agent", &[place, file.to_str().unwrap(), dies_at, behind, "1"]).output().unwrap();
    let well = output.status.success();
    assert!(well || output.status.code().is_none(), "{}", String::from_utf8_lossy(&output.stderr));
    (well, told(&output.stdout))
}

#[test]
fn killed_at_each_write_nothing_is_done_twice_and_what_is_in_doubt_is_told() {
    let whole: Vec<String> = STEPS.iter().map(|step| (*step).to_owned()).collect();
    for kind in 0..places::lasting(&Scratch::new()).len() {
        for (commit, behind) in (0..COMMITS.len()).flat_map(|commit| [(commit, "before"), (commit, "behind")]) {
            let scratch = Scratch::new();
            let (place, file) = (&places::lasting(&scratch)[kind], scratch.path("effects"));
            let context = format!("{place}, killed {behind} commit {commit}, {:?}", COMMITS[commit]);
            let (ended, _) = run(place, &file, &commit.to_string(), behind);
            assert_eq!(ended, COMMITS[commit] == "nothing more", "{context}");
            let (ended, lines) = run(place, &file, "never", "");
            // In doubt is what the last record that is there says was begun.
            let last = if behind == "behind" { Some(commit) } else { commit.checked_sub(1) };
            let begun = last.and_then(|last| COMMITS[last].strip_prefix("begun "));
            let mut expected: Vec<String> = begun.iter().map(|name| format!("unknown {name}")).collect();
            expected.push(format!("state {}", whole.join(" ")));
            assert!(ended, "{context}");
            assert_eq!(lines, expected, "{context}");
            let done: Vec<String> = effects(&file).into_iter().filter(|line| line != "refused").collect();
            assert_eq!(done, whole, "{context}");
        }
    }
}

#[test]
fn killed_from_outside_at_any_moment() {
    let turns = 12;
    let began = Instant::now();
    let mut seed = u64::from(std::process::id()) | 1;
    let (mut kills, mut rounds) = (0, 0);
    println!("seed {seed}");
    while began.elapsed() < Duration::from_secs(6) || kills < 10 {
        let scratch = Scratch::new();
        let names = places::lasting(&scratch);
        let (place, file) = (&names[rounds % names.len()], scratch.path("effects"));
        rounds += 1;
        for attempt in 0.. {
            let mut child = command("agent", &[place, file.to_str().unwrap(), "never", "", &turns.to_string()]).spawn().unwrap();
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if attempt < 6 {
                std::thread::sleep(Duration::from_micros(3_000 + (seed >> 33) % 25_000));
                child.kill().unwrap();
            }
            let output = child.wait_with_output().unwrap();
            if output.status.success() {
                break;
            }
            assert!(output.status.code().is_none(), "{place}: {}", String::from_utf8_lossy(&output.stderr));
            kills += 1;
        }
        let mut done: Vec<String> = effects(&file);
        done.retain(|line| line != "refused");
        let named = |turn: usize, step: &str| if turn == 0 { step.to_owned() } else { format!("{step} {turn}") };
        let whole: Vec<String> = (0..turns).flat_map(|turn| STEPS.map(|step| named(turn, step))).collect();
        assert_eq!(done, whole, "{place}");
    }
    println!("{kills} kills in {rounds} runs");
}
