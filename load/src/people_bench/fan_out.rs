//! The rows of groups: messages into the inboxes of many of them; and a large one: what a post costs its sender, when
//! the users that are on-line have it, when all inboxes have it, and whether lists of other users stay prompt
//! meanwhile.
//!
//! Owns: the groups, the count of what each inbox must hold; beside the large group one without members that takes as
//! many posts by the same clock, and users who join conversations of their own. Promises: entries count when they are
//! in the inboxes, each of which (of a large group, of a sample) has just as many as were acknowledged; each subscriber
//! gets each post once. Must not: use the inboxes while they fill: the server's metrics say when it is done.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::json;
use tokio::task::spawn_local;
use tokio::time::Instant;

use super::TEXT_BYTES;
use crate::audience::{self, Account, Member, Writers};
use crate::client::generator::{Flow, count, rate};
use crate::client::request::Session;
use crate::exit::{self, Stop};
use crate::outcome::recorder::Recorder;
use crate::profile::append::Appends;
use crate::profile::{Profile, need_files};
use crate::random::Random;
use crate::run::groups::{Part, client, create, filled, listed, settled, user};
use crate::run::tally::Tally;
use crate::run::{Better, Counts, Gaps, Run};

/// Arguments of `people-bench fan-out`. Messages of the warm-up are fanned out and counted, too.
#[derive(Clone, Debug, clap::Args, Serialize)]
#[command(mut_arg("connections", |arg| arg.default_value("8")))]
#[command(mut_arg("rate", |arg| arg.default_value("2000")))]
pub struct FanOut {
    #[command(flatten)]
    #[serde(flatten)]
    flow: Flow,
    /// Groups, chosen at random for each message
    #[arg(long, default_value_t = 100, value_parser = count::<u64>)]
    groups: u64,
    /// Members of each group
    #[arg(long, default_value_t = 200, value_parser = count::<u64>)]
    members: u64,
    /// Users, who take turns as members
    #[arg(long, default_value_t = 2_000, value_parser = count::<u64>)]
    users: u64,
}

impl FanOut {
    /// The members of a group.
    fn members(&self, group: u64) -> impl Iterator<Item = u64> {
        let (members, users) = (self.members, self.users);
        (0..members).map(move |member| (group * members + member) % users)
    }
}

impl Profile for FanOut {
    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        if self.members > self.users {
            return Err(Stop::Usage("more members than users".into()));
        }
        need_files(run, self.flow.connections as u64)?;
        let tally = Tally::new(run.prefix("group"), self.groups, 0);
        let members = |group| self.members(group).collect();
        create(run, &tally, |_| json!({ "fan_out": "write" }), members).await?;
        settled(run).await?;
        let tally = Rc::new(RefCell::new(tally));
        let acks = self.flow.recorder(run, "ack");
        let open = Session::each(run, |lane| {
            Appends::new(run, &tally, lane, TEXT_BYTES, true)
        });
        let (began, before) = (Instant::now(), run.used("cpu_seconds"));
        self.flow.measure(run, &[acks], open).await?;
        let ended = Instant::now();
        let done = settled(run).await?;
        let after = run.used("cpu_seconds");
        let tally = tally.take();
        let mut due = vec![0; self.users as usize];
        for (group, length) in tally.acked.iter().enumerate() {
            for user in self.members(group as u64) {
                due[user as usize] += u64::from(*length);
            }
        }
        let entries: u64 = due.iter().sum();
        let done = filled(run, (0..).zip(due)).await?.unwrap_or(done);
        let per = entries as f64 / (done - began).as_secs_f64().max(0.001);
        run.figure("entries_per_second", per, "1/s", Better::Higher);
        let left = done.saturating_duration_since(ended).as_secs_f64();
        run.figure("seconds_behind_at_end", left, "s", Better::Lower);
        if let Some((before, after)) = before.zip(after) {
            // The clock of processor time ticks every 10 ms.
            let per = entries as f64 / (after - before).max(0.01);
            run.figure("entries_per_server_cpu_second", per, "1/s", Better::Higher);
        }
        run.figure("busy", tally.busy as f64, "1", Better::Lower);
        run.figure("entries", entries as f64, "1", Better::Neither);
        Ok(())
    }
}

/// Arguments of `people-bench crowd`.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Crowd {
    /// Members of the group
    #[arg(long, default_value_t = 100_000, value_parser = count::<u64>)]
    members: u64,
    /// How many of them are on-line: each subscribes on a connection of its own
    #[arg(long, default_value_t = 10_000, value_parser = count::<u64>)]
    online: u64,
    /// Where its messages go: nowhere, so that members read the group, or into the inboxes of all members
    #[arg(long, default_value = "read", value_parser = ["read", "write"])]
    fan_out: String,
    /// Posts a second, to the group and to the one without members
    #[arg(long, default_value_t = 10.0, value_parser = rate)]
    rate: f64,
}

