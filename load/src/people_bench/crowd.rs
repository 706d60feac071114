//! The row of a large group: what a post costs its sender, when those who are on-line have it, when all inboxes have
//! it, and whether lists of other users stay prompt meanwhile.
//!
//! Owns: the group, one beside it without members that takes as many posts by the same clock, the users who join
//! conversations of their own. Promises: each subscriber gets each post once; of the inboxes a sample is counted. Must
//! not: use more than one thread, so that the server keeps the machine.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use clap::ValueEnum;
use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::json;
use tokio::task::spawn_local;
use tokio::time::Instant;

use crate::append::Appends;
use crate::audience::{self, Account, Member, Writers};
use crate::exit::{self, Stop};
use crate::generator::{Flow, count, rate};
use crate::groups::{Part, client, create, filled, listed, settled, user};
use crate::profile::{Profile, need_files};
use crate::random::Random;
use crate::recorder::Recorder;
use crate::request::Session;
use crate::run::{Better, Counts, Gaps, Run};
use crate::tally::Tally;

/// Arguments of `people-bench crowd`.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Crowd {
    /// Members of the group
    #[arg(long, default_value_t = 100_000, value_parser = count::<u64>)]
    members: u64,
    /// How many of them are on-line: each subscribes on a connection of its own
    #[arg(long, default_value_t = 10_000, value_parser = count::<u64>)]
    online: u64,
    /// Where its messages go
    #[arg(long, value_enum, default_value_t = To::Read)]
    fan_out: To,
    /// Posts a second, to the group and to the one without members
    #[arg(long, default_value_t = 10.0, value_parser = rate)]
    rate: f64,
    /// Members added to other timelines, a second, each a user who then asks for the list
    #[arg(long, default_value_t = 20.0, value_parser = rate)]
    joins: f64,
    /// Of so many members, chosen at random, the inbox is counted at the end
    #[arg(long, default_value_t = 1_000)]
    sample: u64,
    /// Bytes of text in each entry, {"text": …}
    #[arg(long, default_value_t = 200)]
    size: usize,
}

/// The setting of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum To {
    /// Nowhere: members read the group.
    Read,
    /// Into the inboxes of all members.
    Write,
}

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
            Account::new(run, Writers::One, by_clock, self.size, prefix, follows);
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
            Appends::new(run, &bare, lane, self.size, true)
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
        let pace = run.pace(self.joins, Gaps::Fixed, 1);
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
        if self.fan_out == To::Write {
            let done = settled(run).await?;
            let mut random = Random::new(run.seed_of(2));
            let sample = (0..self.sample).map(|_| random.below(self.members));
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
