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
mod nats;
mod programs;
mod redis;
mod room;
mod row;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tideline_load::bench::until_signal;
use tideline_load::exit::Stop;
use tideline_load::figures::{Sheet, Table, quantity};
use tideline_load::outcome::Outcome as Run;
use tideline_load::random::Random;
use tideline_load::report;

use crate::contestants::Field;
use crate::row::{COLUMNS, Contestant, median};
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
    #[arg(long, value_parser = NAMES, value_delimiter = ',')]
    pub only: Vec<String>,
    /// Pairs of each row
    #[arg(long, default_value_t = 5)]
    pub pairs: usize,
    /// Length of each run
    #[arg(long, default_value_t = 8.0)]
    pub seconds: f64,
    /// Seconds before each measurement begins
    #[arg(long, default_value_t = 2.0)]
    pub warm_up: f64,
    /// Connections of the rows about appends
    #[arg(long, default_value_t = 50)]
    pub connections: usize,
    /// Timelines (keys, subjects), chosen at random for each message
    #[arg(long, default_value_t = 10_000)]
    pub timelines: u64,
    /// Bytes of each text or value
    #[arg(long, default_value_t = 200)]
    pub size: usize,
    /// In rooms, messages that may not have reached everybody yet
    #[arg(long, default_value_t = 256)]
    pub room_in_flight: u64,
    /// Messages of the row about growth, in a tenth as many timelines; 10 million take 6 GB of disk
    #[arg(long, default_value_t = 10_000_000)]
    pub stock: u64,
    /// Redis' server [default: looked for on the PATH]
    #[arg(long)]
    pub redis_server: Option<PathBuf>,
    /// NATS' server [default: looked for on the PATH and in .venv]
    #[arg(long)]
    pub nats_server: Option<PathBuf>,
    /// Seed of texts and choices
    #[arg(long)]
    pub seed: Option<u64>,
    /// Write the result as JSON into this file, after each row
    #[arg(long)]
    pub json: Option<PathBuf>,
}

const NAMES: [&str; 11] = [
    "deep",
    "single",
    "jetstream",
    "ack",
    "floor",
    "room",
    "poll",
    "idle",
    "storm",
    "growth",
    "amplification",
];

/// What `peers.toml` says. It explains its fields.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Plan {
    stock: String,
    contestants: BTreeMap<Contestant, String>,
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
    /// The table, and what is wrong.
    #[serde(flatten)]
    pub sheet: Sheet,
    /// The rows with their runs.
    pub rows: Vec<Row>,
}

impl Outcome {
    fn add(&mut self, row: &Row) {
        if matches!(row.verdict, Verdict::Invalid | Verdict::Failed) {
            let why = row.why().unwrap_or_default();
            self.sheet.invalid.push(format!("{}: {why}", row.name));
        }
        self.sheet.tables[0].rows.push(row.cells());
        self.rows.push(row.clone());
    }

    /// What the table comes to, in one line.
    #[must_use]
    pub fn summary(&self) -> String {
        use Verdict::{Failed, Invalid, Met, Missing, NotMet};
        let counts = [Met, NotMet, Missing, Invalid, Failed].map(|verdict| {
            let rows = self.rows.iter().filter(|row| row.verdict == verdict);
            format!("{} {}", rows.count(), verdict.text().to_lowercase())
        });
        format!("bars: {}. {}", counts.join(", "), self.sheet.worth())
    }
}

/// Measures what was asked for; a signal ends it, and all its children. `show` gets each row when it is done, and the
/// outcome so far, with that row as its last. Blocks.
///
/// # Errors
///
/// A server does not start or cannot be reached, a limit of this machine, a signal.
pub fn run(args: Peers, show: &mut dyn FnMut(&Row, &Outcome)) -> Result<Outcome, Stop> {
    let (pairs, connections) = (args.pairs as u64, args.connections as u64);
    if [pairs, connections, args.timelines, args.stock].contains(&0) {
        return Err(Stop::Usage("a count of 0".into()));
    }
    if !args.binary.is_file() {
        let binary = args.binary.display();
        let what = format!("{binary}: no such file; build Tideline, or say --binary");
        return Err(Stop::Usage(what));
    }
    until_signal(measure(args, show))
}

