//! `mixed`: what a live server has at once. Appends by the clock, subscribers that are cut and resume, polls, pages of
//! history, idle connections; every message checked at every place where it comes out.
//!
//! Owns: the mixture. Promises: at the end each subscriber and each poller has seen each message of its timelines once,
//! in order, up to the last one acknowledged, and each timeline reads back as just that; anything else is a fault. Must
//! not: be taken for the most that a server can do: it runs at the rates that it is given.

mod audience;
mod following;
mod polls;
mod trend;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use serde::Serialize;
use tokio::task::spawn_local;

use self::audience::Audience;
use self::following::Shared;
use self::polls::Polls;
use crate::append::{Appends, Tally, read_back};
use crate::exit::Stop;
use crate::generator::{Generator, OPEN_MAX, Running};
use crate::outcome::Better;
use crate::pace::Gaps;
use crate::pages::{Choice, Reads};
use crate::profile::{Profile, need_files};
use crate::random::Random;
use crate::recorder::Counts;
use crate::request::{Ask, Session};
use crate::rpc::Client;
use crate::run::Run;
use crate::setup::Setup;
use crate::template::{MessageIds, Template, timeline_name};

/// Arguments of `mixed`.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Mixed {
    /// What every profile has.
    #[command(flatten)]
    #[serde(flatten)]
    pub setup: Setup,
    /// Appends a second over all writers
    #[arg(long, default_value_t = 2_000.0)]
    pub rate: f64,
    /// Connections that write
    #[arg(long, default_value_t = 20)]
    pub connections: usize,
    /// Timelines, chosen at random for each message
    #[arg(long, default_value_t = 1_000)]
    pub timelines: u64,
    /// Bytes of text in each entry
    #[arg(long, default_value_t = 200)]
    pub size: usize,
    /// Connections that subscribe
    #[arg(long, default_value_t = 100)]
    pub subscribers: usize,
    /// Timelines that each subscriber and each poller follows
    #[arg(long, default_value_t = 20)]
    pub follows: u64,
    /// Mean seconds until a subscriber's connection is cut; it resumes at once (0 = never)
    #[arg(long, default_value_t = 10.0)]
    pub cut_seconds: f64,
    /// Connections that poll with sync
    #[arg(long, default_value_t = 10)]
    pub pollers: usize,
    /// Polls a second over all pollers
    #[arg(long, default_value_t = 100.0)]
    pub poll_rate: f64,
    /// Connections that read history
    #[arg(long, default_value_t = 5)]
    pub readers: usize,
    /// Pages a second over all readers
    #[arg(long, default_value_t = 50.0)]
    pub page_rate: f64,
    /// Messages in a page
    #[arg(long, default_value_t = 50)]
    pub page: u64,
    /// Connections that do nothing
    #[arg(long, default_value_t = 100)]
    pub idle: usize,
    /// How appends, polls and pages follow one another
    #[arg(long, value_enum, default_value_t = Gaps::Exponential)]
    pub gaps: Gaps,
    /// How many timelines to read back at the end
    #[arg(long, default_value_t = 200)]
    pub sample: usize,
}

impl Profile for Mixed {
    const NAME: &'static str = "mixed";

    fn setup(&self) -> &Setup {
        &self.setup
    }

    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        self.check()?;
        let connections =
            self.connections + self.subscribers + self.pollers + self.readers + self.idle;
        need_files(run, connections as u64)?;
        let prefix = run.prefix(None, "mixed");
        let names = (0..self.timelines).map(|number| timeline_name(&prefix, number));
        // Without patience: a connection that is lost is a fault.
        let shared = Shared::new(run.url.clone(), names, Duration::ZERO);
        let tally = Rc::new(RefCell::new(Tally {
            busy: 0,
            acked: vec![0; shared.timelines.len()],
        }));
        let audience = Audience::new(run, &shared);
        let seat = |number: usize| {
            let chosen = self.chosen(run, (1 << 35) + number as u64);
            audience.seat(number, chosen, self.cut_seconds)
        };
        let listening: Vec<_> = (0..self.subscribers).map(seat).collect();
        let subscriptions = self.subscribers * self.follows as usize;
        audience.all_live(subscriptions).await?;
        let idle = self.idle(run).await?;
        let writing = self.writers(run, &prefix, &tally).await?;
        let polling = self.start(run, "poll", self.poll_rate, self.pollers, |number| {
            let chosen = self.chosen(run, (1 << 36) + number as u64);
            Polls::new(run, &shared.timelines, chosen)
        });
        let polling = polling.await?;
        let reading = self.readers(run, &prefix, &tally).await?;
        run.measure().await;
        writing.end().await?;
        let polls = polling.end().await?;
        reading.end().await?;
        let Tally { busy, acked } = tally.take();
        let acked: Vec<u64> = acked.into_iter().map(u64::from).collect();
        for (progress, acked) in shared.progress.iter().zip(&acked) {
            progress.store(*acked, Ordering::Relaxed);
        }
        shared.written.store(true, Ordering::Release);
        for ended in join_all(listening).await {
            ended.map_err(|error| Stop::Own(format!("a subscriber failed: {error}")))?;
        }
        run.checks.made("idle connections held", self.idle as u64);
        if idle.get() < self.idle {
            let lost = self.idle - idle.get();
            let what = format_args!("{lost} idle connections were closed");
            run.checks.fault(what);
        }
        for poll in polls {
            poll.ask.catch_up(&acked).await?;
        }
        let mut random = Random::new(run.seed_of(1 << 37));
        let sample = (0..self.sample).map(|_| random.below(self.timelines));
        let expected = sample.map(|number| (number, acked[number as usize]));
        read_back(run, &prefix, expected).await?;
        audience.tell();
        run.figure("busy", busy as f64, "1", Better::Lower);
        run.detail("prefix", prefix);
        trend::tell(run);
        Ok(())
    }
}

