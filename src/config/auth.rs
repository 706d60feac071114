//! `[auth]` in the configuration: whose tokens count.
//!
//! Owns: how the section is read, shown and checked. Promises: it names files of secrets and never holds one; without
//! it nobody is asked who they are. Must not: read a file.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use hyper::Uri;
use serde::{Deserialize, Serialize};
use toml::Value;

use super::key::{Key, in_range, section};
use super::{Config, ConfigError};
use crate::access::{GrantText, Grants, GrantsFrom};
use crate::credentials::{TokenRules, TokenSources};

/// `[auth]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuthKey {
    /// The only `iss` that counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// One of these must be in `aud`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub audience: Vec<String>,
    /// By how much clocks may differ.
    #[serde(default = "leeway_s")]
    pub leeway_s: u64,
    /// Files with a shared secret each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hs256_secret_files: Vec<PathBuf>,
    /// Files with a public key in PEM each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub public_key_files: Vec<PathBuf>,
    /// A file with a set of keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwks_file: Option<PathBuf>,
    /// Where a set of keys is fetched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwks_url: Option<String>,
    /// How often.
    #[serde(default = "jwks_refresh_s")]
    pub jwks_refresh_s: u64,
    /// What all users may do, beside what their tokens say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rights: Vec<GrantText>,
}

fn leeway_s() -> u64 {
    30
}

fn jwks_refresh_s() -> u64 {
    300
}

impl Key for Option<AuthKey> {
    fn read(value: &Value) -> Result<Option<AuthKey>, String> {
        match value {
            Value::Boolean(false) => Ok(None),
            Value::Table(_) => section(value).map(Some),
            _ => Err(format!("expected [auth] or false, found {value}")),
        }
    }
}

/// What no token or key could fulfil.
pub(super) fn check(auth: Option<&AuthKey>) -> Result<(), ConfigError> {
    let Some(auth) = auth else { return Ok(()) };
    let refuse = |why: String| Err(ConfigError(format!("auth.{why}")));
    for (key, number, min, max) in [
        ("leeway_s", auth.leeway_s, 0, 300),
        ("jwks_refresh_s", auth.jwks_refresh_s, 1, 86_400),
    ] {
        in_range(key, Some(number), min, max).or_else(refuse)?;
    }
    if auth.issuer.as_deref() == Some("") {
        return refuse("issuer is empty: leave it out".to_owned());
    }
    if let Some(Err(why)) = auth.jwks_url.as_deref().map(url) {
        return refuse(format!("jwks_url {why}"));
    }
    if let Err(error) = Grants::parse(&auth.rights, GrantsFrom::User) {
        return refuse(format!("rights{}: {error}", error.field()));
    }
    Ok(())
}

/// Keys that come over a network that others share must come over TLS, or others could send theirs.
fn url(text: &str) -> Result<Uri, &'static str> {
    let url: Uri = text.parse().map_err(|_| "is not a URL")?;
    let Some(authority) = url.authority() else {
        return Err("must begin with https://");
    };
    if authority.as_str().contains('@') {
        return Err("must not hold a user or password: it is shown");
    }
    let host = authority
        .host()
        .trim_start_matches('[')
        .trim_end_matches(']');
    let is_loopback =
        host == "localhost" || host.parse().is_ok_and(|host: IpAddr| host.is_loopback());
    match url.scheme_str() {
        Some("https") => Ok(url),
        Some("http") if is_loopback => Ok(url),
        _ => Err("must begin with https://, or with http:// to this machine"),
    }
}

impl Config {
    /// Where the keys come from that tokens are verified with; `None` without `[auth]`.
    #[must_use]
    pub fn token_sources(&self) -> Option<TokenSources> {
        let auth = self.auth.as_ref()?;
        Some(TokenSources {
            rules: TokenRules {
                issuer: auth.issuer.clone(),
                audience: auth.audience.clone(),
                leeway_s: auth.leeway_s,
            },
            secret_files: auth.hs256_secret_files.clone(),
            public_key_files: auth.public_key_files.clone(),
            jwks_file: auth.jwks_file.clone(),
            jwks_url: auth.jwks_url.as_deref().and_then(|text| url(text).ok()),
            jwks_refresh: Duration::from_secs(auth.jwks_refresh_s),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::read;
    use super::*;

    const WHOLE: &str = "[auth]\nissuer = \"me\"\naudience = [\"chat\"]\nhs256_secret_files = [\"a.key\"]\n\
        jwks_url = \"https://example.org/keys\"\nrights = [{ on = \"room/*\", allow = [\"read\"] }]\n";

    #[test]
    fn the_section_comes_back_as_it_was_written() {
        let config = read(WHOLE).unwrap();
        let auth = config.auth.as_ref().unwrap();
        assert_eq!((auth.leeway_s, auth.jwks_refresh_s), (30, 300));
        let shown: toml::Table = config.to_toml().parse().unwrap();
        let mut again = Config::default();
        again.set("auth", &shown["auth"]).unwrap();
        assert_eq!(again.auth, config.auth);
        let mut by_text = Config::default();
        by_text
            .set_text("auth", &shown["auth"].to_string())
            .unwrap();
        assert_eq!(by_text.auth, config.auth);
        assert!(read("[auth]\n").unwrap().token_sources().is_some());
        assert!(read("auth = false\n").unwrap().token_sources().is_none());
    }

    #[test]
    fn a_section_that_makes_no_sense_is_refused() {
        let from = "https://example.org/keys";
        for (from, to, why) in [
            ("issuer", "issuers", "unknown field `issuers`"),
            ("\"me\"", "\"\"", "issuer is empty"),
            ("[\"chat\"]", "[\"chat\"]\nleeway_s = 301", "from 0 to 300"),
            (
                "[\"chat\"]",
                "[\"chat\"]\njwks_refresh_s = 0",
                "from 1 to 86400",
            ),
            (from, "http://example.org/keys", "https://"),
            (from, "ftp://127.0.0.1/keys", "https://"),
            (from, "https://a:b@example.org/keys", "user or password"),
            (from, "keys", "https://"),
            ("\"read\"", "\"admin\"", "rights[0].allow[0]"),
            ("room/*", "room/*/x", "rights[0].on"),
            (
                "[auth]",
                "tablestore_credentials = [\"a:b\"]\n[auth]",
                "beside [auth]",
            ),
        ] {
            let refused = read(&WHOLE.replace(from, to)).unwrap_err();
            assert!(refused.contains(why), "{refused}");
            assert!(!refused.contains("a:b"), "{refused}");
        }
        for local in [
            "http://127.0.0.1:8/k",
            "http://[::1]/k",
            "http://localhost/k",
        ] {
            read(&WHOLE.replace(from, local)).unwrap();
        }
    }
}
