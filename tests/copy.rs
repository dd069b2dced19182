//! `taffrail::copy` between all places: everything goes along, once, and what cannot is told by name.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, SystemTime};

use taffrail::carry::{Carried, Event, LeftWhat};
use taffrail::prelude::*;
use taffrail::{
    Attachment, Batch, Capabilities, Checkpoint, CheckpointInfo, Committed, Error, ErrorKind, FileCheckpointer, HistoryQuery, Items,
    MemoryCheckpointer, Metadata, OnExisting, Operation, Parent, PutOptions, Result, StateBytes, Store, ThreadInfo, ThreadQuery, TypeTag,
};

fn id(text: impl AsRef<str>) -> CheckpointId {
    CheckpointId::new(text).unwrap()
}

fn options(own: &str) -> PutOptions {
    PutOptions::default().id(id(own))
}

/// A place that keeps all.
fn memory() -> MemoryCheckpointer {
    MemoryCheckpointer::with_max_history(None).unwrap()
}

/// Copies and answers what was left behind, by name and reason.
fn copied(source: &dyn Checkpointer, dest: &dyn Checkpointer) -> (Carried, Vec<String>) {
    let mut left = Vec::new();
    let carried = taffrail::copy(source, dest, &mut |event| left.extend(told(event)));
    (carried.unwrap(), left)
}

fn told(event: Event<'_>) -> Option<String> {
    let Event::Left(left) = event else { return None };
    let key = if let LeftWhat::Attachment(key) = left.what { key } else { "" };
    Some(format!("{:?} {:?} {key} {:?}", left.thread.unwrap_or(""), left.id.unwrap_or(""), left.error.kind()))
}

/// All that a place shows, numbers aside.
fn shown(place: &dyn Checkpointer) -> Vec<String> {
    let mut lines = Vec::new();
    for thread in place.threads().unwrap() {
        for step in place.history_bytes(&thread, &HistoryQuery::default()).unwrap() {
            let step = step.unwrap();
            let info = &step.info;
            lines.push(format!(
                "{thread:?} {} {:?} {:?} {} {} {:?}",
                info.id,
                info.parent,
                info.saved_at,
                info.metadata.as_str(),
                info.tag,
                StateBytes::clone(&step.state).iter().fold(step.state.len() as u64, |sum, &byte| sum.wrapping_mul(31) + u64::from(byte))
            ));
            for attachment in place.attachments(&thread, &info.id).unwrap_or_default() {
                lines.push(format!("  {} {} {:?}", attachment.key, attachment.tag, &attachment.value[..]));
            }
        }
    }
    lines
}

fn ids(place: &dyn Checkpointer, thread: &str) -> String {
    let newest_first = place.list(thread, &HistoryQuery::default()).unwrap();
    let mut ids: Vec<_> = newest_first.map(|info| info.unwrap().id.to_string()).collect();
    ids.reverse();
    ids.join(" ")
}

fn put(place: &dyn Checkpointer, thread: &str, ids: &str) {
    ids.split_whitespace().for_each(|own| drop(place.put_with(thread, &own, options(own)).unwrap()));
}

/// One of each thing that a checkpoint can have.
fn tell_a_story(place: &dyn Checkpointer) {
    let at = |nanos: u64| SystemTime::UNIX_EPOCH + Duration::from_nanos(nanos);
    for thread in ["t", "a\nb", "é/..", "\"q\" "] {
        let named =
            options("one").metadata(Metadata::from_json("{ \"who\": \"é\", \"n\": 1.0}").unwrap()).saved_at(at(1_700_000_000_123_456_789));
        place.put_bytes(thread, TypeTag::JSON, b" {\"n\":1.0,\"n\":12345678901234567890}\n", named).unwrap();
        place.put_bytes(thread, TypeTag::MSGPACK, b"\x00\xff", options("two")).unwrap();
        place.put_bytes(thread, TypeTag::new("my own").unwrap(), b"", options("three").parent(Parent::Id(id("one")))).unwrap();
        place.put_bytes(thread, TypeTag::JSON, "\"é\"".as_bytes(), options("four").parent(Parent::Root).saved_at(at(0))).unwrap();
        place.put_bytes(thread, TypeTag::BYTES, &vec![7; 300_000], PutOptions::default()).unwrap();
        if place.capabilities().attachments {
            place.attach(thread, &id("two"), "b", TypeTag::BYTES, b"\xff", OnExisting::Keep).unwrap();
            place.attach(thread, &id("two"), "a", TypeTag::JSON, b"{\"x\":1.0}", OnExisting::Keep).unwrap();
        }
    }
}

