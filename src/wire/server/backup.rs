//! The backup family, for administrators: start, status, cancel.
//!
//! Owns: parameters and results of these methods. Promises: a target that leaves here is a plain name, so it leads out
//! of no folder. Must not: know where backups go.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::check::Check;
use super::super::failure::Failure;
use super::super::limits::Limits;
use super::super::schema::rules;

/// Begins a backup of all partitions, while they are served.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "backup.start.params")]
pub struct Start {
    /// The folder that it goes to, below `backup_directory`, or `backup_bucket` where that is set: 1 to 64 letters,
    /// digits, `.`, `_` and `-`, and no `.` at the beginning. Made if it is not there.
    #[schemars(length(min = 1, max = 64), regex(pattern = rules::FOLDER))]
    pub target: String,
    /// Whether all is copied, also what is the same in the backup before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub full: bool,
    /// Bytes a second at most, 0 = no bound; absent = as `backup_bytes_per_s` says.
    pub bytes_per_s: Option<u64>,
}

impl Check for Start {
    fn check(&mut self, _: &Limits) -> Result<(), Failure> {
        let is_sign = |sign: char| sign.is_ascii_alphanumeric() || "._-".contains(sign);
        let is_plain = (1..=64).contains(&self.target.len())
            && !self.target.starts_with('.')
            && self.target.chars().all(is_sign);
        match is_plain {
            true => Ok(()),
            false => Err(Failure::invalid(
                "target",
                "1 to 64 letters, digits, '.', '_' and '-', and no '.' at the beginning",
            )),
        }
    }
}

/// It has begun. `backup.status` says how far it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "backup.start.result")]
pub struct Begun {}

/// Asks for the backup that is being made, or the last one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "backup.status.params")]
pub struct Status {}

impl Check for Status {}

/// How far it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "backup.status.result")]
pub struct StatusNow {
    /// Absent = none was asked for since the server's start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup: Option<Backup>,
}

/// A backup that was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "backup")]
pub struct Backup {
    /// The folder that it goes to.
    pub target: String,
    /// When it was asked for, ms.
    pub since: u64,
    /// How far it is.
    pub state: BackupState,
    /// Bytes that were copied.
    pub done: u64,
    /// About how many there are to copy.
    pub total: u64,
    /// Where it is: a folder on the server's machine, or `s3://…`; absent = it is not made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The moment that it shows, ms: later writes are not in it. Absent = it is not made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub as_of: Option<u64>,
    /// Its bytes; absent = it is not made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Of these, the bytes that no backup before it has; absent = it is not made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_bytes: Option<u64>,
    /// Why it has failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// How far a backup is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "backup_state")]
pub enum BackupState {
    /// It waits until a split or merge of partitions is done.
    Waiting,
    /// Images and logs are copied.
    Copying,
    /// The copy is read once.
    Verifying,
    /// The copy is sent to `backup_bucket`; `done` and `total` are of the bytes that are not there yet.
    Sending,
    /// It is made.
    Done,
    /// It was cancelled, and nothing of it is left.
    Cancelled,
    /// It was not made, and nothing of it is left.
    Failed,
}

/// Ends the backup that is being made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "backup.cancel.params")]
pub struct Cancel {}

impl Check for Cancel {}

/// It ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "backup.cancel.result")]
pub struct Cancelled {
    /// Whether one was being made.
    pub cancelled: bool,
}
