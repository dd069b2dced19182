//! From two JSON values to the operations that make the second of the first.
//!
//! Operations are carried out one after the other, so an index in a path counts in the array as it is by
//! then: what stands before it is already as it will be.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, Patch, PatchOperation, RemoveOperation, ReplaceOperation};
use serde_json::{Map, Value};

/// The most bytes that the paths of a patch take up together: each operation has one of its own, and names may be
/// long. What would need more is replaced as a whole.
const PATH_BYTES_MAX: usize = 32 << 20;

/// The most elements that are moved aside while a patch comes and goes in one array; where it would be more the array
/// is replaced.
const SHIFTS_MAX: usize = 100_000_000;

/// The patch from one value to another.
pub(super) fn values(before: &Value, after: &Value) -> Patch {
    let mut comparison = Comparison { path: PointerBuf::root(), patch: Vec::new(), path_bytes: 0, hasher: RandomState::new() };
    comparison.values(before, after);
    if comparison.is_too_long() {
        return Patch(vec![PatchOperation::Replace(ReplaceOperation { path: PointerBuf::root(), value: after.clone() })]);
    }
    Patch(comparison.patch)
}

struct Comparison {
    /// Where in the state the values stand that are compared.
    path: PointerBuf,
    patch: Vec<PatchOperation>,
    /// Of the paths in the patch.
    path_bytes: usize,
    hasher: RandomState,
}

impl Comparison {
    fn values(&mut self, before: &Value, after: &Value) {
        match (before, after) {
            (Value::Object(before), Value::Object(after)) => self.members(before, after),
            (Value::Array(before), Value::Array(after)) => self.elements(before, after),
            _ if is_same(before, after) => {}
            _ => self.replace(after.clone()),
        }
    }

    fn is_too_long(&self) -> bool {
        self.path_bytes > PATH_BYTES_MAX
    }

    fn members(&mut self, before: &Map<String, Value>, after: &Map<String, Value>) {
        for (name, value) in before {
            match after.get(name) {
                Some(after) => self.within(name.as_str(), |own| own.values(value, after)),
                None => self.within(name.as_str(), Self::remove),
            }
        }
        for (name, value) in after.iter().filter(|(name, _)| !before.contains_key(*name)) {
            self.within(name.as_str(), |own| own.add(value));
        }
    }

    /// Aligns two arrays by what is the same at both ends, then by the elements that stand once in each.
    fn elements(&mut self, before: &[Value], after: &[Value]) {
        let (whole, (head, tail)) = (after, common_ends(before, after));
        let (before, after) = (&before[head..before.len() - tail], &after[head..after.len() - tail]);
        let anchors = self.anchors(before, after);
        let ends = || anchors.iter().copied().chain([(before.len(), after.len())]);
        let (mut done_before, mut done_after, mut shifting) = (0, 0, 0);
        for (at_before, at_after) in ends() {
            shifting += (at_before - done_before).abs_diff(at_after - done_after);
            (done_before, done_after) = (at_before + 1, at_after + 1);
        }
        if shifting.saturating_mul(before.len().max(after.len()) + tail) > SHIFTS_MAX {
            return self.replace(Value::Array(whole.to_vec()));
        }
        (done_before, done_after) = (0, 0);
        for (at_before, at_after) in ends() {
            self.stretch(&before[done_before..at_before], &after[done_after..at_after], head + done_after);
            (done_before, done_after) = (at_before + 1, at_after + 1);
        }
    }

    /// Makes one stretch of an array, which begins at `start`, another: element by element, and what is over goes
    /// or comes.
    fn stretch(&mut self, before: &[Value], after: &[Value], start: usize) {
        let (_, tail) = common_ends(before, after);
        let (before, after) = (&before[..before.len() - tail], &after[..after.len() - tail]);
        let pairs = before.len().min(after.len());
        for (at, (before, after)) in before.iter().zip(after).enumerate() {
            self.within(start + at, |own| own.values(before, after));
        }
        for at in (pairs..before.len()).rev() {
            self.within(start + at, Self::remove);
        }
        for (at, value) in after.iter().enumerate().skip(pairs) {
            self.within(start + at, |own| own.add(value));
        }
    }

    /// Pairs of the same element, each of which stands once in both arrays; rising in both.
    fn anchors(&self, before: &[Value], after: &[Value]) -> Vec<(usize, usize)> {
        if before.is_empty() || after.is_empty() {
            return Vec::new();
        }
        let once = |elements: &[Value]| {
            let mut places = HashMap::new();
            for (at, element) in elements.iter().enumerate() {
                places.entry(self.hasher.hash_one(element)).and_modify(|place| *place = None).or_insert(Some(at));
            }
            places
        };
        let (once_before, once_after) = (once(before), once(after));
        let place = |(hash, at): (&u64, &Option<usize>)| {
            let (at_before, at_after) = ((*at)?, (*once_after.get(hash)?)?);
            is_same(&before[at_before], &after[at_after]).then_some((at_before, at_after))
        };
        let mut pairs: Vec<(usize, usize)> = once_before.iter().filter_map(place).collect();
        pairs.sort_unstable();
        rising(&pairs)
    }

