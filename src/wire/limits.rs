//! The limits of what clients may send and get. Units are in the names; `session.open` returns them under these names.
//!
//! Owns: names and defaults. Promises: [`Limits::check`] holds the inequalities between them. Must not: know how they
//! are configured.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Limits of one server. Clients may rely on them for the life of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Limits {
    /// Compact JSON text of one entry or meta, bytes.
    pub entry_bytes_max: u64,
    /// Messages of one `message.append_batch`.
    pub batch_messages_max: u64,
    /// Entries of one `message.append_batch` together, bytes.
    pub batch_bytes_max: u64,
    /// One message from the client, bytes.
    pub inbound_frame_bytes_max: u64,
    /// One message to the client, bytes: pages end early.
    pub outbound_frame_bytes_max: u64,
    /// Messages of one page; a `limit` above it is clamped.
    pub page_messages_max: u64,
    /// Subscriptions of one connection.
    pub subscriptions_max: u64,
    /// Requests in flight of one connection, also the members of one batch.
    pub requests_in_flight_max: u64,
    /// Positions of one `sync`.
    pub sync_positions_max: u64,
    /// How long a `sync` may wait, ms; a `wait_ms` above it is clamped.
    pub wait_ms_max: u64,
    /// Nesting of one request; the request object itself is 1.
    pub json_depth_max: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            entry_bytes_max: 256 << 10,
            batch_messages_max: 100,
            batch_bytes_max: 1 << 20,
            inbound_frame_bytes_max: 4 << 20,
            outbound_frame_bytes_max: 1 << 20,
            page_messages_max: 1_000,
            subscriptions_max: 1_000,
            requests_in_flight_max: 256,
            sync_positions_max: 10_000,
            wait_ms_max: 60_000,
            json_depth_max: 32,
        }
    }
}

impl Limits {
    /// Messages of a page if the client does not say.
    pub const PAGE_MESSAGES_DEFAULT: u64 = 100;

    /// Room for one short answer in the array that answers a batch, bytes; see [`Limits::batch_calls_max`].
    pub const BATCH_ANSWER_BYTES: usize = 1_280;

    /// Calls of one JSON-RPC batch at most: they are in flight together, and in the array that answers them, which is
    /// one frame, there is room for a short answer to each.
    #[must_use]
    pub fn batch_calls_max(&self) -> u64 {
        let answers = self.outbound_frame_bytes_max / (2 * Limits::BATCH_ANSWER_BYTES as u64);
        self.requests_in_flight_max.min(answers.max(1))
    }

    /// Says which inequality does not hold, for a configuration to be refused at start.
    pub fn check(&self) -> Result<(), &'static str> {
        let rules = [
            (
                self.page_messages_max >= 1,
                "page_messages_max must be at least 1",
            ),
            (
                self.batch_messages_max >= 1,
                "batch_messages_max must be at least 1",
            ),
            (
                self.requests_in_flight_max >= 1,
                "requests_in_flight_max must be at least 1",
            ),
            (
                self.entry_bytes_max >= 1_024,
                "entry_bytes_max must be at least 1024",
            ),
            (
                self.batch_bytes_max >= self.entry_bytes_max,
                "batch_bytes_max must be at least entry_bytes_max",
            ),
            (
                self.inbound_frame_bytes_max / 2 >= self.batch_bytes_max,
                "inbound_frame_bytes_max must be at least twice batch_bytes_max",
            ),
            // A double is 3 bytes of JSON at least and 9 of MessagePack: an entry grows up to threefold on its way out,
            // and the one message that every page holds must fit.
            (
                self.outbound_frame_bytes_max / 4 >= self.entry_bytes_max,
                "outbound_frame_bytes_max must be at least four times entry_bytes_max",
            ),
            (
                (8..=100).contains(&self.json_depth_max),
                "json_depth_max must be between 8 and 100",
            ),
        ];
        match rules.iter().find(|(holds, _)| !holds) {
            Some((_, rule)) => Err(rule),
            None => Ok(()),
        }
    }
}
