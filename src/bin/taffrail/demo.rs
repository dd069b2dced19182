//! `demo`: an agent that calls models and tools, killed in the middle and resumed by a new process.
//!
//! The agent ([`agent`]) is the part to read first: it is how a program uses the store. It saves its
//! whole state after every step, so a new process goes on from the newest checkpoint. A tool's call
//! is saved before the tool runs and its result after; the call's id lets the tool itself tell that
//! it has run already. The rest is the stage: it starts the agent, kills it, and counts what ran.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use taffrail::prelude::*;

use crate::args::Demo;
use crate::failure::{DAMAGE, Failure, REFUSED, Result, SYSTEM};
use crate::output::{self, Output};
use crate::place;

/// The agent's whole state: all that a new process needs to go on.
#[derive(Default, Serialize, Deserialize)]
struct Run {
    step: u64,
    /// What was said and found so far.
    transcript: Vec<String>,
    /// A tool that is about to run.
    pending: Option<ToolCall>,
    done: bool,
}

#[derive(Clone, Serialize, Deserialize)]
struct ToolCall {
    id: String,
    tool: String,
    input: String,
}

/// What the model will ask for, one call after the other; then it answers.
const SCRIPT: [(&str, &str); 4] =
    [("search_flights", "Lisbon, 12 May"), ("book_seat", "TP 533, 14A"), ("charge_card", "184 EUR"), ("send_mail", "the itinerary")];

/// The agent stands still after its card was charged; that is where it is killed.
const KILLED_AFTER: u64 = 6;

/// One life of the agent: from the newest checkpoint to the end, or to where it is killed.
fn agent(store: &Store, thread: &str, tools: &Path, stall_after: Option<u64>) -> Result<()> {
    let mut run: Run = store.get(thread)?.unwrap_or_default();
    while !run.done {
        let said = match run.pending.take() {
            Some(call) => {
                let result = run_tool(&call, tools).map_err(|error| Failure::file("note a tool in", tools, &error))?;
                format!("{} ran: {result}", call.tool)
            }
            None => match ask_model(&run) {
                Some(call) => {
                    let said = format!("the model asks for {}({})", call.tool, call.input);
                    run.pending = Some(call);
                    said
                }
                None => {
                    run.done = true;
                    "the model answers: your seat to Lisbon is booked and paid".to_owned()
                }
            },
        };
        run.step += 1;
        run.transcript.push(said);
        store.put(thread, &run)?;
        say(&format!("  step {}  {}", run.step, run.transcript.last().map_or("", String::as_str)))?;
        if stall_after == Some(run.step) {
            // Ends too if the process that was to kill this one is gone.
            let _ = io::stdin().read(&mut [0]);
            return Ok(());
        }
    }
    Ok(())
}

/// Stands for a model: looks at what the agent knows and says what to do next.
fn ask_model(run: &Run) -> Option<ToolCall> {
    thread::sleep(Duration::from_millis(60));
    let calls_done = run.transcript.iter().filter(|said| said.contains(" ran: ")).count();
    let (tool, input) = SCRIPT.get(calls_done)?;
    Some(ToolCall { id: format!("call-{calls_done}"), tool: (*tool).to_owned(), input: (*input).to_owned() })
}

/// Stands for the world outside: does the work of a call once, however often it is asked.
fn run_tool(call: &ToolCall, notes: &Path) -> io::Result<String> {
    let result = format!("{}, ok", call.input);
    let line = format!("{} {}", call.id, call.tool);
    if !read_notes(notes)?.lines().any(|noted| noted == line) {
        let mut file: File = OpenOptions::new().create(true).append(true).open(notes)?;
        writeln!(file, "{line}")?;
        file.sync_all()?;
    }
    Ok(result)
}

fn read_notes(notes: &Path) -> io::Result<String> {
    match fs::read_to_string(notes) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        read => read,
    }
}

/// The verb: the stage, or with `--agent` the agent on it.
pub fn demo(place: Option<String>, args: &Demo) -> Result<()> {
    if let (Some(place), Some(tools), Some(thread)) = (&place, &args.agent, &args.thread) {
        let store = Store::open(directory(place)?).map_err(Failure::from);
        return store.and_then(|store| agent(&store, thread, tools, args.stall_after)).map_err(|failure| failure.at(place));
    }
    let scratch = tempfile::tempdir().map_err(|error| Failure::new(SYSTEM, format!("cannot make a temporary directory: {error}")))?;
    let place = match place {
        Some(place) => place,
        None => text_of(scratch.path().join("store"))?,
    };
    stage(&place, directory(&place)?, &scratch.path().join("tools.txt"))
}

