//! The session family: `session.open`, `ping`, `rpc.discover`.
//!
//! Owns: parameters and results of these methods. Promises: a user that leaves here is 1 to 128 bytes without control
//! characters. Must not: know whether a token is valid, or what a session is; the gateway does.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use super::super::check::{self, Check};
use super::super::failure::Failure;
use super::super::limits::Limits;
use super::super::messages::entry::Integers;
use super::super::schema::rules;
use super::key::Secret;

/// Names the user, and how the client wants to be answered. Optional while no authentication is configured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "session.open.params")]
pub struct Open {
    /// Proves who the user is, or is an API key; refused while no authentication is configured.
    #[schemars(length(max = 8192))]
    pub token: Option<Secret>,
    /// The user who sends, 1 to 128 bytes. An API key may act for some; beside a token it must be its own.
    #[schemars(length(min = 1, max = 128), regex(pattern = rules::NO_CONTROL))]
    pub user: Option<String>,
    /// Names the device, 1 to 64 bytes; others see it in presence and signals.
    #[schemars(length(min = 1, max = 64), regex(pattern = rules::NO_CONTROL))]
    pub device: Option<String>,
    /// Name and version of the client's software, up to 255 bytes.
    #[schemars(length(max = 255))]
    pub client: Option<String>,
    /// How integers beyond ±(2^53−1) come back; default `number`.
    pub integers: Option<Integers>,
}

impl Check for Open {
    fn check(&mut self, _: &Limits) -> Result<(), Failure> {
        if let Some(user) = &self.user {
            check::user("user", user)?;
        }
        if let Some(device) = &self.device {
            check::device("device", device)?;
        }
        check::text_bytes("client", self.client.as_deref(), 255)
    }
}

/// The open session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "session.open.result")]
pub struct Opened {
    /// Names this session in the server's logs.
    pub session: String,
    /// The user who sends; absent = none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// When the token ends, ms since 1970; absent = never. Show a newer one by `session.renew` before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
    /// The server's software.
    pub server: Server,
    /// The server pings this often, ms; a client silent for two intervals is closed.
    pub heartbeat_ms: u64,
    /// What may be sent and is sent.
    pub limits: Limits,
}

/// The server's software.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Server {
    /// `tideline`.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// No parameters: of `ping` and `rpc.discover`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ping.params")]
pub struct Nothing {}

impl Check for Nothing {}

/// The answer to a ping.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ping.result")]
pub struct Pong {
    /// The server's clock, ms since 1970.
    pub time: u64,
}

/// The answer to `rpc.discover`: the OpenRPC document (see [`super::super::schema::openrpc`]).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Discovered(pub &'static serde_json::Value);

impl JsonSchema for Discovered {
    fn schema_name() -> Cow<'static, str> {
        "rpc.discover.result".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({
            "type": "object",
            "description": "An OpenRPC document.",
            "properties": {
                "openrpc": { "type": "string", "description": "The version of OpenRPC." },
                "info": { "type": "object", "description": "What this is." },
                "methods": { "type": "array", "description": "Parameters, result and an example of each method." },
                "components": { "type": "object", "description": "What they name, and the errors." },
                "x-pushes": { "type": "array", "description": "Each push." },
                "x-close-codes": { "type": "array", "description": "Why connections are closed." },
            },
            "required": ["openrpc", "info", "methods", "components", "x-pushes", "x-close-codes"],
        })
    }
}
