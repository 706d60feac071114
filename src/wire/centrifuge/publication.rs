//! A publication as a message of a timeline, and back.
//!
//! Owns: the columns of a publication. Promises: its bytes come back as they came, whatever they are; a native reader
//! sees JSON as JSON and other bytes as binary; what was appended natively is shown as its compact JSON. Must not: know
//! who may publish.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::super::messages::entry::{Columns, Entry};
use super::super::messages::message::Message;
use super::super::messages::nested;
use super::payload;
use super::replies::{ClientInfo, Publication};
use crate::check;
use crate::failure::Failure;
use crate::limits::Limits;
use tideline_base::decode;
use tideline_model::Value;

/// The column that holds what was published.
pub(crate) const COLUMN: &str = "publication";
/// What its publisher's tokens say of it, if they do: `{"conn_info": …, "chan_info": …}`.
const INFO_COLUMN: &str = "publication_info";
/// Its tags, if it has any.
const TAGS_COLUMN: &str = "publication_tags";

/// What message IDs of a client's publications begin with.
const BY_CLIENT: &str = "cf:";

/// What is published.
#[derive(Clone, Debug, Default)]
pub struct Published {
    /// As it came.
    pub data: Bytes,
    /// The data came as JSON, on one line.
    pub is_json: bool,
    /// What tokens say of its publisher.
    pub info: ClientInfo,
    /// As they came.
    pub tags: BTreeMap<String, String>,
    /// `None` = the server makes one.
    pub message_id: Option<String>,
}

impl Published {
    /// The columns of its message, and the message ID. Refuses what could not be appended as an entry.
    pub fn entry(
        self,
        channel: &str,
        limits: &Limits,
    ) -> Result<(Columns, Option<String>), Failure> {
        let depth_max = limits.value_depth_max();
        let data = value(self.data, self.is_json, depth_max);
        let mut columns = vec![(COLUMN.to_owned(), data)];
        if !(self.info.conn_info.is_empty() && self.info.chan_info.is_empty()) {
            let shown = ClientInfo {
                user: String::new(),
                client: String::new(),
                ..self.info
            };
            let text = serde_json::to_vec(&shown).expect("texts, into memory");
            columns.push((INFO_COLUMN.to_owned(), value(text.into(), true, depth_max)));
        }
        if !self.tags.is_empty() {
            let text = serde_json::to_string(&self.tags).expect("a map of texts, into memory");
            columns.push((TAGS_COLUMN.to_owned(), Value::Json(text)));
        }
        check::timeline_to_write(channel)?;
        let message_id = self.message_id;
        check::message_id(|| "idempotency_key".to_owned(), message_id.as_deref())?;
        check::entry("data", &Entry::from(&columns), limits)?;
        Ok((columns, message_id))
    }
}

/// JSON for native readers, where they can take it as it is: on one line, not deep, and nothing that they would refuse.
fn value(data: Bytes, is_json: bool, depth_max: u64) -> Value {
    let is_line = match is_json {
        true => decode::deeper_than(depth_max, &data).is_none(),
        false => payload::is_line(&data, depth_max),
    };
    let text = std::str::from_utf8(&data).ok().filter(|_| is_line);
    match text.is_some_and(|text| nested::check(text).is_ok()) {
        true => Value::Json(String::from_utf8(data.into()).expect("just looked at")),
        false => Value::Binary(data),
    }
}

/// Refuses what could not be a timeline.
pub fn check_channel(channel: &str) -> Result<(), Failure> {
    check::timeline(channel)
}

/// The message ID of a client's publication of so many before it on this connection.
pub fn message_id(client: &str, number: u64) -> String {
    let client: String = client.chars().filter(|one| *one != '-').collect();
    format!("{BY_CLIENT}{client}:{number}")
}

/// The client whose publication has a message ID.
fn client_of(message_id: &str) -> Option<String> {
    let (client, _) = message_id.strip_prefix(BY_CLIENT)?.split_once(':')?;
    let client = uuid::Uuid::try_parse(client).ok()?;
    Some(client.hyphenated().to_string())
}

/// A message as a publication; `None` = there is nothing to show of it any more.
pub fn shown(message: &Message) -> Option<Publication> {
    let entry = message.entry.as_ref()?;
    let of = |name: &str| {
        let found = entry.iter().find(|(column, _)| column == name);
        found.map(|(_, value)| value)
    };
    let is_ours =
        |(name, _): &(String, Value)| [COLUMN, INFO_COLUMN, TAGS_COLUMN].contains(&name.as_str());
    let mut publication = Publication {
        offset: message.sequence,
        ..Publication::default()
    };
    match of(COLUMN) {
        Some(data) if entry.iter().all(is_ours) => {
            publication.data = bytes(data);
            let tags = of(TAGS_COLUMN).map(|tags| decode::from_slice(&bytes(tags)).ok());
            publication.tags = tags.flatten().unwrap_or_default();
            let client = client_of(&message.message_id);
            publication.info = client.map(|client| {
                let info = of(INFO_COLUMN).map(|info| decode::from_slice(&bytes(info)).ok());
                let info: ClientInfo = info.flatten().unwrap_or_default();
                ClientInfo {
                    user: user_of(&message.sender).to_owned(),
                    client,
                    ..info
                }
            });
        }
        _ => {
            let text = serde_json::to_vec(&Entry::from(entry)).expect("columns, into memory");
            publication.data = Bytes::from(text);
        }
    }
    Some(publication)
}

/// The sender of messages of those who have shown no token.
pub const ANONYMOUS: &str = "$anonymous";

fn user_of(sender: &str) -> &str {
    match sender == ANONYMOUS {
        true => "",
        false => sender,
    }
}

fn bytes(value: &Value) -> Bytes {
    match value {
        Value::Json(text) => Bytes::copy_from_slice(text.as_bytes()),
        Value::Binary(bytes) => bytes.clone(),
        Value::String(text) => Bytes::from(serde_json::to_vec(text).expect("a text, into memory")),
        Value::Integer(number) => Bytes::from(number.to_string()),
        Value::Double(number) => {
            Bytes::from(serde_json::to_vec(number).expect("a number, into memory"))
        }
        Value::Boolean(truth) => Bytes::from(truth.to_string()),
    }
}
