//! Compare-and-put between processes: of several that claim one approval exactly one wins, and the
//! others are told of the conflict and see who it was.

use std::time::Duration;

use taffrail::{CheckpointId, Checkpointer, ErrorKind, ExpectedHead, HistoryQuery, PutOptions, Store, TypeTag};

use crate::chance;
use crate::child::{Child, PATIENCE, in_micros, instant_of, next_order, say, wait_until};
use crate::handle::Handle;
use crate::scratch::Scratch;

const CLAIMERS: usize = 5;

fn handle(dir: &str) -> Handle {
    Handle::new(dir, Store::options().max_history(None).busy_timeout(PATIENCE))
}

/// Plays a claimer. An order is a thread, the head that is expected (`-` for an empty thread) and an
/// instant; the answer is `won` or `lost`, and the head that it sees afterwards.
pub fn claimer(arguments: &[&str]) {
    let [dir, name] = arguments else { panic!("{arguments:?}") };
    let handle = handle(dir);
    say("ready");
    while let Some(order) = next_order() {
        let words: Vec<&str> = order.split(' ').collect();
        let [thread, expected, instant] = words[..] else { panic!("{order:?}") };
        let expected = if expected == "-" { ExpectedHead::Empty } else { ExpectedHead::Id(CheckpointId::new(expected).unwrap()) };
        wait_until(instant_of(instant));
        let answer = handle.with(|store| {
            let put = store.put_bytes(thread, TypeTag::BYTES, name.as_bytes(), PutOptions::default().expected_head(expected));
            let outcome = match put {
                Ok(_) => "won",
                Err(error) if error.kind() == ErrorKind::Conflict => "lost",
                Err(error) => panic!("claimer {name}: {error:?}"),
            };
            let head = store.get_bytes(thread).unwrap().expect("who was told of a conflict sees no head");
            format!("{outcome} {}", String::from_utf8(head.state.to_vec()).unwrap())
        });
        say(&answer);
    }
}

#[test]
fn of_several_who_claim_one_approval_exactly_one_wins() {
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    let handle = handle(dir.to_str().unwrap());
    let mut claimers: Vec<Child> =
        (0..CLAIMERS).map(|number| Child::start("claimer", &[dir.to_str().unwrap(), &format!("claimer-{number}")])).collect();
    claimers.iter_mut().for_each(|claimer| claimer.must_say_this("ready"));
    let mut seeds = Vec::new();
    for seed in chance::rounds(100, Duration::from_secs(30)) {
        seeds.push(seed);
        let thread = format!("approval-{seed}");
        // Every other approval is claimed by who makes its thread.
        let request = (seed % 2 == 0)
            .then(|| handle.with(|store| store.put_bytes(&thread, TypeTag::BYTES, b"request", PutOptions::default()).unwrap()));
        let expected = request.as_ref().map_or("-", CheckpointId::as_str);
        let order = format!("{thread} {expected} {}", in_micros(1_000));
        claimers.iter_mut().for_each(|claimer| claimer.order(&order));
        let answers: Vec<String> = claimers.iter_mut().map(Child::must_say).collect();
        let winners: Vec<usize> = (0..CLAIMERS).filter(|&number| answers[number].starts_with("won ")).collect();
        let [winner] = winners[..] else { panic!("seed {seed}: winners {winners:?}: {answers:?}") };
        let name = format!("claimer-{winner}");
        assert!(answers.iter().all(|answer| answer.ends_with(&format!(" {name}"))), "seed {seed}: {answers:?}");
        handle.with(|store| is_claimed(store, &thread, request.as_ref(), &name));
    }
    claimers.iter_mut().for_each(Child::end);
    // Nothing was lost, also not for who opens it anew.
    drop(handle);
    let store = Store::open(&dir).unwrap();
    let expected: usize = seeds.iter().map(|seed| if seed % 2 == 0 { 2 } else { 1 }).sum();
    assert_eq!(store.stats().unwrap().checkpoints, expected as u64);
}

fn is_claimed(store: &Store, thread: &str, request: Option<&CheckpointId>, winner: &str) {
    let shown: Vec<_> = store.history_bytes(thread, &HistoryQuery::default()).unwrap().map(Result::unwrap).collect();
    assert_eq!(*shown[0].state, *winner.as_bytes(), "{thread}");
    assert_eq!(shown[0].parent.as_ref(), request, "{thread}");
    assert_eq!(shown.len(), 1 + usize::from(request.is_some()), "{thread}");
}
