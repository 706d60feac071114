//! Tideline beside other servers: rows of pairs of runs, their medians and ratios, and whether a bar is met.
//!
//! Owns: the format of the comparison's result, its arithmetic and its text. Promises: the ratio of a row is the median
//! of its pairs' ratios, each of two runs that followed on each other; what is missing, failed or invalid is shown as
//! that, with its reason, and never counts as met or not met. Must not: measure (the crate `tideline-peers` does).

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::amount::amount;

/// What was measured.
#[derive(Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// All rows that were asked for are there.
    pub whole: bool,
    /// Pairs of each row.
    pub pairs: usize,
    /// Length of each run.
    pub seconds: f64,
    /// Connections of the rows about appends.
    pub connections: usize,
    /// Timelines.
    pub timelines: u64,
    /// Bytes of each text or value.
    pub size: usize,
    /// Seed of texts and choices.
    pub seed: u64,
    /// The table.
    pub rows: Vec<Row>,
    /// What a server, ours or another, lost or refused.
    pub faults: Vec<String>,
}

/// What one run gave.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// The figure that the row compares.
    pub value: f64,
    /// Answered per second.
    pub per_second: Option<f64>,
    /// Latencies in ms: p50, p99, p99.9.
    pub latency_ms: Option<[f64; 3]>,
    /// Processor of the generator, 1 = one core.
    pub generator_cpu: Option<f64>,
    /// Processor of the server.
    pub server_cpu: Option<f64>,
    /// Share of requests that the generator sent late.
    pub late_share: Option<f64>,
    /// Requests that were turned away as too many.
    pub refused: Option<u64>,
    /// Why the figure is not to be believed.
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
    /// Nothing: the row is there to be read.
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
    #[serde(rename = "told")]
    NoBar,
    /// What it needs is not installed.
    Missing,
    /// Half of the pairs or more are invalid.
    Invalid,
    /// It could not be measured.
    Failed,
}

impl Verdict {
    fn text(self) -> &'static str {
        match self {
            Verdict::Met => "met",
            Verdict::NotMet => "not met",
            Verdict::NoBar => "no bar",
            Verdict::Missing => "missing",
            Verdict::Invalid => "invalid",
            Verdict::Failed => "failed",
        }
    }
}

/// One line of the table.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// What `--only` calls it.
    pub name: String,
    /// What is measured.
    pub what: String,
    /// What Tideline is compared with.
    pub peer: String,
    /// Of the values.
    pub unit: String,
    /// What it has to reach.
    pub bar: Bar,
    /// What is not installed, so that there are no pairs.
    pub missing: Option<String>,
    /// Why it could not be measured.
    pub failed: Option<String>,
    /// The runs.
    pub pairs: Vec<Pair>,
    /// Median of Tideline's values.
    pub tideline: Option<f64>,
    /// Median of the other's.
    pub other: Option<f64>,
    /// Median of the pairs' ratios.
    pub ratio: Option<f64>,
    /// Whether the bar is reached.
    pub verdict: Verdict,
}

impl Pair {
    /// Tideline's value divided by the other's.
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

impl Row {
    /// A row before its pairs.
    #[must_use]
    pub fn new(name: &str, what: String, peer: &str, unit: &str, bar: Bar) -> Row {
        Row {
            name: name.into(),
            what,
            peer: peer.into(),
            unit: unit.into(),
            bar,
            missing: None,
            failed: None,
            pairs: Vec::new(),
            tideline: None,
            other: None,
            ratio: None,
            verdict: Verdict::Missing,
        }
    }

    /// The row with what follows from its pairs.
    #[must_use]
    pub fn judged(mut self) -> Row {
        let peers = self.pairs.iter().filter_map(|pair| pair.peer.as_ref());
        self.other = median(peers.map(|peer| peer.value));
        self.tideline = median(self.pairs.iter().map(|pair| pair.tideline.value));
        self.ratio = median(self.pairs.iter().filter_map(Pair::ratio));
        self.verdict = self.verdict();
        self
    }

    fn verdict(&self) -> Verdict {
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
            Bar::None => return Verdict::NoBar,
            Bar::RatioAtLeast(bar) => self.ratio.is_some_and(|ratio| ratio >= bar),
            Bar::RatioAtMost(bar) => self.ratio.is_some_and(|ratio| ratio <= bar),
            Bar::ValueAtLeast(bar) => self.tideline.is_some_and(|value| value >= bar),
            Bar::ValueAtMost(bar) => self.tideline.is_some_and(|value| value <= bar),
        };
        if reached {
            Verdict::Met
        } else {
            Verdict::NotMet
        }
    }

