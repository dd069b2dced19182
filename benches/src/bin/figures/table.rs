//! Medians, the tables of each section, and the summary of what was wanted.

/// The middle of the values; NaN of none.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}

/// The mean without the lowest and the highest value, where there are that many: for counts that
/// come in lumps (a megabyte of zeros now and then) beside a stranger's writes.
pub fn trimmed_mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let kept = if values.len() > 4 { &values[1..values.len() - 1] } else { &values[..] };
    kept.iter().sum::<f64>() / kept.len() as f64
}

/// The median of the rounds' own ratios.
pub fn ratio(of: &[f64], to: &[f64]) -> f64 {
    median(of.iter().zip(to).map(|(of, to)| of / to))
}

/// A number in three figures.
pub fn figure(value: f64) -> String {
    match value.abs() {
        _ if value.is_nan() => "-".to_owned(),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// The median of the rounds, and between which values they were.
pub fn spread(values: &[f64]) -> String {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if values.is_empty() {
        "-".to_owned()
    } else {
        format!("{} ({} to {})", figure(median(values.iter().copied())), figure(least), figure(most))
    }
}

/// A table in Markdown.
pub fn print(title: &str, head: &[&str], rows: &[Vec<String>]) {
    println!("\n### {title}\n\n| {} |\n|---|{}", head.join(" | "), "--:|".repeat(head.len() - 1));
    for row in rows {
        println!("| {} |", row.join(" | "));
    }
}

/// What a figure is wanted to be.
#[derive(Clone, Copy)]
pub enum Wanted {
    AtLeast(f64),
    AtMost(f64),
}

/// What was promised, and what came out.
#[derive(Default)]
pub struct Summary {
    rows: Vec<Vec<String>>,
}

impl Summary {
    /// One promise: ours, and the same figure of the limit (the bare loop) or of a peer.
    pub fn add(&mut self, what: impl Into<String>, ours: f64, wanted: Wanted, beside: &str) {
        let (wish, kept) = match wanted {
            Wanted::AtLeast(limit) => (format!("≥ {}", figure(limit)), ours >= limit),
            Wanted::AtMost(limit) => (format!("≤ {}", figure(limit)), ours <= limit),
        };
        let verdict = if ours.is_nan() {
            "-"
        } else if kept {
            "yes"
        } else {
            "NO"
        };
        self.rows.push(vec![what.into(), figure(ours), wish, verdict.to_owned(), beside.to_owned()]);
    }

    /// Prints them all.
    pub fn print(&self) {
        print("Summary", &["figure", "taffrail", "wanted", "kept", "beside"], &self.rows);
    }
}
