//! Tideline and other servers under the same load, in turn, on one machine and one disk; and the table of it.
//!
//! Owns: the order of the whole, the rounds, the end. Promises: each server is started anew for each run with a data
//! directory of its own; when the run ends, in whichever way, no child and no data is left; what is not installed is
//! named with the line that installs it, and its rows are missing, not failed; each row is handed out when it is done,
//! and one that fails does not take the others along. Must not: judge by a single run: a row's ratio is the median of
//! its pairs.

mod appends;
mod contestants;
mod disk;
mod echo;
mod events;
mod posts;
mod room;
mod row;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clap::value_parser;
use serde::{Deserialize, Serialize};
use tideline_load::bench::{Bench, until_signal};
use tideline_load::exit::Stop;
use tideline_load::outcome::figures::{Sheet, Table, quantity};
use tideline_load::outcome::report;
use tideline_load::run::setup::pair;

use crate::contestants::{Contestant, Field};
use crate::row::{COLUMNS, median};
pub use crate::row::{Row, Verdict};

/// The arguments.
#[derive(Clone, Debug, clap::Args)]
pub struct Peers {
    /// Tideline's binary
    #[arg(long, default_value = "target/release/tideline")]
    pub binary: PathBuf,
    /// All data directories are made in here, and removed again: the disk that is measured
    #[arg(long, default_value = "./data/peers")]
    pub data: PathBuf,
    /// Rows to measure [default: all]
    #[arg(long, value_parser = row_name, value_delimiter = ',')]
    pub only: Vec<String>,
    /// Pairs of each row
    #[arg(long, default_value_t = 5, value_parser = value_parser!(u64).range(1..))]
    pub pairs: u64,
    /// Length of each run
    #[arg(long, default_value_t = 8.0)]
    pub seconds: f64,
    /// Another value for a name of peers.toml, NAME=VALUE: connections=4, stock=1000000
    #[arg(long, value_parser = pair)]
    pub set: Vec<(String, String)>,
    /// Where redis-server, redis-benchmark, nats-server and durable-streams-server are [default: looked for on the PATH
    /// and in .venv]
    #[arg(long)]
    pub programs: Option<PathBuf>,
    /// Write the result as JSON into this file, after each row
    #[arg(long)]
    pub json: Option<PathBuf>,
}

/// The name of a row.
fn row_name(text: &str) -> Result<String, String> {
    let names: BTreeSet<String> = plan().row.into_iter().map(|row| row.name).collect();
    let known = names.get(text).cloned();
    known.ok_or_else(|| format!("there are {names:?}"))
}

/// What `peers.toml` says. It explains its fields.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Plan {
    names: BTreeMap<String, String>,
    contestant: BTreeMap<String, Contestant>,
    row: Vec<Row>,
}

fn plan() -> Plan {
    toml::from_str(include_str!("peers.toml")).expect("a file of this tool, read by a test")
}

/// What was measured.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// All rows that were asked for are there.
    pub whole: bool,
    /// How it was measured, and what is wrong.
    #[serde(flatten)]
    pub sheet: Sheet,
    /// The table.
    pub table: Table,
    /// The rows with their runs.
    pub rows: Vec<Row>,
}

impl Outcome {
    fn add(&mut self, row: &Row) {
        if matches!(row.verdict(), Verdict::Invalid | Verdict::Failed) {
            let why = row.why().unwrap_or_default();
            self.sheet.invalid.push(format!("{}: {why}", row.name));
        }
        self.table.rows.push(row.cells());
        self.rows.push(row.clone());
    }

    /// What the table comes to, in one line.
    pub fn summary(&self) -> String {
        use Verdict::{Failed, Invalid, Met, Missing, NotMet};
        let counts = [Met, NotMet, Missing, Invalid, Failed].map(|verdict| {
            let rows = self.rows.iter().filter(|row| row.verdict() == verdict);
            format!("{} {}", rows.count(), verdict.text().to_lowercase())
        });
        format!("bars: {}. {}", counts.join(", "), self.sheet.worth())
    }
}

/// Measures what was asked for; a signal ends it, and all its children. `show` gets each row when it is done, and the
/// outcome so far, with that row as its last. Blocks.
pub fn run(args: Peers, show: &mut dyn FnMut(&Row, &Outcome)) -> Result<Outcome, Stop> {
    if !args.binary.is_file() {
        let binary = args.binary.display();
        let what = format!("{binary}: no such file; build Tideline, or say --binary");
        return Err(Stop::Usage(what));
    }
    until_signal(measure(args, show))
}

