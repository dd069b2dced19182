//! A place whose writes are held until they are let go, and what a runtime does meanwhile.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::task::Poll;
use std::thread::ThreadId;
use std::time::Duration;

use taffrail::{
    AsyncStore, Attachment, Batch, Capabilities, Checkpoint, CheckpointId, CheckpointInfo, Checkpointer, Committed, Error, ErrorKind,
    HistoryQuery, Items, MemoryCheckpointer, Result, StateBytes, ThreadInfo, ThreadQuery,
};
use tokio::runtime::Builder;

use super::{alone, poll_once, several};

/// What is the same for the place and for who holds it.
#[derive(Default)]
struct Gate {
    open: Mutex<bool>,
    moved: Condvar,
    begun: AtomicUsize,
    panics: AtomicBool,
}

impl Gate {
    fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.moved.notify_all();
    }

    /// Waits until so many writes have begun, off the runtime.
    async fn reached(self: &Arc<Self>, begun: usize) {
        let gate = self.clone();
        let wait = move || {
            let open = gate.open.lock().unwrap();
            let (_open, late) = gate.moved.wait_timeout_while(open, PATIENCE, |_| gate.begun.load(SeqCst) < begun).unwrap();
            assert!(!late.timed_out(), "{} of {begun} have begun", gate.begun.load(SeqCst));
        };
        let (done, ended) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || done.send(std::panic::catch_unwind(std::panic::AssertUnwindSafe(wait))));
        ended.await.unwrap().unwrap_or_else(|panic| resume_unwind(panic));
    }
}

/// How long a test that has failed goes on.
const PATIENCE: Duration = Duration::from_secs(60);

/// In memory; a write waits for the gate.
struct Gated {
    memory: MemoryCheckpointer,
    gate: Arc<Gate>,
    /// Told by which worker it was dropped.
    ended: Option<mpsc::Sender<ThreadId>>,
}

impl Checkpointer for Gated {
    fn capabilities(&self) -> Capabilities {
        self.memory.capabilities()
    }
    fn commit(&self, batch: &Batch<'_>) -> Result<Vec<Committed>> {
        let open = self.gate.open.lock().unwrap();
        self.gate.begun.fetch_add(1, SeqCst);
        self.gate.moved.notify_all();
        let (open, late) = self.gate.moved.wait_timeout_while(open, PATIENCE, |open| !*open).unwrap();
        drop(open);
        assert!(!self.gate.panics.load(SeqCst), "the place fell over");
        if late.timed_out() { Err(Error::new(ErrorKind::Busy, "nobody opened the gate")) } else { self.memory.commit(batch) }
    }
    fn get_bytes(&self, thread: &str) -> Result<Option<Checkpoint<StateBytes>>> {
        self.memory.get_bytes(thread)
    }
    fn load_bytes(&self, thread: &str, id: &CheckpointId) -> Result<Option<Checkpoint<StateBytes>>> {
        self.memory.load_bytes(thread, id)
    }
    fn history_bytes(&self, thread: &str, query: &HistoryQuery) -> Result<Items<Checkpoint<StateBytes>>> {
        self.memory.history_bytes(thread, query)
    }
    fn list(&self, thread: &str, query: &HistoryQuery) -> Result<Items<CheckpointInfo>> {
        self.memory.list(thread, query)
    }
    fn list_threads(&self, query: &ThreadQuery) -> Result<Items<ThreadInfo>> {
        self.memory.list_threads(query)
    }
    fn attachments(&self, thread: &str, id: &CheckpointId) -> Result<Vec<Attachment>> {
        self.memory.attachments(thread, id)
    }
}

impl Drop for Gated {
    fn drop(&mut self) {
        if let Some(ended) = &self.ended {
            ended.send(std::thread::current().id()).unwrap();
        }
    }
}

fn gated() -> (Arc<Gate>, AsyncStore) {
    let gate = Arc::new(Gate::default());
    (gate.clone(), AsyncStore::new(Gated { memory: MemoryCheckpointer::new(), gate, ended: None }))
}

/// Ends when the gate has seen so many writes, and drops `future` there unless it is ready.
async fn drop_when_reached<T>(gate: &Arc<Gate>, begun: usize, future: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        answer = future => Some(answer),
        () = gate.reached(begun) => None,
    }
}

#[test]
fn other_tasks_go_on_while_a_put_is_held() {
    alone().block_on(async {
        let (gate, place) = gated();
        let put = tokio::spawn(place.put("t", &1));
        gate.reached(1).await;
        let ticking = tokio::spawn(async {
            for _ in 0..1_000 {
                tokio::task::yield_now().await;
            }
        });
        ticking.await.unwrap();
        assert!(!put.is_finished());
        gate.open();
        put.await.unwrap().unwrap();
        assert_eq!(place.get::<i32>("t").await.unwrap(), Some(1));
    });
}

#[test]
fn reads_go_on_while_more_puts_are_held_than_may_be_under_way() {
    alone().block_on(async {
        let (gate, place) = gated();
        let puts: Vec<_> = (0..100).map(|number| tokio::spawn(place.put(&format!("t{number}"), &number))).collect();
        gate.reached(64).await;
        assert_eq!(place.get::<i32>("t0").await.unwrap(), None);
        assert!(place.threads().await.unwrap().is_empty());
        assert_eq!(gate.begun.load(SeqCst), 64);
        gate.open();
        for put in puts {
            put.await.unwrap().unwrap();
        }
        assert_eq!(place.threads().await.unwrap().len(), 100);
    });
}

