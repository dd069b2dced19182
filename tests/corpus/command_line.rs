//! What is asked of any arguments and of any line to import: they are taken or refused. The command line is a
//! program, so its files are compiled in here.

use std::cell::RefCell;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use clap::{Command, CommandFactory, FromArgMatches};
use serde_json::value::RawValue;
use taffrail::testing::fuzzing::Property;

#[allow(dead_code, missing_docs)]
#[path = "../../src/bin/taffrail/args.rs"]
mod args;
#[allow(missing_docs)]
#[path = "../../src/bin/taffrail/pretty.rs"]
mod pretty;
#[allow(dead_code, missing_docs)]
#[path = "../../src/bin/taffrail/rows.rs"]
mod rows;

/// Every target by its name.
pub const TARGETS: [(&str, Property); 3] = [("arguments", arguments), ("pretty", pretty), ("rows", rows)];

/// Arguments, each ended by NUL; what is refused is refused in words.
pub fn arguments(data: &[u8]) -> bool {
    let words = data.split(|&byte| byte == 0).map(|word| OsString::from_vec(word.to_vec()));
    // Made once: it takes longer than to parse by it.
    thread_local!(static DEFINITION: RefCell<Command> = RefCell::new(args::CommandLine::command()));
    let words = std::iter::once("taffrail".into()).chain(words);
    let parsed = DEFINITION.with_borrow_mut(|definition| definition.try_get_matches_from_mut(words));
    match parsed.and_then(|mut matches| args::CommandLine::from_arg_matches_mut(&mut matches)) {
        Ok(_) => true,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
    }
}

/// A line to import.
pub fn rows(data: &[u8]) -> bool {
    let Ok(row) = rows::parse(data) else { return false };
    assert!(!row.thread.is_empty() && !row.tag.as_str().is_empty());
    if let std::borrow::Cow::Borrowed(state) = row.value {
        assert!(serde_json::from_slice::<&RawValue>(state).is_ok(), "a state that is no JSON");
    }
    true
}

/// Indented, JSON has the same tokens; indented again it is the same.
pub fn pretty(data: &[u8]) -> bool {
    let indented = |text: &[u8]| {
        let mut out = Vec::new();
        pretty::write_indented(text, &mut out).unwrap();
        out
    };
    let once = indented(data);
    if serde_json::from_slice::<&RawValue>(data).is_err() {
        return false;
    }
    assert_eq!(indented(&once), once);
    let value = |text: &[u8]| serde_json::from_slice::<serde_json::Value>(text).ok();
    assert_eq!(value(&once), value(data), "indenting changed it");
    true
}

/// The inputs to begin with of a target, each of which it takes.
pub fn seeds(target: &str) -> Vec<Vec<u8>> {
    let texts: &[&str] = match target {
        "arguments" => &[
            "put\0thread\0-\0--type=json\0--id=a\0--parent=b\0--metadata={}\0--expect-head=c\0--buffered",
            "--store\0memory:\0get\0t\0--id\0a\0--pretty",
            "history\0t\0--limit=all\0--before=a\0--states",
            "threads\0--pattern=a*\0--limit=3\0--offset=2\0--after=b\0--long",
            "watch\0t\0--limit=1\0--json",
            "vacuum\0--older-than=1d 12h\0--idle=2w\0--keep=3\0--dry-run",
            "retain\0all\0--thread=t",
            "repair\0dest\0--json",
            "import\0-",
        ],
        "pretty" => &["{\"z\":1.0,\"a\" : [ 1e400,-0.0 ,{\"a\":\"x\\\"\"}],\"z\":[ ]}", "\"\\ud83d\"", " null\n"],
        "rows" => &[
            r#"{"thread":"t","id":"b","seq":1,"parent":"a","saved_at":"1970-01-01T00:00:01.5Z","metadata":{"k":1.0},"data":"Mf8="}"#,
            r#"{"seq":7,"state": {"n":1.0,"n":18446744073709551616} ,"thread":"t","parent":null}"#,
            r#"{"thread":"t","checkpoint":"b","key":"k","type":"bytes","text":" 1\n"}"#,
        ],
        _ => &[],
    };
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}
