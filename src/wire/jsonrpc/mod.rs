//! The JSON-RPC 2.0 dialect, in JSON text or MessagePack: from the bytes of one frame or HTTP body to calls, and from
//! replies, failures and pushes to bytes.
//!
//! Owns: ids, notifications, batches, and the two encodings. Promises: [`decode`] takes any bytes without a panic or
//! deep recursion, and whenever an id can be made out the failure carries it; encoding can't fail. Must not: know what
//! a method does; `Request` and the families do.

mod call;
mod decode;
mod encode;
mod envelope;
mod msgpack;
mod packed;
#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::entry::Integers;
use super::failure::Failure;
use super::methods::Request;

pub use decode::decode;
pub use encode::{answers, batch, failure, push, reply};

/// How objects become bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// Text frames.
    #[default]
    Json,
    /// Binary frames.
    MessagePack,
}

impl Dialect {
    /// The WebSocket sub-protocol that stands for it.
    #[must_use]
    pub fn subprotocol(self) -> &'static str {
        match self {
            Dialect::Json => "tideline.v1.json",
            Dialect::MessagePack => "tideline.v1.msgpack",
        }
    }

    /// The dialect of a sub-protocol.
    #[must_use]
    pub fn from_subprotocol(name: &str) -> Option<Dialect> {
        [Dialect::Json, Dialect::MessagePack]
            .into_iter()
            .find(|one| one.subprotocol() == name)
    }
}

/// All that decides what the bytes of a reply or push look like: who shares it can share the bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Encoding {
    /// JSON or MessagePack.
    pub dialect: Dialect,
    /// What `session.open` asked for.
    pub integers: Integers,
}

/// The id of a call, echoed exactly.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Id {
    /// Of a failure whose call's id could not be made out; never of a request.
    Null,
    /// A 64-bit integer.
    Integer(i64),
    /// A 64-bit integer above `i64::MAX`.
    Unsigned(u64),
    /// Text up to 64 bytes.
    Text(String),
}

impl Id {
    /// Text ids are at most this long.
    pub const BYTES_MAX: usize = 64;
}

/// What came in one frame or body.
#[derive(Clone, Debug, PartialEq)]
pub enum Incoming {
    /// One call, answered by one object.
    Single(Call),
    /// Calls, answered by one array (or not at all, if all of them are notifications).
    Batch(Vec<Call>),
}

/// One call: what is asked, and to whom the answer goes.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// `None` = a notification: never answered, also not with a failure.
    pub id: Option<Id>,
    /// What to do, or why not.
    pub request: Result<Request, Failure>,
}
