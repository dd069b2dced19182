//! The plot: the main workload's figures as bars, laid out by hand, on a scale of powers of ten.

use std::fmt::Write;

use crate::measure::Run;
use crate::peer::PEERS;
use crate::report::Rounds;

type Figure = (&'static str, &'static str, fn(&Run) -> f64);

/// What is shown: its title, its unit, and how it is taken from a run.
const FIGURES: [Figure; 4] = [
    ("Time of all puts", "s", |run| run.seconds),
    ("The slowest 1 % of the puts take", "ms", |run| run.p99_micros / 1e3),
    ("Written to the device for each byte put", "bytes", |run| run.device_bytes as f64 / run.state_bytes as f64),
    ("On disk at the end", "MB", |run| run.disk_bytes as f64 / 1e6),
];

const WIDTH: f64 = 760.0;
const NAMES_WIDTH: f64 = 150.0;
const VALUES_WIDTH: f64 = 90.0;
const BAR_HEIGHT: f64 = 18.0;
const PANEL_HEAD: f64 = 34.0;

/// An SVG of the stores' medians; shorter bars are better.
pub fn svg(title: &str, stores: &[Rounds]) -> String {
    let shown: Vec<_> = PEERS.iter().zip(stores).filter(|(_, rounds)| !rounds.runs.is_empty()).collect();
    let panel = PANEL_HEAD + BAR_HEIGHT * shown.len() as f64;
    let height = 40.0 + panel * FIGURES.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n<text x=\"10\" y=\"20\" font-size=\"14\" font-weight=\"bold\">{title}</text>\n"
    );
    for (number, (name, unit, of)) in FIGURES.iter().enumerate() {
        let top = 40.0 + panel * number as f64;
        let values: Vec<f64> = shown.iter().map(|(_, rounds)| rounds.median(of)).collect();
        let _ = writeln!(svg, "<text x=\"10\" y=\"{}\" font-weight=\"bold\">{name}, {unit} (a scale of powers of ten)</text>", top + 16.0);
        for (row, ((peer, _), value)) in shown.iter().zip(&values).enumerate() {
            let y = top + PANEL_HEAD - 10.0 + BAR_HEIGHT * row as f64;
            let length = bar(*value, &values);
            let colour = if row == 0 { "#1f6f8b" } else { "#b8c4cc" };
            let _ = writeln!(svg, "<text x=\"10\" y=\"{}\">{}</text>", y + 12.0, peer.title);
            let _ = writeln!(
                svg,
                "<rect x=\"{NAMES_WIDTH}\" y=\"{y}\" width=\"{length:.0}\" height=\"{}\" fill=\"{colour}\"/>",
                BAR_HEIGHT - 4.0
            );
            let _ = writeln!(svg, "<text x=\"{:.0}\" y=\"{}\">{value:.2}</text>", NAMES_WIDTH + length + 6.0, y + 12.0);
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// A bar's length: the scale begins at the power of ten below the least value and ends with the greatest.
fn bar(value: f64, values: &[f64]) -> f64 {
    let least = values.iter().copied().fold(f64::MAX, f64::min).max(1e-9).log10().floor();
    let most = values.iter().copied().fold(0.0, f64::max).max(1e-9).log10();
    (WIDTH - NAMES_WIDTH - VALUES_WIDTH) * (value.max(1e-9).log10() - least) / (most - least).max(1e-9)
}
