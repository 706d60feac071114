//! Tokens of the Centrifuge dialect: JWTs by which a client connects, or subscribes to one channel.
//!
//! Owns: what such a token must say, and the secret that it is signed with where that is not a key of `[auth]`.
//! Promises: one without `exp` never ends, one without `sub` is of nobody; what else is wrong with a token refuses it
//! whole; the secret is in no message, log or debug text. Must not: decide what a user may do, or know a channel's
//! options.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use ring::hmac;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::authority::Authority;
use super::credential::{Credential, Refused, Source};
use super::verify_token::{Named, grants, is_user, milliseconds, part, time};
use tideline_base::decode;
use tideline_model::access::{Grants, Identity, Who};

/// By what the tokens of this dialect are verified: a secret of its own, the keys of `[auth]`, or both.
pub struct ClientTokens {
    secret: Option<Box<[u8]>>,
    /// The log has said that there is nothing to verify a token with.
    has_warned: AtomicBool,
}

impl fmt::Debug for ClientTokens {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "ClientTokens({})", self.secret.is_some())
    }
}

/// Why a token is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenRefused {
    /// It does not count, whatever the reason; the log may have it.
    Invalid(Refused),
    /// After `exp` or before `nbf`: the client may get another.
    Expired,
    /// Of another channel, user or client.
    OtherSubject,
    /// The keys that it is verified with could not be fetched yet.
    Unavailable,
}

impl From<Refused> for TokenRefused {
    fn from(why: Refused) -> TokenRefused {
        match why {
            Refused::Unavailable => TokenRefused::Unavailable,
            why => TokenRefused::Invalid(why),
        }
    }
}

/// What a token to connect with says.
#[derive(Clone, Debug)]
pub struct Connection {
    /// Empty = nobody in particular.
    pub user: String,
    /// When the connection ends unless it is refreshed, ms; `None` = never.
    pub expires_at: Option<u64>,
    /// What others see of the user: JSON, or any bytes of `b64info`.
    pub info: Option<Bytes>,
    /// The channels that the server subscribes it to.
    pub subs: Vec<(String, ChannelClaim)>,
    /// With `[auth]`, of a user: what may be taken back, and what native rights are decided by.
    pub credential: Option<Credential>,
}

/// What a token says of one channel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChannelClaim {
    /// What others see of the subscriber.
    pub info: Option<Bytes>,
    /// What the subscriber gets when it is subscribed.
    pub data: Option<Bytes>,
    /// What is otherwise than the channel's options say.
    pub overrides: Overrides,
}

/// Options of a channel that a token sets otherwise, for one subscriber.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Overrides {
    /// Whether it is among those present.
    #[serde(deserialize_with = "value")]
    pub presence: Option<bool>,
    /// Whether others in the channel hear of its joins and leaves.
    #[serde(deserialize_with = "value")]
    pub join_leave: Option<bool>,
    /// Whether it hears of others' joins and leaves without asking for them.
    #[serde(deserialize_with = "value")]
    pub force_push_join_leave: Option<bool>,
}

/// What a token to subscribe with says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// When the subscription ends unless it is refreshed, ms; `None` = never.
    pub expires_at: Option<u64>,
    /// The rest.
    pub claim: ChannelClaim,
}

/// The subscriber that a token to subscribe with must be for.
#[derive(Clone, Copy, Debug)]
pub struct Subscriber<'s> {
    /// The connection's user; empty = nobody in particular.
    pub user: &'s str,
    /// The connection's ID.
    pub client: &'s str,
    /// What it wants to subscribe to.
    pub channel: &'s str,
}

/// What only a whole token says.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Claims<'t> {
    expire_at: Option<i64>,
    channel: Option<String>,
    client: Option<String>,
    channels: Option<Vec<String>>,
    #[serde(borrow)]
    subs: Option<BTreeMap<String, SubClaims<'t>>>,
}

