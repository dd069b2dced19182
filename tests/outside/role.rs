//! The program that is tried: this test program run again, doing a script's steps. It tells of each step
//! over a pipe, after the call returned, in one write: `> ok 3`, or `> no 3 DiskFull`.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

use rustix::process::Pid;
use taffrail::{Batch, CheckpointId, Checkpointer, Durability, Error, ErrorKind, PutOptions, Store, TypeTag};

use crate::script::{self, Script, Step};

const ROLE: &str = "TAFFRAIL_TEST_OUTSIDE_ROLE";
const SEGMENT_BYTES: u64 = 64 * 1024;

/// How a step went.
pub type Told = std::result::Result<(), String>;

/// Runs when the program is started to do a script, does nothing as a test.
#[test]
fn role() {
    let Ok(arguments) = std::env::var(ROLE) else { return };
    let [name, prefix, dir] = arguments.splitn(3, '\n').collect::<Vec<_>>()[..] else { panic!("{arguments:?}") };
    let script = script::named(name);
    // Who tells it to begin may trace it, though it is no parent.
    let _ = rustix::process::set_ptracer(rustix::process::PTracer::Any);
    say(&format!("worker {}", rustix::thread::gettid().as_raw_nonzero()));
    let _ = std::io::stdin().read(&mut [0]);
    let mut hand = Hand::new(Path::new(dir), prefix);
    for (number, step) in script.all().skip(script.before.len()) {
        match hand.does(number, step) {
            Ok(()) => say(&format!("ok {number}")),
            Err(error) => say(&format!("no {number} {:?} {error}", error.kind())),
        }
    }
    drop(hand);
    std::process::exit(0)
}

/// Says a word, in one write.
fn say(word: &str) {
    std::io::stdout().lock().write_all(format!("\n> {word}\n").as_bytes()).unwrap();
}

/// The command that does a script on a directory, once it is told to begin.
pub fn command(script: &Script, prefix: &str, dir: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "role::role", "--nocapture", "--test-threads=1"]);
    command.env(ROLE, format!("{}\n{prefix}\n{}", script.name, dir.display()));
    command
}

/// The program, started.
pub struct Program {
    child: Child,
    output: BufReader<ChildStdout>,
    /// The OS thread that does the script, and nothing else.
    pub worker: u32,
}

/// How it ended.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub told: Vec<(usize, Told)>,
    /// What it wrote on standard error.
    pub error: String,
}

impl Program {
    /// Starts it; it waits until it is told to begin.
    pub fn start(mut command: Command) -> Program {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut program = Program { child, output, worker: 0 };
        let mut line = String::new();
        while program.worker == 0 {
            line.clear();
            assert!(program.output.read_line(&mut line).unwrap() > 0, "the program did not start");
            program.worker = line.strip_prefix("> worker ").map_or(0, |worker| worker.trim_end().parse().unwrap());
        }
        program
    }

    pub fn id(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Tells it to begin.
    pub fn begin(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Tells it to begin, if it was not told, and waits until it has ended.
    pub fn ended(mut self) -> Ended {
        self.begin();
        let mut output = Vec::new();
        self.output.read_to_end(&mut output).unwrap();
        let ended = self.child.wait_with_output().unwrap();
        Ended { status: ended.status, told: told(&output), error: String::from_utf8_lossy(&ended.stderr).into_owned() }
    }
}

/// What was told of each step, by its number, in order. What was cut off in the middle is no word.
pub fn told(output: &[u8]) -> Vec<(usize, Told)> {
    let text = String::from_utf8_lossy(output);
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let mut told = Vec::new();
    for line in whole.lines() {
        match line.strip_prefix("> ").map(|word| word.splitn(3, ' ').collect::<Vec<_>>()).as_deref() {
            Some(["ok", number]) => told.push((number.parse().unwrap(), Ok(()))),
            Some(["no", number, why]) => told.push((number.parse().unwrap(), Err((*why).to_owned()))),
            _ => {}
        }
    }
    told
}

/// Does what a script wants done in peace before it, in this process.
pub fn prepare(script: &Script, prefix: &str, dir: &Path) {
    let mut hand = Hand::new(dir, prefix);
    for (number, step) in script.before.iter().enumerate() {
        hand.does(number, *step).unwrap();
    }
}

/// Where a backup or a repair made by this step is put.
pub fn copy_of(dir: &Path, number: usize) -> PathBuf {
    dir.with_extension(format!("copy-{number}"))
}

/// Who does a script's steps.
pub struct Hand<'a> {
    dir: &'a Path,
    prefix: &'a str,
    store: Option<Store>,
}

impl<'a> Hand<'a> {
    pub fn new(dir: &'a Path, prefix: &'a str) -> Self {
        Hand { dir, prefix, store: None }
    }

    /// The store, while it is open.
    pub fn store(&self) -> Option<&Store> {
        self.store.as_ref()
    }

    fn open(&self) -> taffrail::Result<&Store> {
        self.store().ok_or_else(|| Error::new(ErrorKind::NotFound, "the store is not open"))
    }

    pub fn does(&mut self, number: usize, step: Step) -> taffrail::Result<()> {
        let named = |thread: &str| format!("{}{thread}", self.prefix);
        let options = |durability| PutOptions::default().id(CheckpointId::new(script::id(number)).unwrap()).durability(durability);
        let put = |thread: &str, length, durability| {
            let state = script::state(&named(thread), number, length);
            self.open()?.put_bytes(&named(thread), TypeTag::BYTES, &state, options(durability)).map(drop)
        };
        match step {
            Step::Open => {
                self.store = None;
                let store = Store::options().segment_bytes(SEGMENT_BYTES).max_history(None).auto_compaction(false).open(self.dir)?;
                self.store = Some(store);
                Ok(())
            }
            Step::Put { thread, length } => put(thread, length, Durability::Sync),
            Step::Buffered { thread, length } => put(thread, length, Durability::Buffered),
            Step::Batch { threads, length } => {
                let names: Vec<String> = threads.iter().map(|thread| named(thread)).collect();
                let states: Vec<_> = names.iter().map(|name| script::state(name, number, length)).collect();
                let mut batch = Batch::new();
                for (name, state) in names.iter().zip(&states) {
                    batch.put(name, TypeTag::BYTES, state, options(Durability::Sync));
                }
                self.open()?.commit(&batch).map(drop)
            }
            Step::Delete(thread) => self.open()?.delete(&named(thread)).map(drop),
            Step::DeleteOne(thread, put) => {
                self.open()?.delete_checkpoint(&named(thread), &CheckpointId::new(script::id(put)).unwrap()).map(drop)
            }
            Step::Compact => self.open()?.compact().map(drop),
            Step::Backup => self.open()?.backup(copy_of(self.dir, number)),
            Step::Repair => {
                self.store = None;
                let told = Store::repair(self.dir, copy_of(self.dir, number))?;
                let lost = || Error::new(ErrorKind::Corrupt, format!("repaired, and lost: {:?}", told.damage));
                if told.damage.is_empty() { Ok(()) } else { Err(lost()) }
            }
        }
    }
}
