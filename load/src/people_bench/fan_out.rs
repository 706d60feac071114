//! The row of fan-out: messages to groups, each of which goes into the inboxes of its members.
//!
//! Owns: the groups, and the count of what each inbox must hold. Promises: entries count when they are in the inboxes,
//! and each inbox has just as many as were acknowledged in its groups. Must not: use the inboxes while they fill: the
//! server's metrics say when it is done.

use std::cell::RefCell;
use std::rc::Rc;

use serde::Serialize;
use serde_json::json;
use tokio::time::Instant;

use crate::append::Appends;
use crate::exit::Stop;
use crate::generator::{Flow, count};
use crate::groups::{create, filled, gauge, settled};
use crate::profile::{Profile, need_files};
use crate::request::Session;
use crate::run::{Better, Run};
use crate::tally::Tally;

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
    /// Bytes of text in each entry, {"text": …}
    #[arg(long, default_value_t = 200)]
    size: usize,
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
        let open = Session::each(run, |lane| Appends::new(run, &tally, lane, self.size, true));
        let (began, before) = (Instant::now(), run.used("cpu_seconds"));
        self.flow.measure(run, &[acks], open).await?;
        let ended = Instant::now();
        let lag = gauge(run, "tideline_relay_lag_seconds").await?;
        run.figure("relay_lag_at_end", lag, "s", Better::Lower);
        let mut done = settled(run).await?;
        let after = run.used("cpu_seconds");
        let tally = tally.take();
        let mut due = vec![0; self.users as usize];
        for (group, length) in tally.acked.iter().enumerate() {
            for user in self.members(group as u64) {
                due[user as usize] += u64::from(*length);
            }
        }
        let entries: u64 = due.iter().sum();
        if let Some(last) = filled(run, (0..).zip(due)).await? {
            done = last;
        }
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
