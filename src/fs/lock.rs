//! Locks between processes: the only file that knows fs2.
//!
//! flock belongs to the open file, not to the process or a path: it dies with its holder, and one
//! file opened twice in one process excludes itself as two processes would. A fork copies the open
//! file, and the lock lives until its last copy is closed or one of them gives it up; hence nothing
//! is given up by a drop, which a child does as well.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags, RawMode};
use rustix::io::Errno;

use super::Lock;
use crate::plant::hold_up;

/// How often a name is looked for and made again before it is given up: a dangling link is neither
/// there nor can it be made.
const ATTEMPTS: usize = 8;

/// A file or a directory opened to be locked.
#[derive(Debug)]
pub(super) struct FileLock(File);

impl FileLock {
    /// Opens what is at the path, never waiting for it; makes an empty file where nothing is.
    pub fn open(path: &Path, mode: u32) -> io::Result<FileLock> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let open = |flags, mode| rustix::io::retry_on_intr(|| rustix::fs::open(path, flags, mode));
        let mut opened = Err(Errno::NOENT);
        for _ in 0..ATTEMPTS {
            opened = open(flags, Mode::empty());
            if !matches!(opened, Err(Errno::NOENT)) {
                break;
            }
            match open(flags | OFlags::CREATE | OFlags::EXCL, Mode::from_raw_mode(mode as RawMode)) {
                Err(Errno::EXIST) => {}
                made => {
                    opened = made;
                    break;
                }
            }
        }
        Ok(FileLock(opened?.into()))
    }
}

impl Lock for FileLock {
    fn try_exclusive(&self) -> io::Result<bool> {
        hold_up();
        taken(|| fs2::FileExt::try_lock_exclusive(&self.0))
    }

    fn try_shared(&self) -> io::Result<bool> {
        hold_up();
        taken(|| fs2::FileExt::try_lock_shared(&self.0))
    }

    fn unlock(&self) -> io::Result<()> {
        hold_up();
        uninterrupted(|| fs2::FileExt::unlock(&self.0))
    }

    fn inode(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.ino())
    }

    #[cfg(target_os = "linux")]
    fn holder(&self) -> Option<String> {
        let metadata = self.0.metadata().ok()?;
        let device = (rustix::fs::major(metadata.dev()), rustix::fs::minor(metadata.dev()));
        let own = std::process::id();
        // The list is not read at one moment: while other locks come and go, this one may be passed over.
        let looks = (0..LOOKS).map(|_| std::fs::read_to_string("/proc/locks").ok());
        let pid = looks.flatten().find_map(|locks| holder_in(&locks, device, metadata.ino(), own))?;
        Some(if pid == own { "this process".to_owned() } else { named(pid) })
    }

    #[cfg(not(target_os = "linux"))]
    fn holder(&self) -> Option<String> {
        None
    }
}

/// So often the system's list of locks is looked at for a lock that must be in it.
#[cfg(target_os = "linux")]
const LOOKS: usize = 4;

/// Makes a call until no signal interrupts it.
pub(super) fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            answer => return answer,
        }
    }
}

