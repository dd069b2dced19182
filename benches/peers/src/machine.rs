//! On what kind of machine it was measured: no name of it, and no path.

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;

use taffrail_benches::Outcome;

pub struct Machine {
    date: String,
    cores: usize,
    kernel: String,
    file_system: String,
}

impl Machine {
    /// This one, with the file system of `dir`.
    pub fn of(dir: &Path) -> Outcome<Self> {
        let date = String::from_utf8(Command::new("date").args(["--utc", "--iso-8601"]).output()?.stdout)?;
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
        let version = kernel.split(['-', '+']).next().unwrap_or_default();
        Ok(Machine {
            date: date.trim().to_owned(),
            cores: std::thread::available_parallelism()?.get(),
            kernel: version.trim().to_owned(),
            file_system: file_system(dir)?,
        })
    }
}

/// The type of the file system that holds `dir`: of the mounts above it, the nearest.
fn file_system(dir: &Path) -> Outcome<String> {
    let dir = dir.canonicalize()?;
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let above = fields.filter(|fields| fields.len() > 2 && dir.starts_with(fields[1]));
    Ok(above.max_by_key(|fields| fields[1].len()).map_or_else(|| "unknown".to_owned(), |fields| fields[2].to_owned()))
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {} cores, Linux {}, {}", self.date, self.cores, self.kernel, self.file_system)
    }
}
