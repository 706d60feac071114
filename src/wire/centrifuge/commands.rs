//! What clients say: commands.
//!
//! Owns: field numbers and names of what comes in. Promises: a field of a wrong type is refused, also one that the
//! server does not look at. Must not: check values.

use super::messages::messages;
use super::replies::Empty;

messages! {
    /// One command; the first of its requests counts. One with neither an id nor a request is a pong.
    message Command {
        uint32 id = 1;
        optional ConnectRequest connect = 4;
        optional SubscribeRequest subscribe = 5;
        optional ChannelRequest unsubscribe = 6;
        optional PublishRequest publish = 7;
        optional ChannelRequest presence = 8;
        optional ChannelRequest presence_stats = 9;
        optional HistoryRequest history = 10;
        optional Empty ping = 11;
        optional DataOnly send = 12;
        optional RpcRequest rpc = 13;
        optional RefreshRequest refresh = 14;
        optional SubRefreshRequest sub_refresh = 15;
    }

    message ConnectRequest {
        string token = 1;
        bytes data = 2;
        /// Positions in the server's own subscriptions.
        map<string, SubscribeRequest> subs = 3;
        string name = 4;
        string version = 5;
    }

    message SubscribeRequest {
        string channel = 1;
        string token = 2;
        /// `offset` and `epoch` say where the client is.
        bool recover = 3;
        string epoch = 6;
        uint64 offset = 7;
        bytes data = 8;
        bool join_leave = 11;
        /// The kind of deltas that it can take.
        string delta = 12;
        /// A filter by tags.
        optional Empty tf = 13;
        int64 flag = 14;
        /// 0 = a stream.
        #[serde(rename = "type")]
        int32 kind = 15;
    }

    /// `unsubscribe`, `presence` and `presence_stats` ask for no more.
    message ChannelRequest {
        string channel = 1;
    }

    message PublishRequest {
        string channel = 1;
        bytes data = 2;
        /// 0 = a stream.
        #[serde(rename = "type")]
        int32 kind = 3;
    }

    message HistoryRequest {
        string channel = 1;
        /// 0 = only the position; below 0 = as many as there may be.
        int32 limit = 7;
        optional StreamPosition since = 8;
        bool reverse = 9;
    }

    message StreamPosition {
        uint64 offset = 1;
        string epoch = 2;
    }

    message DataOnly {
        bytes data = 1;
    }

    message RpcRequest {
        bytes data = 1;
        string method = 2;
    }

    message RefreshRequest {
        string token = 1;
    }

    message SubRefreshRequest {
        string channel = 1;
        string token = 2;
    }
}

impl Command {
    /// The token that it shows.
    pub fn token(&self) -> Option<&str> {
        let connect = self.connect.as_ref().map(|one| &one.token);
        let subscribe = self.subscribe.as_ref().map(|one| &one.token);
        let refresh = self.refresh.as_ref().map(|one| &one.token);
        let sub_refresh = self.sub_refresh.as_ref().map(|one| &one.token);
        let token = connect.or(subscribe).or(refresh).or(sub_refresh);
        token.map(String::as_str)
    }

    /// The channel that it is about.
    pub fn channel(&self) -> Option<&str> {
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

impl SubscribeRequest {
    /// Whether a position from which nothing can be recovered is to be refused.
    pub fn refuses_unrecoverable(&self) -> bool {
        self.flag & 2 != 0
    }
}
