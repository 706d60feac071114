//! A row: a load on Tideline and on another one, its pairs of runs, their medians and ratio, and whether a bar is met.
//!
//! Owns: the arithmetic and the verdict. Promises: the ratio of a row is the median of its pairs' ratios, each of two
//! runs of one round; what is missing, failed or invalid is shown as that, with its reason, and never counts as met or
//! not met. Must not: measure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tideline_load::exit::Stop;
use tideline_load::outcome::Outcome;
use tideline_load::outcome::figures::{ABSENT, quantity, shown};

/// What a row has to reach: its ratio, or Tideline's value if nobody is beside it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Bar {
    AtLeast(f64),
    AtMost(f64),
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
    NoBar,
    /// What it needs is not installed.
    Missing,
    /// Half of the pairs or more are invalid.
    Invalid,
    /// It could not be measured.
    Failed,
}

impl Verdict {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Verdict::Met => "met",
            Verdict::NotMet => "NOT MET",
            Verdict::NoBar => "",
            Verdict::Missing => "missing",
            Verdict::Invalid => "INVALID",
            Verdict::Failed => "FAILED",
        }
    }
}

/// What one run gave.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// The figure that the row compares.
    pub(crate) value: f64,
    /// All figures.
    pub(crate) figures: BTreeMap<String, f64>,
    /// Why they are not to be believed.
    invalid: Option<String>,
}

/// One turn: Tideline, and the other one if there is one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Pair {
    pub(crate) tideline: Measured,
    peer: Option<Measured>,
}

/// One line of the table: first what `peers.toml` says, and explains; then what was found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Row {
    /// What `--only` calls it.
    pub name: String,
    pub(crate) what: String,
    pub(crate) line: String,
    pub(crate) figure: String,
    pub(crate) half: Option<(String, String)>,
    pub(crate) ours: Option<String>,
    pub(crate) beside: Option<String>,
    bar: Option<Bar>,
    pub(crate) once: bool,
    /// The name of what it is beside, for people.
    pub(crate) peer: String,
    unit: String,
    /// Why there are no pairs, or no more: what it needs is missing, or it failed.
    pub(crate) without: Option<(Verdict, String)>,
    pub(crate) pairs: Vec<Pair>,
}

impl Pair {
    fn ratio(&self) -> Option<f64> {
        let peer = self.peer.as_ref()?.value;
        (peer > 0.0).then(|| self.tideline.value / peer)
    }

    fn invalid(&self) -> Option<&str> {
        let peer = self.peer.as_ref().and_then(|peer| peer.invalid.as_deref());
        self.tideline.invalid.as_deref().or(peer)
    }
}

impl Row {
    /// Who is needed.
    pub(crate) fn contestants(&self) -> impl Iterator<Item = &str> {
        let ours = self.ours.as_deref().unwrap_or(TIDELINE);
        [ours].into_iter().chain(self.beside.as_deref())
    }

    /// Adds the runs of a round, if both gave their figure; else the row has failed.
    pub(crate) fn add(&mut self, runs: &BTreeMap<String, Result<Outcome, Stop>>) {
        let mut of = |who: &str| {
            let outcome = runs[who].as_ref().map_err(Stop::to_string)?;
            let figure = outcome.figures.get(&self.figure);
            let figure = figure.ok_or_else(|| format!("{who}: no figure {}", self.figure))?;
            self.unit.clone_from(&figure.unit);
            let figures = outcome.figures.iter();
            Ok(Measured {
                value: figure.value,
                figures: figures.map(|(name, of)| (name.clone(), of.value)).collect(),
                invalid: outcome.validity.reasons.first().cloned(),
            })
        };
        let tideline = of(self.ours.as_deref().unwrap_or(TIDELINE));
        let peer = self.beside.as_deref().map(of).transpose();
        match tideline.and_then(|tideline| {
            Ok(Pair {
                tideline,
                peer: peer?,
            })
        }) {
            Ok(pair) => self.pairs.push(pair),
            Err(why) => self.without = Some((Verdict::Failed, why)),
        }
    }