/// Whether a call took the lock; false if another holds it.
fn taken(call: impl FnMut() -> io::Result<()>) -> io::Result<bool> {
    match uninterrupted(call) {
        Ok(()) => Ok(true),
        Err(error) if error.raw_os_error() == fs2::lock_contended_error().raw_os_error() => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whom the system's list of locks names as holder, another process before this one. Some file
/// systems are listed under another device than files say: then the inode alone decides.
#[cfg(target_os = "linux")]
fn holder_in(locks: &str, device: (u32, u32), inode: u64, own: u32) -> Option<u32> {
    let held: Vec<_> = locks.lines().filter_map(held).filter(|lock| lock.inode == inode && lock.pid != 0).collect();
    let exact: Vec<_> = held.iter().filter(|lock| lock.device == device).collect();
    let of = if exact.is_empty() { held.iter().collect() } else { exact };
    of.iter().find(|lock| lock.pid != own).or(of.first()).map(|lock| lock.pid)
}

/// One lock of the system's list.
#[cfg(target_os = "linux")]
struct Listed {
    pid: u32,
    device: (u32, u32),
    inode: u64,
}

/// A line of the list, such as `1: FLOCK  ADVISORY  WRITE 3167 fe:00:5309833 0 EOF`; `None` for
/// other kinds of lock and for those who only wait for one.
#[cfg(target_os = "linux")]
fn held(line: &str) -> Option<Listed> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    if fields.next()? != "FLOCK" {
        return None;
    }
    let pid = fields.nth(2)?.parse().ok()?;
    let mut place = fields.next()?.splitn(3, ':');
    let mut hex = || u32::from_str_radix(place.next()?, 16).ok();
    let device = (hex()?, hex()?);
    Some(Listed { pid, device, inode: place.next()?.parse().ok()? })
}

/// A process by its number and, if it still has one, its name.
#[cfg(target_os = "linux")]
fn named(pid: u32) -> String {
    let told = std::fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    let name: String = String::from_utf8_lossy(&told).chars().filter(|c| !c.is_control()).collect();
    if name.is_empty() { format!("process {pid}") } else { format!("process {pid} ({name})") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    const MODE: u32 = 0o600;
    /// Tells a child process, which runs one of these tests, what it is to lock.
    const TO_HOLD: &str = "TAFFRAIL_TEST_LOCK";
    /// What it answers.
    const HELD: &str = "the lock is held";

    fn open(path: &Path) -> FileLock {
        FileLock::open(path, MODE).unwrap()
    }

    /// Exclusive within a second: a child that another test starts has copies of our files until it
    /// runs its program.
    fn soon_exclusive(lock: &FileLock) -> bool {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(1) {
            if lock.try_exclusive().unwrap() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        false
    }

    fn exclude_each_other(path: &Path) {
        let (one, other) = (open(path), open(path));
        assert!(one.try_exclusive().unwrap());
        assert!(!other.try_exclusive().unwrap() && !other.try_shared().unwrap());
        one.unlock().unwrap();
        assert!(other.try_exclusive().unwrap());
        drop(other);
        assert!(soon_exclusive(&one), "closing frees");
    }

    #[test]
    fn files_and_directories_exclude_and_are_freed() {
        let scratch = tempfile::tempdir().unwrap();
        exclude_each_other(scratch.path());
        exclude_each_other(&scratch.path().join("made"));
        let garbage = scratch.path().join("garbage");
        std::fs::write(&garbage, [0xff; 5000]).unwrap();
        exclude_each_other(&garbage);
        assert_eq!(std::fs::read(&garbage).unwrap(), [0xff; 5000], "what is in it is left alone");
    }

    #[test]
    fn sharing_and_turning_one_kind_into_the_other() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("lock");
        let (one, other) = (open(&path), open(&path));
        assert!(one.try_shared().unwrap() && other.try_shared().unwrap());
        assert!(!other.try_exclusive().unwrap(), "beside a shared hold");
        assert!(one.try_exclusive().unwrap(), "the failure left none");
        assert!(!other.try_shared().unwrap());
        assert!(one.try_shared().unwrap() && other.try_shared().unwrap(), "an exclusive hold turned into a shared one");
        other.unlock().unwrap();
        assert!(one.try_exclusive().unwrap() && !other.try_shared().unwrap(), "a shared hold turned into an exclusive one");
    }

    #[test]
    fn a_missing_file_is_made_empty_with_its_mode_and_only_once() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("lock");
        let made = open(&path);
        let metadata = std::fs::metadata(&path).unwrap();
        assert_eq!((metadata.len(), metadata.permissions().mode() & 0o777), (0, MODE));
        assert_eq!(made.inode().unwrap(), metadata.ino());
        assert_eq!(open(&path).inode().unwrap(), metadata.ino());
        std::fs::rename(&path, scratch.path().join("old")).unwrap();
        assert_ne!(open(&path).inode().unwrap(), made.inode().unwrap(), "another file under the name");
    }

    #[test]
    fn nothing_is_made_of_what_cannot_be() {
        let scratch = tempfile::tempdir().unwrap();
        let absent = scratch.path().join("absent");
        assert_eq!(FileLock::open(&absent.join("."), MODE).unwrap_err().kind(), io::ErrorKind::NotFound);
        let dangling = scratch.path().join("dangling");
        symlink(&absent, &dangling).unwrap();
        assert_eq!(FileLock::open(&dangling, MODE).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(!absent.exists());
    }

    #[test]
    fn an_interrupted_call_is_made_again() {
        let mut left = 3;
        let mut interrupted = || {
            left -= 1;
            if left > 0 { Err(Errno::INTR.into()) } else { Ok(()) }
        };
        uninterrupted(&mut interrupted).unwrap();
        assert!(
            uninterrupted::<()>(|| Err(Errno::NOLCK.into())).is_err_and(|error| error.raw_os_error() == Some(Errno::NOLCK.raw_os_error()))
        );
        let mut calls = 0;
        let contended = taken(|| {
            calls += 1;
            Err(if calls < 3 { Errno::INTR.into() } else { Errno::WOULDBLOCK.into() })
        });
        assert!(!contended.unwrap() && calls == 3);
        assert_eq!(taken(|| Err(Errno::OPNOTSUPP.into())).unwrap_err().raw_os_error(), Some(Errno::OPNOTSUPP.raw_os_error()));
    }

    #[test]
    fn a_pipe_does_not_block() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        exclude_each_other(&path);
    }

    #[test]
    fn a_child_process_holds_what_it_is_told() {
        let Some(path) = std::env::var_os(TO_HOLD) else { return };
        let lock = open(Path::new(&path));
        assert!(lock.try_exclusive().unwrap());
        println!("\n{HELD}");
        // Until the other side is closed.
        io::stdin().read_line(&mut String::new()).unwrap();
    }

    #[test]
    fn another_process_excludes_is_named_and_its_death_frees() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("lock");
        let lock = open(&path);
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "fs::lock::tests::a_child_process_holds_what_it_is_told", "--nocapture"])
            .env(TO_HOLD, &path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut told = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(told.any(|line| line.unwrap() == HELD));
        assert!(!lock.try_exclusive().unwrap() && !lock.try_shared().unwrap());
        if cfg!(target_os = "linux") {
            let holder = lock.holder().unwrap();
            assert!(holder.starts_with(&format!("process {} (", child.id())), "{holder}");
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(lock.try_exclusive().unwrap());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_holder_is_named() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("lock");
        let (one, other) = (open(&path), open(&path));
        assert_eq!(other.holder(), None);
        assert!(one.try_exclusive().unwrap());
        assert_eq!(other.holder().as_deref(), Some("this process"));
        one.unlock().unwrap();
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_list_of_locks_is_read_with_care() {
        let list = "\
1: POSIX  ADVISORY  WRITE 1 08:01:77 0 EOF
2: FLOCK  ADVISORY  WRITE 0 08:01:77 0 EOF
3: FLOCK  ADVISORY  READ  2 08:01:78 0 EOF
4: FLOCK  ADVISORY  READ  3 fe:0a:77 0 EOF
4: -> FLOCK  ADVISORY  WRITE 4 08:01:77 0 EOF
5: FLOCK  ADVISORY  READ  5 08:01:77 0 EOF
6: FLOCK  ADVISORY  READ  6 08:01:77 0 EOF
7: FLOCK  ADVISORY
8: FLOCK  ADVISORY  READ  x zz:01:77 0 EOF
";
        let holder = |device, own| holder_in(list, device, 77, own);
        assert_eq!(holder((8, 1), 9), Some(5));
        assert_eq!(holder((8, 1), 5), Some(6), "another one before this process");
        assert_eq!(holder((0xfe, 10), 3), Some(3));
        assert_eq!(holder((0, 40), 9), Some(3), "a device that is not listed");
        assert_eq!(holder_in(list, (8, 1), 79, 9), None);
        assert_eq!(holder_in("", (8, 1), 77, 9), None);
    }
}
