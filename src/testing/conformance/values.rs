//! What is put comes back byte for byte, or is refused before anything is written.

use std::collections::BTreeMap;

use super::probe::{Seen, good, id, refused};
use super::{Make, Place, Setup};
use crate::batch::PutOptions;
use crate::checkpoint::{METADATA_BYTES_MAX, Metadata, TypeTag};
use crate::checkpointer::CheckpointerExt;
use crate::error::ErrorKind;
use crate::json::DEPTH_MAX;
use crate::testing::states::noise;

cases![
    json_text_comes_back_byte_for_byte,
    text_that_is_not_json_is_refused_and_harms_nothing,
    nesting_is_bounded_and_what_is_taken_is_read_back,
    typed_values_come_back,
    floats_come_back_to_the_last_bit,
    numbers_json_cannot_hold_are_refused_with_their_path,
    a_type_that_does_not_take_the_state_is_decode,
    opaque_bytes_come_back,
    large_states_come_back,
    type_tags_are_an_open_set,
    metadata_comes_back_byte_for_byte,
];

/// Texts that a parser on the way would change: digits, key order, doubles, escapes, white space.
pub(super) fn json_texts() -> Vec<String> {
    let digits = [
        "9007199254740991",
        "9007199254740992",
        "9007199254740993",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551615",
        "18446744073709551616",
        "-9223372036854775808",
        "-9223372036854775809",
        "170141183460469231731687303715884105727",
        "1",
        "1.0",
        "1e0",
        "-0",
        "-0.0",
        "0.1e-7",
        "1E+2",
        "1e400",
        "-1e400",
        "1e-400",
    ]
    .map(str::to_owned);
    let long = [400, 5000].map(|count| "7".repeat(count));
    let numbers = digits.into_iter().chain(long);
    let nested = numbers.flat_map(|number| [format!("[{number}, {number}]"), format!("{{\"a\":{{\"b\":[{number}]}}}}"), number]);
    let texts = [
        r#"{"m":"ab\ud83dcd"}"#,
        r#"{"\udc00k":1}"#,
        r#"["\ud800"]"#,
        r#""\uD83D\uDC69""#,
        r#"{"t":"x\u0000y"}"#,
        r#"{"\u0000":1}"#,
        r#""\/ \b \f \n \r \t \\ \"""#,
        r#"{"a":1,"a":2}"#,
        r#"{"1":"x","1":"y","true":"z","null":"n"}"#,
        r#"{"z":1,"a":2,"m":{"y":1,"b":2}}"#,
        r#"{"":0}"#,
        "{\"é\":1,\"e\u{301}\":2}",
        r#"{"$serde_json::private::Number":"1"}"#,
        r#"{"$serde_json::private::RawValue":"1"}"#,
        "null",
        "true",
        "\"\"",
        "[]",
        "{}",
        " [1 , 2]\r\n\t ",
        "\n\n1",
        "\"null NaN\"",
        "[null]",
        "\"\u{7f}\u{2028}\u{feff}\u{10ffff}\"",
    ]
    .map(str::to_owned);
    let controls = (0..0x20).map(|control| format!("\"\\u{control:04x}\""));
    let keys = (0..10_000).rev().map(|key| format!("\"k{key}\":{key}")).collect::<Vec<_>>().join(",");
    texts.into_iter().chain(nested).chain(controls).chain([format!("{{{keys}}}")]).collect()
}

/// Texts that are not JSON.
fn bad_texts() -> Vec<Vec<u8>> {
    let texts: [&[u8]; 24] = [
        b"",
        b" ",
        b"NaN",
        b"Infinity",
        b"-Infinity",
        b"[1, NaN]",
        b"{\"a\":-Infinity}",
        b"{",
        b"[1,]",
        b"{\"a\":1,}",
        b"{1:2}",
        b"{a:1}",
        b"'a'",
        b"01",
        b"+1",
        b"1.",
        b".5",
        b"1 2",
        b"\"a\nb\"",
        b"{\"a\":\x00}",
        b"\"a\x00b\"",
        b"\"\xed\xa0\x80\"",
        b"\xef\xbb\xbf1",
        b"\"\xff\"",
    ];
    let nested = (DEPTH_MAX + 1..DEPTH_MAX + 3).chain([1000, 10_000, 100_000]).flat_map(|depth| [arrays(depth), objects(depth)]);
    texts.into_iter().map(<[u8]>::to_vec).chain(nested.map(String::into_bytes)).chain([b"[".repeat(100_000)]).collect()
}

