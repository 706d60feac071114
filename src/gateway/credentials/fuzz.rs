//! Tokens, keys, and what is stored of them, for `tests/fuzz`.
//!
//! Owns: tokens with a right signature around anybody's claims. Promises: nothing but such a token is taken. Must not:
//! need a server.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;

use super::keys::jwks::{self, Origin};
use super::keys::parse::VerifyingKey;
use super::stored::read_key;
use super::verify_token::{Named, TokenKeys, TokenRules, verify};
use super::{ClientTokens, Subscriber, api_key, unseal};
use tideline_base::faults::Decoder;

pub(crate) const TARGETS: &[Decoder] = &[
    ("token_text", text),
    ("token_claims", claims),
    ("token_keys", keys),
    ("stored_key", stored),
];

const SECRET: &str = "0123456789abcdef0123456789abcdef";
const NOW_MS: u64 = 1_800_000_000_000;

static KEYS: LazyLock<TokenKeys> = LazyLock::new(|| {
    let key = VerifyingKey::secret(None, SECRET.as_bytes()).expect("a secret of 32 bytes");
    TokenKeys::new(&Arc::new(TokenRules::default()), vec![key])
});

/// Whatever somebody shows.
fn text(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    if let Ok(named) = Named::of(text) {
        assert!(verify(&[&KEYS], &named, text, NOW_MS).is_err());
    }
    let _ = api_key::parts(text);
    assert_eq!(unseal(text), None);
}

/// Claims behind a header that is right, with a signature that is right, too.
fn claims(input: &[u8]) {
    let parts = [br#"{"alg":"HS256"}"#, input].map(|part| URL_SAFE_NO_PAD.encode(part));
    let signed = parts.join(".");
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
    let signature = URL_SAFE_NO_PAD.encode(hmac::sign(&key, signed.as_bytes()));
    let token = format!("{signed}.{signature}");
    let Ok(named) = Named::of(&token) else {
        return;
    };
    if let Ok(token) = verify(&[&KEYS], &named, &token, NOW_MS) {
        assert!(token.expires_at > NOW_MS && token.identity.user().is_some());
    }
    let tokens = ClientTokens::new(Some(SECRET));
    if let Ok(connection) = tokens.connection(&token, None, NOW_MS) {
        assert!(connection.expires_at.is_none_or(|at| at > 0));
    }
    let subscriber = Subscriber {
        channel: "c",
        user: "ada",
        client: "1",
    };
    let _ = tokens.subscription(&token, subscriber, None, NOW_MS);
}

/// A key in PEM, or a set of keys.
fn keys(input: &[u8]) {
    let taken = HashSet::from(["taken"]);
    for origin in [Origin::File, Origin::Url] {
        if let Ok((keys, _)) = jwks::parse(input, origin, &taken) {
            assert!(keys.iter().all(|key| key.id.as_deref() != Some("taken")));
        }
    }
    if let Ok(text) = std::str::from_utf8(input) {
        let _ = VerifyingKey::pem(None, text);
    }
}

/// The columns of a key's row behind their length, then its value.
fn stored(input: &[u8]) {
    let Some((length, bytes)) = input.split_first() else {
        return;
    };
    let (columns, value) = bytes.split_at(bytes.len().min(usize::from(*length)));
    if let Ok(key) = read_key(columns, value) {
        assert!(key.secret.is_none());
    }
}
