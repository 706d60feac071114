//! Tideline and other servers under the same load, in turn, on one machine and one disk; and the table of it.
//!
//! Owns: which rows there are, the order of the whole, the end of it. Promises: each server is started anew for each
//! run with a data directory of its own; when the run ends, in whichever way, no child and no data is left; what is
//! not installed is named with the line that installs it, and its rows are missing, not failed; each row is handed
//! out when it is done, and one that fails does not take the others along. Must not: judge by a single run: a row's
//! ratio is the median of its pairs.

mod appends;
mod echo;
mod field;
mod hall;
mod keyed;
mod nats;
mod programs;
mod redis;
mod rows;
mod written;

use std::path::PathBuf;

use clap::ValueEnum;
use tideline_load::exit::Stop;
use tideline_load::pairs::{Bar, Outcome, Row};
use tideline_load::random::Random;
use tideline_load::report;

use crate::field::Field;

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
    #[arg(long, value_enum, value_delimiter = ',')]
    pub only: Vec<Name>,
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

/// A row, or several that are measured together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Name {
    /// Durable appends, 16 in flight, against Redis
    Deep,
    /// The same, 1 in flight
    Single,
    /// Durable appends, 16 in flight, against JetStream
    Jetstream,
    /// Latency of acknowledgements at half of Tideline's best, against Redis
    Ack,
    /// The disk alone, and an echo alone
    Floor,
    /// Deliveries to 1,000 subscribers against NATS, and their latency at half of the most
    Room,
    /// Empty polls of 100 positions per CPU-second of the server
    Poll,
    /// Memory of 15,000 idle connections
    Idle,
    /// 5,000 clients that are cut at once, and come back at once
    Storm,
    /// History pages and durable appends beside 10 million messages, against 100,000
    Growth,
    /// Bytes that reach the disk for each byte of an entry
    Amplification,
}

impl Name {
    /// As `--only` spells it.
    fn text(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// A row of it, before its pairs.
    fn row(self, what: String, peer: &str, unit: &str, bar: Bar) -> Row {
        Row::new(&self.text(), what, peer, unit, bar)
    }
}

/// What is measured together, in this order.
const SECTIONS: [&[Name]; 9] = [
    &[Name::Deep, Name::Jetstream, Name::Floor],
    &[Name::Single],
    &[Name::Ack],
    &[Name::Room],
    &[Name::Poll],
    &[Name::Idle],
    &[Name::Storm],
    &[Name::Growth],
    &[Name::Amplification],
];

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
        return Err(Stop::Usage(format!(
            "{binary}: no such file; build Tideline, or say --binary"
        )));
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Stop::Own(format!("no runtime: {error}")))?;
    // What is dropped here takes its servers and directories along; a measurement whose server is gone ends, too.
    runtime.block_on(async {
        tokio::select! {
            outcome = measure(args, show) => outcome,
            signal = ended() => Err(Stop::Own(format!("ended by {signal}"))),
        }
    })
}

async fn ended() -> &'static str {
    use tokio::signal::unix::{SignalKind, signal};
    let terminated = async {
        match signal(SignalKind::terminate()) {
            Ok(mut signal) => signal.recv().await,
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => "SIGINT",
        _ = terminated => "SIGTERM",
    }
}

async fn measure(args: Peers, show: &mut dyn FnMut(&Row, &Outcome)) -> Result<Outcome, Stop> {
    let mut outcome = Outcome {
        whole: false,
        pairs: args.pairs,
        seconds: args.seconds,
        connections: args.connections,
        timelines: args.timelines,
        size: args.size,
        seed: args.seed.unwrap_or_else(Random::fresh_seed),
        rows: Vec::new(),
        faults: Vec::new(),
    };
    let only = args.only.clone();
    let wanted = |name: &Name| only.is_empty() || only.contains(name);
    let mut field = Field::new(args, outcome.seed)?;
    for names in SECTIONS {
        let chosen: Vec<Name> = names.iter().copied().filter(wanted).collect();
        if chosen.is_empty() {
            continue;
        }
        let rows = section(&mut field, &chosen).await;
        for fault in field.findings.faults.drain(..) {
            report::note(&format!("fault: {fault}"));
            outcome.faults.push(fault);
        }
        for row in rows.unwrap_or_else(|stop| failed(&chosen, &stop)) {
            let row = row.judged();
            outcome.rows.push(row.clone());
            show(&row, &outcome);
        }
    }
    outcome.whole = true;
    Ok(outcome)
}

/// Measures the rows of one section.
async fn section(field: &mut Field, chosen: &[Name]) -> Result<Vec<Row>, Stop> {
    match chosen {
        [Name::Single] => appends::single(field).await,
        [Name::Ack] => appends::paced(field).await,
        [Name::Room] => rows::room(field).await,
        [Name::Poll] => rows::poll(field).await,
        [Name::Idle] => rows::idle(field).await,
        [Name::Storm] => rows::storm(field).await,
        [Name::Growth] => rows::growth(field).await,
        [Name::Amplification] => written::amplification(field).await,
        most => appends::most(field, most).await,
    }
}

/// The rows of a section that could not be measured.
fn failed(chosen: &[Name], stop: &Stop) -> Vec<Row> {
    let one = |name: &Name| {
        let mut row = name.row(format!("all of `{}`", name.text()), "-", "", Bar::None);
        row.failed = Some(stop.to_string());
        row
    };
    chosen.iter().map(one).collect()
}
