//! `append`: how many appends per second become durable, and how long each takes until its acknowledgement.
//!
//! Owns: the measurement: a closed loop of connections × messages on the way, or with --rate an open loop. Promises:
//! only acknowledged appends count; at the end timelines are sampled and must hold 1..n with n = what was acknowledged,
//! whenever it came. Must not: spend the server's processor time, or repeat a refused message: `busy` is counted.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::exit::Stop;
use crate::generator::Flow;
use crate::outcome::Better;
use crate::preload::Preload;
use crate::profile::{Profile, need_files};
use crate::random::Random;
use crate::request::{Ask, Session, at_slot};
use crate::rpc::{CallError, Client, Refusal};
use crate::run::Run;
use crate::scan;
use crate::setup::Setup;
use crate::template::{MessageIds, SLOT_BASE, Template, timeline_name};

/// Arguments of `append`.
#[derive(Clone, Debug, clap::Args, Serialize)]
#[command(mut_arg("connections", |arg| arg.default_value("50")))]
#[command(mut_arg("in_flight", |arg| arg.default_value("16")))]
pub struct Append {
    /// What every profile has.
    #[command(flatten)]
    #[serde(flatten)]
    pub setup: Setup,
    /// How they are sent.
    #[command(flatten)]
    #[serde(flatten)]
    pub flow: Flow,
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
    /// Append so many messages first, in batches
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

/// The part of the seed that the sample is chosen from.
const SAMPLE: u64 = 1 << 32;
/// What was read back in this time is enough to know.
const READING_BACK: Duration = Duration::from_secs(60);

impl Profile for Append {
    const NAME: &'static str = "append";

    fn setup(&self) -> &Setup {
        &self.setup
    }

    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        self.flow.check()?;
        let timelines = usize::try_from(self.timelines).unwrap_or(0);
        if timelines == 0 {
            return Err(Stop::Usage(
                "no timelines, or too many for this machine".into(),
            ));
        }
        need_files(run, self.flow.connections as u64)?;
        let prefix = run.prefix(self.prefix.as_deref(), "load");
        let preload = Preload {
            messages: self.preload,
            timelines: self.preload_timelines,
            size: self.size,
            ids: self.message_ids,
        };
        preload.run(run, &prefix).await?;
        run.pass(self.settle).await;
        let mut random = Random::new(run.seed_of(SAMPLE));
        let sample: Vec<u64> = (0..self.sample)
            .map(|_| random.below(self.timelines))
            .collect();
        let before = heads(run, &prefix, &sample).await?;
        let tally = Rc::new(RefCell::new(Tally {
            busy: 0,
            acked: vec![0; timelines],
        }));
        self.measure(run, &prefix, &tally).await?;
        let expected = |(number, before): (&u64, u64)| {
            (
                *number,
                before + u64::from(tally.borrow().acked[*number as usize]),
            )
        };
        let expected = sample.iter().zip(before).map(expected);
        read_back(run, &prefix, expected).await?;
        run.figure("busy", tally.borrow().busy as f64, "1", Better::Lower);
        let acked = tally
            .borrow()
            .acked
            .iter()
            .map(|count| u64::from(*count))
            .sum::<u64>();
        run.detail("acknowledged", acked);
        run.detail("prefix", prefix);
        Ok(())
    }
}

impl Append {
    async fn measure(
        &self,
        run: &Rc<Run>,
        prefix: &str,
        tally: &Rc<RefCell<Tally>>,
    ) -> Result<(), Stop> {
        let acks = self.flow.recorder(run, "ack");
        let mut generator = self.flow.generator(run, vec![Rc::clone(&acks)]);
        generator.most = self.messages;
        let open = async |number: usize| {
            let ids = format!("{}-{number}-", run.tag);
            let template = Template::append(prefix, &ids, self.size, self.message_ids, run.seed);
            Session::open(run, Appends::new(run, tally, template, number)).await
        };
        let running = generator.start(self.flow.connections, open).await?;
        let seconds = self.messages.map_or(self.setup.seconds, |_| f64::INFINITY);
        run.measure_for(seconds).await;
        running.end().await?;
        run.rate("appends_per_second", acks.count());
        Ok(())
    }
}