#[test]
fn everything_goes_along_between_all_places_and_a_second_time_adds_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = |name: String| scratch.path().join(name);
    for (number, (from, to)) in (0..3).flat_map(|from| (0..3).map(move |to| (from, to))).enumerate() {
        let open = |kind: i32, name: &str| -> Box<dyn Checkpointer> {
            match kind {
                0 => Box::new(MemoryCheckpointer::new()),
                1 => Box::new(FileCheckpointer::open(dir(format!("{name}-{number}"))).unwrap()),
                _ => Box::new(Store::open(dir(format!("{name}-{number}"))).unwrap()),
            }
        };
        let (source, dest) = (open(from, "from"), open(to, "to"));
        tell_a_story(&source);
        let both = source.capabilities().attachments && dest.capabilities().attachments;
        let (first, left) = copied(&source, &dest);
        assert_eq!((first.put, first.skipped(), first.refused), (20, 0, 0), "{from} to {to}");
        assert_eq!(first.attached, if both { 8 } else { 0 });
        assert_eq!(first.attachments_left as usize, left.len());
        let without = |lines: Vec<String>| lines.into_iter().filter(|line| both || !line.starts_with("  ")).collect::<Vec<_>>();
        assert_eq!(without(shown(&dest)), without(shown(&source)), "{from} to {to}");
        let (second, _) = copied(&source, &dest);
        assert_eq!((second.put, second.present, second.attached), (0, 20, 0));
        assert_eq!(without(shown(&dest)), without(shown(&source)));
        source.put_with("t", &1, options("new")).unwrap();
        let (third, _) = copied(&source, &dest);
        assert_eq!((third.put, third.present), (1, 20));
        assert_eq!(ids(&dest, "t"), ids(&source, "t"));
    }
}

#[test]
fn a_fork_is_copied_as_any_thread_is() {
    let scratch = tempfile::tempdir().unwrap();
    let source = FileCheckpointer::open(scratch.path().join("from")).unwrap();
    tell_a_story(&source);
    source.fork("t", Some(&id("three")), "fork").unwrap();
    source.rename("a\nb", "renamed").unwrap();
    source.rollback("é/..", &id("two")).unwrap();
    source.put_with("é/..", &1, options("three")).unwrap();
    let dest = Store::open(scratch.path().join("to")).unwrap();
    for put in [20 + 3 - 2, 0] {
        let (carried, left) = copied(&source, &dest);
        assert_eq!((carried.put, carried.refused, left.len()), (put, 0, 0));
        assert_eq!(shown(&dest), shown(&source));
    }
    // It goes on there, and what is new is copied.
    source.put_with("fork", &2, options("own")).unwrap();
    assert_eq!(copied(&source, &dest).0.put, 1);
    // A thread that was rolled back and put to anew has a story of its own.
    source.rollback("fork", &id("two")).unwrap();
    source.put_with("fork", &3, options("other")).unwrap();
    let (carried, left) = copied(&source, &dest);
    assert_eq!((carried.put, left.len()), (0, 1), "{left:?}");
    assert_eq!(ids(&dest, "fork"), "one two three own");
}

type Before<'a> = dyn Fn(&MemoryCheckpointer, &Batch<'_>) -> Result<()> + Send + Sync + 'a;

/// A place in memory that others come in the way of.
struct Between<'a> {
    place: MemoryCheckpointer,
    capabilities: Capabilities,
    /// What is done before each commit and each retain, which does not come about where it fails.
    before: Box<Before<'a>>,
    /// What is done before the checkpoints of a thread are read, and before they are listed.
    before_reads: Box<dyn Fn(&str) + Send + Sync + 'a>,
    before_lists: Box<dyn Fn(&str) + Send + Sync + 'a>,
    /// From this id on none can be read, for that reason.
    fails_from: Option<(&'static str, ErrorKind)>,
    /// What is made of a checkpoint that is read.
    reads: fn(&mut Checkpoint<StateBytes>),
    /// What is made of attachments that are read.
    reads_attachments: fn(&mut Vec<Attachment>),
}

impl<'a> Between<'a> {
    fn new(place: MemoryCheckpointer) -> Self {
        let capabilities = place.capabilities();
        Between {
            place,
            capabilities,
            before: Box::new(|_, _| Ok(())),
            before_reads: Box::new(|_| {}),
            before_lists: Box::new(|_| {}),
            fails_from: None,
            reads: |_| {},
            reads_attachments: |_| {},
        }
    }

