//! The lines an import reads, twice: a plain file where it lies, all else from a copy of it.
//!
//! One line is held at a time. The copy of a pipe is a file without a name, which goes with the
//! process.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::path::Path;

use indicatif::ProgressBar;

use crate::failure::{Failure, REFUSED, Result, SYSTEM};
use crate::progress;

/// How a file of SQLite's begins.
const SQLITE_MAGIC: &[u8] = b"SQLite format 3\0";

/// Whether a plain file is an SQLite database. An empty one is refused: it is more often a copy that went wrong
/// than an export of nothing, which standard input may be.
pub fn is_database(path: &Path) -> Result<bool> {
    let unreadable = |error: io::Error| Failure::file("read", path, &error);
    if path.as_os_str() == "-" || !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Ok(false);
    }
    let mut file = File::open(path).map_err(unreadable)?;
    if file.metadata().map_err(unreadable)?.len() == 0 {
        let message = format!("{} is empty: neither JSON Lines nor a database", path.display());
        return Err(Failure::new(REFUSED, message));
    }
    begins_as_database(&mut file).map_err(unreadable)
}

fn begins_as_database(file: &mut File) -> io::Result<bool> {
    let mut head = Vec::new();
    file.take(SQLITE_MAGIC.len() as u64).read_to_end(&mut head)?;
    Ok(head == SQLITE_MAGIC)
}

/// The lines to import, readable twice.
pub struct Source {
    /// What it is called.
    pub name: String,
    file: BufReader<File>,
    pub bar: ProgressBar,
    line: Vec<u8>,
    line_number: u64,
}

impl Source {
    /// Opens a file, or standard input for -.
    pub fn open(path: &Path) -> Result<Self> {
        let unreadable = |error: io::Error| Failure::file("read", path, &error);
        let piped = path.as_os_str() == "-";
        let name = if piped { "standard input".to_owned() } else { path.display().to_string() };
        let mut file = if piped {
            spool(&mut io::stdin().lock()).map_err(unreadable)?
        } else {
            let mut file = File::open(path).map_err(unreadable)?;
            let plain = file.metadata().map_err(unreadable)?.is_file();
            if plain { file } else { spool(&mut file).map_err(unreadable)? }
        };
        if begins_as_database(&mut file).map_err(unreadable)? {
            return Err(Failure::new(
                REFUSED,
                format!("{name} is an SQLite database, which can only be imported as a plain file, by its name"),
            ));
        }
        let bytes = file.metadata().map_err(unreadable)?.len();
        let bar = progress::counting(bytes.saturating_mul(2), None);
        let mut source = Source { name, file: BufReader::with_capacity(256 * 1024, file), bar, line: Vec::new(), line_number: 0 };
        source.rewind()?;
        Ok(source)
    }

    /// Goes back to the first line.
    pub fn rewind(&mut self) -> Result<()> {
        self.line_number = 0;
        self.file.rewind().map_err(unreadable)
    }

    /// The next line that is not blank, and its number.
    pub fn next(&mut self) -> Result<Option<(u64, &[u8])>> {
        loop {
            self.line.clear();
            let bytes = self.file.read_until(b'\n', &mut self.line).map_err(unreadable)?;
            if bytes == 0 {
                return Ok(None);
            }
            self.bar.inc(bytes as u64);
            self.line_number += 1;
            if !self.line.trim_ascii().is_empty() {
                return Ok(Some((self.line_number, &self.line)));
            }
        }
    }
}

fn unreadable(error: io::Error) -> Failure {
    Failure::new(SYSTEM, format!("cannot read what is to be imported: {error}"))
}

/// Copies what can be read once only to a file that has no name.
fn spool(input: &mut impl Read) -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    io::copy(input, &mut file)?;
    file.rewind()?;
    Ok(file)
}
