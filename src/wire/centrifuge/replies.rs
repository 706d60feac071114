//! What the server says: replies and pushes.
//!
//! Owns: field numbers and names of what goes out. Promises: what SDKs look for in any case is `required`. Must not:
//! decide anything.

use super::messages::messages;

messages! {
    /// An answer, or without an id a push. With nothing in it: a ping.
    message Reply {
        uint32 id = 1;
        optional Error error = 2;
        optional Push push = 4;
        optional ConnectResult connect = 5;
        optional SubscribeResult subscribe = 6;
        optional Empty unsubscribe = 7;
        optional Empty publish = 8;
        optional PresenceResult presence = 9;
        optional PresenceStatsResult presence_stats = 10;
        optional HistoryResult history = 11;
        optional RpcResult rpc = 13;
        optional RefreshResult refresh = 14;
        optional SubRefreshResult sub_refresh = 15;
    }

    /// What is said in place of a result. A request that is taken and has no result to speak of gets one of these, too.
    message Empty {}

    message Error {
        required uint32 code = 1;
        /// Never empty.
        required string message = 2;
        bool temporary = 3;
    }

    message ConnectResult {
        required string client = 1;
        string version = 2;
        bool expires = 3;
        /// Seconds.
        uint32 ttl = 4;
        map<string, SubscribeResult> subs = 6;
        /// Seconds between two pings.
        uint32 ping = 7;
        bool pong = 8;
        string session = 9;
        string node = 10;
    }

    message SubscribeResult {
        bool expires = 1;
        uint32 ttl = 2;
        bool recoverable = 3;
        string epoch = 6;
        repeated Publication publications = 7;
        bool recovered = 8;
        /// Where the client is before `publications`.
        uint64 offset = 9;
        bool positioned = 10;
        bytes data = 11;
        bool was_recovering = 12;
        bool delta = 13;
    }

    message Publication {
        bytes data = 4;
        optional ClientInfo info = 5;
        uint64 offset = 6;
        map<string, string> tags = 7;
        /// `data` is a delta.
        bool delta = 8;
    }

    message ClientInfo {
        required string user = 1;
        required string client = 2;
        bytes conn_info = 3;
        bytes chan_info = 4;
    }

    message PresenceResult {
        required map<string, ClientInfo> presence = 1;
    }

    message PresenceStatsResult {
        required uint32 num_clients = 1;
        required uint32 num_users = 2;
    }

    message HistoryResult {
        required repeated Publication publications = 1;
        required string epoch = 2;
        /// Of the newest publication, whichever were asked for.
        required uint64 offset = 3;
    }

    message RpcResult {
        bytes data = 1;
    }

    message RefreshResult {
        string client = 1;
        string version = 2;
        bool expires = 3;
        uint32 ttl = 4;
    }

    message SubRefreshResult {
        bool expires = 1;
        uint32 ttl = 2;
    }

    message Push {
        string channel = 2;
        /// `pub`, which is a word of Rust.
        #[serde(rename = "pub")]
        optional Publication publication = 4;
        optional Passing join = 5;
        optional Passing leave = 6;
        optional Unsubscribe unsubscribe = 7;
        optional Subscribe subscribe = 9;
        /// What on a WebSocket its close says.
        optional Closing disconnect = 11;
    }

    /// Why the server closes.
    message Closing {
        required uint32 code = 1;
        /// Never empty.
        required string reason = 2;
    }

    /// Who came or went.
    message Passing {
        optional ClientInfo info = 1;
    }

    message Unsubscribe {
        required uint32 code = 2;
        /// Never empty.
        required string reason = 3;
    }

    /// The server has subscribed the client.
    message Subscribe {
        bool recoverable = 1;
        string epoch = 4;
        uint64 offset = 5;
        bool positioned = 6;
        bytes data = 7;
    }
}

impl Reply {
    /// A push.
    pub fn of(push: Push) -> Reply {
        Reply {
            push: Some(push),
            ..Reply::default()
        }
    }

    /// A refusal.
    pub fn refused(error: impl Into<Error>) -> Reply {
        Reply {
            error: Some(error.into()),
            ..Reply::default()
        }
    }
}
