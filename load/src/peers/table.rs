//! The table: rows of pairs, their medians and ratios, and whether a bar is met.
//!
//! Owns: the arithmetic and the text. Promises: the ratio of a row is the median of its pairs' ratios, each of two
//! runs that followed on each other; what is missing, failed or invalid is told as that, with its reason, and never
//! counts as met or not met. Must not: measure.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

/// What one run gave.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// The figure that the row compares.
    pub value: f64,
    /// Answered per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_second: Option<f64>,
    /// Latencies in ms: p50, p99, p99.9.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<[f64; 3]>,
    /// Processor of the generator, 1 = one core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generator_cpu: Option<f64>,
    /// Processor of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_cpu: Option<f64>,
    /// Share of requests that the generator sent late.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late_share: Option<f64>,
    /// Requests that were turned away as too many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<u64>,
    /// Why the figure is not to be believed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
}

/// One turn: Tideline, and the other one if there is one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pair {
    /// Tideline's run.
    pub tideline: Figures,
    /// The other's.
    pub peer: Option<Figures>,
}

impl Pair {
    /// Tideline's value over the other's.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        let peer = self.peer.as_ref()?.value;
        (peer > 0.0).then(|| self.tideline.value / peer)
    }

    /// Why it is not to be believed.
    fn invalid(&self) -> Option<&str> {
        let peer = self.peer.as_ref().and_then(|peer| peer.invalid.as_deref());
        self.tideline.invalid.as_deref().or(peer)
    }
}

/// What a row has to reach.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bar {
    /// The ratio is at least this.
    RatioAtLeast(f64),
    /// The ratio is at most this.
    RatioAtMost(f64),
    /// Tideline's value is at least this.
    ValueAtLeast(f64),
    /// Tideline's value is at most this.
    ValueAtMost(f64),
    /// It only tells.
    None,
}

/// Whether it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The bar is reached.
    Met,
    /// It is not.
    NotMet,
    /// There is no bar.
    Told,
    /// What it needs is not installed.
    Missing,
    /// Half of the pairs or more are invalid.
    Invalid,
    /// It could not be measured.
    Failed,
}

/// One line of the table.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// What `--only` calls it.
    pub name: String,
    /// What is measured.
    pub what: String,
    /// Whom Tideline stands beside.
    pub peer: String,
    /// Of the values.
    pub unit: String,
    /// What it has to reach.
    pub bar: Bar,
    /// What is not installed, so that there are no pairs.
    pub missing: Option<String>,
    /// What went wrong, so that there are no pairs.
    pub failed: Option<String>,
    /// The runs.
    pub pairs: Vec<Pair>,
}

/// A row with what follows from its pairs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Told {
    /// The row itself.
    #[serde(flatten)]
    pub row: Row,
    /// Median of Tideline's values.
    pub tideline: Option<f64>,
    /// Median of the other's.
    pub other: Option<f64>,
    /// Median of the pairs' ratios.
    pub ratio: Option<f64>,
    /// Whether the bar is reached.
    pub verdict: Verdict,
}

impl Row {
    /// A row before its pairs.
    pub(super) fn new(name: &str, what: String, peer: &str, unit: &str, bar: Bar) -> Row {
        Row {
            name: name.into(),
            what,
            peer: peer.into(),
            unit: unit.into(),
            bar,
            missing: None,
            failed: None,
            pairs: Vec::new(),
        }
    }

    /// Works it out.
    #[must_use]
    pub fn told(self) -> Told {
        let tideline = median(self.pairs.iter().map(|pair| pair.tideline.value));
        let peers = self.pairs.iter().filter_map(|pair| pair.peer.as_ref());
        let other = median(peers.map(|peer| peer.value));
        let ratio = median(self.pairs.iter().filter_map(Pair::ratio));
        let verdict = self.verdict(tideline, ratio);
        Told {
            row: self,
            tideline,
            other,
            ratio,
            verdict,
        }
    }

