//! Tokens: JWTs that users show.
//!
//! Owns: the rules by which a token is taken, and the keys they name. Promises: the key decides the algorithm; what RFC
//! 7519 leaves open is refused; why a token was refused is known here, and only the log gets it. Must not: fetch keys,
//! or know what a right is good for.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Validation, decode};
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::credential::Refused;
use super::keys::parse::{Mark, VerifyingKey, name_of};
use super::strict_json::object;
use tideline_base::decode;
use tideline_model::access::{GrantText, Grants, GrantsFrom, Identity, Who};

/// What tokens must say, whichever key signed them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenRules {
    /// The only `iss`; `None` = none is asked for.
    pub issuer: Option<String>,
    /// One of them must be in `aud`; empty = a token that names any is for others.
    pub audience: Vec<String>,
    /// By how much clocks may differ, seconds.
    pub leeway_s: u64,
}

/// The keys that count, each with its rules.
pub(super) struct TokenKeys {
    rules: Arc<TokenRules>,
    keys: Vec<(VerifyingKey, Validation)>,
}

/// A token that was verified.
#[derive(Debug)]
pub(super) struct Token {
    pub(super) identity: Identity,
    /// Its `exp`, ms.
    pub(super) expires_at: u64,
    /// Its `iat`, ms.
    pub(super) issued_at: Option<u64>,
    /// The key that it was signed with.
    pub(super) key: Mark,
}

/// What a token says of the key that it was signed with.
pub(super) struct Named {
    pub(super) algorithm: String,
    pub(super) key: Option<String>,
}

/// Longer ones are not looked at.
pub(super) const TOKEN_BYTES_MAX: usize = 8 << 10;
const USER_BYTES_MAX: usize = 128;

impl Named {
    /// Reads the header. Nothing of it was proved.
    pub(super) fn of(token: &str) -> Result<Named, Refused> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(Refused::TooLong);
        }
        let header = part(token, 0).ok_or(Refused::Malformed)?;
        if header.contains_key("crit") {
            return Err(Refused::Critical);
        }
        let key = match header.get("kid") {
            None => None,
            Some(Value::String(key)) => Some(key.clone()),
            Some(_) => return Err(Refused::Malformed),
        };
        match header.get("alg") {
            Some(Value::String(algorithm)) => Ok(Named {
                algorithm: algorithm.clone(),
                key,
            }),
            _ => Err(Refused::Malformed),
        }
    }
}

impl TokenKeys {
    pub(super) fn new(rules: &Arc<TokenRules>, keys: Vec<VerifyingKey>) -> TokenKeys {
        super::keys::ring_provider::install();
        let with_rules = |key: VerifyingKey| {
            let validation = validation(rules, &key);
            (key, validation)
        };
        TokenKeys {
            rules: Arc::clone(rules),
            keys: keys.into_iter().map(with_rules).collect(),
        }
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().filter_map(|(key, _)| key.id.as_deref())
    }

    pub(super) fn has(&self, mark: &Mark) -> bool {
        self.keys.iter().any(|(key, _)| key.mark == *mark)
    }

    /// Whether a token may have been signed with one of them.
    pub(super) fn knows(&self, named: &Named) -> bool {
        self.named(named).next().is_some()
    }

    /// The keys that a token may have been signed with: those of its key ID, or without one those of its algorithm.
    fn named<'k>(&'k self, named: &Named) -> impl Iterator<Item = &'k (VerifyingKey, Validation)> {
        self.keys.iter().filter(move |(key, _)| match &named.key {
            Some(id) => key.id.as_ref() == Some(id),
            None => name_of(key.algorithm) == named.algorithm,
        })
    }
}

/// Verifies a token by keys of several sources at a time.
pub(super) fn verify(
    sources: &[&TokenKeys],
    named: &Named,
    token: &str,
    now_ms: u64,
) -> Result<Token, Refused> {
    let signed = verify_signed(sources, named, token)?;
    read_claims(&signed, now_ms)
}

/// What a token says whose signature, issuer and audience were verified. Its times were not looked at.
pub(super) struct Signed {
    pub(super) claims: Map<String, Value>,
    /// The key that it was signed with.
    pub(super) key: Mark,
    /// By how much clocks may differ, ms.
    pub(super) leeway_ms: u64,
}

