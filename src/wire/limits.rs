//! The limits of what clients may send and get. Units are in the names; `session.open` returns them under these names.
//!
//! Owns: names and defaults. Promises: each fits into those that it goes through; the compiler checks it. Must not:
//! know how they are configured.

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

/// Bytes of a statement of SQL.
pub(crate) const STATEMENT_BYTES_MAX: usize = 256 << 10;

impl Default for Limits {
    fn default() -> Limits {
        Limits::DEFAULT
    }
}

impl Limits {
    /// The limits of a server that nobody has configured.
    pub const DEFAULT: Limits = Limits {
        entry_bytes_max: 256 << 10,
        // A batch is one unit of the log's commit, and others wait while it is written.
        batch_messages_max: 100,
        batch_bytes_max: 1 << 20,
        // A full batch, and as much again and more for escapes and white space.
        inbound_frame_bytes_max: 4 << 20,
        // Small enough that a client's other messages do not wait long behind it.
        outbound_frame_bytes_max: 1 << 20,
        page_messages_max: 1_000,
        subscriptions_max: 1_000,
        // At 100 ms to the client and back, 2,500 requests a second.
        requests_in_flight_max: 256,
        // All timelines of a user at once.
        sync_positions_max: 10_000,
        // The usual patience of proxies.
        wait_ms_max: 60_000,
        // Decoders recurse, here and in clients.
        json_depth_max: 32,
    };

    /// The largest entry that a server can be set to take: it goes through everything else.
    pub const ENTRY_BYTES_LARGEST: u64 = Limits::DEFAULT.batch_bytes_max;

    /// These limits for entries of another size.
    #[must_use]
    pub fn with_entries_of(self, entry_bytes_max: u64) -> Limits {
        Limits {
            entry_bytes_max,
            outbound_frame_bytes_max: self
                .outbound_frame_bytes_max
                .max(entry_bytes_max * ENTRY_GROWTH),
            ..self
        }
    }

    /// Messages of a page if the client does not say.
    pub const PAGE_MESSAGES_DEFAULT: u64 = 100;

    /// Room for one short answer in the array that answers a batch, bytes; see [`Limits::batch_calls_max`].
    pub const BATCH_ANSWER_BYTES: usize = 1_280;

    /// How deep the value of a name in an entry may be: around it are the request, its parameters and the entry.
    #[must_use]
    pub fn value_depth_max(&self) -> u64 {
        self.json_depth_max - 3
    }

    /// Calls of one JSON-RPC batch at most: they are in flight together, and in the array that answers them, which is
    /// one frame, there is room for a short answer to each.
    #[must_use]
    pub fn batch_calls_max(&self) -> u64 {
        let answers = self.outbound_frame_bytes_max / (2 * Limits::BATCH_ANSWER_BYTES as u64);
        self.requests_in_flight_max.min(answers.max(1))
    }
}

/// A double is 3 bytes of JSON at least and 9 of MessagePack: an entry grows up to threefold on its way out, and a
/// frame must hold the one message that every page has.
const ENTRY_GROWTH: u64 = 4;

const _: () = {
    let limits = Limits::DEFAULT;
    assert!(limits.entry_bytes_max <= Limits::ENTRY_BYTES_LARGEST);
    assert!(limits.entry_bytes_max * ENTRY_GROWTH <= limits.outbound_frame_bytes_max);
    assert!(limits.json_depth_max > 3);
    assert!(limits.batch_bytes_max <= limits.inbound_frame_bytes_max / 2);
};
