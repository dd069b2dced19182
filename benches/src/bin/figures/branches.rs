//! What a fork costs beside writing as many bytes, and what a page of a long list of threads costs.

use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use taffrail::{Batch, Checkpointer, Durability, Matching, PutOptions, Store, ThreadQuery, TypeTag};
use taffrail_benches::device::Device;
use taffrail_benches::noise::Noise;
use taffrail_benches::traces::Growing;
use taffrail_benches::{Outcome, touch};

use crate::Settings;
use crate::table::{self, Summary, Wanted, spread};

const STEPS: usize = 50;
const STATE_BYTES: usize = 64 << 10;
const PAGE: usize = 20;

/// Forks of a thread of 50 checkpoints of 64 KiB, of which no two are alike and of which each is the one
/// before and a little more, beside one write of as many bytes at the end of a file, and a sync.
pub fn fork(settings: &Settings, parent: &Path, summary: &mut Summary) -> Outcome<()> {
    let scratch = tempfile::tempdir_in(parent)?;
    let device = Device::of(scratch.path())?;
    let mut lines = Vec::new();
    for alike in [false, true] {
        let store = Store::options().max_history(None).auto_compaction(false).open(scratch.path().join(format!("alike {alike}")))?;
        let (mut noise, mut growing) = (Noise::new(3), Growing::new(1));
        for _ in 0..STATE_BYTES / 1024 * usize::from(alike) {
            growing.step();
        }
        for _ in 0..STEPS {
            let put = |state: &[u8]| store.put_bytes("t", TypeTag::BYTES, state, PutOptions::default().durability(Durability::Buffered));
            if alike {
                put(&growing.step())?
            } else {
                put(noise.next(STATE_BYTES))?
            };
        }
        store.sync()?;
        let stored = usize::try_from(store.stats()?.stored_bytes)?;
        let bytes: Vec<u8> = noise.next(stored.min(STATE_BYTES)).iter().copied().cycle().take(stored).collect();
        let file = std::fs::File::create(scratch.path().join(format!("written {alike}")))?;
        let (mut forks, mut writes, mut flushes) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..settings.rounds() * 3 {
            let before = device.counts()?.flushes;
            let start = Instant::now();
            store.fork("t", None, &format!("fork {round}"))?;
            forks.push(start.elapsed().as_secs_f64() * 1e6);
            flushes.push((device.counts()?.flushes - before) as f64);
            let start = Instant::now();
            file.write_all_at(&bytes, (round * stored) as u64)?;
            file.sync_data()?;
            writes.push(start.elapsed().as_secs_f64() * 1e6);
        }
        let what = if alike { "growing" } else { "nothing alike" };
        lines.push(vec![what.to_owned(), format!("{:.0}", stored as f64 / 1024.0), spread(&forks), spread(&writes), spread(&flushes)]);
        let title = format!("a fork of 50 x 64 KiB, {what} / writing its stored bytes");
        summary.add(title, table::ratio(&forks, &writes), Wanted::AtMost(1.5), "-");
    }
    let head = ["a thread of 50 x 64 KiB", "KiB stored", "fork", "write and sync", "flushes of a fork"];
    table::print("a fork beside writing as many bytes, µs", &head, &lines);
    Ok(())
}

/// The first page of the list of a million threads, one from its middle, and one by prefix.
pub fn pages(settings: &Settings, parent: &Path, summary: &mut Summary) -> Outcome<()> {
    let threads = if settings.quick { 100_000 } else { 1_000_000 };
    let scratch = tempfile::tempdir_in(parent)?;
    let store = Store::options().auto_compaction(false).durability(Durability::Buffered).open(scratch.path().join("store"))?;
    let names: Vec<String> = (0..threads).map(|number| format!("user-{:04}/run-{number:07}", number % 5000)).collect();
    for names in names.chunks(10_000) {
        let mut batch = Batch::new();
        for name in names {
            batch.put(name, TypeTag::JSON, b"{\"step\":1}", PutOptions::default());
        }
        store.commit(&batch)?;
    }
    let page = |query: &ThreadQuery| -> Outcome<f64> {
        let start = Instant::now();
        let page = store.list_threads(query)?.collect::<Result<Vec<_>, _>>()?;
        let millis = start.elapsed().as_secs_f64() * 1e3;
        if page.len() != PAGE {
            return Err(format!("a page has {} threads", page.len()).into());
        }
        black_box(touch(page[PAGE - 1].thread.as_bytes()));
        Ok(millis)
    };
    let first = ThreadQuery { limit: Some(PAGE), ..ThreadQuery::default() };
    let next = ThreadQuery { after: Some("user-2500/run-0500000".to_owned()), ..first.clone() };
    let prefix = ThreadQuery { matching: Matching::Prefix("user-4321/".to_owned()), ..first.clone() };
    let mut lines = Vec::new();
    for (what, query) in [("the first 20", first), ("the next 20 from the middle", next), ("the first 20 of a prefix", prefix)] {
        let millis = (0..settings.rounds() * 3).map(|_| page(&query)).collect::<Outcome<Vec<f64>>>()?;
        summary.add(format!("{what} of {threads} threads, ms"), table::median(millis.iter().copied()), Wanted::AtMost(5.0), "-");
        lines.push(vec![what.to_owned(), spread(&millis)]);
    }
    table::print(&format!("pages of the list of {threads} threads, ms"), &["page", "ms"], &lines);
    Ok(())
}
