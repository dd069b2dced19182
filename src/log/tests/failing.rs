//! A file layer that fails, stops, dies or waits on order: at the nth operation of a kind, once or for
//! ever, before or after the operation is done.
//!
//! Everything else goes to the real one. Counts every operation, so that a test can walk through
//! them all, and every sync and byte read, so that it can say which were made.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, waitpid};

use super::Scratch;
use crate::checkpoint::Region;
use crate::fs::os::Os;
use crate::fs::page::SharedPage;
use crate::fs::{File, Fs, Lock, Medium};

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    CreateDir,
    SyncDir,
    List,
    Create,
    Open,
    Rename,
    Remove,
    /// Opening what is to be locked.
    Lock,
    /// Taking the lock, exclusively or shared.
    TryLock,
    Unlock,
    Inode,
    MapPage,
    Length,
    Read,
    Write,
    Cut,
    Sync,
    Map,
}

/// What happens at an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// It answers this error.
    Fail(Errno),
    /// The process stops until it is continued from outside.
    Stop,
    /// The process is killed.
    Kill,
    /// The call is blocked until `Failing::resume`.
    Pause,
    /// The worker panics.
    Panic,
}

/// When it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// The operation is not done yet; if `Action::Fail` is what happens, it never is.
    Before,
    /// The operation is done, and its caller does not know yet.
    After,
}

/// At which operations what happens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fault {
    /// From which operation on, counted from when the fault was set.
    pub from: u64,
    /// Only of this kind; `None` for all.
    pub kind: Option<Kind>,
    /// Only on paths that have this in them; `None` for all.
    pub only: Option<&'static str>,
    /// Only that one, or all from there on.
    pub once: bool,
    pub action: Action,
    pub moment: Moment,
    /// How many bytes of a write are already written `Before` it.
    pub short: usize,
}

impl Fault {
    /// Operations that fail instead of being done.
    pub fn fail(from: u64, kind: impl Into<Option<Kind>>, once: bool, errno: Errno, short: usize) -> Fault {
        Fault { from, kind: kind.into(), only: None, once, action: Action::Fail(errno), moment: Moment::Before, short }
    }

    /// The first operation of a kind, once.
    pub fn once(kind: Kind, action: Action, moment: Moment) -> Fault {
        Fault { from: 0, kind: Some(kind), only: None, once: true, action, moment, short: 0 }
    }

    /// The error it answers, if that is what it does.
    pub fn errno(&self) -> Option<Errno> {
        if let Action::Fail(errno) = self.action { Some(errno) } else { None }
    }
}

/// At most so long a call is blocked, and a test waits for one to be: longer is a test that hangs.
const BLOCKED_MAX: Duration = Duration::from_secs(60);
const PAUSED_MAX: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
struct Orders {
    fault: Option<Fault>,
    seen: u64,
    failed: Vec<(Kind, PathBuf)>,
    /// How many calls are blocked, and how often blocked ones were let go.
    blocked: u64,
    resumed: u64,
    clock: Option<SystemTime>,
    boot: Option<[u8; 16]>,
    random: Option<[u8; 16]>,
    medium: Option<Medium>,
}

/// The layer; clones share their orders.
#[derive(Clone, Debug, Default)]
pub(super) struct Failing {
    orders: Arc<(Mutex<Orders>, Condvar)>,
    pub syncs: Arc<AtomicU64>,
    pub bytes_read: Arc<AtomicU64>,
}

