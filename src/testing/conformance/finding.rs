//! Searches: metadata by path and value, text in states, the newest first, one moment, bad input.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde_json::{Value, json};

use super::probe::{Seen, all, good, id, refused};
use super::{Make, Place, Setup};
use crate::batch::{Batch, PutOptions};
use crate::checkpoint::{Metadata, TypeTag};
use crate::error::ErrorKind;
use crate::query::{FindQuery, Progress};

cases![
    a_member_is_found_by_its_path,
    values_are_equal_as_json,
    every_condition_must_hold,
    every_word_is_in_the_state,
    a_substring_is_in_the_state_as_it_stands,
    states_of_other_types_are_searched_as_text,
    the_newest_come_first,
    a_search_stays_in_its_thread,
    a_limit_ends_the_search,
    what_is_gone_is_not_found,
    a_search_shows_the_moment_it_was_asked_for,
    a_search_survives_reopening,
    a_bad_search_is_refused,
    many_checkpoints_are_searched,
];

impl Place {
    #[track_caller]
    fn put_about(&self, thread: &str, own: &str, metadata: &str) {
        let metadata = good("metadata", Metadata::from_json(metadata));
        self.put_text_with(thread, "1", PutOptions::default().id(id(own)).metadata(metadata));
    }

    /// The ids that a query finds, in its order.
    #[track_caller]
    fn found(&self, query: &FindQuery) -> String {
        let ids: Vec<String> = all("find", self.find(query)).into_iter().map(|info| info.id.to_string()).collect();
        ids.join(" ")
    }

    /// The same for one member of the metadata.
    #[track_caller]
    fn found_by(&self, path: &str, value: Value) -> String {
        self.found(&FindQuery { metadata: vec![(path.to_owned(), value)], ..FindQuery::default() })
    }

    #[track_caller]
    fn found_by_json(&self, path: &str, json: &str) -> String {
        self.found(&FindQuery { metadata_json: vec![(path.to_owned(), json.to_owned())], ..FindQuery::default() })
    }

    #[track_caller]
    fn found_words(&self, words: &str) -> String {
        self.found(&FindQuery { text: Some(words.to_owned()), ..FindQuery::default() })
    }

    #[track_caller]
    fn found_substring(&self, substring: &str) -> String {
        self.found(&FindQuery { substring: Some(substring.to_owned()), ..FindQuery::default() })
    }

    fn finds_metadata(&self) -> bool {
        self.capabilities().metadata_query
    }

    fn finds_text(&self) -> bool {
        self.capabilities().search
    }
}

