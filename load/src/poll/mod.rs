//! `poll`: asking for many timelines at once, over and over, mostly for nothing new: what a client without pushes does.
//!
//! Owns: the measurement: a closed loop of ready-made `sync` requests. Promises: an empty reply is compared byte by
//! byte, any other is parsed and must hold just the news that was due. Must not: write while it measures: news are
//! asked for by standing one message back.

mod question;

use std::cell::Cell;
use std::rc::Rc;

use serde::Serialize;
use serde_json::json;
use tokio::task::spawn_local;
use tokio::time::Instant;

use self::question::{Answer, Questions, SLOTS_MAX, read_answer};
use crate::append::timeline_name;
use crate::exit::Stop;
use crate::frame::Lean;
use crate::outcome::Better;
use crate::profile::{Profile, need_files};
use crate::random::Random;
use crate::recorder::{Counts, Recorder};
use crate::rpc::{Appended, CallError, Client, Incoming, read};
use crate::run::{Phase, Run};
use crate::setup::Setup;

/// Arguments of `poll`.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Poll {
    /// What every profile has.
    #[command(flatten)]
    #[serde(flatten)]
    pub setup: Setup,
    /// Connections
    #[arg(long, default_value_t = 1)]
    pub connections: usize,
    /// Polls on the way per connection
    #[arg(long, default_value_t = 16)]
    pub in_flight: usize,
    /// Timelines, made first with one message each
    #[arg(long, default_value_t = 10_000)]
    pub timelines: u64,
    /// Timelines in one poll
    #[arg(long, default_value_t = 100)]
    pub positions: u64,
    /// Name the epoch with each position, as a client does that keeps one
    #[arg(long)]
    pub epochs: bool,
    /// Share of the polls that find one message, 0 to 1
    #[arg(long, default_value_t = 0.0)]
    pub share_with_news: f64,
}

/// A timeline as it stands.
struct Standing {
    name: String,
    head: u64,
    epoch: String,
}

impl Profile for Poll {
    const NAME: &'static str = "poll";

    fn setup(&self) -> &Setup {
        &self.setup
    }

    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        self.check()?;
        need_files(run, self.connections as u64)?;
        let unreachable = |error: CallError| Stop::Unreachable(error.to_string());
        run.tell("making timelines");
        let timelines = self.make(run).await.map_err(unreachable)?;
        let questions = Questions::new(&timelines, self.positions as usize, self.epochs);
        let shared = Rc::new(Shared {
            questions: questions.map_err(unreachable)?,
            latency: run.recorder("poll", Counts::Ended),
            with_news: Cell::new(0),
            empty: Cell::new(0),
            news: self.share_with_news,
        });
        let mut lanes = Vec::new();
        for number in 0..self.connections {
            let lost = |error| Stop::Unreachable(format!("connection {number}: {error}"));
            let lane = Lane {
                socket: Lean::open(&run.url).await.map_err(lost)?,
                random: Random::new(run.seed_of(number as u64 + 1)),
                slots: vec![None; self.in_flight],
                shared: Rc::clone(&shared),
                run: Rc::clone(run),
            };
            lanes.push(spawn_local(lane.work(number)));
        }
        run.measure().await;
        for lane in lanes {
            let failed = |error| Stop::Own(format!("a connection failed: {error}"));
            lane.await.map_err(failed)?;
        }
        self.tell(run, &shared);
        Ok(())
    }
}

impl Poll {
    fn check(&self) -> Result<(), Stop> {
        let counts = [self.connections, self.in_flight];
        if counts.contains(&0) || self.in_flight > SLOTS_MAX {
            return Err(Stop::Usage(format!(
                "a count of 0, or more than {SLOTS_MAX} in flight"
            )));
        }
        if self.positions == 0 || self.positions > self.timelines {
            return Err(Stop::Usage(
                "as many positions as timelines at most, and one at least".into(),
            ));
        }
        if !(0.0..=1.0).contains(&self.share_with_news) {
            return Err(Stop::Usage("a share is between 0 and 1".into()));
        }
        Ok(())
    }