/// What a token says of itself or of one of its channels; the bytes are passed on as they are.
#[derive(Default, Deserialize)]
#[serde(default)]
struct SubClaims<'t> {
    #[serde(borrow)]
    info: Option<&'t RawValue>,
    b64info: Option<String>,
    #[serde(borrow)]
    data: Option<&'t RawValue>,
    b64data: Option<String>,
    #[serde(rename = "override")]
    overrides: Option<Overrides>,
}

/// `{"value": true}`, as tokens say what they set.
fn value<'de, D: Deserializer<'de>>(from: D) -> Result<Option<bool>, D::Error> {
    #[derive(Deserialize)]
    struct BoolValue {
        #[serde(default)]
        value: bool,
    }
    let set = Option::<BoolValue>::deserialize(from)?;
    Ok(set.map(|set| set.value))
}

/// A token whose signature and times are right.
struct Verified {
    claims: Map<String, Value>,
    /// Its claims as they were sent.
    text: Vec<u8>,
    user: String,
    source: Source,
    grants: Grants,
}

impl ClientTokens {
    /// With a secret of its own, or by the keys of `[auth]` alone.
    #[must_use]
    pub fn new(secret: Option<&str>) -> ClientTokens {
        ClientTokens {
            secret: secret.map(|secret| secret.as_bytes().into()),
            has_warned: AtomicBool::new(false),
        }
    }

    /// Whether a token needs a key of `[auth]` that is not there, and a fetch may bring it.
    #[must_use]
    pub fn lacks_key(&self, token: &str, authority: &Authority) -> bool {
        authority.lacks_key(token)
            && Named::of(token).is_ok_and(|named| !self.is_own(&named, token))
    }

