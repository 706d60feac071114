//! `append`: how many appends per second become durable, and how long each takes until its acknowledgement.
//!
//! Owns: the measurement: a closed loop of connections × messages on the way, or with --rate an open loop. Promises:
//! only acknowledged appends count; at the end timelines are sampled and must hold 1..n with n = what was acknowledged.
//! Must not: spend the server's processor time: one thread, ready-made frames with numbers patched in, replies told
//! apart by their first bytes.

pub(crate) mod talk;
pub(crate) mod template;

use std::cell::RefCell;
use std::rc::Rc;

use clap::ValueEnum;
use serde::Serialize;

use self::talk::{Appends, Tally};
use self::template::Template;
use crate::exit::Stop;
use crate::lanes::{Lanes, SLOTS_MAX};
use crate::outcome::Better;
use crate::pace::Gaps;
use crate::preload::{self, Preload};
use crate::profile::{Profile, need_files};
use crate::random::Random;
use crate::recorder::Counts;
use crate::rpc::{CallError, Client};
use crate::run::Run;
use crate::scan;
use crate::setup::Setup;

/// Arguments of `append`.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Append {
    /// What every profile has.
    #[command(flatten)]
    #[serde(flatten)]
    pub setup: Setup,
    /// Connections
    #[arg(long, default_value_t = 50)]
    pub connections: usize,
    /// Messages on the way per connection; not used with --rate
    #[arg(long, default_value_t = 16)]
    pub in_flight: usize,
    /// Send so many a second over all connections, whatever the server does (open loop: latency counts from the
    /// scheduled time)
    #[arg(long)]
    pub rate: Option<f64>,
    /// How the messages of a connection follow one another with --rate
    #[arg(long, value_enum, default_value_t = Gaps::Fixed)]
    pub gaps: Gaps,
    /// Timelines, chosen at random for each message
    #[arg(long, default_value_t = 10_000)]
    pub timelines: u64,
    /// Bytes of text in each entry, {"text": …}
    #[arg(long, default_value_t = 200)]
    pub size: usize,
    /// Measure so many messages instead
    #[arg(long, conflicts_with = "seconds")]
    pub messages: Option<u64>,
    /// Whether messages carry the client's own ID
    #[arg(long, value_enum, default_value_t = MessageIds::All)]
    pub message_ids: MessageIds,
    /// Have so many messages stand there first, sent in batches
    #[arg(long, default_value_t = 0)]
    pub preload: u64,
    /// Spread over so many timelines (the measured ones are the first --timelines of the same names)
    #[arg(long, default_value_t = 1_000_000)]
    pub preload_timelines: u64,
    /// Seconds between preloading and measuring
    #[arg(long, default_value_t = 0.0)]
    pub settle: f64,
    /// Names of the timelines begin so [default: one of this run's own]
    #[arg(long)]
    pub prefix: Option<String>,
    /// How many timelines to check at the end
    #[arg(long, default_value_t = 200)]
    pub sample: usize,
}

/// What the names of a stock's timelines begin with.
pub const STOCK_PREFIX: &str = "growth/";

impl Append {
    /// As many appends as go through, 50 × 16 of them in flight, to timelines of a stock that stands.
    #[must_use]
    pub fn to_stock(setup: Setup, timelines: u64) -> Append {
        Append {
            setup,
            connections: 50,
            in_flight: 16,
            rate: None,
            gaps: Gaps::Fixed,
            timelines,
            size: 200,
            messages: None,
            message_ids: MessageIds::All,
            preload: 0,
            preload_timelines: 1,
            settle: 0.0,
            prefix: Some(STOCK_PREFIX.into()),
            sample: 50,
        }
    }
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

impl Profile for Append {
    const NAME: &'static str = "append";

    fn setup(&self) -> &Setup {
        &self.setup
    }

    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        self.check()?;
        need_files(run, self.connections as u64)?;
        let prefix = self.prefix.clone();
        let prefix = prefix.unwrap_or_else(|| format!("load-{}/", run.tag));
        let unreachable = |error: CallError| Stop::Unreachable(error.to_string());
        let preload = Preload {
            messages: self.preload,
            timelines: self.preload_timelines,
            size: self.size,
            ids: self.message_ids,
        };
        preload::run(&preload, run, &prefix).await?;
        run.pass(self.settle).await;
        // Opened when it has something to ask: a connection that is silent for long is closed by the server.
        let mut client = Client::open(&run.url).await.map_err(unreachable)?;
        let mut sample = Random::new(run.seed_of(SAMPLE));
        let sample: Vec<u64> = (0..self.sample)
            .map(|_| sample.below(self.timelines))
            .collect();
        let before = heads(&mut client, &prefix, &sample)
            .await
            .map_err(unreachable)?;
        drop(client);
        let acked = self.measure(run, &prefix).await?;
        let mut client = Client::open(&run.url).await.map_err(unreachable)?;
        for (number, before) in sample.iter().zip(&before) {
            let name = timeline_name(&prefix, *number);
            let expected = before + u64::from(acked[*number as usize]);
            if let Some(fault) = read_back(&mut client, &name, expected)
                .await
                .map_err(unreachable)?
            {
                run.checks.fault(fault);
            }
            run.checks.made("messages read back", expected);
        }
        run.checks.made("timelines read back", sample.len() as u64);
        run.detail("prefix", prefix);
        Ok(())
    }
}

/// The part of the seed that the sample is chosen from.
const SAMPLE: u64 = 1 << 32;

impl Append {
    fn check(&self) -> Result<(), Stop> {
        let counts = [
            self.connections as u64,
            self.in_flight as u64,
            self.timelines,
        ];
        if counts.contains(&0) || self.in_flight > SLOTS_MAX {
            let most = SLOTS_MAX;
            return Err(Stop::Usage(format!(
                "a count of 0, or more than {most} in flight"
            )));
        }
        if self
            .rate
            .is_some_and(|rate| !rate.is_finite() || rate <= 0.0)
        {
            return Err(Stop::Usage("a rate that is not above 0".into()));
        }
        Ok(())
    }

    /// Puts the load on. Returns what was acknowledged, per timeline.
    async fn measure(&self, run: &Rc<Run>, prefix: &str) -> Result<Vec<u32>, Stop> {
        let timelines = usize::try_from(self.timelines)
            .map_err(|_| Stop::Usage("too many timelines for this machine".into()))?;
        let counts = self.rate.map_or(Counts::Ended, |_| Counts::Scheduled);
        let acks = run.recorder("ack", counts);
        let tally = Rc::new(RefCell::new(Tally {
            busy: 0,
            acked: vec![0; timelines],
        }));
        let lanes = Lanes {
            run: Rc::clone(run),
            recorder: Rc::clone(&acks),
            in_flight: self.in_flight,
            rate: self.rate,
            gaps: self.gaps,
            most: self.messages,
            part: 0,
        };
        let talk = |number: usize| {
            let ids = format!("{}-{number}-", run.tag);
            let template = Template::new(prefix, &ids, self.size, self.message_ids, run.seed);
            Appends::new(run, &tally, template, number)
        };
        let running = lanes.start(self.connections, talk).await?;
        let seconds = self.messages.map_or(self.setup.seconds, |_| f64::INFINITY);
        run.measure_for(seconds).await;
        running.end().await?;
        run.rate("appends_per_second", acks.count());
        let Tally { busy, acked } = tally.take();
        run.figure("busy", busy as f64, "1", Better::Lower);
        Ok(acked)
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