    fn within<'t>(&mut self, token: impl Into<json_patch::jsonptr::Token<'t>>, work: impl FnOnce(&mut Self)) {
        self.path.push_back(token);
        work(self);
        self.path.pop_back();
    }

    fn add(&mut self, value: &Value) {
        self.push(|path| PatchOperation::Add(AddOperation { path, value: value.clone() }));
    }

    fn remove(&mut self) {
        self.push(|path| PatchOperation::Remove(RemoveOperation { path }));
    }

    fn replace(&mut self, value: Value) {
        self.push(|path| PatchOperation::Replace(ReplaceOperation { path, value }));
    }

    /// Adds an operation at the place that was come to; nothing any more once the paths are too long.
    fn push(&mut self, operation: impl FnOnce(PointerBuf) -> PatchOperation) {
        self.path_bytes = self.path_bytes.saturating_add(self.path.as_str().len());
        if !self.is_too_long() {
            self.patch.push(operation(self.path.clone()));
        }
    }
}

/// How many elements are the same at the beginnings, and how many of the rest at the ends.
fn common_ends(before: &[Value], after: &[Value]) -> (usize, usize) {
    let head = before.iter().zip(after).take_while(|(before, after)| is_same(before, after)).count();
    let rest = before[head..].iter().rev().zip(after[head..].iter().rev());
    (head, rest.take_while(|(before, after)| is_same(before, after)).count())
}

/// The longest part of pairs, rising by their first, that rises by their second as well.
fn rising(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    // For each length the pair that ends such a part with the smallest second, and for each pair the one before it.
    let (mut ends, mut before): (Vec<usize>, Vec<Option<usize>>) = (Vec::new(), Vec::with_capacity(pairs.len()));
    for (at, (_, second)) in pairs.iter().enumerate() {
        let length = ends.partition_point(|end| pairs[*end].1 < *second);
        before.push(length.checked_sub(1).map(|shorter| ends[shorter]));
        if length == ends.len() { ends.push(at) } else { ends[length] = at }
    }
    let mut part: Vec<(usize, usize)> = std::iter::successors(ends.last().copied(), |at| before[*at]).map(|at| pairs[at]).collect();
    part.reverse();
    part
}

