//! Lines of strace (`-y -xx`, with process ids or not) as what they do to a disk.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What a call did; paths are below the directory that is looked at.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A file was made there, unless it was there before.
    Made(String),
    MadeDir(String),
    Written {
        path: String,
        offset: usize,
        bytes: Vec<u8>,
    },
    Cut {
        path: String,
        length: usize,
    },
    /// A file or a directory was synced.
    Synced(String),
    Renamed {
        from: String,
        to: String,
    },
    Removed(String),
    /// The program said so.
    Told(Vec<u8>),
}

/// The calls that change what a disk holds, or say of it that it is kept.
pub const CALLS: &str = "trace=open,openat,creat,write,writev,pwrite64,pwritev,pwritev2,fdatasync,fsync,sync_file_range,rename,renameat,renameat2,\
    unlink,unlinkat,rmdir,link,linkat,symlink,truncate,ftruncate,fallocate,mkdir,mkdirat,copy_file_range,sendfile,splice";

/// What the calls of a trace did below `home`, and what was said on standard output.
pub fn events(trace: &str, home: &Path) -> Vec<Event> {
    trace.lines().filter_map(|line| event(line, home)).collect()
}

fn event(line: &str, home: &Path) -> Option<Event> {
    assert!(!line.contains("unfinished"), "two calls at once: {line}");
    let call = line.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
    let (name, rest) = call.split_once('(')?;
    let (arguments, answer) = rest.rsplit_once(") = ")?;
    let answer: i64 = answer.split(|c: char| c != '-' && !c.is_ascii_digit()).next()?.parse().ok()?;
    if answer < 0 {
        return None;
    }
    // A path is told apart by its parts, so `.` at its end means nothing.
    let below = |path: Vec<u8>| Some(Path::new(OsStr::from_bytes(&path)).strip_prefix(home).ok()?.to_str().unwrap().to_owned());
    let mut texts = between(arguments, '"', '"');
    // An argument that is a descriptor has its path behind it; one of a removed file says so.
    let opened = || below(between(arguments, '<', '>').into_iter().next().filter(|_| !arguments.contains(">(deleted)"))?);
    let number = |at: usize| arguments.rsplit(", ").nth(at).unwrap().parse::<usize>().unwrap();
    match name {
        "open" | "openat" | "creat" => {
            let path = below(texts.swap_remove(0))?;
            assert!(!arguments.contains("O_TRUNC") && !arguments.contains("O_APPEND"), "not understood: {line}");
            arguments.contains("O_CREAT").then_some(Event::Made(path))
        }
        "write" if arguments.starts_with("1<") => Some(Event::Told(texts.concat())),
        "pwrite64" | "pwritev" => {
            let mut bytes = texts.concat();
            assert!(!arguments.contains("\"..."), "cut short by strace: {name}");
            bytes.truncate(answer as usize);
            Some(Event::Written { path: opened()?, offset: number(0), bytes })
        }
        "ftruncate" => Some(Event::Cut { path: opened()?, length: number(0) }),
        "fdatasync" | "fsync" => Some(Event::Synced(opened()?)),
        "rename" => {
            let to = below(texts.pop()?)?;
            Some(Event::Renamed { from: below(texts.pop()?)?, to })
        }
        "unlink" => Some(Event::Removed(below(texts.pop()?)?)),
        "mkdir" => Some(Event::MadeDir(below(texts.pop()?)?)),
        _ => {
            let touched = opened().or_else(|| texts.into_iter().find_map(below));
            assert!(touched.is_none(), "not understood: {line}");
            None
        }
    }
}

/// The texts, in hex as `\x2f`, that stand between two marks.
fn between(line: &str, open: char, close: char) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut rest = line;
    while let Some((_, behind)) = rest.split_once(open) {
        let Some((text, behind)) = behind.split_once(close) else { break };
        found.push(text.split("\\x").skip(1).map(|digits| u8::from_str_radix(digits, 16).unwrap()).collect());
        rest = behind;
    }
    found
}
