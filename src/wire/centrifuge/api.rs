//! The HTTP API that back ends call: what they ask, and what they are told.
//!
//! Owns: the shapes of its requests, and the statuses of its errors. Promises: unknown fields are passed over, and
//! `null` counts as absent, as in the client protocol. Must not: do anything.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::codes::Code;
use super::commands::StreamPosition;
use super::payload;
use super::replies::Error;
use crate::params::or_default;
use tideline_base::decode;

/// What a back end may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiMethod {
    Publish,
    Broadcast,
    History,
    HistoryRemove,
    Presence,
    PresenceStats,
    Subscribe,
    Unsubscribe,
    Disconnect,
    Refresh,
    Channels,
    Info,
    Rpc,
}

/// All of them but `batch`, by name, and in the order of the numbers by which older back ends know them.
const METHODS: &[(&str, ApiMethod)] = &[
    ("publish", ApiMethod::Publish),
    ("broadcast", ApiMethod::Broadcast),
    ("unsubscribe", ApiMethod::Unsubscribe),
    ("disconnect", ApiMethod::Disconnect),
    ("presence", ApiMethod::Presence),
    ("presence_stats", ApiMethod::PresenceStats),
    ("history", ApiMethod::History),
    ("history_remove", ApiMethod::HistoryRemove),
    ("channels", ApiMethod::Channels),
    ("info", ApiMethod::Info),
    ("rpc", ApiMethod::Rpc),
    ("subscribe", ApiMethod::Subscribe),
    ("refresh", ApiMethod::Refresh),
];

impl ApiMethod {
    /// The method of a name.
    pub fn of(name: &str) -> Option<ApiMethod> {
        let found = METHODS.iter().find(|(known, _)| *known == name);
        found.map(|(_, method)| *method)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        let found = METHODS.iter().find(|(_, method)| *method == self);
        found.map_or("", |(name, _)| name)
    }
}

/// `publish`, and with several channels `broadcast`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Publish {
    #[serde(deserialize_with = "or_default")]
    pub channel: String,
    #[serde(deserialize_with = "or_default")]
    pub channels: Vec<String>,
    #[serde(with = "payload")]
    data: Bytes,
    #[serde(deserialize_with = "or_default")]
    b64data: String,
    #[serde(deserialize_with = "or_default")]
    pub tags: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    pub idempotency_key: String,
    #[serde(deserialize_with = "or_default")]
    pub version: u64,
}

impl Publish {
    /// What is published.
    pub fn data(&self) -> Result<Bytes, Code> {
        bytes_of(&self.data, &self.b64data)?.ok_or(Code::BadRequest)
    }

    /// Whether that came as JSON.
    pub fn is_json(&self) -> bool {
        self.b64data.is_empty()
    }
}

/// The connections that a request is about: those of a user, or one that is named by its client or session.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Meant {
    #[serde(deserialize_with = "or_default")]
    pub user: String,
    #[serde(deserialize_with = "or_default")]
    pub client: String,
    #[serde(deserialize_with = "or_default")]
    pub session: String,
}

/// `subscribe`; `O`: what is otherwise than the channel's options say.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, bound = "O: Deserialize<'de> + Default")]
pub struct ApiSubscribe<O> {
    #[serde(deserialize_with = "or_default")]
    pub channel: String,
    #[serde(flatten)]
    pub meant: Meant,
    #[serde(with = "payload")]
    info: Bytes,
    #[serde(deserialize_with = "or_default")]
    b64info: String,
    #[serde(with = "payload")]
    data: Bytes,
    #[serde(deserialize_with = "or_default")]
    b64data: String,
    /// Seconds since 1970.
    #[serde(deserialize_with = "or_default")]
    pub expire_at: i64,
    pub recover_since: Option<StreamPosition>,
    #[serde(rename = "override", deserialize_with = "or_default")]
    pub overrides: O,
}

impl<O> ApiSubscribe<O> {
    /// What others see of the subscriber.
    pub fn info(&self) -> Result<Option<Bytes>, Code> {
        bytes_of(&self.info, &self.b64info)
    }