    /// The row as a line of the table; under it what is missing or wrong.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = self.line();
        let invalid = self.pairs.iter().find_map(Pair::invalid);
        let reasons = [self.missing.as_deref(), self.failed.as_deref(), invalid];
        for why in reasons.into_iter().flatten() {
            let _ = write!(text, "\n  {}: {why}", self.name);
        }
        text
    }

    fn line(&self) -> String {
        let dash = || "-".to_owned();
        let value = |value: Option<f64>| value.map_or_else(dash, |value| amount(value, &self.unit));
        let ratios = || self.pairs.iter().filter_map(Pair::ratio);
        let (least, most) = (
            ratios().fold(f64::MAX, f64::min),
            ratios().fold(0.0, f64::max),
        );
        let ratio = |ratio| format!("{ratio:.2} ({least:.2} to {most:.2})");
        let bar = match self.bar {
            Bar::RatioAtLeast(bar) => format!("≥ {bar} ×"),
            Bar::RatioAtMost(bar) => format!("≤ {bar} ×"),
            Bar::ValueAtLeast(bar) => format!("≥ {}", amount(bar, &self.unit)),
            Bar::ValueAtMost(bar) => format!("≤ {}", amount(bar, &self.unit)),
            Bar::None => dash(),
        };
        let verdict = match self.verdict {
            Verdict::NoBar => String::new(),
            Verdict::Met | Verdict::Missing => self.verdict.text().to_owned(),
            bad => bad.text().to_uppercase(),
        };
        let (ours, theirs) = (value(self.tideline), value(self.other));
        let ratio = self.ratio.map_or_else(dash, ratio);
        let (what, peer) = (&self.what, &self.peer);
        format!("| {what} | {ours} | {peer} | {theirs} | {ratio} | {bar} | {verdict} |")
    }
}

/// The middle one, or the mean of the two in the middle.
#[must_use]
pub fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

/// What is above the rows, in a terminal and in a document.
pub const TITLES: &str = "| what | Tideline | beside | its value | ratio (of the pairs) | bar | |
|---|---:|---|---:|---:|---:|---|";

impl Outcome {
    /// Nothing that was acknowledged is lost. A bar is no promise of the server.
    #[must_use]
    pub fn held(&self) -> bool {
        self.faults.is_empty()
    }

    /// Every figure is there, but for what is not installed, and may be believed.
    #[must_use]
    pub fn valid(&self) -> bool {
        self.count(Verdict::Invalid) + self.count(Verdict::Failed) == 0
    }

    fn count(&self, verdict: Verdict) -> usize {
        let rows = self.rows.iter();
        rows.filter(|row| row.verdict == verdict).count()
    }

    /// The table as Markdown, and how it was measured.
    #[must_use]
    pub fn markdown(&self) -> String {
        let lines: Vec<String> = self.rows.iter().map(Row::line).collect();
        let (pairs, seconds, faults) = (self.pairs, self.seconds, self.faults.len());
        format!(
            "{TITLES}\n{}\n\nMedians of {pairs} pairs of {seconds} s; {faults} faults.",
            lines.join("\n")
        )
    }

    /// What the table comes to, in one line.
    #[must_use]
    pub fn summary(&self) -> String {
        use Verdict::{Failed, Invalid, Met, Missing, NotMet};
        let counts = [Met, NotMet, Missing, Invalid, Failed]
            .map(|verdict| format!("{} {}", self.count(verdict), verdict.text()));
        let (counts, pairs, seconds) = (counts.join(", "), self.pairs, self.seconds);
        let (seed, faults) = (self.seed, self.faults.len());
        format!(
            "bars: {counts}; medians of {pairs} pairs of {seconds} s; seed {seed}; {faults} faults"
        )
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
        let judged = row(Bar::RatioAtLeast(1.5), &pairs).judged();
        assert_eq!((judged.tideline, judged.other), (Some(300.0), Some(100.0)));
        assert_eq!((judged.ratio, judged.verdict), (Some(2.0), Verdict::Met));
        let verdict = |bar| row(bar, &pairs).judged().verdict;
        assert_eq!(verdict(Bar::RatioAtLeast(2.1)), Verdict::NotMet);
        assert_eq!(verdict(Bar::RatioAtMost(1.9)), Verdict::NotMet);
        assert_eq!(verdict(Bar::RatioAtMost(2.0)), Verdict::Met);
        assert_eq!(verdict(Bar::ValueAtMost(300.0)), Verdict::Met);
        assert_eq!(verdict(Bar::ValueAtLeast(301.0)), Verdict::NotMet);
        assert_eq!(verdict(Bar::None), Verdict::NoBar);
    }

    #[test]
    fn what_is_missing_or_invalid_is_neither_met_nor_not() {
        let mut missing = row(Bar::RatioAtLeast(1.0), &[]);
        missing.missing = Some("redis-server is not installed".into());
        let judged = missing.judged();
        assert_eq!(judged.verdict, Verdict::Missing);
        let text = judged.text();
        assert!(
            text.ends_with("missing |\n  deep: redis-server is not installed"),
            "{text}"
        );
        let mut failed = row(Bar::RatioAtLeast(1.0), &[]);
        failed.failed = Some("it did not start".into());
        let judged = failed.judged();
        assert_eq!(judged.verdict, Verdict::Failed);
        assert!(
            judged
                .text()
                .ends_with("FAILED |\n  deep: it did not start")
        );
        let mut late = row(Bar::RatioAtLeast(1.0), &[(2.0, 1.0), (2.0, 1.0)]);
        late.pairs[1].tideline.invalid = Some("the generator was late".into());
        let judged = late.judged();
        assert_eq!(judged.verdict, Verdict::Invalid);
        assert!(judged.text().contains("deep: the generator was late"));
        let nothing = row(Bar::RatioAtLeast(1.0), &[(2.0, 0.0)]).judged();
        assert_eq!((nothing.ratio, nothing.verdict), (None, Verdict::NotMet));
    }

    #[test]
    fn the_middle_of_values() {
        assert_eq!(median(std::iter::empty()), None);
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), Some(2.0));
        assert_eq!(median([4.0, 1.0].into_iter()), Some(2.5));
    }
}