    /// Judges a token to connect with.
    pub fn connection(
        &self,
        token: &str,
        authority: Option<&Authority>,
        now_ms: u64,
    ) -> Result<Connection, TokenRefused> {
        let verified = self.verify(token, authority, now_ms)?;
        let (claims, own): (Claims<'_>, SubClaims<'_>) = (verified.raw()?, verified.raw()?);
        if claims.channel.is_some_and(|channel| !channel.is_empty()) {
            return Err(Refused::Claims.into());
        }
        let subs = match (claims.subs, claims.channels) {
            (Some(subs), _) if !subs.is_empty() => {
                let claim = |(channel, sub): (String, SubClaims<'_>)| Ok((channel, sub.read()?));
                subs.into_iter()
                    .map(claim)
                    .collect::<Result<_, Refused>>()?
            }
            (_, Some(channels)) => {
                let claim = |channel| (channel, ChannelClaim::default());
                channels.into_iter().map(claim).collect()
            }
            _ => Vec::new(),
        };
        let expires_at = verified.expires_at(claims.expire_at)?;
        let info = bytes_of(own.info, own.b64info)?;
        let Verified {
            user,
            source,
            grants,
            ..
        } = verified;
        let has_credential = authority.is_some() && !user.is_empty();
        let credential = has_credential.then(|| Credential {
            identity: Arc::new(Identity {
                who: Who::User(user.as_str().into()),
                for_user: None,
                grants: Arc::new(grants),
            }),
            expires_at,
            ends_at: expires_at.map(|at| at.saturating_add(GRACE_MS)),
            source,
        });
        Ok(Connection {
            user,
            expires_at,
            info,
            subs,
            credential,
        })
    }

    /// Judges a token to subscribe with.
    pub fn subscription(
        &self,
        token: &str,
        subscriber: Subscriber<'_>,
        authority: Option<&Authority>,
        now_ms: u64,
    ) -> Result<Subscription, TokenRefused> {
        let verified = self.verify(token, authority, now_ms)?;
        let claims: Claims<'_> = verified.raw()?;
        let channel = claims.channel.as_deref().unwrap_or_default();
        if channel.is_empty() {
            return Err(Refused::Claims.into());
        }
        let client = claims.client.as_deref().unwrap_or_default();
        let is_other_client = !client.is_empty() && client != subscriber.client;
        if channel != subscriber.channel || verified.user != subscriber.user || is_other_client {
            return Err(TokenRefused::OtherSubject);
        }
        let expires_at = verified.expires_at(claims.expire_at)?;
        let claim = verified.raw::<SubClaims<'_>>()?.read()?;
        Ok(Subscription { expires_at, claim })
    }

    fn verify(
        &self,
        token: &str,
        authority: Option<&Authority>,
        now_ms: u64,
    ) -> Result<Verified, TokenRefused> {
        if self.secret.is_none() && authority.is_none() {
            self.warn();
            return Err(Refused::UnknownKey.into());
        }
        let named = Named::of(token)?;
        let is_own = self.is_own(&named, token);
        let (claims, key, leeway_ms) = match authority {
            _ if is_own => (part(token, 1).ok_or(Refused::Malformed)?, None, 0),
            Some(authority) => {
                let signed = authority.signed_token(&named, token)?;
                (signed.claims, Some(signed.key), signed.leeway_ms)
            }
            None => return Err(Refused::Signature.into()),
        };
        let has_ended = time(&claims, "exp")?.is_some_and(|at| at <= now_ms);
        let latest = now_ms.saturating_add(leeway_ms);
        if has_ended || time(&claims, "nbf")?.is_some_and(|at| at > latest) {
            return Err(TokenRefused::Expired);
        }
        let user = match claims.get("sub") {
            None => String::new(),
            Some(Value::String(user)) if user.is_empty() || is_user(user) => user.clone(),
            Some(_) => return Err(Refused::User.into()),
        };
        let issued_at = time(&claims, "iat")?;
        // Every revocation before that time would leave the token valid.
        if issued_at.is_some_and(|at| at > now_ms.saturating_add(leeway_ms.max(AHEAD_MS))) {
            return Err(Refused::NotYetValid.into());
        }
        if authority.is_some_and(|authority| authority.is_revoked(Some(&user), issued_at)) {
            return Err(Refused::Revoked.into());
        }
        let (source, grants) = match key {
            Some(key) => (Source::Token { key, issued_at }, grants(&claims)?),
            None => (Source::Client { issued_at }, Grants::default()),
        };
        let text = token.split('.').nth(1).unwrap_or_default();
        let text = URL_SAFE_NO_PAD.decode(text);
        Ok(Verified {
            claims,
            text: text.map_err(|_| Refused::Malformed)?,
            user,
            source,
            grants,
        })
    }

    /// Whether a token is signed with the secret of this dialect.
    fn is_own(&self, named: &Named, token: &str) -> bool {
        let algorithm = match named.algorithm.as_str() {
            "HS256" => hmac::HMAC_SHA256,
            "HS384" => hmac::HMAC_SHA384,
            "HS512" => hmac::HMAC_SHA512,
            _ => return false,
        };
        let (Some(secret), Some((signed, signature))) = (&self.secret, token.rsplit_once('.'))
        else {
            return false;
        };
        let key = hmac::Key::new(algorithm, secret);
        let signature = URL_SAFE_NO_PAD.decode(signature);
        signature.is_ok_and(|signature| hmac::verify(&key, signed.as_bytes(), &signature).is_ok())
    }

    fn warn(&self) {
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "a token was refused because there is nothing to verify it with: set hmac_secret_key in \
                 [centrifuge.client.token], or [auth]"
            );
        }
    }
}

impl Verified {
    fn raw<'v, T: Deserialize<'v>>(&'v self) -> Result<T, Refused> {
        decode::from_slice(&self.text).map_err(|_| Refused::Claims)
    }

    /// `expire_at` counts before `exp`; not above 0, it is never.
    fn expires_at(&self, expire_at: Option<i64>) -> Result<Option<u64>, Refused> {
        match expire_at {
            Some(at @ 1..) => milliseconds(&at.into()).map(Some).ok_or(Refused::Claims),
            Some(_) => Ok(None),
            None => time(&self.claims, "exp"),
        }
    }
}

impl SubClaims<'_> {
    fn read(self) -> Result<ChannelClaim, Refused> {
        Ok(ChannelClaim {
            info: bytes_of(self.info, self.b64info)?,
            data: bytes_of(self.data, self.b64data)?,
            overrides: self.overrides.unwrap_or_default(),
        })
    }
}