async fn measure(args: Peers, show: &mut dyn FnMut(&Row, &Outcome)) -> Result<Outcome, Stop> {
    let (pairs, seconds) = (args.pairs, args.seconds);
    let how = format!("Medians of {pairs} pairs of {seconds} s");
    let mut outcome = Outcome {
        whole: false,
        sheet: Sheet::new(how),
        table: Table::new(COLUMNS),
        rows: Vec::new(),
    };
    let Plan {
        mut names,
        contestant,
        mut row,
    } = plan();
    for (name, value) in args.set {
        let unknown = || Stop::Usage(format!("--set: no name {name} in peers.toml"));
        *names.get_mut(&name).ok_or_else(unknown)? = value;
    }
    let size = names["size"]
        .parse()
        .map_err(|error| Stop::Usage(format!("size: {error}")))?;
    names.insert("text".into(), "x".repeat(size));
    names.insert("long".into(), (seconds * 4.0).to_string());
    let many = (seconds * 250_000.0).max(1.0);
    names.insert("many".into(), format!("{many:.0}"));
    row.retain(|row| args.only.is_empty() || args.only.contains(&row.name));
    let warm_up = (seconds / 4.0).min(2.0);
    let mut field = Field {
        bench: Bench {
            binary: args.binary,
            data: args.data,
            // The same texts and choices for all.
            all: format!("--seed 1 --seconds {seconds} --warm-up {warm_up}"),
            names,
            ..Bench::default()
        },
        contestants: contestant,
        programs: args.programs,
        kept: BTreeMap::new(),
        batch: None,
        seconds,
    };
    for rows in row.chunk_by(|one, other| one.line == other.line) {
        let mut rows = rows.to_vec();
        rounds(&mut field, &mut rows, &outcome.rows, pairs).await;
        for fault in field.bench.faults.drain(..) {
            report::note(&format!("fault: {fault}"));
            outcome.sheet.faults.push(fault);
        }
        for row in rows {
            outcome.add(&row);
            show(&row, &outcome);
        }
    }
    outcome.whole = true;
    Ok(outcome)
}

/// Measures rows that have their line in common: in each round every contestant runs once, and which one begins changes
/// from round to round, as disk and machine change in a round.
async fn rounds(field: &mut Field, rows: &mut [Row], before: &[Row], pairs: u64) {
    for row in &mut *rows {
        let missing = row.contestants().find_map(|who| field.missing(who));
        row.without = missing.map(|why| (Verdict::Missing, why));
        let beside = row.beside.as_ref();
        row.peer = beside.map_or_else(|| "–".into(), |who| field.contestants[who].title.clone());
    }
    if let Some((name, figure)) = &rows[0].half {
        let half = match rows.iter().any(|row| row.without.is_none()) {
            true => half_of(field, name, figure, before).await,
            false => None,
        };
        // If it is absent, the line cannot be read, and the rows fail.
        let half = half.map_or_else(|| "?".into(), |half| format!("{half:.0}"));
        field.bench.names.insert("half".into(), half);
    }
    for row in &mut *rows {
        row.what = field.bench.filled(&row.what);
    }
    let (line, figure) = (rows[0].line.clone(), rows[0].figure.clone());
    let pairs = if rows[0].once { 1 } else { pairs };
    for round in 0..pairs {
        let able = rows.iter().filter(|row| row.without.is_none());
        let there: BTreeSet<&str> = able.flat_map(Row::contestants).collect();
        let mut there: Vec<String> = there.into_iter().map(str::to_owned).collect();
        there.sort_by_key(|who| field.is_disk(who));
        let servers = there.partition_point(|who| !field.is_disk(who));
        there[..servers].rotate_left(round as usize % servers.max(1));
        let mut runs = BTreeMap::new();
        for who in there {
            let run = field.run(&who, &line).await;
            if let Some(of) = run.as_ref().ok().and_then(|run| run.figures.get(&figure)) {
                let shown = quantity(of.value, &of.unit);
                report::note(&format!("{}/{pairs} {who}: {figure} {shown}", round + 1));
            }
            runs.insert(who, run);
        }
        let able = rows.iter_mut().filter(|row| row.without.is_none());
        able.for_each(|row| row.add(&runs));
    }
}

/// Half of the median of a figure of Tideline in a row; that row's load is measured once if it was not.
async fn half_of(field: &mut Field, name: &str, figure: &str, before: &[Row]) -> Option<f64> {
    let whole = match seen(name, figure, before) {
        Some(seen) => seen,
        None => {
            let row = plan().row.into_iter().find(|row| row.name == name)?;
            let run = field.run(row.contestants().next()?, &row.line).await.ok()?;
            run.figures.get(figure)?.value
        }
    };
    Some((whole / 2.0).max(1.0))
}

/// The median of a figure over Tideline's runs in the rows of a name. Some rows are about another server only.
fn seen(name: &str, figure: &str, rows: &[Row]) -> Option<f64> {
    let mine = |row: &&Row| row.name == name && row.ours.is_none();
    let pairs = rows.iter().filter(mine).flat_map(|row| &row.pairs);
    let figures = pairs.map(|pair| &pair.tideline.figures);
    median(figures.filter_map(|figures| figures.get(figure).copied()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_that_come_with_the_tool_can_be_read() {
        let plan = plan();
        for row in &plan.row {
            for who in row.contestants() {
                assert!(plan.contestant.contains_key(who), "{who}");
            }
            if let Some((name, _)) = &row.half {
                assert!(plan.row.iter().any(|row| row.name == *name), "{name}");
            }
        }
        assert!(row_name("deep").is_ok());
        assert!(row_name("dep").is_err_and(|why| why.contains("deep")));
    }

    #[test]
    fn half_is_half_of_tideline_and_of_nobody_else() {
        let rows = plan().row.into_iter().filter(|row| row.name == "deep");
        let mut rows: Vec<Row> = rows.collect();
        assert_eq!(rows.len(), 2, "Tideline, and Redis' own tool");
        let rates = [
            ("tideline", 100.0),
            ("redis", 1.0),
            ("redis-benchmark", 900.0),
        ];
        let runs = rates.map(|(who, rate)| (who.to_owned(), Ok(contestants::with_rate(rate))));
        let runs = BTreeMap::from(runs);
        rows.iter_mut().for_each(|row| row.add(&runs));
        let best = |name| seen(name, "appends_per_second", &rows);
        assert_eq!((best("deep"), best("single")), (Some(100.0), None));
    }
}
