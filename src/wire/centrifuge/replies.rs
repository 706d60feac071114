//! What the server says: replies and pushes.
//!
//! Owns: field numbers and names of what goes out. Promises: the same struct is written as JSON and as protobuf;
//! defaults are left out, except where SDKs look for a field in any case. Must not: decide anything.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message;
use serde::{Deserialize, Serialize};

use super::payload::{self, is_default};

/// An answer, or without an id a push. With nothing in it: a ping.
#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Reply {
    #[prost(uint32, tag = "1")]
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) id: u32,
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<Error>,
    #[prost(message, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) push: Option<Push>,
    #[prost(message, optional, tag = "5")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) connect: Option<ConnectResult>,
    #[prost(message, optional, tag = "6")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) subscribe: Option<SubscribeResult>,
    #[prost(message, optional, tag = "7")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unsubscribe: Option<Empty>,
    #[prost(message, optional, tag = "8")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) publish: Option<Empty>,
    #[prost(message, optional, tag = "9")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) presence: Option<PresenceResult>,
    #[prost(message, optional, tag = "10")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) presence_stats: Option<PresenceStatsResult>,
    #[prost(message, optional, tag = "11")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) history: Option<HistoryResult>,
    #[prost(message, optional, tag = "13")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rpc: Option<RpcResult>,
    #[prost(message, optional, tag = "14")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) refresh: Option<RefreshResult>,
    #[prost(message, optional, tag = "15")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sub_refresh: Option<SubRefreshResult>,
}

impl Reply {
    /// A push.
    pub(crate) fn of(push: Push) -> Reply {
        Reply {
            push: Some(push),
            ..Reply::default()
        }
    }

    /// A refusal.
    pub(crate) fn refused(error: impl Into<Error>) -> Reply {
        Reply {
            error: Some(error.into()),
            ..Reply::default()
        }
    }
}

/// What is said in place of a result. A request that is taken and has no result to speak of gets one of these, too.
#[derive(Clone, Copy, PartialEq, Message, Serialize, Deserialize)]
pub(crate) struct Empty {}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Error {
    #[prost(uint32, tag = "1")]
    pub(crate) code: u32,
    /// Never empty.
    #[prost(string, tag = "2")]
    pub(crate) message: String,
    #[prost(bool, tag = "3")]
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) temporary: bool,
}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ConnectResult {
    #[prost(string, tag = "1")]
    pub(crate) client: String,
    #[prost(string, tag = "2")]
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) version: String,
    #[prost(bool, tag = "3")]
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) expires: bool,
    /// Seconds.
    #[prost(uint32, tag = "4")]
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) ttl: u32,
    #[prost(bytes = "bytes", tag = "5")]
    #[serde(with = "payload", skip_serializing_if = "is_default")]
    pub(crate) data: Bytes,
    #[prost(btree_map = "string, message", tag = "6")]
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) subs: BTreeMap<String, SubscribeResult>,
    /// Seconds between two pings.
    #[prost(uint32, tag = "7")]
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) ping: u32,
    #[prost(bool, tag = "8")]
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) pong: bool,
    #[prost(string, tag = "9")]
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) session: String,
    #[prost(string, tag = "10")]
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) node: String,
}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SubscribeResult {
    #[prost(bool, tag = "1")]
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) expires: bool,
    #[prost(uint32, tag = "2")]
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) ttl: u32,
    #[prost(bool, tag = "3")]
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) recoverable: bool,
    #[prost(string, tag = "6")]
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) epoch: String,
    #[prost(message, repeated, tag = "7")]
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) publications: Vec<Publication>,
    #[prost(bool, tag = "8")]
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) recovered: bool,
    /// Where the client is before `publications`.
    #[prost(uint64, tag = "9")]
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) offset: u64,
    #[prost(bool, tag = "10")]
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) positioned: bool,
    #[prost(bytes = "bytes", tag = "11")]
    #[serde(with = "payload", skip_serializing_if = "is_default")]
    pub(crate) data: Bytes,
    #[prost(bool, tag = "12")]
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) was_recovering: bool,
    #[prost(bool, tag = "13")]
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) delta: bool,
}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Publication {
    #[prost(bytes = "bytes", tag = "4")]
    #[serde(with = "payload", skip_serializing_if = "is_default")]
    pub(crate) data: Bytes,
    #[prost(message, optional, tag = "5")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) info: Option<ClientInfo>,
    #[prost(uint64, tag = "6")]
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) offset: u64,
    #[prost(btree_map = "string, string", tag = "7")]
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) tags: BTreeMap<String, String>,
    /// `data` is a delta.
    #[prost(bool, tag = "8")]
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) delta: bool,
}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ClientInfo {
    #[prost(string, tag = "1")]
    pub(crate) user: String,
    #[prost(string, tag = "2")]
    pub(crate) client: String,
    #[prost(bytes = "bytes", tag = "3")]
    #[serde(with = "payload", skip_serializing_if = "is_default")]
    pub(crate) conn_info: Bytes,
    #[prost(bytes = "bytes", tag = "4")]
    #[serde(with = "payload", skip_serializing_if = "is_default")]
    pub(crate) chan_info: Bytes,
}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct PresenceResult {
    #[prost(btree_map = "string, message", tag = "1")]
    pub(crate) presence: BTreeMap<String, ClientInfo>,
}

