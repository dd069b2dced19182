//! A file system in memory that writes down all that is done to it, and fails on order.
//!
//! It stands in the place of the system's under the `fs` seam. A call that succeeds changes it at once, as
//! the page cache of a real one; what of that a crash leaves is for `disk` to say, from the record.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use crate::checkpoint::Region;
use crate::fs::page::{self, Heap, SharedPage};
use crate::fs::{File, Fs, Lock, Medium};

/// The bytes of a file.
pub(super) type Bytes = Arc<Vec<u8>>;

/// What a call has changed.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// A directory was made, which has no name yet.
    MakeDir(u64),
    /// Names of a directory: each leads to a file from now on, or to none.
    Names(Vec<(PathBuf, Option<u64>)>),
    /// Bytes of a file, from an offset on.
    Write { file: u64, offset: u64, bytes: Bytes },
    /// The length of a file, which gets shorter.
    Cut { file: u64, length: u64 },
    /// The shared page that is mapped from a file.
    Page { file: u64, bytes: Bytes },
    /// A file was synced.
    Sync { file: u64 },
    /// So many bytes of what was written to a file were given up by a sync that failed: a later one says
    /// nothing of them.
    FailedSync { file: u64 },
    /// A directory was synced.
    SyncDir(PathBuf),
    /// A number noted by who is at work.
    Mark(u64),
}

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Call {
    CreateDir,
    SyncDir,
    List,
    IsDir,
    Create,
    Open,
    Rename,
    Remove,
    OpenLock,
    TryLock,
    Unlock,
    Inode,
    MapPage,
    Length,
    Read,
    Write,
    Cut,
    Sync,
}

/// What happens at a call, counted from 0 on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fault {
    /// At which one.
    pub at: u64,
    /// At all that come after it, too.
    pub for_ever: bool,
    /// The system's number of the error.
    pub errno: i32,
    /// How many bytes of a write are written before it fails.
    pub short: usize,
}

/// The file system; clones are the same one.
#[derive(Clone)]
pub(super) struct Memory(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    clock: AtomicU64,
}

#[derive(Default)]
struct State {
    names: BTreeMap<PathBuf, u64>,
    nodes: HashMap<u64, Node>,
    next: u64,
    boot: [u8; 16],
    record: Vec<Change>,
    is_recording: bool,
    calls: Vec<(Call, PathBuf)>,
    fault: Option<Fault>,
    locks: HashMap<u64, Locked>,
}

enum Node {
    Dir,
    File(Bytes),
    Page(Arc<[AtomicU64; page::WORDS]>, Bytes),
}

/// Who has a lock: each opening of it is one.
#[derive(Default)]
struct Locked {
    exclusive: Option<u64>,
    shared: HashSet<u64>,
}

/// What lies on a disk: each name's file, by number, and each file's bytes; `None` is a directory.
#[derive(Clone, Debug, Default)]
pub(super) struct Image {
    /// The names.
    pub names: BTreeMap<PathBuf, u64>,
    /// The files.
    pub files: BTreeMap<u64, Option<Bytes>>,
}

const ROOT: u64 = 1;
/// Who goes on with a disk gives numbers from a multiple of this on: none that a file had which is gone.
const NUMBERS: u64 = 1 << 16;

impl Image {
    /// A disk without anything.
    pub fn empty() -> Image {
        Image { names: [(PathBuf::from("/"), ROOT)].into(), files: [(ROOT, None)].into() }
    }
}