    /// Median of Tideline's values.
    pub fn tideline(&self) -> Option<f64> {
        median(self.pairs.iter().map(|pair| pair.tideline.value))
    }

    /// Median of the other's.
    pub fn other(&self) -> Option<f64> {
        let peers = self.pairs.iter().filter_map(|pair| pair.peer.as_ref());
        median(peers.map(|peer| peer.value))
    }

    /// Median of the pairs' ratios.
    pub fn ratio(&self) -> Option<f64> {
        median(self.pairs.iter().filter_map(Pair::ratio))
    }

    /// Whether the bar is reached.
    pub fn verdict(&self) -> Verdict {
        if let Some((verdict, _)) = self.without {
            return verdict;
        }
        let invalid = self.pairs.iter().filter_map(Pair::invalid).count();
        if invalid * 2 >= self.pairs.len() {
            return Verdict::Invalid;
        }
        let value = match self.beside {
            Some(_) => self.ratio(),
            None => self.tideline(),
        };
        match (self.bar, value) {
            (None, _) => Verdict::NoBar,
            (Some(Bar::AtLeast(bar)), Some(value)) if value >= bar => Verdict::Met,
            (Some(Bar::AtMost(bar)), Some(value)) if value <= bar => Verdict::Met,
            _ => Verdict::NotMet,
        }
    }

    /// What is missing or wrong.
    pub(crate) fn why(&self) -> Option<&str> {
        let without = self.without.as_ref().map(|(_, why)| &**why);
        without.or_else(|| self.pairs.iter().find_map(Pair::invalid))
    }

    /// The row as a line of the table; under it what is missing or wrong.
    pub fn text(&self) -> String {
        let why = self.why().map(|why| format!("\n  {}: {why}", self.name));
        format!(
            "| {} |{}",
            self.cells().join(" | "),
            why.unwrap_or_default()
        )
    }

    /// In the order of [`COLUMNS`].
    pub(crate) fn cells(&self) -> Vec<String> {
        let ratios = || self.pairs.iter().filter_map(Pair::ratio);
        let (least, most) = (ratios().reduce(f64::min), ratios().reduce(f64::max));
        let texts =
            [self.ratio(), least, most].map(|ratio| ratio.map(|ratio| format!("{ratio:.2}")));
        let ratio = match texts {
            [Some(ratio), Some(least), Some(most)] => format!("{ratio} ({least} to {most})"),
            _ => ABSENT.to_owned(),
        };
        let unit = self.beside.as_ref().map_or(&*self.unit, |_| "×");
        let bar = self.bar.map(|bar| match bar {
            Bar::AtLeast(bar) => format!("≥ {}", quantity(bar, unit)),
            Bar::AtMost(bar) => format!("≤ {}", quantity(bar, unit)),
        });
        vec![
            self.what.clone(),
            shown(self.tideline(), &self.unit),
            self.peer.clone(),
            shown(self.other(), &self.unit),
            ratio,
            bar.unwrap_or_else(|| ABSENT.to_owned()),
            self.verdict().text().to_owned(),
        ]
    }
}

/// The contestant that a row is about, if it does not say another.
const TIDELINE: &str = "tideline";

/// The titles of the table.
pub(crate) const COLUMNS: [&str; 7] = [
    "what",
    "Tideline",
    "beside",
    "its value",
    "ratio (of the pairs)",
    "bar",
    "",
];