/// Bytes in base64, else JSON as it was written.
fn bytes_of(json: Option<&RawValue>, base64: Option<String>) -> Result<Option<Bytes>, Refused> {
    match base64.filter(|text| !text.is_empty()) {
        Some(text) => match STANDARD.decode(text) {
            Ok(bytes) => Ok(Some(bytes.into())),
            Err(_) => Err(Refused::Claims),
        },
        None => Ok(json.map(|json| Bytes::copy_from_slice(json.get().as_bytes()))),
    }
}

/// For so long after its end a connection may still be refreshed.
const GRACE_MS: u64 = 25_000;
/// How far the clock of a token's issuer may be ahead.
const AHEAD_MS: u64 = 30_000;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW_MS: u64 = 1_800_000_000_000;
    const NOW: u64 = NOW_MS / 1_000;

    fn signed(algorithm: &str, secret: &str, claims: &Value) -> String {
        let encode = |text: String| URL_SAFE_NO_PAD.encode(text);
        let head = encode(json!({"alg": algorithm, "typ": "JWT"}).to_string());
        let message = format!("{head}.{}", encode(claims.to_string()));
        let kind = match algorithm {
            "HS384" => hmac::HMAC_SHA384,
            "HS512" => hmac::HMAC_SHA512,
            _ => hmac::HMAC_SHA256,
        };
        let key = hmac::Key::new(kind, secret.as_bytes());
        let signature = hmac::sign(&key, message.as_bytes());
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    fn connect(claims: &Value) -> Result<Connection, TokenRefused> {
        let tokens = ClientTokens::new(Some("secret"));
        tokens.connection(&signed("HS256", "secret", claims), None, NOW_MS)
    }

    fn subscribe(claims: &Value, user: &str) -> Result<Subscription, TokenRefused> {
        let tokens = ClientTokens::new(Some("secret"));
        let subscriber = Subscriber {
            user,
            client: "c1",
            channel: "news",
        };
        let token = signed("HS512", "secret", claims);
        tokens.subscription(&token, subscriber, None, NOW_MS)
    }

    #[test]
    fn a_token_may_say_nothing_and_is_of_nobody_for_ever() {
        let connection = connect(&json!({})).unwrap();
        assert_eq!(
            (connection.user.as_str(), connection.expires_at),
            ("", None)
        );
        assert!(connection.subs.is_empty() && connection.credential.is_none());
        for algorithm in ["HS256", "HS384", "HS512"] {
            let token = signed(algorithm, "secret", &json!({"sub": "42"}));
            let tokens = ClientTokens::new(Some("secret"));
            let connection = tokens.connection(&token, None, NOW_MS).unwrap();
            assert_eq!(connection.user, "42");
            let others = ClientTokens::new(Some("Secret"));
            let refused = others.connection(&token, None, NOW_MS).unwrap_err();
            assert_eq!(refused, TokenRefused::Invalid(Refused::Signature));
            let none = ClientTokens::new(None);
            let refused = none.connection(&token, None, NOW_MS).unwrap_err();
            assert_eq!(refused, TokenRefused::Invalid(Refused::UnknownKey));
        }
    }

    #[test]
    fn what_it_says_is_read() {
        let connection = connect(&json!({
            "sub": "42", "exp": NOW + 60, "info": {"b": 1, "a": [2]}, "channels": ["passed over"],
            "subs": {"news": {"data": {"x": 1}, "b64info": "aGk=", "override": {"presence": {"value": true},
                "join_leave": {"value": false}, "force_recovery": {"value": true}}}, "#42": {}},
            "meta": {"any": 1}, "jti": "x", "more": null,
        }))
        .unwrap();
        assert_eq!(connection.expires_at, Some(NOW_MS + 60_000));
        assert!(connection.info.unwrap().starts_with(b"{\"a\":[2]"));
        let names: Vec<_> = connection
            .subs
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        assert_eq!(names, ["#42", "news"]);
        let news = &connection.subs[1].1;
        assert_eq!(news.info.as_deref(), Some(&b"hi"[..]));
        assert_eq!(news.data.as_deref(), Some(&br#"{"x":1}"#[..]));
        let Overrides {
            presence,
            join_leave,
            force_push_join_leave,
        } = news.overrides;
        assert_eq!(
            (presence, join_leave, force_push_join_leave),
            (Some(true), Some(false), None)
        );
        let empty = json!({"presence": null, "join_leave": {}});
        let connection = connect(&json!({"subs": {"news": {"override": empty}}})).unwrap();
        let expected = Overrides {
            join_leave: Some(false),
            ..Overrides::default()
        };
        assert_eq!(connection.subs[0].1.overrides, expected);
        let plain = connect(&json!({"channels": ["a", "b"]})).unwrap();
        assert_eq!(plain.subs.len(), 2);
    }

    #[test]
    fn expire_at_counts_before_exp() {
        let ends = |claims: Value| connect(&claims).unwrap().expires_at;
        let exp = NOW + 60;
        assert_eq!(
            ends(json!({"exp": exp, "expire_at": NOW + 5})),
            Some(NOW_MS + 5_000)
        );
        assert_eq!(ends(json!({"exp": exp, "expire_at": 0})), None);
        assert_eq!(ends(json!({"exp": exp, "expire_at": -1})), None);
    }

    #[test]
    fn what_is_wrong_refuses_the_token() {
        for (claims, why) in [
            (json!({"exp": NOW}), TokenRefused::Expired),
            (json!({"nbf": NOW + 1}), TokenRefused::Expired),
            (json!({"exp": "soon"}), Refused::Claims.into()),
            (json!({"sub": 42}), Refused::User.into()),
            (json!({"sub": "$admin"}), Refused::User.into()),
            (json!({"sub": "a\nb"}), Refused::User.into()),
            (json!({"channel": "news"}), Refused::Claims.into()),
            (json!({"b64info": "?"}), Refused::Claims.into()),
            (json!({"subs": []}), Refused::Claims.into()),
            (
                json!({"subs": {"news": {"override": {"presence": true}}}}),
                Refused::Claims.into(),
            ),
        ] {
            assert_eq!(connect(&claims).unwrap_err(), why, "{claims}");
        }
        let tokens = ClientTokens::new(Some("secret"));
        let unsigned = format!("{}.e30.", URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#));
        for token in ["", "a.b", "a.b.c", unsigned.as_str()] {
            let refused = tokens.connection(token, None, NOW_MS).unwrap_err();
            assert!(matches!(refused, TokenRefused::Invalid(_)), "{token}");
        }
    }

    #[test]
    fn a_subscription_is_of_one_user_channel_and_client() {
        let good = subscribe(&json!({"sub": "42", "channel": "news", "info": 1}), "42").unwrap();
        assert_eq!(good.claim.info.as_deref(), Some(&b"1"[..]));
        assert_eq!(good.expires_at, None);
        subscribe(&json!({"channel": "news", "client": "c1"}), "").unwrap();
        let expiring = json!({"channel": "news", "exp": NOW + 1});
        assert_eq!(
            subscribe(&expiring, "").unwrap().expires_at,
            Some(NOW_MS + 1_000)
        );
        for (claims, why) in [
            (json!({"channel": "other"}), TokenRefused::OtherSubject),
            (
                json!({"channel": "news", "sub": "7"}),
                TokenRefused::OtherSubject,
            ),
            (
                json!({"channel": "news", "client": "c2"}),
                TokenRefused::OtherSubject,
            ),
            (
                json!({"channel": "news", "exp": NOW}),
                TokenRefused::Expired,
            ),
            (json!({}), Refused::Claims.into()),
        ] {
            assert_eq!(subscribe(&claims, "").unwrap_err(), why, "{claims}");
        }
    }

    #[test]
    fn the_secret_is_not_shown() {
        let shown = format!("{:?}", ClientTokens::new(Some("canary")));
        assert!(!shown.contains("canary"));
    }
}
