//! Listings and watches: whole, in order, whatever calls of `next` were dropped.

use std::collections::BTreeMap;
use std::task::Poll;

use taffrail::prelude::*;
use taffrail::{AsyncItems, AsyncStore, Batch, Durability, ErrorKind, HistoryQuery, MemoryCheckpointer, PutOptions, ThreadQuery, TypeTag};

use super::{alone, id, poll_once, several};

/// Reads so many or to the end, and drops each call that does not answer at once.
async fn read_with_drops<T: Send + 'static>(items: &mut AsyncItems<T>, count: usize) -> Vec<T> {
    let mut read = Vec::new();
    while read.len() < count {
        let item = match poll_once(items.next()) {
            Poll::Ready(item) => item,
            Poll::Pending => items.next().await,
        };
        let Some(item) = item else { break };
        read.push(item.unwrap());
    }
    read
}

#[test]
fn a_dropped_next_loses_nothing_of_a_listing() {
    const STEPS: usize = 1_000;
    for runtime in [alone(), several()] {
        runtime.block_on(async {
            let place = AsyncStore::new(MemoryCheckpointer::with_max_history(None).unwrap());
            let numbers: Vec<String> = (0..STEPS).map(|number| format!("{number:04}")).collect();
            let mut batch = Batch::new();
            for number in &numbers {
                batch.put("t", TypeTag::BYTES, number.as_bytes(), PutOptions::default().id(id(number)));
                batch.put(number, TypeTag::BYTES, b"", PutOptions::default());
            }
            place.commit(&batch).await.unwrap();

            let newest_first: Vec<_> = numbers.iter().rev().cloned().collect();
            let mut infos = place.list("t", &HistoryQuery::default()).await.unwrap();
            let read = read_with_drops(&mut infos, usize::MAX).await;
            assert_eq!(read.iter().map(|info| info.id.as_str()).collect::<Vec<_>>(), newest_first);
            let mut states = place.history_bytes("t", &HistoryQuery::default()).await.unwrap();
            let read = read_with_drops(&mut states, usize::MAX).await;
            assert!(read.iter().zip(&newest_first).all(|(read, number)| *read.state == *number.as_bytes()) && read.len() == STEPS);
            let mut threads = place.list_threads(&ThreadQuery { limit: Some(STEPS), ..ThreadQuery::default() }).await.unwrap();
            let read = read_with_drops(&mut threads, usize::MAX).await;
            assert_eq!(read.iter().map(|info| info.thread.as_str()).collect::<Vec<_>>(), numbers);
            assert!(threads.next().await.is_none());
        });
    }
}

#[test]
fn what_was_not_read_yet_is_of_the_moment_of_the_call() {
    alone().block_on(async {
        let place = AsyncStore::new(MemoryCheckpointer::with_max_history(None).unwrap());
        for number in 0..600 {
            place.put("t", &number).await.unwrap();
        }
        let mut steps = place.list("t", &HistoryQuery::default()).await.unwrap();
        let first = steps.next().await.unwrap().unwrap();
        place.put("t", &600).await.unwrap();
        place.delete("t").await.unwrap();
        let rest = steps.collect().await.unwrap();
        assert_eq!(rest.len(), 599);
        assert!(rest.iter().all(|step| step.seq < first.seq));
    });
}

#[test]
fn a_listing_ends_after_an_error() {
    alone().block_on(async {
        let scratch = tempfile::tempdir().unwrap();
        let place = taffrail::FileCheckpointer::options().max_history(None).open(scratch.path().join("files")).unwrap();
        let place = AsyncStore::new(place);
        for number in 0..40 {
            place.put_with("t", &format!("state {number}"), PutOptions::default().id(id(&format!("s{number}")))).await.unwrap();
        }
        // Damages the state of the tenth, which its head does not cover.
        let file = std::fs::read_dir(scratch.path().join("files")).unwrap().map(|entry| entry.unwrap().path());
        let file = file.into_iter().find(|path| path.to_str().unwrap().ends_with("@s9.json")).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replace("state 9", "state 8")).unwrap();

        let mut steps = place.history_bytes("t", &HistoryQuery::default()).await.unwrap();
        for number in (10..40).rev() {
            assert_eq!(steps.next().await.unwrap().unwrap().id, id(&format!("s{number}")));
        }
        assert_eq!(steps.next().await.unwrap().unwrap_err().kind(), ErrorKind::Corrupt);
        assert!(steps.next().await.is_none());
        assert_eq!(place.history::<String>("t", None).await.unwrap_err().kind(), ErrorKind::Corrupt);
        place.close().await.unwrap();
    });
}

#[test]
fn a_watch_tells_each_checkpoint_once_whatever_was_dropped() {
    const WRITERS: usize = 4;
    const STEPS: usize = 50;
    for runtime in [alone(), several()] {
        let scratch = tempfile::tempdir().unwrap();
        let store = Store::options().durability(Durability::Buffered).open(scratch.path().join("runs")).unwrap();
        runtime.block_on(async {
            let mut told = AsyncItems::from(store.watch(None).unwrap());
            let place = AsyncStore::new(store.clone());
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    let place = place.clone();
                    tokio::spawn(async move {
                        for step in 0..STEPS {
                            let options = PutOptions::default().id(id(&format!("{step:02}")));
                            place.put_with(&format!("w{writer}"), &step, options).await.unwrap();
                        }
                    })
                })
                .collect();
            let seen = read_with_drops(&mut told, WRITERS * STEPS).await;
            for writer in writers {
                writer.await.unwrap();
            }
            assert!(seen.is_sorted_by_key(|info| info.seq));
            let mut steps: BTreeMap<String, Vec<usize>> = BTreeMap::new();
            for info in seen {
                steps.entry(info.thread.to_string()).or_default().push(info.id.as_str().parse().unwrap());
            }
            assert_eq!(steps.len(), WRITERS);
            assert!(steps.values().all(|told| told.iter().copied().eq(0..STEPS)), "{steps:?}");
        });
    }
}