/// Dots go into objects and arrays, `\` takes what follows as it is, and what a path does not lead to has no value.
pub fn a_member_is_found_by_its_path(make: Make<'_>) {
    let place = make(Setup::default());
    if !place.finds_metadata() {
        return;
    }
    place.put_about("t", "nested", r#"{"a":{"b":[10,{"c":"x"}]},"":0}"#);
    place.put_about("t", "dotted", r#"{"a.b":10,"\\":"y","é=":"z"}"#);
    place.put_text_with("t", "1", PutOptions::default().id(id("none")));
    assert_eq!(place.found_by("a.b.0", json!(10)), "nested");
    assert_eq!(place.found_by("a.b.1.c", json!("x")), "nested");
    assert_eq!(place.found_by("a", json!({"b": [10, {"c": "x"}]})), "nested");
    assert_eq!(place.found_by("", json!(0)), "nested");
    assert_eq!(place.found_by(r"a\.b", json!(10)), "dotted");
    assert_eq!(place.found_by(r"\\", json!("y")), "dotted");
    assert_eq!(place.found_by("é=", json!("z")), "dotted");
    for path in ["a.b", "a.b.2", "a.b.00", "a.c", "A", "b", "a.b.1.c.d"] {
        assert_eq!(place.found_by(path, json!(10)), "", "{path}");
    }
}

/// 1 is 1.0 and not "1" or true; numbers count to the last digit; null is not absence; objects have no order.
pub fn values_are_equal_as_json(make: Make<'_>) {
    let place = make(Setup::default());
    if !place.finds_metadata() {
        return;
    }
    for (own, metadata) in [
        ("one", r#"{"k":1}"#),
        ("float", r#"{"k":1.0}"#),
        ("text", r#"{"k":"1"}"#),
        ("true", r#"{"k":true}"#),
        ("null", r#"{"k":null}"#),
        ("absent", r#"{"j":1}"#),
        ("huge", r#"{"k":18446744073709551616}"#),
        ("huger", r#"{"k":18446744073709551617}"#),
        ("tenth", r#"{"k":0.10}"#),
        ("object", r#" {"k": {"b":[],"a":1e0}} "#),
        ("twice", r#"{"k":1,"k":2}"#),
        ("escaped", r#"{"\u006b":"\u00e9"}"#),
        ("half", r#"{"k":"\ud83d"}"#),
    ] {
        place.put_about("t", own, metadata);
    }
    assert_eq!(place.found_by("k", json!(1)), "float one");
    assert_eq!(place.found_by("k", json!(1.0)), "float one");
    assert_eq!(place.found_by("k", json!("1")), "text");
    assert_eq!(place.found_by("k", json!(true)), "true");
    assert_eq!(place.found_by("k", Value::Null), "null");
    assert_eq!(place.found_by_json("k", "18446744073709551616"), "huge");
    assert_eq!(place.found_by_json("k", " 18446744073709551617.0 "), "huger");
    assert_eq!(place.found_by("k", json!(0.1)), "tenth");
    assert_eq!(place.found_by("k", json!({"a": 1, "b": []})), "object");
    assert_eq!(place.found_by("k", json!(2)), "twice");
    assert_eq!(place.found_by("k", json!("é")), "escaped");
    assert_eq!(place.found_by("k", json!("")), "");
}

/// Several members, their values as text, and words in the state: all of them.
pub fn every_condition_must_hold(make: Make<'_>) {
    let place = make(Setup::default());
    if !place.finds_metadata() || !place.finds_text() {
        return;
    }
    let put = |own: &str, metadata: &str, state: &str| {
        let metadata = good("metadata", Metadata::from_json(metadata));
        place.put_text_with("t", state, PutOptions::default().id(id(own)).metadata(metadata));
    };
    put("both", r#"{"a":1,"b":2}"#, "\"hello world\"");
    put("one", r#"{"a":1}"#, "\"hello world\"");
    put("other", r#"{"a":1,"b":2}"#, "\"hello\"");
    let a = ("a".to_owned(), json!(1));
    let b = ("b".to_owned(), json!(2));
    let query = FindQuery { metadata: vec![a.clone(), b.clone()], ..FindQuery::default() };
    assert_eq!(place.found(&query), "other both");
    assert_eq!(place.found(&FindQuery { text: Some("world".to_owned()), ..query.clone() }), "both");
    assert_eq!(place.found(&FindQuery { substring: Some("hello".to_owned()), text: Some("WORLD".to_owned()), ..query }), "both");
    let mixed = FindQuery { metadata: vec![a.clone()], metadata_json: vec![("b".to_owned(), "2.0".to_owned())], ..FindQuery::default() };
    assert_eq!(place.found(&mixed), "other both");
    assert_eq!(place.found(&FindQuery { metadata: vec![a, ("a".to_owned(), json!(2))], ..FindQuery::default() }), "");
    assert_eq!(place.found(&FindQuery::default()), "other one both", "without a condition all are found");
}

/// Words are sought in names and values as a reader sees them, in any order and case, also within words.
pub fn every_word_is_in_the_state(make: Make<'_>) {
    let place = make(Setup::default());
    if !place.finds_text() {
        return;
    }
    place.put_id("t", "flight", r#"{"Plan":["book a FLIGHT to Z\u00fcrich"],"cost":120.50}"#);
    place.put_id("t", "train", r#"{"Plan":"take the\ntrain","done":false}"#);
    assert_eq!(place.found_words("plan"), "train flight");
    assert_eq!(place.found_words("  zürich\tFlig "), "flight");
    assert_eq!(place.found_words("ZÜRICH 120.50"), "flight");
    assert_eq!(place.found_words("train take"), "train");
    assert_eq!(place.found_words("false"), "train");
    for absent in ["zurich", "u00fc", "flight train", "ntrain", "{", "120.5000", "thetrain", "planbook"] {
        assert_eq!(place.found_words(absent), "", "{absent}");
    }
}

/// A substring is blank for blank, in its case, and within one string.
pub fn a_substring_is_in_the_state_as_it_stands(make: Make<'_>) {
    let place = make(Setup::default());
    if !place.finds_text() {
        return;
    }
    place.put_id("t", "quoted", r#"{"a":"she said \"two  words\"\n😀","b":"end"}"#);
    place.put_id("t", "pair", r#"["\ud83d\ude00","\ud83d"]"#);
    assert_eq!(place.found_substring("\"two  words\"\n"), "quoted");
    assert_eq!(place.found_substring("😀"), "pair quoted");
    for absent in ["Two  words", "two words", "\\n", "end\"", "😀end"] {
        assert_eq!(place.found_substring(absent), "", "{absent}");
    }
}

/// A state that is no JSON is searched where its bytes are UTF-8, escapes being what they look like.
pub fn states_of_other_types_are_searched_as_text(make: Make<'_>) {
    let place = make(Setup::default());
    if !place.finds_text() {
        return;
    }
    let put =
        |own: &str, tag: TypeTag, state: &[u8]| drop(good("put", place.put_bytes("t", tag, state, PutOptions::default().id(id(own)))));
    put("msgpack", TypeTag::MSGPACK, b"\x81\xa4Plan\xa6Z\xc3\xbcrich");
    put("bytes", TypeTag::BYTES, b"\xff\xfe{\"pl\\u0061n\": raw}\x00");
    put("empty", TypeTag::BYTES, b"");
    assert_eq!(place.found_words("PLAN zürich"), "msgpack");
    assert_eq!(place.found_substring("\": raw}\0"), "bytes");
    assert_eq!(place.found_substring("\\u0061"), "bytes");
    assert_eq!(place.found_words("plan"), "msgpack");
}

/// Over all threads the order is that of the seqs; a checkpoint that was put again stands where it stood.
pub fn the_newest_come_first(make: Make<'_>) {
    let place = make(Setup::default());
    if !place.finds_metadata() && !place.finds_text() {
        return;
    }
    for step in 0..12 {
        place.put_id(["b", "a", "c", "a"][step % 4], &format!("s{step}"), "1");
    }
    place.put_id("b", "s0", "2");
    let mut batch = Batch::new();
    for (thread, own) in [("z", "s12"), ("a", "s13")] {
        batch.put(thread, TypeTag::JSON, b"1", PutOptions::default().id(id(own)));
    }
    good("commit", place.commit(&batch));
    let found = all("find", place.find(&FindQuery::default()));
    let wanted: Vec<String> = (0..14).rev().map(|step| format!("s{step}")).collect();
    assert!(found.windows(2).all(|pair| pair[0].seq > pair[1].seq), "{found:?}");
    assert_eq!(found.iter().map(|info| info.id.to_string()).collect::<Vec<_>>(), wanted);
    for info in found {
        let whole = place.find_id(&info.thread, &info.id).map(|seen| seen.without_state());
        assert_eq!(Some(Seen::from(info)), whole, "what is found is what is there");
    }
}

/// In one thread, of which no other name and no beginning is taken; one that is not there has nothing.
pub fn a_search_stays_in_its_thread(make: Make<'_>) {
    let place = make(Setup::default());
    if !place.finds_metadata() && !place.finds_text() {
        return;
    }
    for thread in ["t", "tt", "T", "a/t"] {
        place.put_id(thread, &format!("in {thread}"), "1");
    }
    let within = |thread: &str| FindQuery { thread: Some(thread.to_owned()), ..FindQuery::default() };
    assert_eq!(place.found(&within("t")), "in t");
    assert_eq!(place.found(&within("a/t")), "in a/t");
    assert_eq!(place.found(&within("absent")), "");
    refused(ErrorKind::InvalidInput, "find in no thread", place.find(&within("")));
    refused(ErrorKind::InvalidInput, "find in a long thread", place.find(&within(&"x".repeat(4097))));
}

/// A limit is met by the newest, and what is older is not looked at any more.
pub fn a_limit_ends_the_search(make: Make<'_>) {
    let place = make(Setup::default());
    if !place.finds_text() {
        return;
    }
    for step in 0..20 {
        place.put_id("t", &format!("s{step}"), if step % 5 == 0 { "\"five\"" } else { "\"other\"" });
    }
    for (limit, wanted, looked_at) in
        [(Some(0), "", 0), (Some(1), "s15", 5), (Some(3), "s15 s10 s5", 15), (Some(9), "s15 s10 s5 s0", 20), (None, "s15 s10 s5 s0", 20)]
    {
        let counted = Arc::new(AtomicU64::new(0));
        let counter = counted.clone();
        let progress = Progress::new(move |more| {
            counter.fetch_add(more, Relaxed);
        });
        assert_eq!(place.found(&FindQuery { text: Some("five".to_owned()), limit, progress, ..FindQuery::default() }), wanted);
        assert_eq!(counted.load(Relaxed), looked_at, "{limit:?}");
    }
}

/// What was trimmed, deleted or replaced is not found, nor is what is only attached.
pub fn what_is_gone_is_not_found(make: Make<'_>) {
    let place = make(Setup { max_history: Some(3) });
    if !place.finds_text() {
        return;
    }
    (0..5).for_each(|step| drop(place.put_id("t", &format!("s{step}"), "\"needle\"")));
    place.put_id("gone", "g", "\"needle\"");
    good("delete", place.delete("gone"));
    good("delete_checkpoint", place.delete_checkpoint("t", &id("s3")));
    place.put_id("t", "s4", "\"other\"");
    assert_eq!(place.found_words("needle"), "s2");
    if place.capabilities().attachments {
        let on = crate::batch::OnExisting::Keep;
        good("attach", place.attach("waiting", &id("w"), "k", TypeTag::JSON, b"\"needle\"", on));
        assert_eq!(place.found_words("needle"), "s2");
    }
}

/// Puts and deletes after the call change nothing of what it finds, and are not hindered.
pub fn a_search_shows_the_moment_it_was_asked_for(make: Make<'_>) {
    let place = make(Setup { max_history: Some(4) });
    if !place.finds_text() {
        return;
    }
    for own in ["a", "b", "c", "d"] {
        place.put_id(if own == "c" { "u" } else { "t" }, own, "\"needle\"");
    }
    let query = FindQuery { text: Some("needle".to_owned()), ..FindQuery::default() };
    let mut started = good("find", place.find(&query));
    let first = started.next().map(|info| good("the newest", info).id.to_string());
    let waiting = good("find", place.find(&query));
    place.put_id("t", "b", "\"other\"");
    good("delete", place.delete("u"));
    (0..5).for_each(|step| drop(place.put_id("t", &format!("n{step}"), "\"needle\"")));
    let ids = |items: crate::checkpointer::Items<_>| {
        items.map(|info: crate::Result<crate::CheckpointInfo>| good("an item", info).id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!((first.as_deref(), ids(started)), (Some("d"), vec!["c".to_owned(), "b".to_owned(), "a".to_owned()]));
    assert_eq!(ids(waiting), ["d", "c", "b", "a"]);
    assert_eq!(place.found(&query), "n4 n3 n2 n1");
}

/// Found is the same before and after the place was closed.
pub fn a_search_survives_reopening(make: Make<'_>) {
    let mut place = make(Setup::default());
    if !place.finds_metadata() || !place.finds_text() {
        return;
    }
    for step in 0..10 {
        let metadata = good("metadata", Metadata::new(&json!({"even": step % 2 == 0})));
        let thread = format!("t{}", step % 3);
        place.put_text_with(&thread, &format!("\"step {step}\""), PutOptions::default().id(id(&format!("s{step}"))).metadata(metadata));
    }
    for _ in 0..2 {
        assert_eq!(place.found_by("even", json!(true)), "s8 s6 s4 s2 s0");
        assert_eq!(place.found_words("step 7"), "s7");
        place.reopen();
    }
}

/// A text without a word, an open `\` in a path, and a value that is no JSON are `InvalidInput`.
pub fn a_bad_search_is_refused(make: Make<'_>) {
    let place = make(Setup::default());
    if !place.finds_metadata() || !place.finds_text() {
        return;
    }
    place.put_text("t", "1");
    let query = FindQuery::default();
    for text in ["", " \t\n\u{3000}"] {
        refused(ErrorKind::InvalidInput, "no word", place.find(&FindQuery { text: Some(text.to_owned()), ..query.clone() }));
    }
    refused(ErrorKind::InvalidInput, "no substring", place.find(&FindQuery { substring: Some(String::new()), ..query.clone() }));
    for path in ["\\", "a.\\", r"a\\\"] {
        let metadata = vec![(path.to_owned(), json!(1))];
        refused(ErrorKind::InvalidInput, "an open escape", place.find(&FindQuery { metadata, ..query.clone() }));
    }
    for json in ["", "x", "1 2", "{", "NaN", &"[".repeat(200)] {
        let metadata_json = vec![("a".to_owned(), json.to_owned())];
        refused(ErrorKind::InvalidInput, "no JSON", place.find(&FindQuery { metadata_json, ..query.clone() }));
    }
}

/// 5,000 checkpoints in 50 threads, of which each hundredth is meant; the states are nearly the same.
pub fn many_checkpoints_are_searched(make: Make<'_>) {
    let place = make(Setup::default());
    if !place.finds_metadata() || !place.finds_text() {
        return;
    }
    let states: Vec<String> = (0..5000).map(|step| format!("{{\"text\":\"{}\",\"step\":\"n{step}n\"}}", "words ".repeat(50))).collect();
    let mut batch = Batch::new();
    let threads: Vec<String> = (0..50).map(|thread| format!("thread {thread}")).collect();
    for (step, state) in states.iter().enumerate() {
        let metadata = good("metadata", Metadata::new(&json!({"step": {"of hundred": step % 100}})));
        batch.put(
            &threads[step * 7 % 50],
            TypeTag::JSON,
            state.as_bytes(),
            PutOptions::default().id(id(&format!("s{step}"))).metadata(metadata),
        );
        if step % 1000 == 999 {
            good("commit", place.commit(&batch));
            batch = Batch::new();
        }
    }
    let wanted: Vec<String> = (0..50).rev().map(|hundred| format!("s{}", hundred * 100 + 42)).collect();
    assert_eq!(place.found_by("step.of hundred", json!(42)), wanted.join(" "));
    assert_eq!(place.found_words("n4242n WORDS"), "s4242");
    assert_eq!(place.found_words("n5000n"), "");
}