fn arrays(depth: usize) -> String {
    "[".repeat(depth) + &"]".repeat(depth)
}

fn objects(depth: usize) -> String {
    "{\"a\":".repeat(depth) + "1" + &"}".repeat(depth)
}

/// Digits of any length, key order, doubled keys, lone surrogates, escapes and outer white space stay.
pub fn json_text_comes_back_byte_for_byte(make: Make<'_>) {
    let mut place = make(Setup::default());
    let texts = json_texts();
    texts.iter().for_each(|text| drop(place.put_text("t", text)));
    for (at, text) in texts.iter().enumerate() {
        place.put_text(&format!("own {at}"), text);
    }
    place.reopen();
    let seen = place.audit("t");
    assert_eq!(seen.len(), texts.len());
    for (checkpoint, text) in seen.iter().rev().zip(&texts) {
        assert!(checkpoint.text() == *text, "put {text:.80}, read {checkpoint:?}");
        assert_eq!(checkpoint.tag, TypeTag::JSON);
    }
    for (at, text) in texts.iter().enumerate() {
        assert!(place.newest(&format!("own {at}")).text() == *text, "{text:.80}");
    }
}

/// A bad text as put 3 of 5 is `InvalidInput`, leaves nothing, and the other four are unharmed.
pub fn text_that_is_not_json_is_refused_and_harms_nothing(make: Make<'_>) {
    let place = make(Setup::default());
    for (at, bad) in bad_texts().iter().enumerate() {
        let thread = format!("t{at}");
        let what = format!("{:.40}", String::from_utf8_lossy(bad));
        let put_bad = |options| place.put_bytes(&thread, TypeTag::JSON, bad, options);
        place.put_id(&thread, "c1", "1");
        place.put_text(&thread, "2");
        let before = place.picture(&[&thread]);
        refused(ErrorKind::InvalidInput, &what, put_bad(PutOptions::default()));
        refused(ErrorKind::InvalidInput, &what, put_bad(PutOptions::default().id(id("c1"))));
        refused(ErrorKind::InvalidInput, &what, place.put_bytes("new", TypeTag::JSON, bad, PutOptions::default()));
        assert_eq!(place.picture(&[&thread]), before, "{what} left something");
        place.put_text(&thread, "4");
        place.put_text(&thread, "5");
        assert_eq!(place.states(&thread).concat(), "5421");
    }
    assert!(!good("exists", place.exists("new")));
}

/// What is nested 127 deep is taken and read back as a value; the brackets in strings do not count.
pub fn nesting_is_bounded_and_what_is_taken_is_read_back(make: Make<'_>) {
    let place = make(Setup::default());
    // Where a stack is small, recursion would end the process.
    let small = std::thread::Builder::new().stack_size(512 * 1024);
    std::thread::scope(|scope| {
        let worker = small.spawn_scoped(scope, || nest(&place)).expect("a worker");
        worker.join().unwrap_or_else(|panicked| std::panic::resume_unwind(panicked));
    });
    assert_eq!(place.audit("typed").len(), 1);
}

fn nest(place: &Place) {
    let in_string = format!("{:?}", "[".repeat(1000));
    for text in [arrays(DEPTH_MAX), objects(DEPTH_MAX), in_string, format!("[{}]", vec!["[]"; 1000].join(","))] {
        place.put_text("t", &text);
        let value: Option<serde_json::Value> = good("get", place.get("t"));
        assert_eq!(value.map(|value| value.to_string()), Some(text));
    }
    let mut value = serde_json::Value::Null;
    (0..DEPTH_MAX).for_each(|_| value = serde_json::Value::Array(vec![value.take()]));
    good("put 127 deep", place.put("typed", &value));
    assert_eq!(good("get", place.get::<serde_json::Value>("typed")).as_ref(), Some(&value));
    refused(ErrorKind::InvalidInput, "put 128 deep", place.put("typed", &[&value]));
    let deep = arrays(100_000);
    refused(ErrorKind::InvalidInput, "100,000 deep", place.put_bytes("typed", TypeTag::JSON, deep.as_bytes(), PutOptions::default()));
}