    /// What the subscriber is told.
    pub fn data(&self) -> Result<Option<Bytes>, Code> {
        bytes_of(&self.data, &self.b64data)
    }
}

/// `unsubscribe`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ApiUnsubscribe {
    #[serde(deserialize_with = "or_default")]
    pub channel: String,
    #[serde(flatten)]
    pub meant: Meant,
}

/// `disconnect`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ApiDisconnect {
    #[serde(flatten)]
    pub meant: Meant,
    /// Clients that stay.
    #[serde(deserialize_with = "or_default")]
    pub whitelist: Vec<String>,
    pub disconnect: Option<ApiClose>,
}

/// Why a connection is closed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ApiClose {
    pub code: u16,
    #[serde(deserialize_with = "or_default")]
    pub reason: String,
}

impl ApiClose {
    /// Whether SDKs understand it: they take a reason that is JSON for something else, and know their codes.
    pub fn is_fit(&self) -> bool {
        let is_reason = !self.reason.is_empty() && self.reason.len() <= REASON_BYTES_MAX;
        let is_json = decode::from_str::<serde::de::IgnoredAny>(&self.reason).is_ok();
        (3_000..5_000).contains(&self.code) && is_reason && !is_json
    }
}

/// What a close frame has room for.
const REASON_BYTES_MAX: usize = 123;

/// `refresh`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ApiRefresh {
    #[serde(flatten)]
    pub meant: Meant,
    #[serde(deserialize_with = "or_default")]
    pub expired: bool,
    /// Seconds since 1970; 0 = never.
    #[serde(deserialize_with = "or_default")]
    pub expire_at: i64,
    #[serde(with = "payload")]
    pub info: Bytes,
}

/// `channels`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ApiChannels {
    #[serde(deserialize_with = "or_default")]
    pub pattern: String,
}

/// `rpc`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ApiRpc {
    #[serde(deserialize_with = "or_default")]
    pub method: String,
    pub params: Option<Box<RawValue>>,
}

/// `batch`, whose commands are read one by one.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ApiBatch<'t> {
    #[serde(borrow)]
    pub commands: Vec<&'t RawValue>,
}

/// One command of a batch: its method and its parameters.
#[derive(Debug, Deserialize)]
pub struct ApiCommand<'t>(#[serde(borrow)] BTreeMap<String, &'t RawValue>);

impl<'t> ApiCommand<'t> {
    /// The method that it names (`None` = there is no such method) and its parameters. `None` = it does not name
    /// exactly one.
    pub fn one(&self) -> Option<(Option<ApiMethod>, &'t str)> {
        let mut members = self.0.iter();
        match (members.next(), members.next()) {
            (Some((name, params)), None) => Some((ApiMethod::of(name), params.get())),
            _ => None,
        }
    }
}

/// A command as older back ends send it; without a method it publishes.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ApiLine<'t> {
    #[serde(deserialize_with = "or_default")]
    pub id: u32,
    method: Option<LineMethod>,
    #[serde(borrow)]
    pub params: Option<&'t RawValue>,
}

/// How older back ends name a method.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum LineMethod {
    Number(usize),
    Name(String),
}

impl ApiLine<'_> {
    /// What it asks for.
    pub fn method(&self) -> Option<ApiMethod> {
        match &self.method {
            None => Some(ApiMethod::Publish),
            Some(LineMethod::Number(number)) => METHODS.get(*number).map(|(_, method)| *method),
            Some(LineMethod::Name(name)) => ApiMethod::of(&name.to_ascii_lowercase()),
        }
    }
}

impl Error {
    /// The same error without what only clients get.
    pub fn for_back_ends(self) -> Error {
        Error {
            temporary: false,
            ..self
        }
    }

    /// The idempotency key was taken by another publication.
    pub fn conflict() -> Error {
        Error {
            code: 113,
            message: "conflict".to_owned(),
            temporary: false,
        }
    }