/// Whether two values are the same; 1 and 1.0 are not, nor are 0.0 and -0.0: their texts differ.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            let sign = |number: &serde_json::Number| number.as_f64().map(f64::is_sign_negative);
            one == other && sign(one) == sign(other)
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len() && one.iter().all(|(name, value)| other.get(name).is_some_and(|other| is_same(value, other)))
        }
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn text(before: &Value, after: &Value) -> String {
        values(before, after).to_string()
    }

    #[test]
    fn members_come_go_and_change() {
        let (before, after) = (json!({"a": 1, "b": {"c": [], "d": null}, "~/": 2}), json!({"b": {"c": {}, "d": null}, "": 3, "~/": 4}));
        let wanted = r#"[{"op":"remove","path":"/a"},{"op":"replace","path":"/b/c","value":{}},{"op":"replace","path":"/~0~1","value":4},{"op":"add","path":"/","value":3}]"#;
        assert_eq!(text(&before, &after), wanted);
        assert_eq!(text(&json!(1), &json!("1")), r#"[{"op":"replace","path":"","value":"1"}]"#);
        assert_eq!(text(&json!({"a": 1, "b": 2}), &json!({"b": 2, "a": 1})), "[]");
    }

    #[test]
    fn what_is_dropped_or_added_is_one_operation() {
        let message = |number: usize| json!({"role": "user", "content": format!("message {number}")});
        let window = |from: usize, to: usize| Value::Array((from..to).map(message).collect());
        assert_eq!(text(&window(0, 1000), &window(1, 1000)), r#"[{"op":"remove","path":"/0"}]"#);
        assert_eq!(values(&window(0, 1000), &window(0, 1001)).len(), 1);
        assert_eq!(values(&window(0, 1000), &window(2, 1001)).len(), 3);
        // One changed, one dropped in the middle, one put in, and a window that moved on.
        let mut after: Vec<Value> = (3..1002).map(message).collect();
        after[10]["content"] = json!("other");
        after.remove(500);
        after.insert(700, json!("new"));
        assert_eq!(values(&window(0, 1000), &Value::Array(after)).len(), 3 + 1 + 1 + 1 + 2);
        // The same message many times is no anchor, and what is common at the ends is found all the same.
        assert_eq!(values(&json!([1, 1, 1, 1, 2]), &json!([1, 1, 1, 2])).len(), 1);
        // One moved from the front to the end goes and comes.
        assert_eq!(values(&json!([1, 2, 3, 4]), &json!([2, 3, 4, 1])).len(), 2);
    }

    #[test]
    fn nothing_in_common_is_compared_in_time() {
        let many = |salt: usize| Value::Array((0..50_000).map(|at| json!([at * 2 + salt])).collect());
        assert_eq!(values(&many(0), &many(1)).len(), 50_000);
        let reversed = Value::Array((0..50_000).rev().map(|at| json!(at)).collect());
        let plain = Value::Array((0..50_000).map(|at| json!(at)).collect());
        let mut changed = plain.clone();
        json_patch::patch(&mut changed, &values(&plain, &reversed)).unwrap();
        assert!(is_same(&changed, &reversed));
    }

    #[test]
    fn what_would_cost_too_much_is_replaced() {
        // Paths that are longer together than any state needs.
        let named = |value: usize| json!({"x".repeat(100_000): vec![value; 2_000], "beside": 1});
        let whole = values(&named(0), &named(1));
        assert_eq!((whole.len(), whole[0].path().as_str()), (1, ""));
        // Very many that go from the front of very many.
        let texts = |from: usize, last: usize| json!({"list": (from..60_000).chain([last]).map(|at| at.to_string()).collect::<Vec<_>>()});
        let array = values(&texts(0, 60_001), &texts(30_000, 60_002));
        assert_eq!((array.len(), array[0].path().as_str()), (1, "/list"));
        assert_eq!(values(&texts(0, 60_001), &texts(1_000, 60_002)).len(), 1_001);
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let number = prop_oneof![
            Just(json!(0)),
            Just(json!(0.0)),
            Just(json!(-0.0)),
            Just(json!(1)),
            Just(json!(1.0)),
            any::<i64>().prop_map(|number| json!(number)),
            any::<f64>().prop_filter("JSON has no others", |number| number.is_finite()).prop_map(|number| json!(number)),
        ];
        let leaf = prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::Bool), number, "[ab~/é😀\0]{0,3}".prop_map(Value::String)];
        leaf.prop_recursive(4, 60, 8, |inner| {
            let name = prop_oneof![
                Just(""),
                Just("/"),
                Just("~"),
                Just("~0"),
                Just("~1"),
                Just("0"),
                Just("-"),
                Just("é\u{0}"),
                Just("a"),
                Just("b")
            ];
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Value::Array),
                prop::collection::vec((name, inner), 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())),
            ]
        })
    }

    /// A value and another that is made of it by few changes, as two steps of a run are.
    fn two_values() -> impl Strategy<Value = (Value, Value)> {
        let near = prop::collection::vec(any_value(), 0..20).prop_flat_map(|elements| {
            let changes = prop::collection::vec((any::<prop::sample::Index>(), 0..3_u8, any_value()), 0..5);
            (Just(elements), changes).prop_map(|(elements, changes)| {
                let mut after = elements.clone();
                for (at, what, value) in changes {
                    let at = at.index(after.len() + 1);
                    match what {
                        0 => after.insert(at, value),
                        _ if at == after.len() => {}
                        1 => drop(after.remove(at)),
                        _ => after[at] = value,
                    }
                }
                (Value::Array(elements), Value::Array(after))
            })
        });
        prop_oneof![(any_value(), any_value()), near]
    }

    proptest! {
        #[test]
        fn a_patch_makes_the_second_of_the_first((before, after) in two_values()) {
            let patch = values(&before, &after);
            let read: Patch = serde_json::from_str(&patch.to_string()).unwrap();
            for patch in [&patch, &read] {
                let mut made = before.clone();
                json_patch::patch(&mut made, patch).unwrap();
                prop_assert!(is_same(&made, &after), "{patch} makes {made} and not {after}");
            }
            prop_assert_eq!(patch.is_empty(), is_same(&before, &after));
        }

        #[test]
        fn a_rising_part_is_the_longest(seconds in prop::collection::vec(0..30_usize, 0..12)) {
            let pairs: Vec<(usize, usize)> = seconds.iter().copied().enumerate().collect();
            let part = rising(&pairs);
            prop_assert!(part.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1));
            let longest = (0..1_u32 << pairs.len())
                .filter(|chosen| {
                    let chosen: Vec<usize> = seconds.iter().enumerate().filter(|(at, _)| chosen & (1 << at) != 0).map(|(_, second)| *second).collect();
                    chosen.windows(2).all(|pair| pair[0] < pair[1])
                })
                .map(u32::count_ones)
                .max();
            prop_assert_eq!(Some(part.len() as u32), longest);
        }
    }
}