/// Verifies a token's signature, its issuer and its audience.
pub(super) fn verify_signed(
    sources: &[&TokenKeys],
    named: &Named,
    token: &str,
) -> Result<Signed, Refused> {
    let mut candidates = sources
        .iter()
        .flat_map(|keys| keys.named(named).map(|key| (&keys.rules, key)));
    let Some((rules, (key, validation))) = candidates.next() else {
        return Err(Refused::UnknownKey);
    };
    if candidates.next().is_some() {
        return Err(Refused::NoKeyNamed);
    }
    if name_of(key.algorithm) != named.algorithm {
        return Err(Refused::Algorithm);
    }
    decode::<IgnoredAny>(token, &key.key, validation).map_err(|error| match error.kind() {
        ErrorKind::InvalidSignature => Refused::Signature,
        ErrorKind::InvalidAlgorithm => Refused::Algorithm,
        ErrorKind::InvalidIssuer => Refused::Issuer,
        ErrorKind::InvalidAudience => Refused::Audience,
        ErrorKind::MissingRequiredClaim(claim) => match claim.as_str() {
            "iss" => Refused::Issuer,
            "aud" => Refused::Audience,
            _ => Refused::Claims,
        },
        _ => Refused::Malformed,
    })?;
    let claims = part(token, 1).ok_or(Refused::Malformed)?;
    // The library takes a list of issuers, too.
    let issuer = claims.get("iss");
    if rules.issuer.is_some() && !issuer.is_some_and(Value::is_string) {
        return Err(Refused::Issuer);
    }
    Ok(Signed {
        claims,
        key: key.mark,
        leeway_ms: rules.leeway_s.saturating_mul(1_000),
    })
}

/// What the library checks: signature, algorithm, issuer and audience. Times are checked here, because the library
/// ignores `iat`, and an `nbf` of another type.
fn validation(rules: &TokenRules, key: &VerifyingKey) -> Validation {
    let mut validation = Validation::new(key.algorithm);
    validation.validate_exp = false;
    validation.validate_nbf = false;
    let mut required = Vec::new();
    if let Some(issuer) = &rules.issuer {
        validation.set_issuer(&[issuer]);
        required.push("iss");
    }
    if !rules.audience.is_empty() {
        validation.set_audience(&rules.audience);
        required.push("aud");
    }
    validation.set_required_spec_claims(&required);
    validation
}

/// A time that a token says, ms; `None` = it does not.
pub(super) fn time(claims: &Map<String, Value>, name: &str) -> Result<Option<u64>, Refused> {
    match claims.get(name) {
        None => Ok(None),
        Some(value) => milliseconds(value).map(Some).ok_or(Refused::Claims),
    }
}

/// The rights that a token gives.
pub(super) fn grants(claims: &Map<String, Value>) -> Result<Grants, Refused> {
    let Some(rights) = claims.get("rights") else {
        return Ok(Grants::default());
    };
    let texts: Vec<GrantText> = decode::from(rights).map_err(|_| Refused::Rights)?;
    Grants::parse(&texts, GrantsFrom::User).map_err(|_| Refused::Rights)
}

fn read_claims(signed: &Signed, now_ms: u64) -> Result<Token, Refused> {
    let Signed {
        claims,
        key,
        leeway_ms,
    } = signed;
    // A token with a channel lets its user subscribe to that channel of the Centrifuge dialect, and do nothing else.
    if claims.get("channel").is_some_and(|channel| channel != "") {
        return Err(Refused::Claims);
    }
    let user = claims.get("sub").and_then(Value::as_str);
    let user = user.ok_or(Refused::Claims)?;
    let expires_at = time(claims, "exp")?.ok_or(Refused::Claims)?;
    if expires_at.saturating_add(*leeway_ms) <= now_ms {
        return Err(Refused::Expired);
    }
    let (not_before, issued_at) = (time(claims, "nbf")?, time(claims, "iat")?);
    for time in [not_before, issued_at].into_iter().flatten() {
        if time > now_ms.saturating_add(*leeway_ms) {
            return Err(Refused::NotYetValid);
        }
    }
    if !is_user(user) {
        return Err(Refused::User);
    }
    Ok(Token {
        identity: Identity {
            who: Who::User(user.into()),
            for_user: None,
            grants: Arc::new(grants(claims)?),
        },
        expires_at,
        issued_at,
        key: *key,
    })
}

/// A user as a token or a key may name one. Names that start with `$` are the server's own.
pub(super) fn is_user(user: &str) -> bool {
    (1..=USER_BYTES_MAX).contains(&user.len())
        && !user.starts_with('$')
        && !user.contains(char::is_control)
}

/// A NumericDate (RFC 7519) in ms; `None` = it is none, or not below 2^53 ms.
pub(super) fn milliseconds(value: &Value) -> Option<u64> {
    let ms = match value.as_u64() {
        Some(seconds) => seconds.saturating_mul(1_000),
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates
        None => (value.as_f64().filter(|seconds| *seconds >= 0.0)? * 1_000.0) as u64,
    };
    (ms < 1 << 53).then_some(ms)
}

/// One of the two JSON parts of a token that has three parts.
pub(super) fn part(token: &str, number: usize) -> Option<Map<String, Value>> {
    let parts: Vec<&str> = token.splitn(4, '.').collect();
    if parts.len() != 3 {
        return None;
    }
    object(&URL_SAFE_NO_PAD.decode(parts[number]).ok()?)
}
