//! An iterator shows one moment and holds no lock; many workers share one place and one order.

use std::collections::BTreeMap;

use super::probe::{Seen, good, id};
use super::{Make, Setup};
use crate::batch::PutOptions;
use crate::checkpoint::TypeTag;
use crate::query::{HistoryQuery, ThreadQuery};

cases![
    a_history_shows_the_moment_it_was_asked_for,
    a_list_of_threads_shows_the_moment_it_was_asked_for,
    what_was_read_stays,
    workers_lose_nothing_and_agree_on_the_order,
    readers_see_whole_steps,
];

/// Puts, replacements, trims and deletes after the call do not change what an iterator shows, and an
/// open iterator hinders none of them.
pub fn a_history_shows_the_moment_it_was_asked_for(make: Make<'_>) {
    let place = make(Setup { max_history: Some(4) });
    ["a", "b", "c", "d"].into_iter().for_each(|own| drop(place.put_id("t", own, &format!("\"{own}\""))));
    let wanted = place.audit("t");
    let all = HistoryQuery::default();
    let mut started = good("history", place.history_bytes("t", &all));
    let first = started.next().map(|checkpoint| Seen::from(good("the newest", checkpoint)));
    let (waiting, infos) = (good("history", place.history_bytes("t", &all)), good("list", place.list("t", &all)));
    let page = good("history", place.history_bytes("t", &HistoryQuery { limit: Some(2), before: Some(id("d")), after: None }));
    place.put_id("t", "b", "\"other\"");
    good("delete_checkpoint", place.delete_checkpoint("t", &id("c")));
    (0..5).for_each(|step| drop(place.put_text("t", &step.to_string())));
    good("delete", place.delete("t"));
    place.put_id("t", "a", "\"new\"");
    let rest =
        |items: crate::checkpointer::Items<_>| items.map(|checkpoint| Seen::from(good("an item", checkpoint))).collect::<Vec<Seen>>();
    assert_eq!(first.into_iter().chain(rest(started)).collect::<Vec<_>>(), wanted, "an iterator under way");
    assert_eq!(rest(waiting), wanted, "an iterator not yet begun");
    assert_eq!(rest(page), wanted[1..3], "a page");
    let infos: Vec<Seen> = infos.map(|info| Seen::from(good("an item", info))).collect();
    assert_eq!(infos, wanted.iter().map(Seen::without_state).collect::<Vec<_>>(), "a list");
    assert_eq!(place.states("t"), ["\"new\""]);
}

/// The same for threads.
pub fn a_list_of_threads_shows_the_moment_it_was_asked_for(make: Make<'_>) {
    let place = make(Setup::default());
    if !place.capabilities().list_threads {
        return;
    }
    ["a", "b", "c"].into_iter().for_each(|thread| drop(place.put_text(thread, "1")));
    let wanted = place.thread_infos(&ThreadQuery::default());
    let mut open = good("list_threads", place.list_threads(&ThreadQuery::default()));
    let first = good("the first", open.next().transpose());
    place.put_text("b", "2");
    place.put_text("bb", "3");
    good("delete", place.delete("c"));
    let shown: Vec<_> = first.into_iter().chain(open.map(|info| good("an item", info))).collect();
    assert_eq!(shown, wanted);
    assert_eq!(good("threads", place.threads()), ["a", "b", "bb"]);
}

/// Bytes that were read do not change under what happens later, nor when the place is closed.
pub fn what_was_read_stays(make: Make<'_>) {
    let place = make(Setup { max_history: Some(1) });
    let own = place.put_text("t", "\"before\"");
    let read = good("get", place.get_bytes("t"));
    place.put_text_with("t", "\"after!\"", PutOptions::default().id(own));
    place.put_text("t", "2");
    good("delete", place.delete("t"));
    drop(place);
    assert_eq!(read.map(|checkpoint| checkpoint.state.into_vec()).as_deref(), Some(&b"\"before\""[..]));
}

/// 8 workers, each with a thread of its own and one in common: every put is there, in the order its
/// worker made them, and seqs rise.
pub fn workers_lose_nothing_and_agree_on_the_order(make: Make<'_>) {
    const WORKERS: usize = 8;
    const STEPS: usize = 40;
    let mut place = make(Setup::default());
    let shared = &*place;
    std::thread::scope(|scope| {
        for worker in 0..WORKERS {
            scope.spawn(move || {
                let own = format!("own {worker}");
                let mut last_seq = 0;
                for step in 0..STEPS {
                    let state = format!("[{worker},{step}]");
                    for thread in ["common", &own] {
                        good("put", shared.put_bytes(thread, TypeTag::JSON, state.as_bytes(), PutOptions::default()));
                    }
                    let head = good("head", shared.head(&own));
                    let seq = head.map_or(0, |head| head.seq);
                    assert!(seq > last_seq, "a worker's own puts rise: {seq} after {last_seq}");
                    last_seq = seq;
                }
            });
        }
    });
    for _ in 0..2 {
        let common = place.audit("common");
        assert_eq!(common.len(), WORKERS * STEPS);
        assert!(common.windows(2).all(|pair| pair[0].parent.as_ref() == Some(&pair[1].id)), "each follows the one before");
        let mut next: BTreeMap<String, usize> = BTreeMap::new();
        for checkpoint in common.iter().rev() {
            let (worker, step) =
                checkpoint.text().trim_matches(['[', ']']).split_once(',').map(|(w, s)| (w.to_owned(), s.to_owned())).unwrap_or_default();
            let next = next.entry(worker).or_default();
            assert_eq!(step, next.to_string(), "a worker's puts keep their order");
            *next += 1;
        }
        for worker in 0..WORKERS {
            let wanted: Vec<String> = (0..STEPS).rev().map(|step| format!("[{worker},{step}]")).collect();
            assert_eq!(place.states(&format!("own {worker}")), wanted);
            place.audit(&format!("own {worker}"));
        }
        place.reopen();
    }
}

/// While one worker puts, deletes and re-makes, what others read is one moment: steps in a row, no
/// gap, no double, each state with its own metadata.
pub fn readers_see_whole_steps(make: Make<'_>) {
    let place = make(Setup { max_history: Some(5) });
    let shared = &*place;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for step in 0..300_u32 {
                good(
                    "put",
                    shared.put_bytes("t", TypeTag::JSON, step.to_string().as_bytes(), PutOptions::default().id(id(&format!("c{step}")))),
                );
                if step % 50 == 49 {
                    good("delete", shared.delete("t"));
                }
            }
        });
        for _ in 0..3 {
            scope.spawn(move || {
                for _ in 0..300 {
                    let read = good("history", shared.history_bytes("t", &HistoryQuery::default()));
                    let seen: Vec<Seen> = read.map(|checkpoint| Seen::from(good("an item", checkpoint))).collect();
                    let steps: Vec<u32> = seen.iter().filter_map(|checkpoint| checkpoint.text().parse().ok()).collect();
                    assert!(steps.len() == seen.len() && steps.len() <= 5, "{seen:?}");
                    assert!(steps.windows(2).all(|pair| pair[0] == pair[1] + 1), "steps in a row: {seen:?}");
                    assert!(seen.iter().zip(&steps).all(|(checkpoint, step)| checkpoint.id == id(&format!("c{step}"))), "{seen:?}");
                }
            });
        }
    });
    assert!(place.audit("t").is_empty());
}
