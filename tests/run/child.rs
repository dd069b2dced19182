//! This test program run again in a role of its own.

use std::process::{Command, Stdio};

const ROLE: &str = "TAFFRAIL_TEST_RUN_ROLE";
const ARGUMENTS: &str = "TAFFRAIL_TEST_RUN_ARGUMENTS";

/// What a process does in a role, by its arguments.
pub type Role = fn(&[String]);

/// Plays the role that this process was started in, if any, and ends.
pub fn play(roles: &[(&str, Role)]) {
    let Ok(role) = std::env::var(ROLE) else { return };
    let arguments: Vec<String> = serde_json::from_str(&std::env::var(ARGUMENTS).unwrap()).unwrap();
    let (_, play) = roles.iter().find(|(name, _)| *name == role).expect("a role that is known");
    play(&arguments);
    std::process::exit(0)
}

/// A process in that role; what it prints and reads is piped.
pub fn command(role: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "role", "--nocapture", "--test-threads=1"]).env(ROLE, role);
    command.env(ARGUMENTS, serde_json::to_string(arguments).unwrap());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The lines of a child's output that it printed in its role.
pub fn told(output: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(output).lines().filter_map(|line| line.strip_prefix("told ").map(str::to_owned)).collect()
}

/// Prints a line that [`told`] finds, in one write and on a line of its own.
pub fn tell(line: &str) {
    use std::io::Write;
    std::io::stdout().lock().write_all(format!("\ntold {line}\n").as_bytes()).unwrap();
}
