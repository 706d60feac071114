//! The codes with which the server closes a WebSocket, in one place, with what the client should do.
//!
//! Owns: the list. Promises: 4000-4499 always mean "reconnect and resume", 4500-4999 "do not come back as you are";
//! codes are never reused. Must not: decide when to close; sessions do.

listed! {
    /// Why a connection is closed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Close {
        /// The client said goodbye.
        Normal,
        /// The server goes away without having drained.
        GoingAway,
        /// A frame that RFC 6455 forbids.
        ProtocolError,
        /// A binary frame on a JSON connection, or a text frame on a MessagePack one.
        UnsupportedData,
        /// A text frame that is not UTF-8.
        InvalidText,
        /// A frame above the inbound limit.
        TooBig,
        /// A fault of the server.
        InternalError,
        /// A message that came in had no room among those of all connections.
        Overloaded,
        /// The reader stayed behind for too long.
        SlowConsumer,
        /// No sign of life for two heartbeat intervals.
        Idle,
        /// The server shuts down, and said so with a `draining` push.
        Draining,
        /// A message took too long from its first byte to its last.
        SlowRequest,
        /// The token is not valid, or no longer.
        Unauthenticated,
        /// The connection broke a rule of the server.
        Policy,
    }
}

impl Close {
    /// The number in the close frame.
    #[must_use]
    pub fn code(self) -> u16 {
        match self {
            Close::Normal => 1000,
            Close::GoingAway => 1001,
            Close::ProtocolError => 1002,
            Close::UnsupportedData => 1003,
            Close::InvalidText => 1007,
            Close::TooBig => 1009,
            Close::InternalError => 1011,
            Close::Overloaded => 1013,
            Close::SlowConsumer => 4000,
            Close::Idle => 4001,
            Close::Draining => 4002,
            Close::SlowRequest => 4003,
            Close::Unauthenticated => 4500,
            Close::Policy => 4501,
        }
    }

    /// The text in the close frame (at most 123 bytes, as RFC 6455 demands).
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Close::Normal => "normal",
            Close::GoingAway => "going_away",
            Close::ProtocolError => "protocol_error",
            Close::UnsupportedData => "unsupported_data",
            Close::InvalidText => "invalid_text",
            Close::TooBig => "too_big",
            Close::InternalError => "internal_error",
            Close::Overloaded => "overloaded",
            Close::SlowConsumer => "slow_consumer",
            Close::Idle => "idle",
            Close::Draining => "draining",
            Close::SlowRequest => "slow_request",
            Close::Unauthenticated => "unauthenticated",
            Close::Policy => "policy",
        }
    }

    /// Whether the client should come back by itself, after a random 0.5 to 20 s, and resume.
    #[must_use]
    pub fn reconnect(self) -> bool {
        matches!(self.code(), 1001 | 1011..=1013 | 4000..=4499)
    }
}
