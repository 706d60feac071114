//! The vocabulary of how the server is: what its layers report is what operators get.
//!
//! Owns: notices, what there is on the disk, for whom a log is kept, and what webhooks could not post. Promises: a type
//! here serialises as the protocol says, and is its schema. Must not: know where a figure comes from.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something that is wrong, or will be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "server_notice")]
pub struct Notice {
    /// How bad it is.
    pub severity: Severity,
    /// When it was first seen, ms since 1970.
    pub since: u64,
    /// What it is, in a sentence.
    pub what: String,
    /// What to do about it.
    pub advice: String,
}

/// How bad something is.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "server_severity")]
pub enum Severity {
    /// The server does not do what it is there for, or soon will not.
    Critical,
    /// It does, but somebody should look.
    Warning,
    /// Worth knowing.
    Info,
}

/// What there is on the disk, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "server_storage")]
pub struct Storage {
    /// Of rows that count.
    pub live: u64,
    /// Of rows that have expired or were deleted, as far as that is known; compaction reclaims them.
    pub dead: u64,
    /// Of pages that hold nothing and are used again.
    pub free: u64,
    /// Of the commit logs.
    pub log: u64,
    /// What an ordinary user may still write, as `df` shows; absent = not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_free: Option<u64>,
    /// The whole disk; only for the rules.
    #[serde(skip)]
    pub disk_bytes: Option<u64>,
    /// Seconds until there is no room, if the server writes as in the last hour; absent = not within a year, or the
    /// server has run for less than ten minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full_in_s: Option<u64>,
}

/// Who may have a log kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "partition_holder")]
pub enum Holder {
    /// What changes lead to in other partitions.
    Relay,
    /// Readers of streams, named cursors, webhooks: `stream.cursors` says which.
    Streams,
    /// A split or a merge.
    Reshape,
    /// A backup that is being made.
    Backup,
    /// Search indexes.
    Search,
}

/// A receiver that does not take what it is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "webhook_failing")]
pub struct Failing {
    /// Since when, ms.
    pub since: u64,
    /// How often it was tried.
    pub attempts: u64,
    /// What came of the last attempt.
    pub error: String,
}

/// Changes that a receiver did not take in time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "dead_letter")]
pub struct DeadLetter {
    /// Its number among the webhook's.
    pub number: u64,
    /// The position before its changes.
    pub from: String,
    /// The position behind them.
    pub to: String,
    /// How many there are; 0 = not known, the log had let go of them.
    pub changes: u64,
    /// Why the last attempt failed.
    pub error: String,
    /// When that was, ms.
    pub failed_at: u64,
    /// It waits to be posted again.
    pub replaying: bool,
}