/// The middle one, or the mean of the two in the middle.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tideline_load::outcome::Better;

    fn run(value: f64) -> Outcome {
        let mut outcome = Outcome::default();
        outcome.figure("rate", value, "1/s", Better::Higher);
        outcome
    }

    fn row(rest: &str, pairs: &[(f64, f64)]) -> Row {
        let text = "name = 'deep'\nwhat = 'appends'\nline = ''\nfigure = 'rate'\n";
        let mut row: Row = toml::from_str(&format!("{text}{rest}")).expect("a row");
        for (ours, theirs) in pairs {
            let runs = [
                ("tideline".to_owned(), Ok(run(*ours))),
                ("redis".to_owned(), Ok(run(*theirs))),
            ];
            row.add(&runs.into());
        }
        row
    }

    const AT_LEAST_ONE: &str = "beside = 'redis'\nbar = { at_least = 1.0 }";

    #[test]
    fn the_ratio_is_the_median_of_the_pairs_and_decides() {
        // The median of the ratios (2.0) is neither that of the medians (3.0) nor the mean.
        let pairs = [(300.0, 100.0), (400.0, 200.0), (100.0, 100.0)];
        let judged = row("beside = 'redis'\nbar = { at_least = 1.5 }", &pairs);
        assert_eq!(
            (judged.tideline(), judged.other()),
            (Some(300.0), Some(100.0))
        );
        assert_eq!(
            (judged.ratio(), judged.verdict()),
            (Some(2.0), Verdict::Met)
        );
        let text = "| appends | 300/s |  | 100/s | 2.00 (1.00 to 3.00) | ≥ 1.50 × | met |";
        assert_eq!(judged.text(), text);
        for (rest, verdict) in [
            (
                "beside = 'redis'\nbar = { at_least = 2.1 }",
                Verdict::NotMet,
            ),
            ("beside = 'redis'\nbar = { at_most = 1.9 }", Verdict::NotMet),
            ("beside = 'redis'\nbar = { at_most = 2.0 }", Verdict::Met),
            ("bar = { at_most = 300.0 }", Verdict::Met),
            ("bar = { at_least = 301.0 }", Verdict::NotMet),
            ("beside = 'redis'", Verdict::NoBar),
        ] {
            assert_eq!(row(rest, &pairs).verdict(), verdict, "{rest}");
        }
    }

    #[test]
    fn what_is_missing_failed_or_invalid_is_neither_met_nor_not() {
        let mut missing = row(AT_LEAST_ONE, &[]);
        missing.without = Some((Verdict::Missing, "redis-server is not installed".into()));
        assert_eq!(missing.verdict(), Verdict::Missing);
        let text = missing.text();
        let why = "missing |\n  deep: redis-server is not installed";
        assert!(text.ends_with(why), "{text}");

        let mut failed = row(AT_LEAST_ONE, &[(2.0, 1.0)]);
        let stop = Stop::Own("it did not start".into());
        let runs = [
            ("tideline".to_owned(), Ok(run(2.0))),
            ("redis".to_owned(), Err(stop)),
        ];
        failed.add(&runs.into());
        assert_eq!((failed.verdict(), failed.pairs.len()), (Verdict::Failed, 1));
        let text = failed.text();
        assert!(
            text.ends_with("FAILED |\n  deep: it did not start"),
            "{text}"
        );

        let mut late = row(AT_LEAST_ONE, &[(2.0, 1.0), (2.0, 1.0)]);
        late.pairs[1].tideline.invalid = Some("the generator was late".into());
        assert_eq!(late.verdict(), Verdict::Invalid);
        assert!(late.text().contains("deep: the generator was late"));

        let nothing = row(AT_LEAST_ONE, &[(2.0, 0.0)]);
        assert_eq!(
            (nothing.ratio(), nothing.verdict()),
            (None, Verdict::NotMet)
        );
        let mut absent = row(AT_LEAST_ONE, &[]);
        absent.figure = "another".into();
        let runs = ["tideline", "redis"].map(|who| (who.to_owned(), Ok(run(1.0))));
        absent.add(&runs.into());
        assert_eq!(absent.verdict(), Verdict::Failed);
    }

    #[test]
    fn the_middle_of_values() {
        assert_eq!(median(std::iter::empty()), None);
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), Some(2.0));
        assert_eq!(median([4.0, 1.0].into_iter()), Some(2.5));
    }
}
