//! A store that was closed: one of each kind of record, coding and segment.

use std::path::Path;
use std::time::SystemTime;

use taffrail::{Batch, CheckpointId, Checkpointer, Compression, HistoryQuery, Metadata, Parent, PutOptions, Store, TypeTag};

use crate::common::{at, id, states};

const UUID: &str = "0190a6c1-1b2c-7d3e-8f40-123456789abc";
const JSON: &str = " {\"z\": 1, \"a\": 18446744073709551617, \"a\": 1.0, \"s\": \"\\ud83d\"} ";

/// A text of some lines, of which each step has one more; odd ones say something else at the end as well.
fn grown(step: u64) -> String {
    let lines: String = (0..8 + step).map(|line| format!("{line}: {:x}\n", (line + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    if step % 2 == 1 { lines + &"on and on ".repeat(9) } else { lines }
}

/// One of each kind of record and coding, a compacted segment, one of its own for a large state, and a sealed one.
pub fn make(dir: &Path) {
    let options = || Store::options().auto_compaction(false).segment_bytes(64 * 1024);
    let store = options().max_history(4).open(dir).unwrap();
    let grow = |thread: &str, step: u64| {
        let options = at(70 + step).id(id(&format!("g{step}")));
        drop(store.put_bytes(thread, TypeTag::BYTES, grown(step).as_bytes(), options).unwrap());
    };
    // A delta whose base is deleted, and which compaction writes anew, whole.
    (0..4).for_each(|step| grow("promoted", step));
    assert!(store.delete_checkpoint("promoted", &id("g1")).unwrap());
    store.compact().unwrap();
    let metadata = Metadata::from_json("{\"step\": 1}").unwrap();
    let put =
        |thread: &str, text: &str, options: PutOptions| drop(store.put_bytes(thread, TypeTag::JSON, text.as_bytes(), options).unwrap());
    put("json", JSON, at(1).id(id(UUID)).metadata(metadata));
    put("json", "2", at(2).id(id("own")));
    put("json", "3", at(3).id(id("third")).parent(Parent::Root));
    put("json", "\"again\"", at(4).id(id("own")));
    (0..6).for_each(|step| put("trimmed", &step.to_string(), at(10 + step).id(id(&format!("s{step}")))));
    put("deleted", "1", at(20));
    assert!(store.delete("deleted").unwrap());
    put("less", "1", at(21).id(id("gone")));
    put("less", "2", at(22).id(id("kept")));
    assert!(store.delete_checkpoint("less", &id("gone")).unwrap());
    (0..3).for_each(|step| put("limited", &step.to_string(), at(30 + step)));
    store.retain(Some("limited"), Some(2)).unwrap();
    let mut batch = Batch::new();
    batch.put("batch \u{e9}\n", TypeTag::MSGPACK, b"\x93\x01\x02\x03", at(40).id(id("m")));
    batch.put("batch 2", TypeTag::new("own/tag").unwrap(), b"", at(41).id(id("e")));
    store.commit(&batch).unwrap();
    store.put_bytes("large", TypeTag::BYTES, &large(), at(50).id(id("large"))).unwrap();
    // Deltas, some of them packed; of seven the first three are hidden, for the fourth is made of them.
    (0..7).for_each(|step| grow("grown", step));
    assert!(store.delete_checkpoint("grown", &id("g5")).unwrap());
    let packing = options().compression(Compression::Always).open(dir).unwrap();
    packing.put_bytes("packed", TypeTag::BYTES, "again and ".repeat(30).as_bytes(), at(80).id(id("p"))).unwrap();
    put("last", "null", at(60).id(id("last")));
    drop(packing);
    store.close().unwrap();
}

fn large() -> Vec<u8> {
    (0..20_000u32).map(|at| ((at * at) >> 7) as u8).collect()
}

pub fn check(store: &Store) {
    let texts =
        |thread: &str| states(store, thread).into_iter().map(|(id, text)| (id, String::from_utf8(text).unwrap())).collect::<Vec<_>>();
    let pair = |id: &str, text: &str| (id.to_owned(), text.to_owned());
    assert_eq!(
        store.threads().unwrap(),
        ["batch 2", "batch \u{e9}\n", "grown", "json", "large", "last", "less", "limited", "packed", "promoted", "trimmed"]
    );
    let steps = |steps: &[u64]| steps.iter().map(|&step| (format!("g{step}"), grown(step))).collect::<Vec<_>>();
    assert_eq!(texts("grown"), steps(&[6, 4, 3]));
    assert_eq!(texts("promoted"), steps(&[3, 2, 0]));
    assert_eq!(texts("packed"), [pair("p", &"again and ".repeat(30))]);
    for (thread, expected) in [("grown", ["g5", "g3", "g2"]), ("promoted", ["g2", "g1", ""])] {
        let listed = store.list(thread, &HistoryQuery::default()).unwrap();
        let parents = listed.map(|info| info.unwrap().parent.map_or(String::new(), |parent| parent.to_string()));
        assert_eq!(parents.collect::<Vec<_>>(), expected, "{thread}");
    }
    assert_eq!(texts("json"), [pair("third", "3"), pair("own", "\"again\""), pair(UUID, JSON)]);
    let infos: Vec<_> = store.list("json", &HistoryQuery::default()).unwrap().map(Result::unwrap).collect();
    let parents: Vec<_> = infos.iter().map(|info| info.parent.as_ref().map(CheckpointId::as_str)).collect();
    assert_eq!(parents, [None, Some(UUID), None]);
    assert_eq!((infos[2].metadata.as_str(), infos[2].seq, infos[1].seq), ("{\"step\": 1}", 7, 8));
    let seconds = |at: usize| infos[at].saved_at.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    assert_eq!((seconds(0), seconds(1), seconds(2)), (3, 4, 1));
    assert_eq!(texts("trimmed"), [pair("s5", "5"), pair("s4", "4"), pair("s3", "3"), pair("s2", "2")]);
    assert_eq!(texts("less"), [pair("kept", "2")]);
    let limited: Vec<_> = texts("limited").into_iter().map(|(_, text)| text).collect();
    assert_eq!(limited, ["2", "1"]);
    let packed = store.get_bytes("batch \u{e9}\n").unwrap().unwrap();
    assert_eq!((&packed.tag, &*packed.state), (&TypeTag::MSGPACK, &b"\x93\x01\x02\x03"[..]));
    let empty = store.get_bytes("batch 2").unwrap().unwrap();
    assert_eq!((empty.tag.as_str(), empty.state.len()), ("own/tag", 0));
    assert!(*store.get_bytes("large").unwrap().unwrap().state == *large());
    assert_eq!(texts("last"), [pair("last", "null")]);
    let stats = store.stats().unwrap();
    assert_eq!((stats.threads, stats.checkpoints, stats.max_history), (11, 21, Some(4)));
}
