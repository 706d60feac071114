//! The partition family, for operators: list, split, merge.
//!
//! Owns: parameters and results of these methods. Promises: numbers are checked when they leave here. Must not: know
//! how a partition is made.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::Check;
use super::failure::Failure;
use super::limits::Limits;

/// Asks for all partitions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "partition.list.params")]
pub struct List {}

impl Check for List {
    fn check(&mut self, _: &Limits) -> Result<(), Failure> {
        Ok(())
    }
}

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

impl Check for Split {
    fn check(&mut self, _: &Limits) -> Result<(), Failure> {
        Ok(())
    }
}

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

impl Check for Merge {
    fn check(&mut self, _: &Limits) -> Result<(), Failure> {
        Ok(())
    }
}

/// It has begun. `partition.list` says how far it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "partition.split.result")]
pub struct Begun {}