#[derive(Clone, Copy, PartialEq, Message, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct PresenceStatsResult {
    #[prost(uint32, tag = "1")]
    pub(crate) num_clients: u32,
    #[prost(uint32, tag = "2")]
    pub(crate) num_users: u32,
}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct HistoryResult {
    #[prost(message, repeated, tag = "1")]
    pub(crate) publications: Vec<Publication>,
    #[prost(string, tag = "2")]
    pub(crate) epoch: String,
    /// Of the newest publication, whichever were asked for.
    #[prost(uint64, tag = "3")]
    pub(crate) offset: u64,
}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RpcResult {
    #[prost(bytes = "bytes", tag = "1")]
    #[serde(with = "payload", skip_serializing_if = "is_default")]
    pub(crate) data: Bytes,
}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RefreshResult {
    #[prost(string, tag = "1")]
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) client: String,
    #[prost(string, tag = "2")]
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) version: String,
    #[prost(bool, tag = "3")]
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) expires: bool,
    #[prost(uint32, tag = "4")]
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) ttl: u32,
}

#[derive(Clone, Copy, PartialEq, Message, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SubRefreshResult {
    #[prost(bool, tag = "1")]
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) expires: bool,
    #[prost(uint32, tag = "2")]
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) ttl: u32,
}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Push {
    #[prost(string, tag = "2")]
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) channel: String,
    /// `pub`, which is a word of Rust.
    #[prost(message, optional, tag = "4")]
    #[serde(rename = "pub", skip_serializing_if = "Option::is_none")]
    pub(crate) publication: Option<Publication>,
    #[prost(message, optional, tag = "5")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) join: Option<Passing>,
    #[prost(message, optional, tag = "6")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) leave: Option<Passing>,
    #[prost(message, optional, tag = "7")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unsubscribe: Option<Unsubscribe>,
    #[prost(message, optional, tag = "9")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) subscribe: Option<Subscribe>,
    /// What on a WebSocket its close says.
    #[prost(message, optional, tag = "11")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) disconnect: Option<Closing>,
}

/// Why the server closes.
#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Closing {
    #[prost(uint32, tag = "1")]
    pub(crate) code: u32,
    /// Never empty.
    #[prost(string, tag = "2")]
    pub(crate) reason: String,
}

/// Who came or went.
#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Passing {
    #[prost(message, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) info: Option<ClientInfo>,
}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Unsubscribe {
    #[prost(uint32, tag = "2")]
    pub(crate) code: u32,
    /// Never empty.
    #[prost(string, tag = "3")]
    pub(crate) reason: String,
}

/// The server has subscribed the client.
#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Subscribe {
    #[prost(bool, tag = "1")]
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) recoverable: bool,
    #[prost(string, tag = "4")]
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) epoch: String,
    #[prost(uint64, tag = "5")]
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) offset: u64,
    #[prost(bool, tag = "6")]
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) positioned: bool,
    #[prost(bytes = "bytes", tag = "7")]
    #[serde(with = "payload", skip_serializing_if = "is_default")]
    pub(crate) data: Bytes,
}