    fn verdict(&self, value: Option<f64>, ratio: Option<f64>) -> Verdict {
        if self.failed.is_some() {
            return Verdict::Failed;
        }
        if self.missing.is_some() || self.pairs.is_empty() {
            return Verdict::Missing;
        }
        if self.pairs.iter().filter_map(Pair::invalid).count() * 2 >= self.pairs.len() {
            return Verdict::Invalid;
        }
        let reached = match self.bar {
            Bar::None => return Verdict::Told,
            Bar::RatioAtLeast(bar) => ratio.is_some_and(|ratio| ratio >= bar),
            Bar::RatioAtMost(bar) => ratio.is_some_and(|ratio| ratio <= bar),
            Bar::ValueAtLeast(bar) => value.is_some_and(|value| value >= bar),
            Bar::ValueAtMost(bar) => value.is_some_and(|value| value <= bar),
        };
        if reached {
            Verdict::Met
        } else {
            Verdict::NotMet
        }
    }
}

/// The middle one, or the mean of the two in the middle.
#[must_use]
pub(super) fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

/// Widths of the columns: a row is shown when it is done, before those behind it are known.
const WIDTHS: [usize; 7] = [56, 14, 34, 14, 20, 12, 0];

/// The titles over the rows.
#[must_use]
pub fn titles() -> String {
    let titles = [
        "what",
        "Tideline",
        "beside",
        "its value",
        "ratio (of the pairs)",
        "bar",
        "",
    ];
    columns(&titles.map(str::to_owned))
}

fn columns(cells: &[String; 7]) -> String {
    let mut text = String::new();
    for (cell, width) in cells.iter().zip(WIDTHS) {
        let _ = write!(text, "{cell:width$}  ");
    }
    text.truncate(text.trim_end().len());
    text
}

impl Told {
    /// The row as text; under it what is missing or wrong.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = columns(&line(self));
        let Row {
            name,
            missing,
            failed,
            pairs,
            ..
        } = &self.row;
        let invalid = pairs.iter().find_map(Pair::invalid);
        let reasons = [missing.as_deref(), failed.as_deref(), invalid];
        for why in reasons.into_iter().flatten() {
            let _ = write!(text, "\n  {name}: {why}");
        }
        text
    }
}

/// The table as Markdown.
#[must_use]
pub(super) fn markdown(rows: &[Told]) -> String {
    let mut out =
        "| what | Tideline | beside | its value | ratio (of the pairs) | bar | |\n".to_owned();
    out.push_str("|---|---:|---|---:|---:|---:|---|\n");
    for row in rows {
        let _ = writeln!(out, "| {} |", line(row).join(" | "));
    }
    out
}

fn line(told: &Told) -> [String; 7] {
    let Row {
        what,
        peer,
        unit,
        bar,
        pairs,
        ..
    } = &told.row;
    let value = |value: Option<f64>| value.map_or_else(|| "-".into(), |value| amount(value, unit));
    let ratios: Vec<f64> = pairs.iter().filter_map(Pair::ratio).collect();
    let least = ratios.iter().copied().reduce(f64::min);
    let most = ratios.iter().copied().reduce(f64::max);
    let ratio = match (told.ratio, least, most) {
        (Some(ratio), Some(least), Some(most)) => format!("{ratio:.2} ({least:.2} to {most:.2})"),
        _ => "-".into(),
    };
    let bar = match bar {
        Bar::RatioAtLeast(bar) => format!("≥ {bar} ×"),
        Bar::RatioAtMost(bar) => format!("≤ {bar} ×"),
        Bar::ValueAtLeast(bar) => format!("≥ {}", amount(*bar, unit)),
        Bar::ValueAtMost(bar) => format!("≤ {}", amount(*bar, unit)),
        Bar::None => "-".into(),
    };
    let verdict = match told.verdict {
        Verdict::Met => "met",
        Verdict::NotMet => "NOT MET",
        Verdict::Told => "",
        Verdict::Missing => "missing",
        Verdict::Invalid => "INVALID",
        Verdict::Failed => "FAILED",
    };
    let (ours, theirs) = (value(told.tideline), value(told.other));
    [
        what.clone(),
        ours,
        peer.clone(),
        theirs,
        ratio,
        bar,
        verdict.into(),
    ]
}