/// The heads of the sampled timelines; 0 for one that does not exist.
async fn heads(run: &Run, prefix: &str, sample: &[u64]) -> Result<Vec<u64>, Stop> {
    let read = async {
        // Opened when it has something to ask: a connection that is silent for long is closed by the server.
        let mut client = Client::open(&run.url).await?;
        let mut heads = Vec::with_capacity(sample.len());
        for number in sample {
            let page = scan::page(&mut client, &timeline_name(prefix, *number), 1, 1).await?;
            heads.push(page.map_or(0, |page| page.head));
        }
        Ok(heads)
    };
    read.await
        .map_err(|error: CallError| Stop::Unreachable(error.to_string()))
}

/// Reads timelines back: each, by its number, must hold 1..=n and nothing else. Of long ones fewer are read than are
/// asked for, and the count of checks says how many.
///
/// # Errors
///
/// The server can't be reached.
pub async fn read_back(
    run: &Run,
    prefix: &str,
    expected: impl Iterator<Item = (u64, u64)>,
) -> Result<(), Stop> {
    let lost = |error: CallError| Stop::Unreachable(format!("reading back: {error}"));
    let mut client = Client::open(&run.url).await.map_err(lost)?;
    let began = Instant::now();
    for (number, expected) in expected.take_while(|_| began.elapsed() < READING_BACK) {
        let name = timeline_name(prefix, number);
        let scan = scan::whole(&mut client, &name).await.map_err(lost)?;
        let (head, found) = (scan.head, scan.marks.len());
        if !scan.marks.iter().map(|mark| mark.sequence).eq(1..=expected) || head != expected {
            run.checks.fault(format_args!(
                "{name}: {expected} acknowledged, head {head}, {found} messages read back"
            ));
        }
        run.checks.made("messages read back", expected);
        run.checks.made("timelines read back", 1);
    }
    Ok(())
}

/// What all connections count together.
#[derive(Debug, Default)]
pub struct Tally {
    /// Refused as `busy`.
    pub busy: u64,
    /// Acknowledged per timeline, in the whole run.
    pub acked: Vec<u32>,
}

/// What one connection appends.
pub struct Appends {
    run: Rc<Run>,
    tally: Rc<RefCell<Tally>>,
    template: Template,
    random: Random,
    /// By slot: the timeline of what is on the way.
    timelines: Vec<u64>,
    sent: u64,
}

impl Appends {
    /// Appends by a [`Template::append`], to timelines chosen at random from those of the tally.
    #[must_use]
    pub fn new(
        run: &Rc<Run>,
        tally: &Rc<RefCell<Tally>>,
        template: Template,
        number: usize,
    ) -> Appends {
        Appends {
            run: Rc::clone(run),
            tally: Rc::clone(tally),
            template,
            random: Random::new(run.seed_of(number as u64)),
            timelines: Vec::new(),
            sent: 0,
        }
    }
}

impl Ask for Appends {
    fn put(&mut self, out: &mut Vec<u8>, slot: usize) {
        let timeline = self.random.below(self.tally.borrow().acked.len() as u64);
        self.template
            .stamp(out, &[SLOT_BASE + slot as u64, timeline, self.sent]);
        self.sent += 1;
        *at_slot(&mut self.timelines, slot) = timeline;
    }

    fn take(&mut self, slot: usize, outcome: Result<&[u8], Refusal>) -> Option<usize> {
        let mut tally = self.tally.borrow_mut();
        match outcome {
            Ok(_) => {
                tally.acked[self.timelines[slot] as usize] += 1;
                return Some(0);
            }
            Err(refusal) if refusal.data.reason == "busy" => tally.busy += 1,
            Err(refusal) => {
                let reason = refusal.data.reason;
                self.run
                    .checks
                    .fault(format_args!("an append was refused: {reason}"));
            }
        }
        None
    }
}
