//! `append`: how many appends per second become durable, and how long each takes from sending to its acknowledgement.
//!
//! Owns: the measurement: connections × messages on the way, a closed loop. Promises: only acknowledged appends count;
//! at the end timelines are sampled and must hold 1..n with n = what was acknowledged. Must not: spend the server's
//! processor time: one thread, ready-made frames with numbers patched in, replies told apart by their first bytes.

mod load;
mod preload;
mod template;

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use hdrhistogram::Histogram;
use serde::Serialize;

use crate::exit::Stop;
use crate::process::cpu_seconds;
use crate::random::Random;
use crate::report::{self, Percentiles};
use crate::rpc::{CallError, Client};
use crate::scan;

/// Arguments of `append`.
#[derive(Clone, Debug, clap::Args)]
pub struct Append {
    /// The server
    #[arg(long, default_value = "ws://127.0.0.1:7070/v1/connect")]
    pub url: String,
    /// Connections
    #[arg(long, default_value_t = 50)]
    pub connections: usize,
    /// Messages on the way per connection
    #[arg(long, default_value_t = 16)]
    pub in_flight: usize,
    /// Timelines, chosen at random for each message
    #[arg(long, default_value_t = 10_000)]
    pub timelines: u64,
    /// Bytes of text in each entry, {"text": …}
    #[arg(long, default_value_t = 200)]
    pub size: usize,
    /// How long to measure
    #[arg(long, default_value_t = 10.0)]
    pub seconds: f64,
    /// Measure so many messages instead
    #[arg(long, conflicts_with = "seconds")]
    pub messages: Option<u64>,
    /// Whether messages carry the client's own ID
    #[arg(long, value_enum, default_value_t = MessageIds::All)]
    pub message_ids: MessageIds,
    /// Seconds before measuring begins
    #[arg(long, default_value_t = 2.0)]
    pub warm_up: f64,
    /// Have so many messages stand there first, sent in batches
    #[arg(long, default_value_t = 0)]
    pub preload: u64,
    /// Spread over so many timelines (the measured ones are the first --timelines of the same names)
    #[arg(long, default_value_t = 1_000_000)]
    pub preload_timelines: u64,
    /// Pause between preloading and measuring
    #[arg(long, default_value_t = 0.0)]
    pub settle: f64,
    /// Names of the timelines begin so [default: one of this run's own]
    #[arg(long)]
    pub prefix: Option<String>,
    /// How many timelines to check at the end
    #[arg(long, default_value_t = 200)]
    pub sample: usize,
    /// The server's process ID, to show its processor time
    #[arg(long)]
    pub pid: Option<u32>,
    /// Seed of texts and choices
    #[arg(long)]
    pub seed: Option<u64>,
    /// Write the result as JSON into this file
    #[arg(long)]
    pub json: Option<PathBuf>,
}

/// Whether messages carry the client's own ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MessageIds {
    /// Every message does, and the server remembers it.
    All,
    /// The server makes them.
    None,
}

/// What was measured.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// Connections.
    pub connections: usize,
    /// Messages on the way per connection.
    pub in_flight: usize,
    /// Timelines.
    pub timelines: u64,
    /// Bytes of text in each entry.
    pub size: usize,
    /// Whether messages carried IDs.
    pub message_ids: MessageIds,
    /// Messages that stood there before.
    pub preloaded: u64,
    /// How fast those were sent.
    pub preload_per_second: f64,
    /// Length of the measurement.
    pub seconds: f64,
    /// Acknowledged in it.
    pub acknowledged: u64,
    /// The figure.
    pub appends_per_second: f64,
    /// From handing a message to the socket to its acknowledgement, µs.
    pub latency_micros: Percentiles,
    /// Refused with `busy`, over the whole run.
    pub busy: u64,
    /// Processor seconds of the generator in the measurement.
    pub generator_cpu_seconds: Option<f64>,
    /// And of the server.
    pub server_cpu_seconds: Option<f64>,
    /// Timelines that were read back.
    pub sampled: usize,
    /// Names of the timelines begin so.
    pub prefix: String,
    /// Seed of texts and choices.
    pub seed: u64,
    /// Broken promises and errors, the first in words.
    pub faults: Vec<String>,
}

impl Outcome {
    /// Nothing is wrong.
    #[must_use]
    pub fn held(&self) -> bool {
        self.faults.is_empty()
    }