impl Failing {
    fn orders(&self) -> MutexGuard<'_, Orders> {
        self.orders.0.lock().unwrap()
    }

    /// From now on this happens; `None` for nothing. Counting begins anew; what is blocked stays so.
    pub fn set(&self, fault: Option<Fault>) {
        let mut orders = self.orders();
        (orders.fault, orders.seen) = (fault, 0);
        orders.failed.clear();
    }

    /// What met the fault since it was set.
    pub fn failed(&self) -> Vec<(Kind, PathBuf)> {
        self.orders().failed.clone()
    }

    pub fn set_clock(&self, now: SystemTime) {
        self.orders().clock = Some(now);
    }

    /// Says from now on that the system was started anew.
    pub fn set_boot(&self, boot: [u8; 16]) {
        self.orders().boot = Some(boot);
    }

    /// Gives these random bytes from now on.
    pub fn set_random(&self, random: [u8; 16]) {
        self.orders().random = Some(random);
    }

    /// Says from now on that everything is on such a file system.
    pub fn set_medium(&self, medium: Medium) {
        self.orders().medium = Some(medium);
    }

    /// Waits until a call is blocked in `Action::Pause`.
    pub fn paused(&self) {
        let waited = self.orders.1.wait_timeout_while(self.orders(), PAUSED_MAX, |orders| orders.blocked == 0).unwrap();
        assert!(!waited.1.timed_out(), "no call was blocked within {PAUSED_MAX:?}");
    }

    /// Whether a call is blocked now.
    pub fn is_paused(&self) -> bool {
        self.orders().blocked > 0
    }

    /// Lets all blocked calls go on; those that come later are blocked again if the fault says so.
    pub fn resume(&self) {
        let mut orders = self.orders();
        (orders.blocked, orders.resumed) = (0, orders.resumed + 1);
        self.orders.1.notify_all();
    }

    fn block(&self) {
        let mut orders = self.orders();
        orders.blocked += 1;
        self.orders.1.notify_all();
        let since = orders.resumed;
        let waited = self.orders.1.wait_timeout_while(orders, BLOCKED_MAX, |orders| orders.resumed == since).unwrap();
        let timed_out = waited.1.timed_out();
        // A panic must not take the orders with it.
        drop(waited);
        assert!(!timed_out, "a call was blocked for {BLOCKED_MAX:?}");
    }

    /// Counts an operation; what it meets, if anything.
    fn meets(&self, kind: Kind, path: &Path) -> Option<Fault> {
        let mut orders = self.orders();
        let fault = orders.fault?;
        let other_path = fault.only.is_some_and(|only| !path.to_string_lossy().contains(only));
        if other_path || fault.kind.is_some_and(|only| only != kind) {
            return None;
        }
        let number = orders.seen;
        orders.seen += 1;
        if number < fault.from || fault.once && number > fault.from {
            return None;
        }
        orders.failed.push((kind, path.to_owned()));
        Some(fault)
    }

    fn act(&self, action: Action) -> io::Result<()> {
        match action {
            Action::Fail(errno) => return Err(errno.into()),
            Action::Stop => signal_this_process(Signal::STOP),
            Action::Kill => signal_this_process(Signal::KILL),
            Action::Pause => self.block(),
            Action::Panic => panic!("a panic on order"),
        }
        Ok(())
    }

    fn run<T>(&self, kind: Kind, path: &Path, operation: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        self.run_after(kind, path, |_| Ok(()), operation)
    }

    /// Does an operation with what it meets; `partly` has been done when that comes before it.
    fn run_after<T>(
        &self,
        kind: Kind,
        path: &Path,
        partly: impl FnOnce(Fault) -> io::Result<()>,
        operation: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let Some(fault) = self.meets(kind, path) else { return operation() };
        if fault.moment == Moment::Before {
            partly(fault)?;
            self.act(fault.action)?;
            return operation();
        }
        let answer = operation();
        self.act(fault.action)?;
        answer
    }

    fn wrap(&self, file: Arc<dyn File>, path: &Path) -> Arc<dyn File> {
        Arc::new(FailingFile { file, path: path.to_owned(), layer: self.clone() })
    }
}

/// Returns from `Signal::STOP` when the process is continued, from `Signal::KILL` never.
fn signal_this_process(signal: Signal) {
    kill_process(getpid(), signal).unwrap();
    // Another worker may be the one that takes the signal: then this one must not run on until it has.
    std::thread::sleep(if signal == Signal::KILL { BLOCKED_MAX } else { Duration::from_millis(50) });
}

impl Fs for Failing {
    fn create_dir(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.run(Kind::CreateDir, path, || Os.create_dir(path, mode))
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.run(Kind::SyncDir, path, || Os.sync_dir(path))
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        self.run(Kind::List, path, || Os.list(path))
    }

    fn is_dir(&self, path: &Path) -> io::Result<Option<bool>> {
        Os.is_dir(path)
    }

    fn lies_in(&self, path: &Path, dir: &Path) -> io::Result<bool> {
        Os.lies_in(path, dir)
    }