impl Memory {
    /// One that holds what lies on a disk; `boot` tells which run of the system it is.
    pub fn of(image: &Image, boot: u8) -> Memory {
        let nodes = image.files.iter().map(|(file, bytes)| (*file, bytes.clone().map_or(Node::Dir, Node::File)));
        let next = (image.files.keys().next_back().copied().unwrap_or(ROOT) / NUMBERS + 1) * NUMBERS;
        let state = State { names: image.names.clone(), nodes: nodes.collect(), next, boot: [boot; 16], ..State::default() };
        Memory(Arc::new(Inner { state: Mutex::new(state), clock: AtomicU64::new(0) }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Begins to write down what changes.
    pub fn record(&self) {
        self.state().is_recording = true;
    }

    /// What has changed.
    pub fn recorded(&self) -> Vec<Change> {
        std::mem::take(&mut self.state().record)
    }

    /// Notes a number in the record.
    pub fn mark(&self, number: u64) {
        let mut state = self.state();
        state.note_pages();
        state.note(Change::Mark(number));
    }

    /// All calls that were made since the last time that this was asked, which are counted from here on.
    pub fn calls(&self) -> Vec<(Call, PathBuf)> {
        std::mem::take(&mut self.state().calls)
    }

    /// Has calls fail from now on, or no more.
    pub fn fail(&self, fault: Option<Fault>) {
        let mut state = self.state();
        state.calls.clear();
        state.fault = fault;
    }

    /// Whether the calls reached the fault.
    pub fn has_failed(&self) -> bool {
        let state = self.state();
        state.fault.is_some_and(|fault| state.calls.len() as u64 > fault.at)
    }

    /// Counts a call. Errors: as ordered.
    fn call(&self, call: Call, path: &Path) -> io::Result<MutexGuard<'_, State>> {
        self.call_partly(call, path, |_, _| {})
    }

    fn call_partly(&self, call: Call, path: &Path, partly: impl FnOnce(&mut State, Fault)) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.state();
        state.note_pages();
        let number = state.calls.len() as u64;
        state.calls.push((call, path.to_owned()));
        match state.fault {
            Some(fault) if number == fault.at || fault.for_ever && number > fault.at => {
                partly(&mut state, fault);
                Err(io::Error::from_raw_os_error(fault.errno))
            }
            _ => Ok(state),
        }
    }

    fn file(&self, file: u64, path: PathBuf) -> Arc<dyn File> {
        Arc::new(Open { memory: self.clone(), file, path })
    }
}

impl State {
    fn note(&mut self, change: Change) {
        if self.is_recording {
            self.record.push(change);
        }
    }

    /// Notes what was stored in pages since the last look.
    fn note_pages(&mut self) {
        if !self.is_recording {
            return;
        }
        for (&file, node) in &mut self.nodes {
            let Node::Page(words, noted) = node else { continue };
            if !is_as_noted(words, noted) {
                *noted = Arc::new(bytes_of(words));
                self.record.push(Change::Page { file, bytes: noted.clone() });
            }
        }
    }

    fn names(&mut self, names: Vec<(PathBuf, Option<u64>)>) {
        for (path, file) in &names {
            match file {
                Some(file) => drop(self.names.insert(path.clone(), *file)),
                None => drop(self.names.remove(path)),
            }
        }
        self.note(Change::Names(names));
    }

