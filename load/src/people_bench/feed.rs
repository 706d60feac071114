//! The row of feeds: the first page of a feed of many timelines.
//!
//! Owns: the timelines that are followed, every other one of them read from the source. Promises: a whole feed has each
//! message once; each page has as many as were asked for, newest first. Must not: have anybody write while it measures.

use std::collections::HashSet;
use std::rc::Rc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{TEXT_BYTES, ask};
use crate::client::generator::{Flow, count};
use crate::client::rpc::{CallError, read};
use crate::exit::Stop;
use crate::profile::{Profile, need_files};
use crate::run::Run;
use crate::run::groups::{Part, client, create, filled, pages, settled};
use crate::run::tally::{Tally, spread};

/// Arguments of `people-bench feed`.
#[derive(Clone, Debug, clap::Args, Serialize)]
#[command(mut_arg("connections", |arg| arg.default_value("2")))]
pub struct Feed {
    #[command(flatten)]
    #[serde(flatten)]
    flow: Flow,
    /// Timelines that each user follows; each connection is a user
    #[arg(long, default_value_t = 1_000, value_parser = count::<u64>)]
    follows: u64,
    /// Messages in each timeline, appended in turn
    #[arg(long, default_value_t = 20)]
    messages: u32,
    /// Messages on a page
    #[arg(long, default_value_t = 20, value_parser = count::<u64>)]
    page: u64,
}

/// A message of a feed, as far as it is checked.
#[derive(Deserialize)]
struct Shown {
    timeline: String,
    sequence: u64,
    timestamp: u64,
}

fn is_newest_first(shown: &[Shown]) -> bool {
    shown.is_sorted_by(|a, b| a.timestamp >= b.timestamp)
}

/// Whether the timeline of this number is fanned out.
fn is_written(number: u64) -> bool {
    !number.is_multiple_of(2)
}

impl Profile for Feed {
    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        let users = self.flow.connections as u64;
        need_files(run, users)?;
        let mut tally = Tally::new(run.prefix("feed"), self.follows, 0);
        let fan_out = |number| if is_written(number) { "write" } else { "read" };
        let settings = |number| json!({ "fan_out": fan_out(number) });
        create(run, &tally, settings, |_| Vec::new()).await?;
        for user in 0..users {
            let mut client = client(run, user).await?;
            for number in 0..self.follows {
                let params = json!({ "timeline": tally.name(number) });
                client.insist::<Value>("feed.follow", params).await?;
            }
        }
        self.followed(run, &tally, users).await?;
        tally.acked.fill(1);
        for _ in 0..self.messages {
            tally.fill(run, TEXT_BYTES, false).await?;
        }
        settled(run).await?;
        let written = (0..self.follows).filter(|number| is_written(*number));
        let due = written.count() as u64 * u64::from(self.messages);
        filled(run, (0..users).map(|user| (user, due))).await?;
        for user in 0..users {
            self.whole(run, user).await?;
        }
        let page = self.page.min(self.follows * u64::from(self.messages));
        let check = move |result: &[u8]| {
            let shown: Part<Shown> = read(result)?;
            Ok(shown.of.len() as u64 == page && is_newest_first(&shown.of))
        };
        let params = json!({ "limit": self.page });
        ask(run, &self.flow, "feed.range", |_| params.clone(), check).await
    }
}

impl Feed {
    /// Waits until each timeline knows its followers.
    async fn followed(&self, run: &Run, tally: &Tally, users: u64) -> Result<(), Stop> {
        settled(run).await?;
        spread(run, None, self.follows, async |client, number| {
            let params = json!({ "timeline": tally.name(number), "limit": 1 });
            let found: Value = client.insist("feed.followers", &params).await?;
            let odd = || CallError::Lost(format!("not {users} followers of {params}: {found}"));
            (found["followers_count"] == users)
                .then_some(())
                .ok_or_else(odd)
        })
        .await
    }

    /// Reads a feed to its end: it has each message once.
    async fn whole(&self, run: &Run, user: u64) -> Result<(), Stop> {
        let (mut client, params) = (client(run, user).await?, json!({ "limit": 1_000 }));
        let shown: Vec<Shown> = pages(&mut client, "feed.range", params, "before").await?;
        if !is_newest_first(&shown) {
            run.checks.fault("a feed is not in the order of time");
        }
        let places = shown.iter().map(|one| (&one.timeline, one.sequence));
        let (found, once) = (
            shown.len() as u64,
            HashSet::<_>::from_iter(places).len() as u64,
        );
        let due = self.follows * u64::from(self.messages);
        if (found, once) != (due, due) {
            let what = format_args!("a feed has {found} messages, {once} different ones, of {due}");
            run.checks.fault(what);
        }
        run.checks.made("messages of feeds", found);
        Ok(())
    }
}
