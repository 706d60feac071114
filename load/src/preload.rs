//! Filling the server before a measurement: batches, as fast as they go.
//!
//! Owns: the messages that are there first, and the flags that say which. Promises: each batch is acknowledged, or the
//! run ends. Must not: count for the figure.

use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::exit::Stop;
use crate::outcome::Better;
use crate::random::Random;
use crate::rpc::{CallError, Client};
use crate::run::Run;
use crate::scan::Tally;
use crate::template::timeline_name;

/// Each has one batch on the way.
const CONNECTIONS: u64 = 64;
/// The protocol's default limits: 100 messages and 1 MiB in a batch.
const BATCH_MESSAGES_MAX: u64 = 100;
const BATCH_BYTES_MAX: u64 = 900_000;

/// Messages that are to be there, as flags of a profile.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Stock {
    /// Append so many messages first, in batches
    #[arg(long, default_value_t = 0)]
    pub preload: u64,
    /// Spread evenly over so many timelines; the first ones have the remainder
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub preload_timelines: u64,
    /// Bytes of text in each entry, {"text": …}
    #[arg(long, default_value_t = 200)]
    pub size: usize,
    /// Messages carry no ID of the client's own: the server makes them
    #[arg(long)]
    pub no_message_ids: bool,
    /// Seconds between preloading and measuring
    #[arg(long, default_value_t = 0.0)]
    pub settle: f64,
    /// Names of the timelines begin so [default: one of this run's own]
    #[arg(long)]
    pub prefix: Option<String>,
}

#[derive(Serialize)]
struct Batch<'a> {
    timeline: &'a str,
    messages: Vec<One<'a>>,
}

#[derive(Serialize)]
struct One<'a> {
    entry: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_id: Option<String>,
}

impl Stock {
    /// So many messages in each of so many timelines; without IDs, so that it can be filled in again and again.
    pub fn each(messages: u64, timelines: u64, size: usize) -> Stock {
        Stock {
            preload: messages * timelines,
            preload_timelines: timelines,
            size,
            no_message_ids: true,
            settle: 0.0,
            prefix: None,
        }
    }

    /// How many of them are in a timeline.
    pub fn length(&self, timeline: u64) -> u64 {
        let left = self.preload.saturating_sub(timeline);
        left.div_ceil(self.preload_timelines)
    }

    /// What timelines hold after it was filled in.
    pub(crate) fn tally(&self, prefix: String) -> Tally {
        let mut tally = Tally::new(prefix, self.preload_timelines);
        for (timeline, acked) in (0..).zip(&mut tally.acked) {
            *acked = self.length(timeline) as u32;
        }
        tally
    }

    /// Fills in, waits until the server has settled, and enters how fast it was.
    pub async fn prepare(&self, run: &Run, prefix: &str) -> Result<(), Stop> {
        if self.preload > 0 {
            run.tell("preloading");
            let began = Instant::now();
            self.fill(run, prefix).await?;
            let rate = self.preload as f64 / began.elapsed().as_secs_f64().max(0.001);
            run.figure("preloaded", self.preload as f64, "1", Better::Neither);
            run.figure("preloaded_per_second", rate, "1/s", Better::Higher);
        }
        run.pass(self.settle).await;
        Ok(())
    }

    /// Appends them to timelines of a prefix. The error is a connection that is lost, or a batch refused for good.
    pub async fn fill(&self, run: &Run, prefix: &str) -> Result<(), Stop> {
        let entry = json!({ "text": Random::new(run.seed).text(self.size) });
        let used = CONNECTIONS.min(self.preload_timelines);
        let lanes = (0..used).map(|first| self.send(run, prefix, &entry, first));
        let lost = |error| Stop::Unreachable(format!("preload: {error}"));
        try_join_all(lanes).await.map_err(lost)?;
        Ok(())
    }

    /// One connection's share: of as many timelines as there are connections, one.
    async fn send(
        &self,
        run: &Run,
        prefix: &str,
        entry: &Value,
        first: u64,
    ) -> Result<(), CallError> {
        let most = (BATCH_BYTES_MAX / (self.size as u64 + 100)).clamp(1, BATCH_MESSAGES_MAX);
        let mut client = Client::open(&run.url).await?;
        for timeline in (first..self.preload_timelines).step_by(CONNECTIONS as usize) {
            let id = |number| format!("{}-p{timeline}-{number}", run.tag);
            let one = |number| One {
                entry,
                message_id: (!self.no_message_ids).then(|| id(number)),
            };
            let length = self.length(timeline);
            for begin in (0..length).step_by(most as usize) {
                let batch = Batch {
                    timeline: &timeline_name(prefix, timeline),
                    messages: (begin..length.min(begin + most)).map(one).collect(),
                };
                while let Err(error) = client
                    .call::<IgnoredAny>("message.append_batch", &batch)
                    .await
                {
                    match error {
                        CallError::Refused(refusal) if refusal.data.retry => {
                            let pause = refusal.data.retry_after_ms.unwrap_or(20);
                            tokio::time::sleep(Duration::from_millis(pause)).await;
                        }
                        error => return Err(error),
                    }
                }
            }
        }
        Ok(())
    }
}
