//! The consumer by which a node reads the stream in order.
//!
//! Owns: which consumer is the present one, what its pulls still bring, when it counts as ended. Promises: a message of
//! an earlier consumer is never taken for one of the present; a consumer that ended in silence is noticed within three
//! beats. Must not: judge frames; a gap is seen where they are judged.

use async_nats::{Message, StatusCode};
use tideline_base::ids::Position;
use tideline_cluster::SteadyMs;

use crate::api;
use crate::link::{PULL_BEAT, PULL_FRAMES};

/// What an arrival of a consumer is.
pub(crate) enum Arrival {
    /// A message from this sequence.
    Message(Position),
    /// Nothing that the node must know.
    Nothing,
    /// The consumer is gone.
    Ended,
}

/// See the file's opening.
#[derive(Default)]
pub(crate) struct Follow {
    /// Of the present consumer.
    pub(crate) number: u64,
    /// Its name, once it is there.
    pub(crate) consumer: Option<String>,
    /// What the last pull still brings.
    left: u64,
    /// When the next pull is due; `None` while one is under way.
    pull_at: Option<SteadyMs>,
    heard: SteadyMs,
    /// The last sequence that it brought; at first the one that it begins behind.
    brought: Position,
    /// When that was.
    brought_at: SteadyMs,
}

/// After a pull that ended early.
const AGAIN_MS: u64 = 20;
/// Beats that may fail to come.
const BEATS_MISSED: u64 = 3;
/// So long a consumer may take to bring the next frame, before another is made.
const PATIENCE_MS: u64 = 1_000;

impl Follow {
    /// Whether the present consumer will bring what is behind this position, and has brought nothing for a short time
    /// only: another one would do the same, later. It may be behind: meanwhile the next frame may have come by a get.
    pub(crate) fn is_at(&self, after: Position, now: SteadyMs) -> bool {
        self.number > 0 && self.brought <= after && now.since(self.brought_at) < PATIENCE_MS
    }

    /// Another consumer is to be made behind this position: its number. The old one's name is to be dropped.
    pub(crate) fn begin(&mut self, after: Position, now: SteadyMs) -> (u64, Option<String>) {
        let old = self.consumer.take();
        self.number += 1;
        self.pull_at = None;
        (self.brought, self.brought_at) = (after, now);
        (self.number, old)
    }

    /// The present consumer is not to be relied on.
    pub(crate) fn end(&mut self) {
        self.brought_at = SteadyMs(0);
        self.pull_at = None;
        self.consumer = None;
    }

    /// The consumer is there.
    pub(crate) fn made(&mut self, consumer: String, now: SteadyMs) {
        self.consumer = Some(consumer);
        self.heard = now;
        self.pull_at = Some(now);
    }

    /// Whether the consumer was silent for too long.
    pub(crate) fn is_silent(&self, now: SteadyMs) -> bool {
        let beat_ms = u64::try_from(PULL_BEAT.as_millis()).unwrap_or(u64::MAX);
        self.consumer.is_some() && now.since(self.heard) > BEATS_MISSED * beat_ms
    }

    /// The consumer to pull from, if it is time.
    pub(crate) fn pulls(&mut self, now: SteadyMs) -> Option<(String, u64)> {
        let consumer = self.consumer.clone()?;
        self.pull_at.take_if(|at| *at <= now)?;
        self.left = PULL_FRAMES;
        Some((consumer, self.number))
    }

    /// Reads what came for consumer `number`.
    pub(crate) fn arrived(
        &mut self,
        number: Option<u64>,
        message: &Message,
        stream: &str,
        now: SteadyMs,
    ) -> Arrival {
        if number != Some(self.number) {
            return Arrival::Nothing;
        }
        self.heard = now;
        match message.status {
            Some(StatusCode::IDLE_HEARTBEAT) => return Arrival::Nothing,
            Some(StatusCode::NO_RESPONDERS) => return Arrival::Ended,
            Some(StatusCode::REQUEST_TERMINATED) if is_end(message) => return Arrival::Ended,
            Some(status) if status != StatusCode::OK => {
                self.pull_at = Some(now.plus(AGAIN_MS));
                return Arrival::Nothing;
            }
            _ => {}
        }
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            self.pull_at = Some(now);
        }
        let reply = message.reply.as_ref();
        let sequence = reply.and_then(|reply| api::sequence(reply, stream));
        let Some(sequence) = sequence else {
            return Arrival::Nothing;
        };
        (self.brought, self.brought_at) = (sequence, now);
        Arrival::Message(sequence)
    }
}

/// `Consumer Deleted`, `Leadership Change`, `Server Shutdown` and the like; not a pull that is full.
fn is_end(message: &Message) -> bool {
    let said = message.description.as_deref().unwrap_or_default();
    let ends = ["deleted", "leadership", "shutdown", "not found"];
    let said = said.to_ascii_lowercase();
    ends.iter().any(|end| said.contains(end))
}