    fn before(self, before: impl Fn(&MemoryCheckpointer, &Batch<'_>) -> Result<()> + Send + Sync + 'a) -> Self {
        Between { before: Box::new(before), ..self }
    }

    fn before_reads(self, before_reads: impl Fn(&str) + Send + Sync + 'a) -> Self {
        Between { before_reads: Box::new(before_reads), ..self }
    }

    fn before_lists(self, before_lists: impl Fn(&str) + Send + Sync + 'a) -> Self {
        Between { before_lists: Box::new(before_lists), ..self }
    }
}

fn fail(from: Option<(&str, ErrorKind)>, id: &CheckpointId) -> Result<()> {
    match from {
        Some((from, kind)) if id.as_str() >= from => Err(Error::new(kind, "the source fails")),
        _ => Ok(()),
    }
}

impl Checkpointer for Between<'_> {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }
    fn commit(&self, batch: &Batch<'_>) -> Result<Vec<Committed>> {
        (self.before)(&self.place, batch)?;
        self.place.commit(batch)
    }
    fn get_bytes(&self, thread: &str) -> Result<Option<Checkpoint<StateBytes>>> {
        self.place.get_bytes(thread)
    }
    fn load_bytes(&self, thread: &str, id: &CheckpointId) -> Result<Option<Checkpoint<StateBytes>>> {
        fail(self.fails_from, id)?;
        self.place.load_bytes(thread, id)
    }
    fn history_bytes(&self, thread: &str, query: &HistoryQuery) -> Result<Items<Checkpoint<StateBytes>>> {
        (self.before_reads)(thread);
        let (reads, from) = (self.reads, self.fails_from);
        let read = move |step: Result<Checkpoint<StateBytes>>| {
            let mut step = step?;
            fail(from, &step.info.id)?;
            reads(&mut step);
            Ok(step)
        };
        Ok(Box::new(self.place.history_bytes(thread, query)?.map(read)))
    }
    fn list(&self, thread: &str, query: &HistoryQuery) -> Result<Items<CheckpointInfo>> {
        (self.before_lists)(thread);
        self.place.list(thread, query)
    }
    fn list_threads(&self, query: &ThreadQuery) -> Result<Items<ThreadInfo>> {
        self.place.list_threads(query)
    }
    fn attachments(&self, thread: &str, id: &CheckpointId) -> Result<Vec<Attachment>> {
        let mut attachments = self.place.attachments(thread, id)?;
        (self.reads_attachments)(&mut attachments);
        Ok(attachments)
    }
    fn retain(&self, thread: Option<&str>, keep: Option<usize>) -> Result<()> {
        (self.before)(&self.place, &Batch::new())?;
        self.place.retain(thread, keep)
    }
    fn max_history(&self, thread: Option<&str>) -> Result<Option<usize>> {
        self.place.max_history(thread)
    }
}

#[test]
fn what_is_read_back_otherwise_is_an_error() {
    let source = memory();
    tell_a_story(&source);
    let changes: [fn(&mut Checkpoint<StateBytes>); 5] = [
        |step| {
            if step.info.id.as_str() == "two" {
                step.state = StateBytes::from(b"\x00\xfe".to_vec());
            }
        },
        |step| step.info.tag = TypeTag::BYTES,
        |step| step.info.metadata = Metadata::default(),
        |step| step.info.parent = None,
        |step| step.info.saved_at += Duration::from_millis(1),
    ];
    for reads in changes {
        let dest = Between { reads, ..Between::new(memory()) };
        let error = taffrail::copy(&source, &dest, &mut |_| {}).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.thread().is_some() && error.to_string().contains("checkpoint "), "{error}");
    }
    // A place may keep times less finely.
    let coarse = Between { reads: |step| step.info.saved_at += Duration::from_nanos(999_999), ..Between::new(memory()) };
    assert_eq!(copied(&source, &coarse).0.put, 20);
    for reads_attachments in
        [|all: &mut Vec<Attachment>| all.truncate(1), |all: &mut Vec<Attachment>| all.iter_mut().for_each(|one| one.tag = TypeTag::BYTES)]
    {
        let dest = Between { reads_attachments, ..Between::new(memory()) };
        let error = taffrail::copy(&source, &dest, &mut |_| {}).unwrap_err();
        assert!(error.kind() == ErrorKind::Conflict && error.to_string().contains("attachment"), "{error}");
    }
}