async fn measure(args: Peers, show: &mut dyn FnMut(&Row, &Outcome)) -> Result<Outcome, Stop> {
    let seed = args.seed.unwrap_or_else(Random::fresh_seed);
    let (pairs, seconds) = (args.pairs, args.seconds);
    let how = format!("Medians of {pairs} pairs of {seconds} s, seed {seed}");
    let mut sheet = Sheet::new("peers", how);
    sheet.tables = vec![Table::new(COLUMNS)];
    let mut outcome = Outcome {
        whole: false,
        sheet,
        rows: Vec::new(),
    };
    let only = args.only.clone();
    let Plan {
        stock,
        contestants,
        mut row,
    } = plan();
    row.retain(|row| only.is_empty() || only.contains(&row.name));
    let mut field = Field::new(args, seed, stock, contestants);
    for rows in row.chunk_by(|one, other| one.line == other.line) {
        let mut rows = rows.to_vec();
        if let Err(stop) = rounds(&mut field, &mut rows, &outcome.rows).await {
            rows.iter_mut()
                .for_each(|row| row.failed = Some(stop.to_string()));
        }
        for fault in field.bench.faults.drain(..) {
            report::note(&format!("fault: {fault}"));
            outcome.sheet.faults.push(fault);
        }
        for mut row in rows {
            row.judge();
            outcome.add(&row);
            show(&row, &outcome);
        }
    }
    outcome.whole = true;
    Ok(outcome)
}

/// Measures rows that have their line in common: in each round every contestant runs once, and which one begins changes
/// from round to round, as disk and machine change in a round.
async fn rounds(field: &mut Field, rows: &mut [Row], before: &[Row]) -> Result<(), Stop> {
    for row in &mut *rows {
        row.missing = row.contestants().find_map(|who| field.missing(who));
        row.peer = row.beside.map_or("–".to_owned(), |who| field.title(who));
    }
    let (first, line) = (rows[0].figure.clone(), rows[0].line.clone());
    if let Some(half) = rows[0].half.clone()
        && rows.iter().any(|row| row.missing.is_none())
    {
        let half = half_of(field, &half, before).await?;
        field.bench.names.insert("half", format!("{half:.0}"));
    }
    for row in &mut *rows {
        row.what = field.bench.filled(&row.what);
    }
    let pairs = if rows[0].once { 1 } else { field.args.pairs };
    for round in 0..pairs {
        let able = |row: &&Row| row.missing.is_none() && row.failed.is_none();
        let there: BTreeSet<_> = rows
            .iter()
            .filter(able)
            .flat_map(Row::contestants)
            .collect();
        let mut there = Vec::from_iter(there);
        let count = there.len().max(1);
        there.rotate_left(round % count);
        let mut runs = BTreeMap::new();
        for who in there {
            let run = field.run(who, &line).await;
            if let Ok(run) = &run {
                note(
                    &format!("{}/{pairs} {}", round + 1, field.title(who)),
                    run,
                    &first,
                );
            }
            runs.insert(who, run);
        }
        for row in rows.iter_mut().filter(|row| able(&&**row)) {
            row.add(&runs);
        }
    }
    Ok(())
}

/// Half of the median of a figure of Tideline in a row; that row's load is measured once if it was not.
async fn half_of(
    field: &mut Field,
    (name, figure): &(String, String),
    before: &[Row],
) -> Result<f64, Stop> {
    let pairs = before
        .iter()
        .find(|row| row.name == *name)
        .map(|row| &row.pairs);
    let seen = pairs.into_iter().flatten();
    let seen = median(seen.filter_map(|pair| pair.tideline.figures.get(figure).copied()));
    if let Some(seen) = seen {
        return Ok((seen / 2.0).max(1.0));
    }
    let rows = plan().row.into_iter();
    let missing = || Stop::Own(format!("no {figure} of the row {name}"));
    let row = rows
        .into_iter()
        .find(|row| row.name == *name)
        .ok_or_else(missing)?;
    let run = field.run(Contestant::Tideline, &row.line).await?;
    let figure = run.figures.get(figure).ok_or_else(missing)?;
    Ok((figure.value / 2.0).max(1.0))
}

fn note(who: &str, run: &Run, figure: &str) {
    let shown = [figure, "generator_cpu_share", "server_cpu_share"].into_iter();
    let shown = shown.filter_map(|name| {
        let figure = run.figures.get(name)?;
        Some(format!("{name} {}", quantity(figure.value, &figure.unit)))
    });
    report::note(&format!("{who}: {}", shown.collect::<Vec<_>>().join(", ")));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_that_come_with_the_tool_can_be_read() {
        let plan = plan();
        for row in &plan.row {
            assert!(NAMES.contains(&&*row.name), "{}", row.name);
            for who in row.contestants() {
                assert!(plan.contestants.contains_key(&who), "{who:?}");
            }
            if let Some((name, _)) = &row.half {
                assert!(plan.row.iter().any(|row| row.name == *name), "{name}");
            }
        }
        for name in NAMES {
            assert!(plan.row.iter().any(|row| row.name == name), "{name}");
        }
    }
}