/// Floats are read as the nearest to their text, which a quick parser misses by a bit.
pub fn floats_come_back_to_the_last_bit(make: Make<'_>) {
    let place = make(Setup::default());
    let floats =
        [51.248_178_375_505_404, -93.311_370_376_880_33, -36.573_994_842_753_436, 97.453_653_200_346_85, 0.1 + 0.2, 5e-324, f64::MAX];
    good("put", place.put("t", &floats));
    let read: Option<Vec<f64>> = good("get", place.get("t"));
    let bits = |floats: &[f64]| floats.iter().map(|float| float.to_bits()).collect::<Vec<_>>();
    assert_eq!(read.as_deref().map(bits), Some(bits(&floats)));
}

/// The typed calls give back what they were given.
pub fn typed_values_come_back(make: Make<'_>) {
    let place = make(Setup::default());
    let first = BTreeMap::from([("scores".to_owned(), vec![Some(0.1), None, Some(f64::MAX), Some(-0.0)])]);
    let second = BTreeMap::from([("é\0\n".to_owned(), vec![])]);
    let own = good("put", place.put("t", &first));
    good("put_with", place.put_with("t", &second, PutOptions::default().id(id("c"))));
    assert_eq!(good("get", place.get("t")).as_ref(), Some(&second));
    let loaded = good("load", place.load("t", &own)).map(|checkpoint| checkpoint.state);
    assert_eq!(loaded.as_ref(), Some(&first));
    let states: Vec<BTreeMap<String, Vec<Option<f64>>>> =
        good("history", place.history("t", None)).into_iter().map(|checkpoint| checkpoint.state).collect();
    assert_eq!(states, [second, first]);
    assert_eq!(good("history", place.history::<serde_json::Value>("t", 1)).len(), 1);
    good("put a large number", place.put("n", &u128::MAX));
    assert_eq!(good("get", place.get::<u128>("n")), Some(u128::MAX));
    assert_eq!(good("get", place.get::<u8>("absent")), None);
    place.audit("t");
}

/// NaN and infinity are `InvalidInput` with the thread and the path, and the thread is unharmed.
pub fn numbers_json_cannot_hold_are_refused_with_their_path(make: Make<'_>) {
    let place = make(Setup::default());
    place.put_text("t", "1");
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let mut scores = vec![1.0; 1000];
        scores[412] = bad;
        let result = place.put("t", &BTreeMap::from([("scores", scores)]));
        let message = result.as_ref().map_or_else(ToString::to_string, ToString::to_string);
        assert!(message.contains("$.scores[412]"), "the path should be named: {message}");
        assert_eq!(result.as_ref().err().and_then(|error| error.thread()), Some("t"));
        refused(ErrorKind::InvalidInput, "NaN or infinity", result);
    }
    place.put_text("t", "2");
    assert_eq!(place.states("t").concat(), "21");
}

