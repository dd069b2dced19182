//! Data flows one way: what a file may use is decided by the layer it stands in.
//!
//! Reads the `crate::` paths of the sources, tests aside, and compares them with the map in
//! DESIGN.md, section 3. A new layer, or a `use` against the flow, must be written down here first.

use std::fs;
use std::path::{Path, PathBuf};

/// A layer's files, and the crate modules they may name.
const LAYERS: [(&str, &[&str]); 12] = [
    ("src/format/", &["format", "plant"]),
    ("src/fs/", &["fs", "checkpoint", "plant"]),
    (
        "src/log/",
        &[
            "log",
            "format",
            "fs",
            "delta",
            "batch",
            "branch",
            "checkpoint",
            "checkpointer",
            "error",
            "finding",
            "options",
            "plant",
            "query",
            "report",
            "told",
        ],
    ),
    (
        "src/backend/file/",
        &["backend", "branch", "fs", "delta", "batch", "checkpoint", "checkpointer", "error", "finding", "options", "query"],
    ),
    ("src/backend/sqlite/", &["branch", "fs", "delta", "batch", "checkpoint", "checkpointer", "error", "finding", "options", "query"]),
    ("src/backend/", &["branch", "batch", "checkpoint", "checkpointer", "error", "finding", "options", "query"]),
    ("src/delta", &["delta", "format"]),
    ("src/carry/", &["carry", "batch", "checkpoint", "checkpointer", "error", "query"]),
    ("src/import/", &["carry", "batch", "checkpoint", "checkpointer", "error"]),
    ("src/run/", &["run", "batch", "checkpoint", "checkpointer", "error", "json", "query"]),
    ("src/plant.rs", &["plant"]),
    ("src/", &["batch", "checkpoint", "checkpointer", "error", "finite", "json", "query", "report"]),
];

/// Where the public face meets what is behind it; and the binary, whose `crate` is another one.
const MEETING_POINTS: [&str; 5] = ["src/lib.rs", "src/options.rs", "src/place.rs", "src/testing/", "src/bin/"];

fn sources(dir: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

/// The crate modules a source names outside its tests.
fn named(source: &str) -> Vec<String> {
    let code = source.split("#[cfg(test)]\nmod tests").next().unwrap_or("");
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines
        .flat_map(|line| line.split("crate::").skip(1))
        .map(|rest| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect())
        .collect()
}

#[test]
fn no_file_uses_a_layer_above_its_own() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    sources(&root.join("src"), &mut files);
    assert!(files.len() > 40, "the sources were not found");
    for file in files {
        let name = file.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        if MEETING_POINTS.iter().any(|point| name.starts_with(point)) || name.contains("/tests/") {
            continue;
        }
        let (layer, allowed) = LAYERS.iter().find(|(layer, _)| name.starts_with(layer)).unwrap();
        for module in named(&fs::read_to_string(&file).unwrap()) {
            let own_type = module.chars().next().is_some_and(char::is_uppercase);
            assert!(
                allowed.contains(&module.as_str()) || own_type && *layer == "src/",
                "{name} names crate::{module}, which is not below it"
            );
        }
    }
}

#[test]
fn unsafe_stands_in_two_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    sources(&root.join("src"), &mut files);
    let with: Vec<_> = files.iter().filter(|file| fs::read_to_string(file).unwrap().contains("unsafe {")).collect();
    let names: Vec<_> = with.iter().map(|file| file.file_name().unwrap().to_str().unwrap()).collect();
    assert!(names.len() == 2 && names.contains(&"map.rs") && names.contains(&"page.rs"), "{names:?}");
}

#[test]
fn sqlite_is_known_in_few_places() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    sources(&root.join("src"), &mut files);
    let with = files.iter().filter(|file| fs::read_to_string(file).unwrap().contains("rusqlite"));
    // The place; what imports from others' databases, and what fuzzes that; and what the store is measured beside.
    let homes =
        ["src/backend/sqlite", "src/import", "src/testing/fuzzing/imports.rs", "src/bin/taffrail/bench"].map(|home| root.join(home));
    let (inside, outside): (Vec<_>, Vec<_>) = with.partition(|file| homes.iter().any(|home| file.starts_with(home)));
    assert!(!inside.is_empty() && outside.is_empty(), "{outside:?}");
}

#[test]
fn bincode_and_fs2_stand_in_one_file_each() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    sources(&root.join("src"), &mut files);
    for (krate, home) in [("bincode::", "fixed.rs"), ("fs2::", "lock.rs")] {
        let with: Vec<_> = files.iter().filter(|file| fs::read_to_string(file).unwrap().contains(krate)).collect();
        assert!(with.len() == 1 && with[0].ends_with(home), "{krate} stands in {with:?}");
    }
}
