//! Other processes: this test program run again in a role, spoken with line by line.
//!
//! A role's words are lines that begin with `> `, so what the test harness prints is never taken
//! for one. No child outlives the test: each is killed with its owner, ends with the worker that
//! started it, and ends by itself when nobody has spoken to it for two minutes.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::posix;

const ROLE: &str = "TAFFRAIL_TEST_SHARE_ROLE";
const ARGUMENTS: &str = "TAFFRAIL_TEST_SHARE_ARGUMENTS";
/// How long nobody may speak to a child before it ends by itself.
const UNSPOKEN_SECONDS: u32 = 120;

/// How long the tests themselves wait for a lock at most.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A process in a role.
pub struct Child {
    process: std::process::Child,
    orders: Option<ChildStdin>,
    words: BufReader<ChildStdout>,
}

impl Child {
    /// Starts a role; its arguments are texts without line ends.
    pub fn start(role: &str, arguments: &[&str]) -> Child {
        Child::start_under(&[], role, arguments, None)
    }

    /// Starts a role behind a tool and its arguments (`unshare`, say), or in a directory.
    pub fn start_under(tool: &[&str], role: &str, arguments: &[&str], dir: Option<&OsStr>) -> Child {
        let program = std::env::current_exe().unwrap();
        let mut command = match tool.split_first() {
            Some((tool, arguments)) => {
                let mut command = Command::new(tool);
                command.args(arguments).arg(program);
                command
            }
            None => Command::new(program),
        };
        command
            .args(["--exact", "role", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env(ARGUMENTS, arguments.join("\n"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if let Some(dir) = dir {
            command.current_dir(dir);
        }
        let mut process = command.spawn().unwrap();
        let orders = process.stdin.take();
        let words = BufReader::new(process.stdout.take().unwrap());
        Child { process, orders, words }
    }

    /// The process's id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Gives an order; one that nobody takes any more is lost.
    pub fn order(&mut self, line: &str) {
        let _ = self.orders.as_mut().unwrap().write_all(format!("{line}\n").as_bytes());
    }

    /// The next word, or None when it has ended; what was cut off in the middle is no word.
    pub fn word(&mut self) -> Option<String> {
        let mut line = Vec::new();
        loop {
            line.clear();
            self.words.read_until(b'\n', &mut line).unwrap();
            match line.strip_suffix(b"\n") {
                None => return None,
                Some(whole) if whole.starts_with(b"> ") => return Some(String::from_utf8(whole[2..].to_vec()).unwrap()),
                Some(_) => {}
            }
        }
    }

    /// The next word, which must come.
    #[track_caller]
    pub fn must_say(&mut self) -> String {
        let word = self.word();
        word.unwrap_or_else(|| panic!("the child ended without a word: {:?}", self.process.wait()))
    }

    /// The next word, which must be this.
    #[track_caller]
    pub fn must_say_this(&mut self, expected: &str) {
        assert_eq!(self.must_say(), expected);
    }

    /// kill -9; returns when it is gone.
    pub fn kill(&mut self) -> ExitStatus {
        // It may have ended by itself: how is for the caller to judge.
        let _ = self.process.kill();
        self.process.wait().unwrap()
    }

    /// Waits until it ends by itself, or is killed by itself or others.
    pub fn wait(&mut self) -> ExitStatus {
        self.process.wait().unwrap()
    }

    /// Gives no more orders and waits until it ends by itself, which must go well.
    #[track_caller]
    pub fn end(&mut self) {
        drop(self.orders.take());
        let status = self.process.wait().unwrap();
        assert!(status.success(), "the child failed: {status}");
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.process.try_wait().unwrap()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Says a word, in one write.
pub fn say(word: &str) {
    std::io::stdout().lock().write_all(format!("\n> {word}\n").as_bytes()).unwrap();
}

/// The next order, or None when there are no more.
pub fn next_order() -> Option<String> {
    posix::end_in(UNSPOKEN_SECONDS);
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line).unwrap();
    (read > 0).then(|| line.trim_end().to_owned())
}

/// Sleeps until an instant of the machine's clock, awake for the last moment, so that several
/// processes begin together.
pub fn wait_until(instant: Duration) {
    let awake = Duration::from_micros(150);
    if let Some(asleep) = instant.checked_sub(posix::now() + awake) {
        std::thread::sleep(asleep);
    }
    while posix::now() < instant {
        std::thread::yield_now();
    }
}

/// An instant in so many microseconds, as text for [`instant_of`].
pub fn in_micros(micros: u64) -> String {
    (posix::now() + Duration::from_micros(micros)).as_nanos().to_string()
}

/// The instant of such a text.
pub fn instant_of(text: &str) -> Duration {
    Duration::from_nanos(text.parse().unwrap())
}

/// What is done in a role, given its arguments.
pub type Role = fn(&[&str]);

/// Plays the role that this program was started in, if it was started in one.
pub fn play(roles: &[(&str, Role)]) {
    let (Ok(role), Ok(arguments)) = (std::env::var(ROLE), std::env::var(ARGUMENTS)) else { return };
    posix::end_with_parent();
    posix::end_in(UNSPOKEN_SECONDS);
    let arguments: Vec<&str> = arguments.split('\n').collect();
    let (_, run) = roles.iter().find(|(name, _)| *name == role).unwrap_or_else(|| panic!("no role {role:?}"));
    run(&arguments);
    std::process::exit(0)
}
