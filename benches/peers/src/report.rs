//! The table: one for each workload, a line for each store, the medians of its rounds.

use std::fmt::Write;

use crate::machine::Machine;
use crate::measure::Run;
use crate::peer::{PEERS, Peer};
use crate::work::{WORKS, Work};

/// The rounds of one store and one workload.
#[derive(Clone, Default)]
pub struct Rounds {
    pub runs: Vec<Run>,
    /// Microseconds.
    pub opens: Vec<f64>,
    /// Only of taffrail, and the last round's.
    pub compacted_bytes: Option<u64>,
}

impl Rounds {
    /// The median over the rounds of what `of` takes of each.
    pub fn median(&self, of: impl Fn(&Run) -> f64) -> f64 {
        median(self.runs.iter().map(of).collect())
    }
}

/// Of an even number the middle of the two in the middle.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        length => f64::midpoint(values[(length - 1) / 2], values[length / 2]),
    }
}

/// The rounds by workload and store, both by their place in [`WORKS`] and [`PEERS`].
pub type Results = Vec<Vec<Rounds>>;

/// The whole page.
pub fn page(results: &Results, rounds: usize, machine: &Machine, note: &str) -> String {
    let mut page = String::from("# One workload, six stores\n\n");
    let _ = writeln!(page, "{machine}; {rounds} rounds, interleaved, the median of each figure. {note}\n\nMade by\n");
    page.push_str("    cargo run --release --manifest-path benches/peers/Cargo.toml\n\n");
    page.push_str("README.md in this directory says what is compared on which terms.\n\n![the main workload](RESULTS.svg)\n");
    for (work, stores) in WORKS.iter().zip(results) {
        if stores.iter().any(|rounds| !rounds.runs.is_empty()) {
            section(&mut page, work, stores);
        }
    }
    page
}

fn section(page: &mut String, work: &Work, stores: &[Rounds]) {
    let _ = writeln!(page, "\n## {}\n", work.title);
    page.push_str("| store | puts/s | p50 | p99 | flushes a put | written for a byte put | written | on disk | open | memory |\n");
    page.push_str("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n");
    for (peer, rounds) in PEERS.iter().zip(stores).filter(|(_, rounds)| !rounds.runs.is_empty()) {
        line(page, peer, rounds);
    }
    let (ours, sqlite) = (&stores[0], &stores[1]);
    if !ours.runs.is_empty() && !sqlite.runs.is_empty() {
        // Each round's own ratio: the machine is not the same from round to round.
        let pairs = ours.runs.iter().zip(&sqlite.runs);
        let faster = median(pairs.map(|(ours, sqlite)| sqlite.seconds / ours.seconds).collect());
        let smaller = sqlite.median(|run| run.disk_bytes as f64) / ours.median(|run| run.disk_bytes as f64);
        let _ = writeln!(page, "\ntaffrail beside SQLite tuned: {faster:.1} times its speed, 1/{smaller:.1} of its disk.");
    }
    if let Some(bytes) = ours.compacted_bytes {
        let put = ours.median(|run| run.state_bytes as f64) / 1e6;
        let _ = writeln!(
            page,
            "After `compact` taffrail's `stored_bytes` are {:.2} MB, of {put:.1} MB of states that were put.",
            bytes as f64 / 1e6
        );
    }
}

fn line(page: &mut String, peer: &Peer, rounds: &Rounds) {
    let _ = writeln!(
        page,
        "| {} | {:.0} | {} | {} | {:.2} | {:.2} | {} | {} | {} | {} |",
        peer.title,
        rounds.median(|run| run.puts as f64 / run.seconds),
        time(rounds.median(|run| run.p50_micros)),
        time(rounds.median(|run| run.p99_micros)),
        rounds.median(|run| run.flushes as f64 / run.puts as f64),
        rounds.median(|run| run.device_bytes as f64 / run.state_bytes as f64),
        size(rounds.median(|run| run.device_bytes as f64)),
        size(rounds.median(|run| run.disk_bytes as f64)),
        time(median(rounds.opens.clone())),
        size(rounds.median(|run| run.peak_bytes as f64)),
    );
}

fn time(micros: f64) -> String {
    if micros < 1e4 { format!("{micros:.0} µs") } else { format!("{:.1} ms", micros / 1e3) }
}

fn size(bytes: f64) -> String {
    format!("{:.1} MB", bytes / 1e6)
}
