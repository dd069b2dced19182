//! The search for an order that explains a history, after Wing and Gong: take any call that began
//! before every other open one had returned, apply it to the model, go on if the answer fits. What
//! was tried from the same calls and heads is not tried again. Pure.

use std::collections::HashSet;
use std::time::Duration;

use super::history::{Call, Heads};

/// The most calls of one history: each has a bit.
pub const CALLS_MAX: usize = 64;

/// Whether some order explains a history that begins with no thread. A call without an answer may
/// have taken effect at any instant after it was made, or never.
pub fn is_linearizable(calls: &[Call]) -> bool {
    assert!(calls.len() <= CALLS_MAX, "a history is too long");
    let answered = calls.iter().enumerate().filter(|(_, call)| call.returned.is_some()).fold(0, |bits, (at, _)| bits | 1 << at);
    let mut tried = HashSet::new();
    let mut left: Vec<(u64, Heads)> = vec![(0, [None; 2])];
    while let Some((taken, heads)) = left.pop() {
        if taken & answered == answered {
            return true;
        }
        if !tried.insert((taken, heads)) {
            continue;
        }
        let open = || calls.iter().enumerate().filter(|(at, _)| taken & 1 << at == 0);
        let first_return: Duration =
            open().filter_map(|(_, call)| call.returned).map(|(instant, _)| instant).min().unwrap_or(Duration::MAX);
        for (at, call) in open().filter(|(_, call)| call.called <= first_return) {
            let (answer, after) = call.operation.apply(heads);
            if call.returned.is_none_or(|(_, told)| told == answer) {
                left.push((taken | 1 << at, after));
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::history::{Answer, Expect, Operation};
    use super::*;

    fn call(operation: Operation, called: u64, returned: u64, answer: Answer) -> Call {
        Call { operation, called: Duration::from_nanos(called), returned: Some((Duration::from_nanos(returned), answer)) }
    }

    fn unanswered(operation: Operation, called: u64) -> Call {
        Call { operation, called: Duration::from_nanos(called), returned: None }
    }

    fn put(number: u32, called: u64, returned: u64) -> Call {
        call(Operation::Put(0, number, Expect::Any), called, returned, Answer::Made)
    }

    fn get(head: Option<u32>, called: u64, returned: u64) -> Call {
        call(Operation::Get(0), called, returned, Answer::Head(head))
    }

    fn delete(existed: bool, called: u64, returned: u64) -> Call {
        call(Operation::Delete(0), called, returned, Answer::Existed(existed))
    }

    fn claim(number: u32, expected: Option<u32>, called: u64, returned: u64, answer: Answer) -> Call {
        call(Operation::Put(0, number, Expect::Head(expected)), called, returned, answer)
    }

    #[test]
    fn what_one_process_does_is_its_own_order() {
        assert!(is_linearizable(&[]));
        assert!(is_linearizable(&[get(None, 0, 1), put(1, 2, 3), get(Some(1), 4, 5), delete(true, 6, 7), delete(false, 8, 9)]));
        assert!(!is_linearizable(&[put(1, 0, 1), put(2, 2, 3), get(Some(1), 4, 5)]));
        assert!(!is_linearizable(&[put(1, 0, 1), get(None, 2, 3)]));
        assert!(!is_linearizable(&[delete(true, 0, 1)]));
        assert!(!is_linearizable(&[put(1, 0, 1), delete(false, 2, 3)]));
    }

    #[test]
    fn calls_at_one_time_may_take_either_order_but_one_for_all() {
        let puts = [put(1, 0, 10), put(2, 0, 10)];
        for last in [1, 2] {
            assert!(is_linearizable(&[puts[0], puts[1], get(Some(last), 11, 12)]));
        }
        assert!(is_linearizable(&[puts[0], puts[1], get(Some(1), 2, 5), get(Some(2), 6, 9)]));
        assert!(!is_linearizable(&[puts[0], puts[1], get(Some(1), 11, 12), get(Some(2), 13, 14)]));
        assert!(!is_linearizable(&[puts[0], puts[1], get(None, 11, 12)]));
        // Two who read at different times saw the puts in different orders.
        assert!(!is_linearizable(&[puts[0], puts[1], get(Some(1), 1, 2), get(Some(2), 3, 4), get(Some(1), 5, 6)]));
    }

    #[test]
    fn what_was_read_once_stays_read() {
        let slow = put(2, 0, 100);
        assert!(is_linearizable(&[slow, get(None, 1, 2), get(Some(2), 3, 4)]));
        assert!(!is_linearizable(&[slow, get(Some(2), 1, 2), get(None, 3, 4)]));
    }

    #[test]
    fn of_two_claims_one_wins() {
        let won = claim(1, None, 0, 10, Answer::Made);
        assert!(is_linearizable(&[won, claim(2, None, 0, 10, Answer::Conflict)]));
        assert!(!is_linearizable(&[won, claim(2, None, 0, 10, Answer::Made)]));
        // A conflict with nobody: two refuse each other over a third that never was.
        assert!(!is_linearizable(&[claim(1, None, 0, 10, Answer::Conflict), claim(2, None, 0, 10, Answer::Conflict)]));
        assert!(is_linearizable(&[won, delete(true, 2, 8), claim(2, None, 0, 10, Answer::Made)]));
        assert!(is_linearizable(&[won, claim(2, Some(1), 11, 12, Answer::Made), claim(3, Some(1), 11, 13, Answer::Conflict)]));
        assert!(!is_linearizable(&[won, claim(2, Some(1), 11, 12, Answer::Made), claim(3, Some(1), 11, 13, Answer::Made)]));
    }

    #[test]
    fn a_batch_is_seen_whole() {
        let both = call(Operation::Both(7), 0, 100, Answer::Made);
        let list = |heads: Heads, called, returned| call(Operation::List, called, returned, Answer::Heads(heads));
        assert!(is_linearizable(&[both, list([None; 2], 1, 2), list([Some(7); 2], 3, 4)]));
        assert!(!is_linearizable(&[both, list([Some(7), None], 1, 2)]));
        let other = call(Operation::Get(1), 3, 4, Answer::Head(None));
        assert!(!is_linearizable(&[both, get(Some(7), 1, 2), other]));
    }

    #[test]
    fn what_was_not_answered_happened_or_not() {
        let killed = unanswered(Operation::Put(0, 9, Expect::Any), 5);
        assert!(is_linearizable(&[killed, get(None, 10, 11)]));
        assert!(is_linearizable(&[killed, get(None, 10, 11), get(Some(9), 12, 13)]));
        assert!(!is_linearizable(&[killed, get(Some(9), 10, 11), get(None, 12, 13)]));
        assert!(!is_linearizable(&[killed, get(Some(9), 1, 2)]), "before it was called");
        assert!(is_linearizable(&[killed]));
    }
}