/// A state of the source that is damaged costs itself alone, and is told.
#[test]
fn what_is_damaged_in_the_source_stays_behind_and_all_else_is_copied() {
    let scratch = tempfile::tempdir().unwrap();
    let source = FileCheckpointer::open(scratch.path().join("files")).unwrap();
    for thread in ["t", "u"] {
        "a b c d".split(' ').for_each(|own| drop(source.put_with(thread, &format!("{thread} is at {own}"), options(own)).unwrap()));
    }
    let mut files = files_below(&scratch.path().join("files"));
    files.retain(|file| std::fs::read_to_string(file).is_ok_and(|text| text.contains("t is at b")));
    let [file] = &files[..] else { panic!("{files:?}") };
    std::fs::write(file, std::fs::read_to_string(file).unwrap().replace("t is at b", "t is at z")).unwrap();
    let dest = memory();
    let mut left = Vec::new();
    let error = taffrail::copy(&source, &dest, &mut |event| left.extend(told(event))).unwrap_err();
    assert_eq!(left, [r#""t" "b"  Corrupt"#]);
    assert!(error.kind() == ErrorKind::Corrupt, "{error}");
    assert!(error.to_string().contains("1 of the source's checkpoints are damaged and stay behind; 7 are there"), "{error}");
    assert_eq!((ids(&dest, "t").as_str(), ids(&dest, "u").as_str()), ("a c d", "a b c d"));
    assert_eq!(dest.load_bytes("t", &id("c")).unwrap().unwrap().info.parent, None, "it cannot name what is not there");
    // Where newer ones are there it could not be put any more.
    let (again, left) = copied(&source, &dest);
    assert_eq!((again.put, again.present, again.too_old, left.len()), (0, 7, 1, 0));
}

/// Ten states of that size are read ahead: what cannot be read among them is tried together once, not once for each.
#[test]
fn what_is_damaged_is_read_ahead_of_no_more_than_once() {
    let asked = AtomicUsize::new(0);
    let source = Between { fails_from: Some(("s150", ErrorKind::Corrupt)), ..Between::new(long(false)) };
    let source = source.before_reads(|_| _ = asked.fetch_add(1, Ordering::SeqCst));
    let dest = memory();
    let (carried, begun, done) = counted(&source, &dest);
    assert!(carried.unwrap_err().to_string().contains("50 of the source's checkpoints"));
    assert_eq!((dest.list("z", &HistoryQuery::default()).unwrap().count(), begun, done), (150, 200, 200));
    assert!(asked.load(Ordering::SeqCst) <= 25, "{} readings of ten", asked.load(Ordering::SeqCst));
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let entries: Vec<PathBuf> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.into_iter().flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

#[test]
fn a_place_without_attachments_leaves_them_behind_by_name() {
    let source = memory();
    put(&source, "t", "a b");
    for key in ["k1", "k2"] {
        source.attach("t", &id("a"), key, TypeTag::JSON, b"1", OnExisting::Keep).unwrap();
    }
    let mut dest = Between::new(memory());
    dest.capabilities.attachments = false;
    for (put, present) in [(2, 0), (0, 2)] {
        let (carried, left) = copied(&source, &dest);
        assert_eq!((carried.put, carried.present, carried.attached, carried.attachments_left, carried.refused), (put, present, 0, 2, 0));
        assert_eq!(left, [r#""t" "a" k1 Unsupported"#, r#""t" "a" k2 Unsupported"#]);
    }
}

#[test]
fn what_was_attached_since_is_attached_and_what_is_there_stays() {
    let (source, dest) = (memory(), memory());
    put(&source, "t", "a");
    copied(&source, &dest);
    source.attach("t", &id("a"), "new", TypeTag::JSON, b"1", OnExisting::Keep).unwrap();
    source.attach("t", &id("a"), "own", TypeTag::JSON, b"1", OnExisting::Keep).unwrap();
    dest.attach("t", &id("a"), "own", TypeTag::JSON, b"2", OnExisting::Keep).unwrap();
    assert_eq!(copied(&source, &dest).0.attached, 1);
    assert_eq!(copied(&source, &dest).0.attached, 0);
    let attached: Vec<_> = dest.attachments("t", &id("a")).unwrap().into_iter().map(|one| (one.key, one.value.into_vec())).collect();
    assert_eq!(attached, [("new".to_owned(), b"1".to_vec()), ("own".to_owned(), b"2".to_vec())]);
}

#[test]
fn a_number_that_is_kept_goes_along_to_a_place_without_threads() {
    let source = MemoryCheckpointer::with_max_history(7).unwrap();
    put(&source, "t", "a b c");
    put(&source, "few", "a b c d");
    source.retain(Some("few"), Some(2)).unwrap();
    let many: Vec<String> = (0..300).map(|number| format!("s{number}")).collect();
    put(&source, "many", "x");
    source.retain(Some("many"), None).unwrap();
    put(&source, "many", &many.join(" "));
    let scratch = tempfile::tempdir().unwrap();
    let store = Store::open(scratch.path().join("runs")).unwrap();
    for dest in [&memory() as &dyn Checkpointer, &store] {
        assert_eq!(copied(&source, dest).0.put, 3 + 2 + 301);
        assert_eq!(
            [None, Some("t"), Some("few"), Some("many")].map(|thread| dest.max_history(thread).unwrap()),
            [Some(7), Some(7), Some(2), None]
        );
        assert_eq!((ids(dest, "few"), ids(dest, "many")), ("c d".to_owned(), format!("x {}", many.join(" "))));
        assert_eq!(copied(&source, dest).0.put, 0);
    }
    let used = MemoryCheckpointer::with_max_history(2).unwrap();
    put(&used, "mine", "1 2");
    let (carried, left) = copied(&source, &used);
    assert_eq!((carried.put, carried.too_old, carried.begun_anew, left.len()), (2 + 2 + 301, 1, 2, 0), "a thread's first has no parent");
    assert_eq!((used.max_history(None).unwrap(), ids(&used, "t").as_str(), ids(&used, "mine").as_str()), (Some(2), "b c", "1 2"));
    assert_eq!(copied(&source, &used).0.put, 0);
}

/// A number that was lowered in the source since, or is another one in the destination, takes nothing from what is there.
#[test]
fn a_number_takes_nothing_from_what_is_there() {
    let (source, dest) = (memory(), memory());
    put(&source, "t", "a b c d e");
    put(&source, "own", "a b c");
    put(&source, "other", "a b c");
    copied(&source, &dest);
    source.retain(Some("t"), Some(2)).unwrap();
    source.retain(Some("own"), Some(2)).unwrap();
    dest.retain(Some("own"), Some(9)).unwrap();
    put(&dest, "other", "mine");
    source.retain(Some("other"), Some(3)).unwrap();
    put(&source, "t", "f");
    copied(&source, &dest);
    assert_eq!(["t", "own", "other"].map(|thread| ids(&dest, thread)), ["a b c d e", "a b c", "a b c mine"]);
    assert_eq!(["t", "own", "other"].map(|thread| dest.max_history(Some(thread)).unwrap()), [None, Some(9), None]);
}

/// Ended before each of its writes, once and then done again: the numbers are there, and all that they keep.
#[test]
fn wherever_it_is_ended_the_numbers_come_before_what_they_keep() {
    let source = MemoryCheckpointer::with_max_history(7).unwrap();
    put(&source, "few", "a b c d");
    source.retain(Some("few"), Some(2)).unwrap();
    put(&source, "many", "x");
    source.retain(Some("many"), None).unwrap();
    put(&source, "many", &(0..100).map(|number| format!("s{number} ")).collect::<String>());
    put(&source, "t", "a b c");
    let numbers =
        |place: &MemoryCheckpointer| [None, Some("few"), Some("many"), Some("t")].map(|thread| place.max_history(thread).unwrap());
    for ended in 0.. {
        let place = MemoryCheckpointer::new();
        let left = AtomicUsize::new(ended);
        let dest = Between::new(place.clone()).before(|_, _| {
            let none = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err();
            if none { Err(Error::new(ErrorKind::Io, "the plug was pulled")) } else { Ok(()) }
        });
        let whole = taffrail::copy(&source, &dest, &mut |_| {}).is_ok();
        for thread in place.threads().unwrap() {
            assert!(ids(&source, &thread).starts_with(&ids(&place, &thread)), "{ended}: {thread}");
        }
        copied(&source, &place);
        let all = |place: &MemoryCheckpointer| ["few", "many", "t"].map(|thread| ids(place, thread));
        assert_eq!((all(&place), numbers(&place)), (all(&source), numbers(&source)), "ended before write {ended}");
        if whole {
            // The place's number, two batches for each thread with its own and that number, one for the rest.
            assert_eq!(ended, 1 + 2 + 2 + 2);
            break;
        }
    }
}

#[test]
fn a_thread_with_a_story_of_its_own_is_left_behind_by_name() {
    let (source, dest) = (memory(), memory());
    put(&source, "t", "a b c");
    put(&source, "u", "a b c");
    put(&source, "v", "a b c d");
    put(&dest, "t", "a mine");
    put(&dest, "u", "b a");
    put(&dest, "v", "a c");
    let (carried, left) = copied(&source, &dest);
    assert_eq!((carried.put, carried.present, carried.too_old, carried.diverged), (1, 2 + 1 + 2, 1, 2 + 1));
    assert_eq!(left, [r#""t" ""  Conflict"#, r#""u" ""  Conflict"#]);
    assert_eq!(["t", "u", "v"].map(|thread| ids(&dest, thread)), ["a mine", "b a", "a c d"]);
}

#[test]
fn what_is_refused_costs_itself_alone() {
    let source = memory();
    put(&source, "s", "a b");
    for (own, bytes) in [("a", 10), ("large", 5_000), ("c", 10)] {
        source.put_bytes("t", TypeTag::BYTES, &vec![1; bytes], options(own)).unwrap();
    }
    source.attach("t", &id("large"), "k", TypeTag::JSON, b"1", OnExisting::Keep).unwrap();
    source.attach("t", &id("c"), "k", TypeTag::BYTES, &[1; 5_000], OnExisting::Keep).unwrap();
    source.attach("t", &id("c"), "l", TypeTag::BYTES, &[1; 5], OnExisting::Keep).unwrap();
    put(&source, "u", "a b");
    let small = |_: &MemoryCheckpointer, batch: &Batch<'_>| batch.check(1_000);
    let dest = Between::new(memory()).before(small);
    let (carried, left) = copied(&source, &dest);
    assert_eq!((carried.put, carried.refused, carried.attached, carried.attachments_left), (6, 1, 1, 2));
    assert_eq!(left, [r#""t" "large"  TooLarge"#, r#""t" "large" k TooLarge"#, r#""t" "c" k TooLarge"#]);
    assert_eq!((ids(&dest, "t").as_str(), carried.begun_anew), ("a c", 1));
    assert_eq!(dest.head("t").unwrap().unwrap().parent, None, "its parent was refused");
    let (again, _) = copied(&source, &dest);
    assert_eq!((again.put, again.present, again.too_old), (0, 6, 1), "it would have to go in front now");
    let store_dir = tempfile::tempdir().unwrap();
    let store = Store::options().max_state_bytes(1_000).open(store_dir.path().join("runs")).unwrap();
    assert_eq!((copied(&source, &store).0.refused, ids(&store, "t").as_str()), (1, "a c"));
}

fn thread_of<'a>(operation: &Operation<'a>) -> &'a str {
    match operation {
        Operation::Put { thread, .. } => thread,
        other => panic!("{other:?}"),
    }
}

/// 30 threads of 1 MB, and one of 20 MB: each batch has at most 8 MiB.
fn large() -> MemoryCheckpointer {
    let source = memory();
    let state = vec![5; 100_000];
    let put = |thread: &str, own: String| drop(source.put_bytes(thread, TypeTag::BYTES, &state, options(&own)).unwrap());
    for thread in 0..30 {
        (0..10).for_each(|step| put(&format!("t{thread:02}"), format!("s{step}")));
    }
    (0..200).for_each(|step| put("z", format!("s{step:03}")));
    source
}

/// Small threads share a batch; one that fits into a batch is in one; of one that does not its beginning stands.
#[test]
fn a_thread_goes_whole_where_it_fits_and_else_its_beginning_stands() {
    let source = large();
    let commits = AtomicUsize::new(0);
    let count = |_: &MemoryCheckpointer, batch: &Batch<'_>| {
        commits.fetch_add(1, Ordering::Relaxed);
        let bytes: usize =
            batch.operations().iter().map(|each| if let Operation::Put { state, .. } = each { state.len() } else { 0 }).sum();
        assert!(bytes <= 8 << 20, "{bytes}");
        Ok(())
    };
    assert_eq!(copied(&source, &Between::new(memory()).before(count)).0.put, 500);
    let all = commits.into_inner();
    assert!((7..12).contains(&all), "{all} batches for 50 MB");
    for ended in 0..all {
        let place = memory();
        let left = AtomicUsize::new(ended);
        let dest = Between::new(place.clone()).before(|_, _| {
            let none = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err();
            if none { Err(Error::new(ErrorKind::Io, "the plug was pulled")) } else { Ok(()) }
        });
        assert_eq!(taffrail::copy(&source, &dest, &mut |_| {}).unwrap_err().kind(), ErrorKind::Io);
        for thread in place.threads().unwrap() {
            let (there, whole) = (ids(&place, &thread), ids(&source, &thread));
            assert!(there == whole || thread == "z" && whole.starts_with(&there), "{thread}: {there}");
        }
        let before = place.list_threads(&ThreadQuery::default()).unwrap().map(|info| info.unwrap().checkpoints).sum::<u64>();
        let (carried, left) = copied(&source, &place);
        assert_eq!((carried.put, carried.present, left.len()), (500 - before, before, 0));
        assert_eq!(shown(&place), shown(&source));
    }
}

#[test]
fn a_batch_is_committed_while_the_next_one_is_read_and_never_two_at_once() {
    let (read, is_read) = channel();
    let source = Between::new(large()).before_reads(move |thread| drop(read.send(thread.to_owned())));
    let (is_read, inside) = (Mutex::new(is_read), AtomicUsize::new(0));
    let dest = Between::new(memory()).before(|_, batch| {
        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two commits at once");
        let newest = batch.operations().last().map(thread_of).unwrap();
        // Behind these 8 threads the batch was full when the first of the next was read; who waits for it reads no further.
        if newest < "t27" {
            let further = format!("t{:02}", newest[1..].parse::<u32>().unwrap() + 3);
            let is_read = is_read.lock().unwrap();
            while is_read.recv_timeout(Duration::from_secs(60)).expect("the next batch is read meanwhile") < further {}
        }
        std::thread::sleep(Duration::from_millis(5));
        inside.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    });
    assert_eq!(copied(&source, &dest).0.put, 500);
    assert_eq!(shown(&dest), shown(&source));
}

#[test]
fn what_breaks_in_a_commit_comes_out_of_the_copy() {
    let source = large();
    let place = memory();
    let dest = Between::new(place.clone()).before(|place, _| match place.threads()?.len() {
        0..10 => Ok(()),
        _ => panic!("a place that panics"),
    });
    let broken = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| taffrail::copy(&source, &dest, &mut |_| {})));
    assert_eq!(broken.unwrap_err().downcast_ref::<&str>(), Some(&"a place that panics"));
    let (there, left) = (place.list_threads(&ThreadQuery::default()).unwrap().count(), copied(&source, &place).1);
    assert!((10..30).contains(&there) && left.is_empty(), "{there} {left:?}");
    assert_eq!(shown(&place), shown(&source));
}

/// A thread of 20 MB, which is three batches; each begins anew where it has `no_parents`.
fn long(no_parents: bool) -> MemoryCheckpointer {
    let (source, state) = (memory(), vec![5; 100_000]);
    for step in 0..200 {
        let parent = if no_parents { Parent::Root } else { Parent::Head };
        source.put_bytes("z", TypeTag::BYTES, &state, options(&format!("s{step:03}")).parent(parent)).unwrap();
    }
    source
}

/// Copies, and counts what is told: as begun and as done.
fn counted(source: &dyn Checkpointer, dest: &dyn Checkpointer) -> (Result<Carried>, u64, u64) {
    let (mut begun, mut done) = (0, 0);
    let carried = taffrail::copy(source, dest, &mut |event| match event {
        Event::Begun { checkpoints } => begun += checkpoints,
        Event::Done { checkpoints } => done += checkpoints,
        _ => {}
    });
    (carried, begun, done)
}

/// What another copy of the same put first is found only when the batch behind it is full already: that one is not
/// committed any more, however slow either side is.
#[test]
fn what_is_read_on_of_a_thread_that_was_moved_is_dropped() {
    let source = long(false);
    for (commit, read) in [(0, 0), (100, 0), (0, 20)].map(|(commit, read)| (Duration::from_millis(commit), Duration::from_millis(read))) {
        let slow = Between::new(source.clone()).before_reads(move |_| std::thread::sleep(read));
        let commits = AtomicUsize::new(0);
        let dest = Between::new(memory()).before(|place, _| {
            std::thread::sleep(commit);
            if commits.fetch_add(1, Ordering::SeqCst) == 0 {
                let first = source.load_bytes("z", &id("s000"))?.unwrap();
                let options = options("s000").metadata(first.info.metadata).saved_at(first.info.saved_at);
                place.put_bytes("z", first.info.tag, &first.state, options)?;
            }
            Ok(())
        });
        let (carried, begun, done) = counted(&slow, &dest);
        let carried = carried.unwrap();
        assert_eq!((carried.put, carried.present, begun, done), (199, 1, 200, 200));
        assert_eq!(shown(&dest), shown(&source));
    }
}

/// A stranger is in the thread when the first batch comes, and gone, or the disk is, when the second would: what is
/// there of a thread is its beginning, and no error is lost.
#[test]
fn what_stands_behind_a_batch_that_was_refused_is_not_put() {
    let source = long(true);
    for answer in [None, Some(ErrorKind::Io)] {
        let (place, commits) = (memory(), AtomicUsize::new(0));
        let dest = Between::new(place.clone()).before(|place, _| match (commits.fetch_add(1, Ordering::SeqCst), answer) {
            (0, _) => place.put_with("z", &0, options("x")).map(drop),
            (1, None) => place.delete("z").map(drop),
            (1, Some(kind)) => Err(Error::new(kind, "the disk is gone")),
            _ => Ok(()),
        });
        let (carried, begun, done) = counted(&source, &dest);
        // The stranger is met before a second batch, so that there is none.
        assert_eq!((carried.unwrap().diverged, begun, done), (200, 200, 200));
        assert_eq!((ids(&place, "z").as_str(), commits.load(Ordering::SeqCst)), ("x", 1));
    }
}

#[test]
fn two_copies_at_once_of_a_long_thread_are_one() {
    let source = long(false);
    for _ in 0..10 {
        let scratch = tempfile::tempdir().unwrap();
        let store = Store::options().max_history(None).open(scratch.path().join("runs")).unwrap();
        let put: u64 = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..2).map(|_| scope.spawn(|| counted(&source, &store))).collect();
            let carried = workers.into_iter().map(|worker| worker.join().unwrap());
            carried.inspect(|(_, begun, done)| assert_eq!(begun, done)).map(|(carried, ..)| carried.unwrap().put).sum()
        });
        assert_eq!(put, 200);
        assert_eq!(shown(&store), shown(&source));
    }
}

/// The ids of threads that add nothing are not all held until a batch is full.
#[test]
fn threads_that_are_there_wait_for_no_batch() {
    let (source, dest) = (memory(), memory());
    put(&source, "a", "a");
    for thread in 0..20_000 {
        [&source, &dest].into_iter().for_each(|place| put(place, &format!("t{thread:05}"), "a"));
    }
    let read = AtomicUsize::new(0);
    let (mut done, mut held) = (0, 0);
    let source = Between::new(source).before_lists(|_| _ = read.fetch_add(1, Ordering::SeqCst));
    let carried = taffrail::copy(&source, &dest, &mut |event| {
        if let Event::Done { checkpoints } = event {
            held = held.max(read.load(Ordering::SeqCst) - done);
            done += checkpoints as usize;
        }
    });
    assert_eq!((carried.unwrap().present, done), (20_000, 20_001));
    assert!(held < 10_000, "{held} threads are held at once");
}

/// The source fails while the batch under way breaks: the panic is the place's own, an error the source's.
#[test]
fn a_source_that_fails_waits_for_what_is_under_way() {
    let source = Between { fails_from: Some(("s150", ErrorKind::Io)), ..Between::new(long(false)) };
    let dest = Between::new(memory()).before(|_, _| panic!("the place breaks"));
    let broken = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| taffrail::copy(&source, &dest, &mut |_| {})));
    assert_eq!(broken.unwrap_err().downcast_ref::<&str>(), Some(&"the place breaks"));
    let place = memory();
    let error = taffrail::copy(&source, &place, &mut |_| {}).unwrap_err();
    assert!(error.kind() == ErrorKind::Io && error.to_string().contains("the source fails"), "{error}");
    assert_eq!(place.list_threads(&ThreadQuery::default()).unwrap().next().unwrap().unwrap().checkpoints, 83, "one batch");
}

