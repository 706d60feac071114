//! `[centrifuge]`: the dialect of Centrifuge's SDKs, by the option names of Centrifugo.
//!
//! Owns: how the section is read, shown and checked. Promises: an option that is not here is refused by its whole name,
//! also one that Centrifugo has; a secret of it is in no printed configuration, error or debug text. Must not: know
//! what an option does.

use std::collections::HashSet;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use toml::{Table, Value};

use super::key::{Key, is_name};
use super::secrets::HIDDEN;
use super::{Config, ConfigError, unsupported};
use crate::decode::Strict;
use crate::secret;

/// `[centrifuge]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CentrifugeKey {
    /// Who may connect.
    pub client: ClientKey,
    /// What channels have, and what may be done there.
    pub channel: ChannelKey,
    /// The API for back ends, `POST /api/METHOD`.
    pub http_api: HttpApiKey,
    /// Connections over an HTTP response that does not end, with `POST /emulation`.
    pub http_stream: EnabledKey,
    /// Connections over server-sent events, with `POST /emulation`.
    pub sse: EnabledKey,
}

/// `[centrifuge.client]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ClientKey {
    /// What tokens are verified with.
    pub token: TokenKey,
    /// Whether nobody needs a token, and everybody may do everything. Only on loopback and without `[auth]`, or with
    /// `insecure = true` at the top.
    pub insecure: bool,
    /// Whether who shows no token is taken, as nobody in particular.
    pub allow_anonymous_connect_without_token: bool,
    /// Whether each connection of a user is subscribed to `#USER`.
    pub subscribe_to_user_personal_channel: EnabledKey,
}

/// `[centrifuge.client.token]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TokenKey {
    /// Verifies HS256, HS384 and HS512, beside the keys of `[auth]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hmac_secret_key: Option<Hidden>,
    /// A file that holds it in its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hmac_secret_key_file: Option<PathBuf>,
}

/// `[centrifuge.http_api]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HttpApiKey {
    /// What back ends show; without it API keys count (`tideline key`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Hidden>,
    /// A file that holds it in its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
    /// Whether back ends may show a key as `?api_key=` too. Proxies log URLs.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub key_in_url: bool,
}

/// Something that is off unless it is enabled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EnabledKey {
    /// Whether it is on.
    pub enabled: bool,
}

/// `[centrifuge.channel]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ChannelKey {
    /// Of channels without a colon in their name.
    pub without_namespace: ChannelOptionsKey,
    /// Of channels whose names begin with `NAME:`.
    pub namespaces: Vec<ChannelOptionsKey>,
}