    /// The lines at the end of a run.
    #[must_use]
    pub fn summary(&self) -> String {
        let cpu = |seconds: Option<f64>| {
            seconds.map_or_else(
                || "not read".to_owned(),
                |used| format!("{:.0} %", used * 100.0 / self.seconds.max(0.001)),
            )
        };
        let ids = match self.message_ids {
            MessageIds::All => "with message IDs",
            MessageIds::None => "without message IDs",
        };
        let preloaded = match self.preloaded {
            0 => String::new(),
            count => {
                format!(
                    " on {count} preloaded messages ({:.0}/s)",
                    self.preload_per_second
                )
            }
        };
        let Outcome {
            connections,
            in_flight,
            timelines,
            size,
            seconds,
            ..
        } = self;
        let Outcome {
            acknowledged,
            appends_per_second,
            busy,
            sampled,
            ..
        } = self;
        format!(
            "{appends_per_second:.0} durable appends/s: {acknowledged} in {seconds:.2} s, \
             {connections} connections x {in_flight} in flight, {timelines} timelines, \
             {size}-byte texts, {ids}{preloaded}\n\
             ack latency: {}\n\
             processor: generator {}, server {}; {busy} busy; {sampled} timelines read back, \
             {} faults",
            self.latency_micros.line(),
            cpu(self.generator_cpu_seconds),
            cpu(self.server_cpu_seconds),
            self.faults.len()
        )
    }
}

/// A timeline's name; the number is padded so that all names are of one length and can be patched into a frame.
pub(crate) fn timeline_name(prefix: &str, number: u64) -> String {
    format!("{prefix}{number:0width$}", width = template::DIGITS)
}

/// The heads of the sampled timelines; 0 for one that is not there.
async fn heads(client: &mut Client, prefix: &str, sample: &[u64]) -> Result<Vec<u64>, CallError> {
    let mut heads = Vec::with_capacity(sample.len());
    for number in sample {
        let page = scan::page(client, &timeline_name(prefix, *number), 1, 1).await?;
        heads.push(page.map_or(0, |page| page.head));
    }
    Ok(heads)
}

/// Preloads, measures, reads back.
pub async fn run(args: Append) -> Result<Outcome, Stop> {
    let counts = [
        args.connections as u64,
        args.in_flight as u64,
        args.timelines,
    ];
    if counts.contains(&0) || args.in_flight > template::SLOTS_MAX {
        let most = template::SLOTS_MAX;
        return Err(Stop::Usage(format!(
            "a count of 0, or more than {most} in flight"
        )));
    }
    let seed = args.seed.unwrap_or_else(Random::fresh_seed);
    let run = Random::new(Random::fresh_seed()).text(8);
    let prefix = args
        .prefix
        .clone()
        .unwrap_or_else(|| format!("load-{run}/"));
    let unreachable = |error: CallError| Stop::Unreachable(error.to_string());
    let preloaded = preload::run(&args, &prefix, &run, seed).await?;
    if args.settle > 0.0 {
        tokio::time::sleep(Duration::from_secs_f64(args.settle)).await;
    }
    // Opened when it has something to ask: a connection that is silent for long is closed by the server.
    let mut client = Client::open(&args.url).await.map_err(unreachable)?;
    let mut sample = Random::new(seed ^ 0x5a5a);
    let sample: Vec<u64> = (0..args.sample)
        .map(|_| sample.below(args.timelines))
        .collect();
    let before = heads(&mut client, &prefix, &sample)
        .await
        .map_err(unreachable)?;
    drop(client);
    let measured = load::run(&args, &prefix, &run, seed).await?;
    let mut client = Client::open(&args.url).await.map_err(unreachable)?;
    let mut faults = measured.faults;
    for (number, before) in sample.iter().zip(&before) {
        let name = timeline_name(&prefix, *number);
        let expected = before + u64::from(measured.acked[*number as usize]);
        if let Some(fault) = read_back(&mut client, &name, expected)
            .await
            .map_err(unreachable)?
        {
            faults.push(fault);
        }
    }
    let latency: Histogram<u64> = measured.latency;
    Ok(Outcome {
        connections: args.connections,
        in_flight: args.in_flight,
        timelines: args.timelines,
        size: args.size,
        message_ids: args.message_ids,
        preloaded: preloaded.messages,
        preload_per_second: preloaded.messages as f64 / preloaded.seconds.max(0.001),
        seconds: measured.seconds,
        acknowledged: latency.len(),
        appends_per_second: latency.len() as f64 / measured.seconds.max(0.001),
        latency_micros: Percentiles::of(&latency),
        busy: measured.busy,
        generator_cpu_seconds: measured.generator_cpu_seconds,
        server_cpu_seconds: measured.server_cpu_seconds,
        sampled: sample.len(),
        prefix,
        seed,
        faults,
    })
}

/// What is wrong with a timeline that should hold 1..=expected.
async fn read_back(
    client: &mut Client,
    name: &str,
    expected: u64,
) -> Result<Option<String>, CallError> {
    let scan = scan::whole(client, name).await?;
    let counted = scan.marks.iter().map(|mark| mark.sequence).eq(1..=expected);
    let head = scan.head;
    Ok((!counted || head != expected).then(|| {
        let found = scan.marks.len();
        format!("{name}: {expected} acknowledged, head {head}, {found} messages read back")
    }))
}

/// Processor time of the generator and of the server.
fn processor(pid: Option<u32>) -> (Option<f64>, Option<f64>) {
    (cpu_seconds(std::process::id()), pid.and_then(cpu_seconds))
}

fn note_preload(done: u64, of: u64) {
    report::note(&format!("preloaded {done} of {of} messages"));
}
