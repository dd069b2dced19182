//! What lies in a store's directory when all who used it have ended.

use std::fs;
use std::path::Path;

use taffrail::Store;

/// Asserts that a directory holds what a store needs and no leftover, and that nothing in it is
/// damaged. Nobody may have it open.
pub fn is_tidy(dir: &Path, context: &str) {
    let store = Store::options().read_only(true).open(dir).unwrap_or_else(|error| panic!("{context}: {error:?}"));
    let findings = store.verify().unwrap_or_else(|error| panic!("{context}: {error:?}"));
    assert!(!findings.iter().any(|finding| finding.damage), "{context}: {findings:?}");
    for entry in fs::read_dir(dir).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        // Hints, and what became of one whose writer was killed, wait for the next who is first.
        let is_hint = name.ends_with(".hint") || name.ends_with(".hint.new");
        let expected = name == "MANIFEST" || name == "tail" || name.ends_with(".seg") || name.ends_with(".lock") || is_hint;
        assert!(expected, "{context}: {name} was left behind");
    }
}
