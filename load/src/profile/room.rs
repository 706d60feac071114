//! `room` and `chat`: members on one thread write, and all followers get it. How many messages a second reach
//! everybody, and how long does each take?
//!
//! Owns: which follower has which timelines, and which member appends to which timeline when. Promises: every follower
//! of a timeline gets each of its messages once and in order, or it is a fault; by the clock, latency counts from the
//! scheduled time, and nothing waits for answers; in the closed loop at most `--in-flight` messages have not reached
//! everybody; the same seed makes the same groups. Must not: use more than one thread, so that the server keeps the
//! machine.

use std::rc::Rc;
use std::time::Duration;

use rand_distr::Zipf;
use serde::Serialize;
use tokio::time::{Instant, sleep};

use crate::audience;
use crate::audience::{Account, Member, Writers};
use crate::client::generator::{count, rate};
use crate::exit::Stop;
use crate::profile::{Profile, need_files};
use crate::random::Random;
use crate::run::{Better, Counts, Gaps, Phase, Run};

/// Phases change by themselves: nothing is waited for longer.
const GLANCE: Duration = Duration::from_millis(1);

/// Arguments of `room`: one timeline, or many that all follow, each subscriber on one connection.
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

/// Parts of the seed.
const GROUPS: u64 = 1;
const CHOICES: u64 = 2;
const GAPS: u64 = 3;

/// Arguments of `chat`: conversations of two and groups, each read and written by all of its members.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Chat {
    /// Users, each one connection
    #[arg(long, default_value_t = 200)]
    users: u64,
    /// Conversations
    #[arg(long, default_value_t = 1_000, value_parser = count::<u64>)]
    timelines: u64,
    /// Members of a timeline, all of them readers and writers: `2..50` = from 2 to 50, small ones more often, `2..` =
    /// up to all users, `10` = all alike
    #[arg(long, default_value = "2..50")]
    members: String,
    /// How unevenly messages go to timelines (exponent of Zipf's law; 0 = evenly)
    #[arg(long, default_value_t = 1.0)]
    skew: f64,
    /// Messages a second over all users
    #[arg(long, default_value_t = 1_000.0, value_parser = rate)]
    rate: f64,
    /// Bytes of text in each entry, {"text": …}
    #[arg(long, default_value_t = 200)]
    size: usize,
}

impl Profile for Chat {
    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        let sizes = sizes(&self.members, self.users);
        let sizes = sizes.ok_or_else(|| Stop::Usage("--members is no range of users".into()))?;
        let zipf = Zipf::new(self.timelines as f64, self.skew);
        let zipf = zipf.map_err(|odd| Stop::Usage(format!("--skew: {odd}")))?;
        need_files(run, self.users)?;
        let groups = groups(self.users, self.timelines, sizes, run.seed_of(GROUPS));
        let mut follows = vec![Vec::new(); self.users as usize];
        for (timeline, group) in (0..).zip(&groups) {
            let mut follow = |user: &u64| follows[*user as usize].push(timeline);
            group.iter().for_each(&mut follow);
        }
        let prefix = run.prefix("chat");
        let (many, measured) = (Writers::Many, Some(Counts::Scheduled));
        let (account, members) = Account::new(run, many, measured, self.size, &prefix, follows);
        let members = audience::open(&account, members).await?.into_iter();
        let living = members.map(|member| member.live(Member::attend)).collect();
        let mut random = Random::new(run.seed_of(CHOICES));
        let pace = run.pace(self.rate, Gaps::Exponential, GAPS);
        let sending = audience::by_the_clock(&account, pace, |scheduled| {
            let timeline = random.draw(&zipf) as usize - 1;
            let group = &groups[timeline];
            let user = group[random.below(group.len() as u64) as usize];
            account.put(user as usize, timeline, scheduled);
        });
        tokio::join!(sending, run.measure());
        audience::end(&account, living).await?;
        let counts = &account.counts;
        let busy = counts.answered.get() - counts.acked.get();
        run.figure("busy", busy as f64, "1", Better::Lower);
        Ok(())
    }
}

/// Reads `2..50`, `2..` (up to all users), or `10` (all alike): the smallest and the largest group.
fn sizes(text: &str, users: u64) -> Option<(u64, u64)> {
    let (least, most) = text.split_once("..").unwrap_or((text, text));
    let least = least.parse().ok()?;
    let all = most.is_empty().then_some(users);
    let most = all.or_else(|| most.parse().ok())?;
    (0 < least && least <= most.min(users)).then_some((least, most.min(users)))
}

/// The members of each timeline, as numbers of users. There are as many more small groups than large ones as their
/// sizes differ (uniform in the logarithm): many conversations of two, and few large rooms.
fn groups(users: u64, timelines: u64, (least, most): (u64, u64), seed: u64) -> Vec<Vec<u64>> {
    let mut random = Random::new(seed);
    let span = (most + 1) as f64 / least as f64;
    let group = |_| {
        let size = least as f64 * span.powf(random.unit());
        random.some((size as u64).clamp(least, most), users)
    };
    (0..timelines).map(group).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn sizes_are_read() {
        for (text, read) in [
            ("2..50", (2, 50)),
            ("2..", (2, 60)),
            ("7", (7, 7)),
            ("7..99", (7, 60)),
        ] {
            assert_eq!(sizes(text, 60), Some(read), "{text}");
        }
        for odd in ["", "0..5", "5..2", "a..b", "..3", "-1", "61"] {
            assert!(sizes(odd, 60).is_none(), "{odd}");
        }
    }

    #[test]
    fn groups_are_within_their_sizes_and_small_ones_are_many() {
        let made = groups(100, 2_000, (2, 40), 3);
        assert_eq!(made, groups(100, 2_000, (2, 40), 3));
        for group in &made {
            assert!((2..=40).contains(&group.len()));
            assert!(group.iter().all(|user| *user < 100));
            assert_eq!(group.iter().collect::<HashSet<_>>().len(), group.len());
        }
        let of = |from, to| {
            let fits = |group: &&Vec<u64>| (from..to).contains(&group.len());
            made.iter().filter(fits).count()
        };
        assert!(of(2, 3) > 200 && of(2, 3) > of(20, 22), "{}", of(2, 3));
        assert!(of(30, 41) > 50, "{}", of(30, 41));
        let everybody = groups(5, 3, (5, 5), 1);
        assert!(everybody.iter().all(|group| group.len() == 5));
    }
}
