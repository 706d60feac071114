//! Finding messages and timelines by their words: the shapes that the engine and the wire share.
//!
//! Owns: what is asked and how it is answered, the limits of both, and the definitions of the two
//! indexes. Promises: nothing of an answer tells of a
//! message that was not found. Must not: know an index or a caller.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Field, FieldType, SearchIndex, SearchSchema};
use crate::timelines::FeedMessage;
use tideline_base::ids::TableId;

/// The names of the indexes of all messages and of all timelines; no index that users make has such a name.
pub const MESSAGE_INDEX: &str = "$messages";
/// See [`MESSAGE_INDEX`].
pub const TIMELINE_INDEX: &str = "$timelines";
/// Names that messages can be asked for by.
pub const WHERE_NAMES_MAX: usize = 64;

/// The names of the fields of both indexes, in their order.
pub mod fields {
    /// All words.
    pub const WORDS: &str = "words";
    /// The timeline's ID.
    pub const TIMELINE: &str = "timeline";
    /// The message's number.
    pub const SEQUENCE: &str = "sequence";
    /// Its sender.
    pub const SENDER: &str = "sender";
    /// When it expires, ms since 1970.
    pub const EXPIRES: &str = "expires";
    /// Values by their names.
    pub const WHERE: &str = "where";
}

/// The index of all messages, which can be asked for by these names.
#[must_use]
pub fn message_index(names: &[String]) -> SearchIndex {
    // Names in another order are the same index.
    let mut sorted: Vec<&String> = names.iter().collect();
    sorted.sort_unstable();
    sorted.dedup();
    let mut number = IDS_FROM;
    for name in &sorted {
        for byte in name.bytes().chain([0]) {
            // FNV-1a: another list of names is another index, which is filled anew.
            number = (number ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        }
    }
    let id = (number | IDS_FROM) & !1;
    let names = sorted.into_iter();
    let names = names.map(|name| Field::new(name, FieldType::Keyword));
    index(id, MESSAGE_INDEX, names.collect())
}

/// The index of all timelines.
#[must_use]
pub fn timeline_index() -> SearchIndex {
    index(IDS_FROM | 1, TIMELINE_INDEX, Vec::new())
}

/// Tables that users make have lower numbers.
const IDS_FROM: u32 = 1 << 31;

fn index(id: u32, name: &str, names: Vec<Field>) -> SearchIndex {
    let values = Field {
        is_array: true,
        fields: names,
        ..Field::new(fields::WHERE, FieldType::Keyword)
    };
    let fields = vec![
        Field::new(fields::WORDS, FieldType::Text),
        Field::new(fields::TIMELINE, FieldType::Keyword),
        Field::new(fields::SEQUENCE, FieldType::Long),
        Field::new(fields::SENDER, FieldType::Keyword),
        Field::new(fields::EXPIRES, FieldType::Long),
        values,
    ];
    SearchIndex {
        id: TableId(id),
        name: name.to_owned(),
        schema: SearchSchema {
            fields,
            ..SearchSchema::default()
        },
        time_to_live_s: -1,
        created_us: 0,
    }
}

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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "search_text")]
pub struct FoundText {
    /// The name in the entry that the text is of, or in whose value it is.
    pub name: String,
    /// The piece, cut where words begin and end. Joined it reads as in the text.
    pub parts: Vec<FoundPart>,
}

/// A part of a piece.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "search_part")]
pub struct FoundPart {
    /// The text.
    pub text: String,
    /// It is what was looked for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hit: bool,
}
