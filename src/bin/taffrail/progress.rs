//! Progress of long work, on standard error, for a person at a terminal; else nothing at all.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Whether there is somebody to show it to.
pub fn is_shown() -> bool {
    std::io::stderr().is_terminal()
}

/// For work whose end is not known.
pub fn working(what: &'static str) -> ProgressBar {
    if !is_shown() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner().with_message(what);
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

/// For work of so many `things`, or bytes where they have no name.
pub fn counting(total: u64, things: Option<&str>) -> ProgressBar {
    if !is_shown() {
        return ProgressBar::hidden();
    }
    let amount = things.map_or("{bytes}/{total_bytes}".to_owned(), |things| format!("{{pos}}/{{len}} {things}"));
    let style = ProgressStyle::with_template(&format!("{{wide_bar}} {amount} {{eta}}"));
    ProgressBar::new(total).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