#[test]
fn what_has_begun_goes_to_its_end_and_settled_waits_for_it() {
    for runtime in [alone(), several()] {
        runtime.block_on(async {
            let (gate, place) = gated();
            assert!(drop_when_reached(&gate, 1, place.put("begun", &1)).await.is_none());
            let mut settled = std::pin::pin!(place.settled());
            tokio::select! {
                biased;
                _ = &mut settled => panic!("a write is under way"),
                () = tokio::task::yield_now() => {}
            }
            assert!(!place.exists("begun").await.unwrap());
            gate.open();
            settled.await.unwrap();
            assert_eq!(place.get::<i32>("begun").await.unwrap(), Some(1));
        });
    }
}

#[test]
fn what_has_not_begun_is_never_begun() {
    // One worker for calls that block: a second one that was handed over waits for the first.
    let runtime = Builder::new_current_thread().max_blocking_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let (gate, place) = gated();
        drop(place.put("never polled", &1));
        let held = tokio::spawn(place.put("held", &1));
        gate.reached(1).await;
        assert!(poll_once(place.put("handed over", &1)).is_pending());
        gate.open();
        held.await.unwrap().unwrap();
        place.settled().await.unwrap();
        assert_eq!(place.threads().await.unwrap(), ["held"]);
        assert_eq!(gate.begun.load(SeqCst), 1);
    });
    alone().block_on(async {
        let (gate, place) = gated();
        let held: Vec<_> = (0..64).map(|number| tokio::spawn(place.put("held", &number))).collect();
        gate.reached(64).await;
        assert!(poll_once(place.put("waits for its turn", &1)).is_pending());
        gate.open();
        for put in held {
            put.await.unwrap().unwrap();
        }
        place.settled().await.unwrap();
        assert_eq!(place.threads().await.unwrap(), ["held"]);
        assert_eq!(gate.begun.load(SeqCst), 64);
    });
}

#[test]
fn a_panic_of_the_place_goes_on_in_who_awaits_it() {
    alone().block_on(async {
        let (gate, place) = gated();
        gate.open();
        gate.panics.store(true, SeqCst);
        // More than may be under way: each gives its turn back.
        for _ in 0..100 {
            let panic = tokio::spawn(place.put("t", &1)).await.unwrap_err().into_panic();
            assert_eq!(panic.downcast_ref::<&str>(), Some(&"the place fell over"));
        }
        gate.panics.store(false, SeqCst);
        place.put("t", &2).await.unwrap();
        assert_eq!(place.get::<i32>("t").await.unwrap(), Some(2));
    });
}

#[test]
fn without_a_runtime_a_call_answers_that_and_does_nothing() {
    let (gate, place) = gated();
    gate.open();
    let Poll::Ready(answer) = poll_once(place.put("t", &1)) else { panic!("it waits") };
    assert_eq!(answer.unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(gate.begun.load(SeqCst), 0);
    assert_eq!(alone().block_on(place.threads()).unwrap(), Vec::<String>::new());
}

#[test]
fn a_runtime_that_shuts_down_ends_what_has_begun_and_takes_nothing_more() {
    let runtime = Builder::new_multi_thread().worker_threads(1).max_blocking_threads(1).enable_all().build().unwrap();
    let (gate, place) = gated();
    let gone = runtime.handle().clone();
    let entered = gone.enter();
    let mut begun = Box::pin(place.put("begun", &1));
    assert!(poll_once(&mut begun).is_pending());
    alone().block_on(gate.reached(1));
    // Handed over before the end: whether it is still taken up is tokio's to say.
    let mut handed_over = Box::pin(place.put("handed over", &1));
    assert!(poll_once(&mut handed_over).is_pending());
    runtime.shutdown_background();
    let Poll::Ready(answer) = poll_once(place.put("later", &1)) else { panic!("it waits") };
    assert_eq!(answer.unwrap_err().kind(), ErrorKind::Unsupported);
    drop(entered);
    gate.open();
    // Another runtime waits for what the one that is gone had been given.
    alone().block_on(async {
        begun.await.unwrap();
        let there = match handed_over.await {
            Ok(_) => vec!["begun", "handed over"],
            Err(error) if error.kind() == ErrorKind::Unsupported => vec!["begun"],
            Err(error) => panic!("{error}"),
        };
        place.settled().await.unwrap();
        assert_eq!(place.threads().await.unwrap(), there);
    });
}

#[test]
fn the_last_handle_ends_the_place_off_the_runtime() {
    let place = |ended| Gated { memory: MemoryCheckpointer::new(), gate: Arc::default(), ended: Some(ended) };
    let own = std::thread::current().id();
    let (ended, told) = mpsc::channel();
    let runtime = alone();
    runtime.block_on(async { drop(AsyncStore::new(place(ended.clone()))) });
    assert_ne!(told.recv_timeout(PATIENCE).unwrap(), own);
    runtime.block_on(async {
        AsyncStore::new(place(ended.clone())).close().await.unwrap();
        // By now, not later.
        assert_ne!(told.try_recv().unwrap(), own);
    });
    drop(AsyncStore::new(place(ended)));
    assert_eq!(told.try_recv().unwrap(), own);
}
