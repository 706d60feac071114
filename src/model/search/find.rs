//! Finding messages and timelines by their words: the shapes that the engine and the wire share.
//!
//! Owns: what is asked and how it is answered, and the limits of both. Promises: nothing of an answer tells of a
//! message that was not found. Must not: know an index or a caller.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::timelines::FeedMessage;

/// Bytes of a query.
pub const QUERY_BYTES_MAX: usize = 1_024;
/// Timelines that a search names.
pub const FIND_TIMELINES_MAX: usize = 100;
/// Conditions of a search.
pub const FIND_WHERE_MAX: usize = 16;
/// Bytes of a text that a condition compares with. A longer value of an entry fulfils none.
pub const WHERE_BYTES_MAX: usize = 1_024;
/// Messages or timelines of a page.
pub const FIND_LIMIT_MAX: usize = 100;

/// The order of found messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "search_order")]
pub enum FindOrder {
    /// The newest first; of one time by timeline, then the highest sequence first.
    #[default]
    Newest,
    /// Those first that are most about the words.
    Best,
}

/// A found message: as it is in its timeline now, and where in it the words are.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "search_message")]
pub struct FoundMessage {
    /// The timeline's ID.
    pub timeline: String,
    /// The timeline's epoch.
    pub epoch: String,
    /// The message.
    pub message: crate::timelines::Message,
    /// Pieces of its texts around the words, a few at most; none if the query has no words.
    pub found: Vec<FoundText>,
}

impl From<FeedMessage> for FoundMessage {
    fn from(message: FeedMessage) -> FoundMessage {
        FoundMessage {
            timeline: message.timeline,
            epoch: message.epoch,
            message: message.message,
            found: Vec::new(),
        }
    }
}

/// A piece of a text in an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "search_text")]
pub struct FoundText {
    /// The name in the entry that the text is of, or in whose value it is.
    pub name: String,
    /// The piece, cut where words begin and end. Joined it reads as in the text.
    pub parts: Vec<FoundPart>,
}

/// A part of a piece.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "search_part")]
pub struct FoundPart {
    /// The text.
    pub text: String,
    /// It is what was looked for.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hit: bool,
}
