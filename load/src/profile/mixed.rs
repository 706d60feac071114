//! `mixed`: what a live server has at once. Appends by the clock, subscribers that are cut and resume, polls, pages of
//! history, idle connections; every message checked at every place where it comes out.
//!
//! Owns: the mixture. Promises: at the end each subscriber and each poller has seen each message of its timelines once,
//! in order, up to the last one acknowledged, and each timeline reads back as just that; anything else is a fault. Must
//! not: be taken for the most that a server can do: it runs at the rates that it is given.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::append::Appends;
use super::connect::Connect;
use super::pages;
use super::pages::Reads;
use super::poll;
use super::poll::Polls;
use crate::audience;
use crate::audience::{Account, Member, Writers};
use crate::client::generator::{Flow, count, rate, within};
use crate::client::request::{Ask, Session};
use crate::exit;
use crate::exit::Stop;
use crate::outcome::Samples;
use crate::profile::{Profile, need_files};
use crate::random::Random;
use crate::run::tally::Tally;
use crate::run::{Better, Counts, Gaps, Phase, Run};

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
    #[arg(long, default_value_t = 10.0, value_parser = within(0.0..=1e9))]
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
        let tally = Tally::new(run.prefix("mixed"), self.timelines, 0);
        let (account, living) = self.subscribe(run, &tally).await?;
        let idle = Connect::plain(self.idle);
        idle.come(run, &run.gauge("connections")).await?;
        let tally = Rc::new(RefCell::new(tally));
        let ask = |number| Appends::new(run, &tally, number, SIZE, true);
        let writing = start(run, "ack", self.rate, self.connections, ask).await?;
        let ask = |number| {
            let chosen = self.chosen(run, (1 << 36) + number as u64);
            Polls::new(run, &tally.borrow(), chosen, self.follows)
        };
        let polling = start(run, "poll", self.poll_rate, self.pollers, ask).await?;
        let ask = |number| Reads::new(run, &tally, number, PAGE, true);
        let reading = start(run, "page", self.page_rate, self.readers, ask).await?;
        run.measure().await;
        exit::all(writing).await?;
        let polls = exit::all(polling).await?;
        exit::all(reading).await?;
        let tally = tally.take();
        account.expect(|timeline| tally.acked[timeline].into());
        audience::end(&account, living).await?;
        for mut poll in polls {
            poll.ask.catch_up(&tally).await?;
        }
        tally.read_back(run, SAMPLE).await?;
        for (figure, count) in [
            ("busy", tally.busy),
            ("polls_refused", run.checks.count(poll::REFUSED)),
            ("pages_refused", run.checks.count(pages::REFUSED)),
        ] {
            run.figure(figure, count as f64, "1", Better::Lower);
        }
        run.detail("prefix", tally.prefix);
        tell_growth(run);
        Ok(())
    }
}

impl Mixed {
    /// All subscribers come before the first message. To the end each message comes to each of them once, in order,
    /// over all its connections, up to the last one acknowledged; or it is a fault.
    async fn subscribe(
        &self,
        run: &Rc<Run>,
        tally: &Tally,
    ) -> Result<(Rc<Account>, Vec<JoinHandle<Member>>), Stop> {
        let numbers = 0..self.subscribers as u64;
        let follows = numbers.map(|number| self.chosen(run, (1 << 35) + number));
        let (others, measured) = (Writers::Others, Some(Counts::Ended));
        let (account, members) = Account::new(run, others, measured, SIZE, &tally.prefix, follows);
        let members = audience::open(&account, members).await?;
        // How many messages will come is not known.
        account.expect(|_| u64::MAX);
        run.add("cuts", 0);
        let live = |(number, member): (u64, Member)| {
            let random = Random::new(run.seed_of((1 << 38) + number));
            let mean = self.cut_seconds;
            member.live(async move |member| cut(member, mean, random).await)
        };
        let living = (0..).zip(members).map(live).collect();
        Ok((account, living))
    }

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
) -> Result<Vec<JoinHandle<Session<A>>>, Stop> {
    let flow = Flow::by_clock(connections, rate, Gaps::Exponential);
    let recorder = flow.recorder(run, name);
    let open = Session::each(run, ask);
    flow.start(run, &[recorder], open).await
}

/// A habit: loses its connection after `mean` seconds on average, if not 0, and comes back at once.
async fn cut(member: &mut Member, mean: f64, mut random: Random) -> io::Result<()> {
    if mean == 0.0 {
        return member.attend().await;
    }
    loop {
        let pause = Duration::from_secs_f64(mean * (0.5 + random.unit()));
        if let Ok(lost) = timeout(pause, member.attend()).await {
            return lost;
        }
        let run = &member.account.run;
        run.add("cuts", (run.phase() == Phase::Measuring).into());
        // A reply need not have all that was missed: the rest is pushed.
        member.connect(Some(1 + random.below(200))).await?;
    }
}

/// A shorter run says nothing about growth, s.
const LONG: f64 = 1_800.0;

/// Enters what grew in a long run. That is no leak by itself: memtables, caches and the log's retention grow up to
/// their bounds; a slope that stays after they are reached is the news.
fn tell_growth(run: &Run) {
    let is_long = run.window.length().as_secs_f64() >= LONG;
    for (what, unit, better) in [
        ("server_resident_bytes", "bytes/h", Better::Lower),
        ("server_descriptors", "1/h", Better::Lower),
        ("server_written_bytes", "bytes/h", Better::Neither),
        ("generator_resident_bytes", "bytes/h", Better::Neither),
    ] {
        let samples = run.samples(what).filter(|_| is_long);
        if let Some(slope) = samples.as_ref().and_then(per_hour) {
            run.figure(&format!("{what}_growth"), slope, unit, better);
        }
    }
}

/// How much it grows in an hour: the slope of a straight line (least squares) through the second half of a run, when
/// caches are warm and pools are filled; `None` with fewer than ten samples in the second half.
fn per_hour(samples: &Samples) -> Option<f64> {
    let half = samples.at.last()? / 2.0;
    let from = samples.at.partition_point(|at| *at < half);
    let (at, value) = (&samples.at[from..], &samples.value[from..]);
    let middle = at.iter().sum::<f64>() / at.len() as f64;
    let part = |(at, of): (&f64, &f64)| (at - middle) * of;
    let sum = |of: &[f64]| at.iter().zip(of).map(part).sum::<f64>();
    (at.len() >= 10).then(|| sum(value) / sum(at) * 3_600.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slope_of_the_second_half() {
        let at: Vec<f64> = (0..40).map(f64::from).collect();
        // Rises steeply at first, then 2 a second.
        let value = at.iter().map(|at| {
            if *at < 15.0 {
                at * 100.0
            } else {
                1_000.0 + at * 2.0
            }
        });
        let samples = Samples {
            value: value.collect(),
            at,
        };
        let slope = per_hour(&samples).expect("enough samples");
        assert!((slope - 7_200.0).abs() < 1e-6, "{slope}");
        let few = Samples {
            at: vec![0.0, 1.0],
            value: vec![0.0, 1.0],
        };
        assert_eq!(per_hour(&few), None);
    }
}