    /// The status of HTTP, for those who want it so.
    pub fn status(&self) -> u16 {
        match self.code {
            101 => 401,
            102 | 104 => 404,
            103 => 403,
            106 => 413,
            107 | 108 => 400,
            111 => 429,
            112 => 416,
            113 => 409,
            own @ 400..=599 => u16::try_from(own).unwrap_or(500),
            _ => 500,
        }
    }
}

/// Bytes in base64, else JSON; `None` = there are none.
fn bytes_of(json: &Bytes, base64: &str) -> Result<Option<Bytes>, Code> {
    let bytes = match base64.is_empty() {
        true => json.clone(),
        false => STANDARD
            .decode(base64)
            .map_err(|_| Code::BadRequest)?
            .into(),
    };
    Ok(Some(bytes).filter(|bytes| !bytes.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_leniently_and_their_data_to_the_byte() {
        let text = r#"{"channel":"a","data":{"b": 1,  "a":2},"tags":null,"more":[1],"idempotency_key":"k"}"#;
        let publish: Publish = serde_json::from_str(text).unwrap();
        assert_eq!(publish.data().unwrap(), r#"{"b": 1,  "a":2}"#);
        assert_eq!(
            (publish.channel.as_str(), publish.idempotency_key.as_str()),
            ("a", "k")
        );
        let bytes: Publish = serde_json::from_str(r#"{"b64data":"/wA="}"#).unwrap();
        assert_eq!(bytes.data().unwrap(), &[255, 0][..]);
        for text in [r#"{"b64data":"?"}"#, "{}"] {
            let publish: Publish = serde_json::from_str(text).unwrap();
            assert_eq!(publish.data().unwrap_err(), Code::BadRequest, "{text}");
        }
        for (name, method) in METHODS {
            assert_eq!((ApiMethod::of(name), method.name()), (Some(*method), *name));
        }
    }

    #[test]
    fn older_back_ends_name_methods_by_number_or_in_capitals() {
        for (line, method) in [
            (r#"{"method": "history_remove"}"#, Some("history_remove")),
            (r#"{"method": "PUBLISH", "params": {}}"#, Some("publish")),
            (r#"{"method": 10}"#, Some("rpc")),
            (r#"{"params": {"channel": "a"}}"#, Some("publish")),
            (r#"{"method": 13}"#, None),
            (r#"{"method": "connections"}"#, None),
        ] {
            let read: ApiLine<'_> = serde_json::from_str(line).unwrap();
            assert_eq!(read.method().map(ApiMethod::name), method, "{line}");
        }
        let command: ApiCommand<'_> = serde_json::from_str(r#"{"info": {"a": 1}}"#).unwrap();
        assert_eq!(command.one(), Some((Some(ApiMethod::Info), r#"{"a": 1}"#)));
        let two: ApiCommand<'_> = serde_json::from_str(r#"{"info": {}, "rpc": {}}"#).unwrap();
        assert_eq!(two.one(), None);
    }

    #[test]
    fn a_close_that_clients_misread_is_unfit() {
        let fit = |code, reason: &str| {
            let reason = reason.to_owned();
            ApiClose { code, reason }.is_fit()
        };
        assert!(fit(4_500, "banned") && fit(3_001, "x"));
        assert!(!fit(4_500, "") && !fit(4_500, "123") && !fit(4_500, "{}"));
        assert!(!fit(2_999, "x") && !fit(5_000, "x") && !fit(4_500, &"x".repeat(124)));
    }

    #[test]
    fn errors_have_the_statuses_that_back_ends_know() {
        for (code, status) in [
            (Code::Internal, 500),
            (Code::UnknownChannel, 404),
            (Code::MethodNotFound, 404),
            (Code::BadRequest, 400),
            (Code::NotAvailable, 400),
            (Code::Unrecoverable, 416),
            (Code::PermissionDenied, 403),
        ] {
            assert_eq!(Error::from(code).status(), status);
        }
        assert_eq!(Error::conflict().status(), 409);
    }
}
