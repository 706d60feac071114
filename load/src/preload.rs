//! Filling the server before a measurement: batches, as fast as they go.
//!
//! Owns: the messages that stand there first. Promises: each batch is acknowledged, or the run ends. Must not: count
//! for the figure.

use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use crate::append::{MessageIds, timeline_name};
use crate::exit::Stop;
use crate::outcome::Better;
use crate::random::Random;
use crate::report;
use crate::rpc::{CallError, Client, Incoming};
use crate::run::Run;

const CONNECTIONS: u64 = 8;
const IN_FLIGHT: usize = 32;
/// The protocol's default limits: 100 messages and 1 MiB in a batch.
const BATCH_MESSAGES_MAX: u64 = 100;
const BATCH_BYTES_MAX: u64 = 900_000;

#[derive(Serialize)]
struct Batch<'a> {
    timeline: &'a str,
    messages: Vec<One<'a>>,
}

#[derive(Serialize)]
struct One<'a> {
    entry: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_id: Option<String>,
}

/// What is to stand there.
#[derive(Clone, Copy, Debug)]
pub struct Preload {
    /// So many messages in all.
    pub messages: u64,
    /// Spread over so many timelines, evenly; the first ones have the remainder.
    pub timelines: u64,
    /// Bytes of text in each.
    pub size: usize,
    /// Whether they carry the client's own ID.
    pub ids: MessageIds,
}

impl Preload {
    /// How many of them are in a timeline.
    #[must_use]
    pub fn length(&self, timeline: u64) -> u64 {
        self.messages / self.timelines + u64::from(timeline < self.messages % self.timelines)
    }
}

/// Sends them, to timelines whose names begin with `prefix`.
///
/// # Errors
///
/// A connection was lost, or a batch was refused for good.
pub async fn run(args: &Preload, run: &Run, prefix: &str) -> Result<(), Stop> {
    if args.messages == 0 || args.timelines == 0 {
        return Ok(());
    }
    let began = Instant::now();
    fill(args, run, prefix).await?;
    let rate = args.messages as f64 / began.elapsed().as_secs_f64().max(0.001);
    run.figure("preloaded", args.messages as f64, "1", Better::Neither);
    run.figure("preloaded_per_second", rate, "1/s", Better::Higher);
    Ok(())
}

/// As `run`, and enters nothing in the result: for profiles that send such batches on their way.
///
/// # Errors
///
/// As `run`.
pub async fn fill(args: &Preload, run: &Run, prefix: &str) -> Result<(), Stop> {
    let entry = to_raw_value(&json!({ "text": Random::new(run.seed).text(args.size) }))
        .map_err(|error| Stop::Own(error.to_string()))?;
    let lanes = (0..CONNECTIONS).map(|lane| Lane {
        args,
        url: &run.url,
        prefix,
        tag: &run.tag,
        entry: &entry,
        lane,
    });
    let sending = lanes.map(Lane::run);
    for done in futures_util::future::join_all(sending).await {
        done.map_err(|error| Stop::Unreachable(format!("preload: {error}")))?;
    }
    Ok(())
}

/// One connection's share: every eighth timeline.
struct Lane<'a> {
    args: &'a Preload,
    url: &'a str,
    prefix: &'a str,
    tag: &'a str,
    entry: &'a RawValue,
    lane: u64,
}

impl Lane<'_> {
    async fn run(self) -> Result<(), CallError> {
        let mut client = Client::open(self.url).await?;
        let mut waiting = std::collections::HashMap::new();
        let timelines = self.args.timelines;
        let at_most =
            (BATCH_BYTES_MAX / (self.args.size as u64 + 100)).clamp(1, BATCH_MESSAGES_MAX);
        let (mut sent, mut told) = (0, 0);
        for timeline in (self.lane..timelines).step_by(CONNECTIONS as usize) {
            let mut left = self.args.length(timeline);
            while left > 0 {
                let count = left.min(at_most);
                let first = sent;
                let id = self.send(&mut client, timeline, first, count)?;
                waiting.insert(id, (timeline, first, count));
                left -= count;
                sent += count;
                while waiting.len() >= IN_FLIGHT {
                    self.take(&mut client, &mut waiting).await?;
                }
            }
            if self.lane == 0 && sent * CONNECTIONS >= told + 1_000_000 {
                told = sent * CONNECTIONS;
                let of = self.args.messages;
                report::note(&format!("preloaded {told} of {of} messages"));
            }
        }
        while !waiting.is_empty() {
            self.take(&mut client, &mut waiting).await?;
        }
        Ok(())
    }

    fn send(
        &self,
        client: &mut Client,
        timeline: u64,
        first: u64,
        count: u64,
    ) -> Result<u64, CallError> {
        let Lane {
            tag, lane, entry, ..
        } = *self;
        let one = |number| One {
            entry,
            message_id: (self.args.ids == MessageIds::All)
                .then(|| format!("{tag}-p{lane}-{number}")),
        };
        let batch = Batch {
            timeline: &timeline_name(self.prefix, timeline),
            messages: (first..first + count).map(one).collect(),
        };
        client.send("message.append_batch", batch)
    }

    /// Takes one answer; a batch that the server was too busy for goes out again.
    async fn take(
        &self,
        client: &mut Client,
        waiting: &mut std::collections::HashMap<u64, (u64, u64, u64)>,
    ) -> Result<(), CallError> {
        let Incoming::Reply(id, outcome) = client.receive().await? else {
            return Ok(());
        };
        let batch = waiting.remove(&id);
        match (outcome, batch) {
            (Err(refusal), Some((timeline, first, count))) if refusal.data.retry => {
                let pause = refusal.data.retry_after_ms.unwrap_or(20).min(1_000);
                tokio::time::sleep(Duration::from_millis(pause)).await;
                let id = self.send(client, timeline, first, count)?;
                waiting.insert(id, (timeline, first, count));
                Ok(())
            }
            (Err(refusal), _) => Err(CallError::Refused(refusal)),
            (Ok(_), _) => Ok(()),
        }
    }
}