    fn create(&self, path: &Path, mode: u32) -> io::Result<Arc<dyn File>> {
        self.run(Kind::Create, path, || Ok(self.wrap(Os.create(path, mode)?, path)))
    }

    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn File>> {
        self.run(Kind::Open, path, || Ok(self.wrap(Os.open(path, write)?, path)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.run(Kind::Rename, from, || Os.rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.run(Kind::Remove, path, || Os.remove(path))
    }

    fn lock_file(&self, path: &Path, mode: u32) -> io::Result<Arc<dyn Lock>> {
        self.run(Kind::Lock, path, || {
            let lock = Os.lock_file(path, mode)?;
            Ok(Arc::new(FailingLock { lock, path: path.to_owned(), layer: self.clone() }) as Arc<dyn Lock>)
        })
    }

    fn medium(&self, path: &Path) -> io::Result<Medium> {
        let medium = self.orders().medium.clone();
        medium.map_or_else(|| Os.medium(path), Ok)
    }

    fn map_page(&self, path: &Path, write: bool) -> io::Result<SharedPage> {
        self.run(Kind::MapPage, path, || Os.map_page(path, write))
    }

    fn now(&self) -> SystemTime {
        self.orders().clock.unwrap_or_else(|| Os.now())
    }

    fn boot(&self) -> [u8; 16] {
        self.orders().boot.unwrap_or_else(|| Os.boot())
    }

    fn random(&self) -> [u8; 16] {
        self.orders().random.unwrap_or_else(|| Os.random())
    }
}

#[derive(Debug)]
struct FailingFile {
    file: Arc<dyn File>,
    path: PathBuf,
    layer: Failing,
}

impl File for FailingFile {
    fn len(&self) -> io::Result<u64> {
        self.layer.run(Kind::Length, &self.path, || self.file.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let read = self.layer.run(Kind::Read, &self.path, || self.file.read_at(buffer, offset))?;
        self.layer.bytes_read.fetch_add(read as u64, SeqCst);
        Ok(read)
    }

    fn write_at(&self, parts: &[&[u8]], offset: u64) -> io::Result<()> {
        let partly = |fault: Fault| {
            let whole = parts.concat();
            self.file.write_at(&[&whole[..fault.short.min(whole.len())]], offset)
        };
        self.layer.run_after(Kind::Write, &self.path, partly, || self.file.write_at(parts, offset))
    }

    fn cut(&self, length: u64) -> io::Result<()> {
        self.layer.run(Kind::Cut, &self.path, || self.file.cut(length))
    }

    fn sync(&self) -> io::Result<()> {
        self.layer.syncs.fetch_add(1, SeqCst);
        self.layer.run(Kind::Sync, &self.path, || self.file.sync())
    }

    fn map(&self, length: u64) -> io::Result<Arc<dyn Region>> {
        self.layer.run(Kind::Map, &self.path, || self.file.map(length))
    }
}

#[derive(Debug)]
struct FailingLock {
    lock: Arc<dyn Lock>,
    path: PathBuf,
    layer: Failing,
}

impl Lock for FailingLock {
    fn try_exclusive(&self) -> io::Result<bool> {
        self.layer.run(Kind::TryLock, &self.path, || self.lock.try_exclusive())
    }

    fn try_shared(&self) -> io::Result<bool> {
        self.layer.run(Kind::TryLock, &self.path, || self.lock.try_shared())
    }

    fn unlock(&self) -> io::Result<()> {
        self.layer.run(Kind::Unlock, &self.path, || self.lock.unlock())
    }

    fn inode(&self) -> io::Result<u64> {
        self.layer.run(Kind::Inode, &self.path, || self.lock.inode())
    }

    fn holder(&self) -> Option<String> {
        self.lock.holder()
    }
}

#[test]
fn an_operation_is_done_or_not_as_the_moment_says() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    let dir = scratch.0.path();
    let fail = Action::Fail(Errno::IO);
    for (moment, done) in [(Moment::Before, false), (Moment::After, true)] {
        let path = dir.join(format!("{moment:?}"));
        layer.set(Some(Fault { only: Some("fore"), ..Fault::once(Kind::Create, fail, moment) }));
        drop(layer.create(&dir.join(format!("other {done}")), 0o600).unwrap());
        layer.set(Some(Fault::once(Kind::Create, fail, moment)));
        assert!(layer.create(&path, 0o600).is_err());
        assert_eq!(path.exists(), done);
        layer.set(None);
        let lock = layer.lock_file(dir, 0).unwrap();
        let beside = layer.lock_file(dir, 0).unwrap();
        layer.set(Some(Fault::once(Kind::TryLock, fail, moment)));
        assert!(lock.try_shared().is_err());
        assert_eq!(beside.try_exclusive().unwrap(), !done);
        beside.unlock().unwrap();
        assert!(lock.try_shared().unwrap());
        layer.set(Some(Fault::once(Kind::Unlock, fail, moment)));
        assert!(lock.unlock().is_err());
        assert_eq!(beside.try_exclusive().unwrap(), done);
        lock.unlock().unwrap();
        assert_eq!(layer.failed(), [(Kind::Unlock, dir.to_owned())]);
    }
}

#[test]
fn a_paused_call_is_blocked_until_it_is_resumed() {
    let (scratch, layer) = (Scratch::new(), Failing::default());
    for (moment, done) in [(Moment::Before, false), (Moment::After, true)] {
        let path = scratch.0.path().join(format!("{moment:?}"));
        layer.set(Some(Fault { once: false, ..Fault::once(Kind::CreateDir, Action::Pause, moment) }));
        std::thread::scope(|scope| {
            let one = scope.spawn(|| layer.create_dir(&path, 0o700));
            layer.paused();
            assert_eq!((path.exists(), one.is_finished()), (done, false));
            layer.resume();
            one.join().unwrap().unwrap();
            let other = scope.spawn(|| layer.create_dir(&path, 0o700));
            layer.paused();
            layer.resume();
            assert_eq!(other.join().unwrap().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        });
    }
}

/// Tells a child process, which runs one of these tests, where it is to work and what happens there.
const WORK: [&str; 2] = ["TAFFRAIL_TEST_WORK", "TAFFRAIL_TEST_WORK_FAULT"];

/// What happens in the child.
const FATES: [(&str, Action, Moment, usize); 4] = [
    ("killed before", Action::Kill, Moment::Before, 3),
    ("killed after", Action::Kill, Moment::After, 8),
    ("stopped before", Action::Stop, Moment::Before, 3),
    ("stopped after", Action::Stop, Moment::After, 8),
];

#[test]
fn a_child_process_works_in_a_directory() {
    let [Some(dir), Some(fate)] = WORK.map(std::env::var_os) else { return };
    let (_, action, moment, _) = FATES.into_iter().find(|(name, ..)| fate == *name).unwrap();
    let layer = Failing::default();
    let file = layer.create(&Path::new(&dir).join("file"), 0o600).unwrap();
    // The test runs beside the main worker: the signal is for all of them.
    layer.set(Some(Fault { short: 3, ..Fault::once(Kind::Write, action, moment) }));
    file.write_at(&[b"eight", b"tes"], 0).unwrap();
    layer.create(&Path::new(&dir).join("went on"), 0o600).unwrap();
}

#[test]
fn a_process_stops_or_dies_in_the_middle_of_a_write() {
    for (fate, action, _, written) in FATES {
        let scratch = Scratch::new();
        let dir = scratch.0.path();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "log::tests::failing::a_child_process_works_in_a_directory"])
            .envs([(WORK[0], dir.as_os_str()), (WORK[1], fate.as_ref())])
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let pid = Pid::from_child(&child);
        if action == Action::Stop {
            let (_, told) = waitpid(Some(pid), WaitOptions::UNTRACED).unwrap().unwrap();
            assert!(told.stopped(), "{fate}");
            // Longer than it would take to go on.
            std::thread::sleep(Duration::from_millis(100));
        }
        let status = (action == Action::Kill).then(|| child.wait().unwrap());
        assert_eq!(std::fs::read(dir.join("file")).unwrap().len(), written, "{fate}");
        assert!(!dir.join("went on").exists(), "{fate}");
        if let Some(status) = status {
            assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(Signal::KILL.as_raw()), "{fate}");
        } else {
            kill_process(pid, Signal::CONT).unwrap();
            assert!(child.wait().as_ref().is_ok_and(ExitStatus::success), "{fate}");
            assert!(dir.join("went on").exists(), "{fate}");
        }
    }
}