    /// Timelines of this run's own, with one message each.
    async fn make(&self, run: &Run) -> Result<Vec<Standing>, CallError> {
        let prefix = format!("poll-{}/", run.tag);
        let names = (0..self.timelines).map(|number| timeline_name(&prefix, number));
        let mut made: Vec<Standing> = names
            .map(|name| Standing {
                name,
                head: 0,
                epoch: String::new(),
            })
            .collect();
        let mut client = Client::open(&run.url).await?;
        for wave in made.chunks_mut(100) {
            let mut first = None;
            for one in wave.iter() {
                let params = json!({ "timeline": one.name, "entry": { "text": "first" } });
                let id = client.send("message.append", params)?;
                first.get_or_insert(id);
            }
            for _ in 0..wave.len() {
                let Incoming::Reply(id, outcome) = client.receive().await? else {
                    return Err(CallError::Lost("a push for who asked for none".into()));
                };
                let appended: Appended = read(&outcome.map_err(CallError::Refused)?)?;
                let at = id.wrapping_sub(first.unwrap_or(id)) as usize;
                let one = wave.get_mut(at);
                let one = one.ok_or_else(|| CallError::Lost(format!("a reply to {id}")))?;
                (one.head, one.epoch) = (appended.sequence, appended.epoch);
            }
        }
        Ok(made)
    }

    fn tell(&self, run: &Run, shared: &Shared) {
        let polls = shared.latency.count() as f64;
        let seconds = run.window().length().as_secs_f64().max(0.001);
        run.figure("polls_per_second", polls / seconds, "1/s", Better::Higher);
        if let Some(used) = run.value("server_cpu_seconds") {
            // The clock of processor time ticks every 10 ms.
            let per = polls / used.max(0.01);
            run.figure("polls_per_server_cpu_second", per, "1/s", Better::Higher);
        }
        let (empty, with_news) = (shared.empty.get(), shared.with_news.get());
        let share = empty as f64 * 100.0 / (empty + with_news).max(1) as f64;
        run.figure("share_empty", share, "%", Better::Neither);
        run.checks.made("empty replies compared", empty);
        run.checks.made("replies with news parsed", with_news);
    }
}

/// What all connections share.
struct Shared {
    questions: Questions,
    latency: Rc<Recorder>,
    with_news: Cell<u64>,
    empty: Cell<u64>,
    /// Share of the polls that find something.
    news: f64,
}

/// A poll on the way.
#[derive(Clone, Copy)]
struct Asked {
    at: Instant,
    group: usize,
    news: bool,
}

/// One connection.
struct Lane {
    socket: Lean,
    random: Random,
    slots: Vec<Option<Asked>>,
    shared: Rc<Shared>,
    run: Rc<Run>,
}

impl Lane {
    async fn work(mut self, number: usize) {
        if let Err(error) = self.poll().await {
            self.run
                .checks
                .fault(format_args!("connection {number}: {error}"));
            // The figure would be of fewer connections than asked for: end it.
            self.run.end_early();
        }
    }

    async fn poll(&mut self) -> std::io::Result<()> {
        let mut out = Vec::new();
        let mut free: Vec<usize> = (0..self.slots.len()).collect();
        loop {
            if self.run.phase() != Phase::Ending {
                let at = Instant::now();
                for slot in free.drain(..) {
                    let asked = self.choose(at);
                    let questions = &self.shared.questions;
                    questions.stamp(&mut out, slot, asked.group, asked.news);
                    self.slots[slot] = Some(asked);
                }
                self.socket.write(&out).await?;
                out.clear();
            } else if free.len() == self.slots.len() {
                return Ok(());
            }
            let Lane {
                socket,
                slots,
                shared,
                run,
                ..
            } = self;
            let mut now = None;
            let take = |text: &[u8]| {
                let now = *now.get_or_insert_with(Instant::now);
                match take(text, now, slots, shared) {
                    Ok(slot) => free.push(slot),
                    Err(fault) => run.checks.fault(fault),
                }
            };
            socket.read(take).await?;
            if self.run.checks.faults() > 0 {
                return Err(std::io::Error::other("ended after a fault"));
            }
        }
    }

    fn choose(&mut self, at: Instant) -> Asked {
        let groups = self.shared.questions.groups() as u64;
        let share = (self.shared.news * 1e6) as u64;
        Asked {
            at,
            group: self.random.below(groups) as usize,
            news: self.random.below(1_000_000) < share,
        }
    }
}

/// Takes an answer; the slot is then free.
fn take(
    text: &[u8],
    now: Instant,
    slots: &mut [Option<Asked>],
    shared: &Shared,
) -> Result<usize, String> {
    let (slot, answer) = read_answer(text)?;
    let asked = slots.get_mut(slot).and_then(Option::take);
    let asked = asked.ok_or_else(|| format!("an answer to {slot}, which is not on the way"))?;
    let counter = match (asked.news, answer) {
        (false, Answer::Empty) => &shared.empty,
        (true, Answer::Empty) => return Err("news were due, and the reply is empty".to_owned()),
        (news, Answer::Full(found)) => {
            shared.questions.compare(&found, asked.group, news)?;
            &shared.with_news
        }
    };
    counter.set(counter.get() + 1);
    shared.latency.record(asked.at, now);
    Ok(slot)
}