fn directory(place: &str) -> Result<&str> {
    place::directory(place)
        .ok_or_else(|| Failure::new(REFUSED, format!("{place}: the demo needs a store in a directory, which outlives its processes")))
}

fn stage(place: &str, dir: &str, tools: &Path) -> Result<()> {
    let thread = format!("demo-{}", CheckpointId::fresh());
    say(&format!("A small agent run, in thread {thread} of {}", output::one_line(place)))?;

    let mut first = Agent::start(place, &thread, tools, Some(KILLED_AFTER))?;
    say(&format!("process {} starts", first.0.id()))?;
    first.show(KILLED_AFTER)?;
    let killed = first.kill()?;
    say(&format!("process {} is killed ({killed})", first.0.id()))?;

    let at = Store::options().create(false).read_only(true).open(dir)?.get::<Run>(&thread)?.unwrap_or_default().step;
    let mut second = Agent::start(place, &thread, tools, None)?;
    say(&format!("process {} resumes from step {at}, the newest checkpoint", second.0.id()))?;
    second.show(u64::MAX)?;
    second.finish()?;

    let store = Store::options().create(false).read_only(true).open(dir)?;
    let steps = store.history::<Run>(&thread, None)?;
    say(&format!("{} checkpoints are kept, each readable; the tools ran:", steps.len()))?;
    tell_tools(tools)
}

/// Says how often each tool ran, and fails unless it was once.
fn tell_tools(tools: &Path) -> Result<()> {
    let noted = read_notes(tools).map_err(|error| Failure::file("read", tools, &error))?;
    let mut times: BTreeMap<&str, u32> = BTreeMap::new();
    for line in noted.lines() {
        *times.entry(line.split(' ').nth(1).unwrap_or(line)).or_default() += 1;
    }
    for (tool, _) in SCRIPT {
        let times = times.get(tool).copied().unwrap_or_default();
        say(&format!("  {times}x {tool}"))?;
        if times != 1 {
            return Err(Failure::new(DAMAGE, format!("{tool} ran {times} times")));
        }
    }
    say("every tool ran exactly once")
}

/// An agent in a process of its own; it does not outlive this value.
struct Agent(Child);

impl Agent {
    fn start(place: &str, thread: &str, tools: &Path, stall_after: Option<u64>) -> Result<Self> {
        let program = std::env::current_exe().map_err(no_process)?;
        let mut command = Command::new(program);
        command.arg(format!("--store={place}")).arg("demo").arg("--agent").arg(tools).arg("--thread").arg(thread);
        if let Some(step) = stall_after {
            command.arg("--stall-after").arg(step.to_string());
        }
        Ok(Agent(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(no_process)?))
    }

    /// Shows what the agent says, up to so many lines.
    fn show(&mut self, lines: u64) -> Result<()> {
        let mut shown = 0;
        if let Some(said) = self.0.stdout.take() {
            for line in BufReader::new(said).lines() {
                say(&line.map_err(no_process)?)?;
                shown += 1;
                if shown == lines {
                    return Ok(());
                }
            }
        }
        if lines == u64::MAX { Ok(()) } else { self.finish() }
    }

    fn kill(&mut self) -> Result<std::process::ExitStatus> {
        self.0.kill().map_err(no_process)?;
        self.0.wait().map_err(no_process)
    }

    /// Waits for the end; an agent that failed has said why, so its code is passed on.
    fn finish(&mut self) -> Result<()> {
        let status = self.0.wait().map_err(no_process)?;
        match status.code() {
            Some(0) => Ok(()),
            Some(code) => Err(Failure::said(u8::try_from(code).unwrap_or(SYSTEM))),
            None => Err(Failure::new(SYSTEM, format!("the agent ended by itself: {status}"))),
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

fn no_process(error: io::Error) -> Failure {
    Failure::new(SYSTEM, format!("cannot run the agent: {error}"))
}

fn text_of(path: PathBuf) -> Result<String> {
    path.into_os_string().into_string().map_err(|_| Failure::new(SYSTEM, "the temporary directory's name is not UTF-8"))
}

/// Says one line at once.
fn say(line: &str) -> Result<()> {
    let mut out = Output::new();
    writeln!(out, "{line}")?;
    Ok(out.finish()?)
}