impl Mixed {
    fn check(&self) -> Result<(), Stop> {
        let rates = [self.rate, self.poll_rate, self.page_rate];
        if rates.iter().any(|rate| !rate.is_finite() || *rate <= 0.0) || self.cut_seconds < 0.0 {
            return Err(Stop::Usage("a rate that is not above 0".into()));
        }
        let counts = [self.timelines, self.connections as u64, self.page];
        if counts.contains(&0) || self.follows > self.timelines.min(1_000) {
            return Err(Stop::Usage(
                "a count of 0, or more to follow than timelines or subscriptions of a connection"
                    .into(),
            ));
        }
        Ok(())
    }

    /// Some of the timelines, all different, the same for the same seed.
    fn chosen(&self, run: &Run, part: u64) -> Vec<u64> {
        let mut random = Random::new(run.seed_of(part));
        random.some(self.follows, self.timelines)
    }

    async fn start<A: Ask + 'static>(
        &self,
        run: &Rc<Run>,
        name: &str,
        rate: f64,
        connections: usize,
        ask: impl Fn(usize) -> A,
    ) -> Result<Running<Session<A>>, Stop> {
        let generator = Generator {
            run: Rc::clone(run),
            recorders: vec![run.recorder(name, Counts::Scheduled)],
            in_flight: OPEN_MAX,
            rate: Some(rate),
            gaps: self.gaps,
            most: None,
            part: name.bytes().map(u64::from).sum(),
        };
        let open = async |number: usize| Session::open(run, ask(number)).await;
        generator.start(connections, open).await
    }

    async fn writers(
        &self,
        run: &Rc<Run>,
        prefix: &str,
        tally: &Rc<RefCell<Tally>>,
    ) -> Result<Running<Session<Appends>>, Stop> {
        let talk = |number: usize| {
            let ids = format!("{}-{number}-", run.tag);
            let template = Template::append(prefix, &ids, self.size, MessageIds::All, run.seed);
            Appends::new(run, tally, template, number)
        };
        self.start(run, "ack", self.rate, self.connections, talk)
            .await
    }

    async fn readers(
        &self,
        run: &Rc<Run>,
        prefix: &str,
        tally: &Rc<RefCell<Tally>>,
    ) -> Result<Running<Session<impl Ask + 'static + use<>>>, Stop> {
        let timelines = self.timelines;
        let talk = |number: usize| {
            let tally = Rc::clone(tally);
            let length = move |timeline: u64| u64::from(tally.borrow().acked[timeline as usize]);
            let choice = Choice {
                timelines,
                length,
                grows: true,
            };
            Reads::new(run, prefix, self.page, number as u64, choice)
        };
        self.start(run, "page", self.page_rate, self.readers, talk)
            .await
    }

    /// Opens connections that only answer pings. Returns how many live.
    async fn idle(&self, run: &Rc<Run>) -> Result<Rc<Cell<usize>>, Stop> {
        let live = Rc::new(Cell::new(0));
        for number in 0..self.idle {
            let opened = Client::open(&run.url).await;
            let mut client = opened
                .map_err(|error| Stop::Unreachable(format!("idle connection {number}: {error}")))?;
            live.set(live.get() + 1);
            let live = Rc::clone(&live);
            spawn_local(async move {
                while client.receive().await.is_ok() {}
                live.set(live.get() - 1);
            });
        }
        Ok(live)
    }
}
