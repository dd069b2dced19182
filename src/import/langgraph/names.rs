//! The names that are made of LangGraph's: no two of its threads or writes ever get one name. Pure.

use std::fmt::Write;

/// What stands between a thread and its namespace, behind it `=`; in a thread's own id it is followed by `?`.
const NAMESPACE: &str = "?checkpoint_ns";

/// The thread of a namespace: in the root namespace the id itself, else `THREAD?checkpoint_ns=NAMESPACE`.
///
/// A thread id that holds `?checkpoint_ns` gets a `?` behind it there, in every namespace: read from the left,
/// what follows it tells whether it is part of the id or ends it.
pub(super) fn thread(id: &str, namespace: &str) -> String {
    let id = id.replace(NAMESPACE, "?checkpoint_ns?");
    if namespace.is_empty() { id } else { format!("{id}{NAMESPACE}={namespace}") }
}

/// The key of a write: `TASK IDX CHANNEL PATH`, in byte order as LangGraph orders them, by task and idx.
///
/// In the texts a byte below `!` is `!` and two hex digits, and `!` is `!~`: so a blank ends each, and sorts
/// before all that can stand in it. The idx has 19 digits; a negative one is `-` and what it is above -2^63.
pub(super) fn key(task: &str, idx: i64, channel: &str, path: &str) -> String {
    let idx = match u64::try_from(idx) {
        Ok(idx) => format!("{idx:019}"),
        Err(_) => format!("-{:019}", idx.wrapping_sub(i64::MIN)),
    };
    format!("{} {idx} {} {}", escaped(task), escaped(channel), escaped(path))
}

fn escaped(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut escaped, character| {
        match character {
            '!' => escaped.push_str("!~"),
            // Writing to a string cannot fail.
            '\0'..='\x20' => drop(write!(escaped, "!{:02x}", u32::from(character))),
            _ => escaped.push(character),
        }
        escaped
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[test]
    fn names_are_as_they_are_told() {
        assert_eq!(thread("t", ""), "t");
        assert_eq!(thread("ns", "outer:x|inner:y"), "ns?checkpoint_ns=outer:x|inner:y");
        assert_eq!(thread("a?checkpoint_ns=b", ""), "a?checkpoint_ns?=b");
        assert_eq!(key("task", 0, "ch", ""), "task 0000000000000000000 ch ");
        assert_eq!(key("a b", -1, "c!", "~__pull, step"), "a!20b -9223372036854775807 c!~ ~__pull,!20step");
        assert_eq!(key("t", i64::MIN, "", "\0"), "t -0000000000000000000  !00");
    }

    /// Texts of the pieces that could be taken for one another.
    fn pieces() -> impl Strategy<Value = String> {
        let piece = prop::sample::select(vec!["?checkpoint_ns", "=", "?", "checkpoint_ns", "a", "!", " ", "\0", "~", "20", "-", "é"]);
        prop::collection::vec(piece, 0..5).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn no_two_threads_get_one_name(pairs in prop::collection::vec((pieces(), pieces()), 2..40)) {
            let mut named = HashMap::new();
            for (id, namespace) in pairs {
                let before = named.insert(thread(&id, &namespace), (id.clone(), namespace.clone()));
                prop_assert!(before.is_none_or(|before| before == (id, namespace)));
            }
        }

        #[test]
        fn keys_are_ordered_as_the_writes_are(
            one in (pieces(), any::<i64>(), pieces(), pieces()), other in (pieces(), any::<i64>(), pieces(), pieces()), same in any::<bool>()
        ) {
            let other = if same { (one.0.clone(), other.1, other.2, other.3) } else { other };
            let key_of = |(task, idx, channel, path): &(String, i64, String, String)| key(task, *idx, channel, path);
            prop_assert_eq!(key_of(&one).cmp(&key_of(&other)), one.cmp(&other));
        }
    }
}
