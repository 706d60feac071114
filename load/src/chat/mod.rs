//! `chat`: users in conversations of two and in groups, each timeline read by all of its members.
//!
//! Owns: the schedule: which member appends to which timeline when. Promises: messages go out by the clock (open loop)
//! and latency counts from the scheduled time to each reader; every member of a timeline gets each of its messages
//! once, in order, without gap, or it is a fault. Must not: wait for answers.

mod board;
mod plan;
mod user;

use std::rc::Rc;
use std::time::Duration;

use futures_util::future::join_all;
use serde::Serialize;
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::Instant;

use crate::exit::Stop;
use crate::outcome::Better;
use crate::pace::Gaps;
use crate::profile::{Profile, need_files};
use crate::random::Random;
use crate::run::{Phase, Run};
use crate::setup::Setup;
use crate::zipf::Zipf;
use board::{Board, Tally};
pub use plan::Sizes;
use user::{Desk, User};

/// So many messages without an answer mean that the server does not keep up.
const UNANSWERED_MAX: f64 = 50_000.0;
/// So many connections are opened at a time.
const WAVE: usize = 32;
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
        let board = Rc::new(Board::new(run, &groups, self.size));
        let (desks, users) = self.open(&board, &groups).await?;
        tokio::join!(self.send(&board, &groups, &desks), run.measure());
        run.checks.wait_for(|| board.complete()).await;
        // Nothing is owed any more: what came now would be too much.
        tokio::time::sleep(Duration::from_millis(50)).await;
        for user in users {
            user.abort();
        }
        board.close();
        let subscriptions: usize = groups.iter().map(Vec::len).sum();
        run.detail("subscriptions", subscriptions);
        tell(run, &board);
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

    /// All users, subscribed and reading.
    async fn open(
        &self,
        board: &Rc<Board>,
        groups: &[Vec<usize>],
    ) -> Result<(Vec<Rc<Desk>>, Vec<JoinHandle<()>>), Stop> {
        let mut follows = vec![Vec::new(); self.users];
        for (timeline, group) in groups.iter().enumerate() {
            for user in group {
                follows[*user].push(timeline);
            }
        }
        let mut users = Vec::with_capacity(self.users);
        for wave in follows.chunks(WAVE) {
            board.run.tell(&format!("{} users are there", users.len()));
            let opening = wave.iter().map(|timelines| User::open(board, timelines));
            for opened in join_all(opening).await {
                let lost = |error| Stop::Unreachable(format!("user {}: {error}", users.len()));
                users.push(opened.map_err(lost)?);
            }
        }
        let desks: Vec<Rc<Desk>> = users.iter().map(|_| Rc::default()).collect();
        let live = |(number, (user, desk)): (usize, (User, &Rc<Desk>))| {
            spawn_local(user.live(Rc::clone(desk), Rc::clone(board), number))
        };
        let tasks = users.into_iter().zip(&desks).enumerate().map(live);
        let tasks = tasks.collect();
        Ok((desks, tasks))
    }

    /// Lets members send by the clock, until the run ends.
    async fn send(&self, board: &Board, groups: &[Vec<usize>], desks: &[Rc<Desk>]) {
        let run = &board.run;
        let zipf = Zipf::new(self.timelines, self.skew);
        let mut random = Random::new(run.seed_of(CHOICES));
        let mut pace = run.pace(self.rate, self.gaps, GAPS);
        while run.phase() != Phase::Ending {
            tokio::select! {
                () = pace.wait() => {}
                () = run.ended() => break,
            }
            let now = Instant::now();
            while let Some(scheduled) = pace.due(now) {
                let timeline = zipf.draw(&mut random);
                let group = &groups[timeline];
                let member = group[random.below(group.len() as u64) as usize];
                let (id, params) = board.put(timeline, scheduled);
                desks[member].append(id, &params);
            }
            if board.unanswered.get() > UNANSWERED_MAX {
                run.invalid(format!(
                    "the server does not keep up with the rate: {UNANSWERED_MAX} messages without an answer"
                ));
                run.end_early();
            }
        }
        run.paced(&pace);
    }
}

/// Enters what was found.
fn tell(run: &Run, board: &Board) {
    let seconds = run.window().length().as_secs_f64().max(0.001);
    let (acks, deliveries) = board.measured();
    let rate = |count: u64| count as f64 / seconds;
    run.figure("appends_per_second", rate(acks), "1/s", Better::Higher);
    let rate = rate(deliveries);
    run.figure("deliveries_per_second", rate, "1/s", Better::Higher);
    let Tally {
        acked,
        busy,
        delivered,
        pushes,
        ..
    } = board.tally();
    let share = |of: u64, by: u64| of as f64 / by.max(1) as f64;
    run.figure("fan_out", share(delivered, acked), "1", Better::Neither);
    let together = share(delivered, pushes);
    run.figure("messages_per_push", together, "1", Better::Neither);
    run.figure("busy", busy as f64, "1", Better::Lower);
}