    fn make(&mut self, path: PathBuf, node: Node) -> io::Result<u64> {
        if self.names.contains_key(&path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let is_in_dir =
            path.parent().and_then(|parent| self.names.get(parent)).is_some_and(|parent| matches!(self.nodes[parent], Node::Dir));
        if !is_in_dir {
            return Err(io::ErrorKind::NotFound.into());
        }
        let file = self.next;
        self.next += 1;
        if let Node::Dir = node {
            self.note(Change::MakeDir(file));
        }
        self.nodes.insert(file, node);
        self.names(vec![(path, Some(file))]);
        Ok(file)
    }

    fn find(&self, path: &Path) -> io::Result<u64> {
        self.names.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn length(&self, file: u64) -> u64 {
        match &self.nodes[&file] {
            Node::Dir => 0,
            Node::File(bytes) => bytes.len() as u64,
            Node::Page(..) => page::BYTES as u64,
        }
    }

    fn write(&mut self, file: u64, offset: u64, bytes: Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        match self.nodes.get_mut(&file) {
            Some(Node::File(there)) => write_to(there, offset, &bytes),
            Some(Node::Page(words, _)) => {
                let mut page = Arc::new(bytes_of(words));
                write_to(&mut page, offset, &bytes);
                page.chunks_exact(8).zip(&**words).for_each(|(bytes, word)| word.store(word_of(bytes), SeqCst));
            }
            _ => {}
        }
        self.note(Change::Write { file, offset, bytes: Arc::new(bytes) });
    }
}

/// Writes to a file's bytes, which may get more by that.
pub(super) fn write_to(there: &mut Bytes, offset: u64, bytes: &[u8]) {
    let there = Arc::make_mut(there);
    let (from, to) = (offset as usize, offset as usize + bytes.len());
    there.resize(there.len().max(to), 0);
    there[from..to].copy_from_slice(bytes);
}

fn word_of(bytes: &[u8]) -> u64 {
    u64::from_ne_bytes(std::array::from_fn(|at| bytes[at]))
}

fn bytes_of(words: &[AtomicU64; page::WORDS]) -> Vec<u8> {
    words.iter().flat_map(|word| word.load(SeqCst).to_ne_bytes()).collect()
}

fn is_as_noted(words: &[AtomicU64; page::WORDS], noted: &[u8]) -> bool {
    words.iter().zip(noted.chunks_exact(8)).all(|(word, bytes)| word.load(SeqCst) == word_of(bytes))
}

/// The path without its dots.
fn plain(path: &Path) -> PathBuf {
    path.components().collect()
}

impl Fs for Memory {
    fn create_dir(&self, path: &Path, _: u32) -> io::Result<()> {
        self.call(Call::CreateDir, path)?.make(plain(path), Node::Dir).map(drop)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.call(Call::SyncDir, path)?;
        state.find(&plain(path))?;
        state.note(Change::SyncDir(plain(path)));
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        let (state, path) = (self.call(Call::List, path)?, plain(path));
        state.find(&path)?;
        let inside = state.names.keys().filter(|name| name.parent() == Some(&path));
        Ok(inside.filter_map(|name| name.file_name()).map(OsString::from).collect())
    }

    fn is_dir(&self, path: &Path) -> io::Result<Option<bool>> {
        let state = self.call(Call::IsDir, path)?;
        Ok(state.find(&plain(path)).ok().map(|file| matches!(state.nodes[&file], Node::Dir)))
    }

    fn lies_in(&self, path: &Path, dir: &Path) -> io::Result<bool> {
        Ok(plain(path).starts_with(plain(dir)))
    }

    fn create(&self, path: &Path, _: u32) -> io::Result<Arc<dyn File>> {
        let file = self.call(Call::Create, path)?.make(plain(path), Node::File(Bytes::default()))?;
        Ok(self.file(file, path.to_owned()))
    }

    fn open(&self, path: &Path, _: bool) -> io::Result<Arc<dyn File>> {
        let file = self.call(Call::Open, path)?.find(&plain(path))?;
        Ok(self.file(file, path.to_owned()))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.call(Call::Rename, from)?;
        let (from, to) = (plain(from), plain(to));
        let file = state.find(&from)?;
        state.names(vec![(to, Some(file)), (from, None)]);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.call(Call::Remove, path)?;
        state.find(&plain(path))?;
        state.names(vec![(plain(path), None)]);
        Ok(())
    }

    fn lock_file(&self, path: &Path, _: u32) -> io::Result<Arc<dyn Lock>> {
        let mut state = self.call(Call::OpenLock, path)?;
        let file = match state.find(&plain(path)) {
            Ok(file) => file,
            Err(_) if path.ends_with(".") || path.to_string_lossy().ends_with("/.") => return Err(io::ErrorKind::NotFound.into()),
            Err(_) => state.make(plain(path), Node::File(Bytes::default()))?,
        };
        state.next += 1;
        let id = state.next;
        drop(state);
        Ok(Arc::new(OpenLock { memory: self.clone(), path: path.to_owned(), file, id }))
    }

    fn medium(&self, _: &Path) -> io::Result<Medium> {
        Ok(Medium::Local)
    }

    fn map_page(&self, path: &Path, _: bool) -> io::Result<SharedPage> {
        let mut state = self.call(Call::MapPage, path)?;
        let inode = state.find(&plain(path))?;
        if let Some(Node::File(bytes)) = state.nodes.get(&inode) {
            if bytes.len() != page::BYTES {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the shared page's file has the wrong length"));
            }
            let (words, noted) = (Heap::zeros(), bytes.clone());
            noted.chunks_exact(8).zip(&*words).for_each(|(bytes, word)| word.store(word_of(bytes), SeqCst));
            state.nodes.insert(inode, Node::Page(words, noted));
        }
        let Some(Node::Page(words, _)) = state.nodes.get(&inode) else { return Err(io::ErrorKind::InvalidInput.into()) };
        let words = words.clone();
        let inner = Arc::downgrade(&self.0);
        let watch = Arc::new(move || {
            if let Some(inner) = inner.upgrade() {
                Memory(inner).state().note_pages();
            }
        });
        Ok(SharedPage::of_heap(Heap { words, inode, watch: Some(watch) }))
    }

    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_000 + self.0.clock.fetch_add(1, SeqCst))
    }