macro_rules! flags {
    ($( $(#[doc = $doc:literal])+ $name:ident; )+) => {
        /// The options of channels.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        pub struct ChannelOptionsKey {
            /// What stands before the colon; only of a namespace.
            #[serde(skip_serializing_if = "String::is_empty")]
            pub name: String,
            /// So many publications are kept; 0 = all.
            pub history_size: u64,
            /// Publications are kept for so long, like "300s" or "5m"; "0s" = for ever.
            #[serde(skip_serializing_if = "Span::is_zero")]
            pub history_ttl: Span,
            /// "fossil": who asks for deltas gets them.
            #[serde(skip_serializing_if = "Vec::is_empty")]
            pub allowed_delta_types: Vec<String>,
            $( $(#[doc = $doc])+ #[serde(skip_serializing_if = "std::ops::Not::not")] pub $name: bool, )+
        }
    };
}

flags! {
    /// Whether it can be asked who is there.
    presence;
    /// Whether coming and going is told.
    join_leave;
    /// Whether it is told also to subscribers who did not ask for it.
    force_push_join_leave;
    /// Always so here.
    force_recovery;
    /// Always so here.
    force_positioning;
    /// Always so, where deltas are allowed.
    delta_publish;
    /// Whether users may subscribe without a token for the channel.
    allow_subscribe_for_client;
    /// Whether those without a name may, too.
    allow_subscribe_for_anonymous;
    /// Whether users may publish.
    allow_publish_for_client;
    /// Whether users may who are subscribed.
    allow_publish_for_subscriber;
    /// Whether those without a name may, too.
    allow_publish_for_anonymous;
    /// Whether users may ask who is there.
    allow_presence_for_client;
    /// Whether users may who are subscribed.
    allow_presence_for_subscriber;
    /// Whether those without a name may, too.
    allow_presence_for_anonymous;
    /// Whether users may read the history.
    allow_history_for_client;
    /// Whether users may who are subscribed.
    allow_history_for_subscriber;
    /// Whether those without a name may, too.
    allow_history_for_anonymous;
}

/// A secret.
#[derive(Clone, PartialEq, Eq, JsonSchema)]
#[schemars(transparent)]
pub struct Hidden(pub String);

impl fmt::Debug for Hidden {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(HIDDEN)
    }
}

impl Serialize for Hidden {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(HIDDEN)
    }
}

impl<'de> Deserialize<'de> for Hidden {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Hidden, D::Error> {
        // The usual error would quote what it found.
        let text = String::deserialize(from).map_err(|_| de::Error::custom("expected a text"))?;
        match text.as_str() {
            "" => Err(de::Error::custom("is empty: leave it out")),
            HIDDEN => Err(de::Error::custom(
                "is hidden, as `tideline config` prints it: put the secret in its place",
            )),
            _ => match secret::check(text.as_bytes()) {
                Ok(()) => Ok(Hidden(text)),
                Err(why) => Err(de::Error::custom(why)),
            },
        }
    }
}

/// A time span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema)]
#[schemars(with = "String")]
pub struct Span(pub Duration);

impl Span {
    fn is_zero(&self) -> bool {
        self.0.is_zero()
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&humantime::format_duration(self.0))
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Span, D::Error> {
        let expected = || de::Error::custom("expected a time like \"300s\", \"5m\" or \"1h30m\"");
        let text = String::deserialize(from).map_err(|_| expected())?;
        let span = humantime::parse_duration(&text).map_err(|_| expected())?;
        match span.is_zero() || (MILLISECOND..=YEARS).contains(&span) {
            true => Ok(Span(span)),
            false => Err(de::Error::custom("must be from 1ms to 100 years")),
        }
    }
}

const MILLISECOND: Duration = Duration::from_millis(1);
const YEARS: Duration = Duration::from_secs(100 * 366 * 86_400);

impl Key for Option<CentrifugeKey> {
    fn read(value: &Value) -> Result<Option<CentrifugeKey>, String> {
        match value {
            Value::Boolean(false) => Ok(None),
            Value::Table(_) => {
                let read = serde_path_to_error::deserialize(Strict::<_>::new(value.clone()));
                read.map(Some).map_err(|error| refused(&error))
            }
            _ => Err("expected [centrifuge] or false".to_owned()),
        }
    }

    fn parse(text: &str) -> Result<Option<CentrifugeKey>, String> {
        let table: Result<Table, _> = format!("centrifuge = {text}").parse();
        // The parser's error could quote a secret.
        let table = table.map_err(|_: toml::de::Error| "not a table of TOML".to_owned())?;
        <Option<CentrifugeKey> as Key>::read(&table["centrifuge"])
    }
}

/// What is wrong, and with which option.
fn refused(error: &serde_path_to_error::Error<toml::de::Error>) -> String {
    let (mut path, message) = (error.path().to_string(), error.inner().message());
    if path == "." {
        path.clear();
    }
    let unknown = message.strip_prefix("unknown field `");
    let Some((name, _)) = unknown.and_then(|rest| rest.split_once('`')) else {
        return format!("{path}: {message}");
    };
    let within = path.strip_suffix(name).unwrap_or(&path);
    let within = within.trim_end_matches('.');
    let whole = [within, name].join(".");
    let whole = whole.trim_start_matches('.');
    match unsupported::has(within, name) {
        true => format!("{whole} is an option of Centrifugo, but not supported"),
        false => format!("{whole} is no option"),
    }
}

/// The JSON Schema of the section.
#[must_use]
pub fn schema() -> schemars::Schema {
    schemars::schema_for!(CentrifugeKey)
}

impl CentrifugeKey {
    /// Whether it holds a secret itself, and not the name of a file.
    pub(super) fn holds_secret(&self) -> bool {
        self.client.token.hmac_secret_key.is_some() || self.http_api.key.is_some()
    }

    fn check_secrets(&self) -> Result<(), ConfigError> {
        let TokenKey {
            hmac_secret_key,
            hmac_secret_key_file,
        } = &self.client.token;
        let HttpApiKey { key, key_file, .. } = &self.http_api;
        for (name, own, file) in [
            (
                "client.token.hmac_secret_key",
                hmac_secret_key,
                hmac_secret_key_file,
            ),
            ("http_api.key", key, key_file),
        ] {
            if own.is_some() && file.is_some() {
                let why = format!("centrifuge.{name}: set it or {name}_file, not both");
                return Err(ConfigError(why));
            }
        }
        Ok(())
    }
}

/// Secrets once, names of channels that can be, each once, and what is known of deltas.
pub(super) fn check(config: &Config) -> Result<(), ConfigError> {
    let Some(section) = &config.centrifuge else {
        return Ok(());
    };
    section.check_secrets()?;
    let refuse = |at: &str, why: &str| Err(ConfigError(format!("centrifuge.channel.{at}: {why}")));
    let ChannelKey {
        without_namespace,
        namespaces,
    } = &section.channel;
    if !without_namespace.name.is_empty() {
        return refuse("without_namespace.name", "only a namespace has a name");
    }
    let mut seen = HashSet::new();
    for (at, namespace) in namespaces.iter().enumerate() {
        let name = &namespace.name;
        if name.len() > NAME_BYTES_MAX || !is_name(name) {
            return refuse(
                &format!("namespaces[{at}].name"),
                "1 to 100 letters, digits, '.', '_' and '-'",
            );
        }
        if !seen.insert(name) {
            return refuse(&format!("namespaces[{at}].name"), "it is there twice");
        }
    }
    for options in namespaces.iter().chain([without_namespace]) {
        let of = match options.name.is_empty() {
            true => "without_namespace".to_owned(),
            false => format!("the namespace {:?}", options.name),
        };
        let mut deltas = options.allowed_delta_types.iter();
        if let Some(other) = deltas.find(|kind| *kind != FOSSIL) {
            let why = format!("{other:?} is no delta that is known; there is {FOSSIL:?}");
            return refuse(&format!("{of}, allowed_delta_types"), &why);
        }
        if options.history_size > i64::MAX.unsigned_abs() {
            return refuse(&format!("{of}, history_size"), "too large");
        }
    }
    config.channel_policies().map(|_| ())
}

const FOSSIL: &str = "fossil";
const NAME_BYTES_MAX: usize = 100;
