//! Members of families that are known beforehand, and handles on those that are touched often.
//!
//! Owns: which label values there are from the start. Promises: each family has a member, so that a rate has a first
//! value to count from. Must not: take a label value from outside.

use super::{Counter, Families, Histogram};

impl Families {
    /// Binds what is known beforehand.
    pub(super) fn bind_known(&self) {
        for state in ["ok", "too_old", "epoch_changed"] {
            let _ = self.resumes.of(&[state]);
        }
        for limit in REFUSED_AT {
            let _ = self.refusals.of(&[limit]);
        }
        for reason in CLOSED_FOR {
            let _ = self.closes.of(&[reason]);
        }
        for reason in ["expired", "surplus", "table_deleted", "marked"] {
            let reason = [reason];
            let _ = (
                self.reclaimed_rows.of(&reason),
                self.reclaimed_bytes.of(&reason),
            );
        }
        for kind in ["read", "write"] {
            let _ = self.capacity_units.of(&[kind]);
        }
        for method in ["message.append", "sync", "subscribe", "conversation.list"] {
            let _ = (
                self.requests.of(&[method, "ok"]),
                self.request_seconds.of(&[method]),
            );
        }
        self.build_info
            .of(&[env!("CARGO_PKG_VERSION"), std::env::consts::ARCH])
            .set(1.0);
    }
}

const CLOSED_FOR: [&str; 7] = [
    "slow_consumer",
    "idle",
    "draining",
    "overloaded",
    "slow_request",
    "protocol_error",
    "too_big",
];
/// Places where the server refuses that no client's error names: the queue, the stores, the listener. `bounds.rs` has
/// the counters of what callers share.
const REFUSED_AT: [&str; 15] = [
    QUEUE_JOBS,
    QUEUE_BYTES,
    COMPACTION,
    DISK_SPACE,
    CONNECTIONS,
    ARRIVALS,
    ADDRESS_CONNECTIONS,
    ADDRESS_HANDSHAKES,
    ADDRESS_FAILURES,
    USER_CONNECTIONS,
    USER_REQUESTS,
    USER_BYTES,
    KEY_CONNECTIONS,
    KEY_REQUESTS,
    KEY_BYTES,
];
/// Refused for `queue_jobs_max`.
pub const QUEUE_JOBS: &str = "queue_jobs_max";
/// Refused for `queue_bytes_max`.
pub const QUEUE_BYTES: &str = "queue_bytes_max";
/// Refused because flush or compaction is behind (`frozen_memtables_max`, `level0_busy_runs`).
pub const COMPACTION: &str = "compaction";
/// Refused because the disk is full.
pub const DISK_SPACE: &str = "disk_space";
/// Refused for `connections_max`.
pub const CONNECTIONS: &str = "connections_max";
/// Closed because nobody knew yet whose it was, while many others waited.
pub const ARRIVALS: &str = "arrivals";
/// Refused for `address.connections`.
pub const ADDRESS_CONNECTIONS: &str = "address.connections";
/// Refused for `address.handshakes_per_s`.
pub const ADDRESS_HANDSHAKES: &str = "address.handshakes_per_s";
/// Refused for `address.failures_per_min`.
pub const ADDRESS_FAILURES: &str = "address.failures_per_min";
/// Refused for `user.connections`.
pub const USER_CONNECTIONS: &str = "user.connections";
/// Refused for `user.requests_per_s`.
pub const USER_REQUESTS: &str = "user.requests_per_s";
/// Refused for `user.bytes_per_s`.
pub const USER_BYTES: &str = "user.bytes_per_s";
/// Refused for `key.connections`.
pub const KEY_CONNECTIONS: &str = "key.connections";
/// Refused for `key.requests_per_s`.
pub const KEY_REQUESTS: &str = "key.requests_per_s";
/// Refused for `key.bytes_per_s`.
pub const KEY_BYTES: &str = "key.bytes_per_s";

/// Sizes of pages, by what asked for the page.
#[derive(Debug)]
pub struct Pages {
    /// `message.range`.
    pub range: Histogram,
    /// `feed.range`.
    pub feed: Histogram,
    /// `sync`, those timelines that have news.
    pub sync: Histogram,
    /// The reply of `subscribe`.
    pub subscribe: Histogram,
    /// A subscription that reads the store.
    pub push: Histogram,
}

impl Pages {
    pub(super) fn of(families: &Families) -> Pages {
        let of = |source| families.page_messages.of(&[source]);
        Pages {
            range: of("range"),
            feed: of("feed"),
            sync: of("sync"),
            subscribe: of("subscribe"),
            push: of("push"),
        }
    }
}

/// Answers of `sync`.
#[derive(Debug)]
pub struct SyncAnswers {
    /// To positions.
    pub positions: News,
    /// To devices.
    pub device: News,
}

/// Answers by what they bring.
#[derive(Debug)]
pub struct News {
    /// With news.
    pub some: Counter,
    /// Without.
    pub none: Counter,
}

impl SyncAnswers {
    pub(super) fn of(families: &Families) -> SyncAnswers {
        let of = |by| News {
            some: families.sync_by_news.of(&[by, "some"]),
            none: families.sync_by_news.of(&[by, "none"]),
        };
        SyncAnswers {
            positions: of("positions"),
            device: of("device"),
        }
    }
}

/// Signals, and pushes that are never stored.
#[derive(Debug)]
pub struct Ephemeral {
    /// Signals that are on their way.
    pub sent: Counter,
    /// Signals that nobody asked for.
    pub unheard: Counter,
    /// Signals beyond a bound.
    pub dropped: Counter,
    /// Pushes handed to connections, in the order of [`EPHEMERAL_KINDS`].
    pub pushes: [Counter; EPHEMERAL_KINDS.len()],
    /// Pushes that connections missed, in the same order.
    pub missed: [Counter; EPHEMERAL_KINDS.len()],
}

/// Kinds of pushes that are never stored.
pub const EPHEMERAL_KINDS: [&str; 4] = ["signal", "presence", "member", "receipt"];

impl Ephemeral {
    pub(super) fn of(families: &Families) -> Ephemeral {
        Ephemeral {
            sent: families.signals.of(&["sent"]),
            unheard: families.signals.of(&["unheard"]),
            dropped: families.signals.of(&["dropped"]),
            pushes: EPHEMERAL_KINDS.map(|kind| families.ephemeral_pushes.of(&[kind])),
            missed: EPHEMERAL_KINDS.map(|kind| families.ephemeral_missed.of(&[kind])),
        }
    }
}
