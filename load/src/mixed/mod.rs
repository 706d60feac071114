//! `mixed`: what a live server has at once. Appends by the clock, subscribers that are cut and resume, polls, pages of
//! history, idle connections; every message checked at every place where it comes out.
//!
//! Owns: the mixture. Promises: at the end each subscriber and each poller has seen each message of its timelines once,
//! in order, up to the last one acknowledged, and each timeline reads back as just that; anything else is a fault. Must
//! not: be taken for the most that a server can do: it runs at the rates that it is given.

mod subscribers;
mod trend;

use std::cell::RefCell;
use std::rc::Rc;

use serde::Serialize;

use self::subscribers::Subscribers;
use crate::append::Appends;
use crate::connect::Idle;
use crate::exit::Stop;
use crate::generator::{Flow, Running, count, rate};
use crate::outcome::Better;
use crate::pace::Gaps;
use crate::pages::Reads;
use crate::poll::Polls;
use crate::profile::{Profile, need_files};
use crate::random::Random;
use crate::request::{Ask, Session};
use crate::run::Run;
use crate::tally::Tally;

/// Arguments of `mixed`.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Mixed {
    /// Appends a second over all writers
    #[arg(long, default_value_t = 2_000.0, value_parser = rate)]
    rate: f64,
    /// Connections that write
    #[arg(long, default_value_t = 20, value_parser = count::<usize>)]
    connections: usize,
    /// Timelines, chosen at random for each message
    #[arg(long, default_value_t = 1_000, value_parser = count::<u64>)]
    timelines: u64,
    /// Connections that subscribe
    #[arg(long, default_value_t = 100)]
    subscribers: usize,
    /// Timelines that each subscriber and each poller follows
    #[arg(long, default_value_t = 20, value_parser = count::<u64>)]
    follows: u64,
    /// Mean seconds until a subscriber's connection is cut; it resumes at once (0 = never)
    #[arg(long, default_value_t = 10.0)]
    cut_seconds: f64,
    /// Connections that poll with sync
    #[arg(long, default_value_t = 10)]
    pollers: usize,
    /// Polls a second over all pollers
    #[arg(long, default_value_t = 100.0, value_parser = rate)]
    poll_rate: f64,
    /// Connections that read history
    #[arg(long, default_value_t = 5)]
    readers: usize,
    /// Pages a second over all readers
    #[arg(long, default_value_t = 50.0, value_parser = rate)]
    page_rate: f64,
    /// Connections that do nothing
    #[arg(long, default_value_t = 100)]
    idle: usize,
}

/// Messages in a page.
const PAGE: u64 = 50;
/// Bytes of text in each entry.
const SIZE: usize = 200;
/// So many timelines are read back at the end.
const SAMPLE: usize = 200;

impl Profile for Mixed {
    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        if self.follows > self.timelines.min(1_000) {
            let what = "more to follow than timelines or subscriptions of a connection";
            return Err(Stop::Usage(what.into()));
        }
        let connections =
            self.connections + self.subscribers + self.pollers + self.readers + self.idle;
        need_files(run, connections as u64)?;
        let tally = Tally::new(run.prefix(None, "mixed"), self.timelines, 0);
        let names = (0..self.timelines).map(|number| tally.name(number));
        let follows =
            (0..self.subscribers).map(|number| self.chosen(run, (1 << 35) + number as u64));
        let subscribers = Subscribers::open(run, self, names, follows).await?;
        let idle = Idle::default();
        idle.open(run, self.idle, 0).await?;
        let tally = Rc::new(RefCell::new(tally));
        let ask = |number| Appends::new(run, &tally, number, SIZE, true);
        let writing = start(run, "ack", self.rate, self.connections, ask).await?;
        let ask = |number| {
            let chosen = self.chosen(run, (1 << 36) + number as u64);
            Polls::new(run, &tally.borrow(), chosen, self.follows, false)
        };
        let polling = start(run, "poll", self.poll_rate, self.pollers, ask).await?;
        let ask = |number| Reads::new(run, &tally, number, PAGE, true);
        let reading = start(run, "page", self.page_rate, self.readers, ask).await?;
        run.measure().await;
        writing.end().await?;
        let polls = polling.end().await?;
        reading.end().await?;
        let tally = tally.take();
        subscribers.end(&tally.acked).await?;
        idle.check(run, self.idle);
        for mut poll in polls {
            poll.ask.catch_up(&tally).await?;
        }
        tally.read_back(run, &tally.sample(run, SAMPLE)).await?;
        run.figure("busy", tally.busy as f64, "1", Better::Lower);
        run.detail("prefix", tally.prefix);
        trend::tell(run);
        Ok(())
    }
}

impl Mixed {
    /// Some of the timelines, all different, the same for the same seed.
    fn chosen(&self, run: &Run, part: u64) -> Vec<u64> {
        Random::new(run.seed_of(part)).some(self.follows, self.timelines)
    }
}

/// Connections that ask by the clock.
async fn start<A: Ask>(
    run: &Rc<Run>,
    name: &str,
    rate: f64,
    connections: usize,
    ask: impl Fn(usize) -> A,
) -> Result<Running<Session<A>>, Stop> {
    let flow = Flow {
        connections,
        in_flight: 1,
        rate: Some(rate),
        gaps: Gaps::Exponential,
    };
    let recorder = flow.recorder(run, name);
    let open = Session::each(run, ask);
    flow.start(run, &[recorder], open).await
}
