//! The webhook family, for back ends: list, dead, replay.
//!
//! Owns: parameters and results of these methods. Promises: names, positions and limits are checked when they leave
//! here. Must not: show a secret.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::check::{self, Check};
use super::super::failure::Failure;
use super::super::limits::Limits;
use super::super::params::page_default;
use super::super::schema::rules;
use super::super::tables::stream::POSITION_BYTES_MAX;
pub use tideline_model::server::{DeadLetter, Failing};

/// Bytes of a webhook's name.
const NAME_BYTES_MAX: usize = 40;

/// Asks for all webhooks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "webhook.list.params")]
pub struct List {}

impl Check for List {}

/// All webhooks, in the order of the configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "webhook.list.result")]
pub struct Listed {
    /// How each is doing.
    pub webhooks: Vec<Webhook>,
}

/// A webhook.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "webhook")]
pub struct Webhook {
    /// Its name.
    pub name: String,
    /// Where it posts, without a query.
    pub url: String,
    /// Of timelines: how their IDs begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timelines: Option<String>,
    /// Of a table: its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// Behind what its receiver has taken; absent = it has not begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<String>,
    /// Commits of what it follows that it has not passed. Behind the first MiB of the log all commits count.
    pub behind: u64,
    /// How long ago the first of them was, ms; 0 = there is none.
    pub lag_ms: u64,
    /// Dead letters.
    pub dead: u64,
    /// Its receiver does not take what it is sent; absent = it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failing: Option<Failing>,
}

/// Asks for the dead letters of a webhook: changes that its receiver did not take in time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "webhook.dead.params")]
pub struct Dead {
    /// The webhook's name.
    #[schemars(length(min = 1, max = 40))]
    pub name: String,
    /// Only above this number: `next` of the page before.
    pub after: Option<u64>,
    /// Dead letters at most; clamped to 50.
    #[serde(default = "page_default")]
    #[schemars(range(min = 1))]
    pub limit: u64,
}

impl Check for Dead {
    fn check(&mut self, limits: &Limits) -> Result<(), Failure> {
        check::bytes_between("name", &self.name, NAME_BYTES_MAX)?;
        check::page_limit(&mut self.limit, limits)?;
        // Each has two positions, and a page fits into a frame.
        self.limit = self.limit.min(50);
        Ok(())
    }
}

/// A page of dead letters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "webhook.dead.result")]
pub struct DeadPage {
    /// In the order of their numbers.
    pub dead: Vec<DeadLetter>,
    /// What to pass as `after` for the next page; absent = that was all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// Has a webhook post again: everything behind a position, or one dead letter, which goes away when it is taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(
    rename = "webhook.replay.params",
    transform = rules::one_of([rules::given("position"), rules::given("dead")]),
)]
pub struct Replay {
    /// The webhook's name.
    #[schemars(length(min = 1, max = 40))]
    pub name: String,
    /// Everything behind this position; or `dead`.
    #[schemars(length(min = 1, max = 4096))]
    pub position: Option<String>,
    /// The dead letter of this number, once.
    pub dead: Option<u64>,
}

impl Check for Replay {
    fn check(&mut self, _: &Limits) -> Result<(), Failure> {
        check::bytes_between("name", &self.name, NAME_BYTES_MAX)?;
        match (&self.position, self.dead) {
            (Some(position), None) => {
                check::bytes_between("position", position, POSITION_BYTES_MAX)
            }
            (None, Some(_)) => Ok(()),
            _ => Err(Failure::invalid("position", "either position or dead")),
        }
    }
}

/// It is going to be posted again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "webhook.replay.result")]
pub struct Replaying {}
