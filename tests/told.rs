//! What a store tells by `tracing`, heard by a subscriber of our own.
#![cfg(feature = "tracing")]

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use taffrail::prelude::*;
use taffrail::{Batch, Durability, OnExisting, PutOptions, TypeTag};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// An event: its level, and its fields as text.
#[derive(Clone, Debug, Default)]
struct Heard {
    level: Option<Level>,
    fields: BTreeMap<&'static str, String>,
}

impl Heard {
    fn number(&self, field: &str) -> u64 {
        self.fields[field].parse().unwrap()
    }
}

impl Visit for Heard {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.fields.insert(field.name(), format!("{value:?}"));
    }
}

static HEARD: Mutex<Vec<Heard>> = Mutex::new(Vec::new());

struct Ear;

impl Subscriber for Ear {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "taffrail"
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        panic!("events alone are told")
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut heard = Heard { level: Some(*event.metadata().level()), ..Heard::default() };
        event.record(&mut heard);
        heard_so_far().push(heard);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn heard_so_far() -> MutexGuard<'static, Vec<Heard>> {
    HEARD.lock().unwrap()
}

/// The events since the last call, those of one message, oldest first.
fn heard(message: &str) -> Vec<Heard> {
    let mut all = std::mem::take(&mut *heard_so_far());
    all.retain(|heard| heard.fields["message"] == message);
    all
}

fn only(message: &str, level: Level) -> Heard {
    let mut all = heard(message);
    assert_eq!((all.len(), all[0].level), (1, Some(level)), "{message}: {all:?}");
    all[0].number("took_us");
    all.remove(0)
}

/// One test, for a process has one subscriber.
#[test]
fn opening_committing_syncing_compacting_and_recovering_are_told() {
    tracing::subscriber::set_global_default(Ear).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("runs");
    let options = || Store::options().segment_bytes(64 * 1024).auto_compaction(false);
    let store = options().open(&dir).unwrap();
    let opened = only("opened", Level::INFO);
    assert_eq!((opened.fields["dir"].as_str(), opened.fields["read_only"].as_str()), (dir.to_str().unwrap(), "false"));

    let mut batch = Batch::new();
    let id = CheckpointId::fresh();
    batch.put("secret thread", TypeTag::BYTES, &[7; 1000], PutOptions::default().id(id.clone()));
    batch.attach("secret thread", id, "secret key", TypeTag::BYTES, b"secret", OnExisting::Keep).delete("nobody", None);
    store.commit(&batch).unwrap();
    let all = heard_so_far().clone();
    assert!(!format!("{all:?}").contains("secret"), "{all:?}");
    let synced = &all.iter().find(|heard| heard.fields["message"] == "synced").unwrap();
    assert!((1000..3000).contains(&synced.number("bytes")) && synced.level == Some(Level::DEBUG), "{synced:?}");
    let committed = only("committed", Level::DEBUG);
    assert_eq!((committed.number("operations"), committed.number("bytes")), (3, 1006));

    store.put_with("t", &1, PutOptions::default().durability(Durability::Buffered)).unwrap();
    assert!(heard("synced").is_empty(), "a buffered put syncs nothing");
    store.sync().unwrap();
    only("synced", Level::DEBUG);
    assert!(store.commit(&batch).is_ok() && store.put("", &1).is_err() && store.commit(&Batch::new()).is_ok());
    assert_eq!(heard("committed").iter().map(|heard| heard.number("operations")).collect::<Vec<_>>(), [3, 0]);

    for step in 0..20_u8 {
        let state: Vec<u8> = (0..10_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 7) as u8 ^ step.wrapping_mul(37)).collect();
        store.put_bytes("large", TypeTag::BYTES, &state, PutOptions::default()).unwrap();
    }
    store.delete("large").unwrap();
    heard("");
    let done = store.compact().unwrap();
    let compacted = heard("compacted");
    let sum = |field: &str| compacted.iter().map(|heard| heard.number(field)).sum::<u64>();
    assert!(done.segments > 0 && compacted.iter().all(|heard| heard.level == Some(Level::INFO)));
    assert_eq!((sum("segments"), sum("bytes")), (done.segments, done.bytes));

    store.close().unwrap();
    heard("");
    drop(options().open(&dir).unwrap());
    let all = heard_so_far().clone();
    assert_eq!(all.iter().map(|heard| heard.fields["message"].as_str()).collect::<Vec<_>>(), ["recovered", "opened"]);
    let recovered = only("recovered", Level::INFO);
    assert_eq!((recovered.number("torn_bytes"), recovered.fields["fresh_segment"].as_str()), (0, "false"));

    // Damage below what is proven to be synced.
    let mut segments: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.retain(|path| path.extension().is_some_and(|end| end == "seg" || end == "hint"));
    for path in segments {
        if path.extension().unwrap() == "hint" {
            std::fs::remove_file(path).unwrap();
        } else {
            let mut bytes = std::fs::read(&path).unwrap();
            // The head of its first frame, where it has one.
            bytes.iter_mut().skip(80).take(1).for_each(|byte| *byte ^= 1);
            std::fs::write(&path, bytes).unwrap();
        }
    }
    drop(options().open(&dir).unwrap());
    let warned = only("recovered, with damage", Level::WARN);
    assert!(warned.number("damage") > 0, "{warned:?}");
    drop(Store::options().read_only(true).open(&dir).unwrap());
    assert_eq!(only("opened", Level::INFO).fields["read_only"], "true");
}