/// A value with its unit, three digits or more.
pub(super) fn amount(value: f64, unit: &str) -> String {
    match value.abs() {
        1_000.0.. => {
            let digits = format!("{value:.0}");
            let mut text = String::new();
            for (at, digit) in digits.chars().enumerate() {
                let left = digits.len() - at;
                if at > 0 && left % 3 == 0 && !text.ends_with('-') {
                    text.push(',');
                }
                text.push(digit);
            }
            format!("{text} {unit}")
        }
        100.0..1_000.0 => format!("{value:.0} {unit}"),
        10.0..100.0 => format!("{value:.1} {unit}"),
        _ => format!("{value:.2} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(value: f64) -> Figures {
        Figures {
            value,
            ..Figures::default()
        }
    }

    fn row(bar: Bar, pairs: &[(f64, f64)]) -> Row {
        let pair = |(ours, theirs): &(f64, f64)| Pair {
            tideline: figures(*ours),
            peer: Some(figures(*theirs)),
        };
        let mut row = Row::new("deep", "appends".into(), "Redis", "/s", bar);
        row.pairs = pairs.iter().map(pair).collect();
        row
    }

    #[test]
    fn the_ratio_is_the_median_of_the_pairs_and_decides() {
        // The median of the ratios (2.0) is neither that of the medians (3.0) nor the mean.
        let pairs = [(300.0, 100.0), (400.0, 200.0), (100.0, 100.0)];
        let told = row(Bar::RatioAtLeast(1.5), &pairs).told();
        assert_eq!((told.tideline, told.other), (Some(300.0), Some(100.0)));
        assert_eq!((told.ratio, told.verdict), (Some(2.0), Verdict::Met));
        let verdict = |bar| row(bar, &pairs).told().verdict;
        assert_eq!(verdict(Bar::RatioAtLeast(2.1)), Verdict::NotMet);
        assert_eq!(verdict(Bar::RatioAtMost(1.9)), Verdict::NotMet);
        assert_eq!(verdict(Bar::RatioAtMost(2.0)), Verdict::Met);
        assert_eq!(verdict(Bar::ValueAtMost(300.0)), Verdict::Met);
        assert_eq!(verdict(Bar::ValueAtLeast(301.0)), Verdict::NotMet);
        assert_eq!(verdict(Bar::None), Verdict::Told);
    }

    #[test]
    fn what_is_missing_or_invalid_is_neither_met_nor_not() {
        let mut missing = row(Bar::RatioAtLeast(1.0), &[]);
        missing.missing = Some("redis-server is not installed".into());
        let told = missing.told();
        assert_eq!(told.verdict, Verdict::Missing);
        let text = told.text();
        assert!(
            text.ends_with("missing\n  deep: redis-server is not installed"),
            "{text}"
        );
        let mut failed = row(Bar::RatioAtLeast(1.0), &[]);
        failed.failed = Some("it did not start".into());
        let told = failed.told();
        assert_eq!(told.verdict, Verdict::Failed);
        assert!(told.text().ends_with("FAILED\n  deep: it did not start"));
        let mut late = row(Bar::RatioAtLeast(1.0), &[(2.0, 1.0), (2.0, 1.0)]);
        late.pairs[1].tideline.invalid = Some("the generator was late".into());
        let told = late.told();
        assert_eq!(told.verdict, Verdict::Invalid);
        assert!(told.text().contains("deep: the generator was late"));
        let nothing = row(Bar::RatioAtLeast(1.0), &[(2.0, 0.0)]).told();
        assert_eq!((nothing.ratio, nothing.verdict), (None, Verdict::NotMet));
    }

    #[test]
    fn medians_and_amounts() {
        assert_eq!(median(std::iter::empty()), None);
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), Some(2.0));
        assert_eq!(median([4.0, 1.0].into_iter()), Some(2.5));
        assert_eq!(amount(1_234_567.4, "/s"), "1,234,567 /s");
        assert_eq!(amount(100_000.0, "/s"), "100,000 /s");
        assert_eq!(amount(999.0, "B"), "999 B");
        assert_eq!(amount(12.34, "ms"), "12.3 ms");
        assert_eq!(amount(1.234, "ms"), "1.23 ms");
    }
}
