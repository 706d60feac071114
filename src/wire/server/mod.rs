//! What is said of the server itself: backups, sessions, keys, partitions, webhooks, its log, and in this file how it
//! is and the last hour.
//!
//! Owns: parameters and results of these methods. Promises: status and history name nothing that a client has stored.
//! Must not: know where a figure comes from.

pub mod backup;
pub mod key;
pub mod log;
pub mod partition;
pub mod session;
pub mod sessions;
pub mod webhook;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::Check;
use tideline_model::access::GrantText;
pub use tideline_model::server::{Notice, Severity, Storage};

/// Asks how the server is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "server.status.params")]
pub struct Status {}

impl Check for Status {}

/// How the server is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "server.status.result")]
pub struct StatusNow {
    /// The machine's name.
    pub name: String,
    /// The version of the server.
    pub version: String,
    /// When it started, ms since 1970.
    pub started_at: u64,
    /// Where it listens: an address and a port.
    pub listen: String,
    /// Whether credentials are asked for.
    pub auth: bool,
    /// Whether writes can be committed.
    pub ready: bool,
    /// Why they can't.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Who asks.
    pub you: You,
    /// What is wrong or will be, the worst first.
    pub notices: Vec<Notice>,
    /// What there is on the disk.
    pub storage: Storage,
    /// Its part in a cluster; absent = it is alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterNow>,
}

/// A node's part in a cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "server_cluster")]
pub struct ClusterNow {
    /// The cluster's name.
    pub name: String,
    /// The node's.
    pub node: String,
    /// The node that owns the log, as far as this one knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The term of its claim.
    pub term: u64,
    /// Frames that are in the log and not applied here.
    pub lag: u64,
}

/// Whoever asks, as the server sees them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "server_caller")]
pub struct You {
    /// Their user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The name of their API key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What their credential and the configuration give them; a timeline may give its members more. Absent = no
    /// credentials are asked for, and everybody may do everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rights: Option<Vec<GrantText>>,
}

/// Asks for the last hour.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "server.history.params")]
pub struct History {
    /// Only steps after this time, ms since 1970; absent = all that are kept.
    pub since: Option<u64>,
}

impl Check for History {}

/// The last hour, as far as the process is old.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "server.history.result")]
pub struct Past {
    /// Time from a value to the next one, ms.
    pub step_ms: u64,
    /// When the first value was, ms since 1970; 0 = there is none.
    pub from: u64,
    /// Values of each figure; null = nobody looked then. A second: `appends` (messages), `deliveries`, `requests`,
    /// `refusals`, `reads` (of the store), `syncs`, `received_bytes`, `sent_bytes`, `cpu` (processors in use). At that
    /// time: `connections`, `subscriptions`, `in_flight` (requests), `queue` (writes that wait), `memory_bytes`,
    /// `used_bytes` and of these `dead_bytes`, `log_bytes`, `disk_free_bytes`, `feed_lag_s`, `relay_lag_s`.
    pub series: BTreeMap<String, Vec<Option<f64>>>,
    /// How long `message.append` took.
    pub append_seconds: Buckets,
}

/// A histogram as time goes by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "server_buckets")]
pub struct Buckets {
    /// Upper bounds of the buckets, seconds.
    pub bounds: Vec<f64>,
    /// Of each step the calls by bucket; the last bucket is that above all bounds.
    pub counts: Vec<Option<Vec<u64>>>,
}
