//! What clients say: commands.
//!
//! Owns: field numbers and names of what comes in. Promises: the same struct is read from JSON and from protobuf;
//! unknown fields are passed over; `null` counts as absent. Must not: check values.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message;
use serde::{Deserialize, Serialize};

use super::payload::{self, is_default};
use super::replies::Empty;
use crate::wire::params::or_default;

/// One command; the first of its requests counts. One with neither an id nor a request is a pong.
#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Command {
    #[prost(uint32, tag = "1")]
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub(crate) id: u32,
    #[prost(message, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) connect: Option<ConnectRequest>,
    #[prost(message, optional, tag = "5")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) subscribe: Option<SubscribeRequest>,
    #[prost(message, optional, tag = "6")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unsubscribe: Option<ChannelRequest>,
    #[prost(message, optional, tag = "7")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) publish: Option<PublishRequest>,
    #[prost(message, optional, tag = "8")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) presence: Option<ChannelRequest>,
    #[prost(message, optional, tag = "9")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) presence_stats: Option<ChannelRequest>,
    #[prost(message, optional, tag = "10")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) history: Option<HistoryRequest>,
    #[prost(message, optional, tag = "11")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ping: Option<Empty>,
    #[prost(message, optional, tag = "12")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) send: Option<DataOnly>,
    #[prost(message, optional, tag = "13")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rpc: Option<RpcRequest>,
    #[prost(message, optional, tag = "14")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) refresh: Option<RefreshRequest>,
    #[prost(message, optional, tag = "15")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sub_refresh: Option<SubRefreshRequest>,
}

impl Command {
    /// The token that it shows.
    pub(crate) fn token(&self) -> Option<&str> {
        let connect = self.connect.as_ref().map(|one| &one.token);
        let subscribe = self.subscribe.as_ref().map(|one| &one.token);
        let refresh = self.refresh.as_ref().map(|one| &one.token);
        let sub_refresh = self.sub_refresh.as_ref().map(|one| &one.token);
        let token = connect.or(subscribe).or(refresh).or(sub_refresh);
        token.map(String::as_str)
    }

    /// The channel that it is about.
    pub(crate) fn channel(&self) -> Option<&str> {
        let asked = [&self.unsubscribe, &self.presence, &self.presence_stats];
        let mut asked = asked.into_iter().flatten().map(|one| &one.channel);
        let subscribe = self.subscribe.as_ref().map(|one| &one.channel);
        let publish = self.publish.as_ref().map(|one| &one.channel);
        let history = self.history.as_ref().map(|one| &one.channel);
        let sub_refresh = self.sub_refresh.as_ref().map(|one| &one.channel);
        let channel = subscribe.or(publish).or(history).or(sub_refresh);
        channel.or_else(|| asked.next()).map(String::as_str)
    }
}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ConnectRequest {
    #[prost(string, tag = "1")]
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub(crate) token: String,
    #[prost(bytes = "bytes", tag = "2")]
    #[serde(with = "payload", skip_serializing_if = "is_default")]
    pub(crate) data: Bytes,
    /// Positions in the server's own subscriptions.
    #[prost(btree_map = "string, message", tag = "3")]
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub(crate) subs: BTreeMap<String, SubscribeRequest>,
    #[prost(string, tag = "4")]
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub(crate) name: String,
    #[prost(string, tag = "5")]
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub(crate) version: String,
}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SubscribeRequest {
    #[prost(string, tag = "1")]
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub(crate) channel: String,
    #[prost(string, tag = "2")]
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub(crate) token: String,
    /// `offset` and `epoch` say where the client is.
    #[prost(bool, tag = "3")]
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub(crate) recover: bool,
    #[prost(string, tag = "6")]
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub(crate) epoch: String,
    #[prost(uint64, tag = "7")]
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub(crate) offset: u64,
    #[prost(bytes = "bytes", tag = "8")]
    #[serde(with = "payload", skip_serializing_if = "is_default")]
    pub(crate) data: Bytes,
    #[prost(bool, tag = "11")]
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub(crate) join_leave: bool,
    /// The kind of deltas that it can take.
    #[prost(string, tag = "12")]
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub(crate) delta: String,
    /// A filter by tags.
    #[prost(message, optional, tag = "13")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tf: Option<Empty>,
    #[prost(int64, tag = "14")]
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub(crate) flag: i64,
    /// 0 = a stream.
    #[prost(int32, tag = "15")]
    #[serde(
        rename = "type",
        deserialize_with = "or_default",
        skip_serializing_if = "is_default"
    )]
    pub(crate) kind: i32,
}

impl SubscribeRequest {
    /// Whether a position from which nothing can be recovered is to be refused.
    pub(crate) fn refuses_unrecoverable(&self) -> bool {
        self.flag & 2 != 0
    }
}

/// `unsubscribe`, `presence` and `presence_stats` ask for no more.
#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ChannelRequest {
    #[prost(string, tag = "1")]
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub(crate) channel: String,
}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct PublishRequest {
    #[prost(string, tag = "1")]
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub(crate) channel: String,
    #[prost(bytes = "bytes", tag = "2")]
    #[serde(with = "payload", skip_serializing_if = "is_default")]
    pub(crate) data: Bytes,
    /// 0 = a stream.
    #[prost(int32, tag = "3")]
    #[serde(
        rename = "type",
        deserialize_with = "or_default",
        skip_serializing_if = "is_default"
    )]
    pub(crate) kind: i32,
}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct HistoryRequest {
    #[prost(string, tag = "1")]
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub(crate) channel: String,
    /// 0 = only the position; below 0 = as many as there may be.
    #[prost(int32, tag = "7")]
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub(crate) limit: i32,
    #[prost(message, optional, tag = "8")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<StreamPosition>,
    #[prost(bool, tag = "9")]
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub(crate) reverse: bool,
}

impl HistoryRequest {
    /// Whether it names a place that nothing can be before.
    pub(crate) fn since_is_before_all(&self) -> bool {
        self.since.as_ref().is_some_and(|since| since.offset == 0)
    }
}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct StreamPosition {
    #[prost(uint64, tag = "1")]
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub(crate) offset: u64,
    #[prost(string, tag = "2")]
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub(crate) epoch: String,
}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct DataOnly {
    #[prost(bytes = "bytes", tag = "1")]
    #[serde(with = "payload", skip_serializing_if = "is_default")]
    pub(crate) data: Bytes,
}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RpcRequest {
    #[prost(bytes = "bytes", tag = "1")]
    #[serde(with = "payload", skip_serializing_if = "is_default")]
    pub(crate) data: Bytes,
    #[prost(string, tag = "2")]
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub(crate) method: String,
}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RefreshRequest {
    #[prost(string, tag = "1")]
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub(crate) token: String,
}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SubRefreshRequest {
    #[prost(string, tag = "1")]
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub(crate) channel: String,
    #[prost(string, tag = "2")]
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub(crate) token: String,
}
