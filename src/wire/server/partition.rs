//! The partition family, for operators: list, split, merge.
//!
//! Owns: parameters and results of these methods. Promises: numbers are checked when they leave here. Must not: know
//! how a partition is made.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::check::Check;
use tideline_model::server::Holder;

/// Asks for all partitions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "partition.list.params")]
pub struct List {}

impl Check for List {}

/// All partitions, and the last change of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "partition.list.result")]
pub struct Listed {
    /// Those that are served, and those that have ended and whose logs are kept for readers of changes; parents before
    /// children.
    pub partitions: Vec<Partition>,
    /// The change that is under way, or the last one since the server's start; absent = there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
}

/// A partition: a range of the hashes of keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "partition")]
pub struct Partition {
    /// Its number, which is never used again.
    pub partition: u16,
    /// The lowest hash that it owns, or owned: 16 hexadecimal digits.
    pub first: String,
    /// The highest one.
    pub last: String,
    /// Whose keys it took over; empty = it was there from the beginning.
    pub parents: Vec<u16>,
    /// The first position of its log.
    pub begins: u64,
    /// The last one; absent = it is served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ends: Option<u64>,
    /// About the bytes of its rows; 0 = it has ended.
    pub bytes: u64,
    /// The bytes of its log.
    pub log_bytes: u64,
    /// Whether it takes writes.
    pub state: PartitionState,
    /// Why it does not, or why it is slowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its log. This and what follows are absent where it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<PartitionLog>,
    /// Writes that wait for its writer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<PartitionQueue>,
    /// What is not in the image yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memtable: Option<PartitionMemtable>,
    /// Its sorted runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<PartitionImage>,
    /// Pushes to subscribers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feed: Option<PartitionFeed>,
    /// What its changes lead to in other partitions: lists, inboxes, followers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relay: Option<PartitionRelay>,
    /// Messages for more than 1,000 users that are not in all of their inboxes yet, up to 1,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jobs: Option<u64>,
}

/// Whether a partition takes writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "partition_state")]
pub enum PartitionState {
    /// It does.
    Serving,
    /// It does, but slower, because flush, compaction, a split or a merge are behind.
    Slowed,
    /// Writes get `busy`, because flush and compaction are too far behind.
    Busy,
    /// Writes get `storage_full`, because the disk has no room.
    Full,
    /// Writes get `unavailable` until the server's restart, after a failure of the disk.
    Stopped,
    /// Others have taken its keys over. Its log is kept for readers of changes.
    Ended,
}

/// The commit log of a partition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "partition_log")]
pub struct PartitionLog {
    /// The newest batch.
    pub position: u64,
    /// The oldest batch that is kept.
    pub oldest: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Who has batches kept that the log would let go of some time, furthest behind first; those who are at the newest
    /// batch are left out.
    pub holds: Vec<PartitionHold>,
}

/// Somebody who has a log kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "partition_hold")]
pub struct PartitionHold {
    /// Who.
    pub by: Holder,
    /// All batches above this position are kept.
    pub position: u64,
}

/// Writes that wait for a partition's writer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "partition_queue")]
pub struct PartitionQueue {
    /// How many.
    pub writes: u64,
    /// What they hold.
    pub bytes: u64,
    /// How full the queue is, in writes or bytes, 0 to 1.
    pub fill: f64,
}

/// A partition's memtables.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "partition_memtable")]
pub struct PartitionMemtable {
    /// Bytes that are not flushed yet.
    pub bytes: u64,
    /// Full memtables that wait for their flush.
    pub frozen: u64,
}

/// A partition's sorted runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "partition_image")]
pub struct PartitionImage {
    /// How many.
    pub runs: u64,
    /// Of these, flushed memtables that no merge has taken yet.
    pub level0: u64,
    /// Bytes of their pages.
    pub used: u64,
    /// Of these, bytes of what has expired or was deleted, as far as that is known.
    pub dead: u64,
}

/// A partition's pushes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "partition_feed")]
pub struct PartitionFeed {
    /// The age of the oldest batch that is not pushed yet, ms; 0 = there is none.
    pub lag_ms: u64,
}

/// What is derived from a partition's changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "partition_relay")]
pub struct PartitionRelay {
    /// The age of the oldest batch that is not derived and written everywhere, ms; 0 = there is none.
    pub lag_ms: u64,
    /// Bytes that are left to read and to write for it.
    pub backlog: u64,
}

/// A change of the partitions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "partition_change")]
pub struct Change {
    /// Those that end by it: one is split, two become one.
    pub partitions: Vec<u16>,
    /// When it was asked for, ms.
    pub since: u64,
    /// How far it is.
    pub state: ChangeState,
    /// How often calls have waited in vain, because what changes lead to elsewhere was not written in time.
    pub given_up: u64,
    /// For how long calls have waited, ms; absent = it is not done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause_ms: Option<u64>,
    /// Why it has failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// How far a change is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "partition_change_state")]
pub enum ChangeState {
    /// What there was at its beginning is written anew.
    Copying,
    /// What has come since is taken over.
    CatchingUp,
    /// Calls wait while the new partitions take over.
    Cutting,
    /// The new partitions are served.
    Done,
    /// All is as it was before.
    Failed,
}

/// Begins to make two partitions of one, each with half of its hashes, while it is served.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "partition.split.params")]
pub struct Split {
    /// The partition's number.
    pub partition: u16,
}

impl Check for Split {}

/// Begins to make one partition of two that own hashes beside each other, while they are served.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "partition.merge.params")]
pub struct Merge {
    /// The number of one of them.
    pub partition: u16,
    /// The number of the other.
    pub with: u16,
}

impl Check for Merge {}

/// It has begun. `partition.list` says how far it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "partition.split.result")]
pub struct Begun {}
