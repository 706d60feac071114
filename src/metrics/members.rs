//! Members of labelled metrics that are known beforehand, and handles on those that are touched often.
//!
//! Owns: which label values there are from the start. Promises: after [`bind_all`] each metric has a sample, so that a
//! rate has a first value to count from. Must not: take a label value from outside.

use std::sync::OnceLock;

use super::catalogue::{
    bind_handles, capacity_units, closes, page_messages, reclaimed_bytes, reclaimed_rows, refusals,
    request_seconds, requests, resumes, sync_by_news,
};
use super::{Counter, Histogram};

/// Binds everything.
pub(super) fn bind_all() {
    bind_handles();
    pages();
    sync_answers();
    for state in ["ok", "too_old", "epoch_changed"] {
        let _ = resumes().of(&[state]);
    }
    for limit in REFUSED_AT {
        let _ = refusals().of(&[limit]);
    }
    for reason in [
        "slow_consumer",
        "idle",
        "draining",
        "overloaded",
        "slow_request",
        "protocol_error",
        "too_big",
    ] {
        let _ = closes().of(&[reason]);
    }
    for reason in ["expired", "surplus", "table_deleted", "marked"] {
        let _ = (
            reclaimed_rows().of(&[reason]),
            reclaimed_bytes().of(&[reason]),
        );
    }
    for kind in ["read", "write"] {
        let _ = capacity_units().of(&[kind]);
    }
    for method in ["message.append", "sync", "subscribe"] {
        let _ = requests().of(&[method, "ok"]);
        let _ = request_seconds().of(&[method]);
    }
}

/// Places where the server refuses that no client's error names: the queue, the stores, the listener.
const REFUSED_AT: [&str; 7] = [
    QUEUE_JOBS,
    QUEUE_BYTES,
    COMPACTION,
    DISK_SPACE,
    CONNECTIONS,
    INBOUND_BYTES,
    ANSWERS_BYTES,
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
/// Refused or closed for `inbound_bytes_max`.
pub const INBOUND_BYTES: &str = "inbound_bytes_max";
/// Refused or closed for `answers_bytes_max`.
pub const ANSWERS_BYTES: &str = "answers_bytes_max";

/// Handles of [`page_messages`], by who asked for the page.
#[derive(Debug)]
pub struct Pages {
    /// `message.range`.
    pub range: Histogram,
    /// `sync`, those timelines that have news.
    pub sync: Histogram,
    /// The reply of `subscribe`.
    pub subscribe: Histogram,
    /// A subscription that reads the store.
    pub push: Histogram,
}

/// The page sizes, bound.
pub fn pages() -> &'static Pages {
    static BOUND: OnceLock<Pages> = OnceLock::new();
    BOUND.get_or_init(|| {
        let of = |source| page_messages().of(&[source]);
        Pages {
            range: of("range"),
            sync: of("sync"),
            subscribe: of("subscribe"),
            push: of("push"),
        }
    })
}

/// Answers of `sync`: with news, and without.
pub fn sync_answers() -> &'static [Counter; 2] {
    static BOUND: OnceLock<[Counter; 2]> = OnceLock::new();
    BOUND.get_or_init(|| [sync_by_news().of(&["some"]), sync_by_news().of(&["none"])])
}