/// The bytes are as put and the type does not take them: `Decode`; as bytes they are still there.
pub fn a_type_that_does_not_take_the_state_is_decode(make: Make<'_>) {
    let place = make(Setup::default());
    let decode = ErrorKind::Decode;
    place.put_text("float", "1e400");
    refused(decode, "1e400 as a float", place.get::<f64>("float"));
    place.put_text("text", r#""ab\ud83dcd""#);
    refused(decode, "a lone surrogate as text", place.get::<String>("text"));
    place.put_text("int", "18446744073709551616");
    refused(decode, "2^64 in 64 bits", place.get::<u64>("int"));
    let own = place.put_text("shape", r#"{"old":1}"#);
    refused(decode, "another shape", place.get::<Vec<u8>>("shape"));
    refused(decode, "another shape", place.load::<Vec<u8>>("shape", &own));
    refused(decode, "another shape", place.history::<Vec<u8>>("shape", None));
    good("put bytes", place.put_bytes("opaque", TypeTag::BYTES, b"1", PutOptions::default()));
    refused(decode, "bytes as JSON", place.get::<u8>("opaque"));
    for (thread, text) in [("float", "1e400"), ("text", r#""ab\ud83dcd""#), ("int", "18446744073709551616"), ("opaque", "1")] {
        assert_eq!(place.states(thread), [text]);
    }
}

/// Anything at all, put as bytes, comes back: no bytes, every byte, what is not UTF-8 or not JSON.
pub fn opaque_bytes_come_back(make: Make<'_>) {
    let mut place = make(Setup::default());
    let every: Vec<u8> = (0..=255).collect();
    let states: [&[u8]; 8] = [b"", b"\0", b"\xed\xa0\x80", b"NaN", &every, b"\r\n", b"", b"[1"];
    for state in states {
        good("put bytes", place.put_bytes("t", TypeTag::BYTES, state, PutOptions::default()));
    }
    for _ in 0..2 {
        let read: Vec<Vec<u8>> = place.audit("t").into_iter().rev().map(|checkpoint| checkpoint.state.unwrap_or_default()).collect();
        assert_eq!(read, states);
        place.reopen();
    }
}

/// States of a megabyte, alike and not, beside a small one.
pub fn large_states_come_back(make: Make<'_>) {
    let mut place = make(Setup::default());
    let noise = noise(1, 1 << 20);
    let changed: Vec<u8> = noise.iter().enumerate().map(|(at, byte)| if at == 500_000 { !byte } else { *byte }).collect();
    let text = format!("{:?}", "a long story ".repeat(80_000));
    let states = [noise.clone(), vec![0; 1 << 20], b"small".to_vec(), noise, changed, text.into_bytes()];
    for state in &states {
        good("put bytes", place.put_bytes("t", TypeTag::BYTES, state, PutOptions::default()));
    }
    place.reopen();
    let seen = place.audit("t");
    assert!(seen.iter().rev().map(|checkpoint| checkpoint.state.as_deref().unwrap_or_default()).eq(states.iter().map(Vec::as_slice)));
}

/// Any tag of printable ASCII comes back with its bytes; only `json` is looked into.
pub fn type_tags_are_an_open_set(make: Make<'_>) {
    let mut place = make(Setup::default());
    let longest = "t".repeat(64);
    let tags = ["json", "msgpack", "bytes", "JSON", "json ", "application/x-own; v=1", "~", &longest];
    for tag in tags {
        let tag = good("a tag", TypeTag::new(tag));
        let state: &[u8] = if tag == TypeTag::JSON { b"[1]" } else { b"[1" };
        good("put", place.put_bytes("t", tag, state, PutOptions::default()));
    }
    place.reopen();
    assert!(place.audit("t").iter().rev().map(|checkpoint| checkpoint.tag.as_str()).eq(tags));
}

/// Metadata is kept as its text, up to 64 KiB, and is there in every reading call.
pub fn metadata_comes_back_byte_for_byte(make: Make<'_>) {
    let mut place = make(Setup::default());
    let largest = format!("{{\"a\":\"{}\"}}", "x".repeat(METADATA_BYTES_MAX - 8));
    let texts = [
        "{}",
        "{ }",
        r#" {"z":1,"a":2} "#,
        r#"{"a":1,"a":2}"#,
        r#"{"n":18446744073709551616,"f":1.0}"#,
        r#"{"s":"\ud83d\u0000"}"#,
        &largest,
    ];
    for text in texts {
        let metadata = good("metadata", Metadata::from_json(text));
        place.put_text_with("t", "1", PutOptions::default().metadata(metadata));
    }
    place.reopen();
    let seen: Vec<Seen> = place.audit("t");
    assert!(seen.iter().rev().map(|checkpoint| checkpoint.metadata.as_str()).eq(texts));
    place.put_text("t", "2");
    check_members(&place);
}

fn check_members(place: &Place) {
    assert_eq!(place.newest("t").metadata.as_str(), "{}", "no metadata is the empty object");
    let metadata = good("metadata", Metadata::new(&BTreeMap::from([("step", 7), ("cost", 2)])));
    place.put_text_with("t", "3", PutOptions::default().metadata(metadata));
    let head = good("head", place.head("t"));
    let step = head.map(|head| good("a member", head.metadata.get::<u32>("step")));
    assert_eq!(step, Some(Some(7)));
}
