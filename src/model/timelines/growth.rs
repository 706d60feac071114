//! Messages that grow: what is said of one that is open, and how one ends.
//!
//! Owns: these words. Must not: say who may grow or end a message.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::json_text_bytes;

/// What an open message grows in, and by when. Clients get [`Shown`] in its place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Open {
    /// The column whose text grows.
    pub column: String,
    /// Without a part for so long it is abandoned, ms.
    pub idle_ms: u64,
}

/// The column that grows, if nobody says otherwise.
pub const TEXT: &str = "text";

/// That a message is open, as clients are shown it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "MessageOpen")]
pub(super) enum Shown {
    /// `true`: its column `text` grows.
    Text(bool),
    /// Another one grows.
    Other(Column),
}

/// What grows of an open message.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "MessageOpenColumn")]
pub(super) struct Column {
    /// The column.
    column: String,
}

/// How a message that was open has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It is whole.
    #[default]
    Done,
    /// Somebody stopped it, or its sender gave it up.
    Cancelled,
    /// Its sender could not go on, or did not say anything any more.
    Failed,
}

impl Outcome {
    /// Its text on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Done => "done",
            Outcome::Cancelled => "cancelled",
            Outcome::Failed => "failed",
        }
    }
}

/// What came of an open message since a reader's place in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Grown {
    /// The message's number.
    pub sequence: u64,
    /// The first of these parts.
    pub from: u64,
    /// The last of them.
    pub parts: u64,
    /// Their texts, one behind the other.
    pub text: String,
}

impl Grown {
    /// Bytes in JSON at most, with this text.
    #[must_use]
    pub fn json_bytes_max(text: &str) -> usize {
        const FRAME: usize = 96;
        FRAME + json_text_bytes(text)
    }
}

/// [`Open`] as clients have it: `true`, or nothing.
pub(super) mod open_flag {
    use serde::{Deserialize, Deserializer, Serialize as _, Serializer};

    use super::{Column, Open, Shown, TEXT};

    #[allow(clippy::ref_option)] // as serde calls it
    pub(in super::super) fn serialize<S: Serializer>(
        open: &Option<Box<Open>>,
        into: S,
    ) -> Result<S::Ok, S::Error> {
        let shown = match open.as_deref() {
            Some(open) if open.column != TEXT => Shown::Other(Column {
                column: open.column.clone(),
            }),
            open => Shown::Text(open.is_some()),
        };
        shown.serialize(into)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Box<Open>>, D::Error> {
        let column = match Shown::deserialize(from)? {
            Shown::Text(false) => return Ok(None),
            Shown::Text(true) => TEXT.to_owned(),
            Shown::Other(Column { column }) => column,
        };
        Ok(Some(Box::new(Open { column, idle_ms: 0 })))
    }
}
