//! Filling the server before a measurement: batches, as fast as they go.
//!
//! Owns: the messages that are there first. Promises: each batch is acknowledged, or the run ends. Must not: count for
//! the figure.

use std::cell::Cell;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use serde::Serialize;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use crate::exit::Stop;
use crate::outcome::Better;
use crate::random::Random;
use crate::report;
use crate::rpc::{CallError, Client};
use crate::run::Run;
use crate::template::{MessageIds, timeline_name};

const CONNECTIONS: u64 = 8;
const IN_FLIGHT: usize = 32;
/// The protocol's default limits: 100 messages and 1 MiB in a batch.
const BATCH_MESSAGES_MAX: u64 = 100;
const BATCH_BYTES_MAX: u64 = 900_000;
/// After so many messages it is said how far it is.
const SAID_EVERY: u64 = 1_000_000;

/// What is to be there.
#[derive(Clone, Copy, Debug)]
pub struct Preload {
    /// So many messages in all.
    pub messages: u64,
    /// Spread evenly over so many timelines; the first ones have the remainder.
    pub timelines: u64,
    /// Bytes of text in each.
    pub size: usize,
    /// Whether they carry the client's own ID.
    pub ids: MessageIds,
}

/// Messages of one timeline that are sent together.
#[derive(Clone, Copy)]
struct Batch {
    timeline: u64,
    first: u64,
    count: u64,
}

#[derive(Serialize)]
struct Params<'a> {
    timeline: &'a str,
    messages: Vec<One<'a>>,
}

#[derive(Serialize)]
struct One<'a> {
    entry: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_id: Option<String>,
}

impl Preload {
    /// How many of them are in a timeline.
    #[must_use]
    pub fn length(&self, timeline: u64) -> u64 {
        self.messages / self.timelines + u64::from(timeline < self.messages % self.timelines)
    }

    /// Sends them, to timelines whose names begin with `prefix`.
    ///
    /// # Errors
    ///
    /// A connection was lost, or a batch was refused for good.
    pub async fn run(&self, run: &Run, prefix: &str) -> Result<(), Stop> {
        if self.messages == 0 || self.timelines == 0 {
            return Ok(());
        }
        let began = Instant::now();
        self.fill(run, prefix).await?;
        let rate = self.messages as f64 / began.elapsed().as_secs_f64().max(0.001);
        run.figure("preloaded", self.messages as f64, "1", Better::Neither);
        run.figure("preloaded_per_second", rate, "1/s", Better::Higher);
        Ok(())
    }

    /// As `run`, and enters nothing in the result: for profiles that send such batches on their way.
    ///
    /// # Errors
    ///
    /// As `run`.
    pub async fn fill(&self, run: &Run, prefix: &str) -> Result<(), Stop> {
        let text = json!({ "text": Random::new(run.seed).text(self.size) });
        let entry = to_raw_value(&text).map_err(|error| Stop::Own(error.to_string()))?;
        let sent = Cell::new(0);
        let lanes = (0..CONNECTIONS).map(|lane| self.send(run, prefix, &entry, lane, &sent));
        let lost = |error| Stop::Unreachable(format!("preload: {error}"));
        try_join_all(lanes).await.map_err(lost)?;
        Ok(())
    }

    /// One connection's share, every eighth timeline.
    fn batches(&self, lane: u64) -> impl Iterator<Item = Batch> {
        let most = (BATCH_BYTES_MAX / (self.size as u64 + 100)).clamp(1, BATCH_MESSAGES_MAX);
        (lane..self.timelines)
            .step_by(CONNECTIONS as usize)
            .flat_map(move |timeline| {
                let length = self.length(timeline);
                let batch = move |first| Batch {
                    timeline,
                    first,
                    count: most.min(length - first),
                };
                (0..length).step_by(most as usize).map(batch)
            })
    }

    async fn send(
        &self,
        run: &Run,
        prefix: &str,
        entry: &RawValue,
        lane: u64,
        sent: &Cell<u64>,
    ) -> Result<(), CallError> {
        let mut client = Client::open(&run.url).await?;
        let (mut batches, mut refused) = (self.batches(lane), Vec::new());
        let mut waiting = HashMap::new();
        loop {
            while waiting.len() < IN_FLIGHT
                && let Some(batch) = refused.pop().or_else(|| batches.next())
            {
                let Batch {
                    timeline,
                    first,
                    count,
                } = batch;
                let id = |number| format!("{}-p{timeline}-{number}", run.tag);
                let one = |number| One {
                    entry,
                    message_id: (self.ids == MessageIds::All).then(|| id(number)),
                };
                let params = Params {
                    timeline: &timeline_name(prefix, timeline),
                    messages: (first..first + count).map(one).collect(),
                };
                waiting.insert(client.send("message.append_batch", &params), batch);
            }
            if waiting.is_empty() {
                return Ok(());
            }
            let Some((id, outcome)) = client.receive().await? else {
                continue;
            };
            match (outcome, waiting.remove(&id)) {
                (Err(refusal), Some(batch)) if refusal.data.retry => {
                    let pause = refusal.data.retry_after_ms.unwrap_or(20).min(1_000);
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                    refused.push(batch);
                }
                (Err(refusal), _) => return Err(CallError::Refused(refusal)),
                (Ok(_), batch) => self.count(sent, batch.map_or(0, |batch| batch.count)),
            }
        }
    }

    fn count(&self, sent: &Cell<u64>, more: u64) {
        let before = sent.replace(sent.get() + more);
        if before / SAID_EVERY < sent.get() / SAID_EVERY {
            report::note(&format!(
                "preloaded {} of {} messages",
                sent.get(),
                self.messages
            ));
        }
    }
}
