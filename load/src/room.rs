//! `room`: one timeline, many subscribers: how many messages a second reach everybody, and how long each takes. Or
//! many timelines, which all of them follow, each on one connection.
//!
//! Owns: when the publisher sends. Promises: every subscriber got every message once and in order, or it is a fault; in
//! the closed loop at most `--in-flight` messages have not reached everybody. Must not: use more than one thread, so
//! that the server keeps the machine.

use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;
use tokio::time::{Instant, sleep};

use crate::audience::{self, Account, Member, Writers};
use crate::exit::Stop;
use crate::generator::{count, rate};
use crate::profile::{Profile, need_files};
use crate::run::{Better, Counts, Gaps, Phase, Run};

/// Phases change by themselves: nothing is waited for longer.
const GLANCE: Duration = Duration::from_millis(1);

/// Arguments of `room`.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Room {
    /// Subscribers, each on a connection of its own
    #[arg(long, default_value_t = 1_000, value_parser = count::<u64>)]
    subscribers: u64,
    /// Timelines that each of them follows; messages go to them in turn
    #[arg(long, default_value_t = 1, value_parser = count::<u64>)]
    timelines: u64,
    /// Closed loop: so many messages may not have reached everybody yet
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    in_flight: u64,
    /// Open loop instead: so many messages a second; latency then counts from the scheduled time
    #[arg(long, conflicts_with = "in_flight", value_parser = rate)]
    rate: Option<f64>,
    /// Bytes of text in each entry, {"text": …}
    #[arg(long, default_value_t = 200)]
    size: usize,
}

impl Profile for Room {
    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        need_files(run, self.subscribers)?;
        let prefix = run.prefix("room");
        run.detail("prefix", &prefix);
        let measured = Some(self.rate.map_or(Counts::Ended, |_| Counts::Scheduled));
        // The first member publishes.
        let mut follows = vec![Vec::from_iter(0..self.timelines); self.subscribers as usize + 1];
        follows[0].clear();
        let (one, size) = (Writers::One, self.size);
        let (account, members) = Account::new(run, one, measured, size, &prefix, follows);
        let members = audience::open(&account, members).await?.into_iter();
        let living = members.map(|member| member.live(Member::attend)).collect();
        tokio::join!(self.publish(&account), run.measure());
        let deliveries = audience::end(&account, living).await?;
        run.rate("messages_per_second", deliveries / self.subscribers);
        if let Some(used) = run.value("server_cpu_seconds") {
            let each = used * 1e9 / (deliveries as f64).max(1.0);
            run.figure("server_cpu_per_delivery", each, "ns", Better::Lower);
        }
        run.checks.made("messages sent", account.sent());
        Ok(())
    }
}

impl Room {
    /// Publishes until the run ends.
    async fn publish(&self, account: &Account) {
        let run = &account.run;
        let put = |at| {
            let timeline = account.sent() % self.timelines;
            account.put(0, timeline as usize, at);
        };
        if let Some(rate) = self.rate {
            return audience::by_the_clock(account, run.pace(rate, Gaps::Fixed, 0), put).await;
        }
        while run.phase() != Phase::Ending && run.checks.faults() == 0 {
            let on_way = account.sent() - account.counts.reached.get();
            let now = Instant::now();
            (on_way..self.in_flight).for_each(|_| put(now));
            tokio::select! {
                () = account.news.notified() => {}
                () = sleep(GLANCE) => {}
            }
        }
        run.end_early();
    }
}