    fn boot(&self) -> [u8; 16] {
        self.state().boot
    }

    fn random(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        let number = self.0.clock.fetch_add(1, SeqCst) << 8 | u64::from(self.state().boot[0]);
        bytes.copy_from_slice(&crate::testing::states::noise(number, 16));
        bytes
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Memory")
    }
}

#[derive(Debug)]
struct Open {
    memory: Memory,
    file: u64,
    path: PathBuf,
}

impl File for Open {
    fn len(&self) -> io::Result<u64> {
        Ok(self.memory.call(Call::Length, &self.path)?.length(self.file))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let state = self.memory.call(Call::Read, &self.path)?;
        let page;
        let bytes = match &state.nodes[&self.file] {
            Node::Dir => return Err(io::ErrorKind::IsADirectory.into()),
            Node::File(bytes) => &bytes[..],
            Node::Page(words, _) => {
                page = bytes_of(words);
                &page[..]
            }
        };
        let from = bytes.len().min(usize::try_from(offset).unwrap_or(usize::MAX));
        let length = buffer.len().min(bytes.len() - from);
        buffer[..length].copy_from_slice(&bytes[from..from + length]);
        Ok(length)
    }

    fn write_at(&self, parts: &[&[u8]], offset: u64) -> io::Result<()> {
        let bytes = parts.concat();
        let partly = |state: &mut State, fault: Fault| state.write(self.file, offset, bytes[..fault.short.min(bytes.len())].to_vec());
        let mut state = self.memory.call_partly(Call::Write, &self.path, partly)?;
        state.write(self.file, offset, bytes.clone());
        Ok(())
    }

    fn cut(&self, length: u64) -> io::Result<()> {
        let mut state = self.memory.call(Call::Cut, &self.path)?;
        if let Some(Node::File(bytes)) = state.nodes.get_mut(&self.file) {
            Arc::make_mut(bytes).resize(length as usize, 0);
        }
        state.note(Change::Cut { file: self.file, length });
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let lost = |state: &mut State, _| state.note(Change::FailedSync { file: self.file });
        self.memory.call_partly(Call::Sync, &self.path, lost)?.note(Change::Sync { file: self.file });
        Ok(())
    }

    fn map(&self, _: u64) -> io::Result<Arc<dyn Region>> {
        // What is in use is not what is written down of it: stores are opened without maps here.
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[derive(Debug)]
struct OpenLock {
    memory: Memory,
    path: PathBuf,
    file: u64,
    id: u64,
}

impl Lock for OpenLock {
    fn try_exclusive(&self) -> io::Result<bool> {
        let mut state = self.memory.call(Call::TryLock, &self.path)?;
        let locked = state.locks.entry(self.file).or_default();
        let is_free = locked.exclusive.is_none_or(|id| id == self.id) && locked.shared.iter().all(|id| *id == self.id);
        if is_free {
            (locked.exclusive, locked.shared) = (Some(self.id), HashSet::new());
        }
        Ok(is_free)
    }

    fn try_shared(&self) -> io::Result<bool> {
        let mut state = self.memory.call(Call::TryLock, &self.path)?;
        let locked = state.locks.entry(self.file).or_default();
        let is_free = locked.exclusive.is_none_or(|id| id == self.id);
        if is_free {
            locked.exclusive = None;
            locked.shared.insert(self.id);
        }
        Ok(is_free)
    }

    fn unlock(&self) -> io::Result<()> {
        drop(self.memory.call(Call::Unlock, &self.path)?);
        self.give_up();
        Ok(())
    }

    fn inode(&self) -> io::Result<u64> {
        drop(self.memory.call(Call::Inode, &self.path)?);
        Ok(self.file)
    }

    fn holder(&self) -> Option<String> {
        None
    }
}

impl OpenLock {
    fn give_up(&self) {
        if let Some(locked) = self.memory.state().locks.get_mut(&self.file) {
            locked.shared.remove(&self.id);
            locked.exclusive = locked.exclusive.filter(|id| *id != self.id);
        }
    }
}

impl Drop for OpenLock {
    fn drop(&mut self) {
        self.give_up();
    }
}
