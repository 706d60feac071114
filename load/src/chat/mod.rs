//! `chat`: users in conversations of two and in groups, each timeline read by all of its members.
//!
//! Owns: the schedule: which member appends to which timeline when. Promises: messages go out by the clock (open loop)
//! and latency counts from the scheduled time to each reader; every member of a timeline gets each of its messages
//! once, in order, without gap, or it is a fault. Must not: wait for answers.

mod plan;

use std::rc::Rc;

use serde::Serialize;
use tokio::task::spawn_local;

use crate::exit::Stop;
use crate::follower::Follower;
use crate::ledger::{Desk, Intake, Ledger, Numbering, by_the_clock};
use crate::outcome::Better;
use crate::pace::Gaps;
use crate::profile::{Profile, need_files};
use crate::random::Random;
use crate::recorder::Counts;
use crate::run::Run;
use crate::setup::Setup;
use crate::zipf::Zipf;
pub use plan::Sizes;

/// Of so many pushes one is compared whole.
const SAMPLE: u64 = 64;
/// Parts of the seed.
const GROUPS: u64 = 1;
const CHOICES: u64 = 2;
const GAPS: u64 = 3;

/// Arguments of `chat`.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Chat {
    /// What every profile has.
    #[command(flatten)]
    #[serde(flatten)]
    pub setup: Setup,
    /// Users, each one connection
    #[arg(long, default_value_t = 200)]
    pub users: usize,
    /// Conversations
    #[arg(long, default_value_t = 1_000)]
    pub timelines: usize,
    /// Members of a timeline, all of them readers and writers: `2..50` = from 2 to 50, small ones more often, `2..` =
    /// up to all users, `10` = all alike
    #[arg(long, default_value = "2..50")]
    pub members: Sizes,
    /// How unevenly messages go to timelines (exponent of Zipf's law; 0 = evenly)
    #[arg(long, default_value_t = 1.0)]
    pub skew: f64,
    /// Messages a second over all users
    #[arg(long, default_value_t = 1_000.0)]
    pub rate: f64,
    /// How messages follow one another
    #[arg(long, value_enum, default_value_t = Gaps::Exponential)]
    pub gaps: Gaps,
    /// Bytes of text in each entry, {"text": …}
    #[arg(long, default_value_t = 200)]
    pub size: usize,
}

impl Profile for Chat {
    const NAME: &'static str = "chat";

    fn setup(&self) -> &Setup {
        &self.setup
    }

    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        self.check()?;
        need_files(run, self.users as u64)?;
        let seed = run.seed_of(GROUPS);
        let groups = plan::groups(self.users, self.timelines, self.members, seed);
        let prefix = run.prefix(None, "chat");
        let members = groups.iter().map(|group| group.len() as u64);
        let timelines = members
            .zip(0..)
            .map(|(count, at)| (format!("{prefix}{at}"), count));
        let ledger = Ledger::new(run, timelines, Numbering::ById, 1, self.size);
        let (acks, delivery) = (
            run.recorder("ack", Counts::Scheduled),
            run.recorder("delivery", Counts::Scheduled),
        );
        let intake = Intake::new(&ledger, 0, run.window(), SAMPLE)
            .acking(Rc::clone(&acks))
            .timing(Rc::clone(&delivery));
        let intake = Rc::new(intake);
        let users = self.open(run, &intake, &groups).await?;
        let desks: Vec<Rc<Desk>> = users.iter().map(|_| Rc::default()).collect();
        let serve = |(user, desk): (Follower, &Rc<Desk>)| {
            spawn_local(Rc::clone(desk).serve(user, Rc::clone(&intake), Rc::clone(run)))
        };
        let tasks: Vec<_> = users.into_iter().zip(&desks).map(serve).collect();
        let zipf = Zipf::new(self.timelines, self.skew);
        let mut random = Random::new(run.seed_of(CHOICES));
        let pace = run.pace(self.rate, self.gaps, GAPS);
        let sending = by_the_clock(run, &ledger, pace, |scheduled| {
            let timeline = zipf.draw(&mut random);
            let group = &groups[timeline];
            let member = group[random.below(group.len() as u64) as usize];
            desks[member].put(&ledger, timeline, scheduled);
        });
        tokio::join!(sending, run.measure());
        ledger.settled(&run.checks).await;
        tasks.iter().for_each(tokio::task::JoinHandle::abort);
        let counts = intake.counts();
        ledger.close(&run.checks, &counts);
        let subscriptions: usize = groups.iter().map(Vec::len).sum();
        run.detail("subscriptions", subscriptions);
        run.rate("appends_per_second", acks.count());
        run.rate("deliveries_per_second", delivery.count());
        let figure = |name, value, better| run.figure(name, value, "1", better);
        let fan_out = counts.deliveries as f64 / ledger.acked().max(1) as f64;
        figure("fan_out", fan_out, Better::Neither);
        figure("messages_per_push", counts.together(), Better::Neither);
        figure("busy", ledger.busy() as f64, Better::Lower);
        Ok(())
    }
}

impl Chat {
    fn check(&self) -> Result<(), Stop> {
        let positive = |value: f64| value.is_finite() && value > 0.0;
        if self.users == 0 || self.timelines == 0 || !positive(self.rate) {
            return Err(Stop::Usage("a count or rate of 0".into()));
        }
        if !(positive(self.skew) || self.skew == 0.0) {
            return Err(Stop::Usage("a skew below 0".into()));
        }
        if self.members.least() > self.users {
            return Err(Stop::Usage("more members than users".into()));
        }
        Ok(())
    }

    /// All users, subscribed before the first message.
    async fn open(
        &self,
        run: &Run,
        intake: &Intake,
        groups: &[Vec<usize>],
    ) -> Result<Vec<Follower>, Stop> {
        let mut follows = vec![Vec::new(); self.users];
        for (timeline, group) in groups.iter().enumerate() {
            for user in group {
                follows[*user].push(timeline);
            }
        }
        run.tell("the users come");
        let timelines = &intake.ledger.timelines;
        let users = follows.into_iter().map(|of| Follower::new(timelines, of));
        intake.all_subscribed(users, &run.url).await
    }
}
