//! Running a test of this program again in a mount namespace of its own.

use std::path::Path;
use std::process::Command;

/// Runs `test` behind the shell command `mount`, in which `$1` is `dir`; the test finds `dir` in
/// the environment under `name` and ends by saying `done`. Skips where there are no namespaces.
pub fn inside(mount: &str, dir: &Path, test: &str, name: &str, done: &str) {
    let script = format!("{mount} && exec \"$0\" --exact {test} --nocapture");
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script]).arg(std::env::current_exe().unwrap()).arg(dir).env(name, dir);
    match command.output() {
        Ok(output) if output.status.success() => {
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(text.contains(done));
            println!("{text}");
        }
        Ok(output) => {
            let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            assert!(!text.contains("panicked"), "{text}");
            println!("SKIP no mount namespace here: {text}");
        }
        Err(error) => println!("SKIP unshare: {error}"),
    }
}

/// Whether a program is there; says what is skipped if not.
#[allow(dead_code, reason = "not every test needs one")]
pub fn has(program: &str) -> bool {
    let found = Command::new("sh").args(["-c", "command -v \"$0\" >/dev/null", program]).status().is_ok_and(|status| status.success());
    if !found {
        println!("SKIP {program}: it is not there");
    }
    found
}