const NO_WORKERS: &str = "TAFFRAIL_TEST_NO_WORKERS";

#[test]
fn where_the_system_has_no_worker_the_batches_are_committed_all_the_same() {
    if std::env::var_os(NO_WORKERS).is_some() {
        let (source, dest) = (large(), memory());
        assert!(std::thread::Builder::new().spawn(|| {}).is_err(), "a stack as large as that cannot be had");
        assert_eq!(copied(&source, &dest).0.put, 500);
        assert_eq!(shown(&dest), shown(&source));
        return;
    }
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    let name = "where_the_system_has_no_worker_the_batches_are_committed_all_the_same";
    let output = command.args(["--exact", name, "--test-threads=1"]).env(NO_WORKERS, "1").env("RUST_MIN_STACK", (1u64 << 46).to_string());
    let output = output.output().unwrap();
    assert!(output.status.success() && String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{output:?}");
}

/// Another copy of the same puts the next checkpoint of a long thread before each batch that goes on with it.
#[test]
fn who_goes_on_with_a_long_thread_beside_it_is_met_without_doubles() {
    let source = large();
    let dest = Between::new(memory()).before(|place, batch| {
        let there = place.list("z", &HistoryQuery::default())?.count();
        if (1..150).contains(&there) && thread_of(&batch.operations()[0]) == "z" {
            let next = source.load_bytes("z", &id(format!("s{there:03}")))?.unwrap();
            let options = options(next.info.id.as_str()).metadata(next.info.metadata).saved_at(next.info.saved_at);
            place.put_bytes("z", next.info.tag, &next.state, options)?;
        }
        Ok(())
    });
    let (carried, left) = copied(&source, &dest);
    assert!(carried.present > 0 && carried.put + carried.present == 500 && left.is_empty(), "{carried:?} {left:?}");
    assert_eq!(shown(&dest), shown(&source));
}

#[test]
fn who_writes_beside_it_is_met_without_doubles() {
    let source = memory();
    put(&source, "t", "a b c d e");
    put(&source, "u", "a b");
    // Another copy of the same is half way, each time that this one commits.
    let beside = Mutex::new(vec!["c", "b", "a"]);
    let dest = Between::new(memory()).before(|place, _| {
        if let Some(own) = beside.lock().unwrap().pop() {
            put(place, "t", own);
        }
        Ok(())
    });
    let (carried, left) = copied(&source, &dest);
    assert_eq!((carried.put, carried.present, left.len()), (4, 3, 0));
    assert_eq!((ids(&dest, "t").as_str(), ids(&dest, "u").as_str()), ("a b c d e", "a b"));
    // One that tells another story makes it a thread of its own.
    let strangers = Mutex::new(vec!["mine"]);
    let dest = Between::new(memory()).before(|place, _| {
        strangers.lock().unwrap().pop().into_iter().for_each(|own| put(place, "t", own));
        Ok(())
    });
    let (carried, left) = copied(&source, &dest);
    assert_eq!((carried.put, carried.diverged, left.as_slice()), (2, 5, &[r#""t" ""  Conflict"#.to_owned()][..]));
    // One that never lets it through is a conflict.
    let number = AtomicUsize::new(0);
    let dest = Between::new(memory()).before(|place, _| {
        let number = number.fetch_add(1, Ordering::Relaxed);
        place.delete("t")?;
        if number.is_multiple_of(2) { place.put_with("t", &1, options("a")).map(drop) } else { Ok(()) }
    });
    assert_eq!(taffrail::copy(&source, &dest, &mut |_| {}).unwrap_err().kind(), ErrorKind::Conflict);
}

#[test]
fn two_copies_at_once_are_one() {
    let source = MemoryCheckpointer::new();
    for thread in 0..20 {
        (0..40).for_each(|step| drop(source.put_with(&format!("t{thread}"), &vec![step; 50], options(&format!("s{step}"))).unwrap()));
    }
    for _ in 0..10 {
        let scratch = tempfile::tempdir().unwrap();
        let store = Store::open(scratch.path().join("runs")).unwrap();
        let put: u64 = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..3).map(|_| scope.spawn(|| copied(&source, &store).0)).collect();
            let carried = workers.into_iter().map(|worker| worker.join().unwrap());
            carried.inspect(|carried| assert_eq!(carried.put + carried.skipped(), 800)).map(|carried| carried.put).sum()
        });
        assert_eq!(put, 800);
        assert_eq!(shown(&store), shown(&source));
        assert_eq!(store.stats().unwrap().dead_bytes, 0, "nothing was put twice");
    }
}

#[test]
fn a_place_is_not_copied_to_itself() {
    let place = memory();
    put(&place, "t", "a");
    assert_eq!(taffrail::copy(&place, &place, &mut |_| {}).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(copied(&place, &place.clone()).0.present, 1, "another handle of it has all there is");
}

#[test]
fn how_far_it_is_is_told() {
    let (source, dest) = (memory(), memory());
    put(&source, "t", "a b c");
    put(&source, "u", "a b c");
    put(&dest, "t", "a");
    put(&dest, "u", "x");
    let (mut begun, mut done) = (0, 0);
    let mut hear = |event: Event<'_>| match event {
        Event::Begun { checkpoints } => begun += checkpoints,
        Event::Done { checkpoints } => done += checkpoints,
        _ => {}
    };
    taffrail::copy(&source, &dest, &mut hear).unwrap();
    assert_eq!((begun, done), (6, 6));
}