/// Members added to other timelines, a second, each a user who then asks for the list.
const JOINS: f64 = 20.0;
/// Of so many members, chosen at random, the inbox is counted at the end.
const SAMPLE: u64 = 1_000;
/// Other connections: the sender, the other group's, those that join.
const OTHERS: u64 = 200;

impl Profile for Crowd {
    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        if self.online >= self.members {
            return Err(Stop::Usage("not more members than are on-line".into()));
        }
        need_files(run, self.online + OTHERS)?;
        let group = Tally::new(run.prefix("crowd"), 1, 0);
        let settings = |_| json!({ "fan_out": self.fan_out });
        create(run, &group, settings, |_| (0..self.members).collect()).await?;
        settled(run).await?;
        listed(run, [0, self.members / 2, self.members - 1], 1).await?;
        // Member 0 posts.
        let mut follows = vec![vec![0]; self.online as usize + 1];
        follows[0].clear();
        let (by_clock, prefix) = (Some(Counts::Scheduled), &*group.prefix);
        let (account, mut members) =
            Account::new(run, Writers::One, by_clock, TEXT_BYTES, prefix, follows);
        for (number, member) in (0..).zip(&mut members) {
            member.follower.user = Some(user(run, number));
        }
        let members = audience::open(&account, members).await?.into_iter();
        let living = members.map(|member| member.live(Member::attend)).collect();
        let bare = Tally::new(run.prefix("bare"), 1, 0);
        let bare = Rc::new(RefCell::new(bare));
        let bare_ack = run.recorder("ack_without_members", Counts::Scheduled);
        let poster = |_| Some(user(run, 0));
        let open = Session::each_as(run, poster, |lane| {
            Appends::new(run, &bare, lane, TEXT_BYTES, true)
        });
        let beside = Flow::by_clock(1, self.rate, Gaps::Fixed)
            .start(run, &[bare_ack], open)
            .await?;
        let pace = run.pace(self.rate, Gaps::Fixed, 0);
        let last = Cell::new(Instant::now());
        let posting = audience::by_the_clock(&account, pace, |at| {
            last.set(at);
            account.put(0, 0, at);
        });
        let (mut joins, latency) = (Vec::new(), run.recorder("listed", Counts::Scheduled));
        let pace = run.pace(JOINS, Gaps::Fixed, 1);
        // Others join conversations of their own.
        let joining = audience::by_the_clock(&account, pace, |_| {
            let number = self.members + joins.len() as u64;
            let join = be_listed(Rc::clone(run), number, Rc::clone(&latency));
            joins.push(spawn_local(join));
        });
        tokio::join!(joining, posting, run.measure());
        audience::end(&account, living).await?;
        exit::all(beside).await?;
        for join in joins {
            join.await??;
        }
        if self.fan_out == "write" {
            let done = settled(run).await?;
            let mut random = Random::new(run.seed_of(2));
            let sample = (0..SAMPLE).map(|_| random.below(self.members));
            let due = account.counts.acked.get();
            let filled = filled(run, sample.map(|number| (number, due))).await?;
            let after = filled.unwrap_or(done) - last.get();
            let after = after.as_secs_f64();
            run.figure("inboxes_filled_after", after, "s", Better::Lower);
        }
        Ok(())
    }
}

/// Makes a user a member of a new timeline, and asks for the list until it has it: on the connection that has changed
/// members the server waits.
async fn be_listed(run: Rc<Run>, number: u64, latency: Rc<Recorder>) -> Result<(), Stop> {
    let mut client = client(&run, number).await?;
    let timeline = format!("joined-{}/{number}", run.tag);
    let params = json!({ "timeline": timeline });
    client
        .insist::<IgnoredAny>("timeline.create", params)
        .await?;
    let began = Instant::now();
    let params = json!({ "timeline": timeline, "members": [{ "user": user(&run, number) }] });
    client.insist::<IgnoredAny>("member.add", params).await?;
    let listed: Part<IgnoredAny> = client.insist("conversation.list", json!({})).await?;
    latency.record(began, Instant::now());
    run.checks.made("members listed", 1);
    let found = listed.of.len();
    if found != 1 {
        let what = format_args!("a new member's list has {found} conversations");
        run.checks.fault(what);
    }
    Ok(())
}
