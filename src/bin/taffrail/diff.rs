//! `diff`: what changed between two checkpoints, as a JSON Patch for programs and as lines for people.

use std::io::Write;

use serde_json::{Value, json};
use taffrail::diff::{Difference, Patch, PatchOperation};
use taffrail::{Checkpoint, CheckpointId, StateBytes};

use crate::args::Diff;
use crate::failure::Result;
use crate::output::{self, Output};
use crate::place::Place;

/// How much of a value is shown to a person, in characters.
const SHOWN_MAX: usize = 200;

pub fn diff(place: &str, args: &Diff) -> Result<()> {
    let place = Place::to_read(place)?;
    let (before, after) = (load(&place, &args.thread, &args.before)?, load(&place, &args.thread, &args.after)?);
    let mut out = Output::new();
    let for_programs = args.json || !out.terminal;
    match taffrail::diff(&before, &after) {
        Difference::Patch(patch) if for_programs => writeln!(out, "{patch}")?,
        Difference::Patch(patch) => {
            // It was parsed before the patch was made.
            let before = serde_json::from_slice(&before.state).unwrap_or_default();
            write_changes(&mut out, before, &patch, Colours::from_environment())?;
        }
        Difference::Bytes(bytes) if for_programs => {
            let side = |checkpoint: &Checkpoint<StateBytes>| json!({"type": checkpoint.tag.as_str(), "bytes": checkpoint.bytes});
            let (before, after) = (side(&before), side(&after));
            writeln!(out, "{}", json!({"why": bytes.why, "before": before, "after": after, "first_difference": bytes.first_difference}))?;
        }
        Difference::Bytes(bytes) => writeln!(out, "{}", output::one_line(&bytes.to_string()))?,
    }
    Ok(out.finish()?)
}

fn load(place: &Place, thread: &str, id: &str) -> Result<Checkpoint<StateBytes>> {
    let found = place.load_bytes(thread, &CheckpointId::new(id)?)?;
    found.ok_or_else(|| place.absent(format!("thread {thread:?} has no checkpoint {id:?}")))
}

/// How what went and what came is coloured.
#[derive(Clone, Copy)]
struct Colours {
    gone: &'static str,
    come: &'static str,
    end: &'static str,
}

impl Colours {
    const NONE: Colours = Colours { gone: "", come: "", end: "" };
    const SOME: Colours = Colours { gone: "\x1b[31m", come: "\x1b[32m", end: "\x1b[0m" };

    /// None where NO_COLOR says so, or the terminal has none.
    fn from_environment() -> Self {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        if is_set("NO_COLOR") || std::env::var_os("TERM").is_some_and(|term| term == "dumb") { Self::NONE } else { Self::SOME }
    }
}

/// A line for each value that went, and one for each that came; `state` is what the patch applies to.
fn write_changes(out: &mut impl Write, mut state: Value, patch: &Patch, colours: Colours) -> Result<()> {
    let Colours { gone, come, end } = colours;
    if patch.is_empty() {
        writeln!(out, "no difference")?;
    }
    for operation in patch.iter() {
        let path = operation.path().as_str();
        let shown_path = if path.is_empty() { "the state".to_owned() } else { output::escape_controls(path) };
        if let (PatchOperation::Remove(_) | PatchOperation::Replace(_), Some(old)) = (operation, state.pointer(path)) {
            writeln!(out, "{gone}- {shown_path}: {}{end}", shown(old))?;
        }
        if let PatchOperation::Add(taffrail::diff::AddOperation { value, .. })
        | PatchOperation::Replace(taffrail::diff::ReplaceOperation { value, .. }) = operation
        {
            writeln!(out, "{come}+ {shown_path}: {}{end}", shown(value))?;
        }
        taffrail::diff::step(&mut state, operation)?;
    }
    Ok(())
}

/// The beginning of a value.
fn shown(value: &Value) -> String {
    let text = output::escape_controls(&value.to_string());
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}... ({} bytes)", &text[..end], text.len()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(state: Value, patch: Value, colours: Colours) -> String {
        let mut out = Vec::new();
        write_changes(&mut out, state, &serde_json::from_value(patch).unwrap(), colours).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_went_and_what_came_is_shown() {
        let patch = json!([
            {"op": "remove", "path": "/m/0"},
            {"op": "replace", "path": "/m/0", "value": "c\u{9b}"},
            {"op": "add", "path": "/a\u{1b}", "value": {"x": 1}},
            {"op": "replace", "path": "", "value": null}
        ]);
        let lines = changes(json!({"m": ["a", "b"]}), patch.clone(), Colours::NONE);
        let wanted = "- /m/0: \"a\"\n- /m/0: \"b\"\n+ /m/0: \"c\\u009b\"\n+ /a\\u001b: {\"x\":1}\n- the state: {\"m\":[\"c\\u009b\"],\"a\\u001b\":{\"x\":1}}\n+ the state: null\n";
        assert_eq!(lines, wanted);
        let coloured = changes(json!({"m": ["a", "b"]}), patch, Colours::SOME);
        assert_eq!(coloured.matches("\x1b[31m- ").count(), 3);
        assert_eq!(coloured.matches("\x1b[32m+ ").count(), 3);
        assert_eq!(coloured.matches("\x1b[0m\n").count(), 6);
        assert_eq!(changes(json!(1), json!([]), Colours::SOME), "no difference\n");
    }

    #[test]
    fn a_long_value_is_cut() {
        let text = "é".repeat(500);
        let line = shown(&json!(text));
        assert!(line.starts_with("\"éé") && line.ends_with("... (1002 bytes)") && line.chars().count() < 220, "{line}");
    }
}
